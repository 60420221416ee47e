// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(StateShapes, Variables) {
  Expect(Op("VariableV2").Attr("shape", PartialShape({2, -1})), "", "[2,?]");
  Expect(Op("VariableV2").Attr("shape", PartialShape(std::vector<int64_t>{})), "", "[]");
  Expect(Op("VariableV2").Attr("shape", PartialShape()), "", "?");
  Expect(Op("Variable").Attr("shape", PartialShape({2, 3})), "", "[2,3]");
  Expect(Op("Variable").Attr("shape", PartialShape(std::vector<int64_t>{})), "", "?");
  Expect(Op("IsVariableInitialized"), "[2]", "[]");
}

TEST(StateShapes, Assignments) {
  Expect(Op("Assign"), "[2,?];[?,3]", "[d0_0,d1_1]");
  Expect(Op("Assign"), "?;[2]", "in1");
  Expect(Op("Assign"), "[2];[3]", "e;Dimension 0 in both shapes must be equal, but are 2 and 3");
  Expect(Op("Assign").Attr("validate_shape", false), "[2];[3]", "in1");
  for (const char* op : {"AssignAdd", "AssignSub"}) {
    Expect(Op(op), "[2,?];[?,3]", "[d0_0,d1_1]");
    Expect(Op(op), "[2];[]", "e;Shapes must be equal rank, but are 1 and 0");
  }
}

TEST(StateShapes, Scatters) {
  for (const char* op : {"ScatterAdd", "ScatterSub", "ScatterUpdate"}) {
    Expect(Op(op), "[5,3];[2];[2,3]", "in0");
    Expect(Op(op), "[5,3];[];[3]", "in0");
    Expect(Op(op), "?;[2];?", "in0");
    Expect(Op(op), "[5,3];[2];[2,4]", "e;must be equal, but are 4 and 3");
    Expect(Op(op), "[5,3];[2];[]", "in0");
  }
}

TEST(StateShapes, ScattersOfSlicesCompareUpdates) {
  for (const char* op : {"ScatterNdAdd", "ScatterNdSub", "ScatterNdUpdate"}) {
    Expect(Op(op), "[5,3];[2,1];[2,3]", "in0");
    Expect(
        Op(op), "[5,2];[5,2];[3,1]",
        "e;The outer 1 dimensions of indices.shape=[5,2] must match the outer 1 dimensions of "
        "updates.shape=[3,1]: Dimension 0 in both shapes must be equal, but are 5 and 3. Shapes are [5] and "
        "[3].");
    Expect(Op(op), "[4,3,3,2];[3];[?,3,?,5]",
           "e;The inner 1 dimensions of input.shape=[4,3,3,2] must match the inner 4 dimensions of "
           "updates.shape=[?,3,?,5]: Shapes must be equal rank, but are 1 and 4");
    Expect(Op(op), "[0,3];[5,1];[5,3]", "e;Indices and updates specified for empty output shape");
  }
}

TEST(ResourceShapes, HandlesCarryShapeAndType) {
  ShapeTester handle = Op("VarHandleOp").Attr("shape", PartialShape({2, -1})).Attr("dtype", DataType::kInt32);
  EXPECT_EQ(handle.Infer(""), "[]");
  EXPECT_EQ(handle.HandleOf(0), "[2,?]:int32");
  Expect(Op("VarIsInitializedOp"), "[]", "[]");
  Expect(Op("DestroyResourceOp"), "[]", "");
  Expect(Op("VariableShape").Handle(0, "[2,?]", DataType::kFloat), "[]", "[2]");
  Expect(Op("VariableShape").Handle(0, "?", DataType::kFloat), "[]", "[?]");
  Expect(Op("VariableShape"), "[]", "[?]");
}

TEST(ResourceShapes, ReadsAndAssignments) {
  const auto with_handle = [](const char* op) { return Op(op).Handle(0, "[2,?]", DataType::kFloat); };
  Expect(with_handle("ReadVariableOp"), "[]", "[2,?]");
  Expect(Op("ReadVariableOp"), "[]", "?");
  Expect(with_handle("ReadVariableOp").Attr("dtype", DataType::kInt32), "[]",
         "e;Trying to read variable with wrong dtype. Expected float got int32");
  for (const char* op : {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"}) {
    Expect(with_handle(op), "[];[2,3]", "");
    Expect(Op(op), "[];[2,3]", "");
    Expect(with_handle(op), "[];[3,3]", "e;Dimension 0 in both shapes must be equal, but are 2 and 3");
    Expect(with_handle(op).Attr("dtype", DataType::kInt32), "[];[2,3]",
           "e;wrong dtype. Expected float got int32");
  }
}

TEST(ResourceShapes, GathersAndScatters) {
  const auto gather = [] { return Op("ResourceGather").Handle(0, "[5,3,7]", DataType::kFloat); };
  Expect(gather(), "[];[2,4]", "[d1_0,d1_1,3,7]");
  Expect(gather(), "[];?", "?");
  Expect(Op("ResourceGather"), "[];[2]", "?");
  Expect(gather().Attr("batch_dims", 1), "[];[5,2]", "[d1_0,d1_1,7]");
  Expect(gather().Attr("batch_dims", 1), "[];[4,2]", "e;Dimensions must be equal, but are 4 and 5");
  Expect(gather().Attr("batch_dims", 3), "[];[4,2]", "e;batch_dims");
  Expect(Op("ResourceGather").Handle(0, "[]", DataType::kFloat), "[];[2]", "e;at least rank 1");
  const auto scatter = [] { return Op("ResourceScatterAdd").Handle(0, "[5,3]", DataType::kFloat); };
  Expect(scatter(), "[];[2];[2,3]", "");
  Expect(scatter(), "[];[2];[2,4]", "e;must be equal, but are 4 and 3");
  Expect(Op("ResourceScatterAdd"), "[];[2];[2,4]", "");
}

TEST(ResourceShapes, GatherNd) {
  const auto gather = [] { return Op("ResourceGatherNd").Handle(0, "[5,3,7]", DataType::kFloat); };
  Expect(gather(), "[];[4,2]", "[d1_0,7]");
  Expect(gather(), "[];[4,?]", "?");
  Expect(gather(), "[];[4,4]", "e;indices.shape[-1] must be <= params.rank");
  Expect(Op("ResourceGatherNd"), "[];[4,2]", "?");
}

}  // namespace
}  // namespace millrace
