// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(CandidateShapes, SamplersAndHits) {
  Expect(Op("UniformCandidateSampler")
             .Attr("num_true", 2)
             .Attr("num_sampled", 5)
             .Attr("unique", true)
             .Attr("range_max", 9),
         "[3,2]", "[5];[d0_0,2];[5]");
  Expect(Op("ComputeAccidentalHits").Attr("num_true", 2), "[3,2];[5]", "[?];[?];[?]");
  Expect(Op("ComputeAccidentalHits").Attr("num_true", 2), "[3,1];[5]", "e;Dimension must be 2 but is 1");
}

}  // namespace
}  // namespace millrace
