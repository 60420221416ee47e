// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/queue_input.h"

namespace millrace {

// The scope of a stage: named after the scope's op name, or `otherwise`.
Scope StageScope(const Scope& scope, const char* otherwise);

// A queue of a stage and the types of its elements. Its ops are called "<queue>_<what>" in the stage's scope.
struct StageQueue {
  std::string NameOf(const char* what) const;
  Operation Enqueue(const Scope& scope, const std::vector<Output>& values, bool many) const;
  Output Size(const Scope& stage) const;

  Output handle;
  std::vector<DataType> types;
};

// Adds the summary "fraction_of_<capacity>_full", or another, of `part` / `whole`.
void AddFillSummary(const Scope& stage, const std::string& name, const Output& part, int64_t whole);

// An operation that runs the nodes of `body` if the bool scalar `pred` is true, and nothing otherwise.
Operation When(const Scope& scope, const Output& pred, const std::function<Operation(const Scope&)>& body);

// The common types and shapes of examples from all sources. InvalidArgument when types or ranks differ.
struct ElementSpec {
  std::vector<DataType> types;
  std::vector<PartialShape> shapes;
};
StatusOr<ElementSpec> SpecOf(const Scope& scope, const std::vector<std::vector<Output>>& sources,
                             const BatchOptions& options);

}  // namespace millrace
