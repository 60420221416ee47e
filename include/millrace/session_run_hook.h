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
  // The higher trace level and the longer timeout of all hooks and the caller count.
  std::optional<RunOptions> options = {};
};

// A run as hooks see it.
class SessionRunContext {
 public:
  SessionRunContext(ClientSession& session, const std::vector<Output>& fetches)
      : session_(session), fetches_(fetches) {}

  // The session without hooks, for runs beside the one in progress.
  ClientSession& session() const { return session_; }
  // What the caller fetches.
  const std::vector<Output>& original_fetches() const { return fetches_; }
  // Ends the training after this run.
  void RequestStop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }

 private:
  ClientSession& session_;
  const std::vector<Output>& fetches_;
  bool stop_requested_ = false;
};

struct SessionRunValues {
  std::span<const Tensor> results;  // of the hook's fetches, in order
  const RunOptions& options;        // with what all hooks asked for
  const RunMetadata& metadata;      // empty unless a trace was asked for
};

// Something to do around the runs of a MonitoredSession. Hooks are called in order, all by the thread that
// runs; an error of a hook is that of the run. Nodes may be added in Begin only.
class SessionRunHook {
 public:
  virtual ~SessionRunHook() = default;

  // Once, before the session is made.
  virtual Status Begin(const Scope& /*scope*/) { return Status(); }
  // After each making of a session: the first, and those after recoveries.
  virtual Status AfterCreateSession(ClientSession& /*session*/, Coordinator& /*coordinator*/) {
    return Status();
  }
  virtual StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& /*context*/) { return SessionRunArgs(); }
  // Not when the run failed.
  virtual Status AfterRun(SessionRunContext& /*context*/, const SessionRunValues& /*values*/) {
    return Status();
  }
  // At the end, unless that is an error.
  virtual Status End(ClientSession& /*session*/) { return Status(); }
};

}  // namespace millrace
