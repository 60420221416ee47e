// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A sparse matrix times a dense one.
#include <algorithm>
#include <complex>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/sparse/util.h"

namespace millrace {
namespace {

template <typename T>
T Conjugate(const T& value, bool conjugate) {
  if constexpr (kIsComplex<T>) {
    return conjugate ? std::conj(value) : value;
  }
  return value;
}

class SparseTensorDenseMatMulKernel final : public OpKernel {
 public:
  explicit SparseTensorDenseMatMulKernel(KernelConstruction& c)
      : OpKernel(c), adjoint_a_(c.Attr<bool>("adjoint_a")), adjoint_b_(c.Attr<bool>("adjoint_b")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& values = context.input(1);
    const Tensor& shape = context.input(2);
    const Tensor& b = context.input(3);
    MR_RETURN_IF_ERROR(CheckShapes(indices, values, shape, b));
    const int64_t* const size = shape.data<int64_t>();
    const int64_t rows = size[adjoint_a_ ? 1 : 0], inner = size[adjoint_a_ ? 0 : 1];
    const int64_t b_inner = b.dim(adjoint_b_ ? 1 : 0), columns = b.dim(adjoint_b_ ? 0 : 1);
    if (inner != b_inner) {
      return errors::InvalidArgument(
          "Cannot multiply A and B because inner dimension does not match: ", inner, " vs. ", b_inner,
          ".  Did you forget a transpose?  Dimensions of A: [", size[0], ", ", size[1],
          ").  Dimensions of B: ", b.shape());
    }
    MR_ASSIGN_OR_RETURN(const TensorShape out_shape, ShapeFromValues(Dims{rows, columns}));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, out_shape));
    for (int64_t i = 0; !AreInside(indices, size) && i < indices.dim(0); ++i) {
      for (int d = 0; d < 2; ++d) {
        const int64_t at = IntValue(indices, 2 * i + d);
        if (at >= 0 && at < size[d]) continue;
        return errors::InvalidArgument((d == 0) == adjoint_a_ ? "k (" : "m (", at, ") from index[", i, ",", d,
                                       "] out of bounds (>=", size[d], ")");
      }
    }
    return VisitNumber(b.dtype(), NoSuchType(context, b.dtype()), [&]<typename T>() -> Status {
      if constexpr (kIsSmallFloat<T>) {
        MR_ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemp(DataType::kFloat, out_shape));
        Multiply(indices, values.data<T>(), b, columns, sums.flat<float>());
        std::transform(sums.data<float>(), sums.data<float>() + sums.num_elements(), out->data<T>(),
                       [](float v) { return T(v); });
      } else {
        Multiply(indices, values.data<T>(), b, columns, out->flat<T>());
      }
      return Status();
    });
  }

 private:
  static Status CheckShapes(const Tensor& indices, const Tensor& values, const Tensor& shape,
                            const Tensor& b) {
    if (!b.shape().IsMatrix()) return errors::InvalidArgument("Tensor 'b' is not a matrix");
    if (!shape.shape().IsVector()) return errors::InvalidArgument("Tensor 'a_shape' is not a vector");
    if (shape.num_elements() != 2) return errors::InvalidArgument("Tensor 'a_shape' must have 2 elements");
    if (!values.shape().IsVector()) return errors::InvalidArgument("Tensor 'a_values' is not a vector");
    if (!indices.shape().IsMatrix()) return errors::InvalidArgument("Tensor 'a_indices' is not a matrix");
    if (indices.dim(0) != values.dim(0)) {
      return errors::InvalidArgument(
          "Number of rows of a_indices does not match number of entries in a_values");
    }
    if (indices.dim(1) != 2) {
      return errors::InvalidArgument(
          "Number of columns of a_indices does not match number of entries in a_shape");
    }
    return Status();
  }

  static bool AreInside(const Tensor& indices, const int64_t* size) {
    const auto inside = [n = indices.dim(0), size]<typename Index>(const Index* at) {
      bool good = true;
      for (int64_t i = 0; i < n; ++i) {
        // Negative ones are large as unsigned numbers.
        good &= static_cast<uint64_t>(int64_t{at[2 * i]}) < static_cast<uint64_t>(size[0]);
        good &= static_cast<uint64_t>(int64_t{at[2 * i + 1]}) < static_cast<uint64_t>(size[1]);
      }
      return good;
    };
    return indices.dtype() == DataType::kInt32 ? inside(indices.data<int32_t>())
                                               : inside(indices.data<int64_t>());
  }

  // Sums in the order of the values, in float for small ones.
  template <typename T, typename Sum>
  void Multiply(const Tensor& indices, const T* values, const Tensor& b, int64_t columns,
                std::span<Sum> to) const {
    std::fill(to.begin(), to.end(), Sum(0.0f));
    const auto run = [&]<typename Index>(const Index* places) {
      RunLoop([=, rows = b.data<T>(), sums = to.data(), count = indices.dim(0), b_columns = b.dim(1),
               swap_a = adjoint_a_, swap_b = adjoint_b_]() MR_INLINE_LAMBDA {
        for (int64_t i = 0; i < count; ++i) {
          const auto m = static_cast<int64_t>(places[2 * i + (swap_a ? 1 : 0)]);
          const auto k = static_cast<int64_t>(places[2 * i + (swap_a ? 0 : 1)]);
          const Sum a = static_cast<Sum>(Conjugate(values[i], swap_a));
          Sum* const sum = sums + m * columns;
          if (!swap_b) {
            const T* const row = rows + k * b_columns;
#pragma GCC ivdep
            for (int64_t n = 0; n < columns; ++n) sum[n] = Plus(sum[n], Times(a, static_cast<Sum>(row[n])));
          } else {
            for (int64_t n = 0; n < columns; ++n)
              sum[n] = Plus(sum[n], Times(a, static_cast<Sum>(Conjugate(rows[n * b_columns + k], true))));
          }
        }
      });
    };
    if (indices.dtype() == DataType::kInt32) {
      run(indices.data<int32_t>());
    } else {
      run(indices.data<int64_t>());
    }
  }

  const bool adjoint_a_;
  const bool adjoint_b_;
};

}  // namespace

void RegisterSparseMatMulKernels(KernelRegistry& registry) {
  registry.Register<SparseTensorDenseMatMulKernel>(
      KernelDef("SparseTensorDenseMatMul").Types("T", NumberTypes()).Types("Tindices", IndexTypes()));
}

}  // namespace millrace
