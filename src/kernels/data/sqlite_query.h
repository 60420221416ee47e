// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

struct sqlite3;
struct sqlite3_stmt;

namespace millrace::data {

// The rows of a query of an SQLite database. The database is opened for reading only, and the query can open
// no other. One thread at a time.
class SqliteQuery {
 public:
  // InvalidArgument with SQLite's own text, and if the number of columns of the query differs from that of
  // the types.
  static StatusOr<std::unique_ptr<SqliteQuery>> Open(const std::string& path, const std::string& query,
                                                     const std::vector<DataType>& types);
  SqliteQuery(const SqliteQuery&) = delete;
  SqliteQuery& operator=(const SqliteQuery&) = delete;
  ~SqliteQuery();
  // The next row, a scalar for each column; false if there are no more. Cancelled if the caller is cancelled.
  StatusOr<bool> Next(Context& ctx, Element* row);

  static bool IsSupported(DataType type);

 private:
  explicit SqliteQuery(std::vector<DataType> types) : types_(std::move(types)) {}
  Status Error() const;

  const std::vector<DataType> types_;
  sqlite3* database_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace millrace::data
