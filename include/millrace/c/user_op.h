/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* What libraries of ops need beyond tensorflow/c/ops.h and tensorflow/c/kernels.h: attributes of every kind,
   arguments by name, work on several threads, resources, shapes by their sizes. The headers
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

/* Before the kernel is registered: whether its compute function may wait for something that another node of
 * the step does. Kernels of which nothing is said are taken to. While such a call goes on, the other nodes of
 * its step run in other threads. With 0 a call costs less, and several long ones share the threads of the
 * session; the function must then end whatever other nodes do, or the step may stand still for ever. */
TF_CAPI_EXPORT extern void Millrace_KernelBuilderMayBlock(TF_KernelBuilder* builder, unsigned char may_block);
/* Before the kernel is registered: it is for nodes whose attribute _kernel is that label; without one, for
 * those that have no such attribute. */
TF_CAPI_EXPORT extern void Millrace_KernelBuilderLabel(TF_KernelBuilder* builder, const char* label);
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

/* References: inputs of the type Ref(T), such as variables, that a kernel changes in place. Other inputs have
 * no lock; the functions with a status are InvalidArgument for them. */
TF_CAPI_EXPORT extern unsigned char Millrace_InputIsRef(TF_OpKernelContext* ctx, int i);
/* Takes the lock of what the input refers to, or gives it back. Whoever changes a variable holds it. */
TF_CAPI_EXPORT extern void Millrace_LockRef(TF_OpKernelContext* ctx, int i, int lock);
/* The variable's own elements: what is written to the tensor is the value of the variable. Tensors that other
 * steps have read before keep their values. FailedPrecondition when it has no value yet. The caller deletes
 * the tensor. Unimplemented for strings, bools, handles and variants. */
TF_CAPI_EXPORT extern void Millrace_RefInput(TF_OpKernelContext* ctx, int i, TF_Tensor** tensor,
                                             TF_Status* status);
/* The variable has that value, of its type and any shape, from now on. */
TF_CAPI_EXPORT extern void Millrace_ReplaceRef(TF_OpKernelContext* ctx, int i, const TF_Tensor* tensor,
                                               TF_Status* status);
/* The output, of a reference type, refers to what the input refers to. */
TF_CAPI_EXPORT extern void Millrace_ForwardRef(TF_OpKernelContext* ctx, int input, int output,
                                               TF_Status* status);

/* Resources of a kernel's own: objects that outlive a step, by container and name, in the device of the
 * kernel; tf.Session.reset and the end of the session drop them. `type` tells the types of objects apart; a
 * name in a container belongs to one of them. An empty container is the default one. */
typedef struct Millrace_Resources Millrace_Resources;
/* It lives as long as the kernel. */
TF_CAPI_EXPORT extern Millrace_Resources* Millrace_ConstructionResources(TF_OpKernelConstruction* ctx);
TF_CAPI_EXPORT extern Millrace_Resources* Millrace_KernelResources(TF_OpKernelContext* ctx);
/* Where a node with the attributes "container" and "shared_name" keeps its resource; without a shared name
 * under the node's name where `use_node_name` is not 0, or else under a name that no other kernel has
 * (*is_private is 1 then). Into empty buffers. */
TF_CAPI_EXPORT extern void Millrace_KernelResourceName(TF_OpKernelConstruction* ctx, int use_node_name,
                                                       TF_Buffer* container, TF_Buffer* name,
                                                       unsigned char* is_private, TF_Status* status);
/* Takes the object; `release` (not null) is called when nothing refers to it any more, on errors at once.
 * AlreadyExists when the name is taken. */
TF_CAPI_EXPORT extern void Millrace_CreateResource(Millrace_Resources* resources, const char* container,
                                                   const char* name, const char* type, void* object,
                                                   void (*release)(void* object), TF_Status* status);
/* Calls `take` with the object while it is held, so that it can be given another reference. NotFound when
 * there is none. With `create` (may be null) it is made by the first of several callers; that returns the
 * object, or null and an error. */
TF_CAPI_EXPORT extern void Millrace_FindResource(Millrace_Resources* resources, const char* container,
                                                 const char* name, const char* type,
                                                 void* (*create)(void* data, TF_Status* status),
                                                 void (*release)(void* object),
                                                 void (*take)(void* data, void* object), void* data,
                                                 TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_DeleteResource(Millrace_Resources* resources, const char* container,
                                                   const char* name, const char* type, TF_Status* status);
/* Sets an output of the type DT_RESOURCE to a handle; reads the handle that an input is: container, name and
 * type into empty buffers. InvalidArgument for inputs that are no scalar handle, and for handles of resources
 * of other devices. */
TF_CAPI_EXPORT extern void Millrace_SetOutputHandle(TF_OpKernelContext* ctx, int i, const char* container,
                                                    const char* name, const char* type, TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_InputHandle(TF_OpKernelContext* ctx, int i, TF_Buffer* container,
                                                TF_Buffer* name, TF_Buffer* type, TF_Status* status);

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
/* As Millrace_KernelArgRange, for shape functions. */
TF_CAPI_EXPORT extern void Millrace_ShapeArgRange(TF_ShapeInferenceContext* ctx, const char* arg, int outputs,
                                                  int* begin, int* end, TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_ShapeAttr(TF_ShapeInferenceContext* ctx, const char* attr_name,
                                              TF_Buffer* value, TF_Status* status);

#ifdef __cplusplus
}
#endif

#endif
