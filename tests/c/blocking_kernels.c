/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Kernels of programs that wait for each other within one step. */
#include <stdatomic.h>
#include <threads.h>
#include <time.h>

#include "check.h"
#include "millrace/c/user_op.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

static mtx_t g_mu;
static cnd_t g_changed;
static int g_items = 0, g_meeting = 0;
static atomic_int g_late = 0; /* waits that were in vain */

static struct timespec in_ten_seconds(void) {
  struct timespec until;
  timespec_get(&until, TIME_UTC);
  until.tv_sec += 10;
  return until;
}

static void forward(TF_OpKernelContext* c) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* x = NULL;
  TF_GetInput(c, 0, &x, status);
  if (TF_GetCode(status) == TF_OK) TF_SetOutput(c, 0, x, status);
  TF_OpKernelContext_Failure(c, status);
  TF_DeleteTensor(x);
  TF_DeleteStatus(status);
}

static void put(void* kernel, TF_OpKernelContext* c) {
  (void)kernel;
  mtx_lock(&g_mu);
  ++g_items;
  cnd_broadcast(&g_changed);
  mtx_unlock(&g_mu);
  forward(c);
}

static void get(void* kernel, TF_OpKernelContext* c) {
  (void)kernel;
  const struct timespec until = in_ten_seconds();
  mtx_lock(&g_mu);
  while (g_items == 0 && cnd_timedwait(&g_changed, &g_mu, &until) == thrd_success) {
  }
  if (g_items == 0) atomic_fetch_add(&g_late, 1);
  if (g_items > 0) --g_items;
  mtx_unlock(&g_mu);
  forward(c);
}

/* Each call waits until another one has come. */
static void meet(void* kernel, TF_OpKernelContext* c) {
  (void)kernel;
  const struct timespec until = in_ten_seconds();
  mtx_lock(&g_mu);
  const int mine = g_meeting++;
  cnd_broadcast(&g_changed);
  while (g_meeting < (mine / 2 + 1) * 2) {
    if (cnd_timedwait(&g_changed, &g_mu, &until) == thrd_success) continue;
    atomic_fetch_add(&g_late, 1);
    break;
  }
  mtx_unlock(&g_mu);
  forward(c);
}

static void pass(void* kernel, TF_OpKernelContext* c) {
  (void)kernel;
  forward(c);
}

static void register_kernel(const char* op, void (*compute)(void*, TF_OpKernelContext*), int may_block) {
  TF_Status* status = TF_NewStatus();
  TF_OpDefinitionBuilder* definition = TF_NewOpDefinitionBuilder(op);
  TF_OpDefinitionBuilderAddInput(definition, "x: int32");
  TF_OpDefinitionBuilderAddOutput(definition, "y: int32");
  TF_OpDefinitionBuilderSetIsStateful(definition, 1);
  TF_RegisterOpDefinition(definition, status);
  CHECK_OK(status);
  TF_KernelBuilder* builder = TF_NewKernelBuilder(op, "CPU", NULL, compute, NULL);
  if (!may_block) Millrace_KernelBuilderMayBlock(builder, 0);
  TF_RegisterKernelBuilder(op, builder, status);
  CHECK_OK(status);
  TF_DeleteStatus(status);
}

/* Runs the fetches with 7 for x, several times; with so many threads between and within ops. */
static void run(TF_Graph* graph, int threads, TF_Output x, const TF_Output* fetches, int count, int times) {
  TF_Status* status = TF_NewStatus();
  TF_SessionOptions* options = TF_NewSessionOptions();
  const unsigned char config[] = {0x10, (unsigned char)threads, 0x28, (unsigned char)threads};
  TF_SetConfig(options, config, sizeof config, status);
  TF_Session* session = TF_NewSession(graph, options, status);
  CHECK_OK(status);
  for (int i = 0; i < times; ++i) {
    TF_Tensor* const seven = int32_scalar(7);
    TF_Tensor* results[4] = {NULL};
    TF_SessionRun(session, NULL, &x, &seven, 1, fetches, results, count, NULL, 0, NULL, status);
    CHECK_OK(status);
    for (int r = 0; r < count; ++r) {
      if (results[r] != NULL) CHECK_INT(take_int32(results[r]), 7);
    }
    TF_DeleteTensor(seven);
  }
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
}

/* A get before a put, which as nodes have no order; and behind nodes that become ready later. */
static void check_put_and_get(int threads) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  const TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Output fetches[4];
  fetches[0] = out(unary(graph, "TestGet", "get", x, status), 0);
  TF_Output later = x;
  for (int i = 0; i < 3; ++i) {
    char name[16];
    snprintf(name, sizeof name, "pass%d", i);
    later = out(unary(graph, i == 1 ? "TestPassAtOnce" : "TestPass", name, later, status), 0);
  }
  fetches[1] = out(unary(graph, "TestPut", "put", later, status), 0);
  fetches[2] = out(unary(graph, "TestGet", "get2", x, status), 0);
  fetches[3] = out(unary(graph, "TestPut", "put2", x, status), 0);
  CHECK_OK(status);
  run(graph, threads, x, fetches, 4, 50);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

/* The calls of one node meet each other: those of the iterations of a loop that run at the same time. */
static void check_iterations(int threads) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  const TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Output inputs[2];
  inputs[0] = out(int32_constant(graph, "zero", 0, status), 0);
  inputs[1] = x;
  TF_WhileParams params = TF_NewWhile(graph, inputs, 2, status);
  CHECK_OK(status);
  const TF_Output bound = out(int32_constant(params.cond_graph, "bound", 8, status), 0);
  params.cond_output =
      out(binary(params.cond_graph, "Less", "less", params.cond_inputs[0], bound, status), 0);
  const TF_Output one = out(int32_constant(params.body_graph, "one", 1, status), 0);
  params.body_outputs[0] =
      out(binary(params.body_graph, "AddV2", "next", params.body_inputs[0], one, status), 0);
  TF_Operation* const met = unary(params.body_graph, "TestMeet", "meet", params.body_inputs[0], status);
  TF_OperationDescription* same = TF_NewOperation(params.body_graph, "Identity", "same");
  TF_AddInput(same, params.body_inputs[1]);
  TF_AddControlInput(same, met);
  params.body_outputs[1] = out(TF_FinishOperation(same, status), 0);
  params.name = "loop";
  TF_Output results[2];
  TF_FinishWhile(&params, status, results);
  CHECK_OK(status);
  run(graph, threads, x, &results[1], 1, 5);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

void test_blocking_kernels(void) {
  mtx_init(&g_mu, mtx_plain);
  cnd_init(&g_changed);
  register_kernel("TestPut", put, 1);
  register_kernel("TestGet", get, 1);
  register_kernel("TestMeet", meet, 1);
  register_kernel("TestPass", pass, 1);
  register_kernel("TestPassAtOnce", pass, 0);
  for (int threads = 1; threads <= 3; ++threads) {
    check_put_and_get(threads);
    check_iterations(threads);
  }
  CHECK_INT(g_late, 0);
}
