/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Functions for clients in other languages beyond TensorFlow's C API: changes of existing operations, the
   variables of handles, graphs as HTML pages, cancellation of steps, and kernels that call back into the
   client. Statuses may be null. */
#ifndef MILLRACE_C_CLIENT_H_
#define MILLRACE_C_CLIENT_H_

#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes an operation of `graph`. Sessions that already have the operation keep the old form. */
TF_CAPI_EXPORT extern void Millrace_AddControlInput(TF_Graph* graph, TF_Operation* op, TF_Operation* input,
                                                    TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_RemoveAllControlInputs(TF_Graph* graph, TF_Operation* op,
                                                           TF_Status* status);
/* The value is a serialised AttrValue. The types of inputs and outputs must not change. */
TF_CAPI_EXPORT extern void Millrace_SetAttr(TF_Graph* graph, TF_Operation* op, const char* attr_name,
                                            const void* proto, size_t proto_len, TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_ClearAttr(TF_Graph* graph, TF_Operation* op, const char* attr_name,
                                              TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_SetRequestedDevice(TF_Graph* graph, TF_Operation* op, const char* device,
                                                       TF_Status* status);
/* Connects an input to another tensor of the same type. InvalidArgument if that would create a cycle outside
 * a loop. */
TF_CAPI_EXPORT extern void Millrace_UpdateInput(TF_Graph* graph, TF_Output new_src, TF_Input dst,
                                                TF_Status* status);

/* A number that identifies the operation in its graph: small, at least 2, and larger for later operations. */
TF_CAPI_EXPORT extern int Millrace_OperationId(const TF_Operation* op);
/* The number of ids of the graph: the largest id plus one. */
TF_CAPI_EXPORT extern int Millrace_GraphNumIds(TF_Graph* graph);
/* The operation with an id; null if there is none. */
TF_CAPI_EXPORT extern TF_Operation* Millrace_OperationOfId(TF_Graph* graph, int id);

/* Dtype and shape of the variable behind a tensor of resource handles. False if unknown. num_dims -1: the
   rank is unknown; `dims` has room for max_dims sizes, and -1 means an unknown size. */
TF_CAPI_EXPORT extern unsigned char Millrace_GetHandleShapeAndType(TF_Graph* graph, TF_Output output,
                                                                   TF_DataType* dtype, int64_t* dims,
                                                                   int max_dims, int* num_dims);
TF_CAPI_EXPORT extern void Millrace_SetHandleShapeAndType(TF_Graph* graph, TF_Output output,
                                                          TF_DataType dtype, const int64_t* dims,
                                                          int num_dims, TF_Status* status);

/* The versions in the GraphDef of this graph. */
TF_CAPI_EXPORT extern void Millrace_SetMinConsumer(TF_Graph* graph, int min_consumer);

/* An HTML page (UTF-8, self-contained) that shows a serialised GraphDef: scopes that can be opened, search,
   and each node's properties. The caller deletes it. Null with InvalidArgument for invalid bytes. */
TF_CAPI_EXPORT extern TF_Buffer* Millrace_GraphPage(const void* graph_def, size_t length, const char* title,
                                                    TF_Status* status);

/* What an op of the engine does with tensors that are stacked along a new first dimension. 1: it is
   element-wise in its only input; 2: in two inputs, which it broadcasts once their ranks are equal; 3: in
   inputs of one shape; 0: something else, or there is no such op. */
TF_CAPI_EXPORT extern int Millrace_ElementwiseKind(const char* op_type);

/* Adds the new nodes of the graph to the session, as every Run does. */
TF_CAPI_EXPORT extern void Millrace_ExtendSession(TF_Session* session, TF_Status* status);
/* Operations with smaller ids are in the session: changes of these have no effect on it. */
TF_CAPI_EXPORT extern int Millrace_SessionNumIds(const TF_Session* session);
/* Cancels the steps in progress, which end with Cancelled; later ones run. Does not wait. */
TF_CAPI_EXPORT extern void Millrace_CancelSteps(TF_Session* session);

/* The implementation of the ops PyFunc, PyFuncStateless and EagerPyFunc: called from any thread,
   concurrently. The inputs belong to the caller; each output is a new tensor, owned by the caller, of the
   type given by the node, or null with the error in the status. Set once in a process. */
typedef void (*Millrace_PyFuncCallback)(const char* token, size_t token_len, TF_Tensor* const* inputs,
                                        int num_inputs, TF_Tensor** outputs, int num_outputs,
                                        TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_SetPyFuncCallback(Millrace_PyFuncCallback callback);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MILLRACE_C_CLIENT_H_ */
