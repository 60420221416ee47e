// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/lower/variable_reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/all_ops_testing.h"
#include "graph/testing.h"

namespace millrace {
namespace {

class VariableReadsTest : public testing::Test {
 protected:
  VariableReadsTest() {
    AddTestNode(&graph_, "v", "VariableV2", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape({})}});
    Add("c", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(1.f)}});
  }
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs,
            AttrMap attrs = {}) {
    if (op != "Const" && op != "LoopCond" && op != "NoOp") attrs.Set("T", DataType::kFloat);
    return AddTestNode(&graph_, name, op, inputs, std::move(attrs));
  }
  int Run() {
    const auto changes = ReadVariablesLate(&graph_);
    EXPECT_TRUE(changes.ok()) << changes.status();
    EXPECT_TRUE(graph_.Validate().ok()) << graph_.Validate();
    return changes.value_or(-1);
  }
  std::string Text(std::string_view name) const {
    std::string text;
    for (const Edge* edge : graph_.FindNode(name)->in_edges()) {
      text += StrCat(text.empty() ? "" : ", ", edge->IsControl() ? "^" : "", edge->src->name());
      if (edge->src_output > 0) text += StrCat(":", edge->src_output);
    }
    return text;
  }

  Graph graph_{AllOps()};
};

TEST_F(VariableReadsTest, WhatRunsAfterAnUpdateReadsThen) {
  Add("read", "Identity", {"v"});
  Add("update", "AssignAdd", {"v", "c"});
  Add("before", "Neg", {"read"});
  Add("after", "Neg", {"read", "^update"});
  EXPECT_EQ(Run(), 1);
  EXPECT_EQ(Text("before"), "read");
  EXPECT_EQ(Text("after"), "v, ^update, ^read");
  EXPECT_EQ(Run(), 0);
}

TEST_F(VariableReadsTest, AReadAfterTheUpdateIsRight) {
  Add("update", "AssignAdd", {"v", "c"});
  Add("read", "Identity", {"v", "^update"});
  Add("of_update", "Identity", {"update"});
  Add("y", "Add", {"read", "of_update"});
  EXPECT_EQ(Run(), 0);
}

TEST_F(VariableReadsTest, AReadOfAnUpdateIsLateForTheNextOne) {
  Add("first", "AssignAdd", {"v", "c"});
  Add("read", "Identity", {"first"});
  Add("copy", "Identity", {"read"});
  Add("second", "AssignSub", {"first", "c", "^read"});
  Add("y", "Add", {"read", "copy", "^second"});
  EXPECT_EQ(Run(), 2);
  EXPECT_EQ(Text("y"), "first, first, ^second, ^read, ^copy");
}

TEST_F(VariableReadsTest, LoopConstantsAndBranchesBecomeReferences) {
  Add("read", "Identity", {"v"});
  Add("inside", "Enter", {"read"}, {{"frame_name", "f"}, {"is_constant", true}});
  Add("one", "Enter", {"c"}, {{"frame_name", "f"}, {"is_constant", true}});
  AddTestNode(&graph_, "p", "Placeholder", {}, {{"dtype", DataType::kBool}});
  Add("branch", "Switch", {"read", "p"});
  AddTestNode(&graph_, "var", "RefEnter", {"v"},
              {{"T", DataType::kFloat}, {"frame_name", "f"}, {"is_constant", true}});
  Add("update", "AssignAdd", {"var", "one"});
  Add("y", "Neg", {"inside", "^update"});
  Add("z", "Mul", {"inside", "inside"});
  Add("other", "AssignAdd", {"v", "c"});
  Add("in_branch", "Neg", {"branch:1", "^other"});
  EXPECT_EQ(Run(), 2);
  EXPECT_EQ(Text("y"), "inside/ref, ^update");
  EXPECT_EQ(graph_.FindNode("inside/ref")->op_name(), "RefEnter");
  EXPECT_EQ(Text("inside/ref"), "v, ^read");
  EXPECT_EQ(Text("z"), "inside, inside");
  EXPECT_EQ(Text("in_branch"), "branch/ref:1, ^other");
  EXPECT_EQ(Text("branch/ref"), "v, p, ^read");
}

TEST_F(VariableReadsTest, OtherDevicesAndOtherVariablesKeepWhatTheyHave) {
  Add("read", "Identity", {"v"});
  Add("update", "AssignAdd", {"v", "c"});
  Add("far", "Neg", {"read", "^update"})->set_assigned_device("/device:CPU:1");
  AddTestNode(&graph_, "w", "VariableV2", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape({})}});
  Add("read_w", "Identity", {"w"});
  Add("of_w", "Neg", {"read_w", "^update"});
  EXPECT_EQ(Run(), 0);
}

}  // namespace
}  // namespace millrace
