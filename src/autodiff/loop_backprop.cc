// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The gradient of one loop as part of that of its level.
#include <algorithm>
#include <limits>

#include "autodiff/backprop.h"

namespace millrace {

struct Backprop::LoopWork {
  LoopWork(GraphBuilder& builder, const LoopForest& loops, Loop& l, GradientFrame& parent,
           const LoopGradient::Names& names)
      : loop(l), gradient(builder, loops, l, parent, names) {}

  Loop& loop;
  LoopGradient gradient;
  std::vector<bool> wanted;       // by variable of the loop
  std::vector<size_t> variables;  // its number in the backward loop
};

// The variables that influence, directly or through others, an output that has a gradient.
StatusOr<std::vector<bool>> Backprop::WantedVariables(const Loop& loop) {
  const size_t n = loop.variables.size();
  std::vector<bool> wanted(n, false);
  std::map<const Node*, size_t> by_split;
  std::vector<size_t> found;
  const auto want = [&](size_t i) {
    const Loop::Variable& v = loop.variables[i];
    if (wanted[i] || v.split == nullptr || !between_[Id(v.split)]) return;
    if (BaseType(v.enter->output_type(0)) == DataType::kResource) return;
    wanted[i] = true;
    found.push_back(i);
  };
  for (size_t i = 0; i < n; ++i) {
    const Loop::Variable& v = loop.variables[i];
    if (v.split != nullptr) by_split[v.split] = i;
    for (const Node* exit : v.exits) {
      if (between_[Id(exit)] && !stops_[Id(exit)] && sums_[Slot(exit, 0)].IsSet()) want(i);
    }
  }
  std::unordered_set<const Node*> seen;
  while (!found.empty()) {
    const Loop::Variable& v = loop.variables[found.back()];
    found.pop_back();
    if (!v.IsWhole() || !loop.condition.IsSet()) {
      return errors::InvalidArgument("The loop of node '", v.enter->name(),
                                     "' is not closed, so it has no gradient");
    }
    std::vector<const Node*> work = {v.next};
    while (!work.empty()) {
      const Node* node = work.back();
      work.pop_back();
      if (const auto it = by_split.find(node); it != by_split.end()) {
        want(it->second);
        continue;
      }
      if (IsEnter(*node) && loops_->LoopOf(*node) == &loop) continue;
      for (const Edge* edge : node->data_in_edges()) {
        if (edge == nullptr || Id(edge->src) >= num_ids_ || !between_[Id(edge->src)]) continue;
        if (Carries(node->input_type(edge->dst_input)) && seen.insert(edge->src).second)
          work.push_back(edge->src);
      }
    }
  }
  return wanted;
}

Status Backprop::Differentiate(Level& level, Loop& loop) {
  MR_ASSIGN_OR_RETURN(std::vector<bool> wanted, WantedVariables(loop));
  if (std::find(wanted.begin(), wanted.end(), true) != wanted.end()) {
    const Node& first = *loop.variables.front().enter;
    if (!loop.HasBackProp()) {
      return errors::InvalidArgument("No gradient defined for the loop of node '", first.name(),
                                     "': it was made with back_prop=False");
    }
    const size_t slash = first.name().rfind('/');
    const std::string name = slash == std::string::npos ? first.name() : first.name().substr(0, slash);
    SetScope(first, name + "_grad");
    LoopWork work(builder_, *loops_, loop, *level.frame,
                  {builder_.scope(), builder_.device(),
                   StrCat(computation_.name, "/", name, "_grad/", loop.frame_name)});
    work.wanted = std::move(wanted);
    work.gradient.Begin();
    MR_RETURN_IF_ERROR(BeginVariables(level, work));
    Level body{.loop = &loop, .frame = &work.gradient.frame(), .ready = {}, .done = 0};
    for (const Loop::Variable& v : loop.variables) {
      if (v.next != nullptr && between_[Id(v.next)]) {
        const Node* src = v.next->data_in_edges()[0]->src;
        if (between_[Id(src)] && Counts(*v.next->data_in_edges()[0])) --pending_[Id(src)];
      }
    }
    MR_RETURN_IF_ERROR(Walk(body));
    MR_RETURN_IF_ERROR(EndVariables(body, work));
    MR_RETURN_IF_ERROR(AccumulateConstants(body, work));
    MR_RETURN_IF_ERROR(work.gradient.End());
  }
  for (const Loop::Variable& v : loop.variables) {
    if (between_[Id(v.enter)]) Release(level, *v.enter);
  }
  for (const Node* enter : loop.constants) {
    if (Id(enter) < num_ids_ && between_[Id(enter)]) Release(level, *enter);
  }
  return Status();
}

// Zeros of a known shape, or of the shape of a tensor.
Output Backprop::ZerosOf(const Output& like, const PartialShape& shape, DataType dtype) {
  const auto is_huge = [](int64_t dim) { return dim > std::numeric_limits<int32_t>::max(); };
  if (dtype != DataType::kVariant && shape.IsFullyDefined() &&
      std::none_of(shape.dims().begin(), shape.dims().end(), is_huge)) {
    const std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    const Expr zero = Scalar(builder_, dtype, 0);
    return dims.empty() ? zero.output() : Fill(Vector(builder_, DataType::kInt32, dims), zero).output();
  }
  const Expr x(builder_, like);
  if (x.dtype() == DataType::kResource)
    return Fill(Op("VariableShape", x), Scalar(builder_, dtype, 0)).output();
  return ZerosLike(x).output();
}

// The gradients that arrived at the Exits, or zeros.
StatusOr<Output> Backprop::InitialGradient(Level& level, const Loop::Variable& variable) {
  std::vector<GradientValue> parts;
  for (Node* exit : variable.exits) {
    if (between_[Id(exit)] && !stops_[Id(exit)] && sums_[Slot(exit, 0)].IsSet())
      parts.push_back(sums_[Slot(exit, 0)]);
  }
  if (!parts.empty()) {
    const Output like{variable.exits[0], 0};
    return DenseGradient(builder_, Aggregate(like, std::move(parts)), like);
  }
  Output exit = variable.exits.empty() ? Output() : Output{variable.exits[0], 0};
  if (!exit.IsSet()) {
    builder_.SetPlace(level.frame->forward);
    exit = {builder_.Add("Exit", {InputArg{{Output{variable.split, 0}}, false}}), 0};
    builder_.SetPlace(level.frame->backward);
    MR_RETURN_IF_ERROR(builder_.status());
  }
  return ZerosOf(exit, shapes_.OutputShape(*exit.node, 0), BaseType(exit.node->output_type(0)));
}

Status Backprop::BeginVariables(Level& level, LoopWork& work) {
  work.variables.resize(work.loop.variables.size());
  for (size_t i = 0; i < work.loop.variables.size(); ++i) {
    if (!work.wanted[i]) continue;
    const Loop::Variable& v = work.loop.variables[i];
    SetPlace(level, *v.enter, v.enter->name() + "_grad");
    MR_ASSIGN_OR_RETURN(const Output initial, InitialGradient(level, v));
    MR_RETURN_IF_ERROR(builder_.status());
    work.variables[i] = work.gradient.AddVariable(initial, shapes_.OutputShape(*v.merge, 0));
    MR_RETURN_IF_ERROR(builder_.status());
    const Edge* next = v.next->data_in_edges()[0];
    if (between_[Id(next->src)]) {
      contributions_[Slot(next->src, next->src_output)].push_back(work.gradient.Value(work.variables[i]));
    }
  }
  return Status();
}

Status Backprop::EndVariables(Level& body, LoopWork& work) {
  for (size_t i = 0; i < work.loop.variables.size(); ++i) {
    if (!work.wanted[i]) continue;
    const Loop::Variable& v = work.loop.variables[i];
    SetPlace(body, *v.split, v.split->name() + "_grad");
    Output grad;
    if (between_[Id(v.split)]) {
      MR_RETURN_IF_ERROR(SumUp(*v.split, 1));
      grad = DenseSumOf({v.split, 1});
    }
    if (!grad.IsSet()) {
      const Output value = {v.split, 1};
      grad = ZerosOf(value, shapes_.OutputShape(*v.split, 1), BaseType(v.split->output_type(1)));
    }
    MR_RETURN_IF_ERROR(builder_.status());
    work.gradient.SetNext(work.variables[i], grad);
    Contribute(*v.enter, work.gradient.Result(work.variables[i]));
    MR_RETURN_IF_ERROR(builder_.status());
  }
  return Status();
}

// The gradient of a loop invariant is the sum of its gradients in all iterations.
Status Backprop::AccumulateConstants(Level& body, LoopWork& work) {
  for (Node* enter : work.loop.constants) {
    if (Id(enter) >= num_ids_ || !between_[Id(enter)]) continue;
    SetPlace(body, *enter, enter->name() + "_grad");
    MR_RETURN_IF_ERROR(SumUp(*enter, 0));
    const GradientValue grad = sums_[Slot(enter, 0)];
    if (!grad.IsSet() || stops_[Id(enter)]) continue;
    if (grad.IsSlices()) {
      MR_RETURN_IF_ERROR(AccumulateSlices(body, work, *enter, grad.slices));
    } else {
      MR_RETURN_IF_ERROR(AccumulateConstant(body, work, *enter, grad.dense));
    }
    MR_RETURN_IF_ERROR(builder_.status());
  }
  return Status();
}

Status Backprop::AccumulateConstant(Level& body, LoopWork& work, const Node& enter, const Output& grad) {
  const Edge* outside = enter.data_in_edges()[0];
  PartialShape shape = shapes_.OutputShape(enter, 0);
  if (BaseType(enter.output_type(0)) == DataType::kResource)
    shape = shapes_.OutputShape(*grad.node, grad.index);
  work.gradient.PlaceInParent();
  const Output zeros =
      ZerosOf({outside->src, outside->src_output}, shape, BaseType(grad.node->output_type(grad.index)));
  MR_RETURN_IF_ERROR(builder_.status());
  const size_t sum = work.gradient.AddVariable(zeros, shape);
  MR_RETURN_IF_ERROR(builder_.status());
  SetPlace(body, enter, enter.name() + "_grad");
  const Expr total = Op("AddN", {std::vector<Expr>{{builder_, work.gradient.Value(sum)}, {builder_, grad}}});
  MR_RETURN_IF_ERROR(builder_.status());
  work.gradient.SetNext(sum, total.output());
  Contribute(enter, work.gradient.Result(sum));
  return Status();
}

// The rows of all iterations one after another. They are kept in arrays until the end, so that the cost is
// that of the rows. Element 0 has no rows: it provides the shape if nothing else is written.
Status Backprop::AccumulateSlices(Level& body, LoopWork& work, const Node& enter, const IndexedSlices& grad) {
  const Edge* outside = enter.data_in_edges()[0];
  const Output like{outside->src, outside->src_output};
  const auto type_of = [](const Output& x) { return BaseType(x.node->output_type(x.index)); };
  work.gradient.PlaceInParent();
  const IndexedSlices none = NoSlices(builder_, like, type_of(grad.values), type_of(grad.indices));
  MR_RETURN_IF_ERROR(builder_.status());
  IndexedSlices all;
  all.dense_shape = none.dense_shape;
  const auto accumulate = [&](const Output& first, const Output& next, Output* result) -> Status {
    work.gradient.PlaceInParent();
    MR_ASSIGN_OR_RETURN(LoopGradient::Rows rows, work.gradient.BeginRows(first));
    SetPlace(body, enter, enter.name() + "_grad");
    work.gradient.AddRows(rows, next);
    *result = work.gradient.EndRows(rows, shapes_.OutputShape(*next.node, next.index));
    return builder_.status();
  };
  MR_RETURN_IF_ERROR(accumulate(none.values, grad.values, &all.values));
  MR_RETURN_IF_ERROR(accumulate(none.indices, grad.indices, &all.indices));
  Contribute(enter, all);
  return Status();
}

}  // namespace millrace
