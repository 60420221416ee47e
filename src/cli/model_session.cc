// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/model_session.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"
#include "cli/feed_text.h"
#include "cli/text.h"
#include "graph/graph.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "training/saved_model_loader.h"

namespace millrace::cli {
namespace {

using tensorflow::GraphDef;
using tensorflow::MetaGraphDef;
using tensorflow::NodeDef;
using tensorflow::SignatureDef;
using tensorflow::TensorInfo;

// ---- Loading

Status Restore(Session& session, const MetaGraphDef& meta, const std::string& checkpoint) {
  const auto& saver = meta.saver_def();
  if (saver.restore_op_name().empty() || saver.filename_tensor_name().empty()) {
    return errors::FailedPrecondition("the model does not say how it is restored from a checkpoint");
  }
  return session.Run({{saver.filename_tensor_name(), Tensor::Scalar(checkpoint)}}, {},
                     {saver.restore_op_name()}, nullptr);
}

// A SavedModel is a folder, and may be named by the file in it.
StatusOr<std::string> FolderOf(const ModelFile& model, Env& env) {
  MR_ASSIGN_OR_RETURN(const FileStat stat, env.Stat(model.path));
  if (stat.is_directory) return model.path;
  const size_t slash = model.path.rfind('/');
  return slash == std::string::npos ? std::string(".") : model.path.substr(0, slash);
}

// A checkpoint that is named goes before the variables that a SavedModel has.
Status Prepare(const ModelOptions& options, const ModelFile& model, Session& session, Env& env) {
  if (model.kind == ModelFile::Kind::kSavedModel) {
    MR_ASSIGN_OR_RETURN(const std::string folder, FolderOf(model, env));
    MR_RETURN_IF_ERROR(InitializeFromSavedModel(session, RunOptions(), *model.meta, folder));
  }
  if (options.checkpoint.empty()) return Status();
  std::string_view prefix = options.checkpoint;
  ConsumeSuffix(&prefix, ".index");
  return Restore(session, *model.meta, std::string(prefix));
}

// ---- What is run

const NodeDef* FindNode(const GraphDef& graph, std::string_view name) {
  const auto found = std::find_if(graph.node().begin(), graph.node().end(),
                                  [&](const NodeDef& node) { return node.name() == name; });
  return found == graph.node().end() ? nullptr : &*found;
}

// The type of the only or the first output; kInvalid when it is not known.
DataType TypeOfNode(const NodeDef& node) {
  for (const char* const name : {"dtype", "T", "DstT", "out_type"}) {
    const auto attr = node.attr().find(name);
    if (attr == node.attr().end() || attr->second.value_case() != tensorflow::AttrValue::kType) continue;
    const auto dtype = DataTypeFromProto(attr->second.type());
    if (dtype.ok()) return BaseType(*dtype);
  }
  return DataType::kInvalid;
}

// The parts of a sparse tensor of a signature.
struct SparsePart {
  std::string_view suffix;
  const std::string& (TensorInfo::CooSparse::*get)() const;
  bool is_values = false;
  const std::string& name(const TensorInfo::CooSparse& sparse) const { return (sparse.*get)(); }
};
constexpr SparsePart kSparseParts[] = {
    {".indices", &TensorInfo::CooSparse::indices_tensor_name},
    {".values", &TensorInfo::CooSparse::values_tensor_name, true},
    {".dense_shape", &TensorInfo::CooSparse::dense_shape_tensor_name},
};

struct Endpoint {
  std::string tensor;
  DataType dtype = DataType::kInvalid;
};

class StepMaker {
 public:
  StepMaker(const ModelOptions& options, const ModelFile& model, Env& env)
      : options_(options), model_(model), env_(env) {}

  StatusOr<ModelStep> Make(bool make_up) {
    MR_RETURN_IF_ERROR(ChooseSignature());
    MR_RETURN_IF_ERROR(AddFeeds());
    MR_RETURN_IF_ERROR(AddFetches());
    if (make_up) {
      MR_RETURN_IF_ERROR(MakeUpFeeds());
    } else {
      MR_RETURN_IF_ERROR(CheckSignatureIsFed());
    }
    return std::move(step_);
  }

 private:
  Status ChooseSignature() {
    const auto& signatures = model_.meta->signature_def();
    if (!options_.signature.empty()) {
      const auto found = signatures.find(options_.signature);
      if (found != signatures.end()) {
        signature_ = &found->second;
        return Status();
      }
      std::vector<std::string> keys;
      for (const auto& [key, signature] : signatures) keys.push_back(key);
      std::sort(keys.begin(), keys.end());
      return errors::NotFound("the model has no signature ", Quoted(options_.signature, 80), "; it has ",
                              keys.empty() ? "none" : StrJoin(keys, ", "));
    }
    if (!options_.fetches.empty() || !options_.targets.empty()) return Status();
    const auto serving = signatures.find("serving_default");
    if (serving != signatures.end()) signature_ = &serving->second;
    return Status();
  }

  using Infos = google::protobuf::Map<std::string, TensorInfo>;

  static const TensorInfo* FindInfo(const std::string& name, const Infos* infos) {
    if (infos == nullptr) return nullptr;
    const auto info = infos->find(name);
    return info == infos->end() ? nullptr : &info->second;
  }
  static DataType TypeOf(const TensorInfo& info) {
    const auto dtype = DataTypeFromProto(info.dtype());
    return dtype.ok() ? *dtype : DataType::kInvalid;
  }

  // "name", or "name.indices" and similar names of a sparse tensor.
  StatusOr<Endpoint> Resolve(const std::string& name, const Infos* infos) const {
    if (const TensorInfo* const info = FindInfo(name, infos); info != nullptr && !info->name().empty()) {
      return Endpoint{info->name(), TypeOf(*info)};
    }
    for (const SparsePart& part : kSparseParts) {
      std::string_view base = name;
      if (!ConsumeSuffix(&base, part.suffix)) continue;
      const TensorInfo* const info = FindInfo(std::string(base), infos);
      if (info == nullptr || !info->has_coo_sparse()) continue;
      if (part.name(info->coo_sparse()).empty())
        return errors::InvalidArgument("the signature names no tensor for ", Quoted(name, 80));
      return Endpoint{part.name(info->coo_sparse()), part.is_values ? TypeOf(*info) : DataType::kInt64};
    }
    const NodeDef* const node = FindNode(model_.graph(), ParseTensorId(name).name);
    if (node == nullptr) {
      return errors::NotFound("there is no ", Quoted(name, 200), infos == nullptr ? "" : InfosText(*infos));
    }
    return Endpoint{name, TypeOfNode(*node)};
  }

  static std::string InfosText(const Infos& infos) {
    std::map<std::string_view, const TensorInfo*> sorted;
    for (const auto& [key, info] : infos) sorted.emplace(key, &info);
    std::string text = "; the signature has";
    for (const auto& [key, info] : sorted) {
      const auto dtype = DataTypeFromProto(info->dtype());
      text += StrCat(text.ends_with("has") ? " " : ", ", key);
      if (dtype.ok()) text += StrCat(" (", DataTypeName(*dtype), ")");
    }
    return text;
  }

  void Feed(const std::string& tensor, Tensor value) {
    step_.feeds.emplace_back(tensor, std::move(value));
    fed_.insert(ParseTensorId(tensor).ToString());
  }

  Status AddFeeds() {
    for (const std::string& feed : options_.feeds) {
      const size_t equals = feed.find('=');
      if (equals == std::string::npos || equals == 0) {
        return errors::InvalidArgument("--feed ", Quoted(feed, 80), " is not NAME=VALUE");
      }
      const std::string name = feed.substr(0, equals);
      const Infos* const inputs = signature_ == nullptr ? nullptr : &signature_->inputs();
      const TensorInfo* const info = FindInfo(name, inputs);
      const bool is_sparse = info != nullptr && info->has_coo_sparse();
      Endpoint to;
      if (is_sparse) {
        to.dtype = TypeOf(*info);
      } else {
        MR_ASSIGN_OR_RETURN(to, Resolve(name, inputs));
      }
      auto value = ReadFeed(env_, std::string_view(feed).substr(equals + 1), to.dtype);
      if (!value.ok()) return value.status().WithContext(StrCat(" (feeding ", name, ")"));
      if (!is_sparse) {
        Feed(to.tensor, *std::move(value));
      } else {
        MR_ASSIGN_OR_RETURN(SparseFeed sparse, MakeSparse(*value));
        Feed(info->coo_sparse().indices_tensor_name(), std::move(sparse.indices));
        Feed(info->coo_sparse().values_tensor_name(), std::move(sparse.values));
        Feed(info->coo_sparse().dense_shape_tensor_name(), std::move(sparse.shape));
      }
    }
    return Status();
  }

  Status AddFetches() {
    step_.targets = options_.targets;
    std::vector<std::string> names = options_.fetches;
    if (names.empty() && signature_ != nullptr) {
      for (const auto& [key, info] : signature_->outputs()) {
        if (!info.name().empty() || info.has_coo_sparse()) names.push_back(key);
      }
      std::sort(names.begin(), names.end());
    }
    const Infos* const outputs = signature_ == nullptr ? nullptr : &signature_->outputs();
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string name = names[i];
      if (const TensorInfo* const info = FindInfo(name, outputs); info != nullptr && info->has_coo_sparse()) {
        for (const SparsePart& part : kSparseParts) names.push_back(StrCat(name, part.suffix));
        continue;
      }
      MR_ASSIGN_OR_RETURN(const Endpoint from, Resolve(name, outputs));
      step_.fetches.push_back(from.tensor);
      step_.labels.push_back(name);
    }
    if (!step_.fetches.empty() || !step_.targets.empty()) return Status();
    return errors::InvalidArgument("nothing is asked for; name it with --fetch", Candidates());
  }

  // Outputs that no other node uses.
  std::string Candidates() const {
    std::unordered_set<std::string_view> used;
    for (const NodeDef& node : model_.graph().node()) {
      for (const std::string& input : node.input()) used.insert(ParseTensorId(input).name);
    }
    std::vector<std::string> names;
    for (const NodeDef& node : model_.graph().node()) {
      const bool gives = node.op() != "NoOp" && node.op() != "Const" &&
                         !node.op().starts_with("Placeholder") && !node.op().starts_with("Assign") &&
                         !node.op().starts_with("Save");
      if (gives && !used.contains(node.name()) && names.size() < 12) names.push_back(node.name());
    }
    return names.empty() ? "" : StrCat("; perhaps ", Printable(StrJoin(names, ", "), 400));
  }

  Status CheckSignatureIsFed() const {
    if (signature_ == nullptr || !options_.fetches.empty()) return Status();
    for (const auto& [key, info] : signature_->inputs()) {
      std::vector<std::string> tensors;
      if (!info.name().empty()) tensors.push_back(info.name());
      for (const SparsePart& part : kSparseParts) {
        if (info.has_coo_sparse()) tensors.push_back(part.name(info.coo_sparse()));
      }
      for (const std::string& tensor : tensors) {
        if (fed_.contains(ParseTensorId(tensor).ToString())) continue;
        return errors::InvalidArgument("input ", Quoted(key, 80), " is not fed",
                                       InfosText(signature_->inputs()));
      }
    }
    return Status();
  }

  // Values for the placeholders that are needed.
  Status MakeUpFeeds() {
    std::unordered_map<std::string_view, const NodeDef*> by_name;
    for (const NodeDef& node : model_.graph().node()) by_name.emplace(node.name(), &node);
    std::vector<std::string_view> left;
    for (const auto* const names : {&step_.fetches, &step_.targets})
      left.insert(left.end(), names->begin(), names->end());
    std::unordered_set<std::string_view> seen;
    while (!left.empty()) {
      const TensorId id = ParseTensorId(left.back());
      left.pop_back();
      const auto found = by_name.find(id.name);
      if (fed_.contains(id.ToString()) || found == by_name.end() || !seen.insert(id.name).second) continue;
      const NodeDef& node = *found->second;
      const bool is_placeholder = node.op() == "Placeholder" || node.op() == "PlaceholderV2";
      // One that is fed may be waited for by a control edge.
      if (is_placeholder && !fed_.contains(TensorId{node.name(), 0}.ToString()))
        MR_RETURN_IF_ERROR(MakeUp(node));
      for (const std::string& input : node.input()) left.push_back(input);
    }
    return Status();
  }

  Status MakeUp(const NodeDef& node) {
    const auto attr = node.attr().find("shape");
    StatusOr<PartialShape> shape = PartialShape();
    if (attr != node.attr().end()) shape = PartialShapeFromProto(attr->second.shape());
    MR_RETURN_IF_ERROR(shape.status());
    if (shape->unknown_rank() || (attr == node.attr().end())) {
      return errors::InvalidArgument("the shape of ", Quoted(node.name(), 200),
                                     " is not known; feed it with --feed");
    }
    std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
    for (int64_t& dim : dims) dim = dim < 0 ? options_.batch : dim;
    MR_ASSIGN_OR_RETURN(const TensorShape full, TensorShape::Make(dims));
    MR_ASSIGN_OR_RETURN(Tensor value, MakeUpTensor(TypeOfNode(node), full));
    step_.feeds.emplace_back(node.name(), std::move(value));
    return Status();
  }

  const ModelOptions& options_;
  const ModelFile& model_;
  Env& env_;
  const SignatureDef* signature_ = nullptr;
  std::unordered_set<std::string> fed_;  // tensors
  ModelStep step_;
};

}  // namespace

void AddModelOptions(ModelOptions* options, CLI::App* command) {
  command
      ->add_option("model", options->model,
                   "A SavedModel's folder, a GraphDef or MetaGraphDef, .pb or .pbtxt, or a package of mapped "
                   "constants")
      ->required()
      ->type_name("PATH");
  command->add_option("--tag", options->tags, "A tag of the meta graph of a SavedModel; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "Prefix of a checkpoint with the values of variables; a SavedModel has its own")
      ->type_name("PATH");
}

void AddRunOptions(ModelOptions* options, CLI::App* command) {
  command
      ->add_option(
          "--feed", options->feeds,
          "NAME=VALUE: numbers as [[1, 2], [3, 4]], a text, FILE.npy, FILE.npz:NAME or @FILE for its "
          "bytes; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--fetch", options->fetches, "A tensor, or an output of the signature; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--target", options->targets, "A node that is to run; may be repeated")
      ->allow_extra_args(false);
  command->add_option(
      "--signature", options->signature,
      "Names of inputs and outputs are those of this signature; serving_default if there is one");
  command->add_option("--master", options->master,
                      "Run on the cluster of this task, grpc://host:port, and not in this process");
  command->add_option("--intra-threads", options->intra_threads, "Threads within an op; 0: all cores")
      ->check(CLI::Range(0, 1024));
  command->add_option("--inter-threads", options->inter_threads, "Ops at the same time; 0: all cores")
      ->check(CLI::Range(0, 1024));
}

StatusOr<LoadedModel> LoadModel(const ModelOptions& options, Env& env) {
  LoadedModel loaded;
  MR_ASSIGN_OR_RETURN(loaded.file, ReadModelFile(env, options.model, options.tags));
  SessionOptions session_options;
  session_options.intra_op_parallelism_threads = options.intra_threads;
  session_options.inter_op_parallelism_threads = options.inter_threads;
  session_options.allow_soft_placement = true;
  session_options.target = options.master;
  MR_ASSIGN_OR_RETURN(loaded.session, NewSession(session_options));
  MR_RETURN_IF_ERROR(loaded.session->Create(loaded.file.graph()));
  const Status status = Prepare(options, loaded.file, *loaded.session, env);
  if (!status.ok()) return status.WithContext(StrCat(" (loading ", options.model, ")"));
  return loaded;
}

StatusOr<ModelStep> MakeStep(const ModelOptions& options, const ModelFile& model, bool make_up, Env& env) {
  return StepMaker(options, model, env).Make(make_up);
}

}  // namespace millrace::cli
