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

/* Extends the CRC-32C `crc` of some bytes by `size` further bytes. */
TF_CAPI_EXPORT extern uint32_t Millrace_ExtendCrc32c(uint32_t crc, const char* data, size_t size);

/* The tensor of a serialised TensorProto, which the caller deletes; null, and an error, for invalid
   bytes. */
TF_CAPI_EXPORT extern TF_Tensor* Millrace_ReadTensor(const void* proto, size_t size, TF_Status* status);

/* Reads a checkpoint of either format. Not thread-safe. */
typedef struct Millrace_Checkpoint Millrace_Checkpoint;
/* `name` is a prefix (second format) or a file pattern (first). Null if it cannot be opened. */
TF_CAPI_EXPORT extern Millrace_Checkpoint* Millrace_OpenCheckpoint(const char* name, TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_CloseCheckpoint(Millrace_Checkpoint* checkpoint);
/* The number of variables; all slices of a variable count as one. */
TF_CAPI_EXPORT extern int Millrace_CheckpointCount(const Millrace_Checkpoint* checkpoint);
/* Returns name, type and shape of a variable, counted from 0 in order of the names; they are valid while the
   checkpoint is open. Zero if the number is out of range. */
TF_CAPI_EXPORT extern int Millrace_CheckpointVariable(const Millrace_Checkpoint* checkpoint, int index,
                                                      const char** name, TF_DataType* dtype,
                                                      const int64_t** dims, int* num_dims);
/* The value of a variable, which the caller deletes; null and NotFound if there is none of that name. */
TF_CAPI_EXPORT extern TF_Tensor* Millrace_CheckpointTensor(Millrace_Checkpoint* checkpoint, const char* name,
                                                           TF_Status* status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MILLRACE_C_IO_H_ */
