// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "rpc/client_loop.h"

namespace millrace {
namespace {

constexpr int kThreads = 4;
constexpr std::chrono::milliseconds kLookEvery{200};

}  // namespace

std::shared_ptr<ClientLoop> ClientLoop::Get() {
  static auto* const mu = new Mutex;
  static auto* const kept = new std::weak_ptr<ClientLoop>;
  MutexLock lock(*mu);
  std::shared_ptr<ClientLoop> loop = kept->lock();
  if (loop == nullptr) *kept = loop = std::shared_ptr<ClientLoop>(new ClientLoop);
  return loop;
}

ClientLoop::ClientLoop() {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Loop(queue_); });
  watch_ = std::thread([this] { Watch(); });
}

ClientLoop::~ClientLoop() {
  {
    MutexLock lock(mu_);
    ending_ = true;
  }
  heartbeats_.Shutdown();
  queue_.Shutdown();
  for (std::thread& thread : threads_) thread.join();
  watch_.join();
}

void ClientLoop::Loop(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) ClientEvent::EndedWith(tag);
}

void ClientLoop::Watch() {
  auto next = std::chrono::steady_clock::now() + kLookEvery;
  while (true) {
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + (next - std::chrono::steady_clock::now());
    const auto got = heartbeats_.AsyncNext(&tag, &ok, deadline);
    if (got == grpc::CompletionQueue::SHUTDOWN) return;
    if (got == grpc::CompletionQueue::GOT_EVENT) ClientEvent::EndedWith(tag);
    const auto now = std::chrono::steady_clock::now();
    if (now < next) continue;
    next = now + kLookEvery;
    MutexLock lock(mu_);
    if (ending_) continue;
    for (Watcher* const watcher : watchers_) watcher->Look(now, heartbeats_);
  }
}

void ClientLoop::Add(Watcher* watcher) {
  MutexLock lock(mu_);
  watchers_.insert(watcher);
}

void ClientLoop::Remove(Watcher* watcher) {
  MutexLock lock(mu_);
  watchers_.erase(watcher);
}

}  // namespace millrace
