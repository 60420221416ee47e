// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/partitioner.h"

#include <algorithm>
#include <string>

namespace millrace {
namespace {

Status CheckAxis(int axis, const TensorShape& shape) {
  if (axis >= 0 && axis < shape.rank()) return Status();
  return errors::InvalidArgument("Can not partition variable along axis ", axis, " when shape is only ",
                                 shape);
}

std::vector<int64_t> CutAxis(const TensorShape& shape, int axis, int64_t parts) {
  std::vector<int64_t> result(static_cast<size_t>(shape.rank()), 1);
  result[static_cast<size_t>(axis)] = parts;
  return result;
}

int64_t BytesOf(DataType dtype, int64_t bytes_per_string) {
  return dtype == DataType::kString ? bytes_per_string : static_cast<int64_t>(DataTypeSize(dtype));
}

int64_t CeilOfRatio(int64_t n, int64_t by) { return n / by + (n % by != 0 ? 1 : 0); }

}  // namespace

Partitioner FixedSizePartitioner(int64_t num_shards, int axis) {
  return [=](const TensorShape& shape, DataType) -> StatusOr<std::vector<int64_t>> {
    MR_RETURN_IF_ERROR(CheckAxis(axis, shape));
    if (num_shards < 1) return errors::InvalidArgument("num_shards must be positive.");
    return CutAxis(shape, axis, std::max<int64_t>(1, std::min(num_shards, shape.dim(axis))));
  };
}

Partitioner AxisSizePartitioner(const AxisSizePartitionerOptions& options) {
  return [options](const TensorShape& shape, DataType dtype) -> StatusOr<std::vector<int64_t>> {
    if (options.max_shard_bytes < 1 || options.bytes_per_string_element < 1) {
      return errors::InvalidArgument("Both max_shard_bytes and bytes_per_string_element must be positive.");
    }
    if (options.max_shards < 0) return errors::InvalidArgument("max_shards must be positive.");
    MR_RETURN_IF_ERROR(CheckAxis(options.axis, shape));
    const int64_t size = shape.dim(options.axis);
    const int64_t slice_elements = size == 0 ? 0 : shape.num_elements() / size;
    const int64_t slice_bytes = slice_elements * BytesOf(dtype, options.bytes_per_string_element);
    const int64_t slices = std::max<int64_t>(1, options.max_shard_bytes / std::max<int64_t>(1, slice_bytes));
    int64_t shards = std::max<int64_t>(1, CeilOfRatio(size, slices));
    if (options.max_shards > 0) shards = std::min(shards, options.max_shards);
    return CutAxis(shape, options.axis, shards);
  };
}

Partitioner MinMaxPartitioner(const MinMaxPartitionerOptions& options) {
  return [options](const TensorShape& shape, DataType dtype) -> StatusOr<std::vector<int64_t>> {
    MR_RETURN_IF_ERROR(CheckAxis(options.axis, shape));
    if (options.max_partitions < 1) return errors::InvalidArgument("max_partitions must be positive.");
    if (options.min_slice_size < 1) return errors::InvalidArgument("min_slice_size must be positive.");
    const int64_t bytes = shape.num_elements() * BytesOf(dtype, options.bytes_per_string_element);
    const int64_t parts = std::min(
        {CeilOfRatio(bytes, options.min_slice_size), options.max_partitions, shape.dim(options.axis)});
    return CutAxis(shape, options.axis, std::max<int64_t>(1, parts));
  };
}

StatusOr<Cut> CutBy(const Partitioner& partitioner, const TensorShape& shape, DataType dtype) {
  Cut cut;
  if (partitioner == nullptr || shape.rank() == 0) return cut;
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> parts, partitioner(shape, dtype));
  if (parts.size() != static_cast<size_t>(shape.rank())) {
    return errors::InvalidArgument(
        "Partitioner returned a partition list that does not match the Variable's rank: ", parts.size(),
        " vs. ", shape);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] < 1) return errors::InvalidArgument("Partitioner returned zero partitions for some axes");
    if (parts[i] == 1) continue;
    if (cut.parts > 1) {
      return errors::InvalidArgument("Can only slice a variable along one dimension: shape: ", shape);
    }
    if (parts[i] > shape.dim(static_cast<int>(i))) {
      return errors::InvalidArgument("a variable of shape ", shape, " can't be cut into ", parts[i],
                                     " parts along axis ", i);
    }
    cut = {static_cast<int>(i), parts[i]};
  }
  return cut;
}

std::vector<int64_t> Cut::Sizes(const TensorShape& shape) const {
  const int64_t size = shape.rank() == 0 ? 1 : shape.dim(axis);
  std::vector<int64_t> sizes(static_cast<size_t>(parts), size / parts);
  for (int64_t i = 0; i < size % parts; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

}  // namespace millrace
