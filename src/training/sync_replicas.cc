// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/graph.h"
#include "millrace/ops.h"
#include "millrace/replicas.h"
#include "training/apply.h"
#include "training/formula.h"
#include "training/same_graph.h"

namespace millrace {
namespace {

// A scope whose nodes have that node's device, whatever a device function returns, except for colocated ones.
Scope OnDeviceOf(const Scope& scope, const Operation& node) {
  if (!node.IsSet() || node.node->requested_device().empty()) return scope;
  return scope.WithDevice(node.node->requested_device()).WithDeviceFunction([](const NodeToPlace& asked) {
    return StatusOr<std::string>(asked.device);
  });
}

// `op` of a handle and a number, which is named after its argument: "AccumulatorTakeGradient/num_required".
Operation WithNumber(const Scope& scope, const char* op, const std::vector<Output>& before,
                     const char* argument, const Literal& number, const std::vector<Output>& after = {},
                     const OpAttrs& attrs = {}) {
  const Scope own = scope.NewSubScope(op);
  std::vector<Input> inputs(before.begin(), before.end());
  inputs.emplace_back(ops::Const(own.WithOpName(argument).WithNoColocation(), number));
  inputs.insert(inputs.end(), after.begin(), after.end());
  return AddNode(own.WithOpName("/"), op, inputs, attrs);
}

Output Queue(const Scope& scope, const char* name, DataType dtype, int64_t capacity) {
  OpAttrs attrs;
  attrs.Set("component_types", std::vector<DataType>{dtype});
  attrs.Set("shapes", std::vector<PartialShape>{PartialShape(TensorShape())});
  attrs.Set("capacity", capacity);
  attrs.Set("shared_name", name);
  return AddOp(scope.WithOpName(name), "FIFOQueueV2", {}, attrs);
}

Operation Assign(const Scope& scope, const GraphVariable& variable, const Output& value) {
  VariableChanges changes(scope.ColocateWith(variable.ref()), variable);
  changes.Assign(value);
  return changes.Done();
}

// Placed with the worker's nodes: variables of the same name on one server would be one variable.
GraphVariable LocalStep(const Scope& scope, DataType dtype) {
  const ops::NoOp anchor(scope.WithNoControlDependencies());
  if (!scope.ok()) return {};
  return GraphVariable(scope.AtRoot().ColocateWith(anchor).WithOpName("sync_rep_local_step"),
                       Input(Literal(NumberTensor(0, dtype))),
                       {.trainable = false, .collections = {graph_keys::kLocalVariables}});
}

Status CheckArguments(const std::vector<GradientAndVariable>& gradients, const GraphVariable& global_step) {
  if (gradients.empty()) return errors::InvalidArgument("Must supply at least one variable");
  for (const GradientAndVariable& gradient : gradients) {
    if (!gradient.variable.ref().IsSet()) return errors::InvalidArgument("a variable is unset");
  }
  if (!global_step.ref().IsSet()) {
    return errors::InvalidArgument("Global step is required to check staleness");
  }
  if (global_step.dtype() != DataType::kInt64) {
    return errors::InvalidArgument("the global step is ", global_step.dtype(), ", accumulators take int64");
  }
  return Status();
}

}  // namespace

SyncReplicasOptimizer::SyncReplicasOptimizer(std::shared_ptr<const Optimizer> optimizer,
                                             int replicas_to_aggregate, Options options)
    : optimizer_(std::move(optimizer)),
      replicas_to_aggregate_(replicas_to_aggregate),
      total_num_replicas_(options.total_num_replicas == 0 ? replicas_to_aggregate
                                                          : options.total_num_replicas),
      options_(std::move(options)) {}

std::vector<GradientAndVariable> SyncReplicasOptimizer::ComputeGradients(
    const Scope& scope, const Output& loss, const std::vector<GraphVariable>& variables) const {
  if (optimizer_ != nullptr) return optimizer_->ComputeGradients(scope, loss, variables);
  scope.UpdateStatus(errors::InvalidArgument("the optimizer is null"));
  return {};
}

SyncReplicasOptimizer::Accumulated SyncReplicasOptimizer::Accumulate(
    const Scope& scope, const GradientAndVariable& gradient) const {
  const GraphVariable& variable = gradient.variable;
  const bool rows = gradient.gradient.IsSlices();
  const Scope own = OnDeviceOf(scope, variable.ref());
  OpAttrs attrs;
  attrs.Set("dtype", Scope::TypeOf(gradient.gradient.values()));
  OpAttrs of_accumulator;
  of_accumulator.Set("dtype", Scope::TypeOf(gradient.gradient.values()));
  of_accumulator.Set("shape", rows ? PartialShape(TensorShape()) : scope.ShapeOf(variable.value()));
  of_accumulator.Set("shared_name", StrCat(variable.name(), ":0/grad_accum"));
  const std::string name = rows ? "sparse_conditional_accumulator" : "conditional_accumulator";
  const Output accumulator =
      AddOp(own.WithOpName(name), rows ? "SparseConditionalAccumulator" : "ConditionalAccumulator", {},
            of_accumulator);
  if (!scope.ok()) return {};
  const Scope beside = own.ColocateWith(accumulator);
  Accumulated made;
  Operation take;
  if (rows) {
    const IndexedSlices& slices = gradient.gradient.slices;
    const bool known = slices.dense_shape.IsSet();
    const Output indices = CastTo(own, slices.indices, DataType::kInt64);
    const Output shape = known ? CastTo(own, slices.dense_shape, DataType::kInt64)
                               : ops::Const(own, Literal(Tensor::Vector(std::vector<int64_t>())));
    OpAttrs of_apply;
    of_apply.Set("has_known_shape", known);
    made.apply = AddNode(beside, "SparseAccumulatorApplyGradient",
                         {accumulator, local_step_.value(), indices, slices.values, shape}, of_apply);
    take = WithNumber(beside, "SparseAccumulatorTakeGradient", {accumulator}, "num_required",
                      replicas_to_aggregate_, {}, attrs);
    if (take.IsSet()) {
      made.mean =
          IndexedSlices{.values = {take.node, 1}, .indices = {take.node, 0}, .dense_shape = {take.node, 2}};
    }
  } else {
    made.apply = AddNode(beside, "AccumulatorApplyGradient",
                         {accumulator, local_step_.value(), gradient.gradient.dense});
    take = WithNumber(beside, "AccumulatorTakeGradient", {accumulator}, "num_required",
                      replicas_to_aggregate_, {}, attrs);
    if (take.IsSet()) made.mean = Output{take.node, 0};
  }
  made.set_step = AddNode(beside.WithOpName("SetGlobalStep"), "AccumulatorSetGlobalStep",
                          {accumulator, global_step_.value()});
  return made;
}

Operation SyncReplicasOptimizer::PutTokens(const Scope& at_step, int num_tokens) const {
  const Scope own = at_step.NewSubScope("Fill");
  const Output dims =
      ops::Const(own.WithOpName("dims"), Literal(Tensor::Vector(std::vector<int32_t>{num_tokens})));
  const Output tokens =
      AddOp(own.WithOpName("/"), "Fill", {dims, VariableChanges(own, global_step_).Value()});
  if (!at_step.ok()) return {};
  return ops::QueueEnqueueManyV2(at_step.WithOpName("sync_token_q_EnqueueMany"), token_queue_, {tokens});
}

Operation SyncReplicasOptimizer::ApplyGradients(const Scope& scope,
                                                const std::vector<GradientAndVariable>& gradients,
                                                const GraphVariable& global_step) {
  if (scope.ok()) {
    scope.UpdateStatus(CheckArguments(gradients, global_step));
    if (optimizer_ == nullptr) scope.UpdateStatus(errors::InvalidArgument("the optimizer is null"));
    if (replicas_to_aggregate_ < 1 || total_num_replicas_ < 1) {
      scope.UpdateStatus(errors::InvalidArgument("gradients of ", replicas_to_aggregate_, " of ",
                                                 total_num_replicas_, " replicas can't be aggregated"));
    }
    if (local_step_.ref().IsSet()) {
      scope.UpdateStatus(errors::FailedPrecondition("the gradients of these replicas are applied already"));
    }
  }
  if (!scope.ok()) return {};
  scope_ = scope.AtRoot().OutsideControlFlow();
  global_step_ = global_step;
  local_step_ = LocalStep(scope, global_step.dtype());
  if (!scope.ok()) return {};
  const Scope root = scope.AtRoot();
  local_step_init_op_ = Assign(scope, local_step_, global_step.value());
  ready_for_local_init_op_ = ReportUninitializedVariables(root, GlobalVariables(scope));

  const Scope own = root.NewSubScope(options_.name);
  std::vector<Operation> applies, chief_inits = {local_step_init_op_};
  std::vector<GradientAndVariable> means;
  for (const GradientAndVariable& gradient : gradients) {
    if (!gradient.gradient.IsSet()) continue;
    const Accumulated made = Accumulate(own, gradient);
    if (!scope.ok()) return {};
    applies.push_back(made.apply);
    chief_inits.push_back(made.set_step);
    means.push_back({made.mean, gradient.variable});
  }
  // The step counter is placed with the global step.
  const Scope at_step = OnDeviceOf(root, global_step.ref());
  const Operation update = optimizer_->ApplyGradients(at_step, means, global_step);
  token_queue_ = Queue(at_step, "sync_token_q", global_step.dtype(), -1);
  if (!scope.ok()) return {};

  // A replica's step: applies its gradients, then takes a token.
  OpAttrs attrs;
  attrs.Set("component_types", std::vector<DataType>{global_step.dtype()});
  const Output token = AddOp(at_step.WithOpName("sync_token_q_Dequeue").WithControlDependencies(applies),
                             "QueueDequeueV2", {token_queue_}, attrs);
  if (!scope.ok()) return {};
  const Operation train = Assign(scope.AtRoot(), local_step_, token);
  Operation sync = PutTokens(at_step.WithControlDependencies({update}),
                             std::max(total_num_replicas_, replicas_to_aggregate_));
  if (!scope.ok()) return {};
  if (options_.variable_averages != nullptr) {
    sync = options_.variable_averages->Apply(at_step.WithControlDependencies({sync}),
                                             options_.variables_to_average);
  }
  // The queue of the runner is only used by its close ops.
  chief_queue_runner_ = QueueRunner::Make(own, Queue(own, "dummy_queue", DataType::kInt32, 1), {sync});
  chief_init_op_ = ops::NoOp(own.WithOpName("group_deps").WithControlDependencies(chief_inits));
  return scope.ok() ? train : Operation();
}

Operation SyncReplicasOptimizer::InitTokensOp(const Scope& scope, int num_tokens) {
  const int needed = replicas_to_aggregate_ - total_num_replicas_;
  if (scope.ok() && !token_queue_.IsSet()) {
    scope.UpdateStatus(
        errors::InvalidArgument("get_init_tokens_op() should be called after apply_gradients()."));
  } else if (scope.ok() && scope_) {
    scope.UpdateStatus(
        CheckSameGraph("SyncReplicasOptimizer::InitTokensOp", "the token queue is", *scope_, scope));
  }
  if (!scope.ok()) return {};
  if (num_tokens == -1) {
    num_tokens = replicas_to_aggregate_;
  } else if (num_tokens < needed || num_tokens < 0) {
    scope.UpdateStatus(errors::InvalidArgument("Too few tokens to finish the first step: ", num_tokens,
                                               " (given) vs ", needed, " (needed)"));
  }
  if (!scope.ok()) return {};
  if (num_tokens == 0) return ops::NoOp(scope.AtRoot().WithOpName("no_init_tokens"));
  return PutTokens(OnDeviceOf(scope.AtRoot(), global_step_.ref()), num_tokens);
}

}  // namespace millrace
