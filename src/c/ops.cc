// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Ops declared from C, and their shape functions.
#include "tensorflow/c/ops.h"

#include <algorithm>
#include <limits>

#include "c/internal.h"
#include "c/op_handles.h"
#include "op/op_builder.h"
#include "op/op_registry.h"
#include "op/shape_inference.h"

struct TF_ShapeHandle {
  millrace::ShapeHandle shape;
};

struct TF_DimensionHandle {
  int64_t value = millrace::InferenceContext::kUnknownDim;
};

using millrace::InferenceContext;
using millrace::ShapeHandle;
using millrace::Status;
using millrace::StatusOr;
namespace errors = millrace::errors;

namespace millrace::c_api {
namespace {

bool IsSet(const TF_ShapeHandle* handle) { return handle != nullptr && handle->shape.IsSet(); }

int ClampRank(int64_t rank) {
  return static_cast<int>(std::clamp<int64_t>(rank, -1, std::numeric_limits<int>::max()));
}

// A function of the context from one shape to another.
template <typename F>
void Narrow(TF_ShapeInferenceContext* ctx, TF_ShapeHandle* handle, TF_ShapeHandle* result, TF_Status* status,
            F&& fn) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr || result == nullptr) return NullArgument("The context or the result");
    if (!IsSet(handle)) return errors::InvalidArgument("The shape handle is not set");
    MR_ASSIGN_OR_RETURN(result->shape, fn(Of(ctx), handle->shape));
    return Status();
  });
}

template <typename F>
void Build(TF_OpDefinitionBuilder* builder, F&& fn) {
  if (builder == nullptr) return;
  Enter(nullptr, [&] {
    fn(builder->builder);
    return Status();
  });
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::OpBuilder;

TF_OpDefinitionBuilder* TF_NewOpDefinitionBuilder(const char* op_name) {
  return EnterOr<TF_OpDefinitionBuilder*>(
      nullptr, [&] { return new TF_OpDefinitionBuilder{OpBuilder(OrEmpty(op_name))}; });
}

void TF_DeleteOpDefinitionBuilder(TF_OpDefinitionBuilder* builder) { delete builder; }

void TF_RegisterOpDefinition(TF_OpDefinitionBuilder* builder, TF_Status* status) {
  const std::unique_ptr<TF_OpDefinitionBuilder> owned(builder);
  Enter(status, [&] {
    return builder == nullptr ? NullArgument("The builder")
                              : millrace::OpRegistry::Global().Register(builder->builder);
  });
}

void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder* builder, const char* attr_spec) {
  Build(builder, [&](OpBuilder& b) { b.Attr(OrEmpty(attr_spec)); });
}

void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder* builder, const char* input_spec) {
  Build(builder, [&](OpBuilder& b) { b.Input(OrEmpty(input_spec)); });
}

void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder* builder, const char* output_spec) {
  Build(builder, [&](OpBuilder& b) { b.Output(OrEmpty(output_spec)); });
}

void TF_OpDefinitionBuilderSetIsCommutative(TF_OpDefinitionBuilder* builder, bool is_commutative) {
  if (is_commutative) Build(builder, [](OpBuilder& b) { b.Commutative(); });
}

void TF_OpDefinitionBuilderSetIsAggregate(TF_OpDefinitionBuilder* builder, bool is_aggregate) {
  if (is_aggregate) Build(builder, [](OpBuilder& b) { b.Aggregate(); });
}

void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder* builder, bool is_stateful) {
  if (is_stateful) Build(builder, [](OpBuilder& b) { b.Stateful(); });
}

void TF_OpDefinitionBuilderSetAllowsUninitializedInput(TF_OpDefinitionBuilder* builder,
                                                       bool allows_uninitialized_input) {
  if (allows_uninitialized_input) Build(builder, [](OpBuilder& b) { b.AllowsUninitializedInput(); });
}

void TF_OpDefinitionBuilderDeprecated(TF_OpDefinitionBuilder* builder, int version, const char* explanation) {
  Build(builder, [&](OpBuilder& b) { b.Deprecated(version, OrEmpty(explanation)); });
}

void TF_OpDefinitionBuilderSetShapeInferenceFunction(
    TF_OpDefinitionBuilder* builder,
    void (*shape_inference_func)(TF_ShapeInferenceContext* ctx, TF_Status* status)) {
  if (shape_inference_func == nullptr) return;
  Build(builder, [&](OpBuilder& b) {
    b.Shape([shape_inference_func](InferenceContext& c) {
      TF_Status status;
      shape_inference_func(reinterpret_cast<TF_ShapeInferenceContext*>(&c), &status);
      return std::move(status.status);
    });
  });
}

int64_t TF_ShapeInferenceContextNumInputs(TF_ShapeInferenceContext* ctx) {
  return ctx == nullptr ? 0 : Of(ctx).num_inputs();
}

TF_ShapeHandle* TF_NewShapeHandle(void) { return new (std::nothrow) TF_ShapeHandle; }

TF_DimensionHandle* TF_NewDimensionHandle(void) { return new (std::nothrow) TF_DimensionHandle; }

void TF_DeleteShapeHandle(TF_ShapeHandle* handle) { delete handle; }

void TF_DeleteDimensionHandle(TF_DimensionHandle* handle) { delete handle; }

void TF_ShapeInferenceContextGetInput(TF_ShapeInferenceContext* ctx, int i, TF_ShapeHandle* handle,
                                      TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr || handle == nullptr) return NullArgument("The context or the handle");
    if (i < 0 || i >= Of(ctx).num_inputs()) return errors::InvalidArgument("input index out of range");
    handle->shape = Of(ctx).input(i);
    return Status();
  });
}

void TF_ShapeInferenceContextSetOutput(TF_ShapeInferenceContext* ctx, int i, TF_ShapeHandle* handle,
                                       TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr) return NullArgument("The context");
    if (i < 0 || i >= Of(ctx).num_outputs()) return errors::InvalidArgument("output index out of range");
    if (!IsSet(handle)) return errors::InvalidArgument("The shape handle is not set");
    Of(ctx).set_output(i, handle->shape);
    return Status();
  });
}

TF_ShapeHandle* TF_ShapeInferenceContextVectorFromSize(TF_ShapeInferenceContext* ctx, size_t size) {
  if (ctx == nullptr || size > static_cast<size_t>(std::numeric_limits<int64_t>::max())) return nullptr;
  return EnterOr<TF_ShapeHandle*>(
      nullptr, [&] { return new TF_ShapeHandle{Of(ctx).Vector(static_cast<int64_t>(size))}; });
}

void TF_ShapeInferenceContext_GetAttrType(TF_ShapeInferenceContext* ctx, const char* attr_name,
                                          TF_DataType* val, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr || attr_name == nullptr || val == nullptr) return NullArgument("An argument");
    MR_ASSIGN_OR_RETURN(const millrace::DataType type, Of(ctx).Attr<millrace::DataType>(attr_name));
    *val = static_cast<TF_DataType>(type);
    return Status();
  });
}

int64_t TF_ShapeInferenceContextRank(TF_ShapeInferenceContext* ctx, TF_ShapeHandle* handle) {
  return ctx == nullptr || !IsSet(handle) ? -1 : Of(ctx).Rank(handle->shape);
}

int TF_ShapeInferenceContextRankKnown(TF_ShapeInferenceContext* ctx, TF_ShapeHandle* handle) {
  return ctx != nullptr && IsSet(handle) && Of(ctx).RankKnown(handle->shape) ? 1 : 0;
}

void TF_ShapeInferenceContextWithRank(TF_ShapeInferenceContext* ctx, TF_ShapeHandle* handle, int64_t rank,
                                      TF_ShapeHandle* result, TF_Status* status) {
  Narrow(ctx, handle, result, status,
         [&](InferenceContext& c, ShapeHandle shape) { return c.WithRank(shape, ClampRank(rank)); });
}

void TF_ShapeInferenceContextWithRankAtLeast(TF_ShapeInferenceContext* ctx, TF_ShapeHandle* handle,
                                             int64_t rank, TF_ShapeHandle* result, TF_Status* status) {
  Narrow(ctx, handle, result, status,
         [&](InferenceContext& c, ShapeHandle shape) { return c.WithRankAtLeast(shape, ClampRank(rank)); });
}

void TF_ShapeInferenceContextWithRankAtMost(TF_ShapeInferenceContext* ctx, TF_ShapeHandle* handle,
                                            int64_t rank, TF_ShapeHandle* result, TF_Status* status) {
  Narrow(ctx, handle, result, status,
         [&](InferenceContext& c, ShapeHandle shape) { return c.WithRankAtMost(shape, ClampRank(rank)); });
}

void TF_ShapeInferenceContextDim(TF_ShapeInferenceContext* ctx, TF_ShapeHandle* shape_handle, int64_t i,
                                 TF_DimensionHandle* result) {
  if (ctx == nullptr || result == nullptr) return;
  InferenceContext& c = Of(ctx);
  result->value = InferenceContext::kUnknownDim;
  if (!IsSet(shape_handle) || !c.RankKnown(shape_handle->shape)) return;
  const int rank = c.Rank(shape_handle->shape);
  if (i >= -rank && i < rank) result->value = c.Value(c.Dim(shape_handle->shape, i));
}

void TF_ShapeInferenceContextSubshape(TF_ShapeInferenceContext* ctx, TF_ShapeHandle* shape_handle,
                                      int64_t start, int64_t end, TF_ShapeHandle* result, TF_Status* status) {
  Narrow(ctx, shape_handle, result, status,
         [&](InferenceContext& c, ShapeHandle shape) { return c.Subshape(shape, start, end); });
}

void TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext* ctx, TF_Status* status) {
  Enter(status,
        [&] { return ctx == nullptr ? NullArgument("The context") : millrace::shape_fns::Unknown(Of(ctx)); });
}

int TF_DimensionHandleValueKnown(TF_DimensionHandle* dim_handle) {
  return dim_handle != nullptr && dim_handle->value != InferenceContext::kUnknownDim ? 1 : 0;
}

int64_t TF_DimensionHandleValue(TF_DimensionHandle* dim_handle) {
  return dim_handle == nullptr ? InferenceContext::kUnknownDim : dim_handle->value;
}

void TF_ShapeInferenceContextConcatenateShapes(TF_ShapeInferenceContext* ctx, TF_ShapeHandle* first,
                                               TF_ShapeHandle* second, TF_ShapeHandle* result,
                                               TF_Status* status) {
  Narrow(ctx, first, result, status, [&](InferenceContext& c, ShapeHandle shape) -> StatusOr<ShapeHandle> {
    if (!IsSet(second)) return errors::InvalidArgument("The shape handle is not set");
    return c.Concatenate(shape, second->shape);
  });
}
