// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/strings.h"
#include "io/checkpoint/slices.h"
#include "millrace/saved_model.h"
#include "proto/message_types.h"
#include "training/proto_file.h"
#include "training/saved_model_testing.h"

namespace millrace {
namespace {

using saved_model_testing::AddMetaGraph;
using saved_model_testing::AddSignature;
using saved_model_testing::ModelGraph;
using saved_model_testing::NewFolder;
using saved_model_testing::WriteModel;
using saved_model_testing::WriteText;
using saved_model_testing::WriteVariables;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor Row(const std::vector<float>& values) { return Tensor::Vector<float>(values); }

std::vector<float> Fetch(const SavedModelBundle& bundle, const std::string& name) {
  std::vector<Tensor> outputs;
  const Status status = bundle.session().Run({}, {name}, {}, &outputs);
  if (!status.ok()) {
    ADD_FAILURE() << status;
    return {};
  }
  const auto flat = outputs[0].flat<float>();
  return {flat.begin(), flat.end()};
}

std::unique_ptr<SavedModelBundle> LoadOrFail(const std::string& dir, const std::set<std::string>& tags) {
  auto bundle = SavedModelBundle::Load(dir, tags);
  EXPECT_TRUE(bundle.ok()) << bundle.status();
  return bundle.ok() ? *std::move(bundle) : nullptr;
}

Status LoadError(const std::string& dir, const std::set<std::string>& tags = {"serve"}) {
  return SavedModelBundle::Load(dir, tags).status();
}

// A model with a ref and a resource variable, and the signature 2 x.
tensorflow::SavedModel TwoVariables() {
  tensorflow::SavedModel model;
  tensorflow::MetaGraphDef* const meta = AddMetaGraph(&model, {"serve"});
  ModelGraph graph(meta->mutable_graph_def());
  graph.RefVariable("w", 2);
  graph.ResourceVariable("r", 3);
  graph.Add("x", "Placeholder", {}, {{"dtype", "type: DT_FLOAT"}, {"shape", "shape { unknown_rank: true }"}});
  graph.Add("y", "Add", {"x", "x"}, {{"T", "type: DT_FLOAT"}});
  *meta->mutable_saver_def() = graph.Saver({{"r", "r", "", true}, {"w", "w"}});
  AddSignature(
      meta, "serving_default",
      "inputs { key: 'in' value { name: 'x:0' dtype: DT_FLOAT tensor_shape { unknown_rank: true } } }"
      "outputs { key: 'out' value { name: 'y:0' dtype: DT_FLOAT tensor_shape { dim { size: -1 } } } }"
      "outputs { key: 'same' value { name: 'x:0' dtype: DT_FLOAT } }"
      "method_name: 'tensorflow/serving/predict'");
  return model;
}

TEST(SavedModelLoadTest, RefAndResourceVariablesAreRestored) {
  const std::string dir = NewFolder();
  WriteModel(TwoVariables(), dir);
  WriteVariables(dir, {{"r", Row({3, 4, 5})}, {"w", Row({1, 2})}});
  const auto bundle = LoadOrFail(dir, {"serve"});
  ASSERT_NE(bundle, nullptr);
  EXPECT_THAT(Fetch(*bundle, "w/read:0"), ElementsAre(1, 2));
  EXPECT_THAT(Fetch(*bundle, "r/Read/ReadVariableOp"), ElementsAre(3, 4, 5));
  EXPECT_EQ(bundle->meta_graph().saver->restore_op_name, "save/restore_all");
}

TEST(SavedModelLoadTest, APathMayEndInASlash) {
  const std::string dir = NewFolder();
  WriteModel(TwoVariables(), dir);
  WriteVariables(dir, {{"r", Row({3, 4, 5})}, {"w", Row({1, 2})}});
  EXPECT_NE(LoadOrFail(dir + "/", {"serve"}), nullptr);
  EXPECT_TRUE(MaybeSavedModelDirectory(dir + "/"));
  EXPECT_FALSE(MaybeSavedModelDirectory(dir + "/variables"));
}

TEST(SavedModelLoadTest, ATextModelIsTheSame) {
  const std::string dir = NewFolder();
  std::string text;
  ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(TwoVariables(), &text));
  WriteText(dir + "/saved_model.pbtxt", text + "a_field_of_later_versions: 7\n");
  WriteVariables(dir, {{"r", Row({3, 4, 5})}, {"w", Row({1, 2})}});
  const auto bundle = LoadOrFail(dir, {"serve"});
  ASSERT_NE(bundle, nullptr);
  EXPECT_THAT(Fetch(*bundle, "w/read:0"), ElementsAre(1, 2));
}

TEST(SavedModelLoadTest, FieldsOfLaterVersionsDoNotMatter) {
  const std::string dir = NewFolder();
  // Fields 99 (a string) and 100 (a number) of the model and of its meta graph.
  const std::string later = std::string("\x9a\x06\x03new", 6) + std::string("\xa0\x06\x07", 3);
  tensorflow::SavedModel model = TwoVariables();
  const std::string meta = model.meta_graphs(0).SerializeAsString() + later;
  std::string bytes("\x08\x01\x12", 3);
  for (size_t n = meta.size(); n > 0; n >>= 7) bytes += static_cast<char>((n & 127) | (n > 127 ? 128 : 0));
  WriteText(dir + "/saved_model.pb", bytes + meta + later);
  WriteVariables(dir, {{"r", Row({3, 4, 5})}, {"w", Row({1, 2})}});
  EXPECT_NE(LoadOrFail(dir, {"serve"}), nullptr);
}

TEST(SavedModelLoadTest, PartsOfVariablesComeFromWholesAndFromSlices) {
  tensorflow::SavedModel model;
  tensorflow::MetaGraphDef* const meta = AddMetaGraph(&model, {"serve"});
  ModelGraph graph(meta->mutable_graph_def());
  graph.RefVariable("w/part_0", 2);
  graph.RefVariable("w/part_1", 1);
  *meta->mutable_saver_def() = graph.Saver({{"w/part_0", "w", "3 0,2"}, {"w/part_1", "w", "3 2,1"}});
  const std::string whole = NewFolder("whole"), sliced = NewFolder("sliced");
  WriteModel(model, whole);
  WriteModel(model, sliced);
  WriteVariables(whole, {{"w", Row({1, 2, 3})}});
  auto writer = io::BundleWriter::Open(Env::Posix(), sliced + "/variables/variables");
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->AddSlice("w", TensorShape({3}), *TensorSlice::Parse("0,2"), Row({1, 2})).ok());
  ASSERT_TRUE((*writer)->AddSlice("w", TensorShape({3}), *TensorSlice::Parse("2,1"), Row({3})).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  for (const std::string& dir : {whole, sliced}) {
    const auto bundle = LoadOrFail(dir, {"serve"});
    ASSERT_NE(bundle, nullptr);
    EXPECT_THAT(Fetch(*bundle, "w/part_0/read"), ElementsAre(1, 2));
    EXPECT_THAT(Fetch(*bundle, "w/part_1/read"), ElementsAre(3));
  }
}

TEST(SavedModelLoadTest, VariablesInSeveralFilesAreRestored) {
  const std::string dir = NewFolder();
  WriteModel(TwoVariables(), dir);
  const std::string prefix = dir + "/variables/variables";
  std::vector<std::string> parts;
  for (const auto& [name, value] : {std::pair("r", Row({3, 4, 5})), std::pair("w", Row({1, 2}))}) {
    parts.push_back(prefix + "_temp_" + name + "/part");
    auto writer = io::BundleWriter::Open(Env::Posix(), parts.back());
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Add(name, value).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  ASSERT_TRUE(io::MergeBundles(Env::Posix(), parts, prefix).ok());
  ASSERT_TRUE(std::filesystem::exists(prefix + ".data-00001-of-00002"));
  const auto bundle = LoadOrFail(dir, {"serve"});
  ASSERT_NE(bundle, nullptr);
  EXPECT_THAT(Fetch(*bundle, "r/Read/ReadVariableOp"), ElementsAre(3, 4, 5));
}

// The saver of the first format: a RestoreSlice for each variable.
tensorflow::SavedModel OldFormatModel() {
  tensorflow::SavedModel model;
  tensorflow::MetaGraphDef* const meta = AddMetaGraph(&model, {"serve"});
  ModelGraph graph(meta->mutable_graph_def());
  graph.RefVariable("w", 2);
  graph.Strings("save/Const", {"model"}, true);
  graph.Strings("save/RestoreSlice/tensor_name", {"w"}, true);
  graph.Strings("save/RestoreSlice/shape_and_slice", {""}, true);
  graph.Add("save/RestoreSlice", "RestoreSlice",
            {"save/Const", "save/RestoreSlice/tensor_name", "save/RestoreSlice/shape_and_slice"},
            {{"dt", "type: DT_FLOAT"}, {"preferred_shard", "i: -1"}});
  graph.Add("save/Assign", "Assign", {"w", "save/RestoreSlice"}, {{"T", "type: DT_FLOAT"}});
  graph.Add("save/restore_all", "NoOp", {"^save/Assign"});
  meta->mutable_saver_def()->set_filename_tensor_name("save/Const:0");
  meta->mutable_saver_def()->set_restore_op_name("save/restore_all");
  meta->mutable_saver_def()->set_version(tensorflow::SaverDef::V1);
  return model;
}

TEST(SavedModelLoadTest, VariablesOfTheFirstFormatAreRestored) {
  for (const char* name : {"variables", "variables-00000-of-00001"}) {
    const std::string dir = NewFolder();
    WriteModel(OldFormatModel(), dir);
    std::filesystem::create_directories(dir + "/variables");
    io::SlicesWriter writer(Env::Posix(), dir + "/variables/" + name);
    ASSERT_TRUE(writer.Add("w", TensorShape({2}), TensorSlice::Full(1), Row({6, 7})).ok());
    ASSERT_TRUE(writer.Finish().ok());
    const auto bundle = LoadOrFail(dir, {"serve"});
    ASSERT_NE(bundle, nullptr) << name;
    EXPECT_THAT(Fetch(*bundle, "w/read"), ElementsAre(6, 7));
  }
}

TEST(SavedModelLoadTest, TagsChooseTheMetaGraphWhateverTheirOrder) {
  tensorflow::SavedModel model = TwoVariables();
  tensorflow::MetaGraphDef* const train = AddMetaGraph(&model, {"train", "gpu"});
  ModelGraph graph(train->mutable_graph_def());
  graph.RefVariable("w", 2);
  *train->mutable_saver_def() = graph.Saver({{"w", "w"}});
  const std::string dir = NewFolder();
  WriteModel(model, dir);
  WriteVariables(dir, {{"r", Row({3, 4, 5})}, {"w", Row({1, 2})}});
  const auto bundle = LoadOrFail(dir, {"gpu", "train"});
  ASSERT_NE(bundle, nullptr);
  EXPECT_THAT(Fetch(*bundle, "w/read"), ElementsAre(1, 2));
  EXPECT_FALSE(bundle->session().Run({}, {"r/Read/ReadVariableOp"}, {}, nullptr).ok());
  const Status status = LoadError(dir, {"train"});
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  EXPECT_EQ(
      status.message(),
      "Could not find meta graph def matching supplied tags: { train }. To inspect available tag-sets in "
      "the SavedModel, please use the SavedModel CLI: `saved_model_cli`");
}

// A table of words whose file is an asset, and the way it is initialised.
enum class Init { kLegacy, kMain, kSignature };
tensorflow::SavedModel WithTable(Init init, bool as_field) {
  tensorflow::SavedModel model;
  tensorflow::MetaGraphDef* const meta = AddMetaGraph(&model, {"serve"});
  ModelGraph graph(meta->mutable_graph_def());
  graph.Strings("asset_path", {"/not/there/words.txt"}, true);
  graph.Add("table", "HashTableV2", {},
            {{"key_dtype", "type: DT_STRING"}, {"value_dtype", "type: DT_INT64"}});
  graph.Add("table_init", "InitializeTableFromTextFileV2", {"table", "asset_path"},
            {{"key_index", "i: -2"}, {"value_index", "i: -1"}});
  graph.Add("init_all", "NoOp", {"^table_init"});
  graph.Strings("words", {"two", "none"});
  graph.Add(
      "default", "Const", {},
      {{"dtype", "type: DT_INT64"}, {"value", "tensor { dtype: DT_INT64 tensor_shape { } int64_val: -9 }"}});
  graph.Add("ids", "LookupTableFindV2", {"table", "words", "default"},
            {{"Tin", "type: DT_STRING"}, {"Tout", "type: DT_INT64"}});
  tensorflow::AssetFileDef asset;
  asset.mutable_tensor_info()->set_name("asset_path:0");
  asset.set_filename("words.txt");
  if (as_field) {
    *meta->add_asset_file_def() = asset;
  } else {
    (*meta->mutable_collection_def())["saved_model_assets"].mutable_any_list()->add_value()->PackFrom(asset);
  }
  if (init == Init::kSignature) {
    AddSignature(meta, "__saved_model_init_op",
                 "outputs { key: '__saved_model_init_op' value { name: 'init_all' } }");
  } else {
    (*meta->mutable_collection_def())[init == Init::kMain ? "saved_model_main_op" : "legacy_init_op"]
        .mutable_node_list()
        ->add_value("init_all");
  }
  return model;
}

TEST(SavedModelLoadTest, TablesAreInitialisedFromAssets) {
  for (const Init init : {Init::kLegacy, Init::kMain, Init::kSignature}) {
    for (const bool as_field : {false, true}) {
      const std::string dir = NewFolder();
      WriteModel(WithTable(init, as_field), dir);
      WriteText(dir + "/assets/words.txt", "one\ntwo\n");
      const auto bundle = LoadOrFail(dir, {"serve"});
      ASSERT_NE(bundle, nullptr);
      std::vector<Tensor> ids;
      ASSERT_TRUE(bundle->session().Run({}, {"ids"}, {}, &ids).ok());
      EXPECT_THAT(ids[0].flat<int64_t>(), ElementsAre(1, -9));
      EXPECT_THAT(bundle->meta_graph().assets, ElementsAre(AssetFileDef{"asset_path:0", "words.txt"}));
    }
  }
}

TEST(SavedModelLoadTest, AssetsInATextModelMayBeSpeltOut) {
  const std::string dir = NewFolder();
  std::string text;
  struct : google::protobuf::TextFormat::Finder {
    const google::protobuf::Descriptor* FindAnyType(const google::protobuf::Message&, const std::string&,
                                                    const std::string& name) const override {
      return FindMessageType(name);
    }
  } finder;
  google::protobuf::TextFormat::Printer printer;
  printer.SetExpandAny(true);
  printer.SetFinder(&finder);
  ASSERT_TRUE(printer.PrintToString(WithTable(Init::kMain, false), &text));
  ASSERT_THAT(text, HasSubstr("[type.googleapis.com/tensorflow.AssetFileDef]"));
  WriteText(dir + "/saved_model.pbtxt", text);
  WriteText(dir + "/assets/words.txt", "one\ntwo\n");
  EXPECT_NE(LoadOrFail(dir, {"serve"}), nullptr);
}

TEST(SavedModelLoadTest, ModelsWithoutVariablesNeedNoSaver) {
  const std::string dir = NewFolder();
  tensorflow::SavedModel model = TwoVariables();
  model.mutable_meta_graphs(0)->clear_saver_def();
  WriteModel(model, dir);
  EXPECT_NE(LoadOrFail(dir, {"serve"}), nullptr);  // there is no folder of variables at all
  std::filesystem::create_directories(dir + "/variables");
  EXPECT_NE(LoadOrFail(dir, {"serve"}), nullptr);
  WriteVariables(dir, {{"w", Row({1, 2})}});
  EXPECT_EQ(LoadError(dir).ToString(),
            "Failed precondition: The meta graph names no operation that restores its variables; the "
            "SavedModel in " +
                dir + " has some");
}

TEST(SavedModelLoadTest, SignaturesAreRunByName) {
  const std::string dir = NewFolder();
  WriteModel(TwoVariables(), dir);
  const auto bundle = LoadOrFail(dir, {"serve"});
  ASSERT_NE(bundle, nullptr);
  auto result = bundle->Run("serving_default", {{"in", Row({1, 2})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->size(), 2u);
  EXPECT_THAT(result->at("out").flat<float>(), ElementsAre(2, 4));
  result = bundle->Run("serving_default", {{"in", Row({1, 2})}}, {"same"});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->size(), 1u);
  const auto error = [&](const std::string& signature, const SavedModelBundle::Tensors& inputs,
                         const std::vector<std::string>& outputs) {
    return std::string(bundle->Run(signature, inputs, outputs).status().message());
  };
  EXPECT_EQ(error("other", {}, {}), "The model has no signature 'other'; it has serving_default");
  EXPECT_EQ(error("serving_default", {}, {}), "Signature 'serving_default' needs the input 'in'");
  EXPECT_EQ(error("serving_default", {{"in", Tensor::Scalar<double>(1)}}, {}),
            "Input 'in' of signature 'serving_default' is double, not float");
  EXPECT_EQ(error("serving_default", {{"in", Row({1})}, {"more", Row({1})}}, {}),
            "Signature 'serving_default' has no input 'more'");
  EXPECT_EQ(error("serving_default", {{"in", Row({1})}}, {"no"}),
            "Signature 'serving_default' has no output 'no'");
}

TEST(SavedModelLoadTest, ASparseTensorOfASignatureIsThree) {
  const std::string dir = NewFolder();
  tensorflow::SavedModel model;
  tensorflow::MetaGraphDef* const meta = AddMetaGraph(&model, {"serve"});
  ModelGraph graph(meta->mutable_graph_def());
  for (const auto& [name, dtype] :
       {std::pair("v", "DT_FLOAT"), std::pair("i", "DT_INT64"), std::pair("s", "DT_INT64")}) {
    graph.Add(name, "Placeholder", {},
              {{"dtype", StrCat("type: ", dtype)}, {"shape", "shape { unknown_rank: true }"}});
  }
  const std::string info =
      "value { dtype: DT_FLOAT coo_sparse { values_tensor_name: 'v:0' indices_tensor_name: 'i:0' "
      "dense_shape_tensor_name: 's:0' } }";
  AddSignature(meta, "serving_default", "inputs { key: 'x' " + info + " } outputs { key: 'y' " + info + " }");
  WriteModel(model, dir);
  const auto bundle = LoadOrFail(dir, {"serve"});
  ASSERT_NE(bundle, nullptr);
  const Tensor indices = Tensor::Vector<int64_t>({4, 9}), shape = Tensor::Vector<int64_t>({12});
  const auto result = bundle->Run(
      "serving_default", {{"x/values", Row({5, 7})}, {"x/indices", indices}, {"x/dense_shape", shape}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->size(), 3u);
  EXPECT_THAT(result->at("y/values").flat<float>(), ElementsAre(5, 7));
  EXPECT_THAT(result->at("y/indices").flat<int64_t>(), ElementsAre(4, 9));
  EXPECT_THAT(result->at("y/dense_shape").flat<int64_t>(), ElementsAre(12));
  EXPECT_THAT(bundle->Run("serving_default", {{"x/values", Row({5})}}).status().message(),
              HasSubstr("needs the input 'x/dense_shape'"));
  EXPECT_THAT(bundle
                  ->Run("serving_default",
                        {{"x/values", Row({5})}, {"x/indices", Row({1})}, {"x/dense_shape", shape}})
                  .status()
                  .message(),
              HasSubstr("Input 'x/indices' of signature 'serving_default' is float, not int64"));
}

TEST(SavedModelLoadTest, FileErrorsHaveTheMessagesOfTensorFlow) {
  const std::string dir = NewFolder();
  EXPECT_EQ(LoadError(dir).ToString(),
            "Not found: Could not find SavedModel .pb or .pbtxt at supplied export directory path: " + dir);
  WriteText(dir + "/saved_model.pb", "\x12\x7f");
  EXPECT_EQ(LoadError(dir).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(LoadError(dir).message(), "Can't parse " + dir + "/saved_model.pb as binary proto");
  std::filesystem::remove(dir + "/saved_model.pb");
  WriteText(dir + "/saved_model.pbtxt", "meta_graphs { meta_info_def { tags: 7 } }");
  EXPECT_THAT(std::string(LoadError(dir).message()),
              HasSubstr("Can't parse " + dir + "/saved_model.pbtxt as text proto: line 1, column "));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "a{";
  WriteText(dir + "/saved_model.pbtxt", deep);
  EXPECT_FALSE(LoadError(dir).ok());
}

TEST(SavedModelLoadTest, AVariableThatTheCheckpointLacksIsNamed) {
  const std::string dir = NewFolder();
  WriteModel(TwoVariables(), dir);
  WriteVariables(dir, {{"w", Row({1, 2})}});
  EXPECT_EQ(LoadError(dir).code(), ErrorCode::kNotFound);
  EXPECT_THAT(std::string(LoadError(dir).message()), HasSubstr("Key r not found in checkpoint"));
  WriteVariables(dir, {{"r", Row({1, 2, 3})}, {"w", Row({1, 2, 3})}});
  EXPECT_EQ(LoadError(dir).code(), ErrorCode::kInvalidArgument);  // of another shape
  std::filesystem::remove(dir + "/variables/variables.data-00000-of-00001");
  EXPECT_FALSE(LoadError(dir).ok());
}

TEST(SavedModelLoadTest, TwoMainOpsAreOneTooMany) {
  tensorflow::SavedModel model = WithTable(Init::kMain, false);
  (*model.mutable_meta_graphs(0)->mutable_collection_def())["saved_model_main_op"]
      .mutable_node_list()
      ->add_value("x");
  const std::string dir = NewFolder();
  WriteModel(model, dir);
  EXPECT_EQ(LoadError(dir).ToString(), "Failed precondition: Expected exactly one main op in : " + dir);
}

TEST(SavedModelLoadTest, AssetsOfAnotherTypeAreRefused) {
  tensorflow::SavedModel model = WithTable(Init::kMain, false);
  auto* const any = (*model.mutable_meta_graphs(0)->mutable_collection_def())["saved_model_assets"]
                        .mutable_any_list()
                        ->mutable_value(0);
  any->set_type_url("type.googleapis.com/tensorflow.NodeDef");
  const std::string dir = NewFolder();
  WriteModel(model, dir);
  EXPECT_EQ(
      LoadError(dir).message(),
      "Expected Any type_url for: tensorflow.AssetFileDef. Got: type.googleapis.com/tensorflow.NodeDef.");
  any->set_type_url("type.googleapis.com/tensorflow.AssetFileDef");
  any->set_value("\x0a\x7f");
  WriteModel(model, dir);
  EXPECT_THAT(std::string(LoadError(dir).message()), HasSubstr("Failed to unpack"));
}

TEST(SavedModelLoadTest, AnOpThatIsNotKnownIsNamed) {
  tensorflow::SavedModel model = TwoVariables();
  ModelGraph(model.mutable_meta_graphs(0)->mutable_graph_def()).Add("odd", "NoSuchOp", {});
  const std::string dir = NewFolder();
  WriteModel(model, dir);
  EXPECT_THAT(std::string(LoadError(dir).message()),
              HasSubstr("Op type not registered 'NoSuchOp' in binary"));
}

}  // namespace
}  // namespace millrace
