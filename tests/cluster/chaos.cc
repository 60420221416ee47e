// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// chaos [--rounds=N] [--seed=S]: two clients train on a cluster of processes, a ps and two workers, with
// faults at random moments: a task is killed and restarted at its port, a task is stopped and continued,
// connections are cut, slow or silent, the disk for checkpoints is full. Faults affect messages, the sockets
// of large tensors, or both. In each round
//   - every call of a client returns within its time limit, with a correct result
//     or an expected error;
//   - both clients train again after the fault, with the variables of the
//     newest checkpoint if the ps has lost them, and no update is lost or
//     counted twice;
//   - after they have closed their sessions, no task has a session, graph,
//     partition, step or run left, and no more bytes in tensors than when it
//     was new.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "base/strings.h"
#include "millrace/client_session.h"
#include "millrace/ops.h"
#include "tests/cluster/chaos_cluster.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// For a call: creating a session may wait 20 s for a task, a silent one is given up after 1 s.
constexpr std::chrono::seconds kCallBound{40};
// From the end of a fault until both clients train, and until all tasks are empty.
constexpr std::chrono::seconds kRecoveryBound{40};
constexpr int kLargest = 300'000;  // usual elements of a tensor between tasks
constexpr int kHuge = 5'000'000;   // sometimes: such a tensor is sent over several sockets
constexpr int64_t kMostResident = int64_t{400} << 20;

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

enum class Fault { kKill, kStop, kCut, kFreeze, kSlow, kFullDisk };
constexpr std::array kFaults = {Fault::kKill,   Fault::kStop, Fault::kCut,
                                Fault::kFreeze, Fault::kSlow, Fault::kFullDisk};
const char* NameOf(Fault fault) {
  constexpr std::array names = {"kill", "stop", "cut", "freeze", "slow", "full disk"};
  return names[static_cast<size_t>(fault)];
}

// A counter on the ps, and a tensor that is sent from there to a worker.
struct Model {
  explicit Model(const std::string& worker) {
    const Scope ps = scope.WithDevice("/job:ps/task:0");
    const Scope at_worker = scope.WithDevice(worker);
    const Output count = ops::VarHandleOp(ps, DataType::kInt64, PartialShape(std::vector<int64_t>{}),
                                          ops::VarHandleOp::SharedName("count"));
    size = ops::Placeholder(ps, DataType::kInt32, ops::Placeholder::Shape({1}));
    prefix = ops::Placeholder(ps, DataType::kString,
                              ops::Placeholder::Shape(PartialShape(std::vector<int64_t>{})));
    init = ops::AssignVariableOp(ps, count, ops::Const(ps, int64_t{0}));
    const Operation add = ops::AssignAddVariableOp(ps, count, ops::Const(ps, int64_t{1}));
    added = ops::ReadVariableOp(ps.WithControlDependencies({add}), count, DataType::kInt64);
    read = ops::ReadVariableOp(ps, count, DataType::kInt64);
    const Output ones = ops::Fill(ps, size, ops::Const(ps, 1.0f));
    sum = ops::Sum(at_worker, ops::Neg(at_worker, ones), 0);
    const Output names = ops::Const(ps, {std::string("count")});
    const Output slices = ops::Const(ps, {std::string()});
    save = ops::SaveV2(ps, prefix, names, slices, {read});
    const auto restored = ops::RestoreV2(ps, prefix, names, slices, {DataType::kInt64});
    restore = ops::AssignVariableOp(ps, count, restored[0]);
  }
  Scope scope = Scope::NewRootScope();
  Output size, prefix, added, read, sum;
  Operation init, save, restore;
};

// The state that the clients of a round share.
struct Round {
  std::atomic<bool> stop = false;
  std::atomic<int> successes = 0;  // updates that have been confirmed
  std::atomic<int> failures = 0;   // of updates that may have been made
  std::array<std::atomic<int>, 2> steps = {0, 0};
  std::atomic<bool> disk_may_be_full = false;
  std::mutex mu;  // guards the following
  // The value to which the counter was set, and the count at that time.
  int64_t base = 0;
  int successes_before = 0, failures_before = 0;
  std::string checkpoint;  // "": none
  int64_t saved = 0;       // its count
};

struct Totals {
  std::map<std::string, int> rounds;
  std::atomic<int64_t> steps = 0, errors = 0, restores = 0, checkpoints = 0, failed_saves = 0;
  double longest_call = 0, longest_recovery = 0, all_recoveries = 0, longest_cleanup = 0;
  int64_t most_resident = 0;
  std::mutex mu;
};
Totals totals;

// One client: trains in sessions with one worker; the first one also initialises, saves and restores.
class Client {
 public:
  Client(ChaosCluster& cluster, const SmallDisk& disk, Round& round, size_t number, uint64_t seed)
      : cluster_(cluster), disk_(disk), round_(round), number_(number), random_(seed) {}

  void Loop() {
    while (!round_.stop) {
      if (session_ == nullptr) Open();
      Handle(Train());
    }
    // The value is read at the end, in a session that may have to be created again.
    if (number_ == 0) ReadAtEnd();
    Close();
  }

 private:
  template <typename Body>
  Status Timed(const char* what, Body body) {
    const auto start = Clock::now();
    const Status status = body();
    const auto took = Clock::now() - start;
    if (took > kCallBound) Fail(StrCat(what, " took ", Seconds(took), " s: ", status));
    const std::lock_guard lock(totals.mu);
    totals.longest_call = std::max(totals.longest_call, Seconds(took));
    return status;
  }

  void Open() {
    SessionOptions options;
    options.target = cluster_.Target(number_);
    // The first client's sessions have all tasks.
    if (number_ == 1) options.device_filters = {"/job:ps", "/job:worker/task:1"};
    session_ = std::make_unique<ClientSession>(model_.scope, options);
  }
  void Close() {
    if (session_ == nullptr || session_->session() == nullptr) return;
    Timed("Close", [&] {
      session_->session()->Close().IgnoreError("the master may be gone");
      session_ = nullptr;
      return Status();
    }).IgnoreError("nothing fails");
  }

  // One step; the first client also saves sometimes.
  Status Train() {
    const bool huge = std::uniform_int_distribution<int>(0, 49)(random_) == 0;
    const int size = huge ? kHuge : std::uniform_int_distribution<int>(1, kLargest)(random_);
    std::vector<Tensor> out;
    const Status status = Timed("a step", [&] {
      return session_->Run({{model_.size, Literal(Tensor::Vector(std::vector<int32_t>{size}))}},
                           {model_.added, model_.sum}, &out);
    });
    if (!status.ok()) return status;
    if (out[1].scalar<float>() != static_cast<float>(-size))
      Fail(StrCat("the sum is ", out[1].scalar<float>(), " and not ", -size));
    ++round_.successes;
    ++round_.steps[number_];
    ++totals.steps;
    return number_ == 0 && ++since_save_ >= 5 ? Save() : Status();
  }

  Status Save() {
    since_save_ = 0;
    const std::string prefix = StrCat(disk_.folder(), "/count-", ++saves_);
    const auto feeds = Prefix(prefix);
    std::vector<Tensor> out;
    const bool may_be_full = round_.disk_may_be_full;
    const Status status = Timed("a checkpoint", [&] {
      return session_->Run(RunOptions(), feeds, {model_.read}, {model_.save}, &out, nullptr);
    });
    std::string old = prefix;
    if (status.ok()) {
      const std::lock_guard lock(round_.mu);
      old = std::exchange(round_.checkpoint, prefix);
      round_.saved = out[0].scalar<int64_t>();
      ++totals.checkpoints;
    }
    for (const char* file : {".index", ".data-00000-of-00001"}) ::unlink((old + file).c_str());
    if (status.ok()) return status;
    ++totals.failed_saves;
    const bool is_of_disk = may_be_full || round_.disk_may_be_full;
    if (is_of_disk && !errors::IsUnavailable(status) && !errors::IsAborted(status)) {
      if (status.message().find(disk_.folder()) == std::string_view::npos)
        Fail(StrCat("the error of a full disk names no file: ", status));
      return Status();
    }
    return status;
  }

  void Handle(const Status& status) {
    if (status.ok()) return;
    ++totals.errors;
    // The variable is lost.
    if (errors::IsFailedPrecondition(status) || errors::IsNotFound(status)) {
      if (number_ == 0) return Handle(Restore());
      std::this_thread::sleep_for(milliseconds(10));
      return;
    }
    ++round_.failures;
    if (!errors::IsUnavailable(status) && !errors::IsAborted(status) && !errors::IsCancelled(status) &&
        !errors::IsDeadlineExceeded(status)) {
      Fail(StrCat("an error that was not expected: ", status));
    }
    Close();
    session_ = nullptr;
    std::this_thread::sleep_for(milliseconds(20));
  }

  Status Restore() {
    std::string checkpoint;
    {
      const std::lock_guard lock(round_.mu);
      checkpoint = round_.checkpoint;
      round_.base = checkpoint.empty() ? 0 : round_.saved;
      round_.successes_before = round_.successes;
      round_.failures_before = round_.failures;
    }
    ++totals.restores;
    if (checkpoint.empty()) {
      return Timed("Init", [&] { return session_->Run({}, {}, {model_.init}, nullptr); });
    }
    return Timed("Restore", [&] { return session_->Run(Prefix(checkpoint), {}, {model_.restore}, nullptr); });
  }

  void ReadAtEnd() {
    const auto deadline = Clock::now() + kRecoveryBound;
    for (;;) {
      if (session_ == nullptr) Open();
      std::vector<Tensor> out;
      const Status status = Timed("reading", [&] { return session_->Run({}, {model_.read}, {}, &out); });
      if (status.ok()) return Check(out[0].scalar<int64_t>());
      Handle(status);
      if (Clock::now() > deadline) Fail(StrCat("the value can't be read: ", status));
    }
  }

  // An update that was confirmed while the other client restored may be an earlier one.
  void Check(int64_t value) {
    const std::lock_guard lock(round_.mu);
    const int64_t sure = round_.base + round_.successes - round_.successes_before;
    const int64_t possible = sure + round_.failures - round_.failures_before;
    if (value < sure - 1 || value > possible + 2)
      Fail(StrCat("the counter is ", value, ", not between ", sure, " and ", possible));
  }

  ClientSession::Feeds Prefix(const std::string& prefix) const {
    return {{model_.prefix, Literal(Tensor::Scalar(prefix))}};
  }

  ChaosCluster& cluster_;
  const SmallDisk& disk_;
  Round& round_;
  const size_t number_;
  std::mt19937_64 random_;
  const Model model_{StrCat("/job:worker/task:", 1)};
  std::unique_ptr<ClientSession> session_;
  int since_save_ = 0;
  static inline int saves_ = 0;  // by the first client of each round
};

// The fault of a round.
class Trouble {
 public:
  Trouble(ChaosCluster& cluster, SmallDisk& disk, std::mt19937_64& random)
      : cluster_(cluster), disk_(disk), random_(random) {}

  // Returns after the end of the fault.
  void Happen(Fault fault, Round& round) {
    const size_t victim = Below(ChaosCluster::kTasks);
    switch (fault) {
      case Fault::kKill:
        cluster_.process(victim).Signal(SIGKILL);
        cluster_.process(victim).Wait();
        Pause(500);
        cluster_.Launch(victim, Below(2) == 0);
        return cluster_.AwaitReady(victim);
      case Fault::kStop:
        cluster_.process(victim).Signal(SIGSTOP);
        Pause(2500);
        return cluster_.process(victim).Signal(SIGCONT);
      case Fault::kCut:
        return Disturb(victim, Links::Mode::kCut, 1500);
      case Fault::kFreeze:
        return Disturb(victim, Links::Mode::kFrozen, 2500);
      case Fault::kSlow:
        return Disturb(victim, Links::Mode::kSlow, 2000);
      case Fault::kFullDisk: {
        round.disk_may_be_full = true;
        const pid_t writer = cluster_.process(ChaosCluster::kPs).pid();
        disk_.Fill(writer);
        Pause(500);
        return disk_.Empty(writer);
      }
    }
  }
  void Pause(int most_ms) { std::this_thread::sleep_for(milliseconds(Below(static_cast<size_t>(most_ms)))); }
  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

 private:
  // The connections of the task with one other, or with the client, in both directions: all, those for
  // messages, or those for tensors.
  void Disturb(size_t one, Links::Mode mode, int most_ms) {
    size_t other = Below(ChaosCluster::kTasks + 1);
    while (other == one) other = Below(ChaosCluster::kTasks + 1);
    const size_t kind = Below(3);
    const auto set = [&](Links::Mode m) {
      Links& links = cluster_.links();
      const bool tasks = other != ChaosCluster::kClient;
      if (!tasks || kind != 2) links.Set(cluster_.LinkBetween(other, one), m);
      if (tasks && kind != 2) links.Set(cluster_.LinkBetween(one, other), m);
      if (tasks && kind != 1) links.Set(cluster_.DataLinkBetween(other, one), m);
      if (tasks && kind != 1) links.Set(cluster_.DataLinkBetween(one, other), m);
    };
    set(mode);
    Pause(most_ms);
    set(Links::Mode::kPass);
  }

  ChaosCluster& cluster_;
  SmallDisk& disk_;
  std::mt19937_64& random_;
};

// Waits for steps of both clients that begin after this call.
void AwaitSteps(const Round& round, const std::string& when) {
  const auto deadline = Clock::now() + kRecoveryBound;
  const std::array<int, 2> before = {round.steps[0], round.steps[1]};
  // The step in progress may have begun earlier.
  for (size_t i = 0; i < 2; ++i) {
    while (round.steps[i] < before[i] + 2) {
      if (Clock::now() > deadline) Fail(StrCat("client ", i, " does not train ", when));
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
}

// Waits until no task has any objects of the round left.
void AwaitNothingLeft(ChaosCluster& cluster, const std::string& when) {
  const auto start = Clock::now();
  for (size_t task = 0; task < ChaosCluster::kTasks; ++task) {
    for (;;) {
      const TaskState state = cluster.StateOf(task);
      if (state.error.empty() && state.left == 0 && state.tensor_bytes <= cluster.FirstTensorBytes(task)) {
        break;
      }
      if (Clock::now() - start > kRecoveryBound) {
        if (!state.error.empty())
          Fail(StrCat("The state of task ", task, " is unknown ", when, ": ", state.error));
        Fail(StrCat(state.left, " objects and ", state.tensor_bytes, " bytes (",
                    cluster.FirstTensorBytes(task), " at first) remain ", when));
      }
      std::this_thread::sleep_for(milliseconds(20));
    }
    totals.most_resident = std::max(totals.most_resident, cluster.ResidentBytes(task));
  }
  if (totals.most_resident > kMostResident) Fail(StrCat(totals.most_resident, " bytes of memory ", when));
  totals.longest_cleanup = std::max(totals.longest_cleanup, Seconds(Clock::now() - start));
}

// Deletes the variables of all tasks.
void ResetAll(const ChaosCluster& cluster) {
  SessionOptions options;
  options.target = cluster.Target(0);
  const Status status = Reset(options, {});
  if (!status.ok()) Fail(StrCat("Reset: ", status));
}

void RunRound(ChaosCluster& cluster, SmallDisk& disk, int number, std::mt19937_64& random) {
  Trouble trouble(cluster, disk, random);
  Round round;
  const Fault fault = kFaults[trouble.Below(kFaults.size())];
  const std::string when = StrCat("in round ", number, ", ", NameOf(fault));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i, seed = random()] { Client(cluster, disk, round, i, seed).Loop(); });
  }
  // Some faults happen while sessions are being created.
  if (trouble.Below(4) != 0) AwaitSteps(round, StrCat("before the fault ", when));
  trouble.Pause(100);
  trouble.Happen(fault, round);
  const auto end = Clock::now();
  AwaitSteps(round, StrCat("after the fault ", when));
  const double recovery = Seconds(Clock::now() - end);
  round.stop = true;
  for (std::thread& thread : threads) thread.join();
  ResetAll(cluster);
  AwaitNothingLeft(cluster, when);
  ++totals.rounds[NameOf(fault)];
  totals.longest_recovery = std::max(totals.longest_recovery, recovery);
  totals.all_recoveries += recovery;
  for (const char* file : {".index", ".data-00000-of-00001"}) ::unlink((round.checkpoint + file).c_str());
}

void Print(int rounds, double seconds) {
  std::printf("%d rounds in %.0f s:", rounds, seconds);
  for (const auto& [name, count] : totals.rounds) std::printf(" %s %d", name.c_str(), count);
  std::printf(
      "\n%lld steps, %lld errors, %lld checkpoints and %lld that failed, %lld initialised or restored\n"
      "longest call %.1f s; trained again after %.2f s on average, %.1f s at most; empty after %.1f s at "
      "most; "
      "at most %.0f MB resident\n",
      static_cast<long long>(totals.steps), static_cast<long long>(totals.errors),
      static_cast<long long>(totals.checkpoints), static_cast<long long>(totals.failed_saves),
      static_cast<long long>(totals.restores), totals.longest_call, totals.all_recoveries / rounds,
      totals.longest_recovery, totals.longest_cleanup, static_cast<double>(totals.most_resident) / 1e6);
  std::fflush(stdout);
}

void RunAll(int rounds, uint64_t seed) {
  SmallDisk disk;
  ChaosCluster cluster;
  std::printf("seed %llu, %s\n", static_cast<unsigned long long>(seed),
              disk.is_real() ? "a disk of 1 MiB" : "no disk of its own: files are limited instead");
  std::mt19937_64 random(seed);
  for (size_t task = 0; task < ChaosCluster::kTasks; ++task) cluster.Launch(task, task != ChaosCluster::kPs);
  for (size_t task = 0; task < ChaosCluster::kTasks; ++task) cluster.AwaitReady(task);
  const auto start = Clock::now();
  for (int i = 0; i < rounds; ++i) {
    RunRound(cluster, disk, i, random);
    if ((i + 1) % 50 == 0 && i + 1 < rounds) Print(i + 1, Seconds(Clock::now() - start));
  }
  Print(rounds, Seconds(Clock::now() - start));
  const int64_t bytes = cluster.BytesOfTensors();
  std::printf("%.0f MB through sockets of tensors\n", static_cast<double>(bytes) / 1e6);
  if (bytes == 0) Fail("no socket has moved a tensor");
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  int rounds = 12;
  uint64_t seed = std::random_device{}();
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (millrace::ConsumePrefix(&argument, "--rounds=")) {
      rounds = std::atoi(argument.data());
    } else if (millrace::ConsumePrefix(&argument, "--seed=")) {
      seed = std::strtoull(argument.data(), nullptr, 10);
    } else {
      std::fprintf(stderr, "chaos [--rounds=N] [--seed=S]\n");
      return 2;
    }
  }
  millrace::RunAll(rounds, seed);
  return 0;
}
