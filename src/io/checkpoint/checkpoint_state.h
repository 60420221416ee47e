// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "millrace/status.h"

// The file "checkpoint" of a folder, which lists its checkpoints: a CheckpointState as text.
namespace millrace::io {

struct CheckpointState {
  std::string model_checkpoint_path;                    // the latest
  std::vector<std::string> all_model_checkpoint_paths;  // from the oldest to the latest
  std::vector<double> all_model_checkpoint_timestamps;  // in seconds since 1970; none, or one for each
  double last_preserved_timestamp = 0;
};

// InvalidArgument for text that is invalid or names no latest checkpoint.
StatusOr<CheckpointState> ParseCheckpointState(std::string_view text);
std::string CheckpointStateText(const CheckpointState& state);

// The state file of a folder; empty if there is none. Relative paths are relative to the folder.
StatusOr<std::optional<CheckpointState>> ReadCheckpointState(Env& env, const std::string& folder,
                                                             const std::string& file = "checkpoint");
// The prefix of the latest checkpoint, of either format, if its files exist; if the folder was moved after
// writing, the one of the same name in the folder.
StatusOr<std::optional<std::string>> LatestCheckpoint(Env& env, const std::string& folder,
                                                      const std::string& file = "checkpoint");

struct UpdateStateOptions {
  // Whether absolute paths are written relative to the folder, so that it can be moved. Relative ones are
  // written relative to the folder, if that is relative, too.
  bool save_relative_paths = false;
  std::string file = "checkpoint";
};
// Replaces the file atomically. The latest is appended to the others unless it is the last of them.
Status UpdateCheckpointState(Env& env, const std::string& folder, CheckpointState state,
                             const UpdateStateOptions& options = {});

}  // namespace millrace::io
