// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/checkpoint/bundle.h"
#include "tensor/testing.h"
#include "tests/graph_tools/tools_testing.h"
#include "training/graph_tools/graph_tools.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Key;
using ::testing::Not;

const std::vector<std::string> kInit = {"init"};

// y = x * w + v, where w is a reference variable and v a resource variable.
DefBuilder BothKinds() {
  DefBuilder b;
  b.Placeholder("x");
  b.Node("w", "VariableV2", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape({2})}});
  b.Const("w/init", Tensor::Vector<float>({2, 3}));
  b.Float("w/Assign", "Assign", {"w", "w/init"});
  b.Node("w/read", "Identity", {"w"},
         {{"T", DataType::kFloat}, {"_class", std::vector<std::string>{"loc:@w"}}});
  b.Node("v", "VarHandleOp", {},
         {{"dtype", DataType::kFloat}, {"shape", PartialShape({2})}, {"shared_name", "v"}});
  b.Const("v/init", Tensor::Vector<float>({10, 20}));
  b.Node("v/Assign", "AssignVariableOp", {"v", "v/init"}, {{"dtype", DataType::kFloat}});
  b.Node("v/Read/ReadVariableOp", "ReadVariableOp", {"v"}, {{"dtype", DataType::kFloat}});
  b.Float("xw", "Mul", {"x", "w/read"});
  b.Node("alias", "Identity", {"v"}, {{"T", DataType::kResource}});
  b.Node("read", "ReadVariableOp", {"alias", "^xw"}, {{"dtype", DataType::kFloat}});
  b.Float("y", "Add", {"xw", "read"});
  b.Add("init", "NoOp", {"^w/Assign", "^v/Assign"});
  return b;
}

TEST(FreezeGraphTest, VariablesOfBothKindsBecomeConstants) {
  const DefBuilder b = BothKinds();
  const auto session = SessionWith(b);
  ASSERT_EQ(session->Run({}, {}, kInit, nullptr), Status());
  tensorflow::GraphDef graph = b.def();
  for (auto& node : *graph.mutable_node()) node.set_device("/cpu:0");
  ASSERT_EQ(FreezeGraph({.outputs = {"y"}, .clear_devices = true}, *session, &graph), Status());
  EXPECT_THAT(NamesOf(graph), ElementsAre("x", "w", "w/read", "v", "xw", "alias", "read", "y"));
  EXPECT_THAT(OpsOf(graph), Not(Contains(Key("ReadVariableOp"))));
  EXPECT_EQ(FindNode(graph, "w")->op(), "Const");
  EXPECT_EQ(FindNode(graph, "v")->op(), "Const");
  EXPECT_EQ(FindNode(graph, "y")->device(), "");
  EXPECT_THAT(FindNode(graph, "read")->input(), ElementsAre("alias", "^xw"));
  const Tensor got = RunGraph(graph, {{"x", Tensor::Vector<float>({1, 2})}}, {"y"})[0];
  ExpectTensorEqual(AsTensor<float>({12, 26}), got);
}

TEST(FreezeGraphTest, ListsSayWhichVariables) {
  const DefBuilder b = BothKinds();
  const auto session = SessionWith(b);
  ASSERT_EQ(session->Run({}, {}, kInit, nullptr), Status());
  EXPECT_THAT(*FrozenVariables({.outputs = {"y"}}, b.def()), ElementsAre("w", "v"));
  EXPECT_THAT(*FrozenVariables({.outputs = {"xw"}}, b.def()), ElementsAre("w"));
  tensorflow::GraphDef only = b.def();
  ASSERT_EQ(FreezeGraph({.outputs = {"y"}, .only_variables = {"w"}}, *session, &only), Status());
  EXPECT_EQ(FindNode(only, "w")->op(), "Const");
  EXPECT_EQ(FindNode(only, "v")->op(), "VarHandleOp");
  EXPECT_EQ(FindNode(only, "read")->op(), "ReadVariableOp");
  tensorflow::GraphDef keep = b.def();
  ASSERT_EQ(FreezeGraph({.outputs = {"y"}, .keep_variables = {"w"}}, *session, &keep), Status());
  EXPECT_EQ(FindNode(keep, "w")->op(), "VariableV2");
  EXPECT_EQ(FindNode(keep, "read")->op(), "Identity");
}

TEST(FreezeGraphTest, InitializersRunFirstAndTheirAbsenceIsAnError) {
  const DefBuilder b = BothKinds();
  const auto session = SessionWith(b);
  tensorflow::GraphDef graph = b.def();
  const Status early = FreezeGraph({.outputs = {"y"}}, *session, &graph);
  EXPECT_TRUE(errors::IsFailedPrecondition(early)) << early;
  graph = b.def();
  ASSERT_EQ(FreezeGraph({.outputs = {"y"}, .initializers = kInit}, *session, &graph), Status());
  graph = b.def();
  EXPECT_THAT(FreezeGraph({.outputs = {"no"}}, *session, &graph).message(), HasSubstr("no is not in graph"));
  EXPECT_TRUE(errors::IsInvalidArgument(FreezeGraph({}, *session, &graph)));
}

TEST(FreezeGraphTest, WhatNeedsAVariableItselfIsNamed) {
  const DefBuilder b = BothKinds();
  const auto session = SessionWith(b);
  for (const std::string output : {"w/Assign", "v/Assign"}) {
    tensorflow::GraphDef graph = b.def();
    const Status status = FreezeGraph({.outputs = {output}, .initializers = kInit}, *session, &graph);
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("node '" + output + "' (op Assign"));
  }
}

TEST(FreezeGraphTest, GathersShapesAndChecksOfHandlesNeedNoVariable) {
  DefBuilder b;
  b.Node("v", "VarHandleOp", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape({3, 2})}});
  b.Const("start", AsTensor<float>({1, 2, 3, 4, 5, 6}, {3, 2}));
  b.Node("init", "AssignVariableOp", {"v", "start"}, {{"dtype", DataType::kFloat}});
  b.Const("indices", Tensor::Vector<int32_t>({2, 0}));
  b.Node("rows", "ResourceGather", {"v", "indices", "^start"},
         {{"dtype", DataType::kFloat}, {"Tindices", DataType::kInt32}});
  b.Node("shape", "VariableShape", {"v"}, {});
  b.Node("there", "VarIsInitializedOp", {"v"}, {});
  const auto session = SessionWith(b);
  ASSERT_EQ(session->Run({}, {}, kInit, nullptr), Status());
  tensorflow::GraphDef graph = b.def();
  ASSERT_EQ(FreezeGraph({.outputs = {"rows", "shape", "there"}}, *session, &graph), Status());
  EXPECT_THAT(OpsOf(graph), Not(Contains(Key("VarHandleOp"))));
  const auto got = RunGraph(graph, {}, {"rows", "shape", "there"});
  ExpectTensorEqual(AsTensor<float>({5, 6, 1, 2}, {2, 2}), got[0]);
  ExpectTensorEqual(AsTensor<int32_t>({3, 2}), got[1]);
  ExpectTensorEqual(AsScalar(true), got[2]);
  // The session's graph has no read of v: one is added, once for each call.
  graph = b.def();
  EXPECT_EQ(FreezeGraph({.outputs = {"rows"}}, *session, &graph), Status());
}

TEST(FreezeGraphTest, BranchesOnVariablesLoseTheReference) {
  DefBuilder b;
  b.Node("p", "Placeholder", {}, {{"dtype", DataType::kBool}});
  b.Variable("w", 5);
  b.Float("switch", "RefSwitch", {"w", "p"});
  b.Float("no", "Neg", {"switch:0"});
  b.Float("yes", "Identity", {"switch:1"});
  b.Node("y", "Merge", {"no", "yes"}, {{"T", DataType::kFloat}, {"N", 2}});
  b.Node("v", "VarHandleOp", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape({})}});
  b.Const("start", Tensor::Scalar(7.0f));
  b.Node("v/Assign", "AssignVariableOp", {"v", "start"}, {{"dtype", DataType::kFloat}});
  b.Node("v/switch", "Switch", {"v", "p"}, {{"T", DataType::kResource}});
  b.Node("v/no", "ReadVariableOp", {"v/switch:0"}, {{"dtype", DataType::kFloat}});
  b.Node("v/yes", "ReadVariableOp", {"v/switch:1"}, {{"dtype", DataType::kFloat}});
  b.Float("v/neg", "Neg", {"v/no"});
  b.Node("z", "Merge", {"v/neg", "v/yes"}, {{"T", DataType::kFloat}, {"N", 2}});
  const auto session = SessionWith(b);
  ASSERT_EQ(session->Run({}, {}, {"w/Assign", "v/Assign"}, nullptr), Status());
  tensorflow::GraphDef graph = b.def();
  // The reads are in branches: a separate node reads the value.
  ASSERT_EQ(FreezeGraph({.outputs = {"y", "z"}}, *session, &graph), Status());
  EXPECT_EQ(FindNode(graph, "switch")->op(), "Switch");
  for (const bool p : {false, true}) {
    const auto got = RunGraph(graph, {{"p", Tensor::Scalar(p)}}, {"y", "z"});
    EXPECT_EQ(got[0].scalar<float>(), p ? 5 : -5);
    EXPECT_EQ(got[1].scalar<float>(), p ? 7 : -7);
  }
}

TEST(FreezeGraphTest, ACheckpointGivesValuesAndPartsOfThem) {
  MemEnv env;
  {
    const auto writer = io::BundleWriter::Open(env, "/ckpt");
    ASSERT_EQ((*writer)->Add("w", Tensor::Vector<float>({2, 3})), Status());
    ASSERT_EQ((*writer)->Add("v", Tensor::Vector<float>({10, 20})), Status());
    const Tensor whole = AsTensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
    for (const auto& [start, length] : {std::pair{0, 1}, {1, 2}}) {
      Tensor part(DataType::kFloat, {2, length});
      for (int i = 0; i < 2 * length; ++i) {
        part.data<float>()[i] = whole.data<float>()[i / length * 3 + start + i % length];
      }
      const auto slice = TensorSlice::Parse(StrCat("-:", start, ",", length));
      ASSERT_TRUE(slice.ok()) << slice.status();
      ASSERT_EQ((*writer)->AddSlice("p", {2, 3}, *slice, part), Status());
    }
    ASSERT_EQ((*writer)->Finish(), Status());
  }
  DefBuilder b = BothKinds();
  for (const int part : {0, 1}) {
    b.Node(StrCat("p/part_", part), "VariableV2", {},
           {{"dtype", DataType::kFloat}, {"shape", PartialShape({2, part + 1})}});
  }
  b.Const("axis", Tensor::Scalar<int32_t>(1));
  b.Node("p", "ConcatV2", {"p/part_0", "p/part_1", "axis"},
         {{"T", DataType::kFloat}, {"N", 2}, {"Tidx", DataType::kInt32}});
  tensorflow::GraphDef graph = b.def();
  ASSERT_EQ(FreezeGraph({.outputs = {"y", "p"}}, env, "/ckpt", &graph), Status());
  const auto got = RunGraph(graph, {{"x", Tensor::Vector<float>({1, 2})}}, {"y", "p"});
  ExpectTensorEqual(AsTensor<float>({12, 26}), got[0]);
  ExpectTensorEqual(AsTensor<float>({1, 2, 3, 4, 5, 6}, {2, 3}), got[1]);

  b.Node("q", "VariableV2", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape({2})}});
  b.Node("p/part_2", "VariableV2", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape({2, 1})}});
  for (const std::string missing : {"q", "p/part_2"}) {
    graph = b.def();
    const Status status = FreezeGraph({.outputs = {"p", missing}}, env, "/ckpt", &graph);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr(missing));
  }
}

}  // namespace
}  // namespace millrace
