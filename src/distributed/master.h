// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "distributed/denied_ops.h"
#include "distributed/recent_requests.h"
#include "distributed/session_cluster.h"
#include "distributed/transport.h"
#include "millrace/cluster.h"
#include "session/direct_session.h"
#include "step/local_worker.h"

namespace millrace {

// A session of a client at a master. Thread-safe.
class MasterSession {
 public:
  // `cluster`: its own, if different from that of the task.
  MasterSession(std::string handle, std::unique_ptr<SessionCluster> cluster,
                std::unique_ptr<DirectSession> session)
      : handle_(std::move(handle)), cluster_(std::move(cluster)), session_(std::move(session)) {}
  const std::string& handle() const { return handle_; }
  DirectSession& session() { return *session_; }

  // Adds nodes if the graph has the version that the client knows. Returns the new version.
  StatusOr<int64_t> Extend(tensorflow::GraphDef&& graph, int64_t known_version) MR_EXCLUDES(mu_);

  using Clock = std::chrono::steady_clock;
  // Enclose a step that began then, so that closing can wait for it. FailedPrecondition after Close.
  Status BeginStep(Clock::time_point start) MR_EXCLUDES(mu_);
  void EndStep(Clock::time_point start) MR_EXCLUDES(mu_);
  int64_t num_running() const MR_EXCLUDES(mu_);
  // The start of the oldest step in progress; empty if there is none.
  std::optional<Clock::time_point> oldest_step() const MR_EXCLUDES(mu_);
  // Before Close, if the master closes the session and not its client: `why` is the error of later calls, and
  // for the end of the task, which is Unavailable, also of the steps in progress.
  void SetEnd(const Status& why) MR_EXCLUDES(mu_);
  // Whether SetEnd was called.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  Status end() const MR_EXCLUDES(mu_);
  // The error to report for that of a step.
  Status Explain(Status status) const MR_EXCLUDES(mu_);
  // Cancels steps, refuses later ones and waits for running ones, at most so long. Whether all have ended.
  bool Close(std::chrono::milliseconds wait) MR_EXCLUDES(mu_);

 private:
  Status CheckOpen() const MR_REQUIRES(mu_);

  const std::string handle_;
  const std::unique_ptr<SessionCluster> cluster_;  // outlives the session
  const std::unique_ptr<DirectSession> session_;
  mutable Mutex mu_;
  CondVar idle_;
  std::atomic<bool> ended_{false};
  Status end_ MR_GUARDED_BY(mu_);
  bool closed_ MR_GUARDED_BY(mu_) = false;
  std::multiset<Clock::time_point> running_ MR_GUARDED_BY(mu_);  // when each step began
  int64_t version_ MR_GUARDED_BY(mu_) = 0;
};

// TensorFlow's MasterService, for clients of a task. Its sessions are direct sessions whose other tasks are
// those of the cluster. Any bytes get an answer, which is an error when they are malformed. Thread-safe.
class Master {
 public:
  using SessionPtr = std::shared_ptr<MasterSession>;
  // All referenced objects must outlive the master.
  struct Environment {
    ClusterSpec cluster;
    std::string task;
    std::shared_ptr<LocalDevices> devices;
    std::shared_ptr<TaskSteps> steps;
    Transport* transport = nullptr;
    ConnectToTasks connect = {};  // for sessions with clusters of their own; empty: refused
    SessionOptions session;       // the defaults of sessions
    int64_t session_creation_timeout_in_ms = 0;
    int64_t session_close_timeout_in_ms = 10'000;  // for steps that were cancelled
    int64_t session_gc_in_ms = 0;                  // sessions without calls for so long are closed; 0: none
    DeniedOps denied = {};
  };
  explicit Master(Environment environment);
  ~Master();
  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;

  // Answers one call, and blocks for its duration. `cancellation` belongs to the call.
  void Handle(Method method, const MessageBytes& request, int64_t timeout_in_ms,
              CancellationManager& cancellation, Reply reply);

  StatusOr<SessionPtr> Open(const SessionOptions& options, CancellationManager* cancellation)
      MR_EXCLUDES(mu_);
  // Aborted if there is no such session.
  StatusOr<SessionPtr> Find(const std::string& handle) MR_EXCLUDES(mu_);
  Status CloseSession(const std::string& handle) MR_EXCLUDES(mu_);
  // Closes all sessions and drops the containers at all tasks that match `filters`.
  Status Reset(const std::vector<std::string>& containers, const std::vector<std::string>& filters);
  // Closes all sessions, and refuses new ones.
  void Stop() MR_EXCLUDES(mu_);
  size_t num_sessions() const MR_EXCLUDES(mu_);
  // Handles of all sessions, also those being created, one per line: a task drops its other ones.
  std::string Handles() const MR_EXCLUDES(mu_);
  int64_t num_running() const MR_EXCLUDES(mu_);
  // The duration of the oldest step in progress; 0 if there is none.
  int64_t oldest_step_ms() const MR_EXCLUDES(mu_);

 private:
  StatusOr<std::unique_ptr<DirectSession>> Connect(SessionOptions options, const std::string& handle,
                                                   const SessionCluster* cluster,
                                                   CancellationManager* cancellation);
  // For a session whose options have a cluster_def; else null.
  StatusOr<std::unique_ptr<SessionCluster>> ClusterOf(const SessionOptions& options) const;
  void CloseAndLog(MasterSession& session) const;
  using Response = StatusOr<MessageBytes>;
  Response CreateSession(const MessageBytes& bytes, int64_t timeout_in_ms, CancellationManager& cancellation);
  Response ExtendSession(const MessageBytes& bytes);
  Response PartialRunSetup(const MessageBytes& bytes);
  Response RunStep(const MessageBytes& bytes, CancellationManager& cancellation);
  Response CloseSessionCall(const MessageBytes& bytes);
  Response ListDevices(const MessageBytes& bytes, CancellationManager& cancellation);
  Response ResetCall(const MessageBytes& bytes);
  Response MakeCallable(const MessageBytes& bytes);
  Response RunCallable(const MessageBytes& bytes, CancellationManager& cancellation);
  Response ReleaseCallable(const MessageBytes& bytes);
  static Status NotFound(const std::string& handle);
  std::map<std::string, SessionPtr> TakeAll(bool stop) MR_EXCLUDES(mu_);
  void CollectSessions() MR_EXCLUDES(mu_);

  static constexpr size_t kRecentRequests = 100'000;
  const Environment env_;
  RecentRequests recent_requests_{kRecentRequests};
  mutable Mutex mu_;
  CondVar stopping_;
  bool stopped_ MR_GUARDED_BY(mu_) = false;
  struct Entry {
    SessionPtr session;
    std::chrono::steady_clock::time_point used = std::chrono::steady_clock::now();
  };
  std::map<std::string, Entry> sessions_ MR_GUARDED_BY(mu_);
  std::set<std::string> opening_ MR_GUARDED_BY(mu_);  // handles of sessions that are being created
  std::thread collector_;                             // only if unused sessions are collected
};

}  // namespace millrace
