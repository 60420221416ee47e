// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_set>

#include "compile/place/placer.h"
#include "graph/graph.h"

namespace millrace {

// Nodes with ids from `first_id` on were added by inlining and request the device of their call, except
// those in `own`, whose bodies name a device. Nodes connected by references, resource handles or
// `_class` must share a device, so the request is removed from all of them when that device is not
// possible:
// - a member has no kernel on that type of device: the task of the call remains;
// - a member that did not inherit the request is, or has to be, elsewhere: nothing remains.
void ReleaseInheritedDevices(Graph* graph, int first_id, const std::unordered_set<int>& own,
                             const HasKernelFn& has_kernel);

}  // namespace millrace
