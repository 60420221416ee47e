// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "exec/plan.h"
#include "exec/step_trace.h"
#include "kernel/kernel_context.h"
#include "millrace/status.h"

namespace millrace {

// Prepares the inputs of a node that has reference inputs: turns those that the kernel wants by value into
// values, and refuses variables that have no value yet.
Status ReadReferences(const Plan& plan, uint32_t index, TensorValue* inputs);

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

// Hands the outputs of a node to its consumers' slots; what nobody consumes is dropped.
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
