// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/tensor.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

TEST(TensorAccess, TensorsAreMadeOfVectorsSpansAndLists) {
  const std::vector<float> values = {1, 2, 3, 4};
  EXPECT_THAT(Tensor::From(values, {2, 2}).flat<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Tensor::From(std::span<const float>(values).first(2), {2}).flat<float>(), ElementsAre(1, 2));
  EXPECT_THAT(Tensor::From({1, 2}, {1, 2}).flat<int32_t>(), ElementsAre(1, 2));
  EXPECT_EQ(Tensor::Vector(std::span<const float>(values)).shape(), TensorShape({4}));
  EXPECT_THAT(Tensor::Vector<bool>({true, false}).flat<bool>(), ElementsAre(true, false));
}

TEST(TensorAccess, TensorsAreMadeOfNestedLists) {
  const StatusOr<Tensor> t = Tensor::Of({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->shape(), TensorShape({2, 3}));
  EXPECT_EQ(t->matrix<float>()(1, 2), 6);
  EXPECT_EQ(Tensor::Of({{1, 2}, {3}}).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Tensor::Of({1, 2.f}).status().code(), ErrorCode::kInvalidArgument);
}

TEST(TensorAccess, TextsOfAllKindsBecomeStrings) {
  const std::vector<std::string_view> views = {"a", "bc"};
  const Tensor t = Tensor::Vector(views);
  EXPECT_EQ(t.dtype(), DataType::kString);
  EXPECT_EQ(t.text(1), "bc");
  EXPECT_EQ(Tensor::Scalar(std::string_view("xyz").substr(1)).text(), "yz");
  EXPECT_EQ(Tensor::Vector({"p", "q"}).text(0), "p");
}

TEST(TensorAccess, ViewsIndexRowMajor) {
  Tensor t(DataType::kInt32, {2, 3, 4});
  for (int i = 0; i < 24; ++i) t.data<int32_t>()[i] = i;
  auto view = t.tensor<int32_t, 3>();
  EXPECT_EQ(view(1, 2, 3), 23);
  EXPECT_EQ(view(1, 0, 0), 12);
  view(0, 1, 2) = -1;
  EXPECT_EQ(t.flat<int32_t>()[6], -1);
  EXPECT_EQ(view.size(), 24);
  EXPECT_EQ(view.dim(2), 4);
  const Tensor& constant = t;
  EXPECT_EQ((constant.tensor<int32_t, 3>()(0, 1, 2)), -1);
  int64_t sum = 0;
  const Tensor vector = Tensor::Vector({1, 2, 3});
  for (const int32_t v : vector.vec<int32_t>()) sum += v;
  EXPECT_EQ(sum, 6);
  EXPECT_EQ((Tensor(DataType::kFloat, {0, 3}).matrix<float>().size()), 0);
}

TEST(TensorAccessDeathTest, ElementsOfAnotherTypeAreNotGivenOut) {
  const Tensor t = Tensor::Vector({1.f, 2.f});
  EXPECT_DEATH(t.data<int32_t>(),
               "the elements of a tensor of type float and shape \\[2\\] are accessed as int32");
  EXPECT_DEATH(t.flat<double>(), "accessed as double");
  EXPECT_DEATH(Tensor::Scalar(1.f).scalar<double>(), "accessed as double");
  EXPECT_DEATH((t.vec<std::string>()), "accessed as string");
  EXPECT_DEATH(t.text(), "accessed as string");
}

TEST(TensorAccessDeathTest, ViewsOfAnotherRankAreNotGivenOut) {
  const Tensor t = Tensor::Vector({1.f, 2.f});
  EXPECT_DEATH(t.matrix<float>(), "shape \\[2\\] is viewed as a tensor of rank 2");
}

TEST(TensorAccessDeathTest, IndicesAreChecked) {
  const Tensor t(DataType::kFloat, {2, 3});
  EXPECT_DEATH((t.matrix<float>()(0, 3)), "index 3 is out of range for dimension 1 of size 3");
  EXPECT_DEATH((t.matrix<float>()(-1, 0)), "index -1 is out of range for dimension 0 of size 2");
  EXPECT_DEATH(Tensor::Vector({"a"}).text(1), "index 1 is out of range");
}

TEST(TensorAccessDeathTest, ScalarsHaveOneElement) {
  EXPECT_DEATH(Tensor::Vector({1.f, 2.f}).scalar<float>(), "does not have exactly one element");
  EXPECT_DEATH(Tensor().scalar<float>(), "does not have exactly one element");
  EXPECT_DEATH(Tensor::FromBuffer(DataType::kFloat, {}, nullptr, nullptr).scalar<float>(), "not initialized");
  EXPECT_EQ(Tensor::Vector({5.f}).scalar<float>(), 5);
}

TEST(TensorAccessDeathTest, NumbersOfValuesFitTheShape) {
  EXPECT_DEATH(Tensor::From({1.f, 2.f, 3.f}, {2}), "3 values for shape \\[2\\], which has 2 elements");
  EXPECT_DEATH(Tensor::From({1.f}, {2}), "1 values for shape \\[2\\]");
}

}  // namespace
}  // namespace millrace
