// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/graph_tools/tools_testing.h"

#include <gtest/gtest.h>

#include <random>

namespace millrace {

Tensor RandomFloats(const TensorShape& shape, double mean, double deviation) {
  static std::mt19937 random(7);
  std::normal_distribution<double> normal(mean, deviation);
  Tensor tensor(DataType::kFloat, shape);
  for (float& v : tensor.flat<float>()) v = static_cast<float>(normal(random));
  return tensor;
}

std::vector<Tensor> RunGraph(const tensorflow::GraphDef& graph, const Session::Feeds& feeds,
                             const std::vector<std::string>& fetches) {
  std::vector<Tensor> values;
  auto session = NewSession(SessionOptions());
  Status status = session.status();
  if (status.ok()) status = (*session)->Create(graph);
  if (status.ok()) status = (*session)->Run(feeds, fetches, {}, &values);
  EXPECT_EQ(status, Status()) << graph.ShortDebugString().substr(0, 4000);
  if (!status.ok()) values.resize(fetches.size());
  return values;
}

std::vector<std::string> NamesOf(const tensorflow::GraphDef& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.node()) names.push_back(node.name());
  return names;
}

std::map<std::string, int> OpsOf(const tensorflow::GraphDef& graph) {
  std::map<std::string, int> ops;
  for (const auto& node : graph.node()) ++ops[node.op()];
  return ops;
}

const tensorflow::NodeDef* FindNode(const tensorflow::GraphDef& graph, const std::string& name) {
  for (const auto& node : graph.node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

}  // namespace millrace
