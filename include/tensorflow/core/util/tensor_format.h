// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The order of the dimensions of a batch of images.
#ifndef TENSORFLOW_CORE_UTIL_TENSOR_FORMAT_H_
#define TENSORFLOW_CORE_UTIL_TENSOR_FORMAT_H_

#include "tensorflow/core/framework/tensor.h"

namespace tensorflow {

enum TensorFormat { FORMAT_NHWC = 0, FORMAT_NCHW = 1 };

inline bool FormatFromString(const string& text, TensorFormat* format) {
  if (text != "NHWC" && text != "NDHWC" && text != "NCHW" && text != "NCDHW") return false;
  *format = text == "NHWC" || text == "NDHWC" ? FORMAT_NHWC : FORMAT_NCHW;
  return true;
}
inline string ToString(TensorFormat format) { return format == FORMAT_NHWC ? "NHWC" : "NCHW"; }

// The index of dimension 'N', 'C', of the spatial ones 'H' and 'W', or '0', '1', '2' in a tensor of that
// rank; -1 for others.
template <int SpatialDims = 2>
int32 GetTensorDimIndex(TensorFormat format, char dimension) {
  const int32 first = format == FORMAT_NHWC ? 1 : 2;
  switch (dimension) {
    case 'N':
      return 0;
    case 'C':
      return format == FORMAT_NHWC ? SpatialDims + 1 : 1;
    case 'H':
      return first + SpatialDims - 2;
    case 'W':
      return first + SpatialDims - 1;
    case '0':
    case '1':
    case '2':
      return dimension - '0' < SpatialDims ? first + (dimension - '0') : -1;
    default:
      return -1;
  }
}
inline int64 GetTensorDim(const TensorShapeRep& shape, TensorFormat format, char dimension) {
  const int32 at =
      shape.dims() == 5 ? GetTensorDimIndex<3>(format, dimension) : GetTensorDimIndex<2>(format, dimension);
  return at < 0 ? -1 : shape.dim_size(at);
}
inline int64 GetTensorDim(const Tensor& tensor, TensorFormat format, char dimension) {
  return GetTensorDim(tensor.shape(), format, dimension);
}
template <typename Number>
Number GetTensorDim(const std::vector<Number>& attribute, TensorFormat format, char dimension) {
  const int32 at = attribute.size() == 5 ? GetTensorDimIndex<3>(format, dimension)
                                         : GetTensorDimIndex<2>(format, dimension);
  return attribute.at(static_cast<size_t>(at));
}
inline TensorShape ShapeFromFormat(TensorFormat format, int64 n, int64 h, int64 w, int64 c) {
  return format == FORMAT_NHWC ? TensorShape({n, h, w, c}) : TensorShape({n, c, h, w});
}

}  // namespace tensorflow

#endif
