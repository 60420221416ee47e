// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/cancellation.h"
#include "base/function.h"
#include "distributed/message_bytes.h"
#include "millrace/status.h"

namespace millrace {

// The methods of a task: TensorFlow's WorkerService, which tasks call of each other, its MasterService, which
// clients call, and methods of Millrace.
enum class Method {
  kGetStatus,
  kCreateWorkerSession,
  kDeleteWorkerSession,
  kRegisterGraph,
  kDeregisterGraph,
  kRunGraph,
  kCleanupGraph,
  kCleanupAll,
  kRecvTensor,
  kLogging,
  kTracing,
  kRecvBuf,
  kGetStepSequence,
  kCompleteGroup,
  kCompleteInstance,
  kCreateSession,
  kExtendSession,
  kPartialRunSetup,
  kRunStep,
  kCloseSession,
  kListDevices,
  kReset,
  kMakeCallable,
  kRunCallable,
  kReleaseCallable,
  kDescribe,    // the state of the task as JSON
  kRecvChunk,   // a part of a tensor, see MessageChannel
  kOpenCalls,   // requests a port for further calls, see CallTransport
  kCancelCall,  // a call in progress; used within transports
};
inline constexpr int kNumMethods = static_cast<int>(Method::kCancelCall) + 1;

enum class ServiceKind { kWorker, kMaster, kTask };
ServiceKind ServiceOf(Method method);
// "RunGraph".
std::string_view MethodName(Method method);
// The reply to a call that needs a thread of its own when the system cannot start one.
Status NoThreadFor(Method method);
// The error of a step or a call because `task` ends.
Status TaskEnds(std::string_view task);
// "/tensorflow.WorkerService/RunGraph".
std::string MethodPath(Method method);

// Reads the request message of the method.
template <typename Request>
Status ParseRequest(Method method, const MessageBytes& bytes, Request* request) {
  if (bytes.ParseInto(request)) return Status();
  return errors::InvalidArgument("The request of ", MethodName(method), " is not a message");
}

// The answer to a call: an error, or the serialised response message of the method.
using Reply = UniqueFunction<void(Status status, MessageBytes response)>;

// One call of another task.
struct RemoteCall {
  std::string task;  // "/job:…/replica:…/task:…"
  Method method = Method::kGetStatus;
  MessageBytes request = {};  // the request message of the method
  // Of the whole call; 0: none.
  int64_t timeout_in_ms = 0;
  // How long the task may be unreachable or silent before the call is ended; 0: the default of the transport,
  // and a task that refuses connections is not waited for.
  int64_t patience_in_ms = 0;
  // When not null, cancelling it asks the other task to stop. It must live until the reply.
  CancellationManager* cancellation = nullptr;
};

// Carries calls to the services of other tasks. Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;
  // Calls `reply` once, on a thread of the transport or on this one, with no lock held. Unavailable, naming
  // the task, when it can't be reached. The reply to a cancelled call may be an error or not. It comes when
  // the other task has stopped, or after a time limit of the transport.
  virtual void Start(RemoteCall call, Reply reply) = 0;
};

}  // namespace millrace
