// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/session/flow_builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
Tensor I(int32_t v) { return Tensor::Scalar(v); }

struct Setup {
  const char* name;
  int threads;
  int cpus;
  int64_t parallel_iterations;
};
void PrintTo(const Setup& s, std::ostream* os) { *os << s.name; }

class ControlFlowTest : public ::testing::TestWithParam<Setup> {
 protected:
  ControlFlowTest() { g_.parallel_iterations = GetParam().parallel_iterations; }
  static SessionOptions Options() {
    SessionOptions o;
    o.inter_op_parallelism_threads = GetParam().threads;
    o.intra_op_parallelism_threads = GetParam().threads;
    o.device_count["CPU"] = GetParam().cpus;
    return o;
  }
  // With several CPUs, nodes other than queues are placed on any of them by the hash of their names.
  std::unique_ptr<Session> Make() {
    const int cpus = GetParam().cpus;
    if (cpus > 1) {
      for (auto& node : *g_.mutable_def()->mutable_node()) {
        if (node.op().find("Queue") != std::string::npos) continue;
        node.set_device("/cpu:" + std::to_string(std::hash<std::string>()(node.name()) % cpus));
      }
    }
    return SessionWith(g_, Options());
  }
  Status RunFor(Session& s, const std::vector<std::pair<std::string, Tensor>>& feeds, const Names& fetches,
                std::vector<int32_t>* values) {
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(s.Run(feeds, fetches, {}, &out));
    values->clear();
    for (const Tensor& t : out) values->push_back(t.scalar<int32_t>());
    return Status();
  }
  FlowBuilder g_;
};

TEST_P(ControlFlowTest, SwitchAndMergeTakeOneWay) {
  g_.Placeholder("p", tensorflow::DT_BOOL);
  g_.Placeholder("x", tensorflow::DT_INT32);
  g_.Int("switch", "Switch", {"x", "p"});
  g_.Int("neg", "Neg", {"switch"});
  g_.Int("square", "Square", {"switch:1"});
  g_.Merge("merge", {"neg", "square"});
  const auto s = Make();
  std::vector<int32_t> got;
  ASSERT_TRUE(RunFor(*s, {{"p", Tensor::Scalar(true)}, {"x", I(7)}}, {"merge", "merge:1"}, &got).ok());
  EXPECT_EQ(got, (std::vector<int32_t>{49, 1}));
  ASSERT_TRUE(RunFor(*s, {{"p", Tensor::Scalar(false)}, {"x", I(7)}}, {"merge", "merge:1"}, &got).ok());
  EXPECT_EQ(got, (std::vector<int32_t>{-7, 0}));
  const Status dead = RunFor(*s, {{"p", Tensor::Scalar(false)}, {"x", I(7)}}, {"square"}, &got);
  EXPECT_TRUE(errors::IsInvalidArgument(dead));
  EXPECT_THAT(dead.message(),
              ::testing::EndsWith(InCluster() ? "The tensor returned for square:0 was not valid."
                                              : "Retval[0] does not have value"));
  const Status shape =
      RunFor(*s, {{"p", Tensor(DataType::kBool, TensorShape({2}))}, {"x", I(7)}}, {"merge"}, &got);
  EXPECT_THAT(shape.message(), HasSubstr("The second input must be a scalar, but it has shape [2]"));
}

TEST_P(ControlFlowTest, ALoopSumsUp) {
  g_.Placeholder("n", tensorflow::DT_INT32);
  g_.SumBelow("while", "n");
  const auto s = Make();
  for (const int32_t n : {0, 1, 2, 5, 10, 11, 12, 100, 1000}) {
    std::vector<int32_t> got;
    const Status status = RunFor(*s, {{"n", I(n)}}, {"while/Exit_0", "while/Exit_1"}, &got);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(got, (std::vector<int32_t>{n, n * (n - 1) / 2}));
  }
}

// The sum over i < n of the sums below i.
TEST_P(ControlFlowTest, ALoopInALoop) {
  g_.Placeholder("n", tensorflow::DT_INT32);
  g_.Value("zero", 0);
  g_.Enter("limit", "n", "outer", true);
  g_.While(
      "outer", {"zero", "zero"},
      [&](const std::string& p, const std::string&, const Names& v) {
        g_.Int(p + "/Less", "Less", {v[0], "limit"});
        return p + "/Less";
      },
      [&](const std::string& p, const std::string& pivot, const Names& v) {
        g_.Value(p + "/one", 1, {pivot});
        g_.Int(p + "/i", "Add", {v[0], p + "/one"});
        g_.Value(p + "/inner_zero", 0, {pivot});
        g_.Enter("inner/limit", v[0], "inner", true);
        g_.Enter("inner/one", p + "/one", "inner", true);
        g_.While(
            "inner", {p + "/inner_zero", p + "/inner_zero"},
            [&](const std::string& q, const std::string&, const Names& w) {
              g_.Int(q + "/Less", "Less", {w[0], "inner/limit"});
              return q + "/Less";
            },
            [&](const std::string& q, const std::string&, const Names& w) {
              g_.Int(q + "/i", "Add", {w[0], "inner/one"});
              g_.Int(q + "/sum", "Add", {w[1], w[0]});
              return Names{q + "/i", q + "/sum"};
            });
        g_.Int(p + "/sum", "Add", {v[1], "inner/Exit_1"});
        return Names{p + "/i", p + "/sum"};
      });
  const auto s = Make();
  for (const int32_t n : {0, 1, 2, 3, 20, 40}) {
    int32_t want = 0;
    for (int32_t i = 0; i < n; ++i) want += i * (i - 1) / 2;
    std::vector<int32_t> got;
    const Status status = RunFor(*s, {{"n", I(n)}}, {"outer/Exit_1"}, &got);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(got, (std::vector<int32_t>{want}));
  }
}

// Steps until 1 is reached by n/2 or 3n+1: the trip count and the branches depend on the data.
TEST_P(ControlFlowTest, AConditionInALoop) {
  g_.Placeholder("n", tensorflow::DT_INT32);
  g_.Value("zero", 0);
  g_.While(
      "collatz", {"n", "zero"},
      [&](const std::string& p, const std::string& pivot, const Names& v) {
        g_.Value(p + "/one", 1, {pivot});
        g_.Int(p + "/Greater", "Greater", {v[0], p + "/one"});
        return p + "/Greater";
      },
      [&](const std::string& p, const std::string& pivot, const Names& v) {
        for (const auto& [name, value] : {std::pair("/one", 1), {"/two", 2}, {"/three", 3}, {"/zero", 0}})
          g_.Value(p + name, value, {pivot});
        g_.Int(p + "/mod", "FloorMod", {v[0], p + "/two"});
        g_.Int(p + "/odd", "Equal", {p + "/mod", p + "/one"});
        g_.Int(p + "/switch", "Switch", {v[0], p + "/odd"});
        g_.Int(p + "/half", "FloorDiv", {p + "/switch", p + "/two"});
        g_.Int(p + "/triple", "Mul", {p + "/switch:1", p + "/three"});
        g_.Int(p + "/plus", "Add", {p + "/triple", p + "/one"});
        g_.Merge(p + "/merge", {p + "/half", p + "/plus"});
        g_.Int(p + "/count", "Add", {v[1], p + "/one"});
        return Names{p + "/merge", p + "/count"};
      });
  const auto s = Make();
  for (const int32_t n : {1, 2, 3, 7, 27}) {
    int32_t want = 0;
    for (int32_t m = n; m > 1; m = m % 2 == 1 ? 3 * m + 1 : m / 2) ++want;
    std::vector<int32_t> got;
    const Status status = RunFor(*s, {{"n", I(n)}}, {"collatz/Exit_1"}, &got);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(got, (std::vector<int32_t>{want}));
  }
}

TEST_P(ControlFlowTest, ALoopOnTheWayNotTakenIsDead) {
  g_.Placeholder("p", tensorflow::DT_BOOL);
  g_.Placeholder("n", tensorflow::DT_INT32);
  g_.Int("switch", "Switch", {"n", "p"});
  g_.Int("limit", "Identity", {"switch:1"});
  g_.Value("start", 0, {"^limit"});
  g_.Enter("while/limit", "limit", "while", true);
  g_.While(
      "while", {"start", "start"},
      [&](const std::string& p, const std::string&, const Names& v) {
        g_.Int(p + "/Less", "Less", {v[0], "while/limit"});
        return p + "/Less";
      },
      [&](const std::string& p, const std::string& pivot, const Names& v) {
        g_.Value(p + "/one", 1, {pivot});
        g_.Int(p + "/i", "Add", {v[0], p + "/one"});
        g_.Int(p + "/sum", "Add", {v[1], v[0]});
        return Names{p + "/i", p + "/sum"};
      });
  g_.Merge("merge", {"switch", "while/Exit_1"});
  const auto s = Make();
  std::vector<int32_t> got;
  ASSERT_TRUE(RunFor(*s, {{"p", Tensor::Scalar(false)}, {"n", I(9)}}, {"merge"}, &got).ok());
  EXPECT_EQ(got[0], 9);
  ASSERT_TRUE(RunFor(*s, {{"p", Tensor::Scalar(true)}, {"n", I(9)}}, {"merge"}, &got).ok());
  EXPECT_EQ(got[0], 36);
}

TEST_P(ControlFlowTest, AnErrorInALoopEndsTheStep) {
  g_.Placeholder("n", tensorflow::DT_INT32);
  g_.While(
      "while", {"n"},
      [&](const std::string& p, const std::string& pivot, const Names& v) {
        g_.Value(p + "/least", -10, {pivot});
        g_.Int(p + "/Greater", "Greater", {v[0], p + "/least"});
        return p + "/Greater";
      },
      [&](const std::string& p, const std::string& pivot, const Names& v) {
        g_.Value(p + "/one", 1, {pivot});
        g_.Int(p + "/div", "FloorDiv", {p + "/one", v[0]});
        g_.Int(p + "/i", "Sub", {v[0], p + "/one"})->add_input("^" + p + "/div");
        return Names{p + "/i"};
      });
  const auto s = Make();
  for (int i = 0; i < 3; ++i) {
    std::vector<int32_t> got;
    const Status status = RunFor(*s, {{"n", I(5)}}, {"while/Exit_0"}, &got);
    EXPECT_THAT(status.message(), HasSubstr("division by zero"));
    EXPECT_THAT(status.message(), HasSubstr("while/body/div"));
    ASSERT_TRUE(RunFor(*s, {{"n", I(-3)}}, {"while/Exit_0"}, &got).ok());
    EXPECT_EQ(got[0], -10);
  }
}

TEST_P(ControlFlowTest, AnEndlessLoopEndsByTimeout) {
  g_.Value("zero", 0);
  g_.While(
      "while", {"zero"},
      [&](const std::string& p, const std::string& pivot, const Names& v) {
        g_.Value(p + "/least", -10, {pivot});
        g_.Int(p + "/Greater", "Greater", {v[0], p + "/least"});
        return p + "/Greater";
      },
      [&](const std::string&, const std::string&, const Names& v) { return v; });
  const auto s = Make();
  RunOptions options;
  options.timeout_in_ms = 50;
  std::vector<Tensor> out;
  EXPECT_TRUE(errors::IsDeadlineExceeded(s->Run(options, {}, {"while/Exit_0"}, {}, &out, nullptr)));
}

// Consumers of a dequeue must run although the only thread is busy with the loop.
TEST_P(ControlFlowTest, AnEndlessLoopLetsOtherNodesRun) {
  g_.Value("zero", 0);
  g_.While(
      "w", {"zero"},
      [&](const std::string& p, const std::string& pivot, const Names&) {
        g_.Const(p + "/true", Tensor::Scalar(true))->add_input(pivot);
        return p + "/true";
      },
      [](const std::string&, const std::string&, const Names& v) { return v; });
  (*g_.Add("queue", "FIFOQueueV2", {})->mutable_attr())["component_types"].mutable_list()->add_type(
      tensorflow::DT_BOOL);
  (*g_.Add("put", "QueueEnqueueV2", {"queue", "no"})->mutable_attr())["Tcomponents"].mutable_list()->add_type(
      tensorflow::DT_BOOL);
  (*g_.Add("take", "QueueDequeueV2", {"queue"})->mutable_attr())["component_types"].mutable_list()->add_type(
      tensorflow::DT_BOOL);
  g_.Const("no", Tensor::Scalar(false));
  g_.Const("text", Tensor::Scalar("enough"));
  (*g_.Add("fails", "Assert", {"take", "text"})->mutable_attr())["T"].mutable_list()->add_type(
      tensorflow::DT_STRING);
  const auto session = Make();
  std::thread opener([&] { EXPECT_EQ(session->Run({}, {}, {"put"}, nullptr), Status()); });
  RunOptions options;
  options.timeout_in_ms = 60'000;
  const Status status = session->Run(options, {}, {}, {"fails", "w/Exit_0"}, nullptr, nullptr);
  opener.join();
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr("enough"));
}

TEST_P(ControlFlowTest, ManyStepsAtTheSameTime) {
  g_.Placeholder("n", tensorflow::DT_INT32);
  g_.SumBelow("while", "n");
  const auto s = Make();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int32_t i = 0; i < 20; ++i) {
        const int32_t n = 10 * t + i;
        std::vector<int32_t> got;
        ASSERT_TRUE(RunFor(*s, {{"n", I(n)}}, {"while/Exit_1"}, &got).ok());
        EXPECT_EQ(got[0], n * (n - 1) / 2);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_P(ControlFlowTest, AMillionIterations) {
  if (GetParam().cpus > 1) GTEST_SKIP() << "slow across devices; the short loops above cover it";
  g_.Placeholder("n", tensorflow::DT_INT32);
  g_.SumBelow("while", "n");
  const auto s = Make();
  std::vector<int32_t> got;
  // Messages between tasks and copies by streams take longer than an iteration.
  const int n = InCluster() || OnFakeDevices() ? 2'000 : 1'000'000;
  ASSERT_TRUE(RunFor(*s, {{"n", I(n)}}, {"while/Exit_0"}, &got).ok());
  EXPECT_EQ(got[0], n);
}

INSTANTIATE_TEST_SUITE_P(Setups, ControlFlowTest,
                         ::testing::Values(Setup{"one_thread", 1, 1, 10}, Setup{"threads", 4, 1, 10},
                                           Setup{"one_at_a_time", 4, 1, 1}, Setup{"window_of_32", 1, 1, 32},
                                           Setup{"two_cpus", 1, 2, 10}, Setup{"three_cpus", 4, 3, 10},
                                           Setup{"three_cpus_one_at_a_time", 2, 3, 1}),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace millrace
