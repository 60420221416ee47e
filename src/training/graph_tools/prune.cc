// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tools that only remove nodes, or replace them by placeholders.
#include <algorithm>

#include "op/attr_codec.h"
#include "op/op_def.h"
#include "op/op_registry.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "training/graph_tools/graph_tools.h"
#include "training/graph_tools/node_index.h"

namespace millrace {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

// The type of output 0 of a node, by its op and attributes.
StatusOr<DataType> OutputType(const NodeDef& node) {
  MR_ASSIGN_OR_RETURN(const OpRegistration* op, OpRegistry::Global().LookUp(node.op()));
  MR_ASSIGN_OR_RETURN(AttrMap attrs, AttrMapFromProto(node.attr()));
  MR_RETURN_IF_ERROR(AddDefaultAttrs(op->def, &attrs));
  std::vector<DataType> inputs;
  std::vector<DataType> outputs;
  MR_RETURN_IF_ERROR(InferArgTypes(op->def, attrs, &inputs, &outputs));
  if (outputs.empty()) return errors::InvalidArgument("it has no outputs");
  return BaseType(outputs[0]);
}

Status MakePlaceholder(DataType type, NodeDef* node) {
  const bool is_placeholder = node->op() == "Placeholder" || node->op() == "PlaceholderV2";
  if (type == DataType::kInvalid) {
    auto own = OutputType(*node);
    if (!own.ok()) {
      return errors::InvalidArgument("The type of input '", node->name(),
                                     "' must be given: ", own.status().message());
    }
    type = *own;
  }
  if (is_placeholder && TypeAttr(*node, "dtype") == type) return Status();
  NodeDef placeholder;
  placeholder.set_name(node->name());
  placeholder.set_op("Placeholder");
  placeholder.set_device(node->device());
  auto& attrs = *placeholder.mutable_attr();
  attrs["dtype"].set_type(DataTypeToProto(type));
  if (const auto* shapes = FindAttr(*node, "_output_shapes")) attrs["_output_shapes"] = *shapes;
  if (const auto* shape = FindAttr(*node, "shape"); shape != nullptr && is_placeholder)
    attrs["shape"] = *shape;
  *node = std::move(placeholder);
  return Status();
}

// The source of an input's value after each node to be dropped is replaced by its first input. The search
// also ends for a malformed graph with a cycle.
std::string Resolve(const std::string& input, const std::vector<bool>& drop, const NodeIndex& index,
                    const GraphDef& graph) {
  std::string resolved = input;
  for (int steps = 0; steps < graph.node_size(); ++steps) {
    const int source = index.SourceOf(resolved);
    if (source < 0 || !drop[static_cast<size_t>(source)]) break;
    resolved = graph.node(source).input(0);
  }
  return resolved;
}

// Removes the marked nodes. REQUIRES: they have a data input.
void Splice(const std::vector<bool>& drop, const NodeIndex& index, GraphDef* graph) {
  std::vector<bool> keep(drop.size());
  for (int i = 0; i < graph->node_size(); ++i) {
    keep[static_cast<size_t>(i)] = !drop[static_cast<size_t>(i)];
    if (!keep[static_cast<size_t>(i)]) continue;
    NodeDef& node = *graph->mutable_node(i);
    google::protobuf::RepeatedPtrField<std::string> inputs;
    for (const std::string& input : node.input()) {
      const int source = index.SourceOf(input);
      const bool gone = source >= 0 && drop[static_cast<size_t>(source)];
      if (!gone) {
        *inputs.Add() = input;
      } else if (!input.starts_with('^')) {
        *inputs.Add() = Resolve(input, drop, index, *graph);
      }
    }
    node.mutable_input()->Swap(&inputs);
  }
  KeepNodes(keep, graph);
}

bool HasDataInput(const NodeDef& node) { return node.input_size() > 0 && !node.input(0).starts_with('^'); }

bool IsWaitedFor(int node, const NodeIndex& index) {
  const auto& uses = index.UsesOf(node);
  return std::any_of(uses.begin(), uses.end(), [](const NodeIndex::Use& use) { return use.output < 0; });
}

bool OnlyOutput0IsUsed(int node, const NodeIndex& index) {
  const auto& uses = index.UsesOf(node);
  return std::all_of(uses.begin(), uses.end(), [](const NodeIndex::Use& use) { return use.output <= 0; });
}

}  // namespace

Status ExtractSubGraph(const std::vector<std::string>& names, GraphDef* graph) {
  MR_ASSIGN_OR_RETURN(const NodeIndex index, NodeIndex::Make(*graph));
  MR_ASSIGN_OR_RETURN(const std::vector<int> roots, index.FindAll(names));
  KeepNodes(NeededBy(roots, index, *graph), graph);
  return Status();
}

Status StripUnused(const StripOptions& options, GraphDef* graph) {
  const size_t types = options.input_types.size();
  if (types > 1 && types != options.inputs.size()) {
    return errors::InvalidArgument("There are ", types, " types for ", options.inputs.size(), " inputs");
  }
  MR_ASSIGN_OR_RETURN(const NodeIndex index, NodeIndex::Make(*graph));
  MR_ASSIGN_OR_RETURN(const std::vector<int> inputs, index.FindAll(options.inputs));
  MR_RETURN_IF_ERROR(index.FindAll(options.outputs).status());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DataType type = types == 0 ? DataType::kInvalid : options.input_types[types == 1 ? 0 : i];
    if (!OnlyOutput0IsUsed(inputs[i], index)) {
      return errors::InvalidArgument("Input '", options.inputs[i],
                                     "' has several used outputs, but a placeholder has one");
    }
    MR_RETURN_IF_ERROR(MakePlaceholder(type, graph->mutable_node(inputs[i])));
  }
  return ExtractSubGraph(options.outputs, graph);
}

Status RemoveTrainingNodes(const std::set<std::string>& protect, GraphDef* graph) {
  MR_ASSIGN_OR_RETURN(const NodeIndex index, NodeIndex::Make(*graph));
  std::vector<bool> drop(static_cast<size_t>(graph->node_size()), false);
  for (int i = 0; i < graph->node_size(); ++i) {
    const NodeDef& node = graph->node(i);
    if (!HasDataInput(node) || protect.contains(node.name())) continue;
    drop[static_cast<size_t>(i)] =
        node.op() == "CheckNumerics" ||
        (node.op() == "Identity" && !HasControlInputs(node) && !IsWaitedFor(i, index));
  }
  Splice(drop, index, graph);
  return Status();
}

Status RemoveNodes(const std::set<std::string>& ops, const std::set<std::string>& protect, GraphDef* graph) {
  MR_ASSIGN_OR_RETURN(const NodeIndex index, NodeIndex::Make(*graph));
  std::vector<bool> drop(static_cast<size_t>(graph->node_size()), false);
  for (int i = 0; i < graph->node_size(); ++i) {
    const NodeDef& node = graph->node(i);
    drop[static_cast<size_t>(i)] = ops.contains(node.op()) && node.input_size() == 1 && HasDataInput(node) &&
                                   !protect.contains(node.name()) && !IsWaitedFor(i, index) &&
                                   OnlyOutput0IsUsed(i, index);
  }
  Splice(drop, index, graph);
  return Status();
}

Status OptimizeForInference(const StripOptions& options, GraphDef* graph) {
  MR_RETURN_IF_ERROR(StripUnused(options, graph));
  std::set<std::string> protect;
  for (const std::string& output : options.outputs) protect.emplace(ParseTensorId(output).name);
  MR_RETURN_IF_ERROR(RemoveTrainingNodes(protect, graph));
  MR_RETURN_IF_ERROR(FoldConstants({.outputs = options.outputs}, graph));
  MR_RETURN_IF_ERROR(FoldBatchNorms(options.outputs, graph));
  return RemoveTrainingNodes(protect, graph);  // folding leaves identities where there is nothing to add
}

}  // namespace millrace
