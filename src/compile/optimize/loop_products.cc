// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/loop_products.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/frames.h"

namespace millrace {
namespace {

// The limit of the memory of the products of all steps, as a multiple of that of the inputs.
constexpr int64_t kMaxGrowth = 16;

// A product of a loop and its inputs.
struct Pattern {
  Node* product;          // MatMul
  Node* bias;             // the BiasAdd that is its only consumer, or null
  Node* concat;           // of the read value and the state
  Node* read;             // TensorArrayReadV3
  Node* checked;          // the EnsureShape between the two, or null
  Node *handle, *flow;    // constant Enters of the array
  Node* weights;          // constant Enter
  Node *array, *scatter;  // outside
  TensorRef state;
  int64_t inputs, units;  // rows of the weights for the read value, and for the state
  bool state_first;
  bool rows_known;  // the state has as many as a read value: otherwise the loop checks that at run time
};

bool IsFloating(DataType type) { return type == DataType::kFloat || type == DataType::kDouble; }

bool HasOneUse(const Node& node) {
  return std::count_if(node.out_edges().begin(), node.out_edges().end(),
                       [](const Edge* e) { return e->dst->IsOp(); }) == 1;
}

bool IsFalse(const Node& node, std::string_view attr) { return !node.attrs().Get<bool>(attr).value_or(true); }

bool IsAxisOne(const Node& node) {
  const Tensor* const axis = ConstTensorOf(node);
  if (axis == nullptr || axis->num_elements() != 1) return false;
  const auto value = IntegerValues(*axis);
  return value.ok() && ((*value)[0] == 1 || (*value)[0] == -1);
}

class Splitter {
 public:
  Splitter(Graph* graph, const OptimizeOptions& options) : graph_(graph), rewriter_(graph, options) {}

  int Run() {
    int split = 0;
    for (Node* node : graph_->OpNodes()) {
      if (!node->IsOp() || node->op_name() != "MatMul" || !IsFloating(node->output_type(0))) continue;
      Pattern p{};
      if (Match(node, &p) && Split(p)) ++split;
    }
    if (split > 0) graph_->FixupSourceAndSinkEdges();
    return split;
  }

 private:
  // The node of an input if it has that op, is on the device of the product, and has no control inputs and
  // outputs.
  Node* Source(const Node& node, int input, std::string_view op) const {
    Node* const source = InputOf(node, input).node;
    const bool is_free = source->op_name() == op && !HasControlInputs(*source) &&
                         source->assigned_device_index() == node.assigned_device_index() &&
                         !rewriter_.IsPreserved(*source);
    return is_free && std::none_of(source->out_edges().begin(), source->out_edges().end(),
                                   [](const Edge* e) { return e->IsControl() && e->dst->IsOp(); })
               ? source
               : nullptr;
  }
  Node* ConstantEnter(const Node& node, int input) const {
    Node* const enter = Source(node, input, "Enter");
    return enter != nullptr && IsConstantEnter(*enter) ? enter : nullptr;
  }

  bool Match(Node* product, Pattern* p) {
    if (!IsFalse(*product, "transpose_a") || !IsFalse(*product, "transpose_b") ||
        rewriter_.IsPreserved(*product) || HasControlInputs(*product)) {
      return false;
    }
    p->product = product;
    p->concat = Source(*product, 0, "ConcatV2");
    p->weights = ConstantEnter(*product, 1);
    if (p->concat == nullptr || p->weights == nullptr || p->concat->num_inputs() != 3 ||
        !HasOneUse(*p->concat) || !IsAxisOne(*InputOf(*p->concat, 2).node)) {
      return false;
    }
    if (!FindRead(0, p)) {
      if (!FindRead(1, p)) return false;
      p->state_first = true;
    }
    p->state = InputOf(*p->concat, p->state_first ? 0 : 1);
    p->bias = BiasOf(*product);
    return MatchArray(p) && SizesFit(p);
  }

  bool FindRead(int input, Pattern* p) const {
    p->checked = Source(*p->concat, input, "EnsureShape");
    p->read = p->checked != nullptr ? Source(*p->checked, 0, "TensorArrayReadV3")
                                    : Source(*p->concat, input, "TensorArrayReadV3");
    return p->read != nullptr;
  }

  Node* BiasOf(const Node& product) const {
    for (const Edge* edge : product.out_edges()) {
      if (!edge->dst->IsOp()) continue;
      const bool fits = HasOneUse(product) && !edge->IsControl() && edge->dst->op_name() == "BiasAdd" &&
                        edge->dst_input == 0 && !HasControlInputs(*edge->dst) &&
                        !rewriter_.IsPreserved(*edge->dst) &&
                        edge->dst->attrs().Get<std::string>("data_format").value_or("") == "NHWC" &&
                        edge->dst->assigned_device_index() == product.assigned_device_index();
      return fits ? edge->dst : nullptr;
    }
    return nullptr;
  }

  // The array is filled once, outside of the loop, and has no other use.
  bool MatchArray(Pattern* p) const {
    p->handle = ConstantEnter(*p->read, 0);
    p->flow = ConstantEnter(*p->read, 2);
    if (p->handle == nullptr || p->flow == nullptr || !HasOneUse(*p->handle) || !HasOneUse(*p->flow))
      return false;
    p->array = Source(*p->handle, 0, "TensorArrayV3");
    p->scatter = Source(*p->flow, 0, "TensorArrayScatterV3");
    if (p->array == nullptr || p->scatter == nullptr || !HasOneUse(*p->scatter)) return false;
    const TensorRef filled = InputOf(*p->scatter, 0), before = InputOf(*p->scatter, 3);
    return filled == TensorRef{p->array, 0} && before == TensorRef{p->array, 1} &&
           CountConsumers(*p->array, 0) == 2 && CountConsumers(*p->array, 1) == 1 &&
           p->scatter->input_type(2) == p->product->output_type(0) && HasOneUseOfEach(*p->array);
  }
  static bool HasOneUseOfEach(const Node& array) {
    return std::count_if(array.out_edges().begin(), array.out_edges().end(),
                         [](const Edge* e) { return e->dst->IsOp(); }) == 3;
  }

  bool SizesFit(Pattern* p) {
    const PartialShape values = rewriter_.ShapeOf(InputOf(*p->scatter, 2));
    PartialShape state = rewriter_.ShapeOf(p->state);
    if (state.unknown_rank()) state = PartialShape({-1, -1});
    const PartialShape weights = rewriter_.ShapeOf(InputOf(*p->weights, 0));
    if (values.unknown_rank() || values.rank() != 3 || state.rank() != 2 || weights.unknown_rank() ||
        weights.rank() != 2) {
      return false;
    }
    if (p->checked != nullptr && !PassesCheck(*p->checked, values)) return false;
    p->inputs = values.dim(2);
    p->units = weights.dim(0) - p->inputs;
    p->rows_known = values.dim(1) > 0 && values.dim(1) == state.dim(0);
    return p->inputs > 0 && p->units > 0 && (state.dim(1) == p->units || state.dim(1) < 0) &&
           weights.dim(1) > 0 && weights.dim(1) <= kMaxGrowth * p->inputs;
  }

  // Whether an EnsureShape can't fail for values read from `values`.
  static bool PassesCheck(const Node& check, const PartialShape& values) {
    const auto shape = check.Attr<PartialShape>("shape");
    if (!shape.ok()) return false;
    if (shape->unknown_rank()) return true;
    const auto fits = [&](int i) { return shape->dim(i) < 0 || shape->dim(i) == values.dim(i + 1); };
    return shape->rank() == 2 && fits(0) && fits(1);
  }

  // Adds a node for Split; if one cannot be made, all are removed.
  TensorRef Make(const Node& like, std::string_view suffix, std::string_view op, AttrMap attrs,
                 const std::vector<TensorRef>& inputs) {
    for (const TensorRef& input : inputs) failed_ = failed_ || input.node == nullptr;
    if (failed_) return {};
    Node* const node = rewriter_.Add(like, suffix, op, std::move(attrs), inputs);
    failed_ = node == nullptr;
    if (node != nullptr) made_.push_back(node);
    return {node, 0};
  }
  TensorRef MakeConst(const Node& like, std::string_view suffix, const std::vector<int32_t>& values,
                      Node* after) {
    std::vector<Node*> waits;
    if (!IsFreeConst(*after)) waits.push_back(after);
    Node* const node = rewriter_.AddConst(
        like, suffix, Tensor::From<int32_t>(values, {static_cast<int64_t>(values.size())}), waits);
    failed_ = failed_ || node == nullptr;
    if (node != nullptr) made_.push_back(node);
    return {node, 0};
  }
  // Rows [begin, begin + count) of the weights, outside of the loop.
  TensorRef Rows(const Pattern& p, std::string_view suffix, int64_t begin, int64_t count) {
    const TensorRef weights = InputOf(*p.weights, 0);
    if (!CanBeWaitedFor(*weights.node)) failed_ = true;
    if (failed_) return {};
    const TensorRef from = MakeConst(*p.product, "begin", {static_cast<int32_t>(begin), 0}, weights.node);
    const TensorRef size = MakeConst(*p.product, "size", {static_cast<int32_t>(count), -1}, weights.node);
    return Make(*p.product, suffix, "Slice", {{"T", p.product->output_type(0)}, {"Index", DataType::kInt32}},
                {weights, from, size});
  }
  TensorRef Entered(const Pattern& p, std::string_view suffix, const TensorRef& outside, DataType type) {
    AttrMap attrs = p.flow->attrs();
    attrs.Set("T", type);
    return Make(*p.product, suffix, "Enter", std::move(attrs), {outside});
  }

  bool Split(const Pattern& p) {
    made_.clear();
    failed_ = false;
    const DataType type = p.product->output_type(0);
    const TensorRef of_inputs = Rows(p, "input_rows", p.state_first ? p.units : 0, p.inputs);
    const TensorRef of_state = Rows(p, "state_rows", p.state_first ? 0 : p.inputs, p.units);
    const TensorRef products =
        Make(*p.product, "of_all_steps", "BatchMatMulV2", {{"T", type}}, {InputOf(*p.scatter, 2), of_inputs});
    AttrMap array_attrs = p.array->attrs();
    array_attrs.Set("element_shape", PartialShape());
    const TensorRef array =
        Make(*p.array, "of_products", "TensorArrayV3", std::move(array_attrs), {InputOf(*p.array, 0)});
    const TensorRef filled = Make(*p.scatter, "of_products", "TensorArrayScatterV3", p.scatter->attrs(),
                                  {array, InputOf(*p.scatter, 1), products, {array.node, 1}});
    const TensorRef handle = Entered(p, "handle", array, DataType::kResource);
    const TensorRef flow = Entered(p, "flow", filled, DataType::kFloat);
    const TensorRef read = Make(*p.read, "of_products", "TensorArrayReadV3", p.read->attrs(),
                                {handle, InputOf(*p.read, 1), flow});
    const TensorRef weights = Entered(p, "weights", of_state, type);
    const TensorRef product = Make(*p.product, "of_state", "MatMul", p.product->attrs(), {p.state, weights});
    const TensorRef biased = p.bias == nullptr ? product
                                               : Make(*p.bias, "of_state", "BiasAdd", p.bias->attrs(),
                                                      {product, InputOf(*p.bias, 1)});
    // AddN rejects shapes that AddV2 would broadcast. In this order the pass fuse merges it with the product.
    const TensorRef sum =
        p.rows_known ? Make(*p.product, "sum", "AddV2", {{"T", type}}, {biased, read})
                     : Make(*p.product, "sum", "AddN", {{"T", type}, {"N", int64_t{2}}}, {read, biased});
    if (failed_) {
      for (auto it = made_.rbegin(); it != made_.rend(); ++it) graph_->RemoveNode(*it);
      return false;
    }
    Node* const axis = InputOf(*p.concat, 2).node;
    Node* const last = p.bias == nullptr ? p.product : p.bias;
    for (Edge* edge : std::vector<Edge*>(last->out_edges().begin(), last->out_edges().end())) {
      if (!edge->dst->IsOp()) continue;
      Node* const to = edge->dst;
      const int input = edge->dst_input;
      const bool control = edge->IsControl();
      graph_->RemoveEdge(edge);
      if (control) {
        graph_->AddControlEdge(sum.node, to);
      } else {
        graph_->AddEdge(sum.node, 0, to, input);
      }
    }
    if (p.bias != nullptr) graph_->RemoveNode(p.bias);
    for (Node* node : {p.product, p.concat}) graph_->RemoveNode(node);
    if (p.checked != nullptr && HasNoUse(*p.checked)) graph_->RemoveNode(p.checked);
    if (HasNoUse(*p.read)) {
      for (Node* node : {p.read, p.handle, p.flow, p.scatter, p.array}) graph_->RemoveNode(node);
    }
    if (HasNoUse(*p.weights)) graph_->RemoveNode(p.weights);
    rewriter_.RemoveUnused(axis);
    return true;
  }

  static bool HasNoUse(const Node& node) {
    return std::none_of(node.out_edges().begin(), node.out_edges().end(),
                        [](const Edge* e) { return e->dst->IsOp(); });
  }

  Graph* const graph_;
  Rewriter rewriter_;
  std::vector<Node*> made_;
  bool failed_ = false;
};

}  // namespace

int SplitLoopProducts(Graph* graph, const OptimizeOptions& options) { return Splitter(graph, options).Run(); }

}  // namespace millrace
