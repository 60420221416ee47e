// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/shape.h"
#include "millrace/status.h"

namespace millrace {

// The operands of StridedSlice: one entry per element of an index expression such as x[1:5:2, ..., newaxis,
// 3]. Bit i of a mask is for entry i: begin_mask and end_mask mean "not given", ellipsis_mask "...",
// new_axis_mask "a new dimension of size 1", shrink_axis_mask "one index, which removes the dimension".
struct StridedSliceSpec {
  // Null when not known (at graph construction).
  const std::vector<int64_t>* begin = nullptr;
  const std::vector<int64_t>* end = nullptr;
  std::vector<int64_t> strides;
  int64_t begin_mask = 0;
  int64_t end_mask = 0;
  int64_t ellipsis_mask = 0;
  int64_t new_axis_mask = 0;
  int64_t shrink_axis_mask = 0;
};

// The meaning of the expression for an input of a given shape.
struct StridedSlicePlan {
  // One entry per dimension of the input: first index, one past the last in the direction of the stride,
  // step. Valid where the shapes are known.
  std::vector<int64_t> begin, end, strides;
  PartialShape processing_shape;  // as many dimensions as the input: before dimensions are added and removed
  PartialShape final_shape;
  bool is_identity = false;  // the output has the elements of the input, maybe in another shape
  bool slices_dim0 = false;  // only dimension 0 is sliced, with stride 1: the output is a range of rows
};

// REQUIRES: the rank of `input` is known.
StatusOr<StridedSlicePlan> PlanStridedSlice(const StridedSliceSpec& spec, const PartialShape& input);

}  // namespace millrace
