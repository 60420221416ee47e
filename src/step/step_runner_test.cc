// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Steps of one worker: their ends, successful or otherwise.
#include "step/step_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/notification.h"
#include "base/step_cancelled.h"
#include "base/thread_pool.h"
#include "graph/graph_import.h"
#include "graph/testing.h"
#include "step/deadline.h"
#include "step/local_rendezvous.h"
#include "step/local_worker.h"
#include "step/step_compiler.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr char kNodes[] = R"(
  node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "y" op: "Square" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "checked" op: "CheckNumerics" input: "x" attr { key: "T" value { type: DT_FLOAT } }
         attr { key: "message" value { s: "not a number" } } }
  node { name: "queue" op: "FIFOQueueV2"
         attr { key: "component_types" value { list { type: DT_FLOAT } } } }
  node { name: "get" op: "QueueDequeueV2" input: "queue"
         attr { key: "component_types" value { list { type: DT_FLOAT } } } }
  node { name: "put" op: "QueueEnqueueV2" input: "queue" input: "x"
         attr { key: "Tcomponents" value { list { type: DT_FLOAT } } } }
  node { name: "mutex" op: "MutexV2" }
  node { name: "lock" op: "MutexLock" input: "mutex" }
  node { name: "lock_after_put" op: "MutexLock" input: "mutex" input: "^put" })";

class StepRunnerTest : public ::testing::Test {
 protected:
  StepRunnerTest() { worker_.functions().SetCompiler(&compiler_); }
  ~StepRunnerTest() override {
    steps_.clear();
    worker_.functions().DropInstances();
  }

  const CompiledStep& Compile(const RunSignature& signature) {
    Graph graph(OpRegistry::Global());
    EXPECT_TRUE(ImportGraphDef(GraphDefFromText(kNodes), ImportOptions(), &graph).ok());
    steps_.push_back(*compiler_.Compile(graph, signature));
    return *steps_.back();
  }
  Status Run(const CompiledStep& step, float x, Tensor* result = nullptr, StepRunner::Request request = {}) {
    const Tensor fed = Tensor::Scalar(x);
    const Tensor* const args[] = {&fed};
    Tensor ret;
    request.args = std::span(args).first(step.feeds.size());
    request.rets = std::span(&ret, 1).first(step.fetches.size());
    Status status = runner_.Run(step, request);
    if (result != nullptr) *result = ret;
    return status;
  }

  LocalWorker worker_{std::make_shared<LocalDevices>(*DeviceFactoryRegistry::Global().CreateDevices({}))};
  StepCompiler compiler_{{&worker_}, CompileOptions()};
  std::vector<std::unique_ptr<CompiledStep>> steps_;
  StepRunner runner_;
  std::atomic<int64_t> steps_run_{0};
};

TEST_F(StepRunnerTest, AStepGivesItsFetches) {
  const CompiledStep& step = Compile({{"x"}, {"y"}, {}});
  EXPECT_FALSE(step.several_tasks);
  for (float x = 0; x < 20; ++x) {
    Tensor y;
    ASSERT_TRUE(Run(step, x, &y).ok());
    EXPECT_EQ(y.scalar<float>(), x * x);
  }
}

TEST_F(StepRunnerTest, AnErrorNamesTheNodeAndALaterStepRuns) {
  const CompiledStep& step = Compile({{"x"}, {"checked"}, {}});
  const Status status = Run(step, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("checked"));
  EXPECT_TRUE(Run(step, 1).ok());
}

TEST_F(StepRunnerTest, AStepThatTakesTooLongEnds) {
  const CompiledStep& step = Compile({{}, {"get"}, {}});
  const Status status = Run(step, 0, nullptr, {.timeout_in_ms = 20});
  EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
  // The cancelled wait was removed: the next step gets the element that is put in now.
  ASSERT_TRUE(Run(Compile({{"x"}, {}, {"put"}}), 3).ok());
  Tensor got;
  ASSERT_TRUE(Run(step, 0, &got).ok());
  EXPECT_EQ(got.scalar<float>(), 3);
}

TEST_F(StepRunnerTest, TheCallersCancellationEndsAStep) {
  const CompiledStep& step = Compile({{}, {"get"}, {}});
  CancellationManager cancellation;
  std::thread canceller([&] { cancellation.StartCancel(); });
  EXPECT_TRUE(errors::IsCancelled(Run(step, 0, nullptr, {.cancellation = &cancellation})));
  canceller.join();
  EXPECT_TRUE(errors::IsCancelled(Run(step, 0, nullptr, {.cancellation = &cancellation})))
      << "from the start";
}

TEST_F(StepRunnerTest, CancellingEndsNoStepThatBeginsAfterwards) {
  const CompiledStep& step = Compile({{}, {}, {"lock"}});
  std::atomic<int64_t> begun{0}, ended{0};
  std::atomic<bool> stop{false};
  std::thread canceller([&] {
    while (!stop) {
      ++begun;
      runner_.CancelSteps();
      ++ended;
      // So that steps that begin after this call end before the next one.
      for (const int64_t next = steps_run_ + 3; steps_run_ < next && !stop;) std::this_thread::yield();
    }
  });
  int64_t undisturbed = 0, failed = 0;
  for (int i = 0; i < 200000; ++i) {
    const int64_t before = begun;
    while (ended < before) std::this_thread::yield();
    const Status status = Run(step, 0);
    ++steps_run_;
    if (begun != before) continue;  // a call overlapped the step
    ++undisturbed;
    failed += status.ok() ? 0 : 1;
  }
  stop = true;
  canceller.join();
  EXPECT_GT(undisturbed, 0);
  EXPECT_EQ(failed, 0);
}

TEST_F(StepRunnerTest, CloseEndsStepsAndRefusesLaterOnes) {
  const CompiledStep& step = Compile({{}, {"get"}, {}});
  std::vector<std::thread> threads;
  threads.reserve(4);
  std::atomic<int> closed{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const Status status = Run(step, 0);
      // One that was waiting reports what it was waiting for.
      const bool waited = status.message().find("Dequeue operation was cancelled") != std::string_view::npos;
      if (errors::IsCancelled(status) && (waited || status.message() == "Session has been closed.")) ++closed;
    });
  }
  runner_.Close();  // some steps may not have begun
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(closed, 4);
  EXPECT_TRUE(errors::IsCancelled(Run(Compile({{"x"}, {"y"}, {}}), 1)));
}

TEST_F(StepRunnerTest, CloseLeavesTheErrorThatANodeGave) {
  // The text of a cancelled step, but the node's own error.
  const Status own = errors::Cancelled(StepCancelled().message());
  EXPECT_EQ(own, StepCancelled());
  EXPECT_FALSE(IsStepCancelled(own));
  Status copy = StepCancelled();
  EXPECT_TRUE(IsStepCancelled(copy));
  EXPECT_FALSE(IsStepCancelled(copy.WithContext(" by a node")));
  EXPECT_FALSE(IsStepCancelled(Status()));

  const CompiledStep& hold = Compile({{}, {"lock"}, {}});
  Tensor held;
  ASSERT_TRUE(Run(hold, 0, &held).ok());
  const CompiledStep& wait = Compile({{"x"}, {"lock_after_put"}, {}});
  const CompiledStep& get = Compile({{}, {"get"}, {}});
  // Close may come between the two nodes of a step, later in each attempt.
  for (int attempt = 0; attempt < 2000; ++attempt) {
    StepRunner runner;
    Status status;
    std::thread waiting([&] {
      const Tensor fed = Tensor::Scalar(0.f);
      const Tensor* const args[] = {&fed};
      Tensor ret;
      StepRunner::Request request;
      request.args = args;
      request.rets = std::span(&ret, 1);
      status = runner.Run(wait, request);
    });
    EXPECT_TRUE(Run(get, 0).ok());
    for (int i = 0; i < attempt; ++i) std::this_thread::yield();
    runner.Close();
    waiting.join();
    if (status.message() == "Session has been closed.") continue;
    EXPECT_THAT(status.ToString(), HasSubstr("Cancelled: Lock acquisition cancelled."));
    EXPECT_THAT(status.message(), HasSubstr("lock_after_put"));
    return;
  }
  FAIL() << "no step has waited";
}

TEST_F(StepRunnerTest, AStepWithoutAThreadCallsBack) {
  const CompiledStep& step = Compile({{"x"}, {"y"}, {}});
  ThreadPool pool("step_runner_test", 2);
  const Tensor fed = Tensor::Scalar(4.f);
  const Tensor* const args[] = {&fed};
  Tensor ret;
  Notification done;
  Status result;
  runner_.Start(step, {.args = args, .rets = std::span(&ret, 1), .inter_op_pool = &pool},
                [&](const Status& status) {
                  result = status;
                  done.Notify();
                });
  done.Wait();
  runner_.WaitForStarted();
  ASSERT_TRUE(result.ok()) << result;
  EXPECT_EQ(ret.scalar<float>(), 16);
}

TEST(ScopedDeadlineTest, CancelsWhenTheTimeIsUp) {
  CancellationManager step;
  Notification cancelled;
  const auto token = step.Register([&] { cancelled.Notify(); });
  ASSERT_NE(token, CancellationManager::kInvalidToken);
  const ScopedDeadline deadline(step, 1);
  cancelled.Wait();
  step.Deregister(token);
  EXPECT_TRUE(deadline.expired());
}

TEST(ScopedDeadlineTest, NothingHappensBeforeOrWithoutATime) {
  CancellationManager step;
  {
    const ScopedDeadline none(step, 0), negative(step, -1), late(step, std::numeric_limits<int64_t>::max());
    EXPECT_FALSE(none.expired() || negative.expired() || late.expired());
  }
  EXPECT_FALSE(step.IsCancelled());
}

TEST(LocalRendezvousTest, TensorsMeetInEitherOrderAndOnce) {
  LocalRendezvous rendezvous;
  const auto key = Rendezvous::Key::Make("a", 1, "b", "t");
  std::vector<float> got;
  const auto receive = [&](const Status& status, Tensor tensor, bool is_dead) {
    EXPECT_TRUE(status.ok() && !is_dead);
    got.push_back(tensor.scalar<float>());
  };
  rendezvous.RecvAsync(key, receive);
  EXPECT_TRUE(got.empty());
  EXPECT_TRUE(rendezvous.Send(key, Tensor::Scalar(1.f), false).ok());
  EXPECT_TRUE(rendezvous.Send(key, Tensor::Scalar(2.f), false).ok());
  rendezvous.RecvAsync(key, receive);
  EXPECT_THAT(got, ::testing::ElementsAre(1, 2));
}

TEST(LocalRendezvousTest, AnAbortEndsWaitsAndRefusesLaterCalls) {
  LocalRendezvous rendezvous;
  const auto key = Rendezvous::Key::Make("a", 1, "b", "t");
  std::vector<Status> ends;
  const auto receive = [&](const Status& status, Tensor, bool) { ends.push_back(status); };
  rendezvous.RecvAsync(key, receive);
  rendezvous.StartAbort(errors::Aborted("first"));
  rendezvous.StartAbort(errors::Aborted("second"));
  rendezvous.RecvAsync(key, receive);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].message(), "first");
  EXPECT_EQ(ends[1].message(), "first");
  EXPECT_FALSE(rendezvous.Send(key, Tensor(), false).ok());
}

}  // namespace
}  // namespace millrace
