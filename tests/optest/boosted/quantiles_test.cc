// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Quantile streams, compared with sorted values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "boosted_testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class QuantilesTest : public ::testing::Test {
 protected:
  QuantilesTest() {
    KernelRunner runner("BoostedTreesQuantileStreamResourceHandleOp");
    handle_ = *runner.Name("streams").Resources(&resources_).RunOne();
  }
  StatusOr<Tensors> Run(const std::string& op, const Tensors& inputs, const AttrMap& attrs = {}) {
    KernelRunner runner(op);
    runner.Resources(&resources_).Input(handle_);
    for (const Tensor& in : inputs) runner.Input(in);
    for (const auto& [name, value] : attrs) runner.Attr(name, value);
    return runner.Run();
  }
  Status Create(float epsilon, int64_t streams = 1) {
    return Run("BoostedTreesCreateQuantileStreamResource", {Tensor::Scalar(epsilon), Tensor::Scalar(streams)},
               {{"max_elements", int64_t{1} << 40}})
        .status();
  }
  Status Add(const Floats& values, const Floats& weights, float epsilon) {
    KernelRunner make("BoostedTreesMakeQuantileSummaries");
    make.Attr("num_features", int64_t{1})
        .Input(Tensor::Vector<float>(values))
        .Input(Tensor::Vector<float>(weights));
    MR_ASSIGN_OR_RETURN(const Tensor summary, make.Input(Tensor::Scalar(epsilon)).RunOne());
    return AddSummary(summary);
  }
  Status AddSummary(const Tensor& summary) {
    return Run("BoostedTreesQuantileStreamResourceAddSummaries", {summary}, {{"num_features", int64_t{1}}})
        .status();
  }
  Status Flush(int64_t buckets, bool quantiles) {
    return Run("BoostedTreesQuantileStreamResourceFlush", {Tensor::Scalar(buckets)},
               {{"generate_quantiles", quantiles}})
        .status();
  }
  Floats Boundaries() {
    auto out =
        Run("BoostedTreesQuantileStreamResourceGetBucketBoundaries", {}, {{"num_features", int64_t{1}}});
    EXPECT_TRUE(out.ok()) << out.status();
    if (!out.ok()) return {};
    return Floats((*out)[0].data<float>(), (*out)[0].data<float>() + (*out)[0].num_elements());
  }

  ResourceManager resources_{std::string(KernelRunner::kDeviceName)};
  Tensor handle_;
};

TEST_F(QuantilesTest, RanksAreWithinTheError) {
  constexpr float kEpsilon = 0.01f;
  constexpr int kBatches = 40, kBatch = 500;
  ASSERT_EQ(Create(kEpsilon), Status());
  std::vector<std::pair<float, float>> all;  // values and weights
  uint32_t seed = 5;
  for (int batch = 0; batch < kBatches; ++batch) {
    Floats values, weights;
    for (int i = 0; i < kBatch; ++i) {
      seed = seed * 1664525 + 1013904223;
      const float x = static_cast<float>(seed >> 8) / static_cast<float>(1 << 24);
      values.push_back(x * x * 100);
      weights.push_back(1 + static_cast<float>(i % 3));
      all.emplace_back(values.back(), weights.back());
    }
    ASSERT_EQ(Add(values, weights, kEpsilon), Status());
  }
  std::sort(all.begin(), all.end());
  double total = 0;
  for (const auto& [value, weight] : all) total += weight;
  ASSERT_EQ(Flush(20, true), Status());
  const Floats quantiles = Boundaries();
  ASSERT_EQ(quantiles.size(), 21u);
  for (size_t q = 0; q < quantiles.size(); ++q) {
    double rank = 0;
    for (const auto& [value, weight] : all) rank += value <= quantiles[q] ? weight : 0;
    EXPECT_NEAR(rank / total, static_cast<double>(q) / 20, 2.5 * kEpsilon) << q;
  }
  // The streams are empty now.
  ASSERT_EQ(Flush(20, true), Status());
  EXPECT_TRUE(Boundaries().empty());
}

TEST_F(QuantilesTest, FewValuesAreAllBoundaries) {
  ASSERT_EQ(Create(0.01f), Status());
  ASSERT_EQ(Add({4, 2, 2, 8}, {1}, 0.01f), Status());
  ASSERT_EQ(Add({2, 6}, {1}, 0.01f), Status());
  ASSERT_EQ(Flush(10, false), Status());
  EXPECT_EQ(Boundaries(), Floats({2, 4, 6, 8}));
}

TEST_F(QuantilesTest, BoundariesCutTheWeightIntoParts) {
  ASSERT_EQ(Create(0.01f), Status());
  Floats values;
  for (int i = 0; i < 1000; ++i) values.push_back(static_cast<float>(i));
  ASSERT_EQ(Add(values, {1}, 0.01f), Status());
  ASSERT_EQ(Flush(10, false), Status());
  const Floats cuts = Boundaries();
  EXPECT_GE(cuts.size(), 9u);
  EXPECT_LE(cuts.size(), 13u);
  EXPECT_EQ(cuts.back(), 999);
  for (size_t i = 1; i < cuts.size(); ++i) {
    EXPECT_LT(cuts[i - 1], cuts[i]);
    EXPECT_LE(cuts[i] - cuts[i - 1], 150);
  }
}

TEST_F(QuantilesTest, SummariesComeBackMerged) {
  ASSERT_EQ(Create(0.01f), Status());
  ASSERT_EQ(Add({1, 3}, {1}, 0.01f), Status());
  ASSERT_EQ(Add({2, 3}, {2}, 0.01f), Status());
  auto out = Run("BoostedTreesFlushQuantileSummaries", {}, {{"num_features", int64_t{1}}});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual((*out)[0],
                    Tensor::From<float>({1, 1, 0, 1, 2, 2, 1, 3, 3, 3, 3, 6}, TensorShape({3, 4})));
}

TEST_F(QuantilesTest, BoundariesAreRestored) {
  EXPECT_FALSE((*Run("IsBoostedTreesQuantileStreamResourceInitialized", {}))[0].scalar<bool>());
  EXPECT_EQ(Flush(3, true).code(), ErrorCode::kNotFound);
  ASSERT_EQ(Create(0.1f), Status());
  ASSERT_EQ(Create(0.1f), Status());
  EXPECT_TRUE((*Run("IsBoostedTreesQuantileStreamResourceInitialized", {}))[0].scalar<bool>());
  ASSERT_EQ(Run("BoostedTreesQuantileStreamResourceDeserialize", {Tensor::Vector<float>({1, 5})},
                {{"num_streams", int64_t{1}}})
                .status(),
            Status());
  EXPECT_EQ(Boundaries(), Floats({1, 5}));
}

TEST_F(QuantilesTest, WrongArgumentsAreRefused) {
  const float nan = std::nanf("");
  for (const float epsilon : {0.0f, -1.0f, nan}) {
    EXPECT_THAT(std::string(Create(epsilon).message()),
                HasSubstr("An epsilon value of zero is not allowed."));
  }
  EXPECT_THAT(std::string(Create(0.1f, 0).message()), HasSubstr("num_streams must be in"));
  EXPECT_THAT(std::string(Create(0.1f, INT64_MAX).message()), HasSubstr("num_streams must be in"));
  ASSERT_EQ(Create(1e-30f, 2), Status());
  EXPECT_THAT(std::string(AddSummary(Tensor(DataType::kFloat, TensorShape({0, 4}))).message()),
              HasSubstr("There are 2 quantile streams, not 1"));
  resources_.Clear();
  ASSERT_EQ(Create(1e-30f), Status());
  EXPECT_THAT(std::string(Flush(0, true).message()), HasSubstr("num_buckets must be in"));
  EXPECT_THAT(std::string(Flush(INT64_MAX, false).message()), HasSubstr("num_buckets must be in"));
  EXPECT_THAT(std::string(AddSummary(Tensor::Vector<float>({1})).message()),
              HasSubstr("must be of shape [n, 4]"));
  for (const Floats& entries :
       {Floats{1, 1, 0, 1, 1, 1, 1, 2}, Floats{2, 1, 0, 1, 1, 1, 1, 2}, Floats{nan, 1, 0, 1, 1, 1, 1, 2}}) {
    EXPECT_THAT(std::string(AddSummary(Tensor::From(entries, TensorShape({2, 4}))).message()),
                HasSubstr("The values of a summary must be in ascending order"));
  }
  // Meaningless ranks result in some boundaries.
  ASSERT_EQ(AddSummary(Tensor::From<float>({1, nan, nan, -5, 2, -1, INFINITY, nan}, TensorShape({2, 4}))),
            Status());
  ASSERT_EQ(AddSummary(Tensor::From<float>({1, 0, 0, 0, 3, -1, -7, -9}, TensorShape({2, 4}))), Status());
  EXPECT_EQ(Flush(5, true), Status());
  EXPECT_EQ(Boundaries().size(), 6u);
}

}  // namespace
}  // namespace millrace
