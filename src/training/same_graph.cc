// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/same_graph.h"

#include "cc/scope_state.h"

namespace millrace {

Status CheckSameGraph(std::string_view function, std::string_view what, const Scope& own,
                      const Scope& scope) {
  if (&own.graph() == &scope.graph()) return Status();
  return errors::InvalidArgument(function, ": ", what, " of another graph");
}

Status CheckUsableIn(std::string_view function, std::string_view what, const Scope& own, const Scope& scope) {
  return scope.state().capture ? Status() : CheckSameGraph(function, what, own, scope);
}

}  // namespace millrace
