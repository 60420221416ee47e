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

namespace millrace {

// Prepares the inputs of a node that has reference inputs: turns those that the kernel wants by value into
// values, and refuses variables that have no value yet.
Status ReadReferences(const Plan& plan, uint32_t index, TensorValue* inputs);

Status OutOfHostMemory(const OpKernel& kernel);
Status DroppedCompletion(const OpKernel& kernel);
// Runs a synchronous kernel. A std::bad_alloc that leaves it becomes ResourceExhausted.
inline Status ComputeKernel(OpKernel& kernel, KernelContext& context) {
  try {
    return kernel.Compute(context);
  } catch (const std::bad_alloc&) {
    return OutOfHostMemory(kernel);
  }
}
// The same for AsyncOpKernel::TryCompute.
inline bool TryComputeKernel(AsyncOpKernel& kernel, KernelContext& context, Status& status) {
  try {
    return kernel.TryCompute(context, status);
  } catch (const std::bad_alloc&) {
    status = OutOfHostMemory(kernel);
    return true;
  }
}

// The completion callback of an asynchronous kernel: passes the status on to `run` (a walker's AsyncRun),
// which ends with the call. A kernel that destroys it uncalled ends its node with an error: ResourceExhausted
// where a std::bad_alloc leaves the kernel, else Internal.
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
    // The owner of the completion has ended the node when the exception passed.
  }
}

// The kernel's error with the node named the way TensorFlow does.
Status AddNodeContext(const Status& status, const Node& node);
Status MissingOutput(const Plan& plan, uint32_t index, uint32_t output);

inline void ReleaseInputs(TensorValue* inputs, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    TensorValue& v = inputs[i];
    if (v.kind == TensorValue::Kind::kConstant) continue;
    if (v.kind == TensorValue::Kind::kValue) v.value.Clear();
    v.kind = TensorValue::Kind::kNone;
    v.is_dead = false;
  }
}

// Hands the outputs of a node to its consumers' slots; outputs without consumers are dropped.
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

// The time-stamp counter where there is one: a few ns to read, good enough for cost estimates.
uint64_t CycleCount();
// Nanoseconds per CycleCount tick, found once.
double NsPerCycle();

}  // namespace millrace
