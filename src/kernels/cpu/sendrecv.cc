// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Tensors between partitions, through the step's rendezvous.
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/register.h"

namespace millrace {
namespace {

Rendezvous::Key ReadKey(KernelConstruction& c) {
  const auto incarnation = static_cast<uint64_t>(c.Attr<int64_t>("send_device_incarnation"));
  return Rendezvous::Key::Make(c.Attr<std::string>("send_device"), incarnation,
                               c.Attr<std::string>("recv_device"), c.Attr<std::string>("tensor_name"));
}

Status NoRendezvous() { return errors::Internal("Op kernel context needs to provide a rendezvous."); }

class SendKernel final : public OpKernel {
 public:
  explicit SendKernel(KernelConstruction& c) : OpKernel(c), key_(ReadKey(c)) {}
  Status Compute(KernelContext& context) override {
    if (context.rendezvous() == nullptr) return NoRendezvous();
    const bool dead = context.input_is_dead(0);
    return context.rendezvous()->Send(key_, dead ? Tensor() : context.TakeInput(0), dead);
  }

 private:
  const Rendezvous::Key key_;
};

class RecvKernel final : public AsyncOpKernel {
 public:
  explicit RecvKernel(KernelConstruction& c) : AsyncOpKernel(c), key_(ReadKey(c)) {}
  void ComputeAsync(KernelContext& context, Done done) override {
    if (context.rendezvous() == nullptr) return done(NoRendezvous());
    context.rendezvous()->RecvAsync(
        key_, [&context, finish = std::move(done)](Status status, Tensor tensor, bool is_dead) mutable {
          finish(status.ok() ? Deliver(context, std::move(tensor), is_dead) : std::move(status));
        });
  }

 private:
  static Status Deliver(KernelContext& context, Tensor tensor, bool is_dead) {
    if (is_dead) {
      context.set_output_dead(0);
      return Status();
    }
    if (tensor.dtype() != context.output_type(0)) {
      return errors::Internal("Received a tensor of type ", DataTypeName(tensor.dtype()), ", expected ",
                              DataTypeName(context.output_type(0)));
    }
    context.set_output(0, std::move(tensor));
    return Status();
  }

  const Rendezvous::Key key_;
};

}  // namespace

void RegisterSendRecvKernels(KernelRegistry& registry) {
  for (const char* op : {"_Send", "_HostSend"}) registry.Register<SendKernel>(KernelDef(op));
  for (const char* op : {"_Recv", "_HostRecv"}) registry.Register<RecvKernel>(KernelDef(op));
}

}  // namespace millrace
