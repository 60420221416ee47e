/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

int check_failures = 0;

void check_failed(const char* file, int line, const char* what, const char* got) {
  ++check_failures;
  fprintf(stderr, "%s:%d: not so: %s; got: %s\n", file, line, what, got == NULL ? "(null)" : got);
}

TF_Tensor* int32_tensor(const int64_t* dims, int num_dims, const int32_t* values) {
  size_t count = 1;
  for (int i = 0; i < num_dims; ++i) count *= (size_t)dims[i];
  TF_Tensor* tensor = TF_AllocateTensor(TF_INT32, dims, num_dims, count * sizeof(int32_t));
  memcpy(TF_TensorData(tensor), values, count * sizeof(int32_t));
  return tensor;
}

TF_Tensor* int32_scalar(int32_t value) { return int32_tensor(NULL, 0, &value); }

TF_Tensor* float_vector(const float* values, int count) {
  const int64_t dims[] = {count};
  TF_Tensor* tensor = TF_AllocateTensor(TF_FLOAT, dims, 1, (size_t)count * sizeof(float));
  memcpy(TF_TensorData(tensor), values, (size_t)count * sizeof(float));
  return tensor;
}

int32_t take_int32(TF_Tensor* tensor) {
  CHECK(tensor != NULL);
  if (tensor == NULL) return INT32_MIN;
  CHECK_INT(TF_TensorType(tensor), TF_INT32);
  CHECK_INT(TF_TensorElementCount(tensor), 1);
  const int32_t value = *(const int32_t*)TF_TensorData(tensor);
  TF_DeleteTensor(tensor);
  return value;
}

float take_float(TF_Tensor* tensor) {
  CHECK(tensor != NULL);
  if (tensor == NULL) return -1e30f;
  CHECK_INT(TF_TensorType(tensor), TF_FLOAT);
  CHECK_INT(TF_TensorElementCount(tensor), 1);
  const float value = *(const float*)TF_TensorData(tensor);
  TF_DeleteTensor(tensor);
  return value;
}

TF_Output out(TF_Operation* oper, int index) {
  const TF_Output output = {oper, index};
  return output;
}

TF_Operation* placeholder(TF_Graph* graph, const char* name, TF_DataType type, TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, "Placeholder", name);
  TF_SetAttrType(desc, "dtype", type);
  return TF_FinishOperation(desc, status);
}

TF_Operation* constant(TF_Graph* graph, const char* name, TF_Tensor* value, TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, "Const", name);
  TF_SetAttrTensor(desc, "value", value, status);
  CHECK_OK(status);
  TF_SetAttrType(desc, "dtype", TF_TensorType(value));
  return TF_FinishOperation(desc, status);
}

TF_Operation* constant_of(TF_Graph* graph, const char* name, TF_Tensor* value, TF_Status* status) {
  TF_Operation* oper = constant(graph, name, value, status);
  TF_DeleteTensor(value);
  return oper;
}

TF_Operation* int32_constant(TF_Graph* graph, const char* name, int32_t value, TF_Status* status) {
  return constant_of(graph, name, int32_scalar(value), status);
}

TF_Operation* unary(TF_Graph* graph, const char* op, const char* name, TF_Output x, TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, op, name);
  TF_AddInput(desc, x);
  return TF_FinishOperation(desc, status);
}

TF_Operation* binary(TF_Graph* graph, const char* op, const char* name, TF_Output x, TF_Output y,
                     TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, op, name);
  TF_AddInput(desc, x);
  TF_AddInput(desc, y);
  return TF_FinishOperation(desc, status);
}
