/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Files and messages of the engine for clients in other languages: checkpoints, tensors, and the checksums of
   records. */
#ifndef MILLRACE_C_IO_H_
#define MILLRACE_C_IO_H_

#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The CRC-32C of what `crc` stands for followed by `size` bytes. */
TF_CAPI_EXPORT extern uint32_t Millrace_ExtendCrc32c(uint32_t crc, const char* data, size_t size);

/* The tensor that a serialised TensorProto holds, which the caller deletes; null, and an error, for what is
   none. */
TF_CAPI_EXPORT extern TF_Tensor* Millrace_ReadTensor(const void* proto, size_t size, TF_Status* status);

/* Looks into a checkpoint of either format. One thread at a time. */
typedef struct Millrace_Checkpoint Millrace_Checkpoint;
/* `name` is a prefix (second format) or a pattern of files (first). Null when it cannot be opened. */
TF_CAPI_EXPORT extern Millrace_Checkpoint* Millrace_OpenCheckpoint(const char* name, TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_CloseCheckpoint(Millrace_Checkpoint* checkpoint);
/* How many variables it has; slices of one are one. */
TF_CAPI_EXPORT extern int Millrace_CheckpointCount(const Millrace_Checkpoint* checkpoint);
/* Tells name, type and shape of a variable, counted from 0 in order of the names; what is told lives as long
   as the checkpoint is open. Zero when there is none of that number. */
TF_CAPI_EXPORT extern int Millrace_CheckpointVariable(const Millrace_Checkpoint* checkpoint, int index,
                                                      const char** name, TF_DataType* dtype,
                                                      const int64_t** dims, int* num_dims);
/* The value of a variable, which the caller deletes; null and NotFound when there is none of that name. */
TF_CAPI_EXPORT extern TF_Tensor* Millrace_CheckpointTensor(Millrace_Checkpoint* checkpoint, const char* name,
                                                           TF_Status* status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MILLRACE_C_IO_H_ */
