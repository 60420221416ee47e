// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/pipeline.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "compile/lower/function_calls.h"
#include "compile/lower/variable_reads.h"
#include "compile/optimize/arithmetic.h"
#include "compile/optimize/branches.h"
#include "compile/optimize/cse.h"
#include "compile/optimize/datasets.h"
#include "compile/optimize/dependencies.h"
#include "compile/optimize/elementwise.h"
#include "compile/optimize/fold.h"
#include "compile/optimize/fuse.h"
#include "compile/optimize/identities.h"
#include "compile/optimize/inline.h"
#include "compile/optimize/layout.h"
#include "compile/optimize/loop_invariants.h"
#include "compile/optimize/loop_products.h"
#include "compile/optimize/loop_weights.h"
#include "compile/optimize/mixed_precision.h"
#include "compile/optimize/schedule.h"
#include "compile/place/watches.h"
#include "graph/frames.h"

namespace millrace {
namespace {

using Note = StatusOr<std::string>;

constexpr PassInfo kOptionalPasses[] = {
    {"inline", "bodies of functions take the place of their calls", "function_optimization",
     "do_function_inlining"},
    {"datasets", "input pipelines are rewritten as their OptimizeDataset nodes say", "", ""},
    {"dead", "unused nodes are removed", "", ""},
    {"identity", "nodes that only pass on their inputs are removed", "", ""},
    {"branches", "branches of constant conditions are removed", "", ""},
    {"shapes", "values computed from known shapes become constants", "shape_optimization", ""},
    {"fold", "values computed from constants become constants", "constant_folding", "do_constant_folding"},
    {"arithmetic", "algebraic simplification", "arithmetic_optimization", ""},
    {"cse", "nodes that compute the same are merged", "", "do_common_subexpression_elimination"},
    {"dependency", "redundant control edges are removed", "dependency_optimization", ""},
    {"loop_invariants", "loop-invariant nodes run once", "loop_optimization", ""},
    {"loop_products", "products of a loop's inputs are done at once, before it", "loop_optimization", ""},
    {"layout", "images of convolutions have their channels last", "layout_optimizer", ""},
    {"fuse", "one kernel for several nodes", "remapping", ""},
    {"loop_weights", "constant factors of a loop's products are packed once, before it", "loop_optimization",
     ""},
    {"elementwise", "one pass over memory for several element-wise nodes", "remapping", ""},
    {"memory", "an order of nodes that needs less memory at a time", "memory_optimization", ""},
};

// Unless the options set the number.
constexpr int kMaxRounds = 5;
// Further rounds run only while the total number of nodes of all rounds is at most this, so that compilation
// stays linear.
constexpr int64_t kNodeBudget = 1'000'000;

std::string Count(std::string_view what, int count, std::string_view unit) {
  return count == 0 ? std::string() : StrCat(what, " ", std::to_string(count), " ", unit);
}

bool HasControlFlow(const Graph& graph) {
  for (int id = 2; id < graph.num_node_ids(); ++id) {
    if (graph.node(id) != nullptr && graph.node(id)->traits().is_control_flow) return true;
  }
  return false;
}

// One compilation. Each pass changes graph_, or replaces it, and returns a note; the last one sets
// partitions.
class Compilation {
 public:
  Compilation(const RunSignature& signature, const CompileContext& context)
      : signature_(signature),
        context_(context),
        options_(context.options),
        must_run_(signature.targets.begin(), signature.targets.end()) {}

  StatusOr<CompiledGraphs> PruneAndRun(const Graph& full) {
    MR_RETURN_IF_ERROR(Pass("prune", [&] { return Prune(full); }));
    return Run();
  }

  StatusOr<CompiledGraphs> RunOn(std::unique_ptr<Graph> whole) {
    graph_ = std::move(whole);
    return Run();
  }

 private:
  // The passes, in order.
  StatusOr<CompiledGraphs> Run() {
    MR_RETURN_IF_ERROR(Pass("inline", [&] { return Inline(); }));
    MR_RETURN_IF_ERROR(Pass("lower", [&] { return Lower(); }));
    MR_RETURN_IF_ERROR(Pass("place", [&] { return PlaceNodes(); }));
    if (!context_.watches.empty()) {
      MR_RETURN_IF_ERROR(Pass("watches", [&] { return Watch(); }));
      MR_RETURN_IF_ERROR(Pass("partition", [&] { return Partition(); }));
      return std::move(out_);
    }
    MR_RETURN_IF_ERROR(Pass("reads", [&] { return ReadVariables(); }));
    if (graph_->num_nodes() >= options_.min_optimized_nodes) MR_RETURN_IF_ERROR(Optimize());
    MR_RETURN_IF_ERROR(Pass("partition", [&] { return Partition(); }));
    return std::move(out_);
  }

  // The passes that only make the step faster or smaller.
  Status Optimize() {
    optimize_until_ =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.optimizer_timeout_in_ms);
    MR_RETURN_IF_ERROR(Pass("datasets", "made", "rewrites",
                            [&] { return RewriteDatasets(graph_.get(), OptionsOfPasses()); }));
    MR_RETURN_IF_ERROR(Rewrite());
    MR_RETURN_IF_ERROR(SplitProducts());
    MR_RETURN_IF_ERROR(Pass("layout", "changed", "nodes", [&]() -> StatusOr<int> {
      // Loops and conditions do not wait for the constants that it makes.
      return HasControlFlow(*graph_) ? 0 : ConvertLayouts(graph_.get(), OptionsOfPasses());
    }));
    if (!TimeIsUp()) MR_RETURN_IF_ERROR(Pass("fuse", [&] { return Fuse(); }));
    if (!options_.auto_mixed_precision) {  // mixed precision has its own rounding and packing of factors
      MR_RETURN_IF_ERROR(Pass("loop_weights", "packed", "factors", [&]() -> StatusOr<int> {
        return HasControlFlow(*graph_) ? PackLoopWeights(graph_.get(), OptionsOfPasses()) : 0;
      }));
    } else {
      MR_RETURN_IF_ERROR(Pass("mixed_precision", "marked", "products",
                              [&]() -> StatusOr<int> { return UseBfloat16Products(graph_.get()); }));
    }
    if (!TimeIsUp())
      MR_RETURN_IF_ERROR(Pass("elementwise", "fused", "nodes into others",
                              [&] { return FuseElementwise(graph_.get(), OptionsOfPasses()); }));
    return Pass("memory", "saved", "KiB", [&] { return ScheduleForMemory(&graph_); });
  }

  // The rows of weights that it cuts out are constants again.
  Status SplitProducts() {
    const int before = changes_;
    const OptimizeOptions options = OptionsOfPasses();
    MR_RETURN_IF_ERROR(Pass("loop_products", "split", "products", [&]() -> StatusOr<int> {
      return HasControlFlow(*graph_) ? SplitLoopProducts(graph_.get(), options) : 0;
    }));
    if (changes_ == before || options.evaluator == nullptr) return Status();
    return Pass("fold", "folded", "tensors", [&] { return FoldConstants(graph_.get(), options); });
  }

  bool TimeIsUp() const {
    return options_.optimizer_timeout_in_ms > 0 && std::chrono::steady_clock::now() >= optimize_until_;
  }

  // Repeats rounds until no pass finds anything.
  Status Rewrite() {
    const OptimizeOptions options = OptionsOfPasses();
    Graph* const g = graph_.get();
    const int max_rounds = options_.max_optimizer_rounds > 0 ? options_.max_optimizer_rounds : kMaxRounds;
    int64_t nodes = 0;
    for (int round = 0; round < max_rounds; ++round) {
      const int before = changes_;
      MR_RETURN_IF_ERROR(Pass("dead", "removed", "nodes", [&] { return RemoveDeadNodes(g, options); }));
      MR_RETURN_IF_ERROR(Pass("identity", "removed", "nodes", [&] { return RemoveIdentities(g, options); }));
      MR_RETURN_IF_ERROR(Pass("branches", "resolved", "nodes",
                              [&]() -> StatusOr<int> { return ResolveBranches(g, options); }));
      MR_RETURN_IF_ERROR(Pass("shapes", "folded", "tensors", [&] { return MaterializeShapes(g, options); }));
      if (options.evaluator != nullptr)
        MR_RETURN_IF_ERROR(Pass("fold", "folded", "tensors", [&] { return FoldConstants(g, options); }));
      MR_RETURN_IF_ERROR(
          Pass("arithmetic", "made", "rewrites", [&] { return SimplifyArithmetic(g, options); }));
      if (options_.eliminate_common_subexpressions)
        MR_RETURN_IF_ERROR(Pass("cse", "merged", "nodes", [&] { return EliminateCommonSubexpressions(g); }));
      MR_RETURN_IF_ERROR(
          Pass("dependency", "made", "changes", [&] { return OptimizeDependencies(g, options); }));
      MR_RETURN_IF_ERROR(
          Pass("loop_invariants", "moved", "nodes", [&] { return MoveLoopInvariants(g, options); }));
      nodes += g->num_nodes();
      if (changes_ == before || nodes + g->num_nodes() > kNodeBudget) break;
    }
    return Status();
  }

  // An optimising pass, which returns the number of its changes.
  template <typename F>
  Status Pass(std::string_view name, std::string_view verb, std::string_view unit, const F& pass) {
    if (TimeIsUp()) return Status();
    return Pass(name, [&]() -> Note {
      const StatusOr<int> changes = pass();
      if (!changes.ok()) return changes.status();
      changes_ += *changes;
      changes_of_pass_ = *changes + ChangesSoFar(name);
      return Count(verb, changes_of_pass_, unit);
    });
  }

  int ChangesSoFar(std::string_view name) const {
    for (const PassStats& stats : out_.passes) {
      if (stats.pass == name) return stats.changes;
    }
    return 0;
  }

  // The wrapper of all passes: skips disabled ones, times the others, checks and dumps their
  // results.
  template <typename F>
  Status Pass(std::string_view name, const F& pass) {
    if (IsSwitchedOff(name)) return Status();
    const auto start = std::chrono::steady_clock::now();
    changes_of_pass_ = 0;
    Note note = pass();
    if (!note.ok()) return note.status();
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
    PassStats& stats = StatsOf(name);
    stats.nanos += time.count();
    stats.nodes_after = 0;
    stats.note = *std::move(note);
    stats.changes = changes_of_pass_;
    if (graph_ != nullptr) return Check(name, "", *graph_, &stats);
    for (const GraphPartition& part : out_.partitions)
      MR_RETURN_IF_ERROR(Check(name, part.key, *part.graph, &stats));
    return Status();
  }

  bool IsSwitchedOff(std::string_view name) const {
    if (options_.disabled_passes.contains(std::string(name))) return true;
    if (!options_.disabled_passes.contains("all")) return false;
    return name == "mixed_precision" || std::any_of(std::begin(kOptionalPasses), std::end(kOptionalPasses),
                                                    [&](const PassInfo& pass) { return pass.name == name; });
  }

  PassStats& StatsOf(std::string_view name) {
    const auto it = std::find_if(out_.passes.begin(), out_.passes.end(),
                                 [&](const PassStats& stats) { return stats.pass == name; });
    if (it == out_.passes.end()) {
      out_.passes.push_back({.pass = std::string(name), .note = {}});
      return out_.passes.back();
    }
    ++it->runs;
    return *it;
  }

  Status Check(std::string_view pass, std::string_view part, const Graph& graph, PassStats* stats) {
    stats->nodes_after += graph.num_nodes();
    if (options_.dump) options_.dump(pass, part, graph);
    return options_.validate ? Validate(graph).WithContext(StrCat("; after pass '", pass, "'")) : Status();
  }

  // Checks loops from the pass on that refuses malformed ones, until they are partitioned.
  Status Validate(const Graph& graph) {
    MR_RETURN_IF_ERROR(graph.Validate());
    if (!loops_are_sound_ || graph_ == nullptr) return Status();
    MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph));
    return FindFrames(graph, order).status();
  }

  Note Prune(const Graph& full);
  Note Inline();
  Note Lower();
  Note PlaceNodes();
  Note Watch();
  Note ReadVariables();
  OptimizeOptions OptionsOfPasses() const;
  Note Fuse();
  Note Partition();

  const RunSignature& signature_;
  const CompileContext& context_;
  const CompileOptions& options_;
  std::set<std::string, std::less<>> must_run_;  // names of nodes, even without consumers
  std::unique_ptr<Graph> graph_;
  CompiledGraphs out_;
  int changes_ = 0;          // of optimising passes
  int changes_of_pass_ = 0;  // of the last one, in all rounds
  bool loops_are_sound_ = false;
  std::chrono::steady_clock::time_point optimize_until_{};
};

Note Compilation::Prune(const Graph& full) {
  MR_ASSIGN_OR_RETURN(PrunedGraph pruned, PruneForRun(full, signature_, context_.prune));
  graph_ = std::move(pruned.graph);
  out_.feeds = std::move(pruned.feeds);
  out_.fetches = std::move(pruned.fetches);
  return std::string();
}

// Replaces calls by the bodies of functions, so that the following passes see them.
Note Compilation::Inline() {
  MR_ASSIGN_OR_RETURN(const InlineResult result,
                      InlineFunctions(graph_.get(), {.has_kernel = context_.place.has_kernel}, &must_run_));
  return Count("inlined", result.inlined, "calls");
}

// Malformed loops are refused before any other pass sees them.
Note Compilation::Lower() {
  MR_RETURN_IF_ERROR(RewriteNamedCalls(graph_.get()));
  loops_are_sound_ = true;
  if (!HasControlFlow(*graph_)) return std::string();
  MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(*graph_));
  MR_ASSIGN_OR_RETURN(const Frames frames, FindFrames(*graph_, order));
  return Count("found", static_cast<int>(frames.frames.size()) - 1, "loops");
}

Note Compilation::PlaceNodes() {
  MR_RETURN_IF_ERROR(Place(graph_.get(), context_.place));
  return std::string();
}

Note Compilation::Watch() {
  MR_ASSIGN_OR_RETURN(const int added, AddWatches(graph_.get(), context_.watches, context_.place));
  return Count("added", added, "nodes");
}

Note Compilation::ReadVariables() {
  MR_ASSIGN_OR_RETURN(const int changed, ReadVariablesLate(graph_.get()));
  return Count("read", changed, "inputs late");
}

OptimizeOptions Compilation::OptionsOfPasses() const {
  OptimizeOptions options{options_};
  options.evaluator = context_.evaluator;
  options.has_kernel = context_.place.has_kernel;
  options.client_device = context_.prune.client_device;
  if (context_.place.devices != nullptr) {
    const DeviceDescription* client = context_.place.devices->Find(options.client_device);
    if (client != nullptr) options.client_device_type = client->type();
  }
  options.preserve = must_run_;
  return options;
}

Note Compilation::Fuse() {
  MR_ASSIGN_OR_RETURN(const int fused, FuseNodes(graph_.get(), OptionsOfPasses()));
  return Count("fused", fused, "nodes into others");
}

Note Compilation::Partition() {
  MR_ASSIGN_OR_RETURN(out_.partitions, PartitionGraph(std::move(graph_), context_.partition));
  graph_ = nullptr;
  return Count("cut into", static_cast<int>(out_.partitions.size()), "parts");
}

}  // namespace

std::span<const PassInfo> OptionalPasses() { return kOptionalPasses; }

StatusOr<CompiledGraphs> Compile(const Graph& full, const RunSignature& signature,
                                 const CompileContext& context) {
  return Compilation(signature, context).PruneAndRun(full);
}

StatusOr<CompiledGraphs> CompileWhole(std::unique_ptr<Graph> graph, const std::vector<std::string>& must_run,
                                      const CompileContext& context) {
  const RunSignature signature{.feeds = {}, .fetches = {}, .targets = must_run};
  return Compilation(signature, context).RunOn(std::move(graph));
}

}  // namespace millrace
