// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "graph/graph.h"
#include "millrace/ops.h"
#include "millrace/saved_model.h"
#include "training/proto_file.h"
#include "training/saved_model_testing.h"

namespace millrace {
namespace {

using saved_model_testing::NewFolder;
using saved_model_testing::WriteText;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::string Text(const std::filesystem::path& path) {
  auto text = ReadFileToString(Env::Posix(), path.string());
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

// y = w x, with w = 3 once initialised.
struct Model {
  Model() : w(scope.WithDevice("/cpu:0").WithOpName("w"), 3.f) {
    x = ops::Placeholder(scope.WithOpName("x"), DataType::kFloat);
    y = ops::Mul(scope.WithOpName("y"), x, w);
    const Status status = session.Run({}, {}, {GlobalVariablesInitializer(scope)}, nullptr);
    EXPECT_TRUE(status.ok()) << status;
  }
  SignatureDef Signature() const { return PredictSignature(scope, {{"in", x}}, {{"out", y}}); }

  Scope scope = Scope::NewRootScope();
  GraphVariable w;
  Output x, y;
  ClientSession session{scope};
};

std::unique_ptr<SavedModelBuilder> OpenOrFail(const std::string& dir) {
  auto builder = SavedModelBuilder::Open(dir);
  EXPECT_TRUE(builder.ok()) << builder.status();
  return builder.ok() ? *std::move(builder) : nullptr;
}

TEST(SavedModelBuilderTest, WhatIsBuiltIsLoaded) {
  for (const bool as_text : {false, true}) {
    const std::string dir = NewFolder() + "/a/b";
    Model model;
    const auto builder = OpenOrFail(dir);
    ASSERT_NE(builder, nullptr);
    const Status added =
        builder->AddMetaGraphAndVariables(model.session, model.scope, {saved_model::kServe},
                                          {.signatures = {{"serving_default", model.Signature()}}});
    ASSERT_TRUE(added.ok()) << added;
    EXPECT_FALSE(MaybeSavedModelDirectory(dir));
    const auto path = builder->Save(as_text);
    ASSERT_TRUE(path.ok()) << path.status();
    EXPECT_EQ(*path, dir + (as_text ? "/saved_model.pbtxt" : "/saved_model.pb"));
    const auto bundle = SavedModelBundle::Load(dir, {"serve"});
    ASSERT_TRUE(bundle.ok()) << bundle.status();
    const auto result = (*bundle)->Run("serving_default", {{"in", Tensor::Scalar(2.f)}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result->at("out").data<float>(), 6);
    EXPECT_TRUE((*bundle)->meta_graph().collections.contains("variables"));
    EXPECT_EQ((*bundle)->signatures().at("serving_default").method_name, "tensorflow/serving/predict");
  }
}

TEST(SavedModelBuilderTest, AModelWithoutVariablesHasAnEmptyFolderForThem) {
  const std::string dir = NewFolder();
  const Scope scope = Scope::NewRootScope();
  ops::Const(scope.WithOpName("c"), 4.f);
  const ClientSession session(scope);
  const auto builder = OpenOrFail(dir);
  ASSERT_TRUE(builder->AddMetaGraphAndVariables(session, scope, {"serve"}).ok());
  ASSERT_TRUE(builder->Save().ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir + "/variables"));
  const auto bundle = SavedModelBundle::Load(dir, {"serve"});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_FALSE((*bundle)->meta_graph().saver.has_value());
}

TEST(SavedModelBuilderTest, SeveralMetaGraphsShareTheVariables) {
  const std::string dir = NewFolder();
  Model model;
  const auto builder = OpenOrFail(dir);
  EXPECT_THAT(std::string(builder->AddMetaGraph(model.scope, {"serve"}, {}).message()),
              HasSubstr("has not been saved yet. Please invoke `add_meta_graph_and_variables()` first."));
  ASSERT_TRUE(builder->AddMetaGraphAndVariables(model.session, model.scope, {"train"}).ok());
  EXPECT_THAT(std::string(builder->AddMetaGraphAndVariables(model.session, model.scope, {"more"}).message()),
              HasSubstr("has already been saved. Please invoke `add_meta_graph()` instead."));
  const Scope serving = Scope::NewRootScope();
  const GraphVariable w(serving.WithOpName("w"), 0.f);
  ops::Neg(serving.WithOpName("minus"), w);
  const Status added =
      builder->AddMetaGraph(serving, {"serve", "gpu"}, {.clear_devices = true, .strip_default_attrs = true});
  ASSERT_TRUE(added.ok()) << added;
  ASSERT_TRUE(builder->Save().ok());
  const auto bundle = SavedModelBundle::Load(dir, {"gpu", "serve"});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  std::vector<Tensor> values;
  ASSERT_TRUE((*bundle)->session().Run({}, {"minus"}, {}, &values).ok());
  EXPECT_EQ(*values[0].data<float>(), -3);
  EXPECT_TRUE((*bundle)->meta_graph().stripped_default_attrs);
  EXPECT_TRUE(SavedModelBundle::Load(dir, {"train"}).ok());
}

TEST(SavedModelBuilderTest, AssetsAreCopiedUnderNamesOfTheirOwn) {
  const std::string dir = NewFolder(), from = NewFolder("from");
  WriteText(from + "/a/words.txt", "one\ntwo\n");
  WriteText(from + "/b/words.txt", "other\nwords\n");
  WriteText(from + "/c/words.txt", "one\ntwo\n");  // the same as a's
  WriteText(from + "/d/words.txt", "third\n");
  Model model;
  std::vector<Output> assets;
  for (const char* folder : {"a", "b", "c", "d", "a"}) {
    assets.push_back(
        ops::Const(model.scope.WithOpName(StrCat("path_", folder)), from + "/" + folder + "/words.txt"));
  }
  const Scope table_scope = model.scope.WithOpName("table");
  OpMaker table(table_scope, "HashTableV2", {});
  table.SetAttr("key_dtype", DataType::kString);
  table.SetAttr("value_dtype", DataType::kInt64);
  ASSERT_NE(table.Finish(), nullptr);
  const Scope fill_scope = model.scope.WithOpName("fill");
  OpMaker fill(fill_scope, "InitializeTableFromTextFileV2", {});
  fill.Add(table.output(0));
  fill.Add(assets[1]);
  fill.SetAttr("key_index", int64_t{-2});
  fill.SetAttr("value_index", int64_t{-1});
  const Operation init(fill.Finish());
  const Scope find_scope = model.scope.WithOpName("find");
  OpMaker find(find_scope, "LookupTableFindV2", {});
  find.Add(table.output(0));
  find.Add(ops::Const(model.scope, "words"));
  find.Add(ops::Const(model.scope, int64_t{-1}));
  ASSERT_NE(find.Finish(), nullptr) << model.scope.status();
  const auto builder = OpenOrFail(dir);
  const Status added = builder->AddMetaGraphAndVariables(model.session, model.scope, {"serve"},
                                                         {.assets = assets, .main_op = init});
  ASSERT_TRUE(added.ok()) << added;
  ASSERT_TRUE(builder->Save().ok());
  std::filesystem::remove_all(from);
  EXPECT_EQ(Text(dir + "/assets/words.txt"), "one\ntwo\n");
  EXPECT_EQ(Text(dir + "/assets/words.txt_1"), "other\nwords\n");
  EXPECT_EQ(Text(dir + "/assets/words.txt_2"), "third\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir + "/assets"), {}), 3);
  const auto bundle = SavedModelBundle::Load(dir, {"serve"});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_THAT((*bundle)->meta_graph().assets,
              ElementsAre(AssetFileDef{"path_a:0", "words.txt"}, AssetFileDef{"path_b:0", "words.txt_1"},
                          AssetFileDef{"path_c:0", "words.txt"}, AssetFileDef{"path_d:0", "words.txt_2"},
                          AssetFileDef{"path_a_1:0", "words.txt"}));
  std::vector<Tensor> values;
  ASSERT_TRUE((*bundle)->session().Run({}, {"find"}, {}, &values).ok());
  EXPECT_EQ(*values[0].data<int64_t>(), 1);
}

TEST(SavedModelBuilderTest, FoldersThatHaveSomethingAreRefused) {
  const std::string dir = NewFolder();
  WriteText(dir + "/file", "");
  const Status status = SavedModelBuilder::Open(dir).status();
  EXPECT_EQ(status.code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(status.message(),
            "Export directory already exists, and isn't empty. Please choose a different export directory, "
            "or delete "
            "all the contents of the specified directory: " +
                dir);
}

TEST(SavedModelBuilderTest, SignaturesAreValidated) {
  const std::string dir = NewFolder();
  Model model;
  const auto builder = OpenOrFail(dir);
  const auto add = [&](const std::string& key, const SignatureDef& signature) {
    return std::string(
        builder
            ->AddMetaGraphAndVariables(model.session, model.scope, {"a"}, {.signatures = {{key, signature}}})
            .message());
  };
  SignatureDef signature = model.Signature();
  signature.inputs["in"].name = "";
  EXPECT_EQ(
      add("s", signature),
      "All TensorInfo protos used in the SignatureDefs must have one of the 'encoding' fields (e.g., name or "
      "coo_sparse) set: in");
  signature = model.Signature();
  signature.outputs["out"].dtype = DataType::kInvalid;
  EXPECT_EQ(add("s", signature),
            "All TensorInfo protos used in the SignatureDefs must have the dtype field set: out");
  EXPECT_EQ(
      add("__saved_model_init_op", model.Signature()),
      "SignatureDef map key \"__saved_model_init_op\" is reserved for initialization. Please use a different "
      "key.");
  EXPECT_EQ(
      add("__saved_model_train_op", model.Signature()),
      "SignatureDef map key \"__saved_model_train_op\" is reserved for the train op. Please use a different "
      "key.");
  EXPECT_TRUE(std::filesystem::is_empty(dir));  // nothing was saved for them
}

TEST(SavedModelBuilderTest, AssetsAndMainOpsThatAreNoneAreRefused) {
  Model model;
  const auto add = [&](const SavedModelBuilder::MetaGraphOptions& options) {
    return std::string(OpenOrFail(NewFolder())
                           ->AddMetaGraphAndVariables(model.session, model.scope, {"a"}, options)
                           .message());
  };
  EXPECT_EQ(add({.assets = {model.y}}), "Asset path tensor must be of type constant.");
  EXPECT_EQ(add({.assets = {Output()}}), "Asset path tensor must be a Tensor.");
  EXPECT_EQ(add({.assets = {ops::Const(model.scope, 1.f)}}), "Asset path tensor must be of dtype string.");
  EXPECT_EQ(add({.assets = {ops::Const(model.scope, {"a", "b"})}}), "Asset path tensor must be a scalar.");
  EXPECT_THAT(add({.assets = {ops::Const(model.scope, "/no/such/file")}}), HasSubstr("/no/such/file"));
  AddToCollection(model.scope, "saved_model_main_op", model.w.initializer());
  EXPECT_EQ(add({.main_op = model.w.initializer()}),
            "Graph already contains one or more main ops under the collection saved_model_main_op.");
}

TEST(SavedModelBuilderTest, ASaverOfTheProgramIsUsed) {
  const std::string dir = NewFolder();
  Model model;
  const Saver saver(model.scope, {.name = "mine"});
  const auto builder = OpenOrFail(dir);
  ASSERT_TRUE(
      builder->AddMetaGraphAndVariables(model.session, model.scope, {"serve"}, {.saver = &saver}).ok());
  ASSERT_TRUE(builder->Save().ok());
  const auto bundle = SavedModelBundle::Load(dir, {"serve"});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ((*bundle)->meta_graph().saver->restore_op_name, "mine/restore_all");
}

TEST(SimpleSaveTest, ReplacesAModelAndNothingElse) {
  const std::string dir = NewFolder() + "/model";
  Model model;
  for (int i = 0; i < 2; ++i) {
    const Status saved = SimpleSave(model.session, model.scope, dir, {{"in", model.x}}, {{"out", model.y}});
    ASSERT_TRUE(saved.ok()) << saved;
    const auto bundle = SavedModelBundle::Load(dir, {"serve"});
    ASSERT_TRUE(bundle.ok()) << bundle.status();
    const auto result = (*bundle)->Run("serving_default", {{"in", Tensor::Scalar(2.f)}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result->at("out").data<float>(), 6);
  }
  const auto parent = std::filesystem::path(dir).parent_path();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(parent), {}), 1);
  const std::string other = NewFolder();
  WriteText(other + "/notes.txt", "mine");
  const Status refused = SimpleSave(model.session, model.scope, other, {{"in", model.x}}, {{"out", model.y}});
  EXPECT_EQ(refused.code(), ErrorCode::kAlreadyExists) << refused;
  EXPECT_EQ(Text(other + "/notes.txt"), "mine");
}

}  // namespace
}  // namespace millrace
