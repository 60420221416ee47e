// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "cc/scope_state.h"
#include "graph/graph_import.h"
#include "millrace/saver.h"
#include "tensorflow/core/framework/variable.pb.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "training/meta_graph_codec.h"
#include "training/meta_graph_io.h"
#include "training/proto_file.h"

namespace millrace {

std::string ImportKey(std::string_view name) {
  const TensorId id = ParseTensorId(name);
  return id.index < 0 ? StrCat("^", id.name) : StrCat(id.name, ":", id.index);
}

namespace {

namespace tf = ::tensorflow;

constexpr std::string_view kPrefix = kUnboundInputPrefix;

// The caller's replacements of inputs, with all names that they may have.
StatusOr<std::map<std::string, std::pair<Node*, int>>> InputMap(const Scope& scope,
                                                                const std::map<std::string, Output>& given) {
  std::map<std::string, std::pair<Node*, int>> map;
  for (const auto& [name, output] : given) {
    if (!output.IsSet() || &output.node->graph() != &scope.graph()) {
      return errors::InvalidArgument("input_map['", name, "'] is not a tensor of the scope's graph");
    }
    const std::string key = ImportKey(name);
    const bool control = key.starts_with('^');
    const std::pair<Node*, int> to(output.node, control ? Edge::kControlSlot : output.index);
    map[key] = to;
    map[StrCat(control ? "^" : "", kPrefix, std::string_view(key).substr(control ? 1 : 0))] = to;
  }
  return map;
}

Status CheckUnboundInputs(const MetaGraph& meta, const std::map<std::string, std::pair<Node*, int>>& given) {
  const auto collection = meta.collections.find(kUnboundInputsKey);
  if (collection == meta.collections.end()) return Status::Ok();
  std::vector<std::string> unbound, missing;
  if (const auto* bytes = std::get_if<BytesList>(&collection->second)) unbound = bytes->value;
  if (const auto* nodes = std::get_if<NodeList>(&collection->second)) unbound = nodes->value;
  for (const std::string& name : unbound) {
    if (!given.contains(ImportKey(name))) missing.push_back(name);
  }
  if (missing.empty()) return Status::Ok();
  return errors::InvalidArgument("Graph contains unbound inputs: ", StrJoin(missing, ","),
                                 ". Must provide these inputs through input_map.");
}

// Prepends the scope to the names in the meta graph.
void Rename(std::string_view scope, MetaGraph* meta) {
  for (auto& [key, collection] : meta->collections) PrependScope(scope, key, &collection);
  for (auto& [key, signature] : meta->signatures) {
    for (auto* infos : {&signature.inputs, &signature.outputs}) {
      for (auto& [name, info] : *infos) {
        info.name = PrependScope(scope, info.name);
        if (!info.sparse) continue;
        for (std::string* part : {&info.sparse->values, &info.sparse->indices, &info.sparse->dense_shape}) {
          *part = PrependScope(scope, *part);
        }
      }
    }
  }
  for (AssetFileDef& asset : meta->assets) asset.tensor = PrependScope(scope, asset.tensor);
  if (!meta->saver) return;
  for (std::string* name :
       {&meta->saver->filename_tensor_name, &meta->saver->save_tensor_name, &meta->saver->restore_op_name}) {
    *name = PrependScope(scope, *name);
  }
}

Output TensorNamed(const Graph& graph, const std::string& name) {
  const TensorId id = ParseTensorId(name);
  Node* const node = name.empty() ? nullptr : graph.FindNode(id.name);
  if (node == nullptr || id.index < 0 || id.index >= node->num_outputs()) return Output();
  return Output{node, id.index};
}

template <typename Repeated>
std::vector<int64_t> ToVector(const Repeated& values) {
  return std::vector<int64_t>(values.begin(), values.end());
}

// False if the graph lacks a node that the message names.
bool ToRecord(const Graph& graph, const std::string& bytes, VariableRecord* record) {
  tf::VariableDef def;
  if (!def.ParseFromString(bytes)) return false;
  record->ref = TensorNamed(graph, def.variable_name());
  record->value = TensorNamed(graph, def.snapshot_name());
  if (!record->ref.IsSet()) return false;
  const DataType type = record->ref.node->output_type(record->ref.index);
  if (!IsRefType(type) && type != DataType::kResource) return false;
  if (!record->value.IsSet() && type != DataType::kResource) record->value = record->ref;
  if (Node* const node = graph.FindNode(def.initializer_name())) record->initializer = Operation(node);
  if (!def.has_save_slice_info_def()) return true;
  const tf::SaveSliceInfoDef& slice = def.save_slice_info_def();
  record->slice = std::make_shared<SaveSliceInfo>(
      SaveSliceInfo{slice.full_name(), ToVector(slice.full_shape()), ToVector(slice.var_offset()),
                    ToVector(slice.var_shape())});
  return true;
}

// The collections of variables.
constexpr const char* kVariableKeys[] = {graph_keys::kVariables,      graph_keys::kTrainableVariables,
                                         graph_keys::kLocalVariables, graph_keys::kModelVariables,
                                         graph_keys::kMovingAverages, graph_keys::kMetricVariables,
                                         graph_keys::kGlobalStep};

// The record in `records` of the same variable, which is added if it is missing.
VariableRecord& Same(std::vector<VariableRecord>& records, VariableRecord record) {
  for (VariableRecord& other : records) {
    if (other.ref == record.ref) return other;
  }
  record.trainable = false;
  record.collections.clear();
  return records.emplace_back(std::move(record));
}

// Adds the variables in the collections to those of the scope; entries without nodes are kept.
void TakeVariables(const Scope& scope, std::map<std::string, CollectionDef>* collections) {
  std::vector<VariableRecord> records;
  for (const char* const key : kVariableKeys) {
    const auto found = collections->find(key);
    auto* const list = found == collections->end() ? nullptr : std::get_if<BytesList>(&found->second);
    if (list == nullptr) continue;
    std::vector<std::string> rest;
    for (const std::string& bytes : list->value) {
      VariableRecord record;
      if (!ToRecord(scope.graph(), bytes, &record)) {
        rest.push_back(bytes);
        continue;
      }
      VariableRecord& same = Same(records, std::move(record));
      if (key == std::string_view(graph_keys::kTrainableVariables)) {
        same.trainable = true;
      } else {
        same.collections.emplace_back(key);
      }
    }
    if (rest.empty()) {
      collections->erase(found);
    } else {
      list->value = std::move(rest);
    }
  }
  auto& variables = scope.state().variables;
  std::move(records.begin(), records.end(), std::back_inserter(variables));
}

// Appends lists of one kind to the scope's.
struct Append {
  CollectionDef* to;
  template <typename List>
  void operator()(const List& from) const {
    if (auto* const there = std::get_if<List>(to)) {
      there->value.insert(there->value.end(), from.value.begin(), from.value.end());
    } else {
      *to = from;
    }
  }
  void operator()(std::monostate) const {}
};

}  // namespace

StatusOr<MetaGraph> ImportMetaGraphDef(const Scope& scope, tf::MetaGraphDef* proto,
                                       const ImportMetaGraphOptions& options) {
  MR_RETURN_IF_ERROR(scope.status());
  MR_ASSIGN_OR_RETURN(MetaGraph meta, MetaGraphFromProto(*proto));
  ImportOptions import;
  import.allow_internal_ops = true;
  import.inputs_from_graph = false;
  import.shapes = &scope.state().shapes;
  MR_ASSIGN_OR_RETURN(import.input_map, InputMap(scope, options.input_map));
  MR_RETURN_IF_ERROR(CheckUnboundInputs(meta, import.input_map));
  if (options.clear_devices) {
    for (tf::NodeDef& node : *proto->mutable_graph_def()->mutable_node()) node.clear_device();
  }
  const Scope below = options.import_scope.empty() ? scope : scope.NewSubScope(options.import_scope);
  MR_RETURN_IF_ERROR(scope.status());
  import.prefix = below.path();
  MR_RETURN_IF_ERROR(ImportGraphDef(std::move(*proto->mutable_graph_def()), import, &scope.graph()));
  proto->clear_graph_def();
  meta.collections.erase(kUnboundInputsKey);
  Rename(import.prefix, &meta);
  std::map<std::string, CollectionDef> collections = meta.collections;
  TakeVariables(scope, &collections);
  for (const auto& [key, collection] : collections) std::visit(Append{&Collections(scope)[key]}, collection);
  return meta;
}

StatusOr<MetaGraph> ImportMetaGraph(const Scope& scope, const std::string& filename,
                                    const ImportMetaGraphOptions& options) {
  tf::MetaGraphDef proto;
  MR_RETURN_IF_ERROR(ReadProto(Env::Posix(), filename, &proto));
  return ImportMetaGraphDef(scope, &proto, options);
}

}  // namespace millrace
