/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Gradients: those of TF_AddGradients, and those of millrace/c/gradients.h with functions of the client. */
#include "millrace/c/gradients.h"

#include "check.h"

static TF_Output placeholder_of(TF_Graph* graph, const char* name, TF_DataType type, const int64_t* dims,
                                int num_dims, TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, "Placeholder", name);
  TF_SetAttrType(desc, "dtype", type);
  TF_SetAttrShape(desc, "shape", dims, num_dims);
  return out(TF_FinishOperation(desc, status), 0);
}

static TF_Tensor* float_scalar(float value) {
  TF_Tensor* tensor = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float));
  *(float*)TF_TensorData(tensor) = value;
  return tensor;
}

/* Runs with x fed; the caller deletes the result, which is NULL after an error. */
static TF_Tensor* run(TF_Graph* graph, TF_Output x, TF_Tensor* value, TF_Output y, TF_Status* status) {
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session = TF_NewSession(graph, options, status);
  TF_DeleteSessionOptions(options);
  TF_Tensor* result = NULL;
  TF_SessionRun(session, NULL, &x, &value, 1, &y, &result, 1, NULL, 0, NULL, status);
  TF_Status* closed = TF_NewStatus();
  TF_DeleteSession(session, closed);
  TF_DeleteStatus(closed);
  TF_DeleteTensor(value);
  return result;
}

static float run_scalar(TF_Graph* graph, TF_Output x, float value, TF_Output y, TF_Status* status) {
  TF_Tensor* result = run(graph, x, float_scalar(value), y, status);
  CHECK_OK(status);
  return result == NULL ? -1 : take_float(result);
}

static int names_begin(TF_Operation* oper, const char* with) {
  return oper != NULL && strncmp(TF_OperationName(oper), with, strlen(with)) == 0;
}

/* The names of TensorFlow's C++ API. */
static void check_names_of_the_c_api(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  const int64_t dims[2] = {2, 2};
  TF_Output a = placeholder_of(graph, "a", TF_FLOAT, dims, 2, status);
  TF_Output b = placeholder_of(graph, "b", TF_FLOAT, dims, 2, status);
  TF_Output y = out(binary(graph, "MatMul", "y", a, b, status), 0);
  TF_Output xs[2] = {a, b}, dys[2];
  TF_AddGradients(graph, &y, 1, xs, 2, NULL, status, dys);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(dys[0].oper), "gradients/MatMul");
  CHECK_STR(TF_OperationName(dys[1].oper), "gradients/MatMul_1");
  CHECK(TF_GraphOperationByName(graph, "gradients/OnesLike") != NULL);
  TF_AddGradients(graph, &y, 1, xs, 2, NULL, status, dys);
  CHECK_OK(status);
  CHECK_STR(TF_OperationName(dys[0].oper), "gradients_1/MatMul");
  TF_DeleteGraph(graph);
}

static void check_integers(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_INT32, status), 0);
  TF_Output y = out(binary(graph, "Mul", "y", x, x, status), 0);
  TF_Output dy;
  TF_AddGradients(graph, &y, 1, &x, 1, NULL, status, &dy);
  CHECK_OK(status);
  TF_Tensor* result = run(graph, x, int32_scalar(5), dy, status);
  CHECK_OK(status);
  if (result != NULL) CHECK_INT(take_int32(result), 10);
  /* A loop that adds 1 until 3: its result depends on x with the slope 1. */
  TF_Output loop_in = x;
  TF_WhileParams params = TF_NewWhile(graph, &loop_in, 1, status);
  CHECK_OK(status);
  TF_Operation* limit = int32_constant(params.cond_graph, "limit", 3, status);
  params.cond_output =
      out(binary(params.cond_graph, "Less", "less", params.cond_inputs[0], out(limit, 0), status), 0);
  TF_Operation* one = int32_constant(params.body_graph, "one", 1, status);
  params.body_outputs[0] =
      out(binary(params.body_graph, "Add", "add", params.body_inputs[0], out(one, 0), status), 0);
  params.name = "loop";
  TF_Output loop_out;
  TF_FinishWhile(&params, status, &loop_out);
  CHECK_OK(status);
  TF_AddGradients(graph, &loop_out, 1, &x, 1, NULL, status, &dy);
  CHECK_OK(status);
  CHECK(dy.oper != NULL);
  result = run(graph, x, int32_scalar(-4), dy, status);
  CHECK_OK(status);
  if (result != NULL) CHECK_INT(take_int32(result), 1);
  TF_DeleteGraph(graph);
}

/* Ops that TensorFlow's C++ API has no gradient for. */
static void check_ops_without_gradient(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  const int64_t dims[1] = {3};
  TF_Output x = placeholder_of(graph, "x", TF_FLOAT, dims, 1, status);
  TF_Output axis = out(int32_constant(graph, "axis", 0, status), 0);
  TF_Output y = out(binary(graph, "ArgMax", "y", x, axis, status), 0);
  TF_Output dy;
  TF_AddGradients(graph, &y, 1, &x, 1, NULL, status, &dy);
  CHECK_ERROR(status, TF_NOT_FOUND, "No gradient defined for op: ArgMax");
  CHECK(TF_GraphOperationByName(graph, "gradients/OnesLike") == NULL);
  Millrace_Gradient none;
  Millrace_AddGradients(graph, &y, 1, &x, 1, NULL, NULL, &none, status);
  CHECK_OK(status);
  CHECK_INT(none.kind, MILLRACE_GRADIENT_NONE);
  TF_DeleteGraph(graph);
}

static TF_Output gather(TF_Graph* graph, const char* name, TF_Output params, const int32_t* ids, int count,
                        TF_Status* status) {
  const int64_t dims[1] = {count};
  TF_Tensor* values = int32_tensor(dims, 1, ids);
  char id_name[64];
  snprintf(id_name, sizeof(id_name), "%s_ids", name);
  TF_Output indices = out(constant(graph, id_name, values, status), 0);
  TF_DeleteTensor(values);
  return out(binary(graph, "Gather", name, params, indices, status), 0);
}

/* Slices, as a tensor, and under Python's names. */
static void check_slices(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  const int64_t dims[2] = {4, 1};
  TF_Output x = placeholder_of(graph, "x", TF_FLOAT, dims, 2, status);
  const int32_t ids[3] = {3, 1, 3};
  TF_Output y = gather(graph, "look/up", x, ids, 3, status);
  Millrace_Gradient grad;
  Millrace_AddGradients(graph, &y, 1, &x, 1, NULL, NULL, &grad, status);
  CHECK_OK(status);
  CHECK_INT(grad.kind, MILLRACE_GRADIENT_SLICES);
  CHECK(grad.values.oper != NULL && grad.indices.oper != NULL && grad.dense_shape.oper != NULL);
  CHECK(TF_GraphOperationByName(graph, "gradients/Shape") != NULL);
  CHECK(TF_GraphOperationByName(graph, "gradients/grad_ys_0") != NULL);
  CHECK(TF_GraphOperationByName(graph, "gradients/Fill") != NULL);
  const TF_Output dense = Millrace_DenseGradient(graph, "dense", &grad, status);
  CHECK_OK(status);
  CHECK(names_begin(dense.oper, "dense/"));
  const float values[4] = {1, 2, 3, 4};
  TF_Tensor* at = TF_AllocateTensor(TF_FLOAT, dims, 2, sizeof(values));
  memcpy(TF_TensorData(at), values, sizeof(values));
  TF_Tensor* result = run(graph, x, at, dense, status);
  CHECK_OK(status);
  if (result != NULL) {
    const float* got = TF_TensorData(result);
    CHECK(got[0] == 0 && got[1] == 1 && got[2] == 0 && got[3] == 2);
    TF_DeleteTensor(result);
  }
  /* What is given for y may be slices; what comes then out of the look-up is not known before it runs. */
  Millrace_Gradient given = grad, again;
  TF_Output z = out(unary(graph, "Identity", "z", x, status), 0);
  Millrace_AddGradients(graph, &z, 1, &x, 1, &given, NULL, &again, status);
  CHECK_OK(status);
  CHECK_INT(again.kind, MILLRACE_GRADIENT_SLICES);
  CHECK(again.values.oper == grad.values.oper);
  /* The C API of TensorFlow has tensors. */
  TF_Output dy;
  TF_AddGradients(graph, &y, 1, &x, 1, NULL, status, &dy);
  CHECK_OK(status);
  CHECK(dy.oper != NULL);
  TF_DeleteGraph(graph);
}

static void check_options(TF_Status* status) {
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_FLOAT, status), 0);
  TF_Output apart = out(placeholder(graph, "apart", TF_FLOAT, status), 0);
  TF_Output square = out(binary(graph, "Mul", "square", x, x, status), 0);
  TF_Output cube = out(binary(graph, "Mul", "cube", square, x, status), 0);
  Millrace_GradientOptions options;
  Millrace_InitGradientOptions(&options);
  options.prefix = "my/gradients";
  options.stop_gradients = &square;
  options.num_stop_gradients = 1;
  options.zeros = 1;
  options.gate = 1;
  options.colocate = 1;
  options.device = "/device:CPU:0";
  TF_Output xs[2] = {x, apart};
  Millrace_Gradient grads[2];
  Millrace_AddGradients(graph, &cube, 1, xs, 2, NULL, &options, grads, status);
  CHECK_OK(status);
  CHECK_INT(grads[0].kind, MILLRACE_GRADIENT_DENSE);
  CHECK_INT(grads[1].kind, MILLRACE_GRADIENT_DENSE);
  CHECK(names_begin(grads[0].values.oper, "my/gradients/cube_grad/"));
  CHECK(names_begin(grads[1].values.oper, "my/gradients/"));
  TF_Operation* product = TF_GraphOperationByName(graph, "my/gradients/cube_grad/mul");
  CHECK(product != NULL);
  if (product != NULL) {
    CHECK_STR(TF_OperationDevice(product), "/device:CPU:0");
    TF_AttrMetadata meta = TF_OperationGetAttrMetadata(product, "_class", status);
    CHECK_OK(status);
    CHECK_INT(meta.list_size, 1);
  }
  CHECK(run_scalar(graph, x, 3, grads[0].values, status) == 9); /* the square held still */
  /* A prefix is taken as it is, however often. */
  Millrace_AddGradients(graph, &cube, 1, xs, 2, NULL, &options, grads, status);
  CHECK_OK(status);
  CHECK(names_begin(grads[0].values.oper, "my/gradients/cube_grad/"));
  options.aggregation = 7;
  Millrace_AddGradients(graph, &cube, 1, xs, 2, NULL, &options, grads, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Invalid aggregation_method specified 7.");
  CHECK_INT(grads[0].kind, MILLRACE_GRADIENT_NONE);
  Millrace_InitGradientOptions(&options);
  options.prefix = "a b";
  Millrace_AddGradients(graph, &cube, 1, xs, 2, NULL, &options, grads, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "'a b' is not a valid scope name");
  Millrace_DenseGradient(graph, "a b", &grads[0], status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  Millrace_InitGradientOptions(NULL);
  options.struct_size = 0;
  Millrace_AddGradients(graph, &cube, 1, xs, 2, NULL, &options, grads, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  Millrace_AddGradients(NULL, &cube, 1, xs, 2, NULL, NULL, grads, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteGraph(graph);
}

typedef struct Counts {
  int calls;
  int deleted;
  int fail;
} Counts;

static void count_deletion(void* data) { ++((Counts*)data)->deleted; }

/* The gradient is 7 times what arrives; made by the C API within the call. */
static void times_seven(Millrace_GradientCall* call, TF_Status* status) {
  Counts* counts = call->user_data;
  ++counts->calls;
  if (counts->fail == 1) {
    TF_SetStatus(status, TF_ABORTED, "no such luck");
    return;
  }
  char name[256];
  snprintf(name, sizeof(name), "%s/seven", call->name_scope);
  TF_Tensor* seven = float_scalar(7);
  TF_Output factor = out(constant(call->graph, name, seven, status), 0);
  TF_DeleteTensor(seven);
  snprintf(name, sizeof(name), "%s/product", call->name_scope);
  TF_Output product =
      out(binary(call->graph, "Mul", name, factor, call->output_gradients[0].values, status), 0);
  if (counts->fail == 2) {
    TF_SetStatus(status, TF_ABORTED, "no such luck");
    return;
  }
  CHECK_INT(call->num_inputs, TF_OperationNumInputs(call->oper));
  CHECK(call->wanted[0]);
  call->input_gradients[0].kind = MILLRACE_GRADIENT_DENSE;
  call->input_gradients[0].values = product;
}

static TF_Output with_override(TF_Graph* graph, const char* op, const char* name, TF_Output x,
                               const char* gradient, TF_Status* status) {
  TF_OperationDescription* desc = TF_NewOperation(graph, op, name);
  TF_AddInput(desc, x);
  TF_SetAttrString(desc, "_gradient_op_type", gradient, strlen(gradient));
  return out(TF_FinishOperation(desc, status), 0);
}

static void check_functions(TF_Status* status) {
  Counts counts = {0, 0, 0};
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_FLOAT, status), 0);
  Millrace_RegisterGradient(graph, "TimesSeven", times_seven, &counts, count_deletion, status);
  CHECK_OK(status);
  Counts other = {0, 0, 0};
  Millrace_RegisterGradient(graph, "TimesSeven", times_seven, &other, count_deletion, status);
  CHECK_ERROR(status, TF_ALREADY_EXISTS, "TimesSeven");
  CHECK_INT(other.deleted, 1);
  Millrace_RegisterGradient(graph, "", times_seven, &other, count_deletion, status);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "The name of a gradient is empty");
  CHECK_INT(other.deleted, 2);
  CHECK_INT(Millrace_HasGradient(graph, "TimesSeven"), MILLRACE_GRADIENT_DEFINED);
  CHECK_INT(Millrace_HasGradient(NULL, "TimesSeven"), MILLRACE_GRADIENT_UNDEFINED);
  CHECK_INT(Millrace_HasGradient(graph, "ArgMax"), MILLRACE_GRADIENT_NOT_DIFFERENTIABLE);
  CHECK_INT(Millrace_HasGradient(NULL, NULL), MILLRACE_GRADIENT_UNDEFINED);
  /* One node by the attribute, beside one of the same op with the built-in gradient. */
  TF_Output y = with_override(graph, "Square", "y", x, "TimesSeven", status);
  TF_Output z = out(unary(graph, "Square", "z", y, status), 0);
  Millrace_Gradient grad;
  Millrace_AddGradients(graph, &z, 1, &x, 1, NULL, NULL, &grad, status);
  CHECK_OK(status);
  CHECK_INT(counts.calls, 1);
  CHECK(names_begin(grad.values.oper, "gradients/y_grad/product"));
  CHECK(run_scalar(graph, x, 3, grad.values, status) == 7 * 2 * 9);
  TF_Output dy;
  TF_AddGradients(graph, &z, 1, &x, 1, NULL, status, &dy); /* it counts there too */
  CHECK_OK(status);
  CHECK_INT(counts.calls, 2);
  /* An op as a whole, in this graph. */
  Millrace_RegisterGradient(graph, "Exp", NULL, NULL, NULL, status);
  CHECK_OK(status);
  TF_Output e = out(unary(graph, "Exp", "e", x, status), 0);
  Millrace_AddGradients(graph, &e, 1, &x, 1, NULL, NULL, &grad, status);
  CHECK_OK(status);
  CHECK_INT(grad.kind, MILLRACE_GRADIENT_NONE);
  Millrace_RegisterGradient(NULL, "Exp", times_seven, &other, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_ALREADY_EXISTS);
  /* A name that nobody registered. */
  TF_Output unknown = with_override(graph, "Square", "unknown", x, "NobodyKnows", status);
  Millrace_AddGradients(graph, &unknown, 1, &x, 1, NULL, NULL, &grad, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "No gradient defined for operation 'unknown' (op type: Square)");
  /* The built-in function of one operation. */
  Millrace_Gradient given = {MILLRACE_GRADIENT_DENSE, x, {NULL, -1}, {NULL, -1}}, result;
  Millrace_CallGradient(graph, z.oper, NULL, &given, NULL, &result, status);
  CHECK_OK(status);
  CHECK(names_begin(result.values.oper, "z_grad/"));
  Millrace_CallGradient(graph, z.oper, "TimesSeven", &given, NULL, &result, status);
  CHECK_OK(status);
  CHECK(run_scalar(graph, x, 3, result.values, status) == 21);
  CHECK_INT(counts.deleted, 0);
  TF_DeleteGraph(graph);
  CHECK_INT(counts.deleted, 1);
}

static void check_failing_functions(TF_Status* status) {
  Counts counts = {0, 0, 1};
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_FLOAT, status), 0);
  Millrace_RegisterGradient(graph, "TimesSeven", times_seven, &counts, count_deletion, status);
  TF_Output y = with_override(graph, "Square", "y", x, "TimesSeven", status);
  Millrace_Gradient grad;
  /* Nothing was added by the function: the graph is as before. */
  Millrace_AddGradients(graph, &y, 1, &x, 1, NULL, NULL, &grad, status);
  CHECK_ERROR(status, TF_ABORTED, "no such luck");
  CHECK(TF_GraphOperationByName(graph, "gradients/Fill") == NULL);
  /* Handles of what it has added stay good. */
  counts.fail = 2;
  Millrace_AddGradients(graph, &y, 1, &x, 1, NULL, NULL, &grad, status);
  CHECK_ERROR(status, TF_ABORTED, "stay in the graph");
  CHECK(TF_GraphOperationByName(graph, "gradients/y_grad/product") != NULL);
  counts.fail = 0;
  Millrace_AddGradients(graph, &y, 1, &x, 1, NULL, NULL, &grad, status);
  CHECK_OK(status);
  CHECK(run_scalar(graph, x, 3, grad.values, status) == 7);
  TF_DeleteGraph(graph);
}

/* In a loop: x, changed n times by an op whose gradient is 7 times what arrives. */
static void check_functions_in_loops(TF_Status* status) {
  Counts counts = {0, 0, 0};
  TF_Graph* graph = TF_NewGraph();
  TF_Output x = out(placeholder(graph, "x", TF_FLOAT, status), 0);
  Millrace_RegisterGradient(graph, "TimesSeven", times_seven, &counts, count_deletion, status);
  TF_Output inputs[2] = {x, out(int32_constant(graph, "zero", 0, status), 0)};
  TF_WhileParams params = TF_NewWhile(graph, inputs, 2, status);
  CHECK_OK(status);
  TF_Output three = out(int32_constant(params.cond_graph, "three", 3, status), 0);
  params.cond_output =
      out(binary(params.cond_graph, "Less", "less", params.cond_inputs[1], three, status), 0);
  TF_Output one = out(int32_constant(params.body_graph, "one", 1, status), 0);
  params.body_outputs[0] =
      with_override(params.body_graph, "Square", "square", params.body_inputs[0], "TimesSeven", status);
  params.body_outputs[1] =
      out(binary(params.body_graph, "Add", "add", params.body_inputs[1], one, status), 0);
  params.name = "loop";
  TF_Output results[2];
  TF_FinishWhile(&params, status, results);
  CHECK_OK(status);
  Millrace_Gradient grad;
  Millrace_AddGradients(graph, &results[0], 1, &x, 1, NULL, NULL, &grad, status);
  CHECK_OK(status);
  CHECK_INT(counts.calls, 1);
  CHECK(run_scalar(graph, x, 1.5f, grad.values, status) == 343);
  TF_DeleteGraph(graph);
}

void test_gradient_functions(void) {
  TF_Status* status = TF_NewStatus();
  check_names_of_the_c_api(status);
  check_integers(status);
  check_ops_without_gradient(status);
  check_slices(status);
  check_options(status);
  check_functions(status);
  check_failing_functions(status);
  check_functions_in_loops(status);
  TF_DeleteStatus(status);
}
