// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/place/watches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/all_ops_testing.h"
#include "compile/testing.h"
#include "graph/testing.h"

namespace millrace {
namespace {

using testing::HasSubstr;

class WatchesTest : public testing::Test {
 protected:
  WatchesTest() {
    options_.devices = &devices_;
    options_.has_kernel = [](std::string_view, const NodeProps& props) {
      return props.op->def.name != "DebugNanCount";
    };
    AddTestNode(&graph_, "v", "VariableV2", {}, {{"shape", PartialShape{}}, {"dtype", DataType::kFloat}},
                "/cpu:1");
    AddTestNode(&graph_, "c", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(1.f)}});
    AddTestNode(&graph_, "as", "Assign", {"v", "c"}, {{"T", DataType::kFloat}});
    EXPECT_TRUE(Place(&graph_, options_).ok());
  }
  StatusOr<int> Add(const std::string& node, const std::string& op, bool tolerate = false,
                    const std::string& url = "file:///d", int output = 0) {
    const DebugWatch watch{node, output, {op}, {url}, tolerate};
    return AddWatches(&graph_, {&watch, 1}, options_);
  }
  std::string Error(const std::string& op, const std::string& url = "file:///d") {
    const auto added = Add("c", op, false, url);
    EXPECT_FALSE(added.ok());
    return added.ok() ? "" : std::string(added.status().message());
  }

  const DeviceView devices_{*FakeDevices({"0/CPU:0", "0/CPU:1"})};
  Graph graph_{AllOps()};
  CompileOptions compile_;
  PlaceOptions options_{compile_};
};

TEST_F(WatchesTest, NodesAreWhereTheirTensorsAre) {
  const auto added = Add("c", "DebugNumericSummary(lower_bound=-1.5; mute_if_healthy=true)");
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(*added, 1);
  const Node* const node = graph_.FindNode("__dbg_c:0_0_DebugNumericSummary");
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->assigned_device(), graph_.FindNode("c")->assigned_device());
  EXPECT_EQ(*node->Attr<std::string>("tensor_name"), "c:0");
  EXPECT_EQ(*node->Attr<std::string>("device_name"), node->assigned_device());
  EXPECT_EQ(*node->Attr<std::vector<std::string>>("debug_urls"), std::vector<std::string>{"file:///d"});
  EXPECT_EQ(*node->Attr<float>("lower_bound"), -1.5f);
  EXPECT_TRUE(*node->Attr<bool>("mute_if_healthy"));
  EXPECT_TRUE(graph_.Validate().ok());
}

TEST_F(WatchesTest, WhatChangesAReferenceWaits) {
  ASSERT_TRUE(Add("v", "DebugIdentity").ok());
  const Node* const debug = graph_.FindNode("__dbg_v:0_0_DebugIdentity");
  ASSERT_NE(debug, nullptr);
  bool waits = false;
  for (const Edge* edge : graph_.FindNode("as")->in_edges()) waits |= edge->IsControl() && edge->src == debug;
  EXPECT_TRUE(waits);
  EXPECT_EQ(debug->assigned_device(), graph_.FindNode("v")->assigned_device());
}

TEST_F(WatchesTest, AllNodesAndUnknownOnes) {
  EXPECT_EQ(*Add("*", "DebugIdentity", false, "file:///d", -1), 3);
  EXPECT_EQ(*Add("gone", "DebugIdentity"), 0);
  EXPECT_EQ(*Add("c", "DebugIdentity", false, "file:///d", 1), 0);
}

TEST_F(WatchesTest, ErrorsNameTheNode) {
  EXPECT_THAT(Error("DebugIdentity(", "file:///d"), HasSubstr("Malformed debug op name"));
  EXPECT_THAT(Error("DebugNumericSummary(a)"), HasSubstr("Malformed attributes in debug op name"));
  EXPECT_THAT(Error("DebugIdentity(a=1; b=2)"),
              HasSubstr("2 attribute key(s) were not valid for debug node __dbg_c:0_0_DebugIdentity: a, b"));
  EXPECT_THAT(Error("DebugNumericSummary(mute_if_healthy=maybe)"),
              HasSubstr("Invalid value string for bool-type attribute mute_if_healthy of debug node "
                        "__dbg_c:0_0_DebugNumericSummary: \"maybe\""));
  EXPECT_THAT(Error("DebugNumericSummary(lower_bound=x)"), HasSubstr("float-type attribute lower_bound"));
  EXPECT_THAT(Error("DebugIdentity", "grpc://host:1"), HasSubstr("grpc://host:1"));
  EXPECT_THAT(Error("Neg"), HasSubstr("Failed to create debug node Neg for tensor c:0"));
  EXPECT_THAT(Error("DebugNanCount"), HasSubstr("Failed to create debug node DebugNanCount for tensor c:0"));
  EXPECT_EQ(*Add("c", "DebugNanCount", true), 0);
  EXPECT_EQ(*Add("c", "Neg", true), 0);
  EXPECT_TRUE(graph_.Validate().ok());
}

}  // namespace
}  // namespace millrace
