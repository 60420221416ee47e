/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

int32_t run_graph(TF_Graph* graph, TF_Output feed, int32_t value, TF_Output fetch, TF_Status* status);

/* while (i < 10) { i += 1; total += i; } */
static void build(TF_WhileParams* params, TF_Status* status) {
  params->name = "loop";
  TF_Output ten = out(int32_constant(params->cond_graph, "ten", 10, status), 0);
  params->cond_output =
      out(binary(params->cond_graph, "Less", "less", params->cond_inputs[0], ten, status), 0);
  TF_Output one = out(int32_constant(params->body_graph, "one", 1, status), 0);
  params->body_outputs[0] =
      out(binary(params->body_graph, "Add", "next", params->body_inputs[0], one, status), 0);
  params->body_outputs[1] = out(
      binary(params->body_graph, "Add", "total", params->body_inputs[1], params->body_outputs[0], status), 0);
  CHECK_OK(status);
}

static void check_loop(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output inputs[] = {out(placeholder(graph, "i", TF_INT32, status), 0),
                        out(int32_constant(graph, "zero", 0, status), 0)};
  TF_WhileParams params = TF_NewWhile(graph, inputs, 2, status);
  CHECK_OK(status);
  CHECK_INT(params.ninputs, 2);
  CHECK_INT(TF_OperationOutputType(params.body_inputs[1]), TF_INT32);
  CHECK_INT(TF_GraphGetTensorNumDims(params.cond_graph, params.cond_inputs[1], status), 0);
  build(&params, status);
  TF_Output outputs[2];
  TF_FinishWhile(&params, status, outputs);
  CHECK_OK(status);
  CHECK_STR(TF_OperationOpType(outputs[0].oper), "Exit");
  CHECK_INT(run_graph(graph, inputs[0], 7, outputs[0], status), 10);
  CHECK_INT(run_graph(graph, inputs[0], 7, outputs[1], status), 8 + 9 + 10);
  CHECK_INT(run_graph(graph, inputs[0], 12, outputs[1], status), 0);

  /* A second loop of the same name, fed by the first. */
  inputs[1] = outputs[1];
  TF_WhileParams second = TF_NewWhile(graph, inputs, 2, status);
  build(&second, status);
  TF_FinishWhile(&second, status, outputs);
  CHECK_OK(status);
  CHECK_INT(run_graph(graph, inputs[0], 8, outputs[1], status), 2 * (9 + 10));
  TF_DeleteGraph(graph);
}

enum Mistake { kNothingSet, kNoOutput, kNoName, kNoBool };

static void check_mistake(TF_Graph* graph, TF_Output* inputs, enum Mistake mistake, const char* text,
                          TF_Status* status) {
  TF_Output outputs[2];
  TF_WhileParams params = TF_NewWhile(graph, inputs, 2, status);
  CHECK_OK(status);
  if (mistake != kNothingSet) build(&params, status);
  if (mistake == kNoOutput) params.body_outputs[1].oper = NULL;
  if (mistake == kNoName) params.name = NULL;
  if (mistake == kNoBool) params.cond_output = params.cond_inputs[0];
  TF_FinishWhile(&params, status, outputs);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, text);
}

static void check_bad_loops(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output inputs[] = {out(placeholder(graph, "i", TF_INT32, status), 0),
                        out(int32_constant(graph, "zero", 0, status), 0)};
  TF_Output outputs[2];
  TF_WhileParams none = TF_NewWhile(graph, inputs, 0, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "TF_NewWhile() must be passed at least one input");
  CHECK(none.cond_graph == NULL);
  TF_FinishWhile(&none, status, outputs);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  check_mistake(graph, inputs, kNothingSet, "TF_WhileParams `cond_output` field isn't set", status);
  check_mistake(graph, inputs, kNoOutput, "TF_WhileParams `body_outputs[1]` field isn't set", status);
  check_mistake(graph, inputs, kNoName, "TF_WhileParams `name` field is null", status);
  check_mistake(graph, inputs, kNoBool, "'cond' argument must return a boolean output, got int32", status);
  /* Nothing of them stayed. */
  size_t pos = 0;
  int count = 0;
  while (TF_GraphNextOperation(graph, &pos) != NULL) ++count;
  CHECK_INT(count, 2);
  TF_WhileParams aborted = TF_NewWhile(graph, inputs, 2, status);
  CHECK_OK(status);
  TF_AbortWhile(&aborted);
  TF_AbortWhile(NULL);
  TF_DeleteGraph(graph);
}

void test_while(void) {
  TF_Status* status = TF_NewStatus();
  check_loop(status);
  check_bad_loops(status);
  TF_DeleteStatus(status);
}
