/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* The calls that clients in other languages make, in the order and with the odd arguments that they make them
   with: null arrays for empty lists, sizes that metadata gave, buffers without deallocators. */
#include "check.h"
#include "tensorflow/c/env.h"

/* As Go and Java write strings: a table of offsets, then each string behind its length. */
static TF_Tensor* string_vector(const char* const* texts, int count, TF_Status* status) {
  size_t size = (size_t)count * 8;
  for (int i = 0; i < count; ++i) size += TF_StringEncodedSize(strlen(texts[i]));
  const int64_t dims[] = {count};
  TF_Tensor* tensor = TF_AllocateTensor(TF_STRING, dims, 1, size);
  uint64_t* offsets = TF_TensorData(tensor);
  char* data = (char*)TF_TensorData(tensor) + count * 8;
  size_t at = 0;
  for (int i = 0; i < count; ++i) {
    offsets[i] = at;
    at += TF_StringEncode(texts[i], strlen(texts[i]), data + at, size - (size_t)count * 8 - at, status);
    CHECK_OK(status);
  }
  return tensor;
}

static int string_is(const TF_Tensor* tensor, int i, const char* wanted, TF_Status* status) {
  const size_t table = (size_t)TF_TensorElementCount(tensor) * 8;
  const char* data = (const char*)TF_TensorData(tensor) + table;
  const uint64_t offset = ((const uint64_t*)TF_TensorData(tensor))[i];
  const char* text = NULL;
  size_t length = 0;
  TF_StringDecode(data + offset, TF_TensorByteSize(tensor) - table - offset, &text, &length, status);
  CHECK_OK(status);
  return length == strlen(wanted) && memcmp(text, wanted, length) == 0;
}

/* A graph is written by one and read by another, whose buffer is memory of its own. */
static void check_graph_of_bytes(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_STRING, status), 0);
  TF_OperationDescription* desc = TF_NewOperation(graph, "Pack", "pairs");
  const TF_Output pair[] = {x, x};
  TF_AddInputList(desc, pair, 2);
  TF_SetAttrInt(desc, "axis", 1);
  TF_SetDevice(desc, "");
  TF_FinishOperation(desc, status);
  CHECK_OK(status);
  TF_Buffer* written = TF_NewBuffer();
  TF_GraphToGraphDef(graph, written, status);
  CHECK_OK(status);
  char* memory = malloc(written->length);
  memcpy(memory, written->data, written->length);
  TF_Buffer* read = TF_NewBuffer();
  read->data = memory;
  read->length = written->length;
  TF_DeleteBuffer(written);
  TF_DeleteGraph(graph);

  graph = TF_NewGraph();
  TF_ImportGraphDefOptions* options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(options, "model/");
  TF_GraphImportGraphDef(graph, read, options, status);
  CHECK_OK(status);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(read);
  free(memory);

  size_t at = 0; /* names of all */
  CHECK_STR(TF_OperationName(TF_GraphNextOperation(graph, &at)), "model/x");
  CHECK_STR(TF_OperationName(TF_GraphNextOperation(graph, &at)), "model/pairs");
  CHECK(TF_GraphNextOperation(graph, &at) == NULL);
  CHECK(TF_GraphOperationByName(graph, "pairs") == NULL);

  TF_SessionOptions* none = TF_NewSessionOptions();
  TF_SetTarget(none, "");
  TF_SetConfig(none, NULL, 0, status);
  CHECK_OK(status);
  TF_Session* session = TF_NewSession(graph, none, status);
  TF_DeleteSessionOptions(none);
  const char* const texts[] = {"a", "", "longer than what fits into a byte of length 0123456789"};
  TF_Tensor* value = string_vector(texts, 3, status);
  TF_Output feed = out(TF_GraphOperationByName(graph, "model/x"), 0);
  TF_Output fetch = out(TF_GraphOperationByName(graph, "model/pairs"), 0);
  TF_Tensor* result = NULL;
  TF_SessionRun(session, NULL, &feed, &value, 1, &fetch, &result, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK(result != NULL && TF_NumDims(result) == 2 && TF_Dim(result, 1) == 2);
  for (int i = 0; result != NULL && i < 6; ++i) CHECK(string_is(result, i, texts[i / 2], status));
  TF_DeleteTensor(value);
  TF_DeleteTensor(result);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
}

/* Lists are read into memory of the size in the metadata; empty lists come from null pointers. */
static void check_attributes_by_metadata(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_OperationDescription* desc = TF_NewOperation(graph, "FIFOQueueV2", "queue");
  const TF_DataType types[] = {TF_FLOAT, TF_STRING};
  const int64_t matrix[] = {2, -1};
  const int64_t* const shapes[] = {matrix, NULL};
  const int ranks[] = {2, -1};
  TF_SetAttrTypeList(desc, "component_types", types, 2);
  TF_SetAttrShapeList(desc, "shapes", shapes, ranks, 2);
  const void* const groups[] = {"loc:@a", "loc:@bc"};
  const size_t sizes[] = {6, 7};
  TF_SetAttrStringList(desc, "_class", groups, sizes, 2);
  TF_SetAttrIntList(desc, "_none", NULL, 0);
  TF_SetAttrString(desc, "container", NULL, 0);
  TF_Operation* queue = TF_FinishOperation(desc, status);
  CHECK_OK(status);

  TF_AttrMetadata m = TF_OperationGetAttrMetadata(queue, "shapes", status);
  CHECK(m.is_list == 1 && m.list_size == 2 && m.type == TF_ATTR_SHAPE && m.total_size == 2);
  int64_t* dims[2];
  int num_dims[2];
  int64_t* storage = malloc((size_t)m.total_size * sizeof(int64_t));
  TF_OperationGetAttrShapeList(queue, "shapes", dims, num_dims, 2, storage, (int)m.total_size, status);
  CHECK_OK(status);
  CHECK(num_dims[0] == 2 && dims[0][0] == 2 && dims[0][1] == -1 && num_dims[1] == -1);
  free(storage);

  m = TF_OperationGetAttrMetadata(queue, "_class", status);
  CHECK(m.is_list == 1 && m.list_size == 2 && m.type == TF_ATTR_STRING && m.total_size == 13);
  void* texts[2];
  size_t lengths[2];
  char letters[13];
  TF_OperationGetAttrStringList(queue, "_class", texts, lengths, 2, letters, (size_t)m.total_size, status);
  CHECK_OK(status);
  CHECK(lengths[1] == 7 && memcmp(texts[1], "loc:@bc", 7) == 0);

  m = TF_OperationGetAttrMetadata(queue, "component_types", status);
  CHECK(m.is_list == 1 && m.list_size == 2 && m.type == TF_ATTR_TYPE && m.total_size == -1);
  m = TF_OperationGetAttrMetadata(queue, "container", status);
  CHECK(m.is_list == 0 && m.list_size == -1 && m.type == TF_ATTR_STRING && m.total_size == 0);
  TF_OperationGetAttrString(queue, "container", NULL, 0, status);
  CHECK_OK(status);
  m = TF_OperationGetAttrMetadata(queue, "capacity", status);
  CHECK(m.is_list == 0 && m.list_size == -1 && m.type == TF_ATTR_INT && m.total_size == -1);
  m = TF_OperationGetAttrMetadata(queue, "_none", status);
  CHECK(m.is_list == 1 && m.list_size == 0);
  TF_OperationGetAttrIntList(queue, "_none", NULL, 0, status);
  CHECK_OK(status);

  desc = TF_NewOperation(graph, "Placeholder", "x");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", NULL, -1);
  TF_Operation* x = TF_FinishOperation(desc, status);
  m = TF_OperationGetAttrMetadata(x, "shape", status);
  CHECK(m.is_list == 0 && m.type == TF_ATTR_SHAPE && m.total_size == -1);
  TF_OperationGetAttrShape(x, "shape", NULL, 10, status);
  CHECK_OK(status);
  TF_DeleteGraph(graph);
}

/* What is fetched goes to a session by name; no operation is known. */
static void check_deprecated_session(TF_Status* status) {
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_DeprecatedSession* session = TF_NewDeprecatedSession(options, status);
  TF_DeleteSessionOptions(options);
  TF_Buffer* run_options = TF_NewBufferFromString("", 0);
  TF_Buffer* metadata = TF_NewBuffer();
  TF_Run(session, run_options, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, metadata, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  CHECK_STR(TF_Message(status), "Session was not created with a graph before Run()!");
  TF_DeleteBuffer(run_options);
  TF_DeleteBuffer(metadata);
  TF_CloseDeprecatedSession(session, status);
  TF_DeleteDeprecatedSession(session, status);
}

/* Operations are wrapped one by one, with what they are and what they lead to. */
static void check_walk(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "feed", TF_INT32, status), 0);
  TF_Operation* three = int32_constant(graph, "scalar", 3, status);
  TF_OperationDescription* desc = TF_NewOperation(graph, "AddN", "add");
  const TF_Output both[] = {x, out(three, 0)};
  TF_AddInputList(desc, both, 2);
  TF_AddControlInput(desc, three);
  TF_Operation* add = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  CHECK_INT(TF_OperationInputListLength(add, "inputs", status), 2);
  CHECK_INT(TF_OperationOutputListLength(add, "sum", status), 1);
  CHECK_INT(TF_OperationOutputListLength(add, "bogus", status), -1);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_Input consumers[4];
  const int count =
      TF_OperationOutputConsumers(out(three, 0), consumers, TF_OperationOutputNumConsumers(both[1]));
  CHECK(count == 1 && consumers[0].oper == add && consumers[0].index == 1);
  TF_Operation* controls[4];
  CHECK(TF_OperationGetControlInputs(add, controls, 4) == 1 && controls[0] == three);
  CHECK(TF_OperationGetControlOutputs(three, controls, 4) == 1 && controls[0] == add);
  CHECK_STR(TF_OperationDevice(add), "");

  TF_Buffer* def = TF_NewBuffer();
  TF_GraphGetOpDef(graph, "DNE", def, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "Op type not registered 'DNE' in binary");
  TF_OperationGetAttrValueProto(x.oper, "missing", def, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  CHECK_STR(TF_Message(status), "Operation 'feed' has no attr named 'missing'.");
  TF_DeleteBuffer(def);

  /* Gradients with a name that the client made unique. */
  TF_Output f = out(placeholder(graph, "f", TF_FLOAT, status), 0);
  TF_Output square = out(unary(graph, "Square", "square", f, status), 0);
  TF_Output slope;
  TF_AddGradientsWithPrefix(graph, "Gradients", &square, 1, &f, 1, NULL, status, &slope);
  CHECK_OK(status);
  CHECK(strncmp(TF_OperationName(slope.oper), "Gradients/", 10) == 0);
  TF_AddGradientsWithPrefix(graph, "Gradients", &square, 1, &f, 1, NULL, status, &slope);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "prefix [Gradients] conflicts with existing node in the graph named [Gradients/");
  TF_DeleteGraph(graph);
}

/* Errors of functions and loops, which clients show as they are. */
static void check_texts(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Graph* other = TF_NewGraph();
  const TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  const TF_Output beyond = {x.oper, 2}, none = {NULL, 0};
  const TF_Output y = out(unary(graph, "Neg", "y", x, status), 0);
  const TF_Output foreign = out(placeholder(other, "z", TF_INT32, status), 0);
  CHECK(TF_GraphToFunction(graph, "F", 0, -1, NULL, 1, &beyond, 1, &y, NULL, NULL, NULL, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_OUT_OF_RANGE);
  CHECK_STR(TF_Message(status),
            "Node 'x' (type: 'Placeholder', num of outputs: 1) does not have output 2\n\tEncountered while "
            "processing "
            "input 0 into function 'F'");
  CHECK(TF_GraphToFunction(graph, "F", 0, -1, NULL, 1, &x, 1, &none, NULL, NULL, NULL, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Node is null\n\tEncountered while processing output 0 into function 'F'");
  CHECK(TF_GraphToFunction(graph, "F", 0, -1, NULL, 1, &x, 1, &foreign, NULL, NULL, NULL, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Does it belong to a different graph?");

  TF_Output start = x, result;
  TF_WhileParams loop = TF_NewWhile(graph, &start, 1, status);
  loop.name = "loop";
  loop.cond_output = x;
  loop.body_outputs[0] = loop.body_inputs[0];
  TF_FinishWhile(&loop, status, &result);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Requested return tensor 'x:0' not found in graph def");
  TF_WhileParams again = TF_NewWhile(graph, &start, 1, status);
  again.name = "loop";
  TF_Operation* stop = int32_constant(again.cond_graph, "stop", 9, status);
  again.cond_output =
      out(binary(again.cond_graph, "Less", "less", again.cond_inputs[0], out(stop, 0), status), 0);
  again.body_outputs[0] = out(again.body_inputs[0].oper, 100);
  TF_FinishWhile(&again, status, &result);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT,
              "Invalid return output 100 of node 'body_input0', which has 1 output(s)");
  TF_DeleteGraph(graph);
  TF_DeleteGraph(other);
}

/* Several threads add to one graph and run it in one session at the same time. */
enum { kThreads = 4, kSteps = 200 };
typedef struct Shared {
  TF_Graph* graph;
  TF_Session* session;
  TF_Output x;
  int thread;
  int right;
} Shared;

static void build_and_run(void* argument) {
  Shared* s = argument;
  TF_Status* status = TF_NewStatus();
  for (int i = 0; i < kSteps; ++i) {
    char name[32];
    snprintf(name, sizeof(name), "t%d_%d", s->thread, i);
    TF_Operation* minus = unary(s->graph, "Neg", name, s->x, status);
    TF_Output fetch = out(minus, 0);
    TF_Tensor *input = int32_scalar(i), *output = NULL;
    TF_SessionRun(s->session, NULL, &s->x, &input, 1, &fetch, &output, 1, NULL, 0, NULL, status);
    if (output != NULL) s->right += *(const int32_t*)TF_TensorData(output) == -i;
    TF_OperationOutputNumConsumers(s->x);
    TF_GraphGetTensorNumDims(s->graph, fetch, status);
    TF_DeleteTensor(input);
    TF_DeleteTensor(output);
  }
  TF_DeleteStatus(status);
}

static void check_sharing(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Session* session = TF_NewSession(graph, NULL, status);
  Shared shared[kThreads];
  TF_Thread* threads[kThreads];
  TF_ThreadOptions options;
  TF_DefaultThreadOptions(&options);
  for (int i = 0; i < kThreads; ++i) {
    shared[i] = (Shared){graph, session, x, i, 0};
    threads[i] = TF_StartThread(&options, "client", build_and_run, &shared[i]);
  }
  for (int i = 0; i < kThreads; ++i) {
    TF_JoinThread(threads[i]);
    CHECK_INT(shared[i].right, kSteps);
  }
  CHECK_INT(TF_OperationOutputNumConsumers(x), kThreads * kSteps);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
}

void test_clients(void) {
  TF_Status* status = TF_NewStatus();
  check_graph_of_bytes(status);
  check_attributes_by_metadata(status);
  check_deprecated_session(status);
  check_walk(status);
  check_texts(status);
  check_sharing(status);
  TF_DeleteStatus(status);
}
