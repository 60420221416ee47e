// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Checkpoints between steps of a session, in both formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/env.h"
#include "tensor/testing.h"
#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

using Texts = std::vector<std::string>;

class SessionCheckpointTest : public ::testing::Test {
 protected:
  SessionCheckpointTest() : folder_(StrCat(::testing::TempDir(), "checkpoint_test.", ::getpid())) {
    std::filesystem::create_directory(folder_);
  }
  ~SessionCheckpointTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static void SetTypes(tensorflow::NodeDef* node, const char* attr, const std::vector<DataType>& types) {
    for (const DataType type : types) {
      (*node->mutable_attr())[attr].mutable_list()->add_type(static_cast<tensorflow::DataType>(type));
    }
  }
  // Runs one op whose inputs are constants.
  static StatusOr<std::vector<Tensor>> Run(const std::string& op, const std::vector<Tensor>& inputs,
                                           const std::function<void(tensorflow::NodeDef*)>& attrs,
                                           int outputs) {
    DefBuilder graph;
    Texts names, fetches;
    for (size_t i = 0; i < inputs.size(); ++i) {
      names.push_back(StrCat("in", i));
      graph.Placeholder(names.back(), static_cast<tensorflow::DataType>(inputs[i].dtype()));
    }
    attrs(graph.Add("op", op, names));
    const auto session = SessionWith(graph);
    std::vector<std::pair<std::string, Tensor>> feeds;
    for (size_t i = 0; i < inputs.size(); ++i) feeds.emplace_back(names[i], inputs[i]);
    for (int i = 0; i < outputs; ++i) fetches.push_back(StrCat("op:", i));
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session->Run(feeds, fetches, outputs == 0 ? Texts{"op"} : Texts{}, &out));
    return out;
  }
  static std::vector<DataType> TypesOf(const std::vector<Tensor>& tensors) {
    std::vector<DataType> types;
    types.reserve(tensors.size());
    for (const Tensor& tensor : tensors) types.push_back(tensor.dtype());
    return types;
  }

  Status SaveV2(const std::string& prefix, const Texts& names, const Texts& specs,
                const std::vector<Tensor>& tensors) {
    std::vector<Tensor> inputs{AsScalar(prefix), AsTensor(names), AsTensor(specs)};
    inputs.insert(inputs.end(), tensors.begin(), tensors.end());
    return Run(
               "SaveV2", inputs, [&](auto* node) { SetTypes(node, "dtypes", TypesOf(tensors)); }, 0)
        .status();
  }
  StatusOr<std::vector<Tensor>> RestoreV2(const std::string& prefix, const Texts& names, const Texts& specs,
                                          const std::vector<DataType>& types) {
    return Run(
        "RestoreV2", {AsScalar(prefix), AsTensor(names), AsTensor(specs)},
        [&](auto* node) { SetTypes(node, "dtypes", types); }, static_cast<int>(types.size()));
  }
  Status Save(const std::string& path, const Texts& names, const Texts& specs,
              const std::vector<Tensor>& tensors) {
    std::vector<Tensor> inputs{AsScalar(path), AsTensor(names)};
    if (!specs.empty()) inputs.push_back(AsTensor(specs));
    inputs.insert(inputs.end(), tensors.begin(), tensors.end());
    return Run(
               specs.empty() ? "Save" : "SaveSlices", inputs,
               [&](auto* node) { SetTypes(node, "T", TypesOf(tensors)); }, 0)
        .status();
  }
  StatusOr<std::vector<Tensor>> Restore(const std::string& pattern, const std::string& name,
                                        const std::string& spec, DataType type) {
    std::vector<Tensor> inputs{AsScalar(pattern), AsScalar(name)};
    if (!spec.empty()) inputs.push_back(AsScalar(spec));
    return Run(
        spec.empty() ? "Restore" : "RestoreSlice", inputs,
        [&](auto* node) { (*node->mutable_attr())["dt"].set_type(static_cast<tensorflow::DataType>(type)); },
        1);
  }

  const std::string folder_;
  const Tensor w_ = AsTensor<float>({0, 1, 2, 3, 4, 5}, TensorShape({3, 2}));
  const Tensor s_ = AsTensor<std::string>({"a", "", "ccc"});
};

TEST_F(SessionCheckpointTest, TensorsAndSlicesAreSavedAndRestored) {
  const std::string prefix = Path("sub/ckpt-1");
  const Tensor top = AsTensor<float>({0, 1}, TensorShape({1, 2})),
               rest = AsTensor<float>({2, 3, 4, 5}, TensorShape({2, 2}));
  const Status saved =
      SaveV2(prefix, {"w", "p", "s", "p"}, {"", "3 2 1,2:-", "", "3 2 0,1:-"}, {w_, rest, s_, top});
  ASSERT_EQ(saved, Status::Ok());
  const auto restored =
      RestoreV2(prefix, {"p", "w", "s", "p", "w"}, {"", "", "", "3 2 0,2:1,1", "3 2 -:0,1"},
                {DataType::kFloat, DataType::kFloat, DataType::kString, DataType::kFloat, DataType::kFloat});
  ASSERT_TRUE(restored.ok()) << restored.status();
  ExpectTensorEqual(w_, (*restored)[0]);
  ExpectTensorEqual(w_, (*restored)[1]);
  ExpectTensorEqual(s_, (*restored)[2]);
  ExpectTensorEqual(AsTensor<float>({1, 3}, TensorShape({2, 1})), (*restored)[3]);
  ExpectTensorEqual(AsTensor<float>({0, 2, 4}, TensorShape({3, 1})), (*restored)[4]);
}

TEST_F(SessionCheckpointTest, MistakesHaveTheMessagesOfTensorFlow) {
  const std::string prefix = Path("p");
  ASSERT_EQ(SaveV2(prefix, {"w", "s"}, {"", ""}, {w_, s_}), Status::Ok());
  const auto error = [&](const Texts& names, const Texts& specs, const std::vector<DataType>& types) {
    return RestoreV2(prefix, names, specs, types).status().ToString();
  };
  EXPECT_THAT(error({"x"}, {""}, {DataType::kFloat}), HasSubstr("Not found: Key x not found in checkpoint"));
  EXPECT_THAT(error({"w", "s"}, {"", ""}, {DataType::kInt32, DataType::kFloat}),
              HasSubstr("tensor_name = s; expected dtype float does not equal original dtype string\n"
                        "tensor_name = w; expected dtype int32 does not equal original dtype float"));
  EXPECT_THAT(
      error({"w"}, {"4 2 -:-"}, {DataType::kFloat}),
      HasSubstr("tensor_name = w; shape in shape_and_slice spec [4,2] does not match the shape stored in "
                "checkpoint: [3,2]"));
  EXPECT_THAT(error({"w"}, {"3 2 0,4:-"}, {DataType::kFloat}),
              HasSubstr("Extent in dimension 0 out of bounds"));
  EXPECT_THAT(error({"w"}, {"3"}, {DataType::kFloat}),
              HasSubstr("Need least two elements in shape_and_slice"));
  EXPECT_THAT(error({"w"}, {"", ""}, {DataType::kFloat}), HasSubstr("different number of elements: 1 vs. 2"));
  EXPECT_THAT(error({"w", "s"}, {"", ""}, {DataType::kFloat}), HasSubstr("Invalid argument"));
  EXPECT_THAT(RestoreV2(Path("none"), {"w"}, {""}, {DataType::kFloat}).status().ToString(),
              HasSubstr("Failed to find any matching files for " + Path("none")));
  EXPECT_THAT(
      SaveV2(prefix, {"w"}, {"3 2 0,2:-"}, {w_}).ToString(),
      HasSubstr("Slice in shape_and_slice specification does not match the shape of the tensor to  save: "
                "3 2 0,2:-, tensor: [3,2]"));
  EXPECT_THAT(SaveV2(prefix, {"w", "w"}, {"", ""}, {w_, w_}).ToString(),
              HasSubstr("Adding duplicate key: w"));
  EXPECT_THAT(SaveV2(prefix, {"w"}, {""}, {w_, w_}).ToString(),
              HasSubstr("Got 1 tensor names but 2 tensors."));
  // The failed save leaves no files, and the previous checkpoint is complete.
  EXPECT_TRUE(RestoreV2(prefix, {"w"}, {""}, {DataType::kFloat}).ok());
  EXPECT_EQ(Env::Posix().GetChildren(folder_)->size(), 2u);
}

TEST_F(SessionCheckpointTest, ShardsAreMergedAndTheirFolderGoes) {
  const Texts parts{Path("tmp/part-00000-of-00002"), Path("tmp/part-00001-of-00002")};
  ASSERT_EQ(SaveV2(parts[0], {"w"}, {""}, {w_}), Status::Ok());
  ASSERT_EQ(SaveV2(parts[1], {"s"}, {""}, {s_}), Status::Ok());
  const auto none = [](auto*) {};
  const auto merged = Run("MergeV2Checkpoints", {AsTensor(parts), AsScalar(Path("ckpt"))}, none, 0);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(*Env::Posix().GetChildren(folder_),
              ::testing::ElementsAre("ckpt.data-00000-of-00002", "ckpt.data-00001-of-00002", "ckpt.index"));
  const auto restored = RestoreV2(Path("ckpt"), {"s", "w"}, {"", ""}, {DataType::kString, DataType::kFloat});
  ASSERT_TRUE(restored.ok()) << restored.status();
  ExpectTensorEqual(s_, (*restored)[0]);
  ExpectTensorEqual(w_, (*restored)[1]);
  EXPECT_THAT(
      Run("MergeV2Checkpoints", {AsScalar(Path("ckpt")), AsScalar(Path("x"))}, none, 0).status().ToString(),
      HasSubstr("Input checkpoint_prefixes should be an 1-D tensor, got [] instead."));
}

TEST_F(SessionCheckpointTest, TheOldFormatIsSavedAndRestored) {
  const Tensor top = AsTensor<float>({0, 1}, TensorShape({1, 2})),
               rest = AsTensor<float>({2, 3, 4, 5}, TensorShape({2, 2}));
  ASSERT_EQ(Save(Path("v1"), {"w", "s"}, {}, {w_, s_}), Status::Ok());
  ASSERT_EQ(Save(Path("parts-00000-of-00002"), {"w"}, {"3 2 0,1:-"}, {top}), Status::Ok());
  ASSERT_EQ(Save(Path("parts-00001-of-00002"), {"w"}, {"3 2 1,2:-"}, {rest}), Status::Ok());
  const auto check = [&](const StatusOr<std::vector<Tensor>>& got, const Tensor& want) {
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectTensorEqual(want, (*got)[0]);
  };
  check(Restore(Path("v1"), "w", "", DataType::kFloat), w_);
  check(Restore(Path("v1"), "s", "", DataType::kString), s_);
  check(Restore(Path("parts-*-of-00002"), "w", "", DataType::kFloat), w_);
  check(Restore(Path("parts-*"), "w", "3 2 1,1:-", DataType::kFloat),
        AsTensor<float>({2, 3}, TensorShape({1, 2})));
  // RestoreV2 reads it, too.
  check(RestoreV2(Path("parts-*-of-00002"), {"w"}, {"3 2 1,2:-"}, {DataType::kFloat}), rest);
  EXPECT_THAT(Restore(Path("v1"), "x", "", DataType::kFloat).status().ToString(),
              HasSubstr("Tensor name \"x\" not found in checkpoint files " + Path("v1")));
  EXPECT_THAT(
      Restore(Path("v1"), "w", "", DataType::kInt32).status().ToString(),
      HasSubstr(
          "Expected to restore a tensor of type int32, got a tensor of type float instead: tensor_name = w"));
  EXPECT_THAT(Restore(Path("v1"), "w", "4 2 -:-", DataType::kFloat).status().ToString(),
              HasSubstr("Shape in shape_and_slice spec does not match the shape in the save file: [4,2], "
                        "save file shape: [3,2]"));
  EXPECT_THAT(Save(Path("v1"), {"w"}, {}, {w_, s_}).ToString(),
              HasSubstr("Expected totally 3 inputs as input #1"));
  EXPECT_THAT(Save(Path("v1"), {"w"}, {"", ""}, {w_}).ToString(),
              HasSubstr("Expected 1 elements for the tensor shapes and slices but got 2"));
  EXPECT_THAT(Save(Path("v1"), {"w"}, {"3 2 0,1:-"}, {w_}).ToString(),
              HasSubstr("Slice in shape_and_slice specification does not match"));
}

}  // namespace
}  // namespace millrace
