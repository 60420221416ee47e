// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/ref.h"
#include "millrace/shape.h"
#include "millrace/status.h"

namespace millrace {

class Allocator;
class Buffer;

class Literal;
class Tensor;
template <typename T, int N>
class TensorView;

namespace internal {
// The data pointer of tensors without elements, so that it is never null.
extern char kNoElements[64];

// These end the program with a message with the function, the tensor's properties and the request.
[[noreturn]] void WrongElementType(const Tensor& tensor, DataType wanted);
[[noreturn]] void WrongRank(const Tensor& tensor, int wanted);
[[noreturn]] void NotOneElement(const Tensor& tensor);
[[noreturn]] void NotInitialized(const Tensor& tensor);
[[noreturn]] void WrongNumberOfValues(int64_t num_values, const TensorShape& shape);
[[noreturn]] void IndexOutOfRange(int dimension, int64_t index, int64_t size);
[[noreturn]] void NoDimensionOfView(int i, int rank);
[[noreturn]] void NullText();

// The element type of a C++ value in a tensor: std::string for all kinds of text.
template <typename T>
struct Element {
  using Type = T;
};
template <>
struct Element<std::string_view> {
  using Type = std::string;
};
template <>
struct Element<const char*> {
  using Type = std::string;
};
}  // namespace internal

// A typed n-dimensional array whose elements live in a reference-counted buffer. Copying a tensor shares the
// buffer. One tensor object may be used by one thread at a time; a buffer may be read by many. After a move
// the source may only be destroyed or assigned to.
class Tensor {
 public:
  // A float tensor of shape [0].
  Tensor() : shape_(TensorShape::EmptyVector()), data_(internal::kNoElements) {}
  // Allocates from the CPU allocator. If memory is exhausted the tensor is left uninitialised: see
  // IsInitialized.
  Tensor(DataType dtype, const TensorShape& shape);
  // Inline everywhere: on the path of a node tensors that were moved away are destroyed.
  [[gnu::always_inline]] ~Tensor() {
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

  // ResourceExhausted if the allocation fails, InvalidArgument if the byte size overflows. Elements of plain
  // types are not initialised; strings, handles and variants are constructed.
  static StatusOr<Tensor> Allocate(DataType dtype, const TensorShape& shape, Allocator& allocator);
  static StatusOr<Tensor> Allocate(DataType dtype, const TensorShape& shape);  // from CpuAllocator()
  // A view of `buffer` at `data`. REQUIRES: data[0, shape) lies in the buffer.
  static Tensor FromBuffer(DataType dtype, const TensorShape& shape, RefPtr<Buffer> buffer, void* data);
  // A tensor of rank 0.
  template <typename T>
  static Tensor Scalar(const T& value) {
    Tensor t(kDataTypeOf<T>, TensorShape());
    *t.data<T>() = value;
    return t;
  }
  static Tensor Scalar(std::string_view value) { return Scalar<std::string>(std::string(value)); }
  static Tensor Scalar(const char* value) {
    if (value == nullptr) [[unlikely]]
      internal::NullText();
    return Scalar(std::string_view(value));
  }
  // A tensor with these elements in row-major order. Texts may be std::string, std::string_view or const
  // char*. The program ends with a message if the number of values differs from the shape's.
  template <typename T>
  static Tensor From(std::span<const T> values, const TensorShape& shape) {
    return Copy<T>(values, shape);
  }
  template <typename T>
  static Tensor From(const std::vector<T>& values, const TensorShape& shape) {
    return Copy<T>(values, shape);
  }
  template <typename T>
  static Tensor From(std::initializer_list<T> values, const TensorShape& shape) {
    return Copy<T>(values, shape);
  }
  // The same of rank 1.
  template <typename T>
  static Tensor Vector(std::span<const T> values) {
    return Copy<T>(values, TensorShape({static_cast<int64_t>(values.size())}));
  }
  template <typename T>
  static Tensor Vector(const std::vector<T>& values) {
    return Copy<T>(values, TensorShape({static_cast<int64_t>(values.size())}));
  }
  template <typename T>
  static Tensor Vector(std::initializer_list<T> values) {
    return Copy<T>(values, TensorShape({static_cast<int64_t>(values.size())}));
  }
  // Nested lists: Tensor::Of({{1.f, 2.f}, {3.f, 4.f}}) is a float tensor of shape [2,2]. InvalidArgument if
  // rows differ in type or shape.
  static StatusOr<Tensor> Of(const Literal& value);

  // Releases the buffer. Type and shape are kept; the tensor is uninitialised.
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
  // True if there is no other reference to the buffer, which may then be overwritten.
  bool OwnsBufferAlone() const { return buffer_ != nullptr && buffer_->RefCountIsOne(); }
  bool SharesBufferWith(const Tensor& o) const { return buffer_ != nullptr && buffer_ == o.buffer_; }
  Buffer* buffer() const;  // null if there are no elements

  // The elements in row-major order; null if the tensor is not initialised. Like all typed accessors it ends
  // the program with a message if the elements are not of type T.
  template <typename T>
  T* data() {
    if (dtype_ != kDataTypeOf<T>) [[unlikely]]
      internal::WrongElementType(*this, kDataTypeOf<T>);
    return static_cast<T*>(data_);
  }
  template <typename T>
  const T* data() const {
    return const_cast<Tensor*>(this)->data<T>();
  }
  // The same with their number. The program ends with a message if the tensor is not initialised.
  template <typename T>
  std::span<T> flat() {
    T* const elements = data<T>();
    if (!IsInitialized()) [[unlikely]]
      internal::NotInitialized(*this);
    return {elements, static_cast<size_t>(num_elements())};
  }
  template <typename T>
  std::span<const T> flat() const {
    return const_cast<Tensor*>(this)->flat<T>();
  }
  // The only element, for any rank. The program ends with a message unless there is exactly one.
  template <typename T>
  T& scalar() {
    T* const element = data<T>();
    if (num_elements() != 1 || element == nullptr) [[unlikely]]
      internal::NotOneElement(*this);
    return *element;
  }
  template <typename T>
  const T& scalar() const {
    return const_cast<Tensor*>(this)->scalar<T>();
  }
  // Views by index: t.matrix<float>()(row, column). The program ends with a message if the rank is not N.
  template <typename T, int N>
  TensorView<T, N> tensor() {
    CheckView(N);
    return TensorView<T, N>(data<T>(), shape_.dims().data());
  }
  template <typename T, int N>
  TensorView<const T, N> tensor() const {
    CheckView(N);
    return TensorView<const T, N>(data<T>(), shape_.dims().data());
  }
  template <typename T>
  TensorView<T, 1> vec() {
    return tensor<T, 1>();
  }
  template <typename T>
  TensorView<const T, 1> vec() const {
    return tensor<T, 1>();
  }
  template <typename T>
  TensorView<T, 2> matrix() {
    return tensor<T, 2>();
  }
  template <typename T>
  TensorView<const T, 2> matrix() const {
    return tensor<T, 2>();
  }
  // Element `i`, in row-major order, of a string tensor. Valid until the element is changed.
  std::string_view text(int64_t i = 0) const {
    if (i < 0 || i >= num_elements() || data_ == nullptr) [[unlikely]]
      internal::IndexOutOfRange(0, i, data_ == nullptr ? 0 : num_elements());
    return data<std::string>()[i];
  }
  void* raw_data() { return data_; }
  const void* raw_data() const { return data_; }

  // Rows [begin, end) of dimension 0, sharing the buffer. REQUIRES: rank >= 1, 0 <= begin <= end <= dim(0).
  // The program ends with a message otherwise.
  Tensor Slice(int64_t begin, int64_t end) const;
  // The same elements with another shape, sharing the buffer; InvalidArgument if the counts differ.
  StatusOr<Tensor> Reshape(const TensorShape& shape) const;
  // The same where the counts are known to be equal. The program ends with a message otherwise.
  Tensor WithShape(const TensorShape& shape) const;
  // A copy with its own buffer.
  Tensor DeepCopy() const;

  // "Tensor<type: float shape: [2] values: 1 2>", at most `max_entries` values.
  std::string DebugString(int64_t max_entries = 10) const;
  // The values as NumPy prints an array: nested brackets, aligned columns, "..." for the middle of long
  // dimensions of tensors with more than 1,000 elements. Texts are quoted and escaped.
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& os, const Tensor& tensor);

 private:
  template <typename T, typename Values>
  static Tensor Copy(const Values& values, const TensorShape& shape) {
    using E = typename internal::Element<T>::Type;
    if (static_cast<int64_t>(values.size()) != shape.num_elements()) [[unlikely]]
      internal::WrongNumberOfValues(static_cast<int64_t>(values.size()), shape);
    if constexpr (std::is_same_v<T, const char*>) {
      if (std::find(values.begin(), values.end(), nullptr) != values.end()) [[unlikely]]
        internal::NullText();
    }
    Tensor t(kDataTypeOf<E>, shape);
    if (t.IsInitialized()) std::copy(values.begin(), values.end(), t.data<E>());
    return t;
  }
  void CheckView(int rank) const {
    if (shape_.rank() != rank) [[unlikely]]
      internal::WrongRank(*this, rank);
    if (!IsInitialized()) [[unlikely]]
      internal::NotInitialized(*this);
  }

  TensorShape shape_;
  DataType dtype_ = DataType::kFloat;
  void* data_ = nullptr;
  RefCounted* buffer_ = nullptr;  // a Buffer; owns one reference
};

// The elements of a tensor of rank N by index. Borrows the tensor's buffer, which must outlive it.
template <typename T, int N>
class TensorView {
 public:
  static_assert(N >= 1 && N <= 8, "ranks 1 to 8 have views; use Tensor::flat for others");
  TensorView(T* data, const int64_t* dims) : data_(data) { std::copy_n(dims, N, dims_); }

  T* data() const { return data_; }
  int64_t dim(int i) const {
    if (i < 0 || i >= N) [[unlikely]]
      internal::NoDimensionOfView(i, N);
    return dims_[i];
  }
  int64_t size() const {
    int64_t size = 1;
    for (const int64_t d : dims_) size *= d;
    return size;
  }
  // The program ends with a message if an index is out of range.
  template <typename... Index>
  T& operator()(Index... indices) const {
    static_assert(sizeof...(Index) == N, "one index for each dimension");
    const int64_t index[] = {static_cast<int64_t>(indices)...};
    int64_t offset = 0;
    for (int i = 0; i < N; ++i) {
      if (static_cast<uint64_t>(index[i]) >= static_cast<uint64_t>(dims_[i])) [[unlikely]]
        internal::IndexOutOfRange(i, index[i], dims_[i]);
      offset = offset * dims_[i] + index[i];
    }
    return data_[offset];
  }
  // All elements, row by row.
  T* begin() const { return data_; }
  T* end() const { return data_ + size(); }

 private:
  T* data_;
  int64_t dims_[N];
};

// A value known at graph construction: a number, a text, a tensor, or a nested list of them, which is a
// tensor with one more dimension: {{1.f, 2.f}, {3.f, 4.f}}. Types are those of C++: 1 is int32, 1.0 double,
// 1.f float.
class Literal {
 public:
  template <typename T>
  requires(requires { DataTypeOf<T>::value; } &&
           (std::is_arithmetic_v<T> || std::same_as<T, half> || std::same_as<T, bfloat16> ||
            std::same_as<T, complex64> || std::same_as<T, complex128>)) Literal(T value)
      : tensor_(Tensor::Scalar(value)) {}                              // NOLINT(google-explicit-constructor)
  Literal(const char* value) : tensor_(Tensor::Scalar(value)) {}       // NOLINT(google-explicit-constructor)
  Literal(std::string_view value) : tensor_(Tensor::Scalar(value)) {}  // NOLINT(google-explicit-constructor)
  Literal(const std::string& value)
      : tensor_(Tensor::Scalar(value)) {}               // NOLINT(google-explicit-constructor)
  Literal(Tensor value) : tensor_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Literal(std::initializer_list<Literal> rows);         // NOLINT(google-explicit-constructor)

  const Tensor& tensor() const { return tensor_; }
  // InvalidArgument if the rows of a list differ in type or shape.
  const Status& status() const { return status_; }

 private:
  Tensor tensor_;
  Status status_;
};

}  // namespace millrace
