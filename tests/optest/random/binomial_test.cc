// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// StatefulRandomBinomial: frequencies compared with the distribution, shapes, types and invalid parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class BinomialTest : public ::testing::Test {
 protected:
  BinomialTest() {
    variable_->is_initialized = true;
    variable_->tensor() = Tensor::Vector<int64_t>({0, 0, 17});
    EXPECT_EQ(resources_.Create<Variable>("", "rng", variable_), Status());
  }
  StatusOr<Tensor> Draw(const std::vector<int64_t>& shape, const Tensor& counts, const Tensor& probs,
                        DataType dtype = DataType::kInt64, int64_t algorithm = 1) {
    KernelRunner runner("StatefulRandomBinomial");
    runner.Resources(&resources_)
        .Attr("dtype", dtype)
        .Input(Tensor::Scalar(resources_.MakeHandle<Variable>("", "rng")))
        .Input(Tensor::Scalar(algorithm))
        .Input(Tensor::Vector<int64_t>(shape))
        .Input(counts)
        .Input(probs);
    return runner.RunOne();
  }
  std::string Error(const std::vector<int64_t>& shape, const Tensor& counts, const Tensor& probs) {
    return std::string(Draw(shape, counts, probs).status().message());
  }

  ResourceManager resources_{std::string(KernelRunner::kDeviceName)};
  RefPtr<Variable> variable_ = MakeRef<Variable>(DataType::kInt64);
};

TEST_F(BinomialTest, FrequenciesFollowTheDistribution) {
  constexpr int64_t kSamples = 20000;
  for (const auto& [count, p] :
       {std::pair{5.0, 0.3}, {40.0, 0.9}, {100.0, 0.5}, {1000.0, 0.02}, {60.0, 0.25}}) {
    auto out = Draw({kSamples}, Tensor::Scalar(count), Tensor::Scalar(p));
    ASSERT_TRUE(out.ok()) << out.status();
    std::map<int64_t, int64_t> seen;
    for (const int64_t k : out->flat<int64_t>()) {
      ASSERT_TRUE(k >= 0 && k <= count) << k;
      ++seen[k];
    }
    // Each frequency is within five standard deviations of the definition.
    for (int64_t k = 0; k <= static_cast<int64_t>(count); ++k) {
      const double n = count, x = static_cast<double>(k);
      const double mass = std::exp(std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) +
                                   x * std::log(p) + (n - x) * std::log1p(-p));
      const double expected = kSamples * mass;
      EXPECT_NEAR(static_cast<double>(seen[k]), expected, 5 * std::sqrt(expected) + 3)
          << count << " " << p << " " << k;
    }
  }
}

TEST_F(BinomialTest, CertaintiesAndWhatIsNoDistribution) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Tensor counts = Tensor::Vector<double>({10, 10, 0, -3, 10, 10, 10, inf, nan});
  const Tensor probs = Tensor::Vector<double>({0, 1, 0.5, 0.5, nan, -0.1, 1.5, 0.5, 0.5});
  auto out = Draw({9}, counts, probs, DataType::kDouble);
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual(*out, Tensor::Vector<double>({0, 10, 0, 0, nan, nan, nan, nan, nan}));
  auto integers = Draw({9}, counts, probs, DataType::kInt32);
  ASSERT_TRUE(integers.ok()) << integers.status();
  ExpectTensorEqual(*integers, Tensor::Vector<int32_t>({0, 10, 0, 0, 0, 0, 0, 0, 0}));
  auto large = Draw({1}, Tensor::Vector<double>({1e300}), Tensor::Vector<double>({0.5}), DataType::kInt32);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ(large->data<int32_t>()[0], std::numeric_limits<int32_t>::max());
}

TEST_F(BinomialTest, CountsAndProbabilitiesBroadcastToTheEndOfTheShape) {
  auto out = Draw({50, 2, 3}, Tensor::From<float>({0, 1000}, TensorShape({2, 1})),
                  Tensor::Vector<float>({0, 0.5f, 1}), DataType::kFloat);
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_EQ(out->shape(), TensorShape({50, 2, 3}));
  for (int i = 0; i < 50; ++i) {
    const float* x = out->data<float>() + 6 * i;
    for (int j = 0; j < 4; ++j) EXPECT_EQ(x[j], 0) << j;
    EXPECT_NEAR(x[4], 500, 100);
    EXPECT_EQ(x[5], 1000);
  }
}

TEST_F(BinomialTest, EveryTypeGivesTheSameNumbers) {
  const auto draw = [&](const Tensor& counts, const Tensor& probs, DataType dtype) {
    variable_->tensor() = Tensor::Vector<int64_t>({0, 0, 3});
    auto out = Draw({8}, counts, probs, dtype);
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? *out : Tensor();
  };
  const Tensor expected = draw(Tensor::Scalar(30.0), Tensor::Scalar(0.5), DataType::kInt64);
  std::vector<half> halves;
  std::vector<float> floats;
  std::vector<int32_t> integers;
  for (const int64_t k : expected.flat<int64_t>()) {
    halves.push_back(half(static_cast<float>(k)));
    floats.push_back(static_cast<float>(k));
    integers.push_back(static_cast<int32_t>(k));
  }
  ExpectTensorEqual(draw(Tensor::Scalar(half(30)), Tensor::Scalar(half(0.5f)), DataType::kHalf),
                    Tensor::Vector<half>(halves));
  ExpectTensorEqual(draw(Tensor::Scalar(30.f), Tensor::Scalar(0.5f), DataType::kFloat),
                    Tensor::Vector<float>(floats));
  ExpectTensorEqual(draw(Tensor::Scalar(30.0), Tensor::Scalar(0.5), DataType::kInt32),
                    Tensor::Vector<int32_t>(integers));
  // With probabilities 0 and 1 the result is certain.
  ExpectTensorEqual(draw(Tensor::Scalar<int32_t>(4), Tensor::Scalar<int32_t>(1), DataType::kInt32),
                    Tensor::Vector<int32_t>({4, 4, 4, 4, 4, 4, 4, 4}));
  ExpectTensorEqual(draw(Tensor::Scalar<int64_t>(4), Tensor::Scalar<int64_t>(0), DataType::kInt32),
                    Tensor::Vector<int32_t>({0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_F(BinomialTest, TheVariableMovesOn) {
  ASSERT_TRUE(Draw({6}, Tensor::Scalar(1.0), Tensor::Scalar(0.5)).ok());
  ExpectTensorEqual(variable_->tensor(), Tensor::Vector<int64_t>({6 * 256, 0, 17}));
}

TEST_F(BinomialTest, WrongShapesAreRefused) {
  const Tensor two = Tensor::Vector<double>({1, 1}), three = Tensor::Vector<double>({1, 1, 1});
  EXPECT_THAT(Error({2}, two, three),
              HasSubstr("counts and probs must have compatible batch dimensions: [2] vs. [3]"));
  EXPECT_THAT(Error({3}, two, two), HasSubstr("Shape passed in must end with broadcasted shape."));
  EXPECT_THAT(Error({}, two, two), HasSubstr("Shape passed in must end with broadcasted shape."));
  EXPECT_THAT(Error({-1, 2}, two, two), HasSubstr("must be >= 0"));
  EXPECT_FALSE(Draw({int64_t{1} << 40, int64_t{1} << 40, 2}, two, two).ok());
  EXPECT_THAT(std::string(Draw({2}, two, two, DataType::kInt64, 9).status().message()),
              HasSubstr("Unsupported algorithm id: 9"));
  EXPECT_EQ(Draw({0, 2}, two, two)->shape(), TensorShape({0, 2}));
}

}  // namespace
}  // namespace millrace
