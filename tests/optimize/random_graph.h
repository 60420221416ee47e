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

// A graph with its feeds and fetches, the same for equal seeds.
struct RandomGraph {
  std::unique_ptr<Graph> graph;
  std::vector<std::pair<std::string, Tensor>> feeds;
  std::vector<std::string> fetches;
  std::vector<bool> exact;              // by fetch: computed without any rounding
  std::vector<std::string> maybe_dead;  // values of branches, which a Run may not produce
  std::string init, state;              // "", or what to run first, and a counter to read at the end
};

// Computations over a few feeds and constants, many of which are zeros and ones: element-wise ops with
// broadcasting, reductions, contractions, shapes and arrangements; with `flow` also in nested branches and
// loops, which may be dead or make no iteration, and may add to a counter. Exact numbers are small integers;
// rounded numbers never affect decisions (a comparison, an integer), so that results only differ by
// rounding.
RandomGraph MakeRandomGraph(uint32_t seed, const RandomGraphOptions& options);

}  // namespace millrace
