/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* A program in C that uses only the installed files of libtensorflow. */
#include <stdio.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

int main(void) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  const float three = 3.0f;
  TF_Tensor* value = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(three));
  memcpy(TF_TensorData(value), &three, sizeof(three));
  TF_OperationDescription* desc = TF_NewOperation(graph, "Const", "three");
  TF_SetAttrTensor(desc, "value", value, status);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_Output output = {TF_FinishOperation(desc, status), 0};
  TF_DeleteTensor(value);
  desc = TF_NewOperation(graph, "Square", "nine");
  TF_AddInput(desc, output);
  output.oper = TF_FinishOperation(desc, status);
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session = TF_NewSession(graph, options, status);
  TF_Tensor* result = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &output, &result, 1, NULL, 0, NULL, status);
  const int right = TF_GetCode(status) == TF_OK && *(const float*)TF_TensorData(result) == 9.0f;
  printf("TensorFlow %s: %s\n", TF_Version(), right ? "9" : TF_Message(status));
  TF_DeleteTensor(result);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return right ? 0 : 1;
}
