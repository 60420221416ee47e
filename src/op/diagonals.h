// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// Diagonals of a matrix by number: 0 is the main one, those above it are positive. In a tensor of diagonals
// each has one row, the uppermost first, aligned to the left.
struct DiagonalRange {
  int64_t lower = 0, upper = 0;
  int64_t count() const { return upper - lower + 1; }

  // Length of the longest, for a matrix of that size.
  int64_t MaxLength(int64_t rows, int64_t columns) const {
    return std::min(rows + std::min<int64_t>(upper, 0), columns - std::max<int64_t>(lower, 0));
  }
  // Length of diagonal d; at most 0 where it lies outside.
  static int64_t Length(int64_t d, int64_t rows, int64_t columns) {
    return std::min(rows + std::min<int64_t>(d, 0), columns - std::max<int64_t>(d, 0));
  }
};

// From one or two values of an int32 tensor.
inline StatusOr<DiagonalRange> ReadDiagonals(const Tensor& k) {
  if (k.rank() > 1) {
    return errors::InvalidArgument("diag_index must be a scalar or vector, received shape: ", k.shape());
  }
  const int64_t n = k.num_elements();
  if (n < 1 || n > 2) {
    return errors::InvalidArgument("diag_index must be a vector with one or two elements. It has ", n,
                                   " elements.");
  }
  const DiagonalRange range{k.data<int32_t>()[0], k.data<int32_t>()[n - 1]};
  if (range.lower > range.upper) {
    return errors::InvalidArgument("lower_diag_index must not be larger than upper_diag_index, received: ",
                                   range.lower, " > ", range.upper);
  }
  return range;
}

// Whether both ends lie in a matrix; unknown sizes are negative.
inline Status CheckDiagonals(const DiagonalRange& range, int64_t rows, int64_t columns) {
  const auto check = [&](int64_t d, const char* name) -> Status {
    const bool in_rows = rows < 0 || d > -rows, in_columns = columns < 0 || d < columns;
    if (d == 0 || (in_rows && in_columns)) return Status();
    return errors::InvalidArgument(name, " is out of bound: ", d, ". It must be between ", -rows, " and ",
                                   columns);
  };
  MR_RETURN_IF_ERROR(check(range.lower, "lower_diag_index"));
  return check(range.upper, "upper_diag_index");
}

// The size of the matrix with diagonals of at most `length` elements. -1: as small as possible, or square
// when both are.
struct MatrixSize {
  int64_t rows = -1, columns = -1;
};
inline StatusOr<MatrixSize> FitMatrix(const DiagonalRange& range, int64_t length, MatrixSize wanted) {
  if (length > INT64_MAX / 2)
    return errors::InvalidArgument("Diagonals of ", length, " elements are too long.");
  const int64_t rows = length - std::min<int64_t>(range.upper, 0);
  const int64_t columns = length + std::max<int64_t>(range.lower, 0);
  if (wanted.rows != -1 && wanted.rows < rows)
    return errors::InvalidArgument("The number of rows is too small.");
  if (wanted.columns != -1 && wanted.columns < columns)
    return errors::InvalidArgument("The number of columns is too small.");
  if (wanted.rows == -1 && wanted.columns == -1) {
    wanted.rows = wanted.columns = std::max(rows, columns);
  } else if (wanted.rows == -1) {
    wanted.rows = rows;
  } else if (wanted.columns == -1) {
    wanted.columns = columns;
  }
  if (wanted.rows != rows && wanted.columns != columns) {
    return errors::InvalidArgument(
        "num_rows and num_cols are not consistent with lower_diag_index, upper_diag_index, and the length of "
        "the given diagonals.\nnum_rows = ",
        wanted.rows, " != min_num_rows = ", rows, ", num_cols = ", wanted.columns,
        " != min_num_cols = ", columns);
  }
  return wanted;
}

}  // namespace millrace
