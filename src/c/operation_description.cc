// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Building one operation. Errors are kept until TF_FinishOperation; their texts are TensorFlow's.
#include <algorithm>
#include <set>

#include "base/strings.h"
#include "c/internal.h"
#include "graph/node_def_text.h"
#include "graph/upgrade.h"
#include "op/attr_codec.h"
#include "op/body_props.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"

using millrace::AttrMap;
using millrace::AttrValue;
using millrace::DataType;
using millrace::Node;
using millrace::Status;
using millrace::StrCat;

void TF_OperationDescription::Reset(TF_Graph* owner, std::string_view op_name, std::string_view node_name) {
  graph = owner;
  op = nullptr;
  op_type = op_name;
  name = node_name;
  device.clear();
  inputs.clear();
  args = 0;
  controls.clear();
  attrs.clear();
  colocation.clear();
  errors.clear();
  input_errors.clear();
}

void TF_OperationDescription::SetAttr(std::string_view attr, AttrValue value) {
  for (const AttrMap::Entry& entry : attrs) {
    if (entry.first != attr) continue;
    if (entry.second != value) {
      errors.push_back(StrCat("Inconsistent values for attr '", attr, "' ", entry.second.ToString(), " vs. ",
                              value.ToString()));
    }
    return;
  }
  attrs.emplace_back(std::string(attr), std::move(value));
}

namespace millrace::c_api {
namespace {

constexpr std::string_view kColocation = "_class";
constexpr std::string_view kLoc = "loc:@";

std::string AllErrors(const std::vector<std::string>& errors) {
  std::string text;
  for (const std::string& error : errors) text += (text.empty() ? "" : "\n") + error;
  return text;
}

// Infers attributes from one argument's tensors, and finds tensors that do not match it.
class ArgumentReader {
 public:
  ArgumentReader(TF_OperationDescription& desc, const ArgDef& arg) : desc_(desc), arg_(arg) {}

  void ReadSingle(DataType type) {
    if (!arg_.number_attr.empty() || !arg_.type_list_attr.empty()) {
      desc_.errors.push_back(StrCat("Single tensor passed to '", arg_.name, "', expected list"));
    } else if (arg_.type != DataType::kInvalid) {
      CheckType(Expected(arg_.type), type);
    } else {
      CheckRef(type);
      desc_.SetAttr(arg_.type_attr, BaseType(type));
    }
  }

  void ReadList(const std::vector<DataType>& types) {
    if (!arg_.number_attr.empty()) {
      desc_.SetAttr(arg_.number_attr, static_cast<int64_t>(types.size()));
      DataType base = arg_.type;
      if (base == DataType::kInvalid && !types.empty()) {
        base = BaseType(types.front());
        desc_.SetAttr(arg_.type_attr, base);
      }
      for (const DataType type : types) CheckType(Expected(base), type);
    } else if (!arg_.type_list_attr.empty()) {
      std::vector<DataType> bases;
      for (const DataType type : types) {
        CheckRef(type);
        bases.push_back(BaseType(type));
      }
      desc_.SetAttr(arg_.type_list_attr, std::move(bases));
    } else {
      desc_.errors.push_back(StrCat("List provided to input '", arg_.name, "' when single Tensor expected"));
    }
  }

 private:
  DataType Expected(DataType base) const { return arg_.is_ref ? MakeRefType(base) : base; }
  void CheckType(DataType expected, DataType type) {
    if (expected == type || (!IsRefType(expected) && expected == BaseType(type))) return;
    desc_.errors.push_back(
        StrCat("Input '", arg_.name, "' passed ", DataTypeName(type), " expected ", DataTypeName(expected)));
  }
  void CheckRef(DataType type) {
    if (!arg_.is_ref || IsRefType(type)) return;
    desc_.errors.push_back(
        StrCat("Input '", arg_.name, "' passed ", DataTypeName(type), " expected ref type"));
  }

  TF_OperationDescription& desc_;
  const ArgDef& arg_;
};

// The argument that the next input goes to; null when there is none left.
const ArgDef* NextArg(TF_OperationDescription* desc) {
  if (desc->op == nullptr) return nullptr;
  const std::vector<ArgDef>& inputs = desc->op->def.inputs;
  if (desc->args >= inputs.size()) {
    desc->errors.push_back(StrCat("More Input() calls than the ", inputs.size(), " input_args"));
    return nullptr;
  }
  return &inputs[desc->args++];
}

// Notes the tensor as the next input; its type, or nothing when it is no tensor of the graph.
DataType NoteInput(TF_OperationDescription* desc, const TF_Output& input) {
  Node* node = NodeOf(input.oper);
  std::string error;
  if (node == nullptr) {
    error = "Attempt to add nullptr Node";
  } else if (&node->graph() != &desc->graph->graph) {
    error = StrCat("Attempt to add output ", input.index, " of ", node->name(), " of another graph");
  } else if (input.index < 0 || input.index >= node->num_outputs()) {
    error = StrCat("Attempt to add output ", input.index, " of ", node->name(), " not in range [0, ",
                   node->num_outputs(), ")");
  } else {
    desc->inputs.push_back({node, input.index});
    return node->output_type(input.index);
  }
  desc->input_errors.push_back(StrCat(error, " to node with type ", desc->op_type));
  return DataType::kInvalid;
}

Status BuilderErrors(const TF_OperationDescription& desc) {
  if (!desc.input_errors.empty()) return errors::InvalidArgument(AllErrors(desc.input_errors));
  std::vector<std::string> found = desc.errors;
  if (desc.op != nullptr && desc.args < desc.op->def.inputs.size()) {
    found.push_back(StrCat(desc.args, " inputs specified of ", desc.op->def.inputs.size(), " inputs in Op"));
  }
  const std::string where = StrCat(" while building NodeDef '", desc.name, "'",
                                   desc.op == nullptr ? "" : StrCat(" using ", SummarizeOp(desc.op->def)));
  if (found.size() == 1) return errors::InvalidArgument(found.front(), where);
  return errors::InvalidArgument(found.size(), " errors", where, ":\n", AllErrors(found));
}

StatusOr<std::shared_ptr<const NodeProps>> MakeProps(TF_Graph& graph, TF_OperationDescription* desc)
    MR_REQUIRES(graph.mu) {
  AttrMap attrs = AttrMap::FromEntries(std::move(desc->attrs));
  desc->attrs.clear();
  if (graph.last_props != nullptr && graph.last_props->op == desc->op && graph.last_attrs == attrs) {
    return graph.last_props;
  }
  auto props = MakePropsInBody(*desc->op, attrs);
  if (!props.ok()) return WithNodeName(props.status(), desc->op->def, desc->name);
  graph.last_props = *std::move(props);
  graph.last_attrs = std::move(attrs);
  return graph.last_props;
}

Status CheckInputTypes(const TF_OperationDescription& desc, const NodeProps& props) {
  if (props.input_types.size() != desc.inputs.size()) {
    return errors::InvalidArgument("NodeDef expected inputs '", DataTypesText(props.input_types),
                                   "' do not match ", desc.inputs.size(), " inputs specified; ",
                                   SummarizeOp(desc.op->def), "; NodeDef: {{node ", desc.name, "}}");
  }
  for (size_t i = 0; i < desc.inputs.size(); ++i) {
    const auto& [node, index] = desc.inputs[i];
    const DataType given = node->output_type(index);
    const DataType wanted = props.input_types[i];
    if (given != wanted && (IsRefType(wanted) || BaseType(given) != wanted)) {
      return errors::InvalidArgument("Input ", i, " of node ", desc.name, " was passed ", DataTypeName(given),
                                     " from ", node->name(), ":", index, " incompatible with expected ",
                                     DataTypeName(wanted), ".");
    }
  }
  return Status();
}

StatusOr<Node*> Finish(TF_Graph& graph, TF_OperationDescription* desc) MR_REQUIRES(graph.mu) {
  if (graph.IsLeft()) return errors::InvalidArgument("The graph of node '", desc->name, "' was deleted");
  if (graph.graph.FindNode(desc->name) != nullptr) {
    return errors::InvalidArgument("Duplicate node name in graph: '", desc->name, "'");
  }
  if (!desc->colocation.empty()) {
    const std::set<std::string> sorted(desc->colocation.begin(), desc->colocation.end());
    desc->SetAttr(kColocation, std::vector<std::string>(sorted.begin(), sorted.end()));
  }
  if (desc->op == nullptr || !desc->errors.empty() || !desc->input_errors.empty() ||
      desc->args < desc->op->def.inputs.size()) {
    return BuilderErrors(*desc);
  }
  MR_ASSIGN_OR_RETURN(std::shared_ptr<const NodeProps> props, MakeProps(graph, desc));
  MR_RETURN_IF_ERROR(CheckInputTypes(*desc, *props));
  MR_RETURN_IF_ERROR(CheckOpDeprecation(desc->op->def, graph.graph.versions().producer));
  const int id = graph.graph.num_node_ids();
  Node* node = graph.graph.AddNodeWithProps(desc->name, std::move(props));
  if (!desc->device.empty()) node->set_requested_device(desc->device);
  for (size_t i = 0; i < desc->inputs.size(); ++i) {
    graph.graph.AddEdge(desc->inputs[i].node, desc->inputs[i].index, node, static_cast<int>(i));
  }
  for (Node* control : desc->controls) graph.graph.AddControlEdge(control, node);
  // Shapes that depend on attributes of the function around the node are not known.
  if (Status shaped = graph.refiner.AddNode(*node);
      !shaped.ok() && !millrace::HasPlaceholders(node->props())) {
    graph.graph.RemoveNodesFrom(id);
    return shaped;
  }
  graph.PublishNodes();
  return node;
}

// For the setters: an attribute with a name, unless something is null.
template <typename F>
void SetAttribute(TF_OperationDescription* desc, const char* name, F&& value) {
  if (desc == nullptr || name == nullptr) return;
  Enter(nullptr, [&]() -> Status {
    desc->SetAttr(name, value());
    return Status();
  });
}

template <typename T, typename From>
std::vector<T> ListOf(const From* values, int count) {
  if (values == nullptr || count <= 0) return {};
  return std::vector<T>(values, values + count);
}

std::vector<std::string> Strings(const void* const* values, const size_t* lengths, int count) {
  std::vector<std::string> result;
  for (int i = 0; values != nullptr && lengths != nullptr && i < count; ++i) {
    result.emplace_back(static_cast<const char*>(values[i]), values[i] == nullptr ? 0 : lengths[i]);
  }
  return result;
}

// An invalid shape becomes an error of the description.
AttrValue ShapeAttr(TF_OperationDescription* desc, const char* name, const int64_t* dims, int num_dims) {
  auto shape = MakeShape(dims, num_dims);
  if (shape.ok()) return *std::move(shape);
  desc->errors.push_back(StrCat("Invalid shape for attr '", name, "': ", shape.status().message()));
  return PartialShape();
}

StatusOr<PartialShape> ShapeOfProto(const void* proto, size_t length) {
  tensorflow::TensorShapeProto shape;
  if (!Parse(proto, length, &shape)) return errors::InvalidArgument("Unparseable TensorShapeProto");
  return PartialShapeFromProto(shape);
}

void AddColocations(TF_OperationDescription* desc, std::vector<std::string> groups) {
  desc->colocation = std::move(groups);
}

Status SetAttrProto(TF_OperationDescription* desc, const char* name, const void* proto, size_t length) {
  tensorflow::AttrValue value;
  if (!Parse(proto, length, &value)) return errors::InvalidArgument("Unparseable AttrValue proto");
  if (name == kColocation) {
    if (value.value_case() != tensorflow::AttrValue::kList &&
        value.value_case() != tensorflow::AttrValue::VALUE_NOT_SET) {
      return errors::InvalidArgument("Expected \"list\" field for \"", kColocation, "\" attribute");
    }
    AddColocations(desc, {value.list().s().begin(), value.list().s().end()});
    return Status();
  }
  MR_ASSIGN_OR_RETURN(AttrValue attr, AttrValueFromProto(value, name));
  desc->SetAttr(name, std::move(attr));
  return Status();
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

TF_OperationDescription* TF_NewOperation(TF_Graph* graph, const char* op_type, const char* oper_name) {
  if (graph == nullptr) return nullptr;
  return EnterOr<TF_OperationDescription*>(nullptr, [&]() -> TF_OperationDescription* {
    const std::string_view op = OrEmpty(op_type);
    millrace::MutexLock lock(graph->mu);
    std::unique_ptr<TF_OperationDescription> desc = std::move(graph->spare);
    if (desc == nullptr) desc = std::make_unique<TF_OperationDescription>();
    desc->Reset(graph, op, OrEmpty(oper_name));
    if (graph->last_op == nullptr || graph->last_op->def.name != op) {
      const auto found = graph->graph.LookUpOp(op);
      graph->last_op = found.ok() ? *found : nullptr;
      if (!found.ok()) desc->errors.push_back(found.status().message());
    }
    desc->op = graph->last_op;
    ++graph->num_users;
    return desc.release();
  });
}

void TF_SetDevice(TF_OperationDescription* desc, const char* device) {
  if (desc != nullptr) desc->device = OrEmpty(device);
}

void TF_AddInput(TF_OperationDescription* desc, TF_Output input) {
  if (desc == nullptr) return;
  Enter(nullptr, [&] {
    const DataType type = NoteInput(desc, input);
    const millrace::ArgDef* arg = type == DataType::kInvalid ? nullptr : NextArg(desc);
    if (arg != nullptr) ArgumentReader(*desc, *arg).ReadSingle(type);
    return Status();
  });
}

void TF_AddInputList(TF_OperationDescription* desc, const TF_Output* inputs, int num_inputs) {
  if (desc == nullptr) return;
  Enter(nullptr, [&] {
    std::vector<DataType> types;
    bool all = true;
    for (int i = 0; inputs != nullptr && i < num_inputs; ++i) {
      types.push_back(NoteInput(desc, inputs[i]));
      all = all && types.back() != DataType::kInvalid;
    }
    const millrace::ArgDef* arg = all ? NextArg(desc) : nullptr;
    if (arg != nullptr) ArgumentReader(*desc, *arg).ReadList(types);
    return Status();
  });
}

void TF_AddControlInput(TF_OperationDescription* desc, TF_Operation* input) {
  if (desc == nullptr) return;
  Enter(nullptr, [&] {
    if (input == nullptr || &NodeOf(input)->graph() != &desc->graph->graph) {
      desc->input_errors.push_back(StrCat("Attempt to add ", input == nullptr ? "nullptr" : "another graph's",
                                          " Node as a control input to node with type ", desc->op_type));
    } else {
      desc->controls.push_back(NodeOf(input));
    }
    return Status();
  });
}

void TF_ColocateWith(TF_OperationDescription* desc, TF_Operation* op) {
  if (desc == nullptr || op == nullptr) return;
  Enter(nullptr, [&] {
    desc->colocation.push_back(StrCat(kLoc, NodeOf(op)->name()));
    return Status();
  });
}

void TF_SetAttrString(TF_OperationDescription* desc, const char* attr_name, const void* value,
                      size_t length) {
  SetAttribute(desc, attr_name,
               [&] { return std::string(static_cast<const char*>(value), value == nullptr ? 0 : length); });
}

void TF_SetAttrStringList(TF_OperationDescription* desc, const char* attr_name, const void* const* values,
                          const size_t* lengths, int num_values) {
  if (desc != nullptr && attr_name != nullptr && attr_name == kColocation) {
    Enter(nullptr, [&] {
      AddColocations(desc, Strings(values, lengths, num_values));
      return Status();
    });
    return;
  }
  SetAttribute(desc, attr_name, [&] { return Strings(values, lengths, num_values); });
}

void TF_SetAttrInt(TF_OperationDescription* desc, const char* attr_name, int64_t value) {
  SetAttribute(desc, attr_name, [&] { return value; });
}

void TF_SetAttrIntList(TF_OperationDescription* desc, const char* attr_name, const int64_t* values,
                       int num_values) {
  SetAttribute(desc, attr_name, [&] { return ListOf<int64_t>(values, num_values); });
}

void TF_SetAttrFloat(TF_OperationDescription* desc, const char* attr_name, float value) {
  SetAttribute(desc, attr_name, [&] { return value; });
}

void TF_SetAttrFloatList(TF_OperationDescription* desc, const char* attr_name, const float* values,
                         int num_values) {
  SetAttribute(desc, attr_name, [&] { return ListOf<float>(values, num_values); });
}

void TF_SetAttrBool(TF_OperationDescription* desc, const char* attr_name, unsigned char value) {
  SetAttribute(desc, attr_name, [&] { return value != 0; });
}

void TF_SetAttrBoolList(TF_OperationDescription* desc, const char* attr_name, const unsigned char* values,
                        int num_values) {
  SetAttribute(desc, attr_name, [&] {
    std::vector<bool> list;
    for (int i = 0; values != nullptr && i < num_values; ++i) list.push_back(values[i] != 0);
    return list;
  });
}

void TF_SetAttrType(TF_OperationDescription* desc, const char* attr_name, TF_DataType value) {
  SetAttribute(desc, attr_name, [&] { return TypeOf(value); });
}

void TF_SetAttrTypeList(TF_OperationDescription* desc, const char* attr_name, const TF_DataType* values,
                        int num_values) {
  SetAttribute(desc, attr_name, [&] {
    std::vector<DataType> list;
    for (int i = 0; values != nullptr && i < num_values; ++i) list.push_back(TypeOf(values[i]));
    return list;
  });
}

void TF_SetAttrPlaceholder(TF_OperationDescription* desc, const char* attr_name, const char* placeholder) {
  SetAttribute(desc, attr_name, [&] { return millrace::AttrPlaceholder{OrEmpty(placeholder)}; });
}

void TF_SetAttrFuncName(TF_OperationDescription* desc, const char* attr_name, const char* value,
                        size_t length) {
  SetAttribute(desc, attr_name, [&] {
    return millrace::NameAttrList{std::string(OrEmpty(value), value == nullptr ? 0 : length),
                                  std::make_shared<const AttrMap>()};
  });
}

void TF_SetAttrShape(TF_OperationDescription* desc, const char* attr_name, const int64_t* dims,
                     int num_dims) {
  SetAttribute(desc, attr_name, [&] { return ShapeAttr(desc, attr_name, dims, num_dims); });
}

void TF_SetAttrShapeList(TF_OperationDescription* desc, const char* attr_name, const int64_t* const* dims,
                         const int* num_dims, int num_shapes) {
  SetAttribute(desc, attr_name, [&] {
    std::vector<millrace::PartialShape> list;
    for (int i = 0; dims != nullptr && num_dims != nullptr && i < num_shapes; ++i) {
      list.push_back(*ShapeAttr(desc, attr_name, dims[i], num_dims[i]).As<millrace::PartialShape>());
    }
    return list;
  });
}

void TF_SetAttrTensorShapeProto(TF_OperationDescription* desc, const char* attr_name, const void* proto,
                                size_t proto_len, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (desc == nullptr || attr_name == nullptr) return NullArgument("The operation or the name");
    MR_ASSIGN_OR_RETURN(millrace::PartialShape shape, ShapeOfProto(proto, proto_len));
    desc->SetAttr(attr_name, std::move(shape));
    return Status();
  });
}

void TF_SetAttrTensorShapeProtoList(TF_OperationDescription* desc, const char* attr_name,
                                    const void* const* protos, const size_t* proto_lens, int num_shapes,
                                    TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (desc == nullptr || attr_name == nullptr) return NullArgument("The operation or the name");
    if (num_shapes > 0 && (protos == nullptr || proto_lens == nullptr)) return NullArgument("The list");
    std::vector<millrace::PartialShape> list;
    for (int i = 0; i < num_shapes; ++i) {
      auto shape = ShapeOfProto(protos[i], proto_lens[i]);
      if (!shape.ok()) {
        return millrace::errors::InvalidArgument(shape.status().message(), " at index ", i);
      }
      list.push_back(*std::move(shape));
    }
    desc->SetAttr(attr_name, std::move(list));
    return Status();
  });
}

void TF_SetAttrTensor(TF_OperationDescription* desc, const char* attr_name, TF_Tensor* value,
                      TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (desc == nullptr || attr_name == nullptr) return NullArgument("The operation or the name");
    MR_ASSIGN_OR_RETURN(millrace::Tensor tensor, CopyOfTensor(value));
    desc->SetAttr(attr_name, std::move(tensor));
    return Status();
  });
}

void TF_SetAttrTensorList(TF_OperationDescription* desc, const char* attr_name, TF_Tensor* const* values,
                          int num_values, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (desc == nullptr || attr_name == nullptr) return NullArgument("The operation or the name");
    if (num_values > 0 && values == nullptr) return NullArgument("The list");
    std::vector<millrace::Tensor> list;
    for (int i = 0; i < num_values; ++i) {
      MR_ASSIGN_OR_RETURN(millrace::Tensor tensor, CopyOfTensor(values[i]));
      list.push_back(std::move(tensor));
    }
    desc->SetAttr(attr_name, std::move(list));
    return Status();
  });
}

void TF_SetAttrValueProto(TF_OperationDescription* desc, const char* attr_name, const void* proto,
                          size_t proto_len, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (desc == nullptr || attr_name == nullptr) return NullArgument("The operation or the name");
    return SetAttrProto(desc, attr_name, proto, proto_len);
  });
}

TF_Operation* TF_FinishOperation(TF_OperationDescription* desc, TF_Status* status) {
  if (desc == nullptr) {
    Set(status, NullArgument("The operation"));
    return nullptr;
  }
  Node* result = nullptr;
  bool unused = false;
  TF_Graph* const graph = desc->graph;
  std::unique_ptr<TF_OperationDescription> owned(desc);
  Enter(status, [&]() -> Status {
    millrace::MutexLock lock(graph->mu);
    graph->AwaitTurn();
    const auto made = Finish(*graph, desc);
    if (graph->spare == nullptr) graph->spare = std::move(owned);  // for the next one
    unused = --graph->num_users == 0 && graph->delete_requested;
    if (made.ok()) result = *made;
    return made.status();
  });
  if (unused) delete graph;
  return OperationOf(result);
}
