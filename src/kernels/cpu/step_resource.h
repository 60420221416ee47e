// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// State that exists for one step (tensor arrays, stacks), with handles of three forms: a resource, a string
// vector of container and name, or a reference to such a vector.
#pragma once

#include <string>
#include <utility>

#include "kernel/kernel_context.h"
#include "kernel/resource.h"
#include "kernels/cpu/state/variable_util.h"

namespace millrace {

// The container of the step; Internal if there is none.
StatusOr<ResourceManager*> StepContainer(const KernelContext& context);

struct StepName {
  std::string container;
  std::string name;
};
// Reads the string vector in input `i`. `bad_handle` starts the error for one of another shape.
StatusOr<StepName> StepNameInput(const KernelContext& context, int i, std::string_view bad_handle);
// Sets output `i` to the string vector or, if the op declares one, a reference to it that stays valid until
// the step ends.
Status SetStepName(KernelContext& context, int i, StepName place);

template <typename T>
StatusOr<RefPtr<T>> FindStepResource(const KernelContext& context, int i, std::string_view bad_handle) {
  MR_ASSIGN_OR_RETURN(ResourceManager * container, StepContainer(context));
  if (context.kernel().input_type(i) == DataType::kResource) [[likely]] {
    MR_ASSIGN_OR_RETURN(const ResourceHandle* handle, HandleInput(context, i));
    return container->LookupHandle<T>(*handle);
  }
  MR_ASSIGN_OR_RETURN(const StepName place, StepNameInput(context, i, bad_handle));
  return container->Lookup<T>(place.container, place.name);
}

// Sets output `i` to a handle to the resource, in the form that the op declares.
template <typename T>
Status SetStepHandle(KernelContext& context, int i, std::string container, std::string name) {
  if (context.output_type(i) != DataType::kResource) {
    return SetStepName(context, i, {std::move(container), std::move(name)});
  }
  MR_ASSIGN_OR_RETURN(const ResourceManager* resources, StepContainer(context));
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(i, TensorShape()));
  out->scalar<ResourceHandle>() = resources->MakeHandle<T>(container, name);
  return Status();
}

}  // namespace millrace
