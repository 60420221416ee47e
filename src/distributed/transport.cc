// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/transport.h"

namespace millrace {

std::string_view WorkerMethodName(WorkerMethod method) {
  switch (method) {
    case WorkerMethod::kGetStatus:
      return "GetStatus";
    case WorkerMethod::kRegisterGraph:
      return "RegisterGraph";
    case WorkerMethod::kDeregisterGraph:
      return "DeregisterGraph";
    case WorkerMethod::kRunGraph:
      return "RunGraph";
    case WorkerMethod::kCleanupGraph:
      return "CleanupGraph";
    case WorkerMethod::kCleanupAll:
      return "CleanupAll";
    case WorkerMethod::kRecvTensor:
      return "RecvTensor";
  }
  return "?";
}

}  // namespace millrace
