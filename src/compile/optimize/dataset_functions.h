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

// The two seeds of a random op.
struct OpSeeds {
  int64_t seed = 0, seed2 = 0;
};

// A function whose only state is one RandomUniform of known seeds, as one without state, which takes a seed,
// a vector of two int64, behind its element.
struct HoistedRandom {
  NameAttrList f;
  OpSeeds seeds;
};
std::optional<HoistedRandom> HoistRandomUniform(Graph* graph, const ElementFunction& f);

// A predicate that compares one random number from 0 to 1 with a constant, and looks at nothing else: it is
// true with the probability `rate`.
struct RandomPredicate {
  float rate = 0;
  OpSeeds seeds;
};
std::optional<RandomPredicate> FindRandomPredicate(const Graph& graph, const NameAttrList& predicate);

// A function of a dataset, and what it takes behind it: the dataset that the stages make of it, one after the
// other. `inputs` of a stage are numbers of what the function takes, from 0 behind the dataset.
struct StageOfFunction {
  const char* op;
  AttrMap attrs;
  std::vector<int> inputs;
};
std::optional<NameAttrList> MakeDatasetFunction(Graph* graph, const std::string& name,
                                                const std::vector<DataType>& more,
                                                const std::vector<StageOfFunction>& stages);

}  // namespace millrace
