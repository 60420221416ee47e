/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

static TF_Session* new_session(TF_Graph* graph, TF_Status* status) {
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session = TF_NewSession(graph, options, status);
  CHECK_OK(status);
  TF_DeleteSessionOptions(options);
  return session;
}

static void end_session(TF_Session* session, TF_Status* status) {
  TF_CloseSession(session, status);
  CHECK_OK(status);
  TF_CloseSession(session, status); /* a second time does nothing */
  CHECK_OK(status);
  TF_DeleteSession(session, status);
  CHECK_OK(status);
}

static int32_t run_one(TF_Session* session, TF_Output feed, int32_t value, TF_Output fetch,
                       TF_Status* status) {
  TF_Tensor* input = int32_scalar(value);
  TF_Tensor* output = NULL;
  TF_SessionRun(session, NULL, &feed, &input, feed.oper == NULL ? 0 : 1, &fetch, &output, 1, NULL, 0, NULL,
                status);
  TF_DeleteTensor(input);
  return TF_GetCode(status) == TF_OK ? take_int32(output) : -1;
}

static void check_growing_graph(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Operation* two = int32_constant(graph, "two", 2, status);
  TF_Operation* sum = binary(graph, "Add", "sum", x, out(two, 0), status);
  TF_Session* session = new_session(graph, status);
  CHECK_INT(run_one(session, x, 3, out(sum, 0), status), 5);
  CHECK_OK(status);
  CHECK_INT(run_one(session, x, -7, out(sum, 0), status), -5);
  /* What is added later is seen by the next run. */
  TF_Operation* negative = unary(graph, "Neg", "negative", out(sum, 0), status);
  CHECK_INT(run_one(session, x, 3, out(negative, 0), status), -5);
  CHECK_OK(status);
  CHECK_INT(run_one(session, x, 4, out(sum, 0), status), 6);
  run_one(session, out(NULL, 0), 0, out(sum, 0), status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "You must feed a value for placeholder tensor 'x'");
  run_one(session, x, 3, out(sum, 1), status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  run_one(session, x, 3, out(NULL, 0), status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);

  /* Feeding the same tensor twice, and the wrong type. */
  TF_Output feeds[] = {x, x};
  TF_Tensor* value = int32_scalar(1);
  TF_Tensor* values[] = {value, value};
  TF_Output fetch = out(sum, 0);
  TF_Tensor* output = value;
  TF_SessionRun(session, NULL, feeds, values, 2, &fetch, &output, 1, NULL, 0, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  CHECK(output == NULL);
  const float half = 0.5f;
  TF_Tensor* wrong = float_vector(&half, 1);
  TF_SessionRun(session, NULL, feeds, &wrong, 1, &fetch, &output, 1, NULL, 0, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteTensor(wrong);
  TF_DeleteTensor(value);

  /* A second session on the same graph; the graph lives until both are gone. */
  TF_Session* second = new_session(graph, status);
  TF_DeleteGraph(graph);
  end_session(session, status);
  CHECK_INT(run_one(second, x, 30, out(negative, 0), status), -32);
  TF_CloseSession(second, status);
  run_one(second, x, 3, out(sum, 0), status);
  CHECK_ERROR(status, TF_CANCELLED, "Session has been closed.");
  TF_DeleteSession(second, status);
}

static void check_targets_and_state(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_OperationDescription* desc = TF_NewOperation(graph, "VariableV2", "v");
  TF_SetAttrType(desc, "dtype", TF_INT32);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_Output v = out(TF_FinishOperation(desc, status), 0);
  CHECK_OK(status);
  TF_Operation* assign =
      binary(graph, "Assign", "assign", v, out(int32_constant(graph, "one", 1, status), 0), status);
  TF_Operation* add =
      binary(graph, "AssignAdd", "add", v, out(int32_constant(graph, "two", 2, status), 0), status);
  CHECK_OK(status);
  TF_Session* session = new_session(graph, status);
  run_one(session, out(NULL, 0), 0, v, status);
  CHECK_ERROR(status, TF_FAILED_PRECONDITION, "uninitialized value");
  const TF_Operation* targets[] = {assign};
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, 1, NULL, status);
  CHECK_OK(status);
  targets[0] = add;
  for (int i = 0; i < 3; ++i) {
    TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, 1, NULL, status);
    CHECK_OK(status);
  }
  CHECK_INT(run_one(session, out(NULL, 0), 0, v, status), 7);
  targets[0] = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, 1, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  end_session(session, status);
  TF_DeleteGraph(graph);
}

static void check_strings(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_STRING, status), 0);
  TF_Operation* same = unary(graph, "Identity", "same", x, status);
  TF_Session* session = new_session(graph, status);
  /* Two offsets, then "hello" and "" with their lengths; in the other order. */
  const int64_t dims[] = {2};
  TF_Tensor* input = TF_AllocateTensor(TF_STRING, dims, 1, 16 + 7);
  const uint64_t offsets[] = {1, 0};
  memcpy(TF_TensorData(input), offsets, 16);
  memcpy((char*)TF_TensorData(input) + 16, "\0\5hello", 7);
  TF_Output fetch = out(same, 0);
  TF_Tensor* output = NULL;
  TF_SessionRun(session, NULL, &x, &input, 1, &fetch, &output, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK_INT(TF_TensorType(output), TF_STRING);
  CHECK_INT(TF_TensorByteSize(output), 23);
  const uint64_t* found = TF_TensorData(output);
  CHECK(found[0] == 0 && found[1] == 6);
  CHECK(memcmp((const char*)TF_TensorData(output) + 16, "\5hello\0", 7) == 0);
  TF_DeleteTensor(output);
  memcpy(TF_TensorData(input), offsets, 8);
  ((uint64_t*)TF_TensorData(input))[1] = 1000;
  TF_SessionRun(session, NULL, &x, &input, 1, &fetch, &output, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Malformed TF_STRING tensor; element 1 out of range");
  TF_DeleteTensor(input);

  /* No elements: a tensor with its shape and no bytes. */
  const int64_t none[] = {0, 4};
  input = TF_AllocateTensor(TF_STRING, none, 2, 0);
  TF_SessionRun(session, NULL, &x, &input, 1, &fetch, &output, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK_INT(TF_Dim(output, 1), 4);
  CHECK_INT(TF_TensorByteSize(output), 0);
  TF_DeleteTensor(output);
  TF_DeleteTensor(input);
  end_session(session, status);
  TF_DeleteGraph(graph);
}

static void check_options(TF_Status* status) {
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_SetConfig(options,
               "\x0a\x07\x0a\x03"
               "CPU\x10\x02",
               9, status); /* device_count { CPU: 2 } */
  CHECK_OK(status);
  TF_SetConfig(options, "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable ConfigProto");
  TF_Graph* graph = TF_NewGraph();
  TF_Operation* one = int32_constant(graph, "one", 1, status);
  TF_Session* session = TF_NewSession(graph, options, status);
  CHECK_OK(status);
  TF_DeviceList* devices = TF_SessionListDevices(session, status);
  CHECK_OK(status);
  CHECK_INT(TF_DeviceListCount(devices), 2);
  CHECK_STR(TF_DeviceListName(devices, 1, status), "/job:localhost/replica:0/task:0/device:CPU:1");
  CHECK_STR(TF_DeviceListType(devices, 0, status), "CPU");
  CHECK(TF_DeviceListMemoryBytes(devices, 0, status) > 0);
  CHECK(TF_DeviceListIncarnation(devices, 0, status) != TF_DeviceListIncarnation(devices, 1, status));
  CHECK_OK(status);
  CHECK(TF_DeviceListName(devices, 2, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "index out of bounds");
  TF_DeleteDeviceList(devices);

  /* RunOptions { trace_level: FULL_TRACE } and metadata. */
  TF_Buffer* run_options = TF_NewBufferFromString("\x08\x03", 2);
  TF_Buffer* metadata = TF_NewBuffer();
  TF_Output fetch = out(one, 0);
  TF_Tensor* output = NULL;
  TF_SessionRun(session, run_options, NULL, NULL, 0, &fetch, &output, 1, NULL, 0, metadata, status);
  CHECK_OK(status);
  CHECK_INT(take_int32(output), 1);
  CHECK(metadata->data != NULL && metadata->length > 0);
  TF_SessionRun(session, run_options, NULL, NULL, 0, &fetch, &output, 1, NULL, 0, metadata, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Passing non-empty run_metadata is invalid.");
  TF_DeleteBuffer(metadata);
  TF_DeleteBuffer(run_options);
  run_options = TF_NewBufferFromString("\xff\xff", 2);
  TF_SessionRun(session, run_options, NULL, NULL, 0, &fetch, &output, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable RunOptions proto");
  TF_DeleteBuffer(run_options);
  end_session(session, status);

  TF_SetTarget(options, "nowhere://at.all");
  CHECK(TF_NewSession(graph, options, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
  TF_DeleteGraph(graph);
  TF_DeleteSessionOptions(options);
  TF_DeleteSessionOptions(NULL);
}

/* More different calls than a session keeps: each works, the first ones again at the end. */
static void check_many_calls(TF_Status* status) {
  enum { kCount = 1500 };
  static TF_Output fetches[kCount];
  TF_Graph* graph = TF_NewGraph();
  for (int i = 0; i < kCount; ++i) {
    char name[16];
    snprintf(name, sizeof name, "c%d", i);
    fetches[i] = out(int32_constant(graph, name, i, status), 0);
    CHECK_OK(status);
  }
  TF_Session* session = new_session(graph, status);
  for (int call = 0; call < kCount + 100; ++call) {
    const int i = call % kCount;
    TF_Tensor* value = NULL;
    TF_SessionRun(session, NULL, NULL, NULL, 0, &fetches[i], &value, 1, NULL, 0, NULL, status);
    CHECK_OK(status);
    CHECK(*(const int32_t*)TF_TensorData(value) == i);
    TF_DeleteTensor(value);
  }
  end_session(session, status);
  TF_DeleteGraph(graph);
}

static void check_partial_run(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output a = out(placeholder(graph, "a", TF_INT32, status), 0);
  TF_Output b = out(placeholder(graph, "b", TF_INT32, status), 0);
  TF_Output first = out(unary(graph, "Neg", "first", a, status), 0);
  TF_Output second = out(binary(graph, "Add", "second", first, b, status), 0);
  TF_Session* session = new_session(graph, status);
  const TF_Output feeds[] = {a, b};
  const TF_Output fetches[] = {first, second};
  const char* handle = NULL;
  TF_SessionPRunSetup(session, feeds, 2, fetches, 2, NULL, 0, &handle, status);
  CHECK_OK(status);
  CHECK(handle != NULL);
  TF_Tensor* input = int32_scalar(4);
  TF_Tensor* output = NULL;
  TF_SessionPRun(session, handle, &a, &input, 1, &first, &output, 1, NULL, 0, status);
  CHECK_OK(status);
  CHECK_INT(take_int32(output), -4);
  TF_SessionPRun(session, handle, &a, &input, 1, &second, &output, 1, NULL, 0, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT); /* fed before */
  TF_SessionPRun(session, handle, &b, &input, 1, &second, &output, 1, NULL, 0, status);
  CHECK_OK(status);
  CHECK_INT(take_int32(output), 0);
  TF_DeletePRunHandle(handle);
  TF_SessionPRun(session, "no such run", &b, &input, 1, &second, &output, 1, NULL, 0, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_SessionPRunSetup(session, feeds, 2, fetches, 2, NULL, 0, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeletePRunHandle(NULL);
  TF_DeleteTensor(input);
  end_session(session, status);
  TF_DeleteGraph(graph);
}

static void check_null(TF_Status* status) {
  TF_SessionRun(NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_Session* session = TF_NewSession(NULL, NULL, status);
  CHECK_OK(status);
  TF_SessionRun(session, NULL, NULL, NULL, 1, NULL, NULL, 0, NULL, 0, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, -1, NULL, 0, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  end_session(session, status);
  TF_DeleteSession(NULL, status);
  CHECK(TF_SessionListDevices(NULL, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
}

void test_sessions(void) {
  TF_Status* status = TF_NewStatus();
  check_growing_graph(status);
  check_targets_and_state(status);
  check_strings(status);
  check_options(status);
  check_many_calls(status);
  check_partial_run(status);
  check_null(status);
  TF_DeleteStatus(status);
}

void test_deprecated_sessions(void) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_Output a = out(placeholder(graph, "a", TF_INT32, status), 0);
  TF_Output b = out(placeholder(graph, "b", TF_INT32, status), 0);
  TF_Output minus = out(unary(graph, "Neg", "minus", a, status), 0);
  binary(graph, "Add", "sum", minus, b, status);
  TF_Buffer* def = TF_NewBuffer();
  TF_GraphToGraphDef(graph, def, status);
  CHECK_OK(status);
  TF_DeleteGraph(graph);

  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_DeprecatedSession* session = TF_NewDeprecatedSession(options, status);
  CHECK_OK(status);
  TF_ExtendGraph(session, "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid GraphDef");
  TF_ExtendGraph(session, def->data, def->length, status);
  CHECK_OK(status);
  const char* inputs[] = {"a", "b:0"};
  const char* outputs[] = {"sum:0"};
  const char* targets[] = {"minus"};
  TF_Tensor* values[] = {int32_scalar(1), int32_scalar(10)};
  TF_Tensor* result = NULL;
  TF_Buffer* metadata = TF_NewBuffer();
  TF_Run(session, NULL, inputs, values, 2, outputs, &result, 1, targets, 1, metadata, status);
  CHECK_OK(status);
  CHECK_INT(take_int32(result), 9);
  TF_DeleteBuffer(metadata);
  outputs[0] = "nobody:0";
  TF_Run(session, NULL, inputs, values, 2, outputs, &result, 1, NULL, 0, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  CHECK(result == NULL);
  outputs[0] = "sum:0";
  TF_Run(session, NULL, NULL, values, 2, outputs, &result, 1, NULL, 0, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);

  const char* handle = NULL;
  TF_PRunSetup(session, inputs, 2, outputs, 1, NULL, 0, &handle, status);
  CHECK_OK(status);
  TF_PRun(session, handle, inputs, values, 1, NULL, NULL, 0, NULL, 0, status);
  CHECK_OK(status);
  TF_PRun(session, handle, inputs + 1, values + 1, 1, outputs, &result, 1, NULL, 0, status);
  CHECK_OK(status);
  CHECK_INT(take_int32(result), 9);
  TF_DeletePRunHandle(handle);

  TF_DeviceList* devices = TF_DeprecatedSessionListDevices(session, status);
  CHECK(TF_DeviceListCount(devices) >= 1);
  CHECK(strcmp(TF_DeviceListName(devices, 0, status), "/job:localhost/replica:0/task:0/device:CPU:0") == 0);
  TF_DeleteDeviceList(devices);
  TF_Reset(options, NULL, 0, status);
  CHECK_OK(status);
  TF_Run(session, NULL, inputs, values, 2, outputs, &result, 1, NULL, 0, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_CANCELLED);
  TF_CloseDeprecatedSession(session, status);
  CHECK_OK(status);
  TF_DeleteDeprecatedSession(session, status);
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
  TF_DeleteBuffer(def);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
}
