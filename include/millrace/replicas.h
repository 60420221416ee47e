// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/moving_averages.h"
#include "millrace/optimizers.h"
#include "millrace/queue_runner.h"
#include "millrace/scope.h"
#include "millrace/session_run_hook.h"
#include "millrace/status.h"
#include "millrace/variables.h"

// Replicas of a model that train the same variables, each a worker task with its own graph; docs/cluster.md
// has an example.
namespace millrace {

// Chooses the parameter server for a node that holds a variable: the number of a task.
using PlacementStrategy = std::function<StatusOr<int>(const NodeToPlace&)>;
// 0, 1, …, num_tasks - 1, 0, …
PlacementStrategy RoundRobinStrategy(int num_tasks);
// The cost of a variable for its task.
using LoadFn = std::function<StatusOr<double>(const NodeToPlace&)>;
// Its bytes; InvalidArgument if its shape or element size is unknown.
StatusOr<double> ByteSizeLoad(const NodeToPlace& node);
// The task with the least load so far, the first one in case of ties.
PlacementStrategy GreedyLoadBalancingStrategy(int num_tasks, LoadFn load = ByteSizeLoad);

struct ReplicaDeviceOptions {
  int ps_tasks = 0;  // how many parameter servers there are
  std::string ps_device = "/job:ps";
  std::string worker_device = "/job:worker";
  // Whether a requested device is merged with the chosen one, or used unchanged.
  bool merge_devices = true;
  std::vector<std::string> ps_ops = {};  // ops that hold variables; empty: those of TensorFlow
  PlacementStrategy strategy = {};       // unset: round robin
};
// For Scope::WithDeviceFunction: variables, and the parts of partitioned variables, are distributed over the
// parameter servers, all other nodes are at the worker. Null without parameter servers. Every replica must
// create its variables in the same order, with a separate function. InvalidArgument, of the scope, for a
// malformed device.
DeviceFunction ReplicaDeviceSetter(ReplicaDeviceOptions options);

// Synchronous training: each update uses the mean of `replicas_to_aggregate` gradients of one step. Replicas
// add their gradients to accumulators beside the variables, then wait for a token. The chief's thread takes
// the means, updates the variables and enqueues tokens with the new step. A gradient of an earlier step is
// dropped, so replicas beyond `replicas_to_aggregate` are backups: the first gradients are used. Training
// continues while this number of replicas is left.
//   SyncReplicasOptimizer sync(optimizer, 3, {.total_num_replicas = 4});
//   const Operation train = sync.Minimize(scope, loss, step);
//   hooks.push_back(sync.MakeSessionRunHook(is_chief));
// One thread at a time; errors go to the scope's status, and the returned value is then unset.
class SyncReplicasOptimizer {
 public:
  struct Options {
    int total_num_replicas = 0;  // 0: replicas_to_aggregate
    // Updated after each step, of these variables; null: none.
    std::shared_ptr<ExponentialMovingAverage> variable_averages = nullptr;
    std::vector<GraphVariable> variables_to_average = {};
    std::string name = "sync_replicas";
  };
  // `optimizer` makes the updates.
  SyncReplicasOptimizer(std::shared_ptr<const Optimizer> optimizer, int replicas_to_aggregate)
      : SyncReplicasOptimizer(std::move(optimizer), replicas_to_aggregate, Options()) {}
  SyncReplicasOptimizer(std::shared_ptr<const Optimizer> optimizer, int replicas_to_aggregate,
                        Options options);

  std::vector<GradientAndVariable> ComputeGradients(const Scope& scope, const Output& loss,
                                                    const std::vector<GraphVariable>& variables = {}) const;
  // The operation that a replica runs: adds its gradients and waits for the update. Call once.
  // InvalidArgument without gradients or a global step.
  Operation ApplyGradients(const Scope& scope, const std::vector<GradientAndVariable>& gradients,
                           const GraphVariable& global_step);
  Operation Minimize(const Scope& scope, const Output& loss, const GraphVariable& global_step,
                     const std::vector<GraphVariable>& variables = {}) {
    return ApplyGradients(scope, ComputeGradients(scope, loss, variables), global_step);
  }

  // Created by ApplyGradients; unset before it. The hook uses all of it.
  const QueueRunner& chief_queue_runner() const { return chief_queue_runner_; }       // makes the updates
  const Operation& chief_init_op() const { return chief_init_op_; }                   // of the chief
  const Operation& local_step_init_op() const { return local_step_init_op_; }         // of the others
  const Output& ready_for_local_init_op() const { return ready_for_local_init_op_; }  // as of a Scaffold
  // The step that a replica's gradients are for.
  const GraphVariable& local_step() const { return local_step_; }
  // Puts the first tokens into the queue, `replicas_to_aggregate` for -1. InvalidArgument before
  // ApplyGradients, in another graph, and for fewer than the first step needs.
  Operation InitTokensOp(const Scope& scope, int num_tokens = -1);

  // Prepares a session of a replica, and on the chief runs the thread that makes the updates. The optimizer
  // must outlive the hook. Begin is FailedPrecondition before ApplyGradients.
  std::shared_ptr<SessionRunHook> MakeSessionRunHook(bool is_chief, int num_tokens = -1) {
    return MakeSessionRunHook([is_chief] { return is_chief; }, num_tokens);
  }
  // For a chief that may change, see ChiefLease: evaluated for each session.
  std::shared_ptr<SessionRunHook> MakeSessionRunHook(std::function<bool()> is_chief, int num_tokens = -1);

 private:
  // Nodes for one variable: add a gradient, set the step, take the mean.
  struct Accumulated {
    Operation apply;
    Operation set_step;
    GradientValue mean;
  };
  Accumulated Accumulate(const Scope& scope, const GradientAndVariable& gradient) const;
  Operation PutTokens(const Scope& at_step, int num_tokens) const;

  const std::shared_ptr<const Optimizer> optimizer_;
  const int replicas_to_aggregate_;
  const int total_num_replicas_;
  const Options options_;
  std::optional<Scope> scope_;  // of ApplyGradients, whose graph stays valid
  GraphVariable global_step_;
  GraphVariable local_step_;
  Output token_queue_;
  QueueRunner chief_queue_runner_;
  Operation chief_init_op_;
  Operation local_step_init_op_;
  Output ready_for_local_init_op_;
};

// Elects the chief among several workers, so that training continues without the first worker. The chief
// renews a lease, which a parameter server keeps. If it is not renewed for lease_secs, the next worker takes
// it: the running one with the lowest number. A former chief that comes back is an ordinary worker. Leases
// depend on time: for a moment after a chief has been suspended and resumed there may be two. Only the later
// one saves: a file "chief-<number>" in the checkpoint folder identifies it. Owns a thread and a session.
// Thread-safe.
//   options.lease = *ChiefLease::Make({.session = {.target = server->target(), …}, .task = task});
//   hooks = {sync.MakeSessionRunHook([lease = options.lease] { return lease->IsChief(); })};
class ChiefLease {
 public:
  struct Options {
    SessionOptions session = {};  // its target is a task that reaches the parameter server
    int task = 0;                 // the rank: lower numbers come first
    std::string device = "/job:ps/task:0";
    double lease_secs = 5;  // without renewal for this time, the lease expires
  };
  // InvalidArgument for a lease time that is not positive, or a negative rank.
  static StatusOr<std::shared_ptr<ChiefLease>> Make(const Options& options);
  virtual ~ChiefLease() = default;
  // Whether this worker has the lease. False if the parameter server has been unreachable for lease_secs.
  virtual bool IsChief() const = 0;
};

}  // namespace millrace
