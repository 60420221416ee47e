// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// make_seeds DIR writes the seeds of the fuzzers to DIR/graph and DIR/tensor: small graphs of every
// registered op, programs of loops, conditions, functions and queues, and tensors of every type in both
// encodings.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>

#include "base/strings.h"
#include "builtin/register.h"
#include "graph/graph.h"
#include "graph/graph_import.h"
#include "millrace/session.h"
#include "op/op_registry.h"
#include "tensor/dtype_table.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tests/soundness/random_program.h"

namespace millrace {
namespace {

void Write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void AddConst(const std::string& name, const Tensor& value, tensorflow::GraphDef* def) {
  tensorflow::NodeDef* node = def->add_node();
  node->set_name(name);
  node->set_op("Const");
  (*node->mutable_attr())["dtype"].set_type(static_cast<tensorflow::DataType>(value.dtype()));
  TensorToProto(value, (*node->mutable_attr())["value"].mutable_tensor());
}

// Ops that make the state for ops with such names. The first match is used.
struct Maker {
  const char* part;  // of the op's name
  const char* resource;
  const char* reference;
};
constexpr Maker kMakers[] = {
    {"Queue", "FIFOQueueV2", "FIFOQueue"},
    {"Barrier", "Barrier", "Barrier"},
    {"TensorArray", "TensorArrayV3", "TensorArray"},
    {"Stack", "StackV2", "Stack"},
    {"LookupTable", "MutableHashTableV2", "MutableHashTable"},
    {"InitializeTable", "HashTableV2", "HashTable"},
    {"Reader", "WholeFileReaderV2", "WholeFileReader"},
    {"Sparse", "SparseConditionalAccumulator", "SparseConditionalAccumulator"},
    {"Accumulator", "ConditionalAccumulator", "ConditionalAccumulator"},
    {"Mutex", "MutexV2", "MutexV2"},
    {"", "VarHandleOp", "VariableV2"},
};

// Constants from which inputs are chosen, by name.
const std::vector<std::pair<std::string, Tensor>>& Constants() {
  static const auto* const all = new std::vector<std::pair<std::string, Tensor>>{
      {"f", Tensor::From<float>({1, 2, 3, 4}, {2, 2})},
      {"f0", Tensor::Scalar(2.0f)},
      {"f1", Tensor::Vector<float>({1, 2})},
      {"f4", Tensor::From<float>({1, 2, 3, 4}, {1, 2, 2, 1})},
      {"i", Tensor::Vector<int32_t>({1, 0})},
      {"i0", Tensor::Scalar<int32_t>(1)},
      {"i2", Tensor::From<int32_t>({0, 1, 1, 0}, {2, 2})},
      {"i4", Tensor::Vector<int32_t>({1, 2, 2, 1})},
      {"l", Tensor::Vector<int64_t>({1, 0})},
      {"l0", Tensor::Scalar<int64_t>(1)},
      {"l2", Tensor::From<int64_t>({0, 1, 1, 0}, {2, 2})},
      {"t", Tensor::Vector<std::string>({"a", "b"})},
      {"t0", Tensor::Scalar("a")},
      {"b", Tensor::Vector<bool>({true, false})},
      {"b0", Tensor::Scalar(true)},
  };
  return *all;
}

// Draws nodes of an op until one can be imported and, preferably, runs.
class SeedMaker {
 public:
  explicit SeedMaker(const OpDef& op) : op_(op) {}
  std::string Make();

 private:
  uint32_t Pick(size_t n) { return static_cast<uint32_t>(random_() % n); }
  tensorflow::DataType PickType(const AttrDef* attr);
  void SetAttr(const AttrDef& attr, tensorflow::NodeDef* node);
  std::string PickConstant(tensorflow::DataType type, tensorflow::GraphDef* def);
  std::string MakeState(const ArgDef& arg, const std::string& name, tensorflow::GraphDef* def);
  void AddNode(const std::string& name, const OpDef& op, tensorflow::GraphDef* def);

  const OpDef& op_;
  std::mt19937 random_{1};
};

tensorflow::DataType SeedMaker::PickType(const AttrDef* attr) {
  constexpr tensorflow::DataType kTypes[] = {tensorflow::DT_FLOAT,  tensorflow::DT_FLOAT,
                                             tensorflow::DT_INT32,  tensorflow::DT_INT64,
                                             tensorflow::DT_STRING, tensorflow::DT_BOOL};
  for (int i = 0; i < 20; ++i) {
    const auto type = kTypes[Pick(std::size(kTypes))];
    const auto* allowed = attr == nullptr ? nullptr : attr->allowed_values.As<std::vector<DataType>>();
    if (allowed == nullptr ||
        std::find(allowed->begin(), allowed->end(), static_cast<DataType>(type)) != allowed->end())
      return type;
  }
  return tensorflow::DT_FLOAT;
}

void SeedMaker::SetAttr(const AttrDef& attr, tensorflow::NodeDef* node) {
  const bool gives_types = attr.type == "type" || attr.type == "list(type)";
  if (attr.default_value.IsSet() && !gives_types) return;
  if (const auto* type = attr.default_value.As<DataType>(); type != nullptr && Pick(2) == 0) {
    (*node->mutable_attr())[attr.name].set_type(static_cast<tensorflow::DataType>(*type));
    return;
  }
  constexpr const char* kFunctions[] = {"Mix", "Under", "Step"};
  tensorflow::AttrValue& value = (*node->mutable_attr())[attr.name];
  if (attr.type == "type") value.set_type(PickType(&attr));
  if (attr.type == "int") value.set_i(attr.name == "N" ? 2 : 1 + Pick(3));
  if (attr.type == "float") value.set_f(0.5f);
  if (attr.type == "bool") value.set_b(Pick(2) == 0);
  if (attr.type == "string") value.set_s(Pick(2) == 0 ? "SAME" : "n");
  if (attr.type == "func") value.mutable_func()->set_name(kFunctions[Pick(3)]);
  if (attr.type == "list(func)") value.mutable_list()->add_func()->set_name("Mix");
  if (attr.type == "shape") {
    for (uint32_t i = Pick(3); i > 0; --i) value.mutable_shape()->add_dim()->set_size(2);
  }
  if (attr.type == "tensor") TensorToProto(Tensor::Scalar(2.0f), value.mutable_tensor());
  if (attr.type == "list(int)") {
    for (const int i : {1, 2, 2, 1}) value.mutable_list()->add_i(i);
  }
  if (attr.type == "list(float)") value.mutable_list()->add_f(1);
  if (attr.type == "list(shape)") value.mutable_list()->add_shape();
  if (attr.type == "list(type)") {
    const auto type = PickType(nullptr);
    for (uint32_t i = 1 + Pick(3); i > 0; --i) value.mutable_list()->add_type(type);
  }
}

std::string SeedMaker::PickConstant(tensorflow::DataType type, tensorflow::GraphDef* def) {
  std::vector<size_t> fitting;
  for (size_t i = 0; i < Constants().size(); ++i) {
    if (static_cast<tensorflow::DataType>(Constants()[i].second.dtype()) == type) fitting.push_back(i);
  }
  const auto& [name, value] = Constants()[fitting.empty() ? 0 : fitting[Pick(fitting.size())]];
  for (const auto& node : def->node()) {
    if (node.name() == name) return name;
  }
  AddConst(name, value, def);
  return name;
}

std::string SeedMaker::MakeState(const ArgDef& arg, const std::string& name, tensorflow::GraphDef* def) {
  const Maker* maker = kMakers;
  while (op_.name.find(maker->part) == std::string::npos) ++maker;
  const auto made = OpRegistry::Global().LookUp(arg.is_ref ? maker->reference : maker->resource);
  if (made.ok() && (*made)->def.name != op_.name) AddNode(name, (*made)->def, def);
  return name;
}

void SeedMaker::AddNode(const std::string& name, const OpDef& op, tensorflow::GraphDef* def) {
  tensorflow::NodeDef node;
  node.set_name(name);
  node.set_op(op.name);
  for (const AttrDef& attr : op.attrs) SetAttr(attr, &node);
  for (const ArgDef& arg : op.inputs) {
    std::vector<tensorflow::DataType> types = {static_cast<tensorflow::DataType>(arg.type)};
    if (!arg.type_attr.empty()) types[0] = node.attr().at(arg.type_attr).type();
    if (!arg.number_attr.empty()) types.resize(2, types[0]);
    if (!arg.type_list_attr.empty()) {
      const auto& list = node.attr().at(arg.type_list_attr).list().type();
      types.clear();
      for (const int t : list) types.push_back(static_cast<tensorflow::DataType>(t));
    }
    for (const tensorflow::DataType type : types) {
      const bool is_state = arg.is_ref || type == tensorflow::DT_RESOURCE;
      node.add_input(is_state ? MakeState(arg, StrCat(name, "_", arg.name), def) : PickConstant(type, def));
    }
  }
  *def->add_node() = node;
}

// 0: can't be imported; 1: can be; 2: runs.
int Grade(const tensorflow::GraphDef& def) {
  Graph graph(OpRegistry::Global());
  if (!ImportGraphDef(def, ImportOptions(), &graph).ok()) return 0;
  if (def.node(def.node_size() - 1).op() == "Abort") return 2;
  const auto session = NewSession(SessionOptions());
  if (!session.ok() || !(*session)->Create(def).ok()) return 1;
  RunOptions options;
  options.timeout_in_ms = 20;
  const Status status = (*session)->Run(options, {}, {}, {"n"}, nullptr, nullptr);
  return status.ok() || errors::IsDeadlineExceeded(status) ? 2 : 1;
}

std::string SeedMaker::Make() {
  constexpr int kTries = 400;
  const RandomProgram functions(1, 1, 1);
  const bool calls = std::any_of(op_.attrs.begin(), op_.attrs.end(), [](const AttrDef& attr) {
    return attr.type.find("func") != std::string::npos;
  });
  std::string best;
  int best_grade = -1;
  for (int i = 0; i < kTries && best_grade < 2; ++i) {
    tensorflow::GraphDef def;
    def.mutable_versions()->set_producer(24);
    if (calls) *def.mutable_library() = functions.def().library();
    AddNode("n", op_, &def);
    if (const int grade = Grade(def); grade > best_grade) {
      best_grade = grade;
      best = def.SerializeAsString();
    }
  }
  if (best_grade < 2) std::cout << op_.name << (best_grade == 0 ? ": does not import\n" : ": does not run\n");
  return best;
}

// A program without feeds. It comes last, so that the fuzzer runs its results.
std::string Program(uint32_t seed) {
  const RandomProgram program(seed, 3, 1);
  tensorflow::GraphDef def = program.def();
  const std::vector<std::string> feeds = program.feeds();
  for (tensorflow::NodeDef& node : *def.mutable_node()) {
    if (node.op() != "Placeholder") continue;
    tensorflow::GraphDef value;
    AddConst(node.name(), Tensor::Scalar(static_cast<int32_t>(seed % 11 + node.name().size())), &value);
    node = value.node(0);
  }
  return def.SerializeAsString();
}

int Main(const std::filesystem::path& dir) {
  if (Status s = RegisterBuiltins(); !s.ok()) {
    std::cerr << s << "\n";
    return 1;
  }
  std::filesystem::create_directories(dir / "graph");
  std::filesystem::create_directories(dir / "tensor");
  for (const OpRegistration* op : OpRegistry::Global().All())
    Write(dir / "graph" / op->def.name, SeedMaker(op->def).Make());
  for (uint32_t seed = 1; seed <= 12; ++seed) Write(dir / "graph" / StrCat("program_", seed), Program(seed));
  for (const DataType t : kAllDataTypes) {
    const Tensor tensor(t, {2, 3});
    if (DataTypeSize(t) > 0)
      std::fill_n(static_cast<char*>(const_cast<Tensor&>(tensor).raw_data()), tensor.num_bytes(), 1);
    tensorflow::TensorProto proto;
    TensorToProto(tensor, &proto);
    Write(dir / "tensor" / StrCat(DataTypeName(t), "_list"), proto.SerializeAsString());
    TensorToProtoContent(tensor, &proto);
    Write(dir / "tensor" / StrCat(DataTypeName(t), "_content"), proto.SerializeAsString());
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_seeds DIR\n";
    return 2;
  }
  return millrace::Main(argv[1]);
}
