// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/loop_weights.h"

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "device/device_name.h"
#include "graph/frames.h"

namespace millrace {
namespace {

constexpr int64_t kMinElements = 1 << 15;  // smaller factors stay in the first caches
constexpr int64_t kMaxElements = 1 << 23;  // the loop holds the packed one in memory

class Packer {
 public:
  Packer(Graph* graph, const OptimizeOptions& options) : graph_(graph), rewriter_(graph, options) {}

  StatusOr<int> Run() {
    int changed = 0;
    for (Node* node : graph_->OpNodes()) {
      if (!IsProduct(*node) || !Gains(*node)) continue;
      const TensorRef packed = PackedFactor(*node);
      if (packed.node == nullptr) continue;
      MR_ASSIGN_OR_RETURN(const bool replaced, Replace(node, packed));
      if (replaced) ++changed;
    }
    if (changed > 0) graph_->FixupSourceAndSinkEdges();
    return changed;
  }

 private:
  static bool IsProduct(const Node& node) {
    if (!node.IsOp() || node.num_outputs() != 1 || node.output_type(0) != DataType::kFloat) return false;
    if (node.op_name() == "_FusedMatMul")
      return !*node.Attr<bool>("packed") && !*node.Attr<bool>("keep_weights");
    return node.op_name() == "MatMul";
  }

  bool Gains(const Node& node) {
    const Node& enter = *InputOf(node, 1).node;
    if (!IsConstantEnter(enter) || rewriter_.IsPreserved(node)) return false;
    const PartialShape factor = rewriter_.ShapeOf(InputOf(enter, 0));
    if (factor.unknown_rank() || factor.rank() != 2 || factor.dim(0) <= 0 || factor.dim(1) <= 0) return false;
    if (factor.dim(0) > kMaxElements / factor.dim(1) || factor.dim(0) * factor.dim(1) < kMinElements)
      return false;
    const PartialShape rows = rewriter_.ShapeOf(InputOf(node, 0));
    return rows.unknown_rank() || rows.rank() != 2 || rows.dim(*node.Attr<bool>("transpose_a") ? 1 : 0) != 1;
  }

  // Products of the same factor share the packed one.
  TensorRef PackedFactor(const Node& node) {
    const Node& enter = *InputOf(node, 1).node;
    const TensorRef factor = InputOf(enter, 0);
    const bool transpose = *node.Attr<bool>("transpose_b");
    TensorRef& packed = packed_[{enter.id(), node.assigned_device_index(), transpose}];
    if (packed.node != nullptr) return packed;
    AttrMap attrs;
    attrs.Set("T", DataType::kFloat);
    attrs.Set("transpose", transpose);
    Node* const outside = rewriter_.Add(node, "pack", "_PackMatrix", std::move(attrs), {factor});
    if (outside == nullptr) return {};
    packed.node = rewriter_.Add(node, "packed", "Enter", enter.attrs(), {{outside, 0}});
    if (packed.node == nullptr) rewriter_.RemoveUnused(outside);
    return packed;
  }

  // Replaces the node by a product with the packed factor, of the same name. False: there is none.
  StatusOr<bool> Replace(Node* node, const TensorRef& packed) {
    AttrMap attrs = node->attrs();
    const bool fused = node->op_name() == "_FusedMatMul";
    attrs.Set("num_args", fused ? *node->Attr<int64_t>("num_args") + 1 : int64_t{1});
    attrs.Set("packed", true);
    MR_ASSIGN_OR_RETURN(const OpRegistration* op, graph_->LookUpOp("_FusedMatMul"));
    MR_ASSIGN_OR_RETURN(auto props, NodeProps::Make(*op, std::move(attrs)));
    if (!rewriter_.HasKernel(*node, *props)) return false;
    std::vector<TensorRef> inputs;
    for (int i = 0; i < node->num_inputs(); ++i) inputs.push_back(InputOf(*node, i));
    inputs.push_back(packed);
    const std::vector<Node*> before = Rewriter::ControlInputs(*node);
    std::vector<Edge> uses;
    for (const Edge* edge : node->out_edges()) {
      if (edge->dst->IsOp()) uses.push_back(*edge);
    }
    const std::string name = node->name();
    const int assigned = node->assigned_device_index(), requested = node->requested_device_index();
    graph_->RemoveNode(node);
    Node* const product = graph_->AddNodeWithProps(name, std::move(props));
    product->set_assigned_device_index(assigned);
    product->set_requested_device_index(requested);
    for (size_t i = 0; i < inputs.size(); ++i)
      graph_->AddEdge(inputs[i].node, inputs[i].output, product, static_cast<int>(i));
    for (Node* waited : before) graph_->AddControlEdge(waited, product);
    for (const Edge& use : uses) {
      if (use.IsControl()) {
        graph_->AddControlEdge(product, use.dst);
      } else {
        graph_->AddEdge(product, 0, use.dst, use.dst_input);
      }
    }
    return true;
  }

  Graph* const graph_;
  Rewriter rewriter_;
  std::map<std::tuple<int, int, bool>, TensorRef> packed_;  // by Enter, device, and whether it is transposed
};

}  // namespace

StatusOr<int> PackLoopWeights(Graph* graph, const OptimizeOptions& options) {
  return Packer(graph, options).Run();
}

}  // namespace millrace
