// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Losses compared with the sum over all paths; sums of exponentials along lines compared with plain ones.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Loss {
  double loss;
  std::vector<double> gradient;
};

// Every sequence of classes that yields the labels: repeated ones merged, if enabled, then without blanks.
Loss ByAllPaths(const std::vector<double>& scores, int64_t steps, int64_t classes,
                const std::vector<int>& labels, bool merge) {
  std::vector<double> y = scores;
  for (int64_t t = 0; t < steps; ++t) {
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(scores[static_cast<size_t>(t * classes + c)]);
    for (int64_t c = 0; c < classes; ++c) {
      double& p = y[static_cast<size_t>(t * classes + c)];
      p = std::exp(p) / sum;
    }
  }
  double total = 0;
  std::vector<double> shares(y.size());
  const auto paths = static_cast<int64_t>(std::pow(classes, steps));
  for (int64_t path = 0; path < paths; ++path) {
    std::vector<int> at, read;
    double p = 1;
    for (int64_t t = 0, rest = path; t < steps; ++t, rest /= classes) {
      at.push_back(static_cast<int>(rest % classes));
      p *= y[static_cast<size_t>(t * classes + at.back())];
    }
    for (size_t t = 0; t < at.size(); ++t) {
      if (at[t] != classes - 1 && !(merge && t > 0 && at[t] == at[t - 1])) read.push_back(at[t]);
    }
    if (read != labels) continue;
    total += p;
    for (size_t t = 0; t < at.size(); ++t)
      shares[t * static_cast<size_t>(classes) + static_cast<size_t>(at[t])] += p;
  }
  for (size_t i = 0; i < y.size(); ++i) y[i] -= total == 0 ? 0 : shares[i] / total;
  return {-std::log(total), y};
}

TEST(CtcLossTest, IsTheSumOverAllPaths) {
  std::mt19937 random(3);
  std::normal_distribution<double> score(0, 2);
  for (const int64_t classes : {2, 3, 4}) {
    for (const std::vector<int>& labels :
         std::vector<std::vector<int>>{{}, {0}, {0, 0}, {1, 0}, {0, 1, 1}, {1, 1, 0, 1}}) {
      bool fits = true;
      for (const int label : labels) fits = fits && label < classes - 1;
      if (!fits) continue;
      for (const bool merge : {true, false}) {
        SCOPED_TRACE(testing::Message() << classes << " classes, " << labels.size() << " labels, " << merge);
        constexpr int64_t kSteps = 6;
        std::vector<double> scores;
        for (int64_t i = 0; i < kSteps * classes; ++i) scores.push_back(score(random));
        const Loss want = ByAllPaths(scores, kSteps, classes, labels, merge);
        std::vector<int64_t> places;
        for (size_t i = 0; i < labels.size(); ++i) places.insert(places.end(), {0, static_cast<int64_t>(i)});
        const auto n = static_cast<int64_t>(labels.size());
        const auto out = KernelRunner("CTCLoss")
                             .Attr("ctc_merge_repeated", merge)
                             .Input(Tensor::From<double>(scores, TensorShape({kSteps, 1, classes})))
                             .Input(Tensor::From<int64_t>(places, TensorShape({n, 2})))
                             .Input(Tensor::From<int32_t>(std::vector<int32_t>(labels.begin(), labels.end()),
                                                          TensorShape({n})))
                             .Input(Tensor::From<int32_t>({kSteps}, TensorShape({1})))
                             .Run();
        ASSERT_TRUE(out.ok()) << out.status();
        if (std::isinf(want.loss)) {
          EXPECT_EQ((*out)[0].data<double>()[0], kInf);
        } else {
          EXPECT_NEAR((*out)[0].data<double>()[0], want.loss, 1e-12);
        }
        for (int64_t i = 0; i < kSteps * classes; ++i)
          EXPECT_NEAR((*out)[1].data<double>()[i], want.gradient[static_cast<size_t>(i)], 1e-12);
      }
    }
  }
}

TEST(CumulativeLogsumexpTest, LinesSideBySideAreThoseByThemselves) {
  const std::vector<std::array<int64_t, 3>> shapes = {{1, 9, 1},  {3, 5, 1},  {4, 5, 1}, {2, 7, 9},
                                                      {37, 3, 1}, {1, 1, 40}, {5, 2, 7}};
  for (const auto& shape : shapes) {
    const int64_t outer = shape[0], length = shape[1], inner = shape[2];
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        SCOPED_TRACE(testing::Message() << outer << ' ' << length << ' ' << inner << exclusive << reverse);
        std::mt19937 random(4);
        std::uniform_real_distribution<double> value(-30, 30);
        std::vector<double> x;
        for (int64_t i = 0; i < outer * length * inner; ++i) x.push_back(value(random));
        x[x.size() / 2] = -kInf;
        x[x.size() / 3] = kInf;
        x[x.size() / 5] = kNan;
        const Tensor out = *KernelRunner("CumulativeLogsumexp")
                                .Attr("exclusive", exclusive)
                                .Attr("reverse", reverse)
                                .Input(Tensor::From<double>(x, TensorShape({outer, length, inner})))
                                .Input(Tensor::Scalar<int32_t>(1))
                                .RunOne();
        for (int64_t line = 0; line < outer * inner; ++line) {
          for (int64_t k = 0; k < length; ++k) {
            const auto at = [&](int64_t j) { return (line / inner * length + j) * inner + line % inner; };
            long double sum = 0;
            const int64_t begin = reverse ? k + exclusive : 0, end = reverse ? length : k + !exclusive;
            for (int64_t j = begin; j < end; ++j)
              sum += std::exp(static_cast<long double>(x[static_cast<size_t>(at(j))]));
            const double got = out.data<double>()[at(k)];
            if (begin == end) {
              EXPECT_EQ(got, std::numeric_limits<double>::lowest());
            } else if (std::isnan(sum) || std::isinf(sum) || sum == 0) {
              EXPECT_TRUE(std::isnan(sum) ? std::isnan(got) : got == static_cast<double>(std::log(sum)))
                  << got;
            } else {
              EXPECT_NEAR(got, static_cast<double>(std::log(sum)), 1e-13);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace
