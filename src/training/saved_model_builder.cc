// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/temporary_file.h"
#include "graph/graph.h"
#include "io/match_files.h"
#include "millrace/saved_model.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"
#include "training/meta_graph_io.h"
#include "training/proto_file.h"
#include "training/same_graph.h"
#include "training/saved_model_loader.h"

namespace millrace {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;

Status CheckTensorInfo(const std::string& key, const TensorInfo& info) {
  if (info.name.empty() && !info.sparse) {
    return errors::InvalidArgument(
        "All TensorInfo protos used in the SignatureDefs must have one of the "
        "'encoding' fields (e.g., name or coo_sparse) set: ",
        key);
  }
  if (info.dtype == DataType::kInvalid) {
    return errors::InvalidArgument(
        "All TensorInfo protos used in the SignatureDefs must have the dtype field set: ", key);
  }
  return Status::Ok();
}

Status CheckSignatures(const std::map<std::string, SignatureDef>& signatures) {
  for (const auto& [name, signature] : signatures) {
    for (const auto& [key, info] : signature.inputs) MR_RETURN_IF_ERROR(CheckTensorInfo(key, info));
    for (const auto& [key, info] : signature.outputs) MR_RETURN_IF_ERROR(CheckTensorInfo(key, info));
  }
  for (const auto& [key, use] : {std::pair(saved_model::kInitOpSignatureKey, "initialization"),
                                 std::pair(saved_model::kTrainOpSignatureKey, "the train op")}) {
    if (!signatures.contains(key)) continue;
    return errors::InvalidArgument("SignatureDef map key \"", key, "\" is reserved for ", use,
                                   ". Please use a different key.");
  }
  return Status::Ok();
}

// The path in a constant.
StatusOr<std::string> AssetPath(const Output& asset) {
  if (!asset.IsSet()) return errors::InvalidArgument("Asset path tensor must be a Tensor.");
  if (asset.node->op_name() != "Const") {
    return errors::InvalidArgument("Asset path tensor must be of type constant.");
  }
  MR_ASSIGN_OR_RETURN(const Tensor value, asset.node->Attr<Tensor>("value"));
  if (value.dtype() != DataType::kString) {
    return errors::InvalidArgument("Asset path tensor must be of dtype string.");
  }
  if (value.num_elements() != 1) return errors::InvalidArgument("Asset path tensor must be a scalar.");
  const std::string& path = *value.data<std::string>();
  if (path.empty() || path.ends_with('/')) {
    return errors::InvalidArgument("Invalid asset filepath tensor ", Scope::NameOf(asset));
  }
  return path;
}

StatusOr<bool> SameFiles(Env& env, const std::string& a, const std::string& b) {
  MR_ASSIGN_OR_RETURN(const FileStat stat_a, env.Stat(a));
  MR_ASSIGN_OR_RETURN(const FileStat stat_b, env.Stat(b));
  if (stat_a.length != stat_b.length) return false;
  MR_ASSIGN_OR_RETURN(const auto file_a, env.NewRandomAccessFile(a));
  MR_ASSIGN_OR_RETURN(const auto file_b, env.NewRandomAccessFile(b));
  std::string block_a(kBlockBytes, '\0'), block_b(kBlockBytes, '\0');
  for (uint64_t at = 0; at < stat_a.length; at += kBlockBytes) {
    MR_ASSIGN_OR_RETURN(const size_t n, file_a->ReadInto(at, kBlockBytes, block_a.data()));
    MR_ASSIGN_OR_RETURN(const size_t m, file_b->ReadInto(at, kBlockBytes, block_b.data()));
    if (std::string_view(block_a).substr(0, n) != std::string_view(block_b).substr(0, m)) return false;
  }
  return true;
}

Status CopyFile(Env& env, const std::string& from, const std::string& to) {
  MR_ASSIGN_OR_RETURN(const auto source, env.NewRandomAccessFile(from));
  const std::string unfinished = TemporaryName(to);
  MR_ASSIGN_OR_RETURN(const auto copy, env.NewWritableFile(unfinished));
  std::string block(kBlockBytes, '\0');
  for (uint64_t at = 0;;) {
    MR_ASSIGN_OR_RETURN(const size_t n, source->ReadInto(at, kBlockBytes, block.data()));
    if (n == 0) break;
    MR_RETURN_IF_ERROR(copy->Append(std::string_view(block).substr(0, n)));
    at += n;
  }
  MR_RETURN_IF_ERROR(copy->Sync());
  MR_RETURN_IF_ERROR(copy->Close());
  MR_RETURN_IF_ERROR(env.RenameFile(unfinished, to));
  DeleteStaleTemporaries(env, to);
  return Status::Ok();
}

Status AddMainOp(const Scope& scope, const SavedModelBuilder::MetaGraphOptions& options, MetaGraph* meta) {
  for (const auto& [key, op] : {std::pair(saved_model::kMainOpKey, options.main_op),
                                std::pair(saved_model::kLegacyInitOpKey, options.legacy_init_op)}) {
    if (!op.IsSet()) continue;
    if (&op.node->graph() != &scope.graph()) {
      return errors::InvalidArgument("main_op '", op.node->name(),
                                     "' is not an operation of the scope's graph");
    }
    if (Collections(scope).contains(key)) {
      return errors::InvalidArgument("Graph already contains one or more main ops under the collection ", key,
                                     ".");
    }
    meta->collections[key] = NodeList{{op.node->name()}};
  }
  return Status::Ok();
}

// The saver of the model's variables. It is sharded, so that its nodes do not depend on the layout of files.
Saver NewSaver(const Scope& scope) {
  Saver::Options options;
  options.sharded = true;
  options.allow_empty = true;
  return Saver(scope, options);
}

}  // namespace

TensorInfo TensorInfoOf(const Scope& scope, const Output& tensor) {
  TensorInfo info;
  if (!tensor.IsSet()) return info;
  info.name = StrCat(tensor.node->name(), ":", tensor.index);
  info.dtype = Scope::TypeOf(tensor);
  info.shape = scope.ShapeOf(tensor);
  return info;
}

SignatureDef PredictSignature(const Scope& scope, const std::map<std::string, Output>& inputs,
                              const std::map<std::string, Output>& outputs) {
  SignatureDef signature;
  for (const auto& [key, tensor] : inputs) signature.inputs[key] = TensorInfoOf(scope, tensor);
  for (const auto& [key, tensor] : outputs) signature.outputs[key] = TensorInfoOf(scope, tensor);
  signature.method_name = saved_model::kPredictMethod;
  return signature;
}

SavedModelBuilder::SavedModelBuilder(std::string export_dir)
    : export_dir_(std::move(export_dir)), model_(std::make_unique<tensorflow::SavedModel>()) {
  model_->set_saved_model_schema_version(1);
}
SavedModelBuilder::~SavedModelBuilder() = default;

StatusOr<std::unique_ptr<SavedModelBuilder>> SavedModelBuilder::Open(const std::string& export_dir) {
  if (export_dir.empty()) return errors::InvalidArgument("The export directory has no name");
  Env& env = Env::Posix();
  if (env.FileExists(export_dir)) {
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> there, env.GetChildren(export_dir));
    if (!there.empty()) {
      return errors::AlreadyExists(
          "Export directory already exists, and isn't empty. Please choose a different export directory, or "
          "delete all the contents of the specified directory: ",
          export_dir);
    }
  }
  MR_RETURN_IF_ERROR(io::MakeFolders(env, export_dir));
  return std::unique_ptr<SavedModelBuilder>(new SavedModelBuilder(export_dir));
}

// Chooses the names of assets in the model; the files themselves are copied at the end.
StatusOr<CollectionDef> SavedModelBuilder::AddAssets(const std::vector<Output>& assets) {
  AnyList list;
  for (const Output& asset : assets) {
    MR_ASSIGN_OR_RETURN(const std::string path, AssetPath(asset));
    const std::string base = path.substr(path.rfind('/') + 1);
    std::string name = base;
    const auto taken = assets_.find(base);
    if (taken != assets_.end() && taken->second != path) {
      MR_ASSIGN_OR_RETURN(const bool same, SameFiles(Env::Posix(), path, taken->second));
      for (int i = 1; !same && assets_.contains(name) && assets_[name] != path; ++i) {
        name = StrCat(base, "_", i);
      }
    }
    assets_.emplace(name, path);
    tensorflow::AssetFileDef def;
    def.mutable_tensor_info()->set_name(StrCat(asset.node->name(), ":", asset.index));
    def.set_filename(name);
    google::protobuf::Any any;
    any.PackFrom(def);
    list.value.push_back({any.type_url(), any.value()});
  }
  return CollectionDef(std::move(list));
}

Status SavedModelBuilder::CopyAssets() const {
  if (assets_.empty()) return Status::Ok();
  Env& env = Env::Posix();
  const std::string folder = JoinPath(export_dir_, saved_model::kAssetsFolder);
  MR_RETURN_IF_ERROR(io::MakeFolders(env, folder));
  for (const auto& [name, path] : assets_) {
    const std::string to = JoinPath(folder, name);
    if (!env.FileExists(to)) MR_RETURN_IF_ERROR(CopyFile(env, path, to));
  }
  return Status::Ok();
}

Status SavedModelBuilder::Add(const Scope& scope, const std::vector<std::string>& tags,
                              const MetaGraphOptions& options, const Saver& saver) {
  MetaGraph meta;
  meta.tags = tags;
  meta.signatures = options.signatures;
  if (!saver.empty()) meta.saver = saver.def();
  MR_RETURN_IF_ERROR(AddMainOp(scope, options, &meta));
  if (!options.assets.empty()) {
    MR_ASSIGN_OR_RETURN(meta.collections[saved_model::kAssetsKey], AddAssets(options.assets));
    MR_RETURN_IF_ERROR(CopyAssets());
  }
  ExportMetaGraphOptions how;
  how.clear_devices = options.clear_devices;
  how.strip_default_attrs = options.strip_default_attrs;
  tensorflow::MetaGraphDef proto;
  MR_RETURN_IF_ERROR(BuildMetaGraphDef(scope, meta, how, &proto));
  *model_->add_meta_graphs() = std::move(proto);
  return Status::Ok();
}

Status SavedModelBuilder::AddMetaGraphAndVariables(const ClientSession& session, const Scope& scope,
                                                   const std::vector<std::string>& tags,
                                                   const MetaGraphOptions& options) {
  MR_RETURN_IF_ERROR(CheckSameGraph("SavedModelBuilder::AddMetaGraphAndVariables", "the session is",
                                    session.scope(), scope));
  if (has_variables_) {
    return errors::FailedPrecondition(
        "Graph state including variables and assets has already been saved. Please invoke `add_meta_graph()` "
        "instead.");
  }
  MR_RETURN_IF_ERROR(CheckSignatures(options.signatures));
  const std::string folder = JoinPath(export_dir_, saved_model::kVariablesFolder);
  MR_RETURN_IF_ERROR(io::MakeFolders(Env::Posix(), folder));
  Saver saver = options.saver != nullptr ? *options.saver : NewSaver(scope);
  MR_RETURN_IF_ERROR(scope.status());
  Saver::SaveOptions how;
  how.write_meta_graph = false;
  how.write_state = false;
  MR_RETURN_IF_ERROR(saver.Save(session, JoinPath(folder, saved_model::kVariablesFilename), how).status());
  MR_RETURN_IF_ERROR(Add(scope, tags, options, saver));
  has_variables_ = true;
  return Status::Ok();
}

Status SavedModelBuilder::AddMetaGraph(const Scope& scope, const std::vector<std::string>& tags,
                                       const MetaGraphOptions& options) {
  if (!has_variables_) {
    return errors::FailedPrecondition(
        "Graph state including variables and assets has not been saved yet. Please invoke "
        "`add_meta_graph_and_variables()` first.");
  }
  MR_RETURN_IF_ERROR(CheckSignatures(options.signatures));
  const Saver saver = options.saver != nullptr ? *options.saver : NewSaver(scope);
  MR_RETURN_IF_ERROR(scope.status());
  return Add(scope, tags, options, saver);
}

StatusOr<std::string> SavedModelBuilder::Save(bool as_text) {
  std::string path = JoinPath(export_dir_, as_text ? saved_model::kTextFilename : saved_model::kFilename);
  MR_RETURN_IF_ERROR(as_text ? WriteTextProto(Env::Posix(), path, *model_)
                             : WriteBinaryProto(Env::Posix(), path, *model_));
  return path;
}

Status SimpleSave(const ClientSession& session, const Scope& scope, const std::string& export_dir,
                  const std::map<std::string, Output>& inputs, const std::map<std::string, Output>& outputs,
                  const Operation& main_op) {
  namespace fs = std::filesystem;
  MR_RETURN_IF_ERROR(CheckSameGraph("SimpleSave", "the session is", session.scope(), scope));
  std::error_code error;
  const bool there = fs::exists(export_dir, error);
  if (there && !MaybeSavedModelDirectory(export_dir) && !fs::is_empty(export_dir, error)) {
    return errors::AlreadyExists(export_dir, "; exists and is not a SavedModel");
  }
  const std::string written = StrCat(export_dir, ".", ::getpid(), ".new");
  const std::string old = StrCat(export_dir, ".", ::getpid(), ".old");
  MR_ASSIGN_OR_RETURN(const auto builder, SavedModelBuilder::Open(written));
  SavedModelBuilder::MetaGraphOptions options{.main_op = main_op};
  options.signatures[saved_model::kDefaultSignature] = PredictSignature(scope, inputs, outputs);
  Status status = builder->AddMetaGraphAndVariables(session, scope, {saved_model::kServe}, options);
  if (status.ok()) status = builder->Save().status();
  if (status.ok() && there) fs::rename(export_dir, old, error);
  if (status.ok() && !error) fs::rename(written, export_dir, error);
  if (status.ok() && error) status = errors::Unavailable(export_dir, ": cannot replace: ", error.message());
  fs::remove_all(status.ok() ? old : written, error);
  return status;
}

}  // namespace millrace
