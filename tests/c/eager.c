/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Contexts, handles, functions and threads of tensorflow/c/eager/c_api.h. */
#include "tensorflow/c/eager/c_api.h"

#include <string.h>
#include <threads.h>

#include "check.h"

TFE_Context* eager_context(int is_async, TF_Status* status) {
  TFE_ContextOptions* options = TFE_NewContextOptions();
  TFE_ContextOptionsSetAsync(options, (unsigned char)is_async);
  TFE_Context* context = TFE_NewContext(options, status);
  CHECK_OK(status);
  TFE_DeleteContextOptions(options);
  return context;
}

TFE_TensorHandle* eager_int(int32_t value) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* tensor = int32_scalar(value);
  TFE_TensorHandle* handle = TFE_NewTensorHandle(tensor, status);
  CHECK_OK(status);
  TF_DeleteTensor(tensor);
  TF_DeleteStatus(status);
  return handle;
}

/* Deletes the handle. */
int32_t take_eager_int(TFE_TensorHandle* handle) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* tensor = TFE_TensorHandleResolve(handle, status);
  CHECK_OK(status);
  TFE_DeleteTensorHandle(handle);
  TF_DeleteStatus(status);
  return tensor == NULL ? INT32_MIN : take_int32(tensor);
}

/* One result of an op of two inputs; NULL after an error. */
TFE_TensorHandle* eager_binary(TFE_Context* context, const char* name, TFE_TensorHandle* x,
                               TFE_TensorHandle* y, TF_Status* status) {
  TFE_Op* op = TFE_NewOp(context, name, status);
  if (op == NULL) return NULL;
  TFE_OpAddInput(op, x, status);
  TFE_OpAddInput(op, y, status);
  TFE_TensorHandle* result = NULL;
  int count = 1;
  TFE_Execute(op, &result, &count, status);
  TFE_DeleteOp(op);
  return result;
}

static void check_contexts(TF_Status* status) {
  TFE_ContextOptions* options = TFE_NewContextOptions();
  TFE_ContextOptionsSetConfig(options, "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable ConfigProto");
  TFE_ContextOptionsSetConfig(options,
                              "\x0a\x07\x0a\x03"
                              "CPU\x10\x02",
                              9, status); /* two CPUs */
  CHECK_OK(status);
  TFE_ContextOptionsSetDevicePlacementPolicy(options, TFE_DEVICE_PLACEMENT_EXPLICIT);
  TFE_Context* context = TFE_NewContext(options, status);
  CHECK_OK(status);
  TFE_DeleteContextOptions(options);
  CHECK_INT(TFE_ContextGetDevicePlacementPolicy(context), TFE_DEVICE_PLACEMENT_EXPLICIT);
  TFE_ContextSetThreadLocalDevicePlacementPolicy(context, TFE_DEVICE_PLACEMENT_WARN);
  CHECK_INT(TFE_ContextGetDevicePlacementPolicy(context), TFE_DEVICE_PLACEMENT_WARN);
  TF_DeviceList* devices = TFE_ContextListDevices(context, status);
  CHECK_OK(status);
  CHECK_INT(TF_DeviceListCount(devices), 2);
  CHECK_STR(TF_DeviceListType(devices, 1, status), "CPU");
  CHECK_STR(TF_DeviceListName(devices, 1, status), "/job:localhost/replica:0/task:0/device:CPU:1");
  TF_DeleteDeviceList(devices);

  /* On the other CPU. */
  TFE_TensorHandle* x = eager_int(20);
  CHECK_STR(TFE_TensorHandleDeviceName(x, status), "/job:localhost/replica:0/task:0/device:CPU:0");
  TFE_TensorHandle* there = TFE_TensorHandleCopyToDevice(x, context, "/device:CPU:1", status);
  CHECK_OK(status);
  CHECK_STR(TFE_TensorHandleBackingDeviceName(there, status), "/job:localhost/replica:0/task:0/device:CPU:1");
  CHECK(TFE_TensorHandleCopyToDevice(x, context, "/device:CPU:7", status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "/device:CPU:7 unknown device.");
  TFE_Op* op = TFE_NewOp(context, "Add", status);
  CHECK_STR(TFE_OpGetDevice(op, status), "/job:localhost/replica:0/task:0/device:CPU:0");
  TFE_OpSetDevice(op, "CPU:1", status);
  CHECK_OK(status);
  CHECK_STR(TFE_OpGetDevice(op, status), "/job:localhost/replica:0/task:0/device:CPU:1");
  TFE_OpSetDevice(op, "nowhere", status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TFE_OpAddInput(op, there, status);
  TFE_OpAddInput(op, x, status);
  TFE_TensorHandle* sum = NULL;
  int count = 1;
  TFE_OpSetXLACompilation(op, 1);
  TFE_Execute(op, &sum, &count, status);
  CHECK_OK(status);
  CHECK_STR(TFE_TensorHandleDeviceName(sum, status), "/job:localhost/replica:0/task:0/device:CPU:1");
  TFE_DeleteTensorHandle(there);
  TFE_DeleteTensorHandle(x);
  TFE_ContextClearCaches(context);
  TFE_DeleteContext(context); /* before the op and its result */
  CHECK_INT(take_eager_int(sum), 40);
  TFE_DeleteOp(op);
  TFE_DeleteContext(NULL);
  CHECK(TFE_ContextListDevices(NULL, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
}

/* Every function that takes an op answers for one whose context is gone, of a function as of a registered op,
 * also when another context has been made since. */
static void check_ops_outlive_contexts(TF_Status* status) {
  TFE_Context* context = TFE_NewContext(NULL, status);
  TF_Graph* graph = TF_NewGraph();
  const TF_Output arg = out(placeholder(graph, "x", TF_INT32, status), 0);
  const TF_Output twice = out(binary(graph, "Add", "y", arg, arg, status), 0);
  TF_Function* function =
      TF_GraphToFunction(graph, "twice", 0, -1, NULL, 1, &arg, 1, &twice, NULL, NULL, NULL, status);
  CHECK_OK(status);
  TFE_ContextAddFunction(context, function, status);
  CHECK_OK(status);
  TF_DeleteFunction(function);
  TF_DeleteGraph(graph);
  const char* const names[] = {"Neg", "twice"};
  TFE_Op* ops[2];
  TFE_TensorHandle* x = eager_int(20);
  for (int i = 0; i < 2; ++i) {
    ops[i] = TFE_NewOp(context, names[i], status);
    CHECK_OK(status);
    TFE_OpAddInput(ops[i], x, status);
    TFE_TensorHandle* result = NULL;
    int count = 1;
    TFE_Execute(ops[i], &result, &count, status); /* so that its kernel is known */
    CHECK_OK(status);
    CHECK_INT(take_eager_int(result), i == 0 ? -20 : 40);
  }
  TFE_DeleteContext(context);
  context = NULL;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 2; ++i) {
      unsigned char is_list = 0;
      TFE_TensorHandle* result = NULL;
      int count = 1;
      TFE_Execute(ops[i], &result, &count, status);
      CHECK_ERROR(status, TF_FAILED_PRECONDITION, "The context of the op has been deleted");
      CHECK(result == NULL);
      TFE_OpSetDevice(ops[i], "CPU:0", status);
      CHECK_INT(TF_GetCode(status), TF_FAILED_PRECONDITION);
      CHECK(TFE_OpGetDevice(ops[i], status) == NULL);
      TFE_OpGetAttrType(ops[i], "T", &is_list, status);
      CHECK_INT(TF_GetCode(status), TF_FAILED_PRECONDITION);
      CHECK_INT(TFE_OpGetInputLength(ops[i], "x", status), -1);
      CHECK_INT(TFE_OpGetOutputLength(ops[i], "y", status), -1);
      CHECK_INT(TF_GetCode(status), TF_FAILED_PRECONDITION);
      TFE_OpAddInput(ops[i], x, status);
      TFE_OpSetAttrType(ops[i], "T", TF_INT32);
      if (context == NULL) continue;
      const TFE_Op* listed = ops[i];
      TFE_Op* call = TFE_NewOp(context, "PartitionedCall", status);
      CHECK_OK(status);
      if (i == 0) {
        TFE_OpSetAttrFunction(call, "f", ops[i]);
      } else {
        TFE_OpSetAttrFunctionList(call, "f", &listed, 1);
      }
      TFE_Execute(call, &result, &count, status);
      CHECK_ERROR(status, TF_FAILED_PRECONDITION, "The context of the op has been deleted");
      TFE_DeleteOp(call);
    }
    if (round == 0) context = TFE_NewContext(NULL, status);
    if (round == 0) CHECK_OK(status);
  }
  for (int i = 0; i < 2; ++i) TFE_DeleteOp(ops[i]);
  TFE_DeleteTensorHandle(x);
  TFE_DeleteContext(context);
}

static void check_handles(TF_Status* status) {
  const int64_t dims[] = {2, 3};
  const int32_t values[] = {1, 2, 3, 4, 5, 6};
  TF_Tensor* tensor = int32_tensor(dims, 2, values);
  TFE_TensorHandle* handle = TFE_NewTensorHandle(tensor, status);
  CHECK_OK(status);
  TF_DeleteTensor(tensor);
  CHECK_INT(TFE_TensorHandleDataType(handle), TF_INT32);
  CHECK_INT(TFE_TensorHandleNumDims(handle, status), 2);
  CHECK_INT(TFE_TensorHandleNumElements(handle, status), 6);
  CHECK_INT(TFE_TensorHandleDim(handle, 1, status), 3);
  CHECK_INT(TFE_TensorHandleDim(handle, 2, status), -1);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TFE_TensorHandle* same = TFE_TensorHandleCopySharingTensor(handle, status);
  CHECK_OK(status);
  TFE_TensorDebugInfo* info = TFE_TensorHandleTensorDebugInfo(handle, status);
  CHECK_INT(TFE_TensorDebugInfoOnDeviceNumDims(info), 2);
  CHECK_INT(TFE_TensorDebugInfoOnDeviceDim(info, 0), 2);
  CHECK_INT(TFE_TensorDebugInfoOnDeviceDim(info, 5), -1);
  TFE_DeleteTensorDebugInfo(info);
  TFE_DeleteTensorHandle(handle);
  tensor = TFE_TensorHandleResolve(same, status);
  CHECK_OK(status);
  CHECK(memcmp(TF_TensorData(tensor), values, sizeof(values)) == 0);
  TF_DeleteTensor(tensor);
  TFE_DeleteTensorHandle(same);
  CHECK(TFE_NewTensorHandle(NULL, status) == NULL);
  CHECK(TFE_TensorHandleResolve(NULL, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The passed in handle is a nullptr");
  CHECK_INT(TFE_TensorHandleNumDims(NULL, status), -1);
  TFE_DeleteTensorHandle(NULL);
}

/* f(x) = x + 10 as a function of the context, called by its name and by an op. */
/* The name begins as those that TensorFlow's Python gives, and as no op that is executed alone may. */
static void check_functions(TF_Status* status) {
  TFE_Context* context = eager_context(0, status);
  TF_Graph* body = TF_NewGraph();
  TF_Output x = out(placeholder(body, "x", TF_INT32, status), 0);
  TF_Output sum =
      out(binary(body, "Add", "sum", x, out(int32_constant(body, "ten", 10, status), 0), status), 0);
  TF_Function* function =
      TF_GraphToFunction(body, "__inference_plus_ten", 0, -1, NULL, 1, &x, 1, &sum, NULL, NULL, NULL, status);
  CHECK_OK(status);
  CHECK(TFE_NewOp(context, "__inference_plus_ten", status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND,
              "'__inference_plus_ten' is neither a type of a primitive operation nor a name of a function "
              "registered");
  TFE_ContextAddFunction(context, function, status);
  CHECK_OK(status);
  CHECK(TFE_ContextHasFunction(context, "__inference_plus_ten"));
  TF_Buffer* def = TF_NewBuffer();
  TF_FunctionToFunctionDef(function, def, status);
  TFE_ContextAddFunctionDef(context, def->data, def->length, status); /* the same again */
  CHECK_OK(status);
  TFE_ContextAddFunctionDef(context, "\xff\xff", 2, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteBuffer(def);
  TFE_TensorHandle* seven = eager_int(7);
  for (int i = 0; i < 3; ++i) {
    TFE_Op* op = TFE_NewOp(context, "__inference_plus_ten", status);
    CHECK_OK(status);
    TFE_OpAddInput(op, seven, status);
    TFE_TensorHandle* result = NULL;
    int count = 1;
    TFE_Execute(op, &result, &count, status);
    CHECK_OK(status);
    CHECK_INT(take_eager_int(result), 17);
    TFE_DeleteOp(op);
  }
  for (int by_name = 0; by_name < 2; ++by_name) {
    TFE_Op* call = TFE_NewOp(context, "StatefulPartitionedCall", status);
    CHECK_OK(status);
    TFE_OpAddInputList(call, &seven, 1, status);
    const TF_DataType type = TF_INT32;
    TFE_OpSetAttrTypeList(call, "Tout", &type, 1);
    TFE_Op* value = TFE_NewOp(context, "__inference_plus_ten", status);
    if (by_name) {
      TFE_OpSetAttrFunctionName(call, "f", "__inference_plus_ten", 20);
    } else {
      TFE_OpSetAttrFunction(call, "f", value);
    }
    TFE_DeleteOp(value);
    TFE_TensorHandle* result = NULL;
    int count = 1;
    TFE_Execute(call, &result, &count, status);
    CHECK_OK(status);
    if (result != NULL) CHECK_INT(take_eager_int(result), 17);
    TFE_DeleteOp(call);
  }
  TFE_Op* last = TFE_NewOp(context, "__inference_plus_ten", status);
  TFE_ContextRemoveFunction(context, "__inference_plus_ten", status);
  CHECK_OK(status);
  CHECK(!TFE_ContextHasFunction(context, "__inference_plus_ten"));
  TFE_ContextRemoveFunction(context, "__inference_plus_ten", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Tried to remove non-existent function '__inference_plus_ten'.");
  TFE_DeleteOp(last);
  TFE_DeleteTensorHandle(seven);
  TF_DeleteFunction(function);
  TF_DeleteGraph(body);
  TFE_DeleteContext(context);
}

static TFE_TensorHandle* anonymous_variable(TFE_Context* context, TF_Status* status) {
  const char* const name = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";
  TFE_Op* op = TFE_NewOp(context, "VarHandleOp", status);
  CHECK_OK(status);
  TFE_OpSetAttrType(op, "dtype", TF_INT32);
  TFE_OpSetAttrShape(op, "shape", NULL, 0, status);
  TFE_OpSetAttrString(op, "shared_name", name, strlen(name));
  TFE_TensorHandle* handle = NULL;
  int count = 1;
  TFE_Execute(op, &handle, &count, status);
  CHECK_OK(status);
  TFE_DeleteOp(op);
  return handle;
}

/* Variables of the name that stands for none are not shared, although the ops are equal. */
static void check_anonymous_variables(TF_Status* status) {
  TFE_Context* context = eager_context(0, status);
  TFE_TensorHandle* variables[2];
  for (int i = 0; i < 2; ++i) {
    variables[i] = anonymous_variable(context, status);
    TFE_TensorHandle* value = eager_int(i + 5);
    TFE_Op* assign = TFE_NewOp(context, "AssignVariableOp", status);
    TFE_OpAddInput(assign, variables[i], status);
    TFE_OpAddInput(assign, value, status);
    int count = 0;
    TFE_Execute(assign, NULL, &count, status);
    CHECK_OK(status);
    TFE_DeleteOp(assign);
    TFE_DeleteTensorHandle(value);
  }
  for (int i = 0; i < 2; ++i) {
    TFE_Op* read = TFE_NewOp(context, "ReadVariableOp", status);
    TFE_OpAddInput(read, variables[i], status);
    TFE_OpSetAttrType(read, "dtype", TF_INT32);
    TFE_TensorHandle* value = NULL;
    int count = 1;
    TFE_Execute(read, &value, &count, status);
    CHECK_OK(status);
    if (value != NULL) CHECK_INT(take_eager_int(value), i + 5);
    TFE_DeleteOp(read);
    TFE_DeleteTensorHandle(variables[i]);
  }
  TFE_DeleteContext(context);
}

static void check_async(TF_Status* status) {
  TFE_Context* context = eager_context(1, status);
  TFE_TensorHandle* one = eager_int(1);
  TFE_TensorHandle* sum = eager_int(0);
  for (int i = 0; i < 1000; ++i) {
    TFE_TensorHandle* next = eager_binary(context, "Add", sum, one, status);
    CHECK_OK(status);
    TFE_DeleteTensorHandle(sum);
    sum = next;
  }
  CHECK_INT(TFE_TensorHandleDataType(sum), TF_INT32);
  CHECK_INT(TFE_TensorHandleNumDims(sum, status), 0);
  CHECK_INT(take_eager_int(sum), 1000);
  /* Types are checked at once, values later. */
  TF_Tensor* f = float_vector((const float[]){1, 2}, 2);
  TFE_TensorHandle* floats = TFE_NewTensorHandle(f, status);
  TF_DeleteTensor(f);
  CHECK(eager_binary(context, "Add", one, floats, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "cannot compute Add as input #1(zero-based) was expected to be a int32 tensor but is a float");
  TFE_TensorHandle* bad = eager_binary(context, "MatMul", floats, floats, status);
  CHECK_OK(status);
  TFE_TensorHandle* after = eager_binary(context, "Add", bad, floats, status); /* perhaps refused already */
  CHECK(TFE_TensorHandleResolve(bad, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  CHECK_INT(TFE_TensorHandleNumDims(bad, status), -1);
  if (after != NULL) CHECK(TFE_TensorHandleResolve(after, status) == NULL);
  TFE_DeleteTensorHandle(after);
  TFE_DeleteTensorHandle(bad);
  TFE_DeleteTensorHandle(floats);
  TFE_DeleteContext(context);
  context = eager_context(1, status);
  sum = eager_binary(context, "Add", one, one, status);
  TFE_DeleteContext(context); /* waits */
  CHECK_INT(take_eager_int(sum), 2);
  TFE_DeleteTensorHandle(one);
}

static int add_often(void* context) {
  TF_Status* status = TF_NewStatus();
  TFE_TensorHandle* one = eager_int(1);
  TFE_TensorHandle* sum = eager_int(0);
  for (int i = 0; i < 2000; ++i) {
    TFE_TensorHandle* next = eager_binary(context, "Add", sum, one, status);
    TFE_DeleteTensorHandle(sum);
    sum = next;
    if (i % 500 == 0) TFE_ContextClearCaches(context);
  }
  CHECK_OK(status);
  TF_DeleteStatus(status);
  TFE_DeleteTensorHandle(one);
  return (int)take_eager_int(sum);
}

static void check_threads(TF_Status* status) {
  for (int is_async = 0; is_async < 2; ++is_async) {
    TFE_Context* context = eager_context(is_async, status);
    thrd_t threads[4];
    for (int i = 0; i < 4; ++i) CHECK(thrd_create(&threads[i], add_often, context) == thrd_success);
    for (int i = 0; i < 4; ++i) {
      int result = 0;
      thrd_join(threads[i], &result);
      CHECK_INT(result, 2000);
    }
    TFE_DeleteContext(context);
  }
}

static void check_what_is_not_there(TF_Status* status) {
  TFE_Context* context = eager_context(0, status);
  TFE_ContextSetServerDef(context, 0, "", 0, status);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TFE_ContextSetServerDef");
  TFE_ContextEnableRunMetadata(context);
  TF_Buffer* buffer = TF_NewBuffer();
  TFE_ContextExportRunMetadata(context, buffer, status);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TFE_ContextExportRunMetadata");
  TF_DeleteBuffer(buffer);
  TFE_ContextDisableRunMetadata(context);
  CHECK(TFE_NewOp(context, "NoSuchOp", status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
  /* What lives in a graph only. */
  const char* const of_graphs[] = {"_Arg", "_Recv", "Switch", "Enter", "NextIteration"};
  for (int i = 0; i < 5; ++i) {
    TFE_Op* op = TFE_NewOp(context, of_graphs[i], status);
    CHECK_OK(status);
    TFE_TensorHandle* results[2] = {NULL, NULL};
    int count = 2;
    TFE_Execute(op, results, &count, status);
    CHECK_INT(TF_GetCode(status), TF_UNIMPLEMENTED);
    TFE_DeleteOp(op);
  }
  TFE_DeleteContext(context);
}

void test_eager(void) {
  TF_Status* status = TF_NewStatus();
  check_contexts(status);
  check_ops_outlive_contexts(status);
  check_handles(status);
  check_functions(status);
  check_anonymous_variables(status);
  check_async(status);
  check_threads(status);
  check_what_is_not_there(status);
  TF_DeleteStatus(status);
}
