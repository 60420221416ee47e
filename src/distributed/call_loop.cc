// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/call_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <system_error>
#include <utility>

#include "distributed/call_socket.h"

namespace millrace {
namespace {

constexpr int kThreads = 4;
constexpr uint64_t kWakeId = 0;

}  // namespace

std::shared_ptr<CallLoop> CallLoop::Get() {
  static auto* const mu = new Mutex;
  static auto* const kept = new std::weak_ptr<CallLoop>;
  MutexLock lock(*mu);
  std::shared_ptr<CallLoop> loop = kept->lock();
  if (loop != nullptr) return loop;
  loop = std::shared_ptr<CallLoop>(new CallLoop);
  if (!loop->Begin()) return nullptr;
  *kept = loop;
  return loop;
}

bool CallLoop::Begin() {
  epoll_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid()) return false;
  epoll_event event{};
  event.events = EPOLLIN;  // level-triggered: wakes all threads, to end them
  event.data.u64 = kWakeId;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) return false;
  try {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Loop(); });
    watch_ = std::thread([this] { Watch(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

CallLoop::~CallLoop() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
  }
  if (wake_.valid()) ::eventfd_write(wake_.get(), 1);
  for (std::thread& thread : threads_) thread.join();
  if (watch_.joinable()) watch_.join();
}

uint64_t CallLoop::Add(RefPtr<CallSocket> socket, int fd) {
  uint64_t id = 0;
  {
    MutexLock lock(mu_);
    id = next_id_++;
    sockets_.emplace(id, std::move(socket));
  }
  epoll_event event{};
  event.events = EPOLLONESHOT;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return id;
  MutexLock lock(mu_);
  sockets_.erase(id);
  return 0;
}

void CallLoop::Arm(uint64_t id, int fd, bool readable, bool writable) const {
  epoll_event event{};
  event.events = EPOLLONESHOT | (readable ? uint32_t{EPOLLIN} : 0) | (writable ? uint32_t{EPOLLOUT} : 0);
  event.data.u64 = id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void CallLoop::Remove(uint64_t id, int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  RefPtr<CallSocket> socket;  // destroyed after the lock is released
  MutexLock lock(mu_);
  const auto it = sockets_.find(id);
  if (it == sockets_.end()) return;
  socket = std::move(it->second);
  sockets_.erase(it);
}

RefPtr<CallSocket> CallLoop::Find(uint64_t id) {
  MutexLock lock(mu_);
  const auto it = sockets_.find(id);
  return it == sockets_.end() ? nullptr : it->second;
}

void CallLoop::Loop() {
  std::vector<Work> works;
  while (true) {
    epoll_event event{};
    if (::epoll_wait(epoll_.get(), &event, 1, -1) != 1) continue;
    if (event.data.u64 == kWakeId) return;
    {
      const RefPtr<CallSocket> socket = Find(event.data.u64);
      if (socket == nullptr) continue;
      constexpr uint32_t kFailed = EPOLLERR | EPOLLHUP;
      socket->Ready((event.events & (EPOLLIN | kFailed)) != 0, (event.events & (EPOLLOUT | kFailed)) != 0,
                    &works);
    }
    RunAll(&works);
  }
}

void CallLoop::RunAll(std::vector<Work>* works) {
  if (works->size() > 1) {
    // The watch runs the work that this thread does not get to.
    MutexLock lock(mu_);
    for (size_t i = 1; i < works->size(); ++i) queue_.push_back(std::move((*works)[i]));
  }
  const bool several = works->size() > 1;
  if (!works->empty()) {
    works->front()();
    works->clear();
  }
  while (several && RunQueued()) continue;
}

bool CallLoop::RunQueued() {
  Work work;
  {
    MutexLock lock(mu_);
    if (queue_.empty()) return false;
    work = std::move(queue_.front());
    queue_.pop_front();
  }
  work();
  return true;
}

void CallLoop::Watch() {
  while (true) {
    std::vector<RefPtr<CallSocket>> sockets;
    bool late = false;
    {
      MutexLock lock(mu_);
      if (ending_) return;
      late = !queue_.empty();
      changed_.WaitUntil(mu_, std::chrono::steady_clock::now() + kTick);
      if (ending_) return;
      late = late && !queue_.empty();
      for (const auto& [id, socket] : sockets_) sockets.push_back(socket);
    }
    for (const RefPtr<CallSocket>& socket : sockets) socket->Tick();
    if (!late) continue;
    // A thread is busy with earlier work, for an unknown time.
    late_.ScheduleOrRun([this] {
      while (RunQueued()) continue;
    });
  }
}

}  // namespace millrace
