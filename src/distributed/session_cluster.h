// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "distributed/transport.h"
#include "millrace/cluster.h"
#include "step/task_steps.h"

namespace tensorflow {
class ClusterDef;
}  // namespace tensorflow

namespace millrace {

// Connects to tasks: "host:port" by "/job:…/replica:0/task:…". The result may be destroyed in a reply.
using ConnectToTasks =
    std::function<StatusOr<std::shared_ptr<Transport>>(const std::map<std::string, std::string>& addresses)>;

// "/job:…/replica:0/task:…".
std::string TaskName(const std::string& job, int task);

// The cluster of a session that is not that of its tasks (ConfigProto.cluster_def): connections of its own,
// and the name of this task in it. Large tensors travel in messages.
struct SessionCluster {
  static StatusOr<std::unique_ptr<SessionCluster>> Make(const ClusterSpec& cluster, const std::string& task,
                                                        const ConnectToTasks& connect);

  ClusterSpec cluster;
  std::shared_ptr<Transport> transport;
  std::shared_ptr<const TaskPeers> peers;
};

// Whether `all` has each task of `cluster` except `own` with the same address.
bool IsPartOf(const ClusterSpec& cluster, const ClusterSpec& all, const std::string& own);

// The name of the master at `target` in a session's cluster. InvalidArgument, as in TensorFlow, if it is not
// in it, is in it twice, or has the name `own` with which its server was started.
StatusOr<std::string> FindMaster(const tensorflow::ClusterDef& cluster, const std::string& target,
                                 const std::string& own);

}  // namespace millrace
