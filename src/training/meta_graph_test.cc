// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/meta_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cc/scope_state.h"
#include "graph/graph.h"
#include "graph/graph_import.h"
#include "millrace/ops.h"
#include "millrace/saver.h"
#include "tensorflow/core/framework/variable.pb.h"
#include "tensorflow/core/protobuf/queue_runner.pb.h"
#include "training/message_memory.h"
#include "training/meta_graph_io.h"
#include "training/proto_file.h"
#include "training/saved_model_testing.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

namespace millrace {
namespace {

using saved_model_testing::NewFolder;
using saved_model_testing::WriteText;
using testing::ElementsAre;
using testing::HasSubstr;

tensorflow::MetaGraphDef Read(const std::string& path) {
  tensorflow::MetaGraphDef meta;
  const Status status = ReadProto(Env::Posix(), path, &meta);
  EXPECT_TRUE(status.ok()) << status;
  return meta;
}

const tensorflow::NodeDef* FindNode(const tensorflow::MetaGraphDef& meta, const std::string& name) {
  for (const auto& node : meta.graph_def().node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

std::vector<std::string> OpsOf(const tensorflow::MetaGraphDef& meta) {
  std::vector<std::string> names;
  for (const auto& op : meta.meta_info_def().stripped_op_list().op()) names.push_back(op.name());
  return names;
}

// y = w x with a variable, and collections of all kinds.
struct Model {
  Model()
      : w(scope.WithOpName("w"), Literal({{1.f}, {2.f}})),
        still(scope.WithOpName("still"), 3.f, {.trainable = false}) {
    x = ops::Placeholder(scope.WithDevice("/cpu:0").WithOpName("x"), DataType::kFloat);
    y = ops::MatMul(scope.WithOpName("y"), x, w);
    auto& collections = Collections(scope);
    AddToCollection(scope, "outputs", y);
    AddToCollection(scope, "init", w.initializer());
    collections["numbers"] = Int64List{{1, -5}};
    collections["rates"] = FloatList{{0.5f}};
    collections["texts"] = BytesList{{std::string("a\0b", 3)}};
    collections["things"] = AnyList{{{"type.googleapis.com/x.Y", "bytes"}}};
    tensorflow::QueueRunnerDef runner;
    runner.set_queue_name("queue");
    runner.add_enqueue_op_name("enqueue");
    collections["queue_runners"] = BytesList{{runner.SerializeAsString()}};
  }
  Scope scope = Scope::NewRootScope();
  GraphVariable w, still;
  Output x, y;
};

TEST(MetaGraphTest, TheWholeGraphGoesOut) {
  const std::string path = NewFolder() + "/m.meta";
  Model model;
  ASSERT_TRUE(model.scope.ok()) << model.scope.status();
  MetaGraph meta;
  meta.tags = {"serve"};
  const Status status = ExportMetaGraph(model.scope, path, meta);
  ASSERT_TRUE(status.ok()) << status;
  const tensorflow::MetaGraphDef proto = Read(path);
  EXPECT_EQ(proto.meta_info_def().tensorflow_version(), "1.15.5");
  EXPECT_THAT(proto.meta_info_def().tags(), ElementsAre("serve"));
  EXPECT_THAT(OpsOf(proto),
              ElementsAre("Assign", "Const", "Identity", "MatMul", "Placeholder", "VariableV2"));
  EXPECT_FALSE(proto.has_saver_def());
  EXPECT_EQ(FindNode(proto, "x")->device(), "/cpu:0");
  EXPECT_EQ(FindNode(proto, "w")->attr().at("_output_shapes").list().shape(0).dim(0).size(), 2);
  const auto& collections = proto.collection_def();
  EXPECT_THAT(collections.at("outputs").node_list().value(), ElementsAre("y:0"));
  EXPECT_THAT(collections.at("init").node_list().value(), ElementsAre("w/Assign"));
  EXPECT_THAT(collections.at("numbers").int64_list().value(), ElementsAre(1, -5));
  EXPECT_THAT(collections.at("rates").float_list().value(), ElementsAre(0.5f));
  EXPECT_EQ(collections.at("texts").bytes_list().value(0), std::string("a\0b", 3));
  EXPECT_EQ(collections.at("things").any_list().value(0).type_url(), "type.googleapis.com/x.Y");
  ASSERT_EQ(collections.at("variables").bytes_list().value_size(), 2);
  ASSERT_EQ(collections.at("trainable_variables").bytes_list().value_size(), 1);
  tensorflow::VariableDef variable;
  ASSERT_TRUE(variable.ParseFromString(collections.at("variables").bytes_list().value(0)));
  EXPECT_EQ(variable.variable_name(), "w:0");
  EXPECT_EQ(variable.initializer_name(), "w/Assign");
  EXPECT_EQ(variable.snapshot_name(), "w/read:0");
  EXPECT_EQ(variable.initial_value_name(), "w/initial_value:0");
  EXPECT_TRUE(variable.trainable());
}

TEST(MetaGraphTest, WhatGoesOutComesIn) {
  for (const bool as_text : {false, true}) {
    const std::string path = NewFolder() + "/m.meta";
    Model model;
    ASSERT_TRUE(ExportMetaGraph(model.scope, path, {}, {.as_text = as_text}).ok());
    const Scope scope = Scope::NewRootScope();
    const auto meta = ImportMetaGraph(scope, path);
    ASSERT_TRUE(meta.ok()) << meta.status();
    EXPECT_EQ(Collections(scope), Collections(model.scope));
    ASSERT_EQ(GlobalVariables(scope).size(), 2u);
    EXPECT_EQ(GlobalVariables(scope)[0].name(), "w");
    ASSERT_EQ(TrainableVariables(scope).size(), 1u);
    EXPECT_EQ(Scope::NameOf(TrainableVariables(scope)[0].initializer()), "w/Assign");
    const std::string again = NewFolder("again") + "/m.meta";
    ASSERT_TRUE(ExportMetaGraph(scope, again, {}, {.as_text = as_text}).ok());
    EXPECT_EQ(Read(again).SerializeAsString().size(), Read(path).SerializeAsString().size());
    const ClientSession session(scope);
    ASSERT_TRUE(session.Run({}, {}, {GlobalVariablesInitializer(scope)}, nullptr).ok());
    std::vector<Tensor> values;
    ASSERT_TRUE(
        session.session()->Run({{"x", Tensor::From<float>({3, 4}, {1, 2})}}, {"y:0"}, {}, &values).ok());
    EXPECT_EQ(*values[0].data<float>(), 11);
  }
}

TEST(MetaGraphTest, AnImportScopeIsPutBeforeAllNames) {
  const std::string path = NewFolder() + "/m.meta";
  Model model;
  MetaGraph meta;
  meta.saver =
      SaverDef{.filename_tensor_name = "save/Const:0", .save_tensor_name = "s:0", .restore_op_name = "r"};
  meta.signatures["main"].outputs["y"] = {.name = "y:0", .dtype = DataType::kFloat};
  ASSERT_TRUE(ExportMetaGraph(model.scope, path, meta).ok());
  const Scope scope = Scope::NewRootScope();
  ASSERT_TRUE(ImportMetaGraph(scope, path, {.import_scope = "part"}).ok());
  const auto second = ImportMetaGraph(scope, path, {.import_scope = "part", .clear_devices = true});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->saver->filename_tensor_name, "part_1/save/Const:0");
  EXPECT_EQ(second->saver->restore_op_name, "part_1/r");
  EXPECT_EQ(second->signatures.at("main").outputs.at("y").name, "part_1/y:0");
  EXPECT_EQ(Collections(scope)["outputs"], CollectionDef(NodeList{{"part/y:0", "part_1/y:0"}}));
  EXPECT_EQ(Collections(scope)["numbers"], CollectionDef(Int64List{{1, -5, 1, -5}}));
  tensorflow::QueueRunnerDef runner;
  ASSERT_TRUE(runner.ParseFromString(std::get<BytesList>(Collections(scope)["queue_runners"]).value[1]));
  EXPECT_EQ(runner.queue_name(), "part_1/queue");
  EXPECT_THAT(runner.enqueue_op_name(), ElementsAre("part_1/enqueue"));
  ASSERT_EQ(GlobalVariables(scope).size(), 4u);
  EXPECT_EQ(GlobalVariables(scope)[2].name(), "part_1/w");
  EXPECT_EQ(scope.graph().FindNode("part/x")->requested_device(), "/cpu:0");
  EXPECT_EQ(scope.graph().FindNode("part_1/x")->requested_device(), "");
  EXPECT_EQ((*scope.graph().FindNode("part_1/y")->InputEdge(0))->src->name(), "part_1/x");
}

TEST(MetaGraphTest, DefaultsAndDevicesAreLeftOutOnDemand) {
  const std::string path = NewFolder() + "/m.meta";
  Model model;
  ASSERT_TRUE(ExportMetaGraph(model.scope, path, {},
                              {.clear_devices = true, .strip_default_attrs = true, .add_shapes = false})
                  .ok());
  const tensorflow::MetaGraphDef proto = Read(path);
  EXPECT_TRUE(proto.meta_info_def().stripped_default_attrs());
  EXPECT_EQ(FindNode(proto, "x")->device(), "");
  const tensorflow::NodeDef& y = *FindNode(proto, "y");
  EXPECT_EQ(y.attr_size(), 1);  // T; transpose_a and transpose_b have their defaults
  const Scope scope = Scope::NewRootScope();
  ASSERT_TRUE(ImportMetaGraph(scope, path).ok());
  EXPECT_FALSE(*scope.graph().FindNode("y")->Attr<bool>("transpose_a"));
}

TEST(MetaGraphTest, APartOfAGraphListsItsUnboundInputs) {
  const std::string path = NewFolder() + "/part.meta";
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope.WithOpName("x"), DataType::kFloat);
  const Operation before = ops::NoOp(scope.WithOpName("before"));
  const Scope below = scope.NewSubScope("layer");
  const GraphVariable w(below.WithOpName("w"), 2.f);
  const Output y = ops::Mul(below.WithOpName("y").WithControlDependencies({before}), x, w);
  AddToCollection(scope, "all", x);
  AddToCollection(scope, "all", y);
  ASSERT_TRUE(ExportMetaGraph(scope, path, {}, {.export_scope = "layer"}).ok());
  const tensorflow::MetaGraphDef proto = Read(path);
  EXPECT_THAT(FindNode(proto, "y")->input(),
              ElementsAre("$unbound_inputs_x", "w/read", "^$unbound_inputs_before"));
  EXPECT_EQ(FindNode(proto, "x"), nullptr);
  EXPECT_THAT(proto.collection_def().at("unbound_inputs").bytes_list().value(),
              ElementsAre("$unbound_inputs_x", "^$unbound_inputs_before"));
  EXPECT_THAT(proto.collection_def().at("all").node_list().value(), ElementsAre("y:0"));

  const Scope other = Scope::NewRootScope();
  const Status unbound = ImportMetaGraph(other, path).status();
  EXPECT_EQ(
      unbound.message(),
      "Graph contains unbound inputs: $unbound_inputs_x,^$unbound_inputs_before. Must provide these inputs "
      "through input_map.");
  const Output five = ops::Const(other.WithOpName("five"), 5.f);
  const auto meta =
      ImportMetaGraph(other, path, {.import_scope = "a", .input_map = {{"x", five}, {"^before", five}}});
  ASSERT_TRUE(meta.ok()) << meta.status();
  EXPECT_FALSE(meta->collections.contains("unbound_inputs"));
  const ClientSession session(other);
  ASSERT_TRUE(session.Run({}, {}, {GlobalVariablesInitializer(other)}, nullptr).ok());
  std::vector<Tensor> values;
  ASSERT_TRUE(session.session()->Run({}, {"a/y"}, {}, &values).ok());
  EXPECT_EQ(*values[0].data<float>(), 10);
}

TEST(MetaGraphTest, ASaverComesWithItsMetaGraph) {
  const std::string dir = NewFolder();
  Model model;
  {
    const ClientSession session(model.scope);
    ASSERT_TRUE(session.Run({}, {}, {GlobalVariablesInitializer(model.scope)}, nullptr).ok());
    Saver saver(model.scope);
    ASSERT_TRUE(saver.Save(session, dir + "/m").ok());
  }
  for (const char* import_scope : {"", "part"}) {
    const Scope scope = Scope::NewRootScope();
    const auto meta = ImportMetaGraph(scope, dir + "/m.meta", {.import_scope = import_scope});
    ASSERT_TRUE(meta.ok()) << meta.status();
    const std::unique_ptr<Saver> saver = Saver::ForMetaGraph(scope, *meta);
    ASSERT_NE(saver, nullptr);
    const ClientSession session(scope);
    const Status restored = saver->Restore(session, dir + "/m");
    ASSERT_TRUE(restored.ok()) << restored;
    std::vector<Tensor> values;
    ASSERT_TRUE(session.Run({GlobalVariables(scope)[1].value()}, &values).ok());
    EXPECT_EQ(*values[0].data<float>(), 3);
  }
}

TEST(MetaGraphTest, OpsOfFunctionsAreListed) {
  tensorflow::MetaGraphDef proto;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(graph_def { node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }
           node { name: 'y' op: 'Outer' input: 'x' }
           library {
             function { signature { name: 'Outer' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'b' type: DT_FLOAT } }
               node_def { name: 'n' op: 'Inner' input: 'a' } ret { key: 'b' value: 'n:b:0' } }
             function { signature { name: 'Inner' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'b' type: DT_FLOAT } }
               node_def { name: 'n' op: 'Relu' input: 'a' attr { key: 'T' value { type: DT_FLOAT } } } ret { key: 'b' value: 'n:activations:0' } }
             function { signature { name: 'Unused' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'b' type: DT_FLOAT } }
               node_def { name: 'n' op: 'Tanh' input: 'a' attr { key: 'T' value { type: DT_FLOAT } } } ret { key: 'b' value: 'n:y:0' } }
           } })",
      &proto));
  const Scope scope = Scope::NewRootScope();
  const Status imported = ImportMetaGraphDef(scope, &proto, {}).status();
  ASSERT_TRUE(imported.ok()) << imported;
  ASSERT_TRUE(BuildMetaGraphDef(scope, {}, {}, &proto).ok());
  EXPECT_THAT(OpsOf(proto), ElementsAre("Placeholder", "Relu"));
}

TEST(MetaGraphTest, WhatIsNoMetaGraphIsRefused) {
  const std::string dir = NewFolder();
  const Scope scope = Scope::NewRootScope();
  EXPECT_EQ(ImportMetaGraph(scope, dir + "/no").status().message(), "File " + dir + "/no does not exist.");
  WriteText(dir + "/bad", "neither binary nor text");
  EXPECT_THAT(std::string(ImportMetaGraph(scope, dir + "/bad").status().message()),
              HasSubstr("Can't parse " + dir + "/bad as text proto: line 1, column "));
  WriteText(dir + "/node", "graph_def { node { name: 'a' op: 'Identity' input: 'b' } }");
  EXPECT_FALSE(ImportMetaGraph(scope, dir + "/node").ok());
  EXPECT_EQ(scope.graph().num_nodes(), 2);
  EXPECT_TRUE(scope.ok());
}

TEST(MetaGraphTest, EntriesThatAreNoVariablesStayWhereTheyAre) {
  const std::string path = NewFolder() + "/m.meta";
  WriteText(
      path,
      "collection_def { key: 'variables' value { bytes_list { value: '\\n\\003w:0' value: '\\377' } } }");
  const Scope scope = Scope::NewRootScope();
  ASSERT_TRUE(ImportMetaGraph(scope, path).ok());
  EXPECT_TRUE(GlobalVariables(scope).empty());
  EXPECT_EQ(std::get<BytesList>(Collections(scope)["variables"]).value.size(), 2u);
}

TEST(MetaGraphTest, NamesTakeScopesAndLoseThem) {
  EXPECT_EQ(PrependScope("s", "a:0"), "s/a:0");
  EXPECT_EQ(PrependScope("s/", "^a"), "^s/a");
  EXPECT_EQ(PrependScope("s", "loc:@a"), "loc:@s/a");
  EXPECT_EQ(PrependScope("s", ""), "");
  EXPECT_EQ(PrependScope("", "a"), "a");
  EXPECT_EQ(StripScope("s", "^s/a"), "^a");
  EXPECT_EQ(StripScope("s", "sa"), "sa");
  EXPECT_FALSE(IsBelowScope("s", "sa/b"));
}

TEST(MessageMemoryTest, FewBytesThatMakeManyMessagesAreTooMany) {
  // Empty nodes of two bytes each take a hundred times as much memory.
  std::string bytes;
  for (int i = 0; i < 10000; ++i) bytes += std::string("\x0a\x00", 2);
  const auto check = [](const std::string& text, int64_t base) {
    google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
    return CheckBinaryMemory(&stream, text.size(), tensorflow::GraphDef(), base);
  };
  EXPECT_EQ(check(bytes, 1 << 10).code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(check(bytes, 64 << 20).ok());
  tensorflow::GraphDef graph;
  for (int i = 0; i < 100; ++i) graph.add_node()->set_name(std::string(1000, 'n'));
  EXPECT_TRUE(check(graph.SerializeAsString(), 0).ok());
  std::string text;
  for (int i = 0; i < 10000; ++i) text += "node{}";
  EXPECT_EQ(CheckTextMemory(text, 1 << 10).code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(CheckTextMemory(text).ok());
}

}  // namespace
}  // namespace millrace
