// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/kernel_runner.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "base/step_cancelled.h"
#include "graph/fused_node.h"

namespace millrace {
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

Status OutOfHostMemory(const OpKernel& kernel) {
  return errors::ResourceExhausted("OOM when running ", kernel.op_name(), " '", kernel.name(),
                                   "': the host has no memory left");
}

Status DroppedCompletion(const OpKernel& kernel) {
  return errors::Internal("The kernel of ", kernel.op_name(), " '", kernel.name(),
                          "' destroyed its completion callback without calling it");
}

// Errors of a fused node that are about its product have the name of the product in the program.
static std::string_view NameInErrors(const Node& node) {
  const AttrValue* const product = node.attrs().Find(kProductAttr);
  const std::string* const name = product == nullptr ? nullptr : product->As<std::string>();
  return name == nullptr ? std::string_view(node.name()) : *name;
}

Status AddNodeContext(const Status& status, const Node& node) {
  if (IsStepCancelled(status)) return status;  // no node caused the error
  // The message names one node as the cause: enclosing nodes are not marked.
  const bool first = status.message().find("{{node ") == std::string_view::npos;
  return status.WithContext(
      StrCat("\n\t [[", first ? "{{node " : "", NameInErrors(node), first ? "}}" : "", "]]"));
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
