// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/strings.h"
#include "op/op_registry.h"
#include "tests/fuzz/c_api_world.h"
#include "tests/fuzz/fuzz_targets.h"

namespace millrace::c_api_fuzz {
namespace {

constexpr int kMostCalls = 400;
constexpr size_t kMostGraphs = 6, kMostOperations = 64;

void DeleteSession(TF_Session* session) { TF_DeleteSession(session, nullptr); }
void DeleteDeprecatedSession(TF_DeprecatedSession* session) { TF_DeleteDeprecatedSession(session, nullptr); }

// Skips ops whose kernels end the process or write files.
std::vector<const OpDef*> FindOps() {
  std::vector<const OpDef*> ops;
  for (const OpRegistration* op : OpRegistry::Global().All()) {
    const std::string& name = op->def.name;
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (!has("Abort") && !has("Save") && !has("Checkpoint") && !has("File") && !has("Summary")) {
      ops.push_back(&op->def);
    }
  }
  return ops;
}

const OpDef* OpNamed(std::string_view name) {
  const auto op = OpRegistry::Global().LookUp(name);
  return op.ok() ? &(*op)->def : nullptr;
}

std::vector<const Call*> WeighCalls() {
  std::vector<const Call*> table;
  for (const auto* calls : {&ValueCalls(), &GraphCalls(), &SessionCalls()}) {
    for (const Call& call : *calls) table.insert(table.end(), static_cast<size_t>(call.weight), &call);
  }
  return table;
}

}  // namespace

World::World(std::string_view input)
    : in(input),
      status(TF_NewStatus()),
      sessions(4, DeleteSession),
      deprecated(2, DeleteDeprecatedSession),
      handles(3, TF_DeletePRunHandle) {
  TF_SessionOptions* bounded = TF_NewSessionOptions();
  TF_SetConfig(bounded, "\x58\x14\x10\x02\x28\x02", 6, status);  // timeout of 20 ms, two threads
  options.Add(bounded);
  graphs.push_back(TF_NewGraph());
}

World::~World() {
  for (const Loop& loop : loops) TF_AbortWhile(&loop.params);
  for (const Description& description : descriptions) TF_FinishOperation(description.desc, nullptr);
  // Some graphs are deleted before their sessions, depending on the input.
  if (in.Next() % 2 == 0) sessions.Clear();
  std::set<TF_Graph*> parts;
  for (const Loop& loop : loops) parts.insert({loop.params.cond_graph, loop.params.body_graph});
  for (TF_Graph* graph : graphs) {
    if (!parts.contains(graph)) TF_DeleteGraph(graph);
  }
  TF_DeleteStatus(status);
}

TF_Graph* World::AnyGraph() {
  const int at = in.Next();
  if (at == 255) return nullptr;
  if (graphs.empty()) graphs.push_back(TF_NewGraph());
  if (at < 160) return graphs.front();
  return graphs[static_cast<size_t>(at) % graphs.size()];
}

TF_Operation* World::AnyOperation() {
  const int at = in.Next();
  return operations.empty() || at == 255 ? nullptr
                                         : operations[static_cast<size_t>(at) % operations.size()].op;
}

TF_Output World::AnyOutput() {
  TF_Operation* op = AnyOperation();
  return {op, in.Rarely() ? in.Below(8) - 3 : 0};
}

TF_Output World::OutputOf(TF_Graph* graph, TF_DataType type) {
  if (in.Rarely()) return AnyOutput();
  const auto start = static_cast<size_t>(in.Next());
  TF_Output any{nullptr, 0};
  for (size_t i = 0; i < operations.size(); ++i) {
    const Operation& found = operations[(start + i) % operations.size()];
    if (found.graph != graph) continue;
    for (int index = 0; index < TF_OperationNumOutputs(found.op); ++index) {
      any = {found.op, index};
      const int of_output = TF_OperationOutputType(any);
      if (type == 0 || of_output == type || of_output % 100 == type) return any;
    }
  }
  return any;
}

const char* World::NodeName() {
  if (in.Sometimes()) return AnyName();
  return names_.emplace_back(StrCat("n", next_name_++)).c_str();
}

std::vector<TF_Output> World::OutputsOf(TF_Graph* graph, int most) {
  std::vector<TF_Output> outputs;
  for (int n = in.Below(most + 1); n > 0; --n) outputs.push_back(OutputOf(graph));
  return outputs;
}

TF_DataType World::AnyType() {
  static constexpr TF_DataType kTypes[] = {TF_INT32,  TF_FLOAT, TF_INT32, TF_FLOAT,
                                           TF_STRING, TF_BOOL,  TF_INT64, TF_RESOURCE};
  return in.Sometimes() ? static_cast<TF_DataType>(in.Next()) : in.Any(kTypes);
}

std::vector<int64_t> World::AnyShape() {
  std::vector<int64_t> dims;
  for (int rank = in.Below(4); rank > 0; --rank) dims.push_back(in.Below(5));
  if (in.Rarely()) dims.push_back(in.Rarely() ? INT64_MAX : in.Below(65536) - 2);
  return dims;
}

const char* World::AnyName() {
  static constexpr const char* kWords[] = {"a",
                                           "b",
                                           "c",
                                           "d",
                                           "a/b",
                                           "a/c",
                                           "loop",
                                           "f",
                                           "g",
                                           "bad name",
                                           "",
                                           "a:0",
                                           "^a",
                                           "b:1",
                                           "x",
                                           "y",
                                           "T",
                                           "N",
                                           "dtype",
                                           "shape",
                                           "Add",
                                           "value",
                                           "_class",
                                           "/cpu:0",
                                           "_a",
                                           "DT_INT32",
                                           "output",
                                           "input",
                                           "x: T",
                                           "n: int >= 1 = 3",
                                           "T: {int32, float} = DT_FLOAT",
                                           "y: N * T",
                                           "gradients"};
  const int form = in.Next();
  if (form == 255) return nullptr;
  if (form < 224) return kWords[static_cast<size_t>(form) % std::size(kWords)];
  names_.push_back(in.Raw(24));
  return names_.back().c_str();
}

const OpDef* World::AnyOp() {
  static const auto* const ops = new std::vector<const OpDef*>(FindOps());
  static constexpr const char* kUsual[] = {"Placeholder",
                                           "Const",
                                           "Add",
                                           "Mul",
                                           "Neg",
                                           "Identity",
                                           "NoOp",
                                           "AddN",
                                           "Shape",
                                           "Reshape",
                                           "ConcatV2",
                                           "Pack",
                                           "VariableV2",
                                           "Assign",
                                           "AssignAdd",
                                           "Switch",
                                           "Merge",
                                           "Enter",
                                           "Exit",
                                           "NextIteration",
                                           "LoopCond",
                                           "Cast",
                                           "Sum",
                                           "MatMul",
                                           "Split",
                                           "Square",
                                           "Select",
                                           "Range",
                                           "FIFOQueueV2",
                                           "QueueEnqueueV2",
                                           "QueueDequeueV2",
                                           "VarHandleOp",
                                           "ReadVariableOp",
                                           "AssignVariableOp",
                                           "FuzzKernel",
                                           "FuzzShapes",
                                           "IdentityN",
                                           "Less",
                                           "PlaceholderWithDefault",
                                           "RandomUniform"};
  if (in.Next() < 176) return OpNamed(in.Any(kUsual));
  return (*ops)[static_cast<size_t>(in.Below(static_cast<int>(ops->size())))];
}

TF_Tensor* World::NewTensor() {
  const TF_DataType type = AnyType();
  const std::vector<int64_t> dims = AnyShape();
  size_t count = 1;
  for (const int64_t dim : dims) count = dim < 0 || dim > 65536 ? 0 : count * static_cast<size_t>(dim);
  size_t size = std::min<size_t>(count, 1 << 16) * TF_DataTypeSize(type);
  if (type == TF_STRING) {  // all elements are the string at offset 0
    const std::string text = in.Raw(8);
    count = std::min<size_t>(count, 1000);
    TF_Tensor* tensor = TF_AllocateTensor(type, dims.data(), static_cast<int>(dims.size()),
                                          count * 8 + TF_StringEncodedSize(text.size()));
    if (tensor == nullptr) return nullptr;
    auto* data = static_cast<char*>(TF_TensorData(tensor));
    std::fill_n(data, count * 8, '\0');
    TF_StringEncode(text.data(), text.size(), data + count * 8, TF_TensorByteSize(tensor) - count * 8,
                    status);
    return tensor;
  }
  if (size == 0 || in.Rarely()) size = static_cast<size_t>(in.Below(64));
  TF_Tensor* tensor = TF_AllocateTensor(type, dims.data(), static_cast<int>(dims.size()), size);
  if (tensor == nullptr) return nullptr;
  auto* data = static_cast<char*>(TF_TensorData(tensor));
  std::fill_n(data, TF_TensorByteSize(tensor), '\0');
  const std::string raw = in.Raw(16);
  // Every fourth byte, so that integers are small.
  for (size_t i = 0; i < raw.size() && 4 * i < TF_TensorByteSize(tensor); ++i) data[4 * i] = raw[i];
  return tensor;
}

TF_Tensor* World::AnyTensor() {
  if (tensors.objects().size() < 2 || in.Sometimes()) tensors.Add(NewTensor());
  return tensors.Any(in);
}

std::vector<TF_Tensor*> World::AnyTensors(size_t count) {
  std::vector<TF_Tensor*> picked(count);
  if (count > 0) picked[0] = AnyTensor();
  for (size_t i = 1; i < count; ++i) picked[i] = tensors.Any(in);
  return picked;
}

void World::AddOperation(TF_Operation* op, TF_Graph* graph) {
  if (op == nullptr || !Knows(graph)) return;
  if (operations.size() < kMostOperations) {
    operations.push_back({op, graph});
  } else {
    operations[next_operation_++ % kMostOperations] = {op, graph};
  }
}

bool World::Knows(TF_Graph* graph) const { return std::count(graphs.begin(), graphs.end(), graph) > 0; }

void World::Forget(TF_Graph* graph) {
  std::erase_if(operations, [&](const Operation& op) { return op.graph == graph; });
  std::erase(graphs, graph);
}

void RunCalls(std::string_view input, Outcomes* outcomes) {
  static const auto* const table = new std::vector<const Call*>(WeighCalls());
  World world(input);
  for (int calls = 0; calls < kMostCalls && !world.in.done(); ++calls) {
    const Call& call = *(*table)[static_cast<size_t>(world.in.Below(static_cast<int>(table->size())))];
    TF_SetStatus(world.status, TF_OK, "");
    call.run(world);
    if (outcomes != nullptr) outcomes->emplace(call.name, TF_GetCode(world.status));
    if (world.graphs.size() > kMostGraphs && world.loops.empty()) {
      TF_Graph* graph = world.graphs.front();
      world.Forget(graph);
      TF_DeleteGraph(graph);
    }
  }
}

}  // namespace millrace::c_api_fuzz

namespace millrace {

void FuzzCApi(std::string_view bytes) {
  PrepareFuzzing();
  static const bool registered = (c_api_fuzz::RegisterOpsInC(), true);
  if (registered) c_api_fuzz::RunCalls(bytes, nullptr);
}

}  // namespace millrace
