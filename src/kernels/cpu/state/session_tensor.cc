// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Tensors that are kept in the session, by handle.
#include "kernel/session_tensors.h"

#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

StatusOr<SessionTensors*> TensorsOf(const KernelContext& context) {
  SessionTensors* const tensors = context.step().session_tensors;
  if (tensors != nullptr) return tensors;
  return errors::FailedPrecondition(context.kernel().op_name(), " called on null session state");
}

StatusOr<std::string> HandleText(const KernelContext& context) {
  MR_RETURN_IF_ERROR(RequireScalar(context.input(0), "handle"));
  return context.input(0).scalar<std::string>();
}

class GetSessionHandleKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(SessionTensors * tensors, TensorsOf(context));
    MR_ASSIGN_OR_RETURN(std::string handle, tensors->Offer(context, context.input(0)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    if (context.output_type(0) == DataType::kString) {
      out->scalar<std::string>() = std::move(handle);
    } else {
      ResourceHandle resource = context.resources().MakeHandle<Tensor>(SessionTensors::kContainer, handle);
      resource.maybe_type_name = SessionTensors::kContainer;
      out->scalar<ResourceHandle>() = std::move(resource);
    }
    return Status();
  }
};

class GetSessionTensorKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const SessionTensors* tensors, TensorsOf(context));
    MR_ASSIGN_OR_RETURN(const std::string handle, HandleText(context));
    MR_ASSIGN_OR_RETURN(Tensor value, tensors->Get(handle));
    if (value.dtype() != output_type(0)) {
      return errors::InvalidArgument("The tensor with handle '", handle, "' is ", DataTypeName(value.dtype()),
                                     ", not ", DataTypeName(output_type(0)));
    }
    context.set_output(0, std::move(value));
    return Status();
  }
};

class DeleteSessionTensorKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(SessionTensors * tensors, TensorsOf(context));
    MR_ASSIGN_OR_RETURN(const std::string handle, HandleText(context));
    return tensors->Delete(handle);
  }
};

}  // namespace

void RegisterSessionTensorKernels(KernelRegistry& registry) {
  for (const char* op : {"GetSessionHandle", "GetSessionHandleV2"})
    registry.Register<GetSessionHandleKernel>(KernelDef(op));
  registry.Register<GetSessionTensorKernel>(KernelDef("GetSessionTensor"));
  registry.Register<DeleteSessionTensorKernel>(KernelDef("DeleteSessionTensor"));
}

}  // namespace millrace
