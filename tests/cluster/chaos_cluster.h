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

// Prints the error and the states of the tasks, and ends the program and the tasks.
[[noreturn]] void Fail(const std::string& text);

// The remaining objects of a task.
struct TaskState {
  std::string error;  // set if it has not answered
  int64_t left = 0;   // sessions, steps, graphs and runs
  int64_t tensor_bytes = 0;
  std::string text;  // the complete state
};

// A ps and two workers, processes that reach each other only through links, as do the clients. Each task has
// a separate address for every other task's host, so that the sockets for tensors, at the other's fixed port,
// go through links as well.
class ChaosCluster {
 public:
  static constexpr size_t kPs = 0, kFirstWorker = 1, kTasks = 3, kClient = 3;
  static constexpr std::array<const char*, kTasks> kJobs = {"ps", "worker", "worker"};
  static constexpr std::array<int, kTasks> kNumbers = {0, 0, 1};

  ChaosCluster();
  ~ChaosCluster();
  ChaosCluster(const ChaosCluster&) = delete;
  ChaosCluster& operator=(const ChaosCluster&) = delete;

  // Starts a task at its address. `shared_memory`: whether it offers shared memory to others.
  void Launch(size_t task, bool shared_memory);
  void AwaitReady(size_t task);
  Process& process(size_t task) { return *processes_[task]; }
  void KillAll();

  // For clients.
  std::string Target(size_t worker) const;
  Links& links() { return links_; }
  // The link for messages from one task, or the client, to another, and for the tensors that a task fetches.
  size_t LinkBetween(size_t from, size_t to) const { return link_[from][to]; }
  size_t DataLinkBetween(size_t from, size_t to) const { return data_link_[from][to]; }
  // The number of bytes that sockets for tensors have transferred.
  int64_t BytesOfTensors() const;
  // The state that the task reports, over a connection without faults.
  TaskState StateOf(size_t task) const;
  // The resident memory of the task's process, in bytes, as counted by the kernel.
  int64_t ResidentBytes(size_t task) const;
  // The bytes in tensors when the process was new.
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

// A folder that can be full: a separate file system if this process may create one, otherwise the writing
// process is limited.
class SmallDisk {
 public:
  // To be created before threads are started.
  SmallDisk();
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  const std::string& folder() const { return folder_; }
  bool is_real() const { return mounted_; }
  // From now on that process can't write any more.
  void Fill(pid_t writer);
  void Empty(pid_t writer);

 private:
  std::string folder_;
  bool mounted_ = false;
};

}  // namespace millrace
