// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/upgrade.h"

#include <map>
#include <vector>

#include "graph/node_def_text.h"
#include "op/attr_codec.h"
#include "op/op_def_codec.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace millrace {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

// The version of graphs that this engine understands: that of TensorFlow 1.15.
constexpr int kConsumerVersion = 134;
// The last one in which a Placeholder of shape [] could take anything.
constexpr int kLastWithoutScalarPlaceholders = 21;

// Calls f(node) for the nodes of the graph and of its functions until one is an error.
template <typename F>
Status EachNode(GraphDef* graph, const F& f) {
  for (NodeDef& node : *graph->mutable_node()) MR_RETURN_IF_ERROR(f(&node));
  for (auto& function : *graph->mutable_library()->mutable_function()) {
    for (NodeDef& node : *function.mutable_node_def()) MR_RETURN_IF_ERROR(f(&node));
  }
  return Status();
}

bool IsScalarPlaceholder(std::string_view op, int producer) {
  return producer <= kLastWithoutScalarPlaceholders && op == "Placeholder";
}

// Ops by name, decoded when they are asked for.
class OpTable {
 public:
  explicit OpTable(const tensorflow::OpList& list) {
    for (const tensorflow::OpDef& op : list.op()) protos_.emplace(op.name(), &op);
  }
  // Null when there is none.
  StatusOr<const OpDef*> Find(const std::string& name) {
    if (const auto it = decoded_.find(name); it != decoded_.end()) return &it->second;
    const auto it = protos_.find(name);
    if (it == protos_.end()) return nullptr;
    MR_ASSIGN_OR_RETURN(OpDef op, OpDefFromProto(*it->second));
    return &decoded_.emplace(name, std::move(op)).first->second;
  }

 private:
  std::map<std::string, const tensorflow::OpDef*> protos_;
  std::map<std::string, OpDef> decoded_;
};

Status RemoveNewAttrs(const OpDef& producer, const OpDef& consumer, NodeDef* node,
                      std::set<OpAttr>* removed) {
  std::vector<std::string> names;
  for (const auto& [name, value] : node->attr()) {
    if (name.starts_with('_') || consumer.FindAttr(name) != nullptr) continue;
    const AttrDef* attr = producer.FindAttr(name);
    if (attr == nullptr) {
      return errors::InvalidArgument("Attr '", name, "' missing in producer's OpDef: ", SummarizeOp(producer),
                                     " but found in node: ", SummarizeNodeDef(*node));
    }
    if (!attr->default_value.IsSet()) continue;
    MR_ASSIGN_OR_RETURN(const AttrValue decoded, AttrValueFromProto(value, name));
    if (decoded == attr->default_value) names.push_back(name);
  }
  for (const std::string& name : names) {
    node->mutable_attr()->erase(name);
    if (removed != nullptr) removed->emplace(node->op(), name);
  }
  return Status();
}

}  // namespace

void UpgradeAttrs(std::string_view op, int producer, AttrMap* attrs) {
  if (!IsScalarPlaceholder(op, producer)) return;
  const AttrValue* shape = attrs->Find("shape");
  const auto* value = shape == nullptr ? nullptr : shape->As<PartialShape>();
  if (value != nullptr && value->rank() == 0) attrs->Set("shape", PartialShape());
}

Status CheckGraphVersions(const GraphDef& graph) {
  const auto& versions = graph.versions();
  if (versions.min_consumer() > kConsumerVersion) {
    return errors::InvalidArgument("GraphDef min consumer version ", versions.min_consumer(),
                                   " above current version ", kConsumerVersion,
                                   " for TensorFlow 1.15.  Please upgrade TensorFlow.");
  }
  if (versions.producer() < 0) {
    return errors::InvalidArgument(
        "GraphDef producer version ", versions.producer(),
        " below min producer 0 supported by TensorFlow 1.15.  Please regenerate your graph.");
  }
  for (const int bad : versions.bad_consumers()) {
    if (bad == kConsumerVersion) {
      return errors::InvalidArgument("GraphDef disallows consumer version ", bad,
                                     ".  Please upgrade TensorFlow: this version is likely buggy.");
    }
  }
  return Status();
}

Status CheckOpDeprecation(const OpDef& op, int producer) {
  if (op.deprecated_version <= 0 || producer < op.deprecated_version) return Status();
  return errors::Unimplemented("Op ", op.name, " is not available in GraphDef version ", producer,
                               ". It has been removed in version ", op.deprecated_version, ". ",
                               op.deprecated_explanation, ".");
}

Status UpgradeGraphDef(const OpLookup& ops, GraphDef* graph) {
  MR_RETURN_IF_ERROR(CheckGraphVersions(*graph));
  const int producer = graph->versions().producer();
  return EachNode(graph, [&](NodeDef* node) -> Status {
    const auto op = ops.LookUp(node->op());
    if (!op.ok()) return Status();  // a function, or an op of somebody else
    if (const Status status = CheckOpDeprecation((*op)->def, producer); !status.ok()) {
      return status.WithContext(StrCat("; NodeDef: ", SummarizeNodeDef(*node)));
    }
    auto& attrs = *node->mutable_attr();
    if (IsScalarPlaceholder(node->op(), producer)) {
      const auto shape = attrs.find("shape");
      if (shape != attrs.end() && shape->second.has_shape() && !shape->second.shape().unknown_rank() &&
          shape->second.shape().dim_size() == 0) {
        shape->second.mutable_shape()->set_unknown_rank(true);
      }
    }
    for (const AttrDef& attr : (*op)->def.attrs) {
      if (!attr.default_value.IsSet() || attrs.contains(attr.name)) continue;
      AttrValueToProto(attr.default_value, &attrs[attr.name]);
    }
    return Status();
  });
}

Status RemoveNewDefaultAttrs(const tensorflow::OpList& consumer, const tensorflow::OpList& producer,
                             GraphDef* graph, std::set<OpAttr>* removed) {
  OpTable of_consumer(consumer);
  OpTable of_producer(producer);
  return EachNode(graph, [&](NodeDef* node) -> Status {
    MR_ASSIGN_OR_RETURN(const OpDef* old_op, of_consumer.Find(node->op()));
    MR_ASSIGN_OR_RETURN(const OpDef* new_op, of_producer.Find(node->op()));
    // What either lacks may be a function; if it is not, import says so.
    if (old_op == nullptr || new_op == nullptr) return Status();
    return RemoveNewAttrs(*new_op, *old_op, node, removed);
  });
}

}  // namespace millrace
