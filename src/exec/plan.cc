// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/plan.h"

#include <algorithm>
#include <functional>
#include <thread>

#include "exec/step_state.h"

namespace millrace {
namespace {

// Whether the kernel of a node may encounter a denormal number.
bool ComputesReals(const Node& node) {
  const OpTraits& traits = node.traits();
  const bool hands_on = traits.forwards || traits.is_send || traits.is_recv || traits.is_control_flow ||
                        node.op_name() == "_Retval";
  if (hands_on || node.num_inputs() == 0) return false;  // nodes without inputs make constants and variables
  const auto is_real = [](DataType type) {
    type = BaseType(type);
    return IsFloatingType(type) || IsComplexType(type) || type == DataType::kVariant;
  };
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (is_real(node.input_type(i))) return true;
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (is_real(node.output_type(i))) return true;
  }
  return false;
}

// Cheaper nodes run on the thread on which they became ready rather than on another one.
constexpr uint64_t kWakeCostNs = 20'000;

bool IsNoOp(const Node& node) {
  return node.num_inputs() == 0 && node.num_outputs() == 0 && node.op_name() == "NoOp";
}

bool HasOpInput(const Node& node) {
  return std::any_of(node.in_edges().begin(), node.in_edges().end(),
                     [](const Edge* e) { return e != nullptr && e->src->IsOp(); });
}

}  // namespace

Plan::Plan(std::unique_ptr<Graph> graph, Device& device)
    : graph_(std::move(graph)),
      device_(device),
      allocator_(device.allocator()),
      host_allocator_(device.has_own_memory() ? &device.host_allocator() : nullptr),
      stream_(device.stream()) {}

StatusOr<std::unique_ptr<Plan>> Plan::Build(std::unique_ptr<Graph> graph, Device& device,
                                            KernelSource kernels) {
  std::unique_ptr<Plan> plan(new Plan(std::move(graph), device));
  MR_ASSIGN_OR_RETURN(std::vector<Node*> order, TopologicalOrderById(*plan->graph_));
  std::erase_if(order, [](const Node* n) { return !n->IsOp(); });
  MR_RETURN_IF_ERROR(plan->SortByFrame(&order));
  MR_RETURN_IF_ERROR(plan->CreateKernels(order, kernels));
  plan->LayOutNodes(order);
  plan->LayOutEdges(order);
  plan->LayOutFrames();
  plan->kernel_of_ = {};
  plan->index_of_ = {};
  return plan;
}

Plan::~Plan() {
  for (CachedState& cached : own_states_) delete cached.state.load(std::memory_order_acquire);
  for (CachedState& cached : shared_states_) delete cached.state.load(std::memory_order_acquire);
}

Status Plan::CreateKernels(const std::vector<Node*>& order, KernelSource kernels) {
  kernel_of_.resize(graph_->num_node_ids());
  for (const Node* node : order) {
    if (IsNoOp(*node) || FlowOf(*node) == Flow::kTrigger) continue;
    MR_ASSIGN_OR_RETURN(kernel_of_[node->id()], kernels(*node));
  }
  return Status();
}

Status Plan::SortByFrame(std::vector<Node*>* order) {
  const auto needs_frames = [](const Node* n) {
    return n->traits().is_control_flow ||
           (n->traits().is_recv && n->attrs().Find("_may_be_dead") != nullptr);  // set by the partitioner
  };
  if (std::none_of(order->begin(), order->end(), needs_frames)) return Status();
  MR_ASSIGN_OR_RETURN(flow_, FindFrames(*graph_, *order));
  std::stable_sort(order->begin(), order->end(), [this](const Node* a, const Node* b) {
    return flow_.frame_of[a->id()] < flow_.frame_of[b->id()];
  });
  frames_.resize(flow_.frames.size());
  return Status();
}

// A constant that waits for nothing need not run: its tensor is in its consumers' slots.
bool Plan::IsConstant(const Node& node) const {
  const OpKernel* kernel = kernel_of_[node.id()].get();
  if (kernel == nullptr || kernel->ConstantOutput() == nullptr || HasOpInput(node)) return false;
  // A Merge takes the input that arrives.
  return frames_.empty() || std::none_of(node.out_edges().begin(), node.out_edges().end(),
                                         [](const Edge* e) { return FlowOf(*e->dst) == Flow::kMerge; });
}

void Plan::LayOutNodes(const std::vector<Node*>& order) {
  index_of_.assign(graph_->num_node_ids(), -1);
  nodes_.reserve(order.size() + 1);
  kernels_.reserve(order.size());
  for (const Node* node : order) {
    std::shared_ptr<OpKernel>& kernel = kernel_of_[node->id()];
    if (!IsConstant(*node)) {
      index_of_[node->id()] = static_cast<int32_t>(nodes_.size());
      PlanNode& p = nodes_.emplace_back();
      p.kernel = kernel.get();
      p.async = kernel == nullptr ? nullptr : kernel->AsAsync();
      p.first_input = num_slots_;
      p.num_inputs = static_cast<uint32_t>(node->num_inputs());
      p.num_outputs = static_cast<uint32_t>(node->num_outputs());
      p.node_id = node->id();
      p.has_ref_inputs =
          std::any_of(node->data_in_edges().begin(), node->data_in_edges().end(),
                      [](const Edge* e) { return IsRefType(e->src->output_type(e->src_output)); });
      if (!frames_.empty()) SetFlow(*node, &p);
      num_slots_ += p.num_inputs;
      max_outputs_ = std::max(max_outputs_, p.num_outputs);
      has_async_ |= p.async != nullptr && !p.async->tries();
      computes_reals_ |= ComputesReals(*node);
      may_wait_ |= p.async != nullptr;
    }
    if (kernel != nullptr) kernels_.push_back(kernel);
  }
  num_nodes_ = static_cast<int>(nodes_.size());
  nodes_.emplace_back();
  costs_ = std::vector<std::atomic<uint32_t>>(num_nodes_);
  initial_pending_.assign(num_nodes_, 0);
}

void Plan::SetFlow(const Node& node, PlanNode* p) {
  p->flow = FlowOf(node);
  p->is_transfer = node.traits().is_send || node.traits().is_recv;
  has_transfers_ |= p->is_transfer;
  p->index_used = p->flow == Flow::kMerge && std::any_of(node.out_edges().begin(), node.out_edges().end(),
                                                         [](const Edge* e) { return e->src_output == 1; });
  if (p->flow == Flow::kEnter) p->constant = node.Attr<bool>("is_constant").value_or(false);
  p->frame = static_cast<uint32_t>(flow_.frame_of[node.id()]);
  p->target_frame = static_cast<uint32_t>(flow_.target_of[node.id()]);
  FrameLayout& frame = frames_[p->frame];
  const auto index = static_cast<uint32_t>(nodes_.size() - 1);
  if (frame.end_node == 0) {
    frame.first_node = index;
    frame.first_slot = num_slots_;
  }
  frame.end_node = index + 1;
  frame.end_slot = num_slots_ + p->num_inputs;
  if (node.op_name() == "_Retval") fetches_.push_back(index);
}

void Plan::LayOutFrames() {
  if (frames_.empty()) return;
  for (size_t i = 0; i < frames_.size(); ++i) {
    const Frames::Frame& f = flow_.frames[i];
    frames_[i].parent = f.parent;
    frames_[i].parallel_iterations = static_cast<uint32_t>(f.parallel_iterations);
    frames_[i].num_enters = static_cast<uint32_t>(f.num_enters);
    frames_[i].name = f.name;
    frames_[i].name_hash = Hash64(f.name);
  }
  initial_counts_.resize(num_nodes_);
  for (int i = 0; i < num_nodes_; ++i) {
    PendingCount& count = initial_counts_[i];
    count.waits = initial_pending_[i];
    if (nodes_[i].flow != Flow::kMerge) continue;
    const auto data = static_cast<int32_t>(nodes_[i].num_inputs);
    count.waits = 1 + 2 * (initial_pending_[i] - data);
  }
  flow_ = Frames();
  LayOutInvariants();
}

void Plan::LayOutInvariants() {
  preset_counts_ = initial_counts_;
  for (int i = 0; i < num_nodes_; ++i) {
    if (!nodes_[i].constant) continue;
    FrameLayout& frame = frames_[nodes_[i].target_frame];
    nodes_[i].invariant = static_cast<uint32_t>(frame.invariants.size());
    frame.invariants.push_back(static_cast<uint32_t>(i));
    for (const PlanEdge& e : data_edges(i)) {
      frame.invariant_edges.push_back({e.slot, nodes_[i].invariant});
      --preset_counts_[e.dst].waits;
      // The executor runs a Merge depending on the order of arrivals.
      if (nodes_[e.dst].flow == Flow::kMerge) frame.can_preset = false;
    }
    for (const uint32_t dst : control_edges(i)) {
      --preset_counts_[dst].waits;
      if (nodes_[dst].flow == Flow::kMerge) frame.can_preset = false;
    }
  }
  for (int i = 0; i < num_nodes_; ++i) {
    if (preset_counts_[i].waits == 0 && initial_counts_[i].waits > 0)
      frames_[nodes_[i].frame].invariant_consumers.push_back(static_cast<uint32_t>(i));
  }
}

void Plan::LayOutEdges(const std::vector<Node*>& order) {
  std::vector<PlanEdge> out;
  for (const Node* node : order) {
    const int32_t index = index_of_[node->id()];
    if (index < 0) {
      const Tensor* value = kernel_of_[node->id()]->ConstantOutput();
      for (const Edge* e : node->out_edges()) {
        if (e->IsControl() || index_of_[e->dst->id()] < 0) continue;
        constant_slots_.push_back(
            {nodes_[index_of_[e->dst->id()]].first_input + static_cast<uint32_t>(e->dst_input), value});
      }
      continue;
    }
    PlanNode& p = nodes_[index];
    p.first_data_edge = static_cast<uint32_t>(data_edges_.size());
    p.first_control_edge = static_cast<uint32_t>(control_edges_.size());
    out.clear();
    for (const Edge* e : node->out_edges()) {
      const int32_t dst = index_of_[e->dst->id()];
      if (dst < 0) continue;
      ++initial_pending_[dst];
      if (e->IsControl()) {
        control_edges_.push_back(static_cast<uint32_t>(dst));
      } else {
        out.push_back({static_cast<uint32_t>(dst),
                       nodes_[dst].first_input + static_cast<uint32_t>(e->dst_input),
                       static_cast<uint32_t>(e->src_output), false});
      }
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const PlanEdge& a, const PlanEdge& b) { return a.output < b.output; });
    for (size_t i = 0; i < out.size(); ++i)
      out[i].last_use = i + 1 == out.size() || out[i + 1].output != out[i].output;
    if (p.num_outputs == 1 && out.size() == 1) p.direct_slot = out[0].slot;
    data_edges_.insert(data_edges_.end(), out.begin(), out.end());
  }
  nodes_[num_nodes_].first_data_edge = static_cast<uint32_t>(data_edges_.size());
  nodes_[num_nodes_].first_control_edge = static_cast<uint32_t>(control_edges_.size());
  for (int i = 0; i < num_nodes_; ++i) {
    if (initial_pending_[i] == 0) roots_.push_back(static_cast<uint32_t>(i));
  }
}

void Plan::RecordCost(uint32_t i, uint64_t ns) const {
  const auto now = static_cast<uint32_t>(std::min<uint64_t>(ns, UINT32_MAX / 2));
  const uint32_t before = cost_ns(i);
  // The first measurement includes one-time work, so the smaller of the first two is used; later ones are
  // averaged.
  costs_[i].store(before == 0    ? now
                  : now < before ? now
                                 : before - before / 8 + now / 8,
                  std::memory_order_relaxed);
}

void Plan::UpdateParallelism() const {
  if (!frames_.empty()) {
    // The number of runs of a node is unknown: two nodes that are each worth a thread may run at the same
    // time.
    const auto expensive = std::count_if(costs_.begin(), costs_.end(), [](const std::atomic<uint32_t>& cost) {
      return cost.load(std::memory_order_relaxed) > kWakeCostNs;  // advice only
    });
    SetWorthParallel(expensive > 1);
    return;
  }
  // With unlimited threads the step takes as long as its longest path; the possible gain must exceed the cost
  // of wake-ups.
  std::vector<uint64_t> finish(num_nodes_, 0);
  uint64_t total = 0;
  uint64_t longest = 0;
  for (int i = 0; i < num_nodes_; ++i) {
    finish[i] += cost_ns(i);
    total += cost_ns(i);
    longest = std::max(longest, finish[i]);
    for (const PlanEdge& e : data_edges(i)) finish[e.dst] = std::max(finish[e.dst], finish[i]);
    for (uint32_t dst : control_edges(i)) finish[dst] = std::max(finish[dst], finish[i]);
  }
  SetWorthParallel(total > longest + 4 * kWakeCostNs);
}

// All threads read it in each step: it is only written when it changes.
void Plan::SetWorthParallel(bool worth) const {
  if (worth_parallel() != worth) worth_parallel_.store(worth, std::memory_order_relaxed);
}

std::unique_ptr<StepState> Plan::AcquireState() const {
  const unsigned slot = ThreadSlot();
  if (slot < kOwnStates) [[likely]] {
    std::atomic<StepState*>& own = own_states_[slot].state;
    if (StepState* state = own.load(std::memory_order_relaxed)) {
      own.store(nullptr, std::memory_order_relaxed);
      return std::unique_ptr<StepState>(state);
    }
  }
  for (unsigned i = 0; i < kSharedStates; ++i) {
    std::atomic<StepState*>& cached = shared_states_[(slot + i) % kSharedStates].state;
    if (cached.load(std::memory_order_relaxed) == nullptr) continue;
    // Pairs with the release in ReleaseState: the state's contents are visible.
    if (StepState* state = cached.exchange(nullptr, std::memory_order_acquire))
      return std::unique_ptr<StepState>(state);
  }
  return std::make_unique<StepState>(*this);
}

void Plan::ReleaseState(std::unique_ptr<StepState> state) const {
  const unsigned slot = ThreadSlot();
  if (slot < kOwnStates) [[likely]] {
    std::atomic<StepState*>& own = own_states_[slot].state;
    if (own.load(std::memory_order_relaxed) == nullptr) {
      own.store(state.release(), std::memory_order_release);  // for the destructor
      return;
    }
  }
  for (unsigned i = 0; i < kSharedStates; ++i) {
    std::atomic<StepState*>& cached = shared_states_[(slot + i) % kSharedStates].state;
    StepState* expected = nullptr;
    if (cached.load(std::memory_order_relaxed) == nullptr &&
        cached.compare_exchange_strong(expected, state.get(), std::memory_order_release,
                                       std::memory_order_relaxed)) {
      state.release();
      return;
    }
  }
}

}  // namespace millrace
