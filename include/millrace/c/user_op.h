/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* What libraries of ops need beyond tensorflow/c/ops.h and tensorflow/c/kernels.h: attributes of every kind,
   arguments by name, work on several threads, shapes by their sizes. The headers
   tensorflow/core/framework/op.h, op_kernel.h and shape_inference.h stand on these. Statuses may be null. */
#ifndef MILLRACE_C_USER_OP_H_
#define MILLRACE_C_USER_OP_H_

#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of the op: the first line is the summary. */
TF_CAPI_EXPORT extern void Millrace_OpDefinitionDoc(TF_OpDefinitionBuilder* builder, const char* text);
/* As TF_OpDefinitionBuilderSetShapeInferenceFunction, for functions with data of their own. `release` (may be
 * null) is called with the data when nothing can call the function any more. */
TF_CAPI_EXPORT extern void Millrace_OpDefinitionShapeFunction(TF_OpDefinitionBuilder* builder,
                                                              void (*function)(void* data,
                                                                               TF_ShapeInferenceContext* ctx,
                                                                               TF_Status* status),
                                                              void* data, void (*release)(void* data));

/* A kernel's node: its name, which the caller deletes; its op, which lives as long as the construction; and
 * the types of its inputs or outputs: how many there are, of which at most `max` are written. */
TF_CAPI_EXPORT extern TF_Buffer* Millrace_KernelNodeName(TF_OpKernelConstruction* ctx);
TF_CAPI_EXPORT extern const char* Millrace_KernelOpName(TF_OpKernelConstruction* ctx);
TF_CAPI_EXPORT extern int Millrace_KernelTypes(TF_OpKernelConstruction* ctx, int outputs, TF_DataType* types,
                                               int max);
/* A serialised AttrValue into an empty buffer. */
TF_CAPI_EXPORT extern void Millrace_KernelAttr(TF_OpKernelConstruction* ctx, const char* attr_name,
                                               TF_Buffer* value, TF_Status* status);
/* The inputs, or outputs, that an argument of the op has: [*begin, *end). InvalidArgument when there is none
 * of that name. */
TF_CAPI_EXPORT extern void Millrace_KernelArgRange(TF_OpKernelContext* ctx, const char* arg, int outputs,
                                                   int* begin, int* end, TF_Status* status);
/* Calls `work` for parts of [0, total) on the threads of the step, and returns when all are done. `cost_ns`
 * is about what one unit takes. */
TF_CAPI_EXPORT extern void Millrace_KernelParallelFor(TF_OpKernelContext* ctx, int64_t total, int64_t cost_ns,
                                                      void (*work)(void* data, int64_t begin, int64_t end),
                                                      void* data);

/* Shape functions. Shapes are arrays of sizes, -1 for unknown ones, and a rank, -1 when it is unknown; the
 * rank is returned, and at most `max` sizes are written. */
TF_CAPI_EXPORT extern int Millrace_ShapeNumOutputs(TF_ShapeInferenceContext* ctx);
TF_CAPI_EXPORT extern int Millrace_ShapeInput(TF_ShapeInferenceContext* ctx, int i, int64_t* dims, int max);
TF_CAPI_EXPORT extern void Millrace_ShapeSetOutput(TF_ShapeInferenceContext* ctx, int i, const int64_t* dims,
                                                   int rank, TF_Status* status);
/* The value of an input when it is known, or null. The caller deletes it. */
TF_CAPI_EXPORT extern TF_Tensor* Millrace_ShapeInputTensor(TF_ShapeInferenceContext* ctx, int i);
/* The shape that the value of an input describes, as far as it is known. */
TF_CAPI_EXPORT extern int Millrace_ShapeFromInput(TF_ShapeInferenceContext* ctx, int i, int64_t* dims,
                                                  int max, TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_ShapeAttr(TF_ShapeInferenceContext* ctx, const char* attr_name,
                                              TF_Buffer* value, TF_Status* status);

#ifdef __cplusplus
}
#endif

#endif
