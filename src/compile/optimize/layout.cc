// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "op/shape_inference.h"

namespace millrace {
namespace {

// Dimension i of an NHWC image is dimension kToNhwc[i] of the NCHW image.
constexpr int64_t kToNhwc[] = {0, 2, 3, 1};
constexpr int64_t kToNchw[] = {0, 3, 1, 2};
// With fewer output channels the kernels vectorise along pixels, and NCHW is as good.
constexpr int64_t kMinChannels = 16;

bool IsNchw(const Node& node) { return node.attrs().Get<std::string>("data_format").value_or("") == "NCHW"; }

bool HasLayout(const std::string& op) {
  return op == "Conv2D" || op == "FusedBatchNorm" || op == "FusedBatchNormV2" || op == "FusedBatchNormV3" ||
         op == "BiasAdd" || op == "MaxPool" || op == "AvgPool";
}

bool IsReduction(const std::string& op) {
  return op == "Mean" || op == "Sum" || op == "Max" || op == "Min" || op == "Prod";
}

std::optional<std::vector<int64_t>> ConstNumbers(const TensorRef& tensor) {
  const Tensor* value = IsFreeConst(*tensor.node) ? ConstTensorOf(*tensor.node) : nullptr;
  if (value == nullptr || value->num_elements() > 8) return std::nullopt;
  const auto numbers = IntegerValues(*value);
  return numbers.ok() ? std::optional(*numbers) : std::nullopt;
}

bool TransposesBy(const Node& node, const int64_t (&order)[4]) {
  if (node.op_name() != "Transpose") return false;
  const auto numbers = ConstNumbers(InputOf(node, 1));
  return numbers.has_value() && std::equal(numbers->begin(), numbers->end(), order, order + 4);
}

Tensor Numbers(const std::vector<int64_t>& values, const TensorShape& shape, DataType type) {
  if (type == DataType::kInt64) return Tensor::From<int64_t>(values, shape);
  return Tensor::From<int32_t>(std::vector<int32_t>(values.begin(), values.end()), shape);
}

class LayoutConverter {
 public:
  LayoutConverter(Graph* graph, const OptimizeOptions& options) : graph_(graph), rewriter_(graph, options) {}

  int Run() {
    bool any = false;
    for (const Node* node : graph_->OpNodes()) {
      if (!IsNchw(*node)) continue;
      if (!HasLayout(node->op_name())) return 0;  // a gradient, or an unknown op
      any = any || node->op_name() == "Conv2D";
    }
    const auto order = TopologicalOrder(*graph_);
    if (!any || !order.ok()) return 0;
    for (Node* node : *order) {
      if (node->IsOp() && MayChange(*node)) Convert(node);
    }
    for (auto it = converted_.rbegin(); it != converted_.rend(); ++it) {
      if (it->first->IsOp()) Finish(it->first, it->second);
    }
    for (const auto& [key, nhwc] : nhwc_) rewriter_.RemoveUnused(nhwc.node);
    if (!converted_.empty()) graph_->FixupSourceAndSinkEdges();
    return static_cast<int>(converted_.size());
  }

 private:
  using Key = std::pair<const Node*, int>;

  bool MayChange(const Node& node) const {
    return !rewriter_.IsPreserved(node) && IsPure(node) && node.num_inputs() > 0;
  }

  // The NHWC version of a tensor, if there is one on the device of `where`.
  std::optional<TensorRef> FindNhwc(const Node& where, const TensorRef& tensor) const {
    const auto found = nhwc_.find(Key(tensor.node, tensor.output));
    if (found == nhwc_.end() ||
        found->second.node->assigned_device_index() != where.assigned_device_index()) {
      return std::nullopt;
    }
    return found->second;
  }

  // The NHWC version, made if necessary.
  std::optional<TensorRef> MakeNhwc(const Node& where, const TensorRef& tensor) {
    if (const auto nhwc = FindNhwc(where, tensor)) return nhwc;
    if (TransposesBy(*tensor.node, kToNchw) && !HasControlInputs(*tensor.node) &&
        tensor.node->assigned_device_index() == where.assigned_device_index()) {
      return InputOf(*tensor.node, 0);
    }
    Node* const made = Transposed(where, tensor, kToNhwc, "nhwc_input");
    if (made == nullptr) return std::nullopt;
    nhwc_[Key(tensor.node, tensor.output)] = {made, 0};
    return TensorRef{made, 0};
  }

  Node* Transposed(const Node& like, const TensorRef& tensor, const int64_t (&order)[4], const char* suffix) {
    Node* const perm =
        rewriter_.AddConst(like, "perm", Numbers({order, order + 4}, TensorShape({4}), DataType::kInt32), {});
    if (perm == nullptr) return nullptr;
    AttrMap attrs;
    attrs.Set("T", tensor.node->output_type(tensor.output));
    attrs.Set("Tperm", DataType::kInt32);
    Node* const made = rewriter_.Add(like, suffix, "Transpose", attrs, {tensor, {perm, 0}});
    if (made == nullptr) rewriter_.RemoveUnused(perm);
    return made;
  }

  void Convert(Node* node) {
    const std::string& op = node->op_name();
    if (TransposesBy(*node, kToNhwc)) {
      // The graph's own transposes at the end of a converted part.
      if (const auto nhwc = FindNhwc(*node, InputOf(*node, 0))) {
        rewriter_.TryReplace(node, {*nhwc}, {});
      }
      return;
    }
    if (IsNchw(*node)) {
      ConvertWithLayout(node);
    } else if (op == "Pad") {
      ConvertPad(node);
    } else if (IsReduction(op)) {
      ConvertReduction(node);
    } else if ((node->traits().elementwise || node->traits().forwards || op == "AddN") &&
               node->num_outputs() == 1) {
      ConvertElementwise(node);
    }
  }

  void ConvertWithLayout(Node* node) {
    const TensorRef x = InputOf(*node, 0);
    std::optional<TensorRef> image = FindNhwc(*node, x);
    if (!image && node->op_name() == "Conv2D") {
      const PartialShape filter = rewriter_.ShapeOf(InputOf(*node, 1));
      if (filter.rank() != 4 || filter.dim(3) < kMinChannels) return;
      // The convolution itself reports inputs that are not images.
      if (rewriter_.ShapeOf(x).rank() != 4) return;
      image = MakeNhwc(*node, x);
    }
    if (!image) return;
    AttrMap attrs = node->attrs();
    attrs.Set("data_format", std::string("NHWC"));
    for (const char* name : {"strides", "ksize", "dilations"}) {
      const auto list = node->attrs().Get<std::vector<int64_t>>(name);
      if (!list.ok()) continue;
      if (list->size() != 4) return;
      attrs.Set(name, std::vector<int64_t>{(*list)[0], (*list)[2], (*list)[3], (*list)[1]});
    }
    if (const auto list = node->attrs().Get<std::vector<int64_t>>("explicit_paddings");
        list.ok() && !list->empty()) {
      if (list->size() != 8) return;
      const std::vector<int64_t>& p = *list;
      attrs.Set("explicit_paddings", std::vector<int64_t>{p[0], p[1], p[4], p[5], p[6], p[7], p[2], p[3]});
    }
    std::vector<TensorRef> inputs = Inputs(*node);
    inputs[0] = *image;
    Register(node, rewriter_.Add(*node, "nhwc", node->op_name(), attrs, inputs));
  }

  void ConvertPad(Node* node) {
    const auto image = FindNhwc(*node, InputOf(*node, 0));
    const auto numbers = ConstNumbers(InputOf(*node, 1));
    if (!image || !numbers || numbers->size() != 8) return;
    std::vector<int64_t> amounts;
    for (const int64_t axis : kToNhwc) {
      for (int64_t side = 0; side < 2; ++side)
        amounts.push_back((*numbers)[static_cast<size_t>(2 * axis + side)]);
    }
    Node* const amount =
        rewriter_.AddConst(*node, "nhwc_paddings", Numbers(amounts, {4, 2}, node->input_type(1)), {});
    if (amount == nullptr) return;
    Register(node, rewriter_.Add(*node, "nhwc", "Pad", node->attrs(), {*image, {amount, 0}}));
    rewriter_.RemoveUnused(amount);
  }

  // Reductions that preserve the order of the remaining axes.
  void ConvertReduction(Node* node) {
    const auto image = FindNhwc(*node, InputOf(*node, 0));
    const auto axes = ConstNumbers(InputOf(*node, 1));
    const auto keep = node->attrs().Get<bool>("keep_dims");
    if (!image || !axes || !keep.ok()) return;
    std::set<int64_t> reduced;
    for (const int64_t axis : *axes) {
      if (axis < -4 || axis >= 4) return;
      reduced.insert(axis < 0 ? axis + 4 : axis);
    }
    std::vector<int64_t> there, left;
    for (int64_t i = 0; i < 4; ++i) {
      if (reduced.contains(kToNhwc[i])) {
        there.push_back(i);
      } else {
        left.push_back(kToNhwc[i]);
      }
    }
    if (!*keep && !std::is_sorted(left.begin(), left.end())) return;
    const TensorShape shape({static_cast<int64_t>(there.size())});
    Node* const indices =
        rewriter_.AddConst(*node, "nhwc_axes", Numbers(there, shape, node->input_type(1)), {});
    if (indices == nullptr) return;
    Node* const made = rewriter_.Add(*node, "nhwc", node->op_name(), node->attrs(), {*image, {indices, 0}});
    Register(node, made, /*is_image=*/*keep);
    rewriter_.RemoveUnused(indices);
  }

  // With images only, or images and scalars.
  void ConvertElementwise(Node* node) {
    const std::vector<TensorRef> inputs = Inputs(*node);
    if (std::none_of(inputs.begin(), inputs.end(),
                     [&](const TensorRef& t) { return FindNhwc(*node, t).has_value(); })) {
      return;
    }
    for (const TensorRef& input : inputs) {
      if (FindNhwc(*node, input)) continue;
      const int rank = rewriter_.ShapeOf(input).rank();
      if (rank != 4 && rank != 0) return;
    }
    std::vector<TensorRef> images;
    for (const TensorRef& input : inputs) {
      const bool scalar = !FindNhwc(*node, input) && rewriter_.ShapeOf(input).rank() == 0;
      const auto image = scalar ? std::optional(input) : MakeNhwc(*node, input);
      if (!image) return;
      images.push_back(*image);
    }
    Register(node, rewriter_.Add(*node, "nhwc", node->op_name(), node->attrs(), images));
  }

  static std::vector<TensorRef> Inputs(const Node& node) {
    std::vector<TensorRef> inputs;
    for (int i = 0; i < node.num_inputs(); ++i) inputs.push_back(InputOf(node, i));
    return inputs;
  }

  // `made` (or null) computes the result of `node`; output 0 as NHWC if it is an image.
  void Register(Node* node, Node* made, bool is_image = true) {
    if (made == nullptr) return;
    for (Node* wait : Rewriter::ControlInputs(*node)) graph_->AddControlEdge(wait, made);
    if (is_image) nhwc_[Key(node, 0)] = {made, 0};
    converted_.emplace_back(node, made);
  }

  // Redirects consumers of the NCHW results of `node` to `made`, and removes `node`. Consumers before
  // producers. The device has a kernel for Transpose: there was one at the start of this part of the graph.
  void Finish(Node* node, Node* made) {
    for (int output = 0; output < node->num_outputs(); ++output) {
      if (CountConsumers(*node, output) == 0) continue;
      TensorRef result{made, output};
      if (output == 0 && nhwc_.contains(Key(node, 0))) {
        result = {Transposed(*node, result, kToNchw, "nchw"), 0};
      }
      rewriter_.MoveConsumers({node, output}, result);
    }
    std::vector<Node*> waiting;
    for (const Edge* edge : node->out_edges()) {
      if (edge->IsControl() && edge->dst->IsOp()) waiting.push_back(edge->dst);
    }
    for (Node* dst : waiting) graph_->AddControlEdge(made, dst);
    graph_->RemoveNode(node);
  }

  Graph* const graph_;
  Rewriter rewriter_;
  std::map<Key, TensorRef> nhwc_;
  std::vector<std::pair<Node*, Node*>> converted_;
};

}  // namespace

int ConvertLayouts(Graph* graph, const OptimizeOptions& options) {
  return LayoutConverter(graph, options).Run();
}

}  // namespace millrace
