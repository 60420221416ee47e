// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "millrace/cluster.h"
#include "tests/cluster/network_testing.h"
#include "tests/cluster/process_testing.h"

namespace millrace {

// Prints what went wrong and what the tasks say of themselves, and ends the program and the tasks.
[[noreturn]] void Fail(const std::string& text);

// What is left at a task.
struct TaskState {
  std::string error;  // it has not answered
  int64_t left = 0;   // sessions, steps, graphs and runs
  int64_t tensor_bytes = 0;
  std::string text;  // all of it
};

// A ps and two workers, processes that reach each other only through links, as the clients reach the workers.
// What one task knows as the host of another one is an address of its own, so that the sockets for tensors,
// at the other's fixed port, are links as well.
class ChaosCluster {
 public:
  static constexpr size_t kPs = 0, kFirstWorker = 1, kTasks = 3, kClient = 3;
  static constexpr std::array<const char*, kTasks> kJobs = {"ps", "worker", "worker"};
  static constexpr std::array<int, kTasks> kNumbers = {0, 0, 1};

  ChaosCluster();
  ~ChaosCluster();
  ChaosCluster(const ChaosCluster&) = delete;
  ChaosCluster& operator=(const ChaosCluster&) = delete;

  // Starts a task at its address. `shared_memory`: whether it offers that to others.
  void Launch(size_t task, bool shared_memory);
  void AwaitReady(size_t task);
  Process& process(size_t task) { return *processes_[task]; }
  void KillAll();

  // For clients.
  std::string Target(size_t worker) const;
  Links& links() { return links_; }
  // For the messages from one task, or the client, to another, and for the tensors that a task fetches.
  size_t LinkBetween(size_t from, size_t to) const { return link_[from][to]; }
  size_t DataLinkBetween(size_t from, size_t to) const { return data_link_[from][to]; }
  // That sockets for tensors have moved.
  int64_t BytesOfTensors() const;
  // What the task says, by the way that no link disturbs.
  TaskState StateOf(size_t task) const;
  // Bytes of memory that the process of the task has, as the kernel counts them.
  int64_t ResidentBytes(size_t task) const;
  // What the process had in tensors when it was new.
  int64_t FirstTensorBytes(size_t task) const { return first_tensor_bytes_[task]; }

 private:
  static std::string HostOf(size_t from, size_t to) { return StrCat("127.77.", from, ".", to + 1); }

  std::array<int, kTasks> ports_{};
  std::array<int, kTasks> data_ports_{};
  Links links_;
  std::array<std::array<size_t, kTasks>, kTasks + 1> link_{};
  std::array<std::array<size_t, kTasks>, kTasks> data_link_{};
  std::array<std::unique_ptr<Process>, kTasks> processes_;
  std::array<int64_t, kTasks> first_tensor_bytes_{};
};

// A folder that can be full: a file system of its own where this process may make one, otherwise the process
// that writes is limited.
class SmallDisk {
 public:
  // Before threads begin.
  SmallDisk();
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  const std::string& folder() const { return folder_; }
  bool is_real() const { return mounted_; }
  // No more can be written by that process.
  void Fill(pid_t writer);
  void Empty(pid_t writer);

 private:
  std::string folder_;
  bool mounted_ = false;
};

}  // namespace millrace
