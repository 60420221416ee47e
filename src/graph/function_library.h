// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
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

// The functions of a graph by name: their signatures act as ops. Copies share the definitions. Not
// thread-safe to change.
class FunctionLibrary : public OpLookup {
 public:
  FunctionLibrary();
  ~FunctionLibrary() override;
  FunctionLibrary(const FunctionLibrary&);
  FunctionLibrary& operator=(const FunctionLibrary&);

  // Validates the signature; the same definition twice is fine, another one under the same name is
  // InvalidArgument.
  Status Add(const tensorflow::FunctionDef& def);
  Status AddLibrary(const tensorflow::FunctionDefLibrary& library);
  void Export(tensorflow::FunctionDefLibrary* library) const;
  // Null when there is none.
  const tensorflow::FunctionDef* Find(std::string_view name) const;
  // Name of the registered gradient function, or "".
  std::string FindGradient(std::string_view name) const;
  StatusOr<const OpRegistration*> LookUp(std::string_view name) const override;
  bool empty() const;

 private:
  struct Entry;
  std::map<std::string, std::shared_ptr<const Entry>, std::less<>> functions_;
  std::map<std::string, std::string, std::less<>> gradients_;
};

}  // namespace millrace
