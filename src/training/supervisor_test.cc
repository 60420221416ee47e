// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/env.h"
#include "io/event_file.h"
#include "millrace/ops.h"
#include "millrace/queue_input.h"
#include "millrace/variables.h"
#include "tensorflow/core/util/event.pb.h"
#include "training/saved_model_testing.h"

namespace millrace {
namespace {

using saved_model_testing::NewFolder;
using testing::Contains;
using testing::HasSubstr;

// A float w that each step increases by two, and the count of steps.
struct Model {
  Model()
      : step(CreateGlobalStep(scope)),
        w(scope.WithOpName("w"), 1.f),
        train(step.AssignAdd(scope.WithControlDependencies({w.AssignAdd(scope, 2.f)}), int64_t{1})) {
    summary::Scalar(scope, "w_now", w);
  }
  Status Step(ClientSession& session) const {
    std::vector<Tensor> unused;
    return session.Run({train}, &unused);
  }
  float Value(ClientSession& session) const {
    std::vector<Tensor> value;
    const Status status = session.Run({w.value()}, &value);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? value[0].scalar<float>() : -1;
  }
  Scope scope = Scope::NewRootScope();
  GraphVariable step, w;
  Output train;
};

// The contents of the events in a folder.
std::vector<std::string> EventsIn(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().find("tfevents") == std::string::npos) continue;
    auto reader = io::EventReader::Open(Env::Posix(), entry.path().string());
    EXPECT_TRUE(reader.ok()) << reader.status();
    for (tensorflow::Event event; (*reader)->Read(&event).ok();) {
      if (event.has_graph_def()) found.push_back("graph");
      if (event.has_session_log()) found.push_back(StrCat("log ", int{event.session_log().status()}));
      for (const auto& value : event.summary().value()) found.push_back(value.tag());
    }
  }
  return found;
}

std::unique_ptr<Supervisor> MakeOrFail(const Model& model, Supervisor::Options options) {
  auto made = Supervisor::Make(model.scope, std::move(options));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *std::move(made) : nullptr;
}

TEST(Supervisor, TheChiefSavesAndContinuesFromThere) {
  const std::string folder = NewFolder();
  {
    Model model;
    const auto supervisor =
        MakeOrFail(model, {.logdir = folder, .save_summaries_secs = 0.01, .save_model_secs = 0.01});
    ASSERT_NE(supervisor, nullptr);
    const Status status = supervisor->ManagedSession([&](ClientSession& session) -> Status {
      for (int i = 0; i < 5; ++i) MR_RETURN_IF_ERROR(model.Step(session));
      EXPECT_EQ(model.Value(session), 11);
      while (LatestCheckpoint(folder) != folder + "/model.ckpt-5") {
        if (supervisor->coordinator().WaitForStop(0.01)) return errors::Internal("stopped");
      }
      // A rate needs two calls of a thread that runs every 0.01 s.
      if (supervisor->coordinator().WaitForStop(1)) return errors::Internal("stopped");
      return Status();
    });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(supervisor->ShouldStop());
  }
  const std::vector<std::string> events = EventsIn(folder);
  for (const char* what : {"graph", "log 1", "log 2", "log 3", "w_now", "global_step/sec"}) {
    EXPECT_THAT(events, Contains(what));
  }
  EXPECT_TRUE(std::filesystem::exists(folder + "/graph.pbtxt"));
  Model model;
  const auto supervisor = MakeOrFail(model, {.logdir = folder, .save_summaries_secs = 0});
  ASSERT_NE(supervisor, nullptr);
  const auto session = supervisor->PrepareOrWaitForSession();
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(model.Value(**session), 11);
  const Status stopped = supervisor->Stop();
  EXPECT_TRUE(stopped.ok()) << stopped;
}

TEST(Supervisor, TheFirstErrorCounts) {
  Model model;
  const auto supervisor = MakeOrFail(model, {});
  ASSERT_NE(supervisor, nullptr);
  const Status of_body =
      supervisor->ManagedSession([](ClientSession&) { return errors::DataLoss("the body fails"); });
  EXPECT_EQ(of_body.code(), ErrorCode::kDataLoss) << of_body;
  const Status of_thread = supervisor->ManagedSession([&](ClientSession&) -> Status {
    supervisor->Loop(std::nullopt, "failing", [] { return errors::Unimplemented("the thread fails"); });
    supervisor->WaitForStop();
    return errors::Internal("a consequence");
  });
  EXPECT_EQ(of_thread.code(), ErrorCode::kUnimplemented) << of_thread;
}

TEST(Supervisor, QueuesAreFilledAndTheEndOfInputIsANormalEnd) {
  Model model;
  const Output names =
      StringInputProducer(model.scope, ops::Const(model.scope, {"a", "b"}), {.num_epochs = 1});
  const Output next = ops::QueueDequeueV2(model.scope, names, {DataType::kString})[0];
  const auto supervisor = MakeOrFail(model, {});
  ASSERT_NE(supervisor, nullptr);
  int got = 0;
  const Status status = supervisor->ManagedSession([&](ClientSession& session) -> Status {
    std::vector<Tensor> values;
    for (;; ++got) MR_RETURN_IF_ERROR(session.Run({next}, &values));
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(got, 2);
}

TEST(Supervisor, AWorkerWaitsForTheChief) {
  Model model;
  const auto supervisor =
      MakeOrFail(model, {.is_chief = false, .recovery_wait_secs = 0.01, .max_wait_secs = 0.05});
  ASSERT_NE(supervisor, nullptr);
  EXPECT_EQ(supervisor->PrepareOrWaitForSession().status().code(), ErrorCode::kDeadlineExceeded);
  ClientSession session(model.scope);
  EXPECT_THAT(supervisor->StartStandardServices(session).message(), HasSubstr("Only chief"));
}

TEST(Supervisor, SummariesOfTheCaller) {
  const std::string folder = NewFolder();
  Model model;
  const Output mine = summary::Scalar(model.scope, "mine", model.w, {.collections = {}});
  const auto supervisor = MakeOrFail(model, {.logdir = folder});
  ASSERT_NE(supervisor, nullptr);
  const Status status = supervisor->ManagedSession([&](ClientSession& session) -> Status {
    std::vector<Tensor> values;
    MR_RETURN_IF_ERROR(session.Run({mine}, &values));
    EXPECT_FALSE(supervisor->SummaryComputed(Tensor::Scalar(1.f)).ok());
    return supervisor->SummaryComputed(values[0]);
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(EventsIn(folder), Contains("mine"));
  const auto silent = MakeOrFail(model, {});
  ASSERT_NE(silent, nullptr);
  EXPECT_EQ(silent->SummaryComputed(Tensor::Scalar("")).code(), ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace millrace
