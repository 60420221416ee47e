// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(RandomShapes, SamplesOfAShape) {
  Expect(Op("RandomShuffle"), "[2,?]", "in0");
  Expect(Op("Multinomial"), "[2,3];[]", "[d0_0,?]");
  Expect(Op("Multinomial").ConstScalar(1, 7), "[2,3];[]", "[d0_0,7]");
  Expect(Op("Multinomial"), "[2];[]", "e;Shape must be rank 2 but is rank 1");
  Expect(Op("RandomGamma"), "[2];[3,4]", "[?,?,d1_0,d1_1]");
  Expect(Op("StatelessRandomUniform"), "[2];[2]", "[?,?]");
  Expect(Op("StatelessRandomUniform"), "[2];[3]", "e;Dimension must be 2 but is 3");
  Expect(Op("StatefulUniform"), "[];[];[2]", "[?,?]");
  Expect(Op("StatefulUniform"), "[];[1];[2]", "e;Shape must be rank 0 but is rank 1");
}

TEST(RandomShapes, FollowTheShapeInput) {
  for (const char* op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal"}) {
    Expect(Op(op), "?", "?");
    Expect(Op(op), "[2]", "[?,?]");
    Expect(Op(op).Const(0, {2, 3}), "[2]", "[2,3]");
    Expect(Op(op).AsShape(0, "[?,3]"), "[2]", "[?,3]");
    Expect(Op(op), "[]", "e;Shape must be rank 1 but is rank 0");
  }
  Expect(Op("RandomUniformInt").Const(0, {2, 3}), "[2];[];[]", "[2,3]");
  Expect(Op("RandomUniformInt"), "[2];[1];[]", "e;minval must be a scalar; got a tensor of shape [1]");
}

}  // namespace
}  // namespace millrace
