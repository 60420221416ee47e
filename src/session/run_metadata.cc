// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/run_metadata.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "millrace/status.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/cost_graph.pb.h"
#include "tensorflow/core/framework/step_stats.pb.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace millrace {
namespace {

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      out.append(escaped);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

// Microseconds with the nanoseconds as decimals, the unit of the trace format.
std::string Micros(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return text;
}

void AppendMetadataEvent(const char* kind, int pid, uint32_t tid, std::string_view name, std::string* out) {
  out->append(StrCat("{\"ph\":\"M\",\"name\":\"", kind, "\",\"pid\":", pid, ",\"tid\":", tid,
                     ",\"args\":{\"name\":", JsonString(name), "}},\n"));
}

void AppendNode(const NodeStats& node, int pid, std::string* out) {
  out->append(StrCat("{\"ph\":\"X\",\"cat\":\"op\",\"name\":", JsonString(node.op), ",\"pid\":", pid,
                     ",\"tid\":", node.thread, ",\"ts\":", Micros(node.start_ns),
                     ",\"dur\":", Micros(node.end_ns - node.start_ns),
                     ",\"args\":{\"name\":", JsonString(node.node), ",\"label\":", JsonString(node.label)));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const NodeStats::Output& o = node.outputs[i];
    out->append(StrCat(",\"output ", o.slot,
                       "\":", JsonString(StrCat(DataTypeName(o.dtype), o.shape, " ", o.bytes, " bytes"))));
  }
  out->append("}},\n");
}

void DescribeOutput(const NodeStats::Output& output, const std::string& allocator,
                    tensorflow::NodeOutput* proto) {
  proto->set_slot(output.slot);
  tensorflow::TensorDescription* const t = proto->mutable_tensor_description();
  t->set_dtype(static_cast<tensorflow::DataType>(output.dtype));
  ShapeToProto(output.shape, t->mutable_shape());
  tensorflow::AllocationDescription* const a = t->mutable_allocation_description();
  a->set_requested_bytes(output.bytes);
  a->set_allocated_bytes(output.bytes);
  a->set_allocator_name(allocator);
  a->set_ptr(output.address);
  a->set_has_single_reference(output.sole_owner);
}

void DescribeMemory(const NodeStats& node, const std::string& allocator, int64_t step_start_us,
                    tensorflow::NodeExecStats* proto) {
  tensorflow::AllocatorMemoryUsed* const m = proto->add_memory();
  m->set_allocator_name(allocator);
  m->set_total_bytes(node.memory.requested_bytes);
  m->set_peak_bytes(node.memory.peak_bytes);
  m->set_live_bytes(node.memory.live_bytes);
  m->set_allocator_bytes_in_use(node.memory.allocator_bytes_in_use);
  for (const NodeStats::Allocation& change : node.memory.allocations) {
    tensorflow::AllocationRecord* const r = m->add_allocation_records();
    r->set_alloc_micros(step_start_us + change.ns / 1000);
    r->set_alloc_bytes(change.bytes);
  }
  // Memory that was freed before the node ended was temporary.
  int64_t outputs = 0;
  for (const NodeStats::Output& o : node.outputs) outputs += o.sole_owner ? o.bytes : 0;
  const int64_t kept = std::min(outputs, node.memory.live_bytes);
  proto->mutable_memory_stats()->set_temp_memory_size(node.memory.peak_bytes - kept);
}

void DescribeNode(const NodeStats& node, const std::string& allocator, int64_t step_start_us,
                  tensorflow::NodeExecStats* n) {
  const int64_t took = node.end_ns - node.start_ns;
  n->set_node_name(node.node);
  n->set_all_start_micros(step_start_us + node.start_ns / 1000);
  n->set_all_start_nanos(step_start_us * 1000 + node.start_ns);
  n->set_scheduled_micros(step_start_us + node.scheduled_ns / 1000);
  n->set_scheduled_nanos(step_start_us * 1000 + node.scheduled_ns);
  n->set_op_end_rel_micros(took / 1000);
  n->set_op_end_rel_nanos(took);
  n->set_all_end_rel_micros(took / 1000);
  n->set_all_end_rel_nanos(took);
  n->set_timeline_label(node.label);
  n->set_thread_id(node.thread);
  for (const NodeStats::Output& output : node.outputs) DescribeOutput(output, allocator, n->add_output());
  DescribeMemory(node, allocator, step_start_us, n);
}

void DescribeCost(const CostNode& node, tensorflow::CostGraphDef::Node* proto) {
  proto->set_name(node.name);
  proto->set_device(node.device);
  proto->set_id(node.id);
  for (const CostNode::Input& input : node.inputs) {
    auto* info = proto->add_input_info();
    info->set_preceding_node(input.node);
    info->set_preceding_port(input.port);
  }
  for (const int input : node.control_inputs) proto->add_control_input(input);
  for (const CostNode::Output& output : node.outputs) {
    auto* info = proto->add_output_info();
    info->set_size(output.bytes);
    info->set_alias_input_port(-1);
    info->set_dtype(static_cast<tensorflow::DataType>(output.dtype));
    if (output.bytes >= 0) {
      ShapeToProto(output.shape, info->mutable_shape());
    } else {
      info->mutable_shape()->set_unknown_rank(true);
    }
  }
  proto->set_temporary_memory_size(node.peak_bytes);
  // In microseconds, as in TensorFlow.
  proto->set_compute_cost(node.compute_ns / 1000);
  proto->set_compute_time(node.compute_ns / 1000);
  proto->set_is_final(node.is_final);
  proto->set_inaccurate(!node.measured);
}

}  // namespace

std::string RunMetadata::ToChromeTrace() const {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  for (size_t d = 0; d < devices.size(); ++d) {
    const int pid = static_cast<int>(d);
    AppendMetadataEvent("process_name", pid, 0, devices[d].device, &out);
    for (const auto& [thread, name] : devices[d].thread_names) {
      AppendMetadataEvent("thread_name", pid, thread, name, &out);
    }
    for (const NodeStats& node : devices[d].nodes) AppendNode(node, pid, &out);
  }
  if (out.ends_with(",\n")) out.erase(out.size() - 2);
  out.append("\n]}\n");
  return out;
}

void RunMetadata::ToProto(tensorflow::RunMetadata* proto) const {
  if (proto == nullptr) internal::EndWithMessage("RunMetadata::ToProto: the message is null");
  proto->Clear();
  for (const DeviceStats& device : devices) {
    tensorflow::DeviceStepStats* d = proto->mutable_step_stats()->add_dev_stats();
    d->set_device(device.device);
    for (const NodeStats& node : device.nodes) {
      DescribeNode(node, device.allocator, step_start_unix_us, d->add_node_stats());
    }
    for (const auto& [thread, name] : device.thread_names) (*d->mutable_thread_names())[thread] = name;
  }
  for (const CostNode& node : cost_graph) DescribeCost(node, proto->mutable_cost_graph()->add_node());
  for (const std::string& graph : partition_graphs) {
    if (!proto->add_partition_graphs()->ParseFromString(graph))
      proto->mutable_partition_graphs()->RemoveLast();
  }
}

std::string RunMetadata::SerializeAsString() const {
  tensorflow::RunMetadata proto;
  ToProto(&proto);
  return proto.SerializeAsString();
}

}  // namespace millrace
