// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Names = std::vector<std::string>;

// Malformed loops over one float: their errors at run time.
class BadLoopsTest : public ::testing::Test {
 protected:
  BadLoopsTest() {
    g_.Const("zero", Tensor::Scalar(0.0f));
    g_.Const("limit", Tensor::Scalar(3.0f));
    g_.Const("one", Tensor::Scalar(1.0f));
  }
  void Enter(const std::string& name, const std::string& input, const std::string& frame,
             bool constant = false) {
    auto& attr = *g_.Float(name, "Enter", {input})->mutable_attr();
    attr["frame_name"].set_s(frame);
    attr["is_constant"].set_b(constant);
  }
  void Merge(const std::string& name, const Names& inputs) {
    (*g_.Float(name, "Merge", inputs)->mutable_attr())["N"].set_i(static_cast<int64_t>(inputs.size()));
  }
  // All nodes of a loop except the Merge, whose output is `merge`.
  void Rest(const std::string& merge, const std::string& frame = "f") {
    Enter("to", "limit", frame, true);
    Enter("step", "one", frame, true);
    g_.Float("less", "Less", {merge, "to"});
    g_.Add("cond", "LoopCond", {"less"});
    g_.Float("way", "Switch", {merge, "cond"});
    g_.Float("body", "Add", {"way:1", "step"});
    g_.Float("next", "NextIteration", {"body"});
    g_.Float("exit", "Exit", {"way"});
  }
  void Good() {
    Enter("enter", "zero", "f");
    Merge("merge", {"enter", "next"});
    Rest("merge");
  }
  // The error of creating the session or of running it.
  std::string Error(const std::string& fetch) {
    auto session = NewSession({});
    Status status = (*session)->Create(g_.def());
    std::vector<Tensor> out;
    RunOptions options;
    options.timeout_in_ms = 5000;
    if (status.ok()) status = (*session)->Run(options, {}, {fetch}, {}, &out, nullptr);
    if (status.ok()) return StrCat("OK ", out[0].scalar<float>());
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
  DefBuilder g_;
};

TEST_F(BadLoopsTest, ThisOneIsGood) {
  Good();
  EXPECT_EQ(Error("exit"), "OK 3");
}

TEST_F(BadLoopsTest, ExitAndNextIterationBelongInLoops) {
  g_.Float("exit", "Exit", {"zero"});
  EXPECT_EQ(Error("exit"), "Node 'exit' (op Exit) is not in a loop");
  g_.Float("next", "NextIteration", {"zero"});
  EXPECT_EQ(Error("next"), "Node 'next' (op NextIteration) is not in a loop");
}

TEST_F(BadLoopsTest, ValuesOfTwoFramesDoNotMeet) {
  Good();
  g_.Float("mixed", "Add", {"body", "one"});
  g_.Float("out", "Exit", {"mixed"});
  EXPECT_EQ(
      Error("out"),
      "{{node mixed}} has inputs from different frames. The input {{node body}} is in frame 'f'. The input "
      "{{node one}} is in frame ''.");
}

TEST_F(BadLoopsTest, OneFrameIsNotEnteredFromTwo) {
  Good();
  Enter("again", "body", "f");
  g_.Float("out", "Exit", {"again"});
  EXPECT_THAT(Error("out"),
              HasSubstr("Node 'again' enters the frame 'f' from the frame 'f', other nodes enter it from"));
}

TEST_F(BadLoopsTest, OnlyAMergeTakesAValueToTheNextIteration) {
  Good();
  g_.Float("after", "Neg", {"next"});
  g_.Float("out", "Exit", {"after"});
  EXPECT_EQ(
      Error("out"),
      "Node 'next' (op NextIteration) leads to 'after' (op Neg), but only a Merge can take a value to the "
      "next iteration");
}

TEST_F(BadLoopsTest, ALoopMustBeEntered) {
  Merge("merge", {"next", "next"});
  Rest("merge");
  EXPECT_THAT(Error("exit"), HasSubstr("{{node merge}}"));
}

TEST_F(BadLoopsTest, ALoopIsNotEnteredByAConstant) {
  Enter("enter", "zero", "f", true);
  Merge("merge", {"enter", "next"});
  Rest("merge");
  EXPECT_EQ(
      Error("exit"),
      "Node 'merge' (op Merge) closes a loop, but its input 'enter' (op Enter) is not an Enter for the first "
      "iteration");
}

TEST_F(BadLoopsTest, ACycleWithoutNextIterationIsRefused) {
  Enter("enter", "zero", "f");
  Merge("merge", {"enter", "body"});
  Rest("merge");
  EXPECT_THAT(Error("exit"), HasSubstr("in a cycle"));
}

TEST_F(BadLoopsTest, WhatIsInALoopCannotBeFetched) {
  Good();
  EXPECT_THAT(Error("body"),
              HasSubstr("is in the loop 'f': only values that leave it through an Exit can be results"));
}

TEST_F(BadLoopsTest, ParallelIterationsArePositive) {
  Good();
  for (auto& node : *g_.mutable_def()->mutable_node()) {
    if (node.name() == "enter") (*node.mutable_attr())["parallel_iterations"].set_i(0);
  }
  EXPECT_EQ(Error("exit"), "Node 'enter': parallel_iterations must be positive, got 0");
}

// The Switch of another condition makes the Exit alive in several iterations: the first one is used.
TEST_F(BadLoopsTest, AnExitIsTakenOnce) {
  Good();
  g_.Float("early", "Exit", {"merge"});
  g_.Float("sum", "Add", {"early", "exit"});
  EXPECT_EQ(Error("sum"), "OK 3");
}

// A node that never becomes ready keeps its inputs. The next loop that uses that memory must not find them.
TEST_F(BadLoopsTest, AMergeTakesNothingThatAnEarlierLoopLeft) {
  if (NodesAreSpread()) GTEST_SKIP() << "a Merge of two loops has no one device that controls it";
  tensorflow::GraphDef& def = *g_.mutable_def();
  g_.Const("low", Tensor::Scalar(7.0f));
  g_.Const("high", Tensor::Scalar(100.0f));
  Good();  // three iterations
  Enter("floor", "zero", "f", true);
  // In the second iteration the Merge of this loop gets nothing, and so never runs.
  Enter("short", "zero", "f");
  Merge("short_merge", {"short", "short_next"});
  g_.Float("short_less", "Less", {"short_merge", "floor"});
  g_.Float("short_way", "Switch", {"short_merge", "short_less"});
  g_.Float("short_next", "NextIteration", {"short_way:1"});
  // The constant arrives after the other input, and again in iterations in which this Merge waits in vain.
  Enter("first", "low", "f");
  g_.Float("first_out", "Exit", {"first"});
  g_.Float("later", "Identity", {"high", "^first_out"});
  Enter("second", "later", "f", true);
  Merge("either", {"second", "first", "^short_merge"});
  def.mutable_node(def.node_size() - 1)->mutable_attr()->at("N").set_i(2);
  g_.Float("out", "Exit", {"either"});
  g_.Float("sum", "Add", {"out", "exit"});
  for (auto& node : *def.mutable_node()) {
    if (node.op() == "Enter") (*node.mutable_attr())["parallel_iterations"].set_i(1);
  }
  SessionOptions one_thread;
  one_thread.inter_op_parallelism_threads = 1;
  const auto session = SessionWith(g_, one_thread);
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> out;
    const Status status = session->Run({}, {"sum"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0].scalar<float>(), 10.0f) << step;
  }
}

TEST_F(BadLoopsTest, TooManyNestedLoopsAreRefused) {
  std::string last = "zero";
  for (int i = 0; i < 1100; ++i) {
    const std::string name = "enter" + std::to_string(i);
    Enter(name, last, "f" + std::to_string(i));
    last = name;
  }
  g_.Float("out", "Exit", {last});
  EXPECT_THAT(Error("out"), HasSubstr("more than 1000 nested loops"));
}

}  // namespace
}  // namespace millrace
