// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/function.h"
#include "base/mutex.h"
#include "base/waiting_threads.h"
#include "distributed/unix_socket.h"
#include "millrace/ref.h"
#include "millrace/status.h"

namespace millrace {

class CallSocket;

// The threads that read the call sockets of the process and execute the calls. A thread lets another one read
// from the socket before it executes one. Owners of sockets hold a reference to the loop until their sockets
// have ended. Thread-safe.
class CallLoop {
 public:
  static constexpr std::chrono::milliseconds kTick{100};

  // Null when the system cannot create a descriptor or thread for it.
  static std::shared_ptr<CallLoop> Get();
  ~CallLoop();

  // Holds a reference to the socket until Remove. Returns its number, for which Arm requests notification; 0:
  // it can't be watched.
  uint64_t Add(RefPtr<CallSocket> socket, int fd) MR_EXCLUDES(mu_);
  // One thread is notified, once.
  void Arm(uint64_t id, int fd, bool readable, bool writable) const;
  void Remove(uint64_t id, int fd) MR_EXCLUDES(mu_);

 private:
  using Work = UniqueFunction<void()>;
  CallLoop() = default;
  bool Begin();
  void Loop() MR_EXCLUDES(mu_);
  void Watch() MR_EXCLUDES(mu_);
  RefPtr<CallSocket> Find(uint64_t id) MR_EXCLUDES(mu_);
  void RunAll(std::vector<Work>* works) MR_EXCLUDES(mu_);
  bool RunQueued() MR_EXCLUDES(mu_);

  FileDescriptor epoll_, wake_;
  std::vector<std::thread> threads_;
  std::thread watch_;
  Mutex mu_;
  CondVar changed_;
  bool ending_ MR_GUARDED_BY(mu_) = false;
  uint64_t next_id_ MR_GUARDED_BY(mu_) = 1;
  std::unordered_map<uint64_t, RefPtr<CallSocket>> sockets_ MR_GUARDED_BY(mu_);
  std::deque<Work> queue_ MR_GUARDED_BY(mu_);  // that were read and have not begun
  WaitingThreads late_;                        // for work that has waited too long
};

}  // namespace millrace
