// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "millrace/monitored_session.h"
#include "millrace/replicas.h"
#include "training/save_guard.h"

namespace millrace {

// A session of a worker that is the chief while `lease` says so. `chief_hooks` are called while it is the
// chief; they always add their nodes. A chief acquires `guard`, unless that is null. When the role changes,
// the session is created again: as chief from existing variables, or else from the checkpoint; as another
// worker after waiting for them.
StatusOr<std::unique_ptr<MonitoredSession>> MakeLeasedSession(const Scope& scope,
                                                              const MonitoredTrainingSessionOptions& options,
                                                              const std::shared_ptr<Scaffold>& scaffold,
                                                              const std::shared_ptr<SaveGuard>& guard,
                                                              const Hooks& chief_hooks, const Hooks& hooks);

}  // namespace millrace
