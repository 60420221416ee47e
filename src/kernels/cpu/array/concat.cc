// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Concat, ConcatV2, ConcatOffset and Pack.
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

// Writes inputs [first, first + n), each viewed as [outer, size_i, inner], concatenated along the middle
// axis.
void Join(KernelContext& context, int first, int n, int64_t outer, int64_t inner, Tensor& out) {
  ContextParallel parallel(context);
  const int64_t total = outer * inner == 0 ? 0 : out.num_elements() / (outer * inner);
  int64_t offset = 0;
  for (int i = first; i < first + n; ++i) {
    const Tensor& in = context.input(i);
    if (in.num_elements() == 0) continue;
    const int64_t size = in.num_elements() / (outer * inner);
    const int64_t row = size * inner;
    const int64_t dims[] = {outer, row}, from[] = {row, 1}, to[] = {total * inner, 1};
    MoveBox(in.dtype(), in.raw_data(), from, ElementAt(out.raw_data(), out.dtype(), offset * inner), to, dims,
            parallel);
    offset += size;
  }
}

class ConcatKernel final : public OpKernel {
 public:
  // The axis is before the values in Concat and after them in ConcatV2.
  ConcatKernel(KernelConstruction& c, bool axis_first) : OpKernel(c), axis_first_(axis_first) {}
  Status Compute(KernelContext& context) override {
    const int n = context.num_inputs() - 1;
    const int first = axis_first_ ? 1 : 0;
    const Tensor& axis_tensor = context.input(axis_first_ ? 0 : n);
    if (!axis_tensor.shape().IsScalar()) {
      return errors::InvalidArgument(axis_first_ ? "concat_dim" : "axis",
                                     " tensor should be a scalar integer, but got shape ",
                                     axis_tensor.shape());
    }
    const int64_t given = IntValue(axis_tensor);
    const TensorShape in_shape = context.input(first).shape();
    const int rank = in_shape.rank();
    if (given < -rank || given >= rank) {
      return errors::InvalidArgument("ConcatOp : Expected concatenating dimensions in the range [", -rank,
                                     ", ", rank, "), but got ", given);
    }
    const int axis = static_cast<int>(given < 0 ? given + rank : given);
    int64_t total = 0;
    for (int i = first; i < first + n; ++i) {
      MR_RETURN_IF_ERROR(CheckShape(in_shape, context.input(i).shape(), axis, i - first));
      if (__builtin_add_overflow(total, context.input(i).dim(axis), &total)) {
        return errors::InvalidArgument("ConcatOp : The concatenated dimension overflows");
      }
    }
    Dims dims;
    for (int i = 0; i < rank; ++i) dims.push_back(i == axis ? total : in_shape.dim(i));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    // An input that has all the elements is forwarded.
    for (int i = first; i < first + n; ++i) {
      if (context.input(i).shape() == shape) {
        context.set_output(0, context.TakeInput(i));
        return Status();
      }
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    Join(context, first, n, ProductOf(dims, 0, axis), ProductOf(dims, axis + 1, rank), *out);
    return Status();
  }

 private:
  static Status CheckShape(const TensorShape& first, const TensorShape& other, int axis, int i) {
    if (other.rank() != first.rank()) {
      return errors::InvalidArgument("ConcatOp : Ranks of all input tensors should match: shape[0] = ", first,
                                     " vs. shape[", i, "] = ", other);
    }
    for (int d = 0; d < first.rank(); ++d) {
      if (d != axis && first.dim(d) != other.dim(d)) {
        return errors::InvalidArgument("ConcatOp : Dimensions of inputs should match: shape[0] = ", first,
                                       " vs. shape[", i, "] = ", other);
      }
    }
    return Status();
  }

  const bool axis_first_;
};

class PackKernel final : public OpKernel {
 public:
  explicit PackKernel(KernelConstruction& c) : OpKernel(c), axis_(c.Attr<int64_t>("axis")) {}
  Status Compute(KernelContext& context) override {
    const int n = context.num_inputs();
    const TensorShape in_shape = context.input(0).shape();
    const int rank = in_shape.rank() + 1;
    if (axis_ < -rank || axis_ >= rank) {
      return errors::InvalidArgument("axis = ", axis_, " not in [", -rank, ", ", rank, ")");
    }
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    for (int i = 1; i < n; ++i) {
      if (context.input(i).shape() != in_shape) {
        return errors::InvalidArgument("Shapes of all inputs must match: values[0].shape = ", in_shape,
                                       " != values[", i, "].shape = ", context.input(i).shape());
      }
    }
    Dims dims;
    for (int i = 0; i < rank; ++i) dims.push_back(i == axis ? n : in_shape.dim(i < axis ? i : i - 1));
    if (rank > TensorShape::kMaxRank) return errors::InvalidArgument("Too many dimensions");
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    if (n == 1) {
      context.set_output(0, context.TakeInput(0).WithShape(shape));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    Join(context, 0, n, ProductOf(dims, 0, axis), ProductOf(dims, axis + 1, rank), *out);
    return Status();
  }

 private:
  const int64_t axis_;
};

// The offset of each input of a Concat in its output, for the gradient.
class ConcatOffsetKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& axis_tensor = context.input(0);
    if (!axis_tensor.shape().IsScalar()) {
      return errors::InvalidArgument("Concat dim tensor should be a scalar integer, but got shape ",
                                     axis_tensor.shape());
    }
    const int n = context.num_inputs() - 1;
    const Tensor& first = context.input(1);
    for (int i = 0; i < n; ++i) {
      const Tensor& shape = context.input(1 + i);
      if (!shape.shape().IsVector()) {
        return errors::InvalidArgument("input ", i + 1, " should be a vector, but got shape ", shape.shape());
      }
      if (shape.num_elements() != first.num_elements()) {
        return errors::InvalidArgument("input ", i, " should contain ", first.num_elements(),
                                       " elements, but got ", shape.num_elements());
      }
    }
    const int64_t rank = first.num_elements(), given = IntValue(axis_tensor);
    if (given < -rank || given >= rank) {
      return errors::InvalidArgument("Concat dim is out of range: ", given, " vs. ", rank);
    }
    const int64_t axis = given < 0 ? given + rank : given;
    int64_t offset = 0;
    for (int i = 0; i < n; ++i) {
      const Tensor& shape = context.input(1 + i);
      for (int64_t d = 0; d < rank; ++d) {
        if (d != axis && IntValue(shape, d) != IntValue(first, d)) {
          return errors::InvalidArgument("All dimensions except ", axis, " must match. Input ", i,
                                         " has shape [", JoinInts(IntValues(shape), " "),
                                         "] and doesn't match input 0 with shape [",
                                         JoinInts(IntValues(first), " "), "].");
        }
      }
      MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(i, TensorShape({rank})));
      std::fill_n(out->data<int32_t>(), rank, 0);
      out->data<int32_t>()[axis] = static_cast<int32_t>(offset);
      offset += IntValue(shape, axis);
    }
    return Status();
  }
};

}  // namespace

void RegisterConcatKernels(KernelRegistry& registry) {
  registry.Register(KernelDef("Concat"),
                    [](KernelConstruction& c) { return std::make_unique<ConcatKernel>(c, true); });
  registry.Register(KernelDef("ConcatV2").Types("Tidx", IndexTypes()),
                    [](KernelConstruction& c) { return std::make_unique<ConcatKernel>(c, false); });
  registry.Register<PackKernel>(KernelDef("Pack"));
  registry.Register<ConcatOffsetKernel>(KernelDef("ConcatOffset"));
}

}  // namespace millrace
