// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A library of ops in C++, built against the installed files only; loading registers them.
#include <stdexcept>

#include "millrace/user_op.h"

namespace {

using namespace millrace::user;  // NOLINT(google-build-using-namespace): as its documentation writes

REGISTER_OP("UserScale")
    .Attr("T: {int32, float}")
    .Attr("by: int = 2")
    .Input("x: T")
    .Output("y: T")
    .SetShapeFn(shape_inference::UnchangedShape);

REGISTER_OP("UserNothing");

template <typename T>
class UserScale : public OpKernel {
 public:
  explicit UserScale(OpKernelConstruction* c) : OpKernel(c) {
    OP_REQUIRES_OK(c, c->GetAttr("by", &by_));
    OP_REQUIRES(c, by_ != 0, errors::InvalidArgument("by must not be 0"));
    if (by_ == 13) throw std::runtime_error("thirteen is not for us");
  }
  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, x.shape(), &y));
    const auto from = x.flat<T>();
    auto to = y->flat<T>();
    for (int64 i = 0; i < x.NumElements(); ++i) to(i) = from(i) * static_cast<T>(by_);
  }

 private:
  int32 by_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("UserScale").Device(DEVICE_CPU).TypeConstraint<int32>("T"), UserScale<int32>);
REGISTER_KERNEL_BUILDER(Name("UserScale").Device(DEVICE_CPU).TypeConstraint<float>("T"), UserScale<float>);

// The gradient of y = by * x: UserScale of the incoming gradient, by the same factor.
void UserScaleGrad(Millrace_GradientCall* call, TF_Status* status) {
  const std::string name = std::string(call->name_scope) + "/scale_of_" + TF_OperationName(call->oper);
  TF_OperationDescription* const description = TF_NewOperation(call->graph, "UserScale", name.c_str());
  TF_AddInput(description, call->output_gradients[0].values);
  int64_t by = 0;
  TF_OperationGetAttrInt(call->oper, "by", &by, status);
  TF_SetAttrInt(description, "by", by);
  TF_Operation* const scale = TF_FinishOperation(description, status);
  if (TF_GetCode(status) != TF_OK) return;
  call->input_gradients[0].kind = call->output_gradients[0].kind;
  call->input_gradients[0].values = {scale, 0};
}
REGISTER_GRADIENT("UserScale", UserScaleGrad);

}  // namespace
