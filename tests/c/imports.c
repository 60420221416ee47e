/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

/* x, y = Neg(x), z = Add(y, x), done after z. */
static TF_Buffer* small_graph_def(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Output y = out(unary(graph, "Neg", "y", x, status), 0);
  TF_Operation* z = binary(graph, "Add", "z", y, x, status);
  TF_OperationDescription* desc = TF_NewOperation(graph, "NoOp", "done");
  TF_AddControlInput(desc, z);
  TF_FinishOperation(desc, status);
  TF_Buffer* def = TF_NewBuffer();
  TF_GraphToGraphDef(graph, def, status);
  CHECK_OK(status);
  TF_DeleteGraph(graph);
  return def;
}

static int count_operations(TF_Graph* graph) {
  size_t pos = 0;
  int count = 0;
  while (TF_GraphNextOperation(graph, &pos) != NULL) ++count;
  return count;
}

static void check_plain_import(const TF_Buffer* def, TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_ImportGraphDefOptions* options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(graph, def, options, status);
  CHECK_OK(status);
  CHECK_INT(count_operations(graph), 4);
  TF_Operation* z = TF_GraphOperationByName(graph, "z");
  const TF_Input first = {z, 0};
  CHECK(TF_OperationInput(first).oper == TF_GraphOperationByName(graph, "y"));
  CHECK_INT(TF_OperationNumControlInputs(TF_GraphOperationByName(graph, "done")), 1);
  CHECK_INT(TF_OperationNumControlInputs(TF_GraphOperationByName(graph, "x")), 0);

  TF_GraphImportGraphDef(graph, def, options, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Node name 'x' already exists in the Graph");
  CHECK_INT(count_operations(graph), 4);
  TF_ImportGraphDefOptionsSetPrefix(options, "imported");
  TF_GraphImportGraphDef(graph, def, options, status);
  CHECK_OK(status);
  CHECK(TF_GraphOperationByName(graph, "imported/z") != NULL);
  TF_ImportGraphDefOptionsSetUniquifyPrefix(options, 1);
  TF_GraphImportGraphDef(graph, def, options, status);
  CHECK_OK(status);
  CHECK(TF_GraphOperationByName(graph, "imported_1/z") != NULL);
  TF_ImportGraphDefOptionsSetPrefix(options, "");
  TF_ImportGraphDefOptionsSetUniquifyNames(options, 1);
  TF_ImportGraphDefOptionsSetDefaultDevice(options, "/device:CPU:0");
  TF_GraphImportGraphDef(graph, def, options, status);
  CHECK_OK(status);
  CHECK_STR(TF_OperationDevice(TF_GraphOperationByName(graph, "z_1")), "/device:CPU:0");
  CHECK_INT(count_operations(graph), 16);
  /* What was imported can be built upon: its shapes and types are known. */
  TF_Output sum = out(TF_GraphOperationByName(graph, "z_1"), 0);
  CHECK_INT(TF_GraphGetTensorNumDims(graph, sum, status), -1);
  CHECK_OK(status);
  CHECK(unary(graph, "Neg", "more", sum, status) != NULL);

  TF_ImportGraphDefOptionsSetPrefix(options, "not valid");
  TF_GraphImportGraphDef(graph, def, options, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Imported node name prefix 'not valid/' would lead to invalid node names");
  TF_Buffer* broken = TF_NewBufferFromString("\xff\xff", 2);
  TF_GraphImportGraphDef(graph, broken, options, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid GraphDef");
  TF_DeleteBuffer(broken);
  TF_GraphImportGraphDef(graph, NULL, options, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteImportGraphDefOptions(NULL);
  TF_DeleteGraph(graph);
}

static void check_mapped_import(const TF_Buffer* def, TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Operation* seven = int32_constant(graph, "seven", 7, status);
  TF_Operation* before = TF_FinishOperation(TF_NewOperation(graph, "NoOp", "before"), status);
  TF_ImportGraphDefOptions* options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(options, "m");
  TF_ImportGraphDefOptionsAddInputMapping(options, "x", 0, out(seven, 0));
  TF_ImportGraphDefOptionsAddInputMapping(options, "nobody", 3, out(seven, 0));
  TF_ImportGraphDefOptionsAddInputMapping(options, "y", 9, out(seven, 0));
  TF_ImportGraphDefOptionsRemapControlDependency(options, "z", before);
  TF_ImportGraphDefOptionsAddControlDependency(options, before);
  TF_ImportGraphDefOptionsAddReturnOutput(options, "z", 0);
  TF_ImportGraphDefOptionsAddReturnOutput(options, "x", 0);
  TF_ImportGraphDefOptionsAddReturnOperation(options, "done");
  CHECK_INT(TF_ImportGraphDefOptionsNumReturnOutputs(options), 2);
  CHECK_INT(TF_ImportGraphDefOptionsNumReturnOperations(options), 1);
  TF_ImportGraphDefResults* results = TF_GraphImportGraphDefWithResults(graph, def, options, status);
  CHECK_OK(status);

  int count = 0;
  TF_Output* outputs = NULL;
  TF_ImportGraphDefResultsReturnOutputs(results, &count, &outputs);
  CHECK_INT(count, 2);
  CHECK_STR(TF_OperationName(outputs[0].oper), "m/z");
  CHECK(outputs[1].oper == seven);
  TF_Operation** operations = NULL;
  TF_ImportGraphDefResultsReturnOperations(results, &count, &operations);
  CHECK_INT(count, 1);
  CHECK_STR(TF_OperationName(operations[0]), "m/done");
  TF_Operation* control = NULL;
  CHECK_INT(TF_OperationGetControlInputs(operations[0], &control, 1), 1);
  CHECK(control == before);
  const char** names = NULL;
  int* indexes = NULL;
  TF_ImportGraphDefResultsMissingUnusedInputMappings(results, &count, &names, &indexes);
  CHECK_INT(count, 2);
  CHECK(strcmp(names[0], "nobody") == 0 && indexes[0] == 3);
  CHECK(strcmp(names[1], "y") == 0 && indexes[1] == 9);
  TF_DeleteImportGraphDefResults(results);
  TF_DeleteImportGraphDefResults(NULL);
  /* Only what has no imported inputs waits for the control dependency. */
  CHECK_INT(TF_OperationNumControlInputs(TF_GraphOperationByName(graph, "m/y")), 1);
  CHECK_INT(TF_OperationNumControlInputs(TF_GraphOperationByName(graph, "m/z")), 0);

  TF_Output returned[2];
  TF_ImportGraphDefOptionsSetPrefix(options, "n");
  TF_GraphImportGraphDefWithReturnOutputs(graph, def, options, returned, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Expected 'num_return_outputs' to be 2, got 1");
  TF_GraphImportGraphDefWithReturnOutputs(graph, def, options, returned, 2, status);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(returned[0].oper), "n/z");

  const int before_errors = count_operations(graph);
  TF_ImportGraphDefOptionsSetPrefix(options, "o");
  TF_ImportGraphDefOptionsAddReturnOutput(options, "y", 5);
  CHECK(TF_GraphImportGraphDefWithResults(graph, def, options, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid return output 5 of node 'o/y', which has 1 output(s)");
  CHECK_INT(count_operations(graph), before_errors);
  TF_ImportGraphDefOptionsAddReturnOutput(options, "who", 0);
  CHECK(TF_GraphImportGraphDefWithResults(graph, def, options, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Requested return tensor 'who:0' not found in graph def");
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteGraph(graph);
}

void test_import(void) {
  TF_Status* status = TF_NewStatus();
  TF_Buffer* def = small_graph_def(status);
  check_plain_import(def, status);
  check_mapped_import(def, status);
  TF_DeleteBuffer(def);
  TF_DeleteStatus(status);
}
