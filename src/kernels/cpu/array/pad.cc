// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Pad, PadV2, Tile and TileGrad.
#include <complex>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

// The position of a box of elements in a larger one.
struct Margins {
  Dims before, inside, after;
  Dims strides;   // of the larger one
  int last = -1;  // dimension with elements outside; -1: none

  // Calls fill(offset, count) for the runs outside the box, in the part of dimension `dim` from `offset` on.
  template <typename Fn>
  void ForEachRun(const Fn& fill, int dim = 0, int64_t offset = 0) const {
    const int64_t stride = strides[dim];
    if (before[dim] > 0) fill(offset, before[dim] * stride);
    offset += before[dim] * stride;
    if (dim < last) {
      for (int64_t i = 0; i < inside[dim]; ++i) ForEachRun(fill, dim + 1, offset + i * stride);
    }
    if (after[dim] > 0) fill(offset + inside[dim] * stride, after[dim] * stride);
  }
};

class PadKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& paddings = context.input(1);
    const int rank = in.rank();
    if (!paddings.shape().IsMatrix() || paddings.dim(1) != 2) {
      return errors::InvalidArgument("paddings must be a matrix with 2 columns: ", paddings.shape());
    }
    if (paddings.dim(0) != rank) {
      return errors::InvalidArgument("The first dimension of paddings must be the rank of inputs",
                                     paddings.shape(), " ", in.shape());
    }
    const Tensor* value = context.num_inputs() > 2 ? &context.input(2) : nullptr;
    if (value != nullptr && !value->shape().IsScalar()) {
      return errors::InvalidArgument("constant_values must be a scalar. Found: ", value->shape());
    }
    Dims dims;
    Margins margins;
    for (int i = 0; i < rank; ++i) {
      const int64_t before = IntValue(paddings, 2 * i), after = IntValue(paddings, 2 * i + 1);
      if (before < 0 || after < 0) {
        return errors::InvalidArgument("Paddings must be non-negative: ", before, " ", after);
      }
      int64_t size;
      if (__builtin_add_overflow(before, after, &size) || __builtin_add_overflow(size, in.dim(i), &size)) {
        return errors::InvalidArgument("Padded dimension ", i, " overflows: ", before, " + ", in.dim(i),
                                       " + ", after);
      }
      if (before > 0 || after > 0) margins.last = i;
      margins.before.push_back(before);
      margins.inside.push_back(in.dim(i));
      margins.after.push_back(after);
      dims.push_back(size);
    }
    if (margins.last < 0) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return Status();
    ContextParallel parallel(context);
    const auto fill = [&](int64_t offset, int64_t count) {
      void* const at = ElementAt(out->raw_data(), in.dtype(), offset);
      if (value != nullptr) {
        FillElements(in.dtype(), value->raw_data(), at, count, parallel);
      } else {
        ZeroElements(in.dtype(), at, count, parallel);
      }
    };
    const Dims to = margins.strides = RowMajorStrides(dims);
    // Margins with short runs, which are not worth separate calls, are filled together with everything else.
    constexpr int64_t kShortRun = 64;
    if (in.num_elements() == 0 || to[margins.last] < kShortRun) {
      fill(0, shape.num_elements());
    } else {
      margins.ForEachRun(fill);
    }
    if (in.num_elements() == 0) return Status();
    int64_t offset = 0;
    for (int i = 0; i < rank; ++i) offset += IntValue(paddings, 2 * i) * to[i];
    MoveBox(in.dtype(), in.raw_data(), RowMajorStrides(in.shape().dims()),
            ElementAt(out->raw_data(), in.dtype(), offset), to, in.shape().dims(), parallel);
    return Status();
  }
};

class TileKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& multiples = context.input(1);
    const int rank = in.rank();
    if (!multiples.shape().IsVector()) {
      return errors::InvalidArgument("Expected multiples to be 1-D, but got shape ", multiples.shape());
    }
    if (multiples.num_elements() != rank) {
      return errors::InvalidArgument("Expected multiples argument to be a vector of length ", rank,
                                     " but got length ", multiples.num_elements());
    }
    // Each dimension becomes two, the repetitions and the elements; the first one has stride 0.
    const Dims own = RowMajorStrides(in.shape().dims());
    Dims dims, box, from;
    bool identity = true;
    for (int i = 0; i < rank; ++i) {
      const int64_t m = IntValue(multiples, i);
      if (m < 0) return errors::InvalidArgument("Expected multiples[", i, "] >= 0, but got ", m);
      int64_t size;
      if (!MultiplyFits(m, in.dim(i), &size)) {
        return errors::InvalidArgument("Tiled dimension ", i, " overflows: ", m, " * ", in.dim(i));
      }
      identity &= m == 1;
      dims.push_back(size);
      box.push_back(m);
      box.push_back(in.dim(i));
      from.push_back(0);
      from.push_back(own[i]);
    }
    if (identity) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return Status();
    ContextParallel parallel(context);
    MoveBox(in.dtype(), in.raw_data(), from, out->raw_data(), RowMajorStrides(box), box, parallel);
    return Status();
  }
};

// The sum of the tiles: an input of m * n elements along a dimension gives n.
class TileGradKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& multiples = context.input(1);
    if (!multiples.shape().IsVector()) {
      return errors::InvalidArgument("Expected multiples to be 1-D, but got shape ", multiples.shape());
    }
    if (multiples.num_elements() != in.rank()) {
      return errors::InvalidArgument("Expected multiples argument to be a vector of length ", in.rank(),
                                     " but got length ", multiples.num_elements());
    }
    Dims dims;
    for (int i = 0; i < in.rank(); ++i) {
      const int64_t m = IntValue(multiples, i);
      if (m <= 0) return errors::InvalidArgument("Expected multiples[", i, "] > 0, but got ", m);
      if (in.dim(i) % m != 0) {
        return errors::InvalidArgument("Expected input_dim[", i, "] to be divisible by multiples[", i,
                                       "], but ", in.dim(i), " % ", m, " != 0");
      }
      dims.push_back(in.dim(i) / m);
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return VisitNumber(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      std::fill_n(out->data<T>(), out->num_elements(), T(0.0f));
      if (in.num_elements() > 0) Add(in, dims, out->data<T>());
      return Status();
    });
  }

 private:
  // Visits the input in order, with the index in each dimension.
  template <typename T>
  static void Add(const Tensor& in, const Dims& dims, T* out) {
    const Dims strides = RowMajorStrides(dims);
    Dims place;
    for (int i = 0; i < in.rank(); ++i) place.push_back(0);
    for (int64_t k = 0; k < in.num_elements(); ++k) {
      int64_t to = 0;
      for (int i = 0; i < in.rank(); ++i) to += place[i] % dims[i] * strides[i];
      out[to] = Plus(out[to], in.data<T>()[k]);
      for (int i = in.rank(); i-- > 0 && ++place[i] == in.dim(i);) place[i] = 0;
    }
  }
};

}  // namespace

void RegisterPadKernels(KernelRegistry& registry) {
  registry.Register<PadKernel>(KernelDef("Pad"));
  registry.Register<PadKernel>(KernelDef("PadV2"));
  registry.Register<TileKernel>(KernelDef("Tile"));
  registry.Register<TileGradKernel>(KernelDef("TileGrad").Types("T", NumberTypes()));
}

}  // namespace millrace
