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

// The addresses of the tasks of a cluster: jobs of numbered tasks. Numbers may have gaps.
class ClusterSpec {
 public:
  // InvalidArgument, with the task in the message, for a task that already has an address, for an invalid job
  // name and for an address that is not "host:port".
  Status AddTask(const std::string& job, int task, const std::string& address);
  // "ps=host:port,worker=host:port,host:port": the tasks of a job are numbered from 0, or from the number in
  // the name: "worker:3=host:port".
  static StatusOr<ClusterSpec> Parse(std::string_view text);
  static StatusOr<ClusterSpec> FromProto(const tensorflow::ClusterDef& def);
  void ToProto(tensorflow::ClusterDef* def) const;
  // In the format of Parse.
  std::string ToString() const;

  const std::map<std::string, std::map<int, std::string>>& jobs() const { return jobs_; }
  size_t num_tasks() const;
  // InvalidArgument if there is no such job or task.
  StatusOr<std::string> AddressOf(const std::string& job, int task) const;

 private:
  std::map<std::string, std::map<int, std::string>> jobs_;
};

// A cluster, and the task of this process.
struct ClusterTask {
  ClusterSpec cluster;
  std::string job;
  int task = 0;

  // From the value of the environment variable TF_CONFIG: {"cluster": {"worker": ["host:port", …]}, "task":
  // {"type": "worker", "index": 0}}. Tasks of a job may also be an object of addresses by number.
  static StatusOr<ClusterTask> FromTfConfig(std::string_view json);
  // From the variables that Slurm gives to each process of a step (SLURM_STEP_NODELIST,
  // SLURM_STEP_TASKS_PER_NODE, SLURM_PROCID): the processes become the tasks of `jobs` ({"ps", 1}, {"worker",
  // 3}) in order; those on one node get ports from `first_port` on.
  static StatusOr<ClusterTask> FromSlurm(const std::vector<std::pair<std::string, int>>& jobs,
                                         int first_port = 8888);
};

// Authentication between the tasks of a cluster and their clients, and encryption of their messages. Empty:
// no authentication and no encryption. All tasks and clients of a cluster need the same.
struct ClusterSecurity {
  // A file with a secret of 16 characters or more, which every call must contain.
  std::string token_file = {};
  // PEM: the authority that signs the certificates of the other side.
  std::string ca_file = {};
  // PEM: the certificate of this side, with the names or addresses of its host, and its private key.
  std::string certificate_file = {};
  std::string key_file = {};

  bool empty() const {
    return token_file.empty() && ca_file.empty() && certificate_file.empty() && key_file.empty();
  }
  // From the environment variables MILLRACE_TOKEN_FILE, MILLRACE_TLS_CA, MILLRACE_TLS_CERT and
  // MILLRACE_TLS_KEY. Used by sessions and DescribeCluster.
  static ClusterSecurity FromEnvironment();
};

// Transfer of large tensors between the tasks of a cluster. Tasks of TensorFlow support none of this: their
// tensors are sent in messages of 2 GiB at most.
struct TensorTransfers {
  // Larger tensors are sent in chunks of `chunk_bytes`, one message each.
  int64_t max_message_bytes = int64_t{64} << 20;
  int64_t chunk_bytes = int64_t{4} << 20;
  // Tasks of one machine and one user use shared memory for tensors of at least min_shared_memory_bytes: up
  // to shared_memory_bytes for each pair of tasks and direction; 0: none.
  int64_t shared_memory_bytes = int64_t{1} << 30;
  int64_t min_shared_memory_bytes = int64_t{256} << 10;
  // Other tasks use separate TCP connections for tensors of at least min_socket_bytes, at `socket_port` (0: a
  // free one) of the server's listen address. These are not encrypted, so they are not used with encryption.
  bool sockets = true;
  int64_t min_socket_bytes = int64_t{256} << 10;
  int socket_port = 0;
};

// Options of a server.
struct ServerOptions {
  ClusterSpec cluster;
  std::string job;
  int task = 0;
  std::string protocol = "grpc";
  // The listen address, without the port; empty: the environment variable MILLRACE_LISTEN, or 127.0.0.1.
  // "0.0.0.0" listens on all interfaces.
  std::string listen;
  // Empty: from the environment (ClusterSecurity::FromEnvironment). With a certificate messages are
  // encrypted; with ca_file too, callers need certificates signed by it.
  ClusterSecurity security;
  // Ops that no graph of a client or of another task may have: names of ops, "file_access" for those that
  // read or write files, "network" for those that connect to servers, "callback" for those that call
  // functions of the program.
  std::vector<std::string> denied_ops;
  TensorTransfers transfers;
  SessionOptions session;  // default for sessions without own options: their timeout
  // How long the creation of a session waits for tasks that do not respond.
  int64_t session_creation_timeout_in_ms = 60'000;
  // How long the closing of a session waits for its steps, which are cancelled.
  int64_t session_close_timeout_in_ms = 10'000;
  // A session whose client makes no call for this time is closed, for example because the client has died; 0:
  // never. A step in progress, or a client in the server's process, keeps it open.
  int64_t session_gc_in_ms = 0;
  // A task that does not respond for this time is considered lost, and its steps end.
  int64_t peer_timeout_in_ms = 5'000;
  // How long Stop waits for calls in progress.
  int64_t stop_grace_in_ms = 1'000;

  static StatusOr<ServerOptions> FromProto(const tensorflow::ServerDef& def);
  // A warning about missing protection against callers from other machines; empty if the server listens on
  // loopback, or authenticates its callers and encrypts its messages.
  std::string MissingProtection() const;
};

// A task of a cluster: the master of the sessions whose target it is, and a worker for all masters. After
// Make it has its address but does not respond until it is started. Thread-safe; may be deleted at any time.
class Server {
 public:
  // NotFound if there is no protocol of that name; an error with the task in the message if the address
  // cannot be bound. A port of 0 is replaced by a free one.
  static StatusOr<std::unique_ptr<Server>> Make(const ServerOptions& options);
  // All tasks of the cluster in this process, in the order of ClusterSpec::jobs, for tests and first
  // programs. `job` and `task` of the options are ignored. All tasks know the free port that replaced a port
  // of 0.
  static StatusOr<std::vector<std::unique_ptr<Server>>> MakeAll(const ServerOptions& options);
  virtual ~Server() = default;

  // Starts responding. Further calls have no effect. FailedPrecondition after Stop.
  virtual Status Start() = 0;
  // Cancels steps after a grace period and stops responding. Later calls have no effect.
  virtual Status Stop() = 0;
  // Waits until the server is stopped; returns at once if it was never started. With a timeout,
  // DeadlineExceeded, with the task in the message, if it is still running after that time.
  Status Join() { return Join(0); }
  virtual Status Join(int64_t timeout_in_ms) = 0;
  // The target for sessions: "grpc://localhost:2222".
  virtual const std::string& target() const = 0;
  // "/job:worker/replica:0/task:0".
  virtual const std::string& task() const = 0;
};

// The state of the cluster of `target`, as JSON: its tasks, their devices, sessions, graphs and steps.
StatusOr<std::string> DescribeCluster(const std::string& target, int64_t timeout_in_ms = 5'000);

}  // namespace millrace
