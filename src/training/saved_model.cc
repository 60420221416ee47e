// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/saved_model.h"

#include "graph/graph.h"
#include "graph/graph_import.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "training/meta_graph_codec.h"
#include "training/proto_file.h"
#include "training/saved_model_loader.h"

namespace millrace {
namespace {

// A signature's tensors by the names of callers: a sparse one is three.
std::map<std::string, TensorInfo> Dense(const std::map<std::string, TensorInfo>& infos) {
  std::map<std::string, TensorInfo> dense;
  for (const auto& [key, info] : infos) {
    if (!info.sparse) {
      dense[key] = info;
      continue;
    }
    dense[key + "/values"] = {.name = info.sparse->values, .dtype = info.dtype};
    dense[key + "/indices"] = {.name = info.sparse->indices, .dtype = DataType::kInt64};
    dense[key + "/dense_shape"] = {.name = info.sparse->dense_shape, .dtype = DataType::kInt64};
  }
  return dense;
}

StatusOr<Session::Feeds> FeedsOf(const std::string& signature, const std::map<std::string, TensorInfo>& infos,
                                 const SavedModelBundle::Tensors& inputs) {
  Session::Feeds feeds;
  for (const auto& [key, info] : infos) {
    const auto input = inputs.find(key);
    if (input == inputs.end()) {
      return errors::InvalidArgument("Signature '", signature, "' needs the input '", key, "'");
    }
    if (info.dtype != DataType::kInvalid && input->second.dtype() != info.dtype) {
      return errors::InvalidArgument("Input '", key, "' of signature '", signature, "' is ",
                                     DataTypeName(input->second.dtype()), ", not ", DataTypeName(info.dtype));
    }
    feeds.emplace_back(info.name, input->second);
  }
  for (const auto& [key, tensor] : inputs) {
    if (infos.contains(key)) continue;
    return errors::InvalidArgument("Signature '", signature, "' has no input '", key, "'");
  }
  return feeds;
}

}  // namespace

bool MaybeSavedModelDirectory(const std::string& export_dir) {
  Env& env = Env::Posix();
  return env.FileExists(JoinPath(export_dir, saved_model::kFilename)) ||
         env.FileExists(JoinPath(export_dir, saved_model::kTextFilename));
}

SavedModelBundle::SavedModelBundle() : graph_(std::make_unique<Graph>(OpRegistry::Global())) {}
SavedModelBundle::~SavedModelBundle() = default;

StatusOr<std::unique_ptr<SavedModelBundle>> SavedModelBundle::Load(const std::string& export_dir,
                                                                   const std::set<std::string>& tags,
                                                                   const Options& options) {
  std::unique_ptr<SavedModelBundle> bundle(new SavedModelBundle);
  MR_ASSIGN_OR_RETURN(const auto proto, ReadSavedModelMetaGraph(Env::Posix(), export_dir, tags));
  MR_ASSIGN_OR_RETURN(bundle->meta_graph_, MetaGraphFromProto(*proto));
  ImportOptions import;
  import.allow_internal_ops = true;
  MR_RETURN_IF_ERROR(ImportGraphDef(std::move(*proto->mutable_graph_def()), import, bundle->graph_.get()));
  proto->clear_graph_def();
  MR_ASSIGN_OR_RETURN(bundle->session_, NewSession(options.session));
  MR_RETURN_IF_ERROR(bundle->session_->ExtendFrom(*bundle->graph_));
  MR_RETURN_IF_ERROR(InitializeFromSavedModel(*bundle->session_, options.run, *proto, export_dir));
  return bundle;
}

void SavedModelBundle::ToGraphDef(tensorflow::GraphDef* def) const { ExportGraphDef(*graph_, def); }

StatusOr<SavedModelBundle::Tensors> SavedModelBundle::Run(const std::string& signature, const Tensors& inputs,
                                                          const std::vector<std::string>& outputs) const {
  const auto found = signatures().find(signature);
  if (found == signatures().end()) {
    return errors::InvalidArgument("The model has no signature '", signature, "'");
  }
  MR_ASSIGN_OR_RETURN(const Session::Feeds feeds, FeedsOf(signature, Dense(found->second.inputs), inputs));
  const std::map<std::string, TensorInfo> infos = Dense(found->second.outputs);
  std::vector<std::string> keys = outputs;
  if (keys.empty()) {
    for (const auto& [key, info] : infos) keys.push_back(key);
  }
  std::vector<std::string> fetches;
  for (const std::string& key : keys) {
    const auto info = infos.find(key);
    if (info == infos.end()) {
      return errors::InvalidArgument("Signature '", signature, "' has no output '", key, "'");
    }
    fetches.push_back(info->second.name);
  }
  std::vector<Tensor> values;
  MR_RETURN_IF_ERROR(session_->Run(feeds, fetches, {}, &values));
  Tensors results;
  for (size_t i = 0; i < keys.size(); ++i) results.insert_or_assign(keys[i], std::move(values[i]));
  return results;
}

}  // namespace millrace
