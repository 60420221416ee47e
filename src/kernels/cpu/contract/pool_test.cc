// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/pool.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu/contract/contract_testing.h"

namespace millrace::cpu {
namespace {

constexpr double kUntouched = 77;

int64_t InputSize(const PoolParams& p) { return p.batch * p.in_h * p.in_w * p.channels; }
int64_t OutputSize(const PoolParams& p) { return p.batch * p.out_h * p.out_w * p.channels; }

// Calls fn(output index, indices of the pixels of its window inside the image, row by row).
template <typename F>
void ForEachWindow(const PoolParams& p, const F& fn) {
  for (int64_t i = 0; i < OutputSize(p); ++i) {
    const int64_t c = i % p.channels, ow = i / p.channels % p.out_w;
    const int64_t oh = i / p.channels / p.out_w % p.out_h, n = i / p.channels / p.out_w / p.out_h;
    std::vector<int64_t> pixels;
    for (int64_t h = oh * p.stride_h - p.pad_top; h < oh * p.stride_h - p.pad_top + p.window_h; ++h) {
      for (int64_t w = ow * p.stride_w - p.pad_left; w < ow * p.stride_w - p.pad_left + p.window_w; ++w) {
        if (h < 0 || h >= p.in_h || w < 0 || w >= p.in_w) continue;
        pixels.push_back(((n * p.in_h + h) * p.in_w + w) * p.channels + c);
      }
    }
    fn(i, pixels);
  }
}

template <typename T>
struct Results {
  std::vector<T> max, max_grad, average, average_grad;
};

template <typename T>
Results<T> RunAll(const PoolParams& p, const std::vector<T>& input, const std::vector<T>& grad,
                  Parallel& parallel) {
  Results<T> r;
  r.max = r.average = Filled<T>(OutputSize(p), kUntouched);
  r.max_grad = r.average_grad = Filled<T>(InputSize(p), kUntouched);
  MaxPool(p, input.data(), r.max.data(), parallel);
  MaxPoolGrad(p, input.data(), grad.data(), r.max_grad.data(), parallel);
  AvgPool(p, input.data(), r.average.data(), parallel);
  AvgPoolGrad(p, grad.data(), r.average_grad.data(), parallel);
  return r;
}

template <typename T>
Results<double> Expected(const PoolParams& p, const std::vector<T>& input, const std::vector<T>& grad) {
  Results<double> r;
  r.max = r.average = Filled<double>(OutputSize(p), 0);
  r.max_grad = r.average_grad = Filled<double>(InputSize(p), 0);
  ForEachWindow(p, [&](int64_t out, const std::vector<int64_t>& pixels) {
    if (pixels.empty()) {
      r.max[out] = std::numeric_limits<T>::lowest();
      return;
    }
    int64_t best = pixels[0];
    double sum = 0;
    for (int64_t i : pixels) {
      if (input[i] > input[best]) best = i;
      sum += static_cast<double>(input[i]);
    }
    const double count = static_cast<double>(pixels.size());
    r.max[out] = static_cast<double>(input[best]);
    r.max_grad[best] += static_cast<double>(grad[out]);
    r.average[out] = sum / count;
    for (int64_t i : pixels) r.average_grad[i] += static_cast<double>(grad[out]) / count;
  });
  return r;
}

PoolParams RandomParams(Random& random) {
  PoolParams p;
  p.batch = random.Int(0, 3);
  p.in_h = random.Int(1, 9), p.in_w = random.Int(1, 9);
  p.channels = random.Int(0, 3) == 0 ? random.Int(60, 150) : random.Int(1, 20);
  p.window_h = random.Int(1, 10), p.window_w = random.Int(1, 4);
  p.stride_h = random.Int(1, 3), p.stride_w = random.Int(1, 3);
  p.pad_top = random.Int(0, 3), p.pad_left = random.Int(0, 3);
  p.out_h = std::max<int64_t>((p.in_h + p.pad_top + random.Int(0, 3) - p.window_h) / p.stride_h + 1, 0);
  p.out_w = std::max<int64_t>((p.in_w + p.pad_left + random.Int(0, 3) - p.window_w) / p.stride_w + 1, 0);
  return p;
}

template <typename T>
void CheckRandomShapes(uint32_t seed, int count) {
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    const PoolParams p = RandomParams(random);
    const auto input = random.Values<T>(InputSize(p)), grad = random.Values<T>(OutputSize(p));
    const Results<double> want = Expected(p, input, grad);
    ForEachIsa([&](Isa) {
      ThreadedParallel parallel(1);
      const Results<T> got = RunAll(p, input, grad, parallel);
      ASSERT_EQ(ErrorOf(got.max, want.max, 1), 0.0);
      ASSERT_LE(ErrorOf(got.max_grad, want.max_grad, p.window_h * p.window_w), 1.0);
      ASSERT_LE(ErrorOf(got.average, want.average, p.window_h * p.window_w), 1.0);
      ASSERT_LE(ErrorOf(got.average_grad, want.average_grad, 2 * p.window_h * p.window_w), 1.0);
    });
  }
}

TEST(Pool, FloatEqualsTheDefinitionForRandomShapes) { CheckRandomShapes<float>(1, 200); }
TEST(Pool, DoubleEqualsTheDefinitionForRandomShapes) { CheckRandomShapes<double>(2, 100); }

TEST(Pool, ResultsAreTheSameBitsForEveryNumberOfThreads) {
  PoolParams p{.batch = 3, .in_h = 20, .in_w = 20, .channels = 130, .out_h = 10, .out_w = 10};
  p.window_h = p.window_w = 3;
  p.stride_h = p.stride_w = 2;
  Random random(4);
  const auto input = random.Values<float>(InputSize(p)), grad = random.Values<float>(OutputSize(p));
  SerialParallel serial;
  const Results<float> want = RunAll(p, input, grad, serial);
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadedParallel parallel(threads);
    const Results<float> got = RunAll(p, input, grad, parallel);
    EXPECT_TRUE(SameBits(got.max, want.max) && SameBits(got.max_grad, want.max_grad));
    EXPECT_TRUE(SameBits(got.average, want.average) && SameBits(got.average_grad, want.average_grad));
  }
}

TEST(Pool, TiesSendTheGradientToTheFirstMaximum) {
  const PoolParams p{
      .batch = 1, .in_h = 2, .in_w = 2, .channels = 1, .out_h = 1, .out_w = 1, .window_h = 2, .window_w = 2};
  const std::vector<float> input{1, 3, 3, 3}, grad{5};
  std::vector<float> in_grad(4);
  SerialParallel serial;
  MaxPoolGrad(p, input.data(), grad.data(), in_grad.data(), serial);
  EXPECT_EQ(in_grad, (std::vector<float>{0, 5, 0, 0}));
}

TEST(Pool, NanWinsEveryMaximumAndTakesItsGradient) {
  const PoolParams p{
      .batch = 1, .in_h = 1, .in_w = 3, .channels = 1, .out_h = 1, .out_w = 1, .window_h = 1, .window_w = 3};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> input{2, nan, 7}, grad{5};
  std::vector<float> output(1), in_grad(3);
  SerialParallel serial;
  MaxPool(p, input.data(), output.data(), serial);
  MaxPoolGrad(p, input.data(), grad.data(), in_grad.data(), serial);
  EXPECT_TRUE(std::isnan(output[0]));
  EXPECT_EQ(in_grad, (std::vector<float>{0, 5, 0}));
}

// Values that are often equal, or NaN, or infinite.
std::vector<float> ValuesWithTies(Random& random, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  const bool has_nan = random.Coin();
  for (float& v : values) {
    const int64_t kind = random.Int(0, 30);
    v = static_cast<float>(random.Int(-2, 2));
    if (kind == 0 && has_nan) v = std::numeric_limits<float>::quiet_NaN();
    if (kind == 1) v = std::numeric_limits<float>::infinity();
    if (kind == 2) v = -std::numeric_limits<float>::infinity();
  }
  return values;
}

// Windows of 2x2 and 3x3 have separate loops, for overlapping windows and for windows that tile the
// image.
TEST(Pool, SmallSquareWindowsTakeTheFirstOfTiesAndNan) {
  Random random(5);
  ForEachIsa([&](Isa) {
    for (int i = 0; i < 200; ++i) {
      PoolParams p = RandomParams(random);
      p.window_h = p.window_w = random.Int(2, 3);
      p.in_h = random.Int(4, 9), p.in_w = random.Int(4, 9);
      if (random.Coin()) {
        p.stride_h = p.stride_w = p.window_h;
        p.pad_top = p.pad_left = 0;
      }
      p.out_h = (p.in_h + p.pad_top + random.Int(0, 2) - p.window_h) / p.stride_h + 1;
      p.out_w = (p.in_w + p.pad_left + random.Int(0, 2) - p.window_w) / p.stride_w + 1;
      const auto input = ValuesWithTies(random, InputSize(p));
      std::vector<float> grad(static_cast<size_t>(OutputSize(p)));
      for (float& v : grad) v = static_cast<float>(random.Int(-9, 9));
      std::vector<float> want = Filled<float>(OutputSize(p), std::numeric_limits<float>::lowest());
      std::vector<float> want_grad(static_cast<size_t>(InputSize(p)));
      ForEachWindow(p, [&](int64_t out, const std::vector<int64_t>& pixels) {
        if (pixels.empty()) return;
        int64_t best = pixels[0];
        for (int64_t at : pixels) {
          if (!std::isnan(input[best]) && (std::isnan(input[at]) || input[at] > input[best])) best = at;
        }
        want[out] = input[best];
        want_grad[best] += grad[out];
      });
      ThreadedParallel parallel(1);
      std::vector<float> got = Filled<float>(OutputSize(p), kUntouched),
                         got_grad = Filled<float>(InputSize(p), kUntouched);
      MaxPool(p, input.data(), got.data(), parallel);
      MaxPoolGrad(p, input.data(), grad.data(), got_grad.data(), parallel);
      ASSERT_EQ(got.size(), want.size());
      for (size_t at = 0; at < got.size(); ++at) {
        ASSERT_TRUE(got[at] == want[at] || (std::isnan(got[at]) && std::isnan(want[at]))) << at;
      }
      ASSERT_EQ(got_grad, want_grad);
    }
  });
}

TEST(Pool, MinusInfinityIsAMaximumLikeAnyOther) {
  const PoolParams p{
      .batch = 1, .in_h = 1, .in_w = 2, .channels = 1, .out_h = 1, .out_w = 1, .window_h = 1, .window_w = 2};
  const std::vector<float> input(2, -std::numeric_limits<float>::infinity());
  std::vector<float> output(1);
  SerialParallel serial;
  MaxPool(p, input.data(), output.data(), serial);
  EXPECT_EQ(output[0], input[0]);
}

}  // namespace
}  // namespace millrace::cpu
