// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/nn/volume.h"

#include "kernels/cpu/vector/transpose.h"

namespace millrace {

bool ReadChannelsFirst(KernelConstruction& c) {
  if (!c.HasAttr("data_format")) return false;
  const auto format = c.Attr<std::string>("data_format");
  if (format != "NDHWC" && format != "NCDHW")
    c.SetError(errors::InvalidArgument("Invalid data format: ", format));
  return format == "NCDHW";
}

Sides ReadSides(KernelConstruction& c, const char* attr, bool channels_first) {
  const auto values = c.Attr<std::vector<int64_t>>(attr);
  if (!c.status().ok()) return {1, 1, 1};
  if (values.size() != 5) {
    c.SetError(errors::InvalidArgument("Sliding window ", attr, " field must specify 5 dimensions"));
    return {1, 1, 1};
  }
  const size_t first = channels_first ? 2 : 1;
  if (values[0] != 1 || values[channels_first ? 1 : 4] != 1) {
    c.SetError(errors::InvalidArgument("Attr '", attr, "' must be 1 in the batch and depth dimensions"));
  }
  const Sides sides{values[first], values[first + 1], values[first + 2]};
  for (const int64_t side : sides) {
    if (side <= 0 || side > INT32_MAX)
      c.SetError(
          errors::InvalidArgument("Attr '", attr, "' must be positive and fit in 32 bits, got ", side));
  }
  return sides;
}

Padding ReadVolumePadding(KernelConstruction& c) {
  const auto padding = ParsePadding(c.Attr<std::string>("padding"));
  if (padding.ok()) return *padding;
  c.SetError(padding.status());
  return Padding::kValid;
}

StatusOr<VolumeWindows> MakeVolumeWindows(const TensorShape& shape, bool channels_first, const Sides& window,
                                          const Sides& stride, const Sides& dilation, Padding padding,
                                          int64_t out_channels) {
  if (shape.rank() != 5) return errors::InvalidArgument("input must be 5-dimensional, got shape ", shape);
  VolumeWindows w;
  w.batch = shape.dim(0);
  w.channels = shape.dim(channels_first ? 1 : 4);
  w.window = window;
  w.stride = stride;
  w.dilation = dilation;
  TensorShape out;
  MR_RETURN_IF_ERROR(out.TryAddDim(w.batch));
  MR_RETURN_IF_ERROR(out.TryAddDim(out_channels));
  for (size_t i = 0; i < 3; ++i) {
    w.in[i] = shape.dim(static_cast<int>(i) + (channels_first ? 2 : 1));
    MR_ASSIGN_OR_RETURN(const WindowedOutput side,
                        GetWindowedOutput(w.in[i], window[i], dilation[i], stride[i], padding));
    w.out[i] = side.size;
    w.pad[i] = side.pad_before;
    MR_RETURN_IF_ERROR(out.TryAddDim(side.size));
  }
  if (out.num_elements() > (int64_t{1} << 40))
    return errors::ResourceExhausted("The output would have shape ", out, ", which is too large");
  return w;
}

TensorShape InLayout(const TensorShape& shape, bool channels_first) {
  if (!channels_first) return shape;
  return {shape.dim(0), shape.dim(4), shape.dim(1), shape.dim(2), shape.dim(3)};
}

StatusOr<Tensor> ToChannelsLast(KernelContext& context, const Tensor& t, bool channels_first) {
  if (!channels_first) return t;
  static constexpr int kOrder[] = {0, 2, 3, 4, 1};
  MR_ASSIGN_OR_RETURN(Tensor moved,
                      context.AllocateTemp(t.dtype(), {t.dim(0), t.dim(2), t.dim(3), t.dim(4), t.dim(1)}));
  ContextParallel parallel(context);
  cpu::Transpose(t.raw_data(), t.shape().dims(), kOrder, static_cast<int64_t>(ElementSize(t.dtype())),
                 moved.raw_data(), parallel);
  return moved;
}

void FromChannelsLast(KernelContext& context, const Tensor& t, Tensor* out) {
  static constexpr int kOrder[] = {0, 4, 1, 2, 3};
  ContextParallel parallel(context);
  cpu::Transpose(t.raw_data(), t.shape().dims(), kOrder, static_cast<int64_t>(ElementSize(t.dtype())),
                 out->raw_data(), parallel);
}

}  // namespace millrace
