// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace checkpoint: what checkpoints of either format hold.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "base/strings.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/suggestion.h"
#include "cli/tensor_file.h"
#include "display/tensor_text.h"
#include "display/text.h"
#include "io/checkpoint/bundle.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/checkpoint/checkpoint_state.h"
#include "io/checkpoint/slices.h"
#include "io/match_files.h"

namespace millrace::cli {
namespace {

using io::CheckpointReader;

struct CheckpointOptions {
  std::string path;
  std::string second;  // of diff, or where convert writes to
  std::vector<std::string> names;
  std::string output;
  std::string format = "v2";
  bool by_size = false;
  bool all = false;
  double absolute = 0;
  double relative = 0;
};

constexpr int64_t kMostJsonElements = 1000;

// Users may give a folder, or one of the files, instead of a prefix.
StatusOr<std::string> Resolve(Env& env, const std::string& path) {
  const auto stat = env.Stat(path);
  if (stat.ok() && stat->is_directory) {
    std::string of_model = path + "/variables/variables";
    if (env.FileExists(of_model + ".index")) return of_model;
    MR_ASSIGN_OR_RETURN(const auto latest, io::LatestCheckpoint(env, path));
    if (latest.has_value()) return *latest;
    return errors::NotFound(path, "; there is no checkpoint in this folder");
  }
  std::string_view prefix = path;
  if (ConsumeSuffix(&prefix, ".index") || ConsumeSuffix(&prefix, ".meta")) return std::string(prefix);
  const size_t data = path.rfind(".data-");
  if (data != std::string::npos && env.FileExists(path.substr(0, data) + ".index")) {
    return path.substr(0, data);
  }
  return path;
}

StatusOr<std::unique_ptr<CheckpointReader>> Open(Env& env, const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string name, Resolve(env, path));
  return CheckpointReader::Open(env, name);
}

bool Matches(const std::vector<std::string>& patterns, const std::string& name) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
           return pattern == name || io::MatchesPattern(pattern, name);
         });
}

uint64_t BytesOf(const CheckpointReader::Variable& variable) {
  return static_cast<uint64_t>(variable.shape.num_elements()) * DataTypeSize(variable.dtype);
}

using Named = std::pair<std::string, CheckpointReader::Variable>;

void WriteVariableJson(const Named& variable, JsonWriter* json) {
  json->BeginObject().Field("name", variable.first);
  json->Field("dtype", DataTypeName(variable.second.dtype)).Key("shape").BeginArray();
  for (const int64_t dim : variable.second.shape.dims()) json->Value(dim);
  json->EndArray().Field("bytes", BytesOf(variable.second)).EndObject();
}

StatusOr<ExitCode> List(const CheckpointOptions& options, const Context& context) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader, Open(context.env, options.path));
  std::vector<Named> variables;
  uint64_t bytes = 0, elements = 0;
  for (const auto& [name, variable] : reader->variables()) {
    if (!Matches(options.names, name)) continue;
    variables.emplace_back(name, variable);
    bytes += BytesOf(variable);
    elements += static_cast<uint64_t>(variable.shape.num_elements());
  }
  if (options.by_size) {
    std::stable_sort(variables.begin(), variables.end(),
                     [](const Named& a, const Named& b) { return BytesOf(a.second) > BytesOf(b.second); });
  }
  const char* const format = reader->bundle() == nullptr ? "v1" : "v2";
  if (context.json) {
    JsonWriter json;
    json.BeginObject().Field("format", format).Field("elements", elements).Field("bytes", bytes);
    json.Key("tensors").BeginArray();
    for (const Named& variable : variables) WriteVariableJson(variable, &json);
    json.EndArray().EndObject();
    return context.Print(json);
  }
  using enum TextTable::Align;
  TextTable table({{"name", kLeft}, {"type", kLeft}, {"shape", kLeft}, {"size", kRight}});
  for (const auto& [name, variable] : variables) {
    table.AddRow({name, DataTypeName(variable.dtype), variable.shape.ToString(),
                  DataTypeSize(variable.dtype) == 0 ? "" : BytesText(BytesOf(variable))});
  }
  context.out << table.ToString() << CountOf(variables.size(), "tensor") << ", "
              << CountOf(elements, "element") << ", " << BytesText(bytes) << ", format " << format << "\n";
  return ExitCode::kOk;
}

void PrintTensor(const std::string& name, const Tensor& tensor, bool all, std::ostream& out) {
  out << Printable(name) << ": " << TypeAndShape(tensor.dtype(), tensor.shape());
  TensorStatistics s;
  if (tensor.num_elements() > 1 && ComputeStatistics(tensor, &s)) {
    out << ", from " << NumberText(s.min) << " to " << NumberText(s.max) << ", mean " << NumberText(s.mean);
    if (s.not_finite > 0) out << ", " << s.not_finite << " not finite";
  }
  TensorTextOptions text;
  if (all) text.most_elements = std::numeric_limits<int64_t>::max();
  out << "\n" << TensorText(tensor, text) << "\n";
}

StatusOr<ExitCode> Cat(const CheckpointOptions& options, const Context& context) {
  if (!options.output.empty() && !IsTensorFile(options.output)) {
    return context.Usage(StrCat(options.output, " ends with neither .npy nor .npz"));
  }
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader, Open(context.env, options.path));
  std::map<std::string, Tensor> tensors;
  JsonWriter json;
  json.BeginObject().Key("tensors").BeginObject();
  bool any = false;
  Progress progress(context, StrCat("reading ", options.path), reader->variables().size(), "tensors");
  for (const auto& [name, variable] : reader->variables()) {
    if (!Matches(options.names, name)) continue;
    any = true;
    MR_ASSIGN_OR_RETURN(Tensor tensor, reader->GetTensor(name));
    if (!options.output.empty()) {
      tensors[name] = std::move(tensor);
    } else if (context.json) {
      json.Key(name);
      WriteTensorJson(tensor, options.all ? std::numeric_limits<int64_t>::max() : kMostJsonElements, &json);
    } else {
      PrintTensor(name, tensor, options.all, context.out);
    }
    progress.Set(tensors.size());
  }
  if (!any) {
    std::vector<std::string> names;
    for (const auto& [name, variable] : reader->variables()) names.push_back(name);
    const std::string near = NearestName(options.names.front(), names);
    return errors::NotFound("Key ", options.names.front(), " not found in checkpoint",
                            near.empty() ? "" : StrCat("; did you mean '", near, "'?"));
  }
  if (!options.output.empty()) {
    MR_RETURN_IF_ERROR(WriteTensors(context.env, options.output, tensors));
    if (!context.json) {
      context.out << Printable(options.output) << ": " << CountOf(tensors.size(), "tensor") << "\n";
      return ExitCode::kOk;
    }
  }
  json.EndObject();
  if (!options.output.empty()) json.Field("output", options.output);
  json.EndObject();
  if (context.json) context.Print(json);
  return ExitCode::kOk;
}

// How one tensor of two checkpoints compares.
struct Comparison {
  std::string name;
  std::string what;  // "only in the first", "type", "values", …; "" when equal
  std::string detail;
  TensorDifference difference;
};

StatusOr<Comparison> Compare(const CheckpointOptions& options, const std::string& name, CheckpointReader& a,
                             CheckpointReader& b) {
  const auto in_a = a.variables().find(name), in_b = b.variables().find(name);
  Comparison result;
  result.name = name;
  if (in_b == b.variables().end()) {
    result.what = "only in the first";
    result.detail = TypeAndShape(in_a->second.dtype, in_a->second.shape);
  } else if (in_a == a.variables().end()) {
    result.what = "only in the second";
    result.detail = TypeAndShape(in_b->second.dtype, in_b->second.shape);
  } else if (in_a->second.dtype != in_b->second.dtype || !(in_a->second.shape == in_b->second.shape)) {
    result.what = in_a->second.dtype != in_b->second.dtype ? "type" : "shape";
    result.detail = StrCat(TypeAndShape(in_a->second.dtype, in_a->second.shape), " and ",
                           TypeAndShape(in_b->second.dtype, in_b->second.shape));
  } else {
    MR_ASSIGN_OR_RETURN(const Tensor first, a.GetTensor(name));
    MR_ASSIGN_OR_RETURN(const Tensor second, b.GetTensor(name));
    result.difference = CompareTensors(first, second, options.absolute, options.relative);
    if (result.difference.beyond > 0) {
      result.what = "values";
      result.detail = StrCat(CountText(static_cast<uint64_t>(result.difference.beyond)), " of ",
                             CountText(static_cast<uint64_t>(first.num_elements())), " differ, by at most ",
                             NumberText(result.difference.largest));
    }
  }
  return result;
}

StatusOr<ExitCode> Diff(const CheckpointOptions& options, const Context& context) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> a, Open(context.env, options.path));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> b, Open(context.env, options.second));
  std::map<std::string, bool> names;
  for (const auto* const reader : {a.get(), b.get()}) {
    for (const auto& [name, variable] : reader->variables()) names[name] = true;
  }
  JsonWriter json;
  json.BeginObject().Key("differences").BeginArray();
  using enum TextTable::Align;
  TextTable table({{"name", kLeft}, {"differs", kLeft}, {"", kLeft}});
  Progress progress(context, "comparing", names.size(), "tensors");
  uint64_t done = 0;
  for (const auto& [name, there] : names) {
    MR_ASSIGN_OR_RETURN(const Comparison comparison, Compare(options, name, *a, *b));
    progress.Set(++done);
    if (comparison.what.empty()) continue;
    table.AddRow({name, comparison.what, comparison.detail});
    json.BeginObject().Field("name", name).Field("what", comparison.what);
    json.Field("detail", comparison.detail).Field("elements", comparison.difference.beyond);
    json.Field("largest", comparison.difference.largest).EndObject();
  }
  const size_t differences = table.num_rows();
  json.EndArray().Field("compared", names.size()).Field("equal", differences == 0).EndObject();
  if (context.json) {
    context.Print(json);
  } else {
    if (differences > 0) context.out << table.ToString();
    context.out << differences << " of " << CountOf(names.size(), "tensor")
                << (differences == 1 ? " differs\n" : " differ\n");
  }
  return differences == 0 ? ExitCode::kOk : ExitCode::kDiffers;
}

Status ConvertToV2(CheckpointReader& reader, const std::string& prefix, const Context& context) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<io::BundleWriter> writer,
                      io::BundleWriter::Open(context.env, prefix));
  Progress progress(context, StrCat("writing ", prefix), reader.variables().size(), "tensors");
  uint64_t done = 0;
  for (const auto& [name, variable] : reader.variables()) {
    MR_ASSIGN_OR_RETURN(const Tensor tensor, reader.GetTensor(name));
    MR_RETURN_IF_ERROR(writer->Add(name, tensor));
    progress.Set(++done);
  }
  return writer->Finish();
}

Status ConvertToV1(CheckpointReader& reader, const std::string& path, const Context& context) {
  io::SlicesWriter writer(context.env, path);
  Progress progress(context, StrCat("writing ", path), reader.variables().size(), "tensors");
  uint64_t done = 0;
  for (const auto& [name, variable] : reader.variables()) {
    const auto read = [&reader, &progress, &done, name = name] {
      progress.Set(++done);
      return reader.GetTensor(name);
    };
    MR_RETURN_IF_ERROR(writer.AddLater(name, variable.shape, variable.dtype, read));
  }
  return writer.Finish();
}

StatusOr<ExitCode> Convert(const CheckpointOptions& options, const Context& context) {
  MR_ASSIGN_OR_RETURN(const std::string from, Resolve(context.env, options.path));
  if (from == options.second) return context.Usage("the new checkpoint would replace the old one");
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                      CheckpointReader::Open(context.env, from));
  MR_RETURN_IF_ERROR(options.format == "v1" ? ConvertToV1(*reader, options.second, context)
                                            : ConvertToV2(*reader, options.second, context));
  if (context.json) {
    JsonWriter json;
    json.BeginObject().Field("output", options.second).Field("format", options.format);
    json.Field("tensors", reader->variables().size()).EndObject();
    return context.Print(json);
  }
  context.out << Printable(options.second) << ": " << CountOf(reader->variables().size(), "tensor")
              << ", format " << options.format << "\n";
  return ExitCode::kOk;
}

using Function = StatusOr<ExitCode> (*)(const CheckpointOptions&, const Context&);

Command AddOne(Commands* commands, const Command& group, const char* name, const char* what,
               const std::shared_ptr<CheckpointOptions>& options, Function function) {
  const Command command = commands->Add(
      name, what, [options, function](const Context& context) { return function(*options, context); }, group);
  command
      .AddOption("checkpoint", options->path,
                 "Prefix of a checkpoint, one of its files, or a folder for the latest in it")
      .Required()
      .TypeName("PATH");
  return command;
}

}  // namespace

void AddCheckpointCommand(Commands* commands) {
  const Command group = commands->Group("checkpoint", "Show, compare and convert checkpoints");
  const auto options = std::make_shared<CheckpointOptions>();
  const Command list = AddOne(commands, group, "ls", "List the tensors", options, List);
  list.AddOption("names", options->names, "Only names that match these patterns (* ? [a-z])")
      .TypeName("NAME");
  list.AddFlag("--by-size", options->by_size, "Largest first");

  const Command cat = AddOne(commands, group, "cat", "Show tensors, or write them to a file", options, Cat);
  cat.AddOption("names", options->names, "Names, or patterns (* ? [a-z])").Required().TypeName("NAME");
  cat.AddOption("-o,--out", options->output, "An .npy or .npz file").TypeName("FILE");
  cat.AddFlag("--all", options->all, "All elements, however many");

  const Command diff =
      AddOne(commands, group, "diff", "Compare two checkpoints; exit code 3 if they differ", options, Diff);
  diff.AddOption("second", options->second, "The other checkpoint").Required().TypeName("PATH");
  diff.AddOption("--atol", options->absolute, "Absolute tolerance of differences").Check(NotNegative());
  diff.AddOption("--rtol", options->relative, "Relative tolerance, as a fraction of the second value")
      .Check(NotNegative());

  const Command convert =
      AddOne(commands, group, "convert", "Write a checkpoint in the other format", options, Convert);
  convert.AddOption("output", options->second, "Prefix of the new checkpoint; for v1 the file")
      .Required()
      .TypeName("PATH");
  convert.AddOption("--to", options->format, "v2: an index and data; v1: one file, as before TensorFlow 0.12")
      .OneOf({"v1", "v2"})
      .ShowDefault();
}

}  // namespace millrace::cli
