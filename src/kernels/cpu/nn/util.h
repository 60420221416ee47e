// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the neural-network kernels share: image layouts, windows, and half precision by way of float.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cpu/kernel_util.h"
#include "op/shape_inference.h"

namespace millrace {

// The positions of the dimensions of a 4-d image tensor.
struct ImageDims {
  bool nchw = false;
  int batch() const { return 0; }
  int height() const { return nchw ? 2 : 1; }
  int width() const { return nchw ? 3 : 2; }
  int channel() const { return nchw ? 1 : 3; }
  TensorShape Shape(int64_t n, int64_t h, int64_t w, int64_t c) const {
    return nchw ? TensorShape({n, c, h, w}) : TensorShape({n, h, w, c});
  }
};

// Reads the attr "data_format", if there is one.
inline ImageDims ReadImageDims(KernelConstruction& c) {
  ImageDims dims;
  if (!c.HasAttr("data_format")) return dims;
  const auto format = c.Attr<std::string>("data_format");
  dims.nchw = format == "NCHW";
  if (format != "NHWC" && format != "NCHW")
    c.SetError(errors::InvalidArgument("Invalid data format: ", format));
  return dims;
}

// A list attr of one value per dimension (strides, ksize, dilations): height and width are stored; batch and
// channel must be 1.
struct SpatialAttr {
  int64_t h = 1;
  int64_t w = 1;
};
SpatialAttr ReadSpatialAttr(KernelConstruction& c, const char* attr, const ImageDims& dims);
inline Padding ReadPadding(KernelConstruction& c) {
  auto padding = ParsePadding(c.Attr<std::string>("padding"));
  if (!padding.ok()) {
    c.SetError(padding.status());
    return Padding::kValid;
  }
  return *padding;
}

// The tensor's elements as float: the tensor itself if it is float, else a converted copy.
StatusOr<Tensor> ToFloat(KernelContext& context, const Tensor& t);
// Converts float results back into `to`, a tensor of half or bfloat16 of the same size.
void FromFloat(const KernelContext& context, const Tensor& from, Tensor* to);

// The attribute with which the pass `mixed_precision` makes a kernel of floats round factors to bfloat16.
inline bool RoundsFactors(KernelConstruction& c) {
  return c.HasAttr("_bfloat16_products") && c.Attr<bool>("_bfloat16_products");
}
// The elements of a bfloat16 tensor as the loops use them.
inline const uint16_t* Bf16Bits(const Tensor& t) { return static_cast<const uint16_t*>(t.raw_data()); }
inline uint16_t* Bf16Bits(Tensor& t) { return static_cast<uint16_t*>(t.raw_data()); }

// Refuses images of more than 2^40 elements, so that a kernel may compute sizes in int64_t without
// overflow.
Status CheckImageSize(const char* what, int64_t n, int64_t h, int64_t w, int64_t c);
// A pool's error for a tensor that is not an image; TensorFlow writes the layout as a number.
inline Status NotAnImage(int rank, bool nchw) {
  return errors::InvalidArgument("tensor_in_shape must have 2 spatial dimensions. ", rank, " ", nchw ? 1 : 0);
}

}  // namespace millrace
