/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "tensorflow/c/kernels.h"

#include "check.h"
#include "millrace/c/user_op.h"
#include "tensorflow/c/ops.h"

int32_t run_graph(TF_Graph* graph, TF_Output feed, int32_t value, TF_Output fetch, TF_Status* status);

/* CheckedSum: two inputs of type T, an int attribute that is added. */
static int g_deleted = 0;

typedef struct SumState {
  int32_t bias;
} SumState;

static void* sum_create(TF_OpKernelConstruction* construction) {
  TF_Status* status = TF_NewStatus();
  SumState* state = malloc(sizeof(SumState));
  state->bias = 0;
  TF_DataType type = TF_FLOAT;
  TF_OpKernelConstruction_GetAttrType(construction, "T", &type, status);
  CHECK_OK(status);
  CHECK_INT(type, TF_INT32);
  TF_OpKernelConstruction_GetAttrInt32(construction, "bias", &state->bias, status);
  CHECK_OK(status);
  int32_t none = 0;
  TF_OpKernelConstruction_GetAttrInt32(construction, "none", &none, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "none");
  if (state->bias < 0) {
    TF_SetStatus(status, TF_INVALID_ARGUMENT, "bias is negative");
    TF_OpKernelConstruction_Failure(construction, status);
  }
  TF_DeleteStatus(status);
  return state;
}

static void sum_compute(void* kernel, TF_OpKernelContext* context) {
  TF_Status* status = TF_NewStatus();
  CHECK_INT(TF_NumInputs(context), 2);
  CHECK_INT(TF_NumOutputs(context), 1);
  CHECK_INT(TF_ExpectedOutputDataType(context, 0), TF_INT32);
  CHECK_INT(TF_ExpectedOutputDataType(context, 1), 0);
  CHECK(TF_StepId(context) >= 0);
  TF_Tensor *x = NULL, *y = NULL, *none = NULL;
  TF_GetInput(context, 2, &none, status);
  CHECK_ERROR(status, TF_OUT_OF_RANGE, "input index out of range");
  TF_GetInput(context, 0, &x, status);
  CHECK_OK(status);
  TF_GetInput(context, 1, &y, status);
  CHECK_OK(status);
  const int32_t sum = take_int32(x) + take_int32(y) + ((SumState*)kernel)->bias;
  if (sum == 13) {
    TF_SetStatus(status, TF_DATA_LOSS, "thirteen");
    TF_OpKernelContext_Failure(context, status);
  } else if (sum % 2 == 0) {
    TF_Tensor* output = TF_AllocateOutput(context, 0, TF_INT32, NULL, 0, sizeof(int32_t));
    *(int32_t*)TF_TensorData(output) = sum;
    TF_DeleteTensor(output);
  } else {
    TF_Tensor* output = int32_scalar(sum);
    TF_SetOutput(context, 1, output, status);
    CHECK_ERROR(status, TF_OUT_OF_RANGE, "output index out of range");
    TF_SetOutput(context, 0, output, status);
    CHECK_OK(status);
    TF_DeleteTensor(output);
  }
  TF_DeleteStatus(status);
}

static void sum_delete(void* kernel) {
  ++g_deleted;
  free(kernel);
}

static void register_sum(TF_Status* status) {
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("CheckedSum");
  TF_OpDefinitionBuilderAddAttr(op, "T: {int32, float}");
  TF_OpDefinitionBuilderAddAttr(op, "bias: int = 0");
  TF_OpDefinitionBuilderAddInput(op, "x: T");
  TF_OpDefinitionBuilderAddInput(op, "y: T");
  TF_OpDefinitionBuilderAddOutput(op, "sum: T");
  TF_RegisterOpDefinition(op, status);
  CHECK_OK(status);
  TF_KernelBuilder* kernel = TF_NewKernelBuilder("CheckedSum", "CPU", sum_create, sum_compute, sum_delete);
  TF_KernelBuilder_TypeConstraint(kernel, "T", (TF_DataType)99, status);
  CHECK_INT(TF_GetCode(status), TF_UNIMPLEMENTED);
  TF_KernelBuilder_TypeConstraint(kernel, "T", TF_INT32, status);
  CHECK_OK(status);
  TF_KernelBuilder_HostMemory(kernel, "y");
  TF_RegisterKernelBuilder("CheckedSum", kernel, status);
  CHECK_OK(status);
  TF_DeleteKernelBuilder(TF_NewKernelBuilder("CheckedSum", "CPU", NULL, sum_compute, NULL));
  TF_RegisterKernelBuilder("none", NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
}

static TF_Operation* checked_sum(TF_Graph* graph, const char* name, TF_Output x, TF_Output y, int64_t bias,
                                 TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, "CheckedSum", name);
  TF_AddInput(desc, x);
  TF_AddInput(desc, y);
  TF_SetAttrInt(desc, "bias", bias);
  return TF_FinishOperation(desc, status);
}

static TF_Code run_code(TF_Graph* graph, TF_Output feed, int32_t value, TF_Output fetch, const char* part) {
  TF_Status* status = TF_NewStatus();
  TF_Session* session = TF_NewSession(graph, NULL, status);
  TF_Tensor* input = int32_scalar(value);
  TF_Tensor* output = NULL;
  TF_SessionRun(session, NULL, &feed, &input, 1, &fetch, &output, 1, NULL, 0, NULL, status);
  const TF_Code code = TF_GetCode(status);
  CHECK_HAS(TF_Message(status), part);
  CHECK(output == NULL);
  TF_DeleteTensor(input);
  TF_DeleteSession(session, status);
  TF_DeleteStatus(status);
  return code;
}

static void label_compute(void* kernel, TF_OpKernelContext* context) {
  (void)kernel;
  TF_Tensor* output = int32_scalar(7);
  TF_Status* status = TF_NewStatus();
  TF_SetOutput(context, 0, output, status);
  CHECK_OK(status);
  TF_DeleteTensor(output);
  TF_DeleteStatus(status);
}

/* An op whose only kernel is for nodes with a label. */
static void check_labels(TF_Status* status) {
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("CheckedLabel");
  TF_OpDefinitionBuilderAddInput(op, "x: int32");
  TF_OpDefinitionBuilderAddOutput(op, "y: int32");
  TF_RegisterOpDefinition(op, status);
  CHECK_OK(status);
  TF_KernelBuilder* kernel = TF_NewKernelBuilder("CheckedLabel", "CPU", NULL, label_compute, NULL);
  Millrace_KernelBuilderLabel(NULL, "fast");
  Millrace_KernelBuilderLabel(kernel, "fast");
  Millrace_KernelBuilderLabel(kernel, NULL);
  TF_RegisterKernelBuilder("CheckedLabel", kernel, status);
  CHECK_OK(status);
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_OperationDescription* desc = TF_NewOperation(graph, "CheckedLabel", "labelled");
  TF_AddInput(desc, x);
  TF_SetAttrString(desc, "_kernel", "fast", 4);
  TF_Operation* labelled = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  CHECK_INT(run_graph(graph, x, 1, out(labelled, 0), status), 7);
  desc = TF_NewOperation(graph, "CheckedLabel", "plain");
  TF_AddInput(desc, x);
  TF_Operation* plain = TF_FinishOperation(desc, status);
  CHECK_OK(status);
  CHECK_INT(run_code(graph, x, 1, out(plain, 0), "No OpKernel was registered"), TF_INVALID_ARGUMENT);
  TF_DeleteGraph(graph);
}

void test_kernels(void) {
  TF_Status* status = TF_NewStatus();
  check_labels(status);
  register_sum(status);
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Operation* sum = checked_sum(graph, "sum", x, x, 3, status);
  CHECK_OK(status);
  CHECK_INT(run_graph(graph, x, 1, out(sum, 0), status), 5);
  TF_Operation* even = checked_sum(graph, "even", x, x, 4, status);
  CHECK_INT(run_graph(graph, x, 1, out(even, 0), status), 6);
  CHECK(g_deleted > 0);
  CHECK_INT(run_code(graph, x, 5, out(sum, 0), "thirteen"), TF_DATA_LOSS);
  TF_Operation* bad = checked_sum(graph, "bad", x, x, -1, status);
  CHECK_OK(status);
  CHECK_INT(run_code(graph, x, 5, out(bad, 0), "bias is negative"), TF_INVALID_ARGUMENT);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

/* Checks every function of shapes, and gives out [rank of x, 7] + x[1:]. */
static int g_shape_runs = 0;

static void check_shape_function(TF_ShapeInferenceContext* c, TF_Status* status) {
  ++g_shape_runs;
  CHECK_INT(TF_ShapeInferenceContextNumInputs(c), 1);
  TF_ShapeHandle* x = TF_NewShapeHandle();
  TF_ShapeHandle* result = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(c, 1, x, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "input index out of range");
  TF_ShapeInferenceContextSetOutput(c, 0, result, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT); /* not set */
  TF_ShapeInferenceContextGetInput(c, 0, x, status);
  CHECK_OK(status);
  TF_DataType type = TF_FLOAT;
  TF_ShapeInferenceContext_GetAttrType(c, "T", &type, status);
  CHECK_INT(type, TF_INT32);
  TF_ShapeInferenceContextWithRankAtLeast(c, x, 1, result, status);
  if (TF_GetCode(status) == TF_OK && !TF_ShapeInferenceContextRankKnown(c, x)) {
    CHECK_INT(TF_ShapeInferenceContextRank(c, x), -1);
    TF_ShapeInferenceContextSetUnknownShape(c, status);
  } else if (TF_GetCode(status) == TF_OK) {
    const int64_t rank = TF_ShapeInferenceContextRank(c, x);
    TF_ShapeInferenceContextWithRank(c, x, rank, result, status);
    CHECK_OK(status);
    TF_ShapeInferenceContextWithRankAtMost(c, x, rank - 1, result, status);
    CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
    TF_DimensionHandle* dim = TF_NewDimensionHandle();
    TF_ShapeInferenceContextDim(c, x, 0, dim);
    CHECK_INT(TF_DimensionHandleValueKnown(dim), 0);
    TF_ShapeInferenceContextDim(c, x, 1, dim);
    CHECK_INT(TF_DimensionHandleValueKnown(dim), 1);
    CHECK_INT(TF_DimensionHandleValue(dim), 6);
    TF_ShapeInferenceContextDim(c, x, 99, dim);
    CHECK_INT(TF_DimensionHandleValueKnown(dim), 0);
    TF_DeleteDimensionHandle(dim);
    TF_ShapeHandle* front = TF_ShapeInferenceContextVectorFromSize(c, (size_t)rank);
    TF_ShapeInferenceContextSubshape(c, x, 1, rank, result, status);
    CHECK_OK(status);
    TF_ShapeInferenceContextConcatenateShapes(c, front, result, result, status);
    CHECK_OK(status);
    TF_ShapeInferenceContextSetOutput(c, 0, result, status);
    TF_DeleteShapeHandle(front);
  }
  TF_DeleteShapeHandle(result);
  TF_DeleteShapeHandle(x);
}

void test_op_definitions(void) {
  TF_Status* status = TF_NewStatus();
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("ShapedByC");
  TF_OpDefinitionBuilderAddAttr(op, "T: type");
  TF_OpDefinitionBuilderAddInput(op, "x: T");
  TF_OpDefinitionBuilderAddOutput(op, "y: T");
  TF_OpDefinitionBuilderSetIsCommutative(op, false);
  TF_OpDefinitionBuilderSetIsAggregate(op, true);
  TF_OpDefinitionBuilderSetIsStateful(op, true);
  TF_OpDefinitionBuilderSetAllowsUninitializedInput(op, true);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, check_shape_function);
  TF_RegisterOpDefinition(op, status);
  CHECK_OK(status);

  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Operation* unknown = unary(graph, "ShapedByC", "unknown", x, status);
  CHECK_OK(status);
  CHECK_INT(TF_GraphGetTensorNumDims(graph, out(unknown, 0), status), -1);
  int64_t dims[] = {-1, 6};
  TF_GraphSetTensorShape(graph, x, dims, 2, status);
  TF_Operation* shaped = unary(graph, "ShapedByC", "shaped", x, status);
  CHECK_OK(status);
  TF_GraphGetTensorShape(graph, out(shaped, 0), dims, 2, status);
  CHECK_OK(status);
  CHECK(dims[0] == 2 && dims[1] == 6);
  TF_Output scalar = out(int32_constant(graph, "scalar", 1, status), 0);
  CHECK(unary(graph, "ShapedByC", "refused", scalar, status) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Shape must be at least rank 1 but is rank 0");
  CHECK(g_shape_runs >= 3);

  /* is_aggregate (16), is_stateful (17) and allows_uninitialized_input (19) are in the definition. */
  TF_Buffer* def = TF_NewBuffer();
  TF_GraphGetOpDef(graph, "ShapedByC", def, status);
  CHECK_OK(status);
  int flags = 0;
  for (size_t i = 0; i + 3 <= def->length; ++i) {
    const char* at = (const char*)def->data + i;
    flags += memcmp(at, "\x80\x01\x01", 3) == 0 || memcmp(at, "\x88\x01\x01", 3) == 0 ||
             memcmp(at, "\x98\x01\x01", 3) == 0;
  }
  CHECK_INT(flags, 3);
  TF_DeleteBuffer(def);

  op = TF_NewOpDefinitionBuilder("OldByC");
  TF_OpDefinitionBuilderDeprecated(op, 4, "use another");
  TF_RegisterOpDefinition(op, status);
  CHECK_OK(status);
  CHECK(TF_FinishOperation(TF_NewOperation(graph, "OldByC", "old"), status) == NULL);
  CHECK_ERROR(
      status, TF_UNIMPLEMENTED,
      "Op OldByC is not available in GraphDef version 134. It has been removed in version 4. use another.");
  op = TF_NewOpDefinitionBuilder("BadByC");
  TF_OpDefinitionBuilderAddInput(op, "no colon");
  TF_RegisterOpDefinition(op, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteOpDefinitionBuilder(TF_NewOpDefinitionBuilder("NeverByC"));
  TF_DeleteOpDefinitionBuilder(NULL);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}
