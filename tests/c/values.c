/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

static int g_freed = 0;
static void count_free(void* data, size_t length) {
  g_freed += (int)length;
  free(data);
}

void test_values(void) {
  CHECK_STR(TF_Version(), "1.15.5");

  TF_Status* status = TF_NewStatus();
  CHECK_INT(TF_GetCode(status), TF_OK);
  CHECK_STR(TF_Message(status), "");
  TF_SetStatus(status, TF_CANCELLED, "stop");
  CHECK_ERROR(status, TF_CANCELLED, "stop");
  TF_SetStatus(status, TF_UNAUTHENTICATED, NULL);
  CHECK_INT(TF_GetCode(status), 16);
  TF_SetStatus(status, TF_OK, "not kept");
  CHECK_STR(TF_Message(status), "");
  TF_SetStatus(NULL, TF_OK, "");
  TF_DeleteStatus(status);
  TF_DeleteStatus(NULL);

  char bytes[] = "abc";
  TF_Buffer* buffer = TF_NewBufferFromString(bytes, 3);
  bytes[0] = 'x'; /* it is a copy */
  CHECK_INT(buffer->length, 3);
  CHECK(memcmp(buffer->data, "abc", 3) == 0);
  CHECK(TF_GetBuffer(buffer).data == buffer->data);
  TF_DeleteBuffer(buffer);
  buffer = TF_NewBuffer();
  CHECK(buffer->data == NULL && buffer->length == 0 && buffer->data_deallocator == NULL);
  buffer->data = malloc(7);
  buffer->length = 7;
  buffer->data_deallocator = count_free;
  TF_DeleteBuffer(buffer);
  CHECK_INT(g_freed, 7);
  TF_DeleteBuffer(NULL);

  CHECK_INT(TF_DataTypeSize(TF_FLOAT), 4);
  CHECK_INT(TF_DataTypeSize(TF_DOUBLE), 8);
  CHECK_INT(TF_DataTypeSize(TF_COMPLEX64), 8);
  CHECK_INT(TF_DataTypeSize(TF_COMPLEX128), 16);
  CHECK_INT(TF_DataTypeSize(TF_BFLOAT16), 2);
  CHECK_INT(TF_DataTypeSize(TF_HALF), 2);
  CHECK_INT(TF_DataTypeSize(TF_BOOL), 1);
  CHECK_INT(TF_DataTypeSize(TF_QINT32), 4);
  CHECK_INT(TF_DataTypeSize(TF_UINT64), 8);
  CHECK_INT(TF_DataTypeSize(TF_STRING), 0);
  CHECK_INT(TF_DataTypeSize(TF_RESOURCE), 0);
  CHECK_INT(TF_DataTypeSize(TF_VARIANT), 0);
  CHECK_INT(TF_DataTypeSize((TF_DataType)77), 0);
}

static int g_deallocated = 0;
static void deallocate(void* data, size_t length, void* arg) {
  (void)data;
  (void)length;
  *(int*)arg += 1;
}

static void check_zero_copy(void) {
  float values[8 + 4];
  /* The first element that is aligned well enough. */
  float* aligned = (float*)(((uintptr_t)values + 15) / 16 * 16);
  const int64_t dims[] = {2, 3};
  g_deallocated = 0;
  TF_Tensor* t = TF_NewTensor(TF_FLOAT, dims, 2, aligned, 24, deallocate, &g_deallocated);
  CHECK(TF_TensorData(t) == aligned);
  CHECK(TF_TensorIsAligned(t));
  CHECK_INT(g_deallocated, 0);
  CHECK_INT(TF_TensorType(t), TF_FLOAT);
  CHECK_INT(TF_NumDims(t), 2);
  CHECK_INT(TF_Dim(t, 0), 2);
  CHECK_INT(TF_Dim(t, 1), 3);
  CHECK_INT(TF_Dim(t, 2), -1);
  CHECK_INT(TF_TensorByteSize(t), 24);
  CHECK_INT(TF_TensorElementCount(t), 6);
  CHECK(TF_TensorMaybeMove(t) == NULL); /* the memory is the caller's */
  TF_DeleteTensor(t);
  CHECK_INT(g_deallocated, 1);

  char raw[64];
  char* odd = (char*)(((uintptr_t)raw + 15) / 16 * 16) + 1;
  const float number = 1.5f;
  memcpy(odd, &number, sizeof(number));
  g_deallocated = 0;
  t = TF_NewTensor(TF_FLOAT, NULL, 0, odd, 4, deallocate, &g_deallocated);
  CHECK_INT(g_deallocated, 1); /* copied, and given back at once */
  CHECK(TF_TensorData(t) != odd);
  CHECK(*(const float*)TF_TensorData(t) == 1.5f);
  CHECK(TF_TensorMaybeMove(t) == NULL); /* what a program made stays where it is */
  TF_DeleteTensor(t);
  CHECK_INT(g_deallocated, 1);

  /* Too few bytes, and shapes that are none. */
  g_deallocated = 0;
  CHECK(TF_NewTensor(TF_FLOAT, dims, 2, aligned, 23, deallocate, &g_deallocated) == NULL);
  const int64_t negative[] = {-1};
  CHECK(TF_NewTensor(TF_FLOAT, negative, 1, aligned, 24, deallocate, &g_deallocated) == NULL);
  const int64_t huge[] = {INT64_MAX, INT64_MAX};
  CHECK(TF_NewTensor(TF_FLOAT, huge, 2, aligned, 24, deallocate, &g_deallocated) == NULL);
  CHECK(TF_NewTensor((TF_DataType)99, dims, 2, aligned, 24, deallocate, &g_deallocated) == NULL);
  CHECK_INT(g_deallocated, 4);
}

static void check_allocation(void) {
  const TF_DataType types[] = {TF_FLOAT,   TF_DOUBLE,    TF_INT32,    TF_UINT8,  TF_INT16,
                               TF_INT8,    TF_COMPLEX64, TF_INT64,    TF_BOOL,   TF_QINT8,
                               TF_QUINT8,  TF_QINT32,    TF_BFLOAT16, TF_QINT16, TF_HALF,
                               TF_QUINT16, TF_UINT16,    TF_UINT32,   TF_UINT64, TF_COMPLEX128};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i) {
    const int64_t dims[] = {5};
    const size_t bytes = 5 * TF_DataTypeSize(types[i]);
    TF_Tensor* t = TF_AllocateTensor(types[i], dims, 1, bytes);
    CHECK(t != NULL);
    CHECK_INT(TF_TensorType(t), types[i]);
    CHECK_INT(TF_TensorByteSize(t), bytes);
    CHECK_INT((uintptr_t)TF_TensorData(t) % 64, 0);
    memset(TF_TensorData(t), 1, bytes);
    CHECK(TF_TensorMaybeMove(t) == NULL);
    TF_DeleteTensor(t);
    CHECK(TF_AllocateTensor(types[i], dims, 1, bytes - 1) == NULL);
  }
  const int64_t none[] = {3, 0};
  TF_Tensor* empty = TF_AllocateTensor(TF_INT32, none, 2, 0);
  CHECK_INT(TF_TensorElementCount(empty), 0);
  CHECK(TF_TensorData(empty) != NULL);
  TF_DeleteTensor(empty);
  TF_DeleteTensor(NULL);
  CHECK(TF_AllocateTensor(TF_INT32, NULL, 2, 0) == NULL);
  CHECK(TF_TensorData(NULL) == NULL);
  CHECK(!TF_TensorIsAligned(NULL));
}

void test_tensors(void) {
  check_zero_copy();
  check_allocation();

  TF_Status* status = TF_NewStatus();
  const int64_t dims[] = {2, 2};
  const int32_t values[] = {1, 2, 3, 4};
  TF_Tensor* from = int32_tensor(dims, 2, values);
  TF_Tensor* to = int32_scalar(0);
  const int64_t two[] = {2};
  TF_TensorBitcastFrom(from, TF_UINT64, to, two, 1, status);
  CHECK_OK(status);
  CHECK_INT(TF_TensorType(to), TF_UINT64);
  CHECK_INT(TF_TensorElementCount(to), 2);
  CHECK(TF_TensorData(to) == TF_TensorData(from));
  CHECK_INT(((const uint32_t*)TF_TensorData(to))[3], 4);
  CHECK(TF_TensorMaybeMove(from) == NULL); /* two look at it now */
  TF_TensorBitcastFrom(from, TF_UINT64, to, dims, 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "input and output shapes/data type sizes are not compatible");
  TF_TensorBitcastFrom(from, TF_STRING, to, two, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "specified output type is zero-sized");
  TF_DeleteTensor(from);
  CHECK_INT(((const uint32_t*)TF_TensorData(to))[0], 1);
  TF_DeleteTensor(to);
  TF_DeleteStatus(status);
}

void test_strings(void) {
  TF_Status* status = TF_NewStatus();
  CHECK_INT(TF_StringEncodedSize(0), 1);
  CHECK_INT(TF_StringEncodedSize(127), 128);
  CHECK_INT(TF_StringEncodedSize(128), 130);
  char encoded[8];
  CHECK_INT(TF_StringEncode("hello", 5, encoded, sizeof(encoded), status), 6);
  CHECK_OK(status);
  CHECK(memcmp(encoded, "\5hello", 6) == 0);
  CHECK_INT(TF_StringEncode("too long", 8, encoded, sizeof(encoded), status), 0);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "dst_len (8) too small to encode a 8-byte string");

  const char* text = NULL;
  size_t length = 0;
  CHECK_INT(TF_StringDecode("\5hello", 6, &text, &length, status), 6);
  CHECK_OK(status);
  CHECK_INT(length, 5);
  CHECK(memcmp(text, "hello", 5) == 0);
  CHECK_INT(TF_StringDecode("\5hell", 5, &text, &length, status), 0);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "invalid string encoding or truncated src buffer");
  CHECK_INT(TF_StringDecode("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, &text, &length, status), 0);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "truncated src buffer");
  CHECK_INT(TF_StringDecode("", 0, &text, &length, status), 0);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);

  /* A tensor whose offset leads out of it is refused where it is used. */
  TF_Graph* graph = TF_NewGraph();
  const int64_t dims[] = {1};
  TF_Tensor* bad = TF_AllocateTensor(TF_STRING, dims, 1, 10);
  memset(TF_TensorData(bad), 0, 10);
  *(uint64_t*)TF_TensorData(bad) = 2;
  TF_OperationDescription* desc = TF_NewOperation(graph, "Const", "c");
  TF_SetAttrTensor(desc, "value", bad, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Malformed TF_STRING tensor; element 0 out of range");
  TF_DeleteTensor(bad);
  bad = TF_AllocateTensor(TF_STRING, dims, 1, 7);
  TF_SetAttrTensor(desc, "value", bad, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Malformed TF_STRING tensor; too short to hold number of elements");
  TF_DeleteTensor(bad);
  TF_FinishOperation(desc, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}
