// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// kill_training --kills=N [--seed=S]: kills a training (SIGKILL) at N random moments and restarts it each
// time. The training has an input pipeline with threads, saves a checkpoint every few steps and writes a
// summary of each. Every other run writes its checkpoints in the background. After each kill the event files
// have to be readable, the newest checkpoint must have the values of one step, and every repeated step must
// have the same loss as before. When a training ends, its weights have to be those of an uninterrupted one,
// and no unfinished file may remain; then another one begins.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "base/env.h"
#include "base/strings.h"
#include "io/checkpoint/bundle.h"
#include "io/record_file.h"
#include "millrace/ops.h"
#include "millrace/training.h"
#include "tensorflow/core/util/event.pb.h"

extern char** environ;

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Outputs = std::vector<Output>;

constexpr int64_t kSteps = 300;
constexpr int64_t kSaveEvery = 7;
constexpr int32_t kCounters = 1 << 18;
constexpr std::chrono::seconds kPatience{120};

// ---- The training

Dataset Input(const Scope& scope) {
  const Dataset numbers = Dataset::Range(scope, int64_t{40})
                              .Interleave(
                                  [](const Scope& s, const Outputs& x) {
                                    const Output first = ops::Mul(s, x[0], int64_t{5});
                                    return Dataset::Range(s, first, ops::Add(s, first, int64_t{5}));
                                  },
                                  {.cycle_length = 4, .block_length = 2, .num_parallel_calls = 2});
  return numbers
      .Map(
          [](const Scope& s, const Outputs& x) -> Outputs {
            return {ops::Div(s, ops::Cast(s, x[0], DataType::kFloat), 200.f)};
          },
          {.num_parallel_calls = 2})
      .Shuffle(50, /*seed=*/3)
      .Repeat()
      .Batch(8, /*drop_remainder=*/true)
      .Prefetch(4);
}

// Fits a polynomial to the sine. Each step also adds one to a large variable, all of whose values are
// therefore always equal.
Status Train(const std::string& folder, bool behind) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable step = CreateGlobalStep(scope);
  const Iterator input = Iterator::Initializable(Input(scope));
  input.SaveWithModel(scope);
  const Outputs batch = input.GetNext(scope);
  MR_RETURN_IF_ERROR(scope.status());
  const GraphVariable w(scope.WithOpName("w"), {{0.f}, {0.f}, {0.f}});
  const Output& x = batch[0];
  const Output powers =
      ops::Pack(scope, {ops::OnesLike(scope, x), x, ops::Mul(scope, x, x)}, ops::Pack::Axis(1));
  const Output y = ops::Squeeze(scope, ops::MatMul(scope, powers, w), ops::Squeeze::SqueezeDims({1}));
  const Output loss = ops::Mean(scope, ops::SquaredDifference(scope, y, ops::Sin(scope, x)), 0);
  summary::Scalar(scope, "loss", loss);
  const GraphVariable counters(scope.WithOpName("counters"), ops::Fill(scope, {kCounters}, 0.f),
                               {.trainable = false, .resource = true});
  const Output counted = counters.AssignAdd(scope, ops::Fill(scope, {kCounters}, 1.f));
  const Operation train =
      MomentumOptimizer(0.05f, 0.9f).Minimize(scope.WithControlDependencies({counted}), loss, {w}, step);
  const auto stop = std::make_shared<StopAtStepHook>(StopAtStepHook::Options{.last_step = kSteps});
  MR_ASSIGN_OR_RETURN(const auto session,
                      MonitoredTrainingSession(scope, {.checkpoint_dir = folder,
                                                       .hooks = {stop},
                                                       .save_checkpoint_steps = kSaveEvery,
                                                       .write_checkpoints_behind = behind,
                                                       .save_summaries_steps = 1}));
  return session->Loop([&](MonitoredSession& s) { return s.Run(train); });
}

// ---- Killing it

[[noreturn]] void Fail(const std::string& text) {
  std::fprintf(stderr, "kill_training: %s\n", text.c_str());
  std::exit(1);
}

void Check(const Status& status, const std::string& what) {
  if (!status.ok()) Fail(StrCat(what, ": ", status));
}

pid_t Start(const char* program, const std::string& folder, bool behind) {
  const std::string argument = (behind ? "--train_behind=" : "--train=") + folder;
  char* const argv[] = {const_cast<char*>(program), const_cast<char*>(argument.c_str()), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv, environ);
  if (error != 0) Fail(StrCat("no process: ", std::strerror(error)));
  return child;
}

// The result of waitpid for a process that ends by itself or by a kill.
int End(pid_t child) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) {
      ::kill(child, SIGKILL);
      Fail("the training hangs");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status;
}

// The bytes of the loss of each step, of one training; the end of a file may be missing.
using Losses = std::map<int64_t, std::string>;

void ReadEvents(const std::string& path, Losses* losses) {
  auto reader = io::RecordReader::Open(Env::Posix(), path, io::Compression::kNone);
  Check(reader.status(), path);
  std::string record;
  Status status;
  while ((status = (*reader)->Read(&record)).ok()) {
    tensorflow::Event event;
    if (!event.ParseFromString(record)) Fail(path + ": a record is not an event");
    for (const auto& value : event.summary().value()) {
      if (value.tag() != "loss") continue;
      const std::string bytes = value.SerializeAsString();
      const auto [known, is_new] = losses->emplace(event.step(), bytes);
      if (!is_new && known->second != bytes) {
        Fail(StrCat(path, ": step ", event.step(), " had another loss before"));
      }
    }
  }
  const bool at_end = errors::IsOutOfRange(status) || status.message().find("truncated") != std::string::npos;
  if (!at_end) Fail(StrCat("event files: ", status));
}

Losses ReadAllEvents(const std::string& folder) {
  Losses losses;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().filename().string().find("tfevents") != std::string::npos) {
      ReadEvents(file.path(), &losses);
    }
  }
  return losses;
}

// All counters in the newest checkpoint must be those of its step.
void CheckCounters(const std::string& folder) {
  const std::string prefix = LatestCheckpoint(folder);
  if (prefix.empty()) return;  // killed before the first one
  const float expected = std::strtof(prefix.c_str() + prefix.rfind('-') + 1, nullptr);
  const auto reader = io::BundleReader::Open(Env::Posix(), prefix);
  Check(reader.status(), prefix);
  const auto counters = (*reader)->Read("counters");
  Check(counters.status(), prefix);
  if (counters->num_elements() != kCounters) Fail(prefix + " lacks counters");
  for (const float value : counters->flat<float>()) {
    if (value != expected) Fail(StrCat(prefix, " has a counter ", value));
  }
}

struct Result {
  std::string weights;  // their bytes
  Losses losses;
};

Result ResultOf(const std::string& folder) {
  Result result;
  const std::string prefix = LatestCheckpoint(folder);
  if (prefix != StrCat(folder, "/model.ckpt-", kSteps)) Fail("the last checkpoint is '" + prefix + "'");
  const auto reader = io::BundleReader::Open(Env::Posix(), prefix);
  Check(reader.status(), prefix);
  for (const char* name : {"w", "w/Momentum"}) {
    const auto tensor = (*reader)->Read(name);
    Check(tensor.status(), name);
    for (const float value : tensor->flat<float>()) {
      char text[32];
      std::snprintf(text, sizeof(text), "%a ", static_cast<double>(value));
      result.weights += text;
    }
  }
  result.losses = ReadAllEvents(folder);
  return result;
}

void CheckEnded(const std::string& folder, const Result& wanted) {
  const Result result = ResultOf(folder);
  if (result.weights != wanted.weights) Fail(StrCat("weights ", result.weights, "not ", wanted.weights));
  for (const auto& [step, loss] : result.losses) {
    const auto other = wanted.losses.find(step);
    if (other == wanted.losses.end() || other->second != loss) Fail(StrCat("another loss at step ", step));
  }
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().filename().string().find(".tempstate") != std::string::npos) {
      Fail(StrCat(file.path().string(), " is left"));
    }
  }
}

void KillAgainAndAgain(const char* program, int kills, uint64_t seed) {
  const std::string root = fs::temp_directory_path() / StrCat("kill_training.", ::getpid());
  const std::string whole = root + "/whole", killed = root + "/killed";
  fs::create_directories(whole);
  const Clock::time_point begin = Clock::now();
  if (End(Start(program, whole, false)) != 0) Fail("the training fails");
  const auto span = Clock::now() - begin;
  const Result wanted = ResultOf(whole);
  if (wanted.losses.size() != static_cast<size_t>(kSteps)) Fail("there is not a summary of each step");

  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> moment(0, 0.6);
  int done = 0, ended = 0, starts = 0;
  bool fresh = true;
  for (bool last = false; !last;) {
    last = done == kills;
    if (std::exchange(fresh, false)) {
      fs::remove_all(killed);
      fs::create_directories(killed);
    }
    ++starts;
    const pid_t child = Start(program, killed, starts % 2 == 0);
    if (!last) {
      std::this_thread::sleep_for(span * moment(random));
      ::kill(child, SIGKILL);
    }
    const int status = End(child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      ++done;
      ReadAllEvents(killed);
      CheckCounters(killed);
    } else if (status == 0) {
      ++ended;
      CheckEnded(killed, wanted);
      CheckCounters(killed);
      fresh = true;
    } else {
      Fail(StrCat("it ends with ", status, " after ", done, " kills"));
    }
  }
  fs::remove_all(root);
  std::printf("killed %d times in %d starts; %d training%s of %d steps ended with the same weights\n", done,
              starts, ended, ended == 1 ? "" : "s", static_cast<int>(kSteps));
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  int kills = 5;
  uint64_t seed = std::random_device{}();
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    const bool behind = millrace::ConsumePrefix(&argument, "--train_behind=");
    if (behind || millrace::ConsumePrefix(&argument, "--train=")) {
      const millrace::Status status = millrace::Train(std::string(argument), behind);
      if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
      return status.ok() ? 0 : 1;
    }
    if (millrace::ConsumePrefix(&argument, "--kills=")) {
      kills = std::atoi(argument.data());
    } else if (millrace::ConsumePrefix(&argument, "--seed=")) {
      seed = std::strtoull(argument.data(), nullptr, 10);
    } else {
      std::fprintf(stderr, "kill_training [--kills=N] [--seed=S]\n");
      return 2;
    }
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  millrace::KillAgainAndAgain(argv[0], kills, seed);
  return 0;
}
