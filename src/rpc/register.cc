// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "rpc/register.h"

#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>
#include <grpcpp/health_check_service_interface.h>

#include <cstdlib>

#include "distributed/protocol.h"
#include "rpc/grpc_listener.h"
#include "rpc/grpc_transport.h"

namespace millrace {

Status RegisterGrpc() {
  static const Status registered = [] {
    // Errors are reported by statuses; gRPC's own log can be turned on.
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
    // Debian's abseil is built with detection of lock order inversions at each lock that gRPC takes; this
    // disables it.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    grpc::EnableDefaultHealthCheckService(true);
    return RegisterProtocol("grpc", {.listen = ListenWithGrpc, .connect = ConnectWithGrpc});
  }();
  return registered;
}

}  // namespace millrace
