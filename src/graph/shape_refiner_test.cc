// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/shape_refiner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/constant_value.h"
#include "graph/testing.h"

namespace millrace {
namespace {

using testing::HasSubstr;

class ShapeRefinerTest : public testing::Test {
 protected:
  const Node& Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs = {},
                  AttrMap attrs = {}) {
    const Node* node = AddTestNode(&graph_, name, op, inputs, std::move(attrs));
    const Status status = refiner_.AddNode(*node);
    EXPECT_TRUE(status.ok()) << status;
    return *node;
  }
  const Node& Float(std::string_view name, const PartialShape& shape) {
    return Add(name, "Placeholder", {}, {{"dtype", DataType::kFloat}, {"shape", shape}});
  }
  const Node& Ints(std::string_view name, const std::vector<int32_t>& values) {
    return Add(name, "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Vector<int32_t>(values)}});
  }
  const Node& Int(std::string_view name, int32_t value) {
    return Add(name, "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Scalar<int32_t>(value)}});
  }
  std::string Shape(const Node& node, int output = 0) {
    return refiner_.OutputShape(node, output).ToString();
  }
  // input[begin:end:stride] of the node `input`.
  const Node& Strided(std::string_view name, const std::string& input, int begin, int end, int stride,
                      AttrMap attrs = {}) {
    const std::string prefix(name);
    Ints(prefix + "_b", {begin});
    Ints(prefix + "_e", {end});
    Ints(prefix + "_s", {stride});
    return Add(name, "StridedSlice", {input, prefix + "_b", prefix + "_e", prefix + "_s"}, std::move(attrs));
  }
  std::string AsShape(const Node& node) {
    const auto shape = ConstantValueAsShape(node, 0, &refiner_);
    return shape ? shape->ToString() : "none";
  }

  Graph graph_{TestOps()};
  ShapeRefiner refiner_{graph_};
};

TEST_F(ShapeRefinerTest, ShapesFlowThroughOps) {
  Float("a", {2, 3});
  Float("b", {3, -1});
  EXPECT_EQ(Shape(Add("m", "MatMul", {"a", "b"}, {{"T", DataType::kFloat}})), "[2,?]");
  EXPECT_EQ(Shape(Add("i", "Identity", {"m"}, {{"T", DataType::kFloat}})), "[2,?]");
  EXPECT_EQ(Shape(Add("j", "Identity", {"b"}, {{"T", DataType::kFloat}})), "[3,?]")
      << "not the one inferred before";
}

TEST_F(ShapeRefinerTest, NodesThatWereNotAddedHaveUnknownShapes) {
  const Node* node =
      AddTestNode(&graph_, "p", "Placeholder", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape{2}}});
  EXPECT_TRUE(refiner_.OutputShape(*node, 0).unknown_rank());
  EXPECT_TRUE(refiner_.OutputShape(*node, 7).unknown_rank());
  EXPECT_TRUE(errors::IsInternal(refiner_.MergeOutput(*node, 0, PartialShape{2})));
}

TEST_F(ShapeRefinerTest, ErrorsTellNodeOpShapesAndValues) {
  Float("a", {2, 3});
  Float("b", {4, 5});
  const Node* m = AddTestNode(&graph_, "m", "MatMul", {"a", "b"}, {{"T", DataType::kFloat}});
  const Status status = refiner_.AddNode(*m);
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr(" for 'm' (op: 'MatMul') with input shapes: [2,3], [4,5]."));
  Ints("dims", {2, -7});
  Float("x", PartialShape());
  const Node* r = AddTestNode(&graph_, "r", "Reshape", {"x", "dims"});
  // No shape function is called here, so that TensorFlow's message names no node.
  EXPECT_EQ(refiner_.AddNode(*r).message(), "Invalid value in tensor used for shape: -7");
}

TEST_F(ShapeRefinerTest, MergeKeepsKnownDimensionsAndRefusesConflicts) {
  const Node& a = Float("a", {-1, 3});
  EXPECT_TRUE(refiner_.MergeOutput(a, 0, {2, -1}).ok());
  EXPECT_EQ(Shape(a), "[2,3]");
  EXPECT_FALSE(refiner_.MergeOutput(a, 0, {2, 4}).ok());
  EXPECT_FALSE(refiner_.MergeOutput(a, 1, PartialShape{2, 3}).ok());
  EXPECT_EQ(Shape(a), "[2,3]");
}

TEST_F(ShapeRefinerTest, ConstantsAreSeenThroughIdentity) {
  Ints("dims", {2, 5});
  Add("i", "Identity", {"dims"}, {{"T", DataType::kInt32}});
  Add("one", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(1.f)}});
  EXPECT_EQ(Shape(Add("f", "Fill", {"i", "one"})), "[2,5]");
}

TEST_F(ShapeRefinerTest, PartlyKnownShapesFlowThroughPackSliceAndConcat) {
  Float("x", {-1, 4, 6});
  Float("y", PartialShape());
  Add("shape", "Shape", {"x"});
  EXPECT_EQ(AsShape(*graph_.FindNode("shape")), "[?,4,6]");
  Strided("first", "shape", 0, 1, 1, {{"shrink_axis_mask", 1}});
  Strided("last", "shape", -1, 0, 1, {{"shrink_axis_mask", 1}});
  Int("seven", 7);
  const Node& pack = Add("pack", "Pack", {"first", "seven", "last"}, {{"N", 3}});
  EXPECT_EQ(AsShape(pack), "[?,7,6]");
  EXPECT_EQ(Shape(Add("r", "Reshape", {"y", "pack"})), "[?,7,6]");
  Ints("begin", {1});
  Ints("rest", {-1});
  EXPECT_EQ(AsShape(Add("tail", "Slice", {"shape", "begin", "rest"})), "[4,6]");
  Int("axis", 0);
  EXPECT_EQ(AsShape(Add("cat", "ConcatV2", {"tail", "pack", "axis"}, {{"N", 2}})), "[4,6,?,7,6]");
}

TEST_F(ShapeRefinerTest, StridedSlicesFollowPythonsRules) {
  Ints("v", {10, 11, 12, 13, 14});
  EXPECT_EQ(AsShape(Strided("a", "v", 1, 4, 2)), "[11,13]");
  EXPECT_EQ(AsShape(Strided("b", "v", -2, 99, 1)), "[13,14]");
  EXPECT_EQ(AsShape(Strided("c", "v", 3, 0, -1)), "[13,12,11]");
  EXPECT_EQ(AsShape(Strided("d", "v", 0, 0, -2, {{"begin_mask", 1}, {"end_mask", 1}})), "[14,12,10]");
  EXPECT_EQ(AsShape(Strided("e", "v", 0, 2, 1, {{"end_mask", 1}})), "[10,11,12,13,14]");
  EXPECT_EQ(AsShape(Strided("f", "v", 4, 2, 1)), "[]");
  EXPECT_EQ(AsShape(Strided("g", "v", INT32_MIN, INT32_MAX, 1)), "[10,11,12,13,14]");
  EXPECT_EQ(AsShape(Strided("h", "v", 0, 5, 0)), "none");
}

TEST_F(ShapeRefinerTest, ValuesOfMetadataAreConstantWhenTheShapeIsKnown) {
  Float("x", {2, 3});
  Float("y", {2, -1});
  const auto value = [&](const Node& node, int output = 0) {
    const auto tensor = ConstantValue(node, output, &refiner_);
    return tensor.ok() ? tensor->DebugString() : "none";
  };
  EXPECT_EQ(value(Add("s", "Shape", {"x"})), "Tensor<type: int32 shape: [2] values: 2 3>");
  EXPECT_EQ(value(Add("n", "Size", {"x"}, {{"out_type", DataType::kInt64}})),
            "Tensor<type: int64 shape: [] values: 6>");
  EXPECT_EQ(value(Add("r", "Rank", {"y"})), "Tensor<type: int32 shape: [] values: 2>");
  EXPECT_EQ(value(Add("sy", "Shape", {"y"})), "none");
  EXPECT_EQ(value(Add("ny", "Size", {"y"})), "none");
  const Node& both = Add("sn", "ShapeN", {"y", "x"}, {{"N", 2}});
  EXPECT_EQ(value(both, 0), "none");
  EXPECT_EQ(value(both, 1), "Tensor<type: int32 shape: [2] values: 2 3>");
  EXPECT_FALSE(ConstantValue(*graph_.FindNode("s"), 0, nullptr).ok()) << "without shapes only Const is known";
  EXPECT_FALSE(ConstantValue(*graph_.FindNode("s"), 5, &refiner_).ok());
}

TEST_F(ShapeRefinerTest, SizesThatDontFitAreNotConstants) {
  Float("big", {1 << 20, 1 << 20});
  EXPECT_FALSE(ConstantValue(Add("n", "Size", {"big"}), 0, &refiner_).ok()) << "2^40 is no int32";
}

TEST_F(ShapeRefinerTest, SharedInputsThatDoubleAtEachLevelStayCheap) {
  Int("axis", 0);
  Ints("c0", {1});
  std::string last = "c0";
  for (int i = 1; i < 60; ++i) {
    const std::string name = StrCat("c", i);
    AddTestNode(&graph_, name, "ConcatV2", {last, last, "axis"}, {{"N", 2}});
    last = name;
  }
  // Following every use would take 2^59 steps.
  EXPECT_EQ(AsShape(*graph_.FindNode(last)), "none");
}

TEST_F(ShapeRefinerTest, LongChainsAreAbandonedBeforeTheStackOverflows) {
  Ints("c", {1});
  std::string last = "c";
  for (int i = 0; i < 100000; ++i) {
    const std::string name = StrCat("i", i);
    AddTestNode(&graph_, name, "Identity", {last}, {{"T", DataType::kInt32}});
    last = name;
  }
  EXPECT_FALSE(ConstantValue(*graph_.FindNode(last), 0, &refiner_).ok());
}

TEST_F(ShapeRefinerTest, HandlesCarryTheShapeOfTheirVariable) {
  const Node& v = Add("v", "VarHandleOp", {}, {{"shape", PartialShape{3, 4}}, {"dtype", DataType::kFloat}});
  const Node& w = Add("w", "VarHandleOp", {}, {{"shape", PartialShape{5}}, {"dtype", DataType::kFloat}});
  PartialShape shape;
  DataType dtype = DataType::kInvalid;
  ASSERT_TRUE(refiner_.OutputHandle(v, 0, &shape, &dtype));
  EXPECT_EQ(shape.ToString(), "[3,4]");
  EXPECT_EQ(dtype, DataType::kFloat);
  EXPECT_EQ(Shape(Add("rv", "ReadVariableOp", {"v"}, {{"dtype", DataType::kFloat}})), "[3,4]");
  EXPECT_EQ(Shape(Add("rw", "ReadVariableOp", {"w"}, {{"dtype", DataType::kFloat}})), "[5]");
  EXPECT_FALSE(refiner_.OutputHandle(*graph_.FindNode("rw"), 0, &shape, &dtype));
  (void)w;
}

TEST_F(ShapeRefinerTest, InferShapesCoversTheWholeGraphAndReportsTheFirstError) {
  Float("a", {2, 3});
  AddTestNode(&graph_, "s", "Add", {"a", "a"});
  const auto shapes = InferShapes(graph_);
  ASSERT_TRUE(shapes.ok());
  EXPECT_EQ((*shapes)[static_cast<size_t>(graph_.FindNode("s")->id())][0].ToString(), "[2,3]");
  AddTestNode(&graph_, "m", "MatMul", {"a", "a"}, {{"T", DataType::kFloat}});
  EXPECT_THAT(InferShapes(graph_).status().message(), HasSubstr("for 'm' (op: 'MatMul')"));
}

// Adds the elements of both inputs, and counts its calls.
int calls = 0;
StatusOr<std::vector<Tensor>> AddInts(std::string_view /*name*/,
                                      const std::shared_ptr<const NodeProps>& props,
                                      std::span<const Tensor> inputs) {
  ++calls;
  if (props->op->def.name != "Add") return errors::Unimplemented(props->op->def.name);
  const auto a = inputs[0].flat<int32_t>(), b = inputs[1].flat<int32_t>();
  std::vector<int32_t> sums;
  for (size_t i = 0; i < a.size(); ++i) sums.push_back(a[i] + b[i]);
  return std::vector<Tensor>{Tensor::From<int32_t>(sums, inputs[0].shape())};
}

TEST(ShapeRefinerWithEvaluatorTest, OpsOnKnownValuesAreRunOnce) {
  Graph graph(TestOps());
  ShapeRefiner refiner(graph, AddInts);
  const auto add = [&](std::string_view name, std::string_view op, const std::vector<std::string>& inputs,
                       AttrMap attrs) -> const Node& {
    const Node* node = AddTestNode(&graph, name, op, inputs, std::move(attrs));
    EXPECT_EQ(refiner.AddNode(*node), Status());
    return *node;
  };
  const AttrMap ints{{"T", DataType::kInt32}};
  add("c", "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Vector<int32_t>({2, 3})}});
  add("a", "Add", {"c", "c"}, ints);
  const Node& b = add("b", "Add", {"a", "c"}, ints);
  const Node& unknown =
      add("p", "Placeholder", {}, {{"dtype", DataType::kInt32}, {"shape", PartialShape({2})}});
  const Node& with_unknown = add("u", "Add", {"p", "b"}, ints);

  calls = 0;
  auto shape = ConstantValueAsShape(b, 0, &refiner);
  ASSERT_TRUE(shape.has_value());
  EXPECT_EQ(shape->ToString(), "[6,9]");
  EXPECT_EQ(calls, 2);
  const auto value = ConstantValue(b, 0, &refiner);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->flat<int32_t>()[1], 9);
  EXPECT_EQ(calls, 2);  // kept
  EXPECT_FALSE(ConstantValue(unknown, 0, &refiner).ok());
  EXPECT_FALSE(ConstantValue(with_unknown, 0, &refiner).ok());
  EXPECT_EQ(calls, 2);
  refiner.ForgetNodesFrom(b.id());
  EXPECT_FALSE(ConstantValue(b, 0, &refiner).ok()) << "its size is not known any more";
  refiner.ForgetLast();
  EXPECT_EQ(refiner.Evaluated(b), nullptr);
}

}  // namespace
}  // namespace millrace
