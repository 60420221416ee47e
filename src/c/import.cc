// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Adding the nodes of a GraphDef to a graph. Error texts are TensorFlow's.
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "c/internal.h"
#include "graph/function_library.h"
#include "graph/graph_import.h"
#include "graph/node_def_text.h"
#include "tensorflow/core/framework/graph.pb.h"

using millrace::Edge;
using millrace::Status;
namespace errors = millrace::errors;

namespace {

using NamedTensor = std::pair<std::string, int>;

}  // namespace

struct TF_ImportGraphDefOptions {
  std::string prefix;
  std::string default_device;
  bool uniquify_names = false;
  bool uniquify_prefix = false;
  // By names, since the graph is known only when it is imported into.
  std::map<NamedTensor, NamedTensor> input_map;
  std::vector<std::string> control_dependencies;
  std::vector<NamedTensor> return_outputs;
  std::vector<std::string> return_operations;
};

struct TF_ImportGraphDefResults {
  std::vector<TF_Output> outputs;
  std::vector<TF_Operation*> operations;
  std::deque<std::string> missing_names;
  std::vector<const char*> missing;
  std::vector<int> missing_indexes;
};

namespace millrace::c_api {
namespace {

using Options = TF_ImportGraphDefOptions;
using Results = TF_ImportGraphDefResults;

// "a:0" even for output 0, as the keys of an input map are spelled; "^a" for the node itself.
std::string KeyText(std::string_view name, int index) {
  return index < 0 ? StrCat("^", name) : StrCat(name, ":", index);
}

class GraphImport {
 public:
  // Takes constants out of `def`.
  GraphImport(tensorflow::GraphDef& def, const Options& options, Graph& graph, ShapeRefiner& shapes)
      : def_(def), options_(options), graph_(graph), shapes_(shapes), first_id_(graph.num_node_ids()) {}

  // On error the graph is as it was.
  Status Run(Results* results) {
    MR_ASSIGN_OR_RETURN(const ImportOptions import, MakeOptions());
    MR_RETURN_IF_ERROR(CheckNames());
    IndexNodes();
    MR_RETURN_IF_ERROR(CheckReturns());
    MR_RETURN_IF_ERROR(CheckColocation());
    const FunctionLibrary functions = graph_.functions();
    const GraphVersions versions = graph_.versions();
    Status status = ImportGraphDef(std::move(def_), import, &graph_);
    if (status.code() == ErrorCode::kAlreadyExists) {  // TensorFlow's code for a name that is taken
      return errors::InvalidArgument(status.message());
    }
    MR_RETURN_IF_ERROR(status);
    status = Fill(results);
    if (!status.ok()) {
      graph_.RemoveNodesFrom(first_id_);
      shapes_.ForgetNodesFrom(first_id_);
      graph_.functions() = functions;
      graph_.set_versions(versions);
    }
    return status;
  }

 private:
  StatusOr<ImportOptions> MakeOptions() const {
    ImportOptions import;
    import.prefix = options_.prefix;
    if (import.prefix.ends_with('/')) import.prefix.pop_back();
    if (!import.prefix.empty() && !IsValidNodeName(import.prefix, false)) {
      return errors::InvalidArgument("Imported node name prefix '", import.prefix,
                                     "/' would lead to invalid node names");
    }
    if (!import.prefix.empty() && options_.uniquify_prefix) {
      import.prefix = UniqueScope(graph_, import.prefix);
    }
    import.uniquify_names = options_.uniquify_names;
    import.default_device = options_.default_device;
    import.inputs_from_graph = false;
    import.allow_internal_ops = true;  // as exported graphs have them
    import.shapes = &shapes_;
    for (const std::string& name : options_.control_dependencies) {
      Node* node = FindOp(name);
      if (node == nullptr) {
        return errors::InvalidArgument("node '", name, "' in control_dependencies does not exist in graph");
      }
      import.control_dependencies.push_back(node);
    }
    for (const auto& [key, value] : options_.input_map) {
      MR_ASSIGN_OR_RETURN(Node * to, Mapped(key, value));
      import.input_map.emplace(KeyText(key.first, key.second), std::pair(to, value.second));
    }
    return import;
  }

  Node* FindOp(const std::string& name) const {
    Node* node = graph_.FindNode(name);
    return node == nullptr || !node->IsOp() ? nullptr : node;
  }

  StatusOr<Node*> Mapped(const NamedTensor& from, const NamedTensor& to) const {
    const std::string entry =
        StrCat("input_map entry ", KeyText(from.first, from.second), "->", KeyText(to.first, to.second));
    Node* node = FindOp(to.first);
    if (node == nullptr) {
      return errors::InvalidArgument("node '", to.first, "' in input_map does not exist in graph (", entry,
                                     ")");
    }
    if ((from.second < 0) != (to.second < 0)) {
      return errors::InvalidArgument(entry, " between control edge and non-control edge");
    }
    if (to.second >= node->num_outputs()) {
      return errors::InvalidArgument(entry, ": node '", to.first, "' has ", node->num_outputs(), " outputs");
    }
    return node;
  }

  void IndexNodes() {
    if (options_.return_outputs.empty() && options_.return_operations.empty() && options_.input_map.empty()) {
      return;
    }
    for (int i = 0; i < def_.node_size(); ++i) position_.emplace(def_.node(i).name(), i);
  }

  Status CheckReturns() const {
    for (const NamedTensor& tensor : options_.return_outputs) {
      if (options_.input_map.contains(tensor)) continue;
      if (!position_.contains(tensor.first)) {
        return errors::InvalidArgument("Requested return tensor '", KeyText(tensor.first, tensor.second),
                                       "' not found in graph def");
      }
    }
    for (const std::string& name : options_.return_operations) {
      if (!position_.contains(name)) {
        return errors::InvalidArgument("Requested return node '", name, "' not found in graph def");
      }
    }
    return Status();
  }

  // Internal ops are imported, internal names are not.
  Status CheckNames() const {
    for (const tensorflow::NodeDef& node : def_.node()) {
      if (node.name().starts_with('_'))
        return errors::InvalidArgument("Node '", node.name(), "': Node name contains invalid characters");
    }
    return Status();
  }

  // The nodes that others are to be placed with have to be in the GraphDef.
  Status CheckColocation() const {
    constexpr std::string_view kLoc = "loc:@";
    std::unordered_set<std::string_view> names;
    for (const tensorflow::NodeDef& node : def_.node()) {
      const auto groups = node.attr().find("_class");
      if (groups == node.attr().end()) continue;
      for (const std::string_view group : groups->second.list().s()) {
        if (!group.starts_with(kLoc)) continue;
        if (names.empty()) {
          for (const tensorflow::NodeDef& other : def_.node()) names.insert(other.name());
        }
        const std::string_view name = group.substr(kLoc.size());
        if (names.contains(name)) continue;
        return errors::InvalidArgument("Node '", node.name(), "' expects to be colocated with unknown node '",
                                       name, "'");
      }
    }
    return Status();
  }

  Node* NodeNamed(const std::string& name) const { return graph_.node(first_id_ + position_.at(name)); }

  Status Fill(Results* results) const {
    for (const NamedTensor& tensor : options_.return_outputs) {
      if (const auto mapped = options_.input_map.find(tensor); mapped != options_.input_map.end()) {
        results->outputs.push_back({OperationOf(FindOp(mapped->second.first)), mapped->second.second});
        continue;
      }
      Node* node = NodeNamed(tensor.first);
      if (tensor.second < 0 || tensor.second >= node->num_outputs()) {
        return errors::InvalidArgument("Invalid return output ", tensor.second, " of node '", node->name(),
                                       "', which has ", node->num_outputs(), " output(s)");
      }
      results->outputs.push_back({OperationOf(node), tensor.second});
    }
    for (const std::string& name : options_.return_operations) {
      results->operations.push_back(OperationOf(NodeNamed(name)));
    }
    FillMissing(results);
    return Status();
  }

  // Keys that are no input of a node and name no tensor of the GraphDef either.
  void FillMissing(Results* results) const {
    if (options_.input_map.empty()) return;
    std::set<std::string> used;
    for (const tensorflow::NodeDef& node : def_.node()) {
      for (const std::string& input : node.input()) {
        const TensorId id = ParseTensorId(input);
        used.insert(KeyText(id.name, id.index));
      }
    }
    for (const auto& [key, value] : options_.input_map) {
      const auto& [name, index] = key;
      if (used.contains(KeyText(name, index))) continue;
      if (position_.contains(name) && index < NodeNamed(name)->num_outputs()) continue;
      results->missing_names.push_back(name);
      results->missing.push_back(results->missing_names.back().c_str());
      results->missing_indexes.push_back(index);
    }
  }

  tensorflow::GraphDef& def_;
  const Options& options_;
  Graph& graph_;
  ShapeRefiner& shapes_;
  const int first_id_;
  std::unordered_map<std::string, int> position_;  // in def_, by name
};

Status Import(TF_Graph* graph, const TF_Buffer* buffer, const Options* options, Results* results) {
  if (graph == nullptr || buffer == nullptr || options == nullptr) {
    return NullArgument("The graph, the GraphDef or the options");
  }
  tensorflow::GraphDef def;
  if (!Parse(buffer->data, buffer->length, &def)) return errors::InvalidArgument("Invalid GraphDef");
  MutexLock lock(graph->mu);
  graph->AwaitTurn();
  Status status = GraphImport(def, *options, graph->graph, graph->refiner).Run(results);
  graph->PublishNodes();
  return status;
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

TF_ImportGraphDefOptions* TF_NewImportGraphDefOptions(void) {
  return EnterOr<TF_ImportGraphDefOptions*>(nullptr, [] { return new TF_ImportGraphDefOptions; });
}

void TF_DeleteImportGraphDefOptions(TF_ImportGraphDefOptions* opts) { delete opts; }

void TF_ImportGraphDefOptionsSetPrefix(TF_ImportGraphDefOptions* opts, const char* prefix) {
  if (opts != nullptr) opts->prefix = OrEmpty(prefix);
}

void TF_ImportGraphDefOptionsSetDefaultDevice(TF_ImportGraphDefOptions* opts, const char* device) {
  if (opts != nullptr) opts->default_device = OrEmpty(device);
}

void TF_ImportGraphDefOptionsSetUniquifyNames(TF_ImportGraphDefOptions* opts, unsigned char uniquify_names) {
  if (opts != nullptr) opts->uniquify_names = uniquify_names != 0;
}

void TF_ImportGraphDefOptionsSetUniquifyPrefix(TF_ImportGraphDefOptions* opts,
                                               unsigned char uniquify_prefix) {
  if (opts != nullptr) opts->uniquify_prefix = uniquify_prefix != 0;
}

void TF_ImportGraphDefOptionsAddInputMapping(TF_ImportGraphDefOptions* opts, const char* src_name,
                                             int src_index, TF_Output dst) {
  if (opts == nullptr || src_name == nullptr || dst.oper == nullptr) return;
  opts->input_map[{src_name, src_index}] = {NodeOf(dst.oper)->name(), dst.index};
}

void TF_ImportGraphDefOptionsRemapControlDependency(TF_ImportGraphDefOptions* opts, const char* src_name,
                                                    TF_Operation* dst) {
  TF_ImportGraphDefOptionsAddInputMapping(opts, src_name, Edge::kControlSlot, {dst, Edge::kControlSlot});
}

void TF_ImportGraphDefOptionsAddControlDependency(TF_ImportGraphDefOptions* opts, TF_Operation* oper) {
  if (opts != nullptr && oper != nullptr) opts->control_dependencies.push_back(NodeOf(oper)->name());
}

void TF_ImportGraphDefOptionsAddReturnOutput(TF_ImportGraphDefOptions* opts, const char* oper_name,
                                             int index) {
  if (opts != nullptr && oper_name != nullptr) opts->return_outputs.push_back({oper_name, index});
}

int TF_ImportGraphDefOptionsNumReturnOutputs(const TF_ImportGraphDefOptions* opts) {
  return opts == nullptr ? 0 : static_cast<int>(opts->return_outputs.size());
}

void TF_ImportGraphDefOptionsAddReturnOperation(TF_ImportGraphDefOptions* opts, const char* oper_name) {
  if (opts != nullptr && oper_name != nullptr) opts->return_operations.emplace_back(oper_name);
}

int TF_ImportGraphDefOptionsNumReturnOperations(const TF_ImportGraphDefOptions* opts) {
  return opts == nullptr ? 0 : static_cast<int>(opts->return_operations.size());
}

void TF_ImportGraphDefResultsReturnOutputs(TF_ImportGraphDefResults* results, int* num_outputs,
                                           TF_Output** outputs) {
  if (num_outputs != nullptr)
    *num_outputs = results == nullptr ? 0 : static_cast<int>(results->outputs.size());
  if (outputs != nullptr) *outputs = results == nullptr ? nullptr : results->outputs.data();
}

void TF_ImportGraphDefResultsReturnOperations(TF_ImportGraphDefResults* results, int* num_opers,
                                              TF_Operation*** opers) {
  if (num_opers != nullptr)
    *num_opers = results == nullptr ? 0 : static_cast<int>(results->operations.size());
  if (opers != nullptr) *opers = results == nullptr ? nullptr : results->operations.data();
}

void TF_ImportGraphDefResultsMissingUnusedInputMappings(TF_ImportGraphDefResults* results,
                                                        int* num_missing_unused_input_mappings,
                                                        const char*** src_names, int** src_indexes) {
  if (num_missing_unused_input_mappings != nullptr) {
    *num_missing_unused_input_mappings = results == nullptr ? 0 : static_cast<int>(results->missing.size());
  }
  if (src_names != nullptr) *src_names = results == nullptr ? nullptr : results->missing.data();
  if (src_indexes != nullptr) *src_indexes = results == nullptr ? nullptr : results->missing_indexes.data();
}

void TF_DeleteImportGraphDefResults(TF_ImportGraphDefResults* results) { delete results; }

TF_ImportGraphDefResults* TF_GraphImportGraphDefWithResults(TF_Graph* graph, const TF_Buffer* graph_def,
                                                            const TF_ImportGraphDefOptions* options,
                                                            TF_Status* status) {
  auto results = std::make_unique<TF_ImportGraphDefResults>();
  const bool ok = Enter(status, [&] { return Import(graph, graph_def, options, results.get()); });
  return ok ? results.release() : nullptr;
}

void TF_GraphImportGraphDefWithReturnOutputs(TF_Graph* graph, const TF_Buffer* graph_def,
                                             const TF_ImportGraphDefOptions* options,
                                             TF_Output* return_outputs, int num_return_outputs,
                                             TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (num_return_outputs != TF_ImportGraphDefOptionsNumReturnOutputs(options)) {
      return errors::InvalidArgument("Expected 'num_return_outputs' to be ",
                                     TF_ImportGraphDefOptionsNumReturnOutputs(options), ", got ",
                                     num_return_outputs);
    }
    if (num_return_outputs > 0 && return_outputs == nullptr) {
      return errors::InvalidArgument("'return_outputs' must be preallocated to length ", num_return_outputs);
    }
    TF_ImportGraphDefResults results;
    MR_RETURN_IF_ERROR(Import(graph, graph_def, options, &results));
    std::copy(results.outputs.begin(), results.outputs.end(), return_outputs);
    return Status();
  });
}

void TF_GraphImportGraphDef(TF_Graph* graph, const TF_Buffer* graph_def,
                            const TF_ImportGraphDefOptions* options, TF_Status* status) {
  TF_DeleteImportGraphDefResults(TF_GraphImportGraphDefWithResults(graph, graph_def, options, status));
}
