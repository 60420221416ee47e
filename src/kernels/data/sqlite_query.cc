// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/data/sqlite_query.h"

#include <sqlite3.h>

#include <limits>

#include "base/strings.h"

namespace millrace::data {
namespace {

// The interval of checks for cancellation, in steps of SQLite's virtual machine.
constexpr int kStepsBetweenLooks = 10000;

template <typename T>
Tensor Number(sqlite3_stmt* statement, int column) {
  // As SQLite's 32-bit integers, the lowest bits of which narrower ones are.
  if constexpr (sizeof(T) < sizeof(int64_t))
    return Tensor::Scalar(static_cast<T>(sqlite3_column_int(statement, column)));
  return Tensor::Scalar(static_cast<T>(sqlite3_column_int64(statement, column)));
}

std::string Text(sqlite3_stmt* statement, int column) {
  const void* const bytes = sqlite3_column_blob(statement, column);
  const int n = sqlite3_column_bytes(statement, column);
  return bytes == nullptr ? std::string()
                          : std::string(static_cast<const char*>(bytes), static_cast<size_t>(n));
}

StatusOr<Tensor> Value(sqlite3_stmt* statement, int column, DataType type) {
  switch (type) {
    case DataType::kString:
      return Tensor::Scalar(Text(statement, column));
    case DataType::kInt8:
      return Number<int8_t>(statement, column);
    case DataType::kInt16:
      return Number<int16_t>(statement, column);
    case DataType::kInt32:
      return Number<int32_t>(statement, column);
    case DataType::kInt64:
      return Number<int64_t>(statement, column);
    case DataType::kUint8:
      return Number<uint8_t>(statement, column);
    case DataType::kUint16:
      return Number<uint16_t>(statement, column);
    case DataType::kBool:
      return Tensor::Scalar(sqlite3_column_int(statement, column) != 0);
    case DataType::kDouble:
      return Tensor::Scalar(sqlite3_column_double(statement, column));
    default:
      return errors::InvalidArgument("SQL queries cannot return ", DataTypeName(type));
  }
}

}  // namespace

bool SqliteQuery::IsSupported(DataType type) {
  switch (type) {
    case DataType::kString:
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kBool:
    case DataType::kDouble:
      return true;
    default:
      return false;
  }
}

Status SqliteQuery::Error() const {
  return errors::InvalidArgument(database_ == nullptr ? "No memory for a database"
                                                      : sqlite3_errmsg(database_));
}

StatusOr<std::unique_ptr<SqliteQuery>> SqliteQuery::Open(const std::string& path, const std::string& query,
                                                         const std::vector<DataType>& types) {
  if (path.find('\0') != std::string::npos) {
    return errors::InvalidArgument("The name of a database has a zero byte");
  }
  if (query.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return errors::InvalidArgument("A query of ", query.size(), " bytes is too long");
  }
  std::unique_ptr<SqliteQuery> made(new SqliteQuery(types));
  // Not a URI, which could request another mode.
  if (sqlite3_open_v2(path.c_str(), &made->database_, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr) !=
      SQLITE_OK) {
    const Status status = made->Error();
    return errors::InvalidArgument("Could not open database '", path, "': ", status.message());
  }
  sqlite3_limit(made->database_, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_db_config(made->database_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(made->database_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  if (sqlite3_prepare_v2(made->database_, query.data(), static_cast<int>(query.size()), &made->statement_,
                         nullptr) != SQLITE_OK) {
    return made->Error();
  }
  if (made->statement_ == nullptr) return errors::InvalidArgument("The query is empty");
  const int columns = sqlite3_column_count(made->statement_);
  if (static_cast<size_t>(columns) != types.size()) {
    return errors::InvalidArgument("The number of columns in query (", columns,
                                   ") must match the number of elements in output_types (", types.size(),
                                   ").");
  }
  return made;
}

SqliteQuery::~SqliteQuery() {
  sqlite3_finalize(statement_);
  sqlite3_close(database_);
}

StatusOr<bool> SqliteQuery::Next(Context& ctx, Element* row) {
  sqlite3_progress_handler(
      database_, kStepsBetweenLooks,
      [](void* context) -> int { return static_cast<const Context*>(context)->cancelled() ? 1 : 0; }, &ctx);
  const int result = sqlite3_step(statement_);
  sqlite3_progress_handler(database_, 0, nullptr, nullptr);
  if (result == SQLITE_DONE) return false;
  if (ctx.cancelled()) return CancelledStatus();
  if (result != SQLITE_ROW) return Error();
  row->clear();
  for (size_t i = 0; i < types_.size(); ++i) {
    MR_ASSIGN_OR_RETURN(Tensor value, Value(statement_, static_cast<int>(i), types_[i]));
    row->push_back(std::move(value));
  }
  return true;
}

}  // namespace millrace::data
