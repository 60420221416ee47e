// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "base/env.h"
#include "base/logging.h"
#include "millrace/saver.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"
#include "tests/fuzz/fuzz_targets.h"
#include "training/meta_graph_io.h"
#include "training/saved_model_loader.h"

namespace millrace {
namespace {

constexpr int kMostMetaGraphs = 4;
constexpr int kMaxNodes = 200;

// An imported graph can be exported, and imported again in a scope.
void GoThrough(const tensorflow::MetaGraphDef& meta) {
  if (meta.graph_def().node_size() > kMaxNodes) return;
  tensorflow::MetaGraphDef proto = meta;
  const Scope scope = Scope::NewRootScope();
  const auto imported = ImportMetaGraphDef(scope, &proto, {});
  if (!imported.ok() || !scope.ok()) return;
  MetaGraph rest = *imported;
  rest.collections.clear();  // they belong to the scope now
  if (!BuildMetaGraphDef(scope, rest, {.strip_default_attrs = true}, &proto).ok()) return;
  const Scope again = Scope::NewRootScope();
  const Status status = ImportMetaGraphDef(again, &proto, {.import_scope = "s"}).status();
  if (!status.ok()) {
    MR_LOG(Error) << "fuzzing: an exported meta graph does not import: " << status;
    std::abort();
  }
}

}  // namespace

void FuzzSavedModel(std::string_view bytes) {
  PrepareFuzzing();
  if (bytes.empty()) return;
  const bool as_text = bytes[0] == 't';
  MemEnv env;
  WriteFileAtomically(env, as_text ? "/m/saved_model.pbtxt" : "/m/saved_model.pb", bytes.substr(1))
      .IgnoreError("memory does not fail");
  ReadSavedModelMetaGraph(env, "/m", {"serve"}).status().IgnoreError("any status will do");
  tensorflow::SavedModel model;
  if (!ReadSavedModel(env, "/m", &model).ok()) return;
  int left = kMostMetaGraphs;
  for (const tensorflow::MetaGraphDef& meta : model.meta_graphs()) {
    if (left-- == 0) return;
    GoThrough(meta);
  }
}

}  // namespace millrace
