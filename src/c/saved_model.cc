// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A SavedModel as a session: its graph, its variables restored and its initialisation run.
#include <set>

#include "c/session.h"
#include "graph/function_library.h"
#include "graph/graph_import.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "training/saved_model_loader.h"

using millrace::Env;
using millrace::MutexLock;
using millrace::Status;
using tensorflow::MetaGraphDef;
namespace errors = millrace::errors;

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

TF_Session* TF_LoadSessionFromSavedModel(const TF_SessionOptions* session_options,
                                         const TF_Buffer* run_options, const char* export_dir,
                                         const char* const* tags, int tags_len, TF_Graph* graph,
                                         TF_Buffer* meta_graph_def, TF_Status* status) {
  TF_Session* result = nullptr;
  Enter(status, [&]() -> Status {
    if (graph == nullptr || export_dir == nullptr) return NullArgument("The graph or the directory");
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesOf(tags, tags_len));
    MutexLock lock(graph->mu);
    graph->AwaitTurn();
    if (graph->graph.num_nodes() > 2) return errors::InvalidArgument("Graph is non-empty.");
    millrace::RunOptions options;
    MR_RETURN_IF_ERROR(ParseRunOptions(run_options, &options));
    const std::string dir = export_dir;
    MR_ASSIGN_OR_RETURN(const std::unique_ptr<MetaGraphDef> meta,
                        millrace::ReadSavedModelMetaGraph(Env::Posix(), dir, {names.begin(), names.end()}));
    millrace::ImportOptions import;
    import.allow_internal_ops = true;
    import.shapes = &graph->refiner;
    const int first = graph->graph.num_node_ids();
    const millrace::FunctionLibrary functions = graph->graph.functions();
    const millrace::GraphVersions versions = graph->graph.versions();
    if (meta_graph_def != nullptr) {
      MR_RETURN_IF_ERROR(millrace::ImportGraphDef(meta->graph_def(), import, &graph->graph));
    } else {  // the message is not needed any more
      MR_RETURN_IF_ERROR(
          millrace::ImportGraphDef(std::move(*meta->mutable_graph_def()), import, &graph->graph));
      meta->clear_graph_def();
    }
    auto session = millrace::OpenSavedModel(
        session_options == nullptr ? millrace::SessionOptions() : session_options->options, options, *meta,
        dir, graph->graph);
    Status loaded = session.status();
    if (loaded.ok() && meta_graph_def != nullptr) loaded = ToBuffer(*meta, meta_graph_def);
    if (!loaded.ok()) {
      graph->graph.RemoveNodesFrom(first);
      graph->refiner.ForgetNodesFrom(first);
      graph->graph.functions() = functions;
      graph->graph.set_versions(versions);
      return loaded;
    }
    graph->PublishNodes();
    result = new TF_Session(*std::move(session), graph);
    result->seen_node_ids.store(graph->graph.num_node_ids(), std::memory_order_release);
    ++graph->num_users;
    return Status();
  });
  return result;
}
