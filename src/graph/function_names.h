// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <string>

#include "graph/function_library.h"
#include "graph/graph.h"
#include "op/attr_value.h"

namespace tensorflow {
class AttrValue;
class FunctionDef;
}  // namespace tensorflow

namespace millrace {

using FunctionNames = std::set<std::string, std::less<>>;

// Appends the functions that attributes name, also within the attributes of functions. Ops may stand there in
// their place.
void CollectFunctions(const AttrMap& attrs, FunctionNames* names);
void CollectFunctions(const tensorflow::AttrValue& value, FunctionNames* names);
// Those that the nodes of a definition call, of `library` when by name.
void CollectFunctions(const tensorflow::FunctionDef& def, const FunctionLibrary& library,
                      FunctionNames* names);

// Of the library of `graph` what `of`, a part of the graph, calls, what that calls, and so on; with the
// gradients that are registered for any of it.
FunctionLibrary ReachableFunctions(const Graph& graph, const Graph& of);

}  // namespace millrace
