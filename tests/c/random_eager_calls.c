/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Calls of eager execution, and of the experimental functions, in any order with any arguments of the right
 * types: each has to answer, nothing may crash, and what is left is deleted in any order. */
#include "random.h"
#include "tensorflow/c/c_api_experimental.h"
#include "tensorflow/c/eager/c_api.h"

enum { kContexts = 3, kOps = 6, kHandles = 12, kOrphans = 8 };

typedef struct World {
  uint64_t seed;
  TF_Status* status;
  TFE_Context* contexts[kContexts];
  TFE_Op* ops[kOps];
  TFE_Context* of[kOps];     /* the contexts of these */
  TFE_Op* orphans[kOrphans]; /* whose context is gone */
  TFE_TensorHandle* handles[kHandles];
  int succeeded, executed;
} World;

static int any(World* w, int count) { return draw(&w->seed, count); }

static void note(World* w) { w->succeeded += TF_GetCode(w->status) == TF_OK; }

static TFE_Context* any_context(World* w) { return any(w, 40) == 0 ? NULL : w->contexts[any(w, kContexts)]; }
static TFE_Op* any_op(World* w) {
  const int which = any(w, 40);
  return which == 0 ? NULL : which < 4 ? w->orphans[any(w, kOrphans)] : w->ops[any(w, kOps)];
}
static TFE_TensorHandle* any_handle(World* w) {
  return any(w, 40) == 0 ? NULL : w->handles[any(w, kHandles)];
}

static const char* any_of(World* w, const char* const* texts, int count) {
  return any(w, 60) == 0 ? NULL : texts[any(w, count)];
}
#define ANY_OF(w, texts) any_of(w, texts, (int)(sizeof(texts) / sizeof((texts)[0])))

/* None of them waits for another one. */
static const char* const kOpNames[] = {"Add",
                                       "MatMul",
                                       "Identity",
                                       "IdentityN",
                                       "Const",
                                       "Split",
                                       "SplitV",
                                       "ConcatV2",
                                       "Pack",
                                       "Cast",
                                       "Placeholder",
                                       "VarHandleOp",
                                       "AssignVariableOp",
                                       "ReadVariableOp",
                                       "FIFOQueueV2",
                                       "QueueEnqueueV2",
                                       "QueueSizeV2",
                                       "Reshape",
                                       "Fill",
                                       "Shape",
                                       "RandomUniform",
                                       "NoOp",
                                       "If",
                                       "PartitionedCall",
                                       "_Arg",
                                       "Switch",
                                       "Variable",
                                       "StringJoin",
                                       "Where",
                                       "StatefulPartitionedCall",
                                       "double",
                                       "nix",
                                       "",
                                       "DecodeRaw"};
static const char* const kAttrs[] = {
    "T",    "dtype",       "N",           "num_split",   "shape", "value",           "shared_name",
    "f",    "Tin",         "Tout",        "transpose_a", "DstT",  "component_types", "shapes",
    "seed", "then_branch", "else_branch", "nix",         ""};
static const char* const kDevices[] = {
    "", "/cpu:0", "/job:localhost/replica:0/task:0/device:CPU:0", "/gpu:0", "/device:CPU:7", "rubbish"};

static TF_DataType any_type(World* w) {
  return any(w, 6) == 0 ? (TF_DataType)any(w, 130) : any(w, 3) == 0 ? TF_INT32 : TF_FLOAT;
}

static TF_Tensor* new_tensor(World* w) { return draw_tensor(&w->seed, any_type(w)); }

static void keep_handle(World* w, TFE_TensorHandle* handle) {
  if (handle == NULL) return;
  const int at = any(w, kHandles);
  TFE_DeleteTensorHandle(w->handles[at]);
  w->handles[at] = handle;
}

static void make_handle(World* w) {
  if (any(w, 8) == 0) {
    double value = any(w, 9);
    keep_handle(w, TFE_NewTensorHandleFromScalar(any_type(w), &value, (size_t)any(w, 9), w->status));
  } else {
    TF_Tensor* tensor = any(w, 30) == 0 ? NULL : new_tensor(w);
    keep_handle(w, TFE_NewTensorHandle(tensor, w->status));
    TF_DeleteTensor(tensor);
  }
  note(w);
}

static void set_attr(World* w) {
  TFE_Op* op = any_op(w);
  const char* name = ANY_OF(w, kAttrs);
  const int64_t dims[] = {2, any(w, 4) - 1};
  const int64_t* shapes[] = {dims, any(w, 9) == 0 ? NULL : dims};
  const int ranks[] = {any(w, 4) - 1, 2};
  const int64_t ints[] = {1, 2};
  const float floats[] = {1, 2};
  const unsigned char bools[] = {1, 0};
  const TF_DataType types[] = {any_type(w), TF_FLOAT};
  const void* texts[] = {"a", "double"};
  const size_t lengths[] = {1, 6};
  const TFE_Op* functions[] = {any_op(w), any_op(w)};
  const int count = any(w, 3);
  switch (any(w, 16)) {
    case 0:
      return TFE_OpSetAttrString(op, name, "text", (size_t)any(w, 5));
    case 1:
      return TFE_OpSetAttrInt(op, name, any(w, 5) - 1);
    case 2:
      return TFE_OpSetAttrFloat(op, name, 2);
    case 3:
      return TFE_OpSetAttrBool(op, name, (unsigned char)any(w, 3));
    case 4:
      return TFE_OpSetAttrShape(op, name, dims, any(w, 4) - 1, w->status);
    case 5:
      return TFE_OpSetAttrFunction(op, name, any_op(w));
    case 6:
      return TFE_OpSetAttrFunctionName(op, name, "double", (size_t)any(w, 7));
    case 7: {
      TF_Tensor* tensor = new_tensor(w);
      TFE_OpSetAttrTensor(op, name, tensor, w->status);
      return TF_DeleteTensor(tensor);
    }
    case 8:
      return TFE_OpSetAttrStringList(op, name, texts, lengths, count);
    case 9:
      return TFE_OpSetAttrIntList(op, name, ints, count);
    case 10:
      return TFE_OpSetAttrFloatList(op, name, floats, count);
    case 11:
      return TFE_OpSetAttrBoolList(op, name, bools, count);
    case 12:
      return TFE_OpSetAttrTypeList(op, name, types, count);
    case 13:
      return TFE_OpSetAttrShapeList(op, name, shapes, ranks, count, w->status);
    case 14:
      return TFE_OpSetAttrFunctionList(op, name, functions, count);
    default:
      return TFE_OpSetAttrType(op, name, any_type(w));
  }
}

static void execute(World* w, TFE_Op* op) {
  TFE_TensorHandle* results[4] = {NULL};
  int count = any(w, 5);
  if (any(w, 12) == 0) {
    TFE_ExecuteOpNotification* running = TFE_ExecuteOpInNewThread(op, results, &count, w->status);
    TFE_ExecuteOpNotificationWaitAndDelete(running, w->status);
  } else {
    TFE_Execute(op, results, any(w, 50) == 0 ? NULL : &count, w->status);
  }
  note(w);
  w->executed += TF_GetCode(w->status) == TF_OK;
  for (int i = 0; i < 4; ++i) keep_handle(w, results[i]);
}

/* An op that is right as often as not. */
static void execute_well(World* w) {
  const char* const names[] = {"Add", "Mul", "MatMul", "Identity", "double", "Shape", "Neg"};
  const int which = any(w, 7);
  TFE_Op* op = TFE_NewOp(any_context(w), names[which], w->status);
  TFE_OpAddInput(op, any_handle(w), w->status);
  if (which < 3) TFE_OpAddInput(op, any_handle(w), w->status);
  execute(w, op);
  TFE_DeleteOp(op);
}

static void look(World* w) {
  TFE_TensorHandle* handle = any_handle(w);
  TFE_Op* op = any_op(w);
  unsigned char is_list = 0;
  switch (any(w, 14)) {
    case 0:
      TFE_TensorHandleNumDims(handle, w->status);
      break;
    case 1:
      TFE_TensorHandleNumElements(handle, w->status);
      break;
    case 2:
      TFE_TensorHandleDim(handle, any(w, 5) - 1, w->status);
      break;
    case 3:
      TFE_TensorHandleDeviceName(handle, w->status);
      break;
    case 4:
      TFE_TensorHandleBackingDeviceName(handle, w->status);
      break;
    case 5:
      TF_DeleteTensor(TFE_TensorHandleResolve(handle, w->status));
      break;
    case 6:
      keep_handle(w, TFE_TensorHandleCopySharingTensor(handle, w->status));
      break;
    case 7:
      keep_handle(w, TFE_TensorHandleCopyToDevice(handle, any_context(w), ANY_OF(w, kDevices), w->status));
      break;
    case 8: {
      TFE_TensorDebugInfo* info = TFE_TensorHandleTensorDebugInfo(handle, w->status);
      TFE_TensorDebugInfoOnDeviceDim(info, any(w, 5) - 1);
      TFE_TensorDebugInfoOnDeviceNumDims(info);
      TFE_DeleteTensorDebugInfo(info);
      break;
    }
    case 9:
      TFE_OpGetAttrType(op, ANY_OF(w, kAttrs), &is_list, w->status);
      break;
    case 10:
      TFE_OpNameGetAttrType(any_context(w), ANY_OF(w, kOpNames), ANY_OF(w, kAttrs), &is_list, w->status);
      break;
    case 11:
      TFE_OpGetInputLength(op, any(w, 2) == 0 ? "x" : "values", w->status);
      break;
    case 12:
      TFE_OpGetOutputLength(op, any(w, 2) == 0 ? "y" : "output", w->status);
      break;
    default:
      TFE_OpGetDevice(op, w->status);
      TFE_TensorHandleDataType(handle);
  }
  note(w);
}

static TF_Function* double_function(World* w) {
  TF_Graph* graph = TF_NewGraph();
  const TF_Output x = out(placeholder(graph, "x", TF_FLOAT, w->status), 0);
  const TF_Output y = out(binary(graph, "Add", "y", x, x, w->status), 0);
  TF_Function* function =
      TF_GraphToFunction(graph, "double", 0, -1, NULL, 1, &x, 1, &y, NULL, NULL, NULL, w->status);
  TF_DeleteGraph(graph);
  return function;
}

static void use_context(World* w) {
  TFE_Context* context = any_context(w);
  switch (any(w, 12)) {
    case 0:
      TF_DeleteDeviceList(TFE_ContextListDevices(context, w->status));
      break;
    case 1:
      TFE_ContextClearCaches(context);
      break;
    case 2:
      TFE_ContextSetThreadLocalDevicePlacementPolicy(context, (TFE_ContextDevicePlacementPolicy)any(w, 5));
      break;
    case 3:
      TFE_ContextGetDevicePlacementPolicy(context);
      break;
    case 4:
      TFE_ContextSetServerDef(context, any(w, 9), "\x0a\x01", (size_t)any(w, 3), w->status);
      break;
    case 5:
      TFE_ContextAddFunctionDef(context, "\x0a\x03\x0a\x01g", (size_t)any(w, 6), w->status);
      break;
    case 6: {
      TF_Function* function = any(w, 9) == 0 ? NULL : double_function(w);
      TFE_ContextAddFunction(context, function, w->status);
      TF_DeleteFunction(function);
      break;
    }
    case 7:
      TFE_ContextRemoveFunction(context, any(w, 2) == 0 ? "double" : ANY_OF(w, kOpNames), w->status);
      break;
    case 8:
      TFE_ContextHasFunction(context, ANY_OF(w, kOpNames));
      break;
    case 9:
      any(w, 2) == 0 ? TFE_ContextEnableRunMetadata(context) : TFE_ContextDisableRunMetadata(context);
      break;
    case 10: {
      TF_Buffer* buffer = any(w, 9) == 0 ? NULL : TF_NewBuffer();
      TFE_ContextExportRunMetadata(context, buffer, w->status);
      TF_DeleteBuffer(buffer);
      break;
    }
    default:
      any(w, 2) == 0 ? TFE_ContextStartStep(context) : TFE_ContextEndStep(context);
  }
}

static void experiment(World* w) {
  const TF_DataType types[] = {any_type(w), any_type(w)};
  TFE_TensorHandle* handle = any_handle(w);
  TFE_Context* context = any_context(w);
  switch (any(w, 11)) {
    case 0: {
      TF_AttrBuilder* builder = TF_NewAttrBuilder(ANY_OF(w, kOpNames));
      TF_AttrBuilderSetType(builder, ANY_OF(w, kAttrs), any_type(w));
      TF_AttrBuilderSetTypeList(builder, ANY_OF(w, kAttrs), types, any(w, 3));
      TF_AttrBuilderCheckCanRunOnDevice(builder, any(w, 3) == 0 ? ANY_OF(w, kDevices) : "CPU", w->status);
      TF_DeleteAttrBuilder(builder);
      break;
    }
    case 1:
      TF_GetNumberAttrForOpListInput(ANY_OF(w, kOpNames), any(w, 5) - 1, w->status);
      break;
    case 2:
      TF_OpIsStateful(ANY_OF(w, kOpNames), w->status);
      break;
    case 3:
      TF_DeleteBuffer(TF_CreateConfig((unsigned char)any(w, 2), 0, (unsigned)any(w, 3)));
      break;
    case 4:
      TF_DeleteBuffer(TF_CreateRunOptions((unsigned char)any(w, 2)));
      break;
    case 5:
      TF_MakeInternalErrorStatus(w->status, ANY_OF(w, kOpNames));
      break;
    case 6: {
      TF_CheckpointReader* reader = TF_NewCheckpointReader(ANY_OF(w, kDevices), w->status);
      TF_CheckpointReaderHasTensor(reader, "x");
      TF_CheckpointReaderGetVariable(reader, any(w, 3) - 1);
      TF_DeleteTensor(TF_CheckpointReaderGetTensor(reader, "x", w->status));
      TF_DeleteCheckpointReader(reader);
      break;
    }
    case 7:
      TF_DeleteBuffer(TFE_GetServerDef(any(w, 2) == 0 ? "task_index: 1" : NULL, w->status));
      break;
    case 8:
      TFE_EnqueueNamedTensorFromCtx(context, any(w, 3), handle, w->status);
      break;
    case 9:
      keep_handle(w, TFE_DequeueNamedTensorFromCtx(context, any(w, 3), any_type(w), w->status));
      break;
    default:
      TFE_EnableCollectiveOps(context, "\x0a", (size_t)any(w, 2), w->status);
  }
  note(w);
}

static void new_context(World* w, int at) {
  TFE_ContextOptions* options = TFE_NewContextOptions();
  TFE_ContextOptionsSetAsync(options, (unsigned char)any(w, 2));
  TFE_ContextOptionsSetDevicePlacementPolicy(options, (TFE_ContextDevicePlacementPolicy)any(w, 4));
  TFE_ContextOptionsSetConfig(options, "\x10\x01\x28\x01", 4, w->status);
  w->contexts[at] = TFE_NewContext(options, w->status);
  CHECK_OK(w->status);
  TFE_DeleteContextOptions(options);
}

static void delete_context(World* w, int at) {
  for (int i = 0; i < kOps; ++i) {
    if (w->ops[i] == NULL || w->of[i] != w->contexts[at]) continue;
    TFE_Op** place = &w->orphans[any(w, kOrphans)];
    TFE_DeleteOp(*place);
    *place = w->ops[i];
    w->ops[i] = NULL;
  }
  TFE_DeleteContext(w->contexts[at]);
  w->contexts[at] = NULL;
}

static void one_world(World* w) {
  w->status = TF_NewStatus();
  for (int i = 0; i < kContexts; ++i) new_context(w, i);
  for (int call = 0; call < 2000; ++call) {
    const int which = any(w, 100), at = any(w, kOps);
    if (which < 12) {
      make_handle(w);
    } else if (which < 22) {
      TFE_DeleteOp(w->ops[at]);
      w->of[at] = any_context(w);
      w->ops[at] = TFE_NewOp(w->of[at], ANY_OF(w, kOpNames), w->status);
    } else if (which < 34) {
      TFE_OpAddInput(any_op(w), any_handle(w), w->status);
    } else if (which < 37) {
      TFE_TensorHandle* inputs[] = {any_handle(w), any_handle(w)};
      TFE_OpAddInputList(any_op(w), inputs, any(w, 3), w->status);
    } else if (which < 50) {
      set_attr(w);
    } else if (which < 60) {
      execute(w, any_op(w));
    } else if (which < 75) {
      execute_well(w);
    } else if (which < 86) {
      look(w);
    } else if (which < 89) {
      TFE_OpSetDevice(any_op(w), ANY_OF(w, kDevices), w->status);
      TFE_OpSetXLACompilation(any_op(w), 1);
    } else if (which < 95) {
      use_context(w);
    } else if (which < 99 || any(w, 4) != 0) {
      experiment(w);
    } else {
      const int old = any(w, kContexts);
      delete_context(w, old);
      new_context(w, old);
    }
  }
  /* In any order. */
  for (int left = kContexts + kOps + kHandles; left > 0;) {
    const int at = any(w, kHandles);
    if (at < kContexts && w->contexts[at] != NULL && any(w, 3) == 0) {
      delete_context(w, at);
    } else if (at < kOps && w->ops[at] != NULL && any(w, 3) == 0) {
      TFE_DeleteOp(w->ops[at]);
      w->ops[at] = NULL;
    } else {
      TFE_DeleteTensorHandle(w->handles[at]);
      w->handles[at] = NULL;
    }
    left = 0;
    for (int i = 0; i < kHandles; ++i)
      left += (w->handles[i] != NULL) + (i < kOps && w->ops[i] != NULL) +
              (i < kContexts && w->contexts[i] != NULL);
  }
  for (int i = 0; i < kOrphans; ++i) TFE_DeleteOp(w->orphans[i]);
  TF_DeleteStatus(w->status);
}

void test_random_eager_calls(void) {
  /* MILLRACE_RANDOM_CALLS: how many worlds, in place of the usual number. */
  const char* const wanted = getenv("MILLRACE_RANDOM_CALLS");
  const int worlds = wanted == NULL ? 20 : atoi(wanted);
  int succeeded = 0, executed = 0;
  for (int i = 0; i < worlds; ++i) {
    World world = {.seed = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1)};
    one_world(&world);
    succeeded += world.succeeded;
    executed += world.executed;
  }
  /* Most calls are wrong, but not all. */
  CHECK(succeeded > 100 * worlds);
  CHECK(executed > 20 * worlds);
}
