// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "millrace/status.h"

namespace tensorflow {
class GraphDef;
class MetaGraphDef;
}  // namespace tensorflow

namespace millrace::cli {

// A model on disk: a folder with saved_model.pb or .pbtxt, a MetaGraphDef, or a GraphDef, each serialised or
// as text; or a package of mapped constants with its graph.
struct ModelFile {
  enum class Kind { kSavedModel, kMetaGraph, kGraph, kPackage };

  ModelFile();
  ModelFile(ModelFile&&) noexcept;
  ModelFile& operator=(ModelFile&&) noexcept;
  ~ModelFile();

  Kind kind = Kind::kGraph;
  std::string path;
  std::unique_ptr<tensorflow::MetaGraphDef> meta;  // for a GraphDef only its graph is set
  std::vector<std::string> tags;                   // of the chosen meta graph of a SavedModel
  std::vector<std::string> all_tags;               // of all of them, "serve, gpu"
  uint64_t bytes = 0;                              // of the file

  const tensorflow::GraphDef& graph() const;
  std::string_view kind_name() const;
};

// Chooses the meta graph of a SavedModel with exactly these tags; without tags the one for "serve", or the
// only one. InvalidArgument for files that are not models, NotFound for unknown tags; errors name the file.
StatusOr<ModelFile> ReadModelFile(Env& env, const std::string& path,
                                  const std::vector<std::string>& tags = {});

}  // namespace millrace::cli
