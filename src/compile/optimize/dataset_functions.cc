// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/dataset_functions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graph/function_body.h"
#include "graph/function_def_builder.h"
#include "graph/function_library.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

constexpr size_t kLongestName = 200;

struct Types {
  std::vector<DataType> args, rets;
};

std::optional<Types> TypesOf(const Graph& graph, const NameAttrList& f) {
  if (f.attrs != nullptr && !f.attrs->empty()) return std::nullopt;
  if (graph.functions().Find(f.name) == nullptr) return std::nullopt;
  const auto body = InstantiateFunction(graph.functions(), graph.ops(), f);
  if (!body.ok()) return std::nullopt;
  return Types{body->arg_types, body->ret_types};
}

// Builds a function of an element and two lists of captured tensors.
class Maker {
 public:
  Maker(std::string name, const std::vector<DataType>& element, const std::vector<DataType>& a,
        const std::vector<DataType>& b)
      : name_(std::move(name)), builder_(name_) {
    element_ = Args("x", element);
    a_ = Args("a", a);
    b_ = Args("b", b);
  }
  const std::vector<std::string>& element() const { return element_; }
  const std::vector<std::string>& a() const { return a_; }
  const std::vector<std::string>& b() const { return b_; }

  // Adds a node that calls `f`; returns its results.
  std::vector<std::string> Call(const std::string& node, const NameAttrList& f, const Types& types,
                                std::vector<std::string> args, const std::vector<std::string>& more) {
    args.insert(args.end(), more.begin(), more.end());
    builder_.Node(node, "PartitionedCall", args, {{"Tin", types.args}, {"Tout", types.rets}, {"f", f}});
    std::vector<std::string> results;
    for (size_t i = 0; i < types.rets.size(); ++i) results.push_back(StrCat(node, ":output:", i));
    return results;
  }
  FunctionBuilder& builder() { return builder_; }
  void Return(const std::vector<std::string>& results, const std::vector<DataType>& types) {
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string name = StrCat("y", returned_++);
      builder_.Ret(StrCat(name, ": ", DataTypeName(types[i])));
      builder_.Return(name, results[i]);
    }
  }
  std::optional<NameAttrList> Finish(Graph* graph) {
    if (name_.size() > kLongestName) return std::nullopt;
    tensorflow::FunctionDef def;
    if (!builder_.Build(&def).ok() || !graph->functions().Add(def).ok()) return std::nullopt;
    return NameAttrList{name_, std::make_shared<const AttrMap>()};
  }

 private:
  std::vector<std::string> Args(const char* prefix, const std::vector<DataType>& types) {
    std::vector<std::string> names;
    for (const DataType type : types) {
      names.push_back(StrCat(prefix, names.size()));
      builder_.Arg(StrCat(names.back(), ": ", DataTypeName(type)));
    }
    return names;
  }

  const std::string name_;
  FunctionBuilder builder_;
  std::vector<std::string> element_, a_, b_;
  int returned_ = 0;
};

// The types of the element: the arguments of the function without the captured ones.
std::optional<std::vector<DataType>> ElementTypes(const Types& types, const ElementFunction& f) {
  if (types.args.size() < f.captured.size()) return std::nullopt;
  const auto split = types.args.end() - static_cast<ptrdiff_t>(f.captured.size());
  if (!std::equal(split, types.args.end(), f.captured.begin())) return std::nullopt;
  return std::vector<DataType>(types.args.begin(), split);
}

}  // namespace

bool IsStatelessFunction(const Graph& graph, const NameAttrList& f) {
  const auto body = InstantiateFunction(graph.functions(), graph.ops(), f);
  if (!body.ok() || !body->control_rets.empty()) return false;
  const std::vector<Node*> nodes = body->graph->OpNodes();
  return std::ranges::none_of(nodes, [](const Node* n) {
    return n->op_def().is_stateful && n->op_name() != "_Arg" && n->op_name() != "_Retval";
  });
}

std::optional<NameAttrList> ComposeFunctions(Graph* graph, const ElementFunction& first,
                                             const ElementFunction& second) {
  const auto types1 = TypesOf(*graph, first.f), types2 = TypesOf(*graph, second.f);
  if (!types1 || !types2) return std::nullopt;
  const auto element = ElementTypes(*types1, first);
  if (!element || ElementTypes(*types2, second) != types1->rets) return std::nullopt;
  Maker maker(StrCat("__then_", first.f.name, "_", second.f.name), *element, first.captured, second.captured);
  const auto between = maker.Call("first", first.f, *types1, maker.element(), maker.a());
  maker.Return(maker.Call("second", second.f, *types2, between, maker.b()), types2->rets);
  return maker.Finish(graph);
}

std::optional<NameAttrList> AppendPredicate(Graph* graph, const ElementFunction& first,
                                            const ElementFunction& predicate) {
  const auto types1 = TypesOf(*graph, first.f), types2 = TypesOf(*graph, predicate.f);
  if (!types1 || !types2 || types2->rets != std::vector{DataType::kBool}) return std::nullopt;
  const auto element = ElementTypes(*types1, first);
  if (!element || ElementTypes(*types2, predicate) != types1->rets) return std::nullopt;
  Maker maker(StrCat("__with_", first.f.name, "_", predicate.f.name), *element, first.captured,
              predicate.captured);
  const auto results = maker.Call("first", first.f, *types1, maker.element(), maker.a());
  maker.Return(results, types1->rets);
  maker.Return(maker.Call("predicate", predicate.f, *types2, results, maker.b()), types2->rets);
  return maker.Finish(graph);
}

std::optional<NameAttrList> JoinPredicates(Graph* graph, const ElementFunction& first,
                                           const ElementFunction& second) {
  const auto types1 = TypesOf(*graph, first.f), types2 = TypesOf(*graph, second.f);
  const std::vector<DataType> one_bool = {DataType::kBool};
  if (!types1 || !types2 || types1->rets != one_bool || types2->rets != one_bool) return std::nullopt;
  const auto element = ElementTypes(*types1, first);
  if (!element || ElementTypes(*types2, second) != element) return std::nullopt;
  const std::string name = StrCat("__and_", first.f.name, "_", second.f.name);
  Maker never(name + "_false", *element, second.captured, {});
  never.builder().Node("false", "Const", {}, {{"dtype", DataType::kBool}, {"value", Tensor::Scalar(false)}});
  never.Return({"false:output"}, one_bool);
  const auto otherwise = never.Finish(graph);
  if (!otherwise) return std::nullopt;
  Maker maker(name, *element, first.captured, second.captured);
  const std::string verdict = maker.Call("first", first.f, *types1, maker.element(), maker.a())[0];
  std::vector<std::string> inputs = {verdict};
  inputs.insert(inputs.end(), maker.element().begin(), maker.element().end());
  inputs.insert(inputs.end(), maker.b().begin(), maker.b().end());
  maker.builder().Node("both", "StatelessIf", inputs,
                       {{"Tcond", DataType::kBool},
                        {"Tin", types2->args},
                        {"Tout", one_bool},
                        {"then_branch", second.f},
                        {"else_branch", *otherwise},
                        {"_lower_using_switch_merge", true}});
  maker.Return({"both:output:0"}, one_bool);
  return maker.Finish(graph);
}

namespace {

OpSeeds SeedsOf(const Node& random) {
  return {random.attrs().Get<int64_t>("seed").value_or(0), random.attrs().Get<int64_t>("seed2").value_or(0)};
}

// The node that produces input `i`, skipping nodes that forward it.
const Node* SourceOf(const Node& node, int i) {
  const Node* at = &node;
  do {
    const auto edge = at->InputEdge(at == &node ? i : 0);
    if (!edge.ok()) return nullptr;
    at = (*edge)->src;
  } while (at->op_name() == "Identity");
  return at;
}

bool HasState(const Node& node) {
  return node.op_def().is_stateful && node.op_name() != "_Arg" && node.op_name() != "_Retval";
}

bool IsRandomScalar(const Node* node) {
  if (node == nullptr || node->op_name() != "RandomUniform") return false;
  const Node* const shape = SourceOf(*node, 0);
  if (shape == nullptr || shape->op_name() != "Const") return false;
  const auto value = shape->attrs().Get<Tensor>("value");
  return value.ok() && value->num_elements() == 0 &&
         node->attrs().Get<DataType>("dtype").value_or(DataType::kInvalid) == DataType::kFloat;
}

// The value of a constant, or of the difference of two.
std::optional<float> FloatOf(const Node* node) {
  if (node == nullptr) return std::nullopt;
  if (node->op_name() == "Sub") {
    const Node *const a = SourceOf(*node, 0), *const b = SourceOf(*node, 1);
    if (a == nullptr || b == nullptr || a->op_name() != "Const" || b->op_name() != "Const")
      return std::nullopt;
    const auto from = FloatOf(a), less = FloatOf(b);
    return from && less ? std::optional(*from - *less) : std::nullopt;
  }
  if (node->op_name() != "Const") return std::nullopt;
  const auto value = node->attrs().Get<Tensor>("value");
  if (!value.ok() || value->dtype() != DataType::kFloat || !value->shape().IsScalar()) return std::nullopt;
  return value->scalar<float>();
}

// Skips the sum with 0 and the product with 1 that clients add to a random number from 0 to 1.
const Node* UnscaledSource(const Node* node) {
  for (const auto& [ops, neutral] :
       {std::pair(std::array{"Add", "AddV2"}, 0.f), {std::array{"Mul", "Mul"}, 1.f}}) {
    if (node == nullptr || std::ranges::find(ops, node->op_name()) == ops.end()) continue;
    if (FloatOf(SourceOf(*node, 1)) == neutral) node = SourceOf(*node, 0);
  }
  return node;
}

}  // namespace

std::optional<HoistedRandom> HoistRandomUniform(Graph* graph, const ElementFunction& f) {
  const auto types = TypesOf(*graph, f.f);
  const tensorflow::FunctionDef* const def = graph->functions().Find(f.f.name);
  if (!types || def == nullptr || !ElementTypes(*types, f) || def->control_ret_size() > 0)
    return std::nullopt;
  const auto body = InstantiateFunction(graph->functions(), graph->ops(), f.f);
  if (!body.ok()) return std::nullopt;
  std::string random;
  HoistedRandom result;
  for (const Node* n : body->graph->OpNodes()) {
    if (!HasState(*n)) continue;
    if (n->op_name() != "RandomUniform" || !random.empty()) return std::nullopt;
    random = n->name();
    result.seeds = SeedsOf(*n);
  }
  // List arguments represent several inputs.
  if (random.empty() || static_cast<size_t>(def->signature().input_arg_size()) != types->args.size()) {
    return std::nullopt;
  }
  tensorflow::FunctionDef made = *def;
  made.mutable_signature()->set_name(StrCat("__seeded_", f.f.name));
  made.mutable_signature()->set_is_stateful(false);
  if (made.signature().name().size() > kLongestName) return std::nullopt;
  std::string seed = "seed_of_element";
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::any_of(def->node_def(), [&](const auto& n) { return n.name() == name; }) ||
           std::ranges::any_of(def->signature().input_arg(), [&](const auto& a) { return a.name() == name; });
  };
  while (is_taken(seed)) seed += '_';
  auto& args = *made.mutable_signature()->mutable_input_arg();
  auto* const arg = args.Add();
  arg->set_name(seed);
  arg->set_type(tensorflow::DT_INT64);
  // Attributes of arguments are keyed by position.
  if (made.arg_attr_size() > 0) made.clear_arg_attr();
  for (int i = args.size() - 1; i > args.size() - 1 - static_cast<int>(f.captured.size()); --i) {
    args.SwapElements(i, i - 1);
  }
  for (auto& node : *made.mutable_node_def()) {
    if (node.name() != random) continue;
    node.set_op("StatelessRandomUniform");
    // The seed follows the shape and precedes control inputs.
    node.add_input(seed);
    for (int i = node.input_size() - 1; i > 1; --i) node.mutable_input()->SwapElements(i, i - 1);
    node.mutable_attr()->erase("seed");
    node.mutable_attr()->erase("seed2");
    (*node.mutable_attr())["Tseed"].set_type(tensorflow::DT_INT64);
  }
  if (!graph->functions().Add(made).ok()) return std::nullopt;
  result.f = {made.signature().name(), std::make_shared<const AttrMap>()};
  return result;
}

std::optional<RandomPredicate> FindRandomPredicate(const Graph& graph, const NameAttrList& predicate) {
  const auto body = InstantiateFunction(graph.functions(), graph.ops(), predicate);
  if (!body.ok() || body->rets.size() != 1 || !body->control_rets.empty()) return std::nullopt;
  const Node* const compare = SourceOf(*body->rets[0], 0);
  if (compare == nullptr || (compare->op_name() != "Less" && compare->op_name() != "Greater")) {
    return std::nullopt;
  }
  if (std::ranges::count_if(body->graph->OpNodes(), [](const Node* n) { return HasState(*n); }) != 1) {
    return std::nullopt;
  }
  const int random_at = compare->op_name() == "Less" ? 0 : 1;
  const Node* const random = UnscaledSource(SourceOf(*compare, random_at));
  const auto rate = FloatOf(SourceOf(*compare, 1 - random_at));
  if (!IsRandomScalar(random) || !rate) return std::nullopt;
  return RandomPredicate{*rate, SeedsOf(*random)};
}

std::optional<NameAttrList> MakeDatasetFunction(Graph* graph, const std::string& name,
                                                const std::vector<DataType>& more,
                                                const std::vector<StageOfFunction>& stages) {
  Maker maker(name, {DataType::kVariant}, more, {});
  std::string last = maker.element()[0];
  for (const StageOfFunction& stage : stages) {
    std::vector<std::string> inputs = {last};
    for (const int i : stage.inputs) inputs.push_back(maker.a()[static_cast<size_t>(i)]);
    const std::string node = StrCat(stage.op, "_", &stage - stages.data());
    maker.builder().Node(node, stage.op, inputs, stage.attrs);
    last = node + ":handle";
  }
  maker.Return({last}, {DataType::kVariant});
  return maker.Finish(graph);
}

}  // namespace millrace
