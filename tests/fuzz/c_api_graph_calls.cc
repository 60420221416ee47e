// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls that build, read, import and derive graphs.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "tests/fuzz/c_api_world.h"

namespace millrace::c_api_fuzz {
namespace {

constexpr size_t kMostDescriptions = 4, kMostLoops = 3;

// The setter for the type of the attribute.
void SetAttrOfType(World& w, TF_OperationDescription* desc, const char* name, std::string_view type) {
  const std::vector<int64_t> dims = w.AnyShape();
  const int rank = w.in.Rarely() ? -1 : static_cast<int>(dims.size());
  const std::string raw = w.in.Raw(6);
  const void* const texts[] = {raw.data(), raw.data(), nullptr};
  const size_t lengths[] = {raw.size(), raw.size() / 2, 0};
  const TF_DataType types[] = {w.AnyType(), w.AnyType(), w.AnyType()};
  const int64_t* const shapes[] = {dims.data(), dims.data(), nullptr};
  const int ranks[] = {rank, 0, -1};
  const int count = w.in.Below(4);
  if (type == "type") return TF_SetAttrType(desc, name, types[0]);
  if (type == "list(type)") return TF_SetAttrTypeList(desc, name, types, count);
  if (type == "int") return TF_SetAttrInt(desc, name, w.in.Rarely() ? INT64_MAX : w.in.Below(6) - 1);
  if (type == "list(int)") return TF_SetAttrIntList(desc, name, dims.data(), static_cast<int>(dims.size()));
  if (type == "bool") return TF_SetAttrBool(desc, name, static_cast<unsigned char>(w.in.Next()));
  if (type == "list(bool)") {
    return TF_SetAttrBoolList(desc, name, reinterpret_cast<const unsigned char*>(raw.data()),
                              static_cast<int>(raw.size()));
  }
  if (type == "float") return TF_SetAttrFloat(desc, name, static_cast<float>(w.in.Next()) - 100);
  const float floats[] = {1, -1e30f, 0, 0.5f};
  if (type == "list(float)") return TF_SetAttrFloatList(desc, name, floats, count);
  if (type == "shape") return TF_SetAttrShape(desc, name, dims.data(), rank);
  if (type == "list(shape)") return TF_SetAttrShapeList(desc, name, shapes, ranks, count);
  if (type == "tensor") return TF_SetAttrTensor(desc, name, w.AnyTensor(), w.status);
  if (type == "list(tensor)") {
    const std::vector<TF_Tensor*> tensors = w.AnyTensors(static_cast<size_t>(count));
    return TF_SetAttrTensorList(desc, name, tensors.data(), count, w.status);
  }
  if (type == "func") return TF_SetAttrFuncName(desc, name, raw.data(), raw.size());
  if (type == "list(string)") return TF_SetAttrStringList(desc, name, texts, lengths, count);
  TF_SetAttrString(desc, name, raw.data(), raw.size());
}

void SetAnyAttr(World& w, const Description& d) {
  static constexpr const char* kTypes[] = {
      "type",  "list(type)",  "int",    "list(int)",    "bool", "list(bool)",   "float", "list(float)",
      "shape", "list(shape)", "tensor", "list(tensor)", "func", "list(string)", "string"};
  const char* name = w.AnyName();
  std::string_view type = w.in.Any(kTypes);
  if (d.op != nullptr && !d.op->attrs.empty() && !w.in.Rarely()) {
    const AttrDef& attr = d.op->attrs[static_cast<size_t>(w.in.Below(static_cast<int>(d.op->attrs.size())))];
    name = attr.name.c_str();
    if (!w.in.Rarely()) type = attr.type;
  }
  SetAttrOfType(w, d.desc, name, type);
}

void SetProto(World& w, const Description& d) {
  const std::string raw = w.in.Raw(24);
  const void* const protos[] = {raw.data(), raw.data()};
  const size_t sizes[] = {raw.size(), raw.size() / 2};
  const char* name = w.in.Sometimes() ? "_class" : w.AnyName();
  switch (w.in.Below(4)) {
    case 0:
      return TF_SetAttrTensorShapeProto(d.desc, name, raw.data(), raw.size(), w.status);
    case 1:
      return TF_SetAttrTensorShapeProtoList(d.desc, name, protos, sizes, w.in.Below(3), w.status);
    case 2:
      return TF_SetAttrPlaceholder(d.desc, name, w.AnyName());
    default:
      return TF_SetAttrValueProto(d.desc, name, raw.data(), raw.size(), w.status);
  }
}

Description NewDescription(World& w, TF_Graph* graph) {
  const OpDef* op = w.AnyOp();
  const char* type = op == nullptr ? w.AnyName() : op->name.c_str();
  return {TF_NewOperation(graph, type, w.NodeName()), graph, op};
}

void Finish(World& w, const Description& d) { w.AddOperation(TF_FinishOperation(d.desc, w.status), d.graph); }

// Inputs as declared by the op: those that share an attribute have one type.
void AddInputs(World& w, const Description& d) {
  std::map<std::string, TF_DataType> types;
  for (const ArgDef& arg : d.op->inputs) {
    TF_DataType& type = types[arg.type_attr];
    if (arg.type_attr.empty()) type = static_cast<TF_DataType>(arg.type);
    if (!arg.number_attr.empty() || !arg.type_list_attr.empty()) {
      std::vector<TF_Output> list;
      for (int n = w.in.Below(4); n > 0; --n) list.push_back(w.OutputOf(d.graph, type));
      TF_AddInputList(d.desc, list.data(), static_cast<int>(list.size()));
    } else {
      const TF_Output input = w.OutputOf(d.graph, type);
      type = static_cast<TF_DataType>(TF_OperationOutputType(input) % 100);
      TF_AddInput(d.desc, input);
    }
  }
}

void BuildOperation(World& w) {
  const Description d = NewDescription(w, w.AnyGraph());
  if (d.op != nullptr) {
    AddInputs(w, d);
    for (const AttrDef& attr : d.op->attrs) {
      const auto names = [&](const std::string& of_arg) { return of_arg == attr.name; };
      const bool inferred = std::any_of(d.op->inputs.begin(), d.op->inputs.end(), [&](const ArgDef& arg) {
        return names(arg.type_attr) || names(arg.number_attr) || names(arg.type_list_attr);
      });
      if (!inferred && (!attr.default_value.IsSet() || w.in.Rarely())) {
        SetAttrOfType(w, d.desc, attr.name.c_str(), attr.type);
      }
    }
  }
  Finish(w, d);
}

void AddConst(World& w) {
  TF_Graph* graph = w.AnyGraph();
  TF_Tensor* value = w.AnyTensor();
  TF_OperationDescription* desc = TF_NewOperation(graph, "Const", w.NodeName());
  TF_SetAttrTensor(desc, "value", value, w.status);
  TF_SetAttrType(desc, "dtype", TF_TensorType(value));
  w.AddOperation(TF_FinishOperation(desc, w.status), graph);
}

void BeginOperation(World& w) {
  const Description d = NewDescription(w, w.AnyGraph());
  if (d.desc == nullptr) return;
  w.descriptions.push_back(d);
  if (w.descriptions.size() <= kMostDescriptions) return;
  Finish(w, w.descriptions.front());
  w.descriptions.erase(w.descriptions.begin());
}

void ExtendOperation(World& w) {
  if (w.descriptions.empty()) return BeginOperation(w);
  const Description& d =
      w.descriptions[static_cast<size_t>(w.in.Below(static_cast<int>(w.descriptions.size())))];
  switch (w.in.Below(8)) {
    case 0:
      return TF_AddInput(d.desc, w.OutputOf(d.graph));
    case 1: {
      const std::vector<TF_Output> list = w.OutputsOf(d.graph, 3);
      return TF_AddInputList(d.desc, w.in.Rarely() ? nullptr : list.data(), static_cast<int>(list.size()));
    }
    case 2:
      return TF_AddControlInput(d.desc, w.in.Rarely() ? w.AnyOperation() : w.OutputOf(d.graph).oper);
    case 3:
      return TF_ColocateWith(d.desc, w.AnyOperation());
    case 4:
      return TF_SetDevice(d.desc, w.AnyName());
    case 5:
      return SetProto(w, d);
    default:
      return SetAnyAttr(w, d);
  }
}

void FinishOperation(World& w) {
  if (w.descriptions.empty()) return;
  const Description d = w.descriptions.back();
  w.descriptions.pop_back();
  Finish(w, d);
}

void NewGraph(World& w) { w.AddGraph(TF_NewGraph()); }

void DeleteGraph(World& w) {
  if (w.in.Sometimes()) return;
  TF_Graph* graph = w.AnyGraph();
  w.Forget(graph);
  TF_DeleteGraph(graph);
}

void ReadOperation(World& w) {
  TF_Operation* op = w.AnyOperation();
  const TF_Output output{op, w.in.Below(4) - 1};
  const TF_Input input{op, w.in.Below(4) - 1};
  TF_OperationName(op), TF_OperationOpType(op), TF_OperationDevice(op);
  TF_OperationOutputType(output), TF_OperationInputType(input), TF_OperationInput(input);
  TF_OperationOutputListLength(op, w.AnyName(), w.status);
  TF_OperationInputListLength(op, w.AnyName(), w.status);
  TF_Input consumers[3];
  TF_OperationOutputNumConsumers(output), TF_OperationOutputConsumers(output, consumers, w.in.Below(4));
  TF_Operation* neighbours[3];
  TF_OperationNumControlInputs(op), TF_OperationNumControlOutputs(op);
  TF_OperationGetControlInputs(op, neighbours, w.in.Below(4));
  TF_OperationGetControlOutputs(op, neighbours, w.in.Below(4));
  TF_Buffer* def = TF_NewBuffer();
  TF_OperationToNodeDef(op, def, w.status);
  w.buffers.Add(def);
}

// Calls every getter, whatever the attribute is.
void ReadAttr(World& w) {
  TF_Operation* op = w.AnyOperation();
  const char* name = w.AnyName();
  const TF_AttrMetadata metadata = TF_OperationGetAttrMetadata(op, name, w.status);
  const int most = w.in.Below(5) - 1;
  char text[16];
  void* texts[4];
  size_t sizes[4];
  int64_t ints[4] = {}, *dims[4];
  int ranks[4];
  float floats[4];
  unsigned char bools[4];
  TF_DataType types[4];
  TF_OperationGetAttrString(op, name, text, std::min<size_t>(sizeof(text), static_cast<size_t>(most + 1)),
                            w.status);
  TF_OperationGetAttrStringList(op, name, texts, sizes, most, text, sizeof(text), w.status);
  TF_OperationGetAttrInt(op, name, ints, w.status);
  TF_OperationGetAttrIntList(op, name, ints, most, w.status);
  TF_OperationGetAttrFloat(op, name, floats, w.status);
  TF_OperationGetAttrFloatList(op, name, floats, most, w.status);
  TF_OperationGetAttrBool(op, name, bools, w.status);
  TF_OperationGetAttrBoolList(op, name, bools, most, w.status);
  TF_OperationGetAttrType(op, name, types, w.status);
  TF_OperationGetAttrTypeList(op, name, types, most, w.status);
  TF_OperationGetAttrShape(op, name, ints, most, w.status);
  TF_OperationGetAttrShapeList(op, name, dims, ranks, most, ints, 4, w.status);
  TF_Buffer *one = TF_NewBuffer(), *other = TF_NewBuffer(), *many[4] = {};
  TF_OperationGetAttrTensorShapeProto(op, name, one, w.status);
  TF_OperationGetAttrTensorShapeProtoList(op, name, many, most, w.status);
  std::for_each(std::begin(many), std::end(many), TF_DeleteBuffer);
  TF_Tensor *tensor = nullptr, *tensors[4] = {};
  TF_OperationGetAttrTensor(op, name, &tensor, w.status);
  w.tensors.Add(tensor);
  TF_OperationGetAttrTensorList(op, name, tensors, most, w.status);
  std::for_each(std::begin(tensors), std::end(tensors), TF_DeleteTensor);
  TF_OperationGetAttrValueProto(op, name, other, w.status);
  w.buffers.Add(one);
  w.buffers.Add(other);
  if (metadata.is_list != 0 && metadata.list_size < 0)
    TF_SetStatus(w.status, TF_INTERNAL, "a list without size");
}

void Shapes(World& w) {
  TF_Graph* graph = w.AnyGraph();
  const TF_Output output = w.in.Rarely() ? w.AnyOutput() : w.OutputOf(graph);
  std::vector<int64_t> dims = w.AnyShape();
  const int rank = static_cast<int>(dims.size());
  const int known = TF_GraphGetTensorNumDims(graph, output, w.status);
  dims.resize(std::max<size_t>(dims.size(), 8));
  if (known <= 8) TF_GraphGetTensorShape(graph, output, dims.data(), w.in.Rarely() ? rank : known, w.status);
  TF_GraphSetTensorShape(graph, output, dims.data(), w.in.Rarely() ? -1 : rank, w.status);
}

void ReadGraph(World& w) {
  TF_Graph* graph = w.AnyGraph();
  size_t at = static_cast<size_t>(w.in.Next());
  if (w.in.Rarely()) at = SIZE_MAX - at;
  w.AddOperation(TF_GraphNextOperation(graph, &at), graph);
  w.AddOperation(TF_GraphOperationByName(graph, w.AnyName()), graph);
  TF_Buffer* buffer = TF_NewBuffer();
  switch (w.in.Below(3)) {
    case 0:
      TF_GraphToGraphDef(graph, buffer, w.status);
      break;
    case 1:
      TF_GraphVersions(graph, buffer, w.status);
      break;
    default:
      TF_GraphGetOpDef(graph, w.AnyName(), buffer, w.status);
  }
  w.buffers.Add(buffer);
}

void Evaluate(World& w) {
  TF_Graph* graph = w.AnyGraph();
  TF_Tensor* value = nullptr;
  TF_TryEvaluateConstant(graph, w.OutputOf(graph), &value, w.status);
  w.tensors.Add(value);
}

void ImportOptions(World& w) {
  if (w.imports.objects().empty() || w.in.Rarely()) w.imports.Add(TF_NewImportGraphDefOptions());
  TF_ImportGraphDefOptions* options = w.imports.Any(w.in);
  switch (w.in.Below(9)) {
    case 0:
      return TF_ImportGraphDefOptionsSetPrefix(options, w.AnyName());
    case 1:
      return TF_ImportGraphDefOptionsSetDefaultDevice(options, w.AnyName());
    case 2:
      return TF_ImportGraphDefOptionsSetUniquifyNames(options, static_cast<unsigned char>(w.in.Next()));
    case 3:
      return TF_ImportGraphDefOptionsSetUniquifyPrefix(options, static_cast<unsigned char>(w.in.Next()));
    case 4:
      return TF_ImportGraphDefOptionsAddInputMapping(options, w.AnyName(), w.in.Below(4) - 1, w.AnyOutput());
    case 5:
      return TF_ImportGraphDefOptionsRemapControlDependency(options, w.AnyName(), w.AnyOperation());
    case 6:
      return TF_ImportGraphDefOptionsAddControlDependency(options, w.AnyOperation());
    case 7:
      return TF_ImportGraphDefOptionsAddReturnOutput(options, w.AnyName(), w.in.Below(4) - 1);
    default:
      return TF_ImportGraphDefOptionsAddReturnOperation(options, w.AnyName());
  }
}

void Import(World& w) {
  TF_Graph* graph = w.AnyGraph();
  if (w.imports.objects().empty()) w.imports.Add(TF_NewImportGraphDefOptions());
  TF_ImportGraphDefOptions* options = w.imports.Any(w.in);
  TF_Buffer* def = w.buffers.Any(w.in);
  if (def == nullptr || w.in.Sometimes()) {
    TF_Buffer* whole = TF_NewBuffer();
    TF_GraphToGraphDef(w.AnyGraph(), whole, w.status);
    w.buffers.Add(def = whole);
  }
  if (def->length > 0 && w.in.Sometimes()) {
    for (int changes = w.in.Below(4); changes > 0; --changes) {
      static_cast<char*>(const_cast<void*>(def->data))[static_cast<size_t>(w.in.Below(65536)) % def->length] =
          static_cast<char>(w.in.Next());
    }
  }
  if (w.in.Sometimes()) {
    TF_Output outputs[4];
    const int count = TF_ImportGraphDefOptionsNumReturnOutputs(options);
    if (count > 4) return;
    return TF_GraphImportGraphDefWithReturnOutputs(graph, def, options, outputs, w.in.Rarely() ? 2 : count,
                                                   w.status);
  }
  TF_ImportGraphDefResults* results = TF_GraphImportGraphDefWithResults(graph, def, options, w.status);
  int n = 0, *indexes = nullptr;
  TF_Output* outputs = nullptr;
  TF_Operation** ops = nullptr;
  const char** names = nullptr;
  TF_ImportGraphDefResultsReturnOutputs(results, &n, &outputs);
  for (int i = 0; i < n; ++i) w.AddOperation(outputs[i].oper, graph);
  TF_ImportGraphDefResultsReturnOperations(results, &n, &ops);
  for (int i = 0; i < n; ++i) w.AddOperation(ops[i], graph);
  TF_ImportGraphDefResultsMissingUnusedInputMappings(results, &n, &names, &indexes);
  w.results.Add(results);
}

void MakeFunction(World& w) {
  TF_Graph* graph = w.AnyGraph();
  const std::vector<TF_Output> ins = w.OutputsOf(graph, 3), outs = w.OutputsOf(graph, 3);
  const TF_Operation* const ops[] = {w.OutputOf(graph).oper, w.OutputOf(graph).oper, w.AnyOperation()};
  const char* const names[] = {w.AnyName(), w.AnyName(), w.AnyName()};
  const bool named = w.in.Sometimes(), controlled = w.in.Sometimes();
  const int body = w.in.Sometimes() ? w.in.Below(5) - 2 : -1;
  w.functions.Add(TF_GraphToFunctionWithControlOutputs(
      graph, w.AnyName(), static_cast<unsigned char>(w.in.Next()), std::min(body, 3), ops,
      static_cast<int>(ins.size()), ins.data(), static_cast<int>(outs.size()), outs.data(),
      named ? names : nullptr, controlled ? 1 : 0, ops, named ? names : nullptr, nullptr, w.AnyName(),
      w.status));
}

void UseFunction(World& w) {
  TF_Function* function = w.functions.Any(w.in);
  TF_Graph* graph = w.AnyGraph();
  const std::string raw = w.in.Raw(20);
  TF_Buffer* buffer = TF_NewBuffer();
  w.buffers.Add(buffer);
  switch (w.in.Below(8)) {
    case 0:
      return TF_FunctionSetAttrValueProto(function, w.AnyName(), raw.data(), raw.size(), w.status);
    case 1:
      return TF_FunctionGetAttrValueProto(function, w.AnyName(), buffer, w.status);
    case 2:
      return w.functions.Add(TF_FunctionImportFunctionDef(raw.data(), raw.size(), w.status));
    case 3: {
      const TF_Buffer* bytes = w.buffers.Any(w.in);
      if (bytes == nullptr) return;
      return w.functions.Add(TF_FunctionImportFunctionDef(bytes->data, bytes->length, w.status));
    }
    case 4:
      return TF_FunctionToFunctionDef(function, buffer, w.status);
    case 5: {
      TF_Function* found[2] = {};
      const int count =
          TF_GraphGetFunctions(graph, found, std::min(2, TF_GraphNumFunctions(graph)), w.status);
      for (int i = 0; i < count; ++i) w.functions.Add(found[i]);
      return;
    }
    default:
      return TF_GraphCopyFunction(graph, function, w.in.Sometimes() ? w.functions.Any(w.in) : nullptr,
                                  w.status);
  }
}

// Adds a node that calls a function of its graph.
void CallFunction(World& w) {
  TF_Graph* graph = w.AnyGraph();
  TF_Function* function = w.functions.Any(w.in);
  if (!w.in.Rarely()) TF_GraphCopyFunction(graph, function, nullptr, w.status);
  TF_OperationDescription* desc = TF_NewOperation(graph, TF_FunctionName(function), w.NodeName());
  for (const TF_Output& input : w.OutputsOf(graph, 3)) TF_AddInput(desc, input);
  w.AddOperation(TF_FinishOperation(desc, w.status), graph);
}

void BeginLoop(World& w) {
  if (w.loops.size() == kMostLoops) return;
  TF_Graph* graph = w.AnyGraph();
  std::vector<TF_Output> inputs = w.OutputsOf(graph, 3);
  const TF_WhileParams params = TF_NewWhile(graph, inputs.data(), static_cast<int>(inputs.size()), w.status);
  if (params.ninputs == 0) return;
  w.loops.push_back({params, graph});
  w.AddGraph(params.cond_graph);
  w.AddGraph(params.body_graph);
  for (int i = 0; i < params.ninputs; ++i) {
    w.AddOperation(params.cond_inputs[i].oper, params.cond_graph);
    w.AddOperation(params.body_inputs[i].oper, params.body_graph);
  }
}

void EndLoop(World& w) {
  if (w.loops.empty()) return BeginLoop(w);
  const auto at = std::next(w.loops.begin(), w.in.Below(static_cast<int>(w.loops.size())));
  TF_WhileParams& params = at->params;
  params.name = w.AnyName();
  params.cond_output = w.OutputOf(params.cond_graph);
  for (int i = 0; i < params.ninputs; ++i) {
    params.body_outputs[i] = w.in.Sometimes() ? params.body_inputs[i] : w.OutputOf(params.body_graph);
  }
  TF_Graph* parent = at->parent;
  TF_Output outputs[3];
  const int count = params.ninputs;
  w.Forget(params.cond_graph);
  w.Forget(params.body_graph);
  if (w.in.Rarely()) {
    TF_AbortWhile(&params);
  } else {
    TF_FinishWhile(&params, w.status, outputs);
    for (int i = 0; i < count && TF_GetCode(w.status) == TF_OK; ++i) w.AddOperation(outputs[i].oper, parent);
  }
  w.loops.erase(at);
}

void Differentiate(World& w) {
  TF_Graph* graph = w.AnyGraph();
  std::vector<TF_Output> ys = w.OutputsOf(graph, 2), xs = w.OutputsOf(graph, 2),
                         given = w.OutputsOf(graph, 2);
  TF_Output result[2];
  given.resize(ys.size());
  TF_Output* dx = w.in.Sometimes() ? given.data() : nullptr;
  const char* prefix = w.in.Sometimes() ? w.AnyName() : nullptr;
  TF_AddGradientsWithPrefix(graph, prefix, ys.data(), static_cast<int>(ys.size()), xs.data(),
                            static_cast<int>(xs.size()), dx, w.status, result);
  for (size_t i = 0; i < xs.size() && TF_GetCode(w.status) == TF_OK; ++i)
    w.AddOperation(result[i].oper, graph);
}

}  // namespace

const std::vector<Call>& GraphCalls() {
  static const auto* const calls = new std::vector<Call>{{"BuildOperation", 70, BuildOperation},
                                                         {"AddConst", 20, AddConst},
                                                         {"BeginOperation", 8, BeginOperation},
                                                         {"ExtendOperation", 24, ExtendOperation},
                                                         {"FinishOperation", 8, FinishOperation},
                                                         {"NewGraph", 2, NewGraph},
                                                         {"DeleteGraph", 2, DeleteGraph},
                                                         {"ReadOperation", 6, ReadOperation},
                                                         {"ReadAttr", 6, ReadAttr},
                                                         {"Shapes", 4, Shapes},
                                                         {"ReadGraph", 6, ReadGraph},
                                                         {"Evaluate", 4, Evaluate},
                                                         {"ImportOptions", 6, ImportOptions},
                                                         {"Import", 6, Import},
                                                         {"MakeFunction", 6, MakeFunction},
                                                         {"UseFunction", 6, UseFunction},
                                                         {"CallFunction", 4, CallFunction},
                                                         {"BeginLoop", 4, BeginLoop},
                                                         {"EndLoop", 6, EndLoop},
                                                         {"Differentiate", 4, Differentiate}};
  return *calls;
}

}  // namespace millrace::c_api_fuzz
