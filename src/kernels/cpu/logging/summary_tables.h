// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/logging/sqlite_database.h"

namespace millrace {

// Creates the missing tables and indices of the databases of TensorFlow 1.15's TensorBoard.
Status MakeSummaryTables(SqliteDatabase& database);

}  // namespace millrace
