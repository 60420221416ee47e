// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Every wait ends with its step: by its timeout, by the end of its session, by a Reset, by another error. The
// duration is printed, not checked, since a loaded machine may be slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/session/state_testing.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kMuchTooLong = std::chrono::seconds(5);
const std::vector<DataType> kFloats = {DataType::kFloat};

// A waiting op: nodes up to "op", and those that have to run first so that it waits.
struct Blocking {
  const char* name;
  std::function<void(DefBuilder&)> build;
  std::vector<std::string> prepare = {};
};
void PrintTo(const Blocking& b, std::ostream* os) { *os << b.name; }

void Queue(DefBuilder& g) {
  g.Node(
      "state", "FIFOQueueV2", {},
      {{"component_types", kFloats}, {"shapes", std::vector<PartialShape>{TensorShape()}}, {"capacity", 2}});
  g.Const("x", Tensor::Scalar(1.0f));
  g.Const("xs", Tensor::Vector<float>({1, 2}));
  g.Const("three", Tensor::Scalar(3));
  g.Node("fill", "QueueEnqueueManyV2", {"state", "xs"}, {{"Tcomponents", kFloats}});
}

void Barrier(DefBuilder& g) {
  g.Node("state", "Barrier", {},
         {{"component_types", kFloats}, {"shapes", std::vector<PartialShape>{TensorShape()}}});
  g.Const("three", Tensor::Scalar(3));
}

void Accumulator(DefBuilder& g, const char* kind) {
  g.Node("state", kind, {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape()}});
  g.Const("three", Tensor::Scalar(3));
}

AttrMap Area(int64_t capacity = 0) {
  AttrMap attrs = {{"dtypes", kFloats}, {"shared_name", "area"}};
  if (capacity > 0) attrs.Set("capacity", capacity);
  return attrs;
}

void Map(DefBuilder& g) {
  g.Const("key", Tensor::Scalar<int64_t>(7));
  g.Const("other_key", Tensor::Scalar<int64_t>(8));
  g.Const("first", Tensor::Vector<int32_t>({0}));
  g.Const("x", Tensor::Scalar(1.0f));
  g.Node("make", "MapSize", {}, Area(1));
  AttrMap stage = Area();
  stage.Set("fake_dtypes", kFloats);
  g.Node("fill", "MapStage", {"other_key", "first", "x"}, stage);
}

std::vector<Blocking> QueueOps() {
  const auto take = [](const char* op, bool many) {
    return [op, many](DefBuilder& g) {
      Queue(g);
      g.Node("op", op, many ? std::vector<std::string>{"state", "three"} : std::vector<std::string>{"state"},
             {{"component_types", kFloats}});
    };
  };
  const auto put = [](const char* op, const char* value) {
    return [op, value](DefBuilder& g) {
      Queue(g);
      g.Node("op", op, {"state", value}, {{"Tcomponents", kFloats}});
    };
  };
  return {
      {"Enqueue", put("QueueEnqueueV2", "x"), {"fill"}},
      {"EnqueueMany", put("QueueEnqueueManyV2", "xs"), {"fill"}},
      {"Dequeue", take("QueueDequeueV2", false)},
      {"DequeueMany", take("QueueDequeueManyV2", true), {"fill"}},
      {"DequeueUpTo", take("QueueDequeueUpToV2", true), {"fill"}},
      {"ReaderRead", [](DefBuilder& g) {
         g.Node("state", "FIFOQueueV2", {}, {{"component_types", std::vector<DataType>{DataType::kString}}});
         g.Node("reader", "IdentityReaderV2", {}, {});
         g.Node("op", "ReaderReadV2", {"reader", "state"}, {});
       }}};
}

std::vector<Blocking> OtherOps() {
  return {
      {"BarrierTakeMany",
       [](DefBuilder& g) {
         Barrier(g);
         g.Node("op", "BarrierTakeMany", {"state", "three"}, {{"component_types", kFloats}});
       }},
      {"AccumulatorTakeGradient",
       [](DefBuilder& g) {
         Accumulator(g, "ConditionalAccumulator");
         g.Node("op", "AccumulatorTakeGradient", {"state", "three"}, {{"dtype", DataType::kFloat}});
       }},
      {"SparseAccumulatorTakeGradient",
       [](DefBuilder& g) {
         Accumulator(g, "SparseConditionalAccumulator");
         g.Node("op", "SparseAccumulatorTakeGradient", {"state", "three"}, {{"dtype", DataType::kFloat}});
       }},
      {"Stage",
       [](DefBuilder& g) {
         g.Node("make", "StageSize", {}, Area(1));
         g.Const("x", Tensor::Scalar(1.0f));
         g.Node("fill", "Stage", {"x"}, Area());
         g.Node("op", "Stage", {"x"}, Area());
       },
       {"make", "fill"}},
      {"Unstage", [](DefBuilder& g) { g.Node("op", "Unstage", {}, Area()); }},
      {"StagePeek",
       [](DefBuilder& g) {
         g.Const("three", Tensor::Scalar(3));
         g.Node("op", "StagePeek", {"three"}, Area());
       }},
      {"MapStage",
       [](DefBuilder& g) {
         Map(g);
         AttrMap stage = Area();
         stage.Set("fake_dtypes", kFloats);
         g.Node("op", "MapStage", {"key", "first", "x"}, stage);
       },
       {"make", "fill"}},
      {"MapUnstage",
       [](DefBuilder& g) {
         Map(g);
         g.Node("op", "MapUnstage", {"key", "first"}, Area());
       },
       {"make", "fill"}},
      {"MapPeek",
       [](DefBuilder& g) {
         Map(g);
         g.Node("op", "MapPeek", {"key", "first"}, Area());
       }},
      {"MapUnstageNoKey",
       [](DefBuilder& g) {
         Map(g);
         g.Node("op", "MapUnstageNoKey", {"first"}, Area());
       }},
      {"OrderedMapUnstageNoKey",
       [](DefBuilder& g) {
         g.Const("first", Tensor::Vector<int32_t>({0}));
         g.Node("op", "OrderedMapUnstageNoKey", {"first"}, Area());
       }},
  };
}

// Ops that run for long: a second class is to be drawn, which practically never happens. One step draws, the
// others wait for their turn.
std::vector<Blocking> LongOps() {
  return {{"FixedUnigramCandidateSampler", [](DefBuilder& g) {
             g.Const("classes", Tensor::From<int64_t>({0}, {1, 1}));
             g.Node("op", "FixedUnigramCandidateSampler", {"classes"},
                    {{"num_true", 1},
                     {"num_sampled", 2},
                     {"unique", true},
                     {"range_max", 2},
                     {"unigrams", std::vector<float>{1e38f, 1e-45f}}});
           }}};
}

std::vector<Blocking> AllOps() {
  std::vector<Blocking> ops = QueueOps();
  for (Blocking& b : OtherOps()) ops.push_back(std::move(b));
  return ops;
}

class BlockingTest : public StateTest, public ::testing::WithParamInterface<Blocking> {
 protected:
  void SetUp() override {
    GetParam().build(graph_);
    graph_.Add("after", "NoOp", {"^op"});
    graph_.Placeholder("shape", tensorflow::DT_INT32);
    graph_.Const("values", Tensor::Vector<float>({1, 2}));
    graph_.Float("fails", "Reshape", {"values", "shape"});
    graph_.Add("both", "NoOp", {"^op", "^fails"});
    session();
    for (const std::string& target : GetParam().prepare) ASSERT_EQ(Do(target), Status()) << target;
  }
  // Prints the time since `begin`.
  void Took(const char* what, Clock::time_point begin) {
    const auto took = Clock::now() - begin;
    std::cout << GetParam().name << ", " << what << ": "
              << std::chrono::duration_cast<std::chrono::microseconds>(took).count() << " us\n";
    EXPECT_LT(took, kMuchTooLong);
  }
  // Starts steps that wait, ends them by `end`, and expects that error of each.
  void EndBy(const char* what, const std::function<void()>& end, bool (*expected)(const Status&)) {
    std::vector<std::thread> steps;
    steps.reserve(3);
    for (int i = 0; i < 3; ++i) {
      steps.emplace_back([&] {
        const Status status = Do("after");
        EXPECT_TRUE(expected(status)) << status;
      });
    }
    // The test cannot observe whether it waits already: it may also find the end when it arrives.
    EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(2, "after")));
    const auto begin = Clock::now();
    end();
    for (std::thread& t : steps) t.join();
    Took(what, begin);
  }
};

TEST_P(BlockingTest, ATimeoutEndsIt) {
  constexpr int kTimeoutMs = 5;
  const auto begin = Clock::now();
  const Status status = DoFor(kTimeoutMs, "after");
  EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
  Took("timeout", begin + std::chrono::milliseconds(kTimeoutMs));
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(1, "op"))) << "the one before has left the line";
}

TEST_P(BlockingTest, ClosingTheSessionEndsIt) {
  EndBy(
      "close", [&] { EXPECT_EQ(session().Close(), Status()); }, errors::IsCancelled);
}

TEST_P(BlockingTest, AResetEndsIt) {
  // A step that begins between the end of its state and that of its session finds nothing, or creates a new
  // area with room.
  const auto ended = [](const Status& s) {
    return s.ok() || errors::IsAborted(s) || errors::IsCancelled(s) || errors::IsNotFound(s);
  };
  EndBy(
      "reset", [&] { EXPECT_EQ(Reset(SessionOptions(), {}), Status()); }, ended);
}

TEST_P(BlockingTest, AnErrorBesideItEndsIt) {
  const auto begin = Clock::now();
  const Status status = Do("both", {{"shape", Tensor::Vector<int32_t>({3})}});
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
  Took("error", begin);
}

INSTANTIATE_TEST_SUITE_P(Ops, BlockingTest, ::testing::ValuesIn(AllOps()),
                         [](const auto& test) { return test.param.name; });

using BlockedOnAQueueTest = BlockingTest;

TEST_P(BlockedOnAQueueTest, ClosingTheQueueEndsIt) {
  session_.reset();
  graph_.Node("close", "QueueCloseV2", {"state"}, {{"cancel_pending_enqueues", true}});
  session();
  for (const std::string& target : GetParam().prepare) ASSERT_EQ(Do(target), Status()) << target;
  std::atomic<int> ended{0};
  std::vector<std::thread> steps;
  steps.reserve(3);
  for (int i = 0; i < 3; ++i) {
    steps.emplace_back([&] {
      const Status status = Do("after");
      // DequeueUpTo takes the rest.
      EXPECT_TRUE(status.ok() || errors::IsOutOfRange(status) || errors::IsCancelled(status)) << status;
      ++ended;
    });
  }
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(2, "after")));
  const auto begin = Clock::now();
  EXPECT_EQ(Do("close"), Status());
  for (std::thread& t : steps) t.join();
  Took("close of the queue", begin);
  EXPECT_EQ(ended, 3);
}

INSTANTIATE_TEST_SUITE_P(Ops, BlockedOnAQueueTest, ::testing::ValuesIn(QueueOps()),
                         [](const auto& test) { return test.param.name; });

using LongOpTest = BlockingTest;

// One step computes, and the step with the timeout waits for it.
TEST_P(LongOpTest, ItEndsAndSoDoesTheWaitForIt) {
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(5, "after")));
  EndBy(
      "close", [&] { EXPECT_EQ(session().Close(), Status()); }, errors::IsCancelled);
}

INSTANTIATE_TEST_SUITE_P(Ops, LongOpTest, ::testing::ValuesIn(LongOps()),
                         [](const auto& test) { return test.param.name; });

// A mutex that is held by the result of another step.
class HeldMutexTest : public StateTest {
 protected:
  void SetUp() override {
    graph_.Node("m", "MutexV2", {}, {{"shared_name", "held"}});
    graph_.Node("lock", "MutexLock", {"m"}, {});
    graph_.Node("wait", "MutexLock", {"m"}, {});
    graph_.Add("after", "NoOp", {"^wait"});
    auto out = Get({"lock"});
    ASSERT_TRUE(out.ok()) << out.status();
    held_ = *std::move(out);
  }
  std::vector<Tensor> held_;
};

TEST_F(HeldMutexTest, ATimeoutEndsTheWaitForAMutex) {
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(5, "after")));
  held_.clear();
  EXPECT_EQ(Do("after"), Status());
}

TEST_F(HeldMutexTest, ClosingTheSessionEndsTheWaitForAMutex) {
  std::thread step([&] { EXPECT_TRUE(errors::IsCancelled(Do("after"))); });
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(2, "after")));
  EXPECT_EQ(session().Close(), Status());
  step.join();
}

TEST_F(HeldMutexTest, ALockMayOutliveItsSession) {
  session_.reset();
  held_.clear();  // releases the mutex
}

}  // namespace
}  // namespace millrace
