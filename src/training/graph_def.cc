// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/graph_def.h"

#include "cc/scope_state.h"
#include "graph/function_library.h"
#include "graph/graph_import.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "training/meta_graph_io.h"
#include "training/proto_file.h"

namespace millrace {
namespace {

namespace tf = tensorflow;

StatusOr<tf::GraphDef> Parse(std::string_view bytes) {
  tf::GraphDef def;
  const Status binary = ParseBinaryProto(bytes, &def);
  if (binary.ok() || binary.code() != ErrorCode::kInvalidArgument) {
    MR_RETURN_IF_ERROR(binary);
    return def;
  }
  def.Clear();
  const Status text = ParseTextProto(bytes, &def);
  if (text.ok()) return def;
  if (text.code() != ErrorCode::kInvalidArgument) return text;
  return errors::InvalidArgument("Invalid GraphDef: neither the binary form nor the text form (",
                                 text.message(), ")");
}

StatusOr<tf::GraphDef> Read(const std::string& filename) {
  tf::GraphDef def;
  MR_RETURN_IF_ERROR(ReadProto(Env::Posix(), filename, &def));
  return def;
}

Status CheckOwner(const Scope& scope, const Node* node, std::string_view what) {
  if (node != nullptr && &node->graph() == &scope.graph()) return Status::Ok();
  return errors::InvalidArgument("ImportGraphDef: ", what, " is not of the scope's graph");
}

StatusOr<ImportOptions> EngineOptions(const Scope& scope, const ImportGraphDefOptions& options) {
  ImportOptions import;
  import.prefix = options.prefix.empty() ? scope.path() : options.prefix;
  import.uniquify_names = options.uniquify_names;
  import.validate_shapes = options.validate_shapes;
  import.drop_unknown_attrs = true;
  import.inputs_from_graph = false;
  import.default_device = options.default_device;
  import.shapes = &scope.state().shapes;
  for (const auto& [name, output] : options.input_map) {
    MR_RETURN_IF_ERROR(CheckOwner(scope, output.node, StrCat("input_map['", name, "']")));
    const bool control = name.starts_with('^');
    if (!control && (output.index < 0 || output.index >= output.node->num_outputs())) {
      return errors::OutOfRange("ImportGraphDef: input_map['", name, "'] is output ", output.index,
                                " of node '", output.node->name(), "', which has ",
                                output.node->num_outputs(), " outputs");
    }
    import.input_map[ImportKey(name)] = {output.node, control ? Edge::kControlSlot : output.index};
  }
  for (const Operation& operation : options.control_dependencies) {
    MR_RETURN_IF_ERROR(CheckOwner(scope, operation.node, "a control dependency"));
    import.control_dependencies.push_back(operation.node);
  }
  return import;
}

// Checks that the nodes named by results are in the GraphDef, before anything is added.
Status CheckReturned(const tf::GraphDef& def, const ImportGraphDefOptions& options) {
  std::map<std::string_view, const tf::NodeDef*> wanted;
  for (const std::string& name : options.return_operations) wanted[name] = nullptr;
  for (const std::string& name : options.return_outputs) wanted[ParseTensorId(name).name] = nullptr;
  if (wanted.empty()) return Status::Ok();
  for (const tf::NodeDef& node : def.node()) {
    if (const auto found = wanted.find(node.name()); found != wanted.end()) found->second = &node;
  }
  for (const auto& [name, node] : wanted) {
    if (node == nullptr) return errors::NotFound("ImportGraphDef: the GraphDef has no node '", name, "'");
  }
  return Status::Ok();
}

StatusOr<ImportGraphDefResults> Import(const Scope& scope, tf::GraphDef def,
                                       const ImportGraphDefOptions& options) {
  MR_RETURN_IF_ERROR(scope.status());
  MR_ASSIGN_OR_RETURN(ImportOptions import, EngineOptions(scope, options));
  MR_RETURN_IF_ERROR(CheckReturned(def, options));
  if (options.clear_devices) {
    for (tf::NodeDef& node : *def.mutable_node()) node.clear_device();
  }
  // The importer assigns the id first + i to node i of the GraphDef.
  std::map<std::string, int, std::less<>> ids;
  Graph& graph = scope.graph();
  const int first = graph.num_node_ids();
  for (const tf::NodeDef& node : def.node()) ids.emplace(node.name(), first + static_cast<int>(ids.size()));
  const FunctionLibrary old_functions = graph.functions();
  const GraphVersions old_versions = graph.versions();
  MR_RETURN_IF_ERROR(ImportGraphDef(std::move(def), import, &graph));
  ImportGraphDefResults results;
  for (const std::string& name : options.return_operations) {
    results.operations.emplace_back(graph.node(ids.at(name)));
  }
  for (const std::string& name : options.return_outputs) {
    const TensorId id = ParseTensorId(name);
    Node* const node = graph.node(ids.find(id.name)->second);
    if (id.index < 0 || id.index >= node->num_outputs()) {
      graph.RemoveNodesFrom(first);
      scope.state().shapes.ForgetNodesFrom(first);
      graph.functions() = old_functions;
      graph.set_versions(old_versions);
      return errors::NotFound("ImportGraphDef: node '", id.name, "' has no output ", id.index);
    }
    results.outputs.push_back({node, id.index});
  }
  return results;
}

}  // namespace

StatusOr<ImportGraphDefResults> ImportGraphDef(const Scope& scope, std::string_view graph_def,
                                               const ImportGraphDefOptions& options) {
  MR_ASSIGN_OR_RETURN(tf::GraphDef def, Parse(graph_def));
  return Import(scope, std::move(def), options);
}

StatusOr<ImportGraphDefResults> LoadGraph(const Scope& scope, const std::string& filename,
                                          const ImportGraphDefOptions& options) {
  MR_ASSIGN_OR_RETURN(tf::GraphDef def, Read(filename));
  auto results = Import(scope, std::move(def), options);
  if (!results.ok()) return results.status().WithContext(StrCat("; in ", filename));
  return results;
}

StatusOr<Operation> FindOperation(const Scope& scope, const std::string& name) {
  Node* const node = scope.graph().FindNode(name);
  if (node == nullptr) return errors::NotFound("The graph has no node '", name, "'");
  return Operation(node);
}

StatusOr<Output> FindOutput(const Scope& scope, const std::string& name) {
  const TensorId id = ParseTensorId(name);
  MR_ASSIGN_OR_RETURN(const Operation operation, FindOperation(scope, std::string(id.name)));
  if (id.index < 0 || id.index >= operation.node->num_outputs()) {
    return errors::NotFound("Node '", id.name, "' has no output ", id.index, "; it has ",
                            operation.node->num_outputs(), " outputs");
  }
  return Output{operation.node, id.index};
}

StatusOr<std::string> SerializeGraphDef(const Scope& scope) {
  MR_RETURN_IF_ERROR(scope.status());
  tf::GraphDef def;
  scope.ToGraphDef(&def);
  return SerializeBinaryProto(def);
}

Status SaveGraph(const Scope& scope, const std::string& filename) {
  MR_RETURN_IF_ERROR(scope.status());
  tf::GraphDef def;
  scope.ToGraphDef(&def);
  return WriteBinaryProto(Env::Posix(), filename, def);
}

Status CreateSessionGraph(Session& session, std::string_view graph_def) {
  MR_ASSIGN_OR_RETURN(tf::GraphDef def, Parse(graph_def));
  return session.Create(std::move(def));
}

Status ExtendSessionGraph(Session& session, std::string_view graph_def) {
  MR_ASSIGN_OR_RETURN(tf::GraphDef def, Parse(graph_def));
  return session.Extend(std::move(def));
}

StatusOr<std::unique_ptr<Session>> LoadSession(const std::string& filename, const SessionOptions& options) {
  MR_ASSIGN_OR_RETURN(tf::GraphDef def, Read(filename));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, NewSession(options));
  const Status created = session->Create(std::move(def));
  if (!created.ok()) return created.WithContext(StrCat("; in ", filename));
  return session;
}

}  // namespace millrace
