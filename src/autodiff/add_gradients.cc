// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/add_gradients.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "autodiff/gradient_context.h"
#include "graph/function_library.h"

namespace millrace {
namespace {

// Whether gradients flow through tensors of this type. Of a resource, the gradient is that of what it holds.
bool CarriesGradient(DataType type) {
  const DataType base = BaseType(type);
  return IsFloatingType(base) || IsComplexType(base) || base == DataType::kResource;
}

DataType TypeOf(const Output& tensor) { return BaseType(tensor.node->output_type(tensor.index)); }

std::string NameOf(const Output& tensor) { return TensorId{tensor.node->name(), tensor.index}.ToString(); }

Status CheckOutput(const Graph& graph, const Output& tensor, const char* what) {
  if (!tensor.IsSet()) return errors::InvalidArgument("One of the ", what, " is unset");
  if (&tensor.node->graph() != &graph) {
    return errors::InvalidArgument(what, " has '", tensor.node->name(), "', a node of another graph");
  }
  if (tensor.index < 0 || tensor.index >= tensor.node->num_outputs()) {
    return errors::InvalidArgument("Node '", tensor.node->name(), "' of ", what, " has no output ",
                                   tensor.index);
  }
  return Status();
}

// "gradients", "gradients_1", …: the first under which the graph has no node.
std::string UniqueScope(const Graph& graph, const std::string& scope) {
  std::unordered_set<std::string_view> taken;
  for (const Node* node : graph.OpNodes()) {
    const std::string_view name = node->name();
    if (name.starts_with(scope)) taken.insert(name.substr(0, name.find('/', scope.size())));
  }
  std::string unique = scope;
  for (int suffix = 1; taken.contains(unique); ++suffix) unique = StrCat(scope, "_", suffix);
  return unique;
}

// One call of AddGradients. Node ids below `num_ids_` are those of the graph as it was.
class Backprop {
 public:
  Backprop(Graph& graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
           const GradientOptions& options)
      : graph_(graph),
        ys_(ys),
        xs_(xs),
        registry_(options.registry != nullptr ? *options.registry : GradientRegistry::Global()),
        scope_(UniqueScope(graph, options.scope)),
        own_shapes_(options.shapes == nullptr ? std::make_unique<ShapeRefiner>(graph) : nullptr),
        shapes_(own_shapes_ != nullptr ? *own_shapes_ : *options.shapes),
        builder_(graph, shapes_),
        num_ids_(static_cast<size_t>(graph.num_node_ids())) {}

  Status Run(const std::vector<Output>& grad_ys, std::vector<Output>* grads) {
    CollectAncestors();
    if (own_shapes_ != nullptr) {
      for (const Node* node : ancestors_) MR_RETURN_IF_ERROR(shapes_.AddNode(*node));
    }
    MarkBetween();
    CountConsumers();
    MR_RETURN_IF_ERROR(SeedYs(grad_ys));
    MR_RETURN_IF_ERROR(Propagate());
    for (const Output& x : xs_) grads->push_back(SumOf(x));
    return builder_.status();
  }

 private:
  static size_t Id(const Node* node) { return static_cast<size_t>(node->id()); }

  // All that the ys are computed from, inputs before consumers but for loops.
  void CollectAncestors() {
    std::vector<bool> seen(num_ids_, false);
    std::vector<std::pair<Node*, int>> stack;  // a node and its next input
    const auto push = [&](Node* node) {
      if (seen[Id(node)]) return;
      seen[Id(node)] = true;
      stack.emplace_back(node, 0);
    };
    for (const Output& y : ys_) {
      push(y.node);
      while (!stack.empty()) {
        auto& [node, next] = stack.back();
        if (next < node->num_inputs()) {
          const Edge* edge = node->in_edges()[static_cast<size_t>(next++)];
          if (edge != nullptr) push(edge->src);
        } else {
          ancestors_.push_back(node);
          stack.pop_back();
        }
      }
    }
  }

  // A node lies between when it is an ancestor of a y (or a y) and is computed from an x in a way that
  // gradients flow through (or has an x).
  void MarkBetween() {
    std::vector<bool> ancestor(num_ids_, false);
    for (const Node* node : ancestors_) ancestor[Id(node)] = true;
    between_.assign(num_ids_, false);
    std::vector<bool> seen(num_ids_, false);
    std::vector<const Node*> work;
    const auto reach = [&](const Edge* edge) {
      const Node* node = edge->dst;
      if (edge->IsControl() || Id(node) >= num_ids_ || !ancestor[Id(node)] || seen[Id(node)]) return;
      if (!CarriesGradient(node->input_type(edge->dst_input))) return;
      seen[Id(node)] = true;
      if (IsNotDifferentiable(*node)) return;
      between_[Id(node)] = true;
      work.push_back(node);
    };
    for (const Output& x : xs_) {
      if (!ancestor[Id(x.node)]) continue;
      between_[Id(x.node)] = true;
      for (const Edge* edge : x.node->out_edges()) {
        if (edge->src_output == x.index) reach(edge);
      }
    }
    while (!work.empty()) {
      const Node* node = work.back();
      work.pop_back();
      for (const Edge* edge : node->out_edges()) reach(edge);
    }
  }

  bool IsNotDifferentiable(const Node& node) const {
    const auto entry = registry_.LookUp(node.op_name());
    return entry.ok() && (*entry)->fn == nullptr;
  }

  // A node is ready once all its consumers between have passed their gradients on.
  void CountConsumers() {
    pending_.assign(num_ids_, 0);
    first_output_.assign(num_ids_, 0);
    int outputs = 0;
    for (const Node* node : ancestors_) {
      if (!between_[Id(node)]) continue;
      first_output_[Id(node)] = outputs;
      outputs += node->num_outputs();
      for (const Edge* edge : node->data_in_edges()) {
        if (edge != nullptr && between_[Id(edge->src)]) ++pending_[Id(edge->src)];
      }
    }
    contributions_.resize(static_cast<size_t>(outputs));
    sums_.resize(static_cast<size_t>(outputs));
    for (Node* node : ancestors_) {
      if (between_[Id(node)] && pending_[Id(node)] == 0) ready_.push_back(node);
    }
  }

  size_t Slot(const Node* node, int output) const {
    return static_cast<size_t>(first_output_[Id(node)] + output);
  }

  Output SumOf(const Output& x) const {
    return between_[Id(x.node)] ? sums_[Slot(x.node, x.index)] : Output();
  }

  Status SeedYs(const std::vector<Output>& grad_ys) {
    for (size_t i = 0; i < ys_.size(); ++i) {
      const Output& y = ys_[i];
      Output grad = i < grad_ys.size() ? grad_ys[i] : Output();
      if (grad.IsSet()) {
        MR_RETURN_IF_ERROR(CheckOutput(graph_, grad, "grad_ys"));
        if (TypeOf(grad) != TypeOf(y)) {
          return errors::InvalidArgument("Gradient '", NameOf(grad), "' for '", NameOf(y), "' has type ",
                                         TypeOf(grad), ", wanted ", TypeOf(y));
        }
        if (own_shapes_ != nullptr) MR_RETURN_IF_ERROR(ShapesBehind(grad.node));
      }
      if (!CarriesGradient(TypeOf(y)) || TypeOf(y) == DataType::kResource || !between_[Id(y.node)]) continue;
      if (!grad.IsSet()) {
        if (IsComplexType(TypeOf(y))) {
          return errors::InvalidArgument(
              "Gradients of complex tensors must set grad_ys (y.dtype = ", DataTypeName(TypeOf(y)), ")");
        }
        builder_.SetScope(scope_, y.node->requested_device());
        grad = OnesLike(Expr(builder_, y)).output();
        MR_RETURN_IF_ERROR(builder_.status());
      }
      contributions_[Slot(y.node, y.index)].push_back(grad);
    }
    return Status();
  }

  static Expr OnesLike(const Expr& y) {
    if (y.shape().rank() == 0) return ScalarLike(y, 1);
    return Fill(ShapeOf(y), ScalarLike(y, 1));
  }

  // What a given gradient is computed from need not be behind a y.
  Status ShapesBehind(Node* node) {
    std::vector<bool> known(num_ids_, false);
    for (const Node* other : ancestors_) known[Id(other)] = true;
    std::vector<std::pair<Node*, int>> stack = {{node, 0}};
    if (known[Id(node)]) return Status();
    known[Id(node)] = true;
    while (!stack.empty()) {
      auto& [top, next] = stack.back();
      if (next < top->num_inputs()) {
        const Edge* edge = top->in_edges()[static_cast<size_t>(next++)];
        if (edge == nullptr || Id(edge->src) >= num_ids_ || known[Id(edge->src)]) continue;
        known[Id(edge->src)] = true;
        stack.emplace_back(edge->src, 0);
      } else {
        MR_RETURN_IF_ERROR(shapes_.AddNode(*top));
        stack.pop_back();
      }
    }
    return Status();
  }

  Status Propagate() {
    size_t done = 0;
    while (!ready_.empty()) {
      Node* node = ready_.front();
      ready_.pop_front();
      ++done;
      MR_RETURN_IF_ERROR(Visit(*node));
      for (const Edge* edge : node->data_in_edges()) {
        if (edge == nullptr || !between_[Id(edge->src)]) continue;
        if (--pending_[Id(edge->src)] == 0) ready_.push_back(edge->src);
      }
    }
    const auto total = static_cast<size_t>(std::count(between_.begin(), between_.end(), true));
    if (done == total) return Status();
    for (const Node* node : ancestors_) {
      if (between_[Id(node)] && pending_[Id(node)] > 0) {
        return errors::Unimplemented("Gradients through loops are not supported: node '", node->name(),
                                     "' (op ", node->op_name(), ") is part of one");
      }
    }
    return errors::Internal("gradients did not reach every node");
  }

  // Sums up what arrived at the node's outputs and passes on what its gradient function makes of it.
  Status Visit(Node& node) {
    builder_.SetScope(scope_, node.requested_device());
    std::vector<Output> grads(static_cast<size_t>(node.num_outputs()));
    bool any = false;
    for (int i = 0; i < node.num_outputs(); ++i) {
      MR_RETURN_IF_ERROR(SumUp(node, i));
      grads[static_cast<size_t>(i)] = sums_[Slot(&node, i)];
      any = any || grads[static_cast<size_t>(i)].IsSet();
    }
    std::vector<bool> wanted(static_cast<size_t>(node.num_inputs()), false);
    bool any_wanted = false;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Edge* edge = node.in_edges()[static_cast<size_t>(i)];
      if (edge == nullptr || !between_[Id(edge->src)] || !CarriesGradient(node.input_type(i))) continue;
      wanted[static_cast<size_t>(i)] = any_wanted = true;
    }
    if (!any || !any_wanted) return Status();
    // The gradient of a function that is called by its name is that of a call of it.
    const bool is_function = graph_.functions().Find(node.op_name()) != nullptr;
    const auto entry = registry_.LookUp(is_function ? "PartitionedCall" : node.op_name());
    if (!entry.ok()) return entry.status().WithContext(StrCat(" (node '", node.name(), "')"));
    if ((*entry)->fn == nullptr) return Status();
    builder_.SetScope(StrCat(scope_, "/", node.name(), "_grad"), node.requested_device());
    GradientContext context(builder_, node, std::move(grads), wanted, scope_);
    Status status = (*entry)->fn(context);
    status.Update(builder_.status());
    if (status.ok()) status = Deliver(node, context);
    return status.WithContext(
        StrCat("; in the gradient of node '", node.name(), "' (op ", node.op_name(), ")"));
  }

  Status SumUp(const Node& node, int output) {
    std::vector<Output>& parts = contributions_[Slot(&node, output)];
    Output& sum = sums_[Slot(&node, output)];
    if (parts.size() == 1) sum = parts[0];
    if (parts.size() > 1) sum = {builder_.Add("AddN", {InputArg{std::move(parts), true}}), 0};
    parts = {};
    return builder_.status();
  }

  Status Deliver(const Node& node, const GradientContext& context) {
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Output& grad = context.input_grads()[static_cast<size_t>(i)];
      if (!grad.IsSet() || !context.wants(i)) continue;
      const Edge* edge = node.in_edges()[static_cast<size_t>(i)];
      const DataType want = BaseType(node.input_type(i));
      if (want != DataType::kResource) {
        if (TypeOf(grad) != want) {
          return errors::Internal("the gradient of input ", i, " has type ", TypeOf(grad), ", wanted ", want);
        }
        // A gradient has the shape of its tensor, and both may be known only in part.
        const Status merged =
            shapes_.MergeOutput(*grad.node, grad.index, builder_.ShapeOf({edge->src, edge->src_output}));
        if (!merged.ok()) return merged.WithContext(StrCat("; gradient of input ", i));
      }
      contributions_[Slot(edge->src, edge->src_output)].push_back(grad);
    }
    return Status();
  }

  Graph& graph_;
  const std::vector<Output>& ys_;
  const std::vector<Output>& xs_;
  const GradientRegistry& registry_;
  const std::string scope_;
  const std::unique_ptr<ShapeRefiner> own_shapes_;
  ShapeRefiner& shapes_;
  GraphBuilder builder_;
  const size_t num_ids_;

  std::vector<Node*> ancestors_;
  // By node id.
  std::vector<bool> between_;
  std::vector<int> pending_;
  std::vector<int> first_output_;
  // By output slot.
  std::vector<std::vector<Output>> contributions_;
  std::vector<Output> sums_;
  std::deque<Node*> ready_;
};

}  // namespace

Status AddGradients(Graph* graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
                    const std::vector<Output>& grad_ys, const GradientOptions& options,
                    std::vector<Output>* grads) {
  grads->clear();
  if (!grad_ys.empty() && grad_ys.size() != ys.size()) {
    return errors::InvalidArgument("There are ", ys.size(), " ys and ", grad_ys.size(), " grad_ys");
  }
  for (const Output& y : ys) MR_RETURN_IF_ERROR(CheckOutput(*graph, y, "ys"));
  for (const Output& x : xs) MR_RETURN_IF_ERROR(CheckOutput(*graph, x, "xs"));
  const int first_new = graph->num_node_ids();
  Status status = Backprop(*graph, ys, xs, options).Run(grad_ys, grads);
  if (!status.ok()) {
    grads->clear();
    if (options.shapes == nullptr) graph->RemoveNodesFrom(first_new);
  }
  return status;
}

Status AddGradients(Graph* graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
                    const std::vector<Output>& grad_ys, std::vector<Output>* grads) {
  return AddGradients(graph, ys, xs, grad_ys, GradientOptions(), grads);
}

}  // namespace millrace
