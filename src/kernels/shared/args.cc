// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/args.h"

namespace millrace {

int64_t IntValue(const Tensor& t, int64_t i) {
  return t.dtype() == DataType::kInt32 ? t.data<int32_t>()[i] : t.data<int64_t>()[i];
}

Dims IntValues(const Tensor& t) {
  Dims values;
  values.resize(static_cast<uint32_t>(t.num_elements()));
  for (uint32_t i = 0; i < values.size(); ++i) values[i] = IntValue(t, i);
  return values;
}

StatusOr<TensorShape> ShapeFromValues(std::span<const int64_t> values) {
  TensorShape shape;
  for (const int64_t size : values) {
    if (size < 0) return errors::InvalidArgument("Dimension ", size, " must be >= 0");
    MR_RETURN_IF_ERROR(shape.TryAddDim(size));
  }
  return shape;
}

StatusOr<TensorShape> ShapeFromTensor(const Tensor& t, std::string_view name) {
  if (!t.shape().IsVector()) {
    return errors::InvalidArgument(name, " must be a vector", name == "shape" ? " of {int32,int64}" : "",
                                   ", got shape ", t.shape());
  }
  if (t.num_elements() > TensorShape::kMaxRank) {
    return errors::InvalidArgument("Too many dimensions: ", t.num_elements());
  }
  return ShapeFromValues(IntValues(t));
}

std::string IndexText(const TensorShape& shape, int64_t flat) {
  if (shape.rank() == 0) return "";
  Dims index;
  index.resize(static_cast<uint32_t>(shape.rank()));
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[i] = flat % shape.dim(i);
    flat /= shape.dim(i);
  }
  return StrCat("[", JoinInts(index), "]");
}

std::string JoinInts(std::span<const int64_t> values, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += separator;
    out += std::to_string(values[i]);
  }
  return out;
}

Dims RowMajorStrides(std::span<const int64_t> dims) {
  Dims strides;
  strides.resize(static_cast<uint32_t>(dims.size()));
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    if (dims[i] > 0) stride *= dims[i];
  }
  return strides;
}

Dims BroadcastStrides(std::span<const int64_t> from, std::span<const int64_t> to) {
  const Dims own = RowMajorStrides(from);
  Dims strides;
  strides.resize(static_cast<uint32_t>(to.size()));
  const size_t missing = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1) strides[missing + i] = own[i];
  }
  return strides;
}

int64_t ProductOf(std::span<const int64_t> dims, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= dims[i];
  return product;
}

}  // namespace millrace
