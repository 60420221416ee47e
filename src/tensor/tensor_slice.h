// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/shape.h"
#include "millrace/status.h"

namespace tensorflow {
class TensorSliceProto;
}  // namespace tensorflow

namespace millrace {

// A rectangular part of a tensor: for each dimension a start and a length, or all of it. A value.
class TensorSlice {
 public:
  struct Extent {
    int64_t start = 0;
    int64_t length = -1;  // -1: all of the dimension; start is 0 then
    bool is_full() const { return length < 0; }
    friend bool operator==(const Extent&, const Extent&) = default;
  };

  TensorSlice() = default;
  static TensorSlice Full(int rank) { return TensorSlice(std::vector<Extent>(static_cast<size_t>(rank))); }
  // "0,2:-" is the first two rows of a matrix.
  static StatusOr<TensorSlice> Parse(std::string_view text);
  static StatusOr<TensorSlice> FromProto(const tensorflow::TensorSliceProto& proto);
  void ToProto(tensorflow::TensorSliceProto* proto) const;

  int rank() const { return static_cast<int>(extents_.size()); }
  const Extent& extent(int i) const { return extents_[static_cast<size_t>(i)]; }
  // Whether it says "all" in every dimension.
  bool IsFull() const;
  // Whether it covers a tensor of that shape, in any spelling.
  bool IsAllOf(const TensorShape& shape) const;
  // The shape of the slice. Internal, in TensorFlow's words, when it does not fit.
  StatusOr<TensorShape> ShapeIn(const TensorShape& full) const;
  std::string ToString() const;  // in the form of Parse
  friend bool operator==(const TensorSlice&, const TensorSlice&) = default;

 private:
  explicit TensorSlice(std::vector<Extent> extents) : extents_(std::move(extents)) {}
  std::vector<Extent> extents_;
};

// An element of the inputs "shape_and_slices": "4 10 0,2:-" is the first two rows of a [4,10].
struct ShapeAndSlice {
  TensorShape full_shape;
  TensorSlice slice;
  TensorShape slice_shape;
};
StatusOr<ShapeAndSlice> ParseShapeAndSlice(const std::string& text);

}  // namespace millrace
