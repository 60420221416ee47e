// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/resource_handle.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace millrace {
namespace {

std::vector<int64_t> Sizes(const tensorflow::TensorShapeProto& proto) {
  std::vector<int64_t> sizes;
  sizes.reserve(static_cast<size_t>(proto.dim_size()));
  for (const auto& dim : proto.dim()) sizes.push_back(dim.size());
  return sizes;
}

}  // namespace

StatusOr<TensorShape> ShapeFromProto(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) return errors::InvalidArgument("Shape <unknown> is not fully defined");
  return TensorShape::Make(Sizes(proto));
}

StatusOr<PartialShape> PartialShapeFromProto(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) {
    if (proto.dim_size() > 0) {
      return errors::InvalidArgument("An unknown shape must not have any dimensions set, but has ",
                                     proto.dim_size());
    }
    return PartialShape();
  }
  return PartialShape::Make(Sizes(proto));
}

void ShapeToProto(const TensorShape& shape, tensorflow::TensorShapeProto* proto) {
  proto->Clear();
  for (const int64_t size : shape.dims()) proto->add_dim()->set_size(size);
}

void ShapeToProto(const PartialShape& shape, tensorflow::TensorShapeProto* proto) {
  proto->Clear();
  if (shape.unknown_rank()) return proto->set_unknown_rank(true);
  for (const int64_t size : shape.dims()) proto->add_dim()->set_size(size);
}

StatusOr<DataType> DataTypeFromProto(tensorflow::DataType dtype) {
  const auto result = static_cast<DataType>(dtype);
  if (!IsKnownDataType(result)) {
    return errors::InvalidArgument("Invalid data type ", DataTypeName(result), " (", static_cast<int>(dtype),
                                   ")");
  }
  return result;
}

tensorflow::DataType DataTypeToProto(DataType dtype) { return static_cast<tensorflow::DataType>(dtype); }

StatusOr<ResourceHandle> ResourceHandleFromProto(const tensorflow::ResourceHandleProto& proto) {
  ResourceHandle handle;
  handle.device = proto.device();
  handle.container = proto.container();
  handle.name = proto.name();
  handle.hash_code = proto.hash_code();
  handle.maybe_type_name = proto.maybe_type_name();
  for (const auto& entry : proto.dtypes_and_shapes()) {
    ResourceHandle::DtypeAndShape part;
    // An element type may be unset, as may the whole list.
    part.dtype = static_cast<DataType>(entry.dtype());
    if (part.dtype != DataType::kInvalid && !IsKnownDataType(part.dtype)) {
      return errors::InvalidArgument("Resource handle '", proto.name(), "': unknown type ",
                                     DataTypeName(part.dtype));
    }
    StatusOr<PartialShape> shape = PartialShapeFromProto(entry.shape());
    if (!shape.ok()) return shape.status().WithContext(StrCat(" (in resource handle '", proto.name(), "')"));
    part.shape = std::move(shape).value();
    handle.dtypes_and_shapes.push_back(std::move(part));
  }
  return handle;
}

void ResourceHandleToProto(const ResourceHandle& handle, tensorflow::ResourceHandleProto* proto) {
  proto->Clear();
  proto->set_device(handle.device);
  proto->set_container(handle.container);
  proto->set_name(handle.name);
  proto->set_hash_code(handle.hash_code);
  proto->set_maybe_type_name(handle.maybe_type_name);
  for (const auto& part : handle.dtypes_and_shapes) {
    auto* entry = proto->add_dtypes_and_shapes();
    entry->set_dtype(DataTypeToProto(part.dtype));
    ShapeToProto(part.shape, entry->mutable_shape());
  }
}

}  // namespace millrace
