// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/function.h"
#include "base/thread_slot.h"
#include "exec/thread_choice.h"
#include "graph/frames.h"
#include "graph/graph.h"
#include "kernel/kernel_context.h"
#include "kernel/op_kernel.h"
#include "millrace/status.h"

namespace millrace {

class StepState;

// One node in the form that walkers use. The ranges of its edges end where the next node's begin.
struct PlanNode {
  static constexpr uint32_t kNoSlot = ~uint32_t{0};

  OpKernel* kernel = nullptr;  // null: nothing to run (NoOp)
  AsyncOpKernel* async = nullptr;
  uint32_t first_input = 0;  // slot of input 0; the others follow
  uint32_t num_inputs = 0;
  uint32_t first_data_edge = 0;
  uint32_t first_control_edge = 0;
  uint32_t num_outputs = 0;
  uint32_t direct_slot = kNoSlot;  // the consumer's slot if the only output has one consumer
  int node_id = 0;                 // in graph()
  bool has_ref_inputs = false;     // some input comes from a reference output
  // In a plan with frames:
  Flow flow = Flow::kNone;
  bool is_transfer = false;   // Send, Recv: run even when dead
  bool index_used = false;    // of a Merge: output 1 has a consumer
  bool constant = false;      // of an Enter: the value holds for all iterations
  uint32_t frame = 0;         // where it runs
  uint32_t target_frame = 0;  // where its outputs go
  uint32_t invariant = 0;     // of a constant Enter: its place in FrameLayout::invariants
};

// The number of inputs that a walker waits for. For a Merge the lowest bit is set until an alive input has
// arrived, and each control edge counts two.
struct PendingCount {
  int32_t waits = 0;
  int32_t dead = 0;  // inputs that arrived dead
};

// The part of a plan that runs in one frame: its nodes and input slots are contiguous.
struct FrameLayout {
  uint32_t first_node = 0, end_node = 0;
  uint32_t first_slot = 0, end_slot = 0;
  int parent = -1;
  uint32_t parallel_iterations = 1;
  uint32_t num_enters = 0;
  std::string name;
  uint64_t name_hash = 0;
  // The values of constant Enters, for each iteration. If all have arrived before an iteration starts, they
  // may be set at its start if `can_preset` is true.
  struct InvariantEdge {
    uint32_t slot = 0;
    uint32_t place = 0;  // in invariants
  };
  std::vector<uint32_t> invariants;  // the constant Enters of this frame
  std::vector<InvariantEdge> invariant_edges;
  std::vector<uint32_t> invariant_consumers;  // that wait only for these
  bool can_preset = true;
};

struct PlanEdge {
  uint32_t dst = 0;       // index of the consumer in nodes()
  uint32_t slot = 0;      // its input slot
  uint32_t output = 0;    // of the producer
  bool last_use = false;  // no later edge of the same node carries this output
};

// The executable form of one partition: nodes in topological order, edges as arrays, kernels. Built once,
// shared by all steps; immutable except for the measured costs. Constants are not nodes: their tensors stay
// in the input slots.
class Plan {
 public:
  using KernelSource = FunctionRef<StatusOr<std::shared_ptr<OpKernel>>(const Node&)>;

  // Takes ownership of the graph. Errors name the node.
  static StatusOr<std::unique_ptr<Plan>> Build(std::unique_ptr<Graph> graph, Device& device,
                                               KernelSource kernels);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const Graph& graph() const { return *graph_; }
  Device& device() const { return device_; }
  // Properties of the device, read once for all steps.
  Allocator& allocator() const { return allocator_; }
  Allocator* host_allocator() const { return host_allocator_; }  // null unless it has memory of its own
  Stream* stream() const { return stream_; }                     // null: kernels have finished on return
  int num_nodes() const { return num_nodes_; }
  const PlanNode& node(uint32_t i) const { return nodes_[i]; }
  std::span<const PlanEdge> data_edges(uint32_t i) const {
    return {data_edges_.data() + nodes_[i].first_data_edge,
            data_edges_.data() + nodes_[i + 1].first_data_edge};
  }
  std::span<const uint32_t> control_edges(uint32_t i) const {
    return {control_edges_.data() + nodes_[i].first_control_edge,
            control_edges_.data() + nodes_[i + 1].first_control_edge};
  }
  std::span<const uint32_t> roots() const { return roots_; }
  std::span<const int32_t> initial_pending() const { return initial_pending_; }
  uint32_t num_slots() const { return num_slots_; }
  uint32_t max_outputs() const { return max_outputs_; }
  // Whether some asynchronous kernel has to be started without trying it first.
  bool has_async() const { return has_async_; }
  // Whether some kernel reads or produces floating-point numbers, other than passing them on.
  bool computes_reals() const { return computes_reals_; }
  // Whether there is a Send or Recv, whose keys contain the execution of the loop around them.
  bool has_transfers() const { return has_transfers_; }
  // Whether there is any asynchronous kernel, so that other threads may deliver results.
  bool may_wait() const { return may_wait_; }
  // With switches or loops the frame walker has to run it: frames()[0] is the top. Otherwise empty.
  std::span<const FrameLayout> frames() const { return frames_; }
  std::span<const PendingCount> initial_counts() const { return initial_counts_; }  // with frames
  // The same when the constant Enters of a frame have arrived.
  std::span<const PendingCount> preset_counts() const { return preset_counts_; }
  std::span<const uint32_t> fetches() const { return fetches_; }  // with frames: _Retval nodes
  const Node& graph_node(uint32_t i) const { return *graph_->node(nodes_[i].node_id); }
  struct ConstantSlot {
    uint32_t slot;
    const Tensor* tensor;
  };
  std::span<const ConstantSlot> constant_slots() const { return constant_slots_; }

  // Measured time of a node, by which walkers distinguish cheap nodes from expensive ones.
  uint32_t cost_ns(uint32_t i) const { return costs_[i].load(std::memory_order_relaxed); }  // advice only
  void RecordCost(uint32_t i, uint64_t ns) const;
  // True in the steps whose nodes should be timed: the first ones, and periodically later.
  bool ShouldMeasure(uint64_t step) const { return step == 0 || step == 4 || (step & 0xff) == 0xff; }
  // Whether running on several threads can be worth waking them, by the costs measured so far. Call after
  // measuring.
  void UpdateParallelism() const;
  bool worth_parallel() const { return worth_parallel_.load(std::memory_order_relaxed); }  // advice only

  // How many threads steps get, if they may choose.
  const ThreadChoice& thread_choice() const { return thread_choice_; }

  // Step states are reused by later steps, preferably of the same thread.
  std::unique_ptr<StepState> AcquireState() const;
  void ReleaseState(std::unique_ptr<StepState> state) const;

 private:
  explicit Plan(std::unique_ptr<Graph> graph, Device& device);
  Status CreateKernels(const std::vector<Node*>& order, KernelSource kernels);
  // With control flow: sorts the nodes by frame.
  Status SortByFrame(std::vector<Node*>* order);
  void LayOutNodes(const std::vector<Node*>& order);
  void LayOutEdges(const std::vector<Node*>& order);
  void LayOutFrames();
  void LayOutInvariants();
  void SetWorthParallel(bool worth) const;
  void SetFlow(const Node& node, PlanNode* p);
  bool IsConstant(const Node& node) const;

  static constexpr unsigned kOwnStates = 8;  // of the threads with the first slots, one each
  static constexpr unsigned kSharedStates = 8;

  std::unique_ptr<Graph> graph_;
  Device& device_;
  Allocator& allocator_;
  Allocator* const host_allocator_;
  Stream* const stream_;
  int num_nodes_ = 0;
  uint32_t num_slots_ = 0;
  uint32_t max_outputs_ = 1;
  bool has_async_ = false;
  bool computes_reals_ = false;
  bool has_transfers_ = false;
  bool may_wait_ = false;
  std::vector<PlanNode> nodes_;  // one more than num_nodes_: ends the ranges of the last
  std::vector<PlanEdge> data_edges_;
  std::vector<uint32_t> control_edges_;
  std::vector<uint32_t> roots_;
  std::vector<int32_t> initial_pending_;
  std::vector<ConstantSlot> constant_slots_;
  Frames flow_;  // during Build
  std::vector<FrameLayout> frames_;
  std::vector<PendingCount> initial_counts_;
  std::vector<PendingCount> preset_counts_;
  std::vector<uint32_t> fetches_;
  std::vector<int32_t> index_of_;  // by node id; -1: not a plan node. Empty after Build.
  std::vector<std::shared_ptr<OpKernel>> kernels_;
  std::vector<std::shared_ptr<OpKernel>> kernel_of_;  // by node id, during Build
  mutable std::vector<std::atomic<uint32_t>> costs_;
  mutable std::atomic<bool> worth_parallel_{false};
  ThreadChoice thread_choice_;
  struct alignas(kCacheApart) CachedState {
    std::atomic<StepState*> state{nullptr};
  };
  mutable CachedState own_states_[kOwnStates];  // written by their thread only
  mutable CachedState shared_states_[kSharedStates];
};

}  // namespace millrace
