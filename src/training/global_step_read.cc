// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/global_step_read.h"

#include "millrace/meta_graph.h"
#include "millrace/ops.h"
#include "millrace/variables.h"

namespace millrace {

StatusOr<Output> GlobalStepRead(const Scope& scope, const char* user) {
  MR_RETURN_IF_ERROR(scope.status());
  if (const auto made = CollectedTensors(scope, kGlobalStepReadKey); !made.empty()) return made.front();
  const GraphVariable step = GetGlobalStep(scope);
  if (!step.ref().IsSet()) {
    return errors::FailedPrecondition("Global step should be created to use ", user, ".");
  }
  const Scope root = scope.AtRoot().OutsideControlFlow();
  const std::string name = step.name() + "/add";
  const Tensor zero =
      step.dtype() == DataType::kInt64 ? Tensor::Scalar(int64_t{0}) : Tensor::Scalar(int32_t{0});
  // The sum copies the value, so that later updates of a reference variable are not visible in it.
  const Output read =
      ops::Add(root.WithOpName(name), step.value(), ops::Const(root.WithOpName(name + "/y"), zero));
  MR_RETURN_IF_ERROR(scope.status());
  AddToCollection(scope, kGlobalStepReadKey, read);
  return read;
}

int64_t StepOf(const Tensor& value) {
  return value.dtype() == DataType::kInt64 ? value.scalar<int64_t>() : value.scalar<int32_t>();
}

StatusOr<int64_t> ReadStep(const ClientSession& session, const Output& global_step) {
  std::vector<Tensor> value;
  MR_RETURN_IF_ERROR(session.Run({global_step}, &value));
  return StepOf(value[0]);
}

}  // namespace millrace
