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

// Graphs with what belongs to them, in files: collections, signatures, how to save and restore. The structs
// have the names and fields of TensorFlow's messages, with these differences:
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

// monostate: of no kind yet.
using CollectionDef = std::variant<std::monostate, NodeList, BytesList, Int64List, FloatList, AnyList>;

// Those of the scope's graph, to look into and to change. Variables made with GraphVariable are not among
// them: "variables", "trainable_variables" and the others of variables are made of them on export.
std::map<std::string, CollectionDef>& Collections(const Scope& scope);
// Adds a tensor or a node to a list of such. InvalidArgument, in the scope's status, for an unset one and
// when the collection has things of another kind.
void AddToCollection(const Scope& scope, const std::string& name, const Output& tensor);
void AddToCollection(const Scope& scope, const std::string& name, const Operation& node);
// What such a list names, in order; entries that are not in the graph are left out.
std::vector<Output> CollectedTensors(const Scope& scope, const std::string& name);
std::vector<Operation> CollectedOperations(const Scope& scope, const std::string& name);

// A tensor that a signature speaks of.
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

// What a model can be asked for: inputs and outputs by the names that callers use.
struct SignatureDef {
  std::map<std::string, TensorInfo> inputs;
  std::map<std::string, TensorInfo> outputs;
  std::string method_name;  // "tensorflow/serving/predict"
};

// A file that belongs to a model, and the tensor that has its path.
struct AssetFileDef {
  std::string tensor;
  std::string filename;  // within the folder "assets" of the model
  friend bool operator==(const AssetFileDef&, const AssetFileDef&) = default;
};

enum class CheckpointFormat { kLegacy = 0, kV1 = 1, kV2 = 2 };

// The nodes that save and restore, and how files are kept.
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

// Names of signatures, methods and tags that programs agree on.
namespace saved_model {
inline constexpr char kServe[] = "serve";
inline constexpr char kTrain[] = "train";
inline constexpr char kDefaultSignature[] = "serving_default";
inline constexpr char kPredictMethod[] = "tensorflow/serving/predict";
inline constexpr char kClassifyMethod[] = "tensorflow/serving/classify";
inline constexpr char kRegressMethod[] = "tensorflow/serving/regress";
}  // namespace saved_model

// Names of collections that the library and programs agree on.
namespace graph_keys {
inline constexpr char kVariables[] = "variables";  // shared by all processes of a job, and saved
inline constexpr char kTrainableVariables[] = "trainable_variables";
inline constexpr char kLocalVariables[] = "local_variables";  // of one process, not saved
inline constexpr char kModelVariables[] = "model_variables";
inline constexpr char kMovingAverages[] = "moving_average_variables";  // variables that have an average
inline constexpr char kMetricVariables[] = "metric_variables";
inline constexpr char kGlobalStep[] = "global_step";
inline constexpr char kUpdateOps[] = "update_ops";  // to be run with each step, as those of batch norm
inline constexpr char kLosses[] = "losses";
inline constexpr char kRegularizationLosses[] = "regularization_losses";
}  // namespace graph_keys

struct ExportMetaGraphOptions {
  // Only nodes, variables and entries of lists of nodes below it, without it in their names. What they take
  // from outside becomes the input "$unbound_inputs_<name>" and is listed in the collection "unbound_inputs".
  std::string export_scope = {};
  bool clear_devices = false;
  bool strip_default_attrs = false;
  bool add_shapes = true;  // as the attribute _output_shapes
  bool as_text = false;
};

// Writes the graph of a scope with its collections, and the other parts of `meta`: its tags, saver,
// signatures, assets, and collections that take the place of the scope's own. FailedPrecondition naming an op
// that is not registered.
Status ExportMetaGraph(const Scope& scope, const std::string& filename, const MetaGraph& meta = {},
                       const ExportMetaGraphOptions& options = {});

struct ImportMetaGraphOptions {
  std::string import_scope = {};  // made unique; put before all names, those in collections among them
  bool clear_devices = false;
  // Tensors to use instead: by their names in the file, or those of unbound inputs, with or without the
  // prefix.
  std::map<std::string, Output> input_map = {};
};

// Adds the graph of a file, binary or text, to the scope's. Its variables are then among GlobalVariables(),
// and its collections are added to the scope's. The names that are returned are those in the graph.
// InvalidArgument when inputs are unbound that `input_map` lacks.
StatusOr<MetaGraph> ImportMetaGraph(const Scope& scope, const std::string& filename,
                                    const ImportMetaGraphOptions& options = {});

}  // namespace millrace
