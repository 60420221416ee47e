// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "c/internal.h"
#include "millrace/session.h"
#include "tensorflow/c/c_api.h"

struct TF_SessionOptions {
  millrace::SessionOptions options;
};

namespace millrace::c_api {

// The feeds, fetches and targets of one call, as the caller gave them.
struct RunCall {
  std::span<const TF_Output> feeds;
  std::span<const TF_Output> fetches;
  std::span<const TF_Operation* const> targets;
};

// Callables of a session by the handles in a call, so that a repeated call needs no names.
// Look-ups take no lock; entries live as long as the session, and there are at most kLimit.
// Thread-safe.
class CallableCache {
 public:
  CallableCache() = default;
  ~CallableCache();
  CallableCache(const CallableCache&) = delete;
  CallableCache& operator=(const CallableCache&) = delete;

  static uint64_t Hash(const RunCall& call);
  // -1 when there is none.
  Session::CallableHandle Find(uint64_t hash, const RunCall& call) const;
  // False, and nothing is stored, when there is no room.
  bool Insert(uint64_t hash, const RunCall& call, Session::CallableHandle handle) MR_EXCLUDES(mu_);

 private:
  struct Entry {
    uint64_t hash = 0;
    std::vector<TF_Output> feeds;
    std::vector<TF_Output> fetches;
    std::vector<const TF_Operation*> targets;
    Session::CallableHandle handle = -1;
    Entry* next = nullptr;
    bool Is(uint64_t other_hash, const RunCall& call) const;
  };
  static constexpr size_t kBuckets = 256;
  static constexpr int kLimit = 1024;

  Mutex mu_;
  int size_ MR_GUARDED_BY(mu_) = 0;
  // Heads of lists that only grow at the front; released when an entry is added, acquired by look-ups.
  std::array<std::atomic<Entry*>, kBuckets> buckets_ = {};
};

// Adds nodes to the session that were added to the graph since the last call.
Status ExtendSession(TF_Session& session);
Status ParseRunOptions(const TF_Buffer* buffer, RunOptions* options);
// Runs with options or metadata, by names.
Status RunByName(Session& session, const TF_Buffer* run_options, const Session::Feeds& feeds,
                 const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                 TF_Tensor** outputs, TF_Buffer* run_metadata);
// Returns the tensors to the caller; on error none.
Status GiveOutputs(std::vector<Tensor> tensors, TF_Tensor** outputs);
// Copies a handle for the caller, who deletes it with TF_DeletePRunHandle.
const char* NewHandle(const std::string& handle);
// Tensors by name; InvalidArgument for null ones.
StatusOr<Session::Feeds> FeedsOf(std::vector<std::string> names, TF_Tensor* const* values);

}  // namespace millrace::c_api

struct TF_Session {
  TF_Session(std::unique_ptr<millrace::Session> s, TF_Graph* g) : session(std::move(s)), graph(g) {}
  const std::unique_ptr<millrace::Session> session;
  TF_Graph* const graph;  // null: none
  millrace::c_api::CallableCache callables;
  // How much of the graph the session has; written while the graph's mutex is held.
  std::atomic<int> seen_node_ids{2};
};

struct TF_DeprecatedSession {
  std::unique_ptr<millrace::Session> session;
};

struct TF_DeviceList {
  std::vector<millrace::DeviceInfo> devices;
};
