// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/graph_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using testing::HasSubstr;

class GraphBuilderTest : public testing::Test {
 protected:
  GraphBuilderTest() : graph_(Ops()), shapes_(graph_), builder_(graph_, shapes_) {}

  static const OpRegistry& Ops() {
    static const OpRegistry* const ops = [] {
      auto* registry = new OpRegistry;
      const auto add = [&](OpBuilder builder) { EXPECT_TRUE(registry->Register(builder).ok()); };
      add(OpBuilder("F").Output("y: float"));
      add(OpBuilder("I").Output("y: int32"));
      add(OpBuilder("Pair").Input("a: T").Input("b: T").Output("c: T").Attr("T: {float, int32}"));
      add(OpBuilder("Many")
              .Input("a: N * T")
              .Input("b: L")
              .Output("c: L")
              .Attr("N: int >= 2")
              .Attr("T: type")
              .Attr("L: list(type)"));
      return registry;
    }();
    return *ops;
  }
  static InputArg One(Node* node) { return {{{node, 0}}, false}; }

  Graph graph_;
  ShapeRefiner shapes_;
  GraphBuilder builder_;
};

TEST_F(GraphBuilderTest, InfersTypesAndCounts) {
  Node* f = builder_.Add("F", {});
  Node* i = builder_.Add("I", {});
  builder_.SetScope("s", "/device:CPU:0");
  Node* many = builder_.Add("Many", {{{{f, 0}, {f, 0}, {f, 0}}, true}, {{{f, 0}, {i, 0}}, true}});
  ASSERT_NE(many, nullptr) << builder_.status();
  EXPECT_EQ(many->name(), "s/Many");
  EXPECT_EQ(many->requested_device(), "/device:CPU:0");
  EXPECT_EQ(*many->Attr<int64_t>("N"), 3);
  EXPECT_EQ(*many->Attr<DataType>("T"), DataType::kFloat);
  EXPECT_EQ(*many->Attr<std::vector<DataType>>("L"),
            (std::vector<DataType>{DataType::kFloat, DataType::kInt32}));
  EXPECT_EQ(builder_.Add("Many", {{{{f, 0}, {f, 0}}, true}, {{}, true}})->name(), "s/Many_1");
}

TEST_F(GraphBuilderTest, TheFirstErrorSticksAndLeavesNoNode) {
  Node* f = builder_.Add("F", {});
  Node* i = builder_.Add("I", {});
  const int nodes = graph_.num_nodes();
  EXPECT_EQ(builder_.Add("Pair", {One(f), One(i)}), nullptr);
  EXPECT_THAT(builder_.status().message(), HasSubstr("input 1 is int32 from 'I', expected float"));
  const Status first = builder_.status();
  EXPECT_EQ(builder_.Add("Nonsense", {}), nullptr);
  EXPECT_EQ(builder_.status(), first);
  EXPECT_EQ(graph_.num_nodes(), nodes);
}

TEST_F(GraphBuilderTest, WrongArgumentsAreRefused) {
  Node* f = builder_.Add("F", {});
  AttrMap attrs;
  const OpDef& pair = (*Ops().LookUp("Pair"))->def;
  const std::vector<InputArg> too_few = {One(f)};
  EXPECT_TRUE(errors::IsInvalidArgument(InferInputAttrs(pair, too_few, &attrs)));
  const std::vector<InputArg> list = {One(f), {{{f, 0}}, true}};
  EXPECT_THAT(InferInputAttrs(pair, list, &attrs).message(), HasSubstr("argument 'b' takes one tensor"));
  EXPECT_EQ(builder_.Add("Pair", {One(f), InputArg{{Output{}}, false}}), nullptr);
  EXPECT_TRUE(errors::IsInternal(builder_.status()));
}

}  // namespace
}  // namespace millrace
