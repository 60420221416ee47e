// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution and its gradients with random sizes, compared with loops over the definition.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernel/testing.h"
#include "op/shape_inference.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

class DepthwiseTest : public testing::Test {
 protected:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  // Small whole numbers, whose sums are exact.
  Tensor Numbers(const TensorShape& shape) {
    Tensor t(DataType::kFloat, shape);
    for (float& x : t.flat<float>()) x = static_cast<float>(Below(7) - 3);
    return t;
  }

  void Draw() {
    batch_ = 1 + Below(3);
    height_ = 1 + Below(9);
    width_ = 1 + Below(14);
    static constexpr int64_t kChannels[] = {1, 2, 3, 7, 8, 16, 19, 33, 40, 64};
    channels_ = kChannels[Below(10)];
    multiplier_ = 1 + Below(3) / 2 * 2;
    filter_h_ = 1 + Below(4);
    filter_w_ = 1 + Below(4);
    stride_ = {1 + Below(3), 1 + Below(3)};
    dilation_ = {1 + Below(2), 1 + Below(2)};
    padding_ = Below(2) == 0 || height_ < 8 || width_ < 8 ? "SAME" : "VALID";
    const Padding padding = padding_ == "SAME" ? Padding::kSame : Padding::kValid;
    rows_ = *GetWindowedOutput(height_, filter_h_, dilation_[0], stride_[0], padding);
    columns_ = *GetWindowedOutput(width_, filter_w_, dilation_[1], stride_[1], padding);
    x_ = Numbers({batch_, height_, width_, channels_});
    w_ = Numbers({filter_h_, filter_w_, channels_, multiplier_});
    dy_ = Numbers({batch_, rows_.size, columns_.size, channels_ * multiplier_});
  }

  // Calls fn(x, w, y), indices in the three arrays, for every product of the definition.
  template <typename Fn>
  void ForProducts(Fn fn) const {
    for (int64_t b = 0; b < batch_; ++b) {
      for (int64_t oy = 0; oy < rows_.size; ++oy) {
        for (int64_t ox = 0; ox < columns_.size; ++ox) {
          for (int64_t i = 0; i < filter_h_; ++i) {
            for (int64_t j = 0; j < filter_w_; ++j) {
              const int64_t y = oy * stride_[0] + i * dilation_[0] - rows_.pad_before;
              const int64_t x = ox * stride_[1] + j * dilation_[1] - columns_.pad_before;
              if (y < 0 || y >= height_ || x < 0 || x >= width_) continue;
              for (int64_t c = 0; c < channels_; ++c) {
                for (int64_t m = 0; m < multiplier_; ++m) {
                  fn(((b * height_ + y) * width_ + x) * channels_ + c,
                     ((i * filter_w_ + j) * channels_ + c) * multiplier_ + m,
                     ((b * rows_.size + oy) * columns_.size + ox) * channels_ * multiplier_ +
                         c * multiplier_ + m);
                }
              }
            }
          }
        }
      }
    }
  }

  StatusOr<Tensor> Run(const char* op, const std::vector<Tensor>& inputs, ThreadPool* pool = nullptr) const {
    KernelRunner runner(op);
    runner.Attr("strides", std::vector<int64_t>{1, stride_[0], stride_[1], 1})
        .Attr("dilations", std::vector<int64_t>{1, dilation_[0], dilation_[1], 1})
        .Attr("padding", padding_)
        .Pool(pool);
    for (const Tensor& t : inputs) runner.Input(t);
    return runner.RunOne();
  }

  static Tensor Sizes(const Tensor& t) {
    std::vector<int32_t> sizes;
    for (const int64_t d : t.shape().dims()) sizes.push_back(static_cast<int32_t>(d));
    return Tensor::Vector<int32_t>(sizes);
  }
  static Tensor Zeros(const TensorShape& shape) {
    return Tensor::From<float>(std::vector<float>(static_cast<size_t>(shape.num_elements())), shape);
  }

  std::mt19937 random_{7};
  int64_t batch_ = 0, height_ = 0, width_ = 0, channels_ = 0, multiplier_ = 0, filter_h_ = 0, filter_w_ = 0;
  std::vector<int64_t> stride_, dilation_;
  std::string padding_;
  WindowedOutput rows_, columns_;
  Tensor x_, w_, dy_;
};

TEST_F(DepthwiseTest, AllThreeAgreeWithTheDefinition) {
  ThreadPool pool("depthwise", 3);
  for (int trial = 0; trial < 300; ++trial) {
    Draw();
    SCOPED_TRACE(StrCat("trial ", trial, ": ", x_.shape(), " by ", w_.shape(), " ", padding_, " strides ",
                        stride_[0], ",", stride_[1], " dilations ", dilation_[0], ",", dilation_[1]));
    Tensor y = Zeros(dy_.shape()), dx = Zeros(x_.shape()), dw = Zeros(w_.shape());
    ForProducts([&](int64_t x, int64_t w, int64_t o) {
      y.data<float>()[o] += x_.data<float>()[x] * w_.data<float>()[w];
      dx.data<float>()[x] += dy_.data<float>()[o] * w_.data<float>()[w];
      dw.data<float>()[w] += dy_.data<float>()[o] * x_.data<float>()[x];
    });
    ThreadPool* const threads = trial % 2 == 0 ? nullptr : &pool;
    const auto forward = Run("DepthwiseConv2dNative", {x_, w_}, threads);
    ASSERT_TRUE(forward.ok()) << forward.status();
    ExpectTensorEqual(y, *forward);
    const auto back = Run("DepthwiseConv2dNativeBackpropInput", {Sizes(x_), w_, dy_}, threads);
    ASSERT_TRUE(back.ok()) << back.status();
    ExpectTensorEqual(dx, *back);
    const auto filter = Run("DepthwiseConv2dNativeBackpropFilter", {x_, Sizes(w_), dy_}, threads);
    ASSERT_TRUE(filter.ok()) << filter.status();
    ExpectTensorEqual(dw, *filter);
    if (HasFailure()) return;
  }
}

TEST_F(DepthwiseTest, LargeWindowsAreSummedToo) {
  batch_ = 1;
  height_ = 5;
  width_ = 12;
  channels_ = 9;
  multiplier_ = 1;
  filter_h_ = 5;
  filter_w_ = 20;
  stride_ = {1, 1};
  dilation_ = {1, 1};
  padding_ = "SAME";
  rows_ = *GetWindowedOutput(5, 5, 1, 1, Padding::kSame);
  columns_ = *GetWindowedOutput(12, 20, 1, 1, Padding::kSame);
  x_ = Numbers({1, 5, 12, 9});
  w_ = Numbers({5, 20, 9, 1});
  Tensor y = Zeros({1, 5, 12, 9});
  ForProducts([&](int64_t x, int64_t w, int64_t o) {
    y.data<float>()[o] += x_.data<float>()[x] * w_.data<float>()[w];
  });
  const auto forward = Run("DepthwiseConv2dNative", {x_, w_});
  ASSERT_TRUE(forward.ok()) << forward.status();
  ExpectTensorEqual(y, *forward);
}

}  // namespace
}  // namespace millrace
