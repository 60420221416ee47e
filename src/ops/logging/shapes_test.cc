// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(LoggingShapes, AssertAndPrint) {
  Expect(Op("Assert"), "[];[2];?", "");
  Expect(Op("Print"), "[2,?];?;[]", "in0");
}

}  // namespace
}  // namespace millrace
