// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// What the kernels of tensor lists share, and what other kernels do with lists in variants.
#pragma once

#include "kernels/cpu/kernel_util.h"
#include "kernels/shared/tensor_list.h"

namespace millrace {

// The list behind a handle. InvalidArgument when input `i` is none. Lives as long as the input.
StatusOr<const TensorList*> InputList(const KernelContext& context, int i);
// A list like that of input `i`, which becomes output 0 and may be changed: the same one when nothing else
// holds it. The input is not to be read any more.
StatusOr<TensorList*> OutputListLike(KernelContext& context, int i);
// Makes `list` output `output`.
Status SetOutputList(KernelContext& context, int output, TensorList list);

// What the shape argument of a list op says: -1 for nothing, else sizes, -1 for unknown ones.
StatusOr<PartialShape> ElementShapeArgument(const Tensor& shape);

// Zeros of that type: lists of zeros within lists, empty strings.
StatusOr<Tensor> ZeroTensor(KernelContext& context, DataType dtype, const TensorShape& shape);

// A list of zeros for a list; what is no list gives an empty variant. ResourceExhausted, here and below, when
// lists within the list have millions of elements, each counted as often as it occurs.
StatusOr<Variant> ZerosLikeVariant(KernelContext& context, const Variant& value);
// The sum of two lists, element by element; an empty variant counts as nothing, as do elements without value.
StatusOr<Variant> AddVariants(KernelContext& context, const Variant& a, const Variant& b);

}  // namespace millrace
