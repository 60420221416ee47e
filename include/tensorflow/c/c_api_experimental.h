/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* The supported part of the experimental C API of TensorFlow 1.15. The other functions are exported and
   return TF_UNIMPLEMENTED with their name. */
#ifndef TENSORFLOW_C_C_API_EXPERIMENTAL_H_
#define TENSORFLOW_C_C_API_EXPERIMENTAL_H_

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/eager/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Accepted, and without effect: there is one compiler, and it decides by itself. The setters of a state
   return the previous one. */
TF_CAPI_EXPORT extern void TF_EnableXLACompilation(TF_SessionOptions* options, unsigned char enable);
TF_CAPI_EXPORT extern unsigned char TF_SetXlaEnableLazyCompilation(unsigned char enable);
TF_CAPI_EXPORT extern void TF_SetXLaAutoJitMode(const char* mode);
TF_CAPI_EXPORT extern void TF_SetXlaMinClusterSize(int size);

/* Serialised ConfigProto and RunOptions. num_cpu_devices 0: not set. */
TF_CAPI_EXPORT extern TF_Buffer* TF_CreateConfig(unsigned char enable_xla_compilation,
                                                 unsigned char gpu_memory_allow_growth,
                                                 unsigned int num_cpu_devices);
TF_CAPI_EXPORT extern TF_Buffer* TF_CreateRunOptions(unsigned char enable_full_trace);

/* The messages as text. The caller frees it with free(). */
TF_CAPI_EXPORT extern const char* TF_GraphDebugString(TF_Graph* graph, size_t* len);
TF_CAPI_EXPORT extern char* TF_FunctionDebugString(TF_Function* func, size_t* len);

/* Sets TF_INTERNAL with that text. */
TF_CAPI_EXPORT extern void TF_MakeInternalErrorStatus(TF_Status* status, const char* errMsg);

/* A checkpoint of either format; variables in order of their names. One thread at a time. Names are valid as
   long as the reader. */
typedef struct TF_CheckpointReader TF_CheckpointReader;
TF_CAPI_EXPORT extern TF_CheckpointReader* TF_NewCheckpointReader(const char* filename, TF_Status* status);
TF_CAPI_EXPORT extern void TF_DeleteCheckpointReader(TF_CheckpointReader* reader);
TF_CAPI_EXPORT extern int TF_CheckpointReaderHasTensor(TF_CheckpointReader* reader, const char* name);
TF_CAPI_EXPORT extern int TF_CheckpointReaderSize(TF_CheckpointReader* reader);
TF_CAPI_EXPORT extern const char* TF_CheckpointReaderGetVariable(TF_CheckpointReader* reader, int index);
TF_CAPI_EXPORT extern TF_DataType TF_CheckpointReaderGetVariableDataType(TF_CheckpointReader* reader,
                                                                         const char* name);
TF_CAPI_EXPORT extern int TF_CheckpointReaderGetVariableNumDims(TF_CheckpointReader* reader,
                                                                const char* name);
TF_CAPI_EXPORT extern void TF_CheckpointReaderGetVariableShape(TF_CheckpointReader* reader, const char* name,
                                                               int64_t* dims, int num_dims,
                                                               TF_Status* status);
TF_CAPI_EXPORT extern TF_Tensor* TF_CheckpointReaderGetTensor(TF_CheckpointReader* reader, const char* name,
                                                              TF_Status* status);

/* Whether an op with these types has a kernel. */
typedef struct TF_AttrBuilder TF_AttrBuilder;
TF_CAPI_EXPORT extern TF_AttrBuilder* TF_NewAttrBuilder(const char* op_name);
TF_CAPI_EXPORT extern void TF_DeleteAttrBuilder(TF_AttrBuilder* builder);
TF_CAPI_EXPORT extern void TF_AttrBuilderSetType(TF_AttrBuilder* builder, const char* attr_name,
                                                 TF_DataType value);
TF_CAPI_EXPORT extern void TF_AttrBuilderSetTypeList(TF_AttrBuilder* builder, const char* attr_name,
                                                     const TF_DataType* values, int num_values);
TF_CAPI_EXPORT extern void TF_AttrBuilderCheckCanRunOnDevice(TF_AttrBuilder* builder, const char* device_type,
                                                             TF_Status* status);

/* The name of the attribute with the number of tensors of a list; null if the input is not a list, with OK,
   and after an error. It is valid as long as the process. */
TF_CAPI_EXPORT extern const char* TF_GetNumberAttrForOpListInput(const char* op_name, int input_index,
                                                                 TF_Status* status);
/* 1 or 0; -1 after an error. */
TF_CAPI_EXPORT extern int TF_OpIsStateful(const char* op_type, TF_Status* status);

/* Does nothing. */
TF_CAPI_EXPORT extern void TF_InitMain(const char* usage, int* argc, char*** argv);
/* An unused TCP port of this machine; 0 if there is none. */
TF_CAPI_EXPORT extern int TF_PickUnusedPortOrDie(void);

/* A scalar of the `len` bytes. */
TF_CAPI_EXPORT extern TFE_TensorHandle* TFE_NewTensorHandleFromScalar(TF_DataType data_type, void* data,
                                                                      size_t len, TF_Status* status);
/* Prints to standard error. */
TF_CAPI_EXPORT extern void TFE_TensorHandlePrintDebugString(TFE_TensorHandle* handle);
/* Converts a ServerDef from text to its serialised form. */
TF_CAPI_EXPORT extern TF_Buffer* TFE_GetServerDef(const char* text_proto, TF_Status* status);

/* TFE_Execute on a separate thread. The op and the arrays must exist until the notification was waited for.
 */
typedef struct TFE_ExecuteOpNotification TFE_ExecuteOpNotification;
TF_CAPI_EXPORT extern TFE_ExecuteOpNotification* TFE_ExecuteOpInNewThread(TFE_Op* op,
                                                                          TFE_TensorHandle** retvals,
                                                                          int* num_retvals,
                                                                          TF_Status* status);
TF_CAPI_EXPORT extern void TFE_ExecuteOpNotificationWaitAndDelete(TFE_ExecuteOpNotification* notification,
                                                                  TF_Status* status);

/* Unimplemented. */
TF_CAPI_EXPORT extern TF_Operation* TF_MakeFakeIteratorGetNextWithDatasets(TF_Graph* graph,
                                                                           TF_Status* status);
TF_CAPI_EXPORT extern TF_Operation* TF_MakeFileBasedIteratorGetNextWithDatasets(
    TF_Graph* graph, const char* file_path, int batch_size, unsigned char is_mnist, TF_Status* status);
TF_CAPI_EXPORT extern TF_Tensor* TF_DequeueNamedTensor(TF_Session* session, int tensor_id, TF_Status* status);
TF_CAPI_EXPORT extern void TF_EnqueueNamedTensor(TF_Session* session, int tensor_id, TF_Tensor* tensor,
                                                 TF_Status* status);
TF_CAPI_EXPORT extern TFE_Context* TFE_CreateContextFromSession(TF_Session* session, TF_Status* status);
TF_CAPI_EXPORT extern TFE_TensorHandle* TFE_DequeueNamedTensor(TF_Session* session, int tensor_id,
                                                               TF_DataType inputType, TF_Status* status);
TF_CAPI_EXPORT extern TFE_TensorHandle* TFE_DequeueNamedTensorFromCtx(TFE_Context* ctx, int tensor_id,
                                                                      TF_DataType inputType,
                                                                      TF_Status* status);
TF_CAPI_EXPORT extern void TFE_EnqueueNamedTensor(TF_Session* session, int tensor_id,
                                                  TFE_TensorHandle* tensor, TF_Status* status);
TF_CAPI_EXPORT extern void TFE_EnqueueNamedTensorFromCtx(TFE_Context* ctx, int tensor_id,
                                                         TFE_TensorHandle* tensor, TF_Status* status);
TF_CAPI_EXPORT extern void TFE_EnqueueVariantTensor(TF_Session* session, int tensor_id,
                                                    TFE_TensorHandle* tensor, TF_Status* status);
TF_CAPI_EXPORT extern TFE_TensorHandle* TFE_DequeueVariantTensor(TF_Session* session, int tensor_id,
                                                                 TF_Status* status);
TF_CAPI_EXPORT extern void TFE_EnableCollectiveOps(TFE_Context* ctx, const void* proto, size_t proto_len,
                                                   TF_Status* status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TENSORFLOW_C_C_API_EXPERIMENTAL_H_ */
