/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

/* Attributes whose names begin with '_' may hold anything, so that one operation can carry every kind. */
static TF_Operation* carrier(TF_Graph* graph, TF_Status* status) {
  static const char* const kTexts[] = {"one", "", "three"};
  static const size_t kLengths[] = {3, 0, 5};
  static const int64_t kInts[] = {1, -2};
  static const float kFloats[] = {0.5f};
  static const unsigned char kBools[] = {1, 0, 1};
  static const TF_DataType kTypes[] = {TF_INT8, TF_STRING};
  static const int64_t kShape[] = {2, -1};
  const int64_t* const shapes[] = {kShape, NULL, NULL};
  const int ranks[] = {2, -1, 0};
  TF_OperationDescription* desc = TF_NewOperation(graph, "NoOp", "carrier");
  TF_SetAttrString(desc, "_s", "text", 4);
  TF_SetAttrStringList(desc, "_ss", (const void* const*)kTexts, kLengths, 3);
  TF_SetAttrInt(desc, "_i", INT64_MIN);
  TF_SetAttrIntList(desc, "_is", kInts, 2);
  TF_SetAttrFloat(desc, "_f", 2.5f);
  TF_SetAttrFloatList(desc, "_fs", kFloats, 1);
  TF_SetAttrBool(desc, "_b", 7);
  TF_SetAttrBoolList(desc, "_bs", kBools, 3);
  TF_SetAttrType(desc, "_t", TF_HALF);
  TF_SetAttrTypeList(desc, "_ts", kTypes, 2);
  TF_SetAttrShape(desc, "_h", kShape, 2);
  TF_SetAttrShape(desc, "_unknown", NULL, -1);
  TF_SetAttrShapeList(desc, "_hs", shapes, ranks, 3);
  TF_SetAttrFuncName(desc, "_func", "f", 1);
  TF_SetAttrPlaceholder(desc, "_p", "T");
  TF_Tensor* tensor = int32_scalar(42);
  TF_SetAttrTensor(desc, "_v", tensor, status);
  *(int32_t*)TF_TensorData(tensor) = 0; /* the attribute is a copy */
  TF_Tensor* const tensors[] = {tensor, tensor};
  TF_SetAttrTensorList(desc, "_vs", tensors, 2, status);
  CHECK_OK(status);
  TF_DeleteTensor(tensor);
  /* TensorShapeProto with one dimension of size 5. */
  const void* const protos[] = {"\x12\x02\x08\x05", "\x18\x01"};
  const size_t lengths[] = {4, 2};
  TF_SetAttrTensorShapeProto(desc, "_hp", protos[0], lengths[0], status);
  CHECK_OK(status);
  TF_SetAttrTensorShapeProtoList(desc, "_hps", protos, lengths, 2, status);
  CHECK_OK(status);
  TF_SetAttrTensorShapeProto(desc, "_bad", "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable TensorShapeProto");
  TF_SetAttrTensorShapeProtoList(desc, "_bad", protos, NULL, 2, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_SetAttrValueProto(desc, "_vp", "\x18\x05", 2, status); /* AttrValue { i: 5 } */
  CHECK_OK(status);
  TF_SetAttrValueProto(desc, "_bad", "\xff\xff", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unparseable AttrValue proto");
  TF_Operation* oper = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  return oper;
}

static void check_metadata(TF_Operation* oper, const char* name, int is_list, int64_t list_size,
                           TF_AttrType type, int64_t total_size) {
  TF_Status* status = TF_NewStatus();
  const TF_AttrMetadata m = TF_OperationGetAttrMetadata(oper, name, status);
  CHECK_OK(status);
  CHECK_INT(m.is_list, is_list);
  CHECK_INT(m.list_size, list_size);
  CHECK_INT(m.type, type);
  CHECK_INT(m.total_size, total_size);
  TF_DeleteStatus(status);
}

static void check_all_metadata(TF_Operation* oper) {
  check_metadata(oper, "_s", 0, -1, TF_ATTR_STRING, 4);
  check_metadata(oper, "_ss", 1, 3, TF_ATTR_STRING, 8);
  check_metadata(oper, "_i", 0, -1, TF_ATTR_INT, -1);
  check_metadata(oper, "_is", 1, 2, TF_ATTR_INT, -1);
  check_metadata(oper, "_f", 0, -1, TF_ATTR_FLOAT, -1);
  check_metadata(oper, "_fs", 1, 1, TF_ATTR_FLOAT, -1);
  check_metadata(oper, "_b", 0, -1, TF_ATTR_BOOL, -1);
  check_metadata(oper, "_bs", 1, 3, TF_ATTR_BOOL, -1);
  check_metadata(oper, "_t", 0, -1, TF_ATTR_TYPE, -1);
  check_metadata(oper, "_ts", 1, 2, TF_ATTR_TYPE, -1);
  check_metadata(oper, "_h", 0, -1, TF_ATTR_SHAPE, 2);
  check_metadata(oper, "_unknown", 0, -1, TF_ATTR_SHAPE, -1);
  check_metadata(oper, "_hs", 1, 3, TF_ATTR_SHAPE, 2);
  check_metadata(oper, "_v", 0, -1, TF_ATTR_TENSOR, -1);
  check_metadata(oper, "_vs", 1, 2, TF_ATTR_TENSOR, -1);
  check_metadata(oper, "_func", 0, -1, TF_ATTR_FUNC, -1);
  check_metadata(oper, "_p", 0, -1, TF_ATTR_PLACEHOLDER, -1);
  check_metadata(oper, "_hp", 0, -1, TF_ATTR_SHAPE, 1);
  check_metadata(oper, "_hps", 1, 2, TF_ATTR_SHAPE, 1);
}

static void check_plain_values(TF_Operation* oper, TF_Status* status) {
  char text[4];
  TF_OperationGetAttrString(oper, "_s", text, 3, status);
  CHECK_OK(status);
  CHECK(memcmp(text, "tex", 3) == 0);
  void* texts[3];
  size_t lengths[3];
  char storage[8];
  TF_OperationGetAttrStringList(oper, "_ss", texts, lengths, 3, storage, sizeof(storage), status);
  CHECK_OK(status);
  CHECK_INT(lengths[0], 3);
  CHECK_INT(lengths[1], 0);
  CHECK(lengths[2] == 5 && memcmp(texts[2], "three", 5) == 0);
  TF_OperationGetAttrStringList(oper, "_ss", texts, lengths, 3, storage, 7, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Not enough storage to hold the requested list of strings");
  int64_t ints[2] = {0, 0};
  TF_OperationGetAttrInt(oper, "_i", ints, status);
  CHECK_OK(status);
  CHECK(ints[0] == INT64_MIN);
  TF_OperationGetAttrInt(oper, "_vp", ints, status);
  CHECK_INT(ints[0], 5);
  TF_OperationGetAttrIntList(oper, "_is", ints, 9, status);
  CHECK(ints[0] == 1 && ints[1] == -2);
  float floats[2] = {0, 0};
  TF_OperationGetAttrFloat(oper, "_f", floats, status);
  CHECK(floats[0] == 2.5f);
  TF_OperationGetAttrFloatList(oper, "_fs", floats, 1, status);
  CHECK(floats[0] == 0.5f);
  unsigned char bools[3] = {9, 9, 9};
  TF_OperationGetAttrBool(oper, "_b", bools, status);
  CHECK_INT(bools[0], 1);
  TF_OperationGetAttrBoolList(oper, "_bs", bools, 2, status);
  CHECK(bools[0] == 1 && bools[1] == 0 && bools[2] == 9);
  TF_DataType types[2];
  TF_OperationGetAttrType(oper, "_t", types, status);
  CHECK_INT(types[0], TF_HALF);
  TF_OperationGetAttrTypeList(oper, "_ts", types, 2, status);
  CHECK(types[0] == TF_INT8 && types[1] == TF_STRING);
  CHECK_OK(status);
}

static void check_shapes_and_tensors(TF_Operation* oper, TF_Status* status) {
  int64_t dims[2] = {0, 0};
  TF_OperationGetAttrShape(oper, "_h", dims, 2, status);
  CHECK_OK(status);
  CHECK(dims[0] == 2 && dims[1] == -1);
  int64_t* starts[3];
  int ranks[3];
  int64_t storage[2];
  TF_OperationGetAttrShapeList(oper, "_hs", starts, ranks, 3, storage, 2, status);
  CHECK_OK(status);
  CHECK(ranks[0] == 2 && ranks[1] == -1 && ranks[2] == 0);
  CHECK(starts[0][0] == 2 && starts[0][1] == -1);
  TF_OperationGetAttrShapeList(oper, "_hs", starts, ranks, 3, storage, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Not enough storage to hold the requested list of shapes");
  TF_Buffer* buffer = TF_NewBuffer();
  TF_OperationGetAttrTensorShapeProto(oper, "_hp", buffer, status);
  CHECK_OK(status);
  CHECK(buffer->length == 4 && memcmp(buffer->data, "\x12\x02\x08\x05", 4) == 0);
  TF_DeleteBuffer(buffer);
  TF_Buffer* buffers[2];
  TF_OperationGetAttrTensorShapeProtoList(oper, "_hps", buffers, 2, status);
  CHECK_OK(status);
  CHECK(buffers[1]->length == 2 && memcmp(buffers[1]->data, "\x18\x01", 2) == 0);
  TF_DeleteBuffer(buffers[0]);
  TF_DeleteBuffer(buffers[1]);
  TF_Tensor* tensors[2];
  TF_OperationGetAttrTensor(oper, "_v", tensors, status);
  CHECK_OK(status);
  CHECK_INT(take_int32(tensors[0]), 42);
  TF_OperationGetAttrTensorList(oper, "_vs", tensors, 2, status);
  CHECK_OK(status);
  CHECK_INT(take_int32(tensors[0]), 0);
  CHECK_INT(take_int32(tensors[1]), 0);
  buffer = TF_NewBuffer();
  TF_OperationGetAttrValueProto(oper, "_b", buffer, status);
  CHECK_OK(status);
  CHECK(buffer->length == 2 && memcmp(buffer->data, "\x28\x01", 2) == 0);
  TF_DeleteBuffer(buffer);
}

static void check_wrong_kinds(TF_Operation* oper, TF_Status* status) {
  int64_t value = 0;
  float real = 0;
  TF_OperationGetAttrInt(oper, "none", &value, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Operation 'carrier' has no attr named 'none'.");
  TF_OperationGetAttrInt(oper, "_s", &value, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "AttrValue had value with type 'string' when 'int' expected");
  TF_OperationGetAttrString(oper, "_i", &value, 8, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Attribute '_i' is not a string");
  TF_OperationGetAttrIntList(oper, "_i", &value, 1, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Value for '_i' is not a list.");
  TF_OperationGetAttrFloatList(oper, "_is", &real, 1, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_OperationGetAttrInt(oper, "_i", NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_Buffer* buffer = TF_NewBuffer();
  TF_OperationGetAttrTensorShapeProto(oper, "_i", buffer, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Value for '_i' is not a shape.");
  TF_DeleteBuffer(buffer);
}

static void check_colocation(TF_Graph* graph, TF_Status* status) {
  TF_Operation* a = int32_constant(graph, "a", 1, status);
  TF_Operation* b = int32_constant(graph, "b", 2, status);
  TF_OperationDescription* desc = TF_NewOperation(graph, "NoOp", "with");
  TF_ColocateWith(desc, b);
  TF_ColocateWith(desc, a);
  TF_ColocateWith(desc, b);
  TF_Operation* with = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  check_metadata(with, "_class", 1, 2, TF_ATTR_STRING, 12);
  void* groups[2];
  size_t lengths[2];
  char storage[12];
  TF_OperationGetAttrStringList(with, "_class", groups, lengths, 2, storage, 12, status);
  CHECK_OK(status);
  CHECK(memcmp(groups[0], "loc:@a", 6) == 0 && memcmp(groups[1], "loc:@b", 6) == 0);
  /* A list of groups replaces those before. */
  const char* const group[] = {"loc:@a"};
  const size_t length[] = {6};
  desc = TF_NewOperation(graph, "NoOp", "instead");
  TF_ColocateWith(desc, b);
  TF_SetAttrStringList(desc, "_class", (const void* const*)group, length, 1);
  check_metadata(TF_FinishOperation(desc, status), "_class", 1, 1, TF_ATTR_STRING, 6);
  desc = TF_NewOperation(graph, "NoOp", "wrong");
  TF_SetAttrValueProto(desc, "_class", "\x18\x05", 2, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Expected \"list\" field for \"_class\" attribute");
  TF_FinishOperation(desc, status);
}

void test_attributes(void) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_Operation* oper = carrier(graph, status);
  check_all_metadata(oper);
  check_plain_values(oper, status);
  check_shapes_and_tensors(oper, status);
  check_wrong_kinds(oper, status);
  check_colocation(graph, status);
  /* The kind of an empty list is what the op declares. */
  TF_OperationDescription* desc = TF_NewOperation(graph, "Squeeze", "squeeze");
  TF_AddInput(desc, out(placeholder(graph, "x", TF_FLOAT, status), 0));
  TF_SetAttrIntList(desc, "squeeze_dims", NULL, 0);
  check_metadata(TF_FinishOperation(desc, status), "squeeze_dims", 1, 0, TF_ATTR_INT, -1);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}
