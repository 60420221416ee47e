// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A SavedModel as a session: its graph, its variables restored and its initialisation run.
#include <set>

#include "base/env.h"
#include "c/session.h"
#include "graph/graph_import.h"
#include "proto/message_types.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"

using millrace::Env;
using millrace::MutexLock;
using millrace::Session;
using millrace::Status;
using millrace::StatusOr;
using millrace::StrCat;
using millrace::Tensor;
using tensorflow::MetaGraphDef;
namespace errors = millrace::errors;

namespace millrace::c_api {
namespace {

StatusOr<tensorflow::SavedModel> ReadModel(const std::string& dir) {
  Env& env = Env::Posix();
  tensorflow::SavedModel model;
  if (const std::string path = dir + "/saved_model.pb"; env.FileExists(path)) {
    MR_ASSIGN_OR_RETURN(const std::string bytes, ReadFileToString(env, path));
    if (!Parse(bytes.data(), bytes.size(), &model)) {
      return errors::DataLoss("Can't parse ", path, " as binary proto");
    }
    return model;
  }
  if (const std::string path = dir + "/saved_model.pbtxt"; env.FileExists(path)) {
    MR_ASSIGN_OR_RETURN(const std::string text, ReadFileToString(env, path));
    TextError error;
    if (!ParseMessageText(text, UnknownFields::kSkipped, &model, &error)) {
      return errors::DataLoss("Can't parse ", path, " as text proto");
    }
    return model;
  }
  return errors::NotFound("Could not find SavedModel .pb or .pbtxt at supplied export directory path: ", dir);
}

StatusOr<MetaGraphDef> FindMetaGraph(tensorflow::SavedModel model, const std::set<std::string>& tags) {
  for (MetaGraphDef& meta : *model.mutable_meta_graphs()) {
    const auto& of_meta = meta.meta_info_def().tags();
    if (std::set<std::string>(of_meta.begin(), of_meta.end()) == tags) return std::move(meta);
  }
  std::string wanted = "{";
  for (const std::string& tag : tags) wanted += StrCat(" ", tag);
  return errors::NotFound(
      "Could not find meta graph def matching supplied tags: ", wanted,
      " }. To inspect available tag-sets in the SavedModel, please use the SavedModel CLI: "
      "`saved_model_cli`");
}

// The files that come with the model, each fed to the tensor that names it.
StatusOr<Session::Feeds> AssetFeeds(const MetaGraphDef& meta, const std::string& dir) {
  std::vector<tensorflow::AssetFileDef> assets(meta.asset_file_def().begin(), meta.asset_file_def().end());
  const auto collection = meta.collection_def().find("saved_model_assets");
  if (assets.empty() && collection != meta.collection_def().end()) {
    for (const auto& any : collection->second.any_list().value()) {
      assets.emplace_back();
      if (!assets.back().ParseFromString(any.value())) {
        return errors::DataLoss("An entry of the collection saved_model_assets is no AssetFileDef");
      }
    }
  }
  Session::Feeds feeds;
  for (const tensorflow::AssetFileDef& asset : assets) {
    feeds.emplace_back(asset.tensor_info().name(), Tensor::Scalar(StrCat(dir, "/assets/", asset.filename())));
  }
  return feeds;
}

Status Restore(Session& session, const RunOptions& options, const MetaGraphDef& meta, const std::string& dir,
               Session::Feeds feeds) {
  const std::string variables = dir + "/variables/variables";
  if (!Env::Posix().FileExists(variables + ".index")) return Status();  // a model without variables
  feeds.emplace_back(meta.saver_def().filename_tensor_name(), Tensor::Scalar(variables));
  return session.Run(options, feeds, {}, {meta.saver_def().restore_op_name()}, nullptr, nullptr);
}

// The operation that initialises tables and the like; "" when there is none.
StatusOr<std::string> InitOp(const MetaGraphDef& meta, const std::string& dir) {
  const auto signature = meta.signature_def().find("__saved_model_init_op");
  if (signature != meta.signature_def().end()) {
    const auto output = signature->second.outputs().find("__saved_model_init_op");
    if (output != signature->second.outputs().end()) return output->second.name();
  }
  for (const char* name : {"saved_model_main_op", "legacy_init_op"}) {
    const auto collection = meta.collection_def().find(name);
    if (collection == meta.collection_def().end()) continue;
    if (collection->second.node_list().value_size() != 1) {
      return errors::FailedPrecondition("Expected exactly one main op in : ", dir);
    }
    return collection->second.node_list().value(0);
  }
  return std::string();
}

StatusOr<std::unique_ptr<Session>> Load(const SessionOptions& session_options, const TF_Buffer* run_options,
                                        const std::string& dir, const MetaGraphDef& meta,
                                        const Graph& graph) {
  RunOptions options;
  MR_RETURN_IF_ERROR(ParseRunOptions(run_options, &options));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, NewSession(session_options));
  MR_RETURN_IF_ERROR(session->ExtendFrom(graph));
  MR_ASSIGN_OR_RETURN(const Session::Feeds feeds, AssetFeeds(meta, dir));
  MR_RETURN_IF_ERROR(Restore(*session, options, meta, dir, feeds));
  MR_ASSIGN_OR_RETURN(const std::string init, InitOp(meta, dir));
  if (!init.empty()) {
    const std::string node(ParseTensorId(init).name);
    MR_RETURN_IF_ERROR(session->Run(options, feeds, {}, {node}, nullptr, nullptr));
  }
  return session;
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): the doors to it

TF_Session* TF_LoadSessionFromSavedModel(const TF_SessionOptions* session_options,
                                         const TF_Buffer* run_options, const char* export_dir,
                                         const char* const* tags, int tags_len, TF_Graph* graph,
                                         TF_Buffer* meta_graph_def, TF_Status* status) {
  TF_Session* result = nullptr;
  Enter(status, [&]() -> Status {
    if (graph == nullptr || export_dir == nullptr) return NullArgument("The graph or the directory");
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesOf(tags, tags_len));
    MR_ASSIGN_OR_RETURN(tensorflow::SavedModel model, ReadModel(export_dir));
    MR_ASSIGN_OR_RETURN(const MetaGraphDef meta,
                        FindMetaGraph(std::move(model), std::set<std::string>(names.begin(), names.end())));
    MutexLock lock(graph->mu);
    if (graph->graph.num_nodes() > 2) return errors::InvalidArgument("Graph is non-empty.");
    millrace::ImportOptions import;
    import.allow_internal_ops = true;
    import.shapes = &graph->refiner;
    const int first = graph->graph.num_node_ids();
    MR_RETURN_IF_ERROR(millrace::ImportGraphDef(meta.graph_def(), import, &graph->graph));
    auto session = Load(session_options == nullptr ? millrace::SessionOptions() : session_options->options,
                        run_options, export_dir, meta, graph->graph);
    Status loaded = session.status();
    if (loaded.ok() && meta_graph_def != nullptr) loaded = ToBuffer(meta, meta_graph_def);
    if (!loaded.ok()) {
      graph->graph.RemoveNodesFrom(first);
      graph->refiner.ForgetNodesFrom(first);
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
