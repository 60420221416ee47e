// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/thread_pool.h"
#include "base/waiting_threads.h"
#include "distributed/call_server.h"
#include "distributed/master.h"
#include "distributed/master_watch.h"
#include "distributed/tensor_channels.h"
#include "distributed/traffic.h"
#include "distributed/transport.h"
#include "distributed/worker_service.h"
#include "millrace/cluster.h"

namespace millrace {

class SocketChannel;

// A task of a cluster in this process, whatever carries its messages: its devices, the worker and the master
// on them. Lives as long as its server or a session of this process that it is the master of. Thread-safe.
class Task : public std::enable_shared_from_this<Task> {
 public:
  // What lies below the transport, for those who move tensors beside it.
  struct Network {
    std::map<std::string, std::string> addresses = {};  // "host:port", by task; empty: there are none
    std::string listen = {};                            // the host of this task
    bool encrypted = false;
    ConnectToTasks connect = {};  // to tasks of other clusters; empty: there is no way
  };
  static StatusOr<std::shared_ptr<Task>> Make(const ServerOptions& options,
                                              std::shared_ptr<Transport> transport, const Network& network);
  static StatusOr<std::shared_ptr<Task>> Make(const ServerOptions& options,
                                              std::shared_ptr<Transport> transport) {
    return Make(options, std::move(transport), Network());
  }
  ~Task();

  // Answers a call of any service, on this thread or another. `cancellation` lives until the reply.
  void Handle(Method method, MessageBytes request, int64_t timeout_in_ms, CancellationManager& cancellation,
              Reply reply);
  // A session of this process, without messages to the master. It keeps the task.
  StatusOr<std::unique_ptr<Session>> NewSession(const SessionOptions& options);
  // Stops what runs and refuses what comes. Bounded; does not wait for kernels that compute.
  void Stop();
  // Ends the connections for calls, which wait for the answers as Listener::Stop does.
  void StopCalls(int64_t grace_in_ms);

  // Steps of sessions and of graphs, in progress.
  int64_t num_running() const;

  const std::string& name() const { return name_; }
  Master& master() { return *master_; }
  WorkerService& worker() { return *worker_; }
  // The state of the task, and of all tasks of the cluster, as JSON.
  std::string Describe() const;
  std::string DescribeAll(int64_t timeout_in_ms);

 private:
  Task() = default;
  void OpenCalls(Reply reply);

  std::string name_;
  ClusterSpec cluster_;
  Traffic traffic_;
  std::unique_ptr<CallServer> calls_;
  std::unique_ptr<TensorChannels> channels_;
  SocketChannel* sockets_ = nullptr;  // among them; null: there are none
  std::shared_ptr<Transport> network_;
  std::unique_ptr<MeteredTransport> transport_;  // what all parts of the task use
  std::shared_ptr<ThreadPool> pool_;
  // Ends connections of sessions, off the threads of their replies.
  WaitingThreads ends_;
  std::shared_ptr<LocalDevices> devices_;
  std::shared_ptr<TaskSteps> steps_;
  std::unique_ptr<WorkerService> worker_;
  std::unique_ptr<Master> master_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<MasterWatch> watch_;
  WaitingThreads threads_;  // goes first: what runs on it uses the rest
};

// The tasks of this process, by the targets of their sessions. Thread-safe.
class LocalTasks {
 public:
  static LocalTasks& Get();
  void Add(const std::string& target, const std::shared_ptr<Task>& task) MR_EXCLUDES(mu_);
  void Remove(const std::string& target) MR_EXCLUDES(mu_);
  // Null when there is none.
  std::shared_ptr<Task> Find(const std::string& target) MR_EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::map<std::string, std::weak_ptr<Task>> tasks_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
