/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Children of fork(), while other threads of the parent are within the library. */
#define _POSIX_C_SOURCE 200809L
#include <stdatomic.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "check.h"
#include "tensorflow/c/eager/c_api.h"

/* ThreadSanitizer calls this. Without the option it ends a child that starts threads. */
__attribute__((visibility("default"))) const char* __tsan_default_options(void);
const char* __tsan_default_options(void) { return "die_after_fork=0"; }

enum { kForks = 12, kSide = 256 };

typedef struct Work {
  TF_Graph* graph;
  TF_Output x, product, next; /* a matrix, its square, what an empty queue gives */
  TF_Session* session;
  atomic_int stop;
} Work;

static void build(Work* w, TF_Status* status) {
  w->graph = TF_NewGraph();
  w->x = out(placeholder(w->graph, "x", TF_FLOAT, status), 0);
  w->product = out(binary(w->graph, "MatMul", "product", w->x, w->x, status), 0);
  TF_OperationDescription* desc = TF_NewOperation(w->graph, "FIFOQueueV2", "queue");
  const TF_DataType type = TF_FLOAT;
  TF_SetAttrTypeList(desc, "component_types", &type, 1);
  TF_Operation* queue = TF_FinishOperation(desc, status);
  desc = TF_NewOperation(w->graph, "QueueDequeueV2", "next");
  TF_AddInput(desc, out(queue, 0));
  TF_SetAttrTypeList(desc, "component_types", &type, 1);
  w->next = out(TF_FinishOperation(desc, status), 0);
  CHECK_OK(status);
}

/* Whether the square of a matrix of ones is right. */
static int square(const Work* w, TF_Session* session, TF_Status* status) {
  const int64_t dims[] = {kSide, kSide};
  TF_Tensor* ones = TF_AllocateTensor(TF_FLOAT, dims, 2, sizeof(float) * kSide * kSide);
  float* values = TF_TensorData(ones);
  for (int i = 0; i < kSide * kSide; ++i) values[i] = 1;
  TF_Tensor* result = NULL;
  TF_SessionRun(session, NULL, &w->x, &ones, 1, &w->product, &result, 1, NULL, 0, NULL, status);
  TF_DeleteTensor(ones);
  if (TF_GetCode(status) != TF_OK) return 0;
  values = TF_TensorData(result);
  int right = TF_TensorElementCount(result) == kSide * kSide;
  for (int i = 0; right && i < kSide * kSide; ++i) right = values[i] == kSide;
  TF_DeleteTensor(result);
  return right;
}

static int run_often(void* work) {
  Work* w = work;
  TF_Status* status = TF_NewStatus();
  while (!atomic_load(&w->stop)) {
    if (!square(w, w->session, status)) break;
  }
  const int right = TF_GetCode(status) == TF_OK;
  TF_DeleteStatus(status);
  return right;
}

/* Waits for the queue until the session is closed. */
static int wait_long(void* work) {
  Work* w = work;
  TF_Status* status = TF_NewStatus();
  TF_Tensor* result = NULL;
  TF_SessionRun(w->session, NULL, NULL, NULL, 0, &w->next, &result, 1, NULL, 0, NULL, status);
  const int right = TF_GetCode(status) == TF_CANCELLED;
  TF_DeleteStatus(status);
  return right;
}

/* 0, or the number of what went wrong. */
static int child(const Work* w, TFE_Context* context) {
  alarm(30);
  TF_Status* status = TF_NewStatus();
  /* The session of the parent returns an error in the child. */
  square(w, w->session, status);
  if (TF_GetCode(status) != TF_FAILED_PRECONDITION) return 1;
  if (strstr(TF_Message(status), "forked") == NULL) return 2;
  TF_CloseSession(w->session, status);
  if (TF_GetCode(status) != TF_OK) return 3;
  TF_DeleteSession(w->session, status);
  /* One of its own works, with the time-outs and the threads of steps. */
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session = TF_NewSession(w->graph, options, status);
  if (TF_GetCode(status) != TF_OK) return 4;
  for (int i = 0; i < 3; ++i) {
    if (!square(w, session, status)) return 5;
  }
  TF_Buffer run_options = {"\x10\x14", 2, NULL}; /* timeout_in_ms: 20 */
  TF_Tensor* result = NULL;
  TF_SessionRun(session, &run_options, NULL, NULL, 0, &w->next, &result, 1, NULL, 0, NULL, status);
  if (TF_GetCode(status) != TF_DEADLINE_EXCEEDED) return 6;
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  /* Ops one by one, in the context of the parent. */
  TF_Tensor* seven = int32_scalar(7);
  TFE_TensorHandle* x = TFE_NewTensorHandle(seven, status);
  TFE_Op* op = TFE_NewOp(context, "Neg", status);
  TFE_OpAddInput(op, x, status);
  TFE_TensorHandle* y = NULL;
  int count = 1;
  TFE_Execute(op, &y, &count, status);
  if (TF_GetCode(status) != TF_OK) return 7;
  TF_Tensor* value = TFE_TensorHandleResolve(y, status);
  if (*(const int32_t*)TF_TensorData(value) != -7) return 8;
  TFE_DeleteOp(op);
  TFE_DeleteContext(context);
  return 0;
}

void test_forks(void) {
  TF_Status* status = TF_NewStatus();
  Work w = {.stop = 0};
  build(&w, status);
  TF_SessionOptions* options = TF_NewSessionOptions();
  w.session = TF_NewSession(w.graph, options, status);
  TF_DeleteSessionOptions(options);
  TFE_Context* context = TFE_NewContext(NULL, status);
  CHECK_OK(status);
  CHECK(square(&w, w.session, status));
  thrd_t threads[3];
  for (int i = 0; i < 3; ++i) thrd_create(&threads[i], i < 2 ? run_often : wait_long, &w);
  for (int i = 0; i < kForks; ++i) {
    const pid_t pid = fork();
    if (pid == 0) _exit(child(&w, context));
    CHECK(pid > 0);
    int result = 0;
    waitpid(pid, &result, 0);
    CHECK(WIFEXITED(result));
    CHECK_INT(WEXITSTATUS(result), 0);
  }
  /* The parent is not affected. */
  CHECK(square(&w, w.session, status));
  atomic_store(&w.stop, 1);
  int right = 0;
  for (int i = 0; i < 2; ++i) {
    thrd_join(threads[i], &right);
    CHECK(right);
  }
  TF_CloseSession(w.session, status);
  thrd_join(threads[2], &right);
  CHECK(right);
  TF_DeleteSession(w.session, status);
  CHECK_OK(status);
  TFE_DeleteContext(context);
  TF_DeleteGraph(w.graph);
  TF_DeleteStatus(status);
}
