// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Rewrites of input pipelines, by the names that "optimizations" of an OptimizeDataset has.
struct DatasetRewrite {
  const char* name;
  const char* what;
};
std::span<const DatasetRewrite> DatasetRewrites();

// Rewrites the datasets that OptimizeDataset nodes read, as their constant "optimizations" say; names that
// are not among DatasetRewrites have no effect. The elements and their order stay the same, but for
// "shuffle_and_repeat_fusion", after which each epoch has the same elements in another random order. What
// reads a dataset that others read too is rewritten, and the dataset itself is left as it is. Functions that
// this makes go into the graph's library. Returns how many rewrites were done.
StatusOr<int> RewriteDatasets(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
