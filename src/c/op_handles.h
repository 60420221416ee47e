// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "c/internal.h"
#include "kernel/kernel_context.h"
#include "op/node_props.h"
#include "op/op_builder.h"
#include "op/shape_inference.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

// The view that user-defined ops and kernels have of the engine.
struct TF_OpDefinitionBuilder {
  millrace::OpBuilder builder;
};

struct TF_OpKernelContext {
  millrace::KernelContext& context;
  const millrace::NodeProps& props;
  millrace::Status status{};               // the first failure
  std::vector<millrace::Tensor*> bools{};  // bool outputs, into which the kernel may write any byte
  // Outputs of types with another form in the engine, in the form that the kernel writes.
  std::vector<std::pair<int, TF_Tensor>> encoded{};
};

namespace millrace::c_api {

inline KernelConstruction& Of(TF_OpKernelConstruction* construction) {
  return *reinterpret_cast<KernelConstruction*>(construction);
}
inline InferenceContext& Of(TF_ShapeInferenceContext* context) {
  return *reinterpret_cast<InferenceContext*>(context);
}

}  // namespace millrace::c_api
