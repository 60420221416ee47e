// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/step_resource.h"

namespace millrace {
namespace {

constexpr char kContainer[] = "_step_names";

// A string vector to which references may point.
class NamesInStep final : public Resource {
 public:
  explicit NamesInStep(const StepName& place)
      : names_(Tensor::Vector<std::string>({place.container, place.name})) {}
  Mutex& mu() { return mu_; }
  Tensor& names() { return names_; }
  std::string DebugString() const override { return "names of a resource of a step"; }

 private:
  Mutex mu_;
  Tensor names_;  // guarded by mu()
};

}  // namespace

StatusOr<ResourceManager*> StepContainer(const KernelContext& context) {
  ResourceManager* container = context.step().step_resources;
  if (container == nullptr) {
    return errors::Internal("Op ", context.kernel().op_name(), " runs in a step without a container");
  }
  return container;
}

StatusOr<StepName> StepNameInput(const KernelContext& context, int i, std::string_view bad_handle) {
  const auto read = [&](const Tensor& names) -> StatusOr<StepName> {
    if (names.dtype() != DataType::kString || names.num_elements() != 2) {
      return errors::InvalidArgument(bad_handle, names.shape());
    }
    return StepName{names.data<std::string>()[0], names.data<std::string>()[1]};
  };
  if (!context.input_is_ref(i)) return read(context.input(i));
  MutexLock lock(context.ref_mutex(i));
  return read(context.ref_input(i));
}

Status SetStepName(KernelContext& context, int i, StepName place) {
  if (!IsRefType(context.output_type(i))) {
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(i, TensorShape({2})));
    out->data<std::string>()[0] = std::move(place.container);
    out->data<std::string>()[1] = std::move(place.name);
    return Status();
  }
  MR_ASSIGN_OR_RETURN(ResourceManager * container, StepContainer(context));
  const auto make = [&]() -> StatusOr<RefPtr<NamesInStep>> { return MakeRef<NamesInStep>(place); };
  MR_ASSIGN_OR_RETURN(
      const RefPtr<NamesInStep> names,
      container->LookupOrCreate<NamesInStep>(kContainer, StrCat(place.container, "/", place.name), make));
  // The container holds a reference to the vector until the step ends.
  context.set_output_ref(i, &names->mu(), &names->names());
  return Status();
}

}  // namespace millrace
