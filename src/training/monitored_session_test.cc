// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/monitored_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/env.h"
#include "io/event_file.h"
#include "millrace/hooks.h"
#include "millrace/ops.h"
#include "millrace/queue_input.h"
#include "millrace/variables.h"
#include "tensorflow/core/util/event.pb.h"
#include "training/saved_model_testing.h"

namespace millrace {
namespace {

using saved_model_testing::NewFolder;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A float w that each step increases by two, and the count of steps.
struct Model {
  Model()
      : step(CreateGlobalStep(scope)),
        w(scope.WithOpName("w"), 1.f),
        update(w.AssignAdd(scope, 2.f)),
        train(step.AssignAdd(scope.WithControlDependencies({update}), int64_t{1})) {}

  Scope scope = Scope::NewRootScope();
  GraphVariable step, w;
  Output update, train;
};

float ValueOf(MonitoredSession& session, const Output& tensor) {
  std::vector<Tensor> value;
  const Status status = session.raw_session()->Run({tensor}, &value);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? value[0].scalar<float>() : NAN;
}

// Records its calls, and may fail or stop.
class Recorder final : public SessionRunHook {
 public:
  Status Begin(const Scope& scope) override {
    if (add_in_begin) extra = ops::Const(scope.WithOpName("extra"), 7.f);
    return Note("begin");
  }
  Status AfterCreateSession(ClientSession& /*session*/, Coordinator& /*coordinator*/) override {
    return Note("created");
  }
  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& /*context*/) override {
    MR_RETURN_IF_ERROR(Note("before"));
    SessionRunArgs args = {.feeds = feeds};
    if (extra.IsSet()) args.fetches.push_back(extra);
    return args;
  }
  Status AfterRun(SessionRunContext& context, const SessionRunValues& values) override {
    MR_RETURN_IF_ERROR(Note("after"));
    if (extra.IsSet()) {
      EXPECT_EQ(values.results[0].scalar<float>(), 7.f);
    }
    if (stop) context.RequestStop();
    return Status();
  }
  Status End(ClientSession& /*session*/) override { return Note("end"); }

  Status Note(const std::string& what) {
    calls.push_back(what);
    return what == fail_at ? failure : Status();
  }

  std::vector<std::string> calls;
  std::string fail_at;
  Status failure = errors::Internal("hook fails");
  bool stop = false;
  bool add_in_begin = false;
  Output extra;
  ClientSession::Feeds feeds;
};

std::vector<tensorflow::Event> EventsIn(const std::string& folder) {
  std::vector<tensorflow::Event> events;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().find("tfevents") == std::string::npos) continue;
    auto reader = io::EventReader::Open(Env::Posix(), entry.path().string());
    EXPECT_TRUE(reader.ok()) << reader.status();
    for (tensorflow::Event event; (*reader)->Read(&event).ok();) events.push_back(event);
  }
  return events;
}

TEST(MonitoredSession, InitialisesTheModelAndCallsHooksInOrder) {
  Model model;
  const auto hook = std::make_shared<Recorder>();
  hook->add_in_begin = true;
  auto session = SingularMonitoredSession(model.scope, {hook});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_THAT(hook->calls, ElementsAre("begin", "created"));
  std::vector<Tensor> values;
  ASSERT_TRUE((*session)->Run({model.train, model.update}, &values).ok());
  ASSERT_EQ(values.size(), 2);
  EXPECT_EQ(values[0].scalar<int64_t>(), 1);
  EXPECT_EQ(ValueOf(**session, model.w), 3.f);
  EXPECT_FALSE((*session)->ShouldStop());
  ASSERT_TRUE((*session)->Close().ok());
  EXPECT_THAT(hook->calls, ElementsAre("begin", "created", "before", "after", "end"));
  EXPECT_TRUE((*session)->ShouldStop());
  EXPECT_EQ((*session)->Run(model.train).message(), "Session is already closed.");
  EXPECT_EQ((*session)->raw_session(), nullptr);
}

TEST(MonitoredSession, TheGraphIsFinalWhileItRuns) {
  Model model;
  auto session = SingularMonitoredSession(model.scope);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Close().ok());
  ops::Const(model.scope, 1);
  EXPECT_TRUE(model.scope.ok());
  session = SingularMonitoredSession(model.scope);
  ASSERT_TRUE(session.ok()) << session.status();
  ops::Const(model.scope, 1);
  EXPECT_EQ(model.scope.status().code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(model.scope.status().message(), HasSubstr("Graph is finalized and cannot be modified"));
}

TEST(MonitoredSession, AHookStopsTheLoop) {
  Model model;
  const auto hook = std::make_shared<Recorder>();
  hook->stop = true;
  auto session = SingularMonitoredSession(model.scope, {hook});
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE((*session)->Run(model.train).ok());
  EXPECT_TRUE((*session)->ShouldStop());
  EXPECT_EQ((*session)->Run(model.train).message(), "Run called even after should_stop requested.");
}

TEST(MonitoredSession, ErrorsOfHooksAreThoseOfTheCall) {
  for (const std::string at : {"begin", "created"}) {
    Model model;
    const auto hook = std::make_shared<Recorder>();
    hook->fail_at = at;
    EXPECT_EQ(SingularMonitoredSession(model.scope, {hook}).status(), hook->failure) << at;
    EXPECT_THAT(hook->calls, testing::Not(Contains("end")));
  }
  for (const std::string at : {"before", "after", "end"}) {
    Model model;
    const auto hook = std::make_shared<Recorder>();
    hook->fail_at = at;
    auto session = SingularMonitoredSession(model.scope, {hook});
    ASSERT_TRUE(session.ok());
    const Status ran = (*session)->Run(model.train);
    EXPECT_EQ(ran.ok(), at == "end");
    EXPECT_EQ((*session)->Close(ran), hook->failure) << at;
    EXPECT_EQ(hook->calls.back(), at);
  }
}

TEST(MonitoredSession, TheSameTensorIsFedOnce) {
  Model model;
  const auto hook = std::make_shared<Recorder>();
  const Output x = ops::Placeholder(model.scope.WithOpName("x"), DataType::kFloat);
  hook->feeds = {{x, 1.f}};
  auto session = SingularMonitoredSession(model.scope, {hook});
  ASSERT_TRUE(session.ok());
  std::vector<Tensor> value;
  EXPECT_TRUE((*session)->Run({x}, &value).ok());
  EXPECT_EQ((*session)->Run({{x, 2.f}}, {x}, {}, &value).message(),
            "Same tensor is fed by a SessionRunHook and user. Conflict(s): x");
}

TEST(MonitoredSession, TheEndOfAQueueIsTheEndOfTheLoop) {
  Model model;
  const auto hook = std::make_shared<Recorder>();
  const Output queue = RangeInputProducer(model.scope, 5, {.num_epochs = 2});
  const Output element = ops::QueueDequeueV2(model.scope, queue, {DataType::kInt32})[0];
  const Operation step = ops::Identity(model.scope.WithControlDependencies({model.train}), element);
  auto session = SingularMonitoredSession(model.scope, {hook});
  ASSERT_TRUE(session.ok()) << session.status();
  int steps = 0;
  const Status status = (*session)->Loop([&](MonitoredSession& s) {
    MR_RETURN_IF_ERROR(s.Run(step));
    ++steps;
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(steps, 10);
  EXPECT_EQ(hook->calls.back(), "end");
}

TEST(MonitoredSession, TheErrorOfAQueuesThreadIsThatOfTheRun) {
  Model model;
  const Output bad = ops::CheckNumerics(model.scope, ops::Log(model.scope, -1.f), "log of a negative");
  const auto batch = Batch(model.scope, {bad}, 2);
  auto session = SingularMonitoredSession(model.scope);
  ASSERT_TRUE(session.ok()) << session.status();
  const Status status = (*session)->Loop([&](MonitoredSession& s) { return s.Run(batch, nullptr); });
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr("log of a negative"));
}

TEST(MonitoredSession, RecoversFromAbortedAndUnavailable) {
  for (const Status& failure : {errors::Aborted("gone"), errors::Unavailable("gone")}) {
    Model model;
    const std::string folder = NewFolder();
    const auto hook = std::make_shared<Recorder>();
    auto session = MonitoredTrainingSession(model.scope, {.checkpoint_dir = folder,
                                                          .hooks = {hook},
                                                          .save_checkpoint_steps = 2,
                                                          .monitored = {.recovery_wait_secs = 0}});
    ASSERT_TRUE(session.ok()) << session.status();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE((*session)->Run(model.train).ok());
    // The step fails once and is repeated in a session with the values of the checkpoint of step 2.
    int attempts = 0;
    const Status status = (*session)->RunStepFn([&](MonitoredSession::StepContext& context) {
      return ++attempts == 1 ? failure : context.RunWithHooks({}, {model.train}, {}, nullptr);
    });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(attempts, 2);
    EXPECT_EQ(ValueOf(**session, model.w), 1.f + 2 * 3);
    EXPECT_EQ(std::count(hook->calls.begin(), hook->calls.end(), "created"), 2);
    EXPECT_EQ(std::count(hook->calls.begin(), hook->calls.end(), "begin"), 1);
    EXPECT_TRUE((*session)->Close().ok());
  }
}

TEST(MonitoredSession, RecoveryHasALimitAndCanBeOff) {
  Model model;
  struct Failing final : SessionCreator {
    StatusOr<std::unique_ptr<ClientSession>> CreateSession() override {
      ++calls;
      return errors::Unavailable("no server");
    }
    int calls = 0;
  };
  auto creator = std::make_shared<Failing>();
  EXPECT_EQ(MonitoredSession::Make(model.scope, creator, {}, {.recover = false}).status(),
            errors::Unavailable("no server"));
  EXPECT_EQ(creator->calls, 1);
  const Status status = MonitoredSession::Make(model.scope, creator, {},
                                               {.max_recovery_secs = 0.01, .recovery_wait_secs = 0.001})
                            .status();
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
  EXPECT_GT(creator->calls, 2);
}

TEST(MonitoredTrainingSession, ATrainingThatWasDoneDoesNoFurtherStep) {
  const std::string folder = NewFolder();
  using Options = StopAtStepHook::Options;
  float w = 0;
  for (const auto& [last, wanted] : {std::pair(3, 3), std::pair(3, 0), std::pair(2, 0), std::pair(5, 2)}) {
    Model model;
    auto session = MonitoredTrainingSession(
        model.scope,
        {.checkpoint_dir = folder, .hooks = {std::make_shared<StopAtStepHook>(Options{.last_step = last})}});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->ShouldStop(), wanted == 0);
    const float before = ValueOf(**session, model.w);
    EXPECT_TRUE(w == 0 || before == w);
    int steps = 0;
    const Status status = (*session)->Loop([&](MonitoredSession& s) {
      ++steps;
      MR_RETURN_IF_ERROR(s.Run(model.train));
      w = ValueOf(s, model.w);
      return Status();
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(steps, wanted) << last;
  }
  EXPECT_EQ(LatestCheckpoint(folder), folder + "/model.ckpt-5");
}

TEST(MonitoredTrainingSession, ContinuesWhereTheLastOneEnded) {
  const std::string folder = NewFolder();
  for (int run = 0; run < 3; ++run) {
    Model model;
    summary::Scalar(model.scope, "w_now", model.w.value());
    const auto stop = std::make_shared<StopAtStepHook>(StopAtStepHook::Options{.num_steps = 5});
    auto session = MonitoredTrainingSession(
        model.scope,
        {.checkpoint_dir = folder, .hooks = {stop}, .save_summaries_steps = 2, .log_step_count_steps = 2});
    ASSERT_TRUE(session.ok()) << session.status();
    int steps = 0;
    const Status status = (*session)->Loop([&](MonitoredSession& s) {
      ++steps;
      return s.Run(model.train);
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(steps, 5);
    EXPECT_EQ(LatestCheckpoint(folder), StrCat(folder, "/model.ckpt-", 5 * (run + 1)));
  }
  EXPECT_TRUE(Env::Posix().FileExists(folder + "/graph.pbtxt"));
  bool graph = false, meta = false, rate = false;
  std::vector<float> values;
  std::vector<std::string> checkpoints;
  for (const auto& event : EventsIn(folder)) {
    graph = graph || event.has_graph_def();
    meta = meta || event.has_meta_graph_def();
    if (event.has_session_log() && event.session_log().status() == tensorflow::SessionLog::CHECKPOINT) {
      checkpoints.push_back(StrCat(event.step()));
    }
    for (const auto& value : event.summary().value()) {
      rate = rate || value.tag() == "global_step/sec";
      if (value.tag() == "w_now") values.push_back(value.simple_value());
    }
  }
  EXPECT_TRUE(graph && meta && rate);
  EXPECT_THAT(checkpoints, testing::UnorderedElementsAre("0", "5", "5", "10", "10", "15"));
  EXPECT_EQ(values.size(), 9);
}

TEST(SessionManager, WorkersWaitForTheChief) {
  Model model;
  const auto scaffold = std::make_shared<Scaffold>(model.scope);
  WorkerSessionCreator worker(scaffold, {.max_wait_secs = 0.02, .recovery_wait_secs = 0.001});
  const Status status = worker.CreateSession().status();
  EXPECT_EQ(status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("Session was not ready after waiting 0.02 secs."));
  ChiefSessionCreator chief(scaffold, {});
  EXPECT_TRUE(chief.CreateSession().ok());
}

TEST(SessionManager, NamesUninitialisedVariables) {
  Model model;
  const Scaffold::Options parts{.init_op = model.step.initializer()};
  ChiefSessionCreator chief(std::make_shared<Scaffold>(model.scope, parts), {});
  const Status status = chief.CreateSession().status();
  EXPECT_EQ(status.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              HasSubstr("Init operations did not make model ready for local_init.  Init op: "
                        "global_step/Assign, init fn: None, error: Variables not "
                        "initialized: w"));
  Model other;
  Scaffold::Options with_fn{.init_op = other.step.initializer()};
  with_fn.init_fn = [&](ClientSession& s) { return s.Run({}, {}, {other.w.initializer()}, nullptr); };
  ChiefSessionCreator second(std::make_shared<Scaffold>(other.scope, with_fn), {});
  EXPECT_TRUE(second.CreateSession().ok());
}

TEST(SessionManager, RecoverSessionOnlyRestores) {
  Model model;
  const std::string folder = NewFolder();
  Scaffold scaffold(model.scope);
  ASSERT_TRUE(scaffold.Finalize().ok());
  const SessionManager manager(model.scope, {.ready_op = scaffold.parts().ready_op});
  auto none = manager.RecoverSession({.saver = scaffold.saver(), .checkpoint_dir = folder});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->second);
  ASSERT_TRUE(none->first->Run({}, {}, {scaffold.parts().init_op}, nullptr).ok());
  ASSERT_TRUE(scaffold.saver()->Save(*none->first, folder + "/m").ok());
  auto some = manager.RecoverSession({.saver = scaffold.saver(), .checkpoint_dir = folder});
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_TRUE(some->second);
  EXPECT_EQ(manager.RecoverSession({.checkpoint_dir = "a", .checkpoint_path = "b"}).status().code(),
            ErrorCode::kInvalidArgument);
}

TEST(Scaffold, TakesWhatCollectionsHave) {
  Model model;
  const Operation own = ops::NoOp(model.scope.WithOpName("own"));
  AddToCollection(model.scope, "init_op", own);
  Scaffold scaffold(model.scope);
  ASSERT_TRUE(scaffold.Finalize().ok());
  EXPECT_EQ(scaffold.parts().init_op, own);
  EXPECT_FALSE(scaffold.parts().summary_op.IsSet());
  for (const char* key : {"ready_op", "ready_for_local_init_op", "local_init_op", "savers"}) {
    EXPECT_TRUE(Collections(model.scope).contains(key)) << key;
  }
  Model other;
  AddToCollection(other.scope, "init_op", Operation(other.w.ref()));
  AddToCollection(other.scope, "init_op", Operation(other.step.ref()));
  const Status status = Scaffold(other.scope).Finalize();
  EXPECT_EQ(status.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("More than one item in the collection \"init_op\"."));
}

TEST(Hooks, ANanLossFailsOrStops) {
  for (const bool fail : {true, false}) {
    Model model;
    const Output loss = ops::Log(model.scope, ops::Sub(model.scope, 2.f, model.w.value()));
    auto session = SingularMonitoredSession(model.scope, {std::make_shared<NanTensorHook>(loss, fail)});
    ASSERT_TRUE(session.ok());
    const Status status = (*session)->Loop([&](MonitoredSession& s) { return s.Run(model.train); });
    EXPECT_EQ(status, fail ? errors::InvalidArgument("NaN loss during training.") : Status());
  }
}

TEST(Hooks, FeedsFinalValuesAndTheirFormat) {
  Model model;
  const Output x = ops::Placeholder(model.scope, DataType::kFloat);
  const Output doubled = ops::Mul(model.scope, x, 2.f);
  float next = 0;
  const auto feed = std::make_shared<FeedFnHook>([&]() -> StatusOr<ClientSession::Feeds> {
    return ClientSession::Feeds{{x, next += 1}};
  });
  const auto final_ops = std::make_shared<FinalOpsHook>(std::vector<Output>{model.w.value(), doubled},
                                                        ClientSession::Feeds{{x, 50.f}});
  std::vector<float> logged;
  LoggingTensorHook::Options logging{.every = Every::Steps(2), .at_end = false};
  logging.formatter = [&](const LoggingTensorHook::Values& values) {
    EXPECT_EQ(values[0].first, "doubled");
    logged.push_back(values[0].second.scalar<float>());
    return std::string("logged");
  };
  const auto log =
      std::make_shared<LoggingTensorHook>(LoggingTensorHook::Tagged{{"doubled", doubled}}, logging);
  auto session = SingularMonitoredSession(model.scope, {feed, final_ops, log});
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE((*session)->Run(model.train).ok());
  ASSERT_TRUE((*session)->Close().ok());
  EXPECT_THAT(logged, ElementsAre(2, 6, 10));
  ASSERT_EQ(final_ops->values().size(), 2);
  EXPECT_EQ(final_ops->values()[0].scalar<float>(), 11.f);
  EXPECT_EQ(final_ops->values()[1].scalar<float>(), 100.f);
}

TEST(Hooks, AListenerSeesSavesAndStops) {
  struct Listener final : CheckpointSaverListener {
    Status BeforeSave(ClientSession& /*session*/, int64_t step) override {
      before.push_back(step);
      return Status();
    }
    StatusOr<bool> AfterSave(ClientSession& /*session*/, int64_t step) override {
      after.push_back(step);
      return step >= 4;
    }
    Status End(ClientSession& /*session*/, int64_t step) override {
      last = step;
      return Status();
    }
    std::vector<int64_t> before, after;
    int64_t last = -1;
  };
  Model model;
  const auto scaffold = std::make_shared<Scaffold>(model.scope);
  const auto listener = std::make_shared<Listener>();
  const auto saver =
      std::make_shared<CheckpointSaverHook>(NewFolder(), Every::Steps(2), scaffold,
                                            std::vector<std::shared_ptr<CheckpointSaverListener>>{listener});
  auto session = SingularMonitoredSession(model.scope, {saver}, {}, scaffold);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE((*session)->Loop([&](MonitoredSession& s) { return s.Run(model.train); }).ok());
  EXPECT_THAT(listener->before, ElementsAre(0, 2, 4));
  EXPECT_THAT(listener->after, ElementsAre(0, 2, 4));
  EXPECT_EQ(listener->last, 4);
}

TEST(Hooks, TheProfilerWritesTimelines) {
  Model model;
  const std::string folder = NewFolder();
  auto session =
      SingularMonitoredSession(model.scope, {std::make_shared<ProfilerHook>(Every::Steps(2), folder)});
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE((*session)->Run(model.train).ok());
  ASSERT_TRUE((*session)->Close().ok());
  std::vector<std::string> timelines;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") timelines.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(timelines, testing::Not(IsEmpty()));
  const auto text = ReadFileToString(Env::Posix(), folder + "/" + timelines.front());
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("traceEvents"));
}

TEST(Hooks, ProgressIsALineOnATerminalAndLinesOtherwise) {
  for (const bool terminal : {true, false}) {
    Model model;
    std::vector<std::string> lines;
    ProgressHook::Options options{.loss = model.w.value(), .last_step = 9, .every_secs = 0};
    options.is_terminal = terminal;
    options.write = [&](const std::string& text) { lines.push_back(text); };
    auto session = SingularMonitoredSession(model.scope, {std::make_shared<ProgressHook>(options)});
    ASSERT_TRUE(session.ok()) << session.status();
    for (int i = 0; i < 2; ++i) ASSERT_TRUE((*session)->Run(model.train).ok());
    ASSERT_TRUE((*session)->Close().ok());
    ASSERT_EQ(lines.size(), terminal ? 3 : 2);
    EXPECT_THAT(lines[0], HasSubstr("step 1/9  loss "));
    EXPECT_THAT(lines[1], HasSubstr(" steps/s  0:00 left"));
    EXPECT_EQ(lines[0].starts_with("\r"), terminal);
    EXPECT_EQ(lines[0].ends_with("\n"), !terminal);
  }
}

TEST(Hooks, AWaiterWaitsNoLongerThanItsTimeout) {
  Model model;
  auto session = SingularMonitoredSession(
      model.scope, {std::make_shared<GlobalStepWaiterHook>(2, /*max_wait_secs=*/0.01, 0.001)});
  ASSERT_TRUE(session.ok());
  EXPECT_EQ((*session)->Run(model.train).code(), ErrorCode::kDeadlineExceeded);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE((*session)->raw_session()->Run({model.train}, nullptr).ok());
  EXPECT_TRUE((*session)->Run(model.train).ok());
}

TEST(Hooks, WrongArgumentsAreErrors) {
  const auto error = [](std::shared_ptr<SessionRunHook> hook) {
    Model model;
    return SingularMonitoredSession(model.scope, {std::move(hook)}).status().message();
  };
  using Stop = StopAtStepHook;
  EXPECT_THAT(error(std::make_shared<Stop>(Stop::Options{})), HasSubstr("must be specified."));
  EXPECT_THAT(error(std::make_shared<Stop>(Stop::Options{.num_steps = 1, .last_step = 2})),
              HasSubstr("Only one of num_steps or last_step can be specified."));
  EXPECT_THAT(error(std::make_shared<StepCounterHook>(Every())),
              HasSubstr("Either every_secs or every_steps should be provided."));
  EXPECT_THAT(error(std::make_shared<StepCounterHook>(Every{.steps = 1, .secs = 1})),
              HasSubstr("Can not provide both every_secs and every_steps."));
  EXPECT_THAT(
      error(std::make_shared<LoggingTensorHook>(LoggingTensorHook::Tagged{}, LoggingTensorHook::Options{})),
      HasSubstr("either at_end and/or exactly one of every_n_iter"));
  EXPECT_THAT(error(nullptr), HasSubstr("a hook is null"));
  const Scope empty = Scope::NewRootScope();
  EXPECT_EQ(SingularMonitoredSession(empty, {std::make_shared<StepCounterHook>()}).status().message(),
            "Global step should be created to use StepCounterHook.");
}

TEST(RunTraining, StopsAtTheLastStepAndShowsProgress) {
  Model model;
  const std::string folder = NewFolder();
  const MonitoredTrainingSessionOptions options = {
      .checkpoint_dir = folder, .last_step = 3, .progress_loss = model.w.value()};
  Status status = RunTraining(model.scope, model.train, options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(LatestCheckpoint(folder), folder + "/model.ckpt-3");
  status = RunTraining(model.scope, model.train, options);  // all steps have been done
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(LatestCheckpoint(folder), folder + "/model.ckpt-3");
}

}  // namespace
}  // namespace millrace
