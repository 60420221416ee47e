// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/status.h"
#include "op/op_registry.h"

namespace tensorflow {
class FunctionDef;
class FunctionDefLibrary;
}  // namespace tensorflow

namespace millrace {

// The functions of a graph by name: their signatures act as ops. Copies are cheap: they share the
// definitions, and the table until one of them changes. Changes are not thread-safe.
class FunctionLibrary : public OpLookup {
 public:
  FunctionLibrary();
  ~FunctionLibrary() override;
  FunctionLibrary(const FunctionLibrary&);
  FunctionLibrary& operator=(const FunctionLibrary&);

  // Validates the signature; adding the same definition twice is allowed, another one under the same name is
  // InvalidArgument.
  Status Add(const tensorflow::FunctionDef& def);
  Status AddLibrary(const tensorflow::FunctionDefLibrary& library);
  // Adds all functions of another library; on error none.
  Status Merge(const FunctionLibrary& other);
  void Export(tensorflow::FunctionDefLibrary* library) const;
  // Null when there is none.
  const tensorflow::FunctionDef* Find(std::string_view name) const;
  // Name of the registered gradient function, or "".
  std::string FindGradient(std::string_view name) const;
  StatusOr<const OpRegistration*> LookUp(std::string_view name) const override;
  // Names of the functions, sorted.
  std::vector<std::string> Names() const;
  bool empty() const;
  // A library of the functions of this one in `names`, with their gradients.
  FunctionLibrary Only(const std::set<std::string, std::less<>>& names) const;
  bool SharesTableWith(const FunctionLibrary& other) const { return table_ == other.table_; }

 private:
  struct Entry;
  struct Table;
  Table& Own();
  // The same objects, not only equal ones.
  bool HasAllOf(const FunctionLibrary& other) const;
  Status AddGradient(const std::string& function, const std::string& gradient);

  std::shared_ptr<const Table> table_;  // never null
};

}  // namespace millrace
