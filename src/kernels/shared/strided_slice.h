// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/shared/args.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// The attributes of StridedSlice, one bit for each entry of begin, end and strides.
struct StridedSliceMasks {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t ellipsis = 0;
  int64_t new_axis = 0;
  int64_t shrink_axis = 0;
};

// The part of each dimension of the input that a strided slice takes, and the shapes of the result.
struct StridedSliceCut {
  Dims begin;                // by input dimension; lies in the input unless the size is 0
  Dims stride;               // not 0
  Dims size;                 // elements taken
  TensorShape box_shape;     // of `size`: one dimension for each of the input
  TensorShape final_shape;   // the same elements with new axes inserted and shrunk ones removed
  bool is_identity = false;  // takes the whole input in order
};

// Computes the slice of an input of shape `input`. begin, end and strides are integer vectors of the same
// size, as in "x[b:e:s, ...]"; the errors are TensorFlow's.
StatusOr<StridedSliceCut> PlanStridedSlice(const TensorShape& input, const Tensor& begin, const Tensor& end,
                                           const Tensor& strides, const StridedSliceMasks& masks);

}  // namespace millrace
