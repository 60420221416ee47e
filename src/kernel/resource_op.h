// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>

#include "base/mutex.h"
#include "kernel/kernel_context.h"
#include "kernel/op_kernel.h"
#include "kernel/resource.h"

namespace millrace {

// The name of a resource of a node without the attribute "shared_name": the node's own, so that other
// sessions on the same devices find it; or a unique one ("_7_node").
enum class Unnamed { kNodeName, kPrivate };

// The place of a node's resource, by its attributes "container" and "shared_name".
struct ResourceName {
  std::string container;
  std::string name;
  bool is_private = false;  // dropped with the kernel
};
StatusOr<ResourceName> NameResource(const KernelConstruction& c, Unnamed unnamed);

// Refuses handles that are neither a resource nor a reference to container and name.
Status BadHandle(const KernelContext& context, int i);

// The resource that input `i` names: a resource handle, or a reference to a string vector that holds
// container and name.
template <typename T>
StatusOr<RefPtr<T>> FindResource(const KernelContext& context, int i) {
  if (context.input_is_ref(i)) {
    MutexLock lock(context.ref_mutex(i));
    const Tensor& names = context.ref_input(i);
    if (names.dtype() != DataType::kString || names.num_elements() != 2) return BadHandle(context, i);
    return context.resources().Lookup<T>(names.data<std::string>()[0], names.data<std::string>()[1]);
  }
  const Tensor& handle = context.input(i);
  if (handle.dtype() != DataType::kResource || handle.num_elements() != 1) return BadHandle(context, i);
  return context.resources().LookupHandle<T>(handle.scalar<ResourceHandle>());
}

// The node that owns or shares a resource of type T and outputs its handle, in the form that the op declares.
// The first run creates the resource, later ones do not look it up: after its container was cleared, ops that
// use the handle do not find it. One object is used by many steps at the same time.
class ResourceOpKernelBase : public OpKernel {
 protected:
  ResourceOpKernelBase(KernelConstruction& c, Unnamed unnamed);
  const ResourceName& place() const { return place_; }
  ResourceManager& manager() const { return manager_; }
  void SetHandle(ResourceHandle handle) MR_REQUIRES(mu_);
  Status Output(KernelContext& context);

  Mutex mu_;                        // taken to read the handle through a reference
  std::atomic<bool> ready_{false};  // set, by release, when handle_ and the resource are final

 private:
  ResourceManager& manager_;
  ResourceName place_;
  Tensor handle_;  // written once, before ready_
};

template <typename T>
class ResourceOpKernel : public ResourceOpKernelBase {
 public:
  ResourceOpKernel(KernelConstruction& c, Unnamed unnamed) : ResourceOpKernelBase(c, unnamed) {}
  ~ResourceOpKernel() override {
    if (place().is_private && ready_.load(std::memory_order_acquire)) {
      manager().template Delete<T>(place().container, place().name).IgnoreError("Reset may have dropped it");
    }
  }
  Status Compute(KernelContext& context) override {
    if (!ready_.load(std::memory_order_acquire)) [[unlikely]] {  // pairs with the release in Prepare
      MR_RETURN_IF_ERROR(Prepare(context));
    }
    return Output(context);
  }

 protected:
  virtual StatusOr<RefPtr<T>> Make(KernelContext& context) = 0;
  // Whether an existing resource matches the declaration of this node.
  virtual Status Verify(T& /*shared*/) { return Status(); }

 private:
  Status Prepare(KernelContext& context) {
    MutexLock lock(mu_);
    if (ready_.load(std::memory_order_relaxed)) return Status();  // mu_ orders it
    const auto make = [&] { return Make(context); };
    MR_ASSIGN_OR_RETURN(const RefPtr<T> resource,
                        manager().template LookupOrCreate<T>(place().container, place().name, make));
    MR_RETURN_IF_ERROR(Verify(*resource));
    SetHandle(manager().template MakeHandle<T>(place().container, place().name));
    ready_.store(true, std::memory_order_release);
    return Status();
  }
};

}  // namespace millrace
