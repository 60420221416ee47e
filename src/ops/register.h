// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"
#include "op/op_registry.h"

namespace millrace {

// Each puts the ops of one family into the registry: signature, shape function and traits. Calling one twice
// is fine.
Status RegisterArrayOps(OpRegistry& registry);
Status RegisterCheckpointOps(OpRegistry& registry);
Status RegisterControlFlowOps(OpRegistry& registry);
Status RegisterCoordinationOps(OpRegistry& registry);
Status RegisterDataOps(OpRegistry& registry);
Status RegisterDataFlowOps(OpRegistry& registry);
Status RegisterFunctionalOps(OpRegistry& registry);
Status RegisterFusedOps(OpRegistry& registry);
Status RegisterImageOps(OpRegistry& registry);
Status RegisterIoOps(OpRegistry& registry);
Status RegisterLinalgOps(OpRegistry& registry);
Status RegisterLoggingOps(OpRegistry& registry);
Status RegisterLookupOps(OpRegistry& registry);
Status RegisterMathOps(OpRegistry& registry);
Status RegisterNnOps(OpRegistry& registry);
Status RegisterNoOp(OpRegistry& registry);
Status RegisterParsingOps(OpRegistry& registry);
Status RegisterPartitionOps(OpRegistry& registry);
Status RegisterRandomOps(OpRegistry& registry);
Status RegisterResourceOps(OpRegistry& registry);
Status RegisterSendRecvOps(OpRegistry& registry);
Status RegisterSparseMathOps(OpRegistry& registry);
Status RegisterSparseOps(OpRegistry& registry);
Status RegisterStateOps(OpRegistry& registry);
Status RegisterStringOps(OpRegistry& registry);
Status RegisterTensorArrayOps(OpRegistry& registry);
Status RegisterTensorListOps(OpRegistry& registry);
Status RegisterTrainingOps(OpRegistry& registry);

// All of the above.
Status RegisterAllOps(OpRegistry& registry);

}  // namespace millrace
