// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "millrace/monitored_session.h"
#include "millrace/replicas.h"
#include "training/save_guard.h"

namespace millrace {

// A session of a worker that is the chief whenever `lease` says so. `chief_hooks` are called while it is the
// chief; they add their nodes in any case. A chief takes `guard`, unless that is null. When the role changes,
// the session is made again: as chief from variables that are there, or else from the checkpoint; as other
// worker by waiting for them.
StatusOr<std::unique_ptr<MonitoredSession>> MakeLeasedSession(const Scope& scope,
                                                              const MonitoredTrainingSessionOptions& options,
                                                              const std::shared_ptr<Scaffold>& scaffold,
                                                              const std::shared_ptr<SaveGuard>& guard,
                                                              const Hooks& chief_hooks, const Hooks& hooks);

}  // namespace millrace
