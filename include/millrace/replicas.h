// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

// Replicas of a model that train the same variables, each a worker task with a graph of its own;
// docs/cluster.md has an example.
namespace millrace {

// Chooses the parameter server for a node that holds a variable: the number of a task.
using PlacementStrategy = std::function<StatusOr<int>(const NodeToPlace&)>;
// 0, 1, …, num_tasks - 1, 0, …
PlacementStrategy RoundRobinStrategy(int num_tasks);
// What a variable costs its task.
using LoadFn = std::function<StatusOr<double>(const NodeToPlace&)>;
// Its bytes; InvalidArgument when its shape or the size of its elements is not known.
StatusOr<double> ByteSizeLoad(const NodeToPlace& node);
// The task with the least load so far, the first of them where several have that.
PlacementStrategy GreedyLoadBalancingStrategy(int num_tasks, LoadFn load = ByteSizeLoad);

struct ReplicaDeviceOptions {
  int ps_tasks = 0;  // how many parameter servers there are
  std::string ps_device = "/job:ps";
  std::string worker_device = "/job:worker";
  // Whether a device that was asked for is completed, or taken as it is.
  bool merge_devices = true;
  std::vector<std::string> ps_ops = {};  // ops that hold variables; empty: those of TensorFlow
  PlacementStrategy strategy = {};       // unset: round robin
};
// For Scope::WithDeviceFunction: variables, and the parts of partitioned variables, are distributed over the
// parameter servers, all other nodes are at the worker. Null without parameter servers. Every replica has to
// make its variables in the same order, with a function of its own. InvalidArgument, of the scope, for a
// device that is malformed.
DeviceFunction ReplicaDeviceSetter(ReplicaDeviceOptions options);

// Synchronous training: each update is made from the mean of `replicas_to_aggregate` gradients of one step.
// Replicas hand their gradients to accumulators beside the variables, then wait for a token. The chief's
// thread takes the means, updates the variables and puts tokens with the new step into a queue. A gradient of
// an earlier step is dropped, so that replicas beyond `replicas_to_aggregate` are backups: the first
// gradients count. Training goes on while so many replicas are left.
//   SyncReplicasOptimizer sync(optimizer, 3, {.total_num_replicas = 4});
//   const Operation train = sync.Minimize(scope, loss, step);
//   hooks.push_back(sync.MakeSessionRunHook(is_chief));
// One thread at a time; errors go to the scope's status, and what is returned then is unset.
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
  // What a replica runs: hands in its gradients and waits for the update. Once. InvalidArgument without
  // gradients or a global step.
  Operation ApplyGradients(const Scope& scope, const std::vector<GradientAndVariable>& gradients,
                           const GraphVariable& global_step);
  Operation Minimize(const Scope& scope, const Output& loss, const GraphVariable& global_step,
                     const std::vector<GraphVariable>& variables = {}) {
    return ApplyGradients(scope, ComputeGradients(scope, loss, variables), global_step);
  }

  // What ApplyGradients made; unset before it. The hook uses all of it.
  const QueueRunner& chief_queue_runner() const { return chief_queue_runner_; }       // makes the updates
  const Operation& chief_init_op() const { return chief_init_op_; }                   // of the chief
  const Operation& local_step_init_op() const { return local_step_init_op_; }         // of the others
  const Output& ready_for_local_init_op() const { return ready_for_local_init_op_; }  // as of a Scaffold
  // The step that a replica's gradients are for.
  const GraphVariable& local_step() const { return local_step_; }
  // Puts the first tokens into the queue, `replicas_to_aggregate` for -1. InvalidArgument before
  // ApplyGradients, and for fewer than the first step needs.
  Operation InitTokensOp(const Scope& scope, int num_tokens = -1);

  // Prepares a session of a replica, and on the chief runs the thread that makes the updates. The optimizer
  // has to be there as long as the hook. Begin is FailedPrecondition before ApplyGradients.
  std::shared_ptr<SessionRunHook> MakeSessionRunHook(bool is_chief, int num_tokens = -1) {
    return MakeSessionRunHook([is_chief] { return is_chief; }, num_tokens);
  }
  // Where the chief may change, see ChiefLease: asked for each session.
  std::shared_ptr<SessionRunHook> MakeSessionRunHook(std::function<bool()> is_chief, int num_tokens = -1);

 private:
  // What is made for one variable: hands a gradient in, sets the step, takes the mean.
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
  GraphVariable global_step_;
  GraphVariable local_step_;
  Output token_queue_;
  QueueRunner chief_queue_runner_;
  Operation chief_init_op_;
  Operation local_step_init_op_;
  Output ready_for_local_init_op_;
};

// Who of several workers is the chief, for trainings that go on without the first worker. The chief renews a
// lease, which a parameter server keeps. When it has not been renewed for some time, the next worker in line
// takes it: the one with the lowest number that is there. A former chief that comes back is a worker like
// others. Leases go by time: for a moment after a chief has been stopped and continued there may be two. Only
// the later one saves: a file "chief-<number>" in the folder of the checkpoints says which one that is.
// Owns a thread and a session. Thread-safe.
//   options.lease = *ChiefLease::Make({.session = {.target = server->target(), …}, .task = task});
//   hooks = {sync.MakeSessionRunHook([lease = options.lease] { return lease->IsChief(); })};
class ChiefLease {
 public:
  struct Options {
    SessionOptions session = {};  // its target is a task that reaches the parameter server
    int task = 0;                 // the place in the line
    std::string device = "/job:ps/task:0";
    double lease_secs = 5;  // without a renewal, after which it is free
  };
  // InvalidArgument for a lease without a time, or a negative place.
  static StatusOr<std::shared_ptr<ChiefLease>> Make(const Options& options);
  virtual ~ChiefLease() = default;
  // Whether this worker has the lease. Not while the parameter server has been out of reach for lease_secs.
  virtual bool IsChief() const = 0;
};

}  // namespace millrace
