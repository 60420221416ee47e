// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Transpose, ConjugateTranspose and InvertPermutation.
#include "kernels/cpu/vector/transpose.h"

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

StatusOr<SmallVector<int, 8>> ReadPermutation(const Tensor& perm, int rank) {
  if (!perm.shape().IsVector()) return errors::InvalidArgument("perm must be a vector, not ", perm.shape());
  if (perm.num_elements() != rank) {
    return errors::InvalidArgument("transpose expects a vector of size ", rank,
                                   ". But input(1) is a vector of size ", perm.num_elements());
  }
  SmallVector<int, 8> axes;
  SmallVector<bool, 8> seen;
  seen.resize(static_cast<uint32_t>(rank), false);
  for (int i = 0; i < rank; ++i) {
    const int64_t axis = IntValue(perm, i);
    if (axis < 0 || axis >= rank) return errors::InvalidArgument(axis, " is out of range [0 .. ", rank, ")");
    axes.push_back(static_cast<int>(axis));
    seen[axis] = true;
  }
  for (int i = 0; i < rank; ++i) {
    if (!seen[i]) return errors::InvalidArgument(i, " is missing from {", JoinInts(IntValues(perm)), "}.");
  }
  return axes;
}

// Whether the elements stay in order: the axes longer than 1 do.
bool KeepsOrder(const TensorShape& shape, std::span<const int> axes) {
  int last = -1;
  for (const int axis : axes) {
    if (shape.dim(axis) == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// The conjugate of complex numbers; real tensors are returned unchanged.
StatusOr<Tensor> Conjugated(KernelContext& context, Tensor in) {
  const auto conjugate = [&]<typename T>(T*) -> StatusOr<Tensor> {
    MR_ASSIGN_OR_RETURN(Tensor out, context.AllocateTemp(in.dtype(), in.shape()));
    context.ParallelFor(in.num_elements(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out.data<T>()[i] = std::conj(in.data<T>()[i]);
    });
    return out;
  };
  if (in.dtype() == DataType::kComplex64) return conjugate(static_cast<complex64*>(nullptr));
  if (in.dtype() == DataType::kComplex128) return conjugate(static_cast<complex128*>(nullptr));
  return in;
}

// Also ConjugateTranspose.
class TransposeKernel final : public OpKernel {
 public:
  explicit TransposeKernel(KernelConstruction& c)
      : OpKernel(c), conjugates_(op_name() == "ConjugateTranspose") {}
  Status Compute(KernelContext& context) override {
    const TensorShape in_shape = context.input(0).shape();
    MR_ASSIGN_OR_RETURN(const auto axes, ReadPermutation(context.input(1), in_shape.rank()));
    TensorShape shape;
    for (const int axis : axes) MR_RETURN_IF_ERROR(shape.TryAddDim(in_shape.dim(axis)));
    Tensor in = context.TakeInput(0);
    if (conjugates_) {
      MR_ASSIGN_OR_RETURN(in, Conjugated(context, std::move(in)));
    }
    if (KeepsOrder(in_shape, axes) || shape.num_elements() == 0) {
      context.set_output(0, in.WithShape(shape));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    if (OwnsMemory(in.dtype())) {
      const Dims from = RowMajorStrides(in_shape.dims());
      Dims strides;
      for (const int axis : axes) strides.push_back(from[axis]);
      MoveBox(in.dtype(), in.raw_data(), strides, out->raw_data(), RowMajorStrides(shape.dims()),
              shape.dims(), parallel);
    } else {
      cpu::Transpose(in.raw_data(), in_shape.dims(), axes, static_cast<int64_t>(ElementSize(in.dtype())),
                     out->raw_data(), parallel);
    }
    return Status();
  }

 private:
  const bool conjugates_;
};

class InvertPermutationKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (!in.shape().IsVector()) return errors::InvalidArgument("invert_permutation expects a 1D vector.");
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    return in.dtype() == DataType::kInt32 ? Run<int32_t>(in, *out) : Run<int64_t>(in, *out);
  }

 private:
  template <typename T>
  static Status Run(const Tensor& in, Tensor& out) {
    const int64_t n = in.num_elements();
    T* to = out.data<T>();
    std::fill_n(to, n, T{-1});
    for (int64_t i = 0; i < n; ++i) {
      const T d = in.data<T>()[i];
      if (d < 0 || d >= n) return errors::InvalidArgument(d, " is not between 0 and ", n);
      if (to[d] != -1) return errors::InvalidArgument(d, " is duplicated in the input.");
      to[d] = static_cast<T>(i);
    }
    return Status();
  }
};

}  // namespace

void RegisterTransposeKernels(KernelRegistry& registry) {
  registry.Register<TransposeKernel>(KernelDef("Transpose"));
  registry.Register<TransposeKernel>(KernelDef("ConjugateTranspose"));
  registry.Register<InvertPermutationKernel>(KernelDef("InvertPermutation").Types("T", IndexTypes()));
}

}  // namespace millrace
