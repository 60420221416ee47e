// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/tensor_slice.h"

namespace millrace::io {

// The key of a slice in checkpoints: keys are ordered by names, then by slices.
std::string SliceKey(std::string_view name, const TensorSlice& slice);
// Names have no zero byte, and keys of slices begin with one.
inline bool IsSliceKey(std::string_view key) { return !key.empty() && key[0] == '\0'; }

// A slice of a tensor with known shape: all starts and lengths.
class Region {
 public:
  // REQUIRES: slice.ShapeIn(full) is fine.
  Region(const TensorSlice& slice, const TensorShape& full);

  int rank() const { return static_cast<int>(starts_.size()); }
  int64_t start(int i) const { return starts_[static_cast<size_t>(i)]; }
  int64_t length(int i) const { return lengths_[static_cast<size_t>(i)]; }
  int64_t end(int i) const { return start(i) + length(i); }
  int64_t num_elements() const;
  // The number of common elements.
  int64_t CommonElements(const Region& other) const;

 private:
  std::vector<int64_t> starts_;
  std::vector<int64_t> lengths_;
};

// The offset of the elements of `part` in a tensor of `whole`, if they are contiguous in it.
std::optional<int64_t> OffsetIfContiguous(const Region& part, const Region& whole);
// Whether `parts`, regions of one tensor, cover `whole`, each element exactly once. InvalidArgument if two of
// them overlap or there are more than 32768.
StatusOr<bool> Covers(std::span<const Region> parts, const Region& whole);
// Copies the common elements of both regions. REQUIRES: equal types; from and to have the regions' elements.
void CopyCommon(const Region& from_region, const Tensor& from, const Region& to_region, Tensor* to);

}  // namespace millrace::io
