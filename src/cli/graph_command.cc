// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace graph: the graph of a model as a drawing.
#include <memory>

#include "cli/commands.h"
#include "cli/model_file.h"
#include "cli/options.h"
#include "display/graph/page.h"
#include "display/graph/scope_tree.h"
#include "display/graph/view.h"
#include "display/text.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace::cli {
namespace {

enum class Form { kDot, kSvg, kHtml };

struct GraphOptions {
  std::string model;
  std::string output;
  std::vector<std::string> tags;
  ViewOptions view;
};

std::string OutputPath(const GraphOptions& options, Form form) {
  // A graph from standard input has no path.
  if (!options.output.empty() || options.model == "-") return options.output.empty() ? "-" : options.output;
  std::string base = options.model;
  while (base.size() > 1 && base.ends_with('/')) base.pop_back();
  const size_t dot = base.rfind('.');
  if (dot != std::string::npos && dot > 0 && base.find('/', dot) == std::string::npos &&
      base[dot - 1] != '/') {
    base.resize(dot);
  }
  return base + (form == Form::kDot ? ".dot" : form == Form::kSvg ? ".svg" : ".html");
}

StatusOr<ExitCode> Draw(const GraphOptions& options, Form form, const Context& context) {
  const std::string output = OutputPath(options, form);
  if (output == options.model && output != "-") {
    return context.Usage(StrCat("the drawing would replace ", options.model, "; name another file with -o"));
  }
  MR_ASSIGN_OR_RETURN(const ModelFile model, ReadModelFile(context.env, options.model, options.tags));
  const tensorflow::GraphDef& graph = model.graph();
  const ScopeTree tree =
      BuildScopeTree(graph, form == Form::kHtml ? kMostChildrenOfPage : options.view.most_boxes);
  const std::string title =
      options.model == "-"
          ? "standard input"
          : options.model.substr(options.model.find_last_of('/', options.model.size() - 2) + 1);
  std::string text;
  if (form == Form::kHtml) {
    text = RenderGraphPage(tree, graph, title);
  } else {
    const GraphView view = MakeView(tree, graph, options.view);
    text = form == Form::kDot ? RenderDot(view, tree, title) : RenderSvg(view, tree, graph, title);
  }
  const bool to_terminal = output == "-";
  if (!to_terminal) MR_RETURN_IF_ERROR(WriteFileAtomically(context.env, output, text));
  for (const std::string& missing : tree.missing) context.Warn(StrCat("an input names no node: ", missing));
  if (context.json) {
    JsonWriter json;
    json.BeginObject().Field("output", output).Field("nodes", graph.node_size());
    json.Field("edges", tree.edges.size()).Field("bytes", text.size());
    if (to_terminal) json.Field("text", text);
    json.EndObject();
    return context.Print(json);
  }
  if (to_terminal) {
    context.out << text;
  } else {
    context.out << Printable(output) << ": " << CountOf(static_cast<uint64_t>(graph.node_size()), "node")
                << ", " << CountOf(tree.edges.size(), "edge") << "\n";
  }
  return ExitCode::kOk;
}

Command AddOne(Commands* commands, const Command& group, const char* name, const char* what, Form form,
               const std::shared_ptr<GraphOptions>& options) {
  const Command command = commands->Add(
      name, what, [options, form](const Context& context) { return Draw(*options, form, context); }, group);
  command
      .AddOption("model", options->model, "A SavedModel's folder, a GraphDef or MetaGraphDef, .pb or .pbtxt")
      .Required()
      .TypeName("PATH");
  command
      .AddOption("-o,--output", options->output,
                 "Output file; - is standard output; default: beside the model")
      .TypeName("FILE");
  command.AddOption("--tag", options->tags, "A tag of the meta graph of a SavedModel; may be repeated")
      .OneWordEach();
  if (form != Form::kHtml) {
    command.AddOption("--boxes", options->view.most_boxes, "Open scopes up to this number of boxes")
        .Check(Between(2, 20000));
    command.AddOption("--depth", options->view.most_depth, "Depth of nested scopes that are open; 1: none")
        .Check(Positive());
    command.AddFlag("--constants", options->view.constants,
                    "Also draw constants, and nodes computed only from them");
  }
  return command;
}

}  // namespace

void AddGraphCommand(Commands* commands) {
  const Command group = commands->Group("graph", "Draw the graph of a model");
  const auto options = std::make_shared<GraphOptions>();
  AddOne(commands, group, "dot", "For Graphviz", Form::kDot, options);
  AddOne(commands, group, "svg", "A picture", Form::kSvg, options);
  AddOne(commands, group, "html", "A page with scopes to open and close, and search", Form::kHtml, options);
}

}  // namespace millrace::cli
