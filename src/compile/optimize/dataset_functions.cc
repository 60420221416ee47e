// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/dataset_functions.h"

#include <algorithm>
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

// A function in the making, of an element and two lists of captured tensors.
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

  // Adds a node that calls `f`; gives its results.
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

// The types of the element: what the function takes without what it captures.
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

}  // namespace millrace
