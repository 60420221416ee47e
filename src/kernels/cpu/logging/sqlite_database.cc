// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/logging/sqlite_database.h"

#include <sqlite3.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

namespace millrace {
namespace {

// The interval of checks for cancellation, in steps of SQLite's virtual machine; and of attempts to lock.
constexpr int kStepsBetweenLooks = 10000;
constexpr std::chrono::milliseconds kWait{5};

// TensorFlow's code for an error code of SQLite (sqlite.org/rescode.html).
ErrorCode CodeOf(int sqlite) {
  switch (sqlite & 0xff) {
    case SQLITE_ABORT:
      return ErrorCode::kAborted;
    case SQLITE_READONLY:
    case SQLITE_MISMATCH:
      return ErrorCode::kFailedPrecondition;
    case SQLITE_MISUSE:
    case SQLITE_INTERNAL:
      return ErrorCode::kInternal;
    case SQLITE_RANGE:
      return ErrorCode::kOutOfRange;
    case SQLITE_CANTOPEN:
    case SQLITE_CONSTRAINT:
    case SQLITE_NOTFOUND:
    case SQLITE_NOTADB:
      return ErrorCode::kInvalidArgument;
    case SQLITE_CORRUPT:
      return ErrorCode::kDataLoss;
    case SQLITE_AUTH:
    case SQLITE_PERM:
      return ErrorCode::kPermissionDenied;
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
    case SQLITE_NOLFS:
      return ErrorCode::kResourceExhausted;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_NOMEM:
      return ErrorCode::kUnavailable;
    case SQLITE_INTERRUPT:
      return ErrorCode::kCancelled;
    default:
      return ErrorCode::kUnknown;
  }
}

int Bind(sqlite3_stmt* statement, int i, const SqliteValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return sqlite3_bind_int64(statement, i, *integer);
  if (const auto* real = std::get_if<double>(&value)) return sqlite3_bind_double(statement, i, *real);
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    return sqlite3_bind_text64(statement, i, text->data() == nullptr ? "" : text->data(), text->size(),
                               SQLITE_STATIC, SQLITE_UTF8);
  }
  if (const auto* blob = std::get_if<SqliteBlob>(&value)) {
    // A null address would be stored as NULL.
    const char* const bytes = blob->bytes.data() == nullptr ? "" : blob->bytes.data();
    return sqlite3_bind_blob64(statement, i, bytes, blob->bytes.size(), SQLITE_STATIC);
  }
  return sqlite3_bind_null(statement, i);
}

}  // namespace

SqliteStatement::SqliteStatement(SqliteStatement&& other) noexcept
    : database_(other.database_), statement_(std::exchange(other.statement_, nullptr)) {}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

StatusOr<bool> SqliteStatement::First(std::initializer_list<SqliteValue> values) {
  sqlite3_reset(statement_);
  int i = 0;
  for (const SqliteValue& value : values) {
    if (const int code = Bind(statement_, ++i, value); code != SQLITE_OK)
      return database_.Error("Bind", code, sqlite3_sql(statement_));
  }
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  Status status = code == SQLITE_DONE ? Status() : database_.Error("Step", code, sqlite3_sql(statement_));
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  if (!status.ok()) return status;
  return false;
}

Status SqliteStatement::Run(std::initializer_list<SqliteValue> values) {
  const StatusOr<bool> row = First(values);
  if (row.ok() && *row) sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  return row.status();
}

int64_t SqliteStatement::Integer(int column) const { return sqlite3_column_int64(statement_, column); }
double SqliteStatement::Real(int column) const { return sqlite3_column_double(statement_, column); }

StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& uri,
                                                               std::chrono::milliseconds patience) {
  if (uri.find('\0') != std::string::npos) {
    return errors::InvalidArgument("The name of a database has a zero byte");
  }
  std::unique_ptr<SqliteDatabase> made(new SqliteDatabase(patience));
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_PRIVATECACHE |
                         SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(uri.c_str(), &made->database_, kFlags, nullptr);
  if (code != SQLITE_OK) {
    return Status(CodeOf(code), StrCat("Sqlite::Open(", uri, ") failed: ", sqlite3_errstr(code)));
  }
  sqlite3* const database = made->database_;
  sqlite3_extended_result_codes(database, 1);
  sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_progress_handler(
      database, kStepsBetweenLooks,
      [](void* self) -> int { return static_cast<SqliteDatabase*>(self)->cancelled() ? 1 : 0; }, made.get());
  sqlite3_busy_handler(
      database,
      [](void* self, int waits) -> int {
        return static_cast<SqliteDatabase*>(self)->WaitOnce(waits) ? 1 : 0;
      },
      made.get());
  return made;
}

SqliteDatabase::~SqliteDatabase() { sqlite3_close(database_); }

bool SqliteDatabase::WaitOnce(int waits) const {
  if (cancelled() || waits * kWait >= patience_) return false;
  std::this_thread::sleep_for(kWait);
  return true;
}

Status SqliteDatabase::Error(const char* what, int code, std::string_view sql) const {
  if (cancelled()) return errors::Cancelled("Operation was cancelled");
  return Status(CodeOf(code), StrCat(what, "() failed: [", code, "] ", sqlite3_errmsg(database_), ": ", sql));
}

StatusOr<SqliteStatement> SqliteDatabase::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(database_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return Error("Prepare", code, sql);
  return SqliteStatement(*this, statement);
}

Status SqliteDatabase::Run(std::string_view sql, std::initializer_list<SqliteValue> values) {
  MR_ASSIGN_OR_RETURN(SqliteStatement statement, Prepare(sql));
  return statement.Run(values);
}

int64_t SqliteDatabase::last_row() const { return sqlite3_last_insert_rowid(database_); }

StatusOr<SqliteTransaction> SqliteTransaction::Begin(SqliteDatabase& database) {
  MR_RETURN_IF_ERROR(database.Run("BEGIN IMMEDIATE"));
  return SqliteTransaction(database);
}

Status SqliteTransaction::Commit() {
  MR_RETURN_IF_ERROR(database_->Run("COMMIT"));
  database_ = nullptr;
  return Status();
}

SqliteTransaction::~SqliteTransaction() {
  if (database_ == nullptr) return;
  database_->set_cancellation(nullptr);  // the rollback must not be interrupted
  // SQLite has already rolled back after some errors; the error of a second rollback is ignored.
  database_->Run("ROLLBACK").IgnoreError("the first error is reported");
}

}  // namespace millrace
