// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/resource_handle.h"

namespace tensorflow {
class ResourceHandleProto;
class TensorProto;
class TensorShapeProto;
enum DataType : int;
}  // namespace tensorflow

namespace millrace {

struct TensorDecodeOptions {
  // The limit of allocations for one message, including nested tensors and copies of repeated values: a few
  // bytes can claim any number of elements.
  int64_t max_bytes = int64_t{2} << 30;
  Allocator* allocator = nullptr;  // null: CpuAllocator()
};

// Reads either encoding: typed lists, where the last value stands for all that follow and an empty list
// for zeros, or tensor_content. InvalidArgument for an inconsistent message, ResourceExhausted over the
// limit.
StatusOr<Tensor> TensorFromProto(const tensorflow::TensorProto& proto,
                                 const TensorDecodeOptions& options = {});
// The same for a message that is no longer needed: a large tensor of a fixed-size type takes over the
// message's memory instead of copying it. `proto` is left valid, with or without its values.
StatusOr<Tensor> TakeTensorFromProto(tensorflow::TensorProto* proto, const TensorDecodeOptions& options = {});
// Typed lists, without repeats at the end. For an uninitialised tensor only type and shape are written, and
// also for one with more than 2^31 - 1 different values, which no message can hold (and the log says so).
void TensorToProto(const Tensor& tensor, tensorflow::TensorProto* proto);
// The elements as bytes: smaller and faster for fixed-size types with many different values.
void TensorToProtoContent(const Tensor& tensor, tensorflow::TensorProto* proto);

StatusOr<TensorShape> ShapeFromProto(const tensorflow::TensorShapeProto& proto);
StatusOr<PartialShape> PartialShapeFromProto(const tensorflow::TensorShapeProto& proto);
void ShapeToProto(const TensorShape& shape, tensorflow::TensorShapeProto* proto);
void ShapeToProto(const PartialShape& shape, tensorflow::TensorShapeProto* proto);

// The numbers are the same; reference types included. InvalidArgument for DT_INVALID and unknown numbers.
StatusOr<DataType> DataTypeFromProto(tensorflow::DataType dtype);
tensorflow::DataType DataTypeToProto(DataType dtype);

StatusOr<ResourceHandle> ResourceHandleFromProto(const tensorflow::ResourceHandleProto& proto);
void ResourceHandleToProto(const ResourceHandle& handle, tensorflow::ResourceHandleProto* proto);

}  // namespace millrace
