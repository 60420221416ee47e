// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/transport.h"

#include <array>

namespace millrace {
namespace {

constexpr std::array<std::string_view, kNumMethods> kNames = {"GetStatus",
                                                              "CreateWorkerSession",
                                                              "DeleteWorkerSession",
                                                              "RegisterGraph",
                                                              "DeregisterGraph",
                                                              "RunGraph",
                                                              "CleanupGraph",
                                                              "CleanupAll",
                                                              "RecvTensor",
                                                              "Logging",
                                                              "Tracing",
                                                              "RecvBuf",
                                                              "GetStepSequence",
                                                              "CompleteGroup",
                                                              "CompleteInstance",
                                                              "CreateSession",
                                                              "ExtendSession",
                                                              "PartialRunSetup",
                                                              "RunStep",
                                                              "CloseSession",
                                                              "ListDevices",
                                                              "Reset",
                                                              "MakeCallable",
                                                              "RunCallable",
                                                              "ReleaseCallable",
                                                              "Describe",
                                                              "RecvChunk",
                                                              "OpenCalls",
                                                              "CancelCall"};

}  // namespace

ServiceKind ServiceOf(Method method) {
  if (method >= Method::kDescribe) return ServiceKind::kTask;
  return method >= Method::kCreateSession ? ServiceKind::kMaster : ServiceKind::kWorker;
}

std::string_view MethodName(Method method) {
  const auto index = static_cast<size_t>(method);
  return index < kNames.size() ? kNames[index] : "?";
}

Status TaskEnds(std::string_view task) { return errors::Unavailable("Task ", task, " ends"); }

Status NoThreadFor(Method method) {
  return errors::ResourceExhausted("Could not start a thread for ", MethodName(method));
}

std::string MethodPath(Method method) {
  switch (ServiceOf(method)) {
    case ServiceKind::kWorker:
      return StrCat("/tensorflow.WorkerService/", MethodName(method));
    case ServiceKind::kMaster:
      return StrCat("/tensorflow.MasterService/", MethodName(method));
    case ServiceKind::kTask:
      return StrCat("/millrace.TaskService/", MethodName(method));
  }
  return "";
}

}  // namespace millrace
