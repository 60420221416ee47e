// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/nn/fused.h"

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cpu/math/elementwise.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/vector/broadcast.h"

namespace millrace {
namespace {

Status CheckVector(const Tensor& t, int64_t channels, const char* what) {
  if (t.rank() == 1 && t.dim(0) == channels) return Status();
  return errors::InvalidArgument(what, " must be a vector of ", channels, " values, got shape ", t.shape());
}

// The routine of an element-wise op from float to float; null for other ops.
cpu::UnaryFn FindActivation(std::string_view op) {
  const cpu::UnaryOp routine = UnaryOpOf(op);
  const bool keeps_type = cpu::UnaryResultType(routine, DataType::kFloat) == DataType::kFloat;
  return keeps_type ? cpu::FindUnary(routine, DataType::kFloat) : nullptr;
}

}  // namespace

FusedEpilogue::FusedEpilogue(KernelConstruction& c, int own_args)
    : name_(c.name()), nchw_(ReadImageDims(c).nchw), epsilon_(c.Attr<float>("epsilon")) {
  const auto ops = c.Attr<std::vector<std::string>>("fused_ops");
  size_t next = 0;
  const auto take = [&](const char* op) {
    const bool found = next < ops.size() && ops[next] == op;
    if (found) ++next;
    return found;
  };
  bias_ = take("BiasAdd");
  batch_norm_ = !bias_ && take("FusedBatchNorm");
  same_shape_ = take("AddN");
  add_ = same_shape_ || take("Add");
  if (take("Relu")) {
    rectify_ = cpu::Rectify::kRelu;
  } else if (take("Relu6")) {
    rectify_ = cpu::Rectify::kRelu6;
  } else if (next < ops.size()) {
    rows_ = FindActivation(ops[next]);
    if (rows_ != nullptr) ++next;
  }
  const int64_t args = (bias_ ? 1 : 0) + (batch_norm_ ? 4 : 0) + (add_ ? 1 : 0) + own_args;
  if (next != ops.size()) {
    c.SetError(errors::InvalidArgument("Fused op not supported in this place: '", ops[next], "'"));
  } else if (c.Attr<int64_t>("num_args") != args) {
    c.SetError(
        errors::InvalidArgument("Fused ops take ", args, " arguments, not ", c.Attr<int64_t>("num_args")));
  }
}

StatusOr<Tensor> FusedEpilogue::FoldBatchNorm(KernelContext& context, int first_arg, int64_t channels) const {
  const char* const names[] = {"scale", "offset", "mean", "variance"};
  for (int i = 0; i < 4; ++i)
    MR_RETURN_IF_ERROR(CheckVector(context.input(first_arg + i), channels, names[i]));
  MR_ASSIGN_OR_RETURN(Tensor folded, context.AllocateTemp(DataType::kFloat, {2, channels}));
  const float* const scale = context.input(first_arg).data<float>();
  const float* const offset = context.input(first_arg + 1).data<float>();
  const float* const mean = context.input(first_arg + 2).data<float>();
  const float* const variance = context.input(first_arg + 3).data<float>();
  float* const factor = folded.data<float>();
  for (int64_t i = 0; i < channels; ++i) {
    factor[i] = scale[i] / std::sqrt(variance[i] + epsilon_);
    factor[channels + i] = offset[i] - mean[i] * factor[i];
  }
  return folded;
}

StatusOr<FusedEpilogue::Bound> FusedEpilogue::Bind(KernelContext& context, int first_arg, int64_t channels,
                                                   const TensorShape& output) const {
  Bound bound;
  if (bias_) {
    const Tensor& bias = context.input(first_arg++);
    if (bias.rank() != 1) return errors::InvalidArgument("Biases must be 1D: ", bias.shape());
    if (bias.dim(0) != channels) {
      return errors::InvalidArgument("Must provide as many biases as the ", nchw_ ? "channel" : "last",
                                     " dimension of the input tensor: ", bias.shape(), " vs. ", output);
    }
    bound.epilogue.bias = bias.data<float>();
  } else if (batch_norm_) {
    MR_ASSIGN_OR_RETURN(bound.scale_and_bias, FoldBatchNorm(context, first_arg, channels));
    bound.epilogue.scale = bound.scale_and_bias.data<float>();
    bound.epilogue.bias = bound.epilogue.scale + channels;
    first_arg += 4;
  }
  if (add_) {
    const Tensor& residual = context.input(first_arg);
    if (same_shape_ && residual.shape() != output) {
      return errors::InvalidArgument("Inputs to operation ", name_,
                                     " of type AddN must have the same size and shape.  Input 0: ",
                                     residual.shape(), " != input 1: ", output);
    }
    if (residual.rank() == 1 && residual.dim(0) == channels && !nchw_ && bound.epilogue.bias == nullptr) {
      bound.epilogue.bias = residual.data<float>();
    } else if (residual.shape() == output) {
      bound.epilogue.residual = residual.data<float>();
    } else {
      bound.wider_residual = residual;
      return bound;
    }
  }
  bound.epilogue.rectify = rectify_;
  bound.epilogue.rows = rows_;
  return bound;
}

Status FusedEpilogue::Finish(KernelContext& context, const Bound& bound, Tensor product) const {
  if (!bound.wider_residual.has_value()) {
    context.set_output(0, std::move(product));
    return Status();
  }
  const Tensor& residual = *bound.wider_residual;
  const auto plan = cpu::Broadcast::Make(product.shape().dims(), residual.shape().dims());
  if (!plan.has_value()) {
    return errors::InvalidArgument("Incompatible shapes: ", product.shape(), " vs. ", residual.shape());
  }
  MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(plan->output_shape()));
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
  ContextParallel parallel(context);
  constexpr int64_t kSize = sizeof(float);
  plan->Run(*cpu::FindBinary(cpu::BinaryOp::kAdd, DataType::kFloat), product.raw_data(), residual.raw_data(),
            kSize, out->raw_data(), kSize, cpu::BinaryCostNs(cpu::BinaryOp::kAdd, DataType::kFloat),
            parallel);
  for (float& x : out->flat<float>()) x = cpu::Rectified(x, rectify_);
  if (rows_ != nullptr) {
    cpu::RunUnary(rows_, out->raw_data(), kSize, out->raw_data(), kSize, out->num_elements(), 1.0, parallel);
  }
  return Status();
}

}  // namespace millrace
