// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Quantized images of many channels, gradients of quantization, and rows of sparse and ragged tensors,
// compared with plain loops: blocks of vectors and the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor Bytes(DataType type, const TensorShape& shape, unsigned seed) {
  std::mt19937 random(seed);
  Tensor t = *Tensor::Allocate(type, shape);
  auto* const to = static_cast<uint8_t*>(t.raw_data());
  for (int64_t i = 0; i < t.num_elements(); ++i) to[i] = static_cast<uint8_t>(random());
  return t;
}
template <typename T>
const T* Data(const Tensor& t) {
  return static_cast<const T*>(t.raw_data());
}

class ChannelsTest : public testing::TestWithParam<int64_t> {};

TEST_P(ChannelsTest, QuantizedPoolsAreThoseOfPlainLoops) {
  const int64_t depth = GetParam(), height = 5, width = 7;
  const Tensor in = Bytes(DataType::kQuint8, {2, height, width, depth}, 1);
  for (const bool mean : {false, true}) {
    for (const int64_t window : {1, 2, 3}) {
      const auto out = *KernelRunner(mean ? "QuantizedAvgPool" : "QuantizedMaxPool")
                            .Attr("ksize", std::vector<int64_t>{1, window, window, 1})
                            .Attr("strides", std::vector<int64_t>{1, 2, 2, 1})
                            .Attr("padding", "VALID")
                            .Input(in)
                            .Input(Tensor::Scalar(0.0f))
                            .Input(Tensor::Scalar(1.0f))
                            .Run();
      const int64_t rows = (height - window) / 2 + 1, columns = (width - window) / 2 + 1;
      ASSERT_EQ(out[0].shape(), TensorShape({2, rows, columns, depth}));
      for (int64_t i = 0; i < out[0].num_elements(); ++i) {
        const int64_t c = i % depth, x = i / depth % columns, y = i / depth / columns % rows;
        const int64_t n = i / depth / columns / rows;
        int64_t sum = 0, most = 0;
        for (int64_t a = 0; a < window; ++a) {
          for (int64_t b = 0; b < window; ++b) {
            const int64_t v = Data<uint8_t>(in)[((n * height + 2 * y + a) * width + 2 * x + b) * depth + c];
            sum += v;
            most = std::max(most, v);
          }
        }
        EXPECT_EQ(Data<uint8_t>(out[0])[i], mean ? sum / (window * window) : most);
      }
    }
  }
}

TEST_P(ChannelsTest, InstanceNormIsThatOfEachChannel) {
  const int64_t depth = GetParam(), pixels = 5 * 9;
  const Tensor in = Bytes(DataType::kQuint8, {2, 5, 9, depth}, 2);
  const float epsilon = 0.001f;
  const auto out = *KernelRunner("QuantizedInstanceNorm")
                        .Attr("output_range_given", true)
                        .Attr("given_y_min", -2.0f)
                        .Attr("given_y_max", 3.0f)
                        .Attr("variance_epsilon", epsilon)
                        .Input(in)
                        .Input(Tensor::Scalar(-1.0f))
                        .Input(Tensor::Scalar(4.0f))
                        .Run();
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t c = 0; c < depth; ++c) {
      const auto at = [&](int64_t p) { return (n * pixels + p) * depth + c; };
      const auto number = [&](int64_t p) { return -1 + 5.0 / 255 * Data<uint8_t>(in)[at(p)]; };
      double mean = 0, square = 0;
      for (int64_t p = 0; p < pixels; ++p) mean += number(p) / static_cast<double>(pixels);
      for (int64_t p = 0; p < pixels; ++p)
        square += (number(p) - mean) * (number(p) - mean) / static_cast<double>(pixels);
      for (int64_t p = 0; p < pixels; ++p) {
        const double y = (number(p) - mean) / std::sqrt(square + static_cast<double>(epsilon));
        const double steps = std::clamp((y + 2) * 255 / 5, 0.0, 255.0);
        EXPECT_NEAR(Data<uint8_t>(out[0])[at(p)], steps, 0.5001);
      }
    }
  }
}

TEST_P(ChannelsTest, QuantizedDepthwiseConvolutionsAreThoseOfPlainLoops) {
  const int64_t depth = GetParam(), height = 4, width = 6;
  const Tensor in = Bytes(DataType::kQuint8, {2, height, width, depth}, 3);
  for (const int64_t results : {1, 2}) {
    const Tensor filter = Bytes(DataType::kQint8, {3, 3, depth, results}, 4);
    const auto out = *KernelRunner("QuantizedDepthwiseConv2D")
                          .Attr("strides", std::vector<int64_t>{1, 1, 1, 1})
                          .Attr("padding", "SAME")
                          .Attr("out_type", DataType::kQint32)
                          .Input(in)
                          .Input(filter)
                          .Input(Tensor::Scalar(0.0f))
                          .Input(Tensor::Scalar(255.0f))
                          .Input(Tensor::Scalar(-127.0f))
                          .Input(Tensor::Scalar(127.0f))
                          .Run();
    const int64_t channels = depth * results;
    for (int64_t i = 0; i < out[0].num_elements(); ++i) {
      const int64_t c = i % channels, x = i / channels % width, y = i / channels / width % height;
      const int64_t n = i / channels / width / height;
      int64_t sum = 0;
      for (int64_t a = 0; a < 3; ++a) {
        for (int64_t b = 0; b < 3; ++b) {
          const int64_t h = y + a - 1, v = x + b - 1;
          if (h < 0 || h >= height || v < 0 || v >= width) continue;
          sum += int64_t{Data<uint8_t>(in)[((n * height + h) * width + v) * depth + c / results]} *
                 Data<int8_t>(filter)[(a * 3 + b) * channels + c];
        }
      }
      EXPECT_EQ(Data<int32_t>(out[0])[i], sum);
    }
  }
}

TEST_P(ChannelsTest, GradientsOfQuantizationAreThoseOfPlainLoops) {
  const int64_t depth = GetParam(), rows = 6;
  std::mt19937 random(5);
  std::vector<float> x, dy;
  for (int64_t i = 0; i < rows * depth; ++i) {
    x.push_back(random() % 16 == 0 ? kNan : static_cast<float>(random() % 400) - 100);
    dy.push_back(static_cast<float>(random() % 9) - 4);
  }
  for (const bool channels : {false, true}) {
    const int64_t limits = channels ? depth : 1;
    // The step is one: [0, 255]. Every fifth channel has an empty range.
    std::vector<float> low(static_cast<size_t>(limits), 0.0f), high;
    for (int64_t c = 0; c < limits; ++c) high.push_back(c % 5 == 4 ? 0.0f : 255.0f);
    const TensorShape shape = channels ? TensorShape({limits}) : TensorShape();
    const auto out = *KernelRunner(channels ? "FakeQuantWithMinMaxVarsPerChannelGradient"
                                            : "FakeQuantWithMinMaxVarsGradient")
                          .Input(Tensor::From<float>(dy, TensorShape({rows, depth})))
                          .Input(Tensor::From<float>(x, TensorShape({rows, depth})))
                          .Input(Tensor::From<float>(low, shape))
                          .Input(Tensor::From<float>(high, shape))
                          .Run();
    std::vector<float> inside, below(low.size()), above(low.size());
    for (int64_t i = 0; i < rows * depth; ++i) {
      const auto at = static_cast<size_t>(i), c = static_cast<size_t>(channels ? i % depth : 0);
      const bool none = high[c] == 0;
      inside.push_back(none || (x[at] >= 0 && x[at] <= 255) ? dy[at] : 0);
      if (!none && x[at] < 0) below[c] += dy[at];
      if (!none && x[at] > 255) above[c] += dy[at];
    }
    ExpectTensorEqual(Tensor::From<float>(inside, TensorShape({rows, depth})), out[0]);
    ExpectTensorEqual(Tensor::From<float>(below, shape), out[1]);
    ExpectTensorEqual(Tensor::From<float>(above, shape), out[2]);
  }
}

INSTANTIATE_TEST_SUITE_P(Channels, ChannelsTest, testing::Values(1, 3, 4, 16, 21, 37));

TEST(SparseSoftmaxTest, RowsInAnyOrder) {
  std::mt19937 random(6);
  for (const bool sorted : {true, false}) {
    std::vector<int64_t> indices;
    std::vector<float> values, want;
    for (int64_t row = 0; row < 7; ++row) {
      for (int64_t column = 0; column < 5 * row; ++column) {
        indices.insert(indices.end(), {row, column});
        values.push_back(static_cast<float>(random() % 100) / 10);
      }
    }
    const auto n = static_cast<int64_t>(values.size());
    if (!sorted) {
      for (int64_t i = 0; i < n; ++i) {
        const auto a = static_cast<size_t>(i), b = static_cast<size_t>(random() % static_cast<uint64_t>(n));
        std::swap(values[a], values[b]);
        std::swap(indices[2 * a], indices[2 * b]);
        std::swap(indices[2 * a + 1], indices[2 * b + 1]);
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      double sum = 0;
      for (size_t j = 0; j < values.size(); ++j) {
        if (indices[2 * i] == indices[2 * j]) sum += std::exp(static_cast<double>(values[j]));
      }
      want.push_back(static_cast<float>(std::exp(static_cast<double>(values[i])) / sum));
    }
    const Tensor out = *KernelRunner("SparseSoftmax")
                            .Input(Tensor::From<int64_t>(indices, TensorShape({n, 2})))
                            .Input(Tensor::From<float>(values, TensorShape({n})))
                            .Input(Tensor::From<int64_t>({7, 40}, TensorShape({2})))
                            .RunOne();
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(out.data<float>()[i], want[i], 1e-6 * want[i] + 1e-9);
  }
}

TEST(RaggedTest, PlacesOfRowsWithinRows) {
  // [[[], [a b]], [], [[c], [], [d e f]]] with elements of two numbers.
  const auto out =
      *KernelRunner("RaggedTensorToSparse")
           .Attr("RAGGED_RANK", 2)
           .Input(Tensor::From<int64_t>({0, 2, 2, 5}, TensorShape({4})))
           .Input(Tensor::From<int64_t>({0, 0, 2, 3, 3, 6}, TensorShape({6})))
           .Input(Tensor::From<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, TensorShape({6, 2})))
           .Run();
  ExpectTensorEqual(Tensor::From<int64_t>({0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1,  //
                                           2, 0, 0, 0, 2, 0, 0, 1, 2, 2, 0, 0, 2, 2, 0, 1,  //
                                           2, 2, 1, 0, 2, 2, 1, 1, 2, 2, 2, 0, 2, 2, 2, 1},
                                          TensorShape({12, 4})),
                    out[0]);
  ExpectTensorEqual(Tensor::From<int64_t>({3, 3, 3, 2}, TensorShape({4})), out[2]);
}

}  // namespace
}  // namespace millrace
