// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace freeze and millrace optimize: graphs for running only.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/model_session.h"
#include "cli/options.h"
#include "display/text.h"
#include "graph/graph.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "training/graph_tools/graph_tools.h"
#include "training/meta_graph_codec.h"
#include "training/proto_file.h"
#include "training/restore.h"
#include "training/signature.h"

namespace millrace::cli {
namespace {

using tensorflow::GraphDef;

struct RewriteOptions {
  ModelOptions model;
  std::vector<std::string> inputs, outputs, initializers;
  std::string output, package;
  bool clear_devices = false;
};

// Those that were named, or the tensors of the signature.
StatusOr<std::vector<std::string>> Endpoints(const RewriteOptions& options, const ModelFile& model,
                                             bool inputs) {
  const std::vector<std::string>& named = inputs ? options.inputs : options.outputs;
  if (!named.empty()) return named;
  const std::string key =
      options.model.signature.empty() ? saved_model::kDefaultSignature : options.model.signature;
  const auto signature = model.meta->signature_def().find(key);
  std::vector<std::string> names;
  if (signature != model.meta->signature_def().end()) {
    MR_ASSIGN_OR_RETURN(const SignatureDef def, SignatureFromProto(signature->second));
    for (const auto& [name, tensor] : TensorsByKey(inputs ? def.inputs : def.outputs, '.')) {
      if (!tensor.tensor.empty()) names.emplace_back(ParseTensorId(tensor.tensor).name);
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
  }
  if (names.empty() && !inputs) {
    return errors::InvalidArgument(
        "name the outputs of the new graph with --fetch; the model has no signature ", key);
  }
  return names;
}

// Large constants are moved to the given package, and the graph refers to them. Without a package, constants
// in files are moved into the graph.
Status PlaceConstants(const RewriteOptions& options, Env& env, GraphDef* graph) {
  MR_RETURN_IF_ERROR(RestoreMappedConstants(env, graph));
  if (options.package.empty()) return Status();
  MR_RETURN_IF_ERROR(WriteMemmappedPackage({}, env, options.package, graph));
  std::error_code error;
  const std::string path = std::filesystem::absolute(options.package, error).string();
  return LoadMemmappedGraph(env, error ? options.package : path, graph);
}

StatusOr<ExitCode> Finish(const RewriteOptions& options, const GraphDef& before, const GraphDef& after,
                          const Context& context) {
  MR_RETURN_IF_ERROR(options.output.ends_with(".pbtxt")
                         ? WriteTextProto(context.env, options.output, after)
                         : WriteBinaryProto(context.env, options.output, after));
  // A device or a pipe has no size.
  const auto stat = context.env.Stat(options.output);
  const uint64_t bytes = stat.ok() ? stat->length : 0;
  if (context.json) {
    JsonWriter json;
    json.BeginObject().Field("output", options.output).Field("bytes", bytes);
    json.Field("nodes_before", before.node_size()).Field("nodes", after.node_size());
    if (!options.package.empty()) json.Field("package", options.package);
    json.EndObject();
    return context.Print(json);
  }
  context.out << Printable(options.output) << ": " << CountText(static_cast<uint64_t>(after.node_size()))
              << " of " << CountOf(static_cast<uint64_t>(before.node_size()), "node") << ", "
              << BytesText(bytes) << "\n";
  return ExitCode::kOk;
}

// By the model's restore nodes; for a graph without them, values are read from the checkpoint by name.
Status FreezeModel(const RewriteOptions& options, const ModelFile& model, const FreezeOptions& freeze,
                   Env& env, GraphDef* graph) {
  if (!options.model.checkpoint.empty() && !CanRestore(SaverDefFromProto(model.meta->saver_def()))) {
    return FreezeGraph(freeze, env, options.model.checkpoint, graph);
  }
  MR_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModel(options.model, env));
  return FreezeGraph(freeze, *loaded.session, graph);
}

StatusOr<ExitCode> Freeze(const RewriteOptions& options, const Context& context) {
  MR_ASSIGN_OR_RETURN(const ModelFile model,
                      ReadModelFile(context.env, options.model.model, options.model.tags));
  FreezeOptions freeze;
  freeze.clear_devices = options.clear_devices;
  freeze.initializers = options.initializers;
  MR_ASSIGN_OR_RETURN(freeze.outputs, Endpoints(options, model, false));
  GraphDef graph = model.graph();
  MR_RETURN_IF_ERROR(FreezeModel(options, model, freeze, context.env, &graph));
  MR_RETURN_IF_ERROR(PlaceConstants(options, context.env, &graph));
  return Finish(options, model.graph(), graph, context);
}

StatusOr<ExitCode> Optimize(const RewriteOptions& options, const Context& context) {
  MR_ASSIGN_OR_RETURN(const ModelFile model,
                      ReadModelFile(context.env, options.model.model, options.model.tags));
  StripOptions strip;
  MR_ASSIGN_OR_RETURN(strip.inputs, Endpoints(options, model, true));
  MR_ASSIGN_OR_RETURN(strip.outputs, Endpoints(options, model, false));
  GraphDef graph = model.graph();
  MR_RETURN_IF_ERROR(RestoreMappedConstants(context.env, &graph));
  MR_RETURN_IF_ERROR(OptimizeForInference(strip, &graph));
  MR_RETURN_IF_ERROR(PlaceConstants(options, context.env, &graph));
  return Finish(options, model.graph(), graph, context);
}

void AddRewriteOptions(RewriteOptions* options, const Command& command) {
  AddModelOptions(&options->model, command);
  command.AddOption("--fetch", options->outputs, "An output of the new graph; may be repeated").OneWordEach();
  command.AddOption("--signature", options->model.signature,
                    "Without --fetch: the outputs of this signature; default: serving_default");
  command.AddOption("-o,--output", options->output, "The new graph, .pb or .pbtxt")
      .Required()
      .TypeName("FILE");
  command
      .AddOption("--mmap", options->package,
                 "Also write a package of the large constants, which the new graph maps from there")
      .TypeName("FILE");
}

}  // namespace

void AddRewriteCommands(Commands* commands) {
  const auto frozen = std::make_shared<RewriteOptions>();
  const Command freeze = commands->Add("freeze", "Convert a model's variables to constants, in one file",
                                       [frozen](const Context& context) { return Freeze(*frozen, context); });
  AddRewriteOptions(frozen.get(), freeze);
  freeze.AddFlag("--clear-devices", frozen->clear_devices, "Remove the devices of nodes");
  freeze.AddOption("--initializer", frozen->initializers, "A node that is run before; may be repeated")
      .OneWordEach();

  const auto optimized = std::make_shared<RewriteOptions>();
  const Command optimize =
      commands->Add("optimize", "Remove unneeded nodes of a frozen graph, fold constants and batch norms",
                    [optimized](const Context& context) { return Optimize(*optimized, context); });
  AddRewriteOptions(optimized.get(), optimize);
  optimize.AddOption("--input", optimized->inputs, "A node that becomes a placeholder; may be repeated")
      .OneWordEach();
}

}  // namespace millrace::cli
