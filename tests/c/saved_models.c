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
  TF_WritableFileHandle* file = NULL;
  TF_NewWritableFile(path, &file, status);
  CHECK_OK(status);
  TF_AppendWritableFile(file, model.data, model.length, status);
  TF_CloseWritableFile(file, status);
  CHECK_OK(status);
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
}
