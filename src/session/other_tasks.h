// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "millrace/session.h"
#include "step/local_worker.h"
#include "step/step_compiler.h"
#include "step/worker.h"

namespace millrace {

// The other tasks of a session. Made by the owner of the connections; owned by the session.
// Thread-safe.
class OtherTasks {
 public:
  // Closes the connections, when nothing of the session runs any more.
  virtual ~OtherTasks() = default;
  // Live as long as this.
  virtual std::vector<Worker*> workers() const = 0;
};

// Makes them for a session whose own worker is `own`, which outlives them. The tasks compile called functions
// with `compiler`.
using MakeOtherTasks = std::function<StatusOr<std::unique_ptr<OtherTasks>>(
    const SessionOptions& options, const CompileOptions& compiler, LocalWorker& own)>;

}  // namespace millrace
