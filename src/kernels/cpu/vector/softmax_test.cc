// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/softmax.h"

#include "kernels/cpu/vector/cast.h"
#include "kernels/cpu/vector/vector_testing.h"

namespace millrace::cpu {
namespace {

class SoftmaxTest : public VectorTest {};

constexpr int64_t kWidths[] = {1, 2, 3, 7, 8, 10, 15, 16, 17, 31, 32, 33, 64, 100, 130, 1000};

template <typename T>
std::vector<T> Logits(int64_t n, double scale) {
  std::minstd_rand random(2);
  std::vector<T> values(static_cast<size_t>(n));
  for (T& x : values) x = static_cast<T>((static_cast<int>(random() % 2001) - 1000) * scale / 1000);
  return values;
}

struct Row {
  std::vector<long double> shifted;
  long double sum = 0;
};

template <typename T>
Row Reference(const T* x, int64_t cols) {
  Row row;
  const long double max = *std::max_element(x, x + cols);
  for (int64_t i = 0; i < cols; ++i) {
    row.shifted.push_back(x[i] - max);
    row.sum += std::exp(row.shifted.back());
  }
  return row;
}

template <typename T>
void ExpectSoftmax(DataType type, double tolerance) {
  for (const int64_t cols : kWidths) {
    const int64_t rows = 37;
    const std::vector<T> logits = Logits<T>(rows * cols, 30);
    std::vector<T> out(logits.size()), log_out(logits.size());
    UnevenParallel parallel(1);
    Softmax(type, logits.data(), out.data(), rows, cols, parallel);
    LogSoftmax(type, logits.data(), log_out.data(), rows, cols, parallel);
    for (int64_t r = 0; r < rows; ++r) {
      const Row want = Reference(logits.data() + r * cols, cols);
      for (int64_t i = 0; i < cols; ++i) {
        const auto at = static_cast<size_t>(r * cols + i);
        const long double shifted = want.shifted[static_cast<size_t>(i)];
        const auto p = static_cast<double>(std::exp(shifted) / want.sum);
        ASSERT_NEAR(out[at], p, p * tolerance * 40) << cols;
        const auto log_p = static_cast<double>(shifted - std::log(want.sum));
        ASSERT_NEAR(log_out[at], log_p, (1 + std::fabs(log_p)) * tolerance * 4) << cols;
      }
    }
    std::vector<T> in_place = logits;
    Softmax(type, in_place.data(), in_place.data(), rows, cols, parallel);
    ASSERT_EQ(in_place, out);
  }
}

TEST_P(SoftmaxTest, Floats) { ExpectSoftmax<float>(DataType::kFloat, 1.2e-7); }
TEST_P(SoftmaxTest, Doubles) { ExpectSoftmax<double>(DataType::kDouble, 2.3e-16); }

template <typename T>
void ExpectXent(DataType type, double tolerance) {
  for (const int64_t cols : kWidths) {
    const int64_t rows = 13;
    const std::vector<T> logits = Logits<T>(rows * cols, 9);
    std::vector<T> labels = Logits<T>(rows * cols, 1);
    for (T& x : labels) x = std::fabs(x) / static_cast<T>(cols);
    std::vector<T> loss(static_cast<size_t>(rows)), backprop(logits.size());
    UnevenParallel parallel(8);
    const XentShape shape{.rows = rows, .cols = cols, .logits_row_stride = cols, .labels_row_stride = cols};
    SoftmaxXent(type, shape, logits.data(), labels.data(), loss.data(), backprop.data(), parallel);
    for (int64_t r = 0; r < rows; ++r) {
      const Row want = Reference(logits.data() + r * cols, cols);
      long double total = 0;
      for (int64_t i = 0; i < cols; ++i) {
        const auto at = static_cast<size_t>(r * cols + i);
        const long double shifted = want.shifted[static_cast<size_t>(i)];
        total += labels[at] * (std::log(want.sum) - shifted);
        const auto gradient = static_cast<double>(std::exp(shifted) / want.sum - labels[at]);
        ASSERT_NEAR(backprop[at], gradient, tolerance * 20);
      }
      ASSERT_NEAR(loss[static_cast<size_t>(r)], static_cast<double>(total),
                  tolerance * 20 * (1 + std::fabs(total)));
    }
    // The op may write the gradient to the memory of either argument.
    std::vector<T> in_logits = logits, in_labels = labels, again(loss.size());
    SoftmaxXent(type, shape, in_logits.data(), labels.data(), again.data(), in_logits.data(), parallel);
    ASSERT_EQ(in_logits, backprop);
    ASSERT_EQ(again, loss);
    SoftmaxXent(type, shape, logits.data(), in_labels.data(), again.data(), in_labels.data(), parallel);
    ASSERT_EQ(in_labels, backprop);
  }
}

TEST_P(SoftmaxTest, CrossEntropyOfFloats) { ExpectXent<float>(DataType::kFloat, 1.2e-7); }
TEST_P(SoftmaxTest, CrossEntropyOfDoubles) { ExpectXent<double>(DataType::kDouble, 2.3e-16); }

TEST_P(SoftmaxTest, CrossEntropyRepeatsARowOfStrideZero) {
  const float logits[] = {1, 2, 3}, labels[] = {1, 0, 0, 0, 0, 1};
  float loss[2], backprop[6];
  SerialParallel parallel;
  SoftmaxXent(DataType::kFloat, {.rows = 2, .cols = 3, .logits_row_stride = 0, .labels_row_stride = 3},
              logits, labels, loss, backprop, parallel);
  EXPECT_NEAR(loss[0], 2.40760596, 1e-6);
  EXPECT_NEAR(loss[1], 0.40760596, 1e-6);
  EXPECT_NEAR(backprop[5], 0.66524096 - 1, 1e-6);
}

TEST_P(SoftmaxTest, SparseCrossEntropyEqualsTheDenseOneOfOneHotLabels) {
  UnevenParallel parallel(3);
  for (const int64_t cols : kWidths) {
    const int64_t rows = 20;
    const std::vector<float> logits = Logits<float>(rows * cols, 5);
    std::vector<float> one_hot(logits.size()), dense_loss(20), loss(20), dense(logits.size()),
        backprop(logits.size());
    std::vector<int32_t> labels;
    for (int64_t r = 0; r < rows; ++r) {
      labels.push_back(static_cast<int32_t>(r * 7 % cols));
      one_hot[static_cast<size_t>(r * cols + labels.back())] = 1;
    }
    SoftmaxXent(DataType::kFloat, {rows, cols, cols, cols}, logits.data(), one_hot.data(), dense_loss.data(),
                dense.data(), parallel);
    EXPECT_EQ(SparseSoftmaxXent(DataType::kFloat, logits.data(), DataType::kInt32, labels.data(), loss.data(),
                                backprop.data(), rows, cols, parallel),
              -1);
    for (size_t i = 0; i < loss.size(); ++i) ASSERT_NEAR(loss[i], dense_loss[i], 2e-6);
    for (size_t i = 0; i < dense.size(); ++i) ASSERT_NEAR(backprop[i], dense[i], 2e-7);
  }
}

TEST_P(SoftmaxTest, LabelsOutOfRangeAreReportedAndNothingIsWritten) {
  const std::vector<float> logits(12, 1.0f);
  SerialParallel parallel;
  for (const int64_t bad : {int64_t{4}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    const int64_t labels[] = {0, 3, bad};
    std::vector<float> loss(3, 77), backprop(12, 77);
    EXPECT_EQ(SparseSoftmaxXent(DataType::kFloat, logits.data(), DataType::kInt64, labels, loss.data(),
                                backprop.data(), 3, 4, parallel),
              2);
    EXPECT_EQ(loss, std::vector<float>(3, 77));
    EXPECT_EQ(backprop, std::vector<float>(12, 77));
  }
}

TEST_P(SoftmaxTest, ANanTakesItsRowOnly) {
  SerialParallel parallel;
  for (const int64_t cols : kWidths) {
    for (int64_t at = 0; at < cols; at += 1 + cols / 5) {
      std::vector<float> logits = Logits<float>(2 * cols, 3), out(logits.size());
      logits[static_cast<size_t>(at)] = NAN;
      Softmax(DataType::kFloat, logits.data(), out.data(), 2, cols, parallel);
      for (int64_t i = 0; i < 2 * cols; ++i) {
        ASSERT_EQ(std::isnan(out[static_cast<size_t>(i)]), i < cols) << cols << " " << at << " " << i;
      }
      LogSoftmax(DataType::kFloat, logits.data(), out.data(), 2, cols, parallel);
      for (int64_t i = 0; i < 2 * cols; ++i) ASSERT_EQ(std::isnan(out[static_cast<size_t>(i)]), i < cols);
    }
  }
}

TEST_P(SoftmaxTest, HugeLogitsDoNotOverflow) {
  const float logits[] = {3e38f, -3e38f, 3e38f, -std::numeric_limits<float>::infinity()};
  float out[4];
  SerialParallel parallel;
  Softmax(DataType::kFloat, logits, out, 1, 4, parallel);
  EXPECT_EQ(out[0], 0.5f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[2], 0.5f);
  EXPECT_EQ(out[3], 0.0f);
}

TEST_P(SoftmaxTest, HalfTypesGoThroughFloat) {
  const std::vector<float> logits = Logits<float>(5 * 40, 4);
  UnevenParallel parallel(2);
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
    std::vector<uint16_t> narrow(logits.size()), out(logits.size()), loss(5), labels(logits.size());
    FindCast(DataType::kFloat, type)(logits.data(), narrow.data(), 200);
    std::vector<float> wide(logits.size()), want(logits.size()), got(logits.size());
    FindCast(type, DataType::kFloat)(narrow.data(), wide.data(), 200);
    Softmax(DataType::kFloat, wide.data(), want.data(), 5, 40, parallel);
    Softmax(type, narrow.data(), out.data(), 5, 40, parallel);
    FindCast(type, DataType::kFloat)(out.data(), got.data(), 200);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], want[i] * 0.005 + 1e-7);
    // With labels of zero the gradient is the softmax.
    SoftmaxXent(type, {5, 40, 40, 40}, narrow.data(), labels.data(), loss.data(), out.data(), parallel);
    FindCast(type, DataType::kFloat)(out.data(), got.data(), 200);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], want[i] * 0.005 + 1e-7);
    const std::vector<int32_t> classes(5, 39);
    EXPECT_EQ(SparseSoftmaxXent(type, narrow.data(), DataType::kInt32, classes.data(), loss.data(),
                                out.data(), 5, 40, parallel),
              -1);
    FindCast(type, DataType::kFloat)(out.data(), got.data(), 200);
    ASSERT_NEAR(got[39], want[39] - 1, 0.005);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, SoftmaxTest, EachIsa(), IsaName);

}  // namespace
}  // namespace millrace::cpu
