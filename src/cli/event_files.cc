// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/event_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "display/tensor_text.h"
#include "millrace/tensor.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/summary.pb.h"

namespace millrace::cli {
namespace {

constexpr int kMostFolders = 32;  // nested folders

// A file, or the event files in a folder and its subfolders. Each folder is read once, as links may form
// cycles.
Status Collect(Env& env, const std::string& path, const std::string& run, int depth,
               std::set<std::string>* seen, std::vector<EventFile>* files) {
  MR_ASSIGN_OR_RETURN(const FileStat stat, env.Stat(path));
  if (!stat.is_directory) {
    files->push_back({path, run});
    return Status();
  }
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  if (depth > kMostFolders || !seen->insert(error ? path : real).second) return Status();
  MR_ASSIGN_OR_RETURN(std::vector<std::string> names, env.GetChildren(path));
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string child = StrCat(path, path.ends_with('/') ? "" : "/", name);
    const auto child_stat = env.Stat(child);
    if (!child_stat.ok()) continue;  // a dangling link, or a file that was deleted
    if (child_stat->is_directory) {
      MR_RETURN_IF_ERROR(
          Collect(env, child, run.empty() ? name : StrCat(run, "/", name), depth + 1, seen, files));
    } else if (name.find("tfevents") != std::string::npos) {
      files->push_back({child, run});
    }
  }
  return Status();
}

}  // namespace

StatusOr<std::vector<EventFile>> CollectEventFiles(Env& env, const std::vector<std::string>& paths) {
  std::vector<EventFile> files;
  for (const std::string& path : paths) {
    // With only one folder its name is left out.
    const size_t end = path.find_last_not_of('/');
    const std::string name = path.substr(0, end == std::string::npos ? 1 : end + 1);
    const std::string run = paths.size() == 1 ? "" : name;
    std::set<std::string> seen;
    MR_RETURN_IF_ERROR(Collect(env, path, run, 0, &seen, &files));
  }
  return files;
}

bool ScalarOf(const tensorflow::Summary::Value& value, double* scalar) {
  if (value.has_simple_value()) {
    *scalar = static_cast<double>(value.simple_value());
    return true;
  }
  if (!value.has_tensor()) return false;
  const std::string& plugin = value.metadata().plugin_data().plugin_name();
  if (!plugin.empty() && plugin != "scalars") return false;
  const auto tensor = TensorFromProto(value.tensor(), {.max_bytes = 1 << 20});
  TensorStatistics statistics;
  if (!tensor.ok() || tensor->num_elements() != 1 || !ComputeStatistics(*tensor, &statistics)) return false;
  *scalar = statistics.not_finite == 0 ? statistics.mean : std::nan("");
  return true;
}

}  // namespace millrace::cli
