// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/schedule.h"

#include <gtest/gtest.h>

#include "graph/testing.h"

namespace millrace {
namespace {

class ScheduleTest : public testing::Test {
 protected:
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs = {},
            AttrMap attrs = {}) {
    return AddTestNode(graph_.get(), name, op, inputs, std::move(attrs));
  }
  void Placeholder(std::string_view name, const PartialShape& shape) {
    Add(name, "Placeholder", {}, {{"dtype", DataType::kFloat}, {"shape", shape}});
  }
  void Product(std::string_view name, const std::string& a, const std::string& b) {
    Add(name, "MatMul", {a, b}, {{"T", DataType::kFloat}});
  }
  int64_t Peak() const {
    ShapeRefiner shapes(*graph_);
    std::vector<Node*> order = *TopologicalOrderById(*graph_);
    std::erase_if(order, [](const Node* n) { return !n->IsOp(); });
    for (const Node* node : order) EXPECT_TRUE(shapes.AddNode(*node).ok());
    return PeakBytes(order, shapes, 1);
  }

  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>(TestOps());
};

// Each wide_i [8,8] is only needed for its narrow_i [8,1], and all of those at the end.
TEST_F(ScheduleTest, EachWideTensorIsUsedBeforeTheNextIsMade) {
  Placeholder("x", {8, 8});
  Placeholder("v", {8, 1});
  for (int i = 0; i < 4; ++i) Product(StrCat("wide", i), "x", "x");
  for (int i = 0; i < 4; ++i) Product(StrCat("narrow", i), StrCat("wide", i), "v");
  for (int i = 0; i < 4; ++i) {
    Add(StrCat("sum", i), "Sub", {i == 0 ? "v" : StrCat("sum", i - 1), StrCat("narrow", i)});
  }
  graph_->FixupSourceAndSinkEdges();
  // x, v and four wide ones; then x is released.
  EXPECT_EQ(Peak(), 256 + 32 + 4 * 256);
  EXPECT_GT(*ScheduleForMemory(&graph_), 0);
  EXPECT_TRUE(graph_->Validate().ok()) << graph_->Validate();
  // x, v, one wide one, its narrow one, and the sum of those before.
  EXPECT_EQ(Peak(), 256 + 32 + 256 + 32 + 32);
}

TEST_F(ScheduleTest, NothingIsDoneWhereNothingIsGained) {
  Placeholder("x", {8, 8});
  Product("a", "x", "x");
  Product("b", "a", "x");
  graph_->FixupSourceAndSinkEdges();
  const Graph* before = graph_.get();
  EXPECT_EQ(*ScheduleForMemory(&graph_), 0);
  EXPECT_EQ(graph_.get(), before);
}

TEST_F(ScheduleTest, GraphsWithControlFlowAndUnknownShapesAreNotChanged) {
  Add("x", "Placeholder", {}, {{"dtype", DataType::kFloat}});
  Add("n", "Neg", {"x"});
  EXPECT_EQ(*ScheduleForMemory(&graph_), 0);
  Placeholder("y", {8, 8});
  Add("p", "Placeholder", {}, {{"dtype", DataType::kBool}});
  Add("sw", "Switch", {"y", "p"}, {{"T", DataType::kFloat}});
  EXPECT_EQ(*ScheduleForMemory(&graph_), 0);
}

TEST_F(ScheduleTest, NumbersAreTheOrder) {
  Placeholder("x", {2, 2});
  Add("late", "Neg", {"x"});
  Add("early", "Neg", {"x"});
  graph_->AddControlEdge(graph_->FindNode("early"), graph_->FindNode("late"));
  graph_->FixupSourceAndSinkEdges();
  std::string names;
  const std::vector<Node*> order = *TopologicalOrderById(*graph_);
  for (const Node* node : order) names += node->name() + " ";
  EXPECT_EQ(names, "_SOURCE x early late _SINK ");
  const auto copy =
      graph_->CloneInOrder({graph_->FindNode("x"), graph_->FindNode("early"), graph_->FindNode("late")});
  EXPECT_TRUE(copy->Validate().ok()) << copy->Validate();
  EXPECT_EQ(GraphText(*copy), "x = Placeholder()\nearly = Neg(x)\nlate = Neg(x, ^early)\n");
}

TEST_F(ScheduleTest, ACycleIsNamed) {
  Placeholder("x", {2, 2});
  Add("a", "Neg", {"x"});
  Add("b", "Neg", {"a"});
  graph_->AddControlEdge(graph_->FindNode("b"), graph_->FindNode("a"));
  EXPECT_FALSE(TopologicalOrderById(*graph_).ok());
}

}  // namespace
}  // namespace millrace
