// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "millrace/tensor.h"

namespace millrace {

struct RandomGraphOptions {
  int nodes = 40;     // computations
  bool flow = false;  // conditions, loops, functions, effects, more types
};

// A graph with what to feed and fetch, the same for the same seed.
struct RandomGraph {
  std::unique_ptr<Graph> graph;
  std::vector<std::pair<std::string, Tensor>> feeds;
  std::vector<std::string> fetches;
  std::vector<bool> exact;              // by fetch: computed without any rounding
  std::vector<std::string> maybe_dead;  // values of branches, that a Run may not give
  std::string init, state;              // "" or what to run first, and a counter to read in the end
};

// Computations over a few feeds and constants, of which many are zeros and ones: element-wise ops with
// broadcasting, reductions, contractions, shapes and arrangements; with `flow` also in branches and loops
// that nest, which may be dead or make no trip, and may add to a counter. Exact numbers are small integers;
// what rounds never decides anything (a comparison, an integer), so that results differ by the rounding
// alone.
RandomGraph MakeRandomGraph(uint32_t seed, const RandomGraphOptions& options);

}  // namespace millrace
