// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/metadata_message.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "distributed/step_stats.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace millrace {
namespace {

StatusOr<CostNode> CostFrom(const tensorflow::CostGraphDef::Node& proto) {
  CostNode node;
  node.name = proto.name();
  node.device = proto.device();
  node.id = proto.id();
  for (const auto& input : proto.input_info())
    node.inputs.push_back({input.preceding_node(), input.preceding_port()});
  node.control_inputs.assign(proto.control_input().begin(), proto.control_input().end());
  for (const auto& info : proto.output_info()) {
    CostNode::Output output;
    output.bytes = info.size();
    if (info.dtype() != tensorflow::DT_INVALID) {
      MR_ASSIGN_OR_RETURN(output.dtype, DataTypeFromProto(info.dtype()));
    }
    if (!info.shape().unknown_rank()) {
      MR_ASSIGN_OR_RETURN(output.shape, ShapeFromProto(info.shape()));
    }
    node.outputs.push_back(std::move(output));
  }
  node.peak_bytes = proto.temporary_memory_size();
  node.compute_ns = proto.compute_cost() * 1000;
  node.measured = proto.compute_cost() > 0;
  node.is_final = proto.is_final();
  return node;
}

}  // namespace

StatusOr<RunMetadata> MetadataFromProto(const tensorflow::RunMetadata& proto) {
  RunMetadata metadata;
  int64_t start = std::numeric_limits<int64_t>::max();
  for (const auto& device : proto.step_stats().dev_stats()) {
    for (const auto& node : device.node_stats()) start = std::min(start, node.all_start_micros());
  }
  if (start != std::numeric_limits<int64_t>::max()) metadata.step_start_unix_us = start;
  MR_RETURN_IF_ERROR(AppendStepStats(proto.step_stats(), 0, &metadata));
  for (const auto& graph : proto.partition_graphs())
    metadata.partition_graphs.push_back(graph.SerializeAsString());
  for (const auto& node : proto.cost_graph().node()) {
    MR_ASSIGN_OR_RETURN(CostNode read, CostFrom(node));
    metadata.cost_graph.push_back(std::move(read));
  }
  return metadata;
}

}  // namespace millrace
