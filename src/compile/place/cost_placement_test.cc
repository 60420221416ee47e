// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/place/cost_placement.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compile/place/cost_model.h"
#include "compile/testing.h"
#include "graph/testing.h"

namespace millrace {
namespace {

const AttrMap kFloat = {{"T", DataType::kFloat}};
const AttrMap kDtype = {{"dtype", DataType::kFloat}};

// A fast GPU and a CPU of a quarter of its speed. A node costs 1000 ns on the GPU unless `work` has another
// value; a transfer costs `transfer`. Everything is simulated: no clock is read.
class CostPlacementTest : public testing::Test {
 protected:
  CostPlacementTest() {
    options_.devices = &devices_;
    options_.has_kernel =
        FakeKernels({"Add", "Identity", "Const", "Neg", "Placeholder", "VariableV2", "Assign"});
    costs_.compute_ns = [this](const Node& node, const DeviceDescription& device, int64_t, int64_t) {
      return Compute(node.name(), device.type());
    };
    costs_.output_bytes = [](const Node&, int) { return int64_t{1000}; };
    costs_.transfer_ns = [this](const DeviceDescription&, const DeviceDescription&, int64_t bytes) {
      return transfer_ * bytes / 1000;
    };
  }
  int64_t Compute(const std::string& node, const std::string& type) const {
    const auto it = work_.find(node);
    return (it == work_.end() ? 1000 : it->second) * (type == "GPU" ? 1 : 4);
  }
  Node* Add(const std::string& name, const std::string& op, const std::vector<std::string>& inputs = {},
            AttrMap attrs = kFloat, std::string_view device = {}) {
    return AddTestNode(graph_.get(), name, op, inputs, std::move(attrs), device);
  }
  // Chains of `length` Negs from one placeholder.
  void Chains(int chains, int length) {
    Add("x", "Placeholder", {}, kDtype);
    for (int c = 0; c < chains; ++c) {
      std::string last = "x";
      for (int i = 0; i < length; ++i) {
        const std::string name = "n" + std::to_string(c) + "_" + std::to_string(i);
        Add(name, "Neg", {last});
        last = name;
      }
    }
  }
  // The time of a step with the graph as placed: an independent simulation that repeatedly starts the node
  // that can start first.
  int64_t StepTime() const {
    std::map<const Node*, int64_t> end;
    std::map<std::string, int64_t> busy;
    std::set<const Node*> left;
    for (const Node* node : graph_->OpNodes()) left.insert(node);
    int64_t last = 0;
    while (!left.empty()) {
      const Node* next = nullptr;
      int64_t next_start = 0;
      for (const Node* node : left) {
        int64_t start = busy[node->assigned_device()];
        bool ready = true;
        for (const Edge* edge : node->in_edges()) {
          if (edge == nullptr || !edge->src->IsOp()) continue;
          ready &= end.contains(edge->src);
          if (!ready) break;
          const bool same = edge->src->assigned_device() == node->assigned_device();
          start = std::max(start, end[edge->src] + (same ? 0 : transfer_));
        }
        if (!ready) continue;
        if (next == nullptr || start < next_start || (start == next_start && node->id() < next->id())) {
          next = node;
          next_start = start;
        }
      }
      const std::string& device = next->assigned_device();
      const bool gpu = device.find("GPU") != std::string::npos;
      last =
          std::max(last, end[next] = busy[device] = next_start + Compute(next->name(), gpu ? "GPU" : "CPU"));
      left.erase(next);
    }
    return last;
  }
  void Place(bool by_cost) {
    for (Node* node : graph_->OpNodes()) node->set_assigned_device_index(0);
    options_.costs = by_cost ? &costs_ : nullptr;
    graph_->FixupSourceAndSinkEdges();
    const Status status = millrace::Place(graph_.get(), options_);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::string DeviceOf(std::string_view name) const {
    const std::string& device = graph_->FindNode(name)->assigned_device();
    return device.substr(device.rfind(':', device.rfind(':') - 1) + 1);
  }

  const DeviceView devices_{*FakeDevices({"0/CPU:0", "0/GPU:0"})};
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>(TestOps());
  PlacementCosts costs_;
  CompileOptions compile_;
  PlaceOptions options_{compile_};
  std::map<std::string, int64_t> work_;
  int64_t transfer_ = 500;
};

TEST_F(CostPlacementTest, BeatsTheDefaultOnTwoUnequalDevices) {
  Chains(10, 6);
  Place(false);
  EXPECT_EQ(DeviceOf("n9_5"), "GPU:0");
  const int64_t by_default = StepTime();
  EXPECT_EQ(by_default, 61 * 1000) << "the fast device does everything";
  Place(true);
  const int64_t by_cost = StepTime();
  // With a fifth of the work the slow device takes as long as the fast one: 61000 * 4 / 5 at best.
  EXPECT_LT(by_cost, by_default * 9 / 10);
  EXPECT_GE(by_cost, by_default * 4 / 5);
}

TEST_F(CostPlacementTest, DearTransfersKeepTheWorkTogether) {
  transfer_ = 1'000'000;
  Chains(4, 4);
  Place(true);
  for (const Node* node : graph_->OpNodes()) EXPECT_EQ(DeviceOf(node->name()), "GPU:0") << node->name();
}

TEST_F(CostPlacementTest, ALongChainStaysOnTheFasterDevice) {
  Chains(1, 20);
  Place(true);
  EXPECT_EQ(StepTime(), 21 * 1000);
}

TEST_F(CostPlacementTest, ConstraintsAreRespected) {
  Add("x", "Placeholder", {}, kDtype);
  Add("here", "Neg", {"x"}, kFloat, "/device:CPU:0");
  AttrMap group = kFloat;
  group.Set("_class", std::vector<std::string>{"loc:@here"});
  Add("with", "Neg", {"x"}, group);
  Add("v", "VariableV2", {}, {});
  Add("value", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(1.f)}});
  Add("set", "Assign", {"v", "value"}, {});
  Place(true);
  EXPECT_EQ(DeviceOf("here"), "CPU:0");
  EXPECT_EQ(DeviceOf("with"), "CPU:0");
  EXPECT_EQ(DeviceOf("v"), "GPU:0");
  EXPECT_EQ(DeviceOf("set"), "GPU:0");
}

TEST_F(CostPlacementTest, StateStaysWhereTheDefaultPutsIt) {
  work_["busy"] = 1'000'000;
  Add("busy", "Placeholder", {}, kDtype, "/device:GPU:0");
  for (int i = 0; i < 4; ++i) {
    Add("v" + std::to_string(i), "VariableV2", {}, {});
  }
  Place(true);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(DeviceOf("v" + std::to_string(i)), "GPU:0");
}

TEST_F(CostPlacementTest, ErrorsAreThoseOfTheOtherRules) {
  Add("x", "Placeholder", {}, kDtype, "/device:GPU:7");
  options_.costs = &costs_;
  graph_->FixupSourceAndSinkEdges();
  const Status status = millrace::Place(graph_.get(), options_);
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_NE(
      status.message().find("Cannot assign a device for operation x: {{node x}} was explicitly assigned to"),
      std::string::npos)
      << status;
}

TEST(CostModelTest, MeasuredCostsAreAveragesAndReplaceEstimates) {
  const DeviceView devices(*FakeDevices({"0/CPU:0", "0/GPU:0"}));
  const DeviceDescription& cpu = *devices.Find(FakeDeviceName("0/CPU:0"));
  const DeviceDescription& gpu = *devices.Find(FakeDeviceName("0/GPU:0"));
  Graph graph(TestOps());
  AddTestNode(&graph, "x", "Placeholder", {},
              {{"dtype", DataType::kFloat}, {"shape", PartialShape({10, 5})}});
  const Node& node = *AddTestNode(&graph, "n", "Neg", {"x"}, kFloat);
  CostModel model;
  const PlacementCosts costs = CostsOf(model);
  EXPECT_EQ(costs.output_bytes(*graph.FindNode("x"), 0), 200);
  EXPECT_EQ(costs.output_bytes(node, 0), -1);
  EXPECT_GT(costs.compute_ns(node, cpu, 1 << 20, 1 << 20), costs.compute_ns(node, cpu, 4, 4));
  EXPECT_EQ(costs.transfer_ns(cpu, cpu, 1 << 20), 0);
  EXPECT_GT(costs.transfer_ns(cpu, gpu, 1 << 20), costs.transfer_ns(cpu, gpu, 4));

  DeviceStats stats;
  stats.device = cpu.name();
  NodeStats run;
  run.node = "n";
  run.start_ns = 100;
  run.end_ns = 400;
  run.outputs.push_back({0, DataType::kFloat, TensorShape({10, 5}), 200, 0, false});
  stats.nodes.push_back(run);
  run.end_ns = 600;
  stats.nodes.push_back(run);
  model.Record({&stats, 1});
  EXPECT_EQ(costs.compute_ns(node, cpu, 1 << 20, 1 << 20), 400);
  EXPECT_EQ(costs.compute_ns(node, gpu, 1 << 20, 1 << 20), 400) << "better than a guess";
  EXPECT_EQ(costs.output_bytes(node, 0), 200);
  EXPECT_EQ(model.Find("n", cpu.name())->runs, 2);
  EXPECT_FALSE(model.Find("m", cpu.name()).has_value());
}

}  // namespace
}  // namespace millrace
