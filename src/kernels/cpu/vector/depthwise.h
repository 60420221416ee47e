// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution, which filters each channel on its own, and its gradients on raw arrays in NHWC.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/parallel.h"
#include "kernels/cpu/contract/rectify.h"
#include "kernels/cpu/vector/unary.h"

namespace millrace::cpu {

// Sizes of one convolution with one output channel for each input channel; the filter is [filter_h, filter_w,
// channels]. Padding is 0. REQUIRES: sizes >= 0, strides and dilations >= 1, pads >= 0.
struct DepthwiseParams {
  int64_t batch = 0;
  int64_t in_h = 0, in_w = 0, channels = 0;
  int64_t filter_h = 0, filter_w = 0;
  int64_t out_h = 0, out_w = 0;
  int64_t stride_h = 1, stride_w = 1;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t pad_top = 0, pad_left = 0;
};

// The operations on the results: y = rows(rectify(x * scale + shift)), by channel. Null: left out; scale and
// shift are set together.
template <typename T>
struct DepthwiseEpilogue {
  const T* scale = nullptr;
  const T* shift = nullptr;
  Rectify rectify = Rectify::kNone;
  UnaryFn rows = nullptr;  // applied to each row while it is in the cache
};

// All are instantiated for float and double. Results don't depend on the number of threads.
template <typename T>
void Depthwise(const DepthwiseParams& params, const T* input, const T* filter, T* output, Parallel& parallel,
               const DepthwiseEpilogue<T>& epilogue = {});

template <typename T>
void DepthwiseBackpropInput(const DepthwiseParams& params, const T* filter, const T* out_grad, T* in_grad,
                            Parallel& parallel);

template <typename T>
void DepthwiseBackpropFilter(const DepthwiseParams& params, const T* input, const T* out_grad, T* filter_grad,
                             Parallel& parallel);

}  // namespace millrace::cpu
