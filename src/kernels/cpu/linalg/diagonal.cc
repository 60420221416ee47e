// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Diagonals and bands of matrices of elements of any type.
#include "op/diagonals.h"

#include <algorithm>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

// A batch of matrices, and of the stacks of their diagonals.
struct Stacks {
  DiagonalRange range;
  int64_t batch = 1, rows = 0, columns = 0;
  int64_t length = 0;  // of a row of a stack

  // Stacks have more elements than their matrices; if there are no elements, the shape may be too large.
  StatusOr<TensorShape> StackShape(TensorShape batch_shape) const {
    if (range.count() > 1) MR_RETURN_IF_ERROR(batch_shape.TryAddDim(range.count()));
    MR_RETURN_IF_ERROR(batch_shape.TryAddDim(length));
    return batch_shape;
  }
};

// The first dimensions of `t`, without the last `n`.
TensorShape BatchOf(const Tensor& t, int n) {
  TensorShape shape = t.shape();
  for (int i = 0; i < n; ++i) shape.RemoveDim(shape.rank() - 1);
  return shape;
}

// Copies all diagonals from the matrices to the stacks, or vice versa.
void CopyDiagonals(const Stacks& s, DataType dtype, const void* from, void* to, bool into_matrix,
                   cpu::Parallel& parallel) {
  if (s.batch == 0) return;
  const int64_t matrix_size = s.rows * s.columns, stack_size = s.range.count() * s.length;
  const int64_t first = std::max(s.range.lower, 1 - s.rows), last = std::min(s.range.upper, s.columns - 1);
  const int64_t matrix_strides[] = {matrix_size, s.columns + 1}, stack_strides[] = {stack_size, 1};
  for (int64_t d = first; d <= last; ++d) {
    const int64_t length = DiagonalRange::Length(d, s.rows, s.columns);
    if (length <= 0) continue;
    const int64_t dims[] = {s.batch, length};
    const int64_t in_matrix = d >= 0 ? d : -d * s.columns, in_stack = (s.range.upper - d) * s.length;
    if (into_matrix) {
      MoveBox(dtype, ElementAt(from, dtype, in_stack), stack_strides, ElementAt(to, dtype, in_matrix),
              matrix_strides, dims, parallel);
    } else {
      MoveBox(dtype, ElementAt(from, dtype, in_matrix), matrix_strides, ElementAt(to, dtype, in_stack),
              stack_strides, dims, parallel);
    }
  }
}

Status RequireVectors(const Tensor& t, const char* name) {
  if (t.rank() >= 1) return Status();
  return errors::InvalidArgument(name, " must be at least 1-dim, received shape: ", t.shape());
}
Status RequireMatrices(const Tensor& t) {
  if (t.rank() >= 2) return Status();
  return errors::InvalidArgument("input must be at least 2-dim, received shape: ", t.shape());
}

StatusOr<int64_t> ScalarInput(const Tensor& t, const char* name) {
  if (t.num_elements() != 1) return errors::InvalidArgument(name, " must be a scalar");
  return IntValue(t);
}

// Fills with a padding of one element, or with zeros without it.
Status Pad(const Tensor* padding, Tensor* out, cpu::Parallel& parallel) {
  if (padding == nullptr) {
    ZeroElements(out->dtype(), out->raw_data(), out->num_elements(), parallel);
    return Status();
  }
  if (padding->num_elements() != 1) return errors::InvalidArgument("padding_value must be a scalar");
  FillElements(out->dtype(), padding->raw_data(), out->raw_data(), out->num_elements(), parallel);
  return Status();
}

// MatrixDiag(diagonal), MatrixDiagV2(diagonal, k, num_rows, num_cols, padding_value).
class MatrixDiagKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const bool v2 = num_inputs() > 1;
    Stacks s;
    MatrixSize wanted;
    MR_RETURN_IF_ERROR(RequireVectors(in, v2 ? "diagonal" : "input"));
    if (v2) {
      MR_ASSIGN_OR_RETURN(s.range, ReadDiagonals(context.input(1)));
      MR_ASSIGN_OR_RETURN(wanted.rows, ScalarInput(context.input(2), "num_rows"));
      MR_ASSIGN_OR_RETURN(wanted.columns, ScalarInput(context.input(3), "num_cols"));
    }
    const bool stacked = s.range.count() > 1;
    if (stacked && (in.rank() < 2 || in.dim(in.rank() - 2) != s.range.count())) {
      return errors::InvalidArgument(
          "The number of diagonals provided in the input does not match the lower_diag_index and "
          "upper_diag_index range.");
    }
    s.length = in.dim(in.rank() - 1);
    MR_ASSIGN_OR_RETURN(const MatrixSize size, FitMatrix(s.range, s.length, wanted));
    s.rows = size.rows;
    s.columns = size.columns;
    TensorShape shape = BatchOf(in, stacked ? 2 : 1);
    s.batch = shape.num_elements();
    MR_RETURN_IF_ERROR(shape.TryAddDim(s.rows));
    MR_RETURN_IF_ERROR(shape.TryAddDim(s.columns));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    MR_RETURN_IF_ERROR(Pad(v2 ? &context.input(4) : nullptr, out, parallel));
    if (out->num_elements() > 0 && in.num_elements() > 0)
      CopyDiagonals(s, in.dtype(), in.raw_data(), out->raw_data(), /*into_matrix=*/true, parallel);
    return Status();
  }
};

// The matrices of MatrixDiagPart and MatrixSetDiag.
StatusOr<Stacks> StacksOf(const Tensor& in, const Tensor* k) {
  Stacks s;
  MR_RETURN_IF_ERROR(RequireMatrices(in));
  if (k != nullptr) {
    MR_ASSIGN_OR_RETURN(s.range, ReadDiagonals(*k));
  }
  s.rows = in.dim(in.rank() - 2);
  s.columns = in.dim(in.rank() - 1);
  MR_RETURN_IF_ERROR(CheckDiagonals(s.range, s.rows, s.columns));
  s.length = std::max<int64_t>(s.range.MaxLength(s.rows, s.columns), 0);
  s.batch = BatchOf(in, 2).num_elements();
  return s;
}

// MatrixDiagPart(input), MatrixDiagPartV2(input, k, padding_value).
class MatrixDiagPartKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const bool v2 = num_inputs() > 1;
    MR_ASSIGN_OR_RETURN(const Stacks s, StacksOf(in, v2 ? &context.input(1) : nullptr));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, s.StackShape(BatchOf(in, 2)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    if (v2) MR_RETURN_IF_ERROR(Pad(&context.input(2), out, parallel));
    if (out->num_elements() > 0 && in.num_elements() > 0)
      CopyDiagonals(s, in.dtype(), in.raw_data(), out->raw_data(), /*into_matrix=*/false, parallel);
    return Status();
  }
};

// MatrixSetDiag(input, diagonal), MatrixSetDiagV2(input, diagonal, k).
class MatrixSetDiagKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& diagonal = context.input(1);
    MR_ASSIGN_OR_RETURN(const Stacks s, StacksOf(in, num_inputs() > 2 ? &context.input(2) : nullptr));
    MR_RETURN_IF_ERROR(RequireVectors(diagonal, "diagonal"));
    MR_ASSIGN_OR_RETURN(const TensorShape expected, s.StackShape(BatchOf(in, 2)));
    if (diagonal.shape() != expected) {
      return errors::InvalidArgument(
          "must have diagonal.shape == input.shape[:-2] + the diagonals' shape, but received input shape: ",
          in.shape(), " and diagonal shape: ", diagonal.shape(), ", expected diagonal shape: ", expected);
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.ForwardInputOrAllocateOutput({0}, 0, in.shape()));
    ContextParallel parallel(context);
    if (out->raw_data() != context.input(0).raw_data()) {
      MoveElements(out->dtype(), context.input(0).raw_data(), out->raw_data(), out->num_elements(), parallel);
    }
    if (out->num_elements() > 0)
      CopyDiagonals(s, out->dtype(), diagonal.raw_data(), out->raw_data(), /*into_matrix=*/true, parallel);
    return Status();
  }
};

class BandPartKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(RequireMatrices(context.input(0)));
    const TensorShape shape = context.input(0).shape();
    const int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
    MR_ASSIGN_OR_RETURN(const int64_t lower, Width(context.input(1), "num_lower", "rows", rows));
    MR_ASSIGN_OR_RETURN(const int64_t upper, Width(context.input(2), "num_upper", "columns", columns));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.ForwardInputOrAllocateOutput({0}, 0, shape));
    ContextParallel parallel(context);
    if (out->raw_data() != context.input(0).raw_data()) {
      MoveElements(out->dtype(), context.input(0).raw_data(), out->raw_data(), out->num_elements(), parallel);
    }
    if (out->num_elements() == 0) return Status();
    const DataType dtype = out->dtype();
    context.ParallelFor(shape.num_elements() / columns, columns + 10, [&](int64_t begin, int64_t end) {
      cpu::SerialParallel serial;
      for (int64_t r = begin; r < end; ++r) {
        const int64_t row = r % rows;
        const int64_t first = lower < 0 ? 0 : std::clamp<int64_t>(row - lower, 0, columns);
        const int64_t last = upper < 0 ? columns : std::min(row + upper + 1, columns);
        const int64_t start = r * columns;
        ZeroElements(dtype, ElementAt(out->raw_data(), dtype, start), first, serial);
        if (last < columns)
          ZeroElements(dtype, ElementAt(out->raw_data(), dtype, start + last), columns - last, serial);
      }
    });
    return Status();
  }

 private:
  // The number of diagonals to keep on one side; negative: all.
  static StatusOr<int64_t> Width(const Tensor& t, const char* name, const char* what, int64_t limit) {
    if (!t.shape().IsScalar()) return errors::InvalidArgument(name, " must be scalar, got shape ", t.shape());
    const int64_t width = IntValue(t);
    if (width > limit) {
      return errors::InvalidArgument(name, " must be negative or less or equal to number of ", what, " (",
                                     limit, ") got: ", width);
    }
    return width;
  }
};

class DiagKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() < 1) return errors::InvalidArgument("Input must be at least rank 1, got 0");
    TensorShape shape = in.shape();
    for (const int64_t d : in.shape().dims()) MR_RETURN_IF_ERROR(shape.TryAddDim(d));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    MR_RETURN_IF_ERROR(Pad(nullptr, out, parallel));
    const int64_t n = in.num_elements(), from[] = {1}, to[] = {n + 1}, dims[] = {n};
    if (n > 0) MoveBox(in.dtype(), in.raw_data(), from, out->raw_data(), to, dims, parallel);
    return Status();
  }
};

class DiagPartKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const int rank = in.rank();
    if (rank == 0 || rank % 2 != 0) {
      return errors::InvalidArgument("The rank of the tensor should be even and positive, got shape ",
                                     in.shape());
    }
    TensorShape shape;
    for (int i = 0; i < rank / 2; ++i) {
      if (in.dim(i) != in.dim(i + rank / 2)) {
        return errors::InvalidArgument("Invalid shape ", in.shape(), ": dimensions ", i, " and ",
                                       i + rank / 2, " do not match.");
      }
      shape.AddDim(in.dim(i));
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    const int64_t n = shape.num_elements(), from[] = {n + 1}, to[] = {1}, dims[] = {n};
    if (n > 0) MoveBox(in.dtype(), in.raw_data(), from, out->raw_data(), to, dims, parallel);
    return Status();
  }
};

}  // namespace

void RegisterDiagonalKernels(KernelRegistry& registry) {
  const TypeList diag = {DataType::kBfloat16, DataType::kHalf,  DataType::kFloat,     DataType::kDouble,
                         DataType::kInt32,    DataType::kInt64, DataType::kComplex64, DataType::kComplex128};
  registry.Register<DiagKernel>(KernelDef("Diag").Types("T", diag));
  registry.Register<DiagPartKernel>(KernelDef("DiagPart").Types("T", diag));
  for (const char* op : {"MatrixDiag", "MatrixDiagV2", "BatchMatrixDiag"})
    registry.Register<MatrixDiagKernel>(KernelDef(op));
  for (const char* op : {"MatrixDiagPart", "MatrixDiagPartV2", "BatchMatrixDiagPart"})
    registry.Register<MatrixDiagPartKernel>(KernelDef(op));
  for (const char* op : {"MatrixSetDiag", "MatrixSetDiagV2", "BatchMatrixSetDiag"})
    registry.Register<MatrixSetDiagKernel>(KernelDef(op));
  for (const char* op : {"MatrixBandPart", "BatchMatrixBandPart"})
    registry.Register<BandPartKernel>(KernelDef(op));
}

}  // namespace millrace
