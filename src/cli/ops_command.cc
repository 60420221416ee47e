// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace ops: which ops there are, and what kernels they have.
#include <algorithm>
#include <map>
#include <memory>

#include "autodiff/gradient_registry.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/suggestion.h"
#include "display/text.h"
#include "io/match_files.h"
#include "kernel/kernel_registry.h"
#include "op/op_def.h"
#include "op/op_registry.h"

namespace millrace::cli {
namespace {

struct OpsOptions {
  std::string name;
};

// A kernel with its constraints on attributes: allowed types by the attribute's name.
struct KernelText {
  std::string device;
  std::string label;
  std::map<std::string, std::vector<std::string>> types;
};

// The constraints of a kernel as text: "device='CPU'; T in [DT_FLOAT, DT_INT32]; …".
KernelText Describe(const KernelDef& kernel) {
  KernelText text{kernel.device_type(), kernel.label(), {}};
  const std::string constraints = kernel.ToString();
  for (const std::string_view part : StrSplit(constraints, ';')) {
    const size_t in = part.find(" in [");
    if (in == std::string_view::npos || !part.ends_with(']')) continue;
    std::vector<std::string>& types = text.types[std::string(StripWhitespace(part.substr(0, in)))];
    for (const std::string_view type : StrSplitSkipEmpty(part.substr(in + 5, part.size() - in - 6), ',')) {
      const auto dtype = ParseDataType(StripWhitespace(type));
      types.push_back(dtype.has_value() ? DataTypeName(*dtype) : std::string(type));
    }
  }
  return text;
}

std::vector<KernelText> KernelsOf(const std::string& op) {
  std::vector<KernelText> kernels;
  for (const KernelDef* kernel : KernelRegistry::Global().KernelsOf(op)) kernels.push_back(Describe(*kernel));
  return kernels;
}

std::string ArgText(const ArgDef& arg) {
  std::string type = !arg.type_list_attr.empty() ? arg.type_list_attr
                     : !arg.type_attr.empty()    ? arg.type_attr
                                                 : DataTypeName(arg.type);
  if (!arg.number_attr.empty()) type = StrCat(arg.number_attr, " * ", type);
  return StrCat(arg.name, ": ", arg.is_ref ? "Ref(" + type + ")" : type);
}

std::string ArgsText(const std::vector<ArgDef>& args) {
  std::vector<std::string> texts;
  texts.reserve(args.size());
  for (const ArgDef& arg : args) texts.push_back(ArgText(arg));
  return StrCat("(", StrJoin(texts, ", "), ")");
}

std::string SignatureText(const OpDef& op) {
  return StrCat(op.name, ArgsText(op.inputs), op.outputs.empty() ? "" : " -> " + ArgsText(op.outputs));
}

std::string AllowedText(const AttrValue& allowed) {
  std::vector<std::string> texts;
  if (const auto* types = allowed.As<std::vector<DataType>>()) {
    for (const DataType type : *types) texts.push_back(DataTypeName(type));
  } else if (const auto* names = allowed.As<std::vector<std::string>>()) {
    for (const std::string& name : *names) texts.push_back(Quoted(name, 200));
  }
  return StrJoin(texts, ", ");
}

// "int >= 1 = 3", "type in {float, half} = float".
std::string AttrText(const AttrDef& attr) {
  std::string text = attr.type;
  if (attr.has_minimum) text += StrCat(" >= ", attr.minimum);
  if (attr.allowed_values.IsSet()) text += StrCat(" in {", AllowedText(attr.allowed_values), "}");
  if (attr.default_value.IsSet()) {
    const auto* const type = attr.default_value.As<DataType>();
    text += StrCat(" = ", type != nullptr ? DataTypeName(*type) : attr.default_value.ToString());
  }
  return text;
}

std::string GradientText(const std::string& op) {
  const auto entry = GradientRegistry::Global().LookUp(op);
  return !entry.ok() ? "undefined" : (*entry)->fn == nullptr ? "none" : "yes";
}

std::vector<std::string> Properties(const OpDef& op) {
  std::vector<std::string> properties;
  if (op.is_stateful) properties.push_back("stateful");
  if (op.is_commutative) properties.push_back("commutative");
  if (op.is_aggregate) properties.push_back("aggregate");
  if (op.allows_uninitialized_input) properties.push_back("takes uninitialised inputs");
  return properties;
}

// One line for each device and label: the types of all its kernels, by attribute.
std::vector<std::string> KernelLines(const std::vector<KernelText>& kernels) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> by_device;
  for (const KernelText& kernel : kernels) {
    auto& types = by_device[kernel.label.empty() ? kernel.device : StrCat(kernel.device, " ", kernel.label)];
    for (const auto& [attr, of_attr] : kernel.types) {
      for (const std::string& type : of_attr) {
        std::vector<std::string>& all = types[attr];
        if (std::find(all.begin(), all.end(), type) == all.end()) all.push_back(type);
      }
    }
  }
  std::vector<std::string> lines;
  for (const auto& [device, types] : by_device) {
    std::string line = device + ":";
    if (types.empty()) line += " any types";
    for (const auto& [attr, of_attr] : types) {
      line += StrCat(line.back() == ':' ? " " : "; ", attr, " ", StrJoin(of_attr, ", "));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

void PrintOp(const OpDef& op, std::ostream& out) {
  out << SignatureText(op) << "\n";
  if (!op.summary.empty()) out << "\n" << op.summary << "\n";
  if (!op.description.empty()) out << op.description << "\n";
  using enum TextTable::Align;
  TextTable table({{"attribute", kLeft}, {"", kLeft}});
  for (const AttrDef& attr : op.attrs) table.AddRow({attr.name, AttrText(attr)});
  if (table.num_rows() > 0) out << "\n" << table.ToString();
  out << "\n";
  if (const auto properties = Properties(op); !properties.empty()) {
    out << "properties: " << StrJoin(properties, ", ") << "\n";
  }
  if (op.deprecated_version > 0) {
    out << "deprecated since version " << op.deprecated_version << " of graphs: " << op.deprecated_explanation
        << "\n";
  }
  out << "gradient: " << GradientText(op.name) << "\n";
  const std::vector<std::string> kernels = KernelLines(KernelsOf(op.name));
  out << "kernels:" << (kernels.empty() ? " none\n" : "\n");
  for (const std::string& line : kernels) out << "  " << line << "\n";
}

void WriteArgsJson(const char* key, const std::vector<ArgDef>& args, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const ArgDef& arg : args) {
    json->BeginObject().Field("name", arg.name).Field("type", ArgText(arg).substr(arg.name.size() + 2));
    json->EndObject();
  }
  json->EndArray();
}

void WriteKernelsJson(const std::string& op, JsonWriter* json) {
  json->Key("kernels").BeginArray();
  for (const KernelText& kernel : KernelsOf(op)) {
    json->BeginObject().Field("device", kernel.device).Field("label", kernel.label);
    json->Key("types").BeginObject();
    for (const auto& [attr, types] : kernel.types) {
      json->Key(attr).BeginArray();
      for (const std::string& type : types) json->Value(type);
      json->EndArray();
    }
    json->EndObject().EndObject();
  }
  json->EndArray();
}

void WriteOpJson(const OpDef& op, JsonWriter* json) {
  json->BeginObject().Field("name", op.name).Field("signature", SignatureText(op));
  WriteArgsJson("inputs", op.inputs, json);
  WriteArgsJson("outputs", op.outputs, json);
  json->Key("attributes").BeginArray();
  for (const AttrDef& attr : op.attrs) {
    json->BeginObject().Field("name", attr.name).Field("type", attr.type);
    json->Field("declaration", AttrText(attr)).EndObject();
  }
  json->EndArray().Field("summary", op.summary).Field("description", op.description);
  json->Field("stateful", op.is_stateful).Field("deprecated_version", op.deprecated_version);
  json->Field("gradient", GradientText(op.name));
  WriteKernelsJson(op.name, json);
  json->EndObject();
}

// Names that contain the text, ignoring case; if there are none, the most similar names.
std::string Similar(const std::string& name) {
  const auto lower = [](std::string_view text) {
    std::string out(text);
    for (char& c : out) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return out;
  };
  std::vector<std::string> similar;
  for (const OpRegistration* op : OpRegistry::Global().All()) {
    if (similar.size() < 8 && lower(op->def.name).find(lower(name)) != std::string::npos) {
      similar.push_back(op->def.name);
    }
  }
  if (!similar.empty()) return StrCat("; there are ", StrJoin(similar, ", "));
  std::vector<std::string> names;
  for (const OpRegistration* op : OpRegistry::Global().All()) names.push_back(op->def.name);
  const std::string near = NearestName(name, names);
  return near.empty() ? "" : StrCat("; did you mean ", near, "?");
}

StatusOr<ExitCode> Ops(const OpsOptions& options, const Context& context) {
  std::vector<const OpRegistration*> ops = OpRegistry::Global().All();
  if (!options.name.empty()) {
    for (const OpRegistration* declared : OpRegistry::Global().Declared()) ops.push_back(declared);
    std::erase_if(ops, [&](const OpRegistration* op) {
      return options.name != op->def.name && !io::MatchesPattern(options.name, op->def.name);
    });
  }
  if (ops.empty()) return errors::NotFound("no op is called ", options.name, Similar(options.name));
  if (context.json) {
    JsonWriter json;
    json.BeginObject().Key("ops").BeginArray();
    for (const OpRegistration* op : ops) WriteOpJson(op->def, &json);
    json.EndArray().EndObject();
    return context.Print(json);
  }
  if (ops.size() == 1) {
    PrintOp(ops[0]->def, context.out);
    return ExitCode::kOk;
  }
  using enum TextTable::Align;
  TextTable table({{"op", kLeft}, {"kernels", kRight}, {"gradient", kLeft}, {"signature", kLeft}});
  for (const OpRegistration* op : ops) {
    table.AddRow({op->def.name, std::to_string(KernelRegistry::Global().KernelsOf(op->def.name).size()),
                  GradientText(op->def.name),
                  StrCat(ArgsText(op->def.inputs), " -> ", ArgsText(op->def.outputs))});
  }
  context.out << table.ToString() << ops.size() << " ops\n";
  return ExitCode::kOk;
}

}  // namespace

void AddOpsCommand(Commands* commands) {
  const auto options = std::make_shared<OpsOptions>();
  const Command command =
      commands->Add("ops", "List the ops, or show one: signature, attributes, kernels with their types",
                    [options](const Context& context) { return Ops(*options, context); });
  command.AddOption("name", options->name, "An op, or a pattern (* ? [a-z])").TypeName("NAME");
}

}  // namespace millrace::cli
