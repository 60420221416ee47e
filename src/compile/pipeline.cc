// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/pipeline.h"

#include <chrono>
#include <utility>

#include "compile/optimize/cse.h"
#include "compile/optimize/fold.h"
#include "compile/optimize/fuse.h"
#include "graph/frames.h"

namespace millrace {
namespace {

using Note = StatusOr<std::string>;

std::string Count(std::string_view what, int count, std::string_view unit) {
  return count == 0 ? std::string() : StrCat(what, " ", std::to_string(count), " ", unit);
}

// One compilation. Each pass changes graph_, or puts another there, and returns a note; the last one leaves
// partitions.
class Compilation {
 public:
  Compilation(const RunSignature& signature, const CompileOptions& options)
      : signature_(signature), options_(options) {}

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
    MR_RETURN_IF_ERROR(Pass("lower", [&] { return Lower(); }));
    MR_RETURN_IF_ERROR(Pass("place", [&] { return PlaceNodes(); }));
    if (options_.evaluator != nullptr) MR_RETURN_IF_ERROR(Pass("fold", [&] { return Fold(); }));
    MR_RETURN_IF_ERROR(Pass("cse", [&] { return MergeCommon(); }));
    MR_RETURN_IF_ERROR(Pass("fuse", [&] { return Fuse(); }));
    MR_RETURN_IF_ERROR(Pass("partition", [&] { return Partition(); }));
    return std::move(out_);
  }

  // The wrapper of all passes: leaves out what is switched off, times the others, checks and dumps what they
  // left.
  template <typename F>
  Status Pass(std::string_view name, const F& pass) {
    if (options_.disabled_passes.contains(name)) return Status();
    const auto start = std::chrono::steady_clock::now();
    Note note = pass();
    if (!note.ok()) return note.status();
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
    out_.passes.push_back({std::string(name), time.count(), 0, *std::move(note)});
    if (graph_ != nullptr) return Check(name, "", *graph_);
    for (const GraphPartition& part : out_.partitions) MR_RETURN_IF_ERROR(Check(name, part.key, *part.graph));
    return Status();
  }

  Status Check(std::string_view pass, std::string_view part, const Graph& graph) {
    out_.passes.back().nodes_after += graph.num_nodes();
    if (options_.dump) options_.dump(pass, part, graph);
    return options_.validate ? graph.Validate().WithContext(StrCat("; after pass '", pass, "'")) : Status();
  }

  Note Prune(const Graph& full);
  Note Lower();
  Note PlaceNodes();
  Note Fold();
  Note MergeCommon();
  Note Fuse();
  Note Partition();

  const RunSignature& signature_;
  const CompileOptions& options_;
  std::unique_ptr<Graph> graph_;
  CompiledGraphs out_;
};

Note Compilation::Prune(const Graph& full) {
  MR_ASSIGN_OR_RETURN(PrunedGraph pruned, PruneForRun(full, signature_, options_.prune));
  graph_ = std::move(pruned.graph);
  out_.feeds = std::move(pruned.feeds);
  out_.fetches = std::move(pruned.fetches);
  return std::string();
}

// Loops that are badly made are refused before any other pass sees them.
Note Compilation::Lower() {
  const auto is_flow = [this](int id) {
    const Node* node = graph_->node(id);
    return node != nullptr && node->traits().is_control_flow;
  };
  for (int id = 2; id < graph_->num_node_ids(); ++id) {
    if (!is_flow(id)) continue;
    MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(*graph_));
    MR_ASSIGN_OR_RETURN(const Frames frames, FindFrames(*graph_, order));
    return Count("found", static_cast<int>(frames.frames.size()) - 1, "loops");
  }
  return std::string();
}

Note Compilation::PlaceNodes() {
  MR_RETURN_IF_ERROR(Place(graph_.get(), options_.place));
  return std::string();
}

Note Compilation::Fold() {
  FoldOptions fold;
  fold.evaluator = options_.evaluator;
  fold.has_kernel = options_.place.has_kernel;
  fold.client_device = options_.prune.client_device;
  if (options_.place.devices != nullptr) {
    const Device* client = options_.place.devices->Find(fold.client_device);
    if (client != nullptr) fold.client_device_type = client->type();
  }
  fold.preserve.insert(signature_.targets.begin(), signature_.targets.end());
  fold.max_bytes = options_.max_folded_bytes;
  MR_ASSIGN_OR_RETURN(const int folded, FoldConstants(graph_.get(), fold));
  return Count("folded", folded, "tensors");
}

Note Compilation::MergeCommon() {
  MR_ASSIGN_OR_RETURN(const int merged, EliminateCommonSubexpressions(graph_.get()));
  return Count("merged", merged, "nodes");
}

Note Compilation::Fuse() {
  FuseOptions fuse;
  fuse.has_kernel = options_.place.has_kernel;
  fuse.preserve.insert(signature_.targets.begin(), signature_.targets.end());
  MR_ASSIGN_OR_RETURN(const int fused, FuseNodes(graph_.get(), fuse));
  return Count("fused", fused, "nodes into others");
}

Note Compilation::Partition() {
  MR_ASSIGN_OR_RETURN(out_.partitions, PartitionGraph(std::move(graph_), options_.partition));
  graph_ = nullptr;
  return Count("cut into", static_cast<int>(out_.partitions.size()), "parts");
}

}  // namespace

StatusOr<CompiledGraphs> Compile(const Graph& full, const RunSignature& signature,
                                 const CompileOptions& options) {
  return Compilation(signature, options).PruneAndRun(full);
}

StatusOr<CompiledGraphs> CompileWhole(std::unique_ptr<Graph> graph, const CompileOptions& options) {
  const RunSignature none;
  return Compilation(none, options).RunOn(std::move(graph));
}

}  // namespace millrace
