// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/cancellation.h"
#include "base/function.h"
#include "millrace/status.h"

namespace millrace {

// The methods of TensorFlow's WorkerService that tasks call of one another.
enum class WorkerMethod {
  kGetStatus,
  kRegisterGraph,
  kDeregisterGraph,
  kRunGraph,
  kCleanupGraph,
  kCleanupAll,
  kRecvTensor,
};
// "RunGraph".
std::string_view WorkerMethodName(WorkerMethod method);

// The answer to a call: an error, or the serialised response message of the method.
using WorkerReply = UniqueFunction<void(Status status, std::string response)>;

// One call of another task.
struct WorkerCall {
  std::string task;  // "/job:…/replica:…/task:…"
  WorkerMethod method = WorkerMethod::kGetStatus;
  std::string request;        // the serialised request message of the method
  int64_t timeout_in_ms = 0;  // 0: none
  // When not null, cancelling it asks the other task to stop. It must live until the reply.
  CancellationManager* cancellation = nullptr;
};

// Carries calls to the worker services of other tasks. Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;
  // Calls `reply` once, on a thread of the transport or on this one, with no lock held. Unavailable when the
  // task can't be reached. The reply to a call that was cancelled may be an error or not, and comes when the
  // other task has stopped or can't be reached.
  virtual void Start(WorkerCall call, WorkerReply reply) = 0;
};

}  // namespace millrace
