// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/kernel_runner.h"

#include <atomic>

#include "graph/summary.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace millrace {
namespace {

uint32_t ThreadNumber() {
  static std::atomic<uint32_t> next{0};
  thread_local const uint32_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace

void StepTrace::Record(const Plan& plan, uint32_t node, int64_t start_ns, int64_t end_ns,
                       const TensorValue* outputs) {
  const Node& n = plan.graph_node(node);
  NodeStats s;
  s.node = n.name();
  s.op = n.op_name();
  s.label = NodeLabel(n);
  s.scheduled_ns = start_ns;
  s.start_ns = start_ns;
  s.end_ns = end_ns;
  s.thread = ThreadNumber();
  for (int i = 0; outputs != nullptr && i < n.num_outputs(); ++i) {
    NodeStats::Output& out = s.outputs.emplace_back();
    out.dtype = n.output_type(i);
    if (outputs[i].kind != TensorValue::Kind::kValue) continue;
    out.shape = outputs[i].value.shape();
    out.bytes = static_cast<int64_t>(outputs[i].value.num_bytes());
  }
  MutexLock lock(mu_);
  stats_.nodes.push_back(std::move(s));
}

DeviceStats StepTrace::Take() {
  MutexLock lock(mu_);
  return std::move(stats_);
}

Status ReadReferences(const Plan& plan, uint32_t index, TensorValue* inputs) {
  const OpKernel& kernel = *plan.node(index).kernel;
  for (int i = 0; i < kernel.num_inputs(); ++i) {
    TensorValue& v = inputs[i];
    if (v.kind != TensorValue::Kind::kRef) continue;
    bool initialized;
    {
      MutexLock lock(*v.ref_mu);
      initialized = v.ref->IsInitialized();
      if (!IsRefType(kernel.input_type(i))) {
        v.value = *v.ref;
        v.kind = TensorValue::Kind::kValue;
      }
    }
    if (!initialized && !kernel.props().op->def.allows_uninitialized_input) {
      const Node& node = plan.graph_node(index);
      return errors::FailedPrecondition("Attempting to use uninitialized value ",
                                        node.in_edges()[i]->src->name());
    }
  }
  return Status();
}

Status AddNodeContext(const Status& status, const Node& node) {
  return status.WithContext(StrCat("\n\t [[Node: ", SummarizeNode(node), "]]"));
}

Status MissingOutput(const Plan& plan, uint32_t index, uint32_t output) {
  const Node& node = plan.graph_node(index);
  return AddNodeContext(errors::Internal("Missing ", output, "-th output from node '", node.name(), "'"),
                        node);
}

uint64_t CycleCount() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

double NsPerCycle() {
#if defined(__x86_64__)
  static const double ns_per_cycle = [] {
    using Clock = std::chrono::steady_clock;
    const auto t0 = Clock::now();
    const uint64_t c0 = CycleCount();
    while (Clock::now() - t0 < std::chrono::microseconds(200)) {
    }
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - t0).count();
    return ns / static_cast<double>(CycleCount() - c0);
  }();
  return ns_per_cycle;
#else
  return std::nano::den * static_cast<double>(std::chrono::steady_clock::period::num) /
         std::chrono::steady_clock::period::den;
#endif
}

}  // namespace millrace
