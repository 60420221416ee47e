// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/upgrade.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "graph/graph_import.h"
#include "graph/testing.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

tensorflow::OpList Ops(const std::string& text) {
  tensorflow::OpList list;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &list)) << text;
  return list;
}

constexpr char kPlaceholder[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } "
    "attr { key: 'shape' value { shape { } } } } ";

TEST(UpgradeTest, AnEmptyShapeOfAnOldPlaceholderIsUnknown) {
  for (const auto& [producer, rank] : {std::pair(0, -1), {21, -1}, {22, 0}, {134, 0}}) {
    const tensorflow::GraphDef def =
        GraphDefFromText(StrCat(kPlaceholder, "versions { producer: ", producer, " }"));
    Graph graph(TestOps());
    ASSERT_EQ(ImportGraphDef(def, ImportOptions(), &graph), Status());
    EXPECT_EQ(graph.FindNode("x")->attrs().Get<PartialShape>("shape")->rank(), rank) << producer;
    tensorflow::GraphDef upgraded = def;
    ASSERT_EQ(UpgradeGraphDef(TestOps(), &upgraded), Status());
    EXPECT_EQ(upgraded.node(0).attr().at("shape").shape().unknown_rank(), rank < 0) << producer;
    EXPECT_EQ(upgraded.versions().producer(), producer);
  }
}

TEST(UpgradeTest, DefaultsAreAddedInFunctionsTooAndUnknownOpsStay) {
  tensorflow::GraphDef def = GraphDefFromText(
      "node { name: 'm' op: 'MatMul' attr { key: 'T' value { type: DT_FLOAT } } } node { name: 'u' op: "
      "'Unheard' } ");
  *def.mutable_library()->add_function()->add_node_def() = def.node(0);
  ASSERT_EQ(UpgradeGraphDef(TestOps(), &def), Status());
  for (const tensorflow::NodeDef& node : {def.node(0), def.library().function(0).node_def(0)}) {
    ASSERT_TRUE(node.attr().contains("transpose_a"));
    EXPECT_FALSE(node.attr().at("transpose_a").b());
  }
  EXPECT_TRUE(def.node(1).attr().empty());
}

constexpr char kLaterMatMul[] =
    "node { name: 'x2' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } "
    "  attr { key: 'shape' value { shape { unknown_rank: true } } } } "
    "node { name: 'a' op: 'MatMul' input: ['x2', 'x2'] attr { key: 'T' value { type: DT_FLOAT } } "
    "  attr { key: 'transpose_a' value { b: false } } attr { key: 'transpose_b' value { b: false } } "
    "  attr { key: 'grad_a' value { b: false } } attr { key: 'grad_b' value { b: %s } } } ";

TEST(UpgradeTest, LaterAttributesThatChangeNothingAreDropped) {
  for (const bool changes : {false, true}) {
    std::string node = kLaterMatMul;
    node.replace(node.find("%s"), 2, changes ? "true" : "false");
    tensorflow::GraphDef def = GraphDefFromText(StrCat(node, "versions { producer: 1087 }"));
    Graph graph(TestOps());
    const Status status = ImportGraphDef(def, ImportOptions(), &graph);
    if (changes) {
      EXPECT_THAT(status.message(), HasSubstr("NodeDef mentions attr 'grad_b' not in Op<name=MatMul"));
    } else {
      ASSERT_EQ(status, Status());
      EXPECT_EQ(graph.FindNode("a")->attrs().Find("grad_a"), nullptr);
    }
    ASSERT_EQ(UpgradeGraphDef(TestOps(), &def), Status());
    EXPECT_FALSE(def.node(1).attr().contains("grad_a"));
    EXPECT_EQ(def.node(1).attr().contains("grad_b"), changes);
  }
}

TEST(UpgradeTest, OpsHaveLaterAttributesByName) {
  for (const char* op : {"AssignVariableOp", "MaxPool", "MaxPoolGrad", "VarHandleOp", "_FusedMatMul"})
    EXPECT_TRUE(HasLaterAttrs(op)) << op;
  for (const char* op : {"", "Add", "MaxPool3D", "zzz"}) EXPECT_FALSE(HasLaterAttrs(op)) << op;
}

TEST(UpgradeTest, VersionsAndRemovedOpsAreErrors) {
  tensorflow::GraphDef def = GraphDefFromText("node { name: 'a' op: 'OldOp' } versions { producer: 8 }");
  const Status removed = UpgradeGraphDef(TestOps(), &def);
  EXPECT_EQ(removed.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(removed.message(), HasSubstr("Op OldOp is not available in GraphDef version 8."));
  def.mutable_versions()->set_producer(7);
  EXPECT_EQ(UpgradeGraphDef(TestOps(), &def), Status());
  def.mutable_versions()->set_min_consumer(135);
  EXPECT_THAT(UpgradeGraphDef(TestOps(), &def).message(), HasSubstr("min consumer version 135 above"));
}

TEST(UpgradeTest, DeprecatedOpsAreReportedOnce) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    tensorflow::GraphDef def = GraphDefFromText("node { name: 'a' op: 'AgedOp' } versions { producer: 7 }");
    ASSERT_EQ(UpgradeGraphDef(TestOps(), &def), Status());
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string told = "Op AgedOp is deprecated. It will cease to work in GraphDef version 8. Use NewOp.";
  const size_t at = log.find(told);
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find(told, at + 1), std::string::npos);
}

TEST(UpgradeTest, NewAttributesGoWhereTheyHaveTheirDefaults) {
  const tensorflow::OpList producer = Ops(
      "op { name: 'Conv' attr { name: 'dilations' type: 'list(int)' default_value { list { i: [1, 1] } } } "
      "attr { name: 'pad' type: 'string' default_value { s: 'SAME' } } attr { name: 'must' type: 'int' } }");
  const tensorflow::OpList consumer =
      Ops("op { name: 'Conv' attr { name: 'pad' type: 'string' default_value { s: 'SAME' } } }");
  tensorflow::GraphDef def = GraphDefFromText(
      "node { name: 'a' op: 'Conv' attr { key: 'dilations' value { list { i: [1, 1] } } } "
      "  attr { key: 'pad' value { s: 'SAME' } } attr { key: '_own' value { i: 1 } } }"
      "node { name: 'b' op: 'Conv' attr { key: 'dilations' value { list { i: [2, 1] } } } "
      "  attr { key: 'must' value { i: 3 } } }"
      "node { name: 'c' op: 'Function' attr { key: 'any' value { i: 1 } } }");
  *def.mutable_library()->add_function()->add_node_def() = def.node(0);
  std::set<OpAttr> removed;
  ASSERT_EQ(RemoveNewDefaultAttrs(consumer, producer, &def, &removed), Status());
  EXPECT_THAT(removed, UnorderedElementsAre(Pair("Conv", "dilations")));
  EXPECT_FALSE(def.node(0).attr().contains("dilations"));
  EXPECT_TRUE(def.node(0).attr().contains("pad"));
  EXPECT_TRUE(def.node(0).attr().contains("_own"));
  EXPECT_TRUE(def.node(1).attr().contains("dilations"));
  EXPECT_TRUE(def.node(1).attr().contains("must"));
  EXPECT_TRUE(def.node(2).attr().contains("any"));
  EXPECT_FALSE(def.library().function(0).node_def(0).attr().contains("dilations"));

  (*def.mutable_node(0)->mutable_attr())["strange"].set_i(1);
  const Status unknown = RemoveNewDefaultAttrs(consumer, producer, &def, nullptr);
  EXPECT_TRUE(errors::IsInvalidArgument(unknown)) << unknown;
  EXPECT_THAT(unknown.message(), HasSubstr("Attr 'strange' missing in producer's OpDef: Op<name=Conv"));
}

}  // namespace
}  // namespace millrace
