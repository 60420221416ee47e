// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/register.h"

#include "ops/nn_spatial.h"
#include "ops/value_ops.h"
#include "ops/volume.h"

namespace millrace {
namespace {

// The ops of TensorFlow 1.15 that no family registers.
constexpr std::string_view kDeclaredOps =
#include "ops/declared_ops.def"
    ;

}  // namespace

Status RegisterAllOps(OpRegistry& registry) {
  for (const auto family :
       {RegisterArrayOps,      RegisterArrayBlockOps,  RegisterArrayValueOps,   RegisterCandidateOps,
        RegisterCheckpointOps, RegisterControlFlowOps, RegisterCoordinationOps, RegisterDataOps,
        RegisterDataFlowOps,   RegisterFunctionalOps,  RegisterFusedOps,        RegisterImageOps,
        RegisterIoOps,         RegisterLinalgOps,      RegisterLoggingOps,      RegisterLookupOps,
        RegisterMathOps,       RegisterNnOps,          RegisterNnSpatialOps,    RegisterNoOp,
        RegisterParsingOps,    RegisterPartitionOps,   RegisterRandomOps,       RegisterResourceOps,
        RegisterSendRecvOps,   RegisterSparseMathOps,  RegisterSparseOps,       RegisterSpecialMathOps,
        RegisterStateOps,      RegisterStringOps,      RegisterSummaryOps,      RegisterTensorArrayOps,
        RegisterTensorListOps, RegisterTrainingOps,    RegisterAudioOps,        RegisterMatrixOps,
        RegisterQuantizedOps,  RegisterRecurrentOps,   RegisterSpectralOps,     RegisterVolumeOps}) {
    MR_RETURN_IF_ERROR(family(registry));
  }
  registry.Declare(kDeclaredOps);
  return Status::Ok();
}

}  // namespace millrace
