// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/control_flow.h"

#include <optional>

#include "cc/control_flow_context.h"
#include "op/op_builder.h"

namespace millrace {
namespace {

// Output 0 of a node that any op makes; unset after an error, which is in the scope.
Output AddOp(const Scope& scope, const char* op, const char* name, const std::vector<Input>& inputs) {
  const Scope named = scope.WithOpName(name);
  OpMaker maker(named, op, {});
  for (const Input& input : inputs) maker.Add(input);
  maker.Finish();
  return maker.output(0);
}

Output Identity(const Scope& scope, const char* name, const Output& x) {
  return AddOp(scope, "Identity", name, {x});
}

// The type of a tensor as an output of a branch or loop.
DataType ValueType(const Output& tensor) { return Scope::TypeOf(tensor); }

bool IsNoWiderThan(const PartialShape& shape, const PartialShape& bound) {
  if (bound.unknown_rank()) return true;
  if (shape.unknown_rank() || shape.rank() != bound.rank()) return false;
  for (int i = 0; i < bound.rank(); ++i) {
    if (bound.dim(i) != -1 && shape.dim(i) != bound.dim(i)) return false;
  }
  return true;
}

}  // namespace

// Builds one branch or loop: nodes under scopes with a context.
class [[gnu::visibility("hidden")]] ControlFlowBuilder {
 public:
  ControlFlowBuilder(const Scope& scope, const std::string& name)
      : outer_(scope.WithNoControlDependencies()), state_(scope.state()), controls_(scope.controls_) {
    const std::string& own = scope.op_name();
    outer_ = outer_.WithNoColocation().NewSubScope(own.empty() ? name : own);
  }

  std::vector<Output> BuildCond(const Input& pred, const BranchFn& then_fn, const BranchFn& else_fn);
  std::vector<Output> BuildWhile(const std::vector<Input>& loop_vars, const LoopCondFn& cond,
                                 const LoopBodyFn& body, const WhileOptions& options);

 private:
  struct Pivots {
    Output pred;
    Output taken[2];  // by branch
  };
  std::vector<Output> Branch(const Pivots& pivots, int branch, const BranchFn& fn);
  Status Merge(const std::vector<Output>& else_results, const std::vector<Output>& then_results,
               std::vector<Output>* merged);

  Status EnterAll(LoopContext & context, const std::vector<Input>& loop_vars, const WhileOptions& options);
  StatusOr<Output> Condition(const Scope& inside, LoopContext& context, const LoopCondFn& cond);
  Status SwitchAll(LoopContext & context, const Output& loop_cond);
  Status CloseLoop(const Scope& inside, LoopContext& context, const std::vector<Output>& results,
                   bool given_shapes);
  Status CheckInvariant(const Output& merge, const Output& next, bool given_shapes) const;
  StatusOr<std::vector<Output>> ExitAll(bool back_prop);
  Status AddCounter(const WhileOptions& options, std::vector<Input>* loop_vars, LoopCondFn* cond,
                    LoopBodyFn* body) const;

  // A node with that last name, outside of all checks of the scopes.
  StatusOr<Node*> Add(const char* name, const char* op, const std::vector<InputArg>& inputs,
                      AttrMap attrs = {}) {
    MR_ASSIGN_OR_RETURN(const std::string device, outer_.DeviceOf(op, attrs));
    return AddCheckedNode(state_.graph, state_.shapes, state_.UniqueName(StrCat(outer_.path(), "/", name)),
                          op, inputs, std::move(attrs), device);
  }
  Scope Inside(const std::shared_ptr<Scope::Context>& context) const {
    Scope inside = outer_;
    inside.context_ = context;
    return inside;
  }
  // The scope of nodes with the caller's control dependencies.
  Scope Waiting() const {
    Scope waiting = outer_;
    waiting.controls_ = controls_;
    return waiting;
  }

  Scope outer_;
  Scope::State& state_;
  const std::vector<Node*> controls_;
  // For each variable of a loop.
  std::vector<Output> enters_, merges_, exits_, bodies_;
};

std::vector<Output> ControlFlowBuilder::Branch(const Pivots& pivots, int branch, const BranchFn& fn) {
  const auto context = std::make_shared<BranchContext>(state_, outer_.context_, pivots.pred,
                                                       pivots.taken[branch].node, branch);
  state_.all_contexts.push_back(context);
  context->Own(pivots.taken[branch].node);
  const Scope inside = Inside(context);
  std::vector<Output> results = fn(inside);
  for (Output& result : results) {
    if (!outer_.ok()) return {};
    if (!result.IsSet()) {
      outer_.UpdateStatus(errors::InvalidArgument("a result of a branch of '", outer_.path(), "' is unset"));
      return {};
    }
    auto captured = context->Capture(result, outer_.path());
    if (!captured.ok()) {
      outer_.UpdateStatus(captured.status());
      return {};
    }
    result = *captured;
  }
  return results;
}

Status ControlFlowBuilder::Merge(const std::vector<Output>& else_results,
                                 const std::vector<Output>& then_results, std::vector<Output>* merged) {
  if (else_results.size() != then_results.size()) {
    return errors::InvalidArgument("true_fn and false_fn must return the same number of outputs: ",
                                   then_results.size(), " and ", else_results.size());
  }
  for (size_t i = 0; i < then_results.size(); ++i) {
    if (ValueType(then_results[i]) != ValueType(else_results[i])) {
      return errors::InvalidArgument("Outputs of true_fn and false_fn must have the same type: ",
                                     DataTypeName(ValueType(then_results[i])), ", ",
                                     DataTypeName(ValueType(else_results[i])));
    }
    MR_ASSIGN_OR_RETURN(Node * node,
                        Add("Merge", "Merge", {InputArg{{else_results[i], then_results[i]}, true}}));
    if (outer_.context_ != nullptr) outer_.context_->Own(node);
    merged->push_back({node, 0});
  }
  return Status();
}

std::vector<Output> ControlFlowBuilder::BuildCond(const Input& pred, const BranchFn& then_fn,
                                                  const BranchFn& else_fn) {
  const Scope waiting = Waiting();
  const Output given =
      pred.literal() == nullptr ? pred.output() : ops::Const(outer_.WithOpName("pred"), *pred.literal());
  if (outer_.ok() && ValueType(given) != DataType::kBool) {
    outer_.UpdateStatus(errors::InvalidArgument("pred of '", outer_.path(), "' must be a bool, got ",
                                                DataTypeName(ValueType(given))));
  }
  const Output sides = AddOp(waiting, "Switch", "Switch", {given, given});
  Pivots pivots;
  pivots.taken[1] = Identity(outer_, "switch_t", {sides.node, 1});
  pivots.taken[0] = Identity(outer_, "switch_f", {sides.node, 0});
  pivots.pred = Identity(waiting, "pred_id", given);
  if (!outer_.ok()) return {};
  const std::vector<Output> then_results = Branch(pivots, 1, then_fn);
  const std::vector<Output> else_results = Branch(pivots, 0, else_fn);
  if (!outer_.ok()) return {};
  std::vector<Output> merged;
  const Status status = Merge(else_results, then_results, &merged);
  outer_.UpdateStatus(status);
  return status.ok() ? merged : std::vector<Output>();
}

Status ControlFlowBuilder::EnterAll(LoopContext& context, const std::vector<Input>& loop_vars,
                                    const WhileOptions& options) {
  const Scope waiting = Waiting();
  for (size_t i = 0; i < loop_vars.size(); ++i) {
    Output value = loop_vars[i].literal() == nullptr ? loop_vars[i].output()
                                                     : ops::Const(outer_, *loop_vars[i].literal());
    MR_RETURN_IF_ERROR(outer_.status());
    if (!value.IsSet())
      return errors::InvalidArgument("loop variable ", i, " of '", outer_.path(), "' is unset");
    if (outer_.context_ != nullptr) {
      MR_ASSIGN_OR_RETURN(value, outer_.context_->Capture(value, outer_.path()));
    }
    MR_RETURN_IF_ERROR(state_.CheckUse(value, outer_.context_.get(), outer_.path()));
    const PartialShape shape = outer_.ShapeOf(value);
    PartialShape invariant = shape;
    if (!options.shape_invariants.empty()) {
      invariant = options.shape_invariants[i];
      if (!IsNoWiderThan(shape, invariant)) {
        return errors::InvalidArgument(
            "The shape invariant specified for ", Scope::NameOf(value),
            " is not compatible with the initial shape of the loop variable. It enters the "
            "loop with shape ",
            shape, ", but the specified shape invariant is ", invariant, ".");
      }
    }
    MR_ASSIGN_OR_RETURN(const Output enter, context.Enter(value, StrCat(outer_.path(), "/Enter"), false));
    for (Node* control : controls_) {
      Node* const gate = outer_.context_ == nullptr ? control : outer_.context_->Gate(control);
      state_.graph.AddControlEdge(gate, enter.node);
    }
    MR_RETURN_IF_ERROR(state_.shapes.MergeOutput(*enter.node, 0, invariant));
    enters_.push_back(enter);
  }
  for (const Output& enter : enters_) {
    // The second input will be the NextIteration.
    MR_ASSIGN_OR_RETURN(Node * merge, Add("Merge", "Merge", {InputArg{{enter, enter}, true}}));
    context.Own(merge);
    merges_.push_back({merge, 0});
  }
  return Status();
}

StatusOr<Output> ControlFlowBuilder::Condition(const Scope& inside, LoopContext& context,
                                               const LoopCondFn& cond) {
  context.set_pivot(merges_[0].node);
  const Output goes_on = cond(inside, merges_);
  MR_RETURN_IF_ERROR(outer_.status());
  if (!goes_on.IsSet()) return errors::InvalidArgument("the condition of '", outer_.path(), "' is unset");
  if (ValueType(goes_on) != DataType::kBool) {
    return errors::InvalidArgument("the condition of '", outer_.path(), "' must be a bool, got ",
                                   DataTypeName(ValueType(goes_on)));
  }
  const Output loop_cond = AddOp(inside, "LoopCond", "LoopCond", {goes_on});
  MR_RETURN_IF_ERROR(outer_.status());
  return loop_cond;
}

Status ControlFlowBuilder::SwitchAll(LoopContext& context, const Output& loop_cond) {
  for (const Output& merge : merges_) {
    AttrMap attrs;
    attrs.Set("_class", std::vector<std::string>{StrCat("loc:@", merge.node->name())});
    MR_ASSIGN_OR_RETURN(
        Node * sides,
        Add("Switch", "Switch", {InputArg{{merge}, false}, InputArg{{loop_cond}, false}}, std::move(attrs)));
    context.Own(sides);
    exits_.push_back({sides, 0});
    bodies_.push_back({sides, 1});
  }
  for (Output& body : bodies_) {
    MR_ASSIGN_OR_RETURN(Node * identity, Add("Identity", "Identity", {InputArg{{body}, false}}));
    context.Own(identity);
    body = {identity, 0};
  }
  context.set_pivot(bodies_[0].node);
  return Status();
}

Status ControlFlowBuilder::CheckInvariant(const Output& merge, const Output& next, bool given_shapes) const {
  const PartialShape before = outer_.ShapeOf(merge);
  const PartialShape after = outer_.ShapeOf(next);
  if (IsNoWiderThan(after, before)) return Status();
  return errors::InvalidArgument(
      "The shape for ", Scope::NameOf(merge),
      " is not an invariant for the loop. It enters the loop with shape ", before, ", but has shape ", after,
      " after one iteration. ",
      given_shapes
          ? "The shape invariants must hold after every iteration."
          : "Provide shape invariants using either the `shape_invariants` argument of tf.while_loop or "
            "set_shape() on the loop variables.");
}

Status ControlFlowBuilder::CloseLoop(const Scope& inside, LoopContext& context,
                                     const std::vector<Output>& results, bool given_shapes) {
  MR_RETURN_IF_ERROR(outer_.status());
  if (results.size() != merges_.size()) {
    return errors::InvalidArgument("The number of loop variables of '", outer_.path(), "' is ",
                                   merges_.size(), ", but the body returned ", results.size());
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].IsSet())
      return errors::InvalidArgument("result ", i, " of the body of '", outer_.path(), "' is unset");
    const Output next = AddOp(inside, "NextIteration", "NextIteration", {results[i]});
    MR_RETURN_IF_ERROR(outer_.status());
    const Output& merge = merges_[i];
    if (ValueType(next) != ValueType(merge)) {
      return errors::InvalidArgument("Input 1 of node ", merge.node->name(), " was passed ",
                                     DataTypeName(ValueType(next)), " from ", next.node->name(),
                                     ":0 incompatible with expected ", DataTypeName(ValueType(merge)), ".");
    }
    MR_RETURN_IF_ERROR(CheckInvariant(merge, next, given_shapes));
    state_.graph.UpdateInput(merge.node, 1, next.node, 0);
  }
  context.set_pivot(bodies_[0].node);
  return Status();
}

StatusOr<std::vector<Output>> ControlFlowBuilder::ExitAll(bool back_prop) {
  std::vector<Output> results;
  for (const Output& side : exits_) {
    AttrMap attrs;
    if (!back_prop) attrs.Set("_back_prop", false);
    MR_ASSIGN_OR_RETURN(Node * exit, Add("Exit", "Exit", {InputArg{{side}, false}}, std::move(attrs)));
    if (outer_.context_ != nullptr) outer_.context_->Own(exit);
    results.push_back({exit, 0});
  }
  return results;
}

// maximum_iterations: one more variable in front, which counts.
Status ControlFlowBuilder::AddCounter(const WhileOptions& options, std::vector<Input>* loop_vars,
                                      LoopCondFn* cond, LoopBodyFn* body) const {
  const Input& bound = *options.maximum_iterations;
  const Output limit = bound.literal() == nullptr
                           ? bound.output()
                           : ops::Const(outer_.WithOpName("maximum_iterations"), *bound.literal());
  MR_RETURN_IF_ERROR(outer_.status());
  const DataType type = ValueType(limit);
  if (type != DataType::kInt32 && type != DataType::kInt64) {
    return errors::InvalidArgument("maximum_iterations must be an int32 or int64, got ", DataTypeName(type));
  }
  const PartialShape shape = outer_.ShapeOf(limit);
  if (!shape.unknown_rank() && shape.rank() != 0) {
    return errors::InvalidArgument("maximum_iterations must be a scalar, saw shape: ", shape);
  }
  const auto number = [type](int64_t value) {
    return type == DataType::kInt32 ? Literal(static_cast<int32_t>(value)) : Literal(value);
  };
  loop_vars->insert(loop_vars->begin(), Input(ops::Const(outer_.WithOpName("iteration_counter"), number(0))));
  *cond = [limit, inner = *cond](const Scope& s, const std::vector<Output>& vars) {
    const Output goes_on = inner(s, {vars.begin() + 1, vars.end()});
    return AddOp(s, "LogicalAnd", "LogicalAnd", {AddOp(s, "Less", "Less", {vars[0], limit}), goes_on});
  };
  *body = [number, inner = *body](const Scope& s, const std::vector<Output>& vars) {
    std::vector<Output> results = inner(s, {vars.begin() + 1, vars.end()});
    results.insert(results.begin(), AddOp(s, "Add", "add", {vars[0], Input(number(1))}));
    return results;
  };
  return Status();
}

std::vector<Output> ControlFlowBuilder::BuildWhile(const std::vector<Input>& loop_vars,
                                                   const LoopCondFn& cond, const LoopBodyFn& body,
                                                   const WhileOptions& options) {
  const auto build = [&]() -> StatusOr<std::vector<Output>> {
    MR_RETURN_IF_ERROR(outer_.status());
    if (loop_vars.empty()) return errors::InvalidArgument("No loop variables provided");
    if (options.parallel_iterations <= 0) {
      return errors::InvalidArgument("parallel_iterations must be a positive integer.");
    }
    WhileOptions all = options;
    if (!all.shape_invariants.empty() && all.shape_invariants.size() != loop_vars.size()) {
      return errors::InvalidArgument("There are ", loop_vars.size(), " loop variables and ",
                                     all.shape_invariants.size(), " shape invariants");
    }
    std::vector<Input> vars = loop_vars;
    LoopCondFn goes_on = cond;
    LoopBodyFn next = body;
    if (options.maximum_iterations.has_value()) {
      MR_RETURN_IF_ERROR(AddCounter(options, &vars, &goes_on, &next));
      if (!all.shape_invariants.empty())
        all.shape_invariants.insert(all.shape_invariants.begin(), TensorShape());
    }
    const auto context = std::make_shared<LoopContext>(
        state_, outer_.context_, StrCat(outer_.path(), "/while_context"), options.parallel_iterations);
    state_.all_contexts.push_back(context);
    const Scope inside = Inside(context);
    MR_RETURN_IF_ERROR(EnterAll(*context, vars, all));
    MR_ASSIGN_OR_RETURN(const Output loop_cond, Condition(inside, *context, goes_on));
    MR_RETURN_IF_ERROR(SwitchAll(*context, loop_cond));
    const std::vector<Output> results = next(inside, bodies_);
    MR_RETURN_IF_ERROR(CloseLoop(inside, *context, results, !options.shape_invariants.empty()));
    MR_ASSIGN_OR_RETURN(std::vector<Output> exits, ExitAll(options.back_prop));
    if (options.maximum_iterations.has_value()) exits.erase(exits.begin());
    return exits;
  };
  auto results = build();
  if (results.ok()) return *std::move(results);
  outer_.UpdateStatus(
      results.status().WithContext(StrCat("; while building the loop '", outer_.path(), "'")));
  return {};
}

std::vector<Output> Cond(const Scope& scope, const Input& pred, const BranchFn& then_fn,
                         const BranchFn& else_fn) {
  if (then_fn == nullptr || else_fn == nullptr) {
    scope.UpdateStatus(errors::InvalidArgument("Cond: then_fn or else_fn is null"));
    return {};
  }
  std::optional<size_t> num_results;
  const BranchFn counted = [&](const Scope& inside) {
    std::vector<Output> results = then_fn(inside);
    num_results = results.size();
    return results;
  };
  std::vector<Output> results = ControlFlowBuilder(scope, "cond").BuildCond(pred, counted, else_fn);
  if (scope.ok()) return results;
  if (!num_results.has_value()) counted(scope);  // adds nothing any more
  return std::vector<Output>(*num_results);
}

std::vector<Output> While(const Scope& scope, const std::vector<Input>& loop_vars, const LoopCondFn& cond,
                          const LoopBodyFn& body, const WhileOptions& options) {
  const Scope named = options.name.empty() ? scope : scope.WithOpName(options.name);
  std::vector<Output> results;
  if (cond == nullptr || body == nullptr) {
    scope.UpdateStatus(errors::InvalidArgument("While: cond or body is null"));
  } else {
    results = ControlFlowBuilder(named, "while").BuildWhile(loop_vars, cond, body, options);
  }
  results.resize(loop_vars.size());
  return results;
}

}  // namespace millrace
