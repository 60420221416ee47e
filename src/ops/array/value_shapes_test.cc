// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shapes of the ops in values.cc, of the families candidate and math (special functions), and of the training
// and random ops that follow.
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(ValueShapes, RowsOfOptimizers) {
  Expect(Op("SparseApplyAdagrad"), "[5,?];[?,3];[];[2,3];[2]", "[d0_0,d1_1]");
  Expect(Op("SparseApplyAdagrad"), "[5,3];[5,3];[];[2,3];[4]", "e;must be equal, but are 4 and 2");
  Expect(Op("SparseApplyAdagrad"), "[5,3];[5,3];[];[2,4];[2]", "e;must be equal, but are 3 and 4");
  Expect(Op("SparseApplyAdagrad"), "[5,3];[5,3];[];[2,3];[2,1]", "e;Shape must be rank 1 but is rank 2");
  Expect(Op("ApplyAdagradDA"), "[5];[5];[5];[5];[];[];[];[1]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("ResourceApplyAdaMax").Handle(0, "[2]", DataType::kFloat), "[];[];[];[];[];[];[];[];[3]",
         "e;must be equal, but are 2 and 3");
}

TEST(ValueShapes, RandomOps) {
  Expect(Op("RandomShuffle"), "[2,?]", "in0");
  Expect(Op("Multinomial"), "[2,3];[]", "[d0_0,?]");
  Expect(Op("Multinomial").ConstScalar(1, 7), "[2,3];[]", "[d0_0,7]");
  Expect(Op("Multinomial"), "[2];[]", "e;Shape must be rank 2 but is rank 1");
  Expect(Op("RandomGamma"), "[2];[3,4]", "[?,?,d1_0,d1_1]");
  Expect(Op("StatelessRandomUniform"), "[2];[2]", "[?,?]");
  Expect(Op("StatelessRandomUniform"), "[2];[3]", "e;Dimension must be 2 but is 3");
  Expect(Op("StatefulUniform"), "[];[];[2]", "[?,?]");
  Expect(Op("StatefulUniform"), "[];[1];[2]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("UniformCandidateSampler")
             .Attr("num_true", 2)
             .Attr("num_sampled", 5)
             .Attr("unique", true)
             .Attr("range_max", 9),
         "[3,2]", "[5];[d0_0,2];[5]");
  Expect(Op("ComputeAccidentalHits").Attr("num_true", 2), "[3,2];[5]", "[?];[?];[?]");
  Expect(Op("ComputeAccidentalHits").Attr("num_true", 2), "[3,1];[5]", "e;Dimension must be 2 but is 1");
}

TEST(ValueShapes, SpecialMath) {
  Expect(Op("Igamma"), "[2,1];[3]", "[d0_0,d1_0]");
  Expect(Op("Betainc"), "[];[2,?];[?,3]", "[d1_0,d2_1]");
  Expect(Op("Betainc"), "[];[];[]", "[]");
  Expect(Op("Betainc"), "[2];[3];[]", "e;must be equal, but are 2 and 3");
  Expect(Op("ClipByValue"), "[2,?];[];[]", "in0");
  Expect(Op("SelectV2"), "[3];[2,1];[]", "[d1_0,d0_0]");
  Expect(Op("SelectV2"), "[3];[2];[]", "e;Dimensions must be equal");
}

TEST(ValueShapes, ArrayValues) {
  Expect(Op("ReverseSequence").Attr("seq_dim", 1), "[?,3];[2]", "[d1_0,d0_1]");
  Expect(Op("ReverseSequence").Attr("seq_dim", 2), "[2,3];[2]", "e;seq_dim must be < input rank: 2 vs. 2");
  Expect(Op("Roll"), "[2,3];[2];[2]", "in0");
  Expect(Op("Roll"), "[];[];[]", "e;Shape must be at least rank 1 but is rank 0");
  Expect(Op("UnravelIndex"), "[5];[3]", "[d1_0,d0_0]");
  Expect(Op("UnravelIndex"), "[];[3]", "[d1_0]");
  Expect(Op("TensorScatterAdd"), "[5,?];[2,1];[2,3]", "in0");
  Expect(Op("HistogramFixedWidth").ConstScalar(2, 4), "[?];[2];[]", "[4]");
  Expect(Op("HistogramFixedWidth"), "[?];[3];[]", "e;Dimension must be 2 but is 3");
  const auto parallel = Op("ParallelConcat").Attr("N", 2).Attr("shape", PartialShape({2, 3}));
  Expect(parallel, "[1,3];[?,3]", "[2,3]");
  Expect(parallel, "[2,3];[1,3]", "e;Size of first dimension must be 1.");
  Expect(parallel, "[1,4];[1,3]", "e;must be equal, but are 4 and 3");
  Expect(Op("NthElement"), "[2,3,4];[]", "[d0_0,d0_1]");
  Expect(Op("LowerBound"), "[2,9];[2,3]", "in1");
  Expect(Op("LowerBound"), "[2,9];[3,3]", "e;must be equal, but are 2 and 3");
  Expect(Op("Fingerprint"), "[?,3];[]", "[d0_0,8]");
  Expect(Op("Timestamp"), "", "[]");
  Expect(Op("AccumulateNV2").Attr("N", 2).Attr("shape", PartialShape({-1, 3})), "[2,?];[2,?]", "[d0_0,3]");
}

}  // namespace
}  // namespace millrace
