/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0

   Files of TensorFlow, for clients in other languages: sums of records, and looks into checkpoints. */
#ifndef MILLRACE_C_IO_H_
#define MILLRACE_C_IO_H_

#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The CRC-32C of the bytes that `crc` is the sum of (0: of none) followed by these. */
TF_CAPI_EXPORT extern uint32_t Millrace_ExtendCrc32c(uint32_t crc, const void* data, size_t size);

/* A checkpoint of either format. One thread at a time. */
typedef struct Millrace_CheckpointReader Millrace_CheckpointReader;

/* `name`: prefix of a checkpoint of the second format, or file or pattern of files of the first. Null on error. */
TF_CAPI_EXPORT extern Millrace_CheckpointReader* Millrace_OpenCheckpoint(const char* name, TF_Status* status);
TF_CAPI_EXPORT extern void Millrace_CloseCheckpoint(Millrace_CheckpointReader* reader);

/* How many variables there are; they are counted in the order of their names. */
TF_CAPI_EXPORT extern int Millrace_CheckpointCount(const Millrace_CheckpointReader* reader);
/* The variable with number `i`. Results may be null; name and dims live as long as the reader. Returns 0, and sets
   nothing, when there is none. */
TF_CAPI_EXPORT extern int Millrace_CheckpointVariable(const Millrace_CheckpointReader* reader, int i,
                                                      const char** name, TF_DataType* dtype,
                                                      const int64_t** dims, int* num_dims);
/* The value of a variable, to be deleted with TF_DeleteTensor; NotFound "Key ... not found in checkpoint". */
TF_CAPI_EXPORT extern TF_Tensor* Millrace_CheckpointTensor(Millrace_CheckpointReader* reader, const char* name,
                                                           TF_Status* status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MILLRACE_C_IO_H_ */
