// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// soak --seconds=N [--seed=S]: several clients run random programs concurrently, in sessions with random
// options, while steps time out, are aborted and cancelled, and sessions are closed and reset meanwhile.
// Wrong results, unexpected errors, leaked tensors and hangs end it with status 1.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/notification.h"
#include "base/strings.h"
#include "session/direct_session.h"
#include "tensor/cpu_allocator.h"
#include "tests/soundness/random_program.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// The time limit of steps that wait for values which an aborted step has taken.
constexpr int64_t kLongTimeoutMs = 2000;
constexpr auto kHangAfter = seconds(60);

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "soak: FAILED: %s\n", what.c_str());
  std::fflush(stderr);
  std::abort();
}

int64_t ResidentKiB() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * 4;
}

// Totals of the whole run.
struct Totals {
  std::atomic<int64_t> rounds{0}, right{0}, aborted{0}, cancelled{0}, late{0}, gone{0}, partial{0};
  std::atomic<int64_t> worst_return_us{0};  // from a deadline to the return
  void Returned(Clock::duration after_deadline) {
    const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(after_deadline).count();
    int64_t worst = worst_return_us.load();
    while (us > worst && !worst_return_us.compare_exchange_weak(worst, us)) {
    }
  }
  int64_t progress() const { return rounds + right + aborted + cancelled + late + gone + partial; }
};

// Ends the program with a description if there is no more progress.
class Watchdog {
 public:
  static constexpr int kMaxClients = 8;

  explicit Watchdog(const Totals& totals) : totals_(totals), thread_([this] { Watch(); }) {}
  ~Watchdog() {
    stop_.Notify();
    thread_.join();
  }
  void Round(uint32_t seed) { seed_ = seed; }
  // The current activity of a client; a literal.
  void Doing(int client, const char* what) { doing_[client] = what; }

 private:
  void Watch() {
    int64_t seen = -1;
    auto since = Clock::now();
    while (!stop_.WaitUntil(Clock::now() + seconds(1))) {
      const int64_t now = totals_.progress();
      if (now != seen) {
        seen = now;
        since = Clock::now();
      } else if (Clock::now() - since > kHangAfter) {
        std::string state = "nothing has moved for a minute, in the round of seed " + std::to_string(seed_);
        for (int i = 0; i < kMaxClients; ++i) {
          if (const char* what = doing_[i]) state += "\n  client " + std::to_string(i) + ": " + what;
        }
        Fail(state);
      }
    }
  }

  const Totals& totals_;
  std::atomic<uint32_t> seed_{0};
  std::atomic<const char*> doing_[kMaxClients] = {};
  Notification stop_;
  std::thread thread_;
};

// One program in one session.
class Round {
 public:
  Round(uint32_t seed, Totals& totals, Watchdog& watchdog)
      : random_(seed),
        totals_(totals),
        watchdog_(watchdog),
        cpus_(1 + Pick(3)),
        program_(seed, 4 + Pick(20), cpus_),
        clients_(1 + Pick(4)),
        runs_(5 + Pick(40)) {
    watchdog.Round(seed);
  }

  void Run() {
    MakeSession();
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(clients_));
    for (int i = 0; i < clients_; ++i) {
      threads.emplace_back([this, i, seed = static_cast<uint32_t>(random_())] { Client(i, seed); });
    }
    Disturb();
    for (std::thread& t : threads) t.join();
    for (int i = 0; i < clients_; ++i) watchdog_.Doing(i, nullptr);
    session_->faults_for_test()->Disarm();
    if (!gone_) CheckCounter();
    session_.reset();
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  void MakeSession();
  void Disturb();
  void CheckCounter();
  void Client(int id, uint32_t seed);
  void OneRun(int id, std::mt19937& random, Session::CallableHandle callable) MR_EXCLUDES(drain_mu_);
  void WaitForNothing(std::mt19937& random);
  void PartialRun(std::mt19937& random);
  Session::Feeds FeedsOf(const RandomProgram::Values& inputs) const;
  void Expect(const RandomProgram::Values& inputs, const std::vector<Tensor>& out) const;
  void Count(const Status& status);
  void Drain() MR_EXCLUDES(drain_mu_);

  std::mt19937 random_;
  Totals& totals_;
  Watchdog& watchdog_;
  const int cpus_;
  const RandomProgram program_;
  const int clients_;
  const int runs_;
  std::unique_ptr<DirectSession> session_;
  std::atomic<int> running_{0};
  std::atomic<bool> gone_{false};  // the session may have been closed or reset
  std::atomic<int64_t> started_{0}, succeeded_{0};
  std::atomic<int> failed_{0};  // since the queue was last emptied
  SharedMutex drain_mu_;        // held by steps; exclusively to empty the queue
};

void Round::MakeSession() {
  SessionOptions options;
  options.device_count["CPU"] = cpus_;
  options.inter_op_parallelism_threads = 1 + Pick(4);
  options.intra_op_parallelism_threads = 1 + Pick(2);
  options.use_per_session_threads = Pick(4) == 0;
  if (Pick(3) == 0) options.disabled_passes.insert("all");
  TestConfig config;
  config.faults.by_hand = true;
  config.faults.delays = Pick(3) == 0;
  config.faults.seed = random_();
  if (Pick(2) == 0) config.spread_seed = random_();
  auto session = DirectSession::MakeForTest(options, config);
  if (!session.ok()) Fail(session.status().message());
  session_ = *std::move(session);
  Status ready = session_->Create(program_.def());
  if (ready.ok()) ready = session_->Run({}, {}, {RandomProgram::kInit}, nullptr);
  if (!ready.ok()) Fail(ready.message());
  running_ = clients_;
}

// Aborts steps while the clients run, and sometimes closes or resets the session at the end.
void Round::Disturb() {
  const bool aborts = Pick(2) == 0;
  const int end = Pick(6);
  const int end_after = Pick(30);
  for (int i = 0; running_ > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
    if (aborts && Pick(4) == 0) {
      const auto kind = Pick(2) == 0 ? FaultInjector::AbortKind::kError : FaultInjector::AbortKind::kCancel;
      session_->faults_for_test()->AbortAt(Pick(100), kind);
    }
    if (i != end_after || end > 1) continue;
    gone_ = true;
    const Status status = end == 0 ? session_->Close() : Reset(SessionOptions(), {});
    if (!status.ok()) Fail(status.message());
  }
}

void Round::CheckCounter() {
  std::vector<Tensor> out;
  const Status status = session_->Run({}, {RandomProgram::kCounter}, {}, &out);
  if (!status.ok()) Fail(status.message());
  const int64_t counted = out[0].scalar<int64_t>();
  if (counted < succeeded_ || counted > started_)
    Fail(StrCat("the counter is at ", counted, " after ", succeeded_.load(), " of ", started_.load()));
}

void Round::Client(int id, uint32_t seed) {
  std::mt19937 random(seed);
  CallableOptions options{program_.feeds(), program_.fetches(), {RandomProgram::kCount}, {}};
  options.run_options.timeout_in_ms = kLongTimeoutMs;
  watchdog_.Doing(id, "makes a callable");
  const auto callable = session_->MakeCallable(options);
  if (!callable.ok() && !gone_) Fail(callable.status().message());
  for (int i = 0; i < runs_; ++i) {
    const auto dice = random() % 20;
    if (dice < 2) {
      watchdog_.Doing(id, "waits for what never comes");
      WaitForNothing(random);
    } else if (dice == 2) {
      watchdog_.Doing(id, "runs partially");
      PartialRun(random);
    } else {
      watchdog_.Doing(id, "runs");
      OneRun(id, random, callable.value_or(-1));
    }
    if (failed_ >= 2) {
      watchdog_.Doing(id, "empties the queue");
      Drain();
    }
  }
  --running_;
}

Session::Feeds Round::FeedsOf(const RandomProgram::Values& inputs) const {
  Session::Feeds feeds;
  const std::vector<std::string> names = program_.feeds();
  for (size_t i = 0; i < names.size(); ++i) feeds.emplace_back(names[i], Tensor::Scalar(inputs[i]));
  return feeds;
}

RandomProgram::Values RandomInputs(std::mt19937& random) {
  RandomProgram::Values inputs(RandomProgram::kInputs);
  for (int32_t& x : inputs) x = static_cast<int32_t>(random() % RandomProgram::kModulus);
  return inputs;
}

void Round::Expect(const RandomProgram::Values& inputs, const std::vector<Tensor>& out) const {
  RandomProgram::Values values;
  for (const Tensor& t : out) values.push_back(t.scalar<int32_t>());
  if (values != program_.Evaluate(inputs)) Fail("wrong results");
}

void Round::OneRun(int id, std::mt19937& random, Session::CallableHandle callable) {
  const RandomProgram::Values inputs = RandomInputs(random);
  const Session::Feeds feeds = FeedsOf(inputs);
  std::vector<Tensor> out;
  RunOptions options;
  options.timeout_in_ms = random() % 6 == 0 ? 1 + static_cast<int64_t>(random() % 5) : kLongTimeoutMs;
  RunMetadata metadata;
  const bool traced = random() % 10 == 0;
  if (traced) options.trace_level = RunOptions::TraceLevel::kFull;
  Status status;
  {
    ReaderLock lock(drain_mu_);
    ++started_;
    if (random() % 3 == 0) {
      watchdog_.Doing(id, "runs a callable");
      std::vector<Tensor> args;
      for (const auto& [name, value] : feeds) args.push_back(value);
      status = session_->RunCallable(callable, args, &out, nullptr);
      if (callable < 0) status = errors::Cancelled("it was not made");
    } else {
      status = session_->Run(options, feeds, program_.fetches(), {RandomProgram::kCount}, &out,
                             traced ? &metadata : nullptr);
    }
  }
  if (status.ok()) {
    ++succeeded_;
    ++totals_.right;
    return Expect(inputs, out);
  }
  Count(status);
}

void Round::WaitForNothing(std::mt19937& random) {
  RunOptions options;
  options.timeout_in_ms = 1 + static_cast<int64_t>(random() % 10);
  std::vector<Tensor> out;
  const auto deadline = Clock::now() + milliseconds(options.timeout_in_ms);
  const Status status = session_->Run(options, {}, {RandomProgram::kNever}, {}, &out, nullptr);
  if (status.ok()) Fail("what never comes came");
  totals_.Returned(Clock::now() - deadline);
  // It leaves nothing in the queue.
  --failed_;
  Count(status);
}

// Feeds one value first, then the others; sometimes the run is abandoned in between.
void Round::PartialRun(std::mt19937& random) {
  const RandomProgram::Values inputs = RandomInputs(random);
  Session::Feeds feeds = FeedsOf(inputs);
  ReaderLock lock(drain_mu_);
  const auto handle = session_->PRunSetup(program_.feeds(), program_.fetches(), {});
  if (!handle.ok()) return Count(handle.status());
  const Session::Feeds first = {feeds.back()};
  feeds.pop_back();
  std::vector<Tensor> out;
  Status status = session_->PRun(*handle, first, {}, &out);
  if (random() % 8 == 0 || !status.ok()) {
    ++failed_;
    if (!status.ok()) Count(status);
    return;
  }
  status = session_->PRun(*handle, feeds, program_.fetches(), &out);
  if (!status.ok()) return Count(status);
  ++totals_.partial;
  Expect(inputs, out);
}

void Round::Count(const Status& status) {
  ++failed_;
  if (status.code() == ErrorCode::kAborted &&
      status.message().find(FaultInjector::kAbortText) != std::string::npos) {
    ++totals_.aborted;
  } else if (errors::IsCancelled(status)) {
    ++totals_.cancelled;
  } else if (status.code() == ErrorCode::kDeadlineExceeded) {
    ++totals_.late;
  } else if (gone_) {
    ++totals_.gone;  // resources may be missing
  } else {
    Fail("an unexpected error: " + std::string(status.message()));
  }
}

void Round::Drain() {
  WriterLock lock(drain_mu_);
  failed_ = 0;
  RunOptions options;
  options.timeout_in_ms = kLongTimeoutMs;
  std::vector<Tensor> size;
  Status status = session_->Run(options, {}, {RandomProgram::kQueueSize}, {}, &size, nullptr);
  if (status.ok()) {
    status = session_->Run(options, {{RandomProgram::kDrainCount, size[0]}}, {}, {RandomProgram::kDrain},
                           nullptr, nullptr);
  }
  if (!status.ok()) Count(status);
}

void Report(const Totals& t, int64_t bytes, int64_t early_kib) {
  std::printf(
      "soak: %lld rounds: %lld correct runs, %lld correct partial runs, %lld aborted, %lld cancelled, %lld "
      "timed "
      "out, "
      "%lld in sessions that were reset\n"
      "soak: worst return after a deadline: %.1f ms; bytes in use: %lld, as at the start; resident: %lld KiB "
      "after a "
      "tenth of the time, %lld KiB at the end\n",
      static_cast<long long>(t.rounds), static_cast<long long>(t.right), static_cast<long long>(t.partial),
      static_cast<long long>(t.aborted), static_cast<long long>(t.cancelled), static_cast<long long>(t.late),
      static_cast<long long>(t.gone), static_cast<double>(t.worst_return_us) / 1000,
      static_cast<long long>(bytes), static_cast<long long>(early_kib),
      static_cast<long long>(ResidentKiB()));
}

void Soak(seconds time, uint32_t seed) {
  Totals totals;
  Watchdog watchdog(totals);
  std::mt19937 random(seed);
  const auto start = Clock::now();
  int64_t early_kib = 0;
  int64_t bytes = 0;
  while (Clock::now() - start < time) {
    const auto round_seed = static_cast<uint32_t>(random());
    Round(round_seed, totals, watchdog).Run();
    const int64_t now = GetCpuAllocatorImpl().Stats().bytes_in_use;
    // The first round includes memory that the library keeps permanently.
    if (totals.rounds == 0) bytes = now;
    if (now != bytes) {
      Fail(StrCat(now - bytes, " bytes more in use after the round of seed ", round_seed, " than before"));
    }
    ++totals.rounds;
    if (Clock::now() - start < time / 10) early_kib = ResidentKiB();
  }
  Report(totals, bytes, early_kib);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  int64_t seconds = 10;
  int64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto number = millrace::SafeStringToInt64(arg.substr(std::min(arg.size(), arg.find('=') + 1)));
    const bool known =
        number && *number >= 0 && (arg.starts_with("--seconds=") || arg.starts_with("--seed="));
    if (!known) {
      std::fprintf(stderr, "Usage: soak [--seconds=10] [--seed=1]\n");
      return 2;
    }
    (arg.starts_with("--seconds=") ? seconds : seed) = *number;
  }
  millrace::Soak(std::chrono::seconds(seconds), static_cast<uint32_t>(seed));
  return 0;
}
