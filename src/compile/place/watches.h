// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "compile/place/placer.h"
#include "graph/graph.h"
#include "millrace/debug_watch.h"
#include "millrace/status.h"

namespace millrace {

// Adds to a placed graph the nodes that write watched tensors to files, on the devices of the tensors, and
// returns their number. Watches of nonexistent nodes and outputs are ignored, and those of tensors without
// values of their own (resources, variants). Changes of a reference wait until its value has been written.
// Unimplemented for a URL that is not a file's, InvalidArgument for an attribute that a debug op does not
// have, FailedPrecondition for an op that is not a debug op or has no kernel for the tensor's type.
StatusOr<int> AddWatches(Graph* graph, std::span<const DebugWatch> watches, const PlaceOptions& options);

}  // namespace millrace
