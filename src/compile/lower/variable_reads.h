// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// In TensorFlow a value that was read from a reference variable is the variable's memory: who uses it after
// an update of the variable sees the update, even if the read came first. Here a value that was read stays
// as it was. So inputs that come from a read through nodes that only pass a value on (Identity, Switch, the
// Enter of a loop constant), and that belong to nodes which run after an update of the variable that is not
// before the read, take the reference itself, which is read when the node runs; they still wait for the read.
// Nodes on other devices than the variable's keep their inputs. Returns the number of inputs that were
// changed.
StatusOr<int> ReadVariablesLate(Graph* graph);

}  // namespace millrace
