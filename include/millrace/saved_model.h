// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/meta_graph.h"
#include "millrace/saver.h"
#include "millrace/scope.h"
#include "millrace/session.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace tensorflow {
class GraphDef;
class SavedModel;
}  // namespace tensorflow

// SavedModels: folders with one or more meta graphs, the values of their variables and assets.
namespace millrace {

// Whether the folder contains a SavedModel, judged by file names.
bool MaybeSavedModelDirectory(const std::string& export_dir);

// A loaded model: a session with its graph, with restored variables and initialised tables.
// Thread-safe.
class SavedModelBundle {
 public:
  struct Options {
    SessionOptions session;
    RunOptions run;  // for the Runs that restore and initialise
  };
  // The meta graph with exactly these tags. Error messages are TensorFlow's.
  static StatusOr<std::unique_ptr<SavedModelBundle>> Load(const std::string& export_dir,
                                                          const std::set<std::string>& tags) {
    return Load(export_dir, tags, Options());
  }
  static StatusOr<std::unique_ptr<SavedModelBundle>> Load(const std::string& export_dir,
                                                          const std::set<std::string>& tags,
                                                          const Options& options);
  ~SavedModelBundle();
  SavedModelBundle(const SavedModelBundle&) = delete;
  SavedModelBundle& operator=(const SavedModelBundle&) = delete;

  Session& session() const { return *session_; }
  const MetaGraph& meta_graph() const { return meta_graph_; }
  const std::map<std::string, SignatureDef>& signatures() const { return meta_graph_.signatures; }
  void ToGraphDef(tensorflow::GraphDef* def) const;

  using Tensors = std::map<std::string, Tensor>;
  // Feeds and fetches by the names in a signature. All of its inputs are required; without `outputs` all of
  // its outputs are computed. InvalidArgument, with the name, for missing or unknown names and wrong types.
  // Sparse tensors are three: "name/values", "name/indices" and "name/dense_shape".
  StatusOr<Tensors> Run(const std::string& signature, const Tensors& inputs,
                        const std::vector<std::string>& outputs = {}) const;

 private:
  SavedModelBundle();

  MetaGraph meta_graph_;
  std::unique_ptr<Graph> graph_;  // shares its constants with the session
  std::unique_ptr<Session> session_;
};

// The TensorInfo of a tensor, with its known type and shape.
TensorInfo TensorInfoOf(const Scope& scope, const Output& tensor);
// A signature for the Predict method of serving programs.
SignatureDef PredictSignature(const Scope& scope, const std::map<std::string, Output>& inputs,
                              const std::map<std::string, Output>& outputs);

// Writes SavedModels. The first meta graph is added with the values of its variables, which all of them
// share; the folder is no SavedModel before Save. Not thread-safe.
class SavedModelBuilder {
 public:
  // Creates the folder. AlreadyExists "Export directory already exists, and isn't empty. …".
  static StatusOr<std::unique_ptr<SavedModelBuilder>> Open(const std::string& export_dir);
  ~SavedModelBuilder();
  SavedModelBuilder(const SavedModelBuilder&) = delete;
  SavedModelBuilder& operator=(const SavedModelBuilder&) = delete;

  struct MetaGraphOptions {
    std::map<std::string, SignatureDef> signatures = {};
    // Constants with paths of files, which are copied into the model; the loader feeds their new paths.
    // Different files with the same name get numbered names.
    std::vector<Output> assets = {};
    Operation main_op = {};         // run by the loader after the variables are restored
    Operation legacy_init_op = {};  // the same, for older programs
    bool clear_devices = false;
    bool strip_default_attrs = false;
    const Saver* saver = nullptr;  // null: a sharded one for all variables is added to the graph
  };
  Status AddMetaGraphAndVariables(const ClientSession& session, const Scope& scope,
                                  const std::vector<std::string>& tags) {
    return AddMetaGraphAndVariables(session, scope, tags, MetaGraphOptions());
  }
  Status AddMetaGraphAndVariables(const ClientSession& session, const Scope& scope,
                                  const std::vector<std::string>& tags, const MetaGraphOptions& options);
  // FailedPrecondition unless a meta graph with variables was added before.
  Status AddMetaGraph(const Scope& scope, const std::vector<std::string>& tags,
                      const MetaGraphOptions& options);

  // Writes saved_model.pb, or saved_model.pbtxt, atomically; returns its path.
  StatusOr<std::string> Save(bool as_text = false);

 private:
  explicit SavedModelBuilder(std::string export_dir);
  Status Add(const Scope& scope, const std::vector<std::string>& tags, const MetaGraphOptions& options,
             const Saver& saver);
  StatusOr<CollectionDef> AddAssets(const std::vector<Output>& assets);
  Status CopyAssets() const;

  const std::string export_dir_;
  std::unique_ptr<tensorflow::SavedModel> model_;
  std::map<std::string, std::string> assets_;  // source paths by their names in the model
  bool has_variables_ = false;
};

// Writes a SavedModel with one graph for serving, with PredictSignature as the default signature and the
// values in the session. An existing SavedModel at the path is replaced atomically; anything else there is
// AlreadyExists. `main_op`: as in MetaGraphOptions.
Status SimpleSave(const ClientSession& session, const Scope& scope, const std::string& export_dir,
                  const std::map<std::string, Output>& inputs, const std::map<std::string, Output>& outputs,
                  const Operation& main_op = {});

}  // namespace millrace
