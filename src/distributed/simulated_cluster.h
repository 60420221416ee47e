// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "distributed/master.h"
#include "distributed/transport.h"

namespace tensorflow {
class GraphDef;
}

namespace millrace {

struct SimulatedNetworkOptions {
  int num_tasks = 10;
  double latency_us = 100;          // of a message, one way
  double bytes_per_second = 1.2e9;  // of the master's connection
  double task_us = 50;              // the time of a task for a call
  // After that time a broadcast that has not reached all tasks ends with DeadlineExceeded.
  int64_t patience_in_ms = 600'000;
};

// Tasks that answer the calls of a master and compute nothing, for benchmarks and tests of the master. A
// broadcast (GetStatus, CreateWorkerSession, RegisterGraph and RunGraph) is answered when it has reached all
// tasks, so a master that made the calls one after the other would never get an answer. A fetch from task i
// is the number i. The time of the network is computed and not waited for. Thread-safe.
class SimulatedNetwork : public Transport {
 public:
  struct Broadcast {
    Method method = Method::kGetStatus;
    int64_t bytes = 0;          // of all requests
    int64_t timeout_in_ms = 0;  // the longest of a request; 0: one has none
    double network_us = 0;      // from the first request to the last answer
  };
  explicit SimulatedNetwork(const SimulatedNetworkOptions& options);
  ~SimulatedNetwork() override;
  void Start(RemoteCall call, Reply reply) override MR_EXCLUDES(mu_);
  std::vector<Broadcast> broadcasts() const MR_EXCLUDES(mu_);

 private:
  struct Held {
    RemoteCall call;
    Reply reply;
  };
  void EndLateBroadcasts() MR_EXCLUDES(mu_);
  void Answer(std::vector<Held> calls) MR_EXCLUDES(mu_);

  const SimulatedNetworkOptions options_;
  mutable Mutex mu_;
  CondVar stopping_;
  bool stopped_ MR_GUARDED_BY(mu_) = false;
  std::vector<Held> held_ MR_GUARDED_BY(mu_);  // of one method
  std::chrono::steady_clock::time_point held_since_ MR_GUARDED_BY(mu_);
  std::vector<Broadcast> broadcasts_ MR_GUARDED_BY(mu_);
  std::thread watch_;
};

// A master at /job:master/task:0 whose cluster has the simulated tasks /job:worker/task:0, 1, …
class SimulatedCluster {
 public:
  static StatusOr<std::unique_ptr<SimulatedCluster>> Make(const SimulatedNetworkOptions& options);
  Master& master() { return *master_; }
  SimulatedNetwork& network() { return network_; }

 private:
  explicit SimulatedCluster(const SimulatedNetworkOptions& options) : network_(options) {}
  SimulatedNetwork network_;
  std::unique_ptr<Master> master_;
};

// For each task: a NoOp "empty<i>", and a variable "node<i>_0" with a chain of operations up to
// "node<i>_<nodes_per_task - 1>". The second node of a chain also reads the variable of the task before.
tensorflow::GraphDef SimulatedGraph(int num_tasks, int nodes_per_task);

}  // namespace millrace
