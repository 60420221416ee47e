// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Linking this object file registers the protocol before main() runs.
#include "base/logging.h"
#include "rpc/register.h"

namespace millrace {

// Has a name, so that a program that links libmillrace.a can ask the linker for this file.
extern const bool grpc_registered;
const bool grpc_registered = [] {
  const Status status = RegisterGrpc();
  if (!status.ok()) MR_LOG(Error) << "Registration of gRPC failed: " << status;
  return status.ok();
}();

}  // namespace millrace
