// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Split, SplitV and Unpack.
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

// Cuts the input, viewed as [outer, size, inner], along its middle axis. Pieces of a tensor that is cut along
// its first axis share its memory.
class Cutter {
 public:
  Cutter(KernelContext& context, const Tensor& in, int axis)
      : context_(context),
        in_(in),
        outer_(ProductOf(in.shape().dims(), 0, axis)),
        size_(in.dim(axis)),
        inner_(ProductOf(in.shape().dims(), axis + 1, in.rank())),
        share_(axis == 0) {}

  // Sets output `i` to elements [begin, begin + n) of the axis, with shape `shape`.
  Status Cut(int i, int64_t begin, int64_t n, const TensorShape& shape) {
    if (share_ && shape.num_elements() > 0) {
      context_.set_output(i, in_.Slice(begin, begin + n).WithShape(shape));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context_.AllocateOutput(i, shape));
    if (out->num_elements() == 0) return Status();
    ContextParallel parallel(context_);
    const int64_t dims[] = {outer_, n * inner_}, from[] = {size_ * inner_, 1}, to[] = {n * inner_, 1};
    MoveBox(in_.dtype(), ElementAt(in_.raw_data(), in_.dtype(), begin * inner_), from, out->raw_data(), to,
            dims, parallel);
    return Status();
  }

 private:
  KernelContext& context_;
  const Tensor& in_;
  const int64_t outer_, size_, inner_;
  const bool share_;
};

StatusOr<int> ReadSplitAxis(const Tensor& axis, int rank) {
  if (axis.rank() != 0) {
    return errors::InvalidArgument("split_dim must be a scalar but has rank ", axis.rank());
  }
  const int64_t given = IntValue(axis);
  if (given < -rank || given >= rank) {
    return errors::InvalidArgument("-input rank(-", rank, ") <= split_dim < input rank (", rank,
                                   "), but got ", given);
  }
  return static_cast<int>(given < 0 ? given + rank : given);
}

class SplitKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(1);
    MR_ASSIGN_OR_RETURN(const int axis, ReadSplitAxis(context.input(0), in.rank()));
    const int n = context.num_outputs();
    if (in.dim(axis) % n != 0) {
      return errors::InvalidArgument(
          "Number of ways to split should evenly divide the split dimension, but got split_dim ", axis,
          " (size = ", in.dim(axis), ") and num_split ", n);
    }
    if (n == 1) {
      context.set_output(0, context.TakeInput(1));
      return Status();
    }
    const int64_t size = in.dim(axis) / n;
    TensorShape shape = in.shape();
    shape.SetDim(axis, size);
    Cutter cutter(context, in, axis);
    for (int i = 0; i < n; ++i) MR_RETURN_IF_ERROR(cutter.Cut(i, i * size, size, shape));
    return Status();
  }
};

class SplitVKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const int n = context.num_outputs();
    // The order of the checks is TensorFlow's; as there, the axis may be a vector of one element.
    Tensor axis_value = context.input(2);
    if (axis_value.num_elements() != 1)
      return errors::InvalidArgument("split_dim_tensor must have exactly one element.");
    if (axis_value.rank() != 0) axis_value = axis_value.WithShape(TensorShape());
    const Tensor& given = context.input(1);
    if (!given.shape().IsVector() || given.num_elements() != n) {
      return errors::InvalidArgument(
          "size of the split_tensor must be 1-D and have the same elements as outputs got ", given.rank(),
          "-D and ", given.num_elements(), " elements");
    }
    MR_ASSIGN_OR_RETURN(const int axis, ReadSplitAxis(axis_value, in.rank()));
    MR_ASSIGN_OR_RETURN(const Dims sizes, ReadSizes(given, n, in.dim(axis)));
    Cutter cutter(context, in, axis);
    int64_t begin = 0;
    for (int i = 0; i < n; ++i) {
      TensorShape shape = in.shape();
      shape.SetDim(axis, sizes[i]);
      MR_RETURN_IF_ERROR(cutter.Cut(i, begin, sizes[i], shape));
      begin += sizes[i];
    }
    return Status();
  }

 private:
  // Sizes whose sum is `total`; one may be -1.
  static StatusOr<Dims> ReadSizes(const Tensor& t, int n, int64_t total) {
    Dims sizes = IntValues(t);
    if (n == 1 && sizes[0] != -1 && sizes[0] != total) {
      return errors::InvalidArgument(
          "If there is only one output, it must have the same size as the input. Input size: ", total,
          " output size: ", sizes[0]);
    }
    int open = -1;
    int64_t sum = 0;
    for (int i = 0; i < n; ++i) {
      if (sizes[i] == -1) {
        if (open >= 0) return errors::InvalidArgument("There can only be one -1 in the input.");
        open = i;
        continue;
      }
      if (__builtin_add_overflow(sum, sizes[i], &sum)) {
        return errors::InvalidArgument("Split sizes add up to more than 2^63 - 1");
      }
    }
    if (open >= 0 ? sum > total : sum != total) {
      return errors::InvalidArgument(
          "Determined shape must either match input shape along split_dim exactly if fully specified, or be "
          "less than "
          "the size of the input along split_dim if not fully specified.  Got: ",
          sum);
    }
    if (open >= 0) sizes[open] = total - sum;
    for (int i = 0; i < n; ++i) {
      if (sizes[i] < 0)
        return errors::InvalidArgument("Split size at index ", i, " must be >= 0. Got: ", sizes[i]);
    }
    return sizes;
  }
};

class UnpackKernel final : public OpKernel {
 public:
  explicit UnpackKernel(KernelConstruction& c) : OpKernel(c), axis_(c.Attr<int64_t>("axis")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const int rank = in.rank();
    if (axis_ < -rank || axis_ >= rank) {
      return errors::InvalidArgument("axis = ", axis_, " not in [", -rank, ", ", rank, ")");
    }
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    const int n = context.num_outputs();
    if (in.dim(axis) != n) {
      return errors::InvalidArgument("Input shape axis ", axis, " must equal ", n, ", got shape ",
                                     in.shape());
    }
    TensorShape shape = in.shape();
    shape.RemoveDim(axis);
    Cutter cutter(context, in, axis);
    for (int i = 0; i < n; ++i) MR_RETURN_IF_ERROR(cutter.Cut(i, i, 1, shape));
    return Status();
  }

 private:
  const int64_t axis_;
};

}  // namespace

void RegisterSplitKernels(KernelRegistry& registry) {
  registry.Register<SplitKernel>(KernelDef("Split"));
  registry.Register<SplitVKernel>(KernelDef("SplitV").Types("Tlen", IndexTypes()));
  registry.Register<UnpackKernel>(KernelDef("Unpack"));
}

}  // namespace millrace
