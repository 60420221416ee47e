/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Calls in any order with any arguments of the right types: each has to answer, and nothing may crash. */
#include "random.h"

enum { kGraphs = 3, kOperations = 64, kTensors = 8, kFunctions = 4 };

typedef struct World {
  uint64_t seed;
  TF_Status* status;
  TF_Graph* graphs[kGraphs];
  TF_Session* sessions[kGraphs]; /* of the graphs */
  TF_Operation* operations[kOperations];
  int owner[kOperations]; /* which graph they are of */
  TF_Tensor* tensors[kTensors];
  TF_Function* functions[kFunctions];
  int succeeded;
} World;

static int any(World* w, int count) { return draw(&w->seed, count); }

static void note(World* w) { w->succeeded += TF_GetCode(w->status) == TF_OK; }

static TF_Graph* any_graph(World* w) { return any(w, 50) == 0 ? NULL : w->graphs[any(w, kGraphs)]; }

static TF_Output any_output(World* w) {
  return out(any(w, 20) == 0 ? NULL : w->operations[any(w, kOperations)],
             any(w, 12) == 0 ? any(w, 9) - 4 : 0);
}

static const char* any_name(World* w) {
  static char names[4][16];
  char* name = names[any(w, 4)];
  snprintf(name, sizeof(names[0]), any(w, 30) == 0 ? "bad name %d" : "n%d", any(w, 5000));
  return name;
}

static TF_DataType any_type(World* w) {
  return any(w, 8) == 0 ? (TF_DataType)any(w, 130) : any(w, 2) == 0 ? TF_INT32 : TF_FLOAT;
}

static TF_Tensor* new_tensor(World* w) { return draw_tensor(&w->seed, any_type(w)); }

static void keep(World* w, TF_Operation* oper, int g) {
  note(w);
  if (oper == NULL) return;
  const int at = any(w, kOperations);
  w->operations[at] = oper;
  w->owner[at] = g;
}

/* The first of the operations that is of the graph, from anywhere on. */
static TF_Output output_of(World* w, int g) {
  const int start = any(w, kOperations);
  for (int i = 0; i < kOperations; ++i) {
    const int at = (start + i) % kOperations;
    if (w->operations[at] != NULL && w->owner[at] == g && TF_OperationNumOutputs(w->operations[at]) > 0) {
      return out(w->operations[at], 0);
    }
  }
  return out(NULL, 0);
}

/* Mostly right, so that something comes about that the other calls can be tried on. */
static void build_well(World* w) {
  const int g = any(w, kGraphs);
  TF_Graph* graph = w->graphs[g];
  const TF_Output x = output_of(w, g), y = output_of(w, g);
  TF_Operation* oper = NULL;
  char name[16];
  snprintf(name, sizeof(name), "w%d", any(w, 1000000));
  switch (any(w, 6)) {
    case 0:
      oper = placeholder(graph, name, TF_INT32, w->status);
      break;
    case 1:
      oper = int32_constant(graph, name, any(w, 9), w->status);
      break;
    case 2:
      oper = unary(graph, any(w, 2) == 0 ? "Neg" : "Identity", name, x, w->status);
      break;
    case 3:
      oper = unary(graph, "Shape", name, x, w->status);
      break;
    default:
      oper = binary(graph, any(w, 2) == 0 ? "Add" : "Mul", name, x, y, w->status);
  }
  keep(w, oper, g);
}

static void build(World* w) {
  static const char* const kOps[] = {"Placeholder", "Const",  "Add",    "Neg",      "MatMul", "Identity",
                                     "NoOp",        "AddN",   "Shape",  "Reshape",  "Concat", "VariableV2",
                                     "Assign",      "Switch", "Merge",  "NoSuchOp", "Cast",   "Sum",
                                     "Pack",        "Split",  "Square", "Print",    "f"};
  TF_Graph* graph = any_graph(w);
  TF_OperationDescription* desc =
      TF_NewOperation(graph, kOps[any(w, sizeof(kOps) / sizeof(kOps[0]))], any_name(w));
  for (int steps = any(w, 5); steps > 0; --steps) {
    const TF_Output list[] = {any_output(w), any_output(w), any_output(w)};
    const int64_t dims[] = {any(w, 4) - 1, any(w, 4)};
    switch (any(w, 14)) {
      case 0:
        TF_AddInputList(desc, list, any(w, 4));
        break;
      case 1:
        TF_AddControlInput(desc, list[0].oper);
        break;
      case 2:
        TF_ColocateWith(desc, list[0].oper);
        break;
      case 3:
        TF_SetDevice(desc, any(w, 2) == 0 ? "/cpu:0" : "not a device");
        break;
      case 4:
        TF_SetAttrShape(desc, "shape", dims, any(w, 3));
        break;
      case 5:
        TF_SetAttrInt(desc, "N", any(w, 5) - 1);
        break;
      case 6:
        TF_SetAttrType(desc, "T", any_type(w));
        break;
      case 7:
        TF_SetAttrValueProto(desc, "value", "\x18\x05", 2, w->status);
        break;
      case 8:
        TF_SetAttrTensor(desc, "value", w->tensors[any(w, kTensors)], w->status);
        break;
      case 9:
        TF_SetAttrType(desc, "dtype", any_type(w));
        break;
      case 10:
        TF_SetAttrPlaceholder(desc, "T", "T");
        break;
      default:
        TF_AddInput(desc, list[0]);
        break;
    }
  }
  TF_Operation* oper = TF_FinishOperation(desc, w->status);
  for (int g = 0; g < kGraphs; ++g) {
    if (w->graphs[g] == graph) keep(w, oper, g);
  }
}

static void look(World* w) {
  TF_Operation* oper = w->operations[any(w, kOperations)];
  const TF_Output output = any_output(w);
  int64_t values[3];
  TF_Buffer* buffer = TF_NewBuffer();
  TF_Tensor* tensor = NULL;
  const TF_Input input = {oper, any(w, 4) - 1};
  const char* const attrs[] = {"T", "shape", "value", "_class", "N", "none"};
  const char* attr = attrs[any(w, 6)];
  TF_OperationGetAttrMetadata(oper, attr, w->status);
  TF_OperationGetAttrInt(oper, attr, values, w->status);
  TF_OperationGetAttrShape(oper, attr, values, 3, w->status);
  TF_OperationGetAttrTensor(oper, attr, &tensor, w->status);
  TF_DeleteTensor(tensor);
  TF_OperationInput(input);
  TF_OperationInputType(input);
  TF_OperationOutputNumConsumers(output);
  TF_OperationNumControlInputs(oper);
  TF_OperationToNodeDef(oper, buffer, w->status);
  TF_DeleteBuffer(buffer);
  TF_GraphSetTensorShape(any_graph(w), output, values, any(w, 4) - 1, w->status);
  TF_GraphGetTensorShape(any_graph(w), output, values, any(w, 3), w->status);
  if (any(w, 8) == 0) {
    TF_TryEvaluateConstant(any_graph(w), output, &tensor, w->status);
    TF_DeleteTensor(tensor);
  }
}

static void run(World* w) {
  TF_Session* session = any(w, 50) == 0 ? NULL : w->sessions[any(w, kGraphs)];
  TF_Output feeds[2], fetches[2];
  TF_Tensor *values[2], *fetched[2] = {NULL, NULL};
  const int nfeeds = any(w, 3), nfetches = any(w, 3);
  for (int i = 0; i < 2; ++i) {
    feeds[i] = any_output(w);
    fetches[i] = any_output(w);
    values[i] = w->tensors[any(w, kTensors)];
  }
  const TF_Operation* target = w->operations[any(w, kOperations)];
  TF_SessionRun(session, NULL, feeds, values, nfeeds, fetches, fetched, nfetches, &target, any(w, 2), NULL,
                w->status);
  note(w);
  for (int i = 0; i < 2; ++i) TF_DeleteTensor(fetched[i]);
}

static void copy_graphs(World* w) {
  TF_Buffer* def = TF_NewBuffer();
  TF_GraphToGraphDef(any_graph(w), def, w->status);
  if (def->data != NULL && def->length > 0 && any(w, 2) == 0) {
    for (int i = any(w, 4); i > 0; --i)
      ((char*)def->data)[any(w, (int)def->length)] ^= (char)(1 << any(w, 8));
  }
  TF_ImportGraphDefOptions* options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(options, any(w, 3) == 0 ? "" : any_name(w));
  TF_ImportGraphDefOptionsSetUniquifyNames(options, (unsigned char)any(w, 2));
  TF_ImportGraphDefOptionsSetUniquifyPrefix(options, (unsigned char)any(w, 2));
  TF_ImportGraphDefOptionsAddInputMapping(options, any_name(w), 0, any_output(w));
  TF_ImportGraphDefOptionsAddReturnOperation(options, any(w, 2) == 0 ? any_name(w) : NULL);
  TF_Graph* scratch = TF_NewGraph();
  TF_GraphImportGraphDef(any(w, 4) == 0 ? any_graph(w) : scratch, def, options, w->status);
  note(w);
  TF_DeleteGraph(scratch);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(def);
}

static void derive(World* w) {
  TF_Graph* graph = any_graph(w);
  TF_Output ends[] = {any_output(w), any_output(w)};
  TF_Output result[2];
  const int at = any(w, kFunctions);
  switch (any(w, 4)) {
    case 0:
      TF_AddGradients(graph, &ends[0], 1, &ends[1], 1, NULL, w->status, result);
      break;
    case 1:
      TF_DeleteFunction(w->functions[at]);
      w->functions[at] = TF_GraphToFunction(graph, "f", (unsigned char)any(w, 2), -1, NULL, 1, &ends[0], 1,
                                            &ends[1], NULL, NULL, NULL, w->status);
      break;
    case 2:
      TF_GraphCopyFunction(graph, w->functions[at], w->functions[any(w, kFunctions)], w->status);
      break;
    default: {
      TF_WhileParams params = TF_NewWhile(graph, ends, any(w, 3), w->status);
      if (params.ninputs == 0) break;
      params.name = "loop";
      TF_Operation* stop = int32_constant(params.cond_graph, "stop", 0, w->status);
      params.cond_output = any(w, 2) == 0 ? out(stop, 0) : params.cond_inputs[0];
      for (int i = 0; i < params.ninputs; ++i)
        params.body_outputs[i] = params.body_inputs[any(w, params.ninputs)];
      TF_FinishWhile(&params, w->status, result);
    }
  }
  note(w);
}

static void end_graph(World* w, int g) {
  for (int i = 0; i < kOperations; ++i) {
    if (w->owner[i] == g) w->operations[i] = NULL;
  }
  TF_DeleteGraph(w->graphs[g]);
  TF_DeleteSession(w->sessions[g], w->status);
}

static void new_graph(World* w, int g, const TF_SessionOptions* options) {
  w->graphs[g] = TF_NewGraph();
  w->sessions[g] = TF_NewSession(w->graphs[g], options, w->status);
  CHECK_OK(w->status);
}

static void one_world(uint64_t seed, const TF_SessionOptions* options) {
  World* w = calloc(1, sizeof(World));
  w->seed = seed;
  w->status = TF_NewStatus();
  for (int g = 0; g < kGraphs; ++g) new_graph(w, g, options);
  for (int call = 0; call < 1500; ++call) {
    const int which = any(w, 100);
    const int at = any(w, kTensors);
    if (which < 30) {
      build_well(w);
    } else if (which < 55) {
      build(w);
    } else if (which < 65) {
      look(w);
    } else if (which < 78) {
      TF_DeleteTensor(w->tensors[at]);
      w->tensors[at] = new_tensor(w);
    } else if (which < 92) {
      run(w);
    } else if (which < 95) {
      copy_graphs(w);
    } else if (which < 99) {
      derive(w);
    } else {
      const int g = any(w, kGraphs);
      end_graph(w, g);
      new_graph(w, g, options);
    }
  }
  CHECK(w->succeeded > 100); /* otherwise nothing was tried */
  for (int g = 0; g < kGraphs; ++g) end_graph(w, g);
  for (int i = 0; i < kTensors; ++i) TF_DeleteTensor(w->tensors[i]);
  for (int i = 0; i < kFunctions; ++i) TF_DeleteFunction(w->functions[i]);
  TF_DeleteStatus(w->status);
  free(w);
}

void test_random_calls(void) {
  TF_Status* status = TF_NewStatus();
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_SetConfig(options, "\x58\xe8\x07", 3, status); /* operation_timeout_in_ms: 1000 */
  CHECK_OK(status);
  const char* worlds = getenv("RANDOM_CALLS"); /* how many runs with different seeds */
  const int count = worlds == NULL ? 4 : atoi(worlds);
  for (int i = 0; i < count; ++i) one_world(0x9e3779b97f4a7c15u * (uint64_t)(i + 1), options);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
}
