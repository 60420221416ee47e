// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/register.h"

#include "kernels/cpu/audio/kernels.h"
#include "kernels/cpu/input_kernels.h"
#include "kernels/cpu/quantized/kernels.h"
#include "kernels/cpu/recurrent/kernels.h"
#include "kernels/cpu/value_kernels.h"
#include "kernels/cpu/volume/kernels.h"

namespace millrace {

void RegisterCpuKernels(KernelRegistry& registry) {
  RegisterAccumulatorKernels(registry);
  RegisterAddNKernels(registry);
  RegisterArgReduceKernels(registry);
  RegisterAudioKernels(registry);
  RegisterBarrierKernels(registry);
  RegisterBinaryMathKernels(registry);
  RegisterBincountKernels(registry);
  RegisterBroadcastKernels(registry);
  RegisterCallFrameKernels(registry);
  RegisterCandidateSamplerKernels(registry);
  RegisterFunctionalKernels(registry);
  RegisterFusedElementwiseKernels(registry);
  RegisterCastKernels(registry);
  RegisterCheckpointKernels(registry);
  RegisterCheckpointRemapKernels(registry);
  RegisterConcatKernels(registry);
  RegisterConstantKernels(registry);
  RegisterControlFlowKernels(registry);
  RegisterDecodeCsvKernels(registry);
  RegisterCumulativeLogsumexpKernels(registry);
  RegisterDataFormatKernels(registry);
  RegisterDecodeKernels(registry);
  RegisterFileKernels(registry);
  RegisterGatherKernels(registry);
  RegisterIdentityKernels(registry);
  RegisterImageKernels(registry);
  RegisterLinalgKernels(registry);
  RegisterLoggingKernels(registry);
  RegisterMapStagingKernels(registry);
  RegisterMutexKernels(registry);
  RegisterNnKernels(registry);
  RegisterOneHotKernels(registry);
  RegisterPadKernels(registry);
  RegisterParseExampleKernels(registry);
  RegisterPartitionKernels(registry);
  RegisterQuantizedKernels(registry);
  RegisterQueueKernels(registry);
  RegisterRandomKernels(registry);
  RegisterRangeKernels(registry);
  RegisterReaderKernels(registry);
  RegisterRecurrentKernels(registry);
  RegisterReductionKernels(registry);
  RegisterRefVariableKernels(registry);
  RegisterResourceVariableKernels(registry);
  RegisterReverseKernels(registry);
  RegisterScanKernels(registry);
  RegisterScatterKernels(registry);
  RegisterScatterNdKernels(registry);
  RegisterReverseSequenceKernels(registry);
  RegisterInplaceKernels(registry);
  RegisterSearchKernels(registry);
  RegisterSegmentKernels(registry);
  RegisterSelectKernels(registry);
  RegisterSendRecvKernels(registry);
  RegisterSessionTensorKernels(registry);
  RegisterShapeKernels(registry);
  RegisterSliceKernels(registry);
  RegisterSparseKernels(registry);
  RegisterSplitKernels(registry);
  RegisterStackKernels(registry);
  RegisterStagingKernels(registry);
  RegisterStringKernels(registry);
  RegisterTableKernels(registry);
  RegisterTernaryMathKernels(registry);
  RegisterWord2vecKernels(registry);
  RegisterTensorArrayKernels(registry);
  RegisterTensorListKernels(registry);
  RegisterTrainingKernels(registry);
  RegisterTransposeKernels(registry);
  RegisterUnaryMathKernels(registry);
  RegisterVolumeKernels(registry);
}

}  // namespace millrace
