// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/notification.h"
#include "millrace/client_session.h"
#include "millrace/meta_graph.h"
#include "millrace/ops.h"
#include "millrace/queue_runner.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Coordinator, JoinGivesTheFirstErrorOfAThread) {
  Coordinator coordinator;
  coordinator.StartThread("waits", [&] {
    coordinator.WaitForStop();
    return errors::Internal("second");
  });
  coordinator.StartThread("fails", [] { return errors::DataLoss("first"); });
  const Status status = coordinator.Join();
  EXPECT_EQ(status, errors::DataLoss("first"));
  EXPECT_EQ(coordinator.RequestedError(), status);
  EXPECT_TRUE(coordinator.ShouldStop());
  EXPECT_TRUE(coordinator.joined());
}

TEST(Coordinator, TheEndOfInputIsNoError) {
  Coordinator coordinator;
  coordinator.StartThread("ends", [] { return errors::OutOfRange("no more"); });
  EXPECT_TRUE(coordinator.Join().ok());
  EXPECT_TRUE(coordinator.ShouldStop());

  Coordinator strict{std::vector<ErrorCode>()};
  strict.RequestStop(errors::OutOfRange("no more"));
  EXPECT_EQ(strict.Join().code(), ErrorCode::kOutOfRange);
}

TEST(Coordinator, ThreadsThatEndNeedNoRequestToStop) {
  Coordinator coordinator;
  std::atomic<int> ran = 0;
  for (int i = 0; i < 3; ++i) {
    coordinator.StartThread("short", [&] {
      ++ran;
      return Status();
    });
  }
  EXPECT_TRUE(coordinator.Join().ok());
  EXPECT_EQ(ran, 3);
  EXPECT_FALSE(coordinator.ShouldStop());
}

TEST(Coordinator, ThreadsThatOutliveTheGracePeriodAreNamed) {
  Coordinator coordinator;
  Notification let_go;
  coordinator.StartThread("slow", [&] {
    let_go.Wait();
    return Status();
  });
  coordinator.RequestStop();
  const Status status = coordinator.Join(0);
  EXPECT_EQ(status.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("Coordinator stopped with threads still running: slow"));
  EXPECT_TRUE(coordinator.Join(0, /*ignore_live_threads=*/true).ok());
  let_go.Notify();
}

TEST(Coordinator, ItsDestructorDoesNotWaitForeverForAThread) {
  Notification release;
  auto held = std::make_shared<int>(1);  // a reference of the thread until its end
  const std::weak_ptr<int> watch = held;
  std::atomic<int> loops = 0;
  {
    Coordinator coordinator({}, /*destruction_secs=*/0.01);
    coordinator.StartThread("stuck", [&release, held] {
      release.Wait();
      return errors::Internal("nobody waits for it");
    });
    // It checks for a stop after the coordinator is gone.
    LooperThread::Loop(coordinator, std::nullopt, "stuck_looper", [&release, &loops, held] {
      ++loops;
      release.Wait();
      return Status();
    });
  }
  held.reset();
  EXPECT_FALSE(watch.expired());
  release.Notify();
  while (!watch.expired()) std::this_thread::yield();
  EXPECT_LE(loops, 1);
}

TEST(Coordinator, JoinAsksToStopAfterItsTimeout) {
  Coordinator coordinator;
  coordinator.StartThread("waits", [&] {
    coordinator.WaitForStop();
    return Status();
  });
  const Status status = coordinator.Join(Coordinator::kGracePeriodSecs, false, 0.01);
  EXPECT_EQ(status, errors::DeadlineExceeded("No stop was requested within 0.01 s"));
  EXPECT_TRUE(coordinator.ShouldStop());

  Coordinator in_time;
  in_time.RequestStop();
  EXPECT_TRUE(in_time.Join(Coordinator::kGracePeriodSecs, false, 0).ok());
}

TEST(Coordinator, AClearedCoordinatorStartsAnew) {
  Coordinator coordinator;
  coordinator.RequestStop(errors::Internal("old"));
  EXPECT_FALSE(coordinator.Join().ok());
  coordinator.ClearStop();
  EXPECT_FALSE(coordinator.ShouldStop());
  EXPECT_FALSE(coordinator.WaitForStop(0));
  EXPECT_TRUE(coordinator.Join().ok());
}

TEST(LooperThread, LoopsUntilTheCoordinatorStops) {
  Coordinator coordinator;
  std::atomic<int> calls = 0;
  LooperThread::Loop(coordinator, 0.0, "looper", [&] {
    if (++calls == 5) coordinator.RequestStop();
    return Status();
  });
  EXPECT_TRUE(coordinator.Join().ok());
  EXPECT_EQ(calls, 5);
}

TEST(LooperThread, ItsPartsRunInOrderAndAnErrorStopsAll) {
  struct Steps final : LooperThread {
    Steps(Coordinator& c, std::vector<int>* s) : LooperThread(c, std::nullopt), seen(s) {}
    Status StartLoop() override {
      seen->push_back(0);
      return Status();
    }
    Status RunLoop() override {
      seen->push_back(1);
      return seen->size() < 4 ? Status() : errors::Aborted("enough");
    }
    Status StopLoop() override {
      seen->push_back(2);
      return Status();
    }
    std::vector<int>* const seen;
  };
  Coordinator coordinator;
  std::vector<int> seen;
  LooperThread::Start(std::make_unique<Steps>(coordinator, &seen), "steps");
  EXPECT_EQ(coordinator.Join(), errors::Aborted("enough"));
  EXPECT_THAT(seen, ElementsAre(0, 1, 1, 1));
}

// A queue of int32 scalars that is filled with 0, 1, 2, … up to `limit`, by `threads` threads.
struct Pipeline {
  Pipeline(int limit, int threads)
      : counter(ops::Variable(scope.WithOpName("counter"), PartialShape({}), DataType::kInt32)),
        init(ops::Assign(scope, counter, 0)),
        queue(ops::FIFOQueueV2(scope.WithOpName("queue"), {DataType::kInt32},
                               ops::FIFOQueueV2::Capacity(2).Shapes({PartialShape({})}))) {
    const Output next = ops::CountUpTo(scope, counter, limit);
    const Operation enqueue = ops::QueueEnqueueV2(scope.WithOpName("enqueue"), queue, {next});
    runner = QueueRunner::Make(scope, queue, std::vector<Operation>(static_cast<size_t>(threads), enqueue));
    AddQueueRunner(scope, runner);
    element = ops::QueueDequeueV2(scope, queue, {DataType::kInt32})[0];
  }

  Scope scope = Scope::NewRootScope();
  Output counter;
  Operation init;
  Output queue;
  QueueRunner runner;
  Output element;
};

TEST(QueueRunner, FillsAQueueAndClosesItAtTheEndOfInput) {
  Pipeline pipeline(20, 3);
  ASSERT_TRUE(pipeline.scope.ok()) << pipeline.scope.status();
  ClientSession session(pipeline.scope);
  ASSERT_TRUE(session.Run({}, {}, {pipeline.init}, nullptr).ok());
  Coordinator coordinator;
  ASSERT_TRUE(StartQueueRunners(pipeline.scope, *session.session(), coordinator).ok());
  std::vector<bool> seen(20);
  for (int i = 0; i < 20; ++i) {
    std::vector<Tensor> value;
    ASSERT_TRUE(session.Run({pipeline.element}, &value).ok());
    seen.at(static_cast<size_t>(value[0].scalar<int32_t>())) = true;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 20);
  EXPECT_EQ(session.Run({pipeline.element}, nullptr).code(), ErrorCode::kOutOfRange);
  coordinator.RequestStop();
  EXPECT_TRUE(coordinator.Join().ok());
}

TEST(QueueRunner, AStopEndsThreadsThatWaitForRoom) {
  Pipeline pipeline(1000, 2);
  ClientSession session(pipeline.scope);
  ASSERT_TRUE(session.Run({}, {}, {pipeline.init}, nullptr).ok());
  Coordinator coordinator;
  ASSERT_TRUE(StartQueueRunners(pipeline.scope, *session.session(), coordinator).ok());
  ASSERT_TRUE(session.Run({pipeline.element}, nullptr).ok());
  coordinator.RequestStop();
  EXPECT_TRUE(coordinator.Join().ok());
}

TEST(QueueRunner, AnErrorThatIsNotTheEndOfInputReachesTheCoordinator) {
  Pipeline pipeline(20, 1);
  ClientSession session(pipeline.scope);
  ASSERT_TRUE(session.Run({ops::QueueSizeV2(pipeline.scope, pipeline.queue)}, nullptr).ok());
  Coordinator coordinator;
  ASSERT_TRUE(StartQueueRunners(pipeline.scope, *session.session(), coordinator).ok());
  EXPECT_EQ(coordinator.Join().code(), ErrorCode::kFailedPrecondition);
}

TEST(QueueRunner, IsKeptInMessagesByTheNamesOfItsNodes) {
  const Pipeline pipeline(20, 2);
  EXPECT_EQ(pipeline.runner.queue_name, "queue");
  EXPECT_THAT(pipeline.runner.enqueue_op_names, ElementsAre("enqueue", "enqueue"));
  EXPECT_EQ(pipeline.runner.close_op_name, "queue_Close");
  EXPECT_EQ(pipeline.runner.cancel_op_name, "queue_Close_1");
  EXPECT_THAT(pipeline.runner.queue_closed_codes, ElementsAre(ErrorCode::kOutOfRange));
  const auto again = QueueRunners(pipeline.scope);
  ASSERT_TRUE(again.ok());
  EXPECT_THAT(*again, ElementsAre(pipeline.runner));
  EXPECT_EQ(QueueRunner::Parse("\x07").status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(QueueRunner::Parse("").status().code(), ErrorCode::kInvalidArgument);
}

TEST(QueueRunner, ACollectionOfAnotherKindIsRefused) {
  const Pipeline pipeline(20, 1);
  Collections(pipeline.scope)["others"] = NodeList{{"queue"}};
  EXPECT_EQ(QueueRunners(pipeline.scope, "others").status().code(), ErrorCode::kInvalidArgument);
  AddQueueRunner(pipeline.scope, pipeline.runner, "others");
  EXPECT_EQ(pipeline.scope.status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace
