// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/saved_model_loader.h"

#include "base/strings.h"
#include "graph/graph.h"
#include "io/checkpoint/bundle_format.h"
#include "io/match_files.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"
#include "training/meta_graph_codec.h"
#include "training/proto_file.h"
#include "training/restore.h"

namespace millrace {
namespace {

using tensorflow::MetaGraphDef;

StatusOr<Session::Feeds> AssetFeeds(const MetaGraphDef& meta, const std::string& dir) {
  MR_ASSIGN_OR_RETURN(const std::vector<AssetFileDef> assets, AssetFilesOf(meta));
  const std::string folder = JoinPath(dir, saved_model::kAssetsFolder);
  Session::Feeds feeds;
  for (const AssetFileDef& asset : assets) {
    feeds.emplace_back(asset.tensor, Tensor::Scalar(JoinPath(folder, asset.filename)));
  }
  return feeds;
}

// The path from which the model's saver restores variables; "" for a model without variables.
StatusOr<std::string> VariablesOf(Env& env, const std::string& dir) {
  std::string prefix =
      JoinPath(JoinPath(dir, saved_model::kVariablesFolder), saved_model::kVariablesFilename);
  if (env.FileExists(io::BundleIndexPath(prefix)) || env.FileExists(prefix)) return prefix;
  // A sharded checkpoint of the first format is restored by the pattern of its files' names.
  MR_ASSIGN_OR_RETURN(const auto shards, io::MatchingFiles(env, StrCat(prefix, "-*-of-?????")));
  if (shards.empty()) return std::string();
  return StrCat(prefix, "-?????", shards[0].substr(shards[0].size() - 9));
}

Status Restore(Session& session, const RunOptions& options, const MetaGraphDef& meta, const std::string& dir,
               Session::Feeds feeds) {
  MR_ASSIGN_OR_RETURN(const std::string variables, VariablesOf(Env::Posix(), dir));
  if (variables.empty()) return Status::Ok();
  const SaverDef saver = SaverDefFromProto(meta.saver_def());
  const Status status = RestoreVariables(session, options, saver, variables, std::move(feeds));
  return CanRestore(saver) ? status : status.WithContext(StrCat("; the SavedModel in ", dir, " has some"));
}

// The operation that initialises tables and similar resources; "" if there is none.
StatusOr<std::string> InitOp(const MetaGraphDef& meta, const std::string& dir) {
  if (const auto signature = meta.signature_def().find(saved_model::kInitOpSignatureKey);
      signature != meta.signature_def().end()) {
    const auto output = signature->second.outputs().find(saved_model::kInitOpSignatureKey);
    if (output != signature->second.outputs().end()) return output->second.name();
    return errors::FailedPrecondition("The signature ", saved_model::kInitOpSignatureKey,
                                      " has no output of that name in : ", dir);
  }
  const auto& collections = meta.collection_def();
  auto collection = collections.find(saved_model::kMainOpKey);
  if (collection == collections.end()) collection = collections.find(saved_model::kLegacyInitOpKey);
  if (collection == collections.end()) return std::string();
  if (collection->second.node_list().value_size() != 1) {
    return errors::FailedPrecondition("Expected exactly one main op in : ", dir);
  }
  return collection->second.node_list().value(0);
}

}  // namespace

std::string SavedModelFile(Env& env, const std::string& dir) {
  for (const char* const name : {saved_model::kFilename, saved_model::kTextFilename}) {
    if (std::string path = JoinPath(dir, name); env.FileExists(path)) return path;
  }
  return std::string();
}

MetaGraphDef* FindMetaGraph(tensorflow::SavedModel* model, const std::set<std::string>& tags) {
  for (MetaGraphDef& meta : *model->mutable_meta_graphs()) {
    const auto& of_meta = meta.meta_info_def().tags();
    if (std::set<std::string>(of_meta.begin(), of_meta.end()) == tags) return &meta;
  }
  return nullptr;
}

Status ReadSavedModel(Env& env, const std::string& dir, tensorflow::SavedModel* model) {
  const std::string path = SavedModelFile(env, dir);
  if (path.ends_with(saved_model::kTextFilename)) return ReadTextProto(env, path, model);
  if (!path.empty()) return ReadBinaryProto(env, path, model);
  return errors::NotFound("Could not find SavedModel .pb or .pbtxt at supplied export directory path: ", dir);
}

StatusOr<std::unique_ptr<MetaGraphDef>> ReadSavedModelMetaGraph(Env& env, const std::string& dir,
                                                                const std::set<std::string>& tags) {
  tensorflow::SavedModel model;
  MR_RETURN_IF_ERROR(ReadSavedModel(env, dir, &model));
  if (MetaGraphDef* const meta = FindMetaGraph(&model, tags))
    return std::make_unique<MetaGraphDef>(std::move(*meta));
  const std::vector<std::string> wanted(tags.begin(), tags.end());
  return errors::NotFound("Could not find meta graph def matching supplied tags: { ", StrJoin(wanted, " "),
                          " }. To inspect available tag-sets in the SavedModel, please use the SavedModel "
                          "CLI: `saved_model_cli`");
}

StatusOr<std::unique_ptr<Session>> OpenSavedModel(const SessionOptions& session_options,
                                                  const RunOptions& run_options, const MetaGraphDef& meta,
                                                  const std::string& dir, const Graph& graph) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, NewSession(session_options));
  MR_RETURN_IF_ERROR(session->ExtendFrom(graph));
  MR_RETURN_IF_ERROR(InitializeFromSavedModel(*session, run_options, meta, dir));
  return session;
}

Status InitializeFromSavedModel(Session& session, const RunOptions& options, const MetaGraphDef& meta,
                                const std::string& dir) {
  MR_ASSIGN_OR_RETURN(const Session::Feeds feeds, AssetFeeds(meta, dir));
  MR_RETURN_IF_ERROR(Restore(session, options, meta, dir, feeds));
  MR_ASSIGN_OR_RETURN(const std::string init, InitOp(meta, dir));
  if (init.empty()) return Status::Ok();
  const std::string target(ParseTensorId(init).name);
  return session.Run(options, feeds, {}, {target}, nullptr, nullptr);
}

}  // namespace millrace
