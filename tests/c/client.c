/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Changes of finished operations, and what else include/millrace/c/client.h offers. */
#include "millrace/c/client.h"

#include "check.h"

#include <string.h>

static void check_changes(TF_Graph* graph, TF_Status* status) {
  TF_Operation* a = int32_constant(graph, "a", 3, status);
  TF_Operation* b = int32_constant(graph, "b", 4, status);
  TF_Operation* sum = binary(graph, "Add", "sum", out(a, 0), out(a, 0), status);
  CHECK_OK(status);
  CHECK(Millrace_OperationId(a) >= 2);
  CHECK(Millrace_OperationId(sum) > Millrace_OperationId(b));
  CHECK_INT(Millrace_GraphNumIds(graph), Millrace_OperationId(sum) + 1);
  CHECK(Millrace_OperationOfId(graph, Millrace_OperationId(b)) == b);
  CHECK(Millrace_OperationOfId(graph, 1000) == NULL);

  Millrace_AddControlInput(graph, sum, b, status);
  CHECK_OK(status);
  CHECK_INT(TF_OperationNumControlInputs(sum), 1);
  Millrace_RemoveAllControlInputs(graph, sum, status);
  CHECK_OK(status);
  CHECK_INT(TF_OperationNumControlInputs(sum), 0);

  const TF_Input second = {sum, 1};
  Millrace_UpdateInput(graph, out(b, 0), second, status);
  CHECK_OK(status);
  CHECK(TF_OperationInput(second).oper == b);
  Millrace_UpdateInput(graph, out(sum, 0), second, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "cycle");
  const TF_Input none = {sum, 7};
  Millrace_UpdateInput(graph, out(b, 0), none, status);
  CHECK_ERROR(status, TF_OUT_OF_RANGE, "does not have input 7");

  Millrace_SetRequestedDevice(graph, sum, "/device:CPU:0", status);
  CHECK_OK(status);
  CHECK_STR(TF_OperationDevice(sum), "/device:CPU:0");
  const char truth[] = {0x28, 0x01}; /* an AttrValue with b: true */
  Millrace_SetAttr(graph, sum, "_flag", truth, sizeof(truth), status);
  CHECK_OK(status);
  unsigned char flag = 0;
  TF_OperationGetAttrBool(sum, "_flag", &flag, status);
  CHECK_OK(status);
  CHECK_INT(flag, 1);
  Millrace_ClearAttr(graph, sum, "_flag", status);
  CHECK_OK(status);
  TF_OperationGetAttrBool(sum, "_flag", &flag, status);
  CHECK(TF_GetCode(status) != TF_OK);
  Millrace_SetAttr(graph, sum, "_flag", "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable AttrValue");
  Millrace_SetMinConsumer(graph, 12);
}

static void check_handles(TF_Graph* graph, TF_Status* status) {
  TF_Output handle = out(placeholder(graph, "handle", TF_RESOURCE, status), 0);
  TF_DataType dtype = TF_FLOAT;
  int64_t dims[2] = {0, 0};
  int rank = 0;
  CHECK_INT(Millrace_GetHandleShapeAndType(graph, handle, &dtype, dims, 2, &rank), 0);
  const int64_t wanted[2] = {5, -1};
  Millrace_SetHandleShapeAndType(graph, handle, TF_INT64, wanted, 2, status);
  CHECK_OK(status);
  CHECK_INT(Millrace_GetHandleShapeAndType(graph, handle, &dtype, dims, 2, &rank), 1);
  CHECK_INT(dtype, TF_INT64);
  CHECK_INT(rank, 2);
  CHECK_INT(dims[0], 5);
  CHECK_INT(dims[1], -1);
}

/* Gives its input, one larger. */
static void add_one(const char* token, size_t token_len, TF_Tensor* const* inputs, int num_inputs,
                    TF_Tensor** outputs, int num_outputs, TF_Status* status) {
  if (num_inputs != 1 || num_outputs != 1 || token_len != 3 || strncmp(token, "one", 3) != 0) {
    TF_SetStatus(status, TF_INVALID_ARGUMENT, "another function");
    return;
  }
  outputs[0] = int32_scalar(*(const int32_t*)TF_TensorData(inputs[0]) + 1);
}

static TF_Operation* py_func(TF_Graph* graph, const char* name, const char* token, TF_Operation* input,
                             TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, "PyFunc", name);
  const TF_Output inputs[1] = {{input, 0}};
  const TF_DataType types[1] = {TF_INT32};
  TF_AddInputList(desc, inputs, 1);
  TF_SetAttrTypeList(desc, "Tout", types, 1);
  TF_SetAttrString(desc, "token", token, strlen(token));
  return TF_FinishOperation(desc, status);
}

static void check_calls(TF_Graph* graph, TF_Status* status) {
  Millrace_SetPyFuncCallback(add_one);
  TF_Operation* x = int32_constant(graph, "x", 41, status);
  const TF_Output good = out(py_func(graph, "good", "one", x, status), 0);
  const TF_Output bad = out(py_func(graph, "bad", "two", x, status), 0);
  CHECK_OK(status);
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session = TF_NewSession(graph, options, status);
  TF_DeleteSessionOptions(options);
  Millrace_ExtendSession(session, status);
  CHECK_OK(status);
  Millrace_CancelSteps(session); /* none is in progress */
  TF_Tensor* result = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &good, &result, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  if (result != NULL) CHECK_INT(take_int32(result), 42);
  result = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &bad, &result, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "another function");
  TF_DeleteSession(session, status);
}

static int holds(const TF_Buffer* buffer, const char* text) {
  const char* bytes = buffer->data;
  for (size_t i = 0; i + strlen(text) <= buffer->length; ++i) {
    if (memcmp(bytes + i, text, strlen(text)) == 0) return 1;
  }
  return 0;
}

static void check_page(TF_Graph* graph, TF_Status* status) {
  TF_Buffer* def = TF_NewBuffer();
  TF_GraphToGraphDef(graph, def, status);
  CHECK_OK(status);
  TF_Buffer* page = Millrace_GraphPage(def->data, def->length, "a <title>", status);
  CHECK_OK(status);
  CHECK(holds(page, "<title>a &#60;title&#62; – graph</title>"));
  CHECK(holds(page, "\"handle\""));
  TF_DeleteBuffer(page);
  page = Millrace_GraphPage(NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK(holds(page, "0 nodes, 0 edges"));
  TF_DeleteBuffer(page);
  CHECK(Millrace_GraphPage("\xff\xff", 2, "t", status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid GraphDef");
  TF_DeleteBuffer(def);
}

static void check_elementwise_kinds(void) {
  CHECK(Millrace_ElementwiseKind("Exp") == 1);
  CHECK(Millrace_ElementwiseKind("Xlogy") == 2);
  CHECK(Millrace_ElementwiseKind("TanhGrad") == 3);
  CHECK(Millrace_ElementwiseKind("MatMul") == 0);
  CHECK(Millrace_ElementwiseKind("NoSuchOp") == 0);
  CHECK(Millrace_ElementwiseKind(NULL) == 0);
}

/* A session has the operations of its creation's graph, and those that an extension gives it. */
static void check_seen_operations(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  int32_constant(graph, "one", 1, status);
  CHECK_OK(status);
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session = TF_NewSession(graph, options, status);
  CHECK_OK(status);
  Millrace_ExtendSession(session, status);
  CHECK_OK(status);
  const int first = Millrace_SessionNumIds(session);
  CHECK(first > 0);
  int32_constant(graph, "two", 2, status);
  CHECK_OK(status);
  CHECK_INT(Millrace_SessionNumIds(session), first);
  Millrace_ExtendSession(session, status);
  CHECK_OK(status);
  CHECK_INT(Millrace_SessionNumIds(session), first + 1);
  CHECK_INT(Millrace_SessionNumIds(NULL), 0);
  TF_DeleteSession(session, status);
  CHECK_OK(status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
}

void test_client(void) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  check_changes(graph, status);
  check_handles(graph, status);
  check_calls(graph, status);
  check_page(graph, status);
  check_elementwise_kinds();
  check_seen_operations(status);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}
