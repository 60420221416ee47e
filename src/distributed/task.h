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

// A task of a cluster in this process, independent of the protocol: its devices, with a worker and a master.
// Lives as long as its server or a session of this process whose master it is. Thread-safe.
class Task : public std::enable_shared_from_this<Task> {
 public:
  // Properties of the network, for channels that move tensors outside of messages.
  struct Network {
    std::map<std::string, std::string> addresses = {};  // "host:port", by task; empty: none
    std::string listen = {};                            // the host of this task
    bool encrypted = false;
    ConnectToTasks connect = {};  // to tasks of other clusters; empty: not supported
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
  // A session of this process, without messages to the master. It holds a reference to the task.
  StatusOr<std::unique_ptr<Session>> NewSession(const SessionOptions& options);
  // Stops steps in progress and refuses new ones. Bounded; does not wait for running kernels.
  void Stop();
  // Ends the connections for calls, after waiting for the answers as Listener::Stop does.
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
  SocketChannel* sockets_ = nullptr;  // among them; null: none
  std::shared_ptr<Transport> network_;
  std::unique_ptr<MeteredTransport> transport_;  // used by all parts of the task
  std::shared_ptr<ThreadPool> pool_;
  // Ends connections of sessions, but not on the threads of their replies.
  WaitingThreads ends_;
  std::shared_ptr<LocalDevices> devices_;
  std::shared_ptr<TaskSteps> steps_;
  std::unique_ptr<WorkerService> worker_;
  std::unique_ptr<Master> master_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<MasterWatch> watch_;
  WaitingThreads threads_;  // destroyed first: its work uses the rest
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
