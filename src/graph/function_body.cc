// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/function_body.h"

#include <map>
#include <type_traits>
#include <utility>

#include "base/strings.h"
#include "graph/node_def_text.h"
#include "graph/upgrade.h"
#include "op/attr_codec.h"
#include "op/op_def_codec.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

using tensorflow::FunctionDef;
using tensorflow::NodeDef;

// All constants of one body together.
constexpr int64_t kMaxTensorBytes = int64_t{4} << 30;
// Parameters, results, inputs and outputs of one body together.
constexpr size_t kMaxSlots = size_t{1} << 22;
// All attributes of one body together: a short "$L" may represent a long list, repeatedly.
constexpr size_t kMaxAttrWords = size_t{1} << 26;

// Replaces "$T" in a node by the value of the enclosing function's attribute; false if one is missing.
bool Substitute(const AttrMap& bound, AttrValue* value);

bool SubstituteFunc(const AttrMap& bound, NameAttrList* func) {
  if (func->attrs == nullptr) return true;
  std::vector<AttrMap::Entry> entries;
  for (const auto& [name, attr] : *func->attrs) {
    entries.emplace_back(name, attr);
    if (!Substitute(bound, &entries.back().second)) return false;
  }
  func->attrs = std::make_shared<const AttrMap>(AttrMap::FromEntries(std::move(entries)));
  return true;
}

bool Substitute(const AttrMap& bound, AttrValue* value) {
  if (const auto* placeholder = value->As<AttrPlaceholder>()) {
    const AttrValue* found = bound.Find(placeholder->name);
    if (found == nullptr || found->IsPlaceholder()) return false;
    *value = AttrValue(*found);
    return true;
  }
  if (const auto* func = value->As<NameAttrList>()) {
    NameAttrList copy = *func;
    if (!SubstituteFunc(bound, &copy)) return false;
    *value = std::move(copy);
  } else if (const auto* list = value->As<std::vector<NameAttrList>>()) {
    std::vector<NameAttrList> copy = *list;
    for (NameAttrList& f : copy) {
      if (!SubstituteFunc(bound, &f)) return false;
    }
    *value = std::move(copy);
  }
  return true;
}

// About how many words the value of an attribute takes.
size_t Weight(const AttrValue& value) {
  return std::visit(
      []<typename T>(const T& v) -> size_t {
        if constexpr (std::is_same_v<T, std::string>) {
          return v.size() / 8 + 1;
        } else if constexpr (std::is_same_v<T, NameAttrList>) {
          size_t weight = 1;
          for (const auto& [name, attr] : v.attrs == nullptr ? AttrMap() : *v.attrs) weight += Weight(attr);
          return weight;
        } else if constexpr (requires { v.size(); }) {
          return 4 * v.size() + 1;
        } else {
          return 1;
        }
      },
      value.variant());
}

// Builds the graph of one function. Names of tensors are those of a FunctionDef: "arg", "arg:1",
// "node:output", "node:output:1"; without a number they mean all tensors of a list.
class BodyBuilder {
 public:
  BodyBuilder(const FunctionLibrary& library, const OpRegistry& ops, const FunctionDef& def, const OpDef& op)
      : library_(library), ops_(ops), def_(def), op_(op) {}

  StatusOr<FunctionBody> Run(const AttrMap* attrs) {
    MR_RETURN_IF_ERROR(Bind(attrs));
    body_.graph = std::make_unique<Graph>(ops_);
    body_.graph->functions() = library_;
    MR_RETURN_IF_ERROR(AddArgs());
    for (const NodeDef& node : def_.node_def()) MR_RETURN_IF_ERROR(InNode(node, AddNode(node)));
    for (const NodeDef& node : def_.node_def()) MR_RETURN_IF_ERROR(InNode(node, AddInputs(node)));
    MR_RETURN_IF_ERROR(AddRets());
    MR_RETURN_IF_ERROR(AddControlRets());
    body_.graph->FixupSourceAndSinkEdges();
    MR_RETURN_IF_ERROR(TopologicalOrder(*body_.graph).status());
    return std::move(body_);
  }

 private:
  // Some tensors in a row: outputs of a node, or parameters.
  struct Tensors {
    int node = 0;  // id of the node, or of the first parameter
    int output = 0;
    bool is_arg = false;
    std::vector<DataType> types;
  };

  Status Bind(const AttrMap* attrs);
  Status AddArgs();
  Status AddNode(const NodeDef& def);
  Status AddInputs(const NodeDef& def);
  Status AddControlInput(Node* node, const std::string& input, int index);
  Status AddRets();
  Status AddControlRets();
  Status AddName(std::string name, Tensors tensors, bool is_arg);
  static Status InNode(const NodeDef& def, const Status& status) {
    return status.ok() ? status : status.WithContext(StrCat("\n\tIn ", NodeTag(def.name())));
  }
  static Status Types(const ArgDef& arg, const AttrMap& attrs, std::vector<DataType>* types);
  Status CountSlots(size_t more) {
    slots_ += more;
    if (slots_ <= kMaxSlots) return Status();
    return errors::ResourceExhausted("Its nodes have more than ", kMaxSlots, " inputs and outputs");
  }

  const FunctionLibrary& library_;
  const OpRegistry& ops_;
  const FunctionDef& def_;
  const OpDef& op_;
  AttrMap bound_;
  FunctionBody body_;
  std::map<std::string, Tensors, std::less<>> tensors_;
  std::map<std::string, Node*, std::less<>> nodes_;  // that a control input may name
  size_t slots_ = 0;
  size_t attr_words_ = 0;
  int64_t tensor_bytes_ = kMaxTensorBytes;
};

Status BodyBuilder::Bind(const AttrMap* attrs) {
  if (attrs != nullptr) bound_ = *attrs;
  for (const AttrDef& attr : op_.attrs) {
    const AttrValue* value = bound_.Find(attr.name);
    if (value == nullptr) {
      if (!attr.default_value.IsSet()) {
        return errors::NotFound("Attr ", attr.name, " is not found from ", SummarizeOp(op_));
      }
      bound_.Set(attr.name, attr.default_value);
    } else {
      MR_RETURN_IF_ERROR(ValidateAttrValue(attr, *value));
    }
  }
  return Status();
}

Status BodyBuilder::Types(const ArgDef& arg, const AttrMap& attrs, std::vector<DataType>* types) {
  OpDef one;
  one.inputs.push_back(arg);
  std::vector<DataType> none;
  return InferArgTypes(one, attrs, types, &none);
}

Status BodyBuilder::AddName(std::string name, Tensors tensors, bool is_arg) {
  const auto [it, is_new] = tensors_.try_emplace(std::move(name), std::move(tensors));
  if (is_new) return Status();
  return errors::InvalidArgument("Duplicated ", is_arg ? "arg" : "ret", " name.");
}

Status BodyBuilder::AddArgs() {
  for (const ArgDef& arg : op_.inputs) {
    const auto with_arg = [&](const Status& s) {
      return s.ok() ? s : s.WithContext(StrCat("; In argument ", arg.name));
    };
    std::vector<DataType> types;
    MR_RETURN_IF_ERROR(with_arg(Types(arg, bound_, &types)));
    MR_RETURN_IF_ERROR(CountSlots(types.size()));
    const int first = static_cast<int>(body_.args.size());
    MR_RETURN_IF_ERROR(with_arg(AddName(arg.name, {first, 0, true, types}, true)));
    for (size_t i = 0; i < types.size(); ++i) {
      const int index = first + static_cast<int>(i);
      MR_RETURN_IF_ERROR(AddName(StrCat(arg.name, ":", i), {index, 0, true, {types[i]}}, true));
      const std::string name = types.size() > 1 ? StrCat(arg.name, "_", i) : arg.name;
      MR_ASSIGN_OR_RETURN(Node * node,
                          body_.graph->AddNode(name, "_Arg", {{"T", types[i]}, {"index", index}}));
      body_.args.push_back(node);
      body_.arg_types.push_back(types[i]);
      if (i == 0) nodes_.emplace(arg.name, node);
    }
  }
  return Status();
}

Status BodyBuilder::AddNode(const NodeDef& def) {
  if (!IsValidNodeName(def.name(), true)) {
    return errors::InvalidArgument("Node '", def.name(), "': Node name contains invalid characters");
  }
  if (IsReservedOp(def.op())) {
    return errors::InvalidArgument("Node '", def.name(), "': op type '", def.op(), "' is internal");
  }
  MR_ASSIGN_OR_RETURN(AttrMap attrs, AttrMapFromProto(def.attr(), &tensor_bytes_));
  std::vector<AttrMap::Entry> entries;
  for (const auto& [name, value] : attrs) {
    entries.emplace_back(name, value);
    if (!Substitute(bound_, &entries.back().second)) {
      return errors::InvalidArgument("Failed to bind all placeholders in ", value.ToString());
    }
    attr_words_ += Weight(entries.back().second);
    if (attr_words_ > kMaxAttrWords) {
      return errors::ResourceExhausted("The attributes of its nodes take more than ", kMaxAttrWords * 8,
                                       " bytes");
    }
  }
  attrs = AttrMap::FromEntries(std::move(entries));
  if (HasLaterAttrs(def.op())) {
    MR_ASSIGN_OR_RETURN(const OpRegistration* op, body_.graph->LookUpOp(def.op()));
    DropLaterAttrs(op->def, &attrs);
  }
  DropOwnAttrs(def.op(), &attrs);
  MR_ASSIGN_OR_RETURN(Node * node,
                      body_.graph->AddNode(def.name(), def.op(), std::move(attrs), def.device()));
  MR_RETURN_IF_ERROR(CountSlots(static_cast<size_t>(node->num_inputs() + node->num_outputs())));
  nodes_.insert_or_assign(def.name(), node);
  std::vector<ArgRange> ranges;
  MR_RETURN_IF_ERROR(InferArgRanges(node->op_def().outputs, node->attrs(), &ranges));
  for (const ArgRange& range : ranges) {
    Tensors all{node->id(), range.begin, false, {}};
    const std::string base = StrCat(def.name(), ":", range.name);
    for (int i = range.begin; i < range.end; ++i) {
      all.types.push_back(node->output_type(i));
      Tensors one{node->id(), i, false, {node->output_type(i)}};
      MR_RETURN_IF_ERROR(AddName(StrCat(base, ":", i - range.begin), std::move(one), false));
    }
    MR_RETURN_IF_ERROR(AddName(base, std::move(all), false));
  }
  return Status();
}

Status BodyBuilder::AddControlInput(Node* node, const std::string& input, int index) {
  if (!input.starts_with('^')) {
    return errors::InvalidArgument("Expected input[", index, "] == '", input, "' to be a control input.");
  }
  const auto it = nodes_.find(std::string_view(input).substr(1));
  if (it == nodes_.end()) {
    return errors::InvalidArgument("input[", index, "] == '", input, "', is not found.");
  }
  body_.graph->AddControlEdge(it->second, node);
  return Status();
}

Status BodyBuilder::AddInputs(const NodeDef& def) {
  Node* node = nodes_.find(def.name())->second;
  std::vector<ArgRange> ranges;
  MR_RETURN_IF_ERROR(InferArgRanges(node->op_def().inputs, node->attrs(), &ranges));
  int next = 0;  // in def.input
  for (const ArgRange& range : ranges) {
    for (int slot = range.begin; slot < range.end;) {
      if (next >= def.input_size() || def.input(next).starts_with('^')) {
        return errors::InvalidArgument("Attempt to access beyond input size: ", next,
                                       " >= ", def.input_size());
      }
      const std::string& input = def.input(next++);
      const auto it = tensors_.find(input);
      if (it == tensors_.end()) {
        return errors::InvalidArgument("input ", input, " is not found: ", NodeTag(def.name()));
      }
      const Tensors& from = it->second;
      if (from.types.size() > static_cast<size_t>(range.end - slot)) {
        return errors::InvalidArgument("Input ", input, " too long for ", range.name);
      }
      for (size_t k = 0; k < from.types.size(); ++k, ++slot) {
        const DataType want = node->input_type(slot);
        if (from.types[k] != want && (IsRefType(want) || BaseType(from.types[k]) != want)) {
          return errors::InvalidArgument("input ", range.name, "[", slot - range.begin, "] expected type ",
                                         DataTypeName(want), " != ", DataTypeName(from.types[k]),
                                         ", the type of ", input, "[", k, "]");
        }
        const int at = static_cast<int>(k);
        Node* src =
            from.is_arg ? body_.args[static_cast<size_t>(from.node + at)] : body_.graph->node(from.node);
        body_.graph->AddEdge(src, from.is_arg ? 0 : from.output + at, node, slot);
      }
    }
  }
  for (; next < def.input_size(); ++next) MR_RETURN_IF_ERROR(AddControlInput(node, def.input(next), next));
  return Status();
}

Status BodyBuilder::AddRets() {
  for (const ArgDef& ret : op_.outputs) {
    const auto with_ret = [&](const Status& s) {
      return s.WithContext(StrCat("\n\tIn function output ", ret.name, ":", DataTypeName(ret.type)));
    };
    const auto source = def_.ret().find(ret.name);
    if (source == def_.ret().end())
      return with_ret(errors::InvalidArgument("Return ", ret.name, " missing."));
    const auto it = tensors_.find(source->second);
    if (it == tensors_.end()) {
      return with_ret(errors::InvalidArgument("Return ", ret.name, " -> ", source->second, " is not found."));
    }
    std::vector<DataType> types;
    if (Status s = Types(ret, bound_, &types); !s.ok()) return with_ret(s);
    MR_RETURN_IF_ERROR(CountSlots(types.size()));
    const Tensors& from = it->second;
    std::vector<DataType> given;
    for (const DataType t : from.types) given.push_back(BaseType(t));
    if (given != types) {
      return with_ret(errors::InvalidArgument("Invalid ret types ", ret.name, " : ", DataTypesText(types),
                                              " vs. ", DataTypesText(from.types)));
    }
    for (size_t i = 0; i < types.size(); ++i) {
      std::string name = StrCat(ret.name, "_RetVal");
      if (types.size() > 1) name += StrCat("_", i);
      const int index = static_cast<int>(body_.rets.size());
      MR_ASSIGN_OR_RETURN(Node * node, body_.graph->AddNode(body_.graph->NewName(name), "_Retval",
                                                            {{"T", types[i]}, {"index", index}}));
      const int at = static_cast<int>(i);
      Node* src =
          from.is_arg ? body_.args[static_cast<size_t>(from.node + at)] : body_.graph->node(from.node);
      body_.graph->AddEdge(src, from.is_arg ? 0 : from.output + at, node, 0);
      body_.rets.push_back(node);
      body_.ret_types.push_back(types[i]);
    }
  }
  return Status();
}

Status BodyBuilder::AddControlRets() {
  std::map<std::string_view, Node*> by_name;  // in the order of their names
  for (const auto& [name, node] : def_.control_ret()) {
    const auto it = nodes_.find(node);
    if (it == nodes_.end()) {
      return errors::InvalidArgument("Control return ", name, " -> ", node, " is not found.");
    }
    by_name.emplace(name, it->second);
  }
  for (const auto& [name, node] : by_name) body_.control_rets.push_back(node);
  return Status();
}

Status NameFunction(const Status& status, std::string_view name) {
  return status.ok() ? status : status.WithContext(StrCat("; in function '", name, "'"));
}

}  // namespace

bool IsReservedOp(std::string_view op) {
  return op.starts_with('_') && op != "_ListToArray" && op != "_ArrayToList" && op != "_FusedConv2D" &&
         op != "_FusedMatMul";
}

std::string FunctionKey(const NameAttrList& f) {
  std::string key = f.name + "[";
  if (f.attrs != nullptr) {
    bool first = true;
    for (const auto& [name, value] : *f.attrs) {
      key += StrCat(first ? "" : ",", name, "=", value.ToString());
      first = false;
    }
  }
  return key + "]";
}

StatusOr<FunctionBody> InstantiateFunction(const FunctionLibrary& library, const OpRegistry& ops,
                                           const NameAttrList& f) {
  const FunctionDef* def = library.Find(f.name);
  if (def == nullptr) return errors::NotFound("Function ", f.name, " is not defined.");
  MR_ASSIGN_OR_RETURN(const OpRegistration* op, library.LookUp(f.name));
  auto body = BodyBuilder(library, ops, *def, op->def).Run(f.attrs.get());
  if (!body.ok()) return NameFunction(body.status(), f.name);
  return body;
}

StatusOr<FunctionBody> BodyOfOp(const FunctionLibrary& library, const OpRegistry& ops,
                                const NameAttrList& op) {
  if (auto known = ops.LookUp(op.name); !known.ok()) {
    return errors::NotFound("Function ", op.name, " is not defined.");
  }
  FunctionBody body;
  body.graph = std::make_unique<Graph>(ops);
  body.graph->functions() = library;
  Graph& graph = *body.graph;
  MR_ASSIGN_OR_RETURN(Node * node,
                      graph.AddNode(op.name, op.name, op.attrs == nullptr ? AttrMap() : *op.attrs));
  for (int i = 0; i < node->num_inputs(); ++i) {
    if (IsRefType(node->input_type(i))) {
      return errors::InvalidArgument("Op ", op.name, " takes a reference and can't stand for a function");
    }
    MR_ASSIGN_OR_RETURN(Node * arg, graph.AddNode(graph.NewName(StrCat("arg_", i)), "_Arg",
                                                  {{"T", node->input_type(i)}, {"index", i}}));
    graph.AddEdge(arg, 0, node, i);
  }
  for (int i = 0; i < node->num_outputs(); ++i) {
    MR_ASSIGN_OR_RETURN(Node * ret, graph.AddNode(graph.NewName(StrCat("ret_", i)), "_Retval",
                                                  {{"T", BaseType(node->output_type(i))}, {"index", i}}));
    graph.AddEdge(node, i, ret, 0);
  }
  graph.FixupSourceAndSinkEdges();
  MR_RETURN_IF_ERROR(IndexBody(&body));
  return body;
}

Status IndexBody(FunctionBody* body) {
  std::map<int64_t, Node*> args, rets;
  for (Node* node : body->graph->OpNodes()) {
    const bool is_arg = node->op_name() == "_Arg" || node->op_name() == "_DeviceArg";
    const bool is_ret = node->op_name() == "_Retval" || node->op_name() == "_DeviceRetval";
    if (!is_arg && !is_ret) continue;
    MR_ASSIGN_OR_RETURN(const int64_t index, node->Attr<int64_t>("index"));
    if (!(is_arg ? args : rets).emplace(index, node).second) {
      return errors::InvalidArgument("Node '", node->name(), "': index ", index, " is given twice");
    }
  }
  const auto collect = [](const std::map<int64_t, Node*>& from, std::vector<Node*>* nodes,
                          std::vector<DataType>* types) -> Status {
    nodes->clear();
    types->clear();
    for (const auto& [index, node] : from) {
      if (index != static_cast<int64_t>(nodes->size())) {
        return errors::InvalidArgument("Node '", node->name(), "' has index ", index, ", expected ",
                                       nodes->size());
      }
      nodes->push_back(node);
      MR_ASSIGN_OR_RETURN(const DataType type, node->Attr<DataType>("T"));
      types->push_back(type);
    }
    return Status();
  };
  MR_RETURN_IF_ERROR(collect(args, &body->args, &body->arg_types));
  return collect(rets, &body->rets, &body->ret_types);
}

}  // namespace millrace
