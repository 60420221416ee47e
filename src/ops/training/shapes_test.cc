// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(TrainingShapes, RowsOfOptimizers) {
  Expect(Op("SparseApplyAdagrad"), "[5,?];[?,3];[];[2,3];[2]", "[d0_0,d1_1]");
  Expect(Op("SparseApplyAdagrad"), "[5,3];[5,3];[];[2,3];[4]", "e;must be equal, but are 4 and 2");
  Expect(Op("SparseApplyAdagrad"), "[5,3];[5,3];[];[2,4];[2]", "e;must be equal, but are 3 and 4");
  Expect(Op("SparseApplyAdagrad"), "[5,3];[5,3];[];[2,3];[2,1]", "e;Shape must be rank 1 but is rank 2");
  Expect(Op("ApplyAdagradDA"), "[5];[5];[5];[5];[];[];[];[1]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("ResourceApplyAdaMax").Handle(0, "[2]", DataType::kFloat), "[];[];[];[];[];[];[];[];[3]",
         "e;must be equal, but are 2 and 3");
}

TEST(TrainingShapes, OnReferences) {
  Expect(Op("ApplyGradientDescent"), "[2,?];[];[?,3]", "[d0_0,d2_1]");
  Expect(Op("ApplyGradientDescent"), "[2];[1];[2]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("ApplyGradientDescent"), "[2];[];[3]", "e;must be equal, but are 2 and 3");
  Expect(Op("ApplyMomentum"), "[2,?];[?,3];[];?;[]", "[d0_0,d1_1]");
  Expect(Op("ApplyMomentum"), "[2];[2];[];[2];[1]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("ApplyMomentum"), "[2];[3];[];[2];[]", "e;must be equal, but are 2 and 3");
  Expect(Op("ApplyAdam"), "[2,?];?;?;[];[];[];[];[];[];[?,3]", "[d0_0,d9_1]");
  Expect(Op("ApplyAdam"), "[2];[2];[2];[];[];[];[];[];[2];[2]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("ApplyAdam"), "[2];[2];[3];[];[];[];[];[];[];[2]", "e;must be equal, but are 2 and 3");
}

TEST(TrainingShapes, OnResources) {
  const auto on = [](const char* op) { return Op(op).Handle(0, "[2]", DataType::kFloat); };
  Expect(on("ResourceApplyGradientDescent"), "[];[];[2]", "");
  Expect(on("ResourceApplyGradientDescent"), "[];[];[3]", "e;must be equal, but are 2 and 3");
  Expect(Op("ResourceApplyGradientDescent"), "[];[];[3]", "");
  Expect(on("ResourceApplyMomentum").Handle(1, "[3]", DataType::kFloat), "[];[];[];[2];[]",
         "e;must be equal");
  Expect(on("ResourceApplyMomentum"), "[];[];[];[2];[]", "");
  Expect(on("ResourceApplyAdam"), "[];[];[];[];[];[];[];[];[];[2]", "");
  Expect(on("ResourceApplyAdam"), "[];[];[];[];[];[];[];[];[];[2,1]",
         "e;Shapes must be equal rank, but are 1 and 2");
}

}  // namespace
}  // namespace millrace
