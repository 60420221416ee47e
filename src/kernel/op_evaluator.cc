// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/op_evaluator.h"

#include <new>
#include <utility>

#include "base/cancellation.h"
#include "device/device.h"
#include "kernel/blocking_kernel.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "kernel/resource.h"

namespace millrace {
namespace {

// A CPU that belongs to no session.
class Place {
 public:
  static StatusOr<Place*> Get() {
    static const StatusOr<Place*> place = Make();
    return place;
  }
  Device& device() { return *devices_->devices().front(); }
  ResourceManager& resources() { return resources_; }

 private:
  static StatusOr<Place*> Make() {
    DeviceOptions options;
    options.device_count = {{"CPU", 1}};
    options.name_prefix = "/job:localhost/replica:0/task:0";
    DeviceFactoryRegistry cpu_only;
    MR_RETURN_IF_ERROR(RegisterCpuDeviceFactory(cpu_only));
    MR_ASSIGN_OR_RETURN(std::unique_ptr<DeviceSet> devices, cpu_only.CreateDevices(options));
    return new Place(std::move(devices));
  }
  explicit Place(std::unique_ptr<DeviceSet> devices)
      : devices_(std::move(devices)), resources_(device().name()) {}

  std::unique_ptr<DeviceSet> devices_;
  ResourceManager resources_;
};

}  // namespace

StatusOr<std::vector<Tensor>> EvaluateOp(std::string_view name, const std::shared_ptr<const NodeProps>& props,
                                         std::span<const Tensor> inputs) {
  MR_ASSIGN_OR_RETURN(Place* const place, Place::Get());
  KernelConstruction construction(name, props, place->device(), place->resources());
  try {
    MR_ASSIGN_OR_RETURN(const std::unique_ptr<OpKernel> kernel,
                        KernelRegistry::Global().Create("CPU", construction));
    auto* const blocking = dynamic_cast<BlockingKernel*>(kernel.get());
    if (kernel->AsAsync() != nullptr && (blocking == nullptr || !blocking->evaluates_constants()))
      return errors::Unimplemented("A kernel of ", kernel->op_name(), " may block");
    std::vector<TensorValue> in(inputs.size()), out(props->output_types.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      in[i].kind = TensorValue::Kind::kConstant;
      in[i].borrowed = &inputs[i];
    }
    CancellationManager cancellation;
    StepServices services;
    services.UseDevice(place->device());
    services.resources = &place->resources();
    services.step_resources = &place->resources();
    services.cancellation = &cancellation;
    std::vector<Tensor> outputs;
    if (const Tensor* constant = kernel->ConstantOutput(); constant != nullptr) {
      outputs.push_back(*constant);
      return outputs;
    }
    KernelContext context(services, kernel.get(), in, out);
    Status status;
    if (blocking != nullptr) {
      status = BlockingCall(*blocking, context, nullptr).Compute();
    } else {
      status = kernel->Compute(context);
    }
    MR_RETURN_IF_ERROR(status);
    for (TensorValue& value : out) {
      if (value.kind != TensorValue::Kind::kValue && value.kind != TensorValue::Kind::kConstant)
        return errors::Internal("Missing output from op ", kernel->op_name());
      outputs.push_back(value.tensor());
    }
    return outputs;
  } catch (const std::bad_alloc&) {
    return errors::ResourceExhausted("Out of memory");
  }
}

}  // namespace millrace
