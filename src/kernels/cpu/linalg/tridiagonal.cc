// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Products with, and systems of, matrices with three diagonals.
#include "kernels/cpu/linalg/matrices.h"
#include "kernels/cpu/loop.h"

namespace millrace {
namespace {

// Inputs: the diagonals above, on and below the main one, each [..., 1, n], and the right-hand side. The last
// element of the first and the first of the last do not count.
class TridiagonalMatMulKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 4));
    const Tensor& rhs = context.input(3);
    const int64_t n = RowsOf(rhs), k = ColumnsOf(rhs);
    for (int i = 0; i < 3; ++i) {
      const Tensor& diagonal = context.input(i);
      if (RowsOf(diagonal) != 1 || ColumnsOf(diagonal) != n) {
        return errors::InvalidArgument("Diagonals must be rows of ", n, " elements, got shape ",
                                       diagonal.shape());
      }
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, rhs.shape()));
    if (out->num_elements() == 0) return Status();
    return VisitScalar(rhs.dtype(), [&]<typename S>() {
      return ForBatch(context, rhs.num_elements() / (n * k), static_cast<double>(5 * n * k), [&](int64_t b) {
        std::vector<S> above(static_cast<size_t>(n)), on(above), below(above);
        LoadAs(context.input(0), b * n, n, above.data());
        LoadAs(context.input(1), b * n, n, on.data());
        LoadAs(context.input(2), b * n, n, below.data());
        std::vector<S> x(static_cast<size_t>(n * k)), y(x);
        LoadAs(rhs, b * n * k, n * k, x.data());
        RunLoop([=, up = above.data(), at = on.data(), down = below.data(), from = x.data(), to = y.data()]()
                    MR_INLINE_LAMBDA {
                      for (int64_t i = 0; i < n; ++i) {
                        const S *const row = from + i * k, *const last = row - k, *const next = row + k;
                        S* const sums = to + i * k;
                        for (int64_t j = 0; j < k; ++j) {
                          S sum = at[i] * row[j];
                          if (i > 0) sum += down[i] * last[j];
                          if (i + 1 < n) sum += up[i] * next[j];
                          sums[j] = sum;
                        }
                      }
                    });
        StoreAs(y.data(), b * n * k, n * k, out);
        return Status();
      });
    });
  }
};

// Inputs: the three diagonals as rows of one matrix, aligned by column, and the right-hand side.
class TridiagonalSolveKernel final : public OpKernel {
 public:
  explicit TridiagonalSolveKernel(KernelConstruction& c)
      : OpKernel(c), pivots_(c.Attr<bool>("partial_pivoting")) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 2));
    const Tensor &diagonals = context.input(0), &rhs = context.input(1);
    const int64_t n = ColumnsOf(diagonals), k = ColumnsOf(rhs);
    if (RowsOf(diagonals) != 3)
      return errors::InvalidArgument("Expected diagonals to have 3 rows, got shape ", diagonals.shape());
    if (RowsOf(rhs) != n) {
      return errors::InvalidArgument("The length of diagonals and rhs differ: ", diagonals.shape(), " and ",
                                     rhs.shape());
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, rhs.shape()));
    if (out->num_elements() == 0) return Status();
    return VisitScalar(rhs.dtype(), [&]<typename S>() {
      return ForBatch(context, rhs.num_elements() / (n * k), static_cast<double>(20 * n * k),
                      [&](int64_t b) -> Status {
                        System<S> system(n, k);
                        LoadAs(diagonals, 3 * b * n, n, system.above.data());
                        LoadAs(diagonals, (3 * b + 1) * n, n, system.on.data());
                        LoadAs(diagonals, (3 * b + 2) * n, n, system.below.data());
                        LoadAs(rhs, b * n * k, n * k, system.x.data());
                        MR_RETURN_IF_ERROR(Solve(&system));
                        StoreAs(system.x.data(), b * n * k, n * k, out);
                        return Status();
                      });
    });
  }

 private:
  template <typename S>
  struct System {
    System(int64_t rows, int64_t columns)
        : n(rows),
          k(columns),
          above(static_cast<size_t>(n)),
          on(above),
          below(above),
          second(above),
          x(static_cast<size_t>(n * k)) {}
    S& at(int64_t row, int64_t column) { return x[static_cast<size_t>(row * k + column)]; }
    int64_t n, k;
    std::vector<S> above, on, below;
    std::vector<S> second;  // the diagonal above `above`, which exchanged rows fill
    std::vector<S> x;
  };

  // Gaussian elimination, with the larger of two rows first when pivoting is on.
  template <typename S>
  Status Solve(System<S>* s) const {
    if (s->n == 1 && s->on[0] == S(0))
      return errors::InvalidArgument("The matrix is not invertible: it is a scalar with value zero.");
    for (int64_t row = 0; row + 1 < s->n; ++row) {
      const auto i = static_cast<size_t>(row);
      S below = s->below[i + 1];
      if (pivots_ && std::abs(s->on[i]) < std::abs(below)) {
        std::swap(s->on[i], below);
        std::swap(s->above[i], s->on[i + 1]);
        if (row + 2 < s->n) std::swap(s->second[i], s->above[i + 1]);
        for (int64_t j = 0; j < s->k; ++j) std::swap(s->at(row, j), s->at(row + 1, j));
      }
      if (s->on[i] == S(0)) return Failed();
      const S factor = below / s->on[i];
      s->on[i + 1] -= factor * s->above[i];
      if (row + 2 < s->n) s->above[i + 1] -= factor * s->second[i];
      RunLoop([factor, k = s->k, from = &s->at(row, 0), to = &s->at(row + 1, 0)]() MR_INLINE_LAMBDA {
        for (int64_t j = 0; j < k; ++j) to[j] -= factor * from[j];
      });
    }
    if (s->on.back() == S(0)) return Failed();
    for (int64_t row = s->n; row-- > 0;) {
      const auto i = static_cast<size_t>(row);
      RunLoop([row, n = s->n, k = s->k, to = &s->at(row, 0), on = s->on[i], above = s->above[i],
               second = s->second[i]]() MR_INLINE_LAMBDA {
        const S *const next = to + k, *const after = next + k;
        for (int64_t j = 0; j < k; ++j) {
          S value = to[j];
          if (row + 1 < n) value -= above * next[j];
          if (row + 2 < n) value -= second * after[j];
          to[j] = value / on;
        }
      });
    }
    return Status();
  }
  Status Failed() const {
    if (pivots_) return errors::InvalidArgument("The matrix is not invertible.");
    return errors::InvalidArgument("A zero was met on the diagonal. Try setting partial_pivoting to True.");
  }

  const bool pivots_;
};

}  // namespace

void RegisterTridiagonalKernels(KernelRegistry& registry) {
  registry.Register<TridiagonalMatMulKernel>(KernelDef("TridiagonalMatMul").Types("T", MatrixTypes()));
  registry.Register<TridiagonalSolveKernel>(KernelDef("TridiagonalSolve").Types("T", MatrixTypes()));
}

}  // namespace millrace
