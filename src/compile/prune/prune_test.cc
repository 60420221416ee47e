// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/prune/prune.h"

#include <functional>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/testing.h"
#include "graph/testing.h"

namespace millrace {
namespace {

using testing::HasSubstr;

const AttrMap kFloat = {{"T", DataType::kFloat}};

class PruneTest : public testing::Test {
 protected:
  PruneTest() {
    // x, y -> sum -> neg;  v (a reference) -> read;  split has three outputs;  stop waits for x.
    Placeholder("x", PartialShape{-1, 2});
    Placeholder("y", PartialShape());
    AddTestNode(&full_, "sum", "Add", {"x", "y"});
    AddTestNode(&full_, "neg", "Neg", {"sum"});
    AddTestNode(&full_, "split", "Split", {"neg"}, {{"n", 3}});
    AddTestNode(&full_, "both", "Add", {"split:1", "split:2"});
    AddTestNode(&full_, "v", "VariableV2");
    AddTestNode(&full_, "read", "Identity", {"v"}, kFloat);
    AddTestNode(&full_, "assign", "Assign", {"v", "neg"});
    AddTestNode(&full_, "stop", "NoOp", {"^x", "^neg"});
    full_.FixupSourceAndSinkEdges();
  }
  void Placeholder(std::string_view name, const PartialShape& shape) {
    AddTestNode(&full_, name, "Placeholder", {}, {{"dtype", DataType::kFloat}, {"shape", shape}});
  }
  std::string Prune(const RunSignature& signature) {
    auto pruned = PruneForRun(full_, signature, options_);
    if (!pruned.ok()) return pruned.status().ToString();
    EXPECT_TRUE(pruned->graph->Validate().ok()) << pruned->graph->Validate();
    EXPECT_EQ(pruned->feeds.size(), signature.feeds.size());
    EXPECT_EQ(pruned->fetches.size(), signature.fetches.size());
    return GraphText(*pruned->graph);
  }

  Graph full_{TestOps()};
  PruneOptions options_;
};

TEST_F(PruneTest, OnlyWhatTheFetchNeedsIsLeft) {
  EXPECT_EQ(Prune({{"x", "y"}, {"sum"}, {}}),
            "sum = Add(_arg_x_0_0, _arg_y_0_1)\n_arg_x_0_0 = _Arg()\n_arg_y_0_1 = _Arg()\n_retval_sum_0_0 = "
            "_Retval(sum)\n");
}

TEST_F(PruneTest, EverythingUpstreamOfAFedTensorGoes) {
  EXPECT_EQ(Prune({{"sum:0"}, {"neg"}, {}}),
            "neg = Neg(_arg_sum_0_0)\n_arg_sum_0_0 = _Arg()\n_retval_neg_0_0 = _Retval(neg)\n");
}

TEST_F(PruneTest, FetchingAFedTensorGivesTheFedValue) {
  EXPECT_EQ(Prune({{"sum"}, {"sum:0"}, {}}),
            "_arg_sum_0_0 = _Arg()\n_retval_sum_0_0 = _Retval(_arg_sum_0_0)\n");
}

TEST_F(PruneTest, FeedingOneOutputLeavesTheOthersToTheirNode) {
  EXPECT_EQ(Prune({{"split:1", "neg"}, {"both"}, {}}),
            "split = Split(_arg_neg_0_1)\nboth = Add(_arg_split_1_0, split:2)\n_arg_split_1_0 = "
            "_Arg()\n_arg_neg_0_1 = "
            "_Arg()\n_retval_both_0_0 = _Retval(both)\n");
}

TEST_F(PruneTest, RepeatedFetchesEachGetTheirResult) {
  EXPECT_EQ(
      Prune({{"sum"}, {"neg", "neg:0"}, {}}),
      "neg = Neg(_arg_sum_0_0)\n_arg_sum_0_0 = _Arg()\n_retval_neg_0_0 = _Retval(neg)\n_retval_neg_0_1 = "
      "_Retval(neg)\n");
}

TEST_F(PruneTest, UnusedFeedsLeaveNoNode) {
  EXPECT_EQ(Prune({{"x", "sum"}, {}, {"neg"}}), "neg = Neg(_arg_sum_0_1)\n_arg_sum_0_1 = _Arg()\n");
}

TEST_F(PruneTest, ReferencesAreFedAndFetchedByTheirBaseType) {
  auto pruned = PruneForRun(full_, {{"v"}, {"read", "v"}, {}}, options_);
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_EQ(pruned->feeds[0].dtype, DataType::kFloat);
  EXPECT_EQ(pruned->fetches[1].dtype, DataType::kFloat);
  EXPECT_TRUE(pruned->graph->Validate().ok());
  EXPECT_THAT(
      Prune({{"v"}, {"assign"}, {}}),
      HasSubstr(
          "Input 0 of node assign was passed float from _arg_v_0_0:0 incompatible with expected float_ref."));
  EXPECT_THAT(Prune({{"sum"}, {"assign"}, {}}), HasSubstr("_retval_assign_0_0 = _Retval(assign)"));
}

TEST_F(PruneTest, WaitingForAFedPlaceholderIsWaitingForItsFeed) {
  EXPECT_EQ(Prune({{"x", "sum"}, {}, {"stop"}}),
            "neg = Neg(_arg_sum_0_1)\nstop = NoOp(^_arg_x_0_0, ^neg)\n_arg_x_0_0 = _Arg()\n_arg_sum_0_1 = "
            "_Arg()\n");
  // A node that waits for another one waits until it has run, fed or not.
  EXPECT_THAT(Prune({{"x", "y", "neg"}, {}, {"stop"}}), HasSubstr("stop = NoOp(^_arg_x_0_0, ^neg)"));
}

TEST_F(PruneTest, AConnectionPutsOneTensorInThePlaceOfAnother) {
  // Also control edges of a placeholder; unused connections leave no node.
  EXPECT_EQ(Prune({{"x"}, {"sum"}, {}, {{"x", "neg"}, {"split:1", "y"}}}),
            "x = Placeholder()\nsum = Add(_arg_x_0_0, _identity_y_0)\nsplit = Split(_identity_neg_0)\n"
            "_arg_x_0_0 = _Arg()\n_identity_y_0 = Identity(split:1)\n_identity_neg_0 = Identity(x)\n"
            "_retval_sum_0_0 = _Retval(sum)\n");
  EXPECT_EQ(Prune({{"neg"}, {"y"}, {"stop"}, {{"v", "y"}, {"both", "x"}}}),
            "sum = Add(_identity_x_0, _identity_y_0)\nneg = Neg(sum)\nsplit = Split(_arg_neg_0_0)\n"
            "both = Add(split:1, split:2)\nv = VariableV2()\nstop = NoOp(^_identity_x_0, ^neg)\n"
            "_identity_x_0 = Identity(both)\n_arg_neg_0_0 = _Arg()\n_identity_y_0 = Identity(v)\n"
            "_retval_y_0_0 = _Retval(_identity_y_0)\n");
}

TEST_F(PruneTest, ConnectionsAreMadeOneAfterTheOther) {
  // A later connection replaces inputs of an earlier one, not vice versa.
  EXPECT_EQ(Prune({{}, {"neg"}, {}, {{"x", "sum"}, {"y", "x"}}}),
            "y = Placeholder()\nneg = Neg(_identity_sum_0)\n_identity_x_0 = Identity(y)\n"
            "_identity_sum_0 = Identity(_identity_x_0)\n_retval_neg_0_0 = _Retval(neg)\n");
  EXPECT_EQ(Prune({{}, {"neg"}, {}, {{"y", "x"}, {"x", "sum"}}}),
            "x = Placeholder()\nneg = Neg(_identity_sum_0)\n_identity_sum_0 = Identity(x)\n"
            "_retval_neg_0_0 = _Retval(neg)\n");
}

TEST_F(PruneTest, ImpossibleConnectionsAreNamed) {
  const auto error = [&](const std::string& from, const std::string& to) {
    return Prune({{"x"}, {"neg"}, {}, {{from, to}}});
  };
  EXPECT_THAT(error("nix", "y"), HasSubstr("Requested tensor connection from unknown node: \"y\"."));
  EXPECT_THAT(error("^x", "y"), HasSubstr("Requested tensor connection from unknown node: \"y\"."));
  EXPECT_THAT(
      error("split:3", "y"),
      HasSubstr("Requested tensor connection from unknown edge: \"y\" (actual number of outputs = 3)."));
  EXPECT_THAT(error("x", "nix"), HasSubstr("FeedInputs: unable to find feed output nix"));
  EXPECT_THAT(error("x", "split:7"), HasSubstr("FeedInputs: split:7 should have output index < 3"));
  EXPECT_THAT(error("y", "x"), HasSubstr("Endpoint \"x\" fed more than once."));
  for (const char* needs_sum : {"sum", "neg", "both"}) {
    EXPECT_THAT(error(needs_sum, "sum"),
                HasSubstr("Requested Tensor connection between nodes \"sum\" and \""));
    EXPECT_THAT(error(needs_sum, "sum"), HasSubstr("\" would create a cycle."));
  }
  // Two connections that form a cycle together, and two that do not as the first one breaks it.
  EXPECT_THAT(Prune({{}, {"neg"}, {}, {{"read", "y"}, {"sum", "v"}}}), HasSubstr("would create a cycle."));
  EXPECT_THAT(Prune({{"y"}, {"both"}, {}, {{"x", "sum"}, {"neg", "y"}}}), HasSubstr("fed more than once"));
  EXPECT_THAT(Prune({{}, {"both"}, {}, {{"read", "neg"}, {"both", "y"}}}), HasSubstr("_identity_neg_0"));
  Placeholder("i", PartialShape());
  full_.FindNode("i")->SetAttr("dtype", DataType::kInt32);
  EXPECT_THAT(error("v", "v"), HasSubstr("would create a cycle."));
  EXPECT_THAT(Prune({{}, {"assign"}, {}, {{"x", "v"}}}), HasSubstr("incompatible with expected float_ref."));
}

TEST_F(PruneTest, FeedsTellTypeAndDeclaredShape) {
  const auto pruned = PruneForRun(full_, {{"x", "y", "sum"}, {"neg"}, {}}, options_);
  ASSERT_TRUE(pruned.ok());
  EXPECT_EQ(pruned->feeds[0].shape.ToString(), "[?,2]");
  EXPECT_TRUE(pruned->feeds[1].shape.unknown_rank());
  EXPECT_TRUE(pruned->feeds[2].shape.unknown_rank());
}

TEST_F(PruneTest, AScalarPlaceholderOfAnOldGraphHasAnyShape) {
  Placeholder("s", PartialShape(TensorShape()));
  EXPECT_EQ(PruneForRun(full_, {{"s"}, {"s"}, {}}, options_)->feeds[0].shape.ToString(), "[]");
  GraphVersions old;
  old.producer = 21;
  full_.set_versions(old);
  EXPECT_TRUE(PruneForRun(full_, {{"s"}, {"s"}, {}}, options_)->feeds[0].shape.unknown_rank());
}

TEST_F(PruneTest, NewNodesGoToTheClientDeviceAndOldOnesKeepTheirs) {
  full_.FindNode("neg")->set_assigned_device("/cpu:1");
  options_.client_device = "/cpu:0";
  EXPECT_EQ(Prune({{"sum"}, {"neg"}, {}}),
            "neg = Neg(_arg_sum_0_0) @/cpu:1\n_arg_sum_0_0 = _Arg() @/cpu:0\n_retval_neg_0_0 = _Retval(neg) "
            "@/cpu:0\n");
}

TEST_F(PruneTest, RendezvousConventionSendsAndReceivesUnderTheTensorsName) {
  options_.convention = FeedConvention::kRendezvous;
  options_.client_device = "/cpu:0";
  options_.client_incarnation = 7;
  const auto pruned = PruneForRun(full_, {{"split:1", "neg"}, {"both"}, {}}, options_);
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  const Node* recv = pruned->graph->FindNode("_recv_split_1");
  ASSERT_NE(recv, nullptr);
  EXPECT_EQ(*recv->Attr<std::string>("tensor_name"), "split:1");
  EXPECT_EQ(*recv->Attr<std::string>("send_device"), "/cpu:0");
  EXPECT_EQ(*recv->Attr<int64_t>("send_device_incarnation"), 7);
  EXPECT_TRUE(*recv->Attr<bool>("client_terminated"));
  const Node* send = pruned->graph->FindNode("_send_both_0");
  ASSERT_NE(send, nullptr);
  EXPECT_EQ(*send->Attr<std::string>("tensor_name"), "both:0");
}

TEST_F(PruneTest, ErrorsAreTensorFlows) {
  const auto message = [&](const RunSignature& signature) {
    return PruneForRun(full_, signature, options_).status().ToString();
  };
  const std::string not_found =
      ", specified in either feed_devices or fetch_devices was not found in the Graph";
  EXPECT_EQ(message({{"gone:0"}, {"sum"}, {}}), "Invalid argument: Tensor gone:0" + not_found);
  EXPECT_EQ(message({{"x:1"}, {"sum"}, {}}),
            "Out of range: Node 'x' (type: 'Placeholder', num of outputs: 1) does not have output 1");
  EXPECT_EQ(message({{"^x"}, {"sum"}, {}}), "Invalid argument: Tensor x:-1" + not_found);
  EXPECT_EQ(message({{"x", "x:0"}, {"sum"}, {}}), "Invalid argument: Endpoint \"x:0\" fed more than once.");
  EXPECT_EQ(message({{}, {"gone"}, {}}), "Invalid argument: Tensor gone:0" + not_found);
  EXPECT_EQ(message({{}, {"split:3"}, {}}),
            "Out of range: Node 'split' (type: 'Split', num of outputs: 3) does not have output 3");
  EXPECT_EQ(message({{}, {"stop"}, {}}),
            "Out of range: Node 'stop' (type: 'NoOp', num of outputs: 0) does not have output 0");
  EXPECT_EQ(message({{}, {"sum"}, {"gone", "stop", "lost:0"}}),
            "Not found: PruneForTargets: Some target nodes not found: gone lost:0 ");
  EXPECT_EQ(message({{"x"}, {}, {}}),
            "Invalid argument: Must specify at least one target to fetch or execute.");
  EXPECT_EQ(message({{}, {"_SOURCE"}, {}}), "Invalid argument: Tensor _SOURCE:0" + not_found);
}

TEST_F(PruneTest, FullGraphIsNotChanged) {
  const std::string before = GraphText(full_);
  Prune({{"x"}, {"both"}, {"assign"}});
  EXPECT_EQ(GraphText(full_), before);
}

// Pruned random graphs, compared with a plain recursive definition and with the interpreter.
class RandomPruneTest : public testing::TestWithParam<int> {};

TEST_P(RandomPruneTest, KeepsExactlyWhatIsReachableAndComputesTheSame) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  Graph full(TestOps());
  std::vector<Node*> nodes;
  std::map<std::string, float> feeds;
  for (int i = 0; i < 40; ++i) {
    const std::string name = StrCat("n", i);
    if (i < 3) {
      nodes.push_back(AddTestNode(&full, name, "Placeholder", {}, {{"dtype", DataType::kFloat}}));
      feeds[name] = static_cast<float>(i + 1);
      continue;
    }
    const std::string a = nodes[random() % nodes.size()]->name();
    const std::string b = nodes[random() % nodes.size()]->name();
    nodes.push_back(AddTestNode(&full, name, random() % 2 == 0 ? "Add" : "Sub", {a, b}));
    if (random() % 4 == 0) full.AddControlEdge(nodes[random() % static_cast<unsigned>(i)], nodes.back());
  }
  const auto values = Interpret(full, feeds);
  ASSERT_TRUE(values.ok());
  RunSignature signature;
  std::map<std::string, float> args;
  std::set<std::string> fed;
  for (int i = 0; i < 40; ++i) {
    if (i >= 3 && random() % 8 != 0) continue;
    const std::string name = StrCat("n", i);
    args[StrCat("arg:", signature.feeds.size())] = values->at(name + ":0");
    fed.insert(name);
    signature.feeds.push_back(name);
  }
  for (int i = 0; i < 4; ++i) signature.fetches.push_back(StrCat("n", random() % 40));
  signature.targets.push_back(StrCat("n", 3 + random() % 37));
  auto pruned = PruneForRun(full, signature, {});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_TRUE(pruned->graph->Validate().ok()) << pruned->graph->Validate();

  std::set<std::string> wanted;
  const std::function<void(const Node*)> need = [&](const Node* node) {
    if (!wanted.insert(node->name()).second) return;
    for (const Edge* edge : node->in_edges()) {
      const bool replaced =
          fed.contains(edge->src->name()) && (!edge->IsControl() || edge->src->num_inputs() == 0);
      if (!replaced) need(edge->src);
    }
  };
  for (const std::string& fetch : signature.fetches) {
    if (!fed.contains(fetch)) need(full.FindNode(fetch));
  }
  need(full.FindNode(signature.targets[0]));
  std::set<std::string> found;
  for (const Node* node : pruned->graph->OpNodes()) {
    if (!node->name().starts_with("_")) found.insert(node->name());
  }
  EXPECT_EQ(found, wanted);
  const auto results = Interpret(*pruned->graph, args);
  ASSERT_TRUE(results.ok()) << results.status();
  for (size_t i = 0; i < signature.fetches.size(); ++i) {
    EXPECT_EQ(results->at(StrCat("retval:", i)), values->at(signature.fetches[i] + ":0"));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPruneTest, testing::Range(0, 20));

}  // namespace
}  // namespace millrace
