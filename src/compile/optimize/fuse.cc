// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/fuse.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/optimize/rewriter.h"
#include "device/device_name.h"
#include "graph/fused_node.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

// Whether it is a function of one element, of the element's type: kernels of fused products have the routines
// of all of them.
bool IsActivation(const Node& node) {
  const ElementwiseForm& form = node.op().elementwise;
  return form.operands == ElementwiseForm::Operands::kOne && form.result == ElementwiseForm::Result::kSame;
}

// The op of the product: the node's own, or that which an earlier optimiser fused.
std::string_view ProductOp(const Node& node) {
  const std::string& op = node.op_name();
  if (op == "_FusedDepthwiseConv2dNative") return "DepthwiseConv2dNative";
  return op == "_FusedMatMul" ? "MatMul" : op == "_FusedConv2D" ? "Conv2D" : std::string_view(op);
}
// The op for the product with the nodes that follow it.
std::string_view FusedOp(const Node& node) {
  const std::string_view op = ProductOp(node);
  return op == "MatMul" ? "_FusedMatMul" : op == "Conv2D" ? "_FusedConv2D" : "_FusedDepthwiseConv2dNative";
}
bool IsDepthwise(const Node& node) { return ProductOp(node) == "DepthwiseConv2dNative"; }
bool IsConvolution(const Node& node) { return ProductOp(node) == "Conv2D" || IsDepthwise(node); }

bool IsFused(const Node& node) { return node.op_name().starts_with("_Fused"); }

// The source of an input.
struct Source {
  Node* node;
  int output;
};

Source SourceOf(const Edge& edge) { return {edge.src, edge.src_output}; }

// A product or convolution with the nodes after it.
struct Chain {
  Node* pad = nullptr;           // a Pad before it, or null
  std::vector<int64_t> margins;  // the padding that it adds: top, bottom, left, right
  bool keep_weights = false;
  std::vector<Node*> nodes;
  std::vector<std::string> ops;  // the operations of the fused node after the product
  std::vector<Source> args;
  float epsilon = 0.0001f;

  Node* first() const { return nodes.front(); }
  Node* last() const { return nodes.back(); }
};

class Fuser {
 public:
  Fuser(Graph* graph, const OptimizeOptions& options) : graph_(graph), options_(options) {}

  StatusOr<int> Run() {
    int removed = 0;
    bool changed = false;
    const int end = graph_->num_node_ids();
    for (int id = 2; id < end; ++id) {
      Node* const node = graph_->node(id);
      if (node == nullptr || !Starts(*node)) continue;
      const Chain chain = ChainFrom(node);
      const bool alone = chain.nodes.size() < 2 && chain.pad == nullptr;
      if (alone && !KeepsMore(chain)) continue;
      MR_ASSIGN_OR_RETURN(const bool fused, Replace(chain));
      if (!fused) continue;
      changed = true;
      removed += static_cast<int>(chain.nodes.size()) - 1 + (chain.pad != nullptr ? 1 : 0);
    }
    if (changed) graph_->FixupSourceAndSinkEdges();
    return removed;
  }

 private:
  static bool Starts(const Node& node) {
    if (IsDepthwise(node) && node.attrs().Get<std::string>("data_format").value_or("") != "NHWC")
      return false;
    return (ProductOp(node) == "MatMul" || IsConvolution(node)) && node.output_type(0) == DataType::kFloat;
  }

  // Whether the node gains from the attribute that its weights are constant, with nothing to fuse.
  static bool KeepsMore(const Chain& chain) {
    const Node& first = *chain.first();
    if (!chain.keep_weights || first.op_name() == "MatMul" || IsDepthwise(first)) return false;
    return !IsFused(first) || !first.attrs().Get<bool>("keep_weights").value_or(false);
  }

  // The edge to the only consumer of `node`'s result, if the two may be fused: null otherwise.
  const Edge* OnlyUse(const Node& node) const {
    const Edge* use = nullptr;
    for (const Edge* edge : node.out_edges()) {
      if (!edge->dst->IsOp()) continue;
      if (edge->IsControl() || edge->src_output != 0 || use != nullptr) return nullptr;
      use = edge;
    }
    if (use == nullptr || options_.preserve.contains(node.name())) return nullptr;
    const Node& next = *use->dst;
    const bool waits = std::any_of(next.control_in_edges().begin(), next.control_in_edges().end(),
                                   [](const Edge* e) { return e->src->IsOp(); });
    if (waits || next.assigned_device_index() != node.assigned_device_index()) return nullptr;
    return use;
  }

  static int UsesOf(const Node& node) {
    return static_cast<int>(std::count_if(node.out_edges().begin(), node.out_edges().end(),
                                          [](const Edge* e) { return e->dst->IsOp(); }));
  }

  // Whether both have the same layout of channels.
  static bool SameFormat(const Node& first, const Node& next) {
    if (ProductOp(first) == "MatMul") return true;
    const auto a = first.attrs().Get<std::string>("data_format"),
               b = next.attrs().Get<std::string>("data_format");
    return a.ok() && b.ok() && *a == *b;
  }

  Chain ChainFrom(Node* first) const {
    Chain chain;
    chain.nodes.push_back(first);
    chain.keep_weights = KeepsItsValue(first->data_in_edges()[1]->src);
    TakePad(*first->data_in_edges()[0], &chain);
    if (IsFused(*first)) Unpack(*first, &chain);
    const Edge* use = OnlyUse(*first);
    const auto last_op = [&] { return chain.ops.empty() ? std::string() : chain.ops.back(); };
    if (use != nullptr && last_op().empty() && (TakeBias(*use, &chain) || TakeBatchNorm(*use, &chain)))
      use = OnlyUse(*chain.last());
    const bool sums = last_op().empty() || last_op() == "BiasAdd" || last_op() == "FusedBatchNorm";
    if (use != nullptr && sums && !IsDepthwise(*first) && TakeAdd(*use, &chain)) use = OnlyUse(*chain.last());
    if (use != nullptr && (sums || last_op() == "Add") && last_op() != "AddN" && IsActivation(*use->dst))
      Take(use->dst, &chain);
    return chain;
  }

  // The operations that the node already applies to its product.
  static void Unpack(const Node& fused, Chain* chain) {
    const AttrMap& attrs = fused.attrs();
    chain->ops = attrs.Get<std::vector<std::string>>("fused_ops").value_or(chain->ops);
    chain->epsilon = attrs.Get<float>("epsilon").value_or(chain->epsilon);
    const auto inputs = fused.data_in_edges();
    for (size_t i = 2; i < inputs.size(); ++i) chain->args.push_back(SourceOf(*inputs[i]));
  }

  // A constant, or the value of a variable: holding its buffer keeps the value (packed_weights.h). A fed
  // tensor may be overwritten by its owner after the step.
  static bool KeepsItsValue(const Node* from) {
    for (int steps = 0; from->op_name() == "Identity" && steps < 8; ++steps)
      from = from->data_in_edges()[0]->src;
    const std::string& op = from->op_name();
    return op == "Const" || op == "ReadVariableOp" || op == "VariableV2" || op == "Variable";
  }

  // Constant zero padding around the image.
  void TakePad(const Edge& in, Chain* chain) const {
    const Node& conv = *in.dst;
    Node* const pad = in.src;
    if (!IsConvolution(conv) || pad->op_name() != "Pad" || OnlyUse(*pad) != &in) return;
    if (IsFused(conv) && !conv.attrs().Get<std::vector<int64_t>>("margins").value_or({}).empty()) return;
    if (conv.attrs().Get<std::string>("padding").value_or("") != "VALID") return;
    const Node& amount = *pad->data_in_edges()[1]->src;
    const Tensor* const values = ConstTensorOf(amount);
    if (values == nullptr || HasControlInputs(amount) || values->shape() != TensorShape({4, 2})) return;
    const auto numbers = IntegerValues(*values);
    if (!numbers.ok()) return;
    const bool nchw = conv.attrs().Get<std::string>("data_format").value_or("NHWC") == "NCHW";
    const size_t channel = nchw ? 2 : 6, row = nchw ? 4 : 2;
    const std::vector<int64_t>& n = *numbers;
    constexpr int64_t kMaxMargin = 64;  // a larger one would be work on zeros
    if (n[0] != 0 || n[1] != 0 || n[channel] != 0 || n[channel + 1] != 0) return;
    for (size_t i = row; i < row + 4; ++i) {
      if (n[i] < 0 || n[i] > kMaxMargin) return;
    }
    chain->pad = pad;
    chain->margins.assign(n.begin() + static_cast<std::ptrdiff_t>(row),
                          n.begin() + static_cast<std::ptrdiff_t>(row) + 4);
  }

  static void Take(Node* node, Chain* chain) { Take(node, node->op_name(), chain); }
  // `op`: the name of the operation in the fused op.
  static void Take(Node* node, const std::string& op, Chain* chain) {
    chain->nodes.push_back(node);
    chain->ops.push_back(op);
  }
  static bool IsBatchNorm(const Node& node) {
    return node.op_name() == "FusedBatchNorm" || node.op_name() == "FusedBatchNormV2" ||
           node.op_name() == "FusedBatchNormV3";
  }

  static bool TakeBias(const Edge& use, Chain* chain) {
    Node* const node = use.dst;
    if (node->op_name() != "BiasAdd" || use.dst_input != 0 || !SameFormat(*chain->first(), *node))
      return false;
    Take(node, chain);
    chain->args.push_back(SourceOf(*node->data_in_edges()[1]));
    return true;
  }

  static bool TakeBatchNorm(const Edge& use, Chain* chain) {
    Node* const node = use.dst;
    if (!IsBatchNorm(*node) || use.dst_input != 0 || !IsConvolution(*chain->first()) ||
        !SameFormat(*chain->first(), *node) || node->attrs().Get<bool>("is_training").value_or(true)) {
      return false;
    }
    // The statistics would not be computed.
    const bool only_y = std::all_of(node->out_edges().begin(), node->out_edges().end(),
                                    [](const Edge* e) { return !e->dst->IsOp() || e->src_output == 0; });
    if (!only_y) return false;
    Take(node, "FusedBatchNorm", chain);
    for (int i = 1; i < 5; ++i) chain->args.push_back(SourceOf(*node->data_in_edges()[i]));
    chain->epsilon = node->attrs().Get<float>("epsilon").value_or(chain->epsilon);
    return true;
  }

  static bool TakeAdd(const Edge& use, Chain* chain) {
    Node* const node = use.dst;
    const bool to_sum = AddsToSum(use) || AddsToProducts(*chain->first(), use);
    if (node->op_name() != "Add" && node->op_name() != "AddV2" && !to_sum) return false;
    const Edge& other = *node->data_in_edges()[1 - use.dst_input];
    Take(node, to_sum ? "AddN" : "Add", chain);
    chain->args.push_back(SourceOf(other));
    return true;
  }

  // A product that a loop adds to the sum of previous ones: the kernel adds in place.
  static bool AddsToSum(const Edge& use) {
    const Node& node = *use.dst;
    return node.op_name() == "AddN" && node.num_inputs() == 2 && use.dst_input == 1 &&
           ProductOp(*use.src) == "MatMul" && node.data_in_edges()[0]->src->op_name() == "Switch";
  }

  // The sum of the products of a loop's state and of its inputs, as made by the pass loop_products.
  static bool AddsToProducts(const Node& first, const Edge& use) {
    const Node& node = *use.dst;
    return node.op_name() == "AddN" && node.num_inputs() == 2 && use.dst_input == 1 &&
           ProductOp(first) == "MatMul" && node.data_in_edges()[0]->src->op_name() == "TensorArrayReadV3";
  }

  bool HasKernel(const Node& where, const NodeProps& props) const {
    if (!options_.has_kernel) return true;
    const auto device = DeviceName::Parse(where.assigned_device());
    return device.ok() && device->type.has_value() && options_.has_kernel(*device->type, props);
  }

  // False if there is no kernel.
  StatusOr<bool> Replace(const Chain& chain) {
    const Node& first = *chain.first();
    Node* const last = chain.last();
    const auto op = graph_->LookUpOp(FusedOp(first));
    if (!op.ok()) return false;
    AttrMap attrs = first.attrs();
    attrs.Set("num_args", static_cast<int64_t>(chain.args.size()));
    attrs.Set("fused_ops", chain.ops);
    attrs.Set("epsilon", chain.epsilon);
    attrs.Set("keep_weights", chain.keep_weights);
    if (chain.pad != nullptr) attrs.Set("margins", chain.margins);
    // Without further inputs only the product can fail.
    if (!chain.args.empty()) {
      attrs.Erase(kProductAttr);
    } else if (attrs.Find(kProductAttr) == nullptr) {
      attrs.Set(kProductAttr, first.name());
    }
    const auto props = NodeProps::Make(**op, std::move(attrs));
    if (!props.ok() || !HasKernel(first, **props)) return false;

    std::vector<Source> inputs;
    for (int i = 0; i < 2; ++i) inputs.push_back(SourceOf(*first.data_in_edges()[i]));
    inputs.insert(inputs.end(), chain.args.begin(), chain.args.end());
    std::vector<Node*> before;
    const auto wait_as = [&](const Node& node) {
      for (const Edge* edge : node.control_in_edges()) {
        if (edge->src->IsOp()) before.push_back(edge->src);
      }
    };
    wait_as(first);
    Node* amount = nullptr;  // of padding, if it has no other consumer
    if (chain.pad != nullptr) {
      wait_as(*chain.pad);
      inputs[0] = SourceOf(*chain.pad->data_in_edges()[0]);
      amount = chain.pad->data_in_edges()[1]->src;
      if (options_.preserve.contains(amount->name()) || UsesOf(*amount) > 1) amount = nullptr;
    }
    std::vector<Edge> uses;
    for (const Edge* edge : last->out_edges()) {
      if (edge->dst->IsOp()) uses.push_back(*edge);
    }
    const std::string name = last->name();
    const int assigned = first.assigned_device_index(), requested = last->requested_device_index();
    for (auto it = chain.nodes.rbegin(); it != chain.nodes.rend(); ++it) graph_->RemoveNode(*it);
    if (chain.pad != nullptr) graph_->RemoveNode(chain.pad);
    if (amount != nullptr) graph_->RemoveNode(amount);

    Node* const fused = graph_->AddNodeWithProps(name, *props);
    fused->set_assigned_device_index(assigned);
    fused->set_requested_device_index(requested);
    for (size_t i = 0; i < inputs.size(); ++i) {
      graph_->AddEdge(inputs[i].node, inputs[i].output, fused, static_cast<int>(i));
    }
    for (Node* node : before) graph_->AddControlEdge(node, fused);
    for (const Edge& use : uses) {
      if (use.IsControl()) {
        graph_->AddControlEdge(fused, use.dst);
      } else {
        graph_->AddEdge(fused, 0, use.dst, use.dst_input);
      }
    }
    return true;
  }

  Graph* const graph_;
  const OptimizeOptions& options_;
};

}  // namespace

StatusOr<int> FuseNodes(Graph* graph, const OptimizeOptions& options) { return Fuser(graph, options).Run(); }

}  // namespace millrace
