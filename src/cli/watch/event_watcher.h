// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/env.h"
#include "cli/event_files.h"
#include "cli/watch/event_store.h"

namespace millrace::cli {

// Reads event files of folders into a store; files may grow and be added. Not thread-safe.
class EventWatcher {
 public:
  // `env` is borrowed.
  EventWatcher(Env& env, std::vector<std::string> paths, const StoreLimits& limits)
      : env_(env), paths_(std::move(paths)), store_(limits) {}

  // Reads new data. The files of a run are read in order of their names, which contain their creation times.
  // An incomplete record is retried in the next call; after a corrupt one a note is added and the rest of the
  // file is ignored. If `enough` returns true this ends early, and the next call continues. Returns false if
  // all data has been read. An error only if the folders can't be read.
  StatusOr<bool> Refresh(const std::function<bool()>& enough);
  Status ReadAll();

  const EventStore& store() const { return store_; }
  size_t num_files() const { return files_.size(); }
  // The size of the files, and the number of bytes read.
  uint64_t bytes() const;
  uint64_t bytes_read() const;

 private:
  struct Following {
    std::string run;
    uint64_t offset = 0;  // of the next record
    uint64_t length = 0;  // of the file, when last seen
    uint64_t tried = 0;   // the length with which there was no whole record at `offset`
    bool given_up = false;
  };
  void ForgetRuns(const std::vector<EventFile>& files);
  // Whether `enough` ended it.
  bool ReadFile(const std::string& path, const std::function<bool()>& enough, Following* file);
  void GiveUp(const Status& status, Following* file);

  Env& env_;
  const std::vector<std::string> paths_;
  EventStore store_;
  std::map<std::string, Following> files_;  // by path
};

}  // namespace millrace::cli
