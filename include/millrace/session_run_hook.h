// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/coordinator.h"
#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/status.h"

namespace millrace {

// What a hook adds to a run.
struct SessionRunArgs {
  std::vector<Output> fetches = {};
  ClientSession::Feeds feeds = {};
  // Merged: the highest trace level and the longest timeout of the hooks and the caller are used.
  std::optional<RunOptions> options = {};
};

// Context of a run for hooks.
class SessionRunContext {
 public:
  SessionRunContext(ClientSession& session, const std::vector<Output>& fetches)
      : session_(session), fetches_(fetches) {}

  // The session without hooks, for additional runs.
  ClientSession& session() const { return session_; }
  // The fetches of the caller.
  const std::vector<Output>& original_fetches() const { return fetches_; }
  // Requests that the training stops after this run.
  void RequestStop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }

 private:
  ClientSession& session_;
  const std::vector<Output>& fetches_;
  bool stop_requested_ = false;
};

struct SessionRunValues {
  std::span<const Tensor> results;  // of the hook's fetches, in order
  const RunOptions& options;        // merged with those of all hooks
  const RunMetadata& metadata;      // empty unless a trace was requested
};

// Callbacks around the runs of a MonitoredSession. Hooks are called in order, all by the thread that calls
// Run; an error of a hook is returned by Run. Nodes may be added in Begin only.
class SessionRunHook {
 public:
  virtual ~SessionRunHook() = default;

  // Called once, before the session is created.
  virtual Status Begin(const Scope& /*scope*/) { return Status(); }
  // Called after each creation of a session: the first, and those after recoveries.
  virtual Status AfterCreateSession(ClientSession& /*session*/, Coordinator& /*coordinator*/) {
    return Status();
  }
  virtual StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& /*context*/) { return SessionRunArgs(); }
  // Not called after a failed run.
  virtual Status AfterRun(SessionRunContext& /*context*/, const SessionRunValues& /*values*/) {
    return Status();
  }
  // Called at the end, except after an error.
  virtual Status End(ClientSession& /*session*/) { return Status(); }
};

}  // namespace millrace
