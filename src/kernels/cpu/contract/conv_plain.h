// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolution as plain loops that need no memory: for shapes that no other algorithm supports (padding or
// dilation far larger than the image) and for the case that memory is short. The units are output rows, or
// images for the gradients.
#pragma once

#include "kernels/cpu/contract/conv.h"

namespace millrace::cpu {

// As in ConvPlan; instantiated for float and double. Sizes of 0 are allowed.
template <typename T>
void PlainForward(const ConvParams& p, const T* input, const T* filter, T* output, Parallel& parallel,
                  const ConvEpilogue<T>& epilogue);
template <typename T>
void PlainBackpropInput(const ConvParams& p, const T* filter, const T* out_grad, T* in_grad,
                        Parallel& parallel);
template <typename T>
void PlainBackpropFilter(const ConvParams& p, const T* input, const T* out_grad, T* filter_grad,
                         Parallel& parallel);

}  // namespace millrace::cpu
