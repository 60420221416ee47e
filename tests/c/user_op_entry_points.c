/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memmem */
#include "millrace/c/user_op.h"

#include "check.h"

/* EntryPointsOp: n floats in, the sums of their elements times by out. */
static int g_released = 0, g_shape_data = 7;

static void release(void* data) {
  CHECK(data == &g_shape_data);
  ++g_released;
}

static void entry_points_shapes(void* data, TF_ShapeInferenceContext* c, TF_Status* status) {
  CHECK_INT(*(int*)data, 7);
  CHECK_INT(Millrace_ShapeNumOutputs(c), 1);
  int64_t dims[4] = {-5, -5, -5, -5};
  const int rank = Millrace_ShapeInput(c, 0, dims, 1);
  CHECK_INT(Millrace_ShapeInput(c, 99, dims, 4), -1);
  if (rank > 0) CHECK_INT(dims[1], -5); /* only one was requested */
  TF_Buffer* by = TF_NewBuffer();
  Millrace_ShapeAttr(c, "none", by, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "none");
  Millrace_ShapeAttr(c, "by", by, status);
  CHECK_OK(status);
  CHECK(by->length > 0);
  TF_DeleteBuffer(by);
  TF_Tensor* value = Millrace_ShapeInputTensor(c, TF_ShapeInferenceContextNumInputs(c) - 1);
  if (value != NULL) {
    CHECK_INT(TF_TensorType(value), TF_INT32);
    TF_DeleteTensor(value);
  }
  const int as_shape = Millrace_ShapeFromInput(c, TF_ShapeInferenceContextNumInputs(c) - 1, dims, 4, status);
  CHECK_OK(status);
  if (as_shape == 2) CHECK_INT(dims[1], 4);
  Millrace_ShapeFromInput(c, -1, dims, 4, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "out of range");
  int begin = -1, end = -1;
  Millrace_ShapeArgRange(c, "xs", 0, &begin, &end, status);
  CHECK_OK(status);
  CHECK(begin == 0 && end == TF_ShapeInferenceContextNumInputs(c) - 1);
  Millrace_ShapeArgRange(c, "none", 1, &begin, &end, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unknown output name: none");
  Millrace_ShapeArgRange(c, NULL, 0, &begin, &end, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "is null");
  Millrace_ShapeSetOutput(c, 9, dims, 0, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "out of range");
  Millrace_ShapeSetOutput(c, 0, NULL, 0, status);
  CHECK_OK(status);
}

static void* entry_points_create(TF_OpKernelConstruction* c) {
  TF_Status* status = TF_NewStatus();
  TF_Buffer* name = Millrace_KernelNodeName(c);
  CHECK(name->length == 3 && memcmp(name->data, "sum", 3) == 0);
  TF_DeleteBuffer(name);
  CHECK_STR(Millrace_KernelOpName(c), "EntryPointsOp");
  TF_DataType types[2] = {TF_BOOL, TF_BOOL};
  CHECK_INT(Millrace_KernelTypes(c, 0, types, 1), 3);
  CHECK_INT(types[0], TF_FLOAT);
  CHECK_INT(types[1], TF_BOOL);
  CHECK_INT(Millrace_KernelTypes(c, 1, NULL, 0), 1);
  TF_Buffer* by = TF_NewBuffer();
  Millrace_KernelAttr(c, "none", by, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "No attr named 'none'");
  Millrace_KernelAttr(c, "by", by, status);
  CHECK_OK(status);
  /* AttrValue { i: 3 }: field 3, a varint. */
  CHECK(by->length == 2 && ((const char*)by->data)[0] == 0x18 && ((const char*)by->data)[1] == 3);
  Millrace_KernelAttr(c, "by", by, status);
  CHECK(TF_GetCode(status) != TF_OK); /* it has data already */
  TF_DeleteBuffer(by);
  unsigned char is_private = 7;
  Millrace_KernelResourceName(c, 1, NULL, NULL, &is_private, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "container"); /* the op has no such attribute */
  Millrace_KernelResourceName(c, 1, NULL, NULL, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "is null");
  TF_DeleteStatus(status);
  return NULL;
}

typedef struct Sums {
  const float* from;
  float sums[64];
} Sums;

static void add_up(void* data, int64_t begin, int64_t end) {
  Sums* sums = data;
  for (int64_t i = begin; i < end; ++i) sums->sums[i] = sums->from[i] * 3;
}

static int g_objects = 0; /* that are not released */
static void release_object(void* object) {
  CHECK(object == &g_objects);
  --g_objects;
}
static void* create_object(void* data, TF_Status* status) {
  if (data == NULL) {
    TF_SetStatus(status, TF_ABORTED, "not today");
    return NULL;
  }
  ++g_objects;
  return &g_objects;
}
static void take_object(void* data, void* object) { *(void**)data = object; }

/* Resources of the kernel's device, each wrong use included. */
static void resources_of(TF_OpKernelContext* c, TF_Status* status) {
  CHECK(Millrace_KernelResources(NULL) == NULL);
  CHECK(Millrace_ConstructionResources(NULL) == NULL);
  Millrace_Resources* all = Millrace_KernelResources(c);
  void* found = NULL;
  Millrace_FindResource(all, "", "it", "type", NULL, NULL, take_object, &found, status);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
  Millrace_FindResource(all, "", "it", "type", create_object, release_object, take_object, NULL, status);
  CHECK_ERROR(status, TF_ABORTED, "not today");
  CHECK_INT(g_objects, 0);
  Millrace_FindResource(all, NULL, "it", "type", create_object, release_object, take_object, &found, status);
  CHECK_OK(status);
  CHECK(found == &g_objects);
  CHECK_INT(g_objects, 1);
  Millrace_FindResource(all, "localhost", "it", "other", NULL, NULL, take_object, &found, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Resource localhost/it is of the type type, not other");
  ++g_objects;
  Millrace_CreateResource(all, "", "it", "type", &g_objects, release_object, status);
  CHECK_ERROR(status, TF_ALREADY_EXISTS, "Resource localhost/it/type");
  CHECK_INT(g_objects, 1); /* the second one was released */
  ++g_objects;
  Millrace_CreateResource(NULL, "", "it", "type", &g_objects, release_object, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "is null");
  CHECK_INT(g_objects, 1);
  Millrace_CreateResource(all, "", "it", "type", &g_objects, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "is null");
  Millrace_FindResource(all, "", "it", "type", NULL, NULL, NULL, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "is null");
  Millrace_DeleteResource(all, "", "it", "other", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "of the type type");
  Millrace_DeleteResource(all, "none", "it", "type", status);
  CHECK_ERROR(status, TF_NOT_FOUND, "Container none does not exist");
  Millrace_DeleteResource(all, "", "it", "type", status);
  CHECK_OK(status);
  CHECK_INT(g_objects, 0);
  Millrace_DeleteResource(all, "", NULL, "type", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "is null");
  Millrace_SetOutputHandle(c, 0, "", "it", "type", status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Output 0 is of type float, not resource");
  Millrace_SetOutputHandle(c, 7, "", "it", "type", status);
  CHECK_ERROR(status, TF_OUT_OF_RANGE, "out of range");
  Millrace_InputHandle(c, 0, NULL, NULL, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "must be a scalar resource handle");
  Millrace_InputHandle(c, -1, NULL, NULL, NULL, status);
  CHECK_ERROR(status, TF_OUT_OF_RANGE, "out of range");
  Millrace_InputHandle(NULL, 0, NULL, NULL, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "is null");
}

/* Functions for references refuse other inputs and missing inputs. */
static void no_references(TF_OpKernelContext* c, TF_Status* status) {
  CHECK_INT(Millrace_InputIsRef(c, 0), 0);
  CHECK_INT(Millrace_InputIsRef(c, -1), 0);
  CHECK_INT(Millrace_InputIsRef(NULL, 0), 0);
  Millrace_LockRef(c, 0, 1);
  Millrace_LockRef(c, 99, 0);
  Millrace_LockRef(NULL, 0, 1);
  TF_Tensor* tensor = NULL;
  Millrace_RefInput(c, 0, &tensor, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Input 0 is not a reference");
  CHECK(tensor == NULL);
  Millrace_RefInput(NULL, 0, &tensor, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "null");
  Millrace_ReplaceRef(c, 0, NULL, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Input 0 is not a reference");
  Millrace_ForwardRef(c, 99, 0, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Input 99 is not a reference");
  TF_SetStatus(status, TF_OK, "");
}

static void entry_points_compute(void* kernel, TF_OpKernelContext* c) {
  (void)kernel;
  TF_Status* status = TF_NewStatus();
  int begin = -1, end = -1;
  Millrace_KernelArgRange(c, "none", 0, &begin, &end, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Unknown input name: none");
  Millrace_KernelArgRange(c, "shape", 0, &begin, &end, status);
  CHECK_INT(begin, 2);
  CHECK_INT(end, 3);
  Millrace_KernelArgRange(c, "y", 1, &begin, &end, status);
  CHECK_INT(end, 1);
  Millrace_KernelArgRange(c, "xs", 0, &begin, &end, status);
  CHECK_OK(status);
  float total = 0;
  for (int i = begin; i < end; ++i) {
    TF_Tensor* x = NULL;
    TF_GetInput(c, i, &x, status);
    CHECK_OK(status);
    Sums sums = {TF_TensorData(x), {0}};
    const int64_t n = TF_TensorElementCount(x);
    CHECK(n <= 64);
    Millrace_KernelParallelFor(c, n, 100000, add_up, &sums);
    Millrace_KernelParallelFor(c, 0, 1, add_up, NULL); /* nothing to do */
    for (int64_t k = 0; k < n; ++k) total += sums.sums[k];
    TF_DeleteTensor(x);
  }
  no_references(c, status);
  resources_of(c, status);
  TF_Tensor* y = TF_AllocateOutput(c, 0, TF_FLOAT, NULL, 0, sizeof(float));
  *(float*)TF_TensorData(y) = total;
  TF_DeleteTensor(y);
  TF_DeleteStatus(status);
}

static TF_Output floats(TF_Graph* graph, const char* name, float value, TF_Status* status) {
  const float values[] = {value, value, value, value};
  return out(constant_of(graph, name, float_vector(values, 4), status), 0);
}

void test_user_op_entry_points(void) {
  TF_Status* status = TF_NewStatus();
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("EntryPointsOp");
  TF_OpDefinitionBuilderAddAttr(op, "N: int >= 1");
  TF_OpDefinitionBuilderAddAttr(op, "by: int = 3");
  TF_OpDefinitionBuilderAddInput(op, "xs: N * float");
  TF_OpDefinitionBuilderAddInput(op, "shape: int32");
  TF_OpDefinitionBuilderAddOutput(op, "y: float");
  Millrace_OpDefinitionDoc(op, "Adds up.\n\ny: The sum.");
  Millrace_OpDefinitionShapeFunction(op, entry_points_shapes, &g_shape_data, release);
  TF_RegisterOpDefinition(op, status);
  CHECK_OK(status);
  CHECK_INT(g_released, 0); /* the registry has it */
  Millrace_OpDefinitionShapeFunction(NULL, entry_points_shapes, &g_shape_data, release);
  CHECK_INT(g_released, 1);
  Millrace_OpDefinitionDoc(NULL, "nothing");
  TF_KernelBuilder* kernel =
      TF_NewKernelBuilder("EntryPointsOp", "CPU", entry_points_create, entry_points_compute, NULL);
  TF_RegisterKernelBuilder("EntryPointsOp", kernel, status);
  CHECK_OK(status);
  TF_Buffer* ops = TF_GetAllOpList();
  CHECK(memmem(ops->data, ops->length, "Adds up.", 8) != NULL);
  TF_DeleteBuffer(ops);

  TF_Graph* graph = TF_NewGraph();
  const TF_Output xs[] = {floats(graph, "a", 1.5f, status), floats(graph, "b", 2, status)};
  const TF_Output shape = out(placeholder(graph, "shape", TF_INT32, status), 0);
  TF_OperationDescription* desc = TF_NewOperation(graph, "EntryPointsOp", "sum");
  TF_AddInputList(desc, xs, 2);
  TF_AddInput(desc, shape);
  TF_Operation* sum = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  TF_Session* session = TF_NewSession(graph, NULL, status);
  const int64_t two[] = {2};
  const int32_t sizes[] = {2, 4};
  TF_Tensor* fed = int32_tensor(two, 1, sizes);
  const TF_Output fetch = out(sum, 0);
  TF_Tensor* result = NULL;
  TF_SessionRun(session, NULL, &shape, &fed, 1, &fetch, &result, 1, NULL, 0, NULL, status);
  CHECK_OK(status);
  CHECK(*(const float*)TF_TensorData(result) == 3 * 4 * (1.5f + 2));
  TF_DeleteTensor(result);
  TF_DeleteTensor(fed);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}
