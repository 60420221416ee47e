// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// make_seeds DIR writes the seeds of the fuzzers to DIR/graph and DIR/tensor: small graphs of every
// registered op, and tensors of every type in both encodings.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "builtin/register.h"
#include "op/op_registry.h"
#include "tensor/dtype_table.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"

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

void SetAttr(const AttrDef& attr, tensorflow::NodeDef* node) {
  if (attr.default_value.IsSet()) return;
  tensorflow::AttrValue& value = (*node->mutable_attr())[attr.name];
  if (attr.type == "type") value.set_type(tensorflow::DT_FLOAT);
  if (attr.type == "int") value.set_i(2);
  if (attr.type == "string") value.set_s("SAME");
  if (attr.type == "shape") value.mutable_shape()->add_dim()->set_size(2);
  if (attr.type == "list(int)") {
    for (const int i : {1, 2, 2, 1}) value.mutable_list()->add_i(i);
  }
  if (attr.type == "list(type)") value.mutable_list()->add_type(tensorflow::DT_FLOAT);
}

// One node of the op, with float matrices or integer vectors as inputs.
std::string GraphOf(const OpDef& op) {
  tensorflow::GraphDef def;
  def.mutable_versions()->set_producer(24);
  AddConst("f", Tensor::From<float>({1, 2, 3, 4}, {2, 2}), &def);
  AddConst("i", Tensor::Vector<int32_t>({1, 0}), &def);
  AddConst("s", Tensor::Scalar<int32_t>(1), &def);
  tensorflow::NodeDef* node = def.add_node();
  node->set_name("n");
  node->set_op(op.name);
  for (const AttrDef& attr : op.attrs) SetAttr(attr, node);
  for (const ArgDef& arg : op.inputs) {
    const bool integer = arg.type == DataType::kInt32 || arg.type_attr == "Tindices" ||
                         arg.type_attr == "Tidx" || arg.type_attr == "Tshape" || arg.type_attr == "Tperm" ||
                         arg.type_attr == "Index";
    const int copies = arg.number_attr.empty() ? 1 : 2;
    for (int k = 0; k < copies; ++k) node->add_input(integer ? (arg.name == "dimension" ? "s" : "i") : "f");
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
    Write(dir / "graph" / op->def.name, GraphOf(op->def));
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
