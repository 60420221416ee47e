// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>

#include "base/function.h"
#include "graph/graph.h"
#include "kernel/op_kernel.h"
#include "millrace/status.h"

namespace millrace {

// The nodes that copy between host memory and a device's, and whether into host memory.
using MemoryCopies = std::map<const Node*, bool>;

// Of a device with memory of its own: where a node's output is in one memory and a consumer wants it in the
// other, puts a node between them that copies it, one for all such consumers. In the graph it is an Identity
// with the attribute "_memory", "host" or "device"; its kernel is MakeMemoryCopy's. So what has to be copied
// is known before the first step, and steps ask nothing.
StatusOr<MemoryCopies> InsertMemoryCopies(Graph* graph,
                                          FunctionRef<StatusOr<KernelMemory>(const Node&)> memory_of);

// The kernel of such a node.
std::unique_ptr<OpKernel> MakeMemoryCopy(KernelConstruction& construction, bool to_host);

}  // namespace millrace
