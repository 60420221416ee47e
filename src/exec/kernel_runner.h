// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "exec/plan.h"
#include "exec/step_trace.h"
#include "kernel/kernel_context.h"
#include "millrace/status.h"
#include "tensor/allocation_owner.h"

namespace millrace {

// Prepares the inputs of a node that has reference inputs: converts those that the kernel takes by value to
// values, and refuses uninitialised variables.
Status ReadReferences(const Plan& plan, uint32_t index, TensorValue* inputs);

Status OutOfHostMemory(const OpKernel& kernel);
Status DroppedCompletion(const OpKernel& kernel);
// Runs a synchronous kernel. A std::bad_alloc thrown by it becomes ResourceExhausted.
inline Status ComputeKernel(OpKernel& kernel, KernelContext& context) {
  try {
    return kernel.Compute(context);
  } catch (const std::bad_alloc&) {
    return OutOfHostMemory(kernel);
  }
}
// The same for AsyncOpKernel::TryCompute, if that may succeed. *waits: the kernel has to be started.
inline Status TryComputeKernel(AsyncOpKernel& kernel, KernelContext& context, bool* waits) {
  Status status;
  try {
    *waits = !kernel.tries() || !kernel.TryCompute(context, status);
  } catch (const std::bad_alloc&) {
    return OutOfHostMemory(kernel);
  }
  return status;
}

// The completion callback of an asynchronous kernel: passes the status on to `run` (a walker's AsyncRun),
// which ends with the call. If a kernel destroys it uncalled, its node ends with an error: ResourceExhausted
// after a std::bad_alloc, else Internal.
template <typename Run>
class AsyncCompletion {
 public:
  explicit AsyncCompletion(Run* run) : run_(run) {}
  AsyncCompletion(AsyncCompletion&& other) noexcept : run_(std::exchange(other.run_, nullptr)) {}
  ~AsyncCompletion() {
    if (run_ == nullptr) return;
    const OpKernel& kernel = run_->context.kernel();
    run_->Finish(std::uncaught_exceptions() > 0 ? OutOfHostMemory(kernel) : DroppedCompletion(kernel));
  }
  void operator()(const Status& status) { std::exchange(run_, nullptr)->Finish(status); }

 private:
  Run* run_;
};

template <typename Run>
void StartAsyncKernel(AsyncOpKernel& kernel, std::unique_ptr<Run> run) {
  KernelContext& context = run->context;
  try {
    kernel.ComputeAsync(context, AsyncCompletion<Run>(run.release()));
  } catch (const std::bad_alloc&) {
    // The owner of the completion has ended the node during the exception.
  }
}

// The kernel's error with the node named as TensorFlow does.
Status AddNodeContext(const Status& status, const Node& node);
Status MissingOutput(const Plan& plan, uint32_t index, uint32_t output);

// Kernels of transfers detect by their first input that they only pass on deadness.
inline void MarkDead(const PlanNode& node, TensorValue* inputs, bool dead) {
  if (node.num_inputs > 0) inputs[0].is_dead = dead;
}

inline void ReleaseInputs(TensorValue* inputs, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    TensorValue& v = inputs[i];
    if (v.kind == TensorValue::Kind::kConstant) continue;
    if (v.kind == TensorValue::Kind::kValue) v.value.Clear();
    v.kind = TensorValue::Kind::kNone;
    v.is_dead = false;
  }
}

// Moves the outputs of a node to its consumers' slots; outputs without consumers are dropped.
inline Status DeliverOutputs(const Plan& plan, uint32_t index, TensorValue* outputs, TensorValue* slots) {
  const PlanNode& node = plan.node(index);
  for (const PlanEdge& e : plan.data_edges(index)) {
    TensorValue& out = outputs[e.output];
    if (out.kind == TensorValue::Kind::kNone) [[unlikely]]
      return MissingOutput(plan, index, e.output);
    if (e.last_use) {
      slots[e.slot] = std::move(out);
      out.kind = TensorValue::Kind::kNone;
    } else {
      slots[e.slot] = out;
    }
  }
  ReleaseInputs(outputs, node.num_outputs);
  return Status();
}

// The time-stamp counter if there is one: a few ns to read, good enough for cost estimates.
uint64_t CycleCount();
// Nanoseconds per CycleCount tick, measured once.
double NsPerCycle();

// What a walker records about the nodes that it runs.
struct NodeNotes {
  bool measure = false;        // the plan's costs are updated
  StepTrace* trace = nullptr;  // null: none
};

enum class NodeEnd : uint8_t { kDone, kFailed, kWaits };

// Runs the kernels of a plan's nodes on one thread, one after the other; the common part of all walkers.
// During its lifetime, allocations of the thread are attributed to the node that ran last. Without `kNoted`
// nothing is recorded, and there is no code for it.
template <bool kNoted = true>
class NodeRunner {
 public:
  // `context` belongs to the step, and is bound to each node in turn. It is not a member, so that the
  // compiler can assume that kernels do not change this object.
  NodeRunner(const Plan& plan, const NodeNotes& notes, KernelContext& context)
      : plan_(plan), notes_(notes), context_(context) {}

  KernelContext& context() { return context_; }
  // The error of a failed node, with its name.
  const Status& status() const { return status_; }

  // Runs a node that has a kernel. kDone: the outputs are those of the kernel, and the inputs are freed.
  // kWaits: nothing has happened, and StartAsyncKernel has to run it. A `dead` node only passes its deadness
  // on.
  [[gnu::always_inline]] NodeEnd Run(uint32_t index, const PlanNode& node, TensorValue* inputs,
                                     TensorValue* outputs, bool dead = false) {
    if (node.has_ref_inputs && !dead) {
      Status read = ReadReferences(plan_, index, inputs);
      if (!read.ok()) return Fail(index, read);
    }
    const uint64_t start_cycles = measures() ? CycleCount() : 0;
    const int64_t start_ns = trace() != nullptr ? trace()->NowNs() : 0;
    context_.Rebind(node.kernel, inputs, outputs);
    allocation_owner = &node.kernel->name();
    if (dead) MarkDead(node, inputs, true);
    bool waits = false;
    const Status status = [&] {
      if (node.async == nullptr) [[likely]]
        return ComputeKernel(*node.kernel, context_);
      return TryComputeKernel(*node.async, context_, &waits);
    }();
    if (dead) MarkDead(node, inputs, false);
    if (waits) [[unlikely]]
      return NodeEnd::kWaits;
    if (!status.ok()) [[unlikely]]
      return Fail(index, status);
    if (measures()) {
      plan_.RecordCost(
          index, static_cast<uint64_t>(static_cast<double>(CycleCount() - start_cycles) * NsPerCycle()));
    }
    if (trace() != nullptr) trace()->Record(plan_, index, start_ns, trace()->NowNs(), outputs);
    ReleaseInputs(inputs, node.num_inputs);
    return NodeEnd::kDone;
  }
  // Ends a node without a kernel.
  void Skip(uint32_t index, const TensorValue* outputs) const {
    if (trace() != nullptr) trace()->RecordInstant(plan_, index, outputs);
  }

 private:
  bool measures() const { return kNoted && notes_.measure; }
  StepTrace* trace() const { return kNoted ? notes_.trace : nullptr; }
  [[gnu::always_inline]] NodeEnd Fail(uint32_t index, const Status& status) {
    status_ = AddNodeContext(status, plan_.graph_node(index));
    return NodeEnd::kFailed;
  }

  const Plan& plan_;
  const NodeNotes notes_;
  KernelContext& context_;
  Status status_;
  const ScopedAllocationOwner restore_{nullptr};
};

}  // namespace millrace
