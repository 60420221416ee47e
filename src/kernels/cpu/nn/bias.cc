// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/vector/binary.h"
#include "kernels/cpu/vector/broadcast.h"
#include "kernels/cpu/vector/reduce.h"

namespace millrace {
namespace {

// The channel is the last dimension, or the one after the batch for NCHW.
int ChannelDim(bool nchw, int rank) { return nchw ? 1 : rank - 1; }

class BiasAddKernel final : public OpKernel {
 public:
  explicit BiasAddKernel(KernelConstruction& c)
      : OpKernel(c),
        nchw_(ReadImageDims(c).nchw),
        add_(cpu::FindBinary(cpu::BinaryOp::kAdd, input_type(0))),
        cost_ns_(cpu::BinaryCostNs(cpu::BinaryOp::kAdd, input_type(0))) {}

  Status Compute(KernelContext& context) override {
    const Tensor& value = context.input(0);
    const Tensor& bias = context.input(1);
    if (value.rank() < 2) {
      return errors::InvalidArgument("Input tensor must be at least 2D: ", value.shape());
    }
    if (bias.rank() != 1) return errors::InvalidArgument("Biases must be 1D: ", bias.shape());
    const int channel = ChannelDim(nchw_, value.rank());
    if (bias.dim(0) != value.dim(channel)) {
      return errors::InvalidArgument(
          "Must provide as many biases as the last dimension of the input tensor: ", bias.shape(), " vs. ",
          value.shape());
    }
    const TensorShape shape = value.shape();
    const void* from = value.raw_data();
    MR_ASSIGN_OR_RETURN(Tensor * out, context.ForwardInputOrAllocateOutput({0}, 0, shape));
    const int64_t view[3] = {ProductOf(shape.dims(), 0, channel), shape.dim(channel),
                             ProductOf(shape.dims(), channel + 1, shape.rank())};
    const int64_t bias_view[2] = {bias.dim(0), 1};
    const auto plan = cpu::Broadcast::Make(view, bias_view);
    if (!plan.has_value()) return errors::Internal("Biases don't broadcast: ", bias.shape(), " vs. ", shape);
    const auto size = static_cast<int64_t>(ElementSize(value.dtype()));
    ContextParallel parallel(context);
    plan->Run(*add_, from, bias.raw_data(), size, out->raw_data(), size, cost_ns_, parallel);
    return Status();
  }

 private:
  const bool nchw_;
  const cpu::BinaryFns* const add_;
  const double cost_ns_;
};

class BiasAddGradKernel final : public OpKernel {
 public:
  explicit BiasAddGradKernel(KernelConstruction& c) : OpKernel(c), nchw_(ReadImageDims(c).nchw) {}

  Status Compute(KernelContext& context) override {
    const Tensor& gradient = context.input(0);
    if (gradient.rank() < 2) {
      return errors::InvalidArgument("Input tensor must be at least 2D: ", gradient.shape());
    }
    const TensorShape& shape = gradient.shape();
    const int channel = ChannelDim(nchw_, shape.rank());
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, {shape.dim(channel)}));
    const int64_t view[3] = {ProductOf(shape.dims(), 0, channel), shape.dim(channel),
                             ProductOf(shape.dims(), channel + 1, shape.rank())};
    const bool reduced[3] = {true, false, true};
    ContextParallel parallel(context);
    cpu::ReduceAxes(cpu::ReduceOp::kSum, gradient.dtype(), view, reduced, gradient.raw_data(),
                    out->raw_data(), parallel);
    return Status();
  }

 private:
  const bool nchw_;
};

}  // namespace

void RegisterNnBiasKernels(KernelRegistry& registry) {
  const TypeList types =
      Filter(NumberTypes(), [](DataType t) { return cpu::FindBinary(cpu::BinaryOp::kAdd, t) != nullptr; });
  registry.Register<BiasAddKernel>(KernelDef("BiasAdd").Types("T", types));
  registry.Register<BiasAddKernel>(KernelDef("BiasAddV1").Types("T", types));
  registry.Register<BiasAddGradKernel>(KernelDef("BiasAddGrad").Types("T", Filter(types, [](DataType t) {
                                                                        return cpu::HasReduce(
                                                                            cpu::ReduceOp::kSum, t);
                                                                      })));
}

}  // namespace millrace
