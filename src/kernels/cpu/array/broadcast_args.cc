// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shapes that broadcast, and BroadcastTo.
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

StatusOr<Dims> VectorOfSizes(const KernelContext& context, int i) {
  const Tensor& t = context.input(i);
  if (!t.shape().IsVector()) return errors::InvalidArgument("In[", i, "] must be a vector.", t.shape());
  if (t.num_elements() > TensorShape::kMaxRank) {
    return errors::InvalidArgument("In[", i, "] has too many dimensions: ", t.num_elements());
  }
  return IntValues(t);
}

std::string ShapeText(const Dims& dims) { return "[" + JoinInts(dims) + "]"; }

Status SetVector(KernelContext& context, int output, const Dims& values) {
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(output, TensorShape({values.size()})));
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (out->dtype() == DataType::kInt32) {
      out->data<int32_t>()[i] = static_cast<int32_t>(values[i]);
    } else {
      out->data<int64_t>()[i] = values[i];
    }
  }
  return Status();
}

// The size of dimension i (of `rank`) of a shape that is padded with ones in front.
int64_t PaddedDim(const Dims& dims, size_t rank, size_t i) {
  const size_t missing = rank - dims.size();
  return i < missing ? 1 : dims[i - missing];
}

class BroadcastArgsKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Dims a, VectorOfSizes(context, 0));
    MR_ASSIGN_OR_RETURN(const Dims b, VectorOfSizes(context, 1));
    const size_t rank = std::max(a.size(), b.size());
    Dims out;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t x = PaddedDim(a, rank, i), y = PaddedDim(b, rank, i);
      if (x != y && x != 1 && y != 1) {
        return errors::InvalidArgument("Incompatible shapes: ", ShapeText(a), " vs. ", ShapeText(b));
      }
      out.push_back(x == 1 ? y : x);
    }
    return SetVector(context, 0, out);
  }
};

// The axes over which the gradient of each argument is to be summed.
class BroadcastGradientArgsKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Dims a, VectorOfSizes(context, 0));
    MR_ASSIGN_OR_RETURN(const Dims b, VectorOfSizes(context, 1));
    Dims reduce_a, reduce_b;
    if (a != b) {
      const size_t rank = std::max(a.size(), b.size());
      for (size_t i = 0; i < rank; ++i) {
        const int64_t x = PaddedDim(a, rank, i), y = PaddedDim(b, rank, i);
        if (x != y && x != 1 && y != 1) {
          return errors::InvalidArgument("Incompatible shapes: ", ShapeText(a), " vs. ", ShapeText(b));
        }
        // A size of 1 on both sides may be summed for both: a no-op that TensorFlow lists too.
        if (x == 1) reduce_a.push_back(static_cast<int64_t>(i));
        if (y == 1) reduce_b.push_back(static_cast<int64_t>(i));
      }
    }
    MR_RETURN_IF_ERROR(SetVector(context, 0, reduce_a));
    return SetVector(context, 1, reduce_b);
  }
};

class BroadcastToKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromTensor(context.input(1), "shape"));
    if (in.rank() > shape.rank()) {
      return errors::InvalidArgument("Rank of input (", in.rank(),
                                     ") must be no greater than rank of output shape (", shape.rank(), ").");
    }
    const auto broadcast = BroadcastShapes(in.shape(), shape);
    if (!broadcast.ok()) return errors::InvalidArgument("Incompatible shapes: ", in.shape(), " vs. ", shape);
    if (*broadcast != shape) {
      return errors::InvalidArgument("Unable to broadcast tensor of shape ", in.shape(),
                                     " to tensor of shape ", shape);
    }
    if (in.shape() == shape) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    MoveBox(in.dtype(), in.raw_data(), BroadcastStrides(in.shape().dims(), shape.dims()), out->raw_data(),
            RowMajorStrides(shape.dims()), shape.dims(), parallel);
    return Status();
  }
};

}  // namespace

void RegisterBroadcastKernels(KernelRegistry& registry) {
  registry.Register<BroadcastArgsKernel>(KernelDef("BroadcastArgs"));
  registry.Register<BroadcastGradientArgsKernel>(KernelDef("BroadcastGradientArgs"));
  registry.Register<BroadcastToKernel>(KernelDef("BroadcastTo"));
}

}  // namespace millrace
