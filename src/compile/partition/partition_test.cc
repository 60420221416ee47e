// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/partition/partition.h"

#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/testing.h"
#include "graph/function_library.h"
#include "graph/testing.h"

namespace millrace {
namespace {

using testing::HasSubstr;

const AttrMap kFloat = {{"T", DataType::kFloat}};
const AttrMap kDtype = {{"dtype", DataType::kFloat}};

class PartitionTest : public testing::Test {
 protected:
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs,
            std::string_view device, AttrMap attrs = {}) {
    Node* node = AddTestNode(graph_.get(), name, op, inputs, std::move(attrs));
    if (!device.empty()) node->set_assigned_device(FakeDeviceName(device));
    return node;
  }
  void Placeholder(std::string_view name, std::string_view device) {
    Add(name, "Placeholder", {}, device, kDtype);
  }
  void Partition() {
    graph_->FixupSourceAndSinkEdges();
    auto parts = PartitionGraph(std::move(graph_), options_);
    ASSERT_TRUE(parts.ok()) << parts.status();
    parts_ = *std::move(parts);
    for (const GraphPartition& part : parts_) {
      EXPECT_TRUE(part.graph->Validate().ok()) << part.key << part.graph->Validate();
    }
  }
  std::vector<const Node*> NodesOf(std::string_view op) const {
    std::vector<const Node*> found;
    for (const GraphPartition& part : parts_) {
      for (const Node* node : part.graph->OpNodes()) {
        if (node->op_name() == op) found.push_back(node);
      }
    }
    return found;
  }
  StatusOr<std::map<std::string, float>> Run(const std::map<std::string, float>& feeds) const {
    std::vector<const Graph*> graphs;
    for (const GraphPartition& part : parts_) graphs.push_back(part.graph.get());
    return InterpretParts(graphs, feeds);
  }

  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>(TestOps());
  PartitionOptions options_;
  std::vector<GraphPartition> parts_;
};

TEST_F(PartitionTest, OneDeviceGivesTheGraphBack) {
  Placeholder("x", "0/CPU:0");
  Add("n", "Neg", {"x"}, "0/CPU:0");
  const Graph* graph = graph_.get();
  Partition();
  ASSERT_EQ(parts_.size(), 1u);
  EXPECT_EQ(parts_[0].graph.get(), graph);
  EXPECT_EQ(parts_[0].key, FakeDeviceName("0/CPU:0"));
}

TEST_F(PartitionTest, EmptyGraphGivesOneEmptyPartition) {
  Partition();
  ASSERT_EQ(parts_.size(), 1u);
  EXPECT_EQ(parts_[0].key, "");
}

TEST_F(PartitionTest, DataEdgeBecomesSendAndReceive) {
  options_.incarnation = [](std::string_view device) { return device.ends_with("1") ? 11u : 10u; };
  Placeholder("x", "0/CPU:1");
  Add("n", "Neg", {"x"}, "0/CPU:0");
  Partition();
  ASSERT_EQ(parts_.size(), 2u);
  EXPECT_EQ(parts_[0].key, FakeDeviceName("0/CPU:0"));
  ASSERT_EQ(NodesOf("_Send").size(), 1u);
  ASSERT_EQ(NodesOf("_Recv").size(), 1u);
  for (const Node* node : {NodesOf("_Send")[0], NodesOf("_Recv")[0]}) {
    EXPECT_THAT(*node->Attr<std::string>("tensor_name"), testing::MatchesRegex("edge_[0-9]+_x"));
    EXPECT_EQ(*node->Attr<std::string>("send_device"), FakeDeviceName("0/CPU:1"));
    EXPECT_EQ(*node->Attr<std::string>("recv_device"), FakeDeviceName("0/CPU:0"));
    EXPECT_EQ(*node->Attr<int64_t>("send_device_incarnation"), 11);
    EXPECT_FALSE(*node->Attr<bool>("client_terminated"));
  }
  EXPECT_EQ(NodesOf("_Send")[0]->assigned_device(), FakeDeviceName("0/CPU:1"));
  EXPECT_EQ(NodesOf("_Recv")[0]->assigned_device(), FakeDeviceName("0/CPU:0"));
  EXPECT_EQ(Run({{"x", 3.f}})->at("n:0"), -3);
}

TEST_F(PartitionTest, ATensorIsSentOnceToEachDevice) {
  Placeholder("x", "0/CPU:0");
  Add("a", "Neg", {"x"}, "0/CPU:1");
  Add("b", "Add", {"x", "x"}, "0/CPU:1");
  Add("c", "Neg", {"x"}, "1/CPU:0");
  Partition();
  EXPECT_EQ(parts_.size(), 3u);
  EXPECT_EQ(NodesOf("_Send").size(), 2u);
  EXPECT_EQ(NodesOf("_Recv").size(), 2u);
  EXPECT_EQ(Run({{"x", 3.f}})->at("b:0"), 6);
}

TEST_F(PartitionTest, OutputsOfOneNodeTravelApart) {
  Placeholder("x", "0/CPU:0");
  Add("s", "Split", {"x"}, "0/CPU:0", {{"n", 2}});
  Add("a", "Sub", {"s:0", "s:1"}, "0/CPU:1");
  Partition();
  EXPECT_EQ(NodesOf("_Send").size(), 2u);
  EXPECT_EQ(Run({{"x", 3.f}})->at("a:0"), -1);
}

TEST_F(PartitionTest, ControlEdgeTravelsAsAnEmptyConstant) {
  Add("first", "NoOp", {}, "0/CPU:0");
  Add("second", "NoOp", {"^first"}, "0/CPU:1");
  Add("third", "NoOp", {"^first"}, "0/CPU:1");
  Partition();
  ASSERT_EQ(NodesOf("Const").size(), 1u) << "both wait for the same transfer";
  const Node* empty = NodesOf("Const")[0];
  EXPECT_EQ(empty->Attr<Tensor>("value")->shape(), TensorShape({0}));
  EXPECT_EQ(empty->Attr<Tensor>("value")->dtype(), DataType::kFloat);
  ASSERT_EQ(empty->control_in_edges().size(), 1u);
  EXPECT_EQ(empty->control_in_edges()[0]->src->name(), "first");
  EXPECT_EQ(NodesOf("_Send")[0]->in_edges()[0]->src, empty);
  const Node* gate = NodesOf("Identity")[0];
  EXPECT_EQ(gate->in_edges()[0]->src, NodesOf("_Recv")[0]);
  EXPECT_EQ(parts_[1].graph->FindNode("second")->control_in_edges()[0]->src, gate);
  EXPECT_EQ(parts_[1].graph->FindNode("third")->control_in_edges()[0]->src, gate);
  EXPECT_TRUE(Run({}).ok());
}

TEST_F(PartitionTest, DataAndControlFromOneNodeAreTwoTransfers) {
  Placeholder("x", "0/CPU:0");
  Add("n", "Neg", {"x", "^x"}, "0/CPU:1");
  Partition();
  EXPECT_EQ(NodesOf("_Send").size(), 2u);
  EXPECT_EQ(Run({{"x", 2.f}})->at("n:0"), -2);
}

TEST_F(PartitionTest, KeyDecidesWhatStaysTogether) {
  options_.key = TaskKey;
  Placeholder("x", "0/CPU:0");
  Add("a", "Neg", {"x"}, "0/CPU:1");
  Add("b", "Neg", {"a"}, "1/CPU:0");
  Add("c", "Neg", {"a"}, "1/CPU:1");
  Partition();
  ASSERT_EQ(parts_.size(), 2u);
  EXPECT_EQ(parts_[0].key, "/job:a/replica:0/task:0");
  EXPECT_EQ(NodesOf("_Send").size(), 2u) << "one to each device of the other task";
  // Each task partitions its part by device.
  std::vector<GraphPartition> whole = std::move(parts_);
  parts_.clear();
  for (GraphPartition& part : whole) {
    auto devices = PartitionGraph(std::move(part.graph), PartitionOptions());
    ASSERT_TRUE(devices.ok()) << devices.status();
    EXPECT_EQ(devices->size(), 2u);
    for (GraphPartition& device : *devices) parts_.push_back(std::move(device));
  }
  EXPECT_EQ(Run({{"x", 2.f}})->at("c:0"), 2);
}

TEST_F(PartitionTest, PartsKeepVersionsFunctionsAndRequests) {
  Placeholder("x", "0/CPU:0");
  Add("n", "Neg", {"x"}, "0/CPU:1")->set_requested_device("/cpu:1");
  GraphVersions versions;
  versions.producer = 21;
  graph_->set_versions(versions);
  Partition();
  EXPECT_EQ(parts_[0].graph->versions().producer, 21);
  EXPECT_EQ(parts_[1].graph->FindNode("n")->requested_device(), "/cpu:1");
}

TEST_F(PartitionTest, ReferenceAcrossDevicesIsAnErrorAndItsValueIsNot) {
  Add("v", "VariableV2", {}, "0/CPU:0");
  Add("read", "Identity", {"v"}, "0/CPU:1", kFloat);
  Partition();
  EXPECT_EQ(NodesOf("_Send")[0]->input_type(0), DataType::kFloat);

  graph_ = std::make_unique<Graph>(TestOps());
  Add("v", "VariableV2", {}, "0/CPU:0");
  Placeholder("x", "0/CPU:1");
  Add("as", "Assign", {"v", "x"}, "0/CPU:1");
  const Status status = PartitionGraph(std::move(graph_), options_).status();
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_THAT(status.message(),
              HasSubstr("Input 0 of node 'as' (op Assign) is a reference to 'v' on another device"));
}

TEST_F(PartitionTest, ANodeThatWasForgottenByThePlacerIsNamed) {
  Placeholder("x", "0/CPU:0");
  Add("n", "Neg", {"x"}, "");
  EXPECT_EQ(PartitionGraph(std::move(graph_), options_).status().message(),
            "Node 'n' (op Neg) was never assigned to a device");
}

TEST(PartitionKeyTest, TaskIsWhatComesBeforeTheDevice) {
  EXPECT_EQ(TaskKey("/job:a/replica:0/task:3/device:GPU:1"), "/job:a/replica:0/task:3");
  EXPECT_EQ(TaskKey("/gpu:1"), "/gpu:1");
}

class RandomPartitionTest : public testing::TestWithParam<int> {};

TEST_P(RandomPartitionTest, PartsTogetherComputeWhatTheWholeDoes) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  auto graph = std::make_unique<Graph>(TestOps());
  std::vector<std::string> names;
  std::map<std::string, float> feeds;
  for (int i = 0; i < 80; ++i) {
    const std::string name = StrCat("n", i);
    const auto pick = [&] { return names[random() % names.size()]; };
    Node* node = nullptr;
    if (i < 4) {
      node = AddTestNode(graph.get(), name, "Placeholder", {}, kDtype);
      feeds[name] = static_cast<float>(random() % 50);
    } else if (random() % 6 == 0) {
      node = AddTestNode(graph.get(), name, "Split", {pick()}, {{"n", 2}});
    } else {
      node = AddTestNode(graph.get(), name, random() % 2 == 0 ? "Add" : "Sub", {pick(), pick()});
    }
    if (i > 4 && random() % 3 == 0) graph->AddControlEdge(graph->FindNode(pick()), node);
    node->set_assigned_device(FakeDeviceName(StrCat(random() % 2, "/CPU:", random() % 2)));
    names.push_back(name);
  }
  graph->FixupSourceAndSinkEdges();
  const auto whole = Interpret(*graph, feeds);
  ASSERT_TRUE(whole.ok()) << whole.status();
  auto parts = PartitionGraph(std::move(graph), PartitionOptions());
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->size(), 4u);
  std::vector<const Graph*> graphs;
  std::set<std::string> unique;
  size_t nodes = 0;
  for (const GraphPartition& part : *parts) {
    EXPECT_TRUE(part.graph->Validate().ok()) << part.graph->Validate();
    for (const Node* node : part.graph->OpNodes()) {
      EXPECT_EQ(node->assigned_device(), part.key);
      unique.insert(node->name());
      ++nodes;
    }
    graphs.push_back(part.graph.get());
  }
  EXPECT_EQ(unique.size(), nodes) << "names are unique across the parts";
  const auto together = InterpretParts(graphs, feeds);
  ASSERT_TRUE(together.ok()) << together.status();
  for (const auto& [tensor, value] : *whole) EXPECT_EQ(together->at(tensor), value) << tensor;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPartitionTest, testing::Range(0, 20));

}  // namespace
}  // namespace millrace
