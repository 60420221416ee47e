// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/register.h"

namespace millrace {

Status RegisterAllOps(OpRegistry& registry) {
  for (const auto family :
       {RegisterArrayOps,    RegisterCheckpointOps, RegisterControlFlowOps, RegisterCoordinationOps,
        RegisterDataFlowOps, RegisterFunctionalOps, RegisterFusedOps,       RegisterImageOps,
        RegisterIoOps,       RegisterLoggingOps,    RegisterLookupOps,      RegisterMathOps,
        RegisterNnOps,       RegisterNoOp,          RegisterRandomOps,      RegisterResourceOps,
        RegisterSendRecvOps, RegisterStateOps,      RegisterTensorArrayOps, RegisterTrainingOps}) {
    MR_RETURN_IF_ERROR(family(registry));
  }
  return Status::Ok();
}

}  // namespace millrace
