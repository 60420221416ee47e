// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A tensor for kernels: a reference to memory of the engine or of the kernel. Copies share it. A view of
// another type, rank or number of elements than the tensor's throws std::logic_error.
#ifndef TENSORFLOW_CORE_FRAMEWORK_TENSOR_H_
#define TENSORFLOW_CORE_FRAMEWORK_TENSOR_H_

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tensorflow/c/c_api.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/tensor_types.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/stringpiece.h"

namespace tensorflow {

class Tensor {
 public:
  Tensor() : dtype_(DT_FLOAT), shape_({0}) {}
  // A scalar.
  explicit Tensor(float value) : Tensor(DT_FLOAT, TensorShape()) { scalar<float>()() = value; }
  explicit Tensor(double value) : Tensor(DT_DOUBLE, TensorShape()) { scalar<double>()() = value; }
  explicit Tensor(int32 value) : Tensor(DT_INT32, TensorShape()) { scalar<int32>()() = value; }
  explicit Tensor(int64 value) : Tensor(DT_INT64, TensorShape()) { scalar<int64>()() = value; }
  explicit Tensor(bool value) : Tensor(DT_BOOL, TensorShape()) { scalar<bool>()() = value; }
  explicit Tensor(const string& value) : Tensor(DT_STRING, TensorShape()) { scalar<string>()() = value; }
  explicit Tensor(DataType dtype) : Tensor(dtype, TensorShape({0})) {}
  // Allocates memory. If that fails, IsInitialized() is false.
  Tensor(DataType dtype, const TensorShape& shape) : dtype_(dtype), shape_(shape) {
    if (dtype == DT_STRING) {
      strings_ = std::make_shared<std::vector<string>>(static_cast<size_t>(shape.num_elements()));
    } else {
      Own(TF_AllocateTensor(static_cast<TF_DataType>(dtype),
                            shape.dim_sizes().empty() ? nullptr : Dims(shape).data(), shape.dims(),
                            static_cast<size_t>(shape.num_elements() * DataTypeSize(dtype))));
    }
  }

  DataType dtype() const { return dtype_; }
  const TensorShape& shape() const { return shape_; }
  int dims() const { return shape_.dims(); }
  int64 dim_size(int d) const { return shape_.dim_size(d); }
  int64 NumElements() const { return shape_.num_elements(); }
  bool IsSameSize(const Tensor& other) const { return shape_ == other.shape_; }
  bool IsInitialized() const { return NumElements() == 0 || memory_ != nullptr || strings_ != nullptr; }
  size_t TotalBytes() const { return static_cast<size_t>(NumElements() * DataTypeSize(dtype_)); }
  // Whether only the engine can access the elements: handles and variants.
  bool IsOpaque() const { return dtype_ != DT_STRING && DataTypeSize(dtype_) == 0; }
  // The same elements in another shape; false if their number differs, or if they are opaque.
  bool CopyFrom(const Tensor& other, const TensorShape& shape) {
    if (other.NumElements() != shape.num_elements()) return false;
    if (other.IsOpaque() && !(shape == other.shape_)) return false;
    *this = other;
    shape_ = shape;
    return true;
  }

  // Elements [begin, end) of the first dimension, in the same memory.
  Tensor Slice(int64 begin, int64 end) const {
    if (dims() == 0 || IsOpaque() || begin < 0 || begin > end || end > dim_size(0))
      Refuse("Slice() of " + DebugString());
    Tensor part = *this;
    part.shape_.set_dim(0, end - begin);
    part.first_ += dim_size(0) == 0 ? 0 : begin * (NumElements() / dim_size(0));
    return part;
  }
  Tensor SubSlice(int64 index) const {
    Tensor part = Slice(index, index + 1);
    part.shape_.RemoveDim(0);
    return part;
  }
  bool SharesBufferWith(const Tensor& other) const {
    return memory_ != nullptr ? memory_ == other.memory_ : strings_ != nullptr && strings_ == other.strings_;
  }
  // The bytes of the elements; not for strings.
  StringPiece tensor_data() const {
    return memory_ == nullptr || IsOpaque() ? StringPiece() : StringPiece(Bytes(), TotalBytes());
  }

  template <typename T>
  typename TTypes<T>::Flat unaligned_flat() {
    return flat<T>();
  }
  template <typename T>
  typename TTypes<T>::ConstFlat unaligned_flat() const {
    return flat<T>();
  }
  template <typename T>
  typename TTypes<T>::Flat flat() {
    return {Data<T>(), Sizes<1>({{NumElements()}})};
  }
  template <typename T>
  typename TTypes<T>::ConstFlat flat() const {
    return {Data<T>(), Sizes<1>({{NumElements()}})};
  }
  template <typename T, size_t N>
  typename TTypes<T, N>::Tensor tensor() {
    return {Data<T>(), SizesOfShape<N>()};
  }
  template <typename T, size_t N>
  typename TTypes<T, N>::ConstTensor tensor() const {
    return {Data<T>(), SizesOfShape<N>()};
  }
  template <typename T>
  typename TTypes<T>::Vec vec() {
    return tensor<T, 1>();
  }
  template <typename T>
  typename TTypes<T>::ConstVec vec() const {
    return tensor<T, 1>();
  }
  template <typename T>
  typename TTypes<T>::Matrix matrix() {
    return tensor<T, 2>();
  }
  template <typename T>
  typename TTypes<T>::ConstMatrix matrix() const {
    return tensor<T, 2>();
  }
  template <typename T>
  typename TTypes<T>::Scalar scalar() {
    if (NumElements() != 1) Refuse("scalar() of " + DebugString());
    return ScalarView<typename TTypes<T>::Scalar>(Data<T>());
  }
  template <typename T>
  typename TTypes<T>::ConstScalar scalar() const {
    if (NumElements() != 1) Refuse("scalar() of " + DebugString());
    return ScalarView<typename TTypes<T>::ConstScalar>(Data<const T>());
  }
  // A view with another shape of the same number of elements.
  template <typename T, size_t N>
  typename TTypes<T, N>::Tensor shaped(const std::vector<int64>& sizes) {
    return {Data<T>(), ShapedSizes<N>(sizes)};
  }
  template <typename T, size_t N>
  typename TTypes<T, N>::ConstTensor shaped(const std::vector<int64>& sizes) const {
    return {Data<T>(), ShapedSizes<N>(sizes)};
  }
  // A matrix: all but the last dimension merged, or all but the first.
  template <typename T>
  typename TTypes<T>::Matrix flat_inner_dims() {
    return shaped<T, 2>(InnerSizes());
  }
  template <typename T>
  typename TTypes<T>::ConstMatrix flat_inner_dims() const {
    return shaped<T, 2>(InnerSizes());
  }
  template <typename T>
  typename TTypes<T>::Matrix flat_outer_dims() {
    return shaped<T, 2>(OuterSizes());
  }
  template <typename T>
  typename TTypes<T>::ConstMatrix flat_outer_dims() const {
    return shaped<T, 2>(OuterSizes());
  }
  string DebugString() const {
    return "Tensor<type: " + DataTypeString(dtype_) + " shape: " + shape_.DebugString() + ">";
  }

  // For the classes that pass tensors to kernels: takes over a tensor of the C API. Strings are decoded.
  static Tensor Adopt(TF_Tensor* from) {
    Tensor tensor;
    if (from == nullptr) return tensor;
    tensor.dtype_ = static_cast<DataType>(TF_TensorType(from));
    tensor.shape_ = TensorShape();
    for (int i = 0; i < TF_NumDims(from); ++i) tensor.shape_.AddDim(TF_Dim(from, i));
    tensor.Own(from);
    if (tensor.dtype_ == DT_STRING) tensor.Decode();
    return tensor;
  }
  // Converts to a tensor of the C API, which the caller deletes; null if memory is short.
  TF_Tensor* ToC() const {
    const std::vector<int64_t> dims = Dims(shape_);
    size_t size = TotalBytes();
    if (dtype_ == DT_STRING) {
      size = static_cast<size_t>(NumElements()) * sizeof(std::uint64_t);
      for (int64 i = 0; i < NumElements(); ++i) size += TF_StringEncodedSize(Strings()[i].size());
    }
    TF_Tensor* const made =
        TF_AllocateTensor(static_cast<TF_DataType>(dtype_), dims.data(), shape_.dims(), size);
    if (made == nullptr || size == 0) return made;
    if (dtype_ == DT_STRING) {
      Encode(static_cast<char*>(TF_TensorData(made)), size);
    } else {
      std::memcpy(TF_TensorData(made), Bytes(), size);
    }
    return made;
  }
  // The underlying tensor of the C API; null for strings.
  TF_Tensor* c_tensor() const { return memory_.get(); }

 private:
  static std::vector<int64_t> Dims(const TensorShape& shape) {
    return std::vector<int64_t>(shape.dim_sizes().begin(), shape.dim_sizes().end());
  }
  void Own(TF_Tensor* tensor) {
    memory_ = std::shared_ptr<TF_Tensor>(tensor, [](TF_Tensor* t) {
      if (t != nullptr) TF_DeleteTensor(t);
    });
  }

  void Decode() {
    const size_t count = static_cast<size_t>(NumElements());
    strings_ = std::make_shared<std::vector<string>>(count);
    const char* const bytes = static_cast<const char*>(TF_TensorData(memory_.get()));
    const size_t size = TF_TensorByteSize(memory_.get());
    const size_t header = count * sizeof(std::uint64_t);
    TF_Status* const status = TF_NewStatus();
    for (size_t i = 0; i < count && size >= header; ++i) {
      std::uint64_t offset = 0;
      std::memcpy(&offset, bytes + i * sizeof offset, sizeof offset);
      const char* text = nullptr;
      size_t length = 0;
      if (offset >= size - header) continue;
      TF_StringDecode(bytes + header + offset, size - header - offset, &text, &length, status);
      if (TF_GetCode(status) == TF_OK) (*strings_)[i].assign(text, length);
    }
    TF_DeleteStatus(status);
    memory_.reset();
  }
  void Encode(char* out, size_t size) const {
    const size_t count = static_cast<size_t>(NumElements());
    char* const data = out + count * sizeof(std::uint64_t);
    char* next = data;
    TF_Status* const status = TF_NewStatus();
    for (size_t i = 0; i < count; ++i) {
      const std::uint64_t offset = static_cast<std::uint64_t>(next - data);
      std::memcpy(out + i * sizeof offset, &offset, sizeof offset);
      const string& text = Strings()[i];
      next += TF_StringEncode(text.data(), text.size(), next, size - static_cast<size_t>(next - out), status);
    }
    TF_DeleteStatus(status);
  }

  // A wrong type would access memory beyond the tensor.
  template <typename T>
  T* Data() const {
    using Element = typename std::remove_const<T>::type;
    if (DataTypeToEnum<Element>::v() != dtype_)
      Refuse(DataTypeString(DataTypeToEnum<Element>::v()) + " elements of " + DebugString());
    return DataOf(static_cast<Element*>(nullptr));
  }
  template <typename T>
  T* DataOf(T*) const {
    return memory_ == nullptr ? nullptr : static_cast<T*>(TF_TensorData(memory_.get())) + first_;
  }
  string* DataOf(string*) const { return Strings(); }
  string* Strings() const { return strings_ == nullptr ? nullptr : strings_->data() + first_; }
  const char* Bytes() const {
    return static_cast<const char*>(TF_TensorData(memory_.get())) + first_ * DataTypeSize(dtype_);
  }

#ifdef MR_TF_HAS_EIGEN
  template <size_t N>
  using ViewSizes = Eigen::DSizes<std::ptrdiff_t, static_cast<int>(N)>;
  template <typename View, typename T>
  static View ScalarView(T* data) {
    return View(data);
  }
#else
  template <size_t N>
  using ViewSizes = std::array<std::ptrdiff_t, N>;
  template <typename View, typename T>
  static View ScalarView(T* data) {
    return View(data, {});
  }
#endif
  // Tensors come from the graph, so a wrong view is an error of the step: op_kernel.h and op.h catch it.
  [[noreturn]] static void Refuse(const string& what) { throw std::logic_error(what); }
  template <size_t N>
  static ViewSizes<N> Sizes(const std::array<int64, N>& sizes) {
    ViewSizes<N> result;
    for (size_t i = 0; i < N; ++i) result[i] = static_cast<std::ptrdiff_t>(sizes[i]);
    return result;
  }
  template <size_t N>
  ViewSizes<N> SizesOfShape() const {
    if (dims() != static_cast<int>(N)) Refuse("a view of rank " + std::to_string(N) + " of " + DebugString());
    std::array<int64, N> sizes;
    for (size_t i = 0; i < N; ++i) sizes[i] = shape_.dim_size(static_cast<int>(i));
    return Sizes<N>(sizes);
  }
  template <size_t N>
  ViewSizes<N> ShapedSizes(const std::vector<int64>& wanted) const {
    if (wanted.size() != N) Refuse("a view of rank " + std::to_string(N) + " with other sizes");
    std::array<int64, N> sizes;
    int64 product = 1;
    for (size_t i = 0; i < N; ++i) {
      sizes[i] = wanted[i];
      product *= wanted[i];
    }
    if (product != NumElements()) Refuse("a view of another number of elements than " + DebugString());
    return Sizes<N>(sizes);
  }
  std::vector<int64> InnerSizes() const {
    const int64 last = dims() == 0 ? 1 : dim_size(dims() - 1);
    return {last == 0 ? 0 : NumElements() / last, last};
  }
  std::vector<int64> OuterSizes() const {
    const int64 first = dims() == 0 ? 1 : dim_size(0);
    return {first, first == 0 ? 0 : NumElements() / first};
  }

  DataType dtype_;
  TensorShape shape_;
  int64 first_ = 0;  // the index of the first element in the memory
  std::shared_ptr<TF_Tensor> memory_;
  std::shared_ptr<std::vector<string>> strings_;
};

}  // namespace tensorflow

#endif
