// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "millrace/dtype.h"
#include "millrace/shape.h"
#include "op/attr_value.h"

namespace millrace {

// What a dataset applies to its elements: a function, and the types of what it captures, which it takes
// behind the element.
struct ElementFunction {
  NameAttrList f;
  std::vector<DataType> captured;
};

// Whether calls of the function have no other effects and no state. False for one that is not known.
bool IsStatelessFunction(const Graph& graph, const NameAttrList& f);

// These make functions of others and put them into the graph's library. Equal arguments give equal functions
// of equal names. Nothing when that cannot be: the types do not fit, a name becomes too long, the attributes
// of a function are bound.

// second(first(x, a), b) of x, a, b.
std::optional<NameAttrList> ComposeFunctions(Graph* graph, const ElementFunction& first,
                                             const ElementFunction& second);
// The results of `first`, and behind them what `predicate` says of them.
std::optional<NameAttrList> AppendPredicate(Graph* graph, const ElementFunction& first,
                                            const ElementFunction& predicate);
// first(x, a) && second(x, b), the second being called where the first is true only.
std::optional<NameAttrList> JoinPredicates(Graph* graph, const ElementFunction& first,
                                           const ElementFunction& second);

// A function that does to batches what `f` does to each of their rows, of the shapes `elements`, which are
// all known. Nothing when some op of `f` has no such form.
std::optional<NameAttrList> VectorizeFunction(Graph* graph, const ElementFunction& f,
                                              const std::vector<PartialShape>& elements);

}  // namespace millrace
