// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/tensor.h"

#include <cstring>
#include <limits>

#include "base/strings.h"
#include "tensor/allocation_owner.h"
#include "tensor/allocator.h"
#include "tensor/buffer.h"
#include "tensor/dtype_table.h"

namespace millrace {

namespace internal {
alignas(64) char kNoElements[64];

namespace {

std::string Describe(const Tensor& t) {
  return StrCat("a tensor of type ", t.dtype(), " and shape ", t.shape());
}

}  // namespace

void WrongElementType(const Tensor& tensor, DataType wanted) {
  EndWithMessage(StrCat("Tensor: the elements of ", Describe(tensor), " are accessed as ", wanted));
}

void WrongRank(const Tensor& tensor, int wanted) {
  EndWithMessage(StrCat("Tensor: ", Describe(tensor), " is viewed as a tensor of rank ", wanted));
}

void NotOneElement(const Tensor& tensor) {
  if (!tensor.IsInitialized()) NotInitialized(tensor);
  EndWithMessage(StrCat("Tensor::scalar: ", Describe(tensor), " does not have exactly one element"));
}

void NotInitialized(const Tensor& tensor) {
  EndWithMessage(
      StrCat("Tensor: the elements of ", Describe(tensor), " are accessed, but it is not initialized"));
}

void WrongNumberOfValues(int64_t num_values, const TensorShape& shape) {
  EndWithMessage(StrCat("Tensor::From: ", num_values, " values for shape ", shape, ", which has ",
                        shape.num_elements(), " elements"));
}

void IndexOutOfRange(int dimension, int64_t index, int64_t size) {
  EndWithMessage(
      StrCat("Tensor: index ", index, " is out of range for dimension ", dimension, " of size ", size));
}

void NoDimensionOfView(int i, int rank) {
  EndWithMessage(StrCat("TensorView::dim: a view of rank ", rank, " has no dimension ", i));
}

void NullText() { EndWithMessage("Tensor, Literal, Input or OpAttrs: a text is a null pointer"); }

}  // namespace internal

namespace {

// No machine has more; far below what would overflow when a header is added.
constexpr int64_t kMaxBytes = int64_t{1} << 47;

// Nothing when the size overflows.
std::optional<int64_t> ByteSize(DataType dtype, int64_t count) {
  int64_t bytes;
  if (__builtin_mul_overflow(count, static_cast<int64_t>(ElementSize(dtype)), &bytes)) return std::nullopt;
  return bytes <= kMaxBytes ? std::optional(bytes) : std::nullopt;
}

}  // namespace

Tensor::Tensor(DataType dtype, const TensorShape& shape) : shape_(shape), dtype_(dtype) {
  if (shape.num_elements() == 0) {
    data_ = internal::kNoElements;
    return;
  }
  if (ElementSize(dtype) == 0 || !ByteSize(dtype, shape.num_elements())) return;
  RefPtr<Buffer> buffer = Buffer::Allocate(CpuAllocator(), dtype, shape.num_elements());
  if (buffer == nullptr) return;
  data_ = buffer->data();
  buffer_ = buffer.release();
}

StatusOr<Tensor> Tensor::Allocate(DataType dtype, const TensorShape& shape, Allocator& allocator) {
  if (ElementSize(dtype) == 0) {
    return errors::InvalidArgument("Tensor of shape ", shape, ": type ", dtype,
                                   " has no elements to allocate");
  }
  Tensor result;
  result.dtype_ = dtype;
  result.shape_ = shape;
  const int64_t count = shape.num_elements();
  if (count == 0) return result;
  if (!ByteSize(dtype, count)) {
    return errors::InvalidArgument("Tensor of shape ", shape, " and type ", dtype,
                                   ": the size in bytes overflows");
  }
  RefPtr<Buffer> buffer = Buffer::Allocate(allocator, dtype, count);
  if (buffer == nullptr) {
    if (OwnsMemory(dtype) && allocator.memory_space() != nullptr) {
      return errors::InvalidArgument("Tensors of type ", dtype, " are in host memory, not in that of ",
                                     allocator.name());
    }
    const auto* reporter = dynamic_cast<const ShortageReporter*>(&allocator);
    return errors::ResourceExhausted(
        "OOM when allocating tensor with shape", shape, " and type ", dtype, " by allocator ",
        allocator.name(),
        reporter == nullptr ? std::string() : ". " + reporter->DescribeShortage(*ByteSize(dtype, count)));
  }
  result.data_ = buffer->data();
  result.buffer_ = buffer.release();
  return result;
}

StatusOr<Tensor> Tensor::Allocate(DataType dtype, const TensorShape& shape) {
  return Allocate(dtype, shape, CpuAllocator());
}

Tensor Tensor::FromBuffer(DataType dtype, const TensorShape& shape, RefPtr<Buffer> buffer, void* data) {
  Tensor result;
  result.dtype_ = dtype;
  result.shape_ = shape;
  result.data_ = data;
  result.buffer_ = buffer.release();
  return result;
}

size_t Tensor::num_bytes() const { return static_cast<size_t>(num_elements()) * ElementSize(dtype_); }

Buffer* Tensor::buffer() const { return static_cast<Buffer*>(buffer_); }

Tensor Tensor::Slice(int64_t begin, int64_t end) const {
  if (rank() == 0 || begin < 0 || begin > end || end > dim(0)) {
    internal::EndWithMessage(
        StrCat("Tensor::Slice: rows [", begin, ", ", end, ") of ", internal::Describe(*this)));
  }
  Tensor result(*this);
  result.shape_.SetDim(0, end - begin);
  if (buffer_ != nullptr && dim(0) > 0) {
    const size_t row_bytes = num_bytes() / static_cast<size_t>(dim(0));
    result.data_ = static_cast<char*>(data_) + static_cast<size_t>(begin) * row_bytes;
  }
  return result;
}

StatusOr<Tensor> Tensor::Reshape(const TensorShape& shape) const {
  if (shape.num_elements() != num_elements()) {
    return errors::InvalidArgument("Cannot reshape a tensor of shape ", shape_, " with ", num_elements(),
                                   " elements to shape ", shape, " with ", shape.num_elements());
  }
  return WithShape(shape);
}

Tensor Tensor::WithShape(const TensorShape& shape) const {
  if (shape.num_elements() != num_elements()) {
    internal::EndWithMessage(StrCat("Tensor::WithShape: ", internal::Describe(*this), " gets shape ", shape));
  }
  Tensor result(*this);
  result.shape_ = shape;
  return result;
}

Tensor Tensor::DeepCopy() const {
  if (buffer_ == nullptr) return *this;
  Tensor result(dtype_, shape_);
  if (!result.IsInitialized() || num_elements() == 0) return result;
  switch (dtype_) {
    case DataType::kString:
      std::copy_n(data<std::string>(), num_elements(), result.data<std::string>());
      break;
    case DataType::kResource:
      std::copy_n(data<ResourceHandle>(), num_elements(), result.data<ResourceHandle>());
      break;
    case DataType::kVariant:
      std::copy_n(data<Variant>(), num_elements(), result.data<Variant>());
      break;
    default:
      std::memcpy(result.raw_data(), raw_data(), num_bytes());
  }
  return result;
}

}  // namespace millrace
