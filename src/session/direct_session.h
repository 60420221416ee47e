// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/thread_pool.h"
#include "graph/graph.h"
#include "graph/graph_import.h"
#include "millrace/session.h"
#include "session/callable_table.h"
#include "session/partial_runs.h"
#include "session/reclaimer.h"
#include "session/signature_cache.h"
#include "session/test_config.h"
#include "step/fault_injector.h"
#include "step/local_worker.h"
#include "step/step_compiler.h"
#include "step/step_runner.h"

namespace millrace {

// A session whose own task is in this process, usually the only one; tests add others. Thread-safe; Runs take
// no lock once their signature is known.
class DirectSession : public Session {
 public:
  static StatusOr<std::unique_ptr<Session>> Make(const SessionOptions& options);
  // As Make with the test configuration `config`.
  static StatusOr<std::unique_ptr<DirectSession>> MakeForTest(const SessionOptions& options,
                                                              const TestConfig& config);
  // A session of a cluster: `own` runs the nodes placed at the task of this process, `others` connects the
  // other tasks.
  static StatusOr<std::unique_ptr<DirectSession>> MakeForCluster(const SessionOptions& options,
                                                                 std::unique_ptr<LocalWorker> own,
                                                                 const MakeOtherTasks& others);
  ~DirectSession() override;

  Status Create(const tensorflow::GraphDef& graph) override MR_EXCLUDES(graph_mu_);
  Status Extend(const tensorflow::GraphDef& graph) override MR_EXCLUDES(graph_mu_);
  Status Create(tensorflow::GraphDef&& graph) override MR_EXCLUDES(graph_mu_);
  Status Extend(tensorflow::GraphDef&& graph) override MR_EXCLUDES(graph_mu_);
  Status ExtendFrom(const Graph& graph) override MR_EXCLUDES(graph_mu_);
  using Session::Run;
  Status Run(const RunOptions& options, const Feeds& feeds, const std::vector<std::string>& fetches,
             const std::vector<std::string>& targets, std::vector<Tensor>* outputs,
             RunMetadata* metadata) override;
  // The same, ended when `cancellation`, unless null, is cancelled.
  Status Run(const RunOptions& options, const Feeds& feeds, const std::vector<std::string>& fetches,
             const std::vector<std::string>& targets, std::vector<Tensor>* outputs, RunMetadata* metadata,
             CancellationManager* cancellation);
  StatusOr<CallableHandle> MakeCallable(const CallableOptions& options) override;
  Status RunCallable(CallableHandle handle, std::span<const Tensor> feeds, std::vector<Tensor>* outputs,
                     RunMetadata* metadata) override;
  Status RunCallable(CallableHandle handle, std::span<const Tensor> feeds, std::vector<Tensor>* outputs,
                     RunMetadata* metadata, CancellationManager* cancellation);
  Status ReleaseCallable(CallableHandle handle) override;
  StatusOr<std::string> PRunSetup(const std::vector<std::string>& feeds,
                                  const std::vector<std::string>& fetches,
                                  const std::vector<std::string>& targets) override;
  Status PRun(const std::string& handle, const Feeds& feeds, const std::vector<std::string>& fetches,
              std::vector<Tensor>* outputs) override;
  StatusOr<std::vector<DeviceInfo>> ListDevices() override;
  Status Close() override;
  void CancelSteps() override;

  // Drops the resources in `containers` (all when empty) of all tasks of the session, and closes it.
  void ResetContainers(const std::vector<std::string>& containers);
  size_t num_compiled_for_test() const { return cache_.num_compiled(); }
  FaultInjector* faults_for_test() { return tasks_.faults.get(); }  // null when none are configured

 private:
  // Threads of a session. Null pools: one thread.
  struct Pools {
    std::vector<std::shared_ptr<ThreadPool>> inter_op;  // by RunOptions::inter_op_thread_pool; at least one
    std::shared_ptr<ThreadPool> intra_op;
    std::shared_ptr<ThreadPool>
        partial;  // of partial runs: the first of inter_op or, for one thread, a worker
    std::vector<std::shared_ptr<ThreadPool>> bases;  // the workers of the others belong to these
  };
  static StatusOr<Pools> MakePools(const SessionOptions& options);

  // The workers of steps. Others are destroyed first at the end, and before them their partitions.
  struct Tasks {
    std::unique_ptr<FaultInjector> faults;  // null: none
    std::unique_ptr<LocalWorker> own;
    std::unique_ptr<OtherTasks> others;  // null: there are none
    bool of_cluster = false;             // its master resets the containers
    std::vector<Worker*> workers() const;
  };
  static StatusOr<Tasks> MakeTasks(const SessionOptions& options, const TestConfig& test);

  DirectSession(const SessionOptions& options, const TestConfig& test, Tasks tasks, Pools pools);
  // `Def` is a GraphDef, as a const reference or an rvalue.
  template <typename Def>
  Status CreateFrom(Def&& graph) MR_EXCLUDES(graph_mu_);
  template <typename Def>
  Status ExtendBy(Def&& graph) MR_EXCLUDES(graph_mu_);
  template <typename Def>
  Status ImportNodes(Def&& graph) MR_REQUIRES(graph_mu_);
  StatusOr<std::shared_ptr<const Executable>> Compile(const RunSignature& signature,
                                                      FeedConvention convention) MR_EXCLUDES(graph_mu_);
  // The same step for feeds of any shape; lives as long as `executable`.
  StatusOr<const Executable*> ForAnyShapes(const Executable& executable) MR_EXCLUDES(graph_mu_);
  Status AddNodesOf(const Graph& graph) MR_REQUIRES(graph_mu_);
  // Places nodes from id `first` on and removes them on error.
  Status FinishExtend(int first) MR_REQUIRES(graph_mu_);
  Status AnnotateShapes(int first) MR_REQUIRES(graph_mu_);
  Status RunExecutable(const Executable& executable, const RunOptions& options, size_t num_feeds,
                       FunctionRef<const Tensor&(size_t)> feed, std::vector<Tensor>* outputs,
                       RunMetadata* metadata, CancellationManager* cancellation);
  // The tensor of feed `i`: `value`, or the tensor of the handle, which `held` keeps.
  StatusOr<const Tensor*> SlowFeed(const Executable& executable, size_t i, const Tensor& value,
                                   std::vector<Tensor>* held);
  // The tensor of a fed resource handle, at any task. `dtype` is the type in the graph; kInvalid:
  // none.
  StatusOr<Tensor> TensorOfHandle(const Tensor& fed, DataType dtype);
  // kInvalid if the graph has no such tensor.
  DataType TypeOf(std::string_view tensor) MR_EXCLUDES(graph_mu_);
  StatusOr<ThreadPool*> InterOpPoolOf(const RunOptions& options) const;
  // A step for this Run alone, with nodes for its debug_watches.
  Status RunWatched(const RunOptions& options, const Feeds& feeds, const RunSignature& signature,
                    std::vector<Tensor>* outputs, RunMetadata* metadata, CancellationManager* cancellation)
      MR_EXCLUDES(graph_mu_);
  bool BuildsCostModel(const Executable& executable) const;
  Status RunMeasured(const Executable& executable, StepRunner::Request& request, const RunOptions& options,
                     RunMetadata* metadata);
  Status RunTraced(const Executable& executable, StepRunner::Request& request, const RunOptions& options,
                   RunMetadata* metadata);
  Status BeginCollectives(const CompiledStep& step, StepRunner::Request* request);
  void EndCollectives(const CompiledStep& step, const StepRunner::Request& request, const Status& status);
  // Empty: groups of the session belong to its own task.
  StatusOr<std::string> CollectiveLeader() const;

  const SessionOptions options_;
  const Tasks tasks_;
  LocalWorker& worker_;  // of the own task
  const StepCompiler compiler_;
  const Pools pools_;
  ThreadPool* const inter_op_pool_;  // the first of them
  ThreadPool* const intra_op_pool_;

  Reclaimer reclaimer_;  // of the caches and callables
  StepRunner runner_;
  SignatureCache cache_{reclaimer_};
  SignatureCache any_shapes_cache_{reclaimer_};  // for feeds whose shapes are not those of their placeholders
  SignatureCache partial_cache_{reclaimer_};     // for partial runs
  PartialRuns partial_runs_;
  CallableTable callables_{reclaimer_};

  SharedMutex graph_mu_;
  std::unique_ptr<Graph> graph_ MR_GUARDED_BY(graph_mu_);
  bool created_ MR_GUARDED_BY(graph_mu_) = false;
  int seen_ids_ MR_GUARDED_BY(graph_mu_) = 2;  // of the graph passed to ExtendFrom
};

}  // namespace millrace
