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

// A graph of stateless ops with what to feed and fetch, the same for the same seed.
struct RandomGraph {
  std::unique_ptr<Graph> graph;
  std::vector<std::pair<std::string, Tensor>> feeds;
  std::vector<std::string> fetches;
  std::vector<bool> exact;  // by fetch: computed without any rounding
};

// `nodes` computations over a few feeds and constants, of which many are zeros and ones: element-wise ops
// with broadcasting, reductions, contractions, shapes and arrangements. Exact numbers are small integers;
// what rounds never decides anything (a comparison, an integer), so that results differ by the rounding
// alone.
RandomGraph MakeRandomGraph(uint32_t seed, int nodes);

}  // namespace millrace
