// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/upgrade.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <vector>

#include "base/logging.h"
#include "base/mutex.h"
#include "graph/node_def_text.h"
#include "op/attr_codec.h"
#include "op/attr_text.h"
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

// An attribute that came after 1.15, of the given type; `neutral` is the text of the value that changes
// nothing. With kAny any value may be dropped.
struct LaterAttr {
  std::string_view op, name, type, neutral;
};
constexpr std::string_view kAny = "";
constexpr LaterAttr kLaterAttrs[] = {
    {"AssignVariableOp", "validate_shape", "bool", "false"},
    {"BatchMatMul", "grad_x", "bool", "false"},
    {"BatchMatMul", "grad_y", "bool", "false"},
    {"BatchMatMulV2", "grad_x", "bool", "false"},
    {"BatchMatMulV2", "grad_y", "bool", "false"},
    {"DepthwiseConv2dNative", "explicit_paddings", "list(int)", "[]"},
    {"DepthwiseConv2dNativeBackpropFilter", "explicit_paddings", "list(int)", "[]"},
    {"DepthwiseConv2dNativeBackpropInput", "explicit_paddings", "list(int)", "[]"},
    {"Equal", "incompatible_shape_error", "bool", kAny},  // false instead of an error
    {"FusedBatchNorm", "exponential_avg_factor", "float", "1.0"},
    {"FusedBatchNormV2", "exponential_avg_factor", "float", "1.0"},
    {"FusedBatchNormV3", "exponential_avg_factor", "float", "1.0"},
    {"GatherNd", "bad_indices_policy", "string", "''"},
    {"InitializeTableFromTextFileV2", "offset", "int", "0"},
    {"MatMul", "grad_a", "bool", "false"},
    {"MatMul", "grad_b", "bool", "false"},
    {"MaxPool", "explicit_paddings", "list(int)", "[]"},
    {"MaxPoolGrad", "explicit_paddings", "list(int)", "[]"},
    {"MergeV2Checkpoints", "allow_missing_files", "bool", "false"},
    {"NotEqual", "incompatible_shape_error", "bool", kAny},
    {"ResourceScatterNdUpdate", "bad_indices_policy", "string", "''"},
    {"ScatterNd", "bad_indices_policy", "string", "''"},
    {"ScatterNdAdd", "bad_indices_policy", "string", "''"},
    {"ScatterNdSub", "bad_indices_policy", "string", "''"},
    {"ScatterNdUpdate", "bad_indices_policy", "string", "''"},
    {"SparseSegmentMean", "Tsegmentids", "type", "DT_INT32"},
    {"SparseSegmentMean", "sparse_gradient", "bool", "false"},
    {"SparseSegmentSqrtN", "Tsegmentids", "type", "DT_INT32"},
    {"SparseSegmentSqrtN", "sparse_gradient", "bool", "false"},
    {"SparseSegmentSum", "Tsegmentids", "type", "DT_INT32"},
    {"SparseSegmentSum", "sparse_gradient", "bool", "false"},
    {"TopKV2", "Tk", "type", "DT_INT32"},
    {"TopKV2", "index_type", "type", "DT_INT32"},
    {"VarHandleOp", "allowed_devices", "list(string)", "[]"},
    {"VarHandleOp", "debug_name", "string", "''"},
    // Attributes for LeakyRelu, whose fusion is an error in any case.
    {"_FusedConv2D", "leakyrelu_alpha", "float", kAny},
    {"_FusedMatMul", "leakyrelu_alpha", "float", kAny},
};

bool IsNeutral(const LaterAttr& later, const AttrValue& value) {
  if (later.neutral == kAny) return true;
  const auto neutral = ParseAttrText(later.type, later.neutral);
  // A list without entries has no type.
  return neutral.ok() && (value == *neutral || (later.neutral == "[]" && value.As<EmptyList>() != nullptr));
}

std::span<const LaterAttr> LaterAttrsOf(std::string_view op) {
  const auto first = std::ranges::lower_bound(kLaterAttrs, op, {}, &LaterAttr::op);
  return {first, std::ranges::upper_bound(first, std::end(kLaterAttrs), op, {}, &LaterAttr::op)};
}

// Ops by name, decoded at the first look-up.
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

bool HasLaterAttrs(std::string_view op) { return !LaterAttrsOf(op).empty(); }

void DropLaterAttrs(const OpDef& op, AttrMap* attrs) {
  for (const LaterAttr& later : LaterAttrsOf(op.name)) {
    const AttrValue* value = attrs->Find(later.name);
    if (value != nullptr && op.FindAttr(later.name) == nullptr && IsNeutral(later, *value))
      attrs->Erase(later.name);
  }
}

void DropOwnAttrs(std::string_view op, AttrMap* attrs) {
  if (op == "_FusedConv2D" || op == "_FusedMatMul") attrs->Erase("keep_weights");
}

Status CheckGraphVersions(const GraphDef& graph) {
  const auto& versions = graph.versions();
  if (versions.min_consumer() > kConsumerVersion) {
    return errors::InvalidArgument("GraphDef min consumer version ", versions.min_consumer(),
                                   " above current version ", kConsumerVersion,
                                   " for TensorFlow 1.15.5.  Please upgrade TensorFlow.");
  }
  if (versions.producer() < 0) {
    return errors::InvalidArgument(
        "GraphDef producer version ", versions.producer(),
        " below min producer 0 supported by TensorFlow 1.15.5.  Please regenerate your graph.");
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
  if (op.deprecated_version <= 0) return Status();
  if (producer >= op.deprecated_version) {
    return errors::Unimplemented("Op ", op.name, " is not available in GraphDef version ", producer,
                                 ". It has been removed in version ", op.deprecated_version, ". ",
                                 op.deprecated_explanation, ".");
  }
  struct Warned {
    Mutex mu;
    std::set<std::string> ops MR_GUARDED_BY(mu);
  };
  static Warned& warned = *new Warned;
  {
    MutexLock lock(warned.mu);
    if (!warned.ops.insert(op.name).second) return Status();
  }
  MR_LOG(Warning) << "Op " << op.name << " is deprecated. It will cease to work in GraphDef version "
                  << op.deprecated_version << ". " << op.deprecated_explanation << ".";
  return Status();
}

Status UpgradeGraphDef(const OpLookup& ops, GraphDef* graph) {
  MR_RETURN_IF_ERROR(CheckGraphVersions(*graph));
  const int producer = graph->versions().producer();
  return EachNode(graph, [&](NodeDef* node) -> Status {
    const auto op = ops.LookUp(node->op());
    if (!op.ok()) return Status();  // a function, or an op of another library
    if (Status status = CheckOpDeprecation((*op)->def, producer); !status.ok()) {
      return status;
    }
    auto& attrs = *node->mutable_attr();
    if (IsScalarPlaceholder(node->op(), producer)) {
      const auto shape = attrs.find("shape");
      if (shape != attrs.end() && shape->second.has_shape() && !shape->second.shape().unknown_rank() &&
          shape->second.shape().dim_size() == 0) {
        shape->second.mutable_shape()->set_unknown_rank(true);
      }
    }
    for (const LaterAttr& later : LaterAttrsOf(node->op())) {
      const auto given = attrs.find(std::string(later.name));
      if (given == attrs.end() || (*op)->def.FindAttr(later.name) != nullptr) continue;
      MR_ASSIGN_OR_RETURN(const AttrValue value, AttrValueFromProto(given->second, later.name));
      if (IsNeutral(later, value)) attrs.erase(given);
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
    // An op that either list lacks may be a function; if it is not, import reports it.
    if (old_op == nullptr || new_op == nullptr) return Status();
    return RemoveNewAttrs(*new_op, *old_op, node, removed);
  });
}

}  // namespace millrace
