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

// What is saved under a name: a variable, or the handle of a resource variable or of an iterator; with a
// slice, a part of what the name stands for.
struct Saveable {
  std::string name;
  Output variable;
  std::optional<SaveSliceInfo> slice = {};
  Operation initializer = {};  // of an iterator: runs before its state is restored
};

// Whether files that the process writes (checkpoints, events, saved models) are on the disk before the call
// that writes them returns: yes, unless the environment says MILLRACE_SYNC_FILES=0. Without it saving takes
// the time of copying, and what was written last may be lost when the machine, not only the process, stops.
// Thread-safe.
void SetFileSync(bool sync);

// Saves the variables of a graph to checkpoints and restores them. The constructors add the nodes that do it,
// under the names that TensorFlow 1.x gives them: "save/Const", "save/SaveV2", "save/RestoreV2",
// "save/Assign", "save/restore_all" and so on; their errors are in the scope's status. One thread at a time.
class Saver {
 public:
  struct Options {
    bool reshape = false;                          // restored tensors take the shapes of the variables
    bool sharded = false;                          // a file for each device
    int max_to_keep = 5;                           // of the latest checkpoints; 0: all
    double keep_checkpoint_every_n_hours = 10000;  // one that is kept whatever max_to_keep says
    std::string name = "save";                     // of the scope of the nodes
    bool restore_sequentially = false;             // one variable after the other
    bool allow_empty = false;  // without variables: does nothing; otherwise InvalidArgument
    CheckpointFormat write_version = CheckpointFormat::kV2;
    bool pad_step_number = false;      // "model-00000007"
    bool save_relative_paths = false;  // in the state file, so that the folder can be moved
    std::string filename = "model";    // what "save/Const" has unless it is fed
  };

  // All variables of the graph, and the iterators of Iterator::SaveWithModel.
  explicit Saver(const Scope& scope) : Saver(scope, Options()) {}
  Saver(const Scope& scope, const Options& options);
  // Those variables, of which parts of one tensor may share a name. InvalidArgument for other equal names.
  Saver(const Scope& scope, std::vector<Saveable> saveables, const Options& options);
  // Of nodes that are in the graph already.
  static Saver FromDef(const Scope& scope, SaverDef def) { return Saver(std::move(def), scope); }
  // Of a graph that was imported: with its saver; with one for all variables when it has none. Null when
  // there are no variables either.
  static std::unique_ptr<Saver> ForMetaGraph(const Scope& scope, const MetaGraph& meta);

  struct SaveOptions {
    std::optional<int64_t> global_step = {};     // put behind the path: "model-1000"
    std::string latest_filename = "checkpoint";  // of the state file
    std::string meta_graph_suffix = "meta";
    bool write_meta_graph = true;
    bool write_state = true;
    bool strip_default_attrs = false;  // from the meta graph
    // Save returns when it has got the values, without copying them: steps that follow change copies. A
    // thread writes them; the next Save, and Finish, wait for it and give its error. Formats of version 2
    // only.
    bool write_behind = false;
    // Unless empty: asked before files are written, and before they become the latest checkpoint. Its error
    // is that of the save, which then leaves the state file and older checkpoints as they are.
    std::function<Status()> may_save = {};
  };
  // Gives the path that Restore takes; "" when there is nothing to save. Older checkpoints are deleted as the
  // options say. Sharded checkpoints of the first format give a pattern.
  StatusOr<std::string> Save(Session& session, const std::string& path) {
    return Save(session, path, SaveOptions());
  }
  StatusOr<std::string> Save(Session& session, const std::string& path, const SaveOptions& options);
  StatusOr<std::string> Save(const ClientSession& session, const std::string& path) {
    return Save(session, path, SaveOptions());
  }
  StatusOr<std::string> Save(const ClientSession& session, const std::string& path,
                             const SaveOptions& options);

  // Waits for what is written behind; its error.
  Status Finish();

  // InvalidArgument "The passed save_path is not a valid checkpoint: …". On other errors the variables may
  // have been restored in part.
  Status Restore(Session& session, const std::string& path) const;
  Status Restore(const ClientSession& session, const std::string& path) const;

  // From the oldest to the newest, without those deleted.
  std::vector<std::string> last_checkpoints() const;
  void set_last_checkpoints(const std::vector<std::string>& paths);
  // With the times, in seconds since 1970, when they were written.
  void set_last_checkpoints_with_time(std::vector<std::pair<std::string, double>> paths);
  // Those of an earlier run that are still there, so that they are deleted in their turn.
  void RecoverLastCheckpoints(const std::vector<std::string>& paths);

  const SaverDef& def() const { return def_; }
  bool empty() const { return empty_; }
  // The graph and how to restore it: what Save writes beside the checkpoint.
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
  // What is to be done with files when a checkpoint is there: the state file to be written, and an older
  // checkpoint to be deleted ("": none).
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
  std::shared_ptr<Behind> behind_;  // null: nothing was ever written behind
};

// Whether there is a checkpoint of either format of that prefix, or that pattern.
bool CheckpointExists(const std::string& prefix);
// The latest that the state file of a folder names, when it is there; "" otherwise.
std::string LatestCheckpoint(const std::string& folder, const std::string& latest_filename = "checkpoint");
// "model-7.meta" for "model-7" and for "model-7-00000-of-00002".
std::string MetaGraphFilename(const std::string& checkpoint, const std::string& suffix = "meta");
// All files of a checkpoint and its meta graph.
Status RemoveCheckpoint(const std::string& prefix, CheckpointFormat format,
                        const std::string& meta_graph_suffix = "meta");

}  // namespace millrace
