// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/summary.h"
#include "graph/testing.h"

namespace millrace {
namespace {

using testing::ElementsAre;

const AttrMap kFloat = {{"T", DataType::kFloat}};
const AttrMap kPlaceholder = {{"dtype", DataType::kFloat}};

TEST(TensorIdTest, PrintsAndParsesEveryForm) {
  EXPECT_EQ((TensorId{"n", 0}).ToString(), "n");
  EXPECT_EQ((TensorId{"n", 2}).ToString(), "n:2");
  EXPECT_EQ((TensorId{"n", -1}).ToString(), "^n");
  EXPECT_EQ(ParseTensorId("n"), (TensorId{"n", 0}));
  EXPECT_EQ(ParseTensorId("n:0"), (TensorId{"n", 0}));
  EXPECT_EQ(ParseTensorId("a/b:17"), (TensorId{"a/b", 17}));
  EXPECT_EQ(ParseTensorId("^n"), (TensorId{"n", -1}));
  for (const char* text : {"n:", "n:x", "n:-1", ":0", "n:99999999999", "n: 1", ""}) {
    EXPECT_EQ(ParseTensorId(text), (TensorId{text, 0})) << text;
  }
}

TEST(GraphTest, NewGraphHasSourceAndSinkJoined) {
  const Graph graph(TestOps());
  EXPECT_EQ(graph.num_nodes(), 2);
  EXPECT_EQ(graph.source()->id(), 0);
  EXPECT_EQ(graph.sink()->name(), "_SINK");
  EXPECT_EQ(graph.source()->op_name(), "NoOp");
  ASSERT_EQ(graph.num_edge_ids(), 1);
  EXPECT_TRUE(graph.edge(0)->IsControl());
  EXPECT_EQ(graph.edge(0)->dst, graph.sink());
  EXPECT_TRUE(graph.Validate().ok());
}

TEST(GraphTest, AddNodeFillsDefaultsAndTypes) {
  Graph graph(TestOps());
  const Node* node = AddTestNode(&graph, "m", "MatMul", {}, kFloat, "/cpu:0");
  EXPECT_EQ(node->id(), 2);
  EXPECT_EQ(node->num_inputs(), 2);
  EXPECT_EQ(node->output_type(0), DataType::kFloat);
  EXPECT_FALSE(node->Attr<bool>("transpose_a").value_or(true));
  EXPECT_EQ(node->requested_device(), "/cpu:0");
  EXPECT_FALSE(node->has_assigned_device());
  EXPECT_EQ(graph.FindNode("m"), node);
}

TEST(GraphTest, AddNodeRefusesWhatCantBeAndNamesTheNode) {
  Graph graph(TestOps());
  AddTestNode(&graph, "a", "NoOp");
  EXPECT_EQ(graph.AddNode("a", "NoOp", {}).status().ToString(),
            errors::AlreadyExists("Node name 'a' already exists in the Graph").ToString());
  EXPECT_TRUE(errors::IsNotFound(graph.AddNode("b", "Unheard", {}).status()));
  const Status missing = graph.AddNode("b", "Identity", {}).status();
  EXPECT_TRUE(errors::IsInvalidArgument(missing));
  EXPECT_THAT(missing.message(), testing::HasSubstr("NodeDef missing attr 'T'"));
  EXPECT_THAT(missing.message(), testing::HasSubstr("node 'b' (op Identity)"));
  EXPECT_EQ(graph.num_nodes(), 3);
}

TEST(GraphTest, AttrOfAnotherTypeNamesNodeAndOp) {
  Graph graph(TestOps());
  const Node* node = AddTestNode(&graph, "i", "Identity", {}, kFloat);
  const Status status = node->Attr<int64_t>("T").status();
  EXPECT_THAT(status.message(), testing::HasSubstr("node 'i' (op Identity)"));
}

TEST(GraphTest, AlikeNodesInARowShareTheirProps) {
  Graph graph(TestOps());
  const Node* a = AddTestNode(&graph, "a", "Placeholder", {}, kPlaceholder);
  const Node* b = AddTestNode(&graph, "b", "Identity", {"a"}, kFloat);
  const Node* c = AddTestNode(&graph, "c", "Identity", {"b"}, kFloat);
  const Node* d = AddTestNode(&graph, "d", "Identity", {}, {{"T", DataType::kInt32}});
  EXPECT_EQ(&b->props(), &c->props());
  EXPECT_NE(&c->props(), &d->props());
  EXPECT_NE(&a->props(), &b->props());
}

TEST(GraphTest, SetAttrChangesOneNodeOnly) {
  Graph graph(TestOps());
  Node* b = AddTestNode(&graph, "b", "Identity", {}, kFloat);
  const Node* c = AddTestNode(&graph, "c", "Identity", {}, kFloat);
  b->SetAttr("_note", "x");
  EXPECT_NE(b->attrs().Find("_note"), nullptr);
  EXPECT_EQ(c->attrs().Find("_note"), nullptr);
  b->EraseAttr("_note");
  EXPECT_EQ(b->attrs().Find("_note"), nullptr);
}

TEST(GraphTest, LongerListOfTypesAddsSlotsBeforeTheControlEdges) {
  OpRegistry ops;
  ASSERT_TRUE(ops.Register(OpBuilder("Many").Input("in: T").Output("out: T").Attr("T: list(type)")).ok());
  Graph graph(ops);
  const std::vector<DataType> one = {DataType::kFloat};
  const std::vector<DataType> three = {DataType::kFloat, DataType::kInt32, DataType::kBool};
  Node* a = *graph.AddNode("a", "Many", {{"T", std::vector<DataType>()}});
  Node* b = *graph.AddNode("b", "Many", {{"T", std::vector<DataType>()}});
  graph.AddControlEdge(a, b);
  b->SetAttr("T", three);
  EXPECT_THAT(b->props().output_types, ElementsAre(DataType::kFloat, DataType::kInt32, DataType::kBool));
  EXPECT_EQ(b->num_inputs(), 3);
  EXPECT_EQ(b->InputEdge(2).status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(b->control_in_edges().size(), 1u);
  a->SetAttr("T", three);
  for (int i = 0; i < 3; ++i) graph.AddEdge(a, i, b, i);
  // A value that does not extend the old one changes only the attribute.
  b->SetAttr("T", one);
  EXPECT_EQ(b->num_inputs(), 3);
  b->SetAttr("T", three);
  graph.RemoveEdge(b->control_in_edges()[0]);
  EXPECT_EQ(b->control_in_edges().size(), 0u);
  EXPECT_EQ(b->data_in_edges()[1]->src_output, 1);
}

TEST(GraphTest, InputEdgesAreFoundBySlotWhateverTheOrderOfConnection) {
  Graph graph(TestOps());
  Node* a = AddTestNode(&graph, "a", "Placeholder", {}, kPlaceholder);
  Node* b = AddTestNode(&graph, "b", "Placeholder", {}, kPlaceholder);
  Node* sum = AddTestNode(&graph, "sum", "Add");
  graph.AddControlEdge(a, sum);
  graph.AddEdge(b, 0, sum, 1);
  EXPECT_EQ(sum->InputEdge(0).status().ToString(), errors::NotFound("not found input edge 0").ToString());
  EXPECT_TRUE(errors::IsInvalidArgument(sum->InputEdge(2).status()));
  graph.AddEdge(a, 0, sum, 0);
  EXPECT_EQ((*sum->InputEdge(0))->src, a);
  EXPECT_EQ((*sum->InputEdge(1))->src, b);
  EXPECT_EQ(sum->data_in_edges().size(), 2u);
  ASSERT_EQ(sum->control_in_edges().size(), 1u);
  EXPECT_TRUE(sum->control_in_edges()[0]->IsControl());
  EXPECT_TRUE(graph.Validate().ok());
}

TEST(GraphTest, SecondControlEdgeBetweenTwoNodesIsNotAdded) {
  Graph graph(TestOps());
  Node* a = AddTestNode(&graph, "a", "NoOp");
  Node* b = AddTestNode(&graph, "b", "NoOp");
  EXPECT_NE(graph.AddControlEdge(a, b), nullptr);
  EXPECT_EQ(graph.AddControlEdge(a, b), nullptr);
  EXPECT_NE(graph.AddControlEdge(b, a), nullptr);
}

TEST(GraphTest, ValidateFindsAnInputThatIsNotConnected) {
  Graph graph(TestOps());
  AddTestNode(&graph, "i", "Identity", {}, kFloat);
  const Status status = graph.Validate();
  EXPECT_TRUE(errors::IsInternal(status));
  EXPECT_EQ(status.message(), "Node 'i' (op Identity): input 0 is not connected");
}

TEST(GraphTest, ValidateFindsTypesThatDiffer) {
  Graph graph(TestOps());
  Node* a = AddTestNode(&graph, "a", "Placeholder", {}, {{"dtype", DataType::kInt32}});
  Node* i = AddTestNode(&graph, "i", "Identity", {}, kFloat);
  graph.AddEdge(a, 0, i, 0);
  EXPECT_THAT(graph.Validate().message(), testing::HasSubstr("types differ"));
}

TEST(GraphTest, UpdateInputMovesOneConsumer) {
  Graph graph(TestOps());
  AddTestNode(&graph, "a", "Placeholder", {}, kPlaceholder);
  Node* b = AddTestNode(&graph, "b", "Placeholder", {}, kPlaceholder);
  Node* sum = AddTestNode(&graph, "sum", "Add", {"a", "a"});
  graph.UpdateInput(sum, 1, b, 0);
  EXPECT_EQ(GraphText(graph), "a = Placeholder()\nb = Placeholder()\nsum = Add(a, b)\n");
  EXPECT_TRUE(graph.Validate().ok());
}

TEST(GraphTest, RemovedNodeLeavesNothingBehind) {
  Graph graph(TestOps());
  AddTestNode(&graph, "a", "Placeholder", {}, kPlaceholder);
  Node* b = AddTestNode(&graph, "b", "Identity", {"a"}, kFloat);
  AddTestNode(&graph, "c", "NoOp", {"^b"});
  graph.RemoveNode(b);
  EXPECT_EQ(graph.FindNode("b"), nullptr);
  EXPECT_EQ(graph.node(3), nullptr);
  EXPECT_EQ(graph.num_nodes(), 4);
  EXPECT_EQ(GraphText(graph), "a = Placeholder()\nc = NoOp()\n");
  EXPECT_TRUE(graph.Validate().ok());
  EXPECT_EQ(AddTestNode(&graph, "b", "NoOp")->id(), 5) << "ids are not used again";
}

TEST(GraphTest, NewNamesAreFree) {
  Graph graph(TestOps());
  EXPECT_EQ(graph.NewName("a"), "a");
  AddTestNode(&graph, "a", "NoOp");
  AddTestNode(&graph, "a_1", "NoOp");
  EXPECT_EQ(graph.NewName("a"), "a_2");
  AddTestNode(&graph, "a_2", "NoOp");
  EXPECT_EQ(graph.NewName("a"), "a_3");
}

TEST(GraphTest, FixupJoinsEndsToSourceAndSinkAndUndoesWhatIsNoLongerNeeded) {
  Graph graph(TestOps());
  Node* a = AddTestNode(&graph, "a", "NoOp");
  graph.FixupSourceAndSinkEdges();
  EXPECT_EQ(a->in_edges()[0]->src, graph.source());
  EXPECT_EQ(a->out_edges()[0]->dst, graph.sink());
  Node* b = AddTestNode(&graph, "b", "NoOp", {"^a"});
  graph.FixupSourceAndSinkEdges();
  EXPECT_THAT(a->out_edges(), testing::SizeIs(1));
  EXPECT_EQ(a->out_edges()[0]->dst, b);
  EXPECT_EQ(b->out_edges()[0]->dst, graph.sink());
  EXPECT_THAT(b->in_edges(), testing::SizeIs(1));
}

TEST(GraphTest, TopologicalOrderPutsInputsFirstSourceFirstSinkLast) {
  Graph graph(TestOps());
  Node* late = AddTestNode(&graph, "late", "Add");
  Node* a = AddTestNode(&graph, "a", "Placeholder", {}, kPlaceholder);
  Node* b = AddTestNode(&graph, "b", "Identity", {"a"}, kFloat);
  graph.AddEdge(a, 0, late, 0);
  graph.AddEdge(b, 0, late, 1);
  graph.FixupSourceAndSinkEdges();
  const auto order = TopologicalOrder(graph);
  ASSERT_TRUE(order.ok());
  EXPECT_THAT(*order, ElementsAre(graph.source(), a, b, late, graph.sink()));
}

TEST(GraphTest, CycleOutsideALoopIsAnErrorNamingItsNodesOnly) {
  Graph graph(TestOps());
  Node* x = AddTestNode(&graph, "x", "NoOp");
  Node* y = AddTestNode(&graph, "y", "NoOp", {"^x"});
  AddTestNode(&graph, "behind", "NoOp", {"^y"});
  AddTestNode(&graph, "apart", "NoOp");
  graph.AddControlEdge(y, x);
  const Status status = TopologicalOrder(graph).status();
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "Graph is invalid, contains a cycle with 3 nodes, including: y, x");
}

TEST(GraphTest, BackEdgeOfALoopIsNoCycle) {
  Graph graph(TestOps());
  AddTestNode(&graph, "a", "Placeholder", {}, kPlaceholder);
  Node* merge = AddTestNode(&graph, "merge", "Merge", {"a"}, {{"T", DataType::kFloat}, {"N", 2}});
  Node* next = AddTestNode(&graph, "next", "NextIteration", {"merge"}, kFloat);
  graph.AddEdge(next, 0, merge, 1);
  EXPECT_TRUE(TopologicalOrder(graph).ok());
}

TEST(GraphTest, SummaryShowsOpAttributesDeviceAndInputs) {
  Graph graph(TestOps());
  AddTestNode(&graph, "a", "Placeholder", {}, kPlaceholder);
  AddTestNode(&graph, "s", "Split", {"a"}, {{"n", 2}});
  const Node* m = AddTestNode(&graph, "m", "MatMul", {"a", "s:1", "^s"}, kFloat, "/gpu:0");
  EXPECT_EQ(SummarizeNode(*m),
            "m = MatMul[T=DT_FLOAT, transpose_a=false, transpose_b=false, _device=\"/gpu:0\"](a, s:1, ^s)");
}

// Random graphs, changed at random: their invariants must hold, and copies must equal them.
class RandomGraphTest : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Graph> Build() {
    auto graph = std::make_unique<Graph>(TestOps());
    std::vector<Node*> nodes = {AddTestNode(graph.get(), "p", "Placeholder", {}, kPlaceholder)};
    for (int step = 0; step < 400; ++step) {
      const int what = static_cast<int>(random_() % 10);
      Node* pick = nodes[random_() % nodes.size()];
      if (what < 6) {
        const bool split = random_() % 3 == 0;
        Node* node = AddTestNode(graph.get(), StrCat("n", step), split ? "Split" : "Add", {},
                                 split ? AttrMap{{"n", 3}} : AttrMap{});
        for (int i = 0; i < node->num_inputs(); ++i) {
          Node* src = nodes[random_() % nodes.size()];
          graph->AddEdge(src, static_cast<int>(random_() % static_cast<unsigned>(src->num_outputs())), node,
                         i);
        }
        if (random_() % 2 == 0) node->set_requested_device(StrCat("/cpu:", random_() % 3));
        nodes.push_back(node);
      } else if (what < 8) {
        Node* other = nodes[random_() % nodes.size()];
        graph->AddControlEdge(std::min(pick, other, ById), std::max(pick, other, ById));
      } else if (what == 8 && pick->out_edges().empty() && nodes.size() > 1) {
        nodes.erase(std::find(nodes.begin(), nodes.end(), pick));
        graph->RemoveNode(pick);
      } else {
        graph->FixupSourceAndSinkEdges();
      }
    }
    return graph;
  }
  static bool ById(const Node* a, const Node* b) { return a->id() < b->id(); }

  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

TEST_P(RandomGraphTest, InvariantsHoldAfterEveryKindOfChange) {
  const std::unique_ptr<Graph> graph = Build();
  EXPECT_TRUE(graph->Validate().ok()) << graph->Validate();
}

TEST_P(RandomGraphTest, CloneKeepsIdsNamesDevicesAndTheOrderOfEdges) {
  const std::unique_ptr<Graph> graph = Build();
  const std::unique_ptr<Graph> copy = graph->Clone();
  EXPECT_TRUE(copy->Validate().ok()) << copy->Validate();
  ASSERT_EQ(copy->num_node_ids(), graph->num_node_ids());
  EXPECT_EQ(GraphText(*copy), GraphText(*graph));
  for (int id = 0; id < graph->num_node_ids(); ++id) {
    const Node* node = graph->node(id);
    ASSERT_EQ(node == nullptr, copy->node(id) == nullptr);
    if (node == nullptr) continue;
    EXPECT_EQ(&node->props(), &copy->node(id)->props());
    EXPECT_EQ(&copy->node(id)->graph(), copy.get());
    ASSERT_EQ(node->out_edges().size(), copy->node(id)->out_edges().size());
    for (size_t i = 0; i < node->out_edges().size(); ++i) {
      EXPECT_EQ(node->out_edges()[i]->id, copy->node(id)->out_edges()[i]->id);
    }
  }
}

TEST_P(RandomGraphTest, SubsetHasTheNodesThatWereKeptAndTheEdgesAmongThem) {
  const std::unique_ptr<Graph> graph = Build();
  std::vector<bool> keep(static_cast<size_t>(graph->num_node_ids()));
  for (size_t i = 0; i < keep.size(); ++i) keep[i] = random_() % 2 == 0;
  std::vector<int> new_ids;
  const std::unique_ptr<Graph> part = graph->CloneSubset(keep, &new_ids);
  std::multiset<std::string> wanted;
  std::multiset<std::string> found;
  const auto text = [](const Edge& e) {
    return StrCat(e.src->name(), ":", e.src_output, " -> ", e.dst->name(), ":", e.dst_input);
  };
  int nodes = 2;
  for (const Node* node : graph->OpNodes()) {
    const auto id = static_cast<size_t>(node->id());
    EXPECT_EQ(new_ids[id] >= 0, keep[id]);
    if (!keep[id]) continue;
    ++nodes;
    EXPECT_EQ(part->node(new_ids[id])->name(), node->name());
    EXPECT_EQ(part->node(new_ids[id])->requested_device(), node->requested_device());
    for (const Edge* edge : node->in_edges()) {
      if (edge->src->IsOp() && keep[static_cast<size_t>(edge->src->id())]) wanted.insert(text(*edge));
    }
  }
  for (const Node* node : part->OpNodes()) {
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr) found.insert(text(*edge));
    }
  }
  EXPECT_EQ(part->num_nodes(), nodes);
  EXPECT_EQ(found, wanted);
}

TEST_P(RandomGraphTest, TakingBackTheNewestNodesRestoresTheGraph) {
  const std::unique_ptr<Graph> graph = Build();
  const std::string before = GraphText(*graph);
  const int first = graph->num_node_ids();
  const int edges = graph->num_edge_ids();
  Node* old = graph->FindNode("p");
  for (int i = 0; i < 20; ++i) {
    Node* node = AddTestNode(graph.get(), StrCat("new", i), "Identity", {}, kFloat);
    graph->AddEdge(i % 2 == 0 ? old : graph->node(node->id() - 1), 0, node, 0);
  }
  graph->RemoveNodesFrom(first);
  EXPECT_EQ(GraphText(*graph), before);
  EXPECT_EQ(graph->num_node_ids(), first);
  EXPECT_EQ(graph->num_edge_ids(), edges);
  EXPECT_TRUE(graph->Validate().ok()) << graph->Validate();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphTest, testing::Range(0, 12));

TEST(GraphTest, NodeWithManyConsumersIsTakenApartInLinearTime) {
  Graph graph(TestOps());
  Node* hub = AddTestNode(&graph, "hub", "NoOp");
  constexpr int kFan = 200000;
  const auto& props = hub->shared_props();
  std::vector<Node*> leaves;
  for (int i = 0; i < kFan; ++i) {
    Node* leaf = graph.AddNodeWithProps(std::to_string(i), props);
    graph.AddControlEdgeUnchecked(hub, leaf);
    leaves.push_back(leaf);
  }
  graph.FixupSourceAndSinkEdges();
  // From the front: a list that is shifted or searched would take 2e10 steps.
  for (Node* leaf : leaves) graph.RemoveNode(leaf);
  EXPECT_TRUE(hub->out_edges().empty());
  EXPECT_EQ(graph.num_nodes(), 3);
}

}  // namespace
}  // namespace millrace
