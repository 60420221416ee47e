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
  // What one message may make us allocate, nested tensors and copies of repeated values included: a few bytes
  // can claim any number of elements.
  int64_t max_bytes = int64_t{2} << 30;
  Allocator* allocator = nullptr;  // null: CpuAllocator()
};

// Reads either encoding: typed lists, where the last value stands for all that follow and an empty list for
// zeros, or tensor_content. InvalidArgument for a message that contradicts itself, ResourceExhausted over the
// limit.
StatusOr<Tensor> TensorFromProto(const tensorflow::TensorProto& proto,
                                 const TensorDecodeOptions& options = {});
// The same, of a message that is not needed any more: a tensor of a plain type with much data takes the
// message's memory over instead of copying it. `proto` is left valid, with or without its values.
StatusOr<Tensor> TakeTensorFromProto(tensorflow::TensorProto* proto, const TensorDecodeOptions& options = {});
// Typed lists, without repeats at the end. An uninitialised tensor gives its type and shape only, as does one
// with more than 2^31 - 1 different values, which no message can hold (and the log says so).
void TensorToProto(const Tensor& tensor, tensorflow::TensorProto* proto);
// The elements as bytes: smaller and faster for plain types with many different values.
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
