// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Transfers of tensors between partitions, through the step's rendezvous. The sender leaves a tensor in its
// memory; the receiver copies it to the memory it needs. Tensors for other tasks are sent in host memory.
#include "device/copy.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/device/register.h"

namespace millrace {
namespace {

// The key of a transfer: computed once outside of loops, and for each iteration within one.
class TransferKey {
 public:
  explicit TransferKey(KernelConstruction& c)
      : send_device_(c.Attr<std::string>("send_device")),
        recv_device_(c.Attr<std::string>("recv_device")),
        tensor_name_(c.Attr<std::string>("tensor_name")),
        incarnation_(static_cast<uint64_t>(c.Attr<int64_t>("send_device_incarnation"))),
        key_(Make(0, 0)) {}

  // Calls fn with the key.
  template <typename F>
  auto With(const KernelContext& context, const F& fn) const {
    if (context.frame() == 0) return fn(key_);
    return fn(Make(context.frame(), context.iteration()));
  }

 private:
  Rendezvous::Key Make(uint64_t frame, int64_t iteration) const {
    return Rendezvous::Key::Make(send_device_, incarnation_, recv_device_, tensor_name_, frame, iteration);
  }

  const std::string send_device_;
  const std::string recv_device_;
  const std::string tensor_name_;
  const uint64_t incarnation_;
  const Rendezvous::Key key_;
};

Status NoRendezvous() { return errors::Internal("Op kernel context needs to provide a rendezvous."); }

class SendKernel final : public OpKernel {
 public:
  explicit SendKernel(KernelConstruction& c) : OpKernel(c), key_(c) {}
  Status Compute(KernelContext& context) override {
    if (context.rendezvous() == nullptr) return NoRendezvous();
    const bool dead = context.input_is_dead(0);
    return key_.With(context, [&](const Rendezvous::Key& key) {
      return context.rendezvous()->Send(key, dead ? Tensor() : context.TakeInput(0), dead);
    });
  }

 private:
  const TransferKey key_;
};

// Sends from a device with separate memory to another task.
class SendFromDeviceKernel final : public AsyncOpKernel {
 public:
  explicit SendFromDeviceKernel(KernelConstruction& c) : AsyncOpKernel(c), key_(c) {}
  void ComputeAsync(KernelContext& context, Done done) override {
    if (context.rendezvous() == nullptr) return done(NoRendezvous());
    if (context.input_is_dead(0)) return done(Send(context, Tensor(), true));
    BringTensor(context.input(0), nullptr, context.host_allocator(),
                [this, &context, finish = std::move(done)](StatusOr<Tensor> host) mutable {
                  finish(host.ok() ? Send(context, *std::move(host), false) : host.status());
                });
  }

 private:
  Status Send(const KernelContext& context, Tensor tensor, bool dead) const {
    return key_.With(context, [&](const Rendezvous::Key& key) {
      return context.rendezvous()->Send(key, std::move(tensor), dead);
    });
  }

  const TransferKey key_;
};

class RecvKernel final : public AsyncOpKernel {
 public:
  explicit RecvKernel(KernelConstruction& c) : AsyncOpKernel(c), key_(c) {}
  void ComputeAsync(KernelContext& context, Done done) override {
    if (context.rendezvous() == nullptr) return done(NoRendezvous());
    key_.With(context, [&](const Rendezvous::Key& key) {
      context.rendezvous()->RecvAsync(
          key, [&context, finish = std::move(done)](Status status, Tensor tensor, bool is_dead) mutable {
            if (!status.ok()) return finish(std::move(status));
            Deliver(context, std::move(tensor), is_dead, std::move(finish));
          });
    });
  }

 private:
  static void Deliver(KernelContext& context, Tensor tensor, bool is_dead, Done done) {
    if (is_dead) {
      context.set_output_dead(0);
      return done(Status());
    }
    if (tensor.dtype() != context.output_type(0)) {
      return done(errors::Internal("Received a tensor of type ", DataTypeName(tensor.dtype()), ", expected ",
                                   DataTypeName(context.output_type(0))));
    }
    Device* const here = context.kernel().output_on_host(0) ? nullptr : &context.device();
    if (DeviceOf(tensor) == here) {
      context.set_output(0, std::move(tensor));
      return done(Status());
    }
    BringTensor(tensor, here, context.output_allocator(0),
                [&context, finish = std::move(done)](StatusOr<Tensor> copy) mutable {
                  if (!copy.ok()) return finish(copy.status());
                  context.set_output(0, *std::move(copy));
                  finish(Status());
                });
  }

  const TransferKey key_;
};

}  // namespace

void RegisterSendRecvKernels(KernelRegistry& registry) {
  for (const char* op : {"_Send", "_HostSend"}) registry.Register<SendKernel>(KernelDef(op));
  for (const char* op : {"_Recv", "_HostRecv"}) registry.Register<RecvKernel>(KernelDef(op));
}

void RegisterDeviceSendKernels(KernelRegistry& registry, const std::string& type) {
  const auto make = [](KernelConstruction& c) -> std::unique_ptr<OpKernel> {
    std::string from, to, device;
    const bool known = SplitDeviceName(c.Attr<std::string>("send_device"), &from, &device) &&
                       SplitDeviceName(c.Attr<std::string>("recv_device"), &to, &device);
    if (known && from == to) return std::make_unique<SendKernel>(c);
    return std::make_unique<SendFromDeviceKernel>(c);
  };
  registry.Register(KernelDef("_Send").Device(type).Async(), make);
  registry.RegisterSame(KernelDef("_HostSend").Device(type).SameAs("CPU").HostMemory("tensor"));
}

}  // namespace millrace
