// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// make_memmapped_seeds DIR writes small packages of mapped constants to DIR/memmapped.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "base/env.h"
#include "builtin/register.h"
#include "io/memmapped_package.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/util/memmapped_file_system.pb.h"
#include "training/graph_tools/graph_tools.h"

namespace millrace {
namespace {

void Write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void AddConst(const std::string& name, const Tensor& value, tensorflow::GraphDef* graph) {
  auto* node = graph->add_node();
  node->set_name(name);
  node->set_op("Const");
  (*node->mutable_attr())["dtype"].set_type(DataTypeToProto(value.dtype()));
  TensorToProto(value, (*node->mutable_attr())["value"].mutable_tensor());
}

// As TensorFlow wrote packages before their directories had lengths.
std::string WithoutLengths(std::string bytes) {
  const std::string trailer = bytes.substr(bytes.size() - 8);
  const size_t at = static_cast<unsigned char>(trailer[0]) + 256u * static_cast<unsigned char>(trailer[1]);
  tensorflow::MemmappedFileSystemDirectory directory;
  directory.ParseFromString(bytes.substr(at, bytes.size() - 8 - at));
  for (auto& element : *directory.mutable_element()) element.clear_length();
  return bytes.substr(0, at) + directory.SerializeAsString() + trailer;
}

Status WriteSeeds(const std::filesystem::path& dir) {
  MR_RETURN_IF_ERROR(RegisterBuiltins());
  MemEnv env;
  tensorflow::GraphDef graph;
  AddConst("a/w", Tensor::From<float>({1, 2, 3, 4}, {2, 2}), &graph);
  AddConst("flags", Tensor::Vector<bool>({true, false}), &graph);
  AddConst("empty", Tensor(DataType::kInt64, TensorShape({0, 3})), &graph);
  MR_RETURN_IF_ERROR(WriteMemmappedPackage({.min_bytes = 0}, env, "/p", &graph));
  MR_ASSIGN_OR_RETURN(const std::string bytes, ReadFileToString(env, "/p"));
  Write(dir / "graph", bytes);
  Write(dir / "graph_without_lengths", WithoutLengths(bytes));
  MR_ASSIGN_OR_RETURN(const auto writer, io::MemmappedPackageWriter::Open(env, "/q"));
  MR_RETURN_IF_ERROR(writer->AddTensor("memmapped_package://x", Tensor::Scalar<double>(1)));
  MR_RETURN_IF_ERROR(writer->Finish());
  MR_ASSIGN_OR_RETURN(const std::string tensor, ReadFileToString(env, "/q"));
  Write(dir / "tensor", tensor);
  return Status();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path dir = std::filesystem::path(argv[1]) / "memmapped";
  std::filesystem::create_directories(dir);
  const millrace::Status status = millrace::WriteSeeds(dir);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
