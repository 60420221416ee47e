// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that shape functions and kernels share.
#include <algorithm>

#include "op/shape_inference.h"

namespace millrace {

StatusOr<Padding> ParsePadding(std::string_view text) {
  if (text == "VALID") return Padding::kValid;
  if (text == "SAME") return Padding::kSame;
  if (text == "EXPLICIT") return Padding::kExplicit;
  return errors::InvalidArgument("Unknown padding type: ", text);
}

StatusOr<WindowedOutput> GetWindowedOutput(int64_t input, int64_t window, int64_t dilation, int64_t stride,
                                           Padding padding) {
  if (input < 0) return errors::InvalidArgument("Input size must be >= 0, but got ", input);
  if (window < 0) return errors::InvalidArgument("Window size must be >= 0, but got ", window);
  if (stride <= 0) return errors::InvalidArgument("Stride must be > 0, but got ", stride);
  if (dilation < 1) return errors::InvalidArgument("Dilation rate must be >= 1, but got ", dilation);
  // A window of w taps that are `dilation` apart spans (w - 1) * dilation + 1.
  int64_t span = 0;
  if (window > 0 &&
      (__builtin_mul_overflow(window - 1, dilation, &span) || __builtin_add_overflow(span, 1, &span))) {
    return errors::InvalidArgument("Window of ", window, " with dilation ", dilation, " is too large");
  }
  WindowedOutput result;
  switch (padding) {
    case Padding::kValid: {
      if (input < span && span - input > stride - 1) {
        // The quotient below rounds towards zero, so that a window that is too large by less than the stride
        // gives 0.
        if (const int64_t size = (input - span + stride) / stride; size < 0) {
          return errors::InvalidArgument("Computed output size would be negative: ", size,
                                         " [input_size: ", input, ", effective_filter_size: ", span,
                                         ", stride: ", stride, "]");
        }
        return result;
      }
      // (input - span + stride) / stride without overflow.
      result.size = input < span ? 0 : (input - span) / stride + 1;
      return result;
    }
    case Padding::kSame: {
      result.size = input / stride + (input % stride != 0 ? 1 : 0);
      if (result.size == 0) return result;
      // (size - 1) * stride < input, so this does not overflow.
      const int64_t covered = (result.size - 1) * stride;
      const int64_t pad = std::max<int64_t>(0, span - (input - covered));
      result.pad_before = pad / 2;
      result.pad_after = pad - pad / 2;
      return result;
    }
    case Padding::kExplicit:
      break;
  }
  return errors::InvalidArgument("Explicit padding has to be given with its amounts");
}

StatusOr<TensorShape> BroadcastShapes(const TensorShape& a, const TensorShape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank());
    const int ib = i - (rank - b.rank());
    const int64_t x = ia < 0 ? 1 : a.dim(ia);
    const int64_t y = ib < 0 ? 1 : b.dim(ib);
    if (x != y && x != 1 && y != 1) {
      return errors::InvalidArgument("Incompatible shapes: ", a.ToString(), " vs. ", b.ToString());
    }
    dims[i] = x == 1 ? y : x;
  }
  return TensorShape::Make(dims);
}

}  // namespace millrace
