/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* What clients in other languages need beyond TensorFlow's C API: changes of finished operations, the
   variables behind handles, graphs as pages, steps that are cancelled, and kernels that call back into the
   client. Statuses may be null. */
#ifndef MILLRACE_C_CLIENT_H_
#define MILLRACE_C_CLIENT_H_

#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes of an operation of `graph`. Sessions that have the operation already keep it as it was. */
TF_CAPI_EXPORT extern void Millrace_AddControlInput(TF_Graph* graph, TF_Operation* op, TF_Operation* input,
                                                    TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_RemoveAllControlInputs(TF_Graph* graph, TF_Operation* op,
                                                           TF_Status* status);
/* The value is a serialised AttrValue. Types of inputs and outputs stay. */
TF_CAPI_EXPORT extern void Millrace_SetAttr(TF_Graph* graph, TF_Operation* op, const char* attr_name,
                                            const void* proto, size_t proto_len, TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_ClearAttr(TF_Graph* graph, TF_Operation* op, const char* attr_name,
                                              TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_SetRequestedDevice(TF_Graph* graph, TF_Operation* op, const char* device,
                                                       TF_Status* status);
/* Points an input at another tensor of the same type. InvalidArgument when that would close a cycle outside a
 * loop. */
TF_CAPI_EXPORT extern void Millrace_UpdateInput(TF_Graph* graph, TF_Output new_src, TF_Input dst,
                                                TF_Status* status);

/* A number that identifies the operation in its graph: small, at least 2, and larger for later operations. */
TF_CAPI_EXPORT extern int Millrace_OperationId(const TF_Operation* op);
/* How many numbers there are, the largest is one less. */
TF_CAPI_EXPORT extern int Millrace_GraphNumIds(TF_Graph* graph);
/* The operation with a number; null when there is none. */
TF_CAPI_EXPORT extern TF_Operation* Millrace_OperationOfId(TF_Graph* graph, int id);

/* What lies behind a tensor of resource handles, as far as it is known. False: nothing is. num_dims -1: the
   rank is unknown; `dims` has room for max_dims sizes, and -1 stands for an unknown one. */
TF_CAPI_EXPORT extern unsigned char Millrace_GetHandleShapeAndType(TF_Graph* graph, TF_Output output,
                                                                   TF_DataType* dtype, int64_t* dims,
                                                                   int max_dims, int* num_dims);
TF_CAPI_EXPORT extern void Millrace_SetHandleShapeAndType(TF_Graph* graph, TF_Output output,
                                                          TF_DataType dtype, const int64_t* dims,
                                                          int num_dims, TF_Status* status);

/* The versions that a GraphDef of this graph tells. */
TF_CAPI_EXPORT extern void Millrace_SetMinConsumer(TF_Graph* graph, int min_consumer);

/* The page of a serialised GraphDef, HTML in UTF-8 that needs no other file: scopes that open, search, and
   what each node is. The caller deletes it. Null with InvalidArgument when the bytes are no GraphDef. */
TF_CAPI_EXPORT extern TF_Buffer* Millrace_GraphPage(const void* graph_def, size_t length, const char* title,
                                                    TF_Status* status);

/* Gives the session what was added to its graph since the last time, as every Run does. */
TF_CAPI_EXPORT extern void Millrace_ExtendSession(TF_Session* session, TF_Status* status);
/* The session has the operations whose ids are smaller: changes of these have no effect on it. */
TF_CAPI_EXPORT extern int Millrace_SessionNumIds(const TF_Session* session);
/* Steps in progress end with Cancelled; later ones run. Does not wait. */
TF_CAPI_EXPORT extern void Millrace_CancelSteps(TF_Session* session);

/* What the ops PyFunc, PyFuncStateless and EagerPyFunc do: called from any thread, several at the same time.
   The inputs belong to the caller; each output is a new tensor that the callee gives away, of the type that
   the node says, or null, in which case the status tells why. Set once in a process. */
typedef void (*Millrace_PyFuncCallback)(const char* token, size_t token_len, TF_Tensor* const* inputs,
                                        int num_inputs, TF_Tensor** outputs, int num_outputs,
                                        TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_SetPyFuncCallback(Millrace_PyFuncCallback callback);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MILLRACE_C_CLIENT_H_ */
