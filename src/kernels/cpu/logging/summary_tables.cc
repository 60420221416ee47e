// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/logging/summary_tables.h"

#include <cstdint>

namespace millrace {
namespace {

struct Table {
  const char* name;
  const char* columns;
};

// "rowid" is the order of the rows on the disk; the other ids are random numbers, unique by the table Ids.
constexpr Table kTables[] = {
    // All ids of users, experiments, runs, tags and graphs.
    {"Ids", "id INTEGER PRIMARY KEY"},
    {"Descriptions", "id INTEGER PRIMARY KEY, description TEXT"},
    // series: a tag_id. dtype: of tensorflow.DataType. shape: sizes separated by commas. data: the
    // elements, or the string of a scalar; NULL for other string tensors, whose elements are in
    // TensorStrings.
    {"Tensors",
     "rowid INTEGER PRIMARY KEY, series INTEGER, step INTEGER, dtype INTEGER, computed_time REAL, shape "
     "TEXT, "
     "data BLOB"},
    {"TensorStrings",
     "rowid INTEGER PRIMARY KEY, tensor_rowid INTEGER NOT NULL, idx INTEGER NOT NULL, data BLOB"},
    {"Tags",
     "rowid INTEGER PRIMARY KEY, run_id INTEGER, tag_id INTEGER NOT NULL, inserted_time DOUBLE, tag_name "
     "TEXT, "
     "display_name TEXT, plugin_name TEXT, plugin_data BLOB"},
    {"Runs",
     "rowid INTEGER PRIMARY KEY, experiment_id INTEGER, run_id INTEGER NOT NULL, inserted_time REAL, "
     "started_time REAL, finished_time REAL, run_name TEXT"},
    {"Experiments",
     "rowid INTEGER PRIMARY KEY, user_id INTEGER, experiment_id INTEGER NOT NULL, inserted_time REAL, "
     "started_time REAL, is_watching INTEGER, experiment_name TEXT"},
    {"Users",
     "rowid INTEGER PRIMARY KEY, user_id INTEGER NOT NULL, inserted_time REAL, user_name TEXT, email TEXT"},
    // graph_def: without the nodes.
    {"Graphs",
     "rowid INTEGER PRIMARY KEY, run_id INTEGER, graph_id INTEGER NOT NULL, inserted_time REAL, "
     "graph_def BLOB"},
    // node_id: the index in the graph. node_def: the fields that are not in other columns or in NodeInputs.
    {"Nodes",
     "rowid INTEGER PRIMARY KEY, graph_id INTEGER NOT NULL, node_id INTEGER NOT NULL, node_name TEXT, op "
     "TEXT, "
     "device TEXT, node_def BLOB"},
    {"NodeInputs",
     "rowid INTEGER PRIMARY KEY, graph_id INTEGER NOT NULL, node_id INTEGER NOT NULL, idx INTEGER NOT NULL, "
     "input_node_id INTEGER NOT NULL, input_node_idx INTEGER, is_control INTEGER"},
};

// The columns that are unique together.
constexpr Table kIndices[] = {
    {"TensorSeriesStepIndex", "Tensors (series, step) WHERE series IS NOT NULL AND step IS NOT NULL"},
    {"TensorStringIndex", "TensorStrings (tensor_rowid, idx)"},
    {"TagIdIndex", "Tags (tag_id)"},
    {"TagRunNameIndex", "Tags (run_id, tag_name) WHERE run_id IS NOT NULL AND tag_name IS NOT NULL"},
    {"RunIdIndex", "Runs (run_id)"},
    {"RunNameIndex", "Runs (experiment_id, run_name) WHERE run_name IS NOT NULL"},
    {"ExperimentIdIndex", "Experiments (experiment_id)"},
    {"ExperimentNameIndex", "Experiments (user_id, experiment_name) WHERE experiment_name IS NOT NULL"},
    {"UserIdIndex", "Users (user_id)"},
    {"UserNameIndex", "Users (user_name) WHERE user_name IS NOT NULL"},
    {"UserEmailIndex", "Users (email) WHERE email IS NOT NULL"},
    {"GraphIdIndex", "Graphs (graph_id)"},
    {"GraphRunIndex", "Graphs (run_id) WHERE run_id IS NOT NULL"},
    {"NodeIdIndex", "Nodes (graph_id, node_id)"},
    {"NodeNameIndex", "Nodes (graph_id, node_name) WHERE node_name IS NOT NULL"},
    {"NodeInputsIndex", "NodeInputs (graph_id, node_id, idx)"},
};

// The application id in the header of the file: 0xfeedabee, which SQLite writes as a signed number.
constexpr int32_t kApplication = -17978386;
static_assert(static_cast<uint32_t>(kApplication) == 0xfeedabee);

}  // namespace

Status MakeSummaryTables(SqliteDatabase& database) {
  MR_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(database));
  MR_RETURN_IF_ERROR(database.Run(StrCat("PRAGMA application_id=", kApplication)));
  MR_RETURN_IF_ERROR(database.Run("PRAGMA user_version=0"));
  for (const auto& [name, columns] : kTables)
    MR_RETURN_IF_ERROR(database.Run(StrCat("CREATE TABLE IF NOT EXISTS ", name, " (", columns, ")")));
  for (const auto& [name, columns] : kIndices)
    MR_RETURN_IF_ERROR(database.Run(StrCat("CREATE UNIQUE INDEX IF NOT EXISTS ", name, " ON ", columns)));
  return transaction.Commit();
}

}  // namespace millrace
