// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "data/dataset.h"
#include "tensor/allocator.h"

namespace millrace::data {

// Copies all elements of `from` to those of `to` that begin at `at`. REQUIRES: the types agree, and there is
// room.
void CopyInto(Tensor* to, int64_t at, const Tensor& from);
// Makes all elements of `to` the only one of `value`. REQUIRES: the types agree.
void Fill(Tensor* to, const Tensor& value);
// A tensor whose elements are zeros or empty.
StatusOr<Tensor> Zeros(DataType dtype, const TensorShape& shape, Allocator& allocator);

// Component `i` of all elements as the rows of one tensor. InvalidArgument "Cannot batch tensors with
// different shapes in component 0. First element had shape [2] and element 1 had shape [3]." Threads of
// `pool`, which may be null, copy large elements; those that make up a buffer as they are, are not copied.
// REQUIRES: at least one element.
StatusOr<Tensor> StackComponent(const std::vector<Element>& elements, size_t i, Allocator& allocator,
                                ThreadPool* pool = nullptr);
// Tensors of rows, one after the other. REQUIRES: at least one, all with the same components.
StatusOr<Element> JoinRows(std::vector<Element> parts, Allocator& allocator);
// The same for all components.
StatusOr<Element> StackElements(const std::vector<Element>& elements, Allocator& allocator,
                                ThreadPool* pool = nullptr);
// The time that copying `tensor` takes, in nanoseconds, as loops over tensors are told it.
int64_t CopyCost(const Tensor& tensor);

}  // namespace millrace::data
