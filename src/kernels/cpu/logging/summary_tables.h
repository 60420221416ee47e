// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/logging/sqlite_database.h"

namespace millrace {

// Makes the tables and indices of TensorBoard's databases of TensorFlow 1.15 that are not there yet.
Status MakeSummaryTables(SqliteDatabase& database);

}  // namespace millrace
