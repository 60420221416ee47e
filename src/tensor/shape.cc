// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/shape.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

std::string DimsToString(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ',';
    text += dims[i] < 0 ? "?" : std::to_string(dims[i]);
  }
  return text + "]";
}

// Shows bad sizes as they are.
std::string RawDims(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < std::min<size_t>(dims.size(), 16); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(dims[i]);
  }
  return text + (dims.size() > 16 ? ",...]" : "]");
}

// Zeros do not hide an overflow of the other sizes: code that multiplies some of the dimensions, for strides,
// is safe.
Status CheckDims(std::span<const int64_t> dims, int64_t smallest) {
  if (dims.size() > static_cast<size_t>(TensorShape::kMaxRank)) {
    return errors::InvalidArgument("Shape ", RawDims(dims), " has too many dimensions: ", dims.size(),
                                   " but at most ", TensorShape::kMaxRank, " are supported");
  }
  int64_t product = 1;
  for (const int64_t d : dims) {
    if (d < smallest) {
      return errors::InvalidArgument("Shape ", RawDims(dims),
                                     " has negative dimensions; perhaps an un-fed placeholder?");
    }
    if (d > 0 && __builtin_mul_overflow(product, d, &product)) {
      return errors::InvalidArgument("Shape ", RawDims(dims), " is too large (more than 2**63 - 1 entries)");
    }
  }
  return Status::Ok();
}

// Ends the program, with the function's name, unless the sizes are valid.
void RequireDims(const char* function, std::span<const int64_t> dims) {
  if (const Status status = CheckDims(dims, 0); !status.ok()) {
    internal::EndWithMessage(StrCat(function, ": ", status.message()));
  }
}

int64_t Product(std::span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t d : dims) product *= d;
  return product;
}

}  // namespace

void TensorShape::NoDimension(const char* function, int i) const {
  internal::EndWithMessage(StrCat(function, ": ", ToString(), " has no dimension ", i));
}

void PartialShape::NoDimension(const char* function, int i) const {
  internal::EndWithMessage(StrCat(function, ": ", ToString(), " has no dimension ", i));
}

TensorShape::TensorShape(std::initializer_list<int64_t> dims)
    : TensorShape(std::span<const int64_t>(dims.begin(), dims.size())) {}

TensorShape::TensorShape(std::span<const int64_t> dims) {
  RequireDims("TensorShape", dims);
  Assign(dims);
}

StatusOr<TensorShape> TensorShape::Make(std::span<const int64_t> dims) {
  MR_RETURN_IF_ERROR(CheckDims(dims, 0));
  TensorShape shape;
  shape.Assign(dims);
  return shape;
}

// REQUIRES: `dims` is not part of this shape.
void TensorShape::Assign(std::span<const int64_t> dims) {
  FreeHeap();
  rank_ = static_cast<int16_t>(dims.size());
  num_elements_ = Product(dims);
  if (rank_ <= kInline) {
    for (int i = 0; i < kInline; ++i) inline_[i] = i < rank_ ? dims[i] : 0;
  } else {
    heap_ = new int64_t[dims.size()];
    std::copy(dims.begin(), dims.end(), heap_);
  }
}

void TensorShape::CopyHeap(const TensorShape& o) {
  heap_ = new int64_t[static_cast<size_t>(o.rank_)];
  std::copy(o.heap_, o.heap_ + o.rank_, heap_);
}

// The sizes of a shape and room for one more, on the stack: shapes are edited in kernels.
struct TensorShape::Edit {
  explicit Edit(const TensorShape& shape) : rank(shape.rank()) { std::copy_n(shape.dims_data(), rank, dims); }
  void Insert(int i, int64_t size) {
    std::copy_backward(dims + i, dims + rank, dims + rank + 1);
    dims[i] = size;
    ++rank;
  }
  std::span<const int64_t> span() const { return {dims, static_cast<size_t>(rank)}; }

  int rank;
  int64_t dims[kMaxRank + 1];
};

void TensorShape::AddDim(int64_t size) {
  Edit edit(*this);
  edit.Insert(rank(), size);
  RequireDims("TensorShape::AddDim", edit.span());
  Assign(edit.span());
}

Status TensorShape::TryAddDim(int64_t size) {
  Edit edit(*this);
  edit.Insert(rank(), size);
  MR_RETURN_IF_ERROR(CheckDims(edit.span(), 0));
  Assign(edit.span());
  return Status::Ok();
}

void TensorShape::InsertDim(int i, int64_t size) {
  if (i < 0 || i > rank()) NoDimension("TensorShape::InsertDim", i);
  Edit edit(*this);
  edit.Insert(i, size);
  RequireDims("TensorShape::InsertDim", edit.span());
  Assign(edit.span());
}

void TensorShape::RemoveDim(int i) {
  if (i < 0 || i >= rank()) NoDimension("TensorShape::RemoveDim", i);
  Edit edit(*this);
  std::copy(edit.dims + i + 1, edit.dims + edit.rank, edit.dims + i);
  --edit.rank;
  Assign(edit.span());
}

void TensorShape::SetDim(int i, int64_t size) {
  if (i < 0 || i >= rank()) NoDimension("TensorShape::SetDim", i);
  Edit edit(*this);
  edit.dims[i] = size;
  RequireDims("TensorShape::SetDim", edit.span());
  Assign(edit.span());
}

std::string TensorShape::ToString() const { return DimsToString(dims()); }

std::ostream& operator<<(std::ostream& os, const TensorShape& shape) { return os << shape.ToString(); }

StatusOr<PartialShape> PartialShape::Make(std::span<const int64_t> dims) {
  // -1 is skipped by the product as 0 is.
  MR_RETURN_IF_ERROR(CheckDims(dims, -1));
  return PartialShape(std::vector<int64_t>(dims.begin(), dims.end()));
}

bool PartialShape::IsFullyDefined() const {
  return known_rank_ && std::none_of(dims_.begin(), dims_.end(), [](int64_t d) { return d < 0; });
}

bool PartialShape::IsCompatibleWith(const TensorShape& shape) const {
  if (!known_rank_) return true;
  if (rank() != shape.rank()) return false;
  for (int i = 0; i < rank(); ++i) {
    if (dim(i) >= 0 && dim(i) != shape.dim(i)) return false;
  }
  return true;
}

bool PartialShape::IsCompatibleWith(const PartialShape& shape) const {
  if (!known_rank_ || !shape.known_rank_) return true;
  if (rank() != shape.rank()) return false;
  for (int i = 0; i < rank(); ++i) {
    if (dim(i) >= 0 && shape.dim(i) >= 0 && dim(i) != shape.dim(i)) return false;
  }
  return true;
}

StatusOr<PartialShape> PartialShape::MergeWith(const PartialShape& other) const {
  if (!known_rank_) return other;
  if (!other.known_rank_) return *this;
  if (!IsCompatibleWith(other)) {
    return errors::InvalidArgument("Incompatible shapes during merge: ", ToString(), " vs. ",
                                   other.ToString());
  }
  std::vector<int64_t> dims = dims_;
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = std::max(dims[i], other.dims_[i]);
  return Make(dims);
}

StatusOr<TensorShape> PartialShape::ToTensorShape() const {
  if (!IsFullyDefined()) return errors::InvalidArgument("Shape ", ToString(), " is not fully defined");
  return TensorShape::Make(dims_);
}

std::string PartialShape::ToString() const { return known_rank_ ? DimsToString(dims_) : "<unknown>"; }

std::ostream& operator<<(std::ostream& os, const PartialShape& shape) { return os << shape.ToString(); }

}  // namespace millrace
