// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shard: a loop on the threads of the step.
#ifndef TENSORFLOW_CORE_UTIL_WORK_SHARDER_H_
#define TENSORFLOW_CORE_UTIL_WORK_SHARDER_H_

#include <functional>

#include "tensorflow/core/framework/op_kernel.h"

namespace tensorflow {

// `workers` is that of context->device()->tensorflow_cpu_worker_threads(); `cost_per_unit` is in cycles,
// approximately.
inline void Shard(int /*max_parallelism*/, OpKernelContext* workers, int64 total, int64 cost_per_unit,
                  std::function<void(int64, int64)> work) {
  workers->ParallelFor(total, cost_per_unit, work);
}

}  // namespace tensorflow

#endif
