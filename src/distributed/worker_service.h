// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "distributed/denied_ops.h"
#include "distributed/recent_requests.h"
#include "distributed/run_graph_parts.h"
#include "distributed/session_cluster.h"
#include "distributed/transport.h"
#include "distributed/worker_session.h"

namespace tensorflow {
class CreateWorkerSessionRequest;
class RunGraphResponse;
}  // namespace tensorflow

namespace millrace {

class TensorChannels;
class TransferLog;
struct SessionCluster;

// TensorFlow's WorkerService for a task of this process, independent of the transport. Any bytes get an
// answer, which is an error when they are malformed. Thread-safe.
class WorkerService {
 public:
  // Shared by the sessions of a task. Nodes run on `pool`, which has at least one thread of its own. All
  // referenced objects outlive the service.
  struct Environment {
    std::shared_ptr<LocalDevices> devices;
    std::shared_ptr<TaskSteps> steps;
    ThreadPool* pool = nullptr;
    Transport* transport = nullptr;      // to the peers; null: there are none
    ClusterSpec cluster = {};            // of the peers
    ConnectToTasks connect = {};         // for sessions of other clusters; empty: refused
    TensorChannels* channels = nullptr;  // for large tensors; null: there are none
    CompileOptions compiler = {};
    DeniedOps denied = {};
  };
  explicit WorkerService(Environment environment);
  // A task with one worker for all sessions.
  WorkerService(LocalWorker& worker, ThreadPool& pool);
  ~WorkerService();

  // Answers one call. RegisterGraph may wait for other tasks, and freeing a session may take long; other
  // calls are quick. `cancellation` belongs to the call and lives until the reply.
  void Handle(Method method, const MessageBytes& request, int64_t timeout_in_ms,
              CancellationManager& cancellation, Reply reply);
  // Whether a call may take long on the calling thread.
  static bool MayWait(Method method);
  // Refuses later steps and stops those in progress. Does not wait.
  void Stop() MR_EXCLUDES(mu_);
  // Drops all sessions. REQUIRES: Stop, and no call in progress.
  void DropSessions() MR_EXCLUDES(mu_);

  // The masters that have sessions here, with the incarnation of their first device.
  struct MasterOf {
    std::string task;
    int64_t incarnation = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): there is no pointer
    friend auto operator<=>(const MasterOf&, const MasterOf&) = default;
  };
  std::set<MasterOf> Masters() const MR_EXCLUDES(mu_);
  // Stops and drops the sessions of a master that has died, or only those of these handles. Does not wait for
  // running steps, whose error is Aborted with `reason`; empty: Cancelled.
  void DropSessionsOf(const MasterOf& master, std::string_view reason,
                      const std::set<std::string>* only = nullptr) MR_EXCLUDES(mu_);
  std::set<std::string> SessionsOf(const MasterOf& master) const MR_EXCLUDES(mu_);

  TaskCollectives& collectives() { return env_.steps->collectives(); }

  // The state of the service, for observers.
  struct State {
    size_t sessions = 0;
    size_t graphs = 0;
    size_t steps = 0;
    struct Run {
      int64_t step_id = 0;
      std::string session;
      int64_t running_ms = 0;
    };
    std::vector<Run> runs;  // of graphs, in progress
  };
  State GetState() const MR_EXCLUDES(mu_);
  // Number of registered graphs.
  size_t num_graphs() const { return GetState().graphs; }

 private:
  static constexpr size_t kRecentRequests = 100'000;
  struct GraphRun;
  struct PendingRecv;
  using SessionPtr = std::shared_ptr<WorkerSession>;
  void GetStatus(Reply reply);
  void CreateWorkerSession(const MessageBytes& bytes, Reply reply);
  void DeleteWorkerSession(const MessageBytes& bytes, Reply reply);
  void RegisterGraph(const MessageBytes& bytes, Reply reply);
  void DeregisterGraph(const MessageBytes& bytes, Reply reply);
  void RunGraph(const MessageBytes& bytes, int64_t timeout_in_ms, CancellationManager& cancellation,
                Reply reply);
  void RunPart(std::shared_ptr<GraphRun> run, CancellationManager& cancellation, Reply reply);
  void StartRun(std::shared_ptr<GraphRun> run);
  StepArgs ArgsOf(GraphRun& run) const;  // except for the cancellation
  // `why`: the error of its calls in progress; OK: Cancelled.
  void CleanUpStep(int64_t step_id, const Status& why);
  // Under the lock, and then without it: ends runs with this error, unless they end for another reason
  // before.
  static void SetWhyEnded(const std::vector<std::shared_ptr<GraphRun>>& runs, const Status& why);
  void EndRuns(const std::vector<std::shared_ptr<GraphRun>>& runs, const Status& why);
  void FinishRun(GraphRun& run, const Status& status);
  void AddMeasurements(GraphRun& run, tensorflow::RunGraphResponse* response);
  void EndRun(GraphRun& run, Status status, MessageBytes response);
  void CleanupGraph(const MessageBytes& bytes, Reply reply);
  void CleanupAll(const MessageBytes& bytes, Reply reply);
  void RecvChunk(const MessageBytes& bytes, Reply reply);
  void RecvTensor(const MessageBytes& bytes, CancellationManager& cancellation, Reply reply);
  void SendTensor(const PendingRecv& recv, const Status& status, const Tensor& tensor, bool is_dead,
                  Reply reply);
  void Logging(const MessageBytes& bytes, Reply reply);
  void Tracing(const MessageBytes& bytes, Reply reply);
  Status CheckIncarnation(const Rendezvous::Key::Parts& key) const;
  Status NoSession(const std::string& handle) const;
  // The session of a request; `created`: whether CreateWorkerSession has created it.
  StatusOr<SessionPtr> FindSession(const std::string& handle, bool created, bool may_make) MR_EXCLUDES(mu_);
  StatusOr<SessionPtr> MakeSession(const std::string& handle,
                                   const tensorflow::CreateWorkerSessionRequest* request);
  // For a session on another cluster than that of the task; null: on the same one.
  StatusOr<std::unique_ptr<SessionCluster>> ClusterOf(const tensorflow::CreateWorkerSessionRequest& request);

  const Environment env_;
  const std::unique_ptr<TransferLog> log_;
  RecentRequests recent_requests_{kRecentRequests};
  RunGraphParts parts_{*env_.steps};
  mutable Mutex mu_;
  bool stopped_ MR_GUARDED_BY(mu_) = false;
  uint64_t next_handle_ MR_GUARDED_BY(mu_) = 1;
  struct Entry {
    SessionPtr session;
    bool made_up = false;  // for a master that creates no sessions; dropped with its last graph
    MasterOf master = {};
  };
  std::map<std::string, Entry> sessions_ MR_GUARDED_BY(mu_);
  SessionPtr only_;  // of a task with one worker; null: one for each session
  std::map<GraphRun*, std::shared_ptr<GraphRun>> runs_ MR_GUARDED_BY(mu_);
  std::unordered_map<int64_t, std::string> session_of_step_ MR_GUARDED_BY(mu_);  // until it is cleaned up
};

}  // namespace millrace
