/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* A library with an op of its own, which adds one; loading registers it. */
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

static void same_shape(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(context, 0, shape, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSetOutput(context, 0, shape, status);
  TF_DeleteShapeHandle(shape);
}

static void compute(void* kernel, TF_OpKernelContext* context) {
  (void)kernel;
  TF_Status* status = TF_NewStatus();
  TF_Tensor* input = NULL;
  TF_GetInput(context, 0, &input, status);
  if (TF_GetCode(status) != TF_OK) {
    TF_OpKernelContext_Failure(context, status);
    TF_DeleteStatus(status);
    return;
  }
  int64_t dims[8];
  for (int i = 0; i < TF_NumDims(input) && i < 8; ++i) dims[i] = TF_Dim(input, i);
  const int64_t count = TF_TensorElementCount(input);
  TF_Tensor* output =
      TF_AllocateOutput(context, 0, TF_INT32, dims, TF_NumDims(input), (size_t)count * sizeof(int32_t));
  if (output != NULL) {
    const int32_t* from = TF_TensorData(input);
    int32_t* to = TF_TensorData(output);
    for (int64_t i = 0; i < count; ++i) to[i] = from[i] + 1;
  }
  TF_DeleteTensor(output);
  TF_DeleteTensor(input);
  TF_DeleteStatus(status);
}

__attribute__((constructor)) static void register_ops(void) {
  TF_Status* status = TF_NewStatus();
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("UserPlusOne");
  TF_OpDefinitionBuilderAddInput(op, "x: int32");
  TF_OpDefinitionBuilderAddOutput(op, "y: int32");
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, same_shape);
  TF_RegisterOpDefinition(op, status);
  TF_KernelBuilder* kernel = TF_NewKernelBuilder("UserPlusOne", "CPU", NULL, compute, NULL);
  TF_RegisterKernelBuilder("UserPlusOne", kernel, status);
  TF_DeleteStatus(status);
}
