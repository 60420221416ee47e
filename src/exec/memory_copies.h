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

// The nodes that copy between host memory and a device's, and whether to host memory.
using MemoryCopies = std::map<const Node*, bool>;

// For a device with memory of its own: if a node's output is in one memory and a consumer needs it in the
// other, inserts a node that copies it, one for all such consumers. In the graph it is an Identity with the
// attribute "_memory", "host" or "device"; its kernel is MakeMemoryCopy's. So the copies are known before the
// first step, and steps make no decisions about them.
StatusOr<MemoryCopies> InsertMemoryCopies(Graph* graph,
                                          FunctionRef<StatusOr<KernelMemory>(const Node&)> memory_of);

// The kernel of such a node.
std::unique_ptr<OpKernel> MakeMemoryCopy(KernelConstruction& construction, bool to_host);

}  // namespace millrace
