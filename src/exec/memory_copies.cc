// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/memory_copies.h"

#include <string>
#include <utility>
#include <vector>

#include "device/copy.h"
#include "graph/frames.h"
#include "kernel/kernel_context.h"

namespace millrace {
namespace {

class Inserter {
 public:
  Inserter(Graph* graph, FunctionRef<StatusOr<KernelMemory>(const Node&)> memory_of)
      : graph_(graph), memory_of_(memory_of) {}

  StatusOr<MemoryCopies> Run() {
    const std::vector<Node*> nodes = graph_->OpNodes();
    memory_.resize(static_cast<size_t>(graph_->num_node_ids()));
    for (const Node* node : nodes) {
      if (node->num_inputs() == 0 && node->num_outputs() == 0) continue;
      MR_ASSIGN_OR_RETURN(memory_[static_cast<size_t>(node->id())], memory_of_(*node));
      MR_RETURN_IF_ERROR(CheckFlow(*node));
    }
    for (Node* node : nodes) {
      // A copy: edges are added and removed in the loop.
      const std::vector<Edge*> edges(node->out_edges().begin(), node->out_edges().end());
      for (Edge* edge : edges) {
        if (!edge->IsControl() && edge->dst->IsOp()) MR_RETURN_IF_ERROR(Connect(edge));
      }
    }
    return std::move(copies_);
  }

 private:
  const KernelMemory& MemoryOf(const Node& node) const { return memory_[static_cast<size_t>(node.id())]; }

  // Values that the executor itself reads or writes must be in host memory.
  Status CheckFlow(const Node& node) const {
    const KernelMemory& memory = MemoryOf(node);
    const Flow flow = FlowOf(node);
    if ((flow == Flow::kSwitch && !memory.host_inputs[1]) ||
        (flow == Flow::kMerge && !memory.host_outputs[1]) ||
        (flow == Flow::kCond && !(memory.host_inputs[0] && memory.host_outputs[0]))) {
      return errors::Internal("The kernel of node '", node.name(), "' (op ", node.op_name(), ") on ",
                              node.assigned_device(),
                              " is registered without host memory for a value that determines control flow");
    }
    return Status();
  }

  Status Connect(Edge* edge) {
    Node* const src = edge->src;
    Node* const dst = edge->dst;
    const int output = edge->src_output, input = edge->dst_input;
    const bool on_host = MemoryOf(*src).host_outputs[static_cast<size_t>(output)];
    if (on_host == MemoryOf(*dst).host_inputs[static_cast<size_t>(input)]) return Status();
    // A tensor is sent from the memory that it is in: the receiver copies it to where it is needed.
    if (dst->traits().is_send) return Status();
    // A reference can't be copied, and the edge that closes a loop needs one memory space.
    if (IsRefType(dst->input_type(input)) || FlowOf(*src) == Flow::kNext) {
      return errors::InvalidArgument("Node '", src->name(), "' (op ", src->op_name(), ") leaves output ",
                                     output, " in ", on_host ? "host" : "device", " memory, but node '",
                                     dst->name(), "' (op ", dst->op_name(), ") takes it from ",
                                     on_host ? "device" : "host", " memory on ", dst->assigned_device());
    }
    Node*& copy = copy_of_[{src->id(), output}];
    if (copy == nullptr) {
      MR_ASSIGN_OR_RETURN(copy, AddCopy(*src, output, !on_host));
      graph_->AddEdge(src, output, copy, 0);
    }
    graph_->RemoveEdge(edge);
    graph_->AddEdge(copy, 0, dst, input);
    return Status();
  }

  StatusOr<Node*> AddCopy(const Node& src, int output, bool to_host) {
    AttrMap attrs;
    attrs.Set("T", BaseType(src.output_type(output)));
    attrs.Set("_memory", to_host ? "host" : "device");
    const std::string name = graph_->NewName(StrCat(src.name(), to_host ? "/_to_host" : "/_to_device"));
    MR_ASSIGN_OR_RETURN(Node * copy, graph_->AddNode(name, "Identity", std::move(attrs)));
    copy->set_assigned_device_index(src.assigned_device_index());
    copies_[copy] = to_host;
    return copy;
  }

  Graph* const graph_;
  const FunctionRef<StatusOr<KernelMemory>(const Node&)> memory_of_;
  std::vector<KernelMemory> memory_;  // by node id
  std::map<std::pair<int, int>, Node*> copy_of_;
  MemoryCopies copies_;
};

class MemoryCopyKernel final : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(KernelContext& context, Done done) override {
    Device* const to = output_on_host(0) ? nullptr : &context.device();
    BringTensor(context.input(0), to, context.output_allocator(0),
                [&context, finish = std::move(done)](StatusOr<Tensor> copy) mutable {
                  if (!copy.ok()) return finish(copy.status());
                  context.set_output(0, *std::move(copy));
                  finish(Status());
                });
  }
};

}  // namespace

StatusOr<MemoryCopies> InsertMemoryCopies(Graph* graph,
                                          FunctionRef<StatusOr<KernelMemory>(const Node&)> memory_of) {
  return Inserter(graph, memory_of).Run();
}

std::unique_ptr<OpKernel> MakeMemoryCopy(KernelConstruction& construction, bool to_host) {
  construction.set_memory(std::make_shared<const KernelMemory>(KernelMemory{{!to_host}, {to_host}}));
  return std::make_unique<MemoryCopyKernel>(construction);
}

}  // namespace millrace
