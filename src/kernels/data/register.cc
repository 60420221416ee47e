// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/data/register.h"

namespace millrace {

void RegisterDataKernels(KernelRegistry& registry) {
  data::RegisterBasicDatasets(registry);
  data::RegisterBatchDatasets(registry);
  data::RegisterBranchDatasets(registry);
  data::RegisterCacheDatasets(registry);
  data::RegisterConsumingKernels(registry);
  data::RegisterCsvDatasets(registry);
  data::RegisterDatasetGraphKernels(registry);
  data::RegisterDirectedDatasets(registry);
  data::RegisterFileDatasets(registry);
  data::RegisterGeneratorDatasets(registry);
  data::RegisterGroupDatasets(registry);
  data::RegisterInterleaveDatasets(registry);
  data::RegisterIteratorKernels(registry);
  data::RegisterLmdbDatasets(registry);
  data::RegisterMapDatasets(registry);
  data::RegisterMiscDatasets(registry);
  data::RegisterMultiDeviceKernels(registry);
  data::RegisterOptionalKernels(registry);
  data::RegisterParallelInterleaveDatasets(registry);
  data::RegisterParallelMapDatasets(registry);
  data::RegisterParseExampleDatasets(registry);
  data::RegisterPrefetchDatasets(registry);
  data::RegisterRewritingDatasets(registry);
  data::RegisterShuffleDatasets(registry);
  data::RegisterSnapshotDatasets(registry);
  data::RegisterSourceDatasets(registry);
  data::RegisterSqlDatasets(registry);
  data::RegisterStatsDatasets(registry);
  data::RegisterWindowDatasets(registry);
}

}  // namespace millrace
