// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Views of a tensor's elements by index. With Eigen's tensor module they are Eigen's maps, so that its
// expressions work; without it, or with MILLRACE_NO_EIGEN, small classes with the same indexing.
#ifndef TENSORFLOW_CORE_FRAMEWORK_TENSOR_TYPES_H_
#define TENSORFLOW_CORE_FRAMEWORK_TENSOR_TYPES_H_

#include <algorithm>
#include <array>
#include <cstddef>

#include "tensorflow/core/framework/types.h"

#if !defined(MILLRACE_NO_EIGEN) && defined(__has_include)
#if __has_include(<unsupported/Eigen/CXX11/Tensor>)
#define MR_TF_HAS_EIGEN 1
#include <unsupported/Eigen/CXX11/Tensor>
#endif
#endif

namespace tensorflow {

#ifdef MR_TF_HAS_EIGEN

template <>
struct DataTypeToEnum<Eigen::half> : internal::TypeConstant<DT_HALF> {};
template <>
struct EnumToDataType<DT_HALF> {
  using Type = Eigen::half;
};

template <typename T, int N = 1>
struct TTypes {
  using Tensor = Eigen::TensorMap<Eigen::Tensor<T, N, Eigen::RowMajor, std::ptrdiff_t>, Eigen::Unaligned>;
  using ConstTensor =
      Eigen::TensorMap<Eigen::Tensor<const T, N, Eigen::RowMajor, std::ptrdiff_t>, Eigen::Unaligned>;
  using Flat = Eigen::TensorMap<Eigen::Tensor<T, 1, Eigen::RowMajor, std::ptrdiff_t>, Eigen::Unaligned>;
  using ConstFlat =
      Eigen::TensorMap<Eigen::Tensor<const T, 1, Eigen::RowMajor, std::ptrdiff_t>, Eigen::Unaligned>;
  using Scalar = Eigen::TensorMap<Eigen::TensorFixedSize<T, Eigen::Sizes<>, Eigen::RowMajor, std::ptrdiff_t>,
                                  Eigen::Unaligned>;
  using ConstScalar =
      Eigen::TensorMap<Eigen::TensorFixedSize<const T, Eigen::Sizes<>, Eigen::RowMajor, std::ptrdiff_t>,
                       Eigen::Unaligned>;
  using Vec = Flat;
  using ConstVec = ConstFlat;
  using Matrix = Eigen::TensorMap<Eigen::Tensor<T, 2, Eigen::RowMajor, std::ptrdiff_t>, Eigen::Unaligned>;
  using ConstMatrix =
      Eigen::TensorMap<Eigen::Tensor<const T, 2, Eigen::RowMajor, std::ptrdiff_t>, Eigen::Unaligned>;
  using UnalignedTensor = Tensor;
  using UnalignedConstTensor = ConstTensor;
  using UnalignedFlat = Flat;
  using UnalignedConstFlat = ConstFlat;
  using UnalignedVec = Vec;
  using UnalignedConstVec = ConstVec;
  using UnalignedMatrix = Matrix;
  using UnalignedConstMatrix = ConstMatrix;
};

#else

namespace internal {

template <typename T, int N>
class IndexedView {
 public:
  IndexedView(T* data, const std::array<std::ptrdiff_t, N>& sizes) : data_(data), sizes_(sizes) {}
  IndexedView(const IndexedView&) = default;
  // Copies the elements, as Eigen's maps do. REQUIRES: equal numbers of elements.
  IndexedView& operator=(const IndexedView& other) { return Copy(other); }
  template <typename U>
  IndexedView& operator=(const IndexedView<U, N>& other) {
    return Copy(other);
  }
  T* data() const { return data_; }
  std::ptrdiff_t size() const {
    std::ptrdiff_t product = 1;
    for (const std::ptrdiff_t size : sizes_) product *= size;
    return product;
  }
  std::ptrdiff_t dimension(int d) const { return sizes_[static_cast<size_t>(d)]; }
  const std::array<std::ptrdiff_t, N>& dimensions() const { return sizes_; }
  template <typename... Indices>
  T& operator()(Indices... indices) const {
    static_assert(sizeof...(Indices) == N, "an index for each dimension");
    const std::array<std::ptrdiff_t, N> at = {{static_cast<std::ptrdiff_t>(indices)...}};
    std::ptrdiff_t offset = 0;
    for (size_t i = 0; i < at.size(); ++i) offset = offset * sizes_[i] + at[i];
    return data_[offset];
  }
  const IndexedView& setConstant(const T& value) const {
    std::fill_n(data_, size(), value);
    return *this;
  }
  const IndexedView& setZero() const { return setConstant(T()); }

 private:
  template <typename U>
  IndexedView& Copy(const IndexedView<U, N>& other) {
    if (data_ != other.data()) std::copy_n(other.data(), std::min(size(), other.size()), data_);
    return *this;
  }

  T* data_;
  std::array<std::ptrdiff_t, N> sizes_;
};

}  // namespace internal

template <typename T, int N = 1>
struct TTypes {
  using Tensor = internal::IndexedView<T, N>;
  using ConstTensor = internal::IndexedView<const T, N>;
  using Flat = internal::IndexedView<T, 1>;
  using ConstFlat = internal::IndexedView<const T, 1>;
  using Scalar = internal::IndexedView<T, 0>;
  using ConstScalar = internal::IndexedView<const T, 0>;
  using Vec = Flat;
  using ConstVec = ConstFlat;
  using Matrix = internal::IndexedView<T, 2>;
  using ConstMatrix = internal::IndexedView<const T, 2>;
};

#endif

}  // namespace tensorflow

#endif
