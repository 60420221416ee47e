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

/* The documentation of the op: the first line is the summary. */
TF_CAPI_EXPORT extern void Millrace_OpDefinitionDoc(TF_OpDefinitionBuilder* builder, const char* text);
/* As TF_OpDefinitionBuilderSetShapeInferenceFunction, for functions with user data. `release` (may be null)
 * is called with the data when the function cannot be called any more. */
TF_CAPI_EXPORT extern void Millrace_OpDefinitionShapeFunction(TF_OpDefinitionBuilder* builder,
                                                              void (*function)(void* data,
                                                                               TF_ShapeInferenceContext* ctx,
                                                                               TF_Status* status),
                                                              void* data, void (*release)(void* data));

/* Before the kernel is registered: whether its compute function may block on another node of the step. The
 * default is yes. During such a call, the other nodes of its step run in other threads. With 0 a call costs
 * less, and several long ones share the threads of the session; the function must then return independently
 * of other nodes, or the step may deadlock. */
TF_CAPI_EXPORT extern void Millrace_KernelBuilderMayBlock(TF_KernelBuilder* builder, unsigned char may_block);
/* Before the kernel is registered: it is for nodes whose attribute _kernel has that value; without a label,
 * for nodes without this attribute. */
TF_CAPI_EXPORT extern void Millrace_KernelBuilderLabel(TF_KernelBuilder* builder, const char* label);
/* The node of a kernel: its name, which the caller deletes; its op, valid during the construction; and the
 * types of its inputs or outputs: their number is returned, at most `max` are written. */
TF_CAPI_EXPORT extern TF_Buffer* Millrace_KernelNodeName(TF_OpKernelConstruction* ctx);
TF_CAPI_EXPORT extern const char* Millrace_KernelOpName(TF_OpKernelConstruction* ctx);
TF_CAPI_EXPORT extern int Millrace_KernelTypes(TF_OpKernelConstruction* ctx, int outputs, TF_DataType* types,
                                               int max);
/* Writes a serialised AttrValue into an empty buffer. */
TF_CAPI_EXPORT extern void Millrace_KernelAttr(TF_OpKernelConstruction* ctx, const char* attr_name,
                                               TF_Buffer* value, TF_Status* status);
/* The range [*begin, *end) of the inputs, or outputs, of an argument of the op. InvalidArgument if there is
 * none of that name. */
TF_CAPI_EXPORT extern void Millrace_KernelArgRange(TF_OpKernelContext* ctx, const char* arg, int outputs,
                                                   int* begin, int* end, TF_Status* status);
/* Calls `work` for parts of [0, total) on the threads of the step, and returns when all are done. `cost_ns`
 * is the approximate time of one unit, in nanoseconds. */
TF_CAPI_EXPORT extern void Millrace_KernelParallelFor(TF_OpKernelContext* ctx, int64_t total, int64_t cost_ns,
                                                      void (*work)(void* data, int64_t begin, int64_t end),
                                                      void* data);

/* References: inputs of the type Ref(T), such as variables, that a kernel changes in place. Other inputs have
 * no lock; the functions with a status return InvalidArgument for them. */
TF_CAPI_EXPORT extern unsigned char Millrace_InputIsRef(TF_OpKernelContext* ctx, int i);
/* Locks or unlocks the variable of an input. A kernel that changes a variable must hold the lock. */
TF_CAPI_EXPORT extern void Millrace_LockRef(TF_OpKernelContext* ctx, int i, int lock);
/* The elements of the variable itself: writing to the tensor changes the variable. Tensors that other steps
 * have read before keep their values. FailedPrecondition if it is uninitialised. The caller deletes the
 * tensor. Unimplemented for strings, bools, handles and variants. */
TF_CAPI_EXPORT extern void Millrace_RefInput(TF_OpKernelContext* ctx, int i, TF_Tensor** tensor,
                                             TF_Status* status);
/* Assigns a value, of the variable's type and any shape. */
TF_CAPI_EXPORT extern void Millrace_ReplaceRef(TF_OpKernelContext* ctx, int i, const TF_Tensor* tensor,
                                               TF_Status* status);
/* The output, of a reference type, refers to the variable of the input. */
TF_CAPI_EXPORT extern void Millrace_ForwardRef(TF_OpKernelContext* ctx, int input, int output,
                                               TF_Status* status);

/* Resources of kernels: objects that outlive a step, by container and name, in the device of the kernel;
 * tf.Session.reset and the end of the session release them. `type` identifies the type of the object; a name
 * in a container belongs to one type. An empty container is the default one. */
typedef struct Millrace_Resources Millrace_Resources;
/* Valid as long as the kernel. */
TF_CAPI_EXPORT extern Millrace_Resources* Millrace_ConstructionResources(TF_OpKernelConstruction* ctx);
TF_CAPI_EXPORT extern Millrace_Resources* Millrace_KernelResources(TF_OpKernelContext* ctx);
/* Container and name of the resource of a node with the attributes "container" and "shared_name"; without a
 * shared name it is the node's name if `use_node_name` is not 0, or else a unique name (*is_private is 1
 * then). Into empty buffers. */
TF_CAPI_EXPORT extern void Millrace_KernelResourceName(TF_OpKernelConstruction* ctx, int use_node_name,
                                                       TF_Buffer* container, TF_Buffer* name,
                                                       unsigned char* is_private, TF_Status* status);
/* Takes ownership; `release` (not null) is called when the last reference is released, on errors at once.
 * AlreadyExists if the name is taken. */
TF_CAPI_EXPORT extern void Millrace_CreateResource(Millrace_Resources* resources, const char* container,
                                                   const char* name, const char* type, void* object,
                                                   void (*release)(void* object), TF_Status* status);
/* Calls `take` with the object while holding a reference to it, so that the callee can add one. NotFound if
 * there is none. With `create` (may be null) the first of several callers creates it; that returns the
 * object, or null and an error. */
TF_CAPI_EXPORT extern void Millrace_FindResource(Millrace_Resources* resources, const char* container,
                                                 const char* name, const char* type,
                                                 void* (*create)(void* data, TF_Status* status),
                                                 void (*release)(void* object),
                                                 void (*take)(void* data, void* object), void* data,
                                                 TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_DeleteResource(Millrace_Resources* resources, const char* container,
                                                   const char* name, const char* type, TF_Status* status);
/* Sets an output of the type DT_RESOURCE to a handle; reads the handle in an input: container, name and type
 * into empty buffers. InvalidArgument for inputs that are no scalar handle, and for handles of resources of
 * other devices. */
TF_CAPI_EXPORT extern void Millrace_SetOutputHandle(TF_OpKernelContext* ctx, int i, const char* container,
                                                    const char* name, const char* type, TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_InputHandle(TF_OpKernelContext* ctx, int i, TF_Buffer* container,
                                                TF_Buffer* name, TF_Buffer* type, TF_Status* status);

/* Shape functions. Shapes are arrays of sizes, -1 for unknown ones, and a rank, -1 if it is unknown; the rank
 * is returned, and at most `max` sizes are written. */
TF_CAPI_EXPORT extern int Millrace_ShapeNumOutputs(TF_ShapeInferenceContext* ctx);
TF_CAPI_EXPORT extern int Millrace_ShapeInput(TF_ShapeInferenceContext* ctx, int i, int64_t* dims, int max);
TF_CAPI_EXPORT extern void Millrace_ShapeSetOutput(TF_ShapeInferenceContext* ctx, int i, const int64_t* dims,
                                                   int rank, TF_Status* status);
/* The value of an input if it is known, or null. The caller deletes it. */
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
