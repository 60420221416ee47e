// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/identities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing.h"

namespace millrace {
namespace {

const AttrMap kFloat = {{"T", DataType::kFloat}};

class IdentitiesTest : public testing::Test {
 protected:
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs = {},
            AttrMap attrs = {}) {
    return AddTestNode(&graph_, name, op, inputs, std::move(attrs));
  }
  Node* Identity(std::string_view name, const std::vector<std::string>& inputs) {
    return Add(name, "Identity", inputs, kFloat);
  }
  void Placeholder(std::string_view name) { Add(name, "Placeholder", {}, {{"dtype", DataType::kFloat}}); }
  void Retval(const std::string& input, int index = 0) {
    Add(StrCat("ret", index), "_Retval", {input}, {{"T", DataType::kFloat}, {"index", index}});
  }
  int Remove() {
    graph_.FixupSourceAndSinkEdges();
    const int removed = RemoveIdentities(&graph_, options_);
    EXPECT_TRUE(graph_.Validate().ok()) << graph_.Validate();
    return removed;
  }
  void ExpectUnchanged() {
    const std::string before = GraphText(graph_);
    EXPECT_EQ(Remove(), 0);
    EXPECT_EQ(GraphText(graph_), before);
  }

  Graph graph_{TestOps()};
  CompileOptions compile_;
  OptimizeOptions options_{compile_};
};

TEST_F(IdentitiesTest, ConsumersTakeTheInput) {
  Placeholder("x");
  Identity("a", {"x"});
  Identity("b", {"a"});
  Add("same", "Cast", {"b"}, {{"SrcT", DataType::kFloat}, {"DstT", DataType::kFloat}});
  Add("y", "Add", {"same", "b"});
  Add("after", "NoOp", {"^a"});
  Retval("y");
  EXPECT_EQ(Remove(), 3);
  EXPECT_EQ(GraphText(graph_), "x = Placeholder()\ny = Add(x, x)\nafter = NoOp(^x)\nret0 = _Retval(y)\n");
}

TEST_F(IdentitiesTest, WhatTheNodeWaitedForItsConsumersWaitFor) {
  Placeholder("x");
  Placeholder("p");
  Placeholder("q");
  Identity("a", {"x", "^p", "^q"});
  Add("y", "Neg", {"a"});
  Retval("y");
  EXPECT_EQ(Remove(), 1);
  EXPECT_EQ(
      GraphText(graph_),
      "x = Placeholder()\np = Placeholder()\nq = Placeholder()\ny = Neg(x, ^p, ^q)\nret0 = _Retval(y)\n");
}

TEST_F(IdentitiesTest, NotWhereItWouldMultiplyEdges) {
  Placeholder("x");
  for (const char* name : {"p", "q", "r"}) Placeholder(name);
  Identity("a", {"x", "^p", "^q", "^r"});
  for (int i = 0; i < 3; ++i) {
    Add(StrCat("y", i), "Neg", {"a"});
    Retval(StrCat("y", i), i);
  }
  ExpectUnchanged();
}

TEST_F(IdentitiesTest, ReadsOfReferencesStay) {
  Add("v", "VariableV2");
  Identity("read", {"v"});
  Retval("read");
  ExpectUnchanged();
}

TEST_F(IdentitiesTest, NodesThatMustRunStay) {
  Placeholder("x");
  Identity("target", {"x"});
  options_.preserve = {"target"};
  ExpectUnchanged();
}

TEST_F(IdentitiesTest, AValueThatIsCarriedToAnotherDeviceOnceStays) {
  Placeholder("x");
  graph_.FindNode("x")->set_assigned_device("/cpu:1");
  Identity("a", {"x"})->set_assigned_device("/cpu:2");
  Add("y", "Neg", {"a"})->set_assigned_device("/cpu:2");
  Add("z", "Neg", {"a"})->set_assigned_device("/cpu:1");
  Retval("y");
  Retval("z", 1);
  ExpectUnchanged();
}

TEST_F(IdentitiesTest, NodesThatWaitForABranchDoNotWaitForItsSwitch) {
  Placeholder("x");
  Add("p", "Placeholder", {}, {{"dtype", DataType::kBool}});
  Add("sw", "Switch", {"x", "p"}, kFloat);
  Identity("pivot", {"sw:1"});
  Identity("plain", {"sw:1"});
  Add("c", "Neg", {"x", "^pivot"});
  Add("d", "Neg", {"plain"});
  Retval("c");
  Retval("d", 1);
  EXPECT_EQ(Remove(), 1);
  EXPECT_EQ(graph_.FindNode("plain"), nullptr);
  EXPECT_NE(graph_.FindNode("pivot"), nullptr);
}

TEST_F(IdentitiesTest, AMergeDoesNotWaitForWhatItsInputWaitedFor) {
  Placeholder("x");
  Placeholder("y");
  Identity("a", {"x", "^y"});
  Add("m", "Merge", {"a", "y"}, {{"T", DataType::kFloat}, {"N", 2}});
  Retval("m");
  ExpectUnchanged();
}

TEST_F(IdentitiesTest, DeadNodesGoWithWhatOnlyTheyNeeded) {
  Placeholder("x");
  Add("a", "Neg", {"x"});
  Add("b", "Neg", {"a"});
  Add("must", "Neg", {"a"});
  Retval("x");
  options_.preserve = {"must"};
  EXPECT_EQ(RemoveDeadNodes(&graph_, options_), 1);
  EXPECT_EQ(graph_.FindNode("b"), nullptr);
  options_.preserve = {};
  EXPECT_EQ(RemoveDeadNodes(&graph_, options_), 2);
  EXPECT_TRUE(graph_.Validate().ok());
  EXPECT_NE(graph_.FindNode("x"), nullptr);
}

}  // namespace
}  // namespace millrace
