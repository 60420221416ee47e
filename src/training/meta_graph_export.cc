// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "cc/scope_state.h"
#include "graph/function_library.h"
#include "graph/graph_import.h"
#include "millrace/saver.h"
#include "op/attr_codec.h"
#include "op/op_def_codec.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/variable.pb.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "training/meta_graph_codec.h"
#include "training/meta_graph_io.h"
#include "training/proto_file.h"

namespace millrace {
namespace {

namespace tf = ::tensorflow;

constexpr char kVersion[] = "1.15.5";

// The ops of the nodes and, recursively, of the functions that they name.
class UsedOps {
 public:
  explicit UsedOps(const tf::GraphDef& def) {
    for (const tf::FunctionDef& function : def.library().function()) {
      functions_.emplace(function.signature().name(), &function);
    }
    for (const tf::NodeDef& node : def.node()) Use(node);
    while (!waiting_.empty()) {
      const tf::FunctionDef* const function = waiting_.back();
      waiting_.pop_back();
      for (const tf::NodeDef& node : function->node_def()) Use(node);
    }
  }
  const std::set<std::string>& ops() const { return ops_; }

 private:
  void Use(const tf::NodeDef& node) {
    if (!UseFunction(node.op())) ops_.insert(node.op());
    for (const auto& [name, value] : node.attr()) {
      if (value.has_func()) UseFunction(value.func().name());
      for (const tf::NameAttrList& function : value.list().func()) UseFunction(function.name());
    }
  }
  bool UseFunction(const std::string& name) {
    const auto function = functions_.find(name);
    if (function == functions_.end()) return false;
    if (seen_.insert(name).second) waiting_.push_back(function->second);
    return true;
  }

  std::unordered_map<std::string, const tf::FunctionDef*> functions_;
  std::unordered_set<std::string> seen_;
  std::vector<const tf::FunctionDef*> waiting_;
  std::set<std::string> ops_;
};

void StripNode(const Graph& graph, tf::NodeDef* node) {
  const StatusOr<const OpRegistration*> op = graph.LookUpOp(node->op());
  if (!op.ok()) return;
  for (const auto& attr : (*op)->def.attrs) {
    if (!attr.default_value.IsSet()) continue;
    const auto there = node->attr().find(attr.name);
    if (there == node->attr().end()) continue;
    const StatusOr<AttrValue> value = AttrValueFromProto(there->second, attr.name);
    if (value.ok() && *value == attr.default_value) node->mutable_attr()->erase(attr.name);
  }
}

void AddShapes(const Scope& scope, tf::GraphDef* def) {
  for (tf::NodeDef& proto : *def->mutable_node()) {
    Node* const node = scope.graph().FindNode(proto.name());
    if (node == nullptr || node->num_outputs() == 0) continue;
    std::vector<PartialShape> shapes;
    shapes.reserve(static_cast<size_t>(node->num_outputs()));
    for (int i = 0; i < node->num_outputs(); ++i) shapes.push_back(scope.ShapeOf({node, i}));
    AttrValueToProto(AttrValue(shapes), &(*proto.mutable_attr())["_output_shapes"]);
  }
}

// Removes the export scope from names, and marks inputs from outside of it.
void StripNodeScope(std::string_view scope, tf::NodeDef* node, std::vector<std::string>* unbound) {
  node->set_name(StripScope(scope, node->name()));
  for (std::string& input : *node->mutable_input()) {
    if (IsBelowScope(scope, input)) {
      input = StripScope(scope, input);
      continue;
    }
    const bool control = input.starts_with('^');
    input = StrCat(control ? "^" : "", kUnboundInputPrefix, std::string_view(input).substr(control ? 1 : 0));
    unbound->push_back(input);
  }
  const auto places = node->mutable_attr()->find("_class");
  if (places == node->mutable_attr()->end()) return;
  tf::AttrValue kept;
  for (const std::string& place : places->second.list().s()) {
    if (IsBelowScope(scope, place)) kept.mutable_list()->add_s(StripScope(scope, place));
  }
  places->second = kept;
}

void KeepScope(std::string_view scope, tf::MetaGraphDef* meta) {
  tf::GraphDef kept;
  std::vector<std::string> unbound;
  for (tf::NodeDef& node : *meta->mutable_graph_def()->mutable_node()) {
    if (!IsBelowScope(scope, node.name())) continue;
    StripNodeScope(scope, &node, &unbound);
    *kept.add_node() = std::move(node);
  }
  meta->mutable_graph_def()->mutable_node()->Swap(kept.mutable_node());
  if (unbound.empty()) return;
  auto* const list = (*meta->mutable_collection_def())[kUnboundInputsKey].mutable_bytes_list();
  for (const std::string& input : unbound) list->add_value(input);
}

std::string WithIndex(const Output& tensor) {
  return tensor.IsSet() ? StrCat(tensor.node->name(), ":", tensor.index) : "";
}

// The message of a variable of the scope's graph.
tf::VariableDef ToProto(const VariableRecord& record, std::string_view scope) {
  tf::VariableDef def;
  def.set_variable_name(StripScope(scope, WithIndex(record.ref)));
  if (record.initializer.IsSet()) {
    const Node& assign = *record.initializer.node;
    def.set_initializer_name(StripScope(scope, assign.name()));
    const auto first = assign.num_inputs() > 1 ? assign.InputEdge(1) : errors::NotFound("none");
    if (first.ok()) {
      def.set_initial_value_name(StripScope(scope, WithIndex({(*first)->src, (*first)->src_output})));
    }
  }
  def.set_snapshot_name(StripScope(scope, WithIndex(record.value)));
  def.set_trainable(record.trainable);
  def.set_is_resource(Scope::TypeOf(record.ref) == DataType::kResource);
  if (record.slice == nullptr) return def;
  tf::SaveSliceInfoDef* const slice = def.mutable_save_slice_info_def();
  slice->set_full_name(StripScope(scope, record.slice->full_name));
  slice->mutable_full_shape()->Add(record.slice->full_shape.begin(), record.slice->full_shape.end());
  slice->mutable_var_offset()->Add(record.slice->var_offset.begin(), record.slice->var_offset.end());
  slice->mutable_var_shape()->Add(record.slice->var_shape.begin(), record.slice->var_shape.end());
  return def;
}

// The scope's collections, including those made from its variables.
std::map<std::string, CollectionDef> CollectionsOf(const Scope& scope, std::string_view export_scope) {
  std::map<std::string, CollectionDef> collections = Collections(scope);
  if (!export_scope.empty()) {
    for (auto& [key, collection] : collections) {
      auto* const nodes = std::get_if<NodeList>(&collection);
      if (nodes == nullptr) continue;
      std::erase_if(nodes->value, [&](const auto& name) { return !IsBelowScope(export_scope, name); });
      for (std::string& name : nodes->value) name = StripScope(export_scope, name);
    }
  }
  std::map<std::string, BytesList> of_variables;
  for (const VariableRecord& record : scope.state().variables) {
    if (!IsBelowScope(export_scope, WithIndex(record.ref))) continue;
    const std::string bytes = ToProto(record, export_scope).SerializeAsString();
    for (const std::string& key : record.collections) of_variables[key].value.push_back(bytes);
    if (record.trainable) of_variables[graph_keys::kTrainableVariables].value.push_back(bytes);
  }
  for (auto& [key, variables] : of_variables) collections[key] = std::move(variables);
  return collections;
}

}  // namespace

Status StrippedOpList(const Graph& graph, const tf::GraphDef& def, tf::OpList* list) {
  list->Clear();
  const UsedOps used(def);
  for (const std::string& name : used.ops()) {
    const StatusOr<const OpRegistration*> op = graph.ops().LookUp(name);
    if (!op.ok()) {
      return errors::FailedPrecondition("Op ", name, " is used by the graph, but is not registered");
    }
    tf::OpDef* const proto = list->add_op();
    OpDefToProto((*op)->def, proto);
    proto->clear_summary();
    proto->clear_description();
    for (auto& arg : *proto->mutable_input_arg()) arg.clear_description();
    for (auto& arg : *proto->mutable_output_arg()) arg.clear_description();
    for (auto& attr : *proto->mutable_attr()) attr.clear_description();
  }
  return Status::Ok();
}

void StripDefaultAttrs(const Graph& graph, tf::GraphDef* def) {
  for (tf::NodeDef& node : *def->mutable_node()) StripNode(graph, &node);
  for (tf::FunctionDef& function : *def->mutable_library()->mutable_function()) {
    for (tf::NodeDef& node : *function.mutable_node_def()) StripNode(graph, &node);
  }
}

Status BuildMetaGraphDef(const Scope& scope, const MetaGraph& meta, const ExportMetaGraphOptions& options,
                         tf::MetaGraphDef* proto) {
  MR_RETURN_IF_ERROR(scope.status());
  MetaGraph all = meta;
  for (auto& [key, collection] : CollectionsOf(scope, options.export_scope)) {
    all.collections.emplace(key, std::move(collection));
  }
  all.tensorflow_version = kVersion;
  if (all.tensorflow_git_version.empty()) all.tensorflow_git_version = "unknown";
  all.stripped_default_attrs = options.strip_default_attrs;
  proto->Clear();
  MetaGraphToProto(all, proto);
  tf::GraphDef* const def = proto->mutable_graph_def();
  scope.ToGraphDef(def);
  if (options.add_shapes) AddShapes(scope, def);
  if (!options.export_scope.empty()) KeepScope(options.export_scope, proto);
  MR_RETURN_IF_ERROR(
      StrippedOpList(scope.graph(), *def, proto->mutable_meta_info_def()->mutable_stripped_op_list()));
  if (options.strip_default_attrs) StripDefaultAttrs(scope.graph(), def);
  if (!options.clear_devices) return Status::Ok();
  for (tf::NodeDef& node : *def->mutable_node()) node.clear_device();
  return Status::Ok();
}

Status ExportMetaGraph(const Scope& scope, const std::string& filename, const MetaGraph& meta,
                       const ExportMetaGraphOptions& options) {
  tf::MetaGraphDef proto;
  MR_RETURN_IF_ERROR(BuildMetaGraphDef(scope, meta, options, &proto));
  return options.as_text ? WriteTextProto(Env::Posix(), filename, proto)
                         : WriteBinaryProto(Env::Posix(), filename, proto);
}

}  // namespace millrace
