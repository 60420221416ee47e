// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/testing.h"

#include <utility>

#include "base/logging.h"
#include "base/notification.h"
#include "device/device.h"

namespace millrace {

KernelRunner::KernelRunner(std::string op) : op_(std::move(op)), name_("node") {
  DeviceFactoryRegistry factories;
  RegisterCpuDeviceFactory(factories).IgnoreError("the device is missing then, which MR_CHECK sees");
  auto devices = factories.CreateDevices(DeviceOptions{});
  MR_CHECK(devices.ok());
  devices_ = *std::move(devices);
  device_ = devices_->client_device();
  own_resources_ = std::make_unique<ResourceManager>(std::string(kDeviceName));
  resources_ = own_resources_.get();
}

KernelRunner::~KernelRunner() = default;

KernelRunner& KernelRunner::Attr(std::string_view name, AttrValue value) {
  attrs_.Set(name, std::move(value));
  return *this;
}

KernelRunner& KernelRunner::Name(std::string name) {
  name_ = std::move(name);
  return *this;
}

KernelRunner& KernelRunner::Input(Tensor value) {
  OwnedInput(std::move(value));
  owned_.back() = false;
  return *this;
}

KernelRunner& KernelRunner::OwnedInput(Tensor value) {
  TensorValue in;
  in.value = std::move(value);
  in.kind = TensorValue::Kind::kValue;
  inputs_.push_back(std::move(in));
  owned_.push_back(true);
  return *this;
}

KernelRunner& KernelRunner::RefInput(Variable& variable) {
  TensorValue in;
  in.ref = &variable.tensor();
  in.ref_mu = &variable.mu();
  in.kind = TensorValue::Kind::kRef;
  inputs_.push_back(std::move(in));
  owned_.push_back(true);
  return *this;
}

KernelRunner& KernelRunner::Pool(ThreadPool* pool) {
  pool_ = pool;
  return *this;
}

KernelRunner& KernelRunner::Resources(ResourceManager* resources) {
  resources_ = resources;
  return *this;
}

KernelRunner& KernelRunner::WithRendezvous(Rendezvous* rendezvous) {
  rendezvous_ = rendezvous;
  return *this;
}

KernelRunner& KernelRunner::Frame(CallFrame* frame) {
  frame_ = frame;
  return *this;
}

void KernelRunner::InferAttrs(const OpDef& op) {
  // Arguments take inputs in order; one of "N * T" or of a list takes all that the arguments behind it leave.
  size_t next = 0;
  for (size_t a = 0; a < op.inputs.size(); ++a) {
    const ArgDef& arg = op.inputs[a];
    const size_t behind = op.inputs.size() - a - 1;
    size_t count = 1;
    if (!arg.number_attr.empty() || !arg.type_list_attr.empty()) {
      const auto given = attrs_.Get<int64_t>(arg.number_attr);
      const size_t left = inputs_.size() > next + behind ? inputs_.size() - next - behind : 0;
      count = !arg.number_attr.empty() && given.ok() ? static_cast<size_t>(*given) : left;
      if (!arg.number_attr.empty() && !given.ok()) attrs_.Set(arg.number_attr, static_cast<int64_t>(count));
    }
    if (!arg.type_list_attr.empty() && attrs_.Find(arg.type_list_attr) == nullptr) {
      std::vector<DataType> types;
      for (size_t i = next; i < next + count && i < inputs_.size(); ++i)
        types.push_back(inputs_[i].tensor().dtype());
      attrs_.Set(arg.type_list_attr, std::move(types));
    }
    if (!arg.type_attr.empty() && attrs_.Find(arg.type_attr) == nullptr && next < inputs_.size() &&
        count > 0) {
      attrs_.Set(arg.type_attr, inputs_[next].tensor().dtype());
    }
    next += count;
  }
}

Status KernelRunner::CheckSignature() {
  MR_ASSIGN_OR_RETURN(const OpRegistration* op, OpRegistry::Global().LookUp(op_));
  InferAttrs(op->def);
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const NodeProps> props, NodeProps::Make(*op, attrs_));
  if (props->input_types.size() == inputs_.size()) return Status();
  return errors::InvalidArgument("Op ", op_, " takes ", props->input_types.size(), " inputs, but was given ",
                                 inputs_.size());
}

Status KernelRunner::Prepare() {
  MR_ASSIGN_OR_RETURN(const OpRegistration* op, OpRegistry::Global().LookUp(op_));
  InferAttrs(op->def);
  MR_ASSIGN_OR_RETURN(std::shared_ptr<const NodeProps> props, NodeProps::Make(*op, attrs_));
  KernelConstruction construction(name_, props, *device_, *resources_);
  MR_ASSIGN_OR_RETURN(kernel_, KernelRegistry::Global().Create("CPU", construction));
  return Status();
}

Status KernelRunner::CheckInputs() const {
  if (static_cast<size_t>(kernel_->num_inputs()) != inputs_.size()) {
    return errors::InvalidArgument("Op ", op_, " takes ", kernel_->num_inputs(), " inputs, but was given ",
                                   inputs_.size());
  }
  for (int i = 0; i < kernel_->num_inputs(); ++i) {
    const DataType wanted = kernel_->input_type(i);
    const Tensor& got = inputs_[i].tensor();
    if (got.dtype() != BaseType(wanted)) {
      return errors::InvalidArgument("Input ", i, " of op ", op_, " is ", DataTypeName(wanted),
                                     ", but was given ", DataTypeName(got.dtype()));
    }
    if (IsRefType(wanted) && inputs_[i].kind != TensorValue::Kind::kRef) {
      return errors::InvalidArgument("Input ", i, " of op ", op_, " is a reference, but was given a value");
    }
    if (!got.IsInitialized() && !kernel_->props().op->def.allows_uninitialized_input) {
      return errors::FailedPrecondition("Attempting to use uninitialized value ", name_);
    }
  }
  return Status();
}

StatusOr<std::vector<Tensor>> KernelRunner::Run() {
  if (kernel_ == nullptr) MR_RETURN_IF_ERROR(Prepare());
  MR_RETURN_IF_ERROR(CheckInputs());
  std::vector<Tensor> result;
  outputs_.assign(kernel_->num_outputs(), TensorValue());
  if (const Tensor* constant = kernel_->ConstantOutput(); constant != nullptr) {
    result.push_back(*constant);
    return result;
  }
  StepServices step;
  step.step_resources = resources_;
  step.step_id = 1;
  step.UseDevice(*device_);
  step.resources = resources_;
  step.rendezvous = rendezvous_;
  step.call_frame = frame_;
  step.cancellation = &cancellation_;
  step.pool = pool_;
  std::vector<TensorValue> inputs;  // as the executor would: references to a shared value are converted
  for (int i = 0; i < kernel_->num_inputs(); ++i) {
    TensorValue in = owned_[i] ? std::move(inputs_[i]) : inputs_[i];
    if (in.kind == TensorValue::Kind::kRef && !IsRefType(kernel_->input_type(i))) {
      in.value = *in.ref;
      in.kind = TensorValue::Kind::kValue;
    }
    inputs.push_back(std::move(in));
  }
  KernelContext context(step, kernel_.get(), inputs, outputs_);
  if (AsyncOpKernel* async = kernel_->AsAsync(); async != nullptr) {
    Notification finished;
    Status status;
    async->ComputeAsync(context, [&](Status s) {
      status = std::move(s);
      finished.Notify();
    });
    finished.Wait();
    MR_RETURN_IF_ERROR(status);
  } else {
    MR_RETURN_IF_ERROR(kernel_->Compute(context));
  }
  for (const TensorValue& out : outputs_) {
    if (out.kind == TensorValue::Kind::kNone) {
      return errors::Internal("Op ", op_, " left output ", result.size(), " unset");
    }
    if (out.tensor().dtype() != BaseType(kernel_->output_type(static_cast<int>(result.size())))) {
      return errors::Internal("Op ", op_, " set output ", result.size(), " to a tensor of type ",
                              DataTypeName(out.tensor().dtype()));
    }
    result.push_back(out.tensor());
  }
  return result;
}

StatusOr<Tensor> KernelRunner::RunOne() {
  MR_ASSIGN_OR_RETURN(std::vector<Tensor> all, Run());
  if (all.size() != 1) return errors::Internal("Op ", op_, " has ", all.size(), " outputs, not one");
  return all[0];
}

}  // namespace millrace
