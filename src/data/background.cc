// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/background.h"

#include <atomic>
#include <deque>
#include <system_error>
#include <utility>

#include "data/dataset.h"

namespace millrace::data {

struct Background::Request {
  Request(CancellationManager& c, Work w, Done d) : caller(c), work(std::move(w)), done(std::move(d)) {}
  // Returns true for the first caller, which continues: the thread, or the cancellation.
  bool Claim() { return !claimed.exchange(true); }
  void End(const Status& status) {
    work = nullptr;
    Done finish = std::move(done);
    finish(status);
  }
  CancellationManager& caller;
  CancellationManager::Token token = CancellationManager::kInvalidToken;
  std::atomic<bool> claimed{false};
  Work work;
  Done done;
};

struct Background::State {
  CancellationManager stop;
  Mutex mu;
  CondVar changed;
  bool stopping MR_GUARDED_BY(mu) = false;
  std::deque<std::shared_ptr<Request>> waiting MR_GUARDED_BY(mu);
};

Background::Background() : state_(std::make_shared<State>()) {}

Background::~Background() {
  state_->stop.StartCancel();
  {
    MutexLock lock(state_->mu);
    state_->stopping = true;
    state_->changed.NotifyAll();
  }
  MutexLock lock(thread_mu_);
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Background::Run(CancellationManager& caller, Work work, Done done) {
  const auto request = std::make_shared<Request>(caller, std::move(work), std::move(done));
  request->token = caller.Register([request] {
    if (request->Claim()) request->End(CancelledStatus());
  });
  if (request->token == CancellationManager::kInvalidToken) return request->End(CancelledStatus());
  std::string no_thread;
  {
    MutexLock lock(thread_mu_);
    if (!thread_.joinable()) {
      try {
        thread_ = std::thread([state = state_] { Loop(state); });
      } catch (const std::system_error& e) {
        no_thread = e.what();
      }
    }
  }
  if (!no_thread.empty()) {
    if (!request->Claim()) return;
    caller.Deregister(request->token);
    return request->End(
        errors::ResourceExhausted("Could not start a thread for an input pipeline: ", no_thread));
  }
  MutexLock lock(state_->mu);
  state_->waiting.push_back(request);
  state_->changed.NotifyAll();
}

void Background::Loop(const std::shared_ptr<State>& state) {
  while (true) {
    std::shared_ptr<Request> request;
    {
      MutexLock lock(state->mu);
      while (state->waiting.empty() && !state->stopping) state->changed.Wait(state->mu);
      if (state->waiting.empty()) return;
      request = std::move(state->waiting.front());
      state->waiting.pop_front();
    }
    if (request->Claim()) Serve(*state, *request);
  }
}

void Background::Serve(State& state, Request& request) {
  request.caller.Deregister(request.token);
  Status status = CancelledStatus();
  {
    CancellationManager both(&request.caller);
    const auto token = state.stop.Register([&both] { both.StartCancel(); });
    if (token != CancellationManager::kInvalidToken) {
      status = request.work(both);
      state.stop.Deregister(token);
    }
  }
  // This may destroy the caller's manager.
  request.End(status);
}

}  // namespace millrace::data
