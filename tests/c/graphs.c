/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

static void check_shapes(TF_Graph* graph, TF_Status* status) {
  TF_Output x = out(placeholder(graph, "shaped", TF_FLOAT, status), 0);
  CHECK_INT(TF_GraphGetTensorNumDims(graph, x, status), -1);
  CHECK_OK(status);
  int64_t dims[3] = {2, -1, 0};
  TF_GraphSetTensorShape(graph, x, NULL, -1, status);
  CHECK_OK(status);
  CHECK_INT(TF_GraphGetTensorNumDims(graph, x, status), -1);
  TF_GraphSetTensorShape(graph, x, dims, 2, status);
  CHECK_OK(status);
  CHECK_INT(TF_GraphGetTensorNumDims(graph, x, status), 2);
  dims[0] = dims[1] = 7;
  TF_GraphGetTensorShape(graph, x, dims, 2, status);
  CHECK_OK(status);
  CHECK_INT(dims[0], 2);
  CHECK_INT(dims[1], -1);
  dims[1] = 3;
  TF_GraphSetTensorShape(graph, x, dims, 2, status);
  TF_GraphGetTensorShape(graph, x, dims, 2, status);
  CHECK_INT(dims[1], 3);
  TF_GraphGetTensorShape(graph, x, dims, 3, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Expected rank is 3 but actual rank is 2");
  dims[1] = 4;
  TF_GraphSetTensorShape(graph, x, dims, 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Dimension 1 in both shapes must be equal, but are 3 and 4. Shapes are [2,3] and [2,4].");
  TF_GraphGetTensorNumDims(graph, out(x.oper, 5), status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_Operation* scalar = int32_constant(graph, "scalar", 1, status);
  CHECK_INT(TF_GraphGetTensorNumDims(graph, out(scalar, 0), status), 0);
  TF_GraphGetTensorShape(graph, out(scalar, 0), NULL, 0, status);
  CHECK_OK(status);
}

static void check_edges(TF_Graph* graph, TF_Status* status) {
  TF_Operation* a = placeholder(graph, "a", TF_INT32, status);
  TF_Operation* b = int32_constant(graph, "b", 3, status);
  TF_Operation* sum = binary(graph, "Add", "sum", out(a, 0), out(b, 0), status);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(sum), "sum");
  CHECK_STR(TF_OperationOpType(sum), "Add");
  CHECK_STR(TF_OperationDevice(sum), "");
  CHECK_INT(TF_OperationNumInputs(sum), 2);
  CHECK_INT(TF_OperationNumOutputs(sum), 1);
  const TF_Input second = {sum, 1};
  CHECK_INT(TF_OperationInputType(second), TF_INT32);
  CHECK(TF_OperationInput(second).oper == b);
  CHECK_INT(TF_OperationInput(second).index, 0);
  CHECK_INT(TF_OperationOutputType(out(sum, 0)), TF_INT32);
  CHECK_INT(TF_OperationInputListLength(sum, "y", status), 1);
  CHECK_INT(TF_OperationOutputListLength(sum, "z", status), 1);
  CHECK_OK(status);
  CHECK_INT(TF_OperationInputListLength(sum, "none", status), -1);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Input arg 'none' not found");
  CHECK_INT(TF_OperationOutputListLength(sum, "none", status), -1);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Output arg 'none' not found");

  TF_Operation* twice = binary(graph, "Mul", "twice", out(a, 0), out(a, 0), status);
  CHECK_INT(TF_OperationOutputNumConsumers(out(a, 0)), 3);
  TF_Input consumers[2];
  CHECK_INT(TF_OperationOutputConsumers(out(a, 0), consumers, 2), 3);
  CHECK(consumers[0].oper == sum && consumers[0].index == 0);
  CHECK(consumers[1].oper == twice && consumers[1].index == 0);

  TF_OperationDescription* desc = TF_NewOperation(graph, "NoOp", "after");
  TF_AddControlInput(desc, sum);
  TF_AddControlInput(desc, twice);
  TF_AddControlInput(desc, twice);
  TF_SetDevice(desc, "/device:CPU:0");
  TF_Operation* after = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  CHECK_STR(TF_OperationDevice(after), "/device:CPU:0");
  CHECK_INT(TF_OperationNumControlInputs(after), 2);
  TF_Operation* found[2] = {NULL, NULL};
  CHECK_INT(TF_OperationGetControlInputs(after, found, 2), 2);
  CHECK(found[0] == sum && found[1] == twice);
  CHECK_INT(TF_OperationNumControlOutputs(sum), 1);
  CHECK_INT(TF_OperationGetControlOutputs(sum, found, 1), 1);
  CHECK(found[0] == after);

  const TF_Output inputs[] = {out(a, 0), out(b, 0), out(sum, 0)};
  desc = TF_NewOperation(graph, "AddN", "list");
  TF_AddInputList(desc, inputs, 3);
  TF_Operation* list = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  CHECK_INT(TF_OperationInputListLength(list, "inputs", status), 3);

  /* Queries about missing outputs and inputs return neutral values. */
  CHECK_INT(TF_OperationOutputType(out(sum, 9)), 0);
  CHECK_INT(TF_OperationOutputNumConsumers(out(sum, -1)), 0);
  const TF_Input none = {sum, 9};
  CHECK(TF_OperationInput(none).oper == NULL);
  CHECK_INT(TF_OperationInputType(none), 0);
  CHECK_INT(TF_OperationNumInputs(NULL), 0);
}

static void check_iteration(TF_Graph* graph) {
  size_t pos = 0;
  int count = 0;
  TF_Operation* oper = NULL;
  while ((oper = TF_GraphNextOperation(graph, &pos)) != NULL) {
    CHECK(TF_GraphOperationByName(graph, TF_OperationName(oper)) == oper);
    ++count;
  }
  CHECK_INT(count, 8);
  CHECK(TF_GraphOperationByName(graph, "nobody") == NULL);
  CHECK(TF_GraphOperationByName(graph, "_SOURCE") == NULL);
}

static void check_messages(TF_Graph* graph, TF_Status* status) {
  TF_Buffer* buffer = TF_NewBuffer();
  TF_OperationToNodeDef(TF_GraphOperationByName(graph, "sum"), buffer, status);
  CHECK_OK(status);
  /* NodeDef: field 1 is the name. */
  CHECK(buffer->length > 5 && memcmp(buffer->data,
                                     "\x0a\x03sum\x12\x03"
                                     "Add",
                                     10) == 0);
  TF_OperationToNodeDef(TF_GraphOperationByName(graph, "sum"), buffer, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Passing non-empty TF_Buffer is invalid.");
  TF_DeleteBuffer(buffer);

  buffer = TF_NewBuffer();
  TF_GraphVersions(graph, buffer, status);
  CHECK_OK(status);
  CHECK_INT(buffer->length, 3);
  CHECK(memcmp(buffer->data, "\x08\x86\x01", 3) == 0); /* producer: 134 */
  TF_DeleteBuffer(buffer);

  buffer = TF_NewBuffer();
  TF_GraphGetOpDef(graph, "MatMul", buffer, status);
  CHECK_OK(status);
  CHECK(buffer->length > 8 && memcmp(buffer->data, "\x0a\x06MatMul", 8) == 0);
  TF_DeleteBuffer(buffer);
  buffer = TF_NewBuffer();
  TF_GraphGetOpDef(graph, "NoSuchOp", buffer, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "Op type not registered 'NoSuchOp'");
  TF_GraphToGraphDef(graph, buffer, status);
  CHECK_OK(status);
  CHECK(buffer->length > 100);
  TF_DeleteBuffer(buffer);
}

void test_graphs(void) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  check_shapes(graph, status);
  check_edges(graph, status);
  check_iteration(graph);
  check_messages(graph, status);
  TF_DeleteGraph(graph);
  TF_DeleteGraph(NULL);
  TF_DeleteStatus(status);
}

static TF_Operation* finish(TF_OperationDescription* desc, TF_Status* status) {
  return TF_FinishOperation(desc, status);
}

void test_build_errors(void) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_Graph* other = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_FLOAT, status), 0);
  TF_Output i = out(placeholder(graph, "i", TF_INT32, status), 0);
  TF_Output far = out(placeholder(other, "far", TF_FLOAT, status), 0);

  CHECK(placeholder(graph, "x", TF_FLOAT, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Duplicate node name in graph: 'x'");
  CHECK(finish(TF_NewOperation(graph, "NoSuchOp", "n"), status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Op type not registered 'NoSuchOp'");
  CHECK_HAS(TF_Message(status), " while building NodeDef 'n'");
  CHECK(finish(TF_NewOperation(graph, "Placeholder", "n"), status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "NodeDef missing attr 'dtype' from Op<name=Placeholder");
  CHECK(unary(graph, "Add", "n", x, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "1 inputs specified of 2 inputs in Op while building NodeDef 'n'");
  CHECK(binary(graph, "Neg", "n", x, x, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "More Input() calls than the 1 input_args");
  CHECK(binary(graph, "Add", "n", x, i, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Inconsistent values for attr 'T' DT_FLOAT vs. DT_INT32");
  CHECK(binary(graph, "Add", "n", x, far, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  CHECK(binary(graph, "Add", "n", x, out(x.oper, 1), status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Attempt to add output 1 of x not in range [0, 1) to node with type Add");
  CHECK(binary(graph, "Add", "n", x, out(NULL, 0), status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Attempt to add nullptr Node to node with type Add");
  CHECK(unary(graph, "AddN", "n", x, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Single tensor passed to 'inputs', expected list");

  TF_OperationDescription* desc = TF_NewOperation(graph, "Neg", "n");
  TF_AddInputList(desc, &x, 1);
  CHECK(finish(desc, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "List provided to input 'x' when single Tensor expected");
  desc = TF_NewOperation(graph, "NoOp", "n");
  TF_AddControlInput(desc, far.oper);
  CHECK(finish(desc, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  /* Names are judged when the graph is imported or run. */
  TF_Graph* odd = TF_NewGraph();
  TF_Operation* a_b = TF_FinishOperation(TF_NewOperation(odd, "NoOp", "a b"), status);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(a_b), "a b");
  TF_Session* session = TF_NewSession(odd, NULL, status);
  const TF_Operation* const targets[] = {a_b};
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, 1, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Node name contains invalid characters");
  TF_DeleteSession(session, status);
  TF_DeleteGraph(odd);
  desc = TF_NewOperation(graph, "Placeholder", "n");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrInt(desc, "dtypo", 3);
  CHECK(finish(desc, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "NodeDef mentions attr 'dtypo' not in Op<name=Placeholder");
  desc = TF_NewOperation(graph, "Cast", "n");
  TF_AddInput(desc, x);
  TF_SetAttrString(desc, "DstT", "float", 5);
  CHECK(finish(desc, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);

  /* Shapes that do not fit are refused, and the name is free again. */
  const int64_t dims[] = {2, 3};
  const int32_t values[] = {1, 2, 3, 4, 5, 6};
  TF_Tensor* matrix = int32_tensor(dims, 2, values);
  TF_Output m = out(constant(graph, "m", matrix, status), 0);
  CHECK(binary(graph, "MatMul", "product", m, m, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "for 'product' (op: 'MatMul') with input shapes: [2,3], [2,3].");
  desc = TF_NewOperation(graph, "MatMul", "product");
  TF_AddInput(desc, m);
  TF_AddInput(desc, m);
  TF_SetAttrBool(desc, "transpose_b", 1);
  CHECK(finish(desc, status) != NULL);
  CHECK_OK(status);

  /* Null where a handle should be. */
  CHECK(TF_NewOperation(NULL, "NoOp", "n") == NULL);
  TF_AddInput(NULL, x);
  CHECK(TF_FinishOperation(NULL, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteTensor(matrix);
  TF_DeleteGraph(other);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}
