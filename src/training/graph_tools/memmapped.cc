// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "graph/graph_import.h"
#include "io/memmapped_package.h"
#include "tensor/dtype_table.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "training/graph_tools/graph_tools.h"
#include "training/graph_tools/node_index.h"

namespace millrace {
namespace {

using tensorflow::NodeDef;

// The name of a node with '_' instead of characters that names in packages cannot have; unique.
std::string RegionName(const std::string& node, std::set<std::string>* taken) {
  std::string name = io::kMemmappedPrefix;
  for (const char c : node) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name.push_back(fine ? c : '_');
  }
  std::string unique = name;
  for (int i = 1; !taken->insert(unique).second; ++i) unique = StrCat(name, "_", i);
  return unique;
}

void MakeImmutable(const Tensor& value, const std::string& region, NodeDef* node) {
  node->set_op("ImmutableConst");
  auto& attrs = *node->mutable_attr();
  attrs.erase("value");
  attrs["dtype"].set_type(DataTypeToProto(value.dtype()));
  ShapeToProto(value.shape(), attrs["shape"].mutable_shape());
  attrs["memory_region_name"].set_s(region);
}

}  // namespace

Status WriteMemmappedPackage(const MemmappedOptions& options, Env& env, const std::string& path,
                             tensorflow::GraphDef* graph) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<io::MemmappedPackageWriter> writer,
                      io::MemmappedPackageWriter::Open(env, path));
  std::set<std::string> taken;
  for (NodeDef& node : *graph->mutable_node()) {
    if (node.op() != "Const") continue;
    MR_ASSIGN_OR_RETURN(const Tensor value, ConstValue(node));
    if (OwnsMemory(value.dtype()) || static_cast<int64_t>(value.num_bytes()) < options.min_bytes) continue;
    const std::string region = RegionName(node.name(), &taken);
    MR_RETURN_IF_ERROR(writer->AddTensor(region, value));
    MakeImmutable(value, region, &node);
  }
  MR_RETURN_IF_ERROR(writer->AddMessage(io::kMemmappedGraphDef, *graph));
  return writer->Finish();
}

Status LoadMemmappedGraph(Env& env, const std::string& path, tensorflow::GraphDef* graph) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<io::MemmappedEnv> package, io::MemmappedEnv::Open(env, path));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<ReadOnlyMemoryRegion> bytes,
                      package->NewReadOnlyMemoryRegion(io::kMemmappedGraphDef));
  MR_RETURN_IF_ERROR(ParseGraphDef(bytes->bytes(), graph));
  const auto qualify = [&](NodeDef* node) {
    const auto region = node->mutable_attr()->find("memory_region_name");
    if (node->op() != "ImmutableConst" || region == node->mutable_attr()->end()) return;
    if (io::IsMemmappedName(region->second.s())) {
      region->second.set_s(io::QualifiedName(path, region->second.s()));
    }
  };
  for (NodeDef& node : *graph->mutable_node()) qualify(&node);
  for (auto& function : *graph->mutable_library()->mutable_function()) {
    for (NodeDef& node : *function.mutable_node_def()) qualify(&node);
  }
  return Status();
}

Status RestoreMappedConstants(Env& env, tensorflow::GraphDef* graph) {
  // Many nodes may name one region. A graph of more bytes cannot be written.
  constexpr uint64_t kMostBytes = INT32_MAX;
  uint64_t total = 0;
  const auto restore = [&](NodeDef* node) -> Status {
    if (node->op() != "ImmutableConst") return Status();
    auto& attrs = *node->mutable_attr();
    MR_ASSIGN_OR_RETURN(const DataType dtype, DataTypeFromProto(attrs["dtype"].type()));
    const auto shape = ShapeFromProto(attrs["shape"].shape());
    if (!shape.ok() || attrs["shape"].shape().unknown_rank()) return Status();
    auto value = io::MapTensor(env, attrs["memory_region_name"].s(), dtype, *shape);
    if (!value.ok()) return value.status().WithContext(StrCat(" (the constant ", node->name(), ")"));
    total += value->num_bytes();
    if (total > kMostBytes) return errors::ResourceExhausted("mapped constants of more than 2 GiB");
    node->set_op("Const");
    attrs.erase("shape");
    attrs.erase("memory_region_name");
    TensorToProtoContent(*value, attrs["value"].mutable_tensor());
    return Status();
  };
  for (NodeDef& node : *graph->mutable_node()) MR_RETURN_IF_ERROR(restore(&node));
  for (auto& function : *graph->mutable_library()->mutable_function()) {
    for (NodeDef& node : *function.mutable_node_def()) MR_RETURN_IF_ERROR(restore(&node));
  }
  return Status();
}

}  // namespace millrace
