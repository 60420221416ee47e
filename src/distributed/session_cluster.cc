// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/session_cluster.h"

#include <string_view>
#include <utility>

#include "base/strings.h"
#include "distributed/remote_worker.h"
#include "tensorflow/core/protobuf/cluster.pb.h"

namespace millrace {

std::string TaskName(const std::string& job, int task) {
  return StrCat("/job:", job, "/replica:0/task:", task);
}

StatusOr<std::unique_ptr<SessionCluster>> SessionCluster::Make(const ClusterSpec& cluster,
                                                               const std::string& task,
                                                               const ConnectToTasks& connect) {
  std::map<std::string, std::string> addresses;
  for (const auto& [job, tasks] : cluster.jobs()) {
    for (const auto& [number, address] : tasks) addresses[TaskName(job, number)] = address;
  }
  if (!addresses.contains(task))
    return errors::InvalidArgument("Task ", task,
                                   " is not in the cluster of its session: ", cluster.ToString());
  auto made = std::make_unique<SessionCluster>();
  made->cluster = cluster;
  MR_ASSIGN_OR_RETURN(made->transport, connect(addresses));
  made->peers = std::make_shared<const TaskPeers>(TaskPeers{
      task,
      [transport = made->transport.get()](std::string_view from, int64_t step_id, const Rendezvous::Key& key,
                                          CancellationManager& cancellation, Rendezvous::RecvDone done) {
        RecvTensorFrom(*transport, nullptr, from, step_id, key, &cancellation, std::move(done));
      }});
  return made;
}

bool IsPartOf(const ClusterSpec& cluster, const ClusterSpec& all, const std::string& own) {
  for (const auto& [job, tasks] : cluster.jobs()) {
    for (const auto& [number, address] : tasks) {
      if (TaskName(job, number) == own) continue;
      const StatusOr<std::string> known = all.AddressOf(job, number);
      if (!known.ok() || *known != address) return false;
    }
  }
  return true;
}

StatusOr<std::string> FindMaster(const tensorflow::ClusterDef& cluster, const std::string& target,
                                 const std::string& own) {
  std::string_view address = target;
  ConsumePrefix(&address, "grpc://");
  std::string found;
  for (const tensorflow::JobDef& job : cluster.job()) {
    for (const auto& [number, of_task] : job.tasks()) {
      if (of_task != address) continue;
      if (!found.empty()) {
        return errors::InvalidArgument(
            "Found multiple matching tasks that correspond to to the master. Master target: '", target,
            "'. ClusterDef: ", cluster.ShortDebugString());
      }
      found = TaskName(job.name(), number);
      if (found == own) {
        return errors::InvalidArgument(
            "The ClusterSpec names the job and task index to be the same names that were provided when the "
            "server booted. This is currently not allowed. Job: ",
            job.name(), ", task index: ", number);
      }
    }
  }
  if (!found.empty()) return found;
  return errors::InvalidArgument("The master (current machine) is not included in the provided cluster_def. ",
                                 cluster.DebugString());
}

}  // namespace millrace
