// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/data/register.h"

namespace millrace {

void RegisterDataKernels(KernelRegistry& registry) {
  data::RegisterBasicDatasets(registry);
  data::RegisterBatchDatasets(registry);
  data::RegisterCacheDatasets(registry);
  data::RegisterConsumingKernels(registry);
  data::RegisterCsvDatasets(registry);
  data::RegisterDirectedDatasets(registry);
  data::RegisterFileDatasets(registry);
  data::RegisterGeneratorDatasets(registry);
  data::RegisterGroupDatasets(registry);
  data::RegisterInterleaveDatasets(registry);
  data::RegisterIteratorKernels(registry);
  data::RegisterMapDatasets(registry);
  data::RegisterMiscDatasets(registry);
  data::RegisterMultiDeviceKernels(registry);
  data::RegisterOptionalKernels(registry);
  data::RegisterParallelInterleaveDatasets(registry);
  data::RegisterParallelMapDatasets(registry);
  data::RegisterParseExampleDatasets(registry);
  data::RegisterPrefetchDatasets(registry);
  data::RegisterShuffleDatasets(registry);
  data::RegisterSourceDatasets(registry);
  data::RegisterStatsDatasets(registry);
  data::RegisterWindowDatasets(registry);
}

}  // namespace millrace
