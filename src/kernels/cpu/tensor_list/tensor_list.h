// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the kernels of tensor lists share, and operations that other kernels use on lists in variants.
#pragma once

#include "kernels/cpu/kernel_util.h"
#include "kernels/shared/tensor_list.h"

namespace millrace {

// The list of a handle. InvalidArgument if input `i` is not one. Valid as long as the input.
StatusOr<const TensorList*> InputList(const KernelContext& context, int i);
// A list equal to that of input `i`, which becomes output 0 and may be changed: the same one if nothing else
// refers to it. The input must not be read after that.
StatusOr<TensorList*> OutputListLike(KernelContext& context, int i);
// Makes `list` output `output`.
Status SetOutputList(KernelContext& context, int output, TensorList list);

// The shape in the shape argument of a list op: -1 for an unknown rank, else sizes, -1 for unknown ones.
StatusOr<PartialShape> ElementShapeArgument(const Tensor& shape);

// Zeros of that type: lists of zeros for nested lists, empty strings.
StatusOr<Tensor> ZeroTensor(KernelContext& context, DataType dtype, const TensorShape& shape);

// A list of zeros for a list; other variants give an empty variant. ResourceExhausted, here and below, if
// nested lists have millions of elements, each counted as often as it occurs.
StatusOr<Variant> ZerosLikeVariant(KernelContext& context, const Variant& value);
// The sum of two lists, element by element; an empty variant and elements without value count as zero.
StatusOr<Variant> AddVariants(KernelContext& context, const Variant& a, const Variant& b);

}  // namespace millrace
