// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Splits, compared with an exhaustive search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "boosted_testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr char kLeft[] = "inequality_default_left", kRight[] = "inequality_default_right";
constexpr char kEquality[] = "equality_default_right";

// Values in [-1, 1], the same in each run.
Floats SomeValues(size_t n, uint32_t seed, bool positive = false) {
  Floats out;
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525 + 1013904223;
    const float x = static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1;
    out.push_back(positive ? std::abs(x) + 0.1f : x);
  }
  return out;
}

// The gain of a leaf by definition, for diagonal hessians.
double Gain(const std::vector<double>& g, const std::vector<double>& h, double l1, double l2) {
  double gain = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    const double size = std::max(std::abs(g[i]) - l1, 0.0);
    gain += size * size / (h[i] + l2);
  }
  return gain;
}

StatusOr<Tensors> BestSplit(const Tensor& stats, const Ints& range, const SplitOptions& o, int64_t logits,
                            const char* type = "inequality") {
  KernelRunner runner("BoostedTreesCalculateBestFeatureSplit");
  runner.Attr("logits_dimension", logits).Attr("split_type", std::string(type));
  runner.Input(Tensor::Vector<int32_t>(range)).Input(stats);
  AddOptions(runner, o);
  return runner.Run();
}

// Nodes 1 and 2 of four.
Tensor KnownStats() {
  return Tensor::From<float>({0, 0, .08f,  .09f, 0, 0, 0,   0,   0, 0, .15f, .36f, .06f, .07f, .1f, .2f,
                              0, 0, -.33f, .58f, 0, 0, .3f, .4f, 0, 0, 0,    0,    0,    0,    0,   0},
                             TensorShape({4, 4, 2}));
}

TEST(BoostedSplitsTest, KnownGains) {
  auto out = BestGains(KnownStats(), {1, 3}, {});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual((*out)[0], Tensor::Vector<int32_t>({1, 2}));
  ExpectNear((*out)[1], {0.004775f, 0.41184f});
  ExpectTensorEqual((*out)[2], Tensor::Vector<int32_t>({1, 1}));
  ExpectNear((*out)[3], {-.416667f, .568966f});
  ExpectNear((*out)[4], {-.592593f, -.75f});
  auto regular = BestGains(KnownStats(), {1, 3}, {.l2 = 0.1f, .complexity = 3});
  ASSERT_TRUE(regular.ok());
  ExpectNear((*regular)[1], {-3, -2.66068625f});
}

TEST(BoostedSplitsTest, NodesThatAreTooLightAreLeft) {
  auto out = BestGains(KnownStats(), {1, 3}, {.min_weight = 0.7f});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual((*out)[0], Tensor::Vector<int32_t>({2}));
  auto none = BestGains(KnownStats(), {1, 3}, {.min_weight = 1});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ((*none)[0].num_elements(), 0);
  EXPECT_EQ((*none)[3].shape(), TensorShape({0, 1}));
}

// Tries all splits of one node of [node, dimension, bucket, sums].
struct Found {
  double gain = -1e30;
  int64_t dimension = 0, bucket = 0;
  std::string type;
};
Found TryAll(const Tensor& stats, int64_t node, int64_t logits, const SplitOptions& o, bool equality) {
  const int64_t dims = stats.dim(1), buckets = stats.dim(2), sums = stats.dim(3);
  const auto at = [&](int64_t d, int64_t b, int64_t s) {
    return double{stats.data<float>()[((node * dims + d) * buckets + b) * sums + s]};
  };
  const auto split = [&](const std::vector<double>& x) {
    return std::pair(std::vector<double>(x.begin(), x.begin() + logits),
                     std::vector<double>(x.begin() + logits, x.end()));
  };
  Found best;
  for (int64_t d = 0; d < dims; ++d) {
    std::vector<double> total(static_cast<size_t>(sums));
    for (int64_t b = 0; b < buckets; ++b) {
      for (int64_t s = 0; s < sums; ++s) total[static_cast<size_t>(s)] += at(d, b, s);
    }
    for (int64_t bucket = 0; bucket + 1 < buckets; ++bucket) {
      for (const char* type : equality ? std::vector{kEquality} : std::vector{kLeft, kRight}) {
        std::vector<double> left(static_cast<size_t>(sums)), right;
        for (int64_t b = 0; b < buckets; ++b) {
          const bool is_left = equality ? b == bucket : b + 1 == buckets ? type == kLeft : b <= bucket;
          for (int64_t s = 0; is_left && s < sums; ++s) left[static_cast<size_t>(s)] += at(d, b, s);
        }
        for (size_t s = 0; s < total.size(); ++s) right.push_back(total[s] - left[s]);
        const auto [gl, hl] = split(left);
        const auto [gr, hr] = split(right);
        const auto [g, h] = split(total);
        const double gain = Gain(gl, hl, o.l1, o.l2) + Gain(gr, hr, o.l1, o.l2) - Gain(g, h, o.l1, o.l2);
        if (gain > best.gain + 1e-6) best = {gain, d, bucket, type};
      }
    }
  }
  return best;
}

// Random sums for three nodes, two dimensions of a feature and four buckets; all dimensions have the same
// total.
Tensor RandomStats(int64_t logits, uint32_t seed) {
  const int64_t sums = 2 * logits;
  Tensor stats =
      Tensor::From(SomeValues(static_cast<size_t>(3 * 2 * 5 * sums), seed), TensorShape({3, 2, 5, sums}));
  float* x = stats.data<float>();
  for (int64_t node = 0; node < 3; ++node) {
    for (int64_t s = 0; s < sums; ++s) {
      float totals[2] = {};
      for (int64_t d = 0; d < 2; ++d) {
        for (int64_t b = 0; b < 5; ++b) {
          float& v = x[((node * 2 + d) * 5 + b) * sums + s];
          if (s >= logits) v = std::abs(v) + 0.5f;
          totals[d] += v;
        }
      }
      if (s >= logits) {
        for (int64_t b = 0; b < 5; ++b) x[((node * 2 + 1) * 5 + b) * sums + s] *= totals[0] / totals[1];
      } else {
        x[((node * 2 + 1) * 5) * sums + s] += totals[0] - totals[1];
      }
    }
  }
  return stats;
}

TEST(BoostedSplitsTest, TheBestOfAllSplitsIsFound) {
  for (const int64_t logits : {1, 3}) {
    for (const bool equality : {false, true}) {
      for (uint32_t seed = 1; seed < 20; ++seed) {
        const SplitOptions o{.l1 = seed % 2 == 0 ? 0.0f : 0.3f, .l2 = 0.5f, .complexity = 0.25f};
        const Tensor stats = RandomStats(logits, seed);
        auto out = BestSplit(stats, {0, 3}, o, logits, equality ? "equality" : "inequality");
        ASSERT_TRUE(out.ok()) << out.status();
        ExpectTensorEqual((*out)[0], Tensor::Vector<int32_t>({0, 1, 2}));
        for (int64_t node = 0; node < 3; ++node) {
          const Found want = TryAll(stats, node, logits, o, equality);
          EXPECT_NEAR((*out)[1].data<float>()[node], want.gain - 0.25, 1e-3);
          EXPECT_EQ((*out)[2].data<int32_t>()[node], want.dimension);
          EXPECT_EQ((*out)[3].data<int32_t>()[node], want.bucket);
          EXPECT_EQ((*out)[6].data<std::string>()[node], want.type);
        }
        EXPECT_EQ((*out)[4].shape(), TensorShape({3, logits}));
      }
    }
  }
}

TEST(BoostedSplitsTest, AFullHessianIsInverted) {
  // One bucket on each side. H = [2 1; 1 3], g = (1, 2): w = -H^-1 g = -(0.2, 0.6), gain 1.4.
  const Tensor stats =
      Tensor::From<float>({1, 2, 2, 1, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, TensorShape({1, 1, 3, 6}));
  auto out = BestSplit(stats, {0, 1}, {}, 2);
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectNear((*out)[1], {0});
  ExpectNear((*out)[4], {-0.2f, -0.6f});
  ExpectNear((*out)[5], {0, 0});
}

TEST(BoostedSplitsTest, SparseSumsGiveTheSameSplits) {
  for (uint32_t seed = 1; seed < 10; ++seed) {
    const Tensor stats = RandomStats(2, seed);
    std::vector<int32_t> indices;
    for (int32_t i = 0; i < stats.num_elements(); ++i) {
      for (const int32_t at : {i / 40, i / 20 % 2, i / 4 % 5, i % 4}) indices.push_back(at);
    }
    KernelRunner runner("BoostedTreesSparseCalculateBestFeatureSplit");
    runner.Attr("logits_dimension", int64_t{2});
    runner.Input(Tensor::Vector<int32_t>({0, 3}))
        .Input(Tensor::From(indices, TensorShape({stats.num_elements(), 4})))
        .Input(stats.WithShape(TensorShape({stats.num_elements()})))
        .Input(Tensor::Vector<int32_t>({3, 2, 5, 4}));
    AddOptions(runner, {.l2 = 1});
    auto sparse = runner.Run(), dense = BestSplit(stats, {0, 3}, {.l2 = 1}, 2);
    ASSERT_TRUE(sparse.ok() && dense.ok()) << sparse.status();
    for (size_t i = 0; i < 7; ++i) ExpectTensorEqual((*dense)[i], (*sparse)[i]);
  }
}

TEST(BoostedSplitsTest, WrongSummariesAreRefused) {
  const auto error = [](const StatusOr<Tensors>& out) { return std::string(out.status().message()); };
  const Tensor stats = KnownStats();
  EXPECT_THAT(error(BestGains(stats, {1, 5}, {})),
              HasSubstr("node_id_range [1, 5) must be within the 4 nodes"));
  EXPECT_THAT(error(BestGains(stats, {-1, 2}, {})), HasSubstr("node_id_range [-1, 2)"));
  EXPECT_THAT(error(BestGains(stats, {1}, {})), HasSubstr("node_id_range must have two elements"));
  EXPECT_THAT(error(BestGains(Tensor::Vector<float>({1}), {0, 1}, {})), HasSubstr("must be of shape"));
  EXPECT_THAT(error(BestSplit(stats, {0, 1}, {}, 1)), HasSubstr("stats_summary must have rank 4"));
  const Tensor four = RandomStats(2, 1);
  EXPECT_THAT(error(BestSplit(four, {0, 1}, {}, 3)), HasSubstr("has no hessian for 3 logits"));
  EXPECT_THAT(error(BestSplit(four, {0, 1}, {}, INT64_MAX)), HasSubstr("More than 4096 logits"));
  EXPECT_TRUE(BestGains(stats, {3, 1}, {}).ok());  // no nodes
}

}  // namespace
}  // namespace millrace
