// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/partition/control_loops.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/all_ops_testing.h"
#include "compile/partition/partition.h"
#include "compile/testing.h"
#include "graph/testing.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Loops of one float: while (x < limit) x = -x.
class ControlLoopsTest : public testing::Test {
 protected:
  Node* Add(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
            const char* device, AttrMap attrs = {{"T", DataType::kFloat}}) {
    Node* node = AddTestNode(graph_.get(), name, op, inputs, std::move(attrs));
    node->set_assigned_device(FakeDeviceName(device));
    return node;
  }
  void Placeholder(const std::string& name, const char* device) {
    Add(name, "Placeholder", {}, device, {{"dtype", DataType::kFloat}});
  }
  void Enter(const std::string& name, const std::string& input, const std::string& frame, const char* device,
             bool constant = false) {
    Add(name, "Enter", {input}, device,
        {{"T", DataType::kFloat},
         {"frame_name", frame},
         {"is_constant", constant},
         {"parallel_iterations", 7}});
  }
  // "<p>Exit" of a loop in the frame `frame` whose body is on a separate device. `value` in the body is the
  // value for the next iteration; the body may add nodes on "<p>Switch:1".
  template <typename Body>
  void Loop(const std::string& p, const std::string& frame, const std::string& input,
            const std::string& limit, const char* device, const Body& body) {
    Enter(p + "Enter", input, frame, device);
    Enter(p + "Limit", limit, frame, device, /*constant=*/true);
    Node* merge = Add(p + "Merge", "Merge", {p + "Enter"}, device, {{"T", DataType::kFloat}, {"N", 2}});
    Add(p + "Less", "Less", {p + "Merge", p + "Limit"}, device);
    Add(p + "Cond", "LoopCond", {p + "Less"}, device, {});
    Add(p + "Switch", "Switch", {p + "Merge", p + "Cond"}, device);
    Node* next = Add(p + "Next", "NextIteration", {body()}, device);
    graph_->AddEdge(next, 0, merge, 1);
    Add(p + "Exit", "Exit", {p + "Switch"}, device);
  }
  // One loop whose body is on CPU:1, everything else on CPU:0.
  void SimpleLoop(const char* body_device = "0/CPU:1") {
    Placeholder("x", "0/CPU:0");
    Placeholder("limit", "0/CPU:0");
    Loop("", "loop", "x", "limit", "0/CPU:0", [&] {
      Add("Neg", "Neg", {"Switch:1"}, body_device);
      return "Neg";
    });
  }
  // A loop in the body of another; the inner body is on CPU:1.
  void NestedLoop() {
    Placeholder("x", "0/CPU:0");
    Placeholder("limit", "0/CPU:0");
    Loop("o/", "outer", "x", "limit", "0/CPU:0", [&] {
      Loop("i/", "inner", "o/Switch:1", "o/Limit", "0/CPU:0", [&] {
        Add("Neg", "Neg", {"i/Switch:1"}, "0/CPU:1");
        return "Neg";
      });
      return "i/Exit";
    });
  }
  StatusOr<ControlLoops> Run() {
    graph_->FixupSourceAndSinkEdges();
    auto loops = AddControlLoops(graph_.get());
    EXPECT_EQ(graph_->Validate(), Status());
    return loops;
  }
  // The control loop's node "<frame>/_control_loop/<what>" on the device; null if there is none.
  const Node* Added(const std::string& frame, const std::string& what, const char* device) const {
    for (const Node* node : graph_->OpNodes()) {
      if (node->name().starts_with(StrCat(frame, "/_control_loop/", what)) &&
          node->assigned_device() == FakeDeviceName(device)) {
        return node;
      }
    }
    return nullptr;
  }
  int CountAdded() const {
    int count = 0;
    for (const Node* node : graph_->OpNodes()) {
      count += node->name().find("/_control_loop/") != std::string::npos ? 1 : 0;
    }
    return count;
  }
  int Device(const char* name) const {
    for (const Node* node : graph_->OpNodes()) {
      if (node->assigned_device() == FakeDeviceName(name)) return node->assigned_device_index();
    }
    return -1;
  }

  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>(AllOps());
};

TEST_F(ControlLoopsTest, AGraphWithoutLoopsStaysAsItIs) {
  Placeholder("x", "0/CPU:0");
  Add("Neg", "Neg", {"x"}, "0/CPU:1");
  const auto loops = Run();
  ASSERT_TRUE(loops.ok()) << loops.status();
  EXPECT_FALSE(loops->may_be_dead);
  EXPECT_EQ(CountAdded(), 0);
  EXPECT_EQ(loops->PivotFor(*graph_->FindNode("x"), Device("0/CPU:1")), nullptr);
}

TEST_F(ControlLoopsTest, ALoopOnOneDeviceStaysAsItIs) {
  SimpleLoop("0/CPU:0");
  const auto loops = Run();
  ASSERT_TRUE(loops.ok()) << loops.status();
  EXPECT_TRUE(loops->may_be_dead);
  EXPECT_EQ(CountAdded(), 0);
}

TEST_F(ControlLoopsTest, ADeviceThatReceivesInALoopGoesRoundWithIt) {
  SimpleLoop();
  const auto loops = Run();
  ASSERT_TRUE(loops.ok()) << loops.status();
  // CPU:1 receives the input of Neg, CPU:0 its output.
  EXPECT_EQ(CountAdded(), 2 * 5);
  for (const char* device : {"0/CPU:0", "0/CPU:1"}) {
    const Node* merge = Added("loop", "Merge", device);
    const Node* way = Added("loop", "Switch", device);
    const Node* next = Added("loop", "NextIteration", device);
    const Node* enter = Added("loop", "Enter", device);
    const Node* start = Added("loop", "start", device);
    ASSERT_TRUE(merge && way && next && enter && start) << device;
    EXPECT_EQ(enter->in_edges()[0]->src, start);
    EXPECT_EQ(*enter->Attr<std::string>("frame_name"), "loop");
    EXPECT_EQ(*enter->Attr<int64_t>("parallel_iterations"), 7) << "as the loop itself";
    EXPECT_EQ(merge->in_edges()[0]->src, enter);
    EXPECT_EQ(merge->in_edges()[1]->src, next);
    EXPECT_EQ(way->in_edges()[0]->src, merge);
    EXPECT_EQ(way->in_edges()[1]->src, graph_->FindNode("Cond"));
    EXPECT_EQ(next->in_edges()[0]->src, way);
    EXPECT_EQ(next->in_edges()[0]->src_output, 1) << "it continues when the loop does";
    EXPECT_EQ(loops->PivotFor(*graph_->FindNode("Neg"), Device(device)), merge);
  }
  EXPECT_EQ(loops->PivotFor(*graph_->FindNode("x"), Device("0/CPU:1")), nullptr) << "outside";
  EXPECT_EQ(loops->PivotFor(*graph_->FindNode("Exit"), Device("0/CPU:1")), nullptr)
      << "its output is outside";
}

TEST_F(ControlLoopsTest, AGraphThatHasThemGetsNoMore) {
  SimpleLoop();
  const auto first = Run();
  ASSERT_TRUE(first.ok()) << first.status();
  const int nodes = graph_->num_nodes();
  const auto again = Run();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(graph_->num_nodes(), nodes);
  EXPECT_EQ(again->pivots, first->pivots);
}

TEST_F(ControlLoopsTest, AnInnerControlLoopStartsInEachIterationOfTheOneAround) {
  NestedLoop();
  const auto loops = Run();
  ASSERT_TRUE(loops.ok()) << loops.status();
  for (const char* device : {"0/CPU:0", "0/CPU:1"}) {
    const Node* outer = Added("outer", "Merge", device);
    const Node* start = nullptr;
    for (const Node* node : graph_->OpNodes()) {
      if (node->name().find("inner/_control_loop/start") != std::string::npos &&
          node->assigned_device() == FakeDeviceName(device)) {
        start = node;
      }
    }
    ASSERT_TRUE(outer != nullptr && start != nullptr) << device;
    const auto& waits = start->control_in_edges();
    EXPECT_TRUE(std::any_of(waits.begin(), waits.end(), [&](const Edge* e) { return e->src == outer; }));
  }
}

TEST_F(ControlLoopsTest, WhatClosesALoopLiesOnOneDevice) {
  SimpleLoop();
  graph_->FindNode("Switch")->set_assigned_device(FakeDeviceName("0/CPU:1"));
  graph_->FindNode("Next")->set_assigned_device(FakeDeviceName("0/CPU:1"));
  graph_->FindNode("Exit")->set_assigned_device(FakeDeviceName("0/CPU:1"));
  graph_->FindNode("Enter")->set_assigned_device(FakeDeviceName("0/CPU:1"));
  ASSERT_TRUE(Run().ok());
  for (const char* name : {"Switch", "Next", "Exit", "Enter"}) {
    EXPECT_EQ(graph_->FindNode(name)->assigned_device(), FakeDeviceName("0/CPU:0")) << name;
  }
}

TEST_F(ControlLoopsTest, EveryReceiverInALoopWaitsForItsPivot) {
  NestedLoop();
  graph_->FixupSourceAndSinkEdges();
  auto parts = PartitionGraph(std::move(graph_), PartitionOptions());
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->size(), 2u);
  int received = 0;
  for (const GraphPartition& part : *parts) {
    EXPECT_EQ(part.graph->Validate(), Status()) << part.key;
    for (const Node* node : part.graph->OpNodes()) {
      if (node->op_name() != "_Recv") continue;
      ++received;
      EXPECT_NE(node->attrs().Find(ControlLoops::kMayBeDeadAttr), nullptr) << node->name();
      std::set<std::string> waits;
      for (const Edge* e : node->control_in_edges()) {
        if (e->src->IsOp()) waits.insert(e->src->op_name());
      }
      EXPECT_THAT(waits, ElementsAre("Merge")) << node->name();
    }
  }
  // Neg's input and output, and each loop's predicate.
  EXPECT_GE(received, 4);
}

TEST_F(ControlLoopsTest, ALoopWithoutALoopCondIsRefused) {
  SimpleLoop();
  Node* way = graph_->FindNode("Switch");
  Node* cond = graph_->FindNode("Cond");
  graph_->RemoveEdge(way->in_edges()[1]);
  graph_->AddEdge(graph_->FindNode("Less"), 0, way, 1);
  graph_->RemoveNode(cond);
  EXPECT_THAT(Run().status().ToString(),
              HasSubstr("Loop \"loop\" runs on several devices and has no LoopCond node"));
}

TEST_F(ControlLoopsTest, TwoLoopCondsAreRefusedByName) {
  SimpleLoop();
  Add("Another", "LoopCond", {"Less"}, "0/CPU:0", {});
  EXPECT_THAT(Run().status().ToString(), HasSubstr("Loop \"loop\" has more than one LoopCond node"));
}

TEST_F(ControlLoopsTest, AValueThatEntersForTwoDevicesIsRefused) {
  SimpleLoop();
  Add("Elsewhere", "Neg", {"Enter"}, "0/CPU:1");
  EXPECT_TRUE(errors::IsUnimplemented(Run().status()));
}

}  // namespace
}  // namespace millrace
