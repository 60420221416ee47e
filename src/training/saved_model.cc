// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/saved_model.h"

#include "graph/graph.h"
#include "graph/graph_import.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "training/meta_graph_codec.h"
#include "training/proto_file.h"
#include "training/saved_model_loader.h"
#include "training/signature.h"

namespace millrace {
namespace {

// The separator between the name of a sparse tensor and that of its part.
constexpr char kSparseSeparator = '/';

StatusOr<Session::Feeds> FeedsOf(const std::string& signature,
                                 const std::map<std::string, SignatureTensor>& tensors,
                                 const SavedModelBundle::Tensors& inputs) {
  Session::Feeds feeds;
  for (const auto& [key, info] : tensors) {
    const auto input = inputs.find(key);
    if (input == inputs.end()) {
      return errors::InvalidArgument("Signature '", signature, "' needs the input '", key, "'");
    }
    if (info.dtype != DataType::kInvalid && input->second.dtype() != info.dtype) {
      return errors::InvalidArgument("Input '", key, "' of signature '", signature, "' is ",
                                     DataTypeName(input->second.dtype()), ", not ", DataTypeName(info.dtype));
    }
    feeds.emplace_back(info.tensor, input->second);
  }
  for (const auto& [key, value] : inputs) {
    if (tensors.contains(key)) continue;
    return errors::InvalidArgument("Signature '", signature, "' has no input '", key, "'");
  }
  return feeds;
}

}  // namespace

bool MaybeSavedModelDirectory(const std::string& export_dir) {
  return !SavedModelFile(Env::Posix(), export_dir).empty();
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
  MR_ASSIGN_OR_RETURN(bundle->session_,
                      OpenSavedModel(options.session, options.run, *proto, export_dir, *bundle->graph_));
  return bundle;
}

void SavedModelBundle::ToGraphDef(tensorflow::GraphDef* def) const {
  if (def == nullptr) internal::EndWithMessage("SavedModelBundle::ToGraphDef: the message is null");
  ExportGraphDef(*graph_, def);
}

StatusOr<SavedModelBundle::Tensors> SavedModelBundle::Run(const std::string& signature, const Tensors& inputs,
                                                          const std::vector<std::string>& outputs) const {
  MR_ASSIGN_OR_RETURN(const SignatureDef* const found, FindSignature(signatures(), signature));
  MR_ASSIGN_OR_RETURN(const Session::Feeds feeds,
                      FeedsOf(signature, TensorsByKey(found->inputs, kSparseSeparator), inputs));
  const std::map<std::string, SignatureTensor> infos = TensorsByKey(found->outputs, kSparseSeparator);
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
    fetches.push_back(info->second.tensor);
  }
  std::vector<Tensor> values;
  MR_RETURN_IF_ERROR(session_->Run(feeds, fetches, {}, &values));
  Tensors results;
  for (size_t i = 0; i < keys.size(); ++i) results.insert_or_assign(keys[i], std::move(values[i]));
  return results;
}

}  // namespace millrace
