// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "millrace/dtype.h"
#include "millrace/shape.h"
#include "millrace/status.h"

namespace millrace {

// What one kind of step feeds, fetches and runs, by tensor ("n:1", "n") and node name. Order is the caller's:
// feed i becomes argument i and fetch i result i. Feeds are unique; fetches and targets may repeat. Of a
// connection (from, to), the consumers of tensor `to` get tensor `from`; connections are made one after the
// other.
struct RunSignature {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  std::vector<std::pair<std::string, std::string>> connections = {};
  friend bool operator==(const RunSignature&, const RunSignature&) = default;
};

// How values get into and out of the pruned graph.
enum class FeedConvention {
  kCallFrame,   // _Arg and _Retval with attrs T and index: one process
  kRendezvous,  // _Recv and _Send named after the tensor, client_terminated: partial runs
};

// What a step may rely on of the shapes that placeholders declare.
enum class FeedShapes {
  kDeclared,  // the session checks that a fed value suits its placeholder
  kAny,       // values may have any shape
};

struct PruneOptions {
  FeedConvention convention = FeedConvention::kCallFrame;
  FeedShapes shapes = FeedShapes::kDeclared;
  // Where feeds enter and fetches leave; "" leaves the new nodes without a device.
  std::string client_device;
  uint64_t client_incarnation = 0;
};

// A tensor that crosses the border of a step. Types are base types.
struct EndpointInfo {
  DataType dtype = DataType::kInvalid;
  PartialShape shape;  // what the graph declares about it (a Placeholder's shape); unknown otherwise
};

struct PrunedGraph {
  std::unique_ptr<Graph> graph;
  std::vector<EndpointInfo> feeds;    // by position in the signature, also for feeds that nothing uses
  std::vector<EndpointInfo> fetches;  // by position in the signature
};

// The smallest graph that computes the fetches and targets from the feeds. `full` is not changed; time and
// memory are linear in what is kept (plus one bit per node of `full`). Feeding a tensor cuts it off from its
// producer for every consumer, fetches included; feeds that nothing needs leave no node behind. Errors are in
// TensorFlow's words.
StatusOr<PrunedGraph> PruneForRun(const Graph& full, const RunSignature& signature,
                                  const PruneOptions& options);

}  // namespace millrace
