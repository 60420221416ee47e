// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// The kernels of datasets and iterators, for the device type "CPU". REQUIRES: the ops are registered.
void RegisterDataKernels(KernelRegistry& registry);

namespace data {
// One function per file.
void RegisterBasicDatasets(KernelRegistry& registry);
void RegisterBatchDatasets(KernelRegistry& registry);
void RegisterBranchDatasets(KernelRegistry& registry);
void RegisterCacheDatasets(KernelRegistry& registry);
void RegisterConsumingKernels(KernelRegistry& registry);
void RegisterCsvDatasets(KernelRegistry& registry);
void RegisterDatasetGraphKernels(KernelRegistry& registry);
void RegisterDirectedDatasets(KernelRegistry& registry);
void RegisterFileDatasets(KernelRegistry& registry);
void RegisterGeneratorDatasets(KernelRegistry& registry);
void RegisterGroupDatasets(KernelRegistry& registry);
void RegisterInterleaveDatasets(KernelRegistry& registry);
void RegisterIteratorKernels(KernelRegistry& registry);
void RegisterLmdbDatasets(KernelRegistry& registry);
void RegisterMapDatasets(KernelRegistry& registry);
void RegisterMiscDatasets(KernelRegistry& registry);
void RegisterMultiDeviceKernels(KernelRegistry& registry);
void RegisterOptionalKernels(KernelRegistry& registry);
void RegisterParallelInterleaveDatasets(KernelRegistry& registry);
void RegisterParallelMapDatasets(KernelRegistry& registry);
void RegisterParseExampleDatasets(KernelRegistry& registry);
void RegisterPrefetchDatasets(KernelRegistry& registry);
void RegisterRewritingDatasets(KernelRegistry& registry);
void RegisterShuffleDatasets(KernelRegistry& registry);
void RegisterSnapshotDatasets(KernelRegistry& registry);
void RegisterSourceDatasets(KernelRegistry& registry);
void RegisterSqlDatasets(KernelRegistry& registry);
void RegisterStatsDatasets(KernelRegistry& registry);
void RegisterWindowDatasets(KernelRegistry& registry);
}  // namespace data

}  // namespace millrace
