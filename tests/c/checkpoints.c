/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Checkpoints and checksums of records: include/millrace/c/io.h. */
#define _POSIX_C_SOURCE 200809L
#include "millrace/c/io.h"

#include <stdlib.h>
#include <unistd.h>

#include "check.h"

/* A vector of `count` strings. */
static TF_Tensor* strings(const char* const* values, int count) {
  const int64_t dims[1] = {count};
  size_t size = 8 * (size_t)count;
  for (int i = 0; i < count; ++i) size += TF_StringEncodedSize(strlen(values[i]));
  TF_Tensor* tensor = TF_AllocateTensor(TF_STRING, dims, count == 0 ? 0 : 1, size);
  char* data = TF_TensorData(tensor);
  uint64_t offset = 0;
  TF_Status* status = TF_NewStatus();
  for (int i = 0; i < count; ++i) {
    memcpy(data + 8 * i, &offset, 8);
    offset += TF_StringEncode(values[i], strlen(values[i]), data + 8 * count + offset,
                              size - 8 * (size_t)count - (size_t)offset, status);
    CHECK_OK(status);
  }
  TF_DeleteStatus(status);
  return tensor;
}

/* Saves `weights` = [1.5, -2] and `step` = 7 below `prefix`. */
static void save(const char* prefix, TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  const char* names[2] = {"weights", "step"};
  const char* slices[2] = {"", ""};
  const float weights[2] = {1.5f, -2};
  const TF_Output values[2] = {out(constant_of(graph, "w", float_vector(weights, 2), status), 0),
                               out(int32_constant(graph, "s", 7, status), 0)};
  TF_Output head[3] = {out(placeholder(graph, "prefix", TF_STRING, status), 0),
                       out(constant_of(graph, "names", strings(names, 2), status), 0),
                       out(constant_of(graph, "slices", strings(slices, 2), status), 0)};
  TF_OperationDescription* desc = TF_NewOperation(graph, "SaveV2", "save");
  for (int i = 0; i < 3; ++i) TF_AddInput(desc, head[i]);
  TF_AddInputList(desc, values, 2);
  TF_Operation* op = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session = TF_NewSession(graph, options, status);
  TF_DeleteSessionOptions(options);
  /* A scalar string: the offset 0 and the text. */
  const size_t size = 8 + TF_StringEncodedSize(strlen(prefix));
  TF_Tensor* where = TF_AllocateTensor(TF_STRING, NULL, 0, size);
  memset(TF_TensorData(where), 0, 8);
  TF_StringEncode(prefix, strlen(prefix), (char*)TF_TensorData(where) + 8, size - 8, status);
  const TF_Operation* targets[1] = {op};
  TF_SessionRun(session, NULL, &head[0], &where, 1, NULL, NULL, 0, targets, 1, NULL, status);
  CHECK_OK(status);
  TF_DeleteTensor(where);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
}

static void check_variables(Millrace_Checkpoint* checkpoint, TF_Status* status) {
  CHECK_INT(Millrace_CheckpointCount(checkpoint), 2);
  const char* name = NULL;
  TF_DataType dtype = TF_STRING;
  const int64_t* dims = NULL;
  int rank = -1;
  CHECK(Millrace_CheckpointVariable(checkpoint, 0, &name, &dtype, &dims, &rank));
  CHECK_STR(name, "step");
  CHECK_INT(dtype, TF_INT32);
  CHECK_INT(rank, 0);
  CHECK(Millrace_CheckpointVariable(checkpoint, 1, &name, &dtype, &dims, &rank));
  CHECK_STR(name, "weights");
  CHECK_INT(dtype, TF_FLOAT);
  CHECK_INT(rank, 1);
  CHECK_INT(dims[0], 2);
  CHECK(Millrace_CheckpointVariable(checkpoint, 1, NULL, NULL, NULL, NULL));
  CHECK(!Millrace_CheckpointVariable(checkpoint, 2, &name, &dtype, &dims, &rank));
  CHECK(!Millrace_CheckpointVariable(checkpoint, -1, &name, &dtype, &dims, &rank));

  TF_Tensor* weights = Millrace_CheckpointTensor(checkpoint, "weights", status);
  CHECK_OK(status);
  CHECK(((const float*)TF_TensorData(weights))[0] == 1.5f);
  CHECK(((const float*)TF_TensorData(weights))[1] == -2);
  TF_DeleteTensor(weights);
  CHECK_INT(take_int32(Millrace_CheckpointTensor(checkpoint, "step", status)), 7);
  CHECK(Millrace_CheckpointTensor(checkpoint, "bias", status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "bias");
  CHECK(Millrace_CheckpointTensor(checkpoint, NULL, status) == NULL);
  CHECK(TF_GetCode(status) != TF_OK);
}

/* Messages are written by hand: fields 1 (dtype), 2 (tensor_shape) and 7 (int_val). */
static void check_messages(TF_Status* status) {
  static const unsigned char kVector[] = {0x08, 0x03, 0x12, 0x04, 0x12, 0x02, 0x08, 0x02, 0x3a, 0x02, 0x05, 0x06};
  TF_Tensor* tensor = Millrace_ReadTensor(kVector, sizeof(kVector), status);
  CHECK_OK(status);
  CHECK_INT(TF_TensorType(tensor), TF_INT32);
  CHECK_INT(TF_NumDims(tensor), 1);
  CHECK_INT(TF_Dim(tensor, 0), 2);
  CHECK_INT(((const int32_t*)TF_TensorData(tensor))[0], 5);
  CHECK_INT(((const int32_t*)TF_TensorData(tensor))[1], 6);
  TF_DeleteTensor(tensor);
  CHECK(Millrace_ReadTensor(kVector, sizeof(kVector) - 1, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Not a TensorProto");
  CHECK(Millrace_ReadTensor(NULL, 1, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The message");
  CHECK(Millrace_ReadTensor(NULL, 0, status) == NULL); /* a message without fields has no type */
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
}

void test_checkpoints(void) {
  /* The check value of CRC-32C in RFC 3720's terms. */
  CHECK(Millrace_ExtendCrc32c(0, "123456789", 9) == 0xe3069283u);
  CHECK(Millrace_ExtendCrc32c(Millrace_ExtendCrc32c(0, "1234", 4), "56789", 5) == 0xe3069283u);
  CHECK(Millrace_ExtendCrc32c(5, NULL, 3) == 5);

  TF_Status* status = TF_NewStatus();
  check_messages(status);
  char folder[] = "/tmp/millrace_checkpoint_XXXXXX";
  CHECK(mkdtemp(folder) != NULL);
  char prefix[64], file[96];
  snprintf(prefix, sizeof(prefix), "%s/model", folder);
  save(prefix, status);
  Millrace_Checkpoint* checkpoint = Millrace_OpenCheckpoint(prefix, status);
  CHECK_OK(status);
  if (checkpoint != NULL) check_variables(checkpoint, status);
  Millrace_CloseCheckpoint(checkpoint);
  static const char* const kEndings[] = {".index", ".data-00000-of-00001"};
  for (size_t i = 0; i < 2; ++i) {
    snprintf(file, sizeof(file), "%s%s", prefix, kEndings[i]);
    CHECK_INT(unlink(file), 0);
  }
  CHECK_INT(rmdir(folder), 0);

  CHECK(Millrace_OpenCheckpoint(prefix, status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "model");
  CHECK(Millrace_OpenCheckpoint(NULL, status) == NULL);
  CHECK(TF_GetCode(status) != TF_OK);
  CHECK_INT(Millrace_CheckpointCount(NULL), 0);
  Millrace_CloseCheckpoint(NULL);
  TF_DeleteStatus(status);
}
