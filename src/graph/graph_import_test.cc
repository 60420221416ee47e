// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_import.h"

#include <random>

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "graph/function_library.h"
#include "graph/testing.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using testing::HasSubstr;

std::string Node(const std::string& name, const std::string& op, const std::string& rest = "") {
  return "node { name: '" + name + "' op: '" + op + "' " + rest + " }\n";
}
std::string Type(const std::string& attr, const std::string& type) {
  return "attr { key: '" + attr + "' value { type: " + type + " } } ";
}
std::string Placeholder(const std::string& name, const std::string& type = "DT_FLOAT") {
  return Node(name, "Placeholder", Type("dtype", type));
}
std::string Identity(const std::string& name, const std::string& input,
                     const std::string& type = "DT_FLOAT") {
  return Node(name, "Identity", "input: '" + input + "' " + Type("T", type));
}
std::string ConstInts(const std::string& name, const std::string& values) {
  return Node(name, "Const",
              Type("dtype", "DT_INT32") + "attr { key: 'value' value { tensor { dtype: DT_INT32 " + values +
                  " } } }");
}

class ImportTest : public testing::Test {
 protected:
  Status Import(const std::string& text) { return ImportGraphDef(GraphDefFromText(text), options_, &graph_); }

  // The import must fail with this code and a message that contains these parts, and must not change the
  // graph.
  void ExpectError(const std::string& text, ErrorCode code, const std::vector<std::string>& parts) {
    const std::string before = GraphText(graph_);
    const int ids = graph_.num_node_ids();
    const int edges = graph_.num_edge_ids();
    const Status status = Import(text);
    EXPECT_EQ(status.code(), code) << status;
    for (const std::string& part : parts) EXPECT_THAT(status.message(), HasSubstr(part));
    EXPECT_EQ(GraphText(graph_), before);
    EXPECT_EQ(graph_.num_node_ids(), ids);
    EXPECT_EQ(graph_.num_edge_ids(), edges);
    EXPECT_TRUE(graph_.Validate().ok()) << graph_.Validate();
  }
  void ExpectInvalid(const std::string& text, const std::vector<std::string>& parts) {
    ExpectError(text, ErrorCode::kInvalidArgument, parts);
  }

  Graph graph_{TestOps()};
  ImportOptions options_;
};

TEST_F(ImportTest, NodesMayComeBeforeTheirInputs) {
  ASSERT_TRUE(
      Import(Identity("b", "a") + Placeholder("a") + Node("c", "NoOp", "input: '^b' input: '^a'")).ok());
  EXPECT_EQ(GraphText(graph_), "b = Identity(a)\na = Placeholder()\nc = NoOp(^a, ^b)\n");
  EXPECT_TRUE(graph_.Validate().ok());
  EXPECT_EQ(graph_.FindNode("c")->out_edges()[0]->dst, graph_.sink());
  EXPECT_EQ(graph_.FindNode("a")->in_edges()[0]->src, graph_.source());
}

TEST_F(ImportTest, DefaultAttributesAreAddedAndUnknownPrivateOnesKept) {
  ASSERT_TRUE(Import(Placeholder("a") + Placeholder("b") +
                     Node("m", "MatMul",
                          "input: 'a' input: 'b' " + Type("T", "DT_FLOAT") +
                              "attr { key: '_mark' value { s: 'x' } } attr { key: '_class' value { list { s: "
                              "'loc:@a' } } }"))
                  .ok());
  const AttrMap& attrs = graph_.FindNode("m")->attrs();
  EXPECT_NE(attrs.Find("transpose_b"), nullptr);
  EXPECT_EQ(*attrs.Find("_mark"), AttrValue("x"));
  EXPECT_EQ(*attrs.Find("_class"), AttrValue(std::vector<std::string>{"loc:@a"}));
}

TEST_F(ImportTest, ADependencyWrittenTwiceIsOneEdge) {
  ASSERT_TRUE(Import(Node("a", "NoOp") + Node("b", "NoOp", "input: '^a' input: '^a'")).ok());
  EXPECT_EQ(graph_.FindNode("b")->control_in_edges().size(), 1u);
}

TEST_F(ImportTest, ReferencesMayBeReadAsValuesButNotTheOtherWay) {
  const std::string variable = Node("v", "VariableV2");
  ASSERT_TRUE(Import(variable + Identity("read", "v")).ok());
  ExpectInvalid(Placeholder("p") + Node("as", "Assign", "input: 'p' input: 'p'"),
                {"Input 0 of node as was passed float from p:0 incompatible with expected float_ref."});
}

TEST_F(ImportTest, UnknownInputIsNamed) {
  ExpectInvalid(Identity("b", "x"), {"Node 'b': Unknown input node 'x'"});
  ExpectInvalid(Node("b", "NoOp", "input: '^x'"), {"Node 'b': Unknown input node '^x'"});
  ExpectInvalid(Placeholder("a") + Identity("b", "a:z"), {"Node 'b': Unknown input node 'a:z'"});
  ExpectInvalid(Identity("b", ""), {"Node 'b': Unknown input node ''"});
  ExpectInvalid(Node("b", "NoOp", "input: '^_SOURCE'"), {"Node 'b': Unknown input node '^_SOURCE'"});
}

TEST_F(ImportTest, OutputOutOfRangeIsNamed) {
  ExpectInvalid(Placeholder("a") + Identity("b", "a:3"),
                {"Node 'b': Connecting to invalid output 3 of source node a which has 1 outputs"});
  ExpectInvalid(Node("a", "NoOp") + Identity("b", "a"),
                {"Node 'b': Connecting to invalid output 0 of source node a which has 0 outputs"});
}

TEST_F(ImportTest, TypesThatDifferAreNamed) {
  ExpectInvalid(Placeholder("a") + Identity("b", "a", "DT_INT32"),
                {"Input 0 of node b was passed float from a:0 incompatible with expected int32."});
}

TEST_F(ImportTest, NamesMustBeUniqueInTheDefAndNewToTheGraph) {
  ExpectInvalid(Node("a", "NoOp") + Node("a", "NoOp"), {"Node 'a' is not unique"});
  ASSERT_TRUE(Import(Node("a", "NoOp")).ok());
  ExpectError(Node("b", "NoOp") + Node("a", "NoOp"), ErrorCode::kAlreadyExists,
              {"Node name 'a' already exists in the Graph"});
}

TEST_F(ImportTest, NamesWithInvalidCharactersAreRefused) {
  for (const char* name : {"", "_a", "-a", "/a", "a b", "a:0", "^a", "\xc3\xa9"}) {
    ExpectInvalid(Node(name, "NoOp"), {StrCat("Node '", name, "': Node name contains invalid characters")});
  }
  EXPECT_TRUE(Import(Node("0a./-_\\\\Z", "NoOp") + Node(".x", "NoOp")).ok());
}

TEST_F(ImportTest, InternalNamesAndOpsNeedPermission) {
  const std::string arg = Node("x", "_Arg", Type("T", "DT_FLOAT") + "attr { key: 'index' value { i: 0 } }");
  ExpectInvalid(arg, {"Node 'x'", "'_Arg' is internal"});
  options_.allow_internal_ops = true;
  EXPECT_TRUE(Import(arg + Node("_y", "NoOp")).ok());
}

TEST_F(ImportTest, UnknownOpIsNamed) {
  ExpectError(Node("a", "Unheard", "input: 'b'"), ErrorCode::kNotFound,
              {"Op type not registered 'Unheard'", "in binary running on "});
}

TEST_F(ImportTest, BadAttributesAreNamed) {
  ExpectInvalid(Node("p", "Placeholder"), {"NodeDef missing attr 'dtype'", "; NodeDef: {{node p}}"});
  ExpectInvalid(Node("p", "Placeholder", "attr { key: 'dtype' value { i: 3 } }"),
                {"dtype", "; NodeDef: {{node p}}"});
  ExpectInvalid(Node("n", "NoOp", "attr { key: 'extra' value { i: 3 } }"),
                {"'extra' not in", "; NodeDef: {{node n}}"});
  ExpectInvalid(
      Placeholder("a", "DT_STRING") + Node("s", "Add", "input: 'a' input: 'a' " + Type("T", "DT_STRING")),
      {"'T' of string is not in the list of allowed values", "\n\t; NodeDef: {{node s}}; Op<name=Add"});
}

TEST_F(ImportTest, WrongNumberOfInputsIsNamed) {
  ExpectInvalid(Placeholder("a") + Node("s", "Add", "input: 'a'"),
                {"NodeDef expected inputs 'float, float' do not match 1 inputs specified; Op<name=Add",
                 "; NodeDef: {{node s}}"});
  ExpectInvalid(Placeholder("a") + Node("n", "NoOp", "input: 'a'"),
                {"NodeDef expected inputs '' do not match 1 inputs specified"});
}

TEST_F(ImportTest, ControlInputsComeLast) {
  ExpectInvalid(Placeholder("a") + Node("i", "Identity", "input: '^a' input: 'a' " + Type("T", "DT_FLOAT")),
                {"Node 'i': Control dependencies must come after regular dependencies"});
}

TEST_F(ImportTest, CyclesAreFoundWhateverTheyAreMadeOf) {
  ExpectInvalid(Identity("a", "b") + Identity("b", "a") + Placeholder("p"), {"2 nodes in a cycle"});
  ExpectInvalid(Node("a", "NoOp", "input: '^a'"), {"1 nodes in a cycle"});
}

TEST_F(ImportTest, ALoopThroughNextIterationIsNoCycle) {
  const std::string merge = Node(
      "m", "Merge", "input: 'p' input: 'n' " + Type("T", "DT_FLOAT") + "attr { key: 'N' value { i: 2 } }");
  ASSERT_TRUE(
      Import(Placeholder("p") + merge + Node("n", "NextIteration", "input: 'm' " + Type("T", "DT_FLOAT")))
          .ok());
  EXPECT_TRUE(graph_.Validate().ok());
  ExpectInvalid(
      Placeholder("q") +
          Node("m2", "Merge",
               "input: 'q' input: 'i' " + Type("T", "DT_FLOAT") + "attr { key: 'N' value { i: 2 } }") +
          Identity("i", "m2"),
      {"2 nodes in a cycle"});
}

TEST_F(ImportTest, ShapesThatCantBeAreRefusedWithOpAndShapes) {
  const auto matrix = [](const std::string& name, int rows, int cols) {
    return Node(name, "Placeholder",
                Type("dtype", "DT_FLOAT") + StrCat("attr { key: 'shape' value { shape { dim { size: ", rows,
                                                   " } dim { size: ", cols, " } } } }"));
  };
  const std::string def = matrix("a", 2, 3) + matrix("b", 4, 5) +
                          Node("m", "MatMul", "input: 'a' input: 'b' " + Type("T", "DT_FLOAT"));
  ExpectInvalid(def, {"Dimensions must be equal, but are 3 and 4",
                      " for 'm' (op: 'MatMul') with input shapes: [2,3], [4,5]."});
  options_.validate_shapes = false;
  EXPECT_TRUE(Import(def).ok());
}

TEST_F(ImportTest, ExtensionIsCheckedAgainstTheShapesOfTheGraph) {
  const auto vector = [](const std::string& name, int size) {
    return Node(name, "Placeholder",
                Type("dtype", "DT_FLOAT") +
                    StrCat("attr { key: 'shape' value { shape { dim { size: ", size, " } } } }"));
  };
  ASSERT_TRUE(Import(vector("a", 2) + Identity("b", "a") + vector("c", 3)).ok());
  ExpectInvalid(Node("sum", "Add", "input: 'b' input: 'c'"),
                {"for 'sum' (op: 'Add') with input shapes: [2], [3]."});
  EXPECT_TRUE(Import(Node("sum", "Add", "input: 'b' input: 'a'")).ok());
}

TEST_F(ImportTest, DeclaredOutputShapesMustFitAndAreKept) {
  const auto with_shape = [](const std::string& name, int size) {
    return Node(name, "Const",
                Type("dtype", "DT_FLOAT") +
                    "attr { key: 'value' value { tensor { dtype: DT_FLOAT float_val: 1 tensor_shape { dim { "
                    "size: 2 } } } } }"
                    "attr { key: '_output_shapes' value { list { shape { dim { size: " +
                    std::to_string(size) + " } } } } }");
  };
  ExpectInvalid(with_shape("c", 3),
                {"Node 'c' has an _output_shapes attribute inconsistent with the GraphDef for output #0"});
  ASSERT_TRUE(Import(with_shape("c", 2)).ok());
  EXPECT_NE(graph_.FindNode("c")->attrs().Find("_output_shapes"), nullptr);
}

TEST_F(ImportTest, VersionsAreCheckedKeptAndMerged) {
  ExpectInvalid("versions { min_consumer: 100000 }",
                {"GraphDef min consumer version 100000 above current version"});
  ExpectInvalid("versions { producer: -1 }", {"GraphDef producer version -1 below min producer"});
  ExpectInvalid("versions { bad_consumers: 134 }", {"GraphDef disallows consumer version 134."});
  ASSERT_TRUE(Import(Node("a", "NoOp") + "versions { producer: 30 min_consumer: 12 bad_consumers: 3 }").ok());
  EXPECT_EQ(graph_.versions().producer, 30);
  ASSERT_TRUE(Import(Node("b", "NoOp") + "versions { producer: 27 min_consumer: 5 bad_consumers: 2 }").ok());
  EXPECT_EQ(graph_.versions().producer, 27);
  EXPECT_EQ(graph_.versions().min_consumer, 12);
  EXPECT_THAT(graph_.versions().bad_consumers, testing::ElementsAre(2, 3));
  ExpectInvalid("versions { producer: 1 } " + Node("a b", "NoOp"), {"invalid characters"});
  EXPECT_EQ(graph_.versions().producer, 27) << "a failed import leaves the versions alone";
}

TEST_F(ImportTest, OpsRemovedBeforeTheProducerAreRefused) {
  ExpectError(
      Node("a", "OldOp") + "versions { producer: 8 }", ErrorCode::kUnimplemented,
      {"Op OldOp is not available in GraphDef version 8. It has been removed in version 8. use another."});
  EXPECT_TRUE(Import(Node("a", "OldOp") + "versions { producer: 7 }").ok());
}

TEST_F(ImportTest, PrefixIsPutBeforeNamesInputsAndColocation) {
  options_.prefix = "p";
  ASSERT_TRUE(Import(Placeholder("a") +
                     Node("b", "Identity",
                          "input: 'a' input: '^a' " + Type("T", "DT_FLOAT") +
                              "attr { key: '_class' value { list { s: 'loc:@a' s: 'loc:@gone' } } }"))
                  .ok());
  EXPECT_EQ(GraphText(graph_), "p/a = Placeholder()\np/b = Identity(p/a, ^p/a)\n");
  EXPECT_EQ(*graph_.FindNode("p/b")->attrs().Find("_class"),
            AttrValue(std::vector<std::string>{"loc:@p/a", "loc:@p/gone"}));
}

TEST_F(ImportTest, UniquifiedNamesKeepTheirConsumers) {
  const std::string def = Placeholder("a") + Identity("b", "a");
  options_.uniquify_names = true;
  ASSERT_TRUE(Import(def).ok());
  ASSERT_TRUE(Import(def).ok());
  EXPECT_EQ(GraphText(graph_),
            "a = Placeholder()\nb = Identity(a)\na_1 = Placeholder()\nb_1 = Identity(a_1)\n");
}

TEST_F(ImportTest, InputMapAndControlDependenciesTieTheImportToTheGraph) {
  ASSERT_TRUE(Import(Placeholder("old") + Node("first", "NoOp")).ok());
  options_.prefix = "p";
  options_.input_map["a:0"] = {graph_.FindNode("old"), 0};
  options_.control_dependencies = {graph_.FindNode("first")};
  ASSERT_TRUE(Import(Placeholder("a") + Identity("b", "a") + Identity("c", "b")).ok());
  EXPECT_EQ(
      GraphText(graph_),
      "old = Placeholder()\nfirst = NoOp()\np/a = Placeholder(^first)\np/b = Identity(old, ^first)\np/c = "
      "Identity(p/b)\n");
}

TEST_F(ImportTest, ExtensionMayUseNodesOfTheGraph) {
  ASSERT_TRUE(Import(Placeholder("a")).ok());
  ASSERT_TRUE(Import(Identity("b", "a")).ok());
  EXPECT_EQ(graph_.FindNode("a")->out_edges().size(), 1u) << "no edge to _SINK is left";
  options_.inputs_from_graph = false;
  ExpectInvalid(Identity("c", "a"), {"Node 'c': Unknown input node 'a'"});
}

TEST_F(ImportTest, DevicesAreKeptAndTheDefaultFillsGaps) {
  options_.default_device = "/cpu:0";
  ASSERT_TRUE(Import(Node("a", "NoOp", "device: '/gpu:1'") + Node("b", "NoOp")).ok());
  EXPECT_EQ(graph_.FindNode("a")->requested_device(), "/gpu:1");
  EXPECT_EQ(graph_.FindNode("b")->requested_device(), "/cpu:0");
}

TEST_F(ImportTest, SizesBeyondAllBoundsAreRefusedBeforeMemoryIsSpent) {
  options_.max_tensor_bytes = 1 << 20;
  ExpectError(ConstInts("c", "int_val: 1 tensor_shape { dim { size: 1000000 } }"),
              ErrorCode::kResourceExhausted, {"; NodeDef: {{node c}}"});
  ExpectError(ConstInts("c", "int_val: 1 tensor_shape { dim { size: 9223372036854775807 } dim { size: 4 } }"),
              ErrorCode::kResourceExhausted, {"; NodeDef: {{node c}}"});
  std::string many = Placeholder("p");
  for (int i = 0; i < 20; ++i) {
    many += Node(StrCat("s", i), "Split", "input: 'p' attr { key: 'n' value { i: 4194304 } }");
  }
  options_.validate_shapes = false;
  ExpectError(many, ErrorCode::kResourceExhausted, {"inputs and outputs"});
  options_.max_nodes = 1;
  ExpectInvalid(Node("a", "NoOp") + Node("b", "NoOp"), {"more than the limit of 1"});
}

TEST_F(ImportTest, ExportRoundTrips) {
  const std::string text =
      Placeholder("a") + Node("z", "NoOp", "device: '/gpu:0'") +
      Node("s", "Split", "input: 'a' attr { key: 'n' value { i: 2 } } " + Type("T", "DT_FLOAT")) +
      Node("m", "Add",
           "input: 's:1' input: 's' input: '^a' input: '^z' " + Type("T", "DT_FLOAT") +
               "attr { key: '_class' value { list { s: 'loc:@a' } } }") +
      "versions { producer: 24 min_consumer: 12 }";
  ASSERT_TRUE(Import(text).ok());
  tensorflow::GraphDef out;
  ExportGraphDef(graph_, &out);
  tensorflow::GraphDef want = GraphDefFromText(text);
  // Import adds the one default that the text omits.
  (*want.mutable_node(0)->mutable_attr())["shape"].mutable_shape()->set_unknown_rank(true);
  EXPECT_EQ(out.DebugString(), want.DebugString());
}

TEST_F(ImportTest, FunctionsActAsOpsAndRoundTrip) {
  const std::string library =
      "library { function { signature { name: 'my_fn' input_arg { name: 'x' type: DT_FLOAT } output_arg { "
      "name: 'y' type: "
      "DT_FLOAT } } ret { key: 'y' value: 'x' } } gradient { function_name: 'my_fn' gradient_func: 'my_grad' "
      "} }";
  ASSERT_TRUE(Import(library + Placeholder("a") + Node("call", "my_fn", "input: 'a'")).ok());
  EXPECT_EQ(graph_.FindNode("call")->num_outputs(), 1);
  EXPECT_EQ(graph_.functions().FindGradient("my_fn"), "my_grad");
  EXPECT_NE(graph_.functions().Find("my_fn"), nullptr);
  tensorflow::GraphDef out;
  ExportGraphDef(graph_, &out);
  EXPECT_EQ(out.library().DebugString(), GraphDefFromText(library).library().DebugString());
  EXPECT_TRUE(Import(library).ok()) << "the same function again is fine";
  ExpectInvalid(
      "library { function { signature { name: 'my_fn' } } }",
      {"Cannot add function 'my_fn' because a different function with the same name already exists."});
  ExpectInvalid("library { gradient { function_name: 'my_fn' gradient_func: 'other' } }",
                {"because it already has gradient function 'my_grad'"});
  ExpectInvalid("library { function { signature { name: 'g' } } } " + Node("a b", "NoOp"),
                {"invalid characters"});
  EXPECT_EQ(graph_.functions().Find("g"), nullptr) << "a failed import leaves the library alone";
}

TEST_F(ImportTest, BytesThatAreNoGraphDefAreRefused) {
  tensorflow::GraphDef def;
  EXPECT_EQ(ParseGraphDef("\x0a\x7f", &def).ToString(),
            errors::InvalidArgument("Invalid GraphDef").ToString());
  EXPECT_TRUE(ParseGraphDef("", &def).ok());
  const tensorflow::GraphDef some = GraphDefFromText(Node("a", "NoOp"));
  EXPECT_TRUE(ParseGraphDef(some.SerializeAsString(), &def).ok());
  EXPECT_EQ(def.node_size(), 1);
}

TEST_F(ImportTest, AChainOfTwoHundredThousandNodesNeedsNoDeepStack) {
  tensorflow::GraphDef def;
  constexpr int kLength = 200000;
  for (int i = 0; i < kLength; ++i) {
    tensorflow::NodeDef* node = def.add_node();
    node->set_name(std::to_string(i));
    node->set_op(i == 0 ? "Placeholder" : "Identity");
    (*node->mutable_attr())[i == 0 ? "dtype" : "T"].set_type(tensorflow::DT_FLOAT);
    if (i > 0) node->add_input(std::to_string(i - 1));
  }
  ASSERT_TRUE(ImportGraphDef(def, options_, &graph_).ok());
  EXPECT_EQ(&graph_.FindNode("1")->props(), &graph_.FindNode("199999")->props());
  const auto order = TopologicalOrder(graph_);
  ASSERT_TRUE(order.ok());
  EXPECT_EQ((*order)[kLength]->name(), "199999");
}

// Random changes of the bytes of a valid GraphDef: import returns a Status, and the graph stays
// valid.
TEST_F(ImportTest, AGraphDefThatIsGivenAwayLendsItsConstants) {
  tensorflow::GraphDef def = GraphDefFromText(ConstInts("c", "tensor_shape { dim { size: 10000 } }"));
  (*def.mutable_node(0)->mutable_attr())["value"].mutable_tensor()->mutable_tensor_content()->assign(40000,
                                                                                                     '\1');
  const tensorflow::GraphDef kept = def;
  const void* bytes = def.node(0).attr().at("value").tensor().tensor_content().data();
  ASSERT_EQ(ImportGraphDef(std::move(def), options_, &graph_), Status());
  const auto value = graph_.FindNode("c")->attrs().Get<Tensor>("value");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->raw_data(), bytes);
  EXPECT_EQ(value->data<int32_t>()[9999], 0x01010101);

  Graph copy(TestOps());
  ASSERT_EQ(ImportGraphDef(kept, options_, &copy), Status());
  EXPECT_EQ(GraphText(copy), GraphText(graph_));
  EXPECT_EQ(kept.node(0).attr().at("value").tensor().tensor_content().size(), 40000u);
}

TEST_F(ImportTest, MutatedBytesGiveAStatusAndASoundGraph) {
  const std::string seed =
      GraphDefFromText(
          Placeholder("a") + ConstInts("dims", "int_val: [2, 3] tensor_shape { dim { size: 2 } }") +
          Node("s", "Split", "input: 'a' attr { key: 'n' value { i: 2 } } " + Type("T", "DT_FLOAT")) +
          Node("r", "Reshape", "input: 's:1' input: 'dims' input: '^a'") +
          Node("sum", "Add", "input: 'r' input: 's' attr { key: '_class' value { list { s: 'loc:@a' } } }") +
          Node("m", "Merge",
               "input: 'sum' input: 'n' " + Type("T", "DT_FLOAT") + "attr { key: 'N' value { i: 2 } }") +
          Node("n", "NextIteration", "input: 'm' " + Type("T", "DT_FLOAT")) +
          "library { function { signature { name: 'f' input_arg { name: 'x' type: DT_FLOAT } } } }"
          "versions { producer: 24 }")
          .SerializeAsString();
  options_.max_tensor_bytes = 1 << 20;
  google::protobuf::SetLogHandler(nullptr);  // it would log every malformed string
  std::mt19937 random(3);
  int imported = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = seed;
    const int changes = random() % 4 == 0 ? 3 : 1;
    for (int change = 0; change < changes; ++change) {
      const size_t at = random() % bytes.size();
      if (random() % 3 == 0) {
        bytes.erase(at, 1 + random() % 3);
      } else if (random() % 3 == 0) {
        bytes.insert(at, 1, static_cast<char>(random()));
      } else {
        bytes[at] = static_cast<char>(random() % 2 == 0 ? random() : bytes[at] ^ (1 << random() % 8));
      }
      if (bytes.empty()) bytes = "x";
    }
    tensorflow::GraphDef def;
    if (!ParseGraphDef(bytes, &def).ok()) continue;
    Graph graph(TestOps());
    const Status status = ImportGraphDef(def, options_, &graph);
    ASSERT_TRUE(graph.Validate().ok()) << graph.Validate() << "\n" << def.DebugString();
    if (status.ok()) {
      ++imported;
      tensorflow::GraphDef out;
      ExportGraphDef(graph, &out);
      Graph again(TestOps());
      const Status second = ImportGraphDef(out, options_, &again);
      ASSERT_TRUE(second.ok()) << second << "\n" << out.DebugString();
      ASSERT_EQ(GraphText(again), GraphText(graph));
    } else {
      ASSERT_EQ(graph.num_nodes(), 2) << status;
      ASSERT_FALSE(status.message().empty());
    }
  }
  EXPECT_GT(imported, 50) << "the changes are too coarse to reach what comes after parsing";
}

}  // namespace
}  // namespace millrace
