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

// SavedModels: folders with one or more meta graphs, the values of their variables and further files.
namespace millrace {

// Whether the folder has a SavedModel, at least by the names of its files.
bool MaybeSavedModelDirectory(const std::string& export_dir);

// A model that was loaded: a session with its graph, its variables restored, its tables initialised.
// Thread-safe.
class SavedModelBundle {
 public:
  struct Options {
    SessionOptions session;
    RunOptions run;  // of the Runs that restore and initialise
  };
  // The meta graph that has just these tags. Texts of errors are TensorFlow's.
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
  // Feeds and fetches by the names that a signature has for them. All of its inputs have to be there; without
  // `outputs` all of its outputs are computed. InvalidArgument names what is missing, unknown or of another
  // type. Sparse tensors are three: "name/values", "name/indices" and "name/dense_shape".
  StatusOr<Tensors> Run(const std::string& signature, const Tensors& inputs,
                        const std::vector<std::string>& outputs = {}) const;

 private:
  SavedModelBundle();

  MetaGraph meta_graph_;
  std::unique_ptr<Graph> graph_;  // shares its constants with the session
  std::unique_ptr<Session> session_;
};

// The tensor with what is known of its type and shape.
TensorInfo TensorInfoOf(const Scope& scope, const Output& tensor);
// A signature of the method that serving programs call Predict.
SignatureDef PredictSignature(const Scope& scope, const std::map<std::string, Output>& inputs,
                              const std::map<std::string, Output>& outputs);

// Writes SavedModels. The first meta graph comes with the values of its variables, which all of them share;
// nothing is a SavedModel before Save. One thread at a time.
class SavedModelBuilder {
 public:
  // Makes the folder. AlreadyExists "Export directory already exists, and isn't empty. …".
  static StatusOr<std::unique_ptr<SavedModelBuilder>> Open(const std::string& export_dir);
  ~SavedModelBuilder();
  SavedModelBuilder(const SavedModelBuilder&) = delete;
  SavedModelBuilder& operator=(const SavedModelBuilder&) = delete;

  struct MetaGraphOptions {
    std::map<std::string, SignatureDef> signatures = {};
    // Constants with paths of files, which are copied into the model; the loader feeds where they are then.
    // Different files of one name get names with numbers.
    std::vector<Output> assets = {};
    Operation main_op = {};         // run by the loader after the variables are restored
    Operation legacy_init_op = {};  // the same, as older programs look for it
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
  // REQUIRES: there is one with variables, FailedPrecondition otherwise.
  Status AddMetaGraph(const Scope& scope, const std::vector<std::string>& tags,
                      const MetaGraphOptions& options);

  // Writes saved_model.pb, or saved_model.pbtxt, in one step; gives its path.
  StatusOr<std::string> Save(bool as_text = false);

 private:
  explicit SavedModelBuilder(std::string export_dir);
  Status Add(const Scope& scope, const std::vector<std::string>& tags, const MetaGraphOptions& options,
             const Saver& saver);
  StatusOr<CollectionDef> AddAssets(const std::vector<Output>& assets);
  Status CopyAssets() const;

  const std::string export_dir_;
  std::unique_ptr<tensorflow::SavedModel> model_;
  std::map<std::string, std::string> assets_;  // where they come from, by their names in the model
  bool has_variables_ = false;
};

// Writes a SavedModel with one graph for serving: what PredictSignature says as the default signature, and
// the values that the session has. A SavedModel that is at the path is replaced in one step; anything else
// there is AlreadyExists. `main_op`: as MetaGraphOptions has it.
Status SimpleSave(const ClientSession& session, const Scope& scope, const std::string& export_dir,
                  const std::map<std::string, Output>& inputs, const std::map<std::string, Output>& outputs,
                  const Operation& main_op = {});

}  // namespace millrace
