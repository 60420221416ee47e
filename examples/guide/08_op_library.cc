// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A library with the op SoftClip: limit * tanh(x / limit), with its shapes, its kernel and its gradient.
#include <cmath>

#include "millrace/user_op.h"

using namespace millrace::user;

REGISTER_OP("SoftClip")
    .Attr("T: {float, double}")
    .Attr("limit: float = 1.0")
    .Input("x: T")
    .Output("y: T")
    .SetShapeFn(shape_inference::UnchangedShape)
    .Doc("Bends values towards the range from -limit to limit.");

template <typename T>
class SoftClip : public OpKernel {
 public:
  explicit SoftClip(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("limit", &limit_));
    OP_REQUIRES(context, limit_ > 0, errors::InvalidArgument("limit must be positive, got ", limit_));
  }
  // May be called by several steps at the same time.
  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, x.shape(), &y));
    const auto from = x.flat<T>();
    auto to = y->flat<T>();
    for (int64 i = 0; i < x.NumElements(); ++i) to(i) = limit_ * std::tanh(from(i) / limit_);
  }

 private:
  float limit_ = 0;
};
REGISTER_KERNEL_BUILDER(Name("SoftClip").Device(DEVICE_CPU).TypeConstraint<float>("T"), SoftClip<float>);
REGISTER_KERNEL_BUILDER(Name("SoftClip").Device(DEVICE_CPU).TypeConstraint<double>("T"), SoftClip<double>);

// dy (1 - (y / limit)^2), made of nodes like any other part of a graph.
Status SoftClipGrad(OpGradient* gradient) {
  float limit = 0;
  TF_RETURN_IF_ERROR(gradient->GetAttr("limit", &limit));
  const TF_Output y = gradient->output(0);
  const TF_Output ratio = gradient->Add("Div", {y, gradient->Scalar(limit, y)});
  const TF_Output slope = gradient->Add("Sub", {gradient->Scalar(1, y), gradient->Add("Square", {ratio})});
  gradient->SetInputGrad(0, gradient->Add("Mul", {gradient->grad(0), slope}));
  return gradient->status();
}
REGISTER_GRADIENT("SoftClip", SoftClipGrad);
