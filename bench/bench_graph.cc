// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_graph.h"

namespace millrace::bench {

BenchGraph::BenchGraph() : graph_(std::make_unique<Graph>(OpRegistry::Global())) {}

Node* BenchGraph::Add(const std::string& name, const std::string& op, AttrMap attrs,
                      const std::vector<Node*>& inputs) {
  auto node = graph_->AddNode(name, op, std::move(attrs));
  CheckOk(node.status());
  for (size_t i = 0; i < inputs.size(); ++i) graph_->AddEdge(inputs[i], 0, *node, static_cast<int>(i));
  return *node;
}

Node* BenchGraph::Scalar(const std::string& name, float value) {
  return Add(name, "Const", {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(value)}}, {});
}

Node* BenchGraph::Placeholder(const std::string& name) {
  return Add(name, "Placeholder", {{"dtype", DataType::kFloat}, {"shape", PartialShape()}}, {});
}

Node* BenchGraph::Variable(const std::string& name, float value) {
  Node* variable =
      Add(name, "VariableV2", {{"dtype", DataType::kFloat}, {"shape", PartialShape(TensorShape())}}, {});
  Node* initial = Scalar(name + "/initial_value", value);
  initializers_.push_back(Add(name + "/Assign", "Assign", Float(), {variable, initial})->name());
  return variable;
}

std::unique_ptr<Session> MakeSession(const BenchGraph& graph, int threads) {
  SessionOptions options;
  options.inter_op_parallelism_threads = threads;
  options.intra_op_parallelism_threads = threads;
  // Without the optimising passes, which would remove the work that the cases measure.
  options.disabled_passes = {"all"};
  auto session = NewSession(options);
  CheckOk(session.status());
  CheckOk((*session)->ExtendFrom(graph.graph()));
  if (!graph.initializers().empty()) CheckOk((*session)->Run({}, {}, graph.initializers(), nullptr));
  return *std::move(session);
}

Session::CallableHandle MakeCallable(Session& session, std::vector<std::string> feeds,
                                     std::vector<std::string> fetches, std::vector<std::string> targets) {
  CallableOptions options{std::move(feeds), std::move(fetches), std::move(targets), RunOptions()};
  auto handle = session.MakeCallable(options);
  CheckOk(handle.status());
  return *handle;
}

}  // namespace millrace::bench
