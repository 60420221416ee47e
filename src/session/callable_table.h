// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "millrace/session.h"
#include "session/reclaimer.h"
#include "session/signature_cache.h"

namespace millrace {

struct Callable {
  std::shared_ptr<const Executable> executable;
  RunOptions options;
  Session::CallableHandle handle = -1;
};

// The callables of a session by handle. Find takes no lock. A handle is a place and the number of callables
// that existed before, so that no handle is reused although places are. Thread-safe.
class CallableTable {
 public:
  explicit CallableTable(Reclaimer& reclaimer) : reclaimer_(reclaimer) {}
  ~CallableTable();

  // ResourceExhausted when there are kChunk * kMaxChunks callables.
  StatusOr<Session::CallableHandle> Add(std::unique_ptr<Callable> callable) MR_EXCLUDES(mu_);
  // Null for an unknown handle. The result lives as long as a Reclaimer::Reader that began before.
  const Callable* Find(Session::CallableHandle handle) const;
  // False for an unknown handle. Runs in progress end normally.
  bool Release(Session::CallableHandle handle) MR_EXCLUDES(mu_);

 private:
  static constexpr int64_t kChunk = 256;
  static constexpr int64_t kMaxChunks = 4096;
  static constexpr int64_t kPlaces = kChunk * kMaxChunks;
  using Chunk = std::array<std::atomic<Callable*>, kChunk>;

  Reclaimer& reclaimer_;
  Mutex mu_;
  int64_t used_places_ MR_GUARDED_BY(mu_) = 0;                    // places that have had a callable
  std::vector<Session::CallableHandle> free_ MR_GUARDED_BY(mu_);  // the next handles of free places
  std::array<std::atomic<Chunk*>, kMaxChunks> chunks_ = {};
};

}  // namespace millrace
