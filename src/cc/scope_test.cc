// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "millrace/ops.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Output FloatPlaceholder(const Scope& scope, PartialShape shape = {}) {
  return ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape(shape));
}

TEST(ScopeTest, NodesAreNamedAfterTheirOpAndCounted) {
  const Scope scope = Scope::NewRootScope();
  const Output a = ops::Const(scope, 1.0f);
  EXPECT_EQ(Scope::NameOf(a), "Const");
  EXPECT_EQ(Scope::NameOf(Output(ops::Neg(scope, a))), "Neg");
  EXPECT_EQ(Scope::NameOf(Output(ops::Neg(scope, a))), "Neg_1");
  EXPECT_EQ(Scope::NameOf(Output(ops::Neg(scope.WithOpName("x"), a))), "x");
  EXPECT_EQ(Scope::NameOf(Output(ops::Neg(scope.WithOpName("x"), a))), "x_1");
  EXPECT_TRUE(scope.ok()) << scope.status();
}

TEST(ScopeTest, SubScopesPrefixNamesAndAreUnique) {
  const Scope root = Scope::NewRootScope();
  const Scope first = root.NewSubScope("layer");
  const Scope second = root.NewSubScope("layer");
  EXPECT_EQ(Scope::NameOf(ops::Const(first, 1)), "layer/Const");
  EXPECT_EQ(Scope::NameOf(ops::Const(second, 1)), "layer_1/Const");
  EXPECT_EQ(Scope::NameOf(ops::Const(second.NewSubScope("in").WithOpName("c"), 1)), "layer_1/in/c");
  EXPECT_EQ(Scope::NameOf(ops::Const(second.AtRoot().WithOpName("top"), 1)), "top");
  EXPECT_EQ(Scope::NameOf(ops::Const(root.WithOpName("layer"), 1)), "layer_2")
      << "scopes and nodes share names";
  EXPECT_EQ(Scope::NameOf(ops::Const(first.WithOpName("/"), 1)), "layer") << "the scope's own name";
}

TEST(ScopeTest, NamesThatTensorFlowRefusesAreRefused) {
  for (const char* name : {"_x", "a b", "-", "a:0", "^a", "/a"}) {
    const Scope scope = Scope::NewRootScope();
    EXPECT_FALSE(ops::Const(scope.WithOpName(name), 1).IsSet()) << name;
    EXPECT_TRUE(errors::IsInvalidArgument(scope.status())) << name;
    EXPECT_THAT(scope.status().message(), HasSubstr(name));
  }
  const Scope scope = Scope::NewRootScope();
  EXPECT_EQ(Scope::NameOf(ops::Const(scope.NewSubScope("a b"), 1)), "");
  EXPECT_THAT(scope.status().message(), HasSubstr("'a b' is not a valid scope name"));
}

TEST(ScopeTest, ControlInputsDeviceAndColocationReachTheNode) {
  const Scope scope = Scope::NewRootScope();
  const Output a = ops::Const(scope.WithOpName("a"), 1);
  const Scope changed =
      scope.WithControlDependencies({a}).WithDevice("/cpu:1").ColocateWith(a).WithOpName("b");
  const Output b = ops::Identity(changed, a);
  ASSERT_TRUE(scope.ok()) << scope.status();
  ASSERT_EQ(b.node->control_in_edges().size(), 1u);
  EXPECT_EQ(b.node->control_in_edges()[0]->src, a.node);
  EXPECT_EQ(b.node->requested_device(), "/cpu:1");
  EXPECT_THAT(b.node->Attr<std::vector<std::string>>("_class").value_or({}), ElementsAre("loc:@a"));

  const Output plain =
      ops::Identity(changed.WithNoControlDependencies().WithNoColocation().WithDevice(""), a);
  EXPECT_TRUE(plain.node->control_in_edges().empty());
  EXPECT_EQ(plain.node->requested_device(), "");
  EXPECT_EQ(plain.node->attrs().Find("_class"), nullptr);
}

TEST(ScopeTest, TheFirstErrorSticksNamesTheNodeAndStopsEverything) {
  const Scope scope = Scope::NewRootScope();
  const Output a = FloatPlaceholder(scope, {2, 3});
  const int nodes = scope.graph().num_nodes();
  const ops::MatMul product(scope.WithOpName("m"), a, a);
  EXPECT_EQ(product.node, nullptr);
  EXPECT_FALSE(product.product.IsSet());
  EXPECT_THAT(scope.status().message(), HasSubstr("'m' (op: 'MatMul')"));
  EXPECT_EQ(scope.graph().num_nodes(), nodes) << "the node that failed is gone";
  Status first = scope.status();
  EXPECT_FALSE(Output(ops::Neg(scope, a)).IsSet());
  EXPECT_EQ(scope.status(), first);
  EXPECT_EQ(scope.graph().num_nodes(), nodes);
}

TEST(ScopeTest, InputsThatDoNotFitAreErrors) {
  const Scope unset = Scope::NewRootScope();
  EXPECT_FALSE(Output(ops::Neg(unset, Output())).IsSet());
  EXPECT_THAT(unset.status().message(), HasSubstr("unset"));

  const Scope types = Scope::NewRootScope();
  EXPECT_FALSE(Output(ops::Add(types, FloatPlaceholder(types), 1)).IsSet());
  EXPECT_TRUE(errors::IsInvalidArgument(types.status()));

  const Scope other = Scope::NewRootScope();
  const Scope mine = Scope::NewRootScope();
  EXPECT_FALSE(Output(ops::Neg(mine, FloatPlaceholder(other))).IsSet());
  EXPECT_THAT(mine.status().message(), HasSubstr("belongs to another graph"));

  const Scope range = Scope::NewRootScope();
  EXPECT_FALSE(Output(ops::Neg(range, Output{FloatPlaceholder(range).node, 1})).IsSet());
  EXPECT_TRUE(errors::IsOutOfRange(range.status()));

  const Scope attr = Scope::NewRootScope();
  EXPECT_FALSE(Output(ops::Cast(attr, FloatPlaceholder(attr), static_cast<DataType>(99))).IsSet());
  EXPECT_FALSE(attr.ok());
}

TEST(LiteralTest, NestedListsBecomeTensors) {
  const Literal matrix = {{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}};
  ASSERT_TRUE(matrix.status().ok()) << matrix.status();
  EXPECT_EQ(matrix.tensor().shape(), TensorShape({2, 3}));
  EXPECT_THAT(matrix.tensor().flat<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  const Literal texts = {"a", "bc"};
  EXPECT_EQ(texts.tensor().dtype(), DataType::kString);
  EXPECT_THAT(texts.tensor().flat<std::string>(), ElementsAre("a", "bc"));
  EXPECT_EQ(Literal(int64_t{3}).tensor().dtype(), DataType::kInt64);
  EXPECT_EQ(Literal(true).tensor().dtype(), DataType::kBool);
  EXPECT_EQ(Literal(2.5).tensor().dtype(), DataType::kDouble);
}

TEST(LiteralTest, RowsThatDifferAreErrors) {
  const Literal ragged = {{1, 2}, {3}};
  EXPECT_THAT(ragged.status().message(), HasSubstr("differ in shape"));
  const Literal mixed = {1, 2.f};
  EXPECT_THAT(mixed.status().message(), HasSubstr("differ in type"));
  const Scope scope = Scope::NewRootScope();
  EXPECT_FALSE(ops::Const(scope, ragged).IsSet());
  EXPECT_FALSE(scope.ok());
}

TEST(LiteralTest, ConstTakesAShape) {
  const Scope scope = Scope::NewRootScope();
  EXPECT_EQ(scope.ShapeOf(ops::Const(scope, 0.5f, {2, 2})), PartialShape({2, 2}));
  EXPECT_EQ(scope.ShapeOf(ops::Const(scope, {1, 2, 3, 4}, {2, 2})), PartialShape({2, 2}));
  EXPECT_FALSE(ops::Const(scope, {1, 2, 3}, {2, 2}).IsSet());
  EXPECT_FALSE(scope.ok());
}

TEST(OpWrappersTest, ListsAreInputsAndOutputs) {
  const Scope scope = Scope::NewRootScope();
  const Output a = FloatPlaceholder(scope, {4, 6});
  const ops::Split split(scope, 1, a, 3);
  ASSERT_EQ(split.output.size(), 3u) << scope.status();
  EXPECT_EQ(Scope::NameOf(split[2]), "Split:2");
  EXPECT_EQ(scope.ShapeOf(split[2]), PartialShape({4, 2}));
  const Output joined = ops::ConcatV2(scope, split.output, 0);
  EXPECT_EQ(scope.ShapeOf(joined), PartialShape({12, 2}));
  EXPECT_EQ(joined.node->Attr<int64_t>("N").value_or(0), 3);
  const Output sum = ops::AddN(scope, {a, a, ops::Neg(scope, a)});
  EXPECT_EQ(sum.node->Attr<int64_t>("N").value_or(0), 3);
  EXPECT_TRUE(scope.ok()) << scope.status();
}

TEST(OpWrappersTest, TypesComeFromInputsAndAttributesFromAttrs) {
  const Scope scope = Scope::NewRootScope();
  const Output a = FloatPlaceholder(scope, {2, 3});
  const Output product = ops::MatMul(scope, a, a, ops::MatMul::TransposeA(true));
  EXPECT_EQ(scope.ShapeOf(product), PartialShape({3, 3}));
  EXPECT_EQ(product.node->Attr<DataType>("T").value_or(DataType::kInvalid), DataType::kFloat);
  EXPECT_TRUE(product.node->Attr<bool>("transpose_a").value_or(false));
  EXPECT_FALSE(product.node->Attr<bool>("transpose_b").value_or(true)) << "the default";
  const Output ref = ops::VariableV2(scope, {2, 3}, DataType::kFloat);
  EXPECT_EQ(Scope::TypeOf(ops::Neg(scope, ref)), DataType::kFloat) << "a reference is read";
  const ops::Print print(scope, a, {a, ops::Const(scope, "x")}, ops::Print::Message("m").Summarize(7));
  EXPECT_THAT(print.node->Attr<std::vector<DataType>>("U").value_or({}),
              ElementsAre(DataType::kFloat, DataType::kString));
  EXPECT_EQ(print.node->Attr<int64_t>("summarize").value_or(0), 7);
  EXPECT_TRUE(scope.ok()) << scope.status();
}

TEST(OpWrappersTest, ShapesAreTakenByTheirSizes) {
  const Scope scope = Scope::NewRootScope();
  const auto shape_of = [&](const ops::Placeholder::Attrs& attrs) {
    return scope.ShapeOf(ops::Placeholder(scope, DataType::kFloat, attrs)).ToString();
  };
  EXPECT_EQ(shape_of(ops::Placeholder::Shape({})), "[]");
  EXPECT_EQ(shape_of(ops::Placeholder::Attrs().Shape({})), "[]");
  EXPECT_EQ(shape_of(ops::Placeholder::Shape({-1, 2})), "[?,2]");
  EXPECT_EQ(shape_of(ops::Placeholder::Shape(PartialShape({3}))), "[3]");
  EXPECT_EQ(shape_of(ops::Placeholder::Shape(TensorShape())), "[]");
  EXPECT_EQ(shape_of(ops::Placeholder::Shape(PartialShape())), "<unknown>");
  EXPECT_EQ(shape_of({}), "<unknown>");
}

TEST(OpWrappersTest, AttrsAreValues) {
  ops::MatMul::Attrs attrs = ops::MatMul::TransposeA(true);
  ops::MatMul::Attrs copy = attrs;
  copy.TransposeA(false);
  const Scope scope = Scope::NewRootScope();
  const Output a = FloatPlaceholder(scope, {2, 3});
  EXPECT_EQ(scope.ShapeOf(ops::MatMul(scope, a, a, attrs)), PartialShape({3, 3})) << scope.status();
}

}  // namespace
}  // namespace millrace
