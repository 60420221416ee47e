// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients beside the definition, in double precision.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cpu/contract/contract_testing.h"
#include "kernels/cpu/contract/conv.h"

namespace millrace::cpu {

inline constexpr double kUntouched = 77;

// Calls fn(input index, output index, filter index) for every product of the definition.
template <typename F>
void ForEachProduct(const ConvParams& p, const F& fn) {
  const bool nhwc = p.layout == ImageLayout::kNhwc;
  const auto at = [&](int64_t n, int64_t h, int64_t w, int64_t c, int64_t height, int64_t width,
                      int64_t channels) {
    return nhwc ? ((n * height + h) * width + w) * channels + c
                : ((n * channels + c) * height + h) * width + w;
  };
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t oh = 0; oh < p.out_h; ++oh) {
      for (int64_t ow = 0; ow < p.out_w; ++ow) {
        for (int64_t kh = 0; kh < p.filter_h; ++kh) {
          for (int64_t kw = 0; kw < p.filter_w; ++kw) {
            const int64_t ih = oh * p.stride_h + kh * p.dilation_h - p.pad_top;
            const int64_t iw = ow * p.stride_w + kw * p.dilation_w - p.pad_left;
            if (ih < 0 || ih >= p.in_h || iw < 0 || iw >= p.in_w) continue;
            for (int64_t c = 0; c < p.in_c; ++c) {
              for (int64_t o = 0; o < p.out_c; ++o) {
                fn(at(n, ih, iw, c, p.in_h, p.in_w, p.in_c), at(n, oh, ow, o, p.out_h, p.out_w, p.out_c),
                   ((kh * p.filter_w + kw) * p.in_c + c) * p.out_c + o);
              }
            }
          }
        }
      }
    }
  }
}

inline int64_t InputSize(const ConvParams& p) { return p.batch * p.in_h * p.in_w * p.in_c; }
inline int64_t OutputSize(const ConvParams& p) { return p.batch * p.out_h * p.out_w * p.out_c; }
inline int64_t FilterSize(const ConvParams& p) { return p.filter_h * p.filter_w * p.in_c * p.out_c; }

inline std::string Describe(const ConvParams& p) {
  std::string text = "isa " + std::to_string(static_cast<int>(ActiveIsa()));
  for (int64_t x : {p.batch, p.in_h, p.in_w, p.in_c, p.filter_h, p.filter_w, p.out_h, p.out_w, p.out_c,
                    p.stride_h, p.stride_w, p.dilation_h, p.dilation_w, p.pad_top, p.pad_left}) {
    text += " " + std::to_string(x);
  }
  return text + (p.layout == ImageLayout::kNhwc ? " NHWC" : " NCHW");
}

template <typename T>
struct Tensors {
  std::vector<T> input, filter, grad;
  EpilogueData<T> epilogue;
  Tensors(Random& random, const ConvParams& p)
      : input(random.Values<T>(InputSize(p))),
        filter(random.Values<T>(FilterSize(p))),
        grad(random.Values<T>(OutputSize(p))),
        epilogue(EpilogueData<T>::Make(random, p.out_c, OutputSize(p))) {}
};

template <typename T>
struct Results {
  std::vector<T> output, fused, in_grad, filter_grad;
};

template <typename T>
Results<T> RunAll(const ConvParams& p, const Tensors<T>& t, Parallel& parallel) {
  const ConvPlan plan(p);
  Results<T> r;
  r.output = r.fused = Filled<T>(OutputSize(p), kUntouched);
  r.in_grad = Filled<T>(InputSize(p), kUntouched);
  r.filter_grad = Filled<T>(FilterSize(p), kUntouched);
  plan.Forward(t.input.data(), t.filter.data(), r.output.data(), parallel);
  plan.Forward(t.input.data(), t.filter.data(), r.fused.data(), parallel, t.epilogue.Borrow());
  plan.BackpropInput(t.filter.data(), t.grad.data(), r.in_grad.data(), parallel);
  plan.BackpropFilter(t.input.data(), t.grad.data(), r.filter_grad.data(), parallel);
  return r;
}

template <typename T>
Results<double> Expected(const ConvParams& p, const Tensors<T>& t) {
  Results<double> r;
  r.output = Filled<double>(OutputSize(p), 0);
  r.in_grad = Filled<double>(InputSize(p), 0);
  r.filter_grad = Filled<double>(FilterSize(p), 0);
  ForEachProduct(p, [&](int64_t in, int64_t out, int64_t weight) {
    r.output[out] += static_cast<double>(t.input[in]) * static_cast<double>(t.filter[weight]);
    r.in_grad[in] += static_cast<double>(t.grad[out]) * static_cast<double>(t.filter[weight]);
    r.filter_grad[weight] += static_cast<double>(t.grad[out]) * static_cast<double>(t.input[in]);
  });
  r.fused = r.output;
  for (size_t i = 0; i < r.fused.size(); ++i) {
    const int64_t pixels = p.out_h * p.out_w;
    const int64_t index = static_cast<int64_t>(i);
    const int64_t o = p.layout == ImageLayout::kNhwc ? index % p.out_c : index / pixels % p.out_c;
    r.fused[i] = t.epilogue.Apply(r.fused[i], o, index);
  }
  return r;
}

template <typename T>
void CheckAgainstDefinition(const ConvParams& p, uint32_t seed) {
  Random random(seed);
  const Tensors<T> tensors(random, p);
  const Results<double> want = Expected(p, tensors);
  ForEachIsa([&](Isa) {
    ThreadedParallel parallel(1);
    const Results<T> got = RunAll(p, tensors, parallel);
    const int64_t taps = p.filter_h * p.filter_w;
    EXPECT_LE(ErrorOf(got.output, want.output, taps * p.in_c + 1), 1.0) << "forward " << Describe(p);
    EXPECT_LE(ErrorOf(got.fused, want.fused, taps * p.in_c + 4), 1.0) << "fused " << Describe(p);
    EXPECT_LE(ErrorOf(got.in_grad, want.in_grad, taps * p.out_c + 1), 1.0) << "input " << Describe(p);
    EXPECT_LE(ErrorOf(got.filter_grad, want.filter_grad, p.batch * p.out_h * p.out_w + 1), 1.0)
        << "filter " << Describe(p);
  });
}

// The output size and padding of TensorFlow's SAME rule.
inline void PadSame(ConvParams& p) {
  const auto one = [](int64_t in, int64_t filter, int64_t stride, int64_t dilation, int64_t* out,
                      int64_t* before) {
    *out = (in + stride - 1) / stride;
    *before = std::max<int64_t>((*out - 1) * stride + (filter - 1) * dilation + 1 - in, 0) / 2;
  };
  one(p.in_h, p.filter_h, p.stride_h, p.dilation_h, &p.out_h, &p.pad_top);
  one(p.in_w, p.filter_w, p.stride_w, p.dilation_w, &p.out_w, &p.pad_left);
}

inline ConvParams Same(int64_t batch, int64_t side, int64_t in_c, int64_t filter, int64_t out_c,
                       int64_t stride) {
  ConvParams p{
      .batch = batch, .in_h = side, .in_w = side, .in_c = in_c, .filter_h = filter, .filter_w = filter};
  p.out_c = out_c;
  p.stride_h = p.stride_w = stride;
  PadSame(p);
  return p;
}

inline ConvParams RandomParams(Random& random, int64_t max_channels) {
  ConvParams p;
  p.batch = random.Int(1, 3);
  p.in_h = random.Int(1, 12), p.in_w = random.Int(1, 12), p.in_c = random.Int(1, max_channels);
  p.filter_h = random.Int(1, 5), p.filter_w = random.Int(1, 5), p.out_c = random.Int(1, max_channels);
  p.stride_h = random.Int(1, 3), p.stride_w = random.Int(1, 3);
  p.dilation_h = random.Int(1, 3), p.dilation_w = random.Int(1, 3);
  if (random.Coin()) p.dilation_h = p.dilation_w = 1;
  p.layout = random.Coin() ? ImageLayout::kNhwc : ImageLayout::kNchw;
  if (random.Coin()) {
    PadSame(p);
    return p;
  }
  const auto explicit_pad = [&](int64_t in, int64_t filter, int64_t stride, int64_t dilation, int64_t* pad) {
    *pad = random.Int(0, 4);
    const int64_t padded = in + *pad + random.Int(0, 4) - ((filter - 1) * dilation + 1);
    return padded < 0 ? 0 : padded / stride + 1;
  };
  p.out_h = explicit_pad(p.in_h, p.filter_h, p.stride_h, p.dilation_h, &p.pad_top);
  p.out_w = explicit_pad(p.in_w, p.filter_w, p.stride_w, p.dilation_w, &p.pad_left);
  return p;
}

}  // namespace millrace::cpu
