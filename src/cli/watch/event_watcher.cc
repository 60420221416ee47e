// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/event_watcher.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/strings.h"
#include "display/text.h"
#include "io/event_file.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace::cli {
namespace {

constexpr uint64_t kMostRecordBytes = uint64_t{256} << 20;
constexpr size_t kMostFiles = 10'000;
constexpr int kEventsBetweenLooks = 64;  // at the clock

}  // namespace

StatusOr<bool> EventWatcher::Refresh(const std::function<bool()>& enough) {
  const auto found = CollectEventFiles(env_, paths_);
  if (!found.ok()) {
    store_.Note(Printable(found.status().message()));
    return found.status();
  }
  ForgetRuns(*found);
  for (const EventFile& file : *found) {
    const auto known = files_.find(file.path);
    if (known != files_.end()) continue;
    if (files_.size() >= kMostFiles) {
      store_.Note(StrCat("only ", kMostFiles, " event files are followed"));
      break;
    }
    store_.GetRun(file.run);
    files_[file.path].run = file.run;
  }
  for (auto& [path, file] : files_) {
    const auto stat = env_.Stat(path);
    if (!stat.ok() || stat->is_directory) continue;
    file.length = stat->length;
  }
  for (auto& [path, file] : files_) {
    if (ReadFile(path, enough, &file)) return true;
  }
  return false;
}

Status EventWatcher::ReadAll() {
  return Refresh([] { return false; }).status();
}

// A run is removed with the last of its files, for example when its folder is deleted.
void EventWatcher::ForgetRuns(const std::vector<EventFile>& files) {
  std::set<std::string> runs, gone;
  for (const EventFile& file : files) runs.insert(file.run);
  for (const auto& [path, file] : files_) {
    if (!runs.contains(file.run)) gone.insert(file.run);
  }
  for (const std::string& run : gone) store_.RemoveRun(run);
  std::erase_if(files_, [&](const auto& entry) { return gone.contains(entry.second.run); });
}

void EventWatcher::GiveUp(const Status& status, Following* file) {
  file->given_up = true;
  store_.Note(StrCat(Printable(status.message()), "; the rest of the file is left out"));
}

bool EventWatcher::ReadFile(const std::string& path, const std::function<bool()>& enough, Following* file) {
  if (file->given_up) return false;
  if (file->length < file->offset) {
    GiveUp(errors::DataLoss(path, "; has become shorter"), file);
    return false;
  }
  if (file->length == file->offset || file->length == file->tried) return false;
  auto reader = io::EventReader::Open(env_, path, {.offset = file->offset, .most_bytes = kMostRecordBytes});
  if (!reader.ok()) {
    if (!errors::IsNotFound(reader.status())) GiveUp(reader.status(), file);
    return false;
  }
  Run& run = store_.GetRun(file->run);
  tensorflow::Event event;
  for (int n = 1;; ++n) {
    const Status status = (*reader)->Read(&event);
    if (errors::IsOutOfRange(status) || status.message().starts_with("truncated record")) break;
    if (!status.ok()) {
      GiveUp(status, file);
      return false;
    }
    store_.Apply(event, &run);
    file->offset = (*reader)->offset();
    if (n % kEventsBetweenLooks == 0 && enough()) return true;
  }
  file->length = std::max(file->length, file->offset);
  file->tried = file->length;
  return false;
}

uint64_t EventWatcher::bytes() const {
  uint64_t bytes = 0;
  for (const auto& [path, file] : files_) bytes += file.length;
  return bytes;
}

uint64_t EventWatcher::bytes_read() const {
  uint64_t bytes = 0;
  for (const auto& [path, file] : files_) bytes += file.given_up ? file.length : file.offset;
  return bytes;
}

}  // namespace millrace::cli
