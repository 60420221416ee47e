// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The kernel of an op whose one output, of the type resource, is the handle of a resource that it makes:
//
//   REGISTER_OP("CounterHandle").Attr("container: string = ''").Attr("shared_name: string = ''")
//       .Output("handle: resource").SetIsStateful();
//   class CounterHandle : public ResourceOpKernel<Counter> { … Status CreateResource(Counter** made)
//   override; };
#ifndef TENSORFLOW_CORE_FRAMEWORK_RESOURCE_OP_KERNEL_H_
#define TENSORFLOW_CORE_FRAMEWORK_RESOURCE_OP_KERNEL_H_

#include <mutex>

#include "tensorflow/core/framework/resource_mgr.h"

namespace tensorflow {

// The first run makes the resource. Without the attribute shared_name it is deleted with the kernel.
template <typename T>
class ResourceOpKernel : public OpKernel {
 public:
  explicit ResourceOpKernel(OpKernelConstruction* c) : OpKernel(c) {}
  ~ResourceOpKernel() override {
    if (resource_ == nullptr) return;
    resource_->Unref();
    if (cinfo_.resource_is_private_to_kernel())
      cinfo_.resource_manager()->template Delete<T>(cinfo_.container(), cinfo_.name()).IgnoreError();
  }
  void Compute(OpKernelContext* context) override {
    const std::lock_guard<std::mutex> lock(mu_);
    if (resource_ == nullptr) {
      OP_REQUIRES_OK(context, cinfo_.Init(context->resource_manager(), def()));
      T* resource = nullptr;
      OP_REQUIRES_OK(context, cinfo_.resource_manager()->template LookupOrCreate<T>(
                                  cinfo_.container(), cinfo_.name(), &resource,
                                  [this](T** made) { return CreateResource(made); }));
      const Status verified = VerifyResource(resource);
      if (!verified.ok()) resource->Unref();
      OP_REQUIRES_OK(context, verified);
      resource_ = resource;
    }
    OP_REQUIRES_OK(context, MakeResourceHandleToOutput(context, 0, cinfo_.container(), cinfo_.name(),
                                                       TypeIndex::Make<T>()));
  }

 protected:
  T* get_resource() const { return resource_; }
  std::mutex mu_;
  ContainerInfo cinfo_;

 private:
  // Gives its caller a reference, the only one. The mutex is held.
  virtual Status CreateResource(T** resource) = 0;
  // Checks that an existing resource matches the node.
  virtual Status VerifyResource(T* /*resource*/) { return Status(); }
  T* resource_ = nullptr;
};

}  // namespace tensorflow

#endif
