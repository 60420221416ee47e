// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate_graph.h"

#include <cstdint>
#include <set>
#include <vector>

#include "base/strings.h"
#include "op/op_registry.h"
#include "tensor/dtype_table.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/mutate_message.h"

namespace millrace {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

// Names of ops, attributes and their allowed values, devices and colocation.
const std::vector<std::string>& Words() {
  static const std::vector<std::string> words = [] {
    PrepareFuzzing();
    std::set<std::string> all = {"/device:CPU:0",
                                 "/device:CPU:1",
                                 "/cpu:1",
                                 "/job:a/task:1",
                                 "loc:@f",
                                 "loc:@n",
                                 "_class",
                                 "NHWC",
                                 "NCHW",
                                 "SAME",
                                 "VALID",
                                 "f",
                                 "i",
                                 "s",
                                 "n",
                                 "n:1",
                                 "^f",
                                 "f:-1",
                                 "_SOURCE",
                                 "_Arg",
                                 "_output_shapes"};
    for (const OpRegistration* op : OpRegistry::Global().All()) {
      all.insert(op->def.name);
      for (const AttrDef& attr : op->def.attrs) all.insert(attr.name);
    }
    return std::vector<std::string>(all.begin(), all.end());
  }();
  return words;
}

tensorflow::DataType RandomType(std::mt19937& rng) {
  constexpr size_t kTypes = std::size(kAllDataTypes);
  return static_cast<tensorflow::DataType>(kAllDataTypes[rng() % kTypes]);
}

// Zeros, or one repeated value, of the new type.
void Retype(tensorflow::DataType to, std::mt19937& rng, tensorflow::TensorProto* tensor) {
  const tensorflow::TensorShapeProto shape = tensor->tensor_shape();
  tensor->Clear();
  tensor->set_dtype(to);
  *tensor->mutable_tensor_shape() = shape;
  const int value = static_cast<int>(rng() % 4) - 1;
  if (rng() % 2 == 0) return;
  tensor->add_int_val(value);
  tensor->add_int64_val(value);
  tensor->add_float_val(static_cast<float>(value));
  tensor->add_double_val(value);
}

// Replaces one type by another everywhere, so that the graph stays consistent.
void RetypeAll(std::mt19937& rng, GraphDef* def) {
  const tensorflow::DataType from = rng() % 4 != 0 ? tensorflow::DT_FLOAT : RandomType(rng),
                             to = RandomType(rng);
  for (NodeDef& node : *def->mutable_node()) {
    for (auto& [name, attr] : *node.mutable_attr()) {
      if (attr.type() == from) attr.set_type(to);
      if (attr.has_tensor() && attr.tensor().dtype() == from) Retype(to, rng, attr.mutable_tensor());
      for (int i = 0; i < attr.list().type_size(); ++i) {
        if (attr.list().type(i) == from) attr.mutable_list()->set_type(i, to);
      }
    }
  }
}

NodeDef* RandomNode(std::mt19937& rng, GraphDef* def) {
  return def->mutable_node(static_cast<int>(rng() % static_cast<uint32_t>(def->node_size())));
}

// Adds an edge from any node to any other, or replaces one by it.
void Rewire(std::mt19937& rng, GraphDef* def) {
  NodeDef* to = RandomNode(rng, def);
  std::string from = RandomNode(rng, def)->name();
  if (rng() % 8 == 0) from += ":1";
  if (rng() % 8 == 0) from = "^" + from;
  if (to->input_size() == 0 || rng() % 6 == 0) {
    to->add_input(from);
  } else {
    to->set_input(static_cast<int>(rng() % static_cast<uint32_t>(to->input_size())), from);
  }
}

// A constant of few elements, with a shape and values that are edge cases of kernels.
void AddConst(std::mt19937& rng, GraphDef* def) {
  constexpr int kValues[] = {0, 1, 2, 3, -1, -2, 5, 2147483647, -2147483647 - 1, 1000000};
  NodeDef* node = def->add_node();
  node->set_name(StrCat("c", def->node_size(), "_", rng() % 1000));
  node->set_op("Const");
  tensorflow::TensorProto* tensor = (*node->mutable_attr())["value"].mutable_tensor();
  constexpr tensorflow::DataType kTypes[] = {tensorflow::DT_INT32, tensorflow::DT_INT32,
                                             tensorflow::DT_INT64, tensorflow::DT_FLOAT,
                                             tensorflow::DT_BOOL,  tensorflow::DT_STRING};
  const tensorflow::DataType type = rng() % 4 == 0 ? RandomType(rng) : kTypes[rng() % std::size(kTypes)];
  tensor->set_dtype(type);
  (*node->mutable_attr())["dtype"].set_type(type);
  tensor->mutable_tensor_shape();
  // Nothing is allocated if one size is zero, however large the others are.
  constexpr int64_t kHuge[] = {0, 0, 1, int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 62};
  const bool huge = rng() % 6 == 0;
  for (uint32_t rank = rng() % 5; rank > 0; --rank) {
    tensor->mutable_tensor_shape()->add_dim()->set_size(huge ? kHuge[rng() % std::size(kHuge)] : rng() % 4);
  }
  for (uint32_t n = 1 + rng() % 4; n > 0; --n) {
    const int value = kValues[rng() % std::size(kValues)];
    tensor->add_int_val(value);
    tensor->add_int64_val(value);
    tensor->add_float_val(static_cast<float>(value));
    tensor->add_bool_val(value != 0);
    tensor->add_string_val(std::to_string(value));
  }
  NodeDef* to = RandomNode(rng, def);
  if (to->input_size() > 0)
    to->set_input(static_cast<int>(rng() % static_cast<uint32_t>(to->input_size())), node->name());
}

GraphDef Parse(std::string_view bytes) {
  GraphDef def;
  if (!def.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) def.Clear();
  return def;
}

}  // namespace

std::string MutateGraphDef(std::string_view bytes, std::mt19937& rng) {
  GraphDef def = Parse(bytes);
  const uint32_t how = rng() % 8;
  if (how < 4 || def.node_size() == 0) MutateMessage(Words(), rng, &def);
  if (def.node_size() == 0) return def.SerializeAsString();
  if (how == 4) RetypeAll(rng, &def);
  if (how == 5) Rewire(rng, &def);
  if (how >= 6) AddConst(rng, &def);
  return def.SerializeAsString();
}

std::string JoinGraphDefs(std::string_view a, std::string_view b, std::mt19937& rng) {
  GraphDef def = Parse(a), more = Parse(b);
  const std::string prefix = StrCat("g", rng() % 1000, "/");
  for (NodeDef& node : *more.mutable_node()) {
    node.set_name(prefix + node.name());
    for (std::string& input : *node.mutable_input()) {
      input = !input.empty() && input[0] == '^' ? StrCat("^", prefix, input.substr(1)) : prefix + input;
    }
    *def.add_node() = std::move(node);
  }
  if (def.node_size() > 0) Rewire(rng, &def);
  return def.SerializeAsString();
}

std::string MutateTensorProto(std::string_view bytes, std::mt19937& rng) {
  tensorflow::TensorProto tensor;
  if (!tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) tensor.Clear();
  MutateMessage({}, rng, &tensor);
  return tensor.SerializeAsString();
}

}  // namespace millrace
