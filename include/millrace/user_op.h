// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops and kernels of one's own, in a library that TF_LoadLibrary, tf.load_op_library, millrace::LoadLibrary
// or `millrace --op_library` loads: everything at once that tensorflow/core/framework/op.h, op_kernel.h,
// shape_inference.h, common_shape_fns.h, resource_mgr.h and resource_op_kernel.h declare, and gradients. It
// lies over the C API, so that such a library depends on nothing else and goes on working with later
// versions. C++11.
//
//   using namespace millrace::user;
//   REGISTER_OP("ZeroOut").Input("x: int32").Output("y: int32").SetShapeFn(shape_inference::UnchangedShape);
//   class ZeroOut : public OpKernel { … void Compute(OpKernelContext* context) override; };
//   REGISTER_KERNEL_BUILDER(Name("ZeroOut").Device(DEVICE_CPU), ZeroOut);
//   REGISTER_GRADIENT("ZeroOut", ZeroOutGrad);
#ifndef MILLRACE_USER_OP_H_
#define MILLRACE_USER_OP_H_

#include <cstdio>

#include <tensorflow/core/framework/common_shape_fns.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/register_types.h>
#include <tensorflow/core/framework/resource_op_kernel.h>
#include <tensorflow/core/framework/shape_inference.h>
#include <tensorflow/core/util/work_sharder.h>
#include "millrace/c/gradients.h"

namespace millrace {

namespace user = ::tensorflow;  // NOLINT(misc-unused-alias-decls): for those who include this

namespace internal {

// `function` (a Millrace_GradientFunction; see millrace/c/gradients.h) for ops of this type in all graphs;
// null where no gradient flows. A line on standard error when it is refused.
inline bool RegisterGradient(const char* op, Millrace_GradientFunction function) {
  const ::tensorflow::internal::CStatus status;
  Millrace_RegisterGradient(nullptr, op, function, nullptr, nullptr, status.get());
  if (!status.status().ok())
    std::fprintf(stderr, "gradient of %s: %s\n", op, status.status().error_message().c_str());
  return status.status().ok();
}

}  // namespace internal
}  // namespace millrace

#define REGISTER_GRADIENT(op, function)                                                \
  static const bool MR_TF_OP_JOIN(mr_gradient_, __COUNTER__) __attribute__((unused)) = \
      ::millrace::internal::RegisterGradient(op, function)

#endif
