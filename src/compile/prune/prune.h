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

// The feeds, fetches and targets of a kind of step, by tensor ("n:1", "n") and node name, in the order of the
// caller: feed i becomes argument i and fetch i result i. Feeds are unique; fetches and targets may repeat.
// For a connection (from, to), the consumers of tensor `to` get tensor `from`; connections are made one after
// the other.
struct RunSignature {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  std::vector<std::pair<std::string, std::string>> connections = {};
  friend bool operator==(const RunSignature&, const RunSignature&) = default;
};

// How values are passed to and from the pruned graph.
enum class FeedConvention {
  kCallFrame,   // _Arg and _Retval with attrs T and index: one process
  kRendezvous,  // _Recv and _Send named after the tensor, client_terminated: partial runs
};

// The shapes of feeds on which a step may rely.
enum class FeedShapes {
  kDeclared,  // the session checks a fed value against its placeholder
  kAny,       // values may have any shape
};

struct PruneOptions {
  FeedConvention convention = FeedConvention::kCallFrame;
  FeedShapes shapes = FeedShapes::kDeclared;
  // Where feeds enter and fetches leave; "" leaves the new nodes without a device.
  std::string client_device;
  uint64_t client_incarnation = 0;
};

// A tensor that is fed or fetched. Types are base types.
struct EndpointInfo {
  DataType dtype = DataType::kInvalid;
  PartialShape shape;  // as declared in the graph (a Placeholder's shape); else unknown
};

struct PrunedGraph {
  std::unique_ptr<Graph> graph;
  std::vector<EndpointInfo> feeds;    // by position in the signature, also for feeds that nothing uses
  std::vector<EndpointInfo> fetches;  // by position in the signature
};

// The smallest graph that computes the fetches and targets from the feeds. `full` is not changed; time and
// memory are linear in the result (plus one bit per node of `full`). Feeding a tensor separates it from its
// producer for every consumer, including fetches; unused feeds have no node. Errors are in TensorFlow's
// words.
StatusOr<PrunedGraph> PruneForRun(const Graph& full, const RunSignature& signature,
                                  const PruneOptions& options);

}  // namespace millrace
