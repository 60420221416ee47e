// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "millrace/status.h"

namespace millrace {

// The sizes of a tensor's dimensions, all known. The product of the nonzero sizes fits in int64_t: code that
// builds a shape from untrusted sizes uses Make() or TryAddDim(), which refuse negative sizes, overflow and
// rank > 254.
class TensorShape {
 public:
  static constexpr int kMaxRank = 254;

  TensorShape() {}  // a scalar; not defaulted, so that a const one can be declared
  // REQUIRES: valid sizes (see Make). The program ends with a message otherwise.
  TensorShape(std::initializer_list<int64_t> dims);
  explicit TensorShape(std::span<const int64_t> dims);
  TensorShape(const TensorShape& o) { CopyFrom(o); }
  TensorShape(TensorShape&& o) noexcept { MoveFrom(o); }
  TensorShape& operator=(const TensorShape& o) {
    if (this != &o) {
      FreeHeap();
      CopyFrom(o);
    }
    return *this;
  }
  TensorShape& operator=(TensorShape&& o) noexcept {
    if (this != &o) {
      FreeHeap();
      MoveFrom(o);
    }
    return *this;
  }
  ~TensorShape() { FreeHeap(); }

  static StatusOr<TensorShape> Make(std::span<const int64_t> dims);
  static TensorShape EmptyVector() {  // [0], the shape of a default tensor
    TensorShape shape;
    shape.num_elements_ = 0;
    shape.rank_ = 1;
    return shape;
  }

  int rank() const { return rank_; }
  // The program ends with a message if `i` is negative or not below the rank.
  int64_t dim(int i) const {
    if (static_cast<unsigned>(i) >= static_cast<unsigned>(rank_)) [[unlikely]]
      NoDimension("TensorShape::dim", i);
    return dims_data()[i];
  }
  std::span<const int64_t> dims() const { return {dims_data(), static_cast<size_t>(rank_)}; }
  int64_t num_elements() const { return num_elements_; }
  bool IsScalar() const { return rank_ == 0; }
  bool IsVector() const { return rank_ == 1; }
  bool IsMatrix() const { return rank_ == 2; }

  // REQUIRES for these: the result is a valid shape. The program ends with a message otherwise.
  void AddDim(int64_t size);
  void InsertDim(int i, int64_t size);
  void RemoveDim(int i);
  void SetDim(int i, int64_t size);

  Status TryAddDim(int64_t size);

  // "[2,3]"; "[]" for a scalar.
  std::string ToString() const;
  friend bool operator==(const TensorShape& a, const TensorShape& b) {
    if (a.rank_ != b.rank_ || a.num_elements_ != b.num_elements_) return false;
    const int64_t* const x = a.dims_data();
    const int64_t* const y = b.dims_data();
    for (int i = 0; i < a.rank_; ++i) {
      if (x[i] != y[i]) return false;
    }
    return true;
  }

 private:
  struct Edit;
  [[noreturn]] void NoDimension(const char* function, int i) const;  // ends the program
  static constexpr int kInline = 4;

  const int64_t* dims_data() const { return rank_ <= kInline ? inline_ : heap_; }
  void CopyFrom(const TensorShape& o) {
    rank_ = o.rank_;
    num_elements_ = o.num_elements_;
    if (rank_ <= kInline) [[likely]] {
      for (int i = 0; i < kInline; ++i) inline_[i] = o.inline_[i];
    } else {
      CopyHeap(o);
    }
  }
  void MoveFrom(TensorShape& o) noexcept {
    rank_ = o.rank_;
    num_elements_ = o.num_elements_;
    if (rank_ <= kInline) [[likely]] {
      for (int i = 0; i < kInline; ++i) inline_[i] = o.inline_[i];
    } else {
      heap_ = o.heap_;
      o.rank_ = 0;
      o.num_elements_ = 1;
    }
  }
  void FreeHeap() {
    if (rank_ > kInline) [[unlikely]]
      delete[] heap_;
  }
  void CopyHeap(const TensorShape& o);
  void Assign(std::span<const int64_t> dims);

  int64_t num_elements_ = 1;
  union {
    int64_t inline_[kInline] = {0, 0, 0, 0};
    int64_t* heap_;
  };
  int16_t rank_ = 0;
};
std::ostream& operator<<(std::ostream& os, const TensorShape& shape);

// A shape of which the rank or some sizes may be unknown. Unknown sizes are -1.
class PartialShape {
 public:
  PartialShape() = default;  // unknown rank
  PartialShape(std::initializer_list<int64_t> dims) : known_rank_(true), dims_(dims) {}
  explicit PartialShape(std::vector<int64_t> dims) : known_rank_(true), dims_(std::move(dims)) {}
  PartialShape(const TensorShape& shape)  // NOLINT(google-explicit-constructor)
      : known_rank_(true), dims_(shape.dims().begin(), shape.dims().end()) {}

  // Refuses sizes below -1, rank > 254 and overflowing products of the known sizes.
  static StatusOr<PartialShape> Make(std::span<const int64_t> dims);

  bool unknown_rank() const { return !known_rank_; }
  int rank() const { return known_rank_ ? static_cast<int>(dims_.size()) : -1; }
  // -1 if it is unknown. The program ends with a message if `i` is negative or not below the rank.
  int64_t dim(int i) const {
    if (i < 0 || i >= rank()) [[unlikely]]
      NoDimension("PartialShape::dim", i);
    return dims_[static_cast<size_t>(i)];
  }
  std::span<const int64_t> dims() const { return dims_; }
  bool IsFullyDefined() const;
  bool IsCompatibleWith(const TensorShape& shape) const;
  bool IsCompatibleWith(const PartialShape& shape) const;
  // The common refinement of both shapes, or InvalidArgument if they are incompatible.
  StatusOr<PartialShape> MergeWith(const PartialShape& other) const;
  // Empty unless fully defined.
  StatusOr<TensorShape> ToTensorShape() const;
  // "[2,?]"; "<unknown>" for an unknown rank.
  std::string ToString() const;
  friend bool operator==(const PartialShape&, const PartialShape&) = default;

 private:
  [[noreturn]] void NoDimension(const char* function, int i) const;  // ends the program

  bool known_rank_ = false;
  std::vector<int64_t> dims_;
};
std::ostream& operator<<(std::ostream& os, const PartialShape& shape);

}  // namespace millrace
