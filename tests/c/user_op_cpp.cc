// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A library of ops in C++, built against what is installed and nothing else; loading registers them.
#include <stdexcept>

#include "millrace/user_op.h"

namespace {

using millrace::user::KernelTensor;
using millrace::user::OpKernel;
using millrace::user::OpKernelConstruction;
using millrace::user::OpKernelContext;
using millrace::user::ShapeContext;

REGISTER_OP("UserScale")
    .Attr("T: {int32, float}")
    .Attr("by: int = 2")
    .Input("x: T")
    .Output("y: T")
    .SetShapeFn([](ShapeContext& c) { return c.SetOutput(0, c.Input(0)); });

REGISTER_OP("UserNothing");

template <typename T>
class UserScale : public OpKernel {
 public:
  explicit UserScale(OpKernelConstruction* c) : OpKernel(c), by_(c->Int("by")) {
    if (by_ == 0) c->Fail(millrace::user::InvalidArgument("by must not be 0"));
    if (by_ == 13) throw std::runtime_error("thirteen is not for us");
  }
  void Compute(OpKernelContext* context) override {
    const KernelTensor x = context->input(0);
    if (!x.ok()) return;
    const KernelTensor y = context->AllocateOutput<T>(0, x.shape());
    if (!y.ok()) return;
    const auto from = x.flat<T>();
    const auto to = y.flat<T>();
    for (size_t i = 0; i < from.size(); ++i) to[i] = from[i] * static_cast<T>(by_);
  }

 private:
  const int32_t by_;
};

REGISTER_KERNEL_BUILDER(Name("UserScale").Device(DEVICE_CPU).TypeConstraint<int32_t>("T"),
                        UserScale<int32_t>);
REGISTER_KERNEL_BUILDER(Name("UserScale").Device(DEVICE_CPU).TypeConstraint<float>("T"), UserScale<float>);

}  // namespace
