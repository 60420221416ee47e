// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/env.h"
#include "millrace/dtype.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace::cli {

// A tensor as a command line names it:
//   3   -1.5e3   true   [1, 2]   [[1, 2], [3, 4]]   ["a", "b"]     values
//   some text                                                     a string, where one is wanted
//   data.npy   data.npz:name                                      an array of a file
//   @file                                                         the bytes of a file, as a string
// With `dtype` kInvalid numbers are int32 when all are whole and fit, else float; otherwise they become that
// type. InvalidArgument for what does not fit it, and for lists of different lengths.
StatusOr<Tensor> ReadFeed(Env& env, std::string_view text, DataType dtype);

// The elements as another type of numbers, truth values among them; the tensor itself when it has the type
// already. InvalidArgument where a type can't be had or a number has no place in it.
StatusOr<Tensor> ConvertTo(const Tensor& tensor, DataType dtype);

// The elements that are neither zero nor empty, in order, with their places and the shape of the whole.
// InvalidArgument for other types than numbers and strings.
struct SparseFeed {
  Tensor indices, values, shape;
};
StatusOr<SparseFeed> MakeSparse(const Tensor& dense);

// Numbers from 0 to 1 for floats, small whole numbers for integers, always the same; zeros or empty strings
// for the rest.
StatusOr<Tensor> MakeUpTensor(DataType dtype, const TensorShape& shape);

}  // namespace millrace::cli
