// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Loops whose bodies wait for state of the session; exported loops; loops in traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "graph/graph_import.h"
#include "millrace/run_metadata.h"
#include "tests/session/flow_builder.h"

namespace millrace {
namespace {

using Ints = std::vector<int32_t>;

struct LoopSetup {
  const char* name;
  int threads;
  int64_t parallel_iterations;
};
void PrintTo(const LoopSetup& s, std::ostream* os) { *os << s.name; }

class LoopStateTest : public ::testing::TestWithParam<LoopSetup> {
 protected:
  void SetUp() override {
    g_.parallel_iterations = GetParam().parallel_iterations;
    for (const char* name : {"n", "x", "xs"}) g_.Placeholder(name, tensorflow::DT_INT32);
    g_.Value("zero", 0);
    options_.inter_op_parallelism_threads = options_.intra_op_parallelism_threads = GetParam().threads;
  }
  // A queue of int32 scalars, and nodes outside of the loop that change it.
  void Queue(int64_t capacity) {
    const AttrMap types = {{"Tcomponents", kInt}};
    g_.Node("q", "FIFOQueueV2", {},
            {{"component_types", kInt},
             {"shapes", std::vector<PartialShape>{TensorShape()}},
             {"capacity", capacity}});
    g_.Node("enqueue", "QueueEnqueueV2", {"q", "x"}, types);
    g_.Node("enqueue_many", "QueueEnqueueManyV2", {"q", "xs"}, types);
    g_.Add("size", "QueueSizeV2", {"q"});
    g_.Add("close", "QueueCloseV2", {"q"});
    g_.Node("loop/q", "Enter", {"q"},
            {{"T", DataType::kResource},
             {"frame_name", "loop"},
             {"is_constant", true},
             {"parallel_iterations", g_.parallel_iterations}});
  }
  // for (i = 0, sum = 0; i < n; ++i) sum = body(i, sum).
  void Loop(const std::function<std::string(const std::string& pivot, const std::string& i,
                                            const std::string& sum)>& body) {
    g_.Enter("loop/limit", "n", "loop", true);
    g_.While(
        "loop", {"zero", "zero"},
        [&](const std::string& p, const std::string&, const Names& v) {
          g_.Int(p + "/Less", "Less", {v[0], "loop/limit"});
          return p + "/Less";
        },
        [&](const std::string& p, const std::string& pivot, const Names& v) {
          g_.Value(p + "/one", 1, {pivot});
          g_.Int(p + "/i", "Add", {v[0], p + "/one"});
          return Names{p + "/i", body(pivot, v[0], v[1])};
        });
  }
  // Takes an element in each iteration; iterations don't wait for one another before they dequeue.
  void LoopThatTakes() {
    Queue(-1);
    Loop([&](const std::string& pivot, const std::string&, const std::string& sum) {
      g_.Node("take", "QueueDequeueV2", {"loop/q", pivot}, {{"component_types", kInt}});
      g_.Int("sum", "Add", {sum, "take"});
      return "sum";
    });
    session_ = SessionWith(g_, options_);
  }
  StatusOr<int32_t> Sum(int32_t n, int64_t timeout_ms = 0) {
    RunOptions run;
    run.timeout_in_ms = timeout_ms;
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session_->Run(run, {{"n", Tensor::Scalar(n)}}, {"loop/Exit_1"}, {}, &out, nullptr));
    return out[0].scalar<int32_t>();
  }
  Status Put(const Ints& values) {
    return session_->Run({{"xs", Tensor::Vector<int32_t>(values)}}, {}, {"enqueue_many"}, nullptr);
  }
  int32_t Size() {
    std::vector<Tensor> out;
    EXPECT_EQ(session_->Run({}, {"size"}, {}, &out), Status());
    return out.empty() ? -1 : out[0].scalar<int32_t>();
  }

  static inline const std::vector<DataType> kInt = {DataType::kInt32};
  FlowBuilder g_;
  SessionOptions options_;
  std::unique_ptr<Session> session_;
};

TEST_P(LoopStateTest, ABodyTakesAvailableValues) {
  LoopThatTakes();
  ASSERT_EQ(Put({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}), Status());
  const auto sum = Sum(15);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, 15 * 16 / 2);
  EXPECT_EQ(Size(), 5);
}

TEST_P(LoopStateTest, ABodyWaitsForWhatOtherStepsPut) {
  LoopThatTakes();
  for (int round = 0; round < 20; ++round) {
    std::thread other([&] {
      for (int i = 0; i < 40; ++i) EXPECT_EQ(Put({i, 1}), Status());
    });
    const auto sum = Sum(80);
    other.join();
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(*sum, 40 * 39 / 2 + 40);
  }
  EXPECT_EQ(Size(), 0);
}

TEST_P(LoopStateTest, ABodyThatPutsAndTakesIsPaced) {
  Queue(/*capacity=*/1);
  Loop([&](const std::string& pivot, const std::string& i, const std::string& sum) {
    g_.Node("put", "QueueEnqueueV2", {"loop/q", i}, {{"Tcomponents", kInt}});
    g_.Node("take", "QueueDequeueV2", {"loop/q", pivot}, {{"component_types", kInt}});
    g_.Int("sum", "Add", {sum, "take"});
    g_.Int("sum/after_put", "Identity", {"sum", "^put"});
    return "sum/after_put";
  });
  session_ = SessionWith(g_, options_);
  for (int round = 0; round < 10; ++round) {
    const auto sum = Sum(100);
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(*sum, 100 * 99 / 2);
  }
}

TEST_P(LoopStateTest, ATimeoutEndsABodyThatWaits) {
  LoopThatTakes();
  ASSERT_EQ(Put({1, 1, 1}), Status());
  for (int round = 0; round < 5; ++round) {
    EXPECT_TRUE(errors::IsDeadlineExceeded(Sum(8, /*timeout_ms=*/10).status()));
  }
  // Waiting dequeues were removed from the queue: later elements go to others.
  const int32_t left = Size();
  EXPECT_LE(left, 3);
  ASSERT_EQ(Put({1, 1}), Status());
  const auto sum = Sum(left + 2);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, left + 2);
}

TEST_P(LoopStateTest, AnErrorInABodyEndsItsNeighbours) {
  LoopThatTakes();
  std::thread other([&] {
    EXPECT_EQ(Put({1, 2}), Status());
    EXPECT_EQ(session_->Run({}, {}, {"close"}, nullptr), Status());
  });
  EXPECT_TRUE(errors::IsOutOfRange(Sum(50).status()));
  other.join();
}

TEST_P(LoopStateTest, ClosingTheSessionEndsABodyThatWaits) {
  LoopThatTakes();
  std::vector<std::thread> runs;
  runs.reserve(3);
  for (int i = 0; i < 3; ++i) {
    runs.emplace_back([&] { EXPECT_TRUE(errors::IsCancelled(Sum(20).status())); });
  }
  // A running loop may have taken missing elements.
  ASSERT_EQ(Put({1, 2, 3}), Status());
  while (Size() > 0) std::this_thread::yield();
  ASSERT_EQ(session_->Close(), Status());
  for (std::thread& t : runs) t.join();
}

TEST_P(LoopStateTest, ATraceHasARowForEveryNodeOfEveryIteration) {
  if (NodesAreSpread()) GTEST_SKIP() << "there would be control loops";
  options_.disabled_passes.insert("all");
  g_.SumBelow("while", "n");
  g_.Add("nothing", "NoOp", {"^while/Exit_1"});
  session_ = SessionWith(g_, options_);
  RunOptions run;
  run.trace_level = RunOptions::TraceLevel::kFull;
  RunMetadata metadata;
  ASSERT_EQ(session_->Run(run, {{"n", Tensor::Scalar(5)}}, {}, {"nothing"}, nullptr, &metadata), Status());
  std::map<std::string, int> rows;
  for (const DeviceStats& device : metadata.devices) {
    for (const NodeStats& node : device.nodes) {
      ++rows[node.op == "NoOp" ? node.node : node.op];
      EXPECT_LE(node.start_ns, node.end_ns) << node.node;
    }
  }
  // Five iterations run the body, and the sixth detects the end. Dead nodes don't run.
  EXPECT_EQ(rows["Enter"], 3);
  EXPECT_EQ(rows["Merge"], 2 * 6);
  EXPECT_EQ(rows["Less"], 6);
  EXPECT_EQ(rows["LoopCond"], 6);
  EXPECT_EQ(rows["Switch"], 2 * 6);
  EXPECT_EQ(rows["NextIteration"], 2 * 5);
  EXPECT_EQ(rows["Add"], 2 * 5);
  EXPECT_EQ(rows["Exit"], 1) << "the other one was not requested";
  EXPECT_EQ(rows["nothing"], 1);
}

TEST_P(LoopStateTest, AnExportedLoopComputesTheSame) {
  LoopThatTakes();
  g_.SumBelow("while", "n");
  Graph graph(OpRegistry::Global());
  ASSERT_EQ(ImportGraphDef(g_.def(), ImportOptions(), &graph), Status());
  tensorflow::GraphDef exported;
  ExportGraphDef(graph, &exported);
  EXPECT_EQ(exported.node_size(), g_.def().node_size());
  session_ = *NewSession(options_);
  ASSERT_EQ(session_->Create(exported), Status());
  ASSERT_EQ(Put({4, 5, 6, 7, 8, 9, 10, 11, 12, 13}), Status());
  std::vector<Tensor> out;
  ASSERT_EQ(session_->Run({{"n", Tensor::Scalar(10)}}, {"while/Exit_1", "loop/Exit_1"}, {}, &out), Status());
  EXPECT_EQ(out[0].scalar<int32_t>(), 45);
  EXPECT_EQ(out[1].scalar<int32_t>(), 85);
}

INSTANTIATE_TEST_SUITE_P(Setups, LoopStateTest,
                         ::testing::Values(LoopSetup{"one_thread", 1, 10},
                                           LoopSetup{"one_iteration_at_a_time", 1, 1},
                                           LoopSetup{"four_threads", 4, 10},
                                           LoopSetup{"four_threads_many_iterations", 4, 32}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace millrace
