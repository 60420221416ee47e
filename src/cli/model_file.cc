// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/model_file.h"

#include <algorithm>
#include <cctype>
#include <climits>
#include <set>

#include "base/strings.h"
#include "io/memmapped_package.h"
#include "io/record_file.h"
#include "millrace/meta_graph.h"
#include "proto/message_types.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"
#include "training/graph_tools/graph_tools.h"
#include "training/saved_model_loader.h"

namespace millrace::cli {
namespace {

using tensorflow::GraphDef;
using tensorflow::MetaGraphDef;
using tensorflow::SavedModel;

constexpr uint64_t kMostBytes = INT_MAX;  // of a message

bool ParseBinary(std::string_view bytes, google::protobuf::Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

Status ParseText(const std::string& text, google::protobuf::Message* message) {
  TextError error;
  if (ParseMessageText(text, UnknownFields::kSkipped, message, &error)) return Status();
  return errors::InvalidArgument(error.ToString());
}

// The messages share numbers of fields, so that one may parse as another; but only nodes have names and ops.
bool IsGraph(const GraphDef& graph) {
  return graph.node_size() > 0 && std::all_of(graph.node().begin(), graph.node().end(), [](const auto& node) {
           return !node.name().empty() && !node.op().empty();
         });
}
bool IsMetaGraph(const MetaGraphDef& meta) { return IsGraph(meta.graph_def()); }
bool IsSavedModel(const SavedModel& model) {
  return model.meta_graphs_size() > 0 &&
         std::all_of(model.meta_graphs().begin(), model.meta_graphs().end(),
                     [](const MetaGraphDef& meta) { return meta.graph_def().node_size() > 0; });
}

std::string TagsText(const MetaGraphDef& meta) {
  std::set<std::string> tags(meta.meta_info_def().tags().begin(), meta.meta_info_def().tags().end());
  return StrJoin(tags, ", ");
}

Status Choose(SavedModel* saved, const std::vector<std::string>& tags, ModelFile* model) {
  for (const MetaGraphDef& meta : saved->meta_graphs()) model->all_tags.push_back(TagsText(meta));
  std::set<std::string> wanted(tags.begin(), tags.end());
  if (wanted.empty()) wanted.insert(saved_model::kServe);
  MetaGraphDef* found = FindMetaGraph(saved, wanted);
  if (found == nullptr && tags.empty() && saved->meta_graphs_size() == 1)
    found = saved->mutable_meta_graphs(0);
  if (found == nullptr) {
    std::vector<std::string> sets;
    for (const std::string& set : model->all_tags) sets.push_back("{" + set + "}");
    return errors::NotFound(model->path, "; no meta graph has the tags {", StrJoin(wanted, ", "),
                            "}; there are ", StrJoin(sets, ", "));
  }
  model->kind = ModelFile::Kind::kSavedModel;
  model->tags.assign(found->meta_info_def().tags().begin(), found->meta_info_def().tags().end());
  *model->meta = std::move(*found);
  return Status();
}

// Parses the contents with `parse`, which takes a message. False when they are no model.
template <typename Parse>
StatusOr<bool> Recognise(const std::vector<std::string>& tags, const Parse& parse, ModelFile* model) {
  if (parse(model->meta->mutable_graph_def()) && IsGraph(model->graph())) {
    model->kind = ModelFile::Kind::kGraph;
    return true;
  }
  model->meta->Clear();
  if (parse(model->meta.get()) && IsMetaGraph(*model->meta)) {
    model->kind = ModelFile::Kind::kMetaGraph;
    return true;
  }
  model->meta->Clear();
  SavedModel saved;
  if (!parse(&saved) || !IsSavedModel(saved)) return false;
  MR_RETURN_IF_ERROR(Choose(&saved, tags, model));
  return true;
}

// Other files usually end in bytes that are no valid offset, so that no more of them is read.
bool IsPackage(Env& env, const std::string& path) {
  const auto package = io::MemmappedEnv::Open(env, path);
  return package.ok() && (*package)->FileExists(io::kMemmappedGraphDef);
}

// The version of the format, a small number, and then the producer's name, a text. A SavedModel has a message
// there.
bool IsOnnx(std::string_view bytes) {
  if (bytes.size() < 4 || bytes[0] != 8 || bytes[1] <= 0 || bytes[1] > 31 || bytes[2] != 0x12) return false;
  const auto length = static_cast<unsigned char>(bytes[3]);
  const std::string_view name = bytes.substr(4, length);
  return length < 64 && name.size() == length &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c < 127; });
}

// The magic number at the end of tables, in checkpoints of both formats.
constexpr std::string_view kTableEnd = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";

// A hint at the command that reads files of this kind; empty for others.
std::string OtherFile(Env& env, const std::string& path, std::string_view bytes) {
  if (bytes.ends_with(kTableEnd)) return "is a checkpoint, for millrace checkpoint";
  const auto records = io::RecordReader::Open(env, path, io::Compression::kNone);
  std::string first;
  if (!records.ok() || !(*records)->Read(&first).ok()) return "";
  return first.find("brain.Event:") != std::string::npos ? "is an event file, for millrace events and watch"
                                                         : "is a file of records, for millrace records";
}

bool IsText(std::string_view bytes) {
  return std::none_of(bytes.begin(), bytes.end(),
                      [](char c) { return c >= 0 && c < ' ' && !std::isspace(c); });
}

// The kind of a file of another program, by its first bytes. Empty when it is not known.
std::string_view ForeignFormat(std::string_view bytes) {
  if (bytes.starts_with("\x89HDF\r\n\x1a\n")) return "an HDF5 file, as Keras writes it";
  if (bytes.size() >= 8 && bytes.substr(4, 4) == "TFL3") return "a TensorFlow Lite model";
  if (IsOnnx(bytes)) return "an ONNX model";
  if (bytes.starts_with("PK\3\4"))
    return bytes.substr(0, 512).find("data.pkl") != std::string_view::npos ? "a PyTorch model"
                                                                           : "a ZIP archive";
  if (bytes.starts_with("\x1f\x8b")) return "compressed by gzip";
  return "";
}

// Describes the contents of a folder without a model.
Status NoModelIn(Env& env, const std::string& folder) {
  std::string hint;
  if (const auto names = env.GetChildren(folder); names.ok()) {
    const auto ends_with = [&](std::string_view suffix) {
      return std::find_if(names->begin(), names->end(), [&](const auto& n) { return n.ends_with(suffix); });
    };
    const auto model = std::find_if(names->begin(), names->end(), [&](const std::string& name) {
      return env.FileExists(StrCat(folder, "/", name, "/saved_model.pb"));
    });
    if (names->empty()) {
      hint = "; it is empty";
    } else if (model != names->end()) {
      hint = StrCat("; perhaps ", folder, "/", *model, " is meant");
    } else if (std::any_of(names->begin(), names->end(),
                           [](const auto& n) { return n.find(".tfevents.") != std::string::npos; })) {
      hint = "; it has event files, for millrace events and watch";
    } else if (const auto meta = ends_with(".meta"); meta != names->end()) {
      hint = StrCat("; it has a checkpoint, whose graph is ", folder, "/", *meta);
    } else if (const auto index = ends_with(".index"); index != names->end()) {
      hint = StrCat("; it has a checkpoint without a graph, for millrace checkpoint: ", folder, "/",
                    index->substr(0, index->size() - std::string_view(".index").size()));
    }
  }
  return errors::NotFound(folder, " has neither saved_model.pb nor saved_model.pbtxt", hint);
}

bool HasTextName(const std::string& path) {
  return path.ends_with(".pbtxt") || path.ends_with(".txt") || path.ends_with(".prototxt");
}

}  // namespace

ModelFile::ModelFile() : meta(std::make_unique<MetaGraphDef>()) {}
ModelFile::ModelFile(ModelFile&&) noexcept = default;
ModelFile& ModelFile::operator=(ModelFile&&) noexcept = default;
ModelFile::~ModelFile() = default;

const GraphDef& ModelFile::graph() const { return meta->graph_def(); }

std::string_view ModelFile::kind_name() const {
  switch (kind) {
    case Kind::kSavedModel:
      return "SavedModel";
    case Kind::kMetaGraph:
      return "MetaGraphDef";
    case Kind::kGraph:
      return "GraphDef";
    case Kind::kPackage:
      break;
  }
  return "GraphDef with mapped constants";
}

StatusOr<ModelFile> ReadModelFile(Env& env, const std::string& path, const std::vector<std::string>& tags) {
  const StatusOr<FileStat> found_file = env.Stat(path);
  if (!found_file.ok() && env.FileExists(path + ".index")) {
    const std::string meta = path + ".meta";
    return found_file.status().WithContext(
        StrCat("; it is the prefix of a checkpoint, ",
               env.FileExists(meta) ? "whose graph is " + meta : "for millrace checkpoint"));
  }
  MR_ASSIGN_OR_RETURN(const FileStat stat, found_file);
  std::string file = path;
  if (stat.is_directory) {
    file = SavedModelFile(env, path);
    if (file.empty()) {
      return NoModelIn(env, path);
    }
  }
  ModelFile model;
  model.path = path;
  if (IsPackage(env, file)) {
    model.kind = ModelFile::Kind::kPackage;
    model.bytes = stat.length;
    MR_RETURN_IF_ERROR(LoadMemmappedGraph(env, file, model.meta->mutable_graph_def()));
    return model;
  }
  MR_ASSIGN_OR_RETURN(const std::string bytes, ReadFileToString(env, file, kMostBytes));
  model.bytes = bytes.size();
  if (!HasTextName(file)) {
    MR_ASSIGN_OR_RETURN(const bool found,
                        Recognise(
                            tags, [&](auto* message) { return ParseBinary(bytes, message); }, &model));
    if (found) return model;
    model.meta->Clear();
  }
  Status first_error;
  MR_ASSIGN_OR_RETURN(const bool found, Recognise(
                                            tags,
                                            [&](auto* message) {
                                              const Status status = ParseText(bytes, message);
                                              first_error.Update(status);
                                              return status.ok();
                                            },
                                            &model));
  if (found) return model;
  if (const std::string_view format = ForeignFormat(bytes); !format.empty()) {
    return errors::InvalidArgument(file, " is ", format,
                                   "; Millrace reads SavedModels, GraphDefs and MetaGraphDefs");
  }
  if (bytes.empty()) return errors::InvalidArgument(file, " is empty");
  if (const std::string other = OtherFile(env, file, bytes); !other.empty())
    return errors::InvalidArgument(file, " ", other);
  const bool tried_text = !first_error.ok() && (HasTextName(file) || IsText(bytes));
  const std::string why = tried_text ? StrCat("; as text: ", first_error.message()) : "";
  return errors::InvalidArgument(file, " is not a GraphDef, MetaGraphDef or SavedModel with nodes", why);
}

}  // namespace millrace::cli
