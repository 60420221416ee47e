// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The padding of convolutions and pools.
#ifndef TENSORFLOW_CORE_UTIL_PADDING_H_
#define TENSORFLOW_CORE_UTIL_PADDING_H_

#include "tensorflow/core/framework/op_kernel.h"

namespace tensorflow {

enum Padding { VALID = 1, SAME = 2, EXPLICIT = 3 };

inline Status GetPaddingFromString(const string& text, Padding* padding) {
  if (text == "SAME") return *padding = SAME, Status();
  if (text == "VALID") return *padding = VALID, Status();
  if (text == "EXPLICIT") return *padding = EXPLICIT, Status();
  return errors::NotFound(text, " is not an allowed padding type");
}
inline string GetPaddingAttrString() { return "padding: {'SAME', 'VALID'}"; }
inline string GetConvnetDataFormatAttrString() { return "data_format: { 'NHWC', 'NCHW' } = 'NHWC' "; }

namespace internal {
inline Status TakeAttr(const AttrValues& values, const string& name, Padding* padding) {
  string text;
  TF_RETURN_IF_ERROR(TakeAttr(values, name, &text));
  return GetPaddingFromString(text, padding);
}
}  // namespace internal

// The number of windows, and the padding before and after.
inline Status GetWindowedOutputSizeVerboseV2(int64 input, int64 window, int64 dilation, int64 stride,
                                             Padding padding, int64* output, int64* before, int64* after) {
  if (stride <= 0) return errors::InvalidArgument("Stride must be > 0, but got ", stride);
  if (dilation < 1) return errors::InvalidArgument("Dilation rate must be >= 1, but got ", dilation);
  const int64 reach = (window - 1) * dilation + 1;
  if (padding == VALID) {
    *output = (input - reach + stride) / stride;
    *before = *after = 0;
  } else if (padding == SAME) {
    *output = (input + stride - 1) / stride;
    const int64 needed = std::max<int64>(0, (*output - 1) * stride + reach - input);
    *before = needed / 2;
    *after = needed - *before;
  } else {
    *output = (input + *before + *after - reach + stride) / stride;
  }
  if (*output < 0)
    return errors::InvalidArgument("Computed output size would be negative: ", *output,
                                   " [input_size: ", input, ", effective_filter_size: ", reach,
                                   ", stride: ", stride, "]");
  return Status();
}
inline Status GetWindowedOutputSizeVerbose(int64 input, int64 window, int64 stride, Padding padding,
                                           int64* output, int64* before, int64* after) {
  return GetWindowedOutputSizeVerboseV2(input, window, 1, stride, padding, output, before, after);
}
inline Status GetWindowedOutputSize(int64 input, int64 window, int64 stride, Padding padding, int64* output,
                                    int64* before) {
  int64 after = 0;
  if (padding == EXPLICIT) return errors::Internal("GetWindowedOutputSize does not handle EXPLICIT padding");
  return GetWindowedOutputSizeVerbose(input, window, stride, padding, output, before, &after);
}

}  // namespace tensorflow

#endif
