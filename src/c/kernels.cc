// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels written in C.
#include "tensorflow/c/kernels.h"

#include "c/internal.h"
#include "c/op_handles.h"
#include "kernel/blocking_kernel.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "millrace/c/user_op.h"

struct TF_KernelBuilder {
  millrace::KernelDef def{""};
  void* (*create)(TF_OpKernelConstruction*) = nullptr;
  void (*compute)(void*, TF_OpKernelContext*) = nullptr;
  void (*destroy)(void*) = nullptr;
  bool may_block = true;
};

using millrace::DataType;
using millrace::KernelConstruction;
using millrace::Status;
using millrace::Tensor;
using millrace::TensorShape;
namespace errors = millrace::errors;

namespace millrace::c_api {
namespace {

// A kernel written in C: its functions, and the object that its create function returned.
class Functions {
 public:
  Functions(const TF_KernelBuilder& functions, KernelConstruction& construction)
      : compute_(functions.compute), destroy_(functions.destroy) {
    if (functions.create != nullptr) {
      state_ = functions.create(reinterpret_cast<TF_OpKernelConstruction*>(&construction));
    }
  }
  Functions(const Functions&) = delete;
  Functions& operator=(const Functions&) = delete;
  ~Functions() {
    if (destroy_ != nullptr) destroy_(state_);
  }

  Status Compute(KernelContext& context) {
    TF_OpKernelContext c{context, context.kernel().props()};
    compute_(state_, &c);
    if (!c.status.ok()) return std::move(c.status);
    for (const auto& [index, tensor] : c.encoded) {
      MR_ASSIGN_OR_RETURN(Tensor value, ToTensor(&tensor));
      context.set_output(index, std::move(value));
    }
    for (Tensor* bools : c.bools) {
      auto* bytes = static_cast<uint8_t*>(bools->raw_data());
      for (int64_t i = 0; i < bools->num_elements(); ++i) {
        if (bytes[i] > 1) bytes[i] = 1;
      }
    }
    return std::move(c.status);
  }

 private:
  void (*const compute_)(void*, TF_OpKernelContext*);
  void (*const destroy_)(void*);
  void* state_ = nullptr;
};

class CKernel final : public OpKernel {
 public:
  CKernel(const TF_KernelBuilder& functions, KernelConstruction& c) : OpKernel(c), functions_(functions, c) {}
  Status Compute(KernelContext& context) override { return functions_.Compute(context); }

 private:
  Functions functions_;
};

class BlockingCKernel final : public BlockingKernel {
 public:
  BlockingCKernel(const TF_KernelBuilder& functions, KernelConstruction& c)
      : BlockingKernel(c), functions_(functions, c) {}
  bool evaluates_constants() const override { return true; }

 private:
  Status ComputeBlocking(KernelContext& context) override { return functions_.Compute(context); }

  Functions functions_;
};

template <typename T, typename Out>
void GetAttr(TF_OpKernelConstruction* ctx, const char* name, Out* value, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr || name == nullptr || value == nullptr) return NullArgument("An argument");
    MR_ASSIGN_OR_RETURN(const T found, Of(ctx).attrs().Get<T>(name));
    *value = static_cast<Out>(found);
    return Status();
  });
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

TF_KernelBuilder* TF_NewKernelBuilder(const char* op_name, const char* device_name,
                                      void* (*create_func)(TF_OpKernelConstruction*),
                                      void (*compute_func)(void*, TF_OpKernelContext*),
                                      void (*delete_func)(void*)) {
  return EnterOr<TF_KernelBuilder*>(nullptr, [&] {
    auto builder = std::make_unique<TF_KernelBuilder>();
    builder->def = millrace::KernelDef(OrEmpty(op_name)).Device(OrEmpty(device_name));
    builder->create = create_func;
    builder->compute = compute_func;
    builder->destroy = delete_func;
    return builder.release();
  });
}

void TF_DeleteKernelBuilder(TF_KernelBuilder* builder) { delete builder; }

void TF_KernelBuilder_TypeConstraint(TF_KernelBuilder* kernel_builder, const char* attr_name,
                                     const TF_DataType type, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (kernel_builder == nullptr || attr_name == nullptr) return NullArgument("The builder or the name");
    if (!millrace::IsKnownDataType(TypeOf(type))) {
      return errors::Unimplemented("Unexpected type ", static_cast<int>(type));
    }
    kernel_builder->def.Type(attr_name, TypeOf(type));
    return Status();
  });
}

void TF_KernelBuilder_HostMemory(TF_KernelBuilder* kernel_builder, const char* arg_name) {
  if (kernel_builder != nullptr && arg_name != nullptr) kernel_builder->def.HostMemory(arg_name);
}

void Millrace_KernelBuilderMayBlock(TF_KernelBuilder* builder, unsigned char may_block) {
  if (builder != nullptr) builder->may_block = may_block != 0;
}

void Millrace_KernelBuilderLabel(TF_KernelBuilder* builder, const char* label) {
  if (builder != nullptr && label != nullptr) builder->def.Label(label);
}

void TF_RegisterKernelBuilder(const char* /*kernel_name*/, TF_KernelBuilder* builder, TF_Status* status) {
  std::shared_ptr<TF_KernelBuilder> owned(builder);
  Enter(status, [&]() -> Status {
    if (builder == nullptr) return NullArgument("The builder");
    if (builder->compute == nullptr) return NullArgument("The compute function");
    millrace::KernelRegistry::Global().Register(
        builder->def.Async(builder->may_block),
        [owned](KernelConstruction& c) -> std::unique_ptr<millrace::OpKernel> {
          if (owned->may_block) return std::make_unique<BlockingCKernel>(*owned, c);
          return std::make_unique<CKernel>(*owned, c);
        });
    return Status();
  });
}

int TF_NumInputs(TF_OpKernelContext* ctx) { return ctx == nullptr ? 0 : ctx->context.num_inputs(); }

int TF_NumOutputs(TF_OpKernelContext* ctx) { return ctx == nullptr ? 0 : ctx->context.num_outputs(); }

void TF_GetInput(TF_OpKernelContext* ctx, int i, TF_Tensor** tensor, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr || tensor == nullptr) return NullArgument("The context or the tensor");
    if (i < 0 || i >= ctx->context.num_inputs()) return errors::OutOfRange("input index out of range");
    MR_ASSIGN_OR_RETURN(*tensor, FromTensor(ctx->context.input(i)));
    return Status();
  });
}

void TF_SetOutput(TF_OpKernelContext* ctx, int i, const TF_Tensor* tensor, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr) return NullArgument("The context");
    if (i < 0 || i >= ctx->context.num_outputs()) return errors::OutOfRange("output index out of range");
    MR_ASSIGN_OR_RETURN(Tensor value, ToTensor(tensor));
    if (value.dtype() != ctx->context.output_type(i)) {
      return errors::InvalidArgument("Output ", i, " is of type ", ctx->context.output_type(i), ", not ",
                                     value.dtype());
    }
    std::erase_if(ctx->encoded, [i](const auto& output) { return output.first == i; });
    ctx->context.set_output(i, std::move(value));
    return Status();
  });
}

void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction* ctx, TF_Status* status) {
  if (ctx != nullptr && status != nullptr) Of(ctx).SetError(status->status);
}

void TF_OpKernelContext_Failure(TF_OpKernelContext* ctx, TF_Status* status) {
  if (ctx != nullptr && status != nullptr) ctx->status.Update(status->status);
}

TF_DataType TF_ExpectedOutputDataType(TF_OpKernelContext* ctx, int i) {
  if (i < 0 || i >= TF_NumOutputs(ctx)) return static_cast<TF_DataType>(0);
  return static_cast<TF_DataType>(ctx->context.output_type(i));
}

int64_t TF_StepId(TF_OpKernelContext* ctx) { return ctx == nullptr ? 0 : ctx->context.step_id(); }

void TF_OpKernelConstruction_GetAttrType(TF_OpKernelConstruction* ctx, const char* attr_name,
                                         TF_DataType* val, TF_Status* status) {
  GetAttr<DataType>(ctx, attr_name, val, status);
}

void TF_OpKernelConstruction_GetAttrInt32(TF_OpKernelConstruction* ctx, const char* attr_name, int32_t* val,
                                          TF_Status* status) {
  GetAttr<int32_t>(ctx, attr_name, val, status);
}

TF_Tensor* TF_AllocateOutput(TF_OpKernelContext* context, int index, TF_DataType dtype, int64_t* dims,
                             int num_dims, size_t len) {
  TF_Tensor* result = nullptr;
  TF_Status status;
  Enter(&status, [&]() -> Status {
    if (context == nullptr) return NullArgument("The context");
    if (index < 0 || index >= TF_NumOutputs(context)) return errors::OutOfRange("output index out of range");
    if (TypeOf(dtype) != context->context.output_type(index)) {
      return errors::InvalidArgument("Output ", index, " of type ", context->context.output_type(index),
                                     " cannot be allocated as ", TypeOf(dtype));
    }
    if (num_dims < 0) return errors::InvalidArgument("A shape cannot have ", num_dims, " dimensions");
    MR_RETURN_IF_ERROR(CheckShape(dims, num_dims));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make({dims, static_cast<size_t>(num_dims)}));
    if (TF_DataTypeSize(dtype) == 0) {
      // The kernel writes the bytes of the C API; they are read when it returns.
      result = TF_AllocateTensor(dtype, dims, num_dims, len);
      if (result == nullptr)
        return errors::ResourceExhausted("No memory for ", len, " bytes of output ", index);
      context->encoded.emplace_back(index, *result);
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * output, context->context.AllocateOutput(index, shape));
    if (output->num_bytes() > len) {
      return errors::InvalidArgument("Output ", index, " of shape ", shape, " takes ", output->num_bytes(),
                                     " bytes, not ", len);
    }
    MR_ASSIGN_OR_RETURN(result, FromTensor(*output));
    if (output->dtype() == DataType::kBool) context->bools.push_back(output);
    return Status();
  });
  TF_OpKernelContext_Failure(context, &status);
  return result;
}
