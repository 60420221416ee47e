// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/response_norm.h"

#include "kernels/cpu/vector/vector_testing.h"

namespace millrace::cpu {
namespace {

class ResponseNormTest : public VectorTest {};

// Both functions by their definitions, in long double.
struct Expected {
  std::vector<double> y, dx;
};
Expected Reference(const ResponseNorm& norm, const std::vector<float>& x, const std::vector<float>& dy) {
  Expected e;
  const int64_t depth = norm.depth;
  for (int64_t first = 0; first < std::ssize(x); first += depth) {
    const auto near = [&](int64_t i, int64_t k) { return std::abs(i - k) <= norm.radius; };
    std::vector<long double> sums(depth), powers(depth);
    for (int64_t k = 0; k < depth; ++k) {
      long double squares = 0;
      for (int64_t i = 0; i < depth; ++i) {
        if (near(i, k)) squares += static_cast<long double>(x[first + i]) * x[first + i];
      }
      sums[k] = norm.bias + norm.alpha * squares;
      powers[k] = std::pow(sums[k], -static_cast<long double>(norm.beta));
      e.y.push_back(static_cast<double>(x[first + k] * powers[k]));
    }
    for (int64_t k = 0; k < depth; ++k) {
      long double dx = dy[first + k] * powers[k];
      for (int64_t i = 0; i < depth; ++i) {
        if (!near(i, k)) continue;
        dx -=
            2.0L * norm.alpha * norm.beta * x[first + k] * dy[first + i] * x[first + i] * powers[i] / sums[i];
      }
      e.dx.push_back(static_cast<double>(dx));
    }
  }
  return e;
}

std::vector<float> Random(int64_t n, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 500;
  return values;
}

void ExpectNear(const std::vector<float>& got, const std::vector<double>& want, const std::string& where) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 3e-6 * (1 + std::fabs(want[i]))) << where << ", element " << i;
  }
}

TEST_P(ResponseNormTest, IsItsDefinition) {
  UnevenParallel parallel(1);
  for (const int64_t depth : {1, 2, 5, 15, 16, 17, 33, 64, 100}) {
    for (const int64_t radius : {0, 1, 2, 5, 7, 8, 20, 1'000'000'000}) {
      for (const float beta : {0.f, 0.5f, 0.75f, 1.f, 1.3f}) {
        const ResponseNorm norm{depth, radius, 1.5f, 0.3f, beta};
        constexpr int64_t kPixels = 7;
        const std::vector<float> x = Random(kPixels * depth, 1), dy = Random(kPixels * depth, 2);
        std::vector<float> y(x.size(), NAN), dx(x.size(), NAN);
        ResponseNormalize(norm, x.data(), y.data(), kPixels, parallel);
        ResponseNormalizeGrad(norm, {dy.data(), x.data(), y.data(), dx.data()}, kPixels, parallel);
        const Expected want = Reference(norm, x, dy);
        const std::string where = "depth " + std::to_string(depth) + ", radius " + std::to_string(radius) +
                                  ", beta " + std::to_string(beta);
        ExpectNear(y, want.y, where);
        ExpectNear(dx, want.dx, where);
      }
    }
  }
}

// A large channel must not affect small ones out of its reach, nor must a NaN.
TEST_P(ResponseNormTest, ChannelsOutOfReachDoNotCount) {
  SerialParallel parallel;
  const ResponseNorm norm{40, 2, 1, 1, 0.5f};
  std::vector<float> x(80, 1.0f), y(80);
  x[10] = 1e15f;
  x[50] = NAN;
  ResponseNormalize(norm, x.data(), y.data(), 2, parallel);
  for (int64_t i = 0; i < 80; ++i) {
    const int64_t k = i % 40, pixel = i / 40;
    if (std::abs(k - 10) > 2) {
      const int64_t channels = 5 - std::max<int64_t>(0, 2 - k) - std::max<int64_t>(0, k - 37);
      EXPECT_FLOAT_EQ(y[i], 1 / std::sqrt(1.0f + static_cast<float>(channels))) << i;
    } else if (pixel == 1) {
      EXPECT_TRUE(std::isnan(y[i])) << i;
    } else {
      EXPECT_FLOAT_EQ(y[i], x[i] / 1e15f) << i;
    }
  }
}

TEST_P(ResponseNormTest, NegativeNormsAreThoseOfPow) {
  SerialParallel parallel;
  const float x[] = {1, 2};
  for (const float beta : {0.5f, 0.75f, 1.f, 2.f, 0.f}) {
    float y[2];
    ResponseNormalize({2, 0, -3, 1, beta}, x, y, 1, parallel);
    for (int i = 0; i < 2; ++i) {
      const float want = x[i] * std::pow(-3 + x[i] * x[i], -beta);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(y[i])) << beta;
      } else {
        EXPECT_FLOAT_EQ(y[i], want) << beta;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, ResponseNormTest, EachIsa(), IsaName);

}  // namespace
}  // namespace millrace::cpu
