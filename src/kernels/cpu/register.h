// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// One function per family; each registers the kernels of its file for the device type "CPU".
void RegisterAccumulatorKernels(KernelRegistry& registry);
void RegisterAddNKernels(KernelRegistry& registry);
void RegisterArgReduceKernels(KernelRegistry& registry);
void RegisterBarrierKernels(KernelRegistry& registry);
void RegisterBincountKernels(KernelRegistry& registry);
void RegisterBinaryMathKernels(KernelRegistry& registry);
void RegisterBroadcastKernels(KernelRegistry& registry);
void RegisterCallFrameKernels(KernelRegistry& registry);
void RegisterFunctionalKernels(KernelRegistry& registry);
void RegisterFusedElementwiseKernels(KernelRegistry& registry);
void RegisterCastKernels(KernelRegistry& registry);
void RegisterCheckpointKernels(KernelRegistry& registry);
void RegisterCheckpointRemapKernels(KernelRegistry& registry);
void RegisterConcatKernels(KernelRegistry& registry);
void RegisterConstantKernels(KernelRegistry& registry);
void RegisterControlFlowKernels(KernelRegistry& registry);
void RegisterFileKernels(KernelRegistry& registry);
void RegisterGatherKernels(KernelRegistry& registry);
void RegisterIdentityKernels(KernelRegistry& registry);
void RegisterImageKernels(KernelRegistry& registry);
void RegisterLinalgKernels(KernelRegistry& registry);
void RegisterLoggingKernels(KernelRegistry& registry);
void RegisterMapStagingKernels(KernelRegistry& registry);
void RegisterMutexKernels(KernelRegistry& registry);
void RegisterOneHotKernels(KernelRegistry& registry);
void RegisterPadKernels(KernelRegistry& registry);
void RegisterQueueKernels(KernelRegistry& registry);
void RegisterRandomKernels(KernelRegistry& registry);
void RegisterRangeKernels(KernelRegistry& registry);
void RegisterReaderKernels(KernelRegistry& registry);
void RegisterReductionKernels(KernelRegistry& registry);
void RegisterRefVariableKernels(KernelRegistry& registry);
void RegisterResourceVariableKernels(KernelRegistry& registry);
void RegisterReverseKernels(KernelRegistry& registry);
void RegisterScanKernels(KernelRegistry& registry);
void RegisterScatterKernels(KernelRegistry& registry);
void RegisterScatterNdKernels(KernelRegistry& registry);
void RegisterSegmentKernels(KernelRegistry& registry);
void RegisterSelectKernels(KernelRegistry& registry);
void RegisterSendRecvKernels(KernelRegistry& registry);
void RegisterSessionTensorKernels(KernelRegistry& registry);
void RegisterShapeKernels(KernelRegistry& registry);
void RegisterSliceKernels(KernelRegistry& registry);
void RegisterSplitKernels(KernelRegistry& registry);
void RegisterStackKernels(KernelRegistry& registry);
void RegisterStagingKernels(KernelRegistry& registry);
void RegisterTableKernels(KernelRegistry& registry);
void RegisterTensorArrayKernels(KernelRegistry& registry);
void RegisterTensorListKernels(KernelRegistry& registry);
void RegisterTensorListRowKernels(KernelRegistry& registry);
void RegisterTrainingKernels(KernelRegistry& registry);
void RegisterTransposeKernels(KernelRegistry& registry);
void RegisterUnaryMathKernels(KernelRegistry& registry);

// Neural networks: contraction, convolution, pooling, softmax, biases and activations (nn_*.cc).
void RegisterNnKernels(KernelRegistry& registry);

// All of them.
void RegisterCpuKernels(KernelRegistry& registry);

}  // namespace millrace
