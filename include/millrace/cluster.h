// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/session.h"
#include "millrace/status.h"

namespace tensorflow {
class ClusterDef;
class ServerDef;
}  // namespace tensorflow

namespace millrace {

// Where the tasks of a cluster are: jobs of numbered tasks with an address each. Numbers may have gaps.
class ClusterSpec {
 public:
  // InvalidArgument, naming the task, for a task that has an address already, for a bad name of a job and for
  // what is no "host:port".
  Status AddTask(const std::string& job, int task, const std::string& address);
  // "ps=host:port,worker=host:port,host:port": the tasks of a job are numbered from 0, or from where the name
  // says: "worker:3=host:port".
  static StatusOr<ClusterSpec> Parse(std::string_view text);
  static StatusOr<ClusterSpec> FromProto(const tensorflow::ClusterDef& def);
  void ToProto(tensorflow::ClusterDef* def) const;
  // As Parse reads it.
  std::string ToString() const;

  const std::map<std::string, std::map<int, std::string>>& jobs() const { return jobs_; }
  size_t num_tasks() const;
  // InvalidArgument when the job or the task is not there.
  StatusOr<std::string> AddressOf(const std::string& job, int task) const;

 private:
  std::map<std::string, std::map<int, std::string>> jobs_;
};

// A cluster, and which of its tasks this process is.
struct ClusterTask {
  ClusterSpec cluster;
  std::string job;
  int task = 0;

  // What the environment variable TF_CONFIG holds: {"cluster": {"worker": ["host:port", …]}, "task": {"type":
  // "worker", "index": 0}}. Tasks of a job may also be an object of addresses by number.
  static StatusOr<ClusterTask> FromTfConfig(std::string_view json);
  // From the variables that Slurm gives to each process of a step (SLURM_STEP_NODELIST,
  // SLURM_STEP_TASKS_PER_NODE, SLURM_PROCID): the processes become the tasks of `jobs` ({"ps", 1}, {"worker",
  // 3}) in order; those on one node get ports from `first_port` on.
  static StatusOr<ClusterTask> FromSlurm(const std::vector<std::pair<std::string, int>>& jobs,
                                         int first_port = 8888);
};

// How the tasks of a cluster and their clients prove who they are, and whether their messages are encrypted.
// Empty: anybody may call, in the clear. All tasks and clients of a cluster need the same.
struct ClusterSecurity {
  // Holds a secret of 16 characters or more, which every call has to show.
  std::string token_file = {};
  // PEM: who signs the certificates of the other side.
  std::string ca_file = {};
  // PEM: the certificate of this side, with the names or addresses of its host, and its private key.
  std::string certificate_file = {};
  std::string key_file = {};

  bool empty() const {
    return token_file.empty() && ca_file.empty() && certificate_file.empty() && key_file.empty();
  }
  // What the environment variables MILLRACE_TOKEN_FILE, MILLRACE_TLS_CA, MILLRACE_TLS_CERT and
  // MILLRACE_TLS_KEY say. Sessions and DescribeCluster go by it.
  static ClusterSecurity FromEnvironment();
};

// How large tensors travel between the tasks of a cluster. Tasks of TensorFlow know none of these ways: their
// tensors travel in messages of 2 GiB at most.
struct TensorTransfers {
  // Larger tensors travel in chunks of `chunk_bytes`, each a message.
  int64_t max_message_bytes = int64_t{64} << 20;
  int64_t chunk_bytes = int64_t{4} << 20;
  // Tasks of one machine and one user use shared memory for tensors from min_shared_memory_bytes on: up to
  // shared_memory_bytes for each pair of tasks and direction; 0: none.
  int64_t shared_memory_bytes = int64_t{1} << 30;
  int64_t min_shared_memory_bytes = int64_t{256} << 10;
  // Other tasks use TCP connections of their own for tensors from min_socket_bytes on, at `socket_port` (0: a
  // free one) of the address that the server listens to. Not where messages are encrypted: those are not.
  bool sockets = true;
  int64_t min_socket_bytes = int64_t{256} << 10;
  int socket_port = 0;
};

// How a server is set up.
struct ServerOptions {
  ClusterSpec cluster;
  std::string job;
  int task = 0;
  std::string protocol = "grpc";
  // The address to listen at, without the port; empty: what the environment variable MILLRACE_LISTEN says, or
  // 127.0.0.1. "0.0.0.0" listens everywhere.
  std::string listen;
  // Empty: what the environment says (ClusterSecurity::FromEnvironment). With a certificate messages are
  // encrypted; with ca_file too, callers need certificates that it has signed.
  ClusterSecurity security;
  // Ops that no graph of a client or of another task may have: names of ops, "file_access" for those that
  // read or write files, "network" for those that connect to servers, "callback" for those that call
  // functions of the program.
  std::vector<std::string> denied_ops;
  TensorTransfers transfers;
  SessionOptions session;  // what sessions have that say nothing else: their timeout
  // How long the creation of a session waits for tasks that don't answer.
  int64_t session_creation_timeout_in_ms = 60'000;
  // How long the closing of a session waits for its steps, which it cancels.
  int64_t session_close_timeout_in_ms = 10'000;
  // A session whose client makes no call for so long is closed, as when the client has died; 0: never. A step
  // in progress keeps it, and so does a client in the server's process.
  int64_t session_gc_in_ms = 0;
  // How long a task may be silent before its steps are given up.
  int64_t peer_timeout_in_ms = 5'000;
  // How long Stop lets calls in progress go on.
  int64_t stop_grace_in_ms = 1'000;

  static StatusOr<ServerOptions> FromProto(const tensorflow::ServerDef& def);
  // What is missing against callers from other machines, as a warning; empty when the server listens on
  // loopback, or its callers are checked and its messages encrypted.
  std::string MissingProtection() const;
};

// A task of a cluster: the master of the sessions whose target it is, and a worker for all masters. Made, it
// has its address but does not answer until it is started. Thread-safe; may be deleted at any time.
class Server {
 public:
  // NotFound when there is no protocol of that name; an error that names the task when the address can't be
  // had. A port of 0 is replaced by a free one.
  static StatusOr<std::unique_ptr<Server>> Make(const ServerOptions& options);
  // All tasks of the cluster in this process, in the order of ClusterSpec::jobs, as tests and first programs
  // have them. `job` and `task` of the options are not looked at. Here all tasks know the free port that has
  // replaced a port of 0.
  static StatusOr<std::vector<std::unique_ptr<Server>>> MakeAll(const ServerOptions& options);
  virtual ~Server() = default;

  // Begins to answer. Again: nothing. FailedPrecondition after Stop.
  virtual Status Start() = 0;
  // Ends what runs, after a grace period by force, and answers no more. Later calls do nothing.
  virtual Status Stop() = 0;
  // Waits until the server is stopped. One that was never started is. With a timeout, DeadlineExceeded,
  // naming the task, when it is still running after that time.
  Status Join() { return Join(0); }
  virtual Status Join(int64_t timeout_in_ms) = 0;
  // What a session takes as target: "grpc://localhost:2222".
  virtual const std::string& target() const = 0;
  // "/job:worker/replica:0/task:0".
  virtual const std::string& task() const = 0;
};

// The state of the cluster of `target`, as JSON: its tasks, their devices, sessions, graphs and steps.
StatusOr<std::string> DescribeCluster(const std::string& target, int64_t timeout_in_ms = 5'000);

}  // namespace millrace
