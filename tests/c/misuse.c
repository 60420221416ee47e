/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Calls in the wrong order, and bytes that no program should write: each gets an error. */
#define _POSIX_C_SOURCE 200809L
#include <sys/types.h>
#include <unistd.h>

#include "check.h"

static int count_operations(TF_Graph* graph) {
  int count = 0;
  for (size_t at = 0; TF_GraphNextOperation(graph, &at) != NULL;) ++count;
  return count;
}

/* An operation that is being built outlives the call that deletes its graph. */
static void check_graph_before_operation(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_OperationDescription* desc = TF_NewOperation(graph, "Placeholder", "late");
  TF_DeleteGraph(graph);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  CHECK(TF_FinishOperation(desc, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The graph of node 'late' was deleted");

  graph = TF_NewGraph(); /* a session keeps it */
  TF_Session* session = TF_NewSession(graph, NULL, status);
  desc = TF_NewOperation(graph, "Placeholder", "late");
  TF_DeleteGraph(graph);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_Operation* late = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(late), "late");
  TF_DeleteSession(session, status);
}

static TF_WhileParams new_loop(TF_Graph* graph, TF_Status* status) {
  TF_Output start = out(int32_constant(graph, "start", 0, status), 0);
  TF_WhileParams params = TF_NewWhile(graph, &start, 1, status);
  CHECK_OK(status);
  TF_Operation* limit = int32_constant(params.cond_graph, "limit", 3, status);
  params.cond_output =
      out(binary(params.cond_graph, "Less", "less", params.cond_inputs[0], out(limit, 0), status), 0);
  TF_Operation* one = int32_constant(params.body_graph, "one", 1, status);
  params.body_outputs[0] =
      out(binary(params.body_graph, "Add", "next", params.body_inputs[0], out(one, 0), status), 0);
  CHECK_OK(status);
  params.name = "loop";
  return params;
}

static void check_graph_before_loop(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_WhileParams params = new_loop(graph, status);
  TF_DeleteGraph(graph);
  TF_Output result;
  TF_FinishWhile(&params, status, &result);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The graph of the loop was deleted");

  graph = TF_NewGraph();
  const TF_WhileParams left = new_loop(graph, status);
  TF_DeleteGraph(graph);
  TF_AbortWhile(&left);
}

static void check_parts_before_loop(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_WhileParams params = new_loop(graph, status);
  TF_DeleteGraph(params.cond_graph); /* which the loop owns */
  TF_DeleteGraph(params.body_graph);
  TF_Output result;
  TF_FinishWhile(&params, status, &result);
  CHECK_OK(status);
  CHECK_INT(TF_OperationOutputType(result), TF_INT32);
  TF_DeleteGraph(graph);
}

/* Options name operations; those need not live until the import. */
static void check_import_after_graph(TF_Status* status) {
  TF_Graph* from = TF_NewGraph();
  unary(from, "Neg", "minus", out(placeholder(from, "x", TF_INT32, status), 0), status);
  TF_Buffer* def = TF_NewBuffer();
  TF_GraphToGraphDef(from, def, status);
  TF_ImportGraphDefOptions* options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(options, "in");
  TF_ImportGraphDefOptionsAddInputMapping(options, "x", 0, out(TF_GraphOperationByName(from, "x"), 0));
  TF_ImportGraphDefOptionsAddControlDependency(options, TF_GraphOperationByName(from, "minus"));
  TF_DeleteGraph(from);
  TF_Graph* graph = TF_NewGraph();
  TF_GraphImportGraphDef(graph, def, options, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "node 'minus' in control_dependencies does not exist in graph");
  TF_Output y = out(placeholder(graph, "minus", TF_INT32, status), 0);
  TF_GraphImportGraphDef(graph, def, options, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "node 'x' in input_map does not exist in graph (input_map entry x:0->x:0)");
  unary(graph, "Identity", "x", y, status);
  TF_GraphImportGraphDef(graph, def, options, status);
  CHECK_OK(status);
  const TF_Input input = {TF_GraphOperationByName(graph, "in/minus"), 0};
  CHECK(TF_OperationInput(input).oper == TF_GraphOperationByName(graph, "x"));
  TF_ImportGraphDefOptionsAddInputMapping(options, "x", 0, out(TF_GraphOperationByName(graph, "x"), 1));
  TF_ImportGraphDefOptionsSetPrefix(options, "again");
  TF_GraphImportGraphDef(graph, def, options, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "input_map entry x:0->x:1: node 'x' has 1 outputs");
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(def);
  TF_DeleteGraph(graph);
}

/* Any byte but 0 is true. */
static void check_bools(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_BOOL, status), 0);
  TF_OperationDescription* desc = TF_NewOperation(graph, "Cast", "number");
  TF_AddInput(desc, x);
  TF_SetAttrType(desc, "DstT", TF_INT32);
  TF_Output number = out(TF_FinishOperation(desc, status), 0);
  CHECK_OK(status);
  const int64_t dims[] = {4};
  const unsigned char bytes[] = {0, 1, 2, 255};
  TF_Tensor* value = TF_AllocateTensor(TF_BOOL, dims, 1, 4);
  memcpy(TF_TensorData(value), bytes, 4);
  const TF_Output fetches[] = {number, out(unary(graph, "Identity", "same", x, status), 0)};
  TF_Session* session = TF_NewSession(graph, NULL, status);
  TF_Tensor* results[] = {NULL, NULL};
  TF_SessionRun(session, NULL, &x, &value, 1, fetches, results, 2, NULL, 0, NULL, status);
  CHECK_OK(status);
  const int32_t* numbers = TF_TensorData(results[0]);
  CHECK(numbers[0] == 0 && numbers[1] == 1 && numbers[2] == 1 && numbers[3] == 1);
  CHECK(memcmp(TF_TensorData(results[1]), "\0\1\1\1", 4) == 0);
  CHECK_INT(((const unsigned char*)TF_TensorData(value))[3], 255); /* the caller's bytes stay */
  TF_DeleteTensor(results[0]);
  TF_DeleteTensor(results[1]);
  TF_DeleteTensor(value);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
}

/* A failed gradient computation leaves no nodes. */
static void check_failed_gradients(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_FLOAT, status), 0);
  TF_Output floor_of_x = out(unary(graph, "Square", "square", x, status), 0);
  TF_OperationDescription* desc = TF_NewOperation(graph, "Bitcast", "bits"); /* has no gradient */
  TF_AddInput(desc, floor_of_x);
  TF_SetAttrType(desc, "type", TF_FLOAT);
  TF_Output bits = out(TF_FinishOperation(desc, status), 0);
  TF_Output y = out(unary(graph, "Square", "y", bits, status), 0);
  CHECK_OK(status);
  TF_Output dx;
  const int before = count_operations(graph);
  TF_AddGradients(graph, &y, 1, &x, 1, NULL, status, &dx);
  if (TF_GetCode(status) != TF_OK) CHECK_INT(count_operations(graph), before);
  /* Ones of another shape are refused after nodes were added. */
  TF_Tensor* three = float_vector((const float[]){1, 2, 3}, 3);
  TF_Tensor* two = float_vector((const float[]){1, 2}, 2);
  TF_Output a = out(constant(graph, "a", three, status), 0);
  TF_Output b = out(unary(graph, "Square", "b", a, status), 0);
  TF_Output wrong = out(constant(graph, "wrong", two, status), 0);
  const int count = count_operations(graph);
  TF_AddGradients(graph, &b, 1, &a, 1, &wrong, status, &dx);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  CHECK_INT(count_operations(graph), count);
  CHECK(int32_constant(graph, "after", 1, status) != NULL);
  CHECK_OK(status);
  TF_DeleteTensor(three);
  TF_DeleteTensor(two);
  TF_DeleteGraph(graph);
}

/* Texts that nest without end. */
static void check_deep_texts(TF_Status* status) {
  enum { kDepth = 200000 };
  static const char kOpen[] = "attr{value{func{", kClose[] = "}}}";
  const size_t open = sizeof(kOpen) - 1, close = sizeof(kClose) - 1;
  const char begin[] = "op{graph_op_name:'Add' attr{name:'T' default_value{func{", end[] = "}}}}";
  char* text = malloc(sizeof(begin) + sizeof(end) + kDepth * (open + close));
  char* at = text;
  memcpy(at, begin, sizeof(begin) - 1);
  at += sizeof(begin) - 1;
  for (int i = 0; i < kDepth; ++i, at += open) memcpy(at, kOpen, open);
  for (int i = 0; i < kDepth; ++i, at += close) memcpy(at, kClose, close);
  memcpy(at, end, sizeof(end) - 1);
  at += sizeof(end) - 1;
  TF_Buffer* ops = TF_GetAllOpList();
  TF_ApiDefMap* map = TF_NewApiDefMap(ops, status);
  CHECK_OK(status);
  TF_ApiDefMapPut(map, text, (size_t)(at - text), status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Failed to parse ApiDefs");
  TF_DeleteApiDefMap(map);
  TF_DeleteBuffer(ops);
  free(text);
}

/* A constant is found whatever its node is called. */
static void check_constant_names(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Tensor* values = float_vector((const float[]){1, 2}, 2);
  TF_Output c = out(constant(graph, "known/value_1", values, status), 0);
  TF_Output sum = out(binary(graph, "Add", "known/value", c, c, status), 0);
  TF_Tensor* result = NULL;
  CHECK_INT(TF_TryEvaluateConstant(graph, sum, &result, status), 1);
  CHECK_OK(status);
  CHECK(result != NULL && ((const float*)TF_TensorData(result))[1] == 4);
  TF_DeleteTensor(result);
  TF_DeleteTensor(values);
  TF_DeleteGraph(graph);
}

/* Every beginning of a library is refused. */
static void check_libraries_cut_off(TF_Status* status) {
  FILE* file = fopen(USER_OP_LIBRARY, "rb");
  CHECK(file != NULL);
  static char bytes[1 << 16];
  const size_t size = fread(bytes, 1, sizeof(bytes), file);
  fclose(file);
  char path[] = "/tmp/cut_off_XXXXXX";
  const int made = mkstemp(path);
  CHECK(made >= 0);
  for (size_t length = 0; length < size / 2; length += 500) {
    CHECK(pwrite(made, bytes, length, 0) == (ssize_t)length);
    CHECK(TF_LoadLibrary(path, status) == NULL);
    CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
  }
  close(made);
  unlink(path);
  CHECK(TF_LoadLibrary("/dev/null", status) == NULL);
  CHECK(TF_LoadLibrary("/", status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
}

void test_misuse(void) {
  TF_Status* status = TF_NewStatus();
  check_graph_before_operation(status);
  check_graph_before_loop(status);
  check_parts_before_loop(status);
  check_import_after_graph(status);
  check_bools(status);
  check_failed_gradients(status);
  check_deep_texts(status);
  check_constant_names(status);
  check_libraries_cut_off(status);
  TF_DeleteStatus(status);
}
