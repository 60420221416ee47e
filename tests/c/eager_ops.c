/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Ops of tensorflow/c/eager/c_api.h: inputs, attributes of every kind, results, errors, and state. */
#include "check.h"
#include "tensorflow/c/eager/c_api.h"

TFE_Context* eager_context(int is_async, TF_Status* status);
TFE_TensorHandle* eager_int(int32_t value);
int32_t take_eager_int(TFE_TensorHandle* handle);
TFE_TensorHandle* eager_binary(TFE_Context* context, const char* name, TFE_TensorHandle* x,
                               TFE_TensorHandle* y, TF_Status* status);

/* The only result; deletes the op. */
static TFE_TensorHandle* execute(TFE_Op* op, TF_Status* status) {
  TFE_TensorHandle* result = NULL;
  int count = 1;
  TFE_Execute(op, &result, &count, status);
  TFE_DeleteOp(op);
  return result;
}

static TFE_TensorHandle* floats(const float* values, const int64_t* dims, int num_dims) {
  size_t bytes = sizeof(float);
  for (int i = 0; i < num_dims; ++i) bytes *= (size_t)dims[i];
  TF_Tensor* tensor = TF_AllocateTensor(TF_FLOAT, dims, num_dims, bytes);
  memcpy(TF_TensorData(tensor), values, bytes);
  TF_Status* status = TF_NewStatus();
  TFE_TensorHandle* handle = TFE_NewTensorHandle(tensor, status);
  CHECK_OK(status);
  TF_DeleteStatus(status);
  TF_DeleteTensor(tensor);
  return handle;
}

static void check_floats(TFE_TensorHandle* handle, const float* values, int count) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* tensor = TFE_TensorHandleResolve(handle, status);
  CHECK_OK(status);
  CHECK_INT(TF_TensorElementCount(tensor), count);
  if (TF_TensorElementCount(tensor) == count) {
    CHECK(memcmp(TF_TensorData(tensor), values, sizeof(float) * (size_t)count) == 0);
  }
  TF_DeleteTensor(tensor);
  TFE_DeleteTensorHandle(handle);
  TF_DeleteStatus(status);
}

static void check_attributes(TFE_Context* context, TF_Status* status) {
  const int64_t square[] = {2, 2};
  const float values[] = {1, 2, 3, 4};
  TFE_TensorHandle* m = floats(values, square, 2);
  /* bool: m' * m */
  for (int i = 0; i < 2; ++i) {
    TFE_Op* op = TFE_NewOp(context, "MatMul", status);
    TFE_OpAddInput(op, m, status);
    TFE_OpAddInput(op, m, status);
    TFE_OpSetAttrBool(op, "transpose_a", (unsigned char)i);
    const float plain[] = {7, 10, 15, 22}, transposed[] = {10, 14, 14, 20};
    check_floats(execute(op, status), i == 0 ? plain : transposed, 4);
    CHECK_OK(status);
  }
  /* type */
  TFE_Op* op = TFE_NewOp(context, "Cast", status);
  TFE_OpAddInput(op, m, status);
  TFE_OpSetAttrType(op, "DstT", TF_INT32);
  TFE_TensorHandle* cast = execute(op, status);
  CHECK_OK(status);
  CHECK_INT(TFE_TensorHandleDataType(cast), TF_INT32);
  TFE_DeleteTensorHandle(cast);
  /* tensor and type: a constant */
  op = TFE_NewOp(context, "Const", status);
  TF_Tensor* tensor = int32_scalar(5);
  TFE_OpSetAttrTensor(op, "value", tensor, status);
  TF_DeleteTensor(tensor);
  TFE_OpSetAttrType(op, "dtype", TF_INT32);
  CHECK_INT(take_eager_int(execute(op, status)), 5);
  /* list(int), string */
  const int64_t wide[] = {1, 2, 2, 1}, ones[] = {1, 1, 1, 1}, window[] = {1, 2, 2, 1};
  TFE_TensorHandle* image = floats(values, wide, 4);
  op = TFE_NewOp(context, "MaxPool", status);
  TFE_OpAddInput(op, image, status);
  TFE_OpSetAttrIntList(op, "ksize", window, 4);
  TFE_OpSetAttrIntList(op, "strides", ones, 4);
  TFE_OpSetAttrString(op, "padding", "VALID", 5);
  const float four = 4;
  check_floats(execute(op, status), &four, 1);
  CHECK_OK(status);
  /* float */
  op = TFE_NewOp(context, "LeakyRelu", status);
  TFE_TensorHandle* minus = floats((const float[]){-2}, NULL, 0);
  TFE_OpAddInput(op, minus, status);
  TFE_OpSetAttrFloat(op, "alpha", 0.5f);
  const float minus_one = -1;
  check_floats(execute(op, status), &minus_one, 1);
  /* list(float) */
  op = TFE_NewOp(context, "Bucketize", status);
  TFE_OpAddInput(op, minus, status);
  TFE_OpSetAttrFloatList(op, "boundaries", (const float[]){-3, 0, 5}, 3);
  CHECK_INT(take_eager_int(execute(op, status)), 1);
  CHECK_OK(status);
  /* shape; list(shape) and list(type) */
  op = TFE_NewOp(context, "EnsureShape", status);
  TFE_OpAddInput(op, m, status);
  TFE_OpSetAttrShape(op, "shape", square, 2, status);
  CHECK_OK(status);
  check_floats(execute(op, status), values, 4);
  op = TFE_NewOp(context, "FIFOQueueV2", status);
  const int64_t* shapes[] = {square, NULL};
  const int ranks[] = {2, 0};
  const TF_DataType types[] = {TF_FLOAT, TF_INT32};
  TFE_OpSetAttrShapeList(op, "shapes", shapes, ranks, 2, status);
  CHECK_OK(status);
  TFE_OpSetAttrTypeList(op, "component_types", types, 2);
  TFE_OpSetAttrInt(op, "capacity", 10);
  TFE_TensorHandle* queue = execute(op, status);
  CHECK_OK(status);
  CHECK_INT(TFE_TensorHandleDataType(queue), TF_RESOURCE);
  TFE_TensorHandle* five = eager_int(5);
  TFE_TensorHandle* parts[] = {m, five};
  op = TFE_NewOp(context, "QueueEnqueueV2", status);
  TFE_OpAddInput(op, queue, status);
  TFE_OpAddInputList(op, parts, 2, status);
  int none = 0;
  TFE_Execute(op, NULL, &none, status);
  CHECK_OK(status);
  CHECK_INT(none, 0);
  TFE_DeleteOp(op);
  op = TFE_NewOp(context, "QueueDequeueV2", status);
  TFE_OpAddInput(op, queue, status);
  TFE_OpSetAttrTypeList(op, "component_types", types, 2);
  CHECK_INT(TFE_OpGetOutputLength(op, "components", status), 2);
  TFE_TensorHandle* got[3] = {NULL, NULL, NULL};
  int count = 3;
  TFE_Execute(op, got, &count, status);
  CHECK_OK(status);
  CHECK_INT(count, 2);
  TFE_DeleteOp(op);
  check_floats(got[0], values, 4);
  CHECK_INT(take_eager_int(got[1]), 5);
  TFE_DeleteTensorHandle(queue);
  TFE_DeleteTensorHandle(five);
  TFE_DeleteTensorHandle(image);
  TFE_DeleteTensorHandle(minus);
  TFE_DeleteTensorHandle(m);
}

/* Setters of lists that no op above has: errors are returned when the op is executed. */
static void check_wrong_attributes(TFE_Context* context, TF_Status* status) {
  const char* const texts[] = {"a", "b"};
  const size_t lengths[] = {1, 1};
  const unsigned char bools[] = {1, 0};
  TFE_TensorHandle* one = eager_int(1);
  for (int kind = 0; kind < 4; ++kind) {
    TFE_Op* op = TFE_NewOp(context, "Neg", status);
    TFE_OpAddInput(op, one, status);
    const TFE_Op* self = op;
    if (kind == 0) TFE_OpSetAttrStringList(op, "T", (const void* const*)texts, lengths, 2);
    if (kind == 1) TFE_OpSetAttrBoolList(op, "T", bools, 2);
    if (kind == 2) TFE_OpSetAttrFunctionList(op, "T", &self, 1);
    if (kind == 3) TFE_OpSetAttrInt(op, "nix", 3);
    CHECK(execute(op, status) == NULL);
    CHECK_ERROR(status, TF_INVALID_ARGUMENT, kind == 3 ? "mentions attr 'nix'" : "for attr 'T'");
  }
  unsigned char is_list = 7;
  TFE_Op* op = TFE_NewOp(context, "MaxPool", status);
  CHECK_INT(TFE_OpGetAttrType(op, "ksize", &is_list, status), TF_ATTR_INT);
  CHECK_INT(is_list, 1);
  CHECK_INT(TFE_OpGetAttrType(op, "padding", &is_list, status), TF_ATTR_STRING);
  CHECK_INT(is_list, 0);
  TFE_OpGetAttrType(op, "nix", &is_list, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Attribute 'nix' does not exist for this operation");
  TFE_DeleteOp(op);
  CHECK_INT(TFE_OpNameGetAttrType(context, "Cast", "DstT", &is_list, status), TF_ATTR_TYPE);
  CHECK_OK(status);
  TFE_OpNameGetAttrType(context, "NoSuchOp", "T", &is_list, status);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
  TFE_DeleteTensorHandle(one);
}

static void check_inputs(TFE_Context* context, TF_Status* status) {
  TFE_TensorHandle* one = eager_int(1);
  TFE_TensorHandle* two = eager_int(2);
  TFE_TensorHandle* list[] = {one, two, two};
  /* A list: its number follows, and its type. */
  TFE_Op* op = TFE_NewOp(context, "AddN", status);
  CHECK_INT(TFE_OpGetInputLength(op, "inputs", status), -1);
  TFE_OpAddInputList(op, list, 3, status);
  CHECK_INT(TFE_OpGetInputLength(op, "inputs", status), 3);
  CHECK_OK(status);
  CHECK_INT(TFE_OpGetOutputLength(op, "sum", status), 1);
  TFE_OpGetInputLength(op, "nix", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Input 'nix' not found");
  TFE_OpGetOutputLength(op, "nix", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Output 'nix' not found");
  CHECK_INT(take_eager_int(execute(op, status)), 5);
  /* Inputs one by one, and N set explicitly. */
  op = TFE_NewOp(context, "AddN", status);
  for (int i = 0; i < 3; ++i) TFE_OpAddInput(op, list[i], status);
  TFE_OpSetAttrInt(op, "N", 3);
  CHECK_INT(take_eager_int(execute(op, status)), 5);
  /* Too few, too many, another type, too little room. */
  op = TFE_NewOp(context, "Add", status);
  TFE_OpAddInput(op, one, status);
  CHECK(execute(op, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "expected 2 inputs, got 1");
  op = TFE_NewOp(context, "Neg", status);
  TFE_OpAddInput(op, one, status);
  TFE_OpAddInput(op, one, status);
  CHECK(execute(op, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "expected 1 inputs, got 2");
  op = TFE_NewOp(context, "Neg", status);
  TFE_OpAddInput(op, one, status);
  int count = 0;
  TFE_Execute(op, NULL, &count, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Expecting 1 outputs, but *num_retvals is 0");
  TFE_DeleteOp(op);
  /* A reference is what no handle is. */
  op = TFE_NewOp(context, "Assign", status);
  TFE_OpAddInput(op, one, status);
  TFE_OpAddInput(op, one, status);
  CHECK(execute(op, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "was expected to be a int32_ref tensor but is a int32 tensor");
  /* The kernel's own error. */
  const int64_t dims[] = {2};
  TFE_TensorHandle* v = floats((const float[]){1, 2}, dims, 1);
  CHECK(eager_binary(context, "MatMul", v, v, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TFE_OpAddInput(NULL, v, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TFE_DeleteTensorHandle(v);
  TFE_DeleteTensorHandle(one);
  TFE_DeleteTensorHandle(two);
}

/* A variable behind a handle, and texts. */
static void check_state(TFE_Context* context, TF_Status* status) {
  TFE_Op* op = TFE_NewOp(context, "VarHandleOp", status);
  TFE_OpSetAttrType(op, "dtype", TF_INT32);
  TFE_OpSetAttrShape(op, "shape", NULL, 0, status);
  TFE_OpSetAttrString(op, "shared_name", "v", 1);
  TFE_TensorHandle* variable = execute(op, status);
  CHECK_OK(status);
  TFE_TensorHandle* three = eager_int(3);
  const char* const writes[] = {"AssignVariableOp", "AssignAddVariableOp", "AssignAddVariableOp"};
  for (int i = 0; i < 3; ++i) {
    op = TFE_NewOp(context, writes[i], status);
    TFE_OpAddInput(op, variable, status);
    TFE_OpAddInput(op, three, status);
    int none = 0;
    TFE_Execute(op, NULL, &none, status);
    CHECK_OK(status);
    TFE_DeleteOp(op);
  }
  op = TFE_NewOp(context, "ReadVariableOp", status);
  TFE_OpAddInput(op, variable, status);
  TFE_OpSetAttrType(op, "dtype", TF_INT32);
  CHECK_INT(take_eager_int(execute(op, status)), 9);
  TFE_DeleteTensorHandle(variable);
  /* What a step keeps for itself ends with the step. */
  TFE_ContextStartStep(context);
  TFE_ContextStartStep(context);
  TFE_ContextEndStep(context);
  op = TFE_NewOp(context, "StackV2", status);
  TFE_OpSetAttrType(op, "elem_type", TF_INT32);
  TFE_TensorHandle* size = eager_int(4);
  TFE_OpAddInput(op, size, status);
  TFE_TensorHandle* stack = execute(op, status);
  CHECK_OK(status);
  TFE_DeleteTensorHandle(eager_binary(context, "StackPushV2", stack, three, status));
  CHECK_OK(status);
  TFE_ContextEndStep(context);
  CHECK(eager_binary(context, "StackPushV2", stack, three, status) == NULL);
  CHECK(TF_GetCode(status) != TF_OK);
  TFE_DeleteTensorHandle(stack);
  TFE_DeleteTensorHandle(size);
  TFE_DeleteTensorHandle(three);
}

void test_eager_ops(void) {
  TF_Status* status = TF_NewStatus();
  TFE_Context* context = eager_context(0, status);
  check_attributes(context, status);
  check_wrong_attributes(context, status);
  check_inputs(context, status);
  check_state(context, status);
  TFE_DeleteContext(context);
  TF_DeleteStatus(status);
}
