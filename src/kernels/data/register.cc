// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/data/register.h"

namespace millrace {

void RegisterDataKernels(KernelRegistry& registry) {
  data::RegisterBasicDatasets(registry);
  data::RegisterBatchDatasets(registry);
  data::RegisterCacheDatasets(registry);
  data::RegisterConsumingKernels(registry);
  data::RegisterDirectedDatasets(registry);
  data::RegisterFileDatasets(registry);
  data::RegisterGeneratorDatasets(registry);
  data::RegisterGroupDatasets(registry);
  data::RegisterInterleaveDatasets(registry);
  data::RegisterIteratorKernels(registry);
  data::RegisterMapDatasets(registry);
  data::RegisterMiscDatasets(registry);
  data::RegisterOptionalKernels(registry);
  data::RegisterParallelMapDatasets(registry);
  data::RegisterPrefetchDatasets(registry);
  data::RegisterShuffleDatasets(registry);
  data::RegisterSourceDatasets(registry);
  data::RegisterWindowDatasets(registry);
}

}  // namespace millrace
