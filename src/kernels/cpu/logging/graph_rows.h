// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/logging/sqlite_database.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace millrace {

// Writes the nodes of a graph to the tables Nodes and NodeInputs. DataLoss for inputs that are not names of
// nodes.
Status WriteNodes(SqliteDatabase& database, int64_t graph_id, const tensorflow::GraphDef& graph);

}  // namespace millrace
