// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The gradient for the filter by the transposed steps of Winograd's convolution F(2x2, 3x3): the products of
// transformed patches and transformed gradients, added over all tiles, are the gradient of the transformed
// filter. 2.25 times fewer multiplications than plain sums; what conv_winograd.h says about rounding and
// infinite values holds here, too.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/conv.h"

namespace millrace::cpu {

class WinogradFilterGrad {
 public:
  // Whether the shape allows it, and is large enough to gain.
  static bool Suits(const ConvParams& params);
  explicit WinogradFilterGrad(const ConvParams& params);

  // As ConvPlan::BackpropFilter. False: no memory, or values that this method refuses.
  bool Run(const float* input, const float* out_grad, float* filter_grad, Parallel& parallel) const;

 private:
  // Rows of tiles, counted through all images.
  struct Rows {
    int64_t first, count;
  };
  bool TransformRows(Rows rows, const float* input, const float* out_grad, const float* zeros, float* patches,
                     float* gradients) const;
  // Adds to the gradient of the transformed filter, or begins it.
  void Multiply(int64_t tiles, const float* patches, const float* gradients, bool begin, float* sums,
                float* scratch) const;
  bool RunPart(int64_t part, const float* input, const float* out_grad, float* memory, float* result) const;
  int64_t scratch_elements() const;

  ConvParams p_;
  int64_t image_rows_, row_tiles_;  // rows of tiles in an image, tiles in a row
  int64_t group_rows_;              // rows of tiles that are transformed before they are multiplied
  int64_t parts_;                   // of all rows: units for the threads, whose results are added
};

}  // namespace millrace::cpu
