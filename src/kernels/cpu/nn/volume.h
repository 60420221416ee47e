// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the kernels of volumes share. They work on [batch, depth, height, width, channels]; the other
// layout is transposed.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cpu/kernel_util.h"
#include "op/shape_inference.h"

namespace millrace {

// Depth, height, width.
using Sides = std::array<int64_t, 3>;

// Reads the attr "data_format", if there is one: whether the channels precede the sides.
bool ReadChannelsFirst(KernelConstruction& c);
// The sides in a list attr of five values, which must be positive; those of batch and channels must be 1.
Sides ReadSides(KernelConstruction& c, const char* attr, bool channels_first);
Padding ReadVolumePadding(KernelConstruction& c);

// Windows that slide over a batch of volumes.
struct VolumeWindows {
  int64_t batch = 0, channels = 0;
  Sides in{}, window{}, stride{}, dilation{1, 1, 1}, out{}, pad{};

  TensorShape InShape() const { return {batch, in[0], in[1], in[2], channels}; }
  TensorShape OutShape() const { return {batch, out[0], out[1], out[2], channels}; }
  // The first index inside the volume of window `o`. REQUIRES: dilation 1.
  int64_t First(int side, int64_t o) const {
    return std::max<int64_t>(o * stride[static_cast<size_t>(side)] - pad[static_cast<size_t>(side)], 0);
  }
  int64_t End(int side, int64_t o) const {
    const auto s = static_cast<size_t>(side);
    return std::min(o * stride[s] - pad[s] + window[s], in[s]);
  }
};
// Computes outputs and paddings; `shape` is in the layout. Refuses outputs of more than 2^40 elements with
// `out_channels`.
StatusOr<VolumeWindows> MakeVolumeWindows(const TensorShape& shape, bool channels_first, const Sides& window,
                                          const Sides& stride, const Sides& dilation, Padding padding,
                                          int64_t out_channels);

// Converts a shape from NDHWC to the layout.
TensorShape InLayout(const TensorShape& shape, bool channels_first);
// Converts a tensor to NDHWC, and back to `out`.
StatusOr<Tensor> ToChannelsLast(KernelContext& context, const Tensor& t, bool channels_first);
void FromChannelsLast(KernelContext& context, const Tensor& t, Tensor* out);

}  // namespace millrace
