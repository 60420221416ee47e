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

// Appends the functions that attributes name, also within the attributes of functions. The names may be those
// of ops instead.
void CollectFunctions(const AttrMap& attrs, FunctionNames* names);
void CollectFunctions(const tensorflow::AttrValue& value, FunctionNames* names);
// The functions that the nodes of a definition call; those called by name are in `library`.
void CollectFunctions(const tensorflow::FunctionDef& def, const FunctionLibrary& library,
                      FunctionNames* names);

// The functions in the library of `graph` that `of`, a part of the graph, calls directly or indirectly, with
// their registered gradients.
FunctionLibrary ReachableFunctions(const Graph& graph, const Graph& of);

}  // namespace millrace
