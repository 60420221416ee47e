/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* tensorflow/c/c_api_experimental.h, and the checkpoints of millrace/c/io.h. */
#include "tensorflow/c/c_api_experimental.h"

#include "check.h"
#include "millrace/c/io.h"

TFE_Context* eager_context(int is_async, TF_Status* status);
TFE_TensorHandle* eager_int(int32_t value);
int32_t take_eager_int(TFE_TensorHandle* handle);

static void check_messages(TF_Status* status) {
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_EnableXLACompilation(options, 1);
  TF_Buffer* config = TF_CreateConfig(0, 1, 2);
  TF_SetConfig(options, config->data, config->length, status);
  CHECK_OK(status);
  TF_Graph* graph = TF_NewGraph();
  int32_constant(graph, "seven", 7, status);
  TF_Session* session = TF_NewSession(graph, options, status);
  TF_DeviceList* devices = TF_SessionListDevices(session, status);
  CHECK_INT(TF_DeviceListCount(devices), 2);
  TF_DeleteDeviceList(devices);
  TF_DeleteSession(session, status);
  TF_DeleteBuffer(config);
  TF_DeleteSessionOptions(options);
  TF_Buffer* run = TF_CreateRunOptions(1);
  CHECK(run->length == 2 && memcmp(run->data, "\x08\x03", 2) == 0); /* trace_level: FULL_TRACE */
  TF_DeleteBuffer(run);
  size_t length = 0;
  char* text = (char*)TF_GraphDebugString(graph, &length);
  CHECK_HAS(text, "name: \"seven\"");
  CHECK_INT(strlen(text), length);
  free(text);
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Function* function = TF_GraphToFunction(graph, "f", 0, 0, NULL, 1, &x, 1, &x, NULL, NULL, NULL, status);
  CHECK_OK(status);
  text = TF_FunctionDebugString(function, &length);
  CHECK_HAS(text, "name: \"f\"");
  free(text);
  TF_DeleteFunction(function);
  TF_DeleteGraph(graph);
  TF_MakeInternalErrorStatus(status, "out of paper");
  CHECK_ERROR(status, TF_INTERNAL, "out of paper");
  TF_Buffer* server = TFE_GetServerDef("job_name: \"w\" task_index: 1", status);
  CHECK_OK(status);
  CHECK(server != NULL && server->length > 0);
  TF_DeleteBuffer(server);
  CHECK(TFE_GetServerDef("job_name: 3", status) == NULL);
  CHECK_ERROR(status, TF_INTERNAL, "Invalid text proto for ServerDef");
  CHECK_INT(TF_SetXlaEnableLazyCompilation(0), 1);
  CHECK_INT(TF_SetXlaEnableLazyCompilation(1), 0);
  TF_SetXLaAutoJitMode("2");
  TF_SetXlaMinClusterSize(4);
  TF_InitMain("usage", NULL, NULL);
  const int port = TF_PickUnusedPortOrDie();
  CHECK(port > 0 && port < 65536);
}

/* Saves v = [1, 2] by the op. */
static void save(const char* prefix, TF_Status* status) {
  TFE_Context* context = eager_context(0, status);
  TFE_Op* op = TFE_NewOp(context, "SaveV2", status);
  CHECK_OK(status);
  TF_Tensor* value = float_vector((const float[]){1, 2}, 2);
  TFE_TensorHandle* v = TFE_NewTensorHandle(value, status);
  TF_DeleteTensor(value);
  const char* const texts[] = {prefix, "v", ""};
  TFE_TensorHandle* handles[3];
  for (int i = 0; i < 3; ++i) {
    /* A string constant, by its op. */
    TFE_Op* constant_op = TFE_NewOp(context, "Const", status);
    const int64_t one[] = {1};
    const size_t bytes = 8 + TF_StringEncodedSize(strlen(texts[i]));
    TF_Tensor* text = TF_AllocateTensor(TF_STRING, one, i == 0 ? 0 : 1, bytes);
    memset(TF_TensorData(text), 0, 8);
    TF_StringEncode(texts[i], strlen(texts[i]), (char*)TF_TensorData(text) + 8, bytes - 8, status);
    TFE_OpSetAttrTensor(constant_op, "value", text, status);
    TFE_OpSetAttrType(constant_op, "dtype", TF_STRING);
    TF_DeleteTensor(text);
    int count = 1;
    TFE_Execute(constant_op, &handles[i], &count, status);
    CHECK_OK(status);
    TFE_DeleteOp(constant_op);
    TFE_OpAddInput(op, handles[i], status);
  }
  TFE_OpAddInputList(op, &v, 1, status);
  int none = 0;
  TFE_Execute(op, NULL, &none, status);
  CHECK_OK(status);
  for (int i = 0; i < 3; ++i) TFE_DeleteTensorHandle(handles[i]);
  TFE_DeleteTensorHandle(v);
  TFE_DeleteOp(op);
  TFE_DeleteContext(context);
}

static void check_checkpoints(TF_Status* status) {
  char prefix[256];
  const char* folder = getenv("TMPDIR");
  snprintf(prefix, sizeof(prefix), "%s/experimental_test_%d", folder == NULL ? "/tmp" : folder,
           TF_PickUnusedPortOrDie());
  save(prefix, status);
  TF_CheckpointReader* reader = TF_NewCheckpointReader(prefix, status);
  CHECK_OK(status);
  CHECK_INT(TF_CheckpointReaderSize(reader), 1);
  CHECK_STR(TF_CheckpointReaderGetVariable(reader, 0), "v");
  CHECK(TF_CheckpointReaderGetVariable(reader, 1) == NULL);
  CHECK_INT(TF_CheckpointReaderHasTensor(reader, "v"), 1);
  CHECK_INT(TF_CheckpointReaderHasTensor(reader, "w"), 0);
  CHECK_INT(TF_CheckpointReaderGetVariableDataType(reader, "v"), TF_FLOAT);
  CHECK_INT(TF_CheckpointReaderGetVariableNumDims(reader, "v"), 1);
  int64_t dim = 0;
  TF_CheckpointReaderGetVariableShape(reader, "v", &dim, 1, status);
  CHECK_OK(status);
  CHECK_INT(dim, 2);
  TF_CheckpointReaderGetVariableShape(reader, "v", &dim, 2, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_Tensor* value = TF_CheckpointReaderGetTensor(reader, "v", status);
  CHECK_OK(status);
  CHECK(((const float*)TF_TensorData(value))[1] == 2);
  TF_DeleteTensor(value);
  CHECK(TF_CheckpointReaderGetTensor(reader, "w", status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
  TF_DeleteCheckpointReader(reader);
  CHECK(TF_NewCheckpointReader("/nowhere/at/all", status) == NULL);
  CHECK(TF_GetCode(status) != TF_OK);

  Millrace_Checkpoint* checkpoint = Millrace_OpenCheckpoint(prefix, status);
  CHECK_OK(status);
  CHECK_INT(Millrace_CheckpointCount(checkpoint), 1);
  const char* name = NULL;
  const int64_t* dims = NULL;
  TF_DataType dtype = TF_INT8;
  int num_dims = 0;
  CHECK_INT(Millrace_CheckpointVariable(checkpoint, 0, &name, &dtype, &dims, &num_dims), 1);
  CHECK_STR(name, "v");
  CHECK(dtype == TF_FLOAT && num_dims == 1 && dims[0] == 2);
  CHECK_INT(Millrace_CheckpointVariable(checkpoint, 1, &name, &dtype, &dims, &num_dims), 0);
  value = Millrace_CheckpointTensor(checkpoint, "v", status);
  CHECK_OK(status);
  CHECK(((const float*)TF_TensorData(value))[0] == 1);
  TF_DeleteTensor(value);
  Millrace_CloseCheckpoint(checkpoint);
  CHECK(Millrace_ExtendCrc32c(0, "123456789", 9) == 0xe3069283u);
  strcat(prefix, ".index");
  remove(prefix);
  strcpy(strstr(prefix, ".index"), ".data-00000-of-00001");
  remove(prefix);
}

static void check_ops(TF_Status* status) {
  CHECK_INT(TF_OpIsStateful("RandomUniform", status), 1);
  CHECK_INT(TF_OpIsStateful("Add", status), 0);
  CHECK_OK(status);
  CHECK_INT(TF_OpIsStateful("NoSuchOp", status), -1);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
  CHECK_STR(TF_GetNumberAttrForOpListInput("AddN", 0, status), "N");
  CHECK(TF_GetNumberAttrForOpListInput("Add", 0, status) == NULL);
  CHECK_OK(status);
  TF_GetNumberAttrForOpListInput("Add", 2, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_AttrBuilder* builder = TF_NewAttrBuilder("MatMul");
  TF_AttrBuilderSetType(builder, "T", TF_FLOAT);
  TF_AttrBuilderCheckCanRunOnDevice(builder, "CPU", status);
  CHECK_OK(status);
  TF_AttrBuilderCheckCanRunOnDevice(builder, "ABACUS", status);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
  TF_DeleteAttrBuilder(builder);
  builder = TF_NewAttrBuilder("Assert");
  const TF_DataType type = TF_INT32;
  TF_AttrBuilderSetTypeList(builder, "T", &type, 1);
  TF_AttrBuilderCheckCanRunOnDevice(builder, "CPU", status);
  CHECK_OK(status);
  TF_DeleteAttrBuilder(builder);
}

static void check_eager(TF_Status* status) {
  int32_t number = 21;
  TFE_TensorHandle* x = TFE_NewTensorHandleFromScalar(TF_INT32, &number, sizeof(number), status);
  CHECK_OK(status);
  CHECK(TFE_NewTensorHandleFromScalar(TF_INT32, &number, 3, status) == NULL);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TFE_TensorHandlePrintDebugString(x);
  TFE_TensorHandlePrintDebugString(NULL);
  TFE_Context* context = eager_context(0, status);
  TFE_Op* op = TFE_NewOp(context, "Add", status);
  TFE_OpAddInput(op, x, status);
  TFE_OpAddInput(op, x, status);
  TFE_TensorHandle* sum = NULL;
  int count = 1;
  TFE_ExecuteOpNotification* notification = TFE_ExecuteOpInNewThread(op, &sum, &count, status);
  CHECK_OK(status);
  TFE_ExecuteOpNotificationWaitAndDelete(notification, status);
  CHECK_OK(status);
  CHECK_INT(take_eager_int(sum), 42);
  TFE_DeleteOp(op);
  TFE_EnableCollectiveOps(context, "", 0, status);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TFE_EnableCollectiveOps");
  TFE_DequeueNamedTensorFromCtx(context, 0, TF_INT32, status);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TFE_DequeueNamedTensorFromCtx");
  TFE_EnqueueNamedTensorFromCtx(context, 0, x, status);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TFE_EnqueueNamedTensorFromCtx");
  TFE_DeleteContext(context);
  TFE_EnqueueNamedTensor(NULL, 0, x, status);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TFE_EnqueueNamedTensor");
  TFE_EnqueueVariantTensor(NULL, 0, x, status);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TFE_EnqueueVariantTensor");
  TFE_DeleteTensorHandle(x);
  CHECK(TFE_DequeueNamedTensor(NULL, 0, TF_INT32, status) == NULL);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TFE_DequeueNamedTensor");
  CHECK(TFE_DequeueVariantTensor(NULL, 0, status) == NULL);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TFE_DequeueVariantTensor");
  CHECK(TFE_CreateContextFromSession(NULL, status) == NULL);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TFE_CreateContextFromSession");
  CHECK(TF_DequeueNamedTensor(NULL, 0, status) == NULL);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TF_DequeueNamedTensor");
  TF_EnqueueNamedTensor(NULL, 0, NULL, status);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TF_EnqueueNamedTensor");
  CHECK(TF_MakeFakeIteratorGetNextWithDatasets(NULL, status) == NULL);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TF_MakeFakeIteratorGetNextWithDatasets");
  CHECK(TF_MakeFileBasedIteratorGetNextWithDatasets(NULL, "", 1, 0, status) == NULL);
  CHECK_ERROR(status, TF_UNIMPLEMENTED, "TF_MakeFileBasedIteratorGetNextWithDatasets");
}

void test_experimental(void) {
  TF_Status* status = TF_NewStatus();
  check_messages(status);
  check_checkpoints(status);
  check_ops(status);
  check_eager(status);
  TF_DeleteStatus(status);
}
