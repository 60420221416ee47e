// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/in_process_transport.h"

#include <algorithm>
#include <chrono>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "millrace/ref.h"

namespace millrace {
namespace {

// Delivers messages at their times. Its threads run as long as the process.
class DeliveryQueue {
 public:
  using Clock = std::chrono::steady_clock;

  static DeliveryQueue& Get() {
    static auto* const queue = new DeliveryQueue;  // never destroyed: its threads wait at exit
    return *queue;
  }
  void Add(Clock::time_point when, UniqueFunction<void()> message) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    messages_.push_back({when, std::move(message)});
    std::push_heap(messages_.begin(), messages_.end(), Later);
    changed_.NotifyOne();
  }

 private:
  // Handlers do not wait, but they may compute: dropping an installed partition frees its kernels.
  static constexpr int kThreads = 3;
  struct Message {
    Clock::time_point when;
    UniqueFunction<void()> message;
  };
  static bool Later(const Message& a, const Message& b) { return a.when > b.when; }

  DeliveryQueue() {
    for (int i = 0; i < kThreads; ++i) std::thread([this] { Loop(); }).detach();
  }
  void Loop() MR_EXCLUDES(mu_) {
    mu_.Lock();
    while (true) {
      if (messages_.empty()) {
        changed_.Wait(mu_);
        continue;
      }
      const Clock::time_point first = messages_.front().when;
      if (first > Clock::now()) {
        changed_.WaitUntil(mu_, first);
        continue;
      }
      std::pop_heap(messages_.begin(), messages_.end(), Later);
      UniqueFunction<void()> message = std::move(messages_.back().message);
      messages_.pop_back();
      mu_.Unlock();
      message();
      message = nullptr;
      mu_.Lock();
    }
  }

  Mutex mu_;
  CondVar changed_;
  std::vector<Message> messages_ MR_GUARDED_BY(mu_);  // a heap
};

}  // namespace

// A call until its reply has arrived. The callback of the caller's cancellation holds a reference.
struct InProcessTransport::InFlight : RefCounted {
  RemoteCall call;
  Reply reply;
  CancellationManager::Token token = CancellationManager::kInvalidToken;
  CancellationManager at_service;
};

void InProcessTransport::Start(RemoteCall call, Reply reply) {
  const auto it = services_.find(call.task);
  if (it == services_.end()) return reply(errors::Unavailable("There is no task ", call.task), {});
  WorkerService* const service = it->second;
  {
    MutexLock lock(mu_);
    ++in_flight_;
  }
  const RefPtr<InFlight> flight = MakeRef<InFlight>();
  flight->call = std::move(call);
  flight->reply = std::move(reply);
  if (CancellationManager* const caller = flight->call.cancellation; caller != nullptr) {
    // The message that stops the other side may arrive before the one that starts it.
    const auto stop = [this, flight] { Deliver([flight] { flight->at_service.StartCancel(); }); };
    flight->token = caller->Register(stop);
    if (flight->token == CancellationManager::kInvalidToken) flight->at_service.StartCancel();
  }
  Deliver([this, flight, service] {
    service->Handle(flight->call.method, flight->call.request, flight->call.timeout_in_ms, flight->at_service,
                    [this, flight](Status status, MessageBytes response) {
                      Deliver([this, flight, s = std::move(status), bytes = std::move(response)]() mutable {
                        if (flight->token != CancellationManager::kInvalidToken)
                          flight->call.cancellation->TryDeregister(flight->token);
                        Reply finish = std::move(flight->reply);
                        finish(std::move(s), std::move(bytes));
                        finish = nullptr;
                        Ended();
                      });
                    });
  });
}

void InProcessTransport::Deliver(UniqueFunction<void()> message) {
  const uint64_t number = messages_.fetch_add(1, std::memory_order_relaxed);  // any order is allowed
  const uint64_t random = HashCombine(options_.seed, number);
  // Delays are frequent at first, then rare: short tests have some and long loops end.
  const uint64_t rarity = 2 + std::min<uint64_t>(number / 8, 254);
  auto when = DeliveryQueue::Clock::now();
  if (options_.max_delay_us > 0 && random % rarity == 0)
    when += std::chrono::microseconds((random >> 32) % static_cast<uint64_t>(options_.max_delay_us));
  DeliveryQueue::Get().Add(when, std::move(message));
}

void InProcessTransport::Ended() {
  MutexLock lock(mu_);
  if (--in_flight_ == 0) drained_.NotifyAll();
}

void InProcessTransport::Drain() {
  MutexLock lock(mu_);
  while (in_flight_ > 0) drained_.Wait(mu_);
}

}  // namespace millrace
