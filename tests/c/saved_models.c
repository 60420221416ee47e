/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "tensorflow/c/env.h"

/* A message being written. */
typedef struct Bytes {
  char data[8192];
  size_t length;
} Bytes;

static void put_varint(Bytes* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out->data[out->length++] = (char)(value | 0x80);
  out->data[out->length++] = (char)value;
}

static void put_field(Bytes* out, int number, const void* data, size_t length) {
  put_varint(out, (uint64_t)number << 3 | 2);
  put_varint(out, length);
  memcpy(out->data + out->length, data, length);
  out->length += length;
}

static void put_text(Bytes* out, int number, const char* text) { put_field(out, number, text, strlen(text)); }

/* A variable v, set to 7 by "init", and y = v + x. */
static void put_graph_def(Bytes* meta, TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_OperationDescription* desc = TF_NewOperation(graph, "VariableV2", "v");
  TF_SetAttrType(desc, "dtype", TF_INT32);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_Output v = out(TF_FinishOperation(desc, status), 0);
  binary(graph, "Assign", "init", v, out(int32_constant(graph, "seven", 7, status), 0), status);
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  binary(graph, "Add", "y", v, x, status);
  CHECK_OK(status);
  TF_Buffer* def = TF_NewBuffer();
  TF_GraphToGraphDef(graph, def, status);
  put_field(meta, 2, def->data, def->length); /* MetaGraphDef.graph_def */
  TF_DeleteBuffer(def);
  TF_DeleteGraph(graph);
}

static void write_file(const char* path, const Bytes* bytes, TF_Status* status) {
  TF_WritableFileHandle* file = NULL;
  TF_NewWritableFile(path, &file, status);
  CHECK_OK(status);
  TF_AppendWritableFile(file, bytes->data, bytes->length, status);
  TF_CloseWritableFile(file, status);
  CHECK_OK(status);
}

static void write_model(const char* path, TF_Status* status) {
  static Bytes model, meta, info, entry, collection, nodes;
  model.length = meta.length = info.length = entry.length = collection.length = nodes.length = 0;
  put_text(&info, 4, "serve"); /* MetaInfoDef.tags */
  put_text(&info, 4, "small");
  put_field(&meta, 1, info.data, info.length);
  put_graph_def(&meta, status);
  put_text(&nodes, 1, "init"); /* NodeList.value */
  put_field(&collection, 1, nodes.data, nodes.length);
  put_text(&entry, 1, "legacy_init_op");
  put_field(&entry, 2, collection.data, collection.length);
  put_field(&meta, 4, entry.data, entry.length); /* MetaGraphDef.collection_def */
  put_varint(&model, 1 << 3);
  put_varint(&model, 1);
  put_field(&model, 2, meta.data, meta.length); /* SavedModel.meta_graphs */
  write_file(path, &model, status);
}

/* A string in the form that tensors have: an offset for each, then length and bytes. */
static TF_Tensor* strings(int rank, const char* text) {
  const int64_t dims[] = {1};
  const size_t length = strlen(text), size = 8 + TF_StringEncodedSize(length);
  TF_Tensor* tensor = TF_AllocateTensor(TF_STRING, dims, rank, size);
  TF_Status* status = TF_NewStatus();
  memset(TF_TensorData(tensor), 0, 8);
  TF_StringEncode(text, length, (char*)TF_TensorData(tensor) + 8, size - 8, status);
  CHECK_OK(status);
  TF_DeleteStatus(status);
  return tensor;
}

static TF_Output string_constant(TF_Graph* graph, const char* name, int rank, const char* text,
                                 TF_Status* status) {
  TF_Tensor* value = strings(rank, text);
  TF_Output result = out(constant(graph, name, value, status), 0);
  TF_DeleteTensor(value);
  return result;
}

static TF_Output names(TF_Graph* graph, const char* name, const char* text, TF_Status* status) {
  return string_constant(graph, name, 1, text, status);
}

/* SaveV2 or RestoreV2 of one tensor of 32 bits. */
static TF_Operation* checkpoint_op(TF_Graph* graph, const char* op, const char* name, TF_Output path,
                                   const TF_Output* value, TF_Status* status) {
  char key[64];
  const TF_DataType type = TF_INT32;
  TF_OperationDescription* desc = TF_NewOperation(graph, op, name);
  TF_AddInput(desc, path);
  snprintf(key, sizeof(key), "%s/tensor_names", name);
  TF_AddInput(desc, names(graph, key, "v", status));
  snprintf(key, sizeof(key), "%s/shape_and_slices", name);
  TF_AddInput(desc, names(graph, key, "", status));
  if (value != NULL) TF_AddInputList(desc, value, 1);
  TF_SetAttrTypeList(desc, "dtypes", &type, 1);
  TF_Operation* result = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  return result;
}

/* A variable with the nodes of a saver, as TensorFlow 1.x names them. */
static void put_saver_nodes(TF_Graph* graph, TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, "VariableV2", "v");
  TF_SetAttrType(desc, "dtype", TF_INT32);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_Output v = out(TF_FinishOperation(desc, status), 0);
  binary(graph, "Assign", "v/Assign", v, out(int32_constant(graph, "v/initial_value", 41, status), 0),
         status);
  unary(graph, "Identity", "v/read", v, status);
  TF_Output path = string_constant(graph, "save/Const", 0, "model", status);
  TF_Operation* save = checkpoint_op(graph, "SaveV2", "save/SaveV2", path, &v, status);
  desc = TF_NewOperation(graph, "Identity", "save/control_dependency");
  TF_AddInput(desc, path);
  TF_AddControlInput(desc, save);
  TF_FinishOperation(desc, status);
  TF_Operation* restore = checkpoint_op(graph, "RestoreV2", "save/RestoreV2", path, NULL, status);
  TF_Operation* assign = binary(graph, "Assign", "save/Assign", v, out(restore, 0), status);
  desc = TF_NewOperation(graph, "NoOp", "save/restore_all");
  TF_AddControlInput(desc, assign);
  TF_FinishOperation(desc, status);
  CHECK_OK(status);
}

/* Writes the checkpoint with the graph's own nodes. */
static void save_variable(TF_Graph* graph, const char* prefix, TF_Status* status) {
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session = TF_NewSession(graph, options, status);
  const TF_Operation* init = TF_GraphOperationByName(graph, "v/Assign");
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, status);
  CHECK_OK(status);
  TF_Output path = out(TF_GraphOperationByName(graph, "save/Const"), 0);
  TF_Tensor* value = strings(0, prefix);
  const TF_Operation* save = TF_GraphOperationByName(graph, "save/control_dependency");
  TF_SessionRun(session, NULL, &path, &value, 1, NULL, NULL, 0, &save, 1, NULL, status);
  CHECK_OK(status);
  TF_DeleteTensor(value);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
}

static void test_variables(const char* dir) {
  static Bytes model, meta, info, saver;
  char path[600];
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  put_saver_nodes(graph, status);
  TF_CreateDir(dir, status);
  snprintf(path, sizeof(path), "%s/variables/variables", dir);
  save_variable(graph, path, status);
  TF_Buffer* def = TF_NewBuffer();
  TF_GraphToGraphDef(graph, def, status);
  TF_DeleteGraph(graph);
  put_text(&info, 4, "serve");
  put_field(&meta, 1, info.data, info.length);
  put_field(&meta, 2, def->data, def->length);
  put_text(&saver, 1, "save/Const:0");
  put_text(&saver, 2, "save/control_dependency:0");
  put_text(&saver, 3, "save/restore_all");
  put_field(&meta, 3, saver.data, saver.length); /* MetaGraphDef.saver_def */
  put_field(&model, 2, meta.data, meta.length);
  snprintf(path, sizeof(path), "%s/saved_model.pb", dir);
  write_file(path, &model, status);
  TF_DeleteBuffer(def);

  graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  const char* tag = "serve";
  TF_Session* session = TF_LoadSessionFromSavedModel(options, NULL, dir, &tag, 1, graph, NULL, status);
  CHECK_OK(status);
  TF_Output v = out(TF_GraphOperationByName(graph, "v/read"), 0);
  TF_Tensor* value = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &v, &value, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK_INT(take_int32(value), 41);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);

  /* Without its data the model is refused, and the graph is as it was. */
  snprintf(path, sizeof(path), "%s/variables/variables.data-00000-of-00001", dir);
  TF_DeleteFile(path, status);
  CHECK_OK(status);
  graph = TF_NewGraph();
  CHECK(TF_LoadSessionFromSavedModel(options, NULL, dir, &tag, 1, graph, NULL, status) == NULL);
  CHECK(TF_GetCode(status) != TF_OK);
  CHECK(TF_GraphOperationByName(graph, "v") == NULL);
  TF_DeleteGraph(graph);
  TF_DeleteSessionOptions(options);
  TF_DeleteRecursively(dir, NULL, NULL, status);
  TF_DeleteStatus(status);
}

void test_saved_models(void) {
  TF_Status* status = TF_NewStatus();
  TF_StringStream* dirs = TF_GetLocalTempDirectories();
  const char* temp = NULL;
  TF_StringStreamNext(dirs, &temp);
  char dir[512], path[600];
  snprintf(dir, sizeof(dir), "%s/millrace_saved_model_%llu", temp, (unsigned long long)TF_NowNanos());
  snprintf(path, sizeof(path), "%s/saved_model.pb", dir);
  TF_StringStreamDone(dirs);
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Graph* graph = TF_NewGraph();
  const char* tags[] = {"small", "serve"};
  CHECK(TF_LoadSessionFromSavedModel(options, NULL, dir, tags, 2, graph, NULL, status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND,
              "Could not find SavedModel .pb or .pbtxt at supplied export directory path: ");
  TF_CreateDir(dir, status);
  CHECK_OK(status);
  write_model(path, status);

  CHECK(TF_LoadSessionFromSavedModel(options, NULL, dir, tags, 1, graph, NULL, status) == NULL);
  CHECK_ERROR(status, TF_NOT_FOUND, "Could not find meta graph def matching supplied tags: { small }.");
  TF_Buffer* meta = TF_NewBuffer();
  TF_Session* session = TF_LoadSessionFromSavedModel(options, NULL, dir, tags, 2, graph, meta, status);
  CHECK_OK(status);
  CHECK(meta->length > 0);
  TF_DeleteBuffer(meta);
  TF_Output x = out(TF_GraphOperationByName(graph, "x"), 0);
  TF_Output y = out(TF_GraphOperationByName(graph, "y"), 0);
  TF_Tensor* input = int32_scalar(3);
  TF_Tensor* output = NULL;
  TF_SessionRun(session, NULL, &x, &input, 1, &y, &output, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK_INT(take_int32(output), 10);
  TF_DeleteTensor(input);
  CHECK(TF_LoadSessionFromSavedModel(options, NULL, dir, tags, 2, graph, NULL, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Graph is non-empty.");
  TF_DeleteGraph(graph);
  TF_DeleteSession(session, status);
  CHECK(TF_LoadSessionFromSavedModel(options, NULL, NULL, tags, 2, NULL, NULL, status) == NULL);
  TF_DeleteSessionOptions(options);
  TF_DeleteRecursively(dir, NULL, NULL, status);
  CHECK_OK(status);
  TF_DeleteStatus(status);
  test_variables(dir);
}
