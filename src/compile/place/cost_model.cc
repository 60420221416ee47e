// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/place/cost_model.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "millrace/shape.h"
#include "millrace/tensor.h"
#include "tensor/dtype_table.h"

namespace millrace {
namespace {

// Rough estimates for a CPU: the time of an unmeasured kernel, and the bytes it reads and writes per ns.
constexpr int64_t kCheapNs = 100;
constexpr int64_t kKernelNs = 1'000;
constexpr int64_t kBytesPerNs = 4;
// A transfer between devices of one machine: two kernels and the rendezvous, and a copy.
constexpr int64_t kTransferNs = 5'000;
constexpr int64_t kTransferBytesPerNs = 8;

// The declared size of an output: of constants, and of attributes "shape" without unknown sizes.
int64_t DeclaredBytes(const Node& node, int output) {
  if (const AttrValue* value = node.attrs().Find("value"); value != nullptr && output == 0) {
    if (const auto* tensor = value->As<std::shared_ptr<const Tensor>>(); tensor != nullptr)
      return static_cast<int64_t>((*tensor)->num_bytes());
  }
  const auto shape = node.attrs().Get<PartialShape>("shape");
  if (output != 0 || !shape.ok() || shape->unknown_rank()) return -1;
  int64_t bytes = static_cast<int64_t>(ElementSize(BaseType(node.output_type(output))));
  for (int i = 0; i < shape->rank(); ++i) {
    const int64_t dim = shape->dim(i);
    if (dim < 0 || (dim > 0 && bytes > (int64_t{1} << 40) / dim)) return -1;
    bytes *= dim;
  }
  return bytes;
}

// "/job:…/device:X:0/stream:all" has the times of the work of a device, not those of kernels.
std::string_view WithoutStream(std::string_view device) {
  constexpr std::string_view kSuffix = "/stream:all";
  return device.ends_with(kSuffix) ? device.substr(0, device.size() - kSuffix.size()) : device;
}

}  // namespace

void CostModel::Record(std::span<const DeviceStats> devices) {
  // The cost of a node with work in a stream is that of the work: the kernel itself only enqueues it.
  std::set<std::pair<std::string_view, std::string_view>> in_streams;  // device and node
  for (const DeviceStats& device : devices) {
    const std::string_view of = WithoutStream(device.device);
    if (of.size() == device.device.size()) continue;
    for (const NodeStats& node : device.nodes) in_streams.emplace(of, node.node);
  }
  MutexLock lock(mu_);
  for (const DeviceStats& device : devices) {
    const std::string_view of = WithoutStream(device.device);
    const bool is_stream = of.size() != device.device.size();
    for (const NodeStats& node : device.nodes) {
      Cost& cost = costs_[node.node][std::string(of)];
      if (is_stream || !in_streams.contains({of, node.node})) {
        ++cost.runs;
        cost.total_ns += std::max<int64_t>(node.end_ns - node.start_ns, 0);
      }
      if (is_stream) continue;
      cost.peak_bytes = std::max(cost.peak_bytes, node.memory.peak_bytes);
      cost.outputs = node.outputs;
    }
  }
}

std::optional<CostModel::Cost> CostModel::Find(std::string_view node, std::string_view device) const {
  MutexLock lock(mu_);
  const auto it = costs_.find(node);
  if (it == costs_.end()) return std::nullopt;
  const auto here = it->second.find(device);
  return here != it->second.end() ? here->second : it->second.begin()->second;
}

PlacementCosts CostsOf(const CostModel& model) {
  PlacementCosts costs;
  costs.compute_ns = [&model](const Node& node, const DeviceDescription& device, int64_t input_bytes,
                              int64_t output_bytes) {
    if (const auto measured = model.Find(node.name(), device.name())) return measured->average_ns();
    if (node.traits().cheap || node.traits().aliasing || node.traits().metadata_only) return kCheapNs;
    return kKernelNs + (input_bytes + output_bytes) / kBytesPerNs;
  };
  costs.output_bytes = [&model](const Node& node, int output) {
    if (const auto measured = model.Find(node.name(), "")) {
      for (const NodeStats::Output& o : measured->outputs) {
        if (o.slot == output) return o.bytes;
      }
    }
    return DeclaredBytes(node, output);
  };
  costs.transfer_ns = [](const DeviceDescription& from, const DeviceDescription& to, int64_t bytes) {
    return &from == &to ? 0 : kTransferNs + bytes / kTransferBytesPerNs;
  };
  return costs;
}

}  // namespace millrace
