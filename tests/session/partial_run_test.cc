// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

Tensor F(float v) { return Tensor::Scalar(v); }

struct Setup {
  const char* name;
  int cpus;
  int threads;
};

// r1 = a + b; r2 = r1 * c; other = c + 1; with several CPUs every second node is on another one.
class PartialRunTest : public ::testing::TestWithParam<Setup> {
 protected:
  PartialRunTest() {
    graph_.Placeholder("a");
    graph_.Placeholder("b");
    graph_.Placeholder("c");
    graph_.Const("one", F(1));
    graph_.Float("r1", "Add", {"a", "b"});
    Elsewhere(graph_.Float("r2", "Mul", {"r1", "c"}));
    Elsewhere(graph_.Float("other", "Add", {"c", "one"}));
    graph_.Add("after", "NoOp", {"^r2"});
  }
  void Elsewhere(tensorflow::NodeDef* node) const {
    if (GetParam().cpus > 1) node->set_device("/cpu:1");
  }
  SessionOptions Options() const {
    SessionOptions options;
    options.device_count["CPU"] = GetParam().cpus;
    options.inter_op_parallelism_threads = GetParam().threads;
    return options;
  }
  std::unique_ptr<Session> Make() const { return SessionWith(graph_, Options()); }
  static std::string Begin(Session& session, const std::vector<std::string>& feeds,
                           const std::vector<std::string>& fetches,
                           const std::vector<std::string>& targets = {}) {
    const auto handle = session.PRunSetup(feeds, fetches, targets);
    EXPECT_TRUE(handle.ok()) << handle.status();
    return handle.value_or("");
  }
  static void ExpectInvalid(const Status& status, const std::string& text) {
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    EXPECT_EQ(status.message(), text);
  }

  DefBuilder graph_;
};

TEST_P(PartialRunTest, FeedsAndFetchesComeInSeveralCalls) {
  const auto s = Make();
  const std::string h = Begin(*s, {"a", "b", "c"}, {"r1", "r2"});
  std::vector<Tensor> out;
  ASSERT_TRUE(s->PRun(h, {{"a", F(1)}, {"b", F(2)}}, {"r1"}, &out).ok());
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].scalar<float>(), 3);
  ASSERT_TRUE(s->PRun(h, {{"c", F(17)}}, {"r2:0"}, &out).ok());
  EXPECT_EQ(out[0].scalar<float>(), 51);
  ExpectInvalid(s->PRun(h, {}, {"r2"}, &out), "Must run 'setup' before performing partial runs!");
}

TEST_P(PartialRunTest, CallsMayOnlyFeedOrOnlyFetchAndRepeatAFetch) {
  const auto s = Make();
  const std::string h = Begin(*s, {"a", "b:0", "c"}, {"r2", "other", "b"});
  std::vector<Tensor> out;
  EXPECT_TRUE(s->PRun(h, {{"c:0", F(4)}}, {}, nullptr).ok());
  EXPECT_TRUE(s->PRun(h, {}, {}, &out).ok());
  ASSERT_TRUE(s->PRun(h, {}, {"other", "other:0"}, &out).ok());
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].scalar<float>(), 5);
  ASSERT_TRUE(s->PRun(h, {{"b", F(10)}}, {"b"}, &out).ok());
  EXPECT_EQ(out[0].scalar<float>(), 10) << "a fed tensor can be fetched";
  ASSERT_TRUE(s->PRun(h, {{"a", F(1)}}, {"r2"}, &out).ok());
  EXPECT_EQ(out[0].scalar<float>(), 44);
}

TEST_P(PartialRunTest, WhatWasNotNamedOrComesTwiceIsRefusedAndChangesNothing) {
  const auto s = Make();
  const std::string h = Begin(*s, {"a", "b"}, {"r1", "a"});
  std::vector<Tensor> out;
  ExpectInvalid(s->PRun(h, {{"c", F(1)}}, {}, &out), "The feed c was not specified in partial_run_setup.");
  ExpectInvalid(s->PRun(h, {}, {"r2"}, &out), "The fetch r2 was not specified in partial_run_setup.");
  ExpectInvalid(s->PRun(h, {{"a", F(1)}, {"a:0", F(1)}}, {}, &out), "The feed a:0 has already been fed.");
  ASSERT_TRUE(s->PRun(h, {{"a", F(1)}}, {"a"}, &out).ok());
  ExpectInvalid(s->PRun(h, {{"a", F(5)}}, {}, &out), "The feed a has already been fed.");
  ExpectInvalid(s->PRun(h, {}, {"a"}, &out), "The fetch a has already been fetched.");
  ExpectInvalid(s->PRun(h, {{"b", Tensor::Scalar<int32_t>(1)}}, {}, &out),
                "Expects arg[0] to be float but int32 is provided");
  ASSERT_TRUE(s->PRun(h, {{"b", F(2)}}, {"r1"}, &out).ok());
  EXPECT_EQ(out[0].scalar<float>(), 3);
}

TEST_P(PartialRunTest, AFetchNeedsItsFeedsFirst) {
  const auto s = Make();
  const std::string h = Begin(*s, {"a", "b", "c"}, {"r1", "r2", "c"});
  std::vector<Tensor> out;
  ExpectInvalid(s->PRun(h, {{"a", F(1)}}, {"r1"}, &out),
                "Fetch b:0 can't be computed from the feeds that have been fed so far.");
  ExpectInvalid(s->PRun(h, {}, {"c"}, &out),
                "Fetch c:0 can't be computed from the feeds that have been fed so far.");
  ASSERT_TRUE(s->PRun(h, {{"a", F(1)}, {"b", F(1)}}, {"r1"}, &out).ok())
      << "a was not fed by the refused call";
  ExpectInvalid(s->PRun(h, {}, {"r2"}, &out),
                "Fetch c:0 can't be computed from the feeds that have been fed so far.");
  ASSERT_TRUE(s->PRun(h, {{"c", F(3)}}, {"r2", "c"}, &out).ok());
  EXPECT_EQ(out[0].scalar<float>(), 6);
}

TEST_P(PartialRunTest, AFedTensorHidesWhatIsBehindIt) {
  const auto s = Make();
  const std::string h = Begin(*s, {"a", "b", "r1", "c"}, {"r2"});
  std::vector<Tensor> out;
  ASSERT_TRUE(s->PRun(h, {{"r1", F(7)}, {"c", F(2)}}, {"r2"}, &out).ok());
  EXPECT_EQ(out[0].scalar<float>(), 14);
  EXPECT_TRUE(s->PRun(h, {{"a", F(0)}, {"b", F(0)}}, {}, &out).ok()) << "feeds that nothing uses end the run";
}

TEST_P(PartialRunTest, TargetsRunAndTheLastCallWaitsForThem) {
  graph_.Variable("v", 5);
  graph_.Float("bump", "AssignAdd", {"v", "c"});
  const auto s = Make();
  ASSERT_TRUE(s->Run({}, {}, {"v/Assign"}, nullptr).ok());
  const std::string h = Begin(*s, {"a", "b", "c"}, {"r1"}, {"bump"});
  std::vector<Tensor> out;
  ASSERT_TRUE(s->PRun(h, {{"a", F(1)}, {"b", F(1)}}, {"r1"}, &out).ok());
  ASSERT_TRUE(s->PRun(h, {{"c", F(4)}}, {}, nullptr).ok());
  ASSERT_TRUE(s->Run({}, {"v"}, {}, &out).ok());
  EXPECT_EQ(out[0].scalar<float>(), 9);
}

TEST_P(PartialRunTest, SeveralAtTheSameTimeDoNotInterfere) {
  const auto s = Make();
  std::vector<std::string> handles;
  for (int i = 0; i < 20; ++i) {
    handles.push_back(Begin(*s, {"a", "b", "c"}, {"r1", "r2"}));
    EXPECT_TRUE(s->PRun(handles.back(), {{"a", F(static_cast<float>(i))}}, {}, nullptr).ok());
  }
  for (size_t i = handles.size(); i-- > 0;) {
    std::vector<Tensor> out;
    ASSERT_TRUE(s->PRun(handles[i], {{"b", F(1)}}, {"r1"}, &out).ok());
    EXPECT_EQ(out[0].scalar<float>(), static_cast<float>(i) + 1);
    std::vector<Tensor> run;
    ASSERT_TRUE(s->Run({{"c", F(1)}}, {"other"}, {}, &run).ok()) << "Runs continue beside them";
    ASSERT_TRUE(s->PRun(handles[i], {{"c", F(2)}}, {"r2"}, &out).ok());
    EXPECT_EQ(out[0].scalar<float>(), 2 * (static_cast<float>(i) + 1));
  }
}

TEST_P(PartialRunTest, ManyThreadsEachWithRunsOfTheirOwn) {
  const auto s = Make();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&s, t] {
      for (int i = 0; i < 25; ++i) {
        const std::string h = Begin(*s, {"a", "b", "c"}, {"r1", "r2"});
        std::vector<Tensor> out;
        ASSERT_TRUE(s->PRun(h, {{"a", F(static_cast<float>(t))}, {"b", F(1)}}, {"r1"}, &out).ok());
        EXPECT_EQ(out[0].scalar<float>(), static_cast<float>(t) + 1);
        if (i % 5 == 0) continue;  // abandoned
        ASSERT_TRUE(s->PRun(h, {{"c", F(2)}}, {"r2"}, &out).ok());
        EXPECT_EQ(out[0].scalar<float>(), 2 * (static_cast<float>(t) + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(PartialRunTest, AnErrorEndsTheRun) {
  graph_.Placeholder("m");
  Elsewhere(graph_.Float("product", "MatMul", {"m", "m"}));
  const auto s = Make();
  const std::string h = Begin(*s, {"m", "a", "b"}, {"product", "r1"});
  std::vector<Tensor> out;
  const Status status = s->PRun(h, {{"m", Tensor(DataType::kFloat, TensorShape({2, 3}))}}, {"product"}, &out);
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("product"));
  ExpectInvalid(s->PRun(h, {{"a", F(1)}, {"b", F(1)}}, {"r1"}, &out),
                "Must run 'setup' before performing partial runs!");
}

TEST_P(PartialRunTest, SetupRefusesWhatRunRefuses) {
  const auto s = Make();
  EXPECT_TRUE(errors::IsInvalidArgument(s->PRunSetup({"a"}, {}, {}).status()));
  EXPECT_TRUE(errors::IsInvalidArgument(s->PRunSetup({"nope"}, {"r1"}, {}).status()));
  EXPECT_TRUE(errors::IsInvalidArgument(s->PRunSetup({"a"}, {"nope"}, {}).status()));
  EXPECT_TRUE(errors::IsNotFound(s->PRunSetup({"a"}, {"r1"}, {"nope"}).status()));
  EXPECT_TRUE(errors::IsInvalidArgument(s->PRunSetup({"a", "a:0"}, {"r1"}, {}).status()));
  std::vector<Tensor> out;
  for (const char* handle : {"", "partial_run;7", "no handle"}) {
    ExpectInvalid(s->PRun(handle, {}, {}, &out), "Must run 'setup' before performing partial runs!");
  }
  const auto empty = NewSession(Options());
  ExpectInvalid((*empty)->PRunSetup({}, {"x"}, {}).status(),
                "Session was not created with a graph before PRunSetup()!");
}

TEST_P(PartialRunTest, AbandonedRunsEndWithTheirSession) {
  auto s = Make();
  std::string h;
  for (int i = 0; i < 5; ++i) h = Begin(*s, {"a", "b", "c"}, {"r2"});
  ASSERT_TRUE(s->PRun(h, {{"a", F(1)}}, {}, nullptr).ok());
  s.reset();
}

TEST_P(PartialRunTest, CloseEndsRunsAndRefusesLaterCalls) {
  const auto s = Make();
  const std::string h = Begin(*s, {"a", "b"}, {"r1"});
  ASSERT_TRUE(s->PRun(h, {{"a", F(1)}}, {}, nullptr).ok());
  ASSERT_TRUE(s->Close().ok());
  std::vector<Tensor> out;
  for (const Status& status :
       {s->PRun(h, {{"b", F(1)}}, {"r1"}, &out), s->PRunSetup({"a", "b"}, {"r1"}, {}).status()}) {
    EXPECT_TRUE(errors::IsCancelled(status)) << status;
    EXPECT_EQ(status.message(), "Session has been closed.");
  }
}

// A fetch that is never available: a dequeue of an empty queue.
void AddEmptyQueue(DefBuilder* graph) {
  auto* queue = graph->Add("queue", "FIFOQueueV2", {});
  (*queue->mutable_attr())["component_types"].mutable_list()->add_type(tensorflow::DT_FLOAT);
  auto* dequeue = graph->Add("dequeue", "QueueDequeueV2", {"queue"});
  (*dequeue->mutable_attr())["component_types"].mutable_list()->add_type(tensorflow::DT_FLOAT);
}

TEST_P(PartialRunTest, CloseWakesACallThatWaits) {
  AddEmptyQueue(&graph_);
  const auto s = Make();
  const std::string h = Begin(*s, {"a", "b"}, {"r1", "dequeue"});
  std::thread closer([&s] { s->Close().IgnoreError("cannot fail"); });
  std::vector<Tensor> out;
  const Status status = s->PRun(h, {}, {"dequeue"}, &out);
  closer.join();
  EXPECT_TRUE(errors::IsCancelled(status)) << status;
  EXPECT_EQ(status.message(), "Session has been closed.");
}

TEST_P(PartialRunTest, ACallThatTakesTooLongEndsTheRun) {
  AddEmptyQueue(&graph_);
  SessionOptions options = Options();
  options.operation_timeout_in_ms = 20;
  const auto s = SessionWith(graph_, options);
  const std::string h = Begin(*s, {"a", "b"}, {"r1", "dequeue"});
  std::vector<Tensor> out;
  const Status status = s->PRun(h, {}, {"dequeue"}, &out);
  EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
  ExpectInvalid(s->PRun(h, {{"a", F(1)}}, {}, &out), "Must run 'setup' before performing partial runs!");
}

int NumThreads() {
  int n = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ++n;
  return n;
}

TEST_P(PartialRunTest, OpenRunsHoldNoThreads) {
  constexpr int kRuns = 500;
  const auto s = Make();
  const int before = NumThreads();
  std::vector<std::string> handles;
  for (int i = 0; i < kRuns; ++i) {
    handles.push_back(Begin(*s, {"a", "b", "c"}, {"r1", "r2"}));
    std::vector<Tensor> out;
    ASSERT_TRUE(s->PRun(handles.back(), {{"a", F(1)}, {"b", F(static_cast<float>(i))}}, {"r1"}, &out).ok());
    EXPECT_EQ(out[0].scalar<float>(), static_cast<float>(i) + 1);
  }
  EXPECT_LE(NumThreads(), before + 8);
  for (int i = 0; i < kRuns; i += 2) {  // the others are left open
    std::vector<Tensor> out;
    ASSERT_TRUE(s->PRun(handles[static_cast<size_t>(i)], {{"c", F(2)}}, {"r2"}, &out).ok());
    EXPECT_EQ(out[0].scalar<float>(), 2 * (static_cast<float>(i) + 1));
  }
}

// The nodes that need no feed, including an endless loop, run while the client continues.
TEST_P(PartialRunTest, SetupWaitsForNoNode) {
  auto* enter = graph_.Float("enter", "Enter", {"one"});
  (*enter->mutable_attr())["frame_name"].set_s("for ever");
  (*graph_.Float("merge", "Merge", {"enter", "next"})->mutable_attr())["N"].set_i(2);
  (*graph_.Const("yes", Tensor::Scalar(true))).add_input("^merge");
  graph_.Add("cond", "LoopCond", {"yes"});
  graph_.Float("way", "Switch", {"merge", "cond"});
  graph_.Float("next", "NextIteration", {"way:1"});
  graph_.Float("exit", "Exit", {"way"});
  SessionOptions options = Options();
  options.operation_timeout_in_ms = 500;
  const auto s = SessionWith(graph_, options);
  const std::string endless = Begin(*s, {"a", "b"}, {"r1", "exit"});
  std::vector<Tensor> out;
  const Status status = s->PRun(endless, {}, {"exit"}, &out);
  EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
  // Its thread is free again. The timeout of the session is short for a busy machine.
  Status after = status;
  for (int i = 0; i < 20 && errors::IsDeadlineExceeded(after); ++i) {
    const std::string next = Begin(*s, {"a", "b"}, {"r1"});
    after = s->PRun(next, {{"a", F(1)}, {"b", F(2)}}, {"r1"}, &out);
  }
  EXPECT_TRUE(after.ok()) << after;
  Begin(*s, {"a", "b"}, {"r1", "exit"});  // ends with the session
}

INSTANTIATE_TEST_SUITE_P(Setups, PartialRunTest,
                         ::testing::Values(Setup{"OneThread", 1, 1}, Setup{"FourThreads", 1, 4},
                                           Setup{"TwoDevices", 2, 2}),
                         [](const auto& setup) { return setup.param.name; });

}  // namespace
}  // namespace millrace
