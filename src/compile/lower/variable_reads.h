// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// In TensorFlow a value that was read from a reference variable is the variable's memory: a node that
// uses it after an update of the variable gets the new value, even if the read came first. Here the value
// of a read does not change. So inputs that come from a read through nodes that only pass a value on
// (Identity, Switch, the Enter of a loop constant), and that belong to nodes which run after an update of
// the variable that is not before the read, take the reference itself, which is read when the node runs;
// they still wait for the read. Nodes on other devices keep their inputs. Returns the number of changed
// inputs.
StatusOr<int> ReadVariablesLate(Graph* graph);

}  // namespace millrace
