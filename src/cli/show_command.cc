// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace show: the contents of a model, and whether it can run here.
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "cli/commands.h"
#include "cli/flops.h"
#include "cli/model_file.h"
#include "cli/options.h"
#include "display/graph/view.h"
#include "display/text.h"
#include "kernel/kernel_registry.h"
#include "millrace/session.h"
#include "op/attr_codec.h"
#include "op/op_registry.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace millrace::cli {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr int64_t kMostAttributeBytes = 1 << 20;  // of the tensors among the attributes of a node

struct ShowOptions {
  std::string model;
  std::vector<std::string> tags;
  int64_t batch = 1;
  bool all_ops = false;
};

struct Input {
  std::string name, type, shape;
};

// All that is shown.
struct Findings {
  std::vector<Input> placeholders;
  std::map<std::string, int64_t> ops;
  uint64_t constants = 0, constant_bytes = 0;
  uint64_t variables = 0, variable_bytes = 0, variable_elements = 0;
  std::set<std::string> devices;
  std::set<std::string> missing_ops;
  std::map<std::string, std::string> missing_kernels;  // an error for each op
  Status load_error;                                   // of a session, when no op is missing
  StatusOr<FlopCount> flops = errors::Unimplemented("there are missing ops");
  bool runs_here() const { return missing_ops.empty() && missing_kernels.empty() && load_error.ok(); }
};

std::string TypeText(tensorflow::DataType type) {
  const auto dtype = DataTypeFromProto(type);
  return dtype.ok() ? DataTypeName(*dtype) : "unknown type";
}

std::string ShapeText(const tensorflow::TensorShapeProto& proto) {
  const auto shape = PartialShapeFromProto(proto);
  return shape.ok() ? shape->ToString() : "malformed shape";
}

// The size of the elements of a shape that is known; 0 otherwise.
uint64_t BytesOf(tensorflow::DataType type, const tensorflow::TensorShapeProto& proto, uint64_t* elements) {
  const auto dtype = DataTypeFromProto(type);
  const auto shape = ShapeFromProto(proto);
  if (!dtype.ok() || !shape.ok()) return 0;
  *elements = static_cast<uint64_t>(shape->num_elements());
  return *elements * DataTypeSize(BaseType(*dtype));
}

const tensorflow::AttrValue* FindAttr(const NodeDef& node, const char* name) {
  const auto attr = node.attr().find(name);
  return attr == node.attr().end() ? nullptr : &attr->second;
}

void LookAtNode(const NodeDef& node, Findings* findings) {
  ++findings->ops[node.op()];
  if (!node.device().empty() && findings->devices.size() < 100) findings->devices.insert(node.device());
  const auto* const dtype = FindAttr(node, "dtype");
  const auto* const shape = FindAttr(node, "shape");
  uint64_t elements = 0;
  switch (KindOfOp(node.op())) {
    case BoxKind::kPlaceholder:
      findings->placeholders.push_back({node.name(), dtype == nullptr ? "" : TypeText(dtype->type()),
                                        shape == nullptr ? "<unknown>" : ShapeText(shape->shape())});
      break;
    case BoxKind::kConstant:
      ++findings->constants;
      if (const auto* const value = FindAttr(node, "value"); value != nullptr) {
        findings->constant_bytes +=
            std::max<uint64_t>(value->tensor().tensor_content().size(),
                               BytesOf(value->tensor().dtype(), value->tensor().tensor_shape(), &elements));
      } else if (dtype != nullptr && shape != nullptr) {  // mapped from a file
        findings->constant_bytes += BytesOf(dtype->type(), shape->shape(), &elements);
      }
      break;
    case BoxKind::kVariable:
      ++findings->variables;
      if (dtype != nullptr && shape != nullptr) {
        findings->variable_bytes += BytesOf(dtype->type(), shape->shape(), &elements);
        findings->variable_elements += elements;
      }
      break;
    default:
      break;
  }
}

// Whether op and kernel for a node exist. Attributes with tensors are not checked: no kernel requires
// them.
void LookForKernel(const NodeDef& node, const std::set<std::string>& functions, Findings* findings) {
  if (functions.contains(node.op())) return;
  const auto op = OpRegistry::Global().LookUp(node.op());
  if (!op.ok()) {
    findings->missing_ops.insert(node.op());
    return;
  }
  if (findings->missing_kernels.contains(node.op()) || node.op() == "Const") return;
  int64_t budget = kMostAttributeBytes;
  const auto attrs = AttrMapFromProto(node.attr(), &budget);
  if (!attrs.ok()) return;
  const auto props = NodeProps::Make(**op, *attrs);
  if (!props.ok()) return;
  const auto kernel = KernelRegistry::Global().Find("CPU", **props);
  if (!kernel.ok()) findings->missing_kernels[node.op()] = kernel.status().message();
}

// As in the commands that run the model.
Status TryToLoad(const GraphDef& graph) {
  SessionOptions options;
  options.allow_soft_placement = true;
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, NewSession(options));
  return session->Create(graph);
}

Findings Look(const GraphDef& graph, int64_t batch) {
  Findings findings;
  std::set<std::string> functions;
  for (const auto& function : graph.library().function()) functions.insert(function.signature().name());
  const auto look_for_kernels = [&](const auto& nodes) {
    for (const NodeDef& node : nodes) LookForKernel(node, functions, &findings);
  };
  for (const NodeDef& node : graph.node()) LookAtNode(node, &findings);
  look_for_kernels(graph.node());
  for (const auto& function : graph.library().function()) {
    for (const NodeDef& node : function.node_def()) {
      if (!functions.contains(node.op()) && !OpRegistry::Global().LookUp(node.op()).ok()) {
        findings.missing_ops.insert(node.op());
      }
    }
  }
  if (findings.missing_ops.empty()) {
    findings.load_error = TryToLoad(graph);
    findings.flops = CountFlops(graph, batch);
  }
  return findings;
}

std::vector<std::pair<std::string, int64_t>> ByCount(const std::map<std::string, int64_t>& ops) {
  std::vector<std::pair<std::string, int64_t>> sorted(ops.begin(), ops.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

using Infos = google::protobuf::Map<std::string, tensorflow::TensorInfo>;

std::map<std::string_view, const tensorflow::TensorInfo*> Sorted(const Infos& infos) {
  std::map<std::string_view, const tensorflow::TensorInfo*> sorted;
  for (const auto& [key, info] : infos) sorted.emplace(key, &info);
  return sorted;
}

std::map<std::string_view, const tensorflow::SignatureDef*> Signatures(const ModelFile& model) {
  std::map<std::string_view, const tensorflow::SignatureDef*> sorted;
  for (const auto& [key, signature] : model.meta->signature_def()) sorted.emplace(key, &signature);
  return sorted;
}

void InfosJson(const char* key, const Infos& infos, JsonWriter* json) {
  json->Key(key).BeginObject();
  for (const auto& [name, info] : Sorted(infos)) {
    json->Key(name).BeginObject();
    if (info->has_coo_sparse()) {
      const auto& sparse = info->coo_sparse();
      json->Field("indices", sparse.indices_tensor_name()).Field("values", sparse.values_tensor_name());
      json->Field("dense_shape", sparse.dense_shape_tensor_name());
    } else {
      json->Field("tensor", info->name());
    }
    json->Field("dtype", TypeText(info->dtype()));
    json->Field("shape", ShapeText(info->tensor_shape())).EndObject();
  }
  json->EndObject();
}

void FlopsJson(const Findings& findings, JsonWriter* json) {
  json->Key("flops").BeginObject();
  if (findings.flops.ok()) {
    json->Field("total", findings.flops->total).Field("unknown_nodes", findings.flops->unknown_nodes);
    json->Key("by_op").BeginObject();
    for (const auto& [op, flops] : findings.flops->by_op) json->Field(op, flops);
    json->EndObject();
  } else {
    json->Field("error", findings.flops.status().message());
  }
  json->EndObject();
}

void PrintJson(const ModelFile& model, const Findings& findings, const Context& context) {
  JsonWriter json;
  json.BeginObject().Field("kind", model.kind_name()).Field("bytes", model.bytes);
  json.Field("nodes", model.graph().node_size()).Field("functions", model.graph().library().function_size());
  json.Field("producer", model.graph().versions().producer());
  json.Key("tag_sets").BeginArray();
  for (const std::string& set : model.all_tags) json.Value(set);
  json.EndArray().Key("signatures").BeginObject();
  for (const auto& [key, signature] : Signatures(model)) {
    json.Key(key).BeginObject().Field("method", signature->method_name());
    InfosJson("inputs", signature->inputs(), &json);
    InfosJson("outputs", signature->outputs(), &json);
    json.EndObject();
  }
  json.EndObject().Key("placeholders").BeginArray();
  for (const Input& input : findings.placeholders) {
    json.BeginObject()
        .Field("name", input.name)
        .Field("dtype", input.type)
        .Field("shape", input.shape)
        .EndObject();
  }
  json.EndArray().Key("ops").BeginObject();
  for (const auto& [op, n] : ByCount(findings.ops)) json.Field(op, n);
  json.EndObject().Key("constants").BeginObject().Field("count", findings.constants);
  json.Field("bytes", findings.constant_bytes).EndObject();
  json.Key("variables").BeginObject().Field("count", findings.variables);
  json.Field("elements", findings.variable_elements).Field("bytes", findings.variable_bytes).EndObject();
  FlopsJson(findings, &json);
  json.Field("runs_here", findings.runs_here()).Key("missing_ops").BeginArray();
  for (const std::string& op : findings.missing_ops) json.Value(op);
  json.EndArray().Key("missing_kernels").BeginObject();
  for (const auto& [op, error] : findings.missing_kernels) json.Field(op, error);
  json.EndObject();
  if (!findings.load_error.ok()) json.Field("load_error", findings.load_error.message());
  json.EndObject();
  context.Print(json);
}

std::string TensorsText(const tensorflow::TensorInfo& info) {
  if (!info.has_coo_sparse()) return info.name();
  const auto& sparse = info.coo_sparse();
  return StrCat("sparse: ", sparse.indices_tensor_name(), ", ", sparse.values_tensor_name(), ", ",
                sparse.dense_shape_tensor_name());
}

void PrintSignatures(const ModelFile& model, std::ostream& out) {
  for (const auto& [key, signature] : Signatures(model)) {
    out << "\nsignature " << Printable(key);
    if (!signature->method_name().empty()) out << " (" << Printable(signature->method_name()) << ")";
    out << "\n";
    using enum TextTable::Align;
    TextTable table({{"", kLeft}, {"name", kLeft}, {"type", kLeft}, {"shape", kLeft}, {"tensor", kLeft}});
    for (const auto& [name, info] : Sorted(signature->inputs())) {
      table.AddRow({"in", std::string(name), TypeText(info->dtype()), ShapeText(info->tensor_shape()),
                    TensorsText(*info)});
    }
    for (const auto& [name, info] : Sorted(signature->outputs())) {
      table.AddRow({"out", std::string(name), TypeText(info->dtype()), ShapeText(info->tensor_shape()),
                    TensorsText(*info)});
    }
    out << table.ToString();
  }
}

void PrintFlops(const ShowOptions& options, const Findings& findings, std::ostream& out) {
  if (!findings.flops.ok()) {
    out << "FLOPs: not known: " << Printable(findings.flops.status().message(), 300) << "\n";
    return;
  }
  out << "FLOPs of a run: " << ShortCount(findings.flops->total) << " (unknown sizes of inputs taken as "
      << options.batch << ")";
  for (size_t i = 0; i < findings.flops->by_op.size() && i < 4; ++i) {
    out << (i == 0 ? ": " : ", ") << findings.flops->by_op[i].first << " "
        << ShortCount(findings.flops->by_op[i].second);
  }
  out << "\n";
  if (findings.flops->unknown_nodes > 0) {
    out << "  and " << CountOf(static_cast<uint64_t>(findings.flops->unknown_nodes), "node")
        << (findings.flops->unknown_nodes == 1 ? " whose shape is" : " whose shapes are") << " not known\n";
  }
}

void PrintOps(const ShowOptions& options, const Findings& findings, std::ostream& out) {
  using enum TextTable::Align;
  const auto sorted = ByCount(findings.ops);
  const size_t shown = options.all_ops ? sorted.size() : std::min<size_t>(sorted.size(), 12);
  TextTable table({{"op", kLeft}, {"nodes", kRight}});
  for (size_t i = 0; i < shown; ++i)
    table.AddRow({sorted[i].first, CountText(static_cast<uint64_t>(sorted[i].second))});
  out << "\n" << table.ToString();
  if (shown < sorted.size())
    out << "… and " << CountOf(sorted.size() - shown, "more op") << "; --ops shows all\n";
}

void PrintText(const ShowOptions& options, const ModelFile& model, const Findings& findings,
               std::ostream& out) {
  out << Printable(options.model) << ": " << model.kind_name() << ", " << BytesText(model.bytes) << ", "
      << CountOf(static_cast<uint64_t>(model.graph().node_size()), "node");
  if (model.graph().library().function_size() > 0) {
    out << ", " << CountOf(static_cast<uint64_t>(model.graph().library().function_size()), "function");
  }
  out << ", producer " << model.graph().versions().producer() << "\n";
  for (const std::string& set : model.all_tags) out << "tags: {" << Printable(set) << "}\n";
  out << "constants: " << CountText(findings.constants) << ", " << BytesText(findings.constant_bytes) << "\n";
  out << "variables: " << CountText(findings.variables) << ", "
      << CountOf(findings.variable_elements, "element") << ", " << BytesText(findings.variable_bytes) << "\n";
  PrintFlops(options, findings, out);
  if (!findings.devices.empty()) {
    out << "devices:";
    for (const std::string& device : findings.devices) out << " " << Printable(device);
    out << "\n";
  }
  PrintSignatures(model, out);
  if (!findings.placeholders.empty()) {
    using enum TextTable::Align;
    TextTable table({{"placeholder", kLeft}, {"type", kLeft}, {"shape", kLeft}});
    constexpr size_t kMost = 30;
    for (const Input& input : findings.placeholders) {
      if (table.num_rows() < kMost) table.AddRow({input.name, input.type, input.shape});
    }
    out << "\n" << table.ToString();
    if (findings.placeholders.size() > kMost)
      out << "… and " << findings.placeholders.size() - kMost << " more\n";
  }
  PrintOps(options, findings, out);
  out << "\n";
  for (const std::string& op : findings.missing_ops) out << "MISSING op " << Printable(op) << "\n";
  for (const auto& [op, error] : findings.missing_kernels) {
    out << "MISSING kernel of " << Printable(op) << ": " << Printable(error, 300) << "\n";
  }
  if (!findings.load_error.ok())
    out << "The graph can't be loaded: " << PrintableLines(findings.load_error.message(), 600) << "\n";
  out << (findings.runs_here() ? "All ops and kernels are available.\n" : "The model can't run here.\n");
}

StatusOr<ExitCode> Show(const ShowOptions& options, const Context& context) {
  MR_ASSIGN_OR_RETURN(const ModelFile model, ReadModelFile(context.env, options.model, options.tags));
  const Findings findings = Look(model.graph(), options.batch);
  if (context.json) {
    PrintJson(model, findings, context);
  } else {
    PrintText(options, model, findings, context.out);
  }
  return findings.runs_here() ? ExitCode::kOk : ExitCode::kDiffers;
}

}  // namespace

void AddShowCommand(Commands* commands) {
  const auto options = std::make_shared<ShowOptions>();
  const Command command =
      commands->Add("show", "Describe a model; exit code 3 if it can't run here",
                    [options](const Context& context) { return Show(*options, context); });
  command
      .AddOption("model", options->model, "A SavedModel's folder, a GraphDef or MetaGraphDef, .pb or .pbtxt")
      .Required()
      .TypeName("PATH");
  command.AddOption("--tag", options->tags, "A tag of the meta graph of a SavedModel; may be repeated")
      .OneWordEach();
  command.AddOption("--batch", options->batch, "The value of unknown sizes of inputs for counting FLOPs")
      .Check(Between(0, 1 << 30));
  command.AddFlag("--ops", options->all_ops, "List all ops");
}

}  // namespace millrace::cli
