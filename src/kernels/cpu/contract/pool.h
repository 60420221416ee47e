// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Max and average pooling over windows of [batch, height, width, channels], and their gradients, on raw
// pointers.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/parallel.h"

namespace millrace::cpu {

// Sizes of one pooling. Pixels of a window outside the image don't count: max ignores them and average
// divides by the number of pixels inside. A window that is wholly outside gives the lowest finite value
// (max) or 0 (average). REQUIRES: sizes >= 0, windows and strides >= 1, pads >= 0.
struct PoolParams {
  int64_t batch = 0;
  int64_t in_h = 0, in_w = 0, channels = 0;
  int64_t out_h = 0, out_w = 0;
  int64_t window_h = 1, window_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_top = 0, pad_left = 0;
};

// All are instantiated for float and double, those of the maximum also for int64_t, as plain loops. For max,
// NaN is larger than every number.
template <typename T>
void MaxPool(const PoolParams& params, const T* input, T* output, Parallel& parallel);

// Each output's gradient goes to the first maximum of its window (row by row). Needs only the input, not the
// output.
template <typename T>
void MaxPoolGrad(const PoolParams& params, const T* input, const T* out_grad, T* in_grad, Parallel& parallel);

// The gradient of MaxPoolGrad for its out_grad: each output takes the value that `in_grad` has at the first
// maximum of its window, 0 if the window is wholly outside.
template <typename T>
void MaxPoolGradGrad(const PoolParams& params, const T* input, const T* in_grad, T* out, Parallel& parallel);

template <>
void MaxPool(const PoolParams& params, const int64_t* input, int64_t* output, Parallel& parallel);
template <>
void MaxPoolGrad(const PoolParams& params, const int64_t* input, const int64_t* out_grad, int64_t* in_grad,
                 Parallel& parallel);

template <typename T>
void AvgPool(const PoolParams& params, const T* input, T* output, Parallel& parallel);

template <typename T>
void AvgPoolGrad(const PoolParams& params, const T* out_grad, T* in_grad, Parallel& parallel);

}  // namespace millrace::cpu
