/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

int32_t run_graph(TF_Graph* graph, TF_Output feed, int32_t value, TF_Output fetch, TF_Status* status);

static int has(const TF_Buffer* buffer, const char* text) {
  const size_t length = strlen(text);
  for (size_t i = 0; buffer != NULL && i + length <= buffer->length; ++i) {
    if (memcmp((const char*)buffer->data + i, text, length) == 0) return 1;
  }
  return 0;
}

void test_op_lists(void) {
  TF_Status* status = TF_NewStatus();
  TF_Buffer* ops = TF_GetAllOpList();
  CHECK(has(ops, "\x0a\x06MatMul"));
  CHECK(has(ops, "Placeholder"));
  TF_DeleteBuffer(ops);
  TF_Buffer* kernels = TF_GetAllRegisteredKernels(status);
  CHECK_OK(status);
  CHECK(has(kernels,
            "\x0a\x06MatMul\x12\x03"
            "CPU"));
  TF_Buffer* matmul = TF_GetRegisteredKernelsForOp("MatMul", status);
  CHECK_OK(status);
  CHECK(matmul->length > 0 && matmul->length < kernels->length);
  /* constraint { name: "T" allowed_values { list { type: DT_FLOAT */
  CHECK(has(matmul, "\x0a\x01T\x12"));
  CHECK(!has(matmul, "Placeholder"));
  TF_DeleteBuffer(matmul);
  TF_DeleteBuffer(kernels);
  kernels = TF_GetRegisteredKernelsForOp("NoSuchOp", status);
  CHECK_OK(status);
  CHECK_INT(kernels->length, 0);
  TF_DeleteBuffer(kernels);
  TF_DeleteStatus(status);
}

static void put(TF_ApiDefMap* map, const char* text, TF_Status* status) {
  TF_ApiDefMapPut(map, text, strlen(text), status);
}

void test_api_defs(void) {
  TF_Status* status = TF_NewStatus();
  TF_Buffer* broken = TF_NewBufferFromString("\xff\xff", 2);
  CHECK(TF_NewApiDefMap(broken, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable OpList");
  TF_DeleteBuffer(broken);
  TF_Buffer* ops = TF_GetAllOpList();
  TF_ApiDefMap* map = TF_NewApiDefMap(ops, status);
  CHECK_OK(status);
  TF_DeleteBuffer(ops);
  put(map,
      "op {\n  graph_op_name: \"MatMul\"\n  in_arg {\n    name: \"a\"\n    rename_to: \"left\"\n"
      "    description: <<END\nThe \"left\" one,\nof two.\nEND\n  }\n  summary: \"Uses `a` twice\"\n"
      "  visibility: HIDDEN\n}\n",
      status);
  CHECK_OK(status);
  put(map, "op { graph_op_name: \"MatMul\" in_arg { name: \"none\" } }", status);
  CHECK_ERROR(status, TF_FAILED_PRECONDITION, "Argument none not defined in base api for MatMul");
  put(map, "op { graph_op_name: \"MatMul\" arg_order: \"a\" }", status);
  CHECK_INT(TF_GetCode(status), TF_FAILED_PRECONDITION);
  put(map, "op { nothing: 1 }", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Failed to parse ApiDefs: 1:13: ");
  put(map, "op {\n summary: <<END\nwithout an end", status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  put(map, "op { graph_op_name: \"NoSuchOp\" summary: \"ignored\" }", status);
  CHECK_OK(status);

  TF_Buffer* api = TF_ApiDefMapGet(map, "MatMul", 6, status);
  CHECK_OK(status);
  CHECK(has(api, "\x0a\x06MatMul\x10\x03")); /* HIDDEN */
  CHECK(has(api, "The \"left\" one,\nof two."));
  CHECK(has(api, "Uses `left` twice"));
  TF_DeleteBuffer(api);
  CHECK(TF_ApiDefMapGet(map, "NoSuchOp", 8, status) == NULL);
  CHECK_OK(status);
  put(map, "op { graph_op_name: \"MatMul\" }", status);
  CHECK_ERROR(status, TF_FAILED_PRECONDITION,
              "TF_ApiDefMapPut cannot be called after TF_ApiDefMapGet has been called.");
  TF_DeleteApiDefMap(map);
  TF_DeleteApiDefMap(NULL);
  TF_DeleteStatus(status);
}

void test_libraries(void) {
  TF_Status* status = TF_NewStatus();
  CHECK(TF_LoadLibrary("/nowhere/libnone.so", status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "libnone.so");
  CHECK(TF_LoadLibrary(NULL, status) == NULL);
  TF_Library* library = TF_LoadLibrary(USER_OP_LIBRARY, status);
  CHECK_OK(status);
  TF_Buffer list = TF_GetOpList(library);
  CHECK(has(&list, "UserPlusOne"));
  CHECK(!has(&list, "MatMul"));
  TF_Library* again = TF_LoadLibrary(USER_OP_LIBRARY, status);
  CHECK_OK(status);
  list = TF_GetOpList(again);
  CHECK(has(&list, "UserPlusOne"));
  TF_DeleteLibraryHandle(again);
  TF_DeleteLibraryHandle(library);
  TF_DeleteLibraryHandle(NULL);
  CHECK_INT(TF_GetOpList(NULL).length, 0);

  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Operation* y = unary(graph, "UserPlusOne", "y", x, status);
  CHECK_OK(status);
  CHECK_INT(run_graph(graph, x, 41, out(y, 0), status), 42);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

static TF_Operation* scale(TF_Graph* graph, const char* name, TF_Output x, int64_t by, TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, "UserScale", name);
  TF_AddInput(desc, x);
  TF_SetAttrInt(desc, "by", by);
  return TF_FinishOperation(desc, status);
}

static void check_refused(TF_Graph* graph, TF_Output x, TF_Output fetch, TF_Code code, const char* text) {
  TF_Status* status = TF_NewStatus();
  TF_Session* session = TF_NewSession(graph, NULL, status);
  TF_Tensor* value = int32_scalar(1);
  TF_Tensor* result = NULL;
  TF_SessionRun(session, NULL, &x, &value, 1, &fetch, &result, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, code, text);
  TF_DeleteTensor(value);
  TF_DeleteSession(session, status);
  TF_DeleteStatus(status);
}

void test_libraries_in_cpp(void) {
  TF_Status* status = TF_NewStatus();
  TF_Library* library = TF_LoadLibrary(USER_OP_CPP_LIBRARY, status);
  CHECK_OK(status);
  TF_Buffer list = TF_GetOpList(library);
  CHECK(has(&list, "UserScale"));
  TF_DeleteLibraryHandle(library);
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  const int64_t dims[] = {3};
  TF_GraphSetTensorShape(graph, x, dims, 0, status);
  TF_Operation* y = scale(graph, "y", x, 7, status);
  CHECK_OK(status);
  CHECK_INT(TF_GraphGetTensorNumDims(graph, out(y, 0), status), 0);
  CHECK_INT(run_graph(graph, x, 6, out(y, 0), status), 42);
  check_refused(graph, x, out(scale(graph, "zero", x, 0, status), 0), TF_INVALID_ARGUMENT,
                "by must not be 0");
  check_refused(graph, x, out(scale(graph, "bad", x, 13, status), 0), TF_INTERNAL, "thirteen is not for us");
  /* The library registered a gradient: of 5 * (7 * v) it is 35. */
  TF_Output v = out(placeholder(graph, "v", TF_FLOAT, status), 0);
  TF_Output scaled = out(scale(graph, "five", out(scale(graph, "seven", v, 7, status), 0), 5, status), 0);
  CHECK_OK(status);
  TF_Output slope = {NULL, -1};
  TF_AddGradients(graph, &scaled, 1, &v, 1, NULL, status, &slope);
  CHECK_OK(status);
  TF_Session* session = TF_NewSession(graph, NULL, status);
  const float one_value[] = {1};
  TF_Tensor* one = float_vector(one_value, 1);
  TF_Tensor* result = NULL;
  TF_SessionRun(session, NULL, &v, &one, 1, &slope, &result, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK(*(const float*)TF_TensorData(result) == 35);
  TF_DeleteTensor(result);
  TF_DeleteTensor(one);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

// The one task of a cluster, at any port, field by field.
static const char kServerDef[] =
    "\x0a\x16\x0a\x14\x0a\x01w\x12\x0f\x08\x00\x12\x0blocalhost:0"
    "\x12\x01w"
    "\x2a\x04grpc";

void test_servers(void) {
  TF_Status* status = TF_NewStatus();
  CHECK(TF_NewServer("\xff\xff", 2, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Could not parse provided bytes into a ServerDef protocol buffer");
  CHECK(TF_NewServer(NULL, 0, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
  TF_ServerStart(NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_ServerStop(NULL, status);
  TF_ServerJoin(NULL, status);
  CHECK(TF_ServerTarget(NULL) == NULL);
  TF_DeleteServer(NULL);

  TF_Server* server = TF_NewServer(kServerDef, sizeof(kServerDef) - 1, status);
  CHECK_OK(status);
  CHECK(strncmp(TF_ServerTarget(server), "grpc://localhost:", 17) == 0);
  TF_ServerStart(server, status);
  TF_ServerStart(server, status);
  CHECK_OK(status);
  TF_Graph* graph = TF_NewGraph();
  TF_Operation* three = int32_constant(graph, "three", 3, status);
  CHECK_OK(status);
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_SetTarget(options, TF_ServerTarget(server));
  TF_Session* session = TF_NewSession(graph, options, status);
  CHECK_OK(status);
  const TF_Output fetch = out(three, 0);
  TF_Tensor* value = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &fetch, &value, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK_INT(take_int32(value), 3);
  TF_DeviceList* devices = TF_SessionListDevices(session, status);
  CHECK_OK(status);
  CHECK_STR(TF_DeviceListName(devices, 0, status), "/job:w/replica:0/task:0/device:CPU:0");
  TF_DeleteDeviceList(devices);
  TF_ServerStop(server, status);
  TF_ServerStop(server, status);
  TF_ServerJoin(server, status);
  CHECK_OK(status);
  TF_SessionRun(session, NULL, NULL, NULL, 0, &fetch, &value, 1, NULL, 0, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_UNAVAILABLE);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteServer(server);
  TF_DeleteStatus(status);
}

static int g_lines = 0;
static void listener(const char* line) { g_lines += strchr(line, '\n') != NULL; }

/* Placement is logged when the session is asked to. */
void test_log(void) {
  TF_RegisterLogListener(NULL);
  TF_RegisterLogListener(listener);
  TF_Status* status = TF_NewStatus();
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_SetConfig(options, "\x40\x01", 2, status); /* log_device_placement */
  CHECK_OK(status);
  TF_Graph* graph = TF_NewGraph();
  TF_Output one = out(int32_constant(graph, "one", 1, status), 0);
  TF_Session* session = TF_NewSession(graph, options, status);
  TF_Tensor* value = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &one, &value, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK_INT(take_int32(value), 1);
  CHECK(g_lines > 0);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
}
