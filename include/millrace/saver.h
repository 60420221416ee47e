// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/meta_graph.h"
#include "millrace/scope.h"
#include "millrace/session.h"
#include "millrace/status.h"
#include "millrace/variables.h"

namespace millrace {

// A value saved under a name: a variable, or the handle of a resource variable or of an iterator; with a
// slice, a part of the tensor of that name.
struct Saveable {
  std::string name;
  Output variable;
  std::optional<SaveSliceInfo> slice = {};
  Operation initializer = {};  // for an iterator: runs before its state is restored
};

// Whether files that the process writes (checkpoints, events, saved models) are flushed to disk before the
// writing call returns. The default is true, unless the environment variable MILLRACE_SYNC_FILES is 0.
// Without it saving is faster, but the last files may be lost if the machine, not only the process, stops.
// Thread-safe.
void SetFileSync(bool sync);

// Saves the variables of a graph to checkpoints and restores them. The constructors add the nodes for this,
// with the names of TensorFlow 1.x: "save/Const", "save/SaveV2", "save/RestoreV2", "save/Assign",
// "save/restore_all" and so on; their errors are in the scope's status. Not thread-safe.
class Saver {
 public:
  struct Options {
    bool reshape = false;                          // restored tensors get the shapes of the variables
    bool sharded = false;                          // a file for each device
    int max_to_keep = 5;                           // number of recent checkpoints that are kept; 0: all
    double keep_checkpoint_every_n_hours = 10000;  // one per interval is kept in addition
    std::string name = "save";                     // the scope of the nodes
    bool restore_sequentially = false;             // restore variables one after the other
    bool allow_empty = false;  // without variables: does nothing; otherwise InvalidArgument
    CheckpointFormat write_version = CheckpointFormat::kV2;
    bool pad_step_number = false;      // "model-00000007"
    bool save_relative_paths = false;  // in the state file, so that the folder can be moved
    std::string filename = "model";    // the default value of "save/Const"
  };

  // All variables of the graph, and the iterators of Iterator::SaveWithModel.
  explicit Saver(const Scope& scope) : Saver(scope, Options()) {}
  Saver(const Scope& scope, const Options& options);
  // The given variables; parts of one tensor may share a name. InvalidArgument for other duplicate names.
  Saver(const Scope& scope, std::vector<Saveable> saveables, const Options& options);
  // For existing nodes of the graph.
  static Saver FromDef(const Scope& scope, SaverDef def) { return Saver(std::move(def), scope); }
  // For an imported graph: with its saver, or with a new one for all variables. Null if there are no
  // variables either.
  static std::unique_ptr<Saver> ForMetaGraph(const Scope& scope, const MetaGraph& meta);

  struct SaveOptions {
    std::optional<int64_t> global_step = {};     // appended to the path: "model-1000"
    std::string latest_filename = "checkpoint";  // the name of the state file
    std::string meta_graph_suffix = "meta";
    bool write_meta_graph = true;
    bool write_state = true;
    bool strip_default_attrs = false;  // in the meta graph
    // Save returns when it has references to the values, without copying them: later steps copy a variable
    // before changing it. A thread writes the files; the next Save, and Finish, wait for it and return its
    // error. Formats of version 2 only.
    bool write_behind = false;
    // Optional: called before files are written, and before they become the latest checkpoint. Its error is
    // returned by the save, which then does not change the state file and older checkpoints.
    std::function<Status()> may_save = {};
  };
  // Returns the path for Restore; "" if there is nothing to save. Older checkpoints are deleted according to
  // the options. Sharded checkpoints of the first format return a pattern.
  StatusOr<std::string> Save(Session& session, const std::string& path) {
    return Save(session, path, SaveOptions());
  }
  StatusOr<std::string> Save(Session& session, const std::string& path, const SaveOptions& options);
  StatusOr<std::string> Save(const ClientSession& session, const std::string& path) {
    return Save(session, path, SaveOptions());
  }
  StatusOr<std::string> Save(const ClientSession& session, const std::string& path,
                             const SaveOptions& options);

  // Waits for background writes and returns their error.
  Status Finish();

  // InvalidArgument "The passed save_path is not a valid checkpoint: …". After other errors some variables
  // may have been restored.
  Status Restore(Session& session, const std::string& path) const;
  Status Restore(const ClientSession& session, const std::string& path) const;

  // From the oldest to the newest, without those deleted.
  std::vector<std::string> last_checkpoints() const;
  void set_last_checkpoints(const std::vector<std::string>& paths);
  // With their modification times, in seconds since 1970.
  void set_last_checkpoints_with_time(std::vector<std::pair<std::string, double>> paths);
  // Adds existing checkpoints of an earlier run, so that they are deleted in order.
  void RecoverLastCheckpoints(const std::vector<std::string>& paths);

  const SaverDef& def() const { return def_; }
  bool empty() const { return empty_; }
  // Writes the graph and its saver, as Save does beside the checkpoint.
  Status ExportMetaGraph(const std::string& filename, const ExportMetaGraphOptions& options = {}) const;

  void set_clock_for_test(std::function<double()> seconds);

 private:
  struct Kept {
    std::string path;
    double time;
  };
  class Behind;
  Saver(SaverDef def, const Scope& scope);
  StatusOr<std::string> SaveBehind(Session& session, const std::string& checkpoint,
                                   const SaveOptions& options);
  Status WriteMetaGraph(const std::string& checkpoint, const SaveOptions& options) const;
  // File operations after a checkpoint is complete: the state file to be written, and an older checkpoint to
  // be deleted ("": none).
  struct Update {
    std::function<Status()> write_state;
    std::string obsolete;
    CheckpointFormat format;
    std::string meta_graph_suffix;
    Status Do() const;
  };
  Update Record(const std::string& path, const SaveOptions& options);

  Scope scope_;
  SaverDef def_;
  bool empty_ = false;
  bool pad_step_number_ = false;
  bool save_relative_paths_ = false;
  std::vector<Kept> last_;
  std::vector<Kept> to_delete_;
  std::function<double()> clock_;
  double next_kept_time_ = 0;
  std::shared_ptr<Behind> behind_;  // null: no background write has started
};

// Whether there is a checkpoint of either format with that prefix or pattern.
bool CheckpointExists(const std::string& prefix);
// The latest checkpoint in the state file of a folder, if it exists; "" otherwise.
std::string LatestCheckpoint(const std::string& folder, const std::string& latest_filename = "checkpoint");
// "model-7.meta" for "model-7" and for "model-7-00000-of-00002".
std::string MetaGraphFilename(const std::string& checkpoint, const std::string& suffix = "meta");
// All files of a checkpoint and its meta graph.
Status RemoveCheckpoint(const std::string& prefix, CheckpointFormat format,
                        const std::string& meta_graph_suffix = "meta");

}  // namespace millrace
