// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>

#include "millrace/ref.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/variant.h"

namespace millrace {

// The value in the variant of a TensorList handle: tensors of one type, some of which may have no value yet.
//
// Elements are in a tree with 16 branches whose nodes copies share, so that copying a list costs nothing,
// changing an element of a shared list copies a path from the root, and others are changed in place. Elements
// without a value take no memory, whatever the size. A value; as thread-safe as a Tensor.
class TensorList {
 public:
  static constexpr char kVariantTypeName[] = "tensorflow::TensorList";
  static constexpr int64_t kMaxSize = INT32_MAX;
  static constexpr int kMaxDepth = 64;  // of lists within lists

  TensorList() = default;
  TensorList(DataType dtype, PartialShape shape) : element_dtype(dtype), element_shape(std::move(shape)) {}

  DataType element_dtype = DataType::kInvalid;
  PartialShape element_shape;
  int32_t max_num_elements = -1;  // none

  int64_t size() const { return size_; }
  // Null when the element has no value. REQUIRES: 0 <= i < size().
  const Tensor* Find(int64_t i) const;
  // InvalidArgument if lists would be nested deeper than kMaxDepth. REQUIRES: 0 <= i < size().
  Status Set(int64_t i, Tensor value);
  // Removed elements are dropped, new ones have no value. REQUIRES: 0 <= size <= kMaxSize.
  void Resize(int64_t size);

  // Calls f(i, tensor) for the elements with a value, in order, until one is an error.
  Status ForEach(const std::function<Status(int64_t, const Tensor&)>& f) const;
  // A list like this one with f(tensor) in place of each value.
  StatusOr<TensorList> Map(const std::function<StatusOr<Tensor>(const Tensor&)>& f) const;
  // `element_shape` merged with the shapes of the values.
  StatusOr<PartialShape> MergedShape() const;

  // Lists may be nested in others many times, and so represent far more than they take: subtracts from `left`
  // a unit for each value here, and within nested lists as often as each occurs, and one for each handle in
  // them. With `bytes` a value counts as the bytes that writing it may take. ResourceExhausted, soon after,
  // if less than nothing is left.
  Status Spend(bool bytes, int64_t* left) const;

  // In TensorFlow's format. Beyond 2^24 elements without a value, or 2 GiB, only the name is written.
  VariantData EncodeVariant() const;
  static StatusOr<TensorList> DecodeVariant(VariantData data);

 private:
  static constexpr int kBits = 4;
  static constexpr int kBranches = 1 << kBits;
  struct Node : RefCounted {
    virtual RefPtr<Node> Copy() const = 0;
  };
  struct Inner final : Node {
    RefPtr<Node> Copy() const override;
    std::array<RefPtr<Node>, kBranches> children;
  };
  struct Leaf final : Node {
    RefPtr<Node> Copy() const override;
    std::array<Tensor, kBranches> tensors;
    uint32_t present = 0;  // a bit for each
  };

  static int LevelsFor(int64_t size);
  // The node in `place`, made unshared by a copy if necessary; a new one if there is none.
  template <typename T>
  static T* Own(RefPtr<Node>& place);
  static void Truncate(RefPtr<Node>& place, int levels, int64_t size);
  static Status Visit(const Node* node, int levels, int64_t first,
                      const std::function<Status(int64_t, const Tensor&)>& f);

  RefPtr<Node> root_;
  int64_t size_ = 0;
  int levels_ = 0;  // of inner nodes
  int depth_ = 1;   // the maximum nesting depth of lists
};

}  // namespace millrace
