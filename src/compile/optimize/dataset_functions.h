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

// The function of a dataset, and the types of its captured values, which follow the element in its
// arguments.
struct ElementFunction {
  NameAttrList f;
  std::vector<DataType> captured;
};

// Whether calls of the function have no side effects and no state. False for an unknown one.
bool IsStatelessFunction(const Graph& graph, const NameAttrList& f);

// These make functions from others and add them to the graph's library. Equal arguments give equal functions
// of equal names. Empty when that is not possible: the types do not match, a name becomes too long, the
// attributes of a function are bound.

// second(first(x, a), b) of x, a, b.
std::optional<NameAttrList> ComposeFunctions(Graph* graph, const ElementFunction& first,
                                             const ElementFunction& second);
// The results of `first`, followed by the result of `predicate` for them.
std::optional<NameAttrList> AppendPredicate(Graph* graph, const ElementFunction& first,
                                            const ElementFunction& predicate);
// first(x, a) && second(x, b); the second is only called if the first is true.
std::optional<NameAttrList> JoinPredicates(Graph* graph, const ElementFunction& first,
                                           const ElementFunction& second);

// A function that applies `f` to each row of batches, with rows of the known shapes `elements`. Empty when
// some op of `f` has no such form.
std::optional<NameAttrList> VectorizeFunction(Graph* graph, const ElementFunction& f,
                                              const std::vector<PartialShape>& elements);

// The two seeds of a random op.
struct OpSeeds {
  int64_t seed = 0, seed2 = 0;
};

// A function whose only state is one RandomUniform of known seeds, in a stateless form, which takes a seed, a
// vector of two int64, after its element.
struct HoistedRandom {
  NameAttrList f;
  OpSeeds seeds;
};
std::optional<HoistedRandom> HoistRandomUniform(Graph* graph, const ElementFunction& f);

// A predicate that only compares one random number from 0 to 1 with a constant: it is true with the
// probability `rate`.
struct RandomPredicate {
  float rate = 0;
  OpSeeds seeds;
};
std::optional<RandomPredicate> FindRandomPredicate(const Graph& graph, const NameAttrList& predicate);

// A function of a dataset and captured values that applies the stages one after the other. `inputs` of a
// stage are indices of the captured values, from 0 for the first after the dataset.
struct StageOfFunction {
  const char* op;
  AttrMap attrs;
  std::vector<int> inputs;
};
std::optional<NameAttrList> MakeDatasetFunction(Graph* graph, const std::string& name,
                                                const std::vector<DataType>& more,
                                                const std::vector<StageOfFunction>& stages);

}  // namespace millrace
