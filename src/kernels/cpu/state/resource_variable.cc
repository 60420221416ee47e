// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Resource variables.
#include <atomic>
#include <string>

#include "kernel/kernel_registry.h"
#include "kernels/cpu/array/gather.h"
#include "kernels/cpu/state/variable_util.h"

namespace millrace {
namespace {

// TensorFlow's shared name for variables that are not shared: each execution creates a separate one.
constexpr std::string_view kAnonymous = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";

class VarHandleKernel final : public OpKernel {
 public:
  explicit VarHandleKernel(KernelConstruction& c) : OpKernel(c), handle_(DataType::kResource, TensorShape()) {
    const auto container = c.Attr<std::string>("container");
    const auto shared_name = c.Attr<std::string>("shared_name");
    anonymous_ = shared_name == kAnonymous;
    ResourceHandle handle =
        c.resources().MakeHandle<Variable>(container, shared_name.empty() ? name() : shared_name);
    handle.dtypes_and_shapes.push_back({c.Attr<DataType>("dtype"), c.Attr<PartialShape>("shape")});
    handle_.scalar<ResourceHandle>() = std::move(handle);
  }
  Status Compute(KernelContext& context) override {
    if (!anonymous_) {
      context.set_output(0, handle_);
      return Status();
    }
    static std::atomic<uint64_t> count = 0;
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    ResourceHandle own = handle_.scalar<ResourceHandle>();
    own.name += "_" + std::to_string(count++);
    out->scalar<ResourceHandle>() = std::move(own);
    return Status();
  }
  const Tensor* ConstantOutput() const override { return anonymous_ ? nullptr : &handle_; }

 private:
  bool anonymous_ = false;
  Tensor handle_;
};

class ReadVariableKernel final : public OpKernel {
 public:
  explicit ReadVariableKernel(KernelConstruction& c) : OpKernel(c), dtype_(c.Attr<DataType>("dtype")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Variable> variable, FindVariable(context, 0));
    MutexLock lock(variable->mu());
    if (!variable->is_initialized) {
      return UninitializedVariable(context.input(0).scalar<ResourceHandle>(), "The variable has no value.");
    }
    if (variable->tensor().dtype() != dtype_) {
      return errors::InvalidArgument("Trying to read variable with wrong dtype. Expected ",
                                     DataTypeName(dtype_), " got ", DataTypeName(variable->tensor().dtype()));
    }
    context.set_output(0, variable->tensor());
    return Status();
  }

 private:
  const DataType dtype_;
};

class VarIsInitializedKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const ResourceHandle* handle, HandleInput(context, 0));
    bool initialized = false;
    if (auto variable = context.resources().LookupHandle<Variable>(*handle); variable.ok()) {
      MutexLock lock((*variable)->mu());
      initialized = (*variable)->is_initialized;
    } else if (!errors::IsNotFound(variable.status())) {
      return variable.status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    out->scalar<bool>() = initialized;
    return Status();
  }
};

class DestroyResourceKernel final : public OpKernel {
 public:
  explicit DestroyResourceKernel(KernelConstruction& c)
      : OpKernel(c), ignore_lookup_error_(c.Attr<bool>("ignore_lookup_error")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const ResourceHandle* handle, HandleInput(context, 0));
    Status status = context.resources().DeleteHandle(*handle);
    return ignore_lookup_error_ && errors::IsNotFound(status) ? Status() : status;
  }

 private:
  const bool ignore_lookup_error_;
};

class AssignVariableKernel final : public OpKernel {
 public:
  explicit AssignVariableKernel(KernelConstruction& c) : OpKernel(c), dtype_(c.Attr<DataType>("dtype")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const ResourceHandle* handle, HandleInput(context, 0));
    MR_ASSIGN_OR_RETURN(const RefPtr<Variable> variable, context.resources().LookupOrCreateHandle<Variable>(
                                                             *handle, [this]() -> StatusOr<RefPtr<Variable>> {
                                                               return MakeRef<Variable>(dtype_);
                                                             }));
    MutexLock lock(variable->mu());
    if (variable->tensor().dtype() != dtype_) {
      return errors::InvalidArgument("Trying to assign variable with wrong dtype. Expected ",
                                     DataTypeName(variable->tensor().dtype()), " got ", DataTypeName(dtype_));
    }
    MR_RETURN_IF_ERROR(StoreInput(context, 1, variable->tensor()));
    variable->is_initialized = true;
    return Status();
  }

 private:
  const DataType dtype_;
};

template <cpu::BinaryOp kOp>
class AssignUpdateVariableKernel final : public OpKernel {
 public:
  explicit AssignUpdateVariableKernel(KernelConstruction& c)
      : OpKernel(c), fns_(cpu::FindBinary(kOp, input_type(1))) {
    if (fns_ == nullptr) {
      c.SetError(
          errors::Unimplemented("Op ", op_name(), " has no CPU kernel for ", DataTypeName(input_type(1))));
    }
  }
  Status Compute(KernelContext& context) override {
    const Tensor& value = context.input(1);
    return UpdateResource(context, 0, value.dtype(), [&](Tensor& variable) -> Status {
      if (variable.shape() != value.shape()) {
        return errors::InvalidArgument("Cannot update variable with shape ", variable.shape(),
                                       " using a Tensor with shape ", value.shape(),
                                       ", shapes must be equal.");
      }
      return UpdateBy(context, *fns_, variable, value);
    });
  }

 private:
  const cpu::BinaryFns* const fns_;
};

class VariableShapeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Variable> variable, FindVariable(context, 0));
    TensorShape shape;
    {
      MutexLock lock(variable->mu());
      shape = variable->tensor().shape();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({shape.rank()})));
    for (int i = 0; i < shape.rank(); ++i) {
      if (out->dtype() == DataType::kInt32) {
        out->data<int32_t>()[i] = static_cast<int32_t>(shape.dim(i));
      } else {
        out->data<int64_t>()[i] = shape.dim(i);
      }
    }
    return Status();
  }
};

// The value of the variable in input 0, which stays valid if the variable changes.
StatusOr<Tensor> ValueOf(KernelContext& context) {
  Tensor value;
  MR_RETURN_IF_ERROR(UpdateResource(context, 0, context.output_type(0), [&](Tensor& variable) {
    value = variable;
    return Status();
  }));
  return value;
}

class ResourceGatherKernel final : public OpKernel {
 public:
  explicit ResourceGatherKernel(KernelConstruction& c)
      : OpKernel(c), batch_dims_(c.Attr<int64_t>("batch_dims")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Tensor params, ValueOf(context));
    if (params.rank() < 1) return errors::InvalidArgument("params must be at least 1 dimensional");
    const Tensor& indices = context.input(1);
    const int64_t batch_dims = batch_dims_ < 0 ? batch_dims_ + indices.rank() : batch_dims_;
    if (batch_dims < 0 || batch_dims > indices.rank() || batch_dims >= params.rank()) {
      return errors::InvalidArgument("batch_dims (", batch_dims_,
                                     ") must be less than the rank of the variable (", params.rank(),
                                     ") and at most the rank of indices (", indices.rank(), ")");
    }
    return GatherInto(context, params, indices, static_cast<int>(batch_dims), static_cast<int>(batch_dims));
  }

 private:
  const int64_t batch_dims_;
};

class ResourceGatherNdKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Tensor params, ValueOf(context));
    return GatherNdInto(context, params, context.input(1));
  }
};

}  // namespace

void RegisterResourceVariableKernels(KernelRegistry& registry) {
  registry.Register<VarHandleKernel>(KernelDef("VarHandleOp"));
  registry.Register<ReadVariableKernel>(KernelDef("ReadVariableOp"));
  registry.Register<VarIsInitializedKernel>(KernelDef("VarIsInitializedOp"));
  registry.Register<DestroyResourceKernel>(KernelDef("DestroyResourceOp"));
  registry.Register<AssignVariableKernel>(KernelDef("AssignVariableOp"));
  registry.Register<AssignUpdateVariableKernel<cpu::BinaryOp::kAdd>>(
      KernelDef("AssignAddVariableOp").Types("dtype", NumberTypes()));
  registry.Register<AssignUpdateVariableKernel<cpu::BinaryOp::kSub>>(
      KernelDef("AssignSubVariableOp").Types("dtype", NumberTypes()));
  registry.Register<VariableShapeKernel>(KernelDef("VariableShape"));
  registry.Register<ResourceGatherKernel>(KernelDef("ResourceGather").Types("Tindices", IndexTypes()));
  registry.Register<ResourceGatherNdKernel>(KernelDef("ResourceGatherNd").Types("Tindices", IndexTypes()));
}

}  // namespace millrace
