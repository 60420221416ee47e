// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/model_session.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"
#include "cli/feed_text.h"
#include "cli/options.h"
#include "cli/suggestion.h"
#include "display/text.h"
#include "graph/graph.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "training/meta_graph_codec.h"
#include "training/restore.h"
#include "training/saved_model_loader.h"
#include "training/signature.h"

namespace millrace::cli {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

// What joins the name of a sparse tensor and that of a part of it.
constexpr char kSparseSeparator = '.';

// The prefix of a --target that is a task, not a node.
constexpr std::string_view kTaskPrefix = "grpc://";

std::vector<std::string> NodeTargets(const ModelOptions& options) {
  std::vector<std::string> nodes = options.targets;
  std::erase_if(nodes, [](const std::string& target) { return target.starts_with(kTaskPrefix); });
  return nodes;
}

// ---- Loading

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
  return RestoreVariables(session, RunOptions(), SaverDefFromProto(model.meta->saver_def()),
                          std::string(prefix));
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
    std::string key = options_.signature;
    if (key.empty()) {
      if (!options_.fetches.empty() || !NodeTargets(options_).empty()) return Status();
      key = saved_model::kDefaultSignature;
      if (!model_.meta->signature_def().contains(key)) return Status();
    }
    MR_ASSIGN_OR_RETURN(const auto* const found, FindSignature(model_.meta->signature_def(), key));
    MR_ASSIGN_OR_RETURN(SignatureDef signature, SignatureFromProto(*found));
    inputs_ = Names(std::move(signature.inputs));
    outputs_ = Names(std::move(signature.outputs));
    has_signature_ = true;
    return Status();
  }

  // The entries of the signature for inputs or outputs.
  struct Names {
    Names() = default;
    explicit Names(std::map<std::string, TensorInfo> of)
        : infos(std::move(of)), tensors(TensorsByKey(infos, kSparseSeparator)) {}
    std::map<std::string, TensorInfo> infos;
    std::map<std::string, SignatureTensor> tensors;
    // Null if the tensor is not sparse.
    const TensorInfo* FindSparse(const std::string& name) const {
      const auto info = infos.find(name);
      return info == infos.end() || !info->second.sparse ? nullptr : &info->second;
    }
  };

  // A tensor by its name in the signature, "name.indices" and the like of a sparse one, or in the graph.
  StatusOr<SignatureTensor> Resolve(const std::string& name, const Names& names) const {
    if (const auto tensor = names.tensors.find(name); tensor != names.tensors.end()) {
      if (!tensor->second.tensor.empty()) return tensor->second;
      return errors::InvalidArgument("the signature names no tensor for ", Quoted(name, 80));
    }
    const NodeDef* const node = FindNode(model_.graph(), ParseTensorId(name).name);
    if (node == nullptr) {
      return errors::NotFound("there is no ", Quoted(name, 200),
                              has_signature_ ? NamesText(names) : DidYouMean(name));
    }
    return SignatureTensor{name, name, TypeOfNode(*node)};
  }

  std::string DidYouMean(const std::string& name) const {
    constexpr int kMostNodes = 100000;
    if (model_.graph().node_size() > kMostNodes || name.size() > 200) return "";
    std::vector<std::string> names;
    for (const NodeDef& node : model_.graph().node()) names.push_back(node.name());
    const std::string near = NearestName(std::string(ParseTensorId(name).name), names);
    return near.empty() ? "" : StrCat("; did you mean '", Printable(near, 200), "'?");
  }

  static std::string NamesText(const Names& names) {
    std::string text = "; the signature has";
    for (const auto& [key, info] : names.infos) {
      text += StrCat(text.ends_with("has") ? " " : ", ", key);
      if (info.dtype != DataType::kInvalid) text += StrCat(" (", DataTypeName(info.dtype), ")");
    }
    return text;
  }

  void Feed(const std::string& tensor, Tensor value) {
    step_.feeds.emplace_back(tensor, std::move(value));
    fed_.insert(ParseTensorId(tensor).ToString());
  }

  Status AddFeeds() {
    for (const std::string& feed : options_.feeds) {
      const size_t equals = feed.find('=');  // exists: see Assignment
      const std::string name = feed.substr(0, equals);
      MR_RETURN_IF_ERROR(AddFeed(name, std::string_view(feed).substr(equals + 1)));
    }
    return Status();
  }

  Status AddFeed(const std::string& name, std::string_view text) {
    const auto read = [&](DataType dtype) {
      const auto value = ReadFeed(env_, text, dtype);
      return value.ok() ? value : value.status().WithContext(StrCat(" (feeding ", name, ")"));
    };
    const TensorInfo* const info = inputs_.FindSparse(name);
    if (info == nullptr) {
      MR_ASSIGN_OR_RETURN(const SignatureTensor to, Resolve(name, inputs_));
      MR_ASSIGN_OR_RETURN(Tensor value, read(to.dtype));
      Feed(to.tensor, std::move(value));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(const Tensor value, read(info->dtype));
    MR_ASSIGN_OR_RETURN(SparseFeed sparse, MakeSparse(value));
    Feed(info->sparse->indices, std::move(sparse.indices));
    Feed(info->sparse->values, std::move(sparse.values));
    Feed(info->sparse->dense_shape, std::move(sparse.shape));
    return Status();
  }

  Status AddFetches() {
    step_.targets = NodeTargets(options_);
    std::vector<std::string> names = options_.fetches;
    if (names.empty()) {
      for (const auto& [key, info] : outputs_.infos) {
        if (!info.name.empty() || info.sparse) names.push_back(key);
      }
    }
    for (const std::string& name : names) {
      const TensorInfo* const info = outputs_.FindSparse(name);
      if (info == nullptr) {
        MR_RETURN_IF_ERROR(AddFetch(name));
        continue;
      }
      for (const SignatureTensor& part : TensorsOf(name, *info, kSparseSeparator))
        MR_RETURN_IF_ERROR(AddFetch(part.key));
    }
    if (!step_.fetches.empty() || !step_.targets.empty()) return Status();
    return errors::InvalidArgument("no output is requested; use --fetch", Candidates());
  }

  Status AddFetch(const std::string& name) {
    MR_ASSIGN_OR_RETURN(SignatureTensor from, Resolve(name, outputs_));
    step_.fetches.push_back(std::move(from.tensor));
    step_.labels.push_back(name);
    return Status();
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
    if (!options_.fetches.empty()) return Status();
    for (const auto& [key, info] : inputs_.infos) {
      if (!info.sparse && info.name.empty()) continue;
      for (const SignatureTensor& input : TensorsOf(key, info, kSparseSeparator)) {
        if (fed_.contains(ParseTensorId(input.tensor).ToString())) continue;
        return errors::InvalidArgument("input ", Quoted(key, 80), " is not fed", NamesText(inputs_));
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
      // A fed placeholder may have control edges.
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
  bool has_signature_ = false;
  Names inputs_, outputs_;               // of the signature
  std::unordered_set<std::string> fed_;  // tensors
  ModelStep step_;
};

}  // namespace

void AddModelOptions(ModelOptions* options, const Command& command) {
  command
      .AddOption("model", options->model,
                 "A SavedModel's folder, a GraphDef or MetaGraphDef, .pb or .pbtxt, or a package of mapped "
                 "constants")
      .Required()
      .TypeName("PATH");
  command.AddOption("--tag", options->tags, "A tag of the meta graph of a SavedModel; may be repeated")
      .OneWordEach();
  command
      .AddOption("--checkpoint", options->checkpoint,
                 "Prefix of a checkpoint with the values of variables; a SavedModel has its own")
      .TypeName("PATH");
}

void AddFeedOption(ModelOptions* options, const Command& command) {
  command
      .AddOption(
          "--feed", options->feeds,
          "NAME=VALUE: numbers as [[1, 2], [3, 4]], a string, FILE.npy, FILE.npz:NAME or @FILE for its "
          "bytes; may be repeated")
      .OneWordEach()
      .Check(Assignment());
}

void AddThreadOptions(ModelOptions* options, const Command& command) {
  command.AddOption("--intra-threads", options->intra_threads, "Threads within an op; 0: all cores")
      .Check(Between(0, 1024));
  command.AddOption("--inter-threads", options->inter_threads, "Ops at the same time; 0: all cores")
      .Check(Between(0, 1024));
}

void AddRunOptions(ModelOptions* options, const Command& command) {
  AddFeedOption(options, command);
  command.AddOption("--fetch", options->fetches, "A tensor, or an output of the signature; may be repeated")
      .OneWordEach();
  command
      .AddOption("--target", options->targets,
                 "A node to run, or grpc://host:port as in --master; may be repeated")
      .OneWordEach()
      .ForEach([options](const std::string& target) {
        if (target.starts_with(kTaskPrefix)) options->master = target;
      });
  command.AddOption("--signature", options->signature,
                    "Signature that names the inputs and outputs; default: serving_default if it exists");
  command.AddOption("--master", options->master,
                    "Run on the cluster of this task, grpc://host:port, and not in this process");
  AddThreadOptions(options, command);
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
