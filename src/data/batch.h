// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "data/dataset.h"
#include "tensor/allocator.h"

namespace millrace::data {

// Copies all elements of `from` to the elements of `to` from `at` on. REQUIRES: the types agree, and there is
// room.
void CopyInto(Tensor* to, int64_t at, const Tensor& from);
// Sets all elements of `to` to the only element of `value`. REQUIRES: the types agree.
void Fill(Tensor* to, const Tensor& value);
// A tensor whose elements are zeros or empty.
StatusOr<Tensor> Zeros(DataType dtype, const TensorShape& shape, Allocator& allocator);

// Component `i` of all elements as the rows of one tensor. InvalidArgument "Cannot batch tensors with
// different shapes in component 0. First element had shape [2] and element 1 had shape [3]." Threads of
// `pool`, which may be null, copy large elements; elements that already form one buffer are not copied.
// REQUIRES: at least one element.
StatusOr<Tensor> StackComponent(const std::vector<Element>& elements, size_t i, Allocator& allocator,
                                ThreadPool* pool = nullptr);
// Concatenates tensors of rows. REQUIRES: at least one, all with the same components.
StatusOr<Element> JoinRows(std::vector<Element> parts, Allocator& allocator);
// The same for all components.
StatusOr<Element> StackElements(const std::vector<Element>& elements, Allocator& allocator,
                                ThreadPool* pool = nullptr);
// The time of copying `tensor`, in nanoseconds, as an estimate for loops over tensors.
int64_t CopyCost(const Tensor& tensor);

}  // namespace millrace::data
