// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Products and systems of equations with tridiagonal matrices.
#include "kernels/cpu/linalg/matrices.h"
#include "kernels/cpu/loop.h"

namespace millrace {
namespace {

// Calls fn with the element type.
template <typename Fn>
Status VisitElement(DataType dtype, Fn fn) {
  if (dtype == DataType::kFloat) return fn.template operator()<float>();
  if (dtype == DataType::kDouble) return fn.template operator()<double>();
  if (dtype == DataType::kComplex64) return fn.template operator()<complex64>();
  return fn.template operator()<complex128>();
}

// Inputs: the diagonals above, on and below the main one, each [..., 1, n], and the right-hand side. The last
// element of the first and the first of the last are ignored.
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
    return VisitElement(rhs.dtype(), [&]<typename T>() {
      const T* diagonals[] = {context.input(0).data<T>(), context.input(1).data<T>(),
                              context.input(2).data<T>()};
      return ForBatch(context, rhs.num_elements() / (n * k), static_cast<double>(5 * n * k), [&](int64_t b) {
        Product(diagonals[0] + b * n, diagonals[1] + b * n, diagonals[2] + b * n, rhs.data<T>() + b * n * k,
                n, k, out->data<T>() + b * n * k);
        return Status();
      });
    });
  }

 private:
  template <typename T>
  static void Product(const T* above, const T* on, const T* below, const T* x, int64_t n, int64_t k, T* y) {
    RunLoop([=]() MR_INLINE_LAMBDA {
      for (int64_t i = 0; i < n; ++i) {
        const T *const row = x + i * k, *const last = row - k, *const next = row + k;
        T* const __restrict sums = y + i * k;
        const T at = on[i], down = i > 0 ? below[i] : T(0), up = i + 1 < n ? above[i] : T(0);
        if (i > 0 && i + 1 < n) {
          for (int64_t j = 0; j < k; ++j) sums[j] = at * row[j] + down * last[j] + up * next[j];
        } else if (i > 0) {
          for (int64_t j = 0; j < k; ++j) sums[j] = at * row[j] + down * last[j];
        } else if (n > 1) {
          for (int64_t j = 0; j < k; ++j) sums[j] = at * row[j] + up * next[j];
        } else {
          for (int64_t j = 0; j < k; ++j) sums[j] = at * row[j];
        }
      }
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
    return VisitElement(rhs.dtype(), [&]<typename T>() {
      return ForBatch(context, rhs.num_elements() / (n * k), static_cast<double>(20 * n + 5 * n * k),
                      [&](int64_t b) -> Status {
                        Factors<ScalarOf<T>> factors(n);
                        LoadAs(diagonals, 3 * b * n, n, factors.above.data());
                        LoadAs(diagonals, (3 * b + 1) * n, n, factors.on.data());
                        LoadAs(diagonals, (3 * b + 2) * n, n, factors.below.data());
                        MR_RETURN_IF_ERROR(Factorize(&factors));
                        Eliminate(factors, rhs.data<T>() + b * n * k, k, out->data<T>() + b * n * k);
                        return Status();
                      });
    });
  }

 private:
  template <typename T>
  using ScalarOf = std::conditional_t<kIsComplex<T>, std::complex<double>, double>;

  // The factors of the matrix: one with one diagonal below the main one, and one with two above it.
  template <typename S>
  struct Factors {
    explicit Factors(int64_t rows)
        : above(static_cast<size_t>(rows)), on(above), below(above), second(above) {}
    std::vector<S> above, on;
    std::vector<S> below;           // then: the multiple of the previous row that is subtracted
    std::vector<S> second;          // the diagonal above `above`, which exchanged rows fill
    std::vector<size_t> exchanged;  // rows that were exchanged with the next one, in order
  };

  // Gaussian elimination; with pivoting, the larger of two rows comes first.
  template <typename S>
  Status Factorize(Factors<S>* f) const {
    const size_t n = f->on.size();
    if (n == 1 && f->on[0] == S(0))
      return errors::InvalidArgument("The matrix is not invertible: it is a scalar with value zero.");
    for (size_t i = 0; i + 1 < n; ++i) {
      S& below = f->below[i + 1];
      if (pivots_ && std::abs(f->on[i]) < std::abs(below)) {
        std::swap(f->on[i], below);
        std::swap(f->above[i], f->on[i + 1]);
        if (i + 2 < n) std::swap(f->second[i], f->above[i + 1]);
        f->exchanged.push_back(i);
      }
      if (f->on[i] == S(0)) return Failed();
      below /= f->on[i];
      f->on[i + 1] -= below * f->above[i];
      if (i + 2 < n) f->above[i + 1] -= below * f->second[i];
    }
    return f->on.back() == S(0) ? Failed() : Status();
  }

  // Computes x, [n, k], from the right-hand side, forwards and back. The elements keep their own type, as
  // sums of few products need no wider one.
  template <typename S, typename T>
  static void Eliminate(const Factors<S>& f, const T* rhs, int64_t k, T* x) {
    const auto n = static_cast<int64_t>(f.on.size());
    RunLoop([=, &f]() MR_INLINE_LAMBDA {
      const size_t* exchanged = f.exchanged.data();
      const size_t* const none = exchanged + f.exchanged.size();
      for (int64_t j = 0; j < k; ++j) x[j] = rhs[j];
      for (int64_t i = 0; i + 1 < n; ++i) {
        T* const __restrict row = x + i * k, * const __restrict next = row + k;
        const T* const __restrict from = rhs + (i + 1) * k;
        const T factor = static_cast<T>(f.below[static_cast<size_t>(i + 1)]);
        if (exchanged != none && *exchanged == static_cast<size_t>(i)) {
          ++exchanged;
          for (int64_t j = 0; j < k; ++j) {
            const T value = row[j];
            row[j] = from[j];
            next[j] = value - factor * from[j];
          }
        } else {
          for (int64_t j = 0; j < k; ++j) next[j] = from[j] - factor * row[j];
        }
      }
      const bool three = !f.exchanged.empty();
      for (int64_t i = n; i-- > 0;) {
        const auto at = static_cast<size_t>(i);
        T* const __restrict row = x + i * k;
        const T *const next = row + k, *const after = next + k;
        const T on = static_cast<T>(f.on[at]), above = static_cast<T>(f.above[at]);
        const T second = static_cast<T>(f.second[at]);
        if (three && i + 2 < n) {
          for (int64_t j = 0; j < k; ++j) row[j] = (row[j] - above * next[j] - second * after[j]) / on;
        } else if (i + 1 < n) {
          for (int64_t j = 0; j < k; ++j) row[j] = (row[j] - above * next[j]) / on;
        } else {
          for (int64_t j = 0; j < k; ++j) row[j] /= on;
        }
      }
    });
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
