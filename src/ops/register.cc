// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/register.h"

#include "ops/nn_spatial.h"

namespace millrace {

Status RegisterAllOps(OpRegistry& registry) {
  for (const auto family : {RegisterArrayOps,
                            RegisterArrayBlockOps,
                            RegisterCheckpointOps,
                            RegisterControlFlowOps,
                            RegisterCoordinationOps,
                            RegisterDataFlowOps,
                            RegisterFunctionalOps,
                            RegisterFusedOps,
                            RegisterImageOps,
                            RegisterIoOps,
                            RegisterLinalgOps,
                            RegisterLoggingOps,
                            RegisterLookupOps,
                            RegisterMathOps,
                            RegisterNnOps,
                            RegisterNnSpatialOps,
                            RegisterNoOp,
                            RegisterParsingOps,
                            RegisterPartitionOps,
                            RegisterRandomOps,
                            RegisterResourceOps,
                            RegisterSendRecvOps,
                            RegisterSparseOps,
                            RegisterStateOps,
                            RegisterStringOps,
                            RegisterSummaryOps,
                            RegisterTensorArrayOps,
                            RegisterTrainingOps}) {
    MR_RETURN_IF_ERROR(family(registry));
  }
  return Status::Ok();
}

}  // namespace millrace
