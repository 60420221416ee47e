// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The registration of kernels, for op_kernel.h, which includes this.
#ifndef TENSORFLOW_CORE_FRAMEWORK_KERNEL_DEF_BUILDER_H_
#define TENSORFLOW_CORE_FRAMEWORK_KERNEL_DEF_BUILDER_H_

#include "tensorflow/core/framework/op_kernel.h"

namespace tensorflow {
namespace register_kernel {

class Name {
 public:
  explicit Name(const char* op) : op_(op), device_("CPU"), may_block_(true) {}
  Name& Device(const char* device) {
    device_ = device;
    return *this;
  }
  template <typename T>
  Name& TypeConstraint(const char* attr) {
    return TypeConstraint(attr, DataTypeToEnum<T>::v());
  }
  Name& TypeConstraint(const char* attr, DataType type) {
    types_.push_back(std::make_pair(attr, type));
    return *this;
  }
  Name& HostMemory(const char* arg) {
    host_.push_back(arg);
    return *this;
  }
  // For nodes whose attribute _kernel has that label.
  Name& Label(const char* label) {
    label_ = label;
    return *this;
  }

  // Not in TensorFlow. Compute does not wait for another node of the step: calls cost less, and long ones
  // share the threads of the session. See Millrace_KernelBuilderMayBlock.
  Name& NeverBlocks() {
    may_block_ = false;
    return *this;
  }

  template <typename Kernel>
  bool Register() const {
    internal::CStatus status;
    TF_KernelBuilder* const builder = TF_NewKernelBuilder(op_, device_, Create<Kernel>, Compute, Delete);
    for (const std::pair<const char*, DataType>& type : types_)
      TF_KernelBuilder_TypeConstraint(builder, type.first, static_cast<TF_DataType>(type.second),
                                      status.get());
    for (const char* const arg : host_) TF_KernelBuilder_HostMemory(builder, arg);
    if (label_ != nullptr) Millrace_KernelBuilderLabel(builder, label_);
    if (!may_block_) Millrace_KernelBuilderMayBlock(builder, 0);
    TF_RegisterKernelBuilder(op_, builder, status.get());
    if (!status.status().ok())
      std::fprintf(stderr, "kernel of %s: %s\n", op_, status.status().error_message().c_str());
    return status.status().ok();
  }

 private:
  template <typename Kernel>
  static void* Create(TF_OpKernelConstruction* c) {
    OpKernelConstruction construction(c);
    try {
      return static_cast<OpKernel*>(new Kernel(&construction));
    } catch (...) {
      construction.SetStatus(internal::CaughtError("a kernel"));
    }
    return nullptr;
  }
  static void Compute(void* kernel, TF_OpKernelContext* c) {
    OpKernelContext context(c);
    try {
      static_cast<OpKernel*>(kernel)->Compute(&context);
    } catch (...) {
      context.SetStatus(internal::CaughtError("a kernel"));
    }
    context.Finish();
  }
  static void Delete(void* kernel) { delete static_cast<OpKernel*>(kernel); }

  const char* const op_;
  const char* device_;
  std::vector<std::pair<const char*, DataType>> types_;
  std::vector<const char*> host_;
  bool may_block_;
  const char* label_ = nullptr;
};

}  // namespace register_kernel
}  // namespace tensorflow

#define MR_TF_JOIN_(a, b) a##b
#define MR_TF_JOIN(a, b) MR_TF_JOIN_(a, b)
#define REGISTER_KERNEL_BUILDER(kernel_builder, ...) \
  MR_TF_REGISTER_KERNEL(__COUNTER__, kernel_builder, __VA_ARGS__)
#define MR_TF_REGISTER_KERNEL(number, kernel_builder, ...)                      \
  static const bool MR_TF_JOIN(mr_tf_kernel_, number) __attribute__((unused)) = \
      ::tensorflow::register_kernel::kernel_builder.Register<__VA_ARGS__>()

#endif
