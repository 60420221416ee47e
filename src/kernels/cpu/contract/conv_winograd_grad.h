// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The gradient for the filter by the transposed steps of Winograd's convolution F(2x2, 3x3): the sum over all
// tiles of the products of transformed patches and transformed gradients is the gradient of the transformed
// filter. 2.25 times fewer multiplications than plain sums; large filters are computed in blocks of channels,
// whose sums stay in the second-level cache. The remarks of conv_winograd.h about rounding and
// infinite values apply here, too.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/conv.h"

namespace millrace::cpu {

class WinogradFilterGrad {
 public:
  // Whether the shape is supported, and large enough to gain.
  static bool Suits(const ConvParams& params);
  explicit WinogradFilterGrad(const ConvParams& params);

  // As ConvPlan::BackpropFilter. False: memory is short, or this method refuses the values.
  bool Run(const float* input, const float* out_grad, float* filter_grad, Parallel& parallel) const;

 private:
  // Rows of tiles, numbered across all images.
  struct Rows {
    int64_t first, count;
  };
  // Some channels of the input and of the output, whose sums a unit of work computes.
  struct Block {
    int64_t in, in_count, out, out_count;
  };
  Block BlockAt(int64_t index) const;
  bool TransformRows(Rows rows, const Block& block, const float* input, const float* out_grad,
                     const float* zeros, float* patches, float* gradients) const;
  // Adds to the gradient of the transformed filter, or sets it with `begin`.
  void Multiply(int64_t tiles, const Block& block, const float* patches, const float* gradients, bool begin,
                float* sums, float* scratch) const;
  bool RunPart(int64_t part, const Block& block, const float* input, const float* out_grad, float* memory,
               float* result) const;
  int64_t scratch_elements() const;

  ConvParams p_;
  int64_t image_rows_, row_tiles_;  // rows of tiles in an image, tiles in a row
  int64_t in_size_, out_size_;      // channels of a block; the last one may have fewer
  int64_t in_blocks_, out_blocks_;
  int64_t group_rows_;  // rows of tiles that are transformed before they are multiplied
  int64_t parts_;       // of all rows: units for the threads, whose results are summed
};

}  // namespace millrace::cpu
