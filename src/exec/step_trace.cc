// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/step_trace.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "graph/summary.h"

namespace millrace {
namespace {

using Note = AllocationTrace::Note;

std::vector<NodeStats::Output> DescribeOutputs(const Node& node, const TensorValue* outputs) {
  std::vector<NodeStats::Output> described;
  for (int i = 0; outputs != nullptr && i < node.num_outputs(); ++i) {
    NodeStats::Output out;
    out.slot = i;
    out.dtype = node.output_type(i);
    const TensorValue& v = outputs[i];
    if (v.kind == TensorValue::Kind::kNone) continue;  // no output: a dead branch
    // The variable of a reference may be changing: its shape is not read.
    if (v.kind != TensorValue::Kind::kRef) {
      const Tensor& tensor = v.tensor();
      out.shape = tensor.shape();
      out.bytes = static_cast<int64_t>(tensor.num_bytes());
      out.address = reinterpret_cast<uintptr_t>(tensor.raw_data());
      out.sole_owner = tensor.OwnsBufferAlone();
    }
    described.push_back(std::move(out));
  }
  return described;
}

// Finds the node that made each allocation: the one whose kernel requested it or, if that isn't known, the
// one that its thread was running.
class NodesInTime {
 public:
  explicit NodesInTime(std::vector<NodeStats>& nodes) {
    for (NodeStats& n : nodes) {
      by_thread_[n.thread].push_back(&n);
      by_name_[n.node].push_back(&n);
    }
    for (auto& [thread, list] : by_thread_) Sort(list);
    for (auto& [name, list] : by_name_) Sort(list);
  }
  // Null if the thread was between nodes.
  NodeStats* Find(const Note& note) const {
    // An asynchronous node may get its memory on the thread of another one, while that runs. A node without
    // rows is part of another: of a function that a node calls.
    if (note.owner != nullptr) {
      if (const auto it = by_name_.find(*note.owner); it != by_name_.end()) {
        if (NodeStats* const node = FindAt(it->second, note.allocated_ns, note.thread)) return node;
      }
    }
    const auto it = by_thread_.find(note.thread);
    return it == by_thread_.end() ? nullptr : FindAt(it->second, note.allocated_ns, note.thread);
  }

 private:
  using List = std::vector<NodeStats*>;
  static constexpr int kMostNested = 16;

  static void Sort(List& list) {
    std::stable_sort(list.begin(), list.end(),
                     [](const NodeStats* a, const NodeStats* b) { return a->start_ns < b->start_ns; });
  }
  // The latest to start of those that ran at the time, if possible on that thread. A nested node has started
  // later than the enclosing one; of a node in a loop, several may run at the same time.
  static NodeStats* FindAt(const List& list, int64_t ns, uint32_t thread) {
    auto at = std::upper_bound(list.begin(), list.end(), ns,
                               [](int64_t t, const NodeStats* n) { return t < n->start_ns; });
    NodeStats* found = nullptr;
    for (int nested = 0; at != list.begin() && nested < kMostNested; ++nested) {
      NodeStats* const node = *--at;
      if (ns > node->end_ns) continue;
      if (node->thread == thread) return node;
      if (found == nullptr) found = node;
    }
    return found;
  }

  std::map<uint32_t, List> by_thread_;
  std::unordered_map<std::string_view, List> by_name_;
};

void SumUp(NodeStats& node) {
  NodeStats::Memory& m = node.memory;
  // A release precedes an allocation of the same time, so that the peak is not overstated.
  std::sort(m.allocations.begin(), m.allocations.end(),
            [](const auto& a, const auto& b) { return std::pair(a.ns, a.bytes) < std::pair(b.ns, b.bytes); });
  int64_t live = 0;
  for (const NodeStats::Allocation& a : m.allocations) {
    if (a.bytes > 0) m.requested_bytes += a.bytes;
    if (a.ns > node.end_ns) continue;
    live += a.bytes;
    m.peak_bytes = std::max(m.peak_bytes, live);
  }
  m.live_bytes = live;
}

// Assigns the allocations to their nodes, and to each node the memory in use when it ended.
void AddMemory(const std::vector<Note>& notes, int64_t bytes_at_start, std::vector<NodeStats>& nodes) {
  const NodesInTime in_time(nodes);
  std::vector<NodeStats::Allocation> changes;
  for (const Note& note : notes) {
    NodeStats* const node = in_time.Find(note);
    const auto add = [&](int64_t ns, int64_t bytes) {
      changes.push_back({ns, bytes});
      if (node != nullptr) node->memory.allocations.push_back({ns, bytes});
    };
    add(note.allocated_ns, note.bytes);
    if (note.freed_ns != AllocationTrace::kNever) add(note.freed_ns, -note.bytes);
  }
  std::sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) { return a.ns < b.ns; });
  std::vector<NodeStats*> by_end;
  for (NodeStats& n : nodes) by_end.push_back(&n);
  std::sort(by_end.begin(), by_end.end(),
            [](const NodeStats* a, const NodeStats* b) { return a->end_ns < b->end_ns; });
  int64_t in_use = bytes_at_start;
  auto change = changes.begin();
  for (NodeStats* n : by_end) {
    for (; change != changes.end() && change->ns <= n->end_ns; ++change) in_use += change->bytes;
    n->memory.allocator_bytes_in_use = in_use;
    SumUp(*n);
  }
}

}  // namespace

DeviceTrace::DeviceTrace(Device& device, Clock::time_point step_start, bool report_shortages, uint32_t caller)
    : step_start_(step_start),
      caller_(caller),
      bytes_at_start_(device.allocator().Stats().bytes_in_use),
      allocations_(AllocationTrace::Make(device.allocator(), step_start,
                                         report_shortages ? device.name() : std::string())) {
  MutexLock lock(mu_);
  stats_.device = device.name();
  stats_.allocator = device.allocator().name();
}

void DeviceTrace::Add(NodeStats node) {
  MutexLock lock(mu_);
  if (stats_.nodes.size() < kMostNodes) {
    stats_.nodes.push_back(std::move(node));
  } else {
    ++stats_.nodes_left_out;
  }
}

void StepTrace::Record(const Plan& plan, uint32_t node, int64_t start_ns, int64_t end_ns,
                       const TensorValue* outputs) {
  const Node& n = plan.graph_node(node);
  NodeStats s;
  s.node = function_.empty() ? n.name() : StrCat(function_, "/", n.name());
  s.op = n.op_name();
  s.label = NodeLabel(n);
  s.start_ns = start_ns;
  s.end_ns = end_ns;
  s.thread = ThreadNumber();
  s.outputs = DescribeOutputs(n, outputs);
  {
    MutexLock lock(mu_);
    if (ready_ns_.empty()) ready_ns_.resize(static_cast<size_t>(plan.num_nodes()), began_ns_);
    s.scheduled_ns = std::min(ready_ns_[node], start_ns);
    NoteReady(plan, node, end_ns);
  }
  device_.Add(std::move(s));
}

void StepTrace::NoteReady(const Plan& plan, uint32_t node, int64_t end_ns) {
  const auto note = [&](uint32_t dst) MR_REQUIRES(mu_) { ready_ns_[dst] = std::max(ready_ns_[dst], end_ns); };
  for (const PlanEdge& e : plan.data_edges(node)) note(e.dst);
  for (const uint32_t dst : plan.control_edges(node)) note(dst);
}

DeviceStats DeviceTrace::Take() {
  const std::vector<Note> notes = allocations_->Take();
  MutexLock lock(mu_);
  AddMemory(notes, bytes_at_start_, stats_.nodes);
  int workers = 0;
  std::map<uint32_t, std::string> names;
  for (const NodeStats& n : stats_.nodes) names[n.thread];
  for (auto& [thread, name] : names) name = thread == caller_ ? "caller" : StrCat("worker ", ++workers);
  stats_.thread_names = std::move(names);
  return std::move(stats_);
}

DeviceTrace& StepTraces::Of(Device& device) {
  MutexLock lock(mu_);
  for (auto& [of, trace] : traces_) {
    if (of == &device) return trace;
  }
  return traces_
      .emplace_back(std::piecewise_construct, std::forward_as_tuple(&device),
                    std::forward_as_tuple(device, start_, report_shortages_, caller_))
      .second;
}

void StepTraces::AddWork(const Device& device, NodeStats node, int64_t start_ns, int64_t end_ns) {
  const int64_t step_start = std::chrono::nanoseconds(start_.time_since_epoch()).count();
  node.start_ns = start_ns - step_start;
  node.end_ns = end_ns - step_start;
  MutexLock lock(mu_);
  DeviceStats& stream = streams_[StrCat(device.name(), "/stream:all")];
  stream.nodes.push_back(std::move(node));
}

void StepTraces::Take(std::vector<DeviceStats>* devices) {
  MutexLock lock(mu_);
  for (auto& [of, trace] : traces_) devices->push_back(trace.Take());
  for (auto& [name, stream] : streams_) {
    stream.device = name;
    devices->push_back(std::move(stream));
  }
}

}  // namespace millrace
