/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

int32_t run_graph(TF_Graph* graph, TF_Output feed, int32_t value, TF_Output fetch, TF_Status* status) {
  TF_Session* session = TF_NewSession(graph, NULL, status);
  CHECK_OK(status);
  TF_Tensor* input = int32_scalar(value);
  TF_Tensor* output = NULL;
  TF_SessionRun(session, NULL, &feed, &input, feed.oper == NULL ? 0 : 1, &fetch, &output, 1, NULL, 0, NULL,
                status);
  CHECK_OK(status);
  const int32_t result = output == NULL ? INT32_MIN : take_int32(output);
  TF_DeleteTensor(input);
  TF_Status* ignored = TF_NewStatus();
  TF_DeleteSession(session, ignored);
  TF_DeleteStatus(ignored);
  return result;
}

/* f(x) = x + 10 */
static TF_Function* plus_ten(const char* name, unsigned char append_hash, const char* output_name,
                             TF_Status* status) {
  TF_Graph* body = TF_NewGraph();
  TF_Output x = out(placeholder(body, "Feed.X", TF_INT32, status), 0);
  TF_Output ten = out(int32_constant(body, "ten", 10, status), 0);
  TF_Output sum = out(binary(body, "Add", "sum", x, ten, status), 0);
  TF_Function* function =
      TF_GraphToFunction(body, name, append_hash, -1, NULL, 1, &x, 1, &sum,
                         output_name == NULL ? NULL : &output_name, NULL, "adds ten", status);
  CHECK_OK(status);
  TF_DeleteGraph(body);
  return function;
}

static void check_call(TF_Status* status) {
  TF_Function* function = plus_ten("PlusTen", 0, "result", status);
  CHECK_STR(TF_FunctionName(function), "PlusTen");
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  CHECK(unary(graph, "PlusTen", "early", x, status) == NULL);
  TF_GraphCopyFunction(graph, function, NULL, status);
  CHECK_OK(status);
  TF_GraphCopyFunction(graph, function, NULL, status); /* the same again changes nothing */
  CHECK_OK(status);
  TF_GraphCopyFunction(graph, NULL, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "'func' argument to TF_GraphCopyFunction cannot be null");
  CHECK_INT(TF_GraphNumFunctions(graph), 1);
  TF_DeleteFunction(function);
  TF_DeleteFunction(NULL);
  TF_Operation* call = unary(graph, "PlusTen", "call", x, status);
  CHECK_OK(status);
  CHECK_INT(TF_OperationOutputListLength(call, "result", status), 1);
  CHECK_INT(run_graph(graph, x, 5, out(call, 0), status), 15);

  TF_Function* found[2] = {NULL, NULL};
  CHECK_INT(TF_GraphGetFunctions(graph, found, 2, status), 1);
  CHECK_OK(status);
  CHECK_STR(TF_FunctionName(found[0]), "PlusTen");
  TF_DeleteFunction(found[0]);

  /* Another function of the same name. */
  TF_Function* other = plus_ten("PlusTen", 0, "other", status);
  TF_GraphCopyFunction(graph, other, NULL, status);
  CHECK_ERROR(
      status, TF_INVALID_ARGUMENT,
      "Cannot add function 'PlusTen' because a different function with the same name already exists.");
  TF_DeleteFunction(other);
  other = plus_ten("MatMul", 0, NULL, status);
  TF_GraphCopyFunction(graph, other, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Cannot add function 'MatMul' because an op with the same name already exists.");
  TF_DeleteFunction(other);
  TF_DeleteGraph(graph);
}

static void check_messages(TF_Status* status) {
  TF_Function* function = plus_ten("f", 1, NULL, status);
  CHECK(strncmp(TF_FunctionName(function), "f_", 2) == 0);
  CHECK_INT(strlen(TF_FunctionName(function)), 13);
  TF_Function* same = plus_ten("f", 1, NULL, status);
  CHECK_STR(TF_FunctionName(same), TF_FunctionName(function));
  TF_DeleteFunction(same);
  TF_Buffer* def = TF_NewBuffer();
  TF_FunctionToFunctionDef(function, def, status);
  CHECK_OK(status);
  TF_Function* copy = TF_FunctionImportFunctionDef(def->data, def->length, status);
  CHECK_OK(status);
  CHECK_STR(TF_FunctionName(copy), TF_FunctionName(function));
  TF_DeleteBuffer(def);
  CHECK(TF_FunctionImportFunctionDef("\xff\xff", 2, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid FunctionDef given to TF_FunctionImportFunctionDef");
  TF_FunctionSetAttrValueProto(copy, "_noinline", "\x28\x01", 2, status);
  CHECK_OK(status);
  def = TF_NewBuffer();
  TF_FunctionGetAttrValueProto(copy, "_noinline", def, status);
  CHECK_OK(status);
  CHECK(def->length == 2 && memcmp(def->data, "\x28\x01", 2) == 0);
  TF_DeleteBuffer(def);
  def = TF_NewBuffer();
  TF_FunctionGetAttrValueProto(copy, "none", def, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  CHECK_HAS(TF_Message(status), "has no attr named 'none'.");
  TF_DeleteBuffer(def);
  TF_FunctionSetAttrValueProto(copy, "a", "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable AttrValue proto");
  TF_DeleteFunction(copy);
  TF_DeleteFunction(function);
}

static void check_bad_bodies(TF_Status* status) {
  TF_Graph* body = TF_NewGraph();
  TF_Output x = out(placeholder(body, "x", TF_INT32, status), 0);
  TF_Output y = out(unary(body, "Neg", "y", x, status), 0);
  TF_Output z = out(unary(body, "Neg", "z", y, status), 0);
  const TF_Operation* only_z[] = {z.oper};
  CHECK(TF_GraphToFunction(body, "f", 0, 1, only_z, 1, &x, 1, &z, NULL, NULL, NULL, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Input 0, 'y:0', of node 'z' in function 'f' is not available. You might need to include it in "
              "inputs or include its source node in the body");
  const TF_Output twice[] = {x, x};
  CHECK(TF_GraphToFunction(body, "f", 0, -1, NULL, 2, twice, 1, &z, NULL, NULL, NULL, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "TF_Output x:0 appears more than once in the input list");
  CHECK(TF_GraphToFunction(body, "f", 0, 1, only_z, 1, &y, 1, &x, NULL, NULL, NULL, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "TF_Output x:0 is neither in the function body nor among function");
  const TF_Output outputs[] = {y, z};
  const char* const names[] = {"n", "n"};
  CHECK(TF_GraphToFunction(body, "f", 0, -1, NULL, 1, &x, 2, outputs, names, NULL, NULL, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Cannot have duplicate output names. Name 'n' appears more than once");
  TF_Output none = out(x.oper, 7);
  CHECK(TF_GraphToFunction(body, "f", 0, -1, NULL, 1, &none, 1, &z, NULL, NULL, NULL, status) == NULL);
  CHECK_HAS(TF_Message(status), "Encountered while processing input 0 into function 'f'");
  CHECK(TF_GraphToFunction(NULL, "f", 0, -1, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);

  const TF_Operation* controls[] = {y.oper};
  const char* const control_names[] = {"effect"};
  TF_Function* f = TF_GraphToFunctionWithControlOutputs(body, "f", 0, -1, NULL, 1, &x, 1, &z, NULL, 1,
                                                        controls, control_names, NULL, NULL, status);
  CHECK_OK(status);
  TF_DeleteFunction(f);
  TF_DeleteGraph(body);
}

/* The gradient of a function is the registered one: here 3 * dy, which is not the derivative. */
static void check_gradient(TF_Status* status) {
  TF_Function* function = plus_ten("f", 0, NULL, status);
  TF_Graph* body = TF_NewGraph();
  TF_Output ends[] = {out(placeholder(body, "x", TF_INT32, status), 0),
                      out(placeholder(body, "dy", TF_INT32, status), 0)};
  TF_Output dx =
      out(binary(body, "Mul", "dx", ends[1], out(int32_constant(body, "three", 3, status), 0), status), 0);
  TF_Function* gradient =
      TF_GraphToFunction(body, "df", 0, -1, NULL, 2, ends, 1, &dx, NULL, NULL, NULL, status);
  CHECK_OK(status);
  TF_DeleteGraph(body);
  TF_Graph* graph = TF_NewGraph();
  TF_GraphCopyFunction(graph, function, gradient, status);
  CHECK_OK(status);
  CHECK_INT(TF_GraphNumFunctions(graph), 2);
  TF_Buffer* def = TF_NewBuffer();
  TF_GraphToGraphDef(graph, def, status);
  CHECK_OK(status);
  /* FunctionDefLibrary.gradient { function_name: "f" gradient_func: "df" } */
  int found = 0;
  for (size_t i = 0; i + 7 <= def->length; ++i) {
    found |= memcmp((const char*)def->data + i,
                    "\x0a\x01"
                    "f\x12\x02"
                    "df",
                    7) == 0;
  }
  CHECK(found);
  TF_DeleteBuffer(def);
  TF_DeleteGraph(graph);
  TF_DeleteFunction(function);
  TF_DeleteFunction(gradient);
}

static int has_bytes(const TF_Buffer* buffer, const char* bytes) {
  const size_t length = strlen(bytes);
  for (size_t i = 0; i + length <= buffer->length; ++i) {
    if (memcmp((const char*)buffer->data + i, bytes, length) == 0) return 1;
  }
  return 0;
}

/* Inputs, results and nodes share one space of names; what waits for an input waits for the parameter. */
static void check_names(TF_Status* status) {
  TF_Graph* body = TF_NewGraph();
  TF_OperationDescription* desc = TF_NewOperation(body, "Placeholder", "feed");
  TF_SetAttrType(desc, "dtype", TF_INT32);
  TF_SetAttrString(desc, "_mark", "value", 5);
  TF_Output x = out(TF_FinishOperation(desc, status), 0);
  TF_Output outside = out(int32_constant(body, "outside", 1, status), 0);
  desc = TF_NewOperation(body, "Neg", "y");
  TF_AddInput(desc, x);
  TF_AddControlInput(desc, x.oper);
  TF_Output y = out(TF_FinishOperation(desc, status), 0);
  CHECK_OK(status);
  const TF_Operation* opers[] = {y.oper};
  TF_Function* function = TF_GraphToFunction(body, "f", 0, 1, opers, 1, &x, 1, &y, NULL, NULL, NULL, status);
  CHECK_OK(status);
  TF_Buffer* def = TF_NewBuffer();
  TF_FunctionToFunctionDef(function, def, status);
  CHECK(has_bytes(def, "y_0:y:0"));
  CHECK(has_bytes(def, "^feed"));
  CHECK(has_bytes(def, "_mark"));
  TF_DeleteBuffer(def);
  TF_Graph* graph = TF_NewGraph();
  TF_GraphCopyFunction(graph, function, NULL, status);
  TF_Output in = out(placeholder(graph, "in", TF_INT32, status), 0);
  CHECK_INT(run_graph(graph, in, 5, out(unary(graph, "f", "call", in, status), 0), status), -5);
  TF_DeleteGraph(graph);
  TF_DeleteFunction(function);

  desc = TF_NewOperation(body, "Neg", "z");
  TF_AddInput(desc, x);
  TF_AddControlInput(desc, outside.oper);
  TF_Output z = out(TF_FinishOperation(desc, status), 0);
  opers[0] = z.oper;
  CHECK(TF_GraphToFunction(body, "f", 0, 1, opers, 1, &x, 1, &z, NULL, NULL, NULL, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, " outside:-1 -> z:-1] is not in the body. Encountered while");
  const char* const taken[] = {"feed"};
  CHECK(TF_GraphToFunction(body, "f", 0, -1, NULL, 1, &x, 1, &y, taken, NULL, NULL, status) == NULL);
  CHECK_HAS(TF_Message(status), "Cannot have duplicate output names. Name 'feed'");
  TF_DeleteGraph(body);
}

/* Attributes of nodes that are attributes of the function. */
static void check_placeholders(TF_Status* status) {
  TF_Graph* body = TF_NewGraph();
  TF_Output outputs[3];
  const char* const names[3] = {"node1", "node2", "node3"};
  for (int i = 0; i < 3; ++i) {
    TF_OperationDescription* desc = TF_NewOperation(body, "Placeholder", names[i]);
    TF_SetAttrType(desc, "dtype", TF_INT32);
    TF_SetAttrPlaceholder(desc, "shape", i == 2 ? "v2" : "v1");
    outputs[i] = out(TF_FinishOperation(desc, status), 0);
    CHECK_OK(status);
  }
  TF_Function* function =
      TF_GraphToFunction(body, "f", 0, -1, NULL, 0, NULL, 3, outputs, NULL, NULL, NULL, status);
  CHECK_OK(status);
  TF_Buffer* def = TF_NewBuffer();
  TF_FunctionToFunctionDef(function, def, status);
  CHECK(has_bytes(def, "\n\x02v1\x12\x05shape") && has_bytes(def, "\n\x02v2\x12\x05shape"));
  TF_DeleteBuffer(def);
  TF_DeleteFunction(function);
  TF_Session* session = TF_NewSession(body, NULL, status);
  TF_Tensor* value = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, outputs, &value, 1, NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "AttrValue had value with unexpected type 'placeholder'");
  TF_DeleteSession(session, status);
  TF_DeleteGraph(body);
}

/* FunctionDef of a function whose arguments are named like nodes: a, scope/Mul -> Add; with a `ret` too many.
 */
static void check_foreign_names(TF_Status* status) {
  static const char kDef[] =
      "\x0a\x22\x0a\x01g\x12\x05\x0a\x01"
      "A\x18\x03\x12\x0d\x0a\x09scope/Mul\x18\x03\x1a\x07\x0a\x03"
      "Add\x18\x03"
      "\x1a\x21\x0a\x03sum\x12\x03"
      "Add\x1a\x01"
      "A\x1a\x09scope/Mul*\x07\x0a\x01T\x12\x02\x30\x03"
      "\x22\x0e\x0a\x03"
      "Add\x12\x07sum:z:0"
      "\x22\x0e\x0a\x03"
      "Sub\x12\x07sum:z:0";
  TF_Function* function = TF_FunctionImportFunctionDef(kDef, sizeof(kDef) - 1, status);
  CHECK_OK(status);
  TF_Graph* graph = TF_NewGraph();
  TF_GraphCopyFunction(graph, function, NULL, status);
  CHECK_OK(status);
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Output call = out(binary(graph, "g", "call", x, x, status), 0);
  CHECK_OK(status);
  CHECK_INT(run_graph(graph, x, 21, call, status), 42);
  TF_DeleteGraph(graph);
  TF_DeleteFunction(function);
}

void test_functions(void) {
  TF_Status* status = TF_NewStatus();
  check_names(status);
  check_placeholders(status);
  check_foreign_names(status);
  check_call(status);
  check_messages(status);
  check_bad_bodies(status);
  check_gradient(status);
  TF_DeleteStatus(status);
}

static float run_float(TF_Graph* graph, TF_Output feed, float value, TF_Output fetch, TF_Status* status) {
  TF_Session* session = TF_NewSession(graph, NULL, status);
  CHECK_OK(status);
  TF_Tensor* input = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float));
  *(float*)TF_TensorData(input) = value;
  TF_Tensor* output = NULL;
  TF_SessionRun(session, NULL, &feed, &input, 1, &fetch, &output, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  TF_DeleteTensor(input);
  const float result = take_float(output);
  TF_DeleteSession(session, status);
  return result;
}

void test_gradients(void) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_FLOAT, status), 0);
  TF_Output apart = out(placeholder(graph, "apart", TF_FLOAT, status), 0);
  TF_Output square = out(binary(graph, "Mul", "square", x, x, status), 0);
  TF_Output cube = out(binary(graph, "Mul", "cube", square, x, status), 0);
  TF_Output dy;
  TF_AddGradients(graph, &cube, 1, &x, 1, NULL, status, &dy);
  CHECK_OK(status);
  CHECK(strncmp(TF_OperationName(dy.oper), "gradients/", 10) == 0);
  CHECK(run_float(graph, x, 2.0f, dy, status) == 12.0f);
  /* The gradient of the gradient, weighed by what arrives: 6 x * 0.5 */
  TF_Tensor* half = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float));
  *(float*)TF_TensorData(half) = 0.5f;
  TF_Output weight = out(constant(graph, "half", half, status), 0);
  TF_DeleteTensor(half);
  TF_Output second;
  TF_AddGradientsWithPrefix(graph, "second", &dy, 1, &x, 1, &weight, status, &second);
  CHECK_OK(status);
  CHECK(strncmp(TF_OperationName(second.oper), "second/", 7) == 0);
  CHECK(run_float(graph, x, 2.0f, second, status) == 6.0f);
  TF_AddGradientsWithPrefix(graph, "second", &dy, 1, &x, 1, NULL, status, &second);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "prefix [second] conflicts with existing node in the graph named [");
  TF_AddGradients(graph, &cube, 1, &apart, 1, NULL, status, &dy);
  CHECK_ERROR(
      status, TF_INVALID_ARGUMENT,
      "Cannot compute the partial derivative for node 'apart' as it's unreachable from the output node(s).");
  TF_Output stopped = out(unary(graph, "StopGradient", "stopped", x, status), 0);
  TF_AddGradients(graph, &stopped, 1, &x, 1, NULL, status, &dy);
  CHECK_OK(status);
  CHECK(dy.oper == NULL && dy.index == -1);
  TF_AddGradients(NULL, &cube, 1, &x, 1, NULL, status, &dy);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

void test_constants(void) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_Output two = out(int32_constant(graph, "two", 2, status), 0);
  TF_Output five = out(int32_constant(graph, "five", 5, status), 0);
  TF_Output product = out(binary(graph, "Mul", "product", two, five, status), 0);
  TF_Output minus = out(unary(graph, "Neg", "minus", product, status), 0);
  TF_Tensor* value = NULL;
  CHECK_INT(TF_TryEvaluateConstant(graph, two, &value, status), 1);
  CHECK_OK(status);
  CHECK_INT(take_int32(value), 2);
  CHECK_INT(TF_TryEvaluateConstant(graph, minus, &value, status), 1);
  CHECK_OK(status);
  CHECK_INT(take_int32(value), -10);
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Output sum = out(binary(graph, "Add", "sum", minus, x, status), 0);
  CHECK_INT(TF_TryEvaluateConstant(graph, sum, &value, status), 0);
  CHECK_OK(status);
  CHECK(value == NULL);
  /* Random numbers are no constants, and the shape of a tensor may be one. */
  const int64_t dims[] = {3, 4};
  TF_GraphSetTensorShape(graph, x, dims, 2, status);
  TF_Output shape = out(unary(graph, "Shape", "shape", x, status), 0);
  CHECK_INT(TF_TryEvaluateConstant(graph, shape, &value, status), 1);
  CHECK_INT(((const int32_t*)TF_TensorData(value))[1], 4);
  TF_DeleteTensor(value);
  TF_OperationDescription* desc = TF_NewOperation(graph, "RandomUniform", "random");
  TF_AddInput(desc, shape);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_Output random = out(TF_FinishOperation(desc, status), 0);
  CHECK_OK(status);
  CHECK_INT(TF_TryEvaluateConstant(graph, random, &value, status), 0);
  CHECK_OK(status);
  TF_TryEvaluateConstant(graph, out(two.oper, 4), &value, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}
