// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "distributed/free_port_testing.h"
#include "millrace/cluster.h"

namespace millrace {

// A ConfigProto that requests messages also for a master in this process.
std::string ConfigWithMessages();

// Servers of one process over loopback, for tests. One thread at a time.
class TestCluster {
 public:
  // The given number of tasks of each job. `options` without a cluster.
  explicit TestCluster(const std::map<std::string, int>& jobs, ServerOptions options = {});
  ~TestCluster();
  const ClusterSpec& spec() const { return options_.cluster; }
  std::string target(const std::string& job, int task) const;
  // Deletes the server, or creates it at the same address.
  void Stop(const std::string& job, int task);
  void Start(const std::string& job, int task);
  // Waits until the task runs this number of graphs, and has no other steps if that is 0; fails the test
  // after a timeout.
  void WaitForRuns(const std::string& job, int task, int runs) const;
  // Tries again while `again` returns true, up to a time limit. Returns the last status.
  static Status RetryWhile(const std::function<Status()>& attempt,
                           const std::function<bool(const Status&)>& again);

 private:
  ServerOptions options_;
  std::map<std::pair<std::string, int>, std::unique_ptr<Server>> servers_;
};

}  // namespace millrace
