// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/model_file.h"
#include "cli/options.h"
#include "millrace/dtype.h"
#include "millrace/session.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace::cli {

// Common options of `run` and `bench`.
struct ModelOptions {
  std::string model;
  std::vector<std::string> tags;
  std::string checkpoint;
  std::string signature;
  std::vector<std::string> feeds;  // "name=value"
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  std::string master;  // the target of the session
  int intra_threads = 0;
  int inter_threads = 0;
  int64_t batch = 1;  // for unknown sizes of generated inputs
};
// The positional argument, and the options for the values of variables.
void AddModelOptions(ModelOptions* options, const Command& command);
void AddFeedOption(ModelOptions* options, const Command& command);
void AddThreadOptions(ModelOptions* options, const Command& command);
// These, and the options for feeds and fetches.
void AddRunOptions(ModelOptions* options, const Command& command);

// A model in a session: its variables restored, its tables initialised.
struct LoadedModel {
  ModelFile file;
  std::unique_ptr<Session> session;
};
StatusOr<LoadedModel> LoadModel(const ModelOptions& options, Env& env);

// One kind of step of a model.
struct ModelStep {
  Session::Feeds feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> labels;  // of the fetches: the names of a signature, or the same
  std::vector<std::string> targets;
};
// Found by the names of a signature ("serving_default" by default, if there is one), and by those of tensors.
// With `make_up` placeholders that are needed and not fed get generated values. InvalidArgument lists the
// possible names.
StatusOr<ModelStep> MakeStep(const ModelOptions& options, const ModelFile& model, bool make_up, Env& env);

}  // namespace millrace::cli
