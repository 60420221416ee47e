// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph_tools/tools_testing.h"
#include "training/graph_tools/graph_tools.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ExtractSubGraphTest, KeepsWhatIsNeededInOrder) {
  DefBuilder b;
  b.Placeholder("x");
  b.Float("unused", "Neg", {"x"});
  b.Add("gate", "NoOp", {});
  b.Float("y", "Neg", {"x", "^gate"});
  b.Float("z", "Neg", {"y:0"});
  tensorflow::GraphDef graph = b.def();
  graph.mutable_versions()->set_producer(27);
  graph.mutable_library()->add_function()->mutable_signature()->set_name("f");
  ASSERT_EQ(ExtractSubGraph({"y:0"}, &graph), Status());
  EXPECT_THAT(NamesOf(graph), ElementsAre("x", "gate", "y"));
  EXPECT_EQ(graph.versions().producer(), 27);
  EXPECT_EQ(graph.library().function_size(), 1);
}

TEST(ExtractSubGraphTest, UnknownNamesAndNamesThatComeTwiceAreErrors) {
  DefBuilder b;
  b.Placeholder("x");
  tensorflow::GraphDef graph = b.def();
  EXPECT_EQ(ExtractSubGraph({"nope"}, &graph), errors::InvalidArgument("nope is not in graph"));
  *graph.add_node() = graph.node(0);
  EXPECT_THAT(ExtractSubGraph({"x"}, &graph).message(), HasSubstr("'x' is not unique"));
}

TEST(ExtractSubGraphTest, LoopsAndDanglingInputsEnd) {
  DefBuilder b;
  b.Float("a", "Neg", {"b"});
  b.Float("b", "Neg", {"a"});
  b.Float("c", "Neg", {"missing"});
  tensorflow::GraphDef graph = b.def();
  ASSERT_EQ(ExtractSubGraph({"a", "c"}, &graph), Status());
  EXPECT_EQ(graph.node_size(), 3);
}

TEST(StripUnusedTest, InputsBecomePlaceholdersOfTheirTypes) {
  DefBuilder b;
  b.Const("file", Tensor::Scalar("name"));
  b.Node("bytes", "ReadFile", {"file"}, {});
  b.Node("x", "DecodeRaw", {"bytes"}, {{"out_type", DataType::kFloat}});
  b.Float("y", "Neg", {"x"});
  b.Float("loss", "Neg", {"y"});
  tensorflow::GraphDef graph = b.def();
  ASSERT_EQ(StripUnused({.inputs = {"x"}, .outputs = {"y"}, .input_types = {DataType::kFloat}}, &graph),
            Status());
  EXPECT_THAT(NamesOf(graph), ElementsAre("x", "y"));
  EXPECT_EQ(graph.node(0).op(), "Placeholder");
  const Tensor got = RunGraph(graph, {{"x", Tensor::Vector<float>({1, 2})}}, {"y"})[0];
  EXPECT_EQ(got.data<float>()[1], -2);
}

TEST(StripUnusedTest, TypesAreThoseOfTheNodesWhereNoneAreGiven) {
  DefBuilder b;
  b.Node("shaped", "Placeholder", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape({2, -1})}});
  b.Node("half", "Cast", {"shaped"}, {{"SrcT", DataType::kFloat}, {"DstT", DataType::kInt32}});
  b.Node("y", "Neg", {"half"}, {{"T", DataType::kInt32}});
  b.Add("odd", "OpThatNobodyKnows", {});
  tensorflow::GraphDef graph = b.def();
  tensorflow::GraphDef unknown = graph;
  ASSERT_EQ(StripUnused({.inputs = {"half:0", "shaped"}, .outputs = {"y"}}, &graph), Status());
  EXPECT_EQ(FindNode(graph, "half")->attr().at("dtype").type(), tensorflow::DT_INT32);
  EXPECT_THAT(StripUnused({.inputs = {"odd"}, .outputs = {"y"}}, &unknown).message(),
              HasSubstr("The type of input 'odd' must be given"));
  EXPECT_FALSE(
      StripUnused({.inputs = {"half"}, .outputs = {"y"}, .input_types = {DataType::kInt32, DataType::kInt8}},
                  &unknown)
          .ok());
  unknown = b.def();
  ASSERT_EQ(StripUnused({.inputs = {"shaped"}, .outputs = {"y"}}, &unknown), Status());
  EXPECT_EQ(FindNode(unknown, "shaped")->attr().at("shape").shape().dim_size(), 2);
}

TEST(RemoveTrainingNodesTest, IdentitiesAndChecksGoUnlessSomethingWaits) {
  DefBuilder b;
  b.Placeholder("x");
  b.Float("check", "CheckNumerics", {"x"});
  b.Float("a", "Identity", {"check"});
  b.Float("b", "Identity", {"a"});
  b.Float("waits", "Identity", {"b", "^x"});
  b.Float("waited", "Identity", {"waits"});
  b.Float("y", "Neg", {"waited", "^waited", "^check"});
  b.Float("out", "Identity", {"y"});
  tensorflow::GraphDef graph = b.def();
  ASSERT_EQ(RemoveTrainingNodes({"out"}, &graph), Status());
  EXPECT_THAT(NamesOf(graph), ElementsAre("x", "waits", "waited", "y", "out"));
  EXPECT_THAT(FindNode(graph, "waits")->input(), ElementsAre("x", "^x"));
  EXPECT_THAT(FindNode(graph, "y")->input(), ElementsAre("waited", "^waited"));
  const Tensor x = RandomFloats({3});
  EXPECT_EQ(RunGraph(graph, {{"x", x}}, {"out"})[0].data<float>()[2], -x.data<float>()[2]);
}

TEST(RemoveTrainingNodesTest, ACircleOfIdentitiesEnds) {
  DefBuilder b;
  b.Float("a", "Identity", {"b"});
  b.Float("b", "Identity", {"a"});
  b.Float("y", "Neg", {"a"});
  tensorflow::GraphDef graph = b.def();
  ASSERT_EQ(RemoveTrainingNodes({}, &graph), Status());
  EXPECT_THAT(NamesOf(graph), ElementsAre("y"));
}

TEST(RemoveNodesTest, OnlyOpsNamedThatNothingWaitsFor) {
  DefBuilder b;
  b.Placeholder("x");
  b.Float("s", "StopGradient", {"x"});
  b.Float("i", "Identity", {"s"});
  b.Float("gate", "StopGradient", {"i"});
  b.Float("y", "Neg", {"i", "^gate"});
  tensorflow::GraphDef graph = b.def();
  ASSERT_EQ(RemoveNodes({"StopGradient"}, {"y"}, &graph), Status());
  EXPECT_THAT(NamesOf(graph), ElementsAre("x", "i", "gate", "y"));
  EXPECT_THAT(FindNode(graph, "i")->input(), ElementsAre("x"));
}

}  // namespace
}  // namespace millrace
