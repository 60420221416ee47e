// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels whose computation is a function of the client's language.
#include <atomic>
#include <new>
#include <utility>
#include <vector>

#include "base/waiting_threads.h"
#include "c/internal.h"
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

// The functions run in threads of their own: one may wait for what another one of the same step does. Never
// destroyed, since a function may still run when the process ends.
WaitingThreads& Threads() {
  static WaitingThreads& threads = *new WaitingThreads;
  return threads;
}

// Kernels in the process. The only one has no other to wait for, and needs no other thread.
std::atomic<int> kernels{0};

class PyFuncKernel final : public AsyncOpKernel {
 public:
  explicit PyFuncKernel(KernelConstruction& c) : AsyncOpKernel(c), token_(c.Attr<std::string>("token")) {
    ++kernels;
  }
  ~PyFuncKernel() override { --kernels; }

  void ComputeAsync(KernelContext& context, Done done) override {
    if (kernels == 1) return done(CallCaught(context));
    Threads().Schedule([this, &context, done = std::move(done)]() mutable { done(CallCaught(context)); });
  }

 private:
  Status CallCaught(KernelContext& context) {
    try {
      return Call(context);
    } catch (const std::bad_alloc&) {
      return errors::ResourceExhausted("Out of memory in the function ", token_);
    }
  }

  Status Call(KernelContext& context) {
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
