// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>

#include "base/env.h"
#include "millrace/session.h"
#include "millrace/status.h"

namespace tensorflow {
class MetaGraphDef;
class SavedModel;
}  // namespace tensorflow

namespace millrace {

class Graph;

// The names of a SavedModel's files, tags and signatures.
namespace saved_model {
inline constexpr char kFilename[] = "saved_model.pb";
inline constexpr char kTextFilename[] = "saved_model.pbtxt";
inline constexpr char kVariablesFolder[] = "variables";
inline constexpr char kVariablesFilename[] = "variables";
inline constexpr char kAssetsFolder[] = "assets";
inline constexpr char kAssetsKey[] = "saved_model_assets";
inline constexpr char kMainOpKey[] = "saved_model_main_op";
inline constexpr char kLegacyInitOpKey[] = "legacy_init_op";
inline constexpr char kInitOpSignatureKey[] = "__saved_model_init_op";
inline constexpr char kTrainOpSignatureKey[] = "__saved_model_train_op";
}  // namespace saved_model

// The file of the model in a folder; "" if there is none.
std::string SavedModelFile(Env& env, const std::string& dir);
// The meta graph with exactly these tags; null if there is none.
tensorflow::MetaGraphDef* FindMetaGraph(tensorflow::SavedModel* model, const std::set<std::string>& tags);

// NotFound "Could not find SavedModel .pb or .pbtxt at supplied export directory path: …".
Status ReadSavedModel(Env& env, const std::string& dir, tensorflow::SavedModel* model);

// The meta graph with exactly these tags. NotFound "Could not find meta graph def matching supplied tags: { …
// }. …".
StatusOr<std::unique_ptr<tensorflow::MetaGraphDef>> ReadSavedModelMetaGraph(
    Env& env, const std::string& dir, const std::set<std::string>& tags);

// An initialised session with the graph of `meta`, as it was imported.
StatusOr<std::unique_ptr<Session>> OpenSavedModel(const SessionOptions& session_options,
                                                  const RunOptions& run_options,
                                                  const tensorflow::MetaGraphDef& meta,
                                                  const std::string& dir, const Graph& graph);

// Restores the variables of a session with the graph of `meta`, if the model in `dir` has any, and runs the
// initialisation of the rest. `meta` may be without its graph.
Status InitializeFromSavedModel(Session& session, const RunOptions& options,
                                const tensorflow::MetaGraphDef& meta, const std::string& dir);

}  // namespace millrace
