// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Conditions, loops, functions and effects of random graphs.
#include <algorithm>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "graph/function_def_builder.h"
#include "graph/function_library.h"
#include "graph/testing.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tests/optimize/random_generator.h"

namespace millrace {
namespace {

constexpr int kMaxDepth = 2;
constexpr DataType kInt = DataType::kInt32;

}  // namespace

void RandomGraphGenerator::AddFlow() {
  switch (Roll(7)) {
    case 0:
    case 1:
      return Conditional();
    case 2:
    case 3:
    case 4:
      return Loop();
    case 5:
      return Call();
    default:
      return Effect();
  }
}

// The graph's only variable, a counter; the order of additions does not matter.
void RandomGraphGenerator::AddVariable() {
  Graph* graph = out_.graph.get();
  place_.handle = "variable";
  const AttrMap attrs = {{"dtype", kInt}, {"shape", PartialShape(std::vector<int64_t>{})}};
  AddTestNode(graph, place_.handle, "VarHandleOp", {}, attrs);
  AddTestNode(graph, "first", "Const", {}, {{"dtype", kInt}, {"value", Tensor::Scalar(int32_t{100})}});
  out_.init = "init";
  AddTestNode(graph, out_.init, "AssignVariableOp", {place_.handle, "first"}, {{"dtype", kInt}});
  out_.state = "state";
  AddTestNode(graph, out_.state, "ReadVariableOp", {place_.handle}, {{"dtype", kInt}});
}

void RandomGraphGenerator::AddFunctions() {
  for (const bool inlined : {true, false}) {
    FunctionBuilder f(inlined ? "Inlined" : "Called");
    f.Arg("x: T").Ret("y: T").Attr("T: {double, float, int32, int64}");
    f.Node("negative", "Neg", {"x"}, {{"T", "$T"}});
    f.Node("sum", "Sub", {"x", "negative:y"}, {{"T", "$T"}});
    if (!inlined) f.NoInline();
    tensorflow::FunctionDef def;
    Status status = f.Return("y", "sum:z").Build(&def);
    if (status.ok()) status = out_.graph->functions().Add(def);
    EXPECT_TRUE(status.ok()) << status;
  }
}

void RandomGraphGenerator::Call() {
  const Value* x = PickIf([](const Value& v) { return IsNumber(v); });
  if (x == nullptr) return;
  const Value in = *x;
  values().push_back(
      Bounded(Make(Roll(2) == 0 ? "Inlined" : "Called", {in.name}, in.type, in.dims, in.exact)));
}

// Adds to the variable, even if only the resulting value is used.
void RandomGraphGenerator::Effect() {
  if (place_.handle.empty()) return;
  const Value* number = PickIf([](const Value& v) { return v.exact && v.type == kInt && v.dims.empty(); });
  const std::string by =
      number == nullptr ? ConstantNode(Tensor::Scalar(int32_t{1 + Roll(3)}), true) : number->name;
  std::vector<std::string> inputs = {place_.handle, by};
  if (!place_.pivot.empty()) inputs.push_back("^" + place_.pivot);
  const std::string effect = NewName("effect");
  AddTestNode(out_.graph.get(), effect, "AssignAddVariableOp", inputs, {{"dtype", kInt}});
  Value after = Pick();
  const std::string from = after.name;
  after.name = NewName("after");
  AddTestNode(out_.graph.get(), after.name, "Identity", {from, "^" + effect}, {{"T", after.type}});
  values().push_back(after);
}

// A scalar bool, sometimes constant.
RandomGraphGenerator::Value RandomGraphGenerator::Predicate() {
  if (Roll(4) == 0) return Constant(DataType::kBool, {}, Roll(2));
  const Value* known =
      PickIf([](const Value& v) { return v.exact && v.type == DataType::kBool && v.dims.empty(); });
  if (known != nullptr && Roll(2) == 0) return *known;
  const Value* number = PickIf([](const Value& v) { return v.exact && IsNumber(v); });
  if (number == nullptr) return Constant(DataType::kBool, {}, Roll(2));
  const Value x = *number;
  std::vector<int32_t> axes(x.dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  const Value sum = Make("Sum", {x.name, Integers(axes)}, x.type, {}, true);
  const Value zero = Constant(x.type, {}, 0);
  return Make("Greater", {sum.name, zero.name}, x.type, {}, true);
}

// A value that can replace `like`.
RandomGraphGenerator::Value RandomGraphGenerator::SameAs(const Value& like) {
  const Value* same = PickIf(
      [&](const Value& v) { return v.type == like.type && v.dims == like.dims && (v.exact || !like.exact); });
  if (same != nullptr) return *same;
  if (!IsNumber(like)) return like;
  const Value one = Constant(like.type, {}, 1);
  return Bounded(Make("Add", {like.name, one.name}, like.type, like.dims, like.exact));
}

// cond(p, …) of a few values, which each branch replaces by its own.
void RandomGraphGenerator::Conditional() {
  if (place_.depth >= kMaxDepth) return;
  Value predicate = Predicate();
  predicate.type = DataType::kBool;
  std::vector<Value> taken;
  for (int i = 0, n = 1 + Roll(3); i < n; ++i) taken.push_back(Pick());
  std::string switched;
  Op("Switch", {predicate.name, predicate.name}, {{"T", DataType::kBool}}, &switched);
  for (Value& v : taken) {
    const std::string from = v.name;
    Op("Switch", {from, predicate.name}, {{"T", v.type}}, &v.name);
  }
  std::vector<std::string> results[2];
  for (int side = 0; side < 2; ++side) Branch(side, taken, switched, &results[side]);
  for (size_t i = 0; i < taken.size(); ++i) {
    const int first = Roll(2);
    Value merged = taken[i];
    merged.name = NewName("merge");
    AddTestNode(out_.graph.get(), merged.name, "Merge", {results[first][i], results[1 - first][i]},
                {{"T", merged.type}, {"N", 2}});
    values().push_back(merged);
    if (Roll(4) == 0) values().push_back({merged.name + ":1", kInt, {}, true});
  }
}

void RandomGraphGenerator::Branch(int side, const std::vector<Value>& taken, const std::string& switched,
                                  std::vector<std::string>* results) {
  const std::string port = side == 0 ? "" : ":1";
  Place branch;
  branch.depth = place_.depth + 1;
  branch.in_loop = place_.in_loop;
  branch.pivot = NewName("pivot");
  AddTestNode(out_.graph.get(), branch.pivot, "Identity", {switched + port}, {{"T", DataType::kBool}});
  branch.values.push_back({Roll(2) == 0 ? branch.pivot : switched + port, DataType::kBool, {}, true});
  for (int i = Roll(3); i > 0; --i) branch.values.push_back(Pick());  // from outside, whatever the predicate
  for (const Value& v : taken) {
    branch.values.push_back(v);
    branch.values.back().name += port;
  }
  branch.handle = place_.handle;
  std::swap(place_, branch);
  AddComputations(1 + Roll(3));
  for (const Value& v : taken) {
    Value like = v;
    like.name += port;
    const std::string from = Roll(4) == 0 ? like.name : SameAs(like).name;
    // The results of a dead branch are dead.
    results->push_back(like.name == from ? from : NewName("result"));
    if (like.name == from) continue;
    AddTestNode(out_.graph.get(), results->back(), "Identity", {from, "^" + place_.pivot}, {{"T", v.type}});
  }
  if (!place_.in_loop && Roll(4) == 0) out_.maybe_dead.push_back(Pick().name);
  std::swap(place_, branch);
}

// for (i = 0; i < limit; ++i) of a few variables; the results are their last values.
void RandomGraphGenerator::Loop() {
  if (place_.depth >= kMaxDepth) return;
  Graph* const graph = out_.graph.get();
  const std::string frame = NewName("frame");
  const int parallel = 1 + Roll(4);
  const auto enter = [&](const std::string& from, DataType type, bool constant) {
    std::vector<std::string> inputs = {from};
    // All inputs of a loop must be dead, or none.
    if (!place_.pivot.empty()) inputs.push_back("^" + place_.pivot);
    std::string name = NewName("enter");
    AddTestNode(graph, name, "Enter", inputs,
                {{"T", type},
                 {"frame_name", frame},
                 {"is_constant", constant},
                 {"parallel_iterations", static_cast<int64_t>(parallel)}});
    return name;
  };
  const Value limit = Limit();
  std::vector<Value> outside = {{ConstantNode(Tensor::Scalar(int32_t{0}), true), kInt, {}, true}};
  for (int i = 0, n = 1 + Roll(3); i < n; ++i) outside.push_back(Pick());
  std::vector<Value> constants = {limit};
  for (int i = Roll(3); i > 0; --i) constants.push_back(Pick());
  const std::string handle = place_.handle.empty() ? "" : enter(place_.handle, DataType::kResource, true);
  for (Value& v : constants) v.name = enter(v.name, v.type, true);
  std::vector<Value> variables = outside;
  for (Value& v : variables) {
    const std::string first = enter(v.name, v.type, false);
    v.name = NewName("variable");
    AddTestNode(graph, v.name, "Merge", {first, first}, {{"T", v.type}, {"N", 2}});
  }
  const std::string less = NewName("less");
  AddTestNode(graph, less, "Less", {variables[0].name, constants[0].name}, {{"T", kInt}});
  const std::string cond = NewName("cond");
  AddTestNode(graph, cond, "LoopCond", {less});
  std::vector<Value> switches = variables;
  for (Value& v : switches) {
    const std::string merge = v.name;
    v.name = NewName("switch");
    AddTestNode(graph, v.name, "Switch", {merge, cond}, {{"T", v.type}});
  }
  Place body;
  body.depth = place_.depth + 1;
  body.in_loop = true;
  body.handle = handle;
  body.values = constants;
  std::swap(place_, body);
  const std::vector<std::string> next = Body(switches);
  std::swap(place_, body);
  for (size_t i = 0; i < variables.size(); ++i) {
    const std::string name = NewName("next");
    Node* node = AddTestNode(graph, name, "NextIteration", {next[i]}, {{"T", variables[i].type}});
    graph->UpdateInput(graph->FindNode(variables[i].name), 1, node, 0);
    Value result = variables[i];
    result.name = NewName("exit");
    AddTestNode(graph, result.name, "Exit", {switches[i].name}, {{"T", result.type}});
    values().push_back(result);
  }
}

// At most three iterations, often none.
RandomGraphGenerator::Value RandomGraphGenerator::Limit() {
  if (Roll(2) == 0) return {ConstantNode(Tensor::Scalar(int32_t{Roll(4)}), true), kInt, {}, true};
  const Value* number = PickIf([](const Value& v) { return v.exact && v.type == kInt; });
  if (number == nullptr) return {ConstantNode(Tensor::Scalar(int32_t{2}), true), kInt, {}, true};
  const Value x = *number;
  std::vector<int32_t> axes(x.dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  const Value sum = Make("Sum", {x.name, Integers(axes)}, kInt, {}, true);
  return Make("Minimum", {sum.name, ConstantNode(Tensor::Scalar(int32_t{3}), false)}, kInt, {}, true);
}

std::vector<std::string> RandomGraphGenerator::Body(const std::vector<Value>& switches) {
  Graph* const graph = out_.graph.get();
  place_.pivot = NewName("pivot");
  AddTestNode(graph, place_.pivot, "Identity", {switches[0].name + ":1"}, {{"T", kInt}});
  std::vector<Value> variables = switches;
  for (Value& v : variables) {
    v.name += ":1";
    if (Roll(2) == 0) {
      const std::string from = v.name;
      v.name = NewName("in");
      AddTestNode(graph, v.name, "Identity", {from}, {{"T", v.type}});
    }
    values().push_back(v);
  }
  AddComputations(2 + Roll(4));
  const std::string one = ConstantNode(Tensor::Scalar(int32_t{1}), false);
  std::vector<std::string> next = {NewName("i")};
  AddTestNode(graph, next[0], "Add", {variables[0].name, one}, {{"T", kInt}});
  for (size_t i = 1; i < variables.size(); ++i) {
    const std::string from = Roll(3) == 0 ? variables[i].name : SameAs(variables[i]).name;
    next.push_back(from);
    if (from == variables[i].name) continue;
    // A value that is computed in each iteration must not start another one after the last.
    next.back() = NewName("result");
    AddTestNode(graph, next.back(), "Identity", {from, "^" + place_.pivot}, {{"T", variables[i].type}});
  }
  return next;
}

}  // namespace millrace
