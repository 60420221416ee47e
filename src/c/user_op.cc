// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// What libraries of ops need beyond TensorFlow's C API.
#include "millrace/c/user_op.h"

#include <algorithm>

#include "c/internal.h"
#include "c/op_handles.h"
#include "op/attr_codec.h"
#include "tensorflow/core/framework/attr_value.pb.h"

using millrace::DataType;
using millrace::InferenceContext;
using millrace::PartialShape;
using millrace::ShapeHandle;
using millrace::Status;
namespace errors = millrace::errors;

namespace millrace::c_api {
namespace {

Status WriteAttr(const AttrMap& attrs, const char* name, TF_Buffer* buffer) {
  if (name == nullptr || buffer == nullptr) return NullArgument("The name or the buffer");
  const AttrValue* const value = attrs.Find(name);
  if (value == nullptr) return errors::InvalidArgument("No attr named '", name, "' in the node");
  tensorflow::AttrValue proto;
  AttrValueToProto(*value, &proto);
  return ToBuffer(proto, buffer);
}

int WriteShape(const PartialShape& shape, int64_t* dims, int max) {
  if (shape.unknown_rank()) return -1;
  for (int i = 0; i < std::min(shape.rank(), dims == nullptr ? 0 : max); ++i) dims[i] = shape.dim(i);
  return shape.rank();
}

// The inputs, or outputs, of the argument `arg`: [*begin, *end).
Status FindArgRange(const millrace::OpDef& op, const millrace::AttrMap& attrs, const char* arg, bool outputs,
                    int* begin, int* end) {
  if (arg == nullptr || begin == nullptr || end == nullptr) return NullArgument("An argument");
  std::vector<millrace::ArgRange> ranges;
  MR_RETURN_IF_ERROR(InferArgRanges(outputs ? op.outputs : op.inputs, attrs, &ranges));
  for (const millrace::ArgRange& range : ranges) {
    if (range.name != arg) continue;
    *begin = range.begin;
    *end = range.end;
    return Status();
  }
  return errors::InvalidArgument("Unknown ", outputs ? "output" : "input", " name: ", arg);
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

void Millrace_OpDefinitionDoc(TF_OpDefinitionBuilder* builder, const char* text) {
  if (builder == nullptr) return;
  Enter(nullptr, [&] {
    builder->builder.Doc(OrEmpty(text));
    return Status();
  });
}

void Millrace_OpDefinitionShapeFunction(TF_OpDefinitionBuilder* builder,
                                        void (*function)(void* data, TF_ShapeInferenceContext* ctx,
                                                         TF_Status* status),
                                        void* data, void (*release)(void* data)) {
  if (builder == nullptr || function == nullptr) {
    if (release != nullptr) release(data);
    return;
  }
  Enter(nullptr, [&] {
    const std::shared_ptr<void> owned(data, release == nullptr ? [](void*) {} : release);
    builder->builder.Shape([owned, function](InferenceContext& c) {
      TF_Status status;
      function(owned.get(), reinterpret_cast<TF_ShapeInferenceContext*>(&c), &status);
      return std::move(status.status);
    });
    return Status();
  });
}

TF_Buffer* Millrace_KernelNodeName(TF_OpKernelConstruction* ctx) {
  return EnterOr<TF_Buffer*>(nullptr, [&] { return NewBufferOf(ctx == nullptr ? "" : Of(ctx).name()); });
}

const char* Millrace_KernelOpName(TF_OpKernelConstruction* ctx) {
  return ctx == nullptr ? "" : Of(ctx).props()->op->def.name.c_str();
}

int Millrace_KernelTypes(TF_OpKernelConstruction* ctx, int outputs, TF_DataType* types, int max) {
  if (ctx == nullptr) return 0;
  const millrace::NodeProps& props = *Of(ctx).props();
  const std::vector<DataType>& all = outputs != 0 ? props.output_types : props.input_types;
  const int count = static_cast<int>(all.size());
  for (int i = 0; i < std::min(count, types == nullptr ? 0 : max); ++i)
    types[i] = static_cast<TF_DataType>(all[static_cast<size_t>(i)]);
  return count;
}

void Millrace_KernelAttr(TF_OpKernelConstruction* ctx, const char* attr_name, TF_Buffer* value,
                         TF_Status* status) {
  Enter(status, [&] {
    return ctx == nullptr ? NullArgument("The construction") : WriteAttr(Of(ctx).attrs(), attr_name, value);
  });
}

void Millrace_KernelArgRange(TF_OpKernelContext* ctx, const char* arg, int outputs, int* begin, int* end,
                             TF_Status* status) {
  Enter(status, [&] {
    return ctx == nullptr ? NullArgument("The context")
                          : FindArgRange(ctx->props.op->def, ctx->props.attrs, arg, outputs != 0, begin, end);
  });
}

void Millrace_KernelParallelFor(TF_OpKernelContext* ctx, int64_t total, int64_t cost_ns,
                                void (*work)(void* data, int64_t begin, int64_t end), void* data) {
  if (ctx == nullptr || work == nullptr || total <= 0) return;
  ctx->context.ParallelFor(total, std::max<int64_t>(cost_ns, 0),
                           [&](int64_t begin, int64_t end) { work(data, begin, end); });
}

int Millrace_ShapeNumOutputs(TF_ShapeInferenceContext* ctx) {
  return ctx == nullptr ? 0 : Of(ctx).num_outputs();
}

int Millrace_ShapeInput(TF_ShapeInferenceContext* ctx, int i, int64_t* dims, int max) {
  if (ctx == nullptr || i < 0 || i >= Of(ctx).num_inputs()) return -1;
  return EnterOr(-1, [&] { return WriteShape(Of(ctx).ToPartialShape(Of(ctx).input(i)), dims, max); });
}

void Millrace_ShapeSetOutput(TF_ShapeInferenceContext* ctx, int i, const int64_t* dims, int rank,
                             TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr) return NullArgument("The context");
    if (i < 0 || i >= Of(ctx).num_outputs()) return errors::InvalidArgument("output index out of range");
    MR_ASSIGN_OR_RETURN(const PartialShape shape, MakeShape(dims, rank));
    MR_ASSIGN_OR_RETURN(const ShapeHandle handle, Of(ctx).MakeShapeFromPartial(shape));
    Of(ctx).set_output(i, handle);
    return Status();
  });
}

TF_Tensor* Millrace_ShapeInputTensor(TF_ShapeInferenceContext* ctx, int i) {
  if (ctx == nullptr || i < 0 || i >= Of(ctx).num_inputs()) return nullptr;
  return EnterOr<TF_Tensor*>(nullptr, [&]() -> TF_Tensor* {
    const millrace::Tensor* const value = Of(ctx).input_tensor(i);
    if (value == nullptr) return nullptr;
    const auto tensor = FromTensor(*value);
    return tensor.ok() ? *tensor : nullptr;
  });
}

int Millrace_ShapeFromInput(TF_ShapeInferenceContext* ctx, int i, int64_t* dims, int max, TF_Status* status) {
  int rank = -1;
  Enter(status, [&]() -> Status {
    if (ctx == nullptr) return NullArgument("The context");
    if (i < 0 || i >= Of(ctx).num_inputs()) return errors::InvalidArgument("input index out of range");
    MR_ASSIGN_OR_RETURN(const ShapeHandle shape, Of(ctx).MakeShapeFromInput(i));
    rank = WriteShape(Of(ctx).ToPartialShape(shape), dims, max);
    return Status();
  });
  return rank;
}

void Millrace_ShapeArgRange(TF_ShapeInferenceContext* ctx, const char* arg, int outputs, int* begin, int* end,
                            TF_Status* status) {
  Enter(status, [&] {
    return ctx == nullptr ? NullArgument("The context")
                          : FindArgRange(Of(ctx).op(), Of(ctx).attrs(), arg, outputs != 0, begin, end);
  });
}

void Millrace_ShapeAttr(TF_ShapeInferenceContext* ctx, const char* attr_name, TF_Buffer* value,
                        TF_Status* status) {
  Enter(status, [&] {
    return ctx == nullptr ? NullArgument("The context") : WriteAttr(Of(ctx).attrs(), attr_name, value);
  });
}
