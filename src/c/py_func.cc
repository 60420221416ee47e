// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels whose computation is a function of the client's language.
#include <atomic>
#include <utility>
#include <vector>

#include "c/internal.h"
#include "kernel/blocking_kernel.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "millrace/c/client.h"

namespace millrace::c_api {
namespace {

// Set once, before the kernels are registered: the registry's lock orders it before every use.
std::atomic<Millrace_PyFuncCallback> callback{nullptr};

// Tensors of the C API that end with a call.
struct Handles {
  explicit Handles(int count) : all(static_cast<size_t>(count), nullptr) {}
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    for (TF_Tensor* tensor : all) TF_DeleteTensor(tensor);
  }
  std::vector<TF_Tensor*> all;
};

// One function may wait for an effect of another one in the same step.
class PyFuncKernel final : public BlockingKernel {
 public:
  explicit PyFuncKernel(KernelConstruction& c) : BlockingKernel(c), token_(c.Attr<std::string>("token")) {}

 private:
  Status ComputeBlocking(KernelContext& context) override {
    Handles inputs(context.num_inputs());
    for (int i = 0; i < context.num_inputs(); ++i) {
      MR_ASSIGN_OR_RETURN(inputs.all[static_cast<size_t>(i)], FromTensor(context.input(i)));
    }
    Handles outputs(num_outputs());
    TF_Status result;
    callback.load()(token_.data(), token_.size(), inputs.all.data(), context.num_inputs(), outputs.all.data(),
                    num_outputs(), &result);
    MR_RETURN_IF_ERROR(result.status);
    for (int i = 0; i < num_outputs(); ++i) {
      MR_ASSIGN_OR_RETURN(Tensor value, ToTensor(outputs.all[static_cast<size_t>(i)]));
      if (value.dtype() != context.output_type(i)) {
        return errors::InvalidArgument(i, "-th value returned by ", token_, " is ",
                                       DataTypeName(value.dtype()), ", but expects ",
                                       DataTypeName(context.output_type(i)));
      }
      context.set_output(i, std::move(value));
    }
    return Status();
  }

  const std::string token_;
};

}  // namespace
}  // namespace millrace::c_api

void Millrace_SetPyFuncCallback(Millrace_PyFuncCallback callback) {
  if (callback == nullptr || millrace::c_api::callback.exchange(callback) != nullptr) return;
  for (const char* op : {"PyFunc", "PyFuncStateless", "EagerPyFunc"}) {
    millrace::KernelRegistry::Global().Register<millrace::c_api::PyFuncKernel>(
        millrace::KernelDef(op).Device("CPU"));
  }
}
