// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Slice, StridedSlice and its gradient.
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/state/variable_util.h"
#include "kernels/shared/strided_slice.h"

namespace millrace {
namespace {

class SliceKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& begin_tensor = context.input(1);
    const Tensor& size_tensor = context.input(2);
    const int rank = in.rank();
    if (!begin_tensor.shape().IsVector() || !size_tensor.shape().IsVector() ||
        begin_tensor.num_elements() != rank || size_tensor.num_elements() != rank) {
      return errors::InvalidArgument("Expected begin and size arguments to be 1-D tensors of size ", rank,
                                     ", but got shapes ", begin_tensor.shape(), " and ", size_tensor.shape(),
                                     " instead.");
    }
    const Dims begin = IntValues(begin_tensor);
    Dims size = IntValues(size_tensor);
    bool whole = true, whole_rows = true;
    for (int i = 0; i < rank; ++i) {
      MR_RETURN_IF_ERROR(CheckRange(i, in.dim(i), begin[i], &size[i]));
      const bool all = size[i] == in.dim(i);
      whole &= all;
      if (i > 0) whole_rows &= all;
    }
    if (whole) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(size));
    if (whole_rows && shape.num_elements() > 0) {
      context.set_output(0, in.Slice(begin[0], begin[0] + size[0]));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return Status();
    const Dims strides = RowMajorStrides(in.shape().dims());
    int64_t offset = 0;
    for (int i = 0; i < rank; ++i) offset += begin[i] * strides[i];
    ContextParallel parallel(context);
    MoveBox(in.dtype(), ElementAt(in.raw_data(), in.dtype(), offset), strides, out->raw_data(),
            RowMajorStrides(shape.dims()), shape.dims(), parallel);
    return Status();
  }

 private:
  // A size of -1 means up to the end.
  static Status CheckRange(int i, int64_t dim, int64_t begin, int64_t* size) {
    if (*size == -1 && begin >= 0 && begin <= dim) *size = dim - begin;
    if (dim == 0) {
      if (begin == 0 && *size == 0) return Status();
      return errors::InvalidArgument("Expected begin[", i, "] == 0 (got ", begin, ") and size[", i,
                                     "] == 0 (got ", *size, ") when input.dim_size(", i, ") == 0");
    }
    if (begin < 0 || begin > dim) {
      return errors::InvalidArgument("Expected begin[", i, "] in [0, ", dim, "], but got ", begin);
    }
    if (*size < 0 || *size > dim - begin) {
      return errors::InvalidArgument("Expected size[", i, "] in [0, ", dim - begin, "], but got ", *size);
    }
    return Status();
  }
};

StridedSliceMasks ReadMasks(KernelConstruction& c) {
  return {.begin = c.Attr<int64_t>("begin_mask"),
          .end = c.Attr<int64_t>("end_mask"),
          .ellipsis = c.Attr<int64_t>("ellipsis_mask"),
          .new_axis = c.Attr<int64_t>("new_axis_mask"),
          .shrink_axis = c.Attr<int64_t>("shrink_axis_mask")};
}

// The positions of the slice's elements in an array of shape `whole`.
struct SliceLayout {
  int64_t offset = 0;
  Dims strides;
};
SliceLayout LayOut(const StridedSliceCut& plan, const TensorShape& whole) {
  SliceLayout layout;
  layout.strides = RowMajorStrides(whole.dims());
  for (int i = 0; i < whole.rank(); ++i) {
    layout.offset += plan.begin[i] * layout.strides[i];
    layout.strides[i] *= plan.stride[i];
  }
  return layout;
}

class StridedSliceKernel final : public OpKernel {
 public:
  explicit StridedSliceKernel(KernelConstruction& c) : OpKernel(c), masks_(ReadMasks(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(
        const StridedSliceCut plan,
        PlanStridedSlice(in.shape(), context.input(1), context.input(2), context.input(3), masks_));
    if (plan.is_identity) {
      context.set_output(0, context.TakeInput(0).WithShape(plan.final_shape));
      return Status();
    }
    if (TakesWholeRows(plan, in.shape()) && plan.final_shape.num_elements() > 0) {
      context.set_output(0,
                         in.Slice(plan.begin[0], plan.begin[0] + plan.size[0]).WithShape(plan.final_shape));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, plan.final_shape));
    if (plan.final_shape.num_elements() == 0) return Status();
    const SliceLayout layout = LayOut(plan, in.shape());
    ContextParallel parallel(context);
    MoveBox(in.dtype(), ElementAt(in.raw_data(), in.dtype(), layout.offset), layout.strides, out->raw_data(),
            RowMajorStrides(plan.size), plan.size, parallel);
    return Status();
  }

 private:
  static bool TakesWholeRows(const StridedSliceCut& plan, const TensorShape& in) {
    for (int i = 0; i < in.rank(); ++i) {
      if (plan.stride[i] != 1 || (i > 0 && plan.size[i] != in.dim(i))) return false;
    }
    return in.rank() > 0;
  }

  const StridedSliceMasks masks_;
};

// Zeros of the original shape, with dy in place of the slice.
class StridedSliceGradKernel final : public OpKernel {
 public:
  explicit StridedSliceGradKernel(KernelConstruction& c) : OpKernel(c), masks_(ReadMasks(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& shape_tensor = context.input(0);
    const Tensor& dy = context.input(4);
    if (!shape_tensor.shape().IsVector()) {
      return errors::InvalidArgument("shape must be 1-D, got shape.shape = ", shape_tensor.shape());
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromTensor(shape_tensor, "shape"));
    MR_ASSIGN_OR_RETURN(
        const StridedSliceCut plan,
        PlanStridedSlice(shape, context.input(1), context.input(2), context.input(3), masks_));
    if (dy.shape() != plan.final_shape) {
      return errors::InvalidArgument("shape of dy was ", dy.shape(), " instead of ", plan.final_shape);
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    ZeroElements(dy.dtype(), out->raw_data(), shape.num_elements(), parallel);
    if (dy.num_elements() == 0) return Status();
    const SliceLayout layout = LayOut(plan, shape);
    MoveBox(dy.dtype(), dy.raw_data(), RowMajorStrides(plan.size),
            ElementAt(out->raw_data(), dy.dtype(), layout.offset), layout.strides, plan.size, parallel);
    return Status();
  }

 private:
  const StridedSliceMasks masks_;
};

// Assigns input 4 to the part of `var` that inputs 1 to 3 select.
Status AssignSlice(KernelContext& context, const StridedSliceMasks& masks, Tensor& var) {
  const Tensor& value = context.input(4);
  MR_ASSIGN_OR_RETURN(
      const StridedSliceCut plan,
      PlanStridedSlice(var.shape(), context.input(1), context.input(2), context.input(3), masks));
  // A scalar is assigned to every element; otherwise the shapes are equal.
  if (value.num_elements() != 1 && value.shape() != plan.final_shape) {
    return errors::Unimplemented("sliced l-value shape ", plan.final_shape, " does not match r-value shape ",
                                 value.shape(), ". Automatic broadcasting not yet implemented.");
  }
  if (plan.final_shape.num_elements() == 0) return Status();
  MR_RETURN_IF_ERROR(MakeWritable(context, var));
  const SliceLayout layout = LayOut(plan, var.shape());
  Dims from = RowMajorStrides(plan.size);
  if (value.num_elements() == 1) std::fill(from.begin(), from.end(), 0);
  ContextParallel parallel(context);
  MoveBox(value.dtype(), value.raw_data(), from, ElementAt(var.raw_data(), var.dtype(), layout.offset),
          layout.strides, plan.size, parallel);
  return Status();
}

// Writes to a slice of a variable, a reference or a resource.
class StridedSliceAssignKernel final : public OpKernel {
 public:
  explicit StridedSliceAssignKernel(KernelConstruction& c) : OpKernel(c), masks_(ReadMasks(c)) {}
  Status Compute(KernelContext& context) override {
    return UpdateVariable(context, 0, input_type(4),
                          [&](Tensor& var) { return AssignSlice(context, masks_, var); });
  }

 private:
  const StridedSliceMasks masks_;
};

// The same for a value, which is copied if there is another reference to it.
class StridedSliceUpdateKernel final : public OpKernel {
 public:
  explicit StridedSliceUpdateKernel(KernelConstruction& c) : OpKernel(c), masks_(ReadMasks(c)) {}
  Status Compute(KernelContext& context) override {
    Tensor out = context.TakeInput(0);
    MR_RETURN_IF_ERROR(AssignSlice(context, masks_, out));
    context.set_output(0, std::move(out));
    return Status();
  }

 private:
  const StridedSliceMasks masks_;
};

}  // namespace

void RegisterSliceKernels(KernelRegistry& registry) {
  registry.Register<SliceKernel>(KernelDef("Slice").Types("Index", IndexTypes()));
  for (const char* op : {"StridedSliceAssign", "ResourceStridedSliceAssign"})
    registry.Register<StridedSliceAssignKernel>(KernelDef(op).Types("Index", IndexTypes()));
  registry.Register<StridedSliceUpdateKernel>(
      KernelDef("TensorStridedSliceUpdate").Types("Index", IndexTypes()));
  registry.Register<StridedSliceKernel>(KernelDef("StridedSlice").Types("Index", IndexTypes()));
  registry.Register<StridedSliceGradKernel>(KernelDef("StridedSliceGrad").Types("Index", IndexTypes()));
}

}  // namespace millrace
