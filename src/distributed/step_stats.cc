// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/step_stats.h"

#include <string_view>
#include <utility>

#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/step_stats.pb.h"

namespace millrace {
namespace {

constexpr int64_t kLatestUs = int64_t{1} << 52;  // the year 2112

// "m = MatMul(a, b)" -> "MatMul"
std::string OpOfLabel(std::string_view label) {
  const size_t equals = label.find(" = ");
  if (equals == std::string_view::npos) return "";
  label.remove_prefix(equals + 3);
  return std::string(label.substr(0, label.find_first_of("([")));
}

StatusOr<NodeStats::Output> OutputFrom(const tensorflow::NodeOutput& proto) {
  const tensorflow::TensorDescription& tensor = proto.tensor_description();
  const tensorflow::AllocationDescription& memory = tensor.allocation_description();
  NodeStats::Output output;
  output.slot = proto.slot();
  MR_ASSIGN_OR_RETURN(output.dtype, DataTypeFromProto(tensor.dtype()));
  MR_ASSIGN_OR_RETURN(output.shape, ShapeFromProto(tensor.shape()));
  output.bytes = memory.requested_bytes();
  output.address = memory.ptr();
  output.sole_owner = memory.has_single_reference();
  return output;
}

NodeStats::Memory MemoryFrom(const tensorflow::AllocatorMemoryUsed& proto, int64_t step_start_us) {
  NodeStats::Memory memory;
  memory.requested_bytes = proto.total_bytes();
  memory.peak_bytes = proto.peak_bytes();
  memory.live_bytes = proto.live_bytes();
  memory.allocator_bytes_in_use = proto.allocator_bytes_in_use();
  for (const tensorflow::AllocationRecord& record : proto.allocation_records()) {
    memory.allocations.push_back({(record.alloc_micros() - step_start_us) * 1000, record.alloc_bytes()});
  }
  return memory;
}

StatusOr<NodeStats> NodeFrom(const tensorflow::NodeExecStats& proto, int64_t step_start_us) {
  for (const int64_t time :
       {proto.all_start_micros(), proto.all_end_rel_micros(), proto.scheduled_micros(),
        proto.all_start_nanos() / 1000, proto.all_end_rel_nanos() / 1000, proto.scheduled_nanos() / 1000}) {
    if (time < -kLatestUs || time > kLatestUs)
      return errors::InvalidArgument("Node '", proto.node_name(), "' has run at ", time, " us");
  }
  // Tasks before TensorFlow 1.13 do not send nanoseconds.
  const bool has_nanos = proto.all_start_nanos() != 0;
  const int64_t start = has_nanos ? proto.all_start_nanos() : proto.all_start_micros() * 1000;
  const int64_t took = has_nanos ? proto.all_end_rel_nanos() : proto.all_end_rel_micros() * 1000;
  const int64_t scheduled =
      proto.scheduled_nanos() != 0 ? proto.scheduled_nanos() : proto.scheduled_micros() * 1000;
  NodeStats node;
  node.node = proto.node_name();
  node.label = proto.timeline_label();
  node.op = OpOfLabel(node.label);
  node.start_ns = start - step_start_us * 1000;
  node.end_ns = node.start_ns + took;
  node.scheduled_ns = scheduled - step_start_us * 1000;
  node.thread = proto.thread_id();
  for (const tensorflow::NodeOutput& output : proto.output()) {
    MR_ASSIGN_OR_RETURN(NodeStats::Output read, OutputFrom(output));
    node.outputs.push_back(std::move(read));
  }
  if (proto.memory_size() > 0) node.memory = MemoryFrom(proto.memory(0), step_start_us);
  return node;
}

}  // namespace

Status AppendStepStats(const tensorflow::StepStats& stats, int64_t clock_offset_us, RunMetadata* metadata) {
  const int64_t start_us = metadata->step_start_unix_us + clock_offset_us;
  for (const tensorflow::DeviceStepStats& proto : stats.dev_stats()) {
    DeviceStats device;
    device.device = proto.device();
    for (const tensorflow::NodeExecStats& node : proto.node_stats()) {
      if (device.allocator.empty() && node.memory_size() > 0)
        device.allocator = node.memory(0).allocator_name();
      auto read = NodeFrom(node, start_us);
      if (!read.ok()) return read.status().WithContext(StrCat("; in the statistics of ", proto.device()));
      device.nodes.push_back(*std::move(read));
    }
    for (const auto& [thread, name] : proto.thread_names()) device.thread_names[thread] = name;
    metadata->devices.push_back(std::move(device));
  }
  return Status();
}

}  // namespace millrace
