// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Trees of random forests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "boosted_testing.h"
#include "tensorflow/core/kernels/boosted_trees/boosted_trees.pb.h"

namespace millrace {
namespace {

namespace pb = tensorflow::boosted_trees;

class ForestTest : public ::testing::Test {
 protected:
  ForestTest() {
    KernelRunner runner("TensorForestTreeResourceHandleOp");
    handle_ = *runner.Name("tree").Resources(&resources_).RunOne();
  }
  StatusOr<Tensors> Run(const char* op, const Tensors& inputs = {}, const AttrMap& attrs = {}) {
    KernelRunner runner(op);
    runner.Resources(&resources_).Input(handle_);
    for (const Tensor& in : inputs) runner.Input(in);
    for (const auto& [name, value] : attrs) runner.Attr(name, value);
    return runner.Run();
  }
  Status Create(const pb::Tree& tree) {
    return Run("TensorForestCreateTreeVariable", {Tensor::Scalar(tree.SerializeAsString())}).status();
  }
  StatusOr<Tensors> Predict(const Floats& features, int64_t columns, int64_t logits) {
    const int64_t rows = static_cast<int64_t>(features.size()) / columns;
    return Run("TensorForestTreePredict", {Tensor::From(features, TensorShape({rows, columns}))},
               {{"logits_dimension", logits}});
  }
  static void Leaf(pb::Tree& tree, const Floats& values) {
    pb::Vector& vector = *tree.add_nodes()->mutable_leaf()->mutable_vector();
    for (const float v : values) vector.add_value(v);
  }
  static void Split(pb::Tree& tree, int feature, float threshold, int left, int right) {
    pb::DenseSplit& split = *tree.add_nodes()->mutable_dense_split();
    split.set_feature_id(feature);
    split.set_threshold(threshold);
    split.set_left_id(left);
    split.set_right_id(right);
  }
  // Feature 1 up to 0.5: [1, 2]; else feature 0 up to -1: [3, 4], else [5, 6].
  static pb::Tree Small() {
    pb::Tree tree;
    Split(tree, 1, 0.5f, 1, 2);
    Leaf(tree, {1, 2});
    Split(tree, 0, -1, 3, 4);
    Leaf(tree, {3, 4});
    Leaf(tree, {5, 6});
    return tree;
  }

  ResourceManager resources_{std::string(KernelRunner::kDeviceName)};
  Tensor handle_;
};

TEST_F(ForestTest, PredictsTheLeafOfEachExample) {
  EXPECT_FALSE((*Run("TensorForestTreeIsInitializedOp"))[0].scalar<bool>());
  EXPECT_EQ(Predict({0, 0}, 2, 2).status().code(), ErrorCode::kNotFound);
  ASSERT_EQ(Create(Small()), Status());
  EXPECT_TRUE((*Run("TensorForestTreeIsInitializedOp"))[0].scalar<bool>());
  EXPECT_EQ((*Run("TensorForestTreeSize"))[0].scalar<int32_t>(), 5);
  auto out = Predict({9, 0.5f, -1, 0.6f, -0.5f, 7}, 2, 2);
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectNear((*out)[0], {1, 2, 3, 4, 5, 6});
  ExpectNear((*Predict({9, 0.5f}, 2, 1))[0], {1});
}

TEST_F(ForestTest, IsSavedAndReplaced) {
  ASSERT_EQ(Create(Small()), Status());
  EXPECT_EQ((*Run("TensorForestTreeSerialize"))[0].scalar<std::string>(), Small().SerializeAsString());
  pb::Tree other;
  Leaf(other, {7, 8});
  EXPECT_EQ(Create(other), Status());  // the existing one is kept
  EXPECT_EQ((*Run("TensorForestTreeSize"))[0].scalar<int32_t>(), 5);
  ASSERT_EQ(Run("TensorForestTreeDeserialize", {Tensor::Scalar(other.SerializeAsString())}).status(),
            Status());
  EXPECT_EQ((*Run("TensorForestTreeSize"))[0].scalar<int32_t>(), 1);
  ExpectNear((*Predict({0}, 1, 2))[0], {7, 8});
}

TEST_F(ForestTest, WrongTreesAreRefused) {
  const auto code = [&](const pb::Tree& tree) { return Create(tree).code(); };
  pb::Tree circle;
  Split(circle, 0, 0, 0, 0);
  EXPECT_EQ(code(circle), ErrorCode::kInvalidArgument);
  pb::Tree missing;
  Split(missing, 0, 0, 1, 2);
  Leaf(missing, {1});
  EXPECT_EQ(code(missing), ErrorCode::kInvalidArgument);
  pb::Tree bucketized;
  bucketized.add_nodes()->mutable_bucketized_split();
  EXPECT_EQ(code(bucketized), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Run("TensorForestCreateTreeVariable", {Tensor::Scalar(std::string("\xff"))}).status().code(),
            ErrorCode::kInvalidArgument);
  ASSERT_EQ(Create(Small()), Status());
  EXPECT_EQ(Predict({0}, 1, 2).status().code(), ErrorCode::kInvalidArgument);     // no feature 1
  EXPECT_EQ(Predict({0, 0}, 2, 3).status().code(), ErrorCode::kInvalidArgument);  // no third logit
}

}  // namespace
}  // namespace millrace
