// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linalg/dense.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/cpu/loop.h"

namespace millrace::dense {
namespace {

constexpr int64_t kWidth = Rows::kWidth;

// to[0 … kCount) -= the sum of factors[k * step] * rows[k][0 … kCount), in registers.
template <int64_t kCount>
inline MR_INLINE_LAMBDA void SubtractBlock(double* to, const double* factors, int64_t step,
                                           const double* rows, int64_t stride, int64_t count) {
  double sum[kCount];
  for (int64_t j = 0; j < kCount; ++j) sum[j] = to[j];
  for (int64_t k = 0; k < count; ++k) {
    const double factor = factors[k * step];
    const double* const row = rows + k * stride;
    for (int64_t j = 0; j < kCount; ++j) sum[j] -= factor * row[j];
  }
  for (int64_t j = 0; j < kCount; ++j) to[j] = sum[j];
}

// The same for columns [begin, end), both multiples of kWidth.
inline MR_INLINE_LAMBDA void Subtract(double* to, const double* factors, int64_t step, const double* rows,
                                      int64_t stride, int64_t count, int64_t begin, int64_t end) {
  int64_t j = begin;
  for (; j + 4 * kWidth <= end; j += 4 * kWidth)
    SubtractBlock<4 * kWidth>(to + j, factors, step, rows + j, stride, count);
  for (; j + 2 * kWidth <= end; j += 2 * kWidth)
    SubtractBlock<2 * kWidth>(to + j, factors, step, rows + j, stride, count);
  for (; j < end; j += kWidth) SubtractBlock<kWidth>(to + j, factors, step, rows + j, stride, count);
}

// The index of the first largest value in [begin, n), NaN being the largest, from their bits: a register of
// them at a time. Values that differ only in the lowest bits, which hold the indices, count as equal.
inline MR_INLINE_LAMBDA int64_t Largest(const double* values, int64_t begin, int64_t n) {
  static_assert(Rows::kMost == 256);
  int64_t most = 0;
  for (int64_t i = begin; i < n; ++i) {
    const int64_t key = (std::bit_cast<int64_t>(values[i]) & 0x7fffffffffffff00) | (255 - i);
    most = key > most ? key : most;
  }
  return 255 - (most & 255);
}

// to[j] += factor * from[j] for the columns [begin, end), both multiples of kWidth. The rows
// differ.
inline MR_INLINE_LAMBDA void AddRow(double* __restrict to, double factor, const double* __restrict from,
                                    int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; b += kWidth) {
    for (int64_t j = 0; j < kWidth; ++j) to[b + j] += factor * from[b + j];
  }
}

inline MR_INLINE_LAMBDA void Scale(double* row, double factor, int64_t stride) {
  for (int64_t b = 0; b < stride; b += kWidth) {
    for (int64_t j = b; j < b + kWidth; ++j) row[j] *= factor;
  }
}

}  // namespace

Rows::Rows(const Tensor& t, int64_t i) : Rows(RowsOf(t), ColumnsOf(t)) {
  const auto load = [&]<typename T>(const T* from) {
    RunLoop([=, to = values_.data(), rows = rows_, columns = columns_, stride = stride_]() MR_INLINE_LAMBDA {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) to[r * stride + c] = static_cast<double>(from[r * columns + c]);
      }
    });
  };
  const int64_t offset = i * rows_ * columns_;
  if (t.dtype() == DataType::kFloat) {
    load(t.data<float>() + offset);
  } else {
    load(t.data<double>() + offset);
  }
}

Rows Rows::FromColumns(const double* columns, int64_t rows, int64_t count) {
  Rows result(rows, count);
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t r = 0; r < rows; ++r) result[r][c] = columns[c * rows + r];
  }
  return result;
}
void Rows::ToColumns(double* columns) const {
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < columns_; ++c) columns[c * rows_ + r] = (*this)[r][c];
  }
}

void Rows::StoreTo(int64_t i, Tensor* t, int64_t rows) const {
  const auto store = [&]<typename T>(T* to) {
    RunLoop([=, from = values_.data(), columns = columns_, stride = stride_]() MR_INLINE_LAMBDA {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) to[r * columns + c] = static_cast<T>(from[r * stride + c]);
      }
    });
  };
  const int64_t offset = i * rows * columns_;
  if (t->dtype() == DataType::kFloat) {
    store(t->data<float>() + offset);
  } else {
    store(t->data<double>() + offset);
  }
}

Rows Rows::Transposed() const {
  Rows result(columns_, rows_);
  for (int64_t r = 0; r < rows_; ++r) {
    const double* const from = (*this)[r];
    double* const to = result.values_.data() + r;
    for (int64_t c = 0; c < columns_; ++c) to[c * result.stride_] = from[c];
  }
  return result;
}

namespace {

// The factors of `a` below the diagonal are stored in the rows of `lower`, whose rows are columns of L.
inline MR_INLINE_LAMBDA void Eliminate(double* a, double* lower, double* column, int64_t* from, int* sign,
                                       int64_t n, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) column[i] = a[i * stride];
  for (int64_t k = 0; k < n; ++k) {
    double* const row = a + k * stride;
    const int64_t pivot = Largest(column, k, n);
    if (pivot != k) {
      double* const other = a + pivot * stride;
      for (int64_t j = 0; j < stride; ++j) {
        const double held = row[j];
        row[j] = other[j];
        other[j] = held;
      }
      for (int64_t j = 0; j < k; ++j) {
        const double held = lower[j * stride + k];
        lower[j * stride + k] = lower[j * stride + pivot];
        lower[j * stride + pivot] = held;
      }
      column[pivot] = column[k];
      const int64_t held = from[k];
      from[k] = from[pivot];
      from[pivot] = held;
      *sign = -*sign;
    }
    const double divisor = row[k];
    double* const factors = lower + k * stride;
    if (divisor == 0) {
      for (int64_t i = k + 1; i < n; ++i) factors[i] = column[i];
    } else {
      for (int64_t i = 0; i < stride; i += kWidth) {
        for (int64_t l = 0; l < kWidth; ++l) factors[i + l] = column[i + l] / divisor;
      }
    }
    // Columns up to k are no longer needed.
    const int64_t begin = (k + 1) / kWidth * kWidth;
    for (int64_t i = k + 1; i < n; ++i) {
      double* const to = a + i * stride;
      const double factor = divisor == 0 ? 0 : factors[i];
      AddRow(to, -factor, row, begin, stride);
      column[i] = to[k + 1];
    }
  }
}

}  // namespace

Lu FactorLu(Rows m) {
  const int64_t n = m.rows(), stride = m.stride();
  Lu lu{std::move(m), std::vector<int64_t>(static_cast<size_t>(n)), 1};
  std::iota(lu.from.begin(), lu.from.end(), int64_t{0});
  Rows lower(n, n);
  std::vector<double> column(static_cast<size_t>(n + 2 * kWidth));
  RunLoop([=, a = lu.factors[0], lower = lower[0], column = column.data(), from = lu.from.data(),
           sign = &lu.sign]() MR_INLINE_LAMBDA {
    Eliminate(a, lower, column, from, sign, n, stride);
    for (int64_t i = 1; i < n; ++i) {
      for (int64_t k = 0; k < i; ++k) a[i * stride + k] = lower[k * stride + i];
    }
  });
  return lu;
}

bool IsSingular(const Rows& factor) {
  for (int64_t i = 0; i < factor.rows(); ++i) {
    if (!(std::abs(factor[i][i]) > 0)) return true;
  }
  return false;
}

bool FactorCholesky(Rows* m) {
  bool positive = true;
  RunLoop([a = (*m)[0], n = m->rows(), stride = m->stride(), positive = &positive]() MR_INLINE_LAMBDA {
    for (int64_t i = 0; i < n; ++i) {
      double* const row = a + i * stride;
      // The column above the pivot contains the factors of the rows above.
      Subtract(row, a + i, stride, a, stride, i, i / kWidth * kWidth, stride);
      if (row[i] <= 0) {
        *positive = false;
        return;
      }
      const double root = std::sqrt(row[i]), inverse = 1 / root;
      for (int64_t b = i / kWidth * kWidth; b < stride; b += kWidth) {
        for (int64_t j = b; j < b + kWidth; ++j) row[j] *= inverse;
      }
      row[i] = root;
      for (int64_t j = 0; j < i; ++j) row[j] = 0;
    }
  });
  return positive;
}

void SolveLower(const Rows& l, bool unit, Rows* b) {
  RunLoop([=, n = l.rows(), width = l.stride(), l = l[0], b = (*b)[0], stride = b->stride()]()
              MR_INLINE_LAMBDA {
                for (int64_t i = 0; i < n; ++i) {
                  double* const row = b + i * stride;
                  Subtract(row, l + i * width, 1, b, stride, i, 0, stride);
                  if (!unit) Scale(row, 1 / l[i * width + i], stride);
                }
              });
}

void SolveUpper(const Rows& u, Rows* b) {
  RunLoop([n = u.rows(), width = u.stride(), u = u[0], b = (*b)[0], stride = b->stride()]() MR_INLINE_LAMBDA {
    for (int64_t i = n; i-- > 0;) {
      double* const row = b + i * stride;
      Subtract(row, u + i * width + i + 1, 1, row + stride, stride, n - 1 - i, 0, stride);
      Scale(row, 1 / u[i * width + i], stride);
    }
  });
}

Rows Solve(const Lu& lu, const Rows& b) {
  Rows x(b.rows(), b.columns());
  for (int64_t i = 0; i < b.rows(); ++i) std::copy_n(b[lu.from[static_cast<size_t>(i)]], b.stride(), x[i]);
  SolveLower(lu.factors, /*unit=*/true, &x);
  SolveUpper(lu.factors, &x);
  return x;
}

Rows Inverse(const Lu& lu) {
  const int64_t n = lu.factors.rows();
  Rows x(n, n);
  for (int64_t i = 0; i < n; ++i) x[i][lu.from[static_cast<size_t>(i)]] = 1;
  SolveLower(lu.factors, /*unit=*/true, &x);
  SolveUpper(lu.factors, &x);
  return x;
}

Rows Product(const Rows& a, const Rows& b) {
  Rows c(a.rows(), b.columns());
  RunLoop([rows = a.rows(), inner = a.columns(), a = a[0], width = a.stride(), b = b[0], stride = b.stride(),
           c = c[0]]() MR_INLINE_LAMBDA {
    for (int64_t i = 0; i < rows; ++i) {
      double* const row = c + i * stride;
      Subtract(row, a + i * width, 1, b, stride, inner, 0, stride);
      for (int64_t j = 0; j < stride; ++j) row[j] = -row[j];
    }
  });
  return c;
}

namespace {

// The reflection 1 - tau v transposed(v) that maps a column to `beta` and zeros; v begins with a one, and is
// stored in place of the column.
struct Reflection {
  double beta, tau;
};
inline MR_INLINE_LAMBDA Reflection Reflect(double* column, int64_t n) {
  double parts[kWidth] = {};
  for (int64_t i = 1; i < n; ++i) parts[i % kWidth] += column[i] * column[i];
  double tail = 0;
  for (const double part : parts) tail += part;
  const double first = column[0];
  column[0] = 1;
  if (tail <= std::numeric_limits<double>::min()) {
    for (int64_t i = 1; i < n; ++i) column[i] = 0;
    return {first, 0};
  }
  const double norm = std::sqrt(first * first + tail), beta = first >= 0 ? -norm : norm;
  for (int64_t i = 1; i < n; ++i) column[i] /= first - beta;
  return {beta, (beta - first) / beta};
}

// Applies the reflection to the columns [begin, stride) of n rows.
inline MR_INLINE_LAMBDA void ApplyReflection(const double* v, double tau, double* a, int64_t n, int64_t begin,
                                             int64_t stride, double* sums, double* scaled) {
  for (int64_t j = begin; j < stride; ++j) sums[j] = 0;
  Subtract(sums, v, 1, a, stride, n, begin, stride);
  for (int64_t i = 0; i < n; ++i) scaled[i] = tau * v[i];
  for (int64_t i = 0; i < n; ++i) {
    AddRow(a + i * stride, scaled[i], sums, begin, stride);
  }
}

}  // namespace

Qr FactorQr(Rows m, int64_t columns) {
  const int64_t rows = m.rows(), count = std::min(rows, m.columns());
  Qr qr{Rows(rows, columns), std::move(m)};
  Rows vectors(count, rows);
  std::vector<double> taus(static_cast<size_t>(count));
  std::vector<double> room(static_cast<size_t>(std::max(qr.r.stride(), qr.q.stride()) + rows));
  RunLoop([=, a = qr.r[0], stride = qr.r.stride(), q = qr.q[0], width = qr.q.stride(), v = vectors[0],
           length = vectors.stride(), taus = taus.data(), room = room.data()]() MR_INLINE_LAMBDA {
    double *const scaled = room, *const sums = room + rows;
    for (int64_t k = 0; k < count; ++k) {
      double* const at = v + k * length;
      for (int64_t i = k; i < rows; ++i) at[i] = a[i * stride + k];
      const Reflection reflection = Reflect(at + k, rows - k);
      taus[k] = reflection.tau;
      // The columns up to k are no longer needed.
      const int64_t begin = (k + 1) / kWidth * kWidth;
      ApplyReflection(at + k, reflection.tau, a + k * stride, rows - k, begin, stride, sums, scaled);
      for (int64_t j = 0; j < k; ++j) a[k * stride + j] = 0;
      a[k * stride + k] = reflection.beta;
    }
    for (int64_t i = count; i < rows; ++i) {
      for (int64_t j = 0; j < stride; ++j) a[i * stride + j] = 0;
    }
    for (int64_t i = 0; i < std::min(rows, columns); ++i) q[i * width + i] = 1;
    for (int64_t k = count; k-- > 0;)
      ApplyReflection(v + k * length + k, taus[k], q + k * width, rows - k, k / kWidth * kWidth, width, sums,
                      scaled);
  });
  return qr;
}

}  // namespace millrace::dense
