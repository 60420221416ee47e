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

// Rewrites the datasets that OptimizeDataset nodes read, according to their constant "optimizations"; names
// that are not among DatasetRewrites have no effect. The elements and their order stay the same, except after
// "shuffle_and_repeat_fusion", where each epoch has the same elements in another random order. A dataset that
// others read too is not changed, only its reader. New functions are added to the graph's library. Returns
// the number of rewrites.
StatusOr<int> RewriteDatasets(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
