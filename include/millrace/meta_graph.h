// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/shape.h"
#include "millrace/status.h"

// Graphs with their collections, signatures and savers, in files. The structs have the names and fields of
// TensorFlow's messages, with these differences:
// - MetaGraph (MetaGraphDef) has no graph, which is the scope's. The fields of MetaInfoDef are its own; its
//   `ops` are the names of those in stripped_op_list. any_info and object_graph_def are not read.
// - TensorInfo: the oneof is `name` or `sparse` (CooSparse, whose fields end with _tensor_name there).
// - AssetFileDef: `tensor` is the name of the message's tensor_info.
// - CollectionDef is a variant instead of a oneof. SaverDef is the same.
namespace millrace {

// Collections are lists under names.
struct NodeList {
  std::vector<std::string> value;  // nodes, or tensors "node:0"
  friend bool operator==(const NodeList&, const NodeList&) = default;
};
struct BytesList {
  std::vector<std::string> value;  // mostly messages, by the name of the collection
  friend bool operator==(const BytesList&, const BytesList&) = default;
};
struct Int64List {
  std::vector<int64_t> value;
  friend bool operator==(const Int64List&, const Int64List&) = default;
};
struct FloatList {
  std::vector<float> value;
  friend bool operator==(const FloatList&, const FloatList&) = default;
};
struct AnyList {
  struct Any {
    std::string type_url;
    std::string value;
    friend bool operator==(const Any&, const Any&) = default;
  };
  std::vector<Any> value;
  friend bool operator==(const AnyList&, const AnyList&) = default;
};

// monostate: no kind yet.
using CollectionDef = std::variant<std::monostate, NodeList, BytesList, Int64List, FloatList, AnyList>;

// The collections of the scope's graph, for reading and changing. Variables made with GraphVariable are not
// included: "variables", "trainable_variables" and similar collections are filled on export.
std::map<std::string, CollectionDef>& Collections(const Scope& scope);
// Adds a tensor or a node to a node list. InvalidArgument, in the scope's status, for an unset one and if the
// collection has entries of another kind.
void AddToCollection(const Scope& scope, const std::string& name, const Output& tensor);
void AddToCollection(const Scope& scope, const std::string& name, const Operation& node);
// The tensors in a node list, in order; entries that are not in the graph are left out.
std::vector<Output> CollectedTensors(const Scope& scope, const std::string& name);
std::vector<Operation> CollectedOperations(const Scope& scope, const std::string& name);

// A tensor of a signature.
struct TensorInfo {
  // The components of a sparse tensor.
  struct Sparse {
    std::string values;
    std::string indices;
    std::string dense_shape;
    friend bool operator==(const Sparse&, const Sparse&) = default;
  };
  std::string name;  // "node:0"; "" for a sparse tensor
  std::optional<Sparse> sparse = {};
  DataType dtype = DataType::kInvalid;
  PartialShape shape = {};
};

// A function of a model: inputs and outputs by the names that callers use.
struct SignatureDef {
  std::map<std::string, TensorInfo> inputs;
  std::map<std::string, TensorInfo> outputs;
  std::string method_name;  // "tensorflow/serving/predict"
};

// A file that belongs to a model, and the tensor with its path.
struct AssetFileDef {
  std::string tensor;
  std::string filename;  // within the folder "assets" of the model
  friend bool operator==(const AssetFileDef&, const AssetFileDef&) = default;
};

enum class CheckpointFormat { kLegacy = 0, kV1 = 1, kV2 = 2 };

// The nodes that save and restore, and options of the files.
struct SaverDef {
  std::string filename_tensor_name;
  std::string save_tensor_name;
  std::string restore_op_name;
  int max_to_keep = 0;
  bool sharded = false;
  float keep_checkpoint_every_n_hours = 0;
  CheckpointFormat version = CheckpointFormat::kLegacy;
  friend bool operator==(const SaverDef&, const SaverDef&) = default;
};

struct MetaGraph {
  std::vector<std::string> tags;
  std::string meta_graph_version;
  std::string tensorflow_version;
  std::string tensorflow_git_version;
  bool stripped_default_attrs = false;
  std::vector<std::string> ops;  // the ops of the graph and its functions, sorted; recomputed on export
  std::optional<SaverDef> saver;
  std::map<std::string, CollectionDef> collections;
  std::map<std::string, SignatureDef> signatures;
  std::vector<AssetFileDef> assets;
};

// Standard names of signatures, methods and tags.
namespace saved_model {
inline constexpr char kServe[] = "serve";
inline constexpr char kTrain[] = "train";
inline constexpr char kDefaultSignature[] = "serving_default";
inline constexpr char kPredictMethod[] = "tensorflow/serving/predict";
inline constexpr char kClassifyMethod[] = "tensorflow/serving/classify";
inline constexpr char kRegressMethod[] = "tensorflow/serving/regress";
}  // namespace saved_model

// Standard names of collections.
namespace graph_keys {
inline constexpr char kVariables[] = "variables";  // shared by all processes of a job, and saved
inline constexpr char kTrainableVariables[] = "trainable_variables";
inline constexpr char kLocalVariables[] = "local_variables";  // of one process, not saved
inline constexpr char kModelVariables[] = "model_variables";
inline constexpr char kMovingAverages[] = "moving_average_variables";  // variables that have a moving average
inline constexpr char kMetricVariables[] = "metric_variables";
inline constexpr char kGlobalStep[] = "global_step";
inline constexpr char kUpdateOps[] = "update_ops";  // run with each step, for example those of batch norm
inline constexpr char kLosses[] = "losses";
inline constexpr char kRegularizationLosses[] = "regularization_losses";
}  // namespace graph_keys

struct ExportMetaGraphOptions {
  // Only nodes, variables and list entries in this scope, without its prefix. Inputs from outside become the
  // input "$unbound_inputs_<name>" and are listed in the collection "unbound_inputs".
  std::string export_scope = {};
  bool clear_devices = false;
  bool strip_default_attrs = false;
  bool add_shapes = true;  // the attribute _output_shapes
  bool as_text = false;
};

// Writes the graph of a scope with its collections, and the other parts of `meta`: its tags, saver,
// signatures, assets, and collections that replace the scope's own. FailedPrecondition, with the op's name,
// for an op that is not registered.
Status ExportMetaGraph(const Scope& scope, const std::string& filename, const MetaGraph& meta = {},
                       const ExportMetaGraphOptions& options = {});

struct ImportMetaGraphOptions {
  std::string import_scope = {};  // made unique; prepended to all names, including those in collections
  bool clear_devices = false;
  // Replacements of tensors: by their names in the file, or those of unbound inputs, with or without the
  // prefix.
  std::map<std::string, Output> input_map = {};
};

// Adds the graph of a file, binary or text, to the scope's. Its variables are then included in
// GlobalVariables(), and its collections are added to the scope's. The returned names are those in the graph.
// InvalidArgument if unbound inputs are missing in `input_map`.
StatusOr<MetaGraph> ImportMetaGraph(const Scope& scope, const std::string& filename,
                                    const ImportMetaGraphOptions& options = {});

}  // namespace millrace
