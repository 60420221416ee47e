// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "eager/eager_kernel.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/hash.h"
#include "base/notification.h"
#include "graph/function_body.h"
#include "kernel/blocking_kernel.h"
#include "kernel/kernel_registry.h"

namespace millrace {
namespace {

constexpr size_t kFew = 4;

// Inputs and outputs of one run: on the stack when they are few.
class Values {
 public:
  explicit Values(size_t count) : many_(count > kFew ? count : 0), count_(count) {}
  std::span<TensorValue> span() { return {many_.empty() ? few_ : many_.data(), count_}; }

 private:
  TensorValue few_[kFew];
  std::vector<TensorValue> many_;
  const size_t count_;
};

uint64_t HashOf(const AttrValue& value) {
  if (const auto* text = value.As<std::string>()) return Hash64(*text);
  if (const auto* number = value.As<int64_t>()) return static_cast<uint64_t>(*number);
  if (const auto* flag = value.As<bool>()) return *flag ? 1 : 0;
  if (const auto* type = value.As<DataType>()) return static_cast<uint64_t>(*type);
  if (const auto* function = value.As<NameAttrList>()) return Hash64(function->name);
  return value.variant().index();  // the others are distinguished by inspection
}

// Ops that have a meaning only in a graph, where the executor does their work.
Status CheckRunsAlone(const OpRegistration& op) {
  const OpTraits& traits = op.traits;
  if (IsReservedOp(op.def.name) || traits.is_send || traits.is_recv || traits.is_control_flow) {
    return errors::Unimplemented("Op ", op.def.name, " belongs to a graph and cannot be executed by itself");
  }
  return Status();
}

Status OutOfMemory(const std::string& op) {
  return errors::ResourceExhausted("OOM when running ", op, ": the host has no memory left");
}

}  // namespace

EagerKey EagerKey::Of(const EagerOp& op, const Device& device) {
  EagerKey key{op.op(), &device, {}, op.groups(), op.attrs()};
  for (const RefPtr<EagerTensor>& input : op.inputs()) key.input_types.push_back(input->dtype());
  return key;
}

uint64_t EagerKey::Hash(const EagerOp& op, const Device& device) {
  uint64_t hash = HashCombine(reinterpret_cast<uintptr_t>(op.op()), reinterpret_cast<uintptr_t>(&device));
  for (const RefPtr<EagerTensor>& input : op.inputs())
    hash = HashCombine(hash, static_cast<uint64_t>(input->dtype()));
  for (const AttrMap::Entry& attr : op.attrs()) {
    hash = HashCombine(hash, HashCombine(Hash64(attr.first), HashOf(attr.second)));
  }
  return hash;
}

bool EagerKey::Is(const EagerOp& other, const Device& other_device) const {
  return op == other.op() && device == &other_device && groups == other.groups() &&
         std::equal(input_types.begin(), input_types.end(), other.inputs().begin(), other.inputs().end(),
                    [](DataType type, const RefPtr<EagerTensor>& input) { return type == input->dtype(); }) &&
         attrs == other.attrs();
}

StatusOr<RefPtr<EagerKernel>> EagerKernel::Make(const EagerOp& op, Device& device, ResourceManager& resources,
                                                const Environment& environment) {
  // Functions may have any name.
  if (!op.is_function()) MR_RETURN_IF_ERROR(CheckRunsAlone(*op.op()));
  if (device.has_own_memory()) {
    return errors::Unimplemented("Ops are executed one by one on devices of host memory only, not on ",
                                 device.name());
  }
  RefPtr<EagerKernel> made(new EagerKernel);
  made->key_ = EagerKey::Of(op, device);
  made->environment_ = environment;
  made->device_ = &device;
  made->allocator_ = &device.allocator();
  made->resources_ = &resources;
  MR_ASSIGN_OR_RETURN(AttrMap attrs, op.InferAttrs(true));
  if (op.is_function()) {
    // Attributes that select how to run a function: there is only one way.
    attrs.Erase("executor_type");
    attrs.Erase("config_proto");
  }
  MR_ASSIGN_OR_RETURN(made->props_, NodeProps::Make(*op.op(), std::move(attrs)));
  made->input_types_ = made->props_->input_types;
  for (const DataType type : made->props_->output_types) made->output_types_.push_back(BaseType(type));
  if (made->input_types_.size() != op.inputs().size()) {
    return errors::InvalidArgument("expected ", made->input_types_.size(), " inputs, got ",
                                   op.inputs().size());
  }
  if (op.is_function()) {
    const NameAttrList f{op.name(), std::make_shared<const AttrMap>(made->props_->attrs)};
    MR_ASSIGN_OR_RETURN(made->function_, environment.functions->Instantiate(f, device.name()));
    made->input_types_ = made->function_->arg_types();
    made->output_types_ = made->function_->ret_types();
    return made;
  }
  // Checked before the kernel is looked up, since this error is more helpful.
  MR_RETURN_IF_ERROR(made->CheckInputs(op.inputs()));
  KernelConstruction construction(op.name(), made->props_, device, resources, environment.functions);
  MR_ASSIGN_OR_RETURN(made->kernel_, KernelRegistry::Global().Create(device.type(), construction));
  made->async_ = made->kernel_->AsAsync();
  return made;
}

bool EagerKernel::owns_resources() const {
  return is_stateful() && std::ranges::find(output_types_, DataType::kResource) != output_types_.end();
}

Status EagerKernel::CheckInputs(std::span<const RefPtr<EagerTensor>> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->dtype() == input_types_[i]) [[likely]]
      continue;
    return errors::InvalidArgument("cannot compute ", key_.op->def.name, " as input #", i, "(zero-based)",
                                   " was expected to be a ", DataTypeName(input_types_[i]),
                                   " tensor but is a ", DataTypeName(inputs[i]->dtype()), " tensor");
  }
  return Status();
}

StepServices EagerKernel::Services() const {
  StepServices services;
  services.device = device_;
  services.allocator = allocator_;
  services.resources = resources_;
  services.cancellation = environment_.cancellation;
  services.pool = environment_.pool;
  services.inter_op_pool = environment_.inter_op_pool;
  services.step_resources = environment_.step_resources;
  return services;
}

Status EagerKernel::RunFunction(std::span<const RefPtr<EagerTensor>> inputs,
                                std::span<Tensor> outputs) const {
  std::vector<const Tensor*> args;
  for (const RefPtr<EagerTensor>& input : inputs) args.push_back(&input->value());
  return environment_.functions->Call(*function_, Services(), args, outputs);
}

Status EagerKernel::RunKernel(std::span<TensorValue> inputs, std::span<TensorValue> outputs) const {
  const StepServices services = Services();
  KernelContext context(services, kernel_.get(), inputs, outputs);
  try {
    if (async_ == nullptr) [[likely]]
      return kernel_->Compute(context);
    Status status;
    if (async_->TryCompute(context, status)) return status;
    Notification finished;
    RunsBlockingCallsHere here;
    const ScopedBlockingHost host(&here);
    async_->ComputeAsync(context, [&](Status s) {
      status = std::move(s);
      finished.Notify();
    });
    finished.Wait();
    return status;
  } catch (const std::bad_alloc&) {
    return OutOfMemory(kernel_->op_name());
  }
}

Status EagerKernel::Run(std::span<const RefPtr<EagerTensor>> inputs, std::span<Tensor> outputs) const {
  if (function_ != nullptr) return RunFunction(inputs, outputs);
  if (const Tensor* constant = kernel_->ConstantOutput(); constant != nullptr) {
    outputs[0] = *constant;
    return Status();
  }
  Values in(inputs.size()), out(outputs.size());
  // Borrowed, so that no kernel works in place: the program holds the handles.
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorValue& value = in.span()[i];
    value.kind = TensorValue::Kind::kConstant;
    value.borrowed = &inputs[i]->value();
    if (!value.borrowed->IsInitialized() && !props_->op->def.allows_uninitialized_input) [[unlikely]]
      return errors::FailedPrecondition("Attempting to use uninitialized value of input ", i);
  }
  MR_RETURN_IF_ERROR(RunKernel(in.span(), out.span()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    TensorValue& value = out.span()[i];
    if (value.kind == TensorValue::Kind::kValue) [[likely]] {
      outputs[i] = std::move(value.value);
    } else if (value.kind == TensorValue::Kind::kRef) {
      MutexLock lock(*value.ref_mu);
      outputs[i] = *value.ref;
    } else if (value.kind == TensorValue::Kind::kConstant) {
      outputs[i] = *value.borrowed;
    } else {
      return errors::Internal("Missing ", i, "-th output from op ", kernel_->op_name());
    }
  }
  return Status();
}

}  // namespace millrace
