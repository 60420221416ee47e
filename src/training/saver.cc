// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/saver.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/file_sync.h"
#include "base/logging.h"
#include "graph/graph.h"
#include "io/checkpoint/bundle_format.h"
#include "io/checkpoint/checkpoint_state.h"
#include "io/match_files.h"
#include "training/meta_graph_io.h"
#include "training/proto_file.h"
#include "training/restore.h"
#include "training/same_graph.h"
#include "training/saver_nodes.h"

namespace millrace {
namespace {

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The name without a shard's "-00001-of-00002" or the pattern "-?????-of-00002".
std::string_view WithoutShard(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t end = name.size();
  while (end > 0 && is_digit(name[end - 1])) --end;
  constexpr std::string_view kOf = "-of-";
  if (end == name.size() || !name.substr(0, end).ends_with(kOf)) return name;
  const size_t shard_end = end - kOf.size();
  size_t begin = shard_end;
  while (begin > 0 && (is_digit(name[begin - 1]) || name[begin - 1] == '?')) --begin;
  if (begin == shard_end || begin == 0 || name[begin - 1] != '-') return name;
  return name.substr(0, begin - 1);
}

// A path may contain wildcard characters, so exact names come first.
Status DeleteIfThere(const std::string& path) {
  return Env::Posix().FileExists(path) ? Env::Posix().DeleteFile(path) : Status::Ok();
}

Status DeleteMatching(const std::string& pattern) {
  if (Env::Posix().FileExists(pattern)) return Env::Posix().DeleteFile(pattern);
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> files, io::MatchingFiles(Env::Posix(), pattern));
  for (const std::string& file : files) MR_RETURN_IF_ERROR(Env::Posix().DeleteFile(file));
  return Status::Ok();
}

// Deletes files such as "model.data-00000-of-00001".
Status DeleteData(const std::string& prefix) {
  const std::string folder = io::FolderOf(prefix);
  const std::string begin = StrCat(prefix.substr(folder.empty() ? 0 : prefix.rfind('/') + 1), ".data-");
  MR_ASSIGN_OR_RETURN(const auto names, Env::Posix().GetChildren(folder.empty() ? "." : folder));
  for (const std::string& name : names) {
    if (name.starts_with(begin) && name.find("-of-", begin.size()) != std::string::npos) {
      MR_RETURN_IF_ERROR(Env::Posix().DeleteFile(JoinPath(folder, name)));
    }
  }
  return Status::Ok();
}

Status ExplainRestoreError(const Status& status) {
  const char* reason = status.code() == ErrorCode::kNotFound
                           ? "a Variable name or other graph key that is missing"
                           : "a mismatch between the current graph and the graph";
  if (status.code() != ErrorCode::kNotFound && status.code() != ErrorCode::kInvalidArgument) return status;
  return Status(
      status.code(),
      StrCat("Restoring from checkpoint failed. This is most likely due to ", reason,
             " from the checkpoint. Please ensure that you have not altered the graph expected based "
             "on the checkpoint. Original error:\n\n",
             status.message()));
}

// Extends the session by the nodes that it may lack.
StatusOr<Session*> SessionWith(std::string_view function, const ClientSession& client, const Scope& scope) {
  MR_RETURN_IF_ERROR(scope.status());
  MR_RETURN_IF_ERROR(CheckSameGraph(function, "the session is", client.scope(), scope));
  if (client.session() == nullptr) return client.Run({}, nullptr);
  MR_RETURN_IF_ERROR(client.session()->ExtendFrom(scope.graph()));
  return client.session();
}

std::string WithStep(const std::string& path, const std::optional<int64_t>& step, bool pad) {
  if (!step) return path;
  std::string digits = StrCat(*step);
  if (pad && digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
  return StrCat(path, "-", digits);
}

}  // namespace

void SetFileSync(bool sync) { SetSyncsFiles(sync); }

Saver::Saver(const Scope& scope, const Options& options) : Saver(scope, AllSaveables(scope), options) {}

Saver::Saver(const Scope& scope, std::vector<Saveable> saveables, const Options& options)
    : Saver(SaverDef(), scope) {
  pad_step_number_ = options.pad_step_number;
  save_relative_paths_ = options.save_relative_paths;
  if (saveables.empty()) {
    empty_ = true;
    if (!options.allow_empty) scope.UpdateStatus(errors::InvalidArgument("No variables to save"));
    return;
  }
  auto def = AddSaverNodes(scope, std::move(saveables), options);
  if (def.ok()) {
    def_ = *std::move(def);
  } else {
    scope.UpdateStatus(def.status());
  }
  next_kept_time_ = clock_() + def_.keep_checkpoint_every_n_hours * 3600.0;
}

Saver::Saver(SaverDef def, const Scope& scope)
    : scope_(scope), def_(std::move(def)), clock_(SecondsSince1970) {
  next_kept_time_ = clock_() + def_.keep_checkpoint_every_n_hours * 3600.0;
}

std::unique_ptr<Saver> Saver::ForMetaGraph(const Scope& scope, const MetaGraph& meta) {
  if (meta.saver) return std::make_unique<Saver>(FromDef(scope, *meta.saver));
  if (AllSaveables(scope).empty()) return nullptr;
  return std::make_unique<Saver>(scope);
}

StatusOr<std::string> Saver::Save(Session& session, const std::string& path, const SaveOptions& options) {
  if (options.latest_filename.find('/') != std::string::npos) {
    return errors::InvalidArgument("'latest_filename' must not contain path components");
  }
  const std::string checkpoint = WithStep(path, options.global_step, pad_step_number_);
  const std::string folder = io::FolderOf(path);
  if (!options.global_step && !def_.sharded &&
      path.substr(folder.empty() ? 0 : path.rfind('/') + 1) == options.latest_filename) {
    return errors::InvalidArgument("'latest_filename' collides with 'save_path': '", options.latest_filename,
                                   "' and '", path, "'");
  }
  MR_RETURN_IF_ERROR(Finish());
  if (options.may_save) MR_RETURN_IF_ERROR(options.may_save());
  if (options.write_behind && !empty_) return SaveBehind(session, checkpoint, options);
  std::string saved;
  if (!empty_) {
    std::vector<Tensor> outputs;
    const Status status = session.Run({{def_.filename_tensor_name, Tensor::Scalar(checkpoint)}},
                                      {def_.save_tensor_name}, {}, &outputs);
    if (!status.ok() && !folder.empty() && !Env::Posix().FileExists(folder) &&
        (status.code() == ErrorCode::kNotFound || status.code() == ErrorCode::kFailedPrecondition)) {
      return Status(status.code(), StrCat("Parent directory of ", path, " doesn't exist, can't save."));
    }
    MR_RETURN_IF_ERROR(status);
    if (outputs[0].dtype() != DataType::kString || outputs[0].num_elements() != 1) {
      return errors::InvalidArgument("'", def_.save_tensor_name, "' does not give the path of a checkpoint");
    }
    saved = *outputs[0].data<std::string>();
    if (options.may_save) MR_RETURN_IF_ERROR(options.may_save());
    if (options.write_state) MR_RETURN_IF_ERROR(Record(saved, options).Do());
  }
  MR_RETURN_IF_ERROR(WriteMetaGraph(checkpoint, options));
  return saved;
}

Status Saver::WriteMetaGraph(const std::string& checkpoint, const SaveOptions& options) const {
  if (!options.write_meta_graph) return Status();
  ExportMetaGraphOptions how;
  how.strip_default_attrs = options.strip_default_attrs;
  return ExportMetaGraph(MetaGraphFilename(checkpoint, options.meta_graph_suffix), how);
}

StatusOr<std::string> Saver::Save(const ClientSession& session, const std::string& path,
                                  const SaveOptions& options) {
  MR_ASSIGN_OR_RETURN(Session* const engine, SessionWith("Saver::Save", session, scope_));
  return Save(*engine, path, options);
}

Saver::Update Saver::Record(const std::string& path, const SaveOptions& options) {
  Update update{.write_state = {},
                .obsolete = {},
                .format = def_.version,
                .meta_graph_suffix = options.meta_graph_suffix};
  if (def_.max_to_keep > 0) {
    std::erase_if(last_, [&](const Kept& kept) { return kept.path == path; });
    last_.push_back({path, clock_()});
    if (last_.size() > static_cast<size_t>(def_.max_to_keep)) {
      to_delete_.push_back(last_.front());
      last_.erase(last_.begin());
    }
  }
  io::CheckpointState state;
  state.model_checkpoint_path = path;
  state.all_model_checkpoint_paths = last_checkpoints();
  update.write_state = [state = std::move(state), relative = save_relative_paths_,
                        file = options.latest_filename]() mutable {
    const std::string folder = io::FolderOf(state.model_checkpoint_path);
    return io::UpdateCheckpointState(Env::Posix(), folder, std::move(state),
                                     {.save_relative_paths = relative, .file = file});
  };
  if (to_delete_.empty()) return update;
  const Kept oldest = to_delete_.front();
  to_delete_.erase(to_delete_.begin());
  if (oldest.time > next_kept_time_) {
    next_kept_time_ += def_.keep_checkpoint_every_n_hours * 3600.0;
  } else {
    update.obsolete = oldest.path;
  }
  return update;
}

Status Saver::Update::Do() const {
  MR_RETURN_IF_ERROR(write_state());
  if (obsolete.empty()) return Status();
  const Status status = RemoveCheckpoint(obsolete, format, meta_graph_suffix);
  if (!status.ok()) MR_LOG(Warning) << "Ignoring: " << status;
  return Status();
}

Status Saver::Restore(Session& session, const std::string& path) const {
  if (empty_) return Status::Ok();
  if (!CheckpointExists(path)) {
    return errors::InvalidArgument("The passed save_path is not a valid checkpoint: ", path);
  }
  return ExplainRestoreError(RestoreVariables(session, RunOptions(), def_, path));
}

Status Saver::Restore(const ClientSession& session, const std::string& path) const {
  MR_ASSIGN_OR_RETURN(Session* const engine, SessionWith("Saver::Restore", session, scope_));
  return Restore(*engine, path);
}

std::vector<std::string> Saver::last_checkpoints() const {
  std::vector<std::string> paths;
  for (const Kept& kept : last_) paths.push_back(kept.path);
  return paths;
}

void Saver::set_last_checkpoints(const std::vector<std::string>& paths) {
  last_.clear();
  for (const std::string& path : paths) last_.push_back({path, std::numeric_limits<double>::infinity()});
}

void Saver::set_last_checkpoints_with_time(std::vector<std::pair<std::string, double>> paths) {
  last_.clear();
  for (auto& [path, time] : paths) last_.push_back({std::move(path), time});
}

void Saver::RecoverLastCheckpoints(const std::vector<std::string>& paths) {
  last_.clear();
  for (const std::string& path : paths) {
    auto stat = Env::Posix().Stat(io::BundleIndexPath(path));
    if (!stat.ok()) {
      const auto files = io::MatchingFiles(Env::Posix(), path);
      if (!files.ok() || files->empty()) continue;
      stat = Env::Posix().Stat(files->front());
    }
    if (stat.ok()) last_.push_back({path, static_cast<double>(stat->mtime_ns) * 1e-9});
  }
}

Status Saver::ExportMetaGraph(const std::string& filename, const ExportMetaGraphOptions& options) const {
  MetaGraph meta;
  if (!empty_) meta.saver = def_;
  return millrace::ExportMetaGraph(scope_, filename, meta, options);
}

void Saver::set_clock_for_test(std::function<double()> seconds) {
  if (seconds == nullptr) internal::EndWithMessage("Saver::set_clock_for_test: the clock is null");
  clock_ = std::move(seconds);
  next_kept_time_ = clock_() + def_.keep_checkpoint_every_n_hours * 3600.0;
}

bool CheckpointExists(const std::string& prefix) {
  if (Env::Posix().FileExists(io::BundleIndexPath(prefix))) return true;
  const auto files = io::MatchingFiles(Env::Posix(), prefix);
  return files.ok() && !files->empty();
}

std::string LatestCheckpoint(const std::string& folder, const std::string& latest_filename) {
  const auto latest = io::LatestCheckpoint(Env::Posix(), folder, latest_filename);
  return latest.ok() && latest->has_value() ? **latest : std::string();
}

std::string MetaGraphFilename(const std::string& checkpoint, const std::string& suffix) {
  return StrCat(WithoutShard(checkpoint), ".", suffix);
}

Status RemoveCheckpoint(const std::string& prefix, CheckpointFormat format,
                        const std::string& meta_graph_suffix) {
  MR_RETURN_IF_ERROR(DeleteIfThere(MetaGraphFilename(prefix, meta_graph_suffix)));
  if (format != CheckpointFormat::kV2) return DeleteMatching(prefix);
  // The index is deleted first: data without it is not a checkpoint.
  MR_RETURN_IF_ERROR(DeleteIfThere(io::BundleIndexPath(prefix)));
  return DeleteData(prefix);
}

}  // namespace millrace
