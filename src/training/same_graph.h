// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "millrace/scope.h"
#include "millrace/status.h"

namespace millrace {

// InvalidArgument "<function>: <what> of another graph" unless both scopes belong to one graph.
Status CheckSameGraph(std::string_view function, std::string_view what, const Scope& own, const Scope& scope);

// The same for an object that has nodes in the graph of `own`; the body of a function may use them, too.
Status CheckUsableIn(std::string_view function, std::string_view what, const Scope& own, const Scope& scope);

}  // namespace millrace
