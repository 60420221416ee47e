// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace bench: how long a step of a model takes, and how many there are in a second.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "cli/commands.h"
#include "cli/model_session.h"
#include "cli/options.h"
#include "display/text.h"

namespace millrace::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  ModelOptions model;
  int64_t runs = 0;  // 0: as many as there are in the time
  double seconds = 3;
  int64_t warm_up = 5;
  int threads = 1;
};

// Threads take runs in any order; each keeps its own times.
constexpr size_t kMostSamples = size_t{1} << 22;  // of each thread; later runs are counted only

struct Measured {
  std::vector<double> seconds;  // of the runs, sorted
  int64_t runs = 0;
  double wall = 0;
  double load = 0, first = 0;
};

class Bench {
 public:
  Bench(const BenchOptions& options, Session& session, const ModelStep& step, const Context& context)
      : options_(options), session_(session), context_(context) {
    callable_.fetches = step.fetches;
    callable_.targets = step.targets;
    for (const auto& [name, value] : step.feeds) {
      callable_.feeds.push_back(name);
      feeds_.push_back(value);
    }
  }

  StatusOr<Measured> Run() {
    Measured measured;
    MR_ASSIGN_OR_RETURN(handle_, session_.MakeCallable(callable_));
    MR_ASSIGN_OR_RETURN(measured.first, Once());
    for (int64_t i = 0; i < options_.warm_up; ++i) MR_RETURN_IF_ERROR(Once().status());
    std::vector<std::vector<double>> samples(static_cast<size_t>(options_.threads));
    const Clock::time_point start = Clock::now();
    end_ =
        start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.seconds));
    {
      std::vector<std::jthread> threads;
      for (int t = 1; t < options_.threads; ++t) {
        threads.emplace_back([this, &samples, t] { Work(false, &samples[static_cast<size_t>(t)]); });
      }
      Work(true, &samples[0]);
    }
    measured.wall = std::chrono::duration<double>(Clock::now() - start).count();
    {
      MutexLock lock(mu_);
      MR_RETURN_IF_ERROR(error_);
    }
    measured.runs = done_.load();
    for (const auto& of_thread : samples) {
      measured.seconds.insert(measured.seconds.end(), of_thread.begin(), of_thread.end());
    }
    std::sort(measured.seconds.begin(), measured.seconds.end());
    return measured;
  }

 private:
  StatusOr<double> Once() {
    std::vector<Tensor> outputs;
    const Clock::time_point start = Clock::now();
    MR_RETURN_IF_ERROR(session_.RunCallable(handle_, feeds_, &outputs, nullptr));
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Takes runs until there are none left, the time is over, or one has failed.
  void Work(bool tells, std::vector<double>* samples) {
    Progress progress(context_, "running", static_cast<uint64_t>(options_.runs), "runs");
    while (!failed_.load()) {
      const int64_t number = taken_.fetch_add(1);
      if (options_.runs > 0 ? number >= options_.runs : Clock::now() >= end_ && number > 0) return;
      const auto seconds = Once();
      if (!seconds.ok()) {
        MutexLock lock(mu_);
        error_.Update(seconds.status());
        failed_.store(true);
        return;
      }
      if (samples->size() < kMostSamples) samples->push_back(*seconds);
      const int64_t done = done_.fetch_add(1) + 1;
      if (tells) progress.Set(static_cast<uint64_t>(done));
    }
  }

  const BenchOptions& options_;
  Session& session_;
  const Context& context_;
  CallableOptions callable_;
  std::vector<Tensor> feeds_;
  Session::CallableHandle handle_ = 0;
  Clock::time_point end_;
  std::atomic<int64_t> taken_ = 0, done_ = 0;
  std::atomic<bool> failed_ = false;
  Mutex mu_;
  Status error_ MR_GUARDED_BY(mu_);
};

// The quantile `part` of the times of the runs.
double Percentile(const std::vector<double>& sorted, double part) {
  const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

constexpr std::pair<const char*, double> kPercentiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}};

void PrintJson(const BenchOptions& options, const Measured& m, double mean, const Context& context) {
  JsonWriter json;
  json.BeginObject().Field("runs", m.runs).Field("threads", options.threads).Field("wall_s", m.wall);
  json.Field("load_s", m.load).Field("first_run_s", m.first);
  json.Field("runs_per_s", static_cast<double>(m.runs) / m.wall).Key("latency_s").BeginObject();
  json.Field("mean", mean).Field("min", m.seconds.front()).Field("max", m.seconds.back());
  for (const auto& [name, part] : kPercentiles) json.Field(name, Percentile(m.seconds, part));
  json.EndObject().EndObject();
  context.Print(json);
}

StatusOr<ExitCode> RunBench(const BenchOptions& options, const Context& context) {
  const Clock::time_point start = Clock::now();
  MR_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(options.model, context.env));
  const double load = std::chrono::duration<double>(Clock::now() - start).count();
  MR_ASSIGN_OR_RETURN(const ModelStep step, MakeStep(options.model, model.file, true, context.env));
  MR_ASSIGN_OR_RETURN(Measured m, Bench(options, *model.session, step, context).Run());
  m.load = load;
  double sum = 0;
  for (const double s : m.seconds) sum += s;
  const double mean = sum / static_cast<double>(m.seconds.size());
  if (context.json) {
    PrintJson(options, m, mean, context);
    return ExitCode::kOk;
  }
  for (const auto& [name, value] : step.feeds) {
    context.out << "feed " << Printable(name) << ": " << DataTypeName(value.dtype()) << " " << value.shape()
                << "\n";
  }
  context.out << "loaded in " << DurationText(m.load) << ", first run " << DurationText(m.first) << "\n";
  context.out << CountOf(static_cast<uint64_t>(m.runs), "run") << " in " << DurationText(m.wall) << " on "
              << CountOf(static_cast<uint64_t>(options.threads), "thread") << ": "
              << ShortCount(static_cast<double>(m.runs) / m.wall) << " runs a second\n";
  context.out << "latency: mean " << DurationText(mean) << ", min " << DurationText(m.seconds.front());
  for (const auto& [name, part] : kPercentiles) {
    context.out << ", " << name << " " << DurationText(Percentile(m.seconds, part));
  }
  context.out << ", max " << DurationText(m.seconds.back()) << "\n";
  return ExitCode::kOk;
}

}  // namespace

void AddBenchCommand(Commands* commands) {
  const auto options = std::make_shared<BenchOptions>();
  const Command command =
      commands->Add("bench", "Measure how long a step takes; inputs that are not fed are generated",
                    [options](const Context& context) { return RunBench(*options, context); });
  AddModelOptions(&options->model, command);
  AddRunOptions(&options->model, command);
  command.AddOption("--batch", options->model.batch, "The value of unknown sizes of generated inputs")
      .Check(Between(0, 1 << 30));
  command.AddOption("--runs", options->runs, "Number of runs; default: those that fit into --seconds")
      .Check(Positive());
  command.AddOption("--seconds", options->seconds, "Seconds to measure")
      .Check(Between(0.0, 86400.0))
      .ShowDefault();
  command.AddOption("--warmup", options->warm_up, "Runs before the measurement")
      .Check(NotNegative())
      .ShowDefault();
  command.AddOption("--threads", options->threads, "Threads that run steps at the same time")
      .Check(Between(1, 1024));
}

}  // namespace millrace::cli
