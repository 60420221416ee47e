// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/coordinator.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <thread>

#include "base/logging.h"
#include "base/mutex.h"
#include "base/strings.h"
#include "training/user_call.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

// The time point after that number of seconds, at most a year.
Clock::time_point After(double seconds) {
  const double bounded = seconds > 0 ? std::min(seconds, 365.0 * 24 * 3600) : 0;  // also 0 for NaN
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bounded));
}

}  // namespace

struct Coordinator::State {
  struct Worker {
    std::string name;
    bool ended = false;
    std::thread thread;
  };

  bool AllEnded() MR_REQUIRES(mu) {
    return std::all_of(workers.begin(), workers.end(), [](const Worker& w) { return w.ended; });
  }
  // Removes the threads that have ended, to be joined without the lock.
  std::list<Worker> TakeEnded() MR_REQUIRES(mu) {
    std::list<Worker> ended;
    for (auto it = workers.begin(); it != workers.end();) {
      const auto next = std::next(it);
      if (it->ended) ended.splice(ended.end(), workers, it);
      it = next;
    }
    return ended;
  }

  void RequestStop(const Status& error) MR_EXCLUDES(mu);
  bool ShouldStop() MR_EXCLUDES(mu);
  bool WaitForStop(std::optional<double> timeout_secs) MR_EXCLUDES(mu);
  std::string NamesOfWorkers() MR_REQUIRES(mu) {
    std::vector<std::string> names;
    for (const Worker& worker : workers) names.push_back(worker.name);
    return StrJoin(names, " ");
  }

  std::vector<ErrorCode> clean_stop_codes;
  double destruction_secs = 0;
  Mutex mu;
  CondVar changed;
  bool stop MR_GUARDED_BY(mu) = false;
  bool joined MR_GUARDED_BY(mu) = false;
  Status error MR_GUARDED_BY(mu);
  std::list<Worker> workers MR_GUARDED_BY(mu);
};

Coordinator::Coordinator(std::vector<ErrorCode> clean_stop_codes, double destruction_secs)
    : state_(std::make_shared<State>()) {
  state_->clean_stop_codes = std::move(clean_stop_codes);
  state_->destruction_secs = destruction_secs;
}

Coordinator::~Coordinator() {
  RequestStop();
  std::list<State::Worker> ended;
  {
    MutexLock lock(state_->mu);
    const Clock::time_point deadline = After(state_->destruction_secs);
    while (!state_->AllEnded() && state_->changed.WaitUntil(state_->mu, deadline)) {
    }
    ended = state_->TakeEnded();
    if (!state_->workers.empty()) {
      MR_LOG(Error) << "Coordinator destroyed with threads still running: " << state_->NamesOfWorkers();
    }
    for (State::Worker& worker : state_->workers) worker.thread.detach();
  }
  for (State::Worker& worker : ended) worker.thread.join();
}

void Coordinator::State::RequestStop(const Status& reason) {
  const auto& clean = clean_stop_codes;
  const bool is_clean = reason.ok() || std::find(clean.begin(), clean.end(), reason.code()) != clean.end();
  MutexLock lock(mu);
  if (joined && !is_clean) MR_LOG(Error) << "Error reported to Coordinator after its end: " << reason;
  if (stop || joined) return;
  if (!is_clean) {
    MR_LOG(Info) << "Error reported to Coordinator: " << reason;
    error = reason;
  }
  stop = true;
  changed.NotifyAll();
}

bool Coordinator::State::ShouldStop() {
  MutexLock lock(mu);
  return stop;
}

bool Coordinator::State::WaitForStop(std::optional<double> timeout_secs) {
  const Clock::time_point deadline = After(timeout_secs.value_or(0));
  MutexLock lock(mu);
  while (!stop) {
    if (!timeout_secs.has_value()) {
      changed.Wait(mu);
    } else if (!changed.WaitUntil(mu, deadline)) {
      break;
    }
  }
  return stop;
}

void Coordinator::RequestStop(const Status& error) { state_->RequestStop(error); }
bool Coordinator::ShouldStop() const { return state_->ShouldStop(); }
bool Coordinator::WaitForStop(std::optional<double> timeout_secs) const {
  return state_->WaitForStop(timeout_secs);
}

void Coordinator::ClearStop() {
  MutexLock lock(state_->mu);
  state_->stop = false;
  state_->joined = false;
  state_->error = Status();
}

bool Coordinator::joined() const {
  MutexLock lock(state_->mu);
  return state_->joined;
}

Status Coordinator::RequestedError() const {
  MutexLock lock(state_->mu);
  return state_->error;
}

void Coordinator::StartThread(std::string name, std::function<Status()> body) {
  if (body == nullptr) {
    return RequestStop(
        errors::InvalidArgument("Coordinator::StartThread: thread '", name, "' has no function"));
  }
  MutexLock lock(state_->mu);
  State::Worker& worker = state_->workers.emplace_back();
  worker.name = std::move(name);
  // The list does not move its elements, and the thread is joined only after it has reported its end.
  worker.thread = std::thread([state = state_, &worker, body = std::move(body)]() mutable {
    const Status status = CallInThread("Coordinator::StartThread", body);
    if (!status.ok()) state->RequestStop(status);
    body = nullptr;  // its captures are destroyed before the end is reported
    MutexLock ended(state->mu);
    worker.ended = true;
    state->changed.NotifyAll();
  });
}

Status Coordinator::Join(double stop_grace_period_secs, bool ignore_live_threads,
                         std::optional<double> timeout_secs) {
  std::list<State::Worker> ended;
  std::string stragglers;
  Status error;
  {
    const Clock::time_point give_up = After(timeout_secs.value_or(0));
    MutexLock lock(state_->mu);
    while (!state_->stop && !state_->AllEnded()) {
      if (!timeout_secs.has_value()) {
        state_->changed.Wait(state_->mu);
      } else if (!state_->changed.WaitUntil(state_->mu, give_up) && !state_->stop) {
        state_->error = errors::DeadlineExceeded("No stop was requested within ", *timeout_secs, " s");
        state_->stop = true;
        state_->changed.NotifyAll();
      }
    }
    const Clock::time_point deadline = After(stop_grace_period_secs);
    while (!state_->AllEnded() && state_->changed.WaitUntil(state_->mu, deadline)) {
    }
    ended = state_->TakeEnded();
    stragglers = state_->NamesOfWorkers();
    state_->joined = true;
    error = state_->error;
  }
  for (State::Worker& worker : ended) worker.thread.join();
  if (!error.ok() || stragglers.empty()) return error;
  const std::string text = "Coordinator stopped with threads still running: " + stragglers;
  if (!ignore_live_threads) return errors::FailedPrecondition(text);
  MR_LOG(Info) << text;
  return Status();
}

Status LooperThread::Run() {
  MR_RETURN_IF_ERROR(StartLoop());
  if (!interval_secs_.has_value()) {
    while (!state_->ShouldStop()) MR_RETURN_IF_ERROR(RunLoop());
    return StopLoop();
  }
  const Clock::time_point begin = Clock::now();
  double next = 0;
  for (;;) {
    const std::chrono::duration<double> passed = Clock::now() - begin;
    if (state_->WaitForStop(std::max(next - passed.count(), 0.0))) break;
    next += *interval_secs_;
    MR_RETURN_IF_ERROR(RunLoop());
  }
  return StopLoop();
}

void LooperThread::Start(std::unique_ptr<LooperThread> looper, std::string name) {
  if (looper == nullptr) return;  // there is no coordinator to be notified
  Coordinator& coordinator = looper->coordinator_;
  coordinator.StartThread(
      std::move(name), [owned = std::shared_ptr<LooperThread>(std::move(looper))] { return owned->Run(); });
}

void LooperThread::Loop(Coordinator& coordinator, std::optional<double> interval_secs, std::string name,
                        std::function<Status()> target) {
  if (target == nullptr) {
    return coordinator.RequestStop(
        errors::InvalidArgument("LooperThread::Loop: thread '", name, "' has no function"));
  }
  class Caller final : public LooperThread {
   public:
    Caller(Coordinator& c, std::optional<double> interval, std::function<Status()> target)
        : LooperThread(c, interval), target_(std::move(target)) {}

   private:
    Status RunLoop() override { return CallInThread("LooperThread::Loop", target_); }
    const std::function<Status()> target_;
  };
  Start(std::make_unique<Caller>(coordinator, interval_secs, std::move(target)), std::move(name));
}

}  // namespace millrace
