// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/ref.h"
#include "millrace/shape.h"
#include "millrace/status.h"

namespace millrace {

class Allocator;
class Buffer;

namespace internal {
// Where the data of tensors without elements points, so that it is never null.
extern char kNoElements[64];
}  // namespace internal

// A typed n-dimensional array whose elements live in a reference-counted buffer. Copying a tensor shares the
// buffer. One tensor object may be used by one thread at a time; a buffer may be read by many. After a move
// the source may only be destroyed or assigned to.
class Tensor {
 public:
  // A float tensor of shape [0].
  Tensor() : shape_(TensorShape::EmptyVector()), data_(internal::kNoElements) {}
  // Allocates from the CPU allocator. When memory is short the tensor is left uninitialised: see
  // IsInitialized.
  Tensor(DataType dtype, const TensorShape& shape);
  ~Tensor() {
    if (buffer_ != nullptr) buffer_->Unref();
  }
  Tensor(const Tensor& o) : shape_(o.shape_), dtype_(o.dtype_), data_(o.data_), buffer_(o.buffer_) {
    if (buffer_ != nullptr) buffer_->Ref();
  }
  Tensor(Tensor&& o) noexcept
      : shape_(std::move(o.shape_)),
        dtype_(o.dtype_),
        data_(std::exchange(o.data_, nullptr)),
        buffer_(std::exchange(o.buffer_, nullptr)) {}
  Tensor& operator=(const Tensor& o) { return *this = Tensor(o); }
  Tensor& operator=(Tensor&& o) noexcept {
    if (this != &o) {
      RefCounted* const old = std::exchange(buffer_, std::exchange(o.buffer_, nullptr));
      shape_ = std::move(o.shape_);
      dtype_ = o.dtype_;
      data_ = std::exchange(o.data_, nullptr);
      if (old != nullptr) old->Unref();
    }
    return *this;
  }

  // ResourceExhausted when the memory can't be had, InvalidArgument when the byte size overflows.
  // Elements of plain types are not initialised; strings, handles and variants are constructed.
  static StatusOr<Tensor> Allocate(DataType dtype, const TensorShape& shape, Allocator& allocator);
  static StatusOr<Tensor> Allocate(DataType dtype, const TensorShape& shape);  // from CpuAllocator()
  // A view of `buffer` at `data`. REQUIRES: data[0, shape) lies in the buffer.
  static Tensor FromBuffer(DataType dtype, const TensorShape& shape, RefPtr<Buffer> buffer, void* data);
  template <typename T>
  static Tensor Scalar(const T& value) {
    Tensor t(kDataTypeOf<T>, TensorShape());
    *t.data<T>() = value;
    return t;
  }
  static Tensor Scalar(const char* value) { return Scalar<std::string>(value); }
  // REQUIRES: values.size() == shape.num_elements().
  template <typename T>
  static Tensor From(const std::vector<T>& values, const TensorShape& shape) {
    Tensor t(kDataTypeOf<T>, shape);
    if (t.IsInitialized()) std::copy(values.begin(), values.end(), t.data<T>());
    return t;
  }
  template <typename T>
  static Tensor Vector(const std::vector<T>& values) {
    return From<T>(values, TensorShape({static_cast<int64_t>(values.size())}));
  }

  // Lets the buffer go. Type and shape stay as they were; the elements are gone.
  void Clear() {
    if (buffer_ == nullptr) return;
    std::exchange(buffer_, nullptr)->Unref();
    data_ = nullptr;
  }

  DataType dtype() const { return dtype_; }
  const TensorShape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_.dim(i); }
  int64_t num_elements() const { return shape_.num_elements(); }
  // num_elements * element size (for strings: of the std::string objects).
  size_t num_bytes() const;
  // False for a tensor that has elements but no buffer: a variable before its first assignment.
  bool IsInitialized() const { return buffer_ != nullptr || num_elements() == 0; }
  // True when nobody else holds the buffer, which so may be overwritten.
  bool OwnsBufferAlone() const { return buffer_ != nullptr && buffer_->RefCountIsOne(); }
  bool SharesBufferWith(const Tensor& o) const { return buffer_ != nullptr && buffer_ == o.buffer_; }
  Buffer* buffer() const;  // null when there are no elements

  // REQUIRES: dtype() == kDataTypeOf<T>.
  template <typename T>
  T* data() {
    return static_cast<T*>(data_);
  }
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(data_);
  }
  template <typename T>
  std::span<T> flat() {
    return {data<T>(), static_cast<size_t>(num_elements())};
  }
  template <typename T>
  std::span<const T> flat() const {
    return {data<T>(), static_cast<size_t>(num_elements())};
  }
  template <typename T>
  T& scalar() {
    return *data<T>();
  }
  template <typename T>
  const T& scalar() const {
    return *data<T>();
  }
  void* raw_data() { return data_; }
  const void* raw_data() const { return data_; }

  // Rows [begin, end) of dimension 0, sharing the buffer. REQUIRES: rank >= 1, 0 <= begin <= end <= dim(0).
  Tensor Slice(int64_t begin, int64_t end) const;
  // The same elements under another shape, sharing the buffer; InvalidArgument when the counts differ.
  StatusOr<Tensor> Reshape(const TensorShape& shape) const;
  // Reinterprets without a check. REQUIRES: shape.num_elements() == num_elements().
  Tensor WithShape(const TensorShape& shape) const;
  // A copy that shares nothing.
  Tensor DeepCopy() const;

  // "Tensor<type: float shape: [2] values: 1 2>", at most `max_entries` values.
  std::string DebugString(int64_t max_entries = 10) const;

 private:
  TensorShape shape_;
  DataType dtype_ = DataType::kFloat;
  void* data_ = nullptr;
  RefCounted* buffer_ = nullptr;  // a Buffer; one reference is held
};

}  // namespace millrace
