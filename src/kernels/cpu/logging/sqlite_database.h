// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/cancellation.h"
#include "millrace/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace millrace {

// The value of a parameter of a statement ("?"). Blob and text are only read while the statement runs.
struct SqliteBlob {
  std::string_view bytes;
};
using SqliteValue = std::variant<std::monostate, int64_t, double, std::string_view, SqliteBlob>;

class SqliteDatabase;

// A prepared statement. It must be destroyed before its database. One thread at a time.
class SqliteStatement {
 public:
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement& operator=(SqliteStatement&&) = delete;
  ~SqliteStatement();

  // Runs a statement that returns no rows.
  Status Run(std::initializer_list<SqliteValue> values);
  // Whether there is a first row, which stays valid until the next call.
  StatusOr<bool> First(std::initializer_list<SqliteValue> values);
  int64_t Integer(int column) const;
  double Real(int column) const;

 private:
  friend class SqliteDatabase;
  SqliteStatement(SqliteDatabase& database, sqlite3_stmt* statement)
      : database_(database), statement_(statement) {}

  SqliteDatabase& database_;
  sqlite3_stmt* statement_;
};

// A database that is open for writing; created if it does not exist. Errors have the texts and codes that
// TensorFlow gives SQLite's. One thread at a time.
class SqliteDatabase {
 public:
  // `uri`: a path, or "file:PATH" with options after a "?". Waits at most `patience` for a database that
  // others have locked. Its schema is not trusted: triggers, views and unsafe functions are off.
  static StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& uri,
                                                        std::chrono::milliseconds patience);
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;
  ~SqliteDatabase();

  StatusOr<SqliteStatement> Prepare(std::string_view sql);
  Status Run(std::string_view sql, std::initializer_list<SqliteValue> values = {});
  // The id of the row that the last INSERT created.
  int64_t last_row() const;
  // From now on its cancellation ends statements and waits; null: none does.
  void set_cancellation(const CancellationManager* cancellation) { cancellation_ = cancellation; }

 private:
  friend class SqliteStatement;
  explicit SqliteDatabase(std::chrono::milliseconds patience) : patience_(patience) {}
  Status Error(const char* what, int code, std::string_view sql) const;
  bool cancelled() const { return cancellation_ != nullptr && cancellation_->IsCancelled(); }
  bool WaitOnce(int waits) const;

  sqlite3* database_ = nullptr;
  const CancellationManager* cancellation_ = nullptr;
  const std::chrono::milliseconds patience_;
};

// Rolls back all writes since it began, unless it is committed. Begins as the only writer.
class SqliteTransaction {
 public:
  static StatusOr<SqliteTransaction> Begin(SqliteDatabase& database);
  SqliteTransaction(SqliteTransaction&& other) noexcept : database_(other.database_) {
    other.database_ = nullptr;
  }
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  ~SqliteTransaction();
  Status Commit();

 private:
  explicit SqliteTransaction(SqliteDatabase& database) : database_(&database) {}
  SqliteDatabase* database_;  // null: committed
};

}  // namespace millrace
