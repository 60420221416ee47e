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
// With `dtype` kInvalid numbers are int32 if all are whole and fit, else float; otherwise they are converted
// to that type. InvalidArgument for values that do not fit it, and for lists of different lengths.
StatusOr<Tensor> ReadFeed(Env& env, std::string_view text, DataType dtype);

// The elements converted to another type of numbers or to bool; the tensor itself if it has the type already.
// InvalidArgument for a conversion that does not exist or a number that does not fit.
StatusOr<Tensor> ConvertTo(const Tensor& tensor, DataType dtype);

// The elements that are neither zero nor empty, in order, with their indices and the dense shape.
// InvalidArgument for other types than numbers and strings.
struct SparseFeed {
  Tensor indices, values, shape;
};
StatusOr<SparseFeed> MakeSparse(const Tensor& dense);

// Deterministic values: numbers from 0 to 1 for floats, small integers for integers, zeros or empty strings
// for other types.
StatusOr<Tensor> MakeUpTensor(DataType dtype, const TensorShape& shape);

}  // namespace millrace::cli
