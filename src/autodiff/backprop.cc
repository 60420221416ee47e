// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/backprop.h"

#include <algorithm>
#include <utility>

#include "graph/function_library.h"

namespace millrace {
namespace {

DataType TypeOf(const Output& tensor) { return BaseType(tensor.node->output_type(tensor.index)); }

std::string NameOf(const Output& tensor) { return TensorId{tensor.node->name(), tensor.index}.ToString(); }

}  // namespace

bool CarriesGradient(DataType type) {
  const DataType base = BaseType(type);
  return IsFloatingType(base) || IsComplexType(base) || base == DataType::kResource ||
         base == DataType::kVariant;
}

std::vector<std::string> ColocationOf(const Node& node) {
  const auto classes = node.Attr<std::vector<std::string>>("_class");
  if (classes.ok() && !classes->empty()) return *classes;
  return {StrCat("loc:@", node.name())};
}

Backprop::Backprop(Graph& graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
                   const GradientOptions& options, std::string scope, std::string unique_scope)
    : graph_(graph),
      ys_(ys),
      xs_(xs),
      options_(options),
      registry_(options.registry != nullptr ? *options.registry : GradientRegistry::Global()),
      scope_(std::move(scope)),
      computation_{.name = std::move(unique_scope),
                   .device = options.device.value_or(""),
                   .colocate = options.colocate},
      own_shapes_(options.shapes == nullptr ? std::make_unique<ShapeRefiner>(graph) : nullptr),
      shapes_(own_shapes_ != nullptr ? *own_shapes_ : *options.shapes),
      builder_(graph, shapes_),
      num_ids_(static_cast<size_t>(graph.num_node_ids())) {
  if (options.names == GradientNames::kPython) builder_.UsePythonNames();
}

Status Backprop::Run(const std::vector<GradientValue>& grad_ys, bool dense,
                     std::vector<GradientValue>* grads) {
  CollectAncestors();
  if (own_shapes_ != nullptr) {
    for (const Node* node : ancestors_) MR_RETURN_IF_ERROR(shapes_.AddNode(*node));
  }
  stops_.assign(num_ids_, false);
  for (const Output& stop : options_.stop_gradients) stops_[Id(stop.node)] = true;
  MarkBetween();
  MR_RETURN_IF_ERROR(FindLevels());
  CountConsumers();
  base_frame_.backward = base_frame_.forward = {nullptr, BasePivot()};
  MR_RETURN_IF_ERROR(SeedYs(grad_ys));
  Level base{.loop = base_, .frame = &base_frame_, .ready = {}, .done = 0};
  MR_RETURN_IF_ERROR(Walk(base));
  MR_RETURN_IF_ERROR(LeaveBase());
  MR_RETURN_IF_ERROR(Finish(dense, grads));
  return builder_.status();
}

Status Backprop::Finish(bool dense, std::vector<GradientValue>* grads) {
  builder_.SetPlace(base_frame_.backward);
  std::map<std::pair<const Node*, int>, GradientValue> results;
  for (const Output& x : xs_) {
    GradientValue grad = SumOf(x);
    const bool missing = !grad.IsSet() && options_.zeros;
    if ((dense && grad.IsSlices()) || missing) {
      GradientValue& result = results[{x.node, x.index}];
      if (!result.IsSet()) {
        SetScope(*x.node);
        if (missing && own_shapes_ != nullptr) MR_RETURN_IF_ERROR(ShapesBehind(x.node));
        result = missing ? ZerosLike(Expr(builder_, x)).output() : DenseGradient(builder_, grad, x);
      }
      grad = result;
    }
    MR_RETURN_IF_ERROR(builder_.status());
    grads->push_back(grad);
  }
  return Status();
}

bool Backprop::Carries(DataType type) const {
  return CarriesGradient(type) || (options_.integers && IsIntegerType(BaseType(type)));
}

// All ancestors of the ys, inputs before consumers except in loops.
void Backprop::CollectAncestors() {
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

// A node is between if it is a y or an ancestor of one, and outputs an x or is computed from one along a path
// that gradients flow through.
void Backprop::MarkBetween() {
  std::vector<bool> ancestor(num_ids_, false);
  for (const Node* node : ancestors_) ancestor[Id(node)] = true;
  between_.assign(num_ids_, false);
  std::vector<bool> seen(num_ids_, false);
  std::vector<const Node*> work;
  const auto reach = [&](const Edge* edge) {
    const Node* node = edge->dst;
    if (edge->IsControl() || Id(node) >= num_ids_ || !ancestor[Id(node)] || seen[Id(node)]) return;
    if (!Carries(node->input_type(edge->dst_input))) return;
    seen[Id(node)] = true;
    if (stops_[Id(node)] || IsNotDifferentiable(*node)) return;
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

bool Backprop::IsNotDifferentiable(const Node& node) const {
  const auto entry = registry_.LookUpFor(node);
  return entry.ok() && (*entry)->fn == nullptr && MayBeNotDifferentiable(node);
}

bool Backprop::MayBeNotDifferentiable(const Node& node) const {
  return options_.not_differentiable == nullptr || options_.not_differentiable->contains(node.op_name());
}

// The loop level of each node between. Gradients of nodes outside the loop of the ys cannot be computed
// inside it, except for constants that enter the loop.
Status Backprop::FindLevels() {
  if (std::any_of(ancestors_.begin(), ancestors_.end(), [](const Node* n) { return IsEnter(*n); })) {
    loops_ = std::make_unique<LoopForest>(graph_);
  }
  const auto level_of = [this](const Node& node) {
    return loops_ == nullptr ? nullptr : loops_->LoopOf(node);
  };
  const Node* first = nullptr;
  for (const Output& y : ys_) {
    if (!between_[Id(y.node)]) continue;
    if (first == nullptr) first = y.node;
    base_ = level_of(*first);
    if (level_of(*y.node) != base_) {
      return errors::InvalidArgument("Gradients of '", first->name(), "' and '", y.node->name(),
                                     "' can't be added up: they are not in the same while loop");
    }
  }
  std::vector<bool> is_x(num_ids_, false);
  for (const Output& x : xs_) is_x[Id(x.node)] = true;
  const auto within = [this](const Loop* loop) {
    while (loop != nullptr && loop != base_) loop = loop->parent;
    return loop == base_;
  };
  for (Node* node : ancestors_) {
    if (!between_[Id(node)]) continue;
    Loop* const loop = level_of(*node);
    const bool frame_node = loops_ != nullptr && loops_->IsFrameNode(*node);
    if (loop != base_ && is_x[Id(node)] && within(loop)) {
      return errors::InvalidArgument("Cannot compute the gradient with respect to '", node->name(),
                                     "' because it is ", "in a while loop that the ys are not in.");
    }
    if (!within(loop) && !is_x[Id(node)] && !frame_node) {
      return errors::Unimplemented("Gradients within a while loop do not reach '", node->name(), "' outside");
    }
    if (frame_node) continue;
    level_nodes_[loop].push_back(node);
  }
  if (loops_ == nullptr) return Status();
  for (const auto& loop : loops_->loops()) {
    if (loop.get() == base_) {
      for (const Loop::Variable& variable : loop->variables) base_frame_.boundary.insert(variable.enter);
      base_frame_.boundary.insert(loop->constants.begin(), loop->constants.end());
    }
    if (loop.get() == base_ || !within(loop.get())) continue;
    const auto between = [this](const Node* node) {
      return node != nullptr && Id(node) < num_ids_ && between_[Id(node)];
    };
    bool any = std::any_of(loop->constants.begin(), loop->constants.end(), between);
    int exits = 0;
    for (const Loop::Variable& variable : loop->variables) {
      any = any || between(variable.enter);
      exits += static_cast<int>(std::count_if(variable.exits.begin(), variable.exits.end(), between));
    }
    if (!any && exits == 0) continue;
    if (loop->depth > kMaxLoopDepth)
      return errors::Unimplemented("Gradients of loops nested deeper than ", kMaxLoopDepth);
    inner_[loop->parent].push_back(loop.get());
    pending_exits_[loop.get()] = exits;
  }
  return Status();
}

// In a loop, constants run in every iteration, like all other nodes there.
Node* Backprop::BasePivot() const {
  if (base_ == nullptr) return nullptr;
  for (const Loop::Variable& variable : base_->variables) {
    if (variable.split == nullptr) continue;
    for (const Edge* edge : variable.split->out_edges()) {
      if (edge->src_output == 1 && edge->dst->IsOp() && edge->dst->op_name() == "Identity") return edge->dst;
    }
  }
  return base_->variables.empty() ? nullptr : base_->variables.front().merge;
}

// Whether the node at the end of the edge, which is between, must be processed before the node at its
// beginning.
bool Backprop::Counts(const Edge& edge) const {
  if (loops_ == nullptr) return true;
  const Node& dst = *edge.dst;
  if (loops_->IsFrameNode(*edge.src)) return false;
  if (!loops_->IsFrameNode(dst)) return !IsExit(dst);
  const Loop* const loop = loops_->LoopOf(dst);
  return (IsEnter(dst) || IsNextIteration(dst)) && loop != base_;
}

// A node is ready once all its consumers between have passed their gradients on.
void Backprop::CountConsumers() {
  pending_.assign(num_ids_, 0);
  first_output_.assign(num_ids_, 0);
  int outputs = 0;
  for (const Node* node : ancestors_) {
    if (!between_[Id(node)]) continue;
    first_output_[Id(node)] = outputs;
    outputs += node->num_outputs();
    for (const Edge* edge : node->data_in_edges()) {
      if (edge != nullptr && between_[Id(edge->src)] && Counts(*edge)) ++pending_[Id(edge->src)];
    }
  }
  contributions_.resize(static_cast<size_t>(outputs));
  sums_.resize(static_cast<size_t>(outputs));
}

Status Backprop::CheckSeed(const GradientValue& grad, const Output& y) {
  const IndexedSlices& slices = grad.slices;
  for (const Output& part : {grad.dense, slices.values, slices.indices, slices.dense_shape}) {
    if (!part.IsSet()) continue;
    MR_RETURN_IF_ERROR(CheckOutput(graph_, part, "grad_ys"));
    if (own_shapes_ != nullptr) MR_RETURN_IF_ERROR(ShapesBehind(part.node));
  }
  const Output& values = grad.values();
  if (TypeOf(values) != TypeOf(y) && TypeOf(y) != DataType::kResource) {
    return errors::InvalidArgument("Gradient '", NameOf(values), "' for '", NameOf(y), "' has type ",
                                   TypeOf(values), ", expected ", TypeOf(y));
  }
  if (!grad.IsSlices()) return Status();
  const DataType indices = slices.indices.IsSet() ? TypeOf(slices.indices) : DataType::kInvalid;
  if (indices == DataType::kInt32 || indices == DataType::kInt64) return Status();
  return errors::InvalidArgument("The slices given for '", NameOf(y), "' have no integer indices");
}

// Ones.
Output Backprop::FirstGradient(const Output& y, size_t number) {
  const Expr value(builder_, y);
  switch (options_.names) {
    case GradientNames::kOp:
      return Op("OnesLike", value).output();
    case GradientNames::kPython: {
      const auto shape = value.shape().ToTensorShape();
      Expr dims;
      if (shape.ok()) {
        dims = Vector(builder_, DataType::kInt32, {shape->dims().begin(), shape->dims().end()}, "Shape");
      } else {
        dims = Op("Shape", value);
      }
      return Fill(dims, Scalar(builder_, value.dtype(), 1, StrCat("grad_ys_", number))).output();
    }
    case GradientNames::kNode:
      break;
  }
  const Expr one = ScalarLike(value, 1);
  return (value.shape().rank() == 0 ? one : Fill(ShapeOf(value), one)).output();
}

Status Backprop::SeedYs(const std::vector<GradientValue>& grad_ys) {
  for (size_t i = 0; i < ys_.size(); ++i) {
    const Output& y = ys_[i];
    GradientValue grad = i < grad_ys.size() ? grad_ys[i] : GradientValue();
    if (grad.IsSet()) MR_RETURN_IF_ERROR(CheckSeed(grad, y));
    if (!Carries(TypeOf(y)) || !between_[Id(y.node)]) continue;
    if (!grad.IsSet()) {
      if (TypeOf(y) == DataType::kResource || TypeOf(y) == DataType::kVariant) continue;  // none is one
      if (IsComplexType(TypeOf(y))) {
        return errors::InvalidArgument(
            "Gradients of complex tensors must set grad_ys (y.dtype = ", DataTypeName(TypeOf(y)), ")");
      }
      SetScope(*y.node);
      builder_.SetPlace(base_frame_.backward);
      grad = FirstGradient(y, i);
      MR_RETURN_IF_ERROR(builder_.status());
    }
    contributions_[Slot(y.node, y.index)].push_back(grad);
  }
  return Status();
}

// The nodes from which a given gradient is computed need not be ancestors of a y.
Status Backprop::ShapesBehind(Node* node) {
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

void Backprop::SetScope(const Node& node, const std::string& what) {
  const bool flat = what.empty() || options_.names == GradientNames::kOp;
  builder_.SetScope(flat ? scope_ : StrCat(scope_, "/", what),
                    options_.device.has_value() ? *options_.device : node.requested_device());
  if (options_.colocate) builder_.SetColocation(ColocationOf(node));
}

void Backprop::SetPlace(const Level& level, const Node& node, const std::string& what) {
  SetScope(node, what);
  builder_.SetPlace(level.frame->backward);
}

Status Backprop::Walk(Level& level) {
  const std::vector<Node*>& nodes = level_nodes_[level.loop];
  for (Node* node : nodes) {
    if (pending_[Id(node)] == 0) level.ready.push_back(node);
  }
  for (Loop* loop : inner_[level.loop]) {
    if (pending_exits_[loop] == 0) MR_RETURN_IF_ERROR(Differentiate(level, *loop));
  }
  while (!level.ready.empty()) {
    Node* node = level.ready.front();
    level.ready.pop_front();
    ++level.done;
    MR_RETURN_IF_ERROR(Visit(level, *node));
    if (loops_ != nullptr && IsExit(*node)) {
      Loop* const loop = loops_->LoopOf(*node->data_in_edges()[0]->src);
      const auto it = pending_exits_.find(loop);
      if (it != pending_exits_.end() && --it->second == 0) MR_RETURN_IF_ERROR(Differentiate(level, *loop));
    } else {
      Release(level, *node);
    }
  }
  if (level.done == nodes.size()) return Status();
  for (const Node* node : nodes) {
    if (pending_[Id(node)] > 0) {
      return errors::InvalidArgument("The gradient of node '", node->name(), "' (op ", node->op_name(),
                                     ") depends on itself: the node is part of a cycle that is not a loop");
    }
  }
  return errors::Internal("gradients did not reach every node");
}

// The node's gradients have been passed on.
void Backprop::Release(Level& level, const Node& node) {
  for (const Edge* edge : node.data_in_edges()) {
    // A gradient function may have given a loop more inputs.
    if (edge == nullptr || Id(edge->src) >= num_ids_ || !between_[Id(edge->src)] || !Counts(*edge)) continue;
    if (--pending_[Id(edge->src)] == 0) level.ready.push_back(edge->src);
  }
}

// Gradients of loop invariants of the ys' loop are those of the tensors outside.
Status Backprop::LeaveBase() {
  for (Loop* loop = base_; loop != nullptr; loop = loop->parent) {
    for (Node* enter : loop->constants) {
      if (Id(enter) >= num_ids_ || !between_[Id(enter)]) continue;
      SetScope(*enter);
      builder_.SetPlace(base_frame_.backward);
      MR_RETURN_IF_ERROR(SumUp(*enter, 0));
      if (sums_[Slot(enter, 0)].IsSet()) Contribute(*enter, sums_[Slot(enter, 0)]);
    }
  }
  if (base_ == nullptr) return Status();
  for (const Output& x : xs_) {
    if (between_[Id(x.node)] && !sums_[Slot(x.node, x.index)].IsSet())
      MR_RETURN_IF_ERROR(SumUp(*x.node, x.index));
  }
  return Status();
}

// Adds to the gradient of the tensor that enters the loop.
void Backprop::Contribute(const Node& enter, const GradientValue& grad) {
  const Edge* edge = enter.data_in_edges()[0];
  if (edge != nullptr && between_[Id(edge->src)])
    contributions_[Slot(edge->src, edge->src_output)].push_back(grad);
}

// Sums up the gradients of the node's outputs and propagates the results of its gradient function.
Status Backprop::Visit(Level& level, Node& node) {
  SetPlace(level, node);
  std::vector<GradientValue> grads(static_cast<size_t>(node.num_outputs()));
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
    if (edge == nullptr || !between_[Id(edge->src)] || !Carries(node.input_type(i))) continue;
    wanted[static_cast<size_t>(i)] = any_wanted = true;
  }
  if (!any || !any_wanted || IsExit(node) || stops_[Id(&node)]) return Status();
  const Status status = CallGradient(level, node, std::move(grads), wanted);
  return status.WithContext(
      StrCat("; in the gradient of node '", node.name(), "' (op ", node.op_name(), ")"));
}

Status Backprop::CallGradient(Level& level, Node& node, std::vector<GradientValue> grads,
                              const std::vector<bool>& wanted) {
  const auto entry = registry_.LookUpFor(node);
  if (!entry.ok() && options_.names == GradientNames::kPython) {
    return errors::NotFound("No gradient defined for operation '", node.name(),
                            "' (op type: ", node.op_name(), ")");
  }
  MR_RETURN_IF_ERROR(entry.status());
  if ((*entry)->fn == nullptr) {
    return MayBeNotDifferentiable(node) ? Status()
                                        : errors::NotFound("No gradient defined for op: ", node.op_name());
  }
  SetPlace(level, node, node.name() + "_grad");
  GradientContext::Computation computation = computation_;
  computation.device = builder_.device();
  GradientContext context(builder_, node, std::move(grads), wanted, computation);
  Status status = (*entry)->fn(context);
  status.Update(builder_.status());
  MR_RETURN_IF_ERROR(status);
  SetPlace(level, node, node.name() + "_grad");
  std::vector<GradientValue> input_grads = context.input_grads();
  KeepInBranch(level, node, &input_grads);
  if (options_.gate) input_grads = Gate(node, std::move(input_grads));
  MR_RETURN_IF_ERROR(builder_.status());
  return Deliver(node, std::move(input_grads), wanted);
}

Status Backprop::Deliver(const Node& node, std::vector<GradientValue> grads,
                         const std::vector<bool>& wanted) {
  for (int i = 0; i < static_cast<int>(wanted.size()); ++i) {
    const GradientValue& grad = grads[static_cast<size_t>(i)];
    if (!grad.IsSet() || !wanted[static_cast<size_t>(i)]) continue;
    const Edge* edge = node.in_edges()[static_cast<size_t>(i)];
    const DataType want = BaseType(node.input_type(i));
    if (want != DataType::kResource) {
      const Output& values = grad.values();
      if (TypeOf(values) != want) {
        return errors::Internal("the gradient of input ", i, " has type ", TypeOf(values), ", expected ",
                                want);
      }
      // A gradient has the shape of its tensor, and both may be known only in part.
      PartialShape shape = builder_.ShapeOf({edge->src, edge->src_output});
      if (grad.IsSlices() && !shape.unknown_rank()) {
        std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
        if (dims.empty())
          return errors::InvalidArgument("the gradient of input ", i, ", a scalar, is slices");
        dims[0] = -1;
        shape = PartialShape(std::move(dims));
      }
      const Status merged = shapes_.MergeOutput(*values.node, values.index, shape);
      if (!merged.ok()) return merged.WithContext(StrCat("; gradient of input ", i));
    }
    contributions_[Slot(edge->src, edge->src_output)].push_back(grad);
  }
  return Status();
}

}  // namespace millrace
