// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensorflow/c/tf_tensor.h"

#include <algorithm>
#include <cstring>

#include "c/internal.h"
#include "c/string_codec.h"
#include "tensor/allocator.h"
#include "tensor/tensor_codec.h"
#include "tensor/variant.h"
#include "tensorflow/core/framework/resource_handle.pb.h"

namespace millrace::c_api {
namespace {

// The largest alignment that the engine's kernels rely on; memory of malloc has it.
constexpr size_t kAlignment = 16;

bool IsAligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kAlignment == 0; }
bool HasTwoForms(DataType dtype) { return dtype == DataType::kString || dtype == DataType::kResource; }

// Programs may write any byte for true; kernels rely on 0 and 1. A copy where that is not so.
StatusOr<Tensor> CleanBools(const Tensor& tensor) {
  const auto* bytes = static_cast<const uint8_t*>(tensor.raw_data());
  const auto count = static_cast<size_t>(tensor.num_elements());
  uint8_t all = 0;
  for (size_t i = 0; i < count; ++i) all |= bytes[i];
  if (all <= 1) return tensor;
  MR_ASSIGN_OR_RETURN(Tensor clean, Tensor::Allocate(DataType::kBool, tensor.shape()));
  std::transform(bytes, bytes + count, clean.data<bool>(), [](uint8_t byte) { return byte != 0; });
  return clean;
}

void NoDeallocator(void* /*data*/, size_t /*length*/, void* /*arg*/) {}

// Memory of the engine's allocator, as a buffer that gives it back.
RefPtr<Buffer> AllocateBytes(size_t bytes) {
  Allocator& allocator = CpuAllocator();
  const size_t room = bytes == 0 ? 1 : bytes;
  void* data = allocator.Allocate(room);
  if (data == nullptr) return nullptr;
  return Buffer::Wrap(data, bytes, [&allocator, data, room] { allocator.Deallocate(data, room); });
}

// `buffer` as a tensor of the C API. Null when it is too small for the shape.
TF_Tensor* Make(DataType dtype, const TensorShape& shape, RefPtr<Buffer> buffer) {
  const size_t size = buffer->size();
  const auto count = static_cast<size_t>(shape.num_elements());
  const size_t element = TF_DataTypeSize(static_cast<TF_DataType>(dtype));
  if (element > 0 && count > size / element) return nullptr;
  auto tensor = std::make_unique<TF_Tensor>();
  tensor->data = buffer->data();
  tensor->size = size;
  if (element == 0) {
    tensor->value = Tensor::FromBuffer(dtype, shape, nullptr, nullptr);
    tensor->encoded = std::move(buffer);
  } else {
    void* data = buffer->data();
    tensor->value = Tensor::FromBuffer(dtype, shape, std::move(buffer), data);
  }
  return tensor.release();
}

StatusOr<Tensor> DecodeResource(const TF_Tensor& tensor) {
  if (tensor.value.rank() != 0) {
    return errors::InvalidArgument(
        "Malformed TF_RESOURCE tensor: expected a scalar, got a tensor with shape ", tensor.value.shape());
  }
  tensorflow::ResourceHandleProto proto;
  if (!Parse(tensor.data, tensor.size, &proto)) {
    return errors::InvalidArgument("Malformed TF_RESOURCE tensor: unable to parse resource handle");
  }
  MR_ASSIGN_OR_RETURN(ResourceHandle handle, ResourceHandleFromProto(proto));
  return Tensor::Scalar(handle);
}

StatusOr<TF_Tensor*> EncodeResource(const Tensor& tensor) {
  if (tensor.rank() != 0) {
    return errors::InvalidArgument("Unexpected non-scalar DT_RESOURCE tensor seen (shape: ", tensor.shape(),
                                   ")");
  }
  tensorflow::ResourceHandleProto proto;
  ResourceHandleToProto(tensor.scalar<ResourceHandle>(), &proto);
  const std::string bytes = proto.SerializeAsString();
  RefPtr<Buffer> buffer = AllocateBytes(bytes.size());
  if (buffer == nullptr) return errors::ResourceExhausted("No memory for a resource handle");
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return Make(DataType::kResource, TensorShape(), std::move(buffer));
}

StatusOr<TF_Tensor*> EncodeStringTensor(const Tensor& tensor) {
  const auto strings = tensor.flat<std::string>();
  RefPtr<Buffer> buffer = AllocateBytes(EncodedStringsSize(strings));
  if (buffer == nullptr) {
    return errors::ResourceExhausted("No memory for the strings of a tensor with shape ", tensor.shape());
  }
  EncodeStrings(strings, static_cast<char*>(buffer->data()));
  return Make(DataType::kString, tensor.shape(), std::move(buffer));
}

}  // namespace

StatusOr<Tensor> ToTensor(const TF_Tensor* tensor) {
  if (tensor == nullptr) return NullArgument("A tensor");
  if (tensor->encoded == nullptr) {
    if (!tensor->value.IsInitialized()) {
      return errors::FailedPrecondition("attempt to use a tensor with an uninitialized value");
    }
    return tensor->value.dtype() == DataType::kBool ? CleanBools(tensor->value) : tensor->value;
  }
  if (tensor->value.dtype() == DataType::kResource) return DecodeResource(*tensor);
  if (tensor->value.dtype() == DataType::kString) {
    return DecodeStrings({static_cast<const char*>(tensor->data), tensor->size}, tensor->value.shape());
  }
  return errors::InvalidArgument("A tensor of type ", tensor->value.dtype(), " cannot be created from bytes");
}

StatusOr<Tensor> CopyOfTensor(const TF_Tensor* tensor) {
  MR_ASSIGN_OR_RETURN(Tensor value, ToTensor(tensor));
  if (HasTwoForms(value.dtype()) || value.num_elements() == 0) return value;
  MR_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(value.dtype(), value.shape()));
  if (value.dtype() == DataType::kVariant) {
    std::copy_n(value.data<Variant>(), value.num_elements(), copy.data<Variant>());
  } else {
    std::memcpy(copy.raw_data(), value.raw_data(), value.num_bytes());
  }
  return copy;
}

StatusOr<TF_Tensor*> FromTensor(const Tensor& tensor) {
  if (!tensor.IsInitialized()) {
    return errors::FailedPrecondition("attempt to use a tensor with an uninitialized value");
  }
  if (tensor.num_elements() == 0) return FromOutput(tensor);
  if (tensor.dtype() == DataType::kResource) return EncodeResource(tensor);
  if (tensor.dtype() == DataType::kString) return EncodeStringTensor(tensor);
  auto result = std::make_unique<TF_Tensor>();
  result->value = tensor;
  result->data = result->value.raw_data();
  result->size = tensor.num_bytes();
  result->owns_memory = true;
  return result.release();
}

StatusOr<TF_Tensor*> FromOutput(Tensor tensor) {
  if (tensor.IsInitialized() && tensor.num_elements() > 0) {
    if (HasTwoForms(tensor.dtype())) return FromTensor(tensor);
    auto result = std::make_unique<TF_Tensor>();
    result->size = tensor.num_bytes();
    result->value = std::move(tensor);
    result->data = result->value.raw_data();
    result->owns_memory = true;
    return result.release();
  }
  auto result = std::make_unique<TF_Tensor>();
  result->value = std::move(tensor);
  result->data = internal::kNoElements;
  if (HasTwoForms(result->value.dtype())) {
    result->encoded = Buffer::Wrap(internal::kNoElements, 0, [] {});
  }
  return result.release();
}

Status CheckShape(const int64_t* dims, int num_dims) {
  if (num_dims > 0 && dims == nullptr) return NullArgument("The array of dimensions");
  return Status();
}

StatusOr<PartialShape> MakeShape(const int64_t* dims, int num_dims) {
  if (num_dims < 0) return PartialShape();
  MR_RETURN_IF_ERROR(CheckShape(dims, num_dims));
  return PartialShape::Make({dims, static_cast<size_t>(num_dims)});
}

}  // namespace millrace::c_api

using millrace::Buffer;
using millrace::DataType;
using millrace::RefPtr;
using millrace::TensorShape;
using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

size_t TF_DataTypeSize(TF_DataType dt) { return millrace::DataTypeSize(TypeOf(dt)); }

TF_Tensor* TF_NewTensor(TF_DataType dtype, const int64_t* dims, int num_dims, void* data, size_t len,
                        void (*deallocator)(void* data, size_t len, void* arg), void* deallocator_arg) {
  if (deallocator == nullptr) deallocator = NoDeallocator;
  return EnterOr<TF_Tensor*>(nullptr, [&]() -> TF_Tensor* {
    const DataType type = TypeOf(dtype);
    const bool plain = TF_DataTypeSize(dtype) > 0;
    const auto shape = CheckShape(dims, num_dims).ok() && num_dims >= 0
                           ? TensorShape::Make({dims, static_cast<size_t>(num_dims)})
                           : millrace::StatusOr<TensorShape>(NullArgument("The shape"));
    if (!shape.ok() || !millrace::IsKnownDataType(type) || millrace::IsRefType(type) ||
        (data == nullptr && len > 0)) {
      deallocator(data, len, deallocator_arg);
      return nullptr;
    }
    if (plain && !IsAligned(data)) {
      RefPtr<Buffer> copy = AllocateBytes(len);
      if (copy != nullptr) std::memcpy(copy->data(), data, len);
      deallocator(data, len, deallocator_arg);
      return copy == nullptr ? nullptr : Make(type, *shape, std::move(copy));
    }
    const auto release = [data, len, deallocator, deallocator_arg] {
      deallocator(data, len, deallocator_arg);
    };
    return Make(type, *shape, Buffer::Wrap(data, len, release));
  });
}

TF_Tensor* TF_AllocateTensor(TF_DataType dtype, const int64_t* dims, int num_dims, size_t len) {
  return EnterOr<TF_Tensor*>(nullptr, [&]() -> TF_Tensor* {
    const DataType type = TypeOf(dtype);
    if (!CheckShape(dims, num_dims).ok() || num_dims < 0 || !millrace::IsKnownDataType(type) ||
        millrace::IsRefType(type)) {
      return nullptr;
    }
    const auto shape = TensorShape::Make({dims, static_cast<size_t>(num_dims)});
    RefPtr<Buffer> buffer = shape.ok() ? AllocateBytes(len) : nullptr;
    return buffer == nullptr ? nullptr : Make(type, *shape, std::move(buffer));
  });
}

TF_Tensor* TF_TensorMaybeMove(TF_Tensor* tensor) {
  if (tensor == nullptr || !tensor->owns_memory) return nullptr;
  return tensor->encoded == nullptr && tensor->value.OwnsBufferAlone() ? tensor : nullptr;
}

void TF_DeleteTensor(TF_Tensor* tensor) { delete tensor; }

TF_DataType TF_TensorType(const TF_Tensor* tensor) {
  return static_cast<TF_DataType>(tensor == nullptr ? DataType::kInvalid : tensor->value.dtype());
}

int TF_NumDims(const TF_Tensor* tensor) { return tensor == nullptr ? 0 : tensor->value.rank(); }

int64_t TF_Dim(const TF_Tensor* tensor, int dim_index) {
  if (tensor == nullptr || dim_index < 0 || dim_index >= tensor->value.rank()) return -1;
  return tensor->value.dim(dim_index);
}

size_t TF_TensorByteSize(const TF_Tensor* tensor) { return tensor == nullptr ? 0 : tensor->size; }

void* TF_TensorData(const TF_Tensor* tensor) { return tensor == nullptr ? nullptr : tensor->data; }

int64_t TF_TensorElementCount(const TF_Tensor* tensor) {
  return tensor == nullptr ? 0 : tensor->value.num_elements();
}

bool TF_TensorIsAligned(const TF_Tensor* tensor) { return tensor != nullptr && IsAligned(tensor->data); }

void TF_TensorBitcastFrom(const TF_Tensor* from, TF_DataType type, TF_Tensor* to, const int64_t* new_dims,
                          int num_new_dims, TF_Status* status) {
  Enter(status, [&]() -> millrace::Status {
    namespace errors = millrace::errors;
    if (from == nullptr || to == nullptr) return NullArgument("A tensor");
    if (num_new_dims < 0) return errors::InvalidArgument("A shape cannot have ", num_new_dims, " dimensions");
    MR_RETURN_IF_ERROR(CheckShape(new_dims, num_new_dims));
    MR_ASSIGN_OR_RETURN(const TensorShape shape,
                        TensorShape::Make({new_dims, static_cast<size_t>(num_new_dims)}));
    const size_t in_size = millrace::DataTypeSize(from->value.dtype());
    const size_t out_size = TF_DataTypeSize(type);
    if (in_size == 0) return errors::InvalidArgument("other tensor has zero-sized data type");
    if (out_size == 0) return errors::InvalidArgument("specified output type is zero-sized");
    const auto bytes = [](int64_t count, size_t size) { return static_cast<__int128>(count) * size; };
    if (bytes(shape.num_elements(), out_size) != bytes(from->value.num_elements(), in_size)) {
      return errors::InvalidArgument("input and output shapes/data type sizes are not compatible");
    }
    const bool owns_memory = from->owns_memory;
    millrace::Tensor value = from->value;
    void* data = value.raw_data();
    const size_t size = from->size;
    to->value = millrace::Tensor::FromBuffer(TypeOf(type), shape, ShareRef(value.buffer()), data);
    to->encoded.reset();
    to->data = from->data;
    to->size = size;
    to->owns_memory = owns_memory;
    return millrace::Status();
  });
}
