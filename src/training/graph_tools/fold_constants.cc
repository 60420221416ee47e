// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "graph/graph_import.h"
#include "graph/shape_refiner.h"
#include "op/attr_codec.h"
#include "op/op_registry.h"
#include "tensor/dtype_table.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "training/graph_tools/graph_tools.h"
#include "training/graph_tools/node_index.h"

namespace millrace {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

// Whether a node may be computed in advance when its inputs are constant.
bool IsPure(const NodeDef& node) {
  if (HasControlInputs(node)) return false;
  const auto found = OpRegistry::Global().LookUp(node.op());
  if (!found.ok()) return false;
  const OpTraits& t = (*found)->traits;
  const OpDef& op = (*found)->def;
  if (op.is_stateful || t.never_fold || t.has_side_effects || t.is_control_flow || t.is_variable ||
      t.is_send || t.is_recv || t.only_checks) {
    return false;
  }
  auto attrs = AttrMapFromProto(node.attr());
  if (!attrs.ok() || !AddDefaultAttrs(op, &*attrs).ok()) return false;
  std::vector<DataType> inputs;
  std::vector<DataType> outputs;
  if (!InferArgTypes(op, *attrs, &inputs, &outputs).ok() || outputs.empty()) return false;
  const auto suits = [](DataType type) {
    return !IsRefType(type) && type != DataType::kResource && type != DataType::kVariant;
  };
  return std::all_of(inputs.begin(), inputs.end(), suits) &&
         std::all_of(outputs.begin(), outputs.end(), suits);
}

bool ForwardsInput(const NodeDef& node) {
  const auto op = OpRegistry::Global().LookUp(node.op());
  return op.ok() && (*op)->traits.forwards;
}

class Folder {
 public:
  Folder(const FoldConstantsOptions& options, const NodeIndex& index, GraphDef* graph)
      : options_(options), index_(index), graph_(*graph) {}

  Status Run() {
    MR_ASSIGN_OR_RETURN(roots_, index_.FindAll(options_.outputs));
    FindConstant();
    std::vector<int> results = FindResults();
    if (results.empty()) return Status();
    LeaveLarge(results);
    results = FindResults();
    const auto session = MakeSession(results);
    if (!session.ok()) return Status();  // constants that can't be computed now stay in the graph
    Compute(**session, results);
    return Status();
  }

 private:
  // Marks the nodes whose value depends on constants only: a node once all of its inputs are known.
  void FindConstant() {
    const auto size = static_cast<size_t>(graph_.node_size());
    constant_.assign(size, false);
    std::vector<int> missing(size, -1);  // unknown inputs; -1: not pure
    std::vector<int> open;
    for (int i = 0; i < graph_.node_size(); ++i) {
      const NodeDef& node = graph_.node(i);
      if (!IsPure(node)) continue;
      missing[static_cast<size_t>(i)] = node.input_size();
      if (node.input_size() == 0) open.push_back(i);
    }
    while (!open.empty()) {
      const int node = open.back();
      open.pop_back();
      constant_[static_cast<size_t>(node)] = true;
      for (const NodeIndex::Use& use : index_.UsesOf(node)) {
        if (--missing[static_cast<size_t>(use.node)] == 0) open.push_back(use.node);
      }
    }
  }

  // Nodes to be computed: those with consumers that are not constant, and only their first output is used.
  std::vector<int> FindResults() const {
    std::vector<int> results;
    for (int i = 0; i < graph_.node_size(); ++i) {
      const NodeDef& node = graph_.node(i);
      if (!constant_[static_cast<size_t>(i)] || node.op() == "Const" || ForwardsInput(node)) continue;
      const auto& uses = index_.UsesOf(i);
      const bool is_output = std::find(roots_.begin(), roots_.end(), i) != roots_.end();
      const bool needed =
          is_output || std::any_of(uses.begin(), uses.end(), [&](const auto& use) {
            return !constant_[static_cast<size_t>(use.node)] || ForwardsInput(graph_.node(use.node));
          });
      const bool one_output =
          std::all_of(uses.begin(), uses.end(), [](const auto& use) { return use.output <= 0; }) &&
          std::none_of(options_.outputs.begin(), options_.outputs.end(), [&](const std::string& name) {
            const TensorId id = ParseTensorId(name);
            return id.name == node.name() && id.index > 0;
          });
      if (needed && one_output) results.push_back(i);
    }
    return results;
  }

  GraphDef NeededFor(const std::vector<int>& results) const {
    GraphDef part;
    *part.mutable_versions() = graph_.versions();
    const std::vector<bool> needed = NeededBy(results, index_, graph_);
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (!needed[static_cast<size_t>(i)]) continue;
      *part.add_node() = graph_.node(i);
      part.mutable_node(part.node_size() - 1)->clear_device();
    }
    return part;
  }

  // Unmarks nodes with results that are not known to be small, and all that depend on them.
  void LeaveLarge(const std::vector<int>& results) {
    Graph part(OpRegistry::Global());
    std::vector<int> open;
    const bool imported = ImportGraphDef(NeededFor(results), ImportOptions(), &part).ok();
    const auto shapes = InferShapes(part);
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (!constant_[static_cast<size_t>(i)] || graph_.node(i).op() == "Const") continue;
      const Node* node = imported ? part.FindNode(graph_.node(i).name()) : nullptr;
      if (node == nullptr || !shapes.ok() || !IsSmall(*node, (*shapes)[static_cast<size_t>(node->id())])) {
        open.push_back(i);
      }
    }
    while (!open.empty()) {
      const int node = open.back();
      open.pop_back();
      if (!constant_[static_cast<size_t>(node)]) continue;
      constant_[static_cast<size_t>(node)] = false;
      for (const NodeIndex::Use& use : index_.UsesOf(node)) open.push_back(use.node);
    }
  }

  bool IsSmall(const Node& node, const std::vector<PartialShape>& shapes) const {
    for (int i = 0; i < node.num_outputs(); ++i) {
      const auto shape = shapes[static_cast<size_t>(i)].ToTensorShape();
      if (!shape.ok()) return false;
      const auto size = static_cast<int64_t>(ElementSize(node.output_type(i)));
      if (!node.traits().forwards && shape->num_elements() > options_.max_result_bytes / size) return false;
    }
    return true;
  }

  StatusOr<std::unique_ptr<Session>> MakeSession(const std::vector<int>& results) const {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, NewSession(SessionOptions()));
    MR_RETURN_IF_ERROR(session->Create(NeededFor(results)));
    return session;
  }

  // Computes all at once or, if some have errors, which belong to the step that needs them, one by one.
  void Compute(Session& session, const std::vector<int>& results) {
    std::vector<std::string> names;
    names.reserve(results.size());
    for (const int result : results) names.push_back(graph_.node(result).name() + ":0");
    std::vector<Tensor> values;
    if (session.Run({}, names, {}, &values).ok()) {
      for (size_t i = 0; i < results.size(); ++i) Replace(results[i], values[i]);
      return;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (session.Run({}, {names[i]}, {}, &values).ok()) Replace(results[i], values[0]);
    }
  }

  void Replace(int node, const Tensor& value) { MakeConst(value, graph_.mutable_node(node)); }

  const FoldConstantsOptions& options_;
  const NodeIndex& index_;
  GraphDef& graph_;
  std::vector<int> roots_;
  std::vector<bool> constant_;
};

}  // namespace

Status FoldConstants(const FoldConstantsOptions& options, GraphDef* graph) {
  {
    MR_ASSIGN_OR_RETURN(const NodeIndex index, NodeIndex::Make(*graph));
    MR_RETURN_IF_ERROR(Folder(options, index, graph).Run());
  }
  return ExtractSubGraph(options.outputs, graph);
}

}  // namespace millrace
