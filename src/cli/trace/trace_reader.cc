// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/trace_reader.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "cli/trace/wire.h"
#include "tensorflow/core/framework/step_stats.pb.h"

namespace millrace::cli {
namespace {

// Numbers of the fields with parts that are too large to be parsed as one message.
constexpr uint32_t kRunMetadataStepStats = 1;
constexpr uint32_t kStepStatsDevice = 1;
constexpr uint32_t kDeviceName = 1;
constexpr uint32_t kDeviceNode = 2;
constexpr uint32_t kDeviceThreadName = 3;

// The limit of one node's statistics. A message in memory is up to 30 times as large.
constexpr size_t kMostNodeBytes = size_t{1} << 24;
// The maximum number of changes of memory in one trace.
constexpr size_t kMostMemoryNotes = 16'000'000;
// The maximum number of rows for overlapping events of one thread; the rest share the last one.
constexpr uint32_t kMostParts = 24;

// Times of a message are clipped to this, so that differences and sums do not overflow.
constexpr int64_t kLatestNs = int64_t{1} << 61;
int64_t Clip(int64_t ns) { return std::clamp<int64_t>(ns, 0, kLatestNs); }
int64_t FromMicros(int64_t us) { return us > kLatestNs / 1000 ? kLatestNs : Clip(us * 1000); }
int64_t AddClipped(int64_t a, int64_t b) { return std::min(a + b, kLatestNs); }  // both are at most kLatestNs
int64_t Bytes(int64_t n) { return std::clamp<int64_t>(n, -(int64_t{1} << 50), int64_t{1} << 50); }

std::string DescribeTensor(const tensorflow::TensorDescription& tensor) {
  constexpr int kMostDims = 8;
  // "DT_FLOAT" reads as "float".
  std::string text = tensorflow::DataType_IsValid(tensor.dtype())
                         ? tensorflow::DataType_Name(tensor.dtype()).substr(3)
                         : "unknown";
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  const tensorflow::TensorShapeProto& shape = tensor.shape();
  if (shape.unknown_rank()) return text + "<unknown>";
  text += '[';
  for (int i = 0; i < shape.dim_size() && i < kMostDims; ++i) {
    text += StrCat(i == 0 ? "" : ",", shape.dim(i).size());
  }
  return text + (shape.dim_size() > kMostDims ? ",…]" : "]");
}

std::string DescribeOutputs(const tensorflow::NodeExecStats& stats) {
  constexpr int kMostOutputs = 6;
  std::string text;
  for (int i = 0; i < stats.output_size() && i < kMostOutputs; ++i) {
    if (i > 0) text += ", ";
    text += DescribeTensor(stats.output(i).tensor_description());
  }
  return stats.output_size() > kMostOutputs ? text + ", …" : text;
}

// The parts of a label "name = Op(input, input)". Kernels of GPUs are called "name:Op" and have no such
// label.
struct Label {
  std::string_view op;
  std::string_view inputs;
};
Label ReadLabel(const tensorflow::NodeExecStats& stats) {
  constexpr size_t kMostLabelBytes = 4096;
  const std::string_view label = std::string_view(stats.timeline_label()).substr(0, kMostLabelBytes);
  const size_t equals = label.find(" = ");
  const size_t open = label.find('(', equals == std::string_view::npos ? 0 : equals);
  if (equals != std::string_view::npos && open != std::string_view::npos) {
    const size_t close = std::min(label.rfind(')'), label.size());
    return {label.substr(equals + 3, open - equals - 3),
            close > open ? label.substr(open + 1, close - open - 1) : std::string_view()};
  }
  const std::string_view name = stats.node_name();
  const size_t colon = name.rfind(':');
  if (colon != std::string_view::npos && colon + 1 < name.size()) return {name.substr(colon + 1), {}};
  return {"unknown", {}};
}

class TraceReader {
 public:
  StatusOr<Trace> Read(std::string_view run_metadata) {
    MR_RETURN_IF_ERROR(ForEachField(run_metadata, [&](uint32_t number, std::string_view step_stats) {
      if (number != kRunMetadataStepStats) return Status();
      return ForEachField(step_stats, [&](uint32_t n, std::string_view device) {
        return n == kStepStatsDevice ? ReadDevice(device) : Status();
      });
    }));
    if (trace_.events.empty()) {
      return errors::InvalidArgument("it has no step statistics: was the step run with a trace level?");
    }
    Normalise();
    AssignRows();
    return std::move(trace_);
  }

 private:
  Status ReadDevice(std::string_view bytes) {
    const auto device = static_cast<uint32_t>(trace_.devices.size());
    trace_.devices.emplace_back();
    thread_names_.emplace_back();
    MR_RETURN_IF_ERROR(ForEachField(bytes, [&](uint32_t number, std::string_view field) {
      if (number == kDeviceName) trace_.devices[device] = field;
      return number == kDeviceThreadName ? ReadThreadName(device, field) : Status();
    }));
    return ForEachField(bytes, [&](uint32_t number, std::string_view field) {
      return number == kDeviceNode ? ReadNode(device, field) : Status();
    });
  }

  // An entry of map<uint32, string>; as a message of its own it is a DeviceStepStats with just this entry.
  Status ReadThreadName(uint32_t device, std::string_view entry) {
    constexpr size_t kMostBytes = 4096;
    if (entry.size() > kMostBytes) return errors::DataLoss("malformed message: a thread's name is too long");
    std::string wrapped = {static_cast<char>(kDeviceThreadName << 3 | 2)};
    for (size_t n = entry.size();; n >>= 7) {
      wrapped += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
      if (n <= 0x7f) break;
    }
    wrapped += entry;
    tensorflow::DeviceStepStats stats;
    if (!stats.ParseFromString(wrapped)) return errors::DataLoss("malformed message: a thread's name");
    for (const auto& [thread, name] : stats.thread_names()) thread_names_[device][thread] = name;
    return Status();
  }

  Status ReadNode(uint32_t device, std::string_view bytes) {
    if (trace_.events.size() >= kMostTraceEvents) {
      return errors::ResourceExhausted("more than ", kMostTraceEvents, " events");
    }
    if (bytes.size() > kMostNodeBytes) {
      return errors::ResourceExhausted("the statistics of one node have ", bytes.size(), " bytes");
    }
    stats_.Clear();
    if (!stats_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return errors::DataLoss("malformed message: the statistics of a node");
    }
    AddEvent(device);
    return AddMemory(device);
  }

  void AddEvent(uint32_t device) {
    const bool nanos = stats_.all_start_nanos() > 0;
    coarse_ = coarse_ || !nanos;
    TraceEvent e;
    e.start_ns = nanos ? Clip(stats_.all_start_nanos()) : FromMicros(stats_.all_start_micros());
    const int64_t took = nanos ? Clip(stats_.all_end_rel_nanos()) : FromMicros(stats_.all_end_rel_micros());
    e.end_ns = AddClipped(e.start_ns, took);
    const int64_t scheduled =
        stats_.scheduled_nanos() > 0 ? Clip(stats_.scheduled_nanos()) : FromMicros(stats_.scheduled_micros());
    if (scheduled > 0) e.waited_ns = std::max<int64_t>(0, e.start_ns - scheduled);
    e.node = NodeOf(device);
    e.row = stats_.thread_id();  // until AssignRows
    e.shapes = trace_.shapes.Add(DescribeOutputs(stats_));
    for (const tensorflow::NodeOutput& output : stats_.output()) {
      const auto& allocation = output.tensor_description().allocation_description();
      e.output_bytes = Bytes(e.output_bytes + Bytes(allocation.requested_bytes()));
    }
    for (const tensorflow::AllocatorMemoryUsed& memory : stats_.memory()) {
      e.requested_bytes = Bytes(e.requested_bytes + Bytes(memory.total_bytes()));
      e.peak_bytes = Bytes(e.peak_bytes + Bytes(memory.peak_bytes()));
    }
    trace_.events.push_back(e);
  }

  uint32_t NodeOf(uint32_t device) {
    const auto [it, added] =
        nodes_.try_emplace({device, stats_.node_name()}, static_cast<uint32_t>(trace_.nodes.size()));
    if (added) {
      const Label label = ReadLabel(stats_);
      trace_.nodes.push_back(
          {device, stats_.node_name(), trace_.ops.Add(label.op), std::string(label.inputs)});
    }
    return it->second;
  }

  Status AddMemory(uint32_t device) {
    const TraceEvent& e = trace_.events.back();
    for (const tensorflow::AllocatorMemoryUsed& memory : stats_.memory()) {
      const uint32_t allocator =
          trace_.allocators.Add(StrCat(trace_.devices[device], ": ", memory.allocator_name()));
      for (const tensorflow::AllocationRecord& record : memory.allocation_records()) {
        trace_.memory_changes.push_back(
            {allocator, FromMicros(record.alloc_micros()), Bytes(record.alloc_bytes())});
      }
      if (memory.allocator_bytes_in_use() > 0) {
        trace_.memory_in_use.push_back({allocator, e.end_ns, Bytes(memory.allocator_bytes_in_use())});
      }
    }
    if (trace_.memory_changes.size() + trace_.memory_in_use.size() > kMostMemoryNotes) {
      return errors::ResourceExhausted("more than ", kMostMemoryNotes, " records of memory");
    }
    return Status();
  }

  // Times from the first event on; events by their start.
  void Normalise() {
    std::stable_sort(trace_.events.begin(), trace_.events.end(),
                     [](const TraceEvent& a, const TraceEvent& b) {
                       return std::pair(a.start_ns, a.end_ns) < std::pair(b.start_ns, b.end_ns);
                     });
    const int64_t first = trace_.events.front().start_ns;
    for (TraceEvent& e : trace_.events) {
      e.start_ns -= first;
      e.end_ns -= first;
      trace_.length_ns = std::max(trace_.length_ns, e.end_ns);
    }
    for (auto* notes : {&trace_.memory_changes, &trace_.memory_in_use}) {
      for (MemoryNote& note : *notes) note.ns = std::clamp<int64_t>(note.ns - first, 0, trace_.length_ns);
    }
    trace_.resolution_ns = coarse_ ? 1000 : 1;
  }

  // Gives each event the first row of its thread that is free when it starts.
  void AssignRows() {
    struct Part {
      std::vector<int64_t> busy_until;
      uint32_t first_row = 0;
    };
    std::map<std::pair<uint32_t, uint32_t>, Part> threads;  // (device, thread)
    std::vector<uint32_t> part_of(trace_.events.size());
    const auto thread_of = [&](const TraceEvent& e) { return std::pair(trace_.nodes[e.node].device, e.row); };
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      const TraceEvent& e = trace_.events[i];
      std::vector<int64_t>& busy = threads[thread_of(e)].busy_until;
      uint32_t part = 0;
      while (part < busy.size() && busy[part] > e.start_ns) ++part;
      if (part == busy.size() && part < kMostParts) busy.push_back(0);
      part = std::min(part, kMostParts - 1);
      busy[part] = std::max(busy[part], e.end_ns);
      part_of[i] = part;
    }
    for (auto& [key, thread] : threads) {
      thread.first_row = static_cast<uint32_t>(trace_.rows.size());
      const auto& names = thread_names_[key.first];
      const auto name = names.find(key.second);
      for (uint32_t part = 0; part < thread.busy_until.size(); ++part) {
        trace_.rows.push_back({key.first, key.second, part,
                               name != names.end() ? name->second : StrCat("thread ", key.second)});
      }
    }
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      TraceEvent& e = trace_.events[i];
      e.row = threads[thread_of(e)].first_row + part_of[i];
    }
  }

  struct NodeKeyHash {
    size_t operator()(const std::pair<uint32_t, std::string>& key) const {
      return std::hash<std::string>()(key.second) * 31 + key.first;
    }
  };

  Trace trace_;
  tensorflow::NodeExecStats stats_;  // reused
  std::unordered_map<std::pair<uint32_t, std::string>, uint32_t, NodeKeyHash> nodes_;
  std::vector<std::map<uint32_t, std::string>> thread_names_;  // by device
  bool coarse_ = false;
};

}  // namespace

StatusOr<Trace> ReadTrace(std::string_view run_metadata) { return TraceReader().Read(run_metadata); }

}  // namespace millrace::cli
