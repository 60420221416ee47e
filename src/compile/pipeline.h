// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/compile_options.h"
#include "compile/optimize/constant_evaluator.h"
#include "compile/partition/partition.h"
#include "compile/place/placer.h"
#include "compile/prune/prune.h"
#include "graph/graph.h"
#include "millrace/debug_watch.h"
#include "millrace/status.h"

namespace millrace {

// Time and result of a pass. A pass that is switched off has no entry; one that ran in several rounds has one
// entry with the sums.
struct PassStats {
  std::string pass;
  int64_t nanos = 0;
  int nodes_after = 0;  // the last time
  std::string note;     // "folded 3 tensors", …; may be empty
  int runs = 1;
  int changes = 0;  // of the graph; only optimising passes count theirs
};

// A pass that can be switched off. `rewriter` is the field of RewriterConfig that switches it, `optimizer`
// that of OptimizerOptions (opt_level L0 switches all off except "datasets"); "" where there is none.
struct PassInfo {
  const char* name;
  const char* what;
  const char* rewriter;
  const char* optimizer;
};
// In the order in which they run.
std::span<const PassInfo> OptionalPasses();

// The inputs of a compilation. All referenced objects must outlive it.
struct CompileContext {
  const CompileOptions& options;
  PruneOptions prune{};
  PlaceOptions place{options};
  PartitionOptions partition{};
  // Runs constant parts; null switches folding off.
  ConstantEvaluator* evaluator = nullptr;
  // Tensors that a debugger watches. If any, nodes write them to files, and no optimising pass runs.
  std::span<const DebugWatch> watches{};
};

struct CompiledGraphs {
  std::vector<GraphPartition> partitions;
  std::vector<EndpointInfo> feeds;    // by position in the signature
  std::vector<EndpointInfo> fetches;  // by position in the signature
  std::vector<PassStats> passes;      // in the order in which they ran
};

// All passes from a full graph to the graphs that executors run: prune > inline > lower > place > reads >
// optimise > partition. Nodes of `full` that have an assigned device keep it; the others are placed here.
// Thread-safe: `full` is only read.
StatusOr<CompiledGraphs> Compile(const Graph& full, const RunSignature& signature,
                                 const CompileContext& context);

// For the body of a function, which already has _Arg and _Retval nodes: as Compile without pruning. The nodes
// `must_run` run even if their outputs are not used.
StatusOr<CompiledGraphs> CompileWhole(std::unique_ptr<Graph> graph, const std::vector<std::string>& must_run,
                                      const CompileContext& context);

}  // namespace millrace
