// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The gradient for a filter of one pixel: a product over all pixels of all images, which reads the image
// across its rows. Some hundred pixels of it at a time are copied in the order in which tiles read them: a
// few channels of all pixels, then the next ones. The gradients that follow are prefetched. NHWC.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/conv_geometry.h"

namespace millrace::cpu {

class PixelFilterGrad {
 public:
  // Whether the shape is supported, and large enough to gain. The layout doesn't count. REQUIRES: no size is
  // 0.
  static bool Suits(const ConvParams& params);
  explicit PixelFilterGrad(const ConvParams& params);

  // As ConvPlan::BackpropFilter, of images in NHWC. False: no memory.
  template <typename T>
  bool Run(const T* input, const T* out_grad, T* filter_grad, Parallel& parallel) const;

 private:
  // Copies the pixels of the image that results [first, first + count) read, numbered across all images.
  template <typename T>
  void Gather(const T* input, int64_t first, int64_t count, T* rows) const;
  template <typename T>
  void RunPart(int64_t part, const T* input, const T* out_grad, T* rows, T* scratch, T* sums) const;

  ConvParams p_;
  int64_t pixels_;  // of all results
  int64_t count_;   // pixels at a time
  int64_t parts_;   // of the pixels: units whose sums are added
};

}  // namespace millrace::cpu
