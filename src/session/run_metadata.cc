// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/run_metadata.h"

#include <cstdio>
#include <map>
#include <string_view>

#include "millrace/status.h"
#include "tensor/tensor_codec.h"
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
    out->append(StrCat(",\"output ", i,
                       "\":", JsonString(StrCat(DataTypeName(o.dtype), o.shape, " ", o.bytes, " bytes"))));
  }
  out->append("}},\n");
}

}  // namespace

std::string RunMetadata::ToChromeTrace() const {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  for (size_t d = 0; d < devices.size(); ++d) {
    const int pid = static_cast<int>(d);
    AppendMetadataEvent("process_name", pid, 0, devices[d].device, &out);
    std::map<uint32_t, bool> threads;
    for (const NodeStats& node : devices[d].nodes) {
      if (threads.emplace(node.thread, true).second) {
        AppendMetadataEvent("thread_name", pid, node.thread, StrCat("thread ", node.thread), &out);
      }
      AppendNode(node, pid, &out);
    }
  }
  if (out.ends_with(",\n")) out.erase(out.size() - 2);
  out.append("\n]}\n");
  return out;
}

void RunMetadata::ToProto(tensorflow::RunMetadata* proto) const {
  proto->Clear();
  for (const DeviceStats& device : devices) {
    tensorflow::DeviceStepStats* d = proto->mutable_step_stats()->add_dev_stats();
    d->set_device(device.device);
    for (const NodeStats& node : device.nodes) {
      tensorflow::NodeExecStats* n = d->add_node_stats();
      n->set_node_name(node.node);
      n->set_all_start_micros(step_start_unix_us + node.start_ns / 1000);
      n->set_all_start_nanos(step_start_unix_us * 1000 + node.start_ns);
      n->set_scheduled_micros(step_start_unix_us + node.scheduled_ns / 1000);
      n->set_scheduled_nanos(step_start_unix_us * 1000 + node.scheduled_ns);
      n->set_op_end_rel_micros((node.end_ns - node.start_ns) / 1000);
      n->set_op_end_rel_nanos(node.end_ns - node.start_ns);
      n->set_all_end_rel_micros((node.end_ns - node.start_ns) / 1000);
      n->set_all_end_rel_nanos(node.end_ns - node.start_ns);
      n->set_timeline_label(node.label);
      n->set_thread_id(node.thread);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        tensorflow::NodeOutput* o = n->add_output();
        o->set_slot(static_cast<int32_t>(i));
        tensorflow::TensorDescription* t = o->mutable_tensor_description();
        t->set_dtype(static_cast<tensorflow::DataType>(node.outputs[i].dtype));
        ShapeToProto(node.outputs[i].shape, t->mutable_shape());
        t->mutable_allocation_description()->set_requested_bytes(node.outputs[i].bytes);
      }
    }
  }
  for (const std::string& graph : partition_graphs) {
    if (!proto->add_partition_graphs()->ParseFromString(graph))
      proto->mutable_partition_graphs()->RemoveLast();
  }
}

}  // namespace millrace
