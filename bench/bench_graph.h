// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/bench_util.h"
#include "graph/graph.h"
#include "millrace/session.h"

namespace millrace::bench {

// Builds small graphs for benchmarks. Any error ends the program: a benchmark has nobody to report it to.
class BenchGraph {
 public:
  BenchGraph();
  Node* Add(const std::string& name, const std::string& op, AttrMap attrs, const std::vector<Node*>& inputs);
  Node* Scalar(const std::string& name, float value);
  Node* Placeholder(const std::string& name);
  // A float scalar variable; MakeSession initialises it.
  Node* Variable(const std::string& name, float value);
  Node* Unary(const std::string& name, const std::string& op, Node* x) { return Add(name, op, Float(), {x}); }
  Node* Binary(const std::string& name, const std::string& op, Node* x, Node* y) {
    return Add(name, op, Float(), {x, y});
  }
  Node* NoOp(const std::string& name) { return Add(name, "NoOp", {}, {}); }
  // For nodes that were added without inputs.
  void Connect(Node* src, int output, Node* dst, int input) { graph_->AddEdge(src, output, dst, input); }
  void Control(Node* from, Node* to) { graph_->AddControlEdgeUnchecked(from, to); }
  const Graph& graph() const { return *graph_; }
  const std::vector<std::string>& initializers() const { return initializers_; }

 private:
  static AttrMap Float() { return {{"T", DataType::kFloat}}; }
  std::unique_ptr<Graph> graph_;
  std::vector<std::string> initializers_;
};

// A session with that graph and that many threads of both kinds, its variables initialised.
std::unique_ptr<Session> MakeSession(const BenchGraph& graph, int threads);
Session::CallableHandle MakeCallable(Session& session, std::vector<std::string> feeds,
                                     std::vector<std::string> fetches, std::vector<std::string> targets);
inline void RunOrDie(Session& session, Session::CallableHandle handle, std::span<const Tensor> feeds,
                     std::vector<Tensor>* outputs = nullptr) {
  if (Status s = session.RunCallable(handle, feeds, outputs, nullptr); !s.ok()) CheckOk(s);
}

}  // namespace millrace::bench
