// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/optimize/constant_evaluator.h"
#include "compile/partition/partition.h"
#include "compile/place/placer.h"
#include "compile/prune/prune.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// How long a pass took and what it left. A pass that was switched off leaves none; one that ran in several
// rounds leaves one with the sums.
struct PassStats {
  std::string pass;
  int64_t nanos = 0;
  int nodes_after = 0;  // the last time
  std::string note;     // "folded 3 tensors", …; may be empty
  int runs = 1;
  int changes = 0;  // of the graph; only optimising passes count theirs
};

// A pass that can be switched off. `rewriter` is the field of RewriterConfig that switches it, `optimizer`
// that of OptimizerOptions (which with opt_level L0 switches all of them); "" where there is none.
struct PassInfo {
  const char* name;
  const char* what;
  const char* rewriter;
  const char* optimizer;
};
// In the order in which they run.
std::span<const PassInfo> OptionalPasses();

struct CompileOptions {
  PruneOptions prune;
  PlaceOptions place;
  PartitionOptions partition;
  // Runs constant parts; null switches folding off.
  ConstantEvaluator* evaluator = nullptr;
  // Folded tensors are at most this large.
  int64_t max_folded_bytes = 10 * 1024 * 1024;
  // Whether conditions and loops over functions that ask for it are written with Switch, Merge, Enter, ….
  bool lower_functional = true;
  // Names of passes to leave out, all of them from OptionalPasses() (without the others there is no step),
  // or "all" of those; other names mean nothing.
  std::set<std::string, std::less<>> disabled_passes;
  // Optimising passes are repeated until none finds anything, at most this often.
  int max_rounds = 5;
  // Also sums and products of floats in another order, which round differently. TensorFlow's AGGRESSIVE.
  bool reassociate_floats = false;
  // Checks that do nothing unless something is wrong (Assert), and Print, go. TensorFlow's debug_stripper.
  bool remove_checks = false;
  // Graphs with fewer nodes are left as they are by the passes between placement and partitioning.
  int min_nodes = 0;
  // None of those passes is begun when they have taken so long together; 0: no limit.
  int64_t optimizer_timeout_ms = 0;
  // Called with the graph after each pass; empty: no dumps. `part` is the partition's key, "" before
  // partitioning.
  std::function<void(std::string_view pass, std::string_view part, const Graph& graph)> dump;
  // Checks the graph's invariants after each pass.
#ifdef NDEBUG
  bool validate = false;
#else
  bool validate = true;
#endif
};

struct CompiledGraphs {
  std::vector<GraphPartition> partitions;
  std::vector<EndpointInfo> feeds;    // by position in the signature
  std::vector<EndpointInfo> fetches;  // by position in the signature
  std::vector<PassStats> passes;      // in the order in which they ran
};

// Everything between a full graph and the graphs that executors run: prune > lower > place > optimize >
// partition. Nodes of `full` that have an assigned device keep it; the others are placed here. Thread-safe:
// `full` is only read.
StatusOr<CompiledGraphs> Compile(const Graph& full, const RunSignature& signature,
                                 const CompileOptions& options);

// For the body of a function, whose _Arg and _Retval nodes are there already: as Compile without pruning. The
// nodes `must_run` run although nothing uses what they give.
StatusOr<CompiledGraphs> CompileWhole(std::unique_ptr<Graph> graph, const std::vector<std::string>& must_run,
                                      const CompileOptions& options);

}  // namespace millrace
