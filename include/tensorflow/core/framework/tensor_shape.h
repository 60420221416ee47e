// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shapes of tensors: fully known ones, and those whose sizes or rank may be unknown.
#ifndef TENSORFLOW_CORE_FRAMEWORK_TENSOR_SHAPE_H_
#define TENSORFLOW_CORE_FRAMEWORK_TENSOR_SHAPE_H_

#include <initializer_list>
#include <ostream>
#include <vector>

#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/gtl/array_slice.h"
#include "tensorflow/core/platform/types.h"

namespace tensorflow {

// The element of an iteration over a shape.
struct TensorShapeDim {
  explicit TensorShapeDim(int64 s) : size(s) {}
  int64 size;
};

// The common part of both kinds: sizes, -1 for an unknown one.
class TensorShapeRep {
 public:
  int dims() const { return static_cast<int>(sizes_.size()); }
  int64 dim_size(int d) const { return sizes_.at(static_cast<size_t>(d)); }
  const std::vector<int64>& dim_sizes() const { return sizes_; }
  int64 num_elements() const {
    int64 product = 1;
    for (const int64 size : sizes_) {
      if (size < 0) return -1;
      product *= size;
    }
    return product;
  }
  class Iterator {
   public:
    explicit Iterator(const int64* at) : at_(at) {}
    TensorShapeDim operator*() const { return TensorShapeDim(*at_); }
    Iterator& operator++() { return ++at_, *this; }
    bool operator==(Iterator other) const { return at_ == other.at_; }
    bool operator!=(Iterator other) const { return at_ != other.at_; }

   private:
    const int64* at_;
  };
  Iterator begin() const { return Iterator(sizes_.data()); }
  Iterator end() const { return Iterator(sizes_.data() + sizes_.size()); }
  void AddDim(int64 size) { sizes_.push_back(size); }
  void InsertDim(int d, int64 size) { sizes_.insert(sizes_.begin() + d, size); }
  void RemoveDim(int d) { sizes_.erase(sizes_.begin() + d); }
  void set_dim(int d, int64 size) { sizes_.at(static_cast<size_t>(d)) = size; }
  void Clear() { sizes_.clear(); }
  string DebugString() const {
    string text = "[";
    for (size_t i = 0; i < sizes_.size(); ++i)
      text += (i > 0 ? "," : "") + (sizes_[i] < 0 ? string("?") : std::to_string(sizes_[i]));
    return text + "]";
  }

 protected:
  TensorShapeRep() {}
  explicit TensorShapeRep(std::vector<int64> sizes) : sizes_(std::move(sizes)) {}
  std::vector<int64> sizes_;
};

class TensorShape : public TensorShapeRep {
 public:
  TensorShape() {}
  TensorShape(std::initializer_list<int64> sizes) : TensorShapeRep(std::vector<int64>(sizes)) {}
  explicit TensorShape(std::vector<int64> sizes) : TensorShapeRep(std::move(sizes)) {}
  explicit TensorShape(gtl::ArraySlice<int64> sizes)
      : TensorShapeRep(std::vector<int64>(sizes.begin(), sizes.end())) {}
  void AppendShape(const TensorShape& other) {
    sizes_.insert(sizes_.end(), other.sizes_.begin(), other.sizes_.end());
  }
  void RemoveLastDims(int n) { sizes_.resize(sizes_.size() - static_cast<size_t>(n)); }
  bool IsSameSize(const TensorShape& other) const { return sizes_ == other.sizes_; }
  bool operator==(const TensorShape& other) const { return sizes_ == other.sizes_; }
  bool operator!=(const TensorShape& other) const { return sizes_ != other.sizes_; }
};

class PartialTensorShape : public TensorShapeRep {
 public:
  PartialTensorShape() : unknown_rank_(true) {}
  PartialTensorShape(std::initializer_list<int64> sizes)
      : TensorShapeRep(std::vector<int64>(sizes)), unknown_rank_(false) {}
  explicit PartialTensorShape(std::vector<int64> sizes)
      : TensorShapeRep(std::move(sizes)), unknown_rank_(false) {}
  PartialTensorShape(const TensorShape& shape)
      : TensorShapeRep(shape.dim_sizes()), unknown_rank_(false) {}  // NOLINT
  bool unknown_rank() const { return unknown_rank_; }
  int dims() const { return unknown_rank_ ? -1 : TensorShapeRep::dims(); }
  bool IsFullyDefined() const { return !unknown_rank_ && num_elements() >= 0; }
  bool AsTensorShape(TensorShape* shape) const {
    if (IsFullyDefined()) *shape = TensorShape(sizes_);
    return IsFullyDefined();
  }
  bool IsCompatibleWith(const PartialTensorShape& other) const {
    if (unknown_rank_ || other.unknown_rank_) return true;
    if (sizes_.size() != other.sizes_.size()) return false;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i] >= 0 && other.sizes_[i] >= 0 && sizes_[i] != other.sizes_[i]) return false;
    }
    return true;
  }
  string DebugString() const { return unknown_rank_ ? "<unknown>" : TensorShapeRep::DebugString(); }

 private:
  bool unknown_rank_;
};

inline std::ostream& operator<<(std::ostream& os, const TensorShape& s) { return os << s.DebugString(); }
inline std::ostream& operator<<(std::ostream& os, const PartialTensorShape& s) {
  return os << s.DebugString();
}

class TensorShapeUtils {
 public:
  static bool IsScalar(const TensorShape& shape) { return shape.dims() == 0; }
  static bool IsVector(const TensorShape& shape) { return shape.dims() == 1; }
  static bool IsVectorOrHigher(const TensorShape& shape) { return shape.dims() >= 1; }
  static bool IsMatrix(const TensorShape& shape) { return shape.dims() == 2; }
  static bool IsMatrixOrHigher(const TensorShape& shape) { return shape.dims() >= 2; }
  static bool IsScalarOrVector(const TensorShape& shape) { return shape.dims() <= 1; }
  static bool IsSquareMatrix(const TensorShape& shape) {
    return shape.dims() == 2 && shape.dim_size(0) == shape.dim_size(1);
  }
  static bool StartsWith(const TensorShape& shape, const TensorShape& prefix) {
    if (shape.dims() < prefix.dims()) return false;
    for (int i = 0; i < prefix.dims(); ++i) {
      if (shape.dim_size(i) != prefix.dim_size(i)) return false;
    }
    return true;
  }
  // Converts sizes from the program's data: negative ones, and products beyond 64 bits, are errors.
  template <typename T>
  static Status MakeShape(const T* sizes, int64 n, TensorShape* shape) {
    TensorShape made;
    int64 product = 1;
    for (int64 i = 0; i < n; ++i) {
      const int64 size = static_cast<int64>(sizes[i]);
      if (size < 0) return errors::InvalidArgument("Dimension ", size, " must be >= 0");
      if (__builtin_mul_overflow(product, size, &product))
        return errors::InvalidArgument("The shape has more elements than 64 bits can count");
      made.AddDim(size);
    }
    *shape = made;
    return Status();
  }
  template <typename T>
  static Status MakeShape(gtl::ArraySlice<T> sizes, TensorShape* shape) {
    return MakeShape(sizes.data(), static_cast<int64>(sizes.size()), shape);
  }
  static string ShapeListString(gtl::ArraySlice<TensorShape> shapes) {
    string text = "[";
    for (const TensorShape& shape : shapes) text += (text.size() > 1 ? ", " : "") + shape.DebugString();
    return text + "]";
  }
};

}  // namespace tensorflow

#endif
