/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* A small harness for tests in C: a failed check is printed and counted, and the test continues. */
#ifndef TESTS_C_CHECK_H_
#define TESTS_C_CHECK_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

extern int check_failures;
void check_failed(const char* file, int line, const char* what, const char* got);

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) check_failed(__FILE__, __LINE__, #condition, "false"); \
  } while (0)
#define CHECK_INT(value, wanted)                                           \
  do {                                                                     \
    const long long check_value = (long long)(value);                      \
    char check_text[32];                                                   \
    snprintf(check_text, sizeof(check_text), "%lld", check_value);         \
    if (check_value != (long long)(wanted))                                \
      check_failed(__FILE__, __LINE__, #value " == " #wanted, check_text); \
  } while (0)
#define CHECK_STR(value, wanted)                                            \
  do {                                                                      \
    const char* check_value = (value);                                      \
    if (check_value == NULL || strcmp(check_value, (wanted)) != 0)          \
      check_failed(__FILE__, __LINE__, #value " is " #wanted, check_value); \
  } while (0)
#define CHECK_HAS(value, part)                                             \
  do {                                                                     \
    const char* check_value = (value);                                     \
    if (check_value == NULL || strstr(check_value, (part)) == NULL)        \
      check_failed(__FILE__, __LINE__, #value " has " #part, check_value); \
  } while (0)
#define CHECK_OK(status)                                                                                     \
  do {                                                                                                       \
    if (TF_GetCode(status) != TF_OK) check_failed(__FILE__, __LINE__, #status " is OK", TF_Message(status)); \
  } while (0)
#define CHECK_ERROR(status, wanted_code, part)    \
  do {                                            \
    CHECK_INT(TF_GetCode(status), (wanted_code)); \
    CHECK_HAS(TF_Message(status), (part));        \
  } while (0)

/* Shorthands that tests share; see check.c. */
TF_Tensor* int32_tensor(const int64_t* dims, int num_dims, const int32_t* values);
TF_Tensor* int32_scalar(int32_t value);
TF_Tensor* float_vector(const float* values, int count);
/* What a scalar holds; deletes it. */
int32_t take_int32(TF_Tensor* tensor);
float take_float(TF_Tensor* tensor);
TF_Operation* placeholder(TF_Graph* graph, const char* name, TF_DataType type, TF_Status* status);
TF_Operation* constant(TF_Graph* graph, const char* name, TF_Tensor* value, TF_Status* status);
/* The same, and deletes the tensor. */
TF_Operation* constant_of(TF_Graph* graph, const char* name, TF_Tensor* value, TF_Status* status);
TF_Operation* int32_constant(TF_Graph* graph, const char* name, int32_t value, TF_Status* status);
TF_Operation* unary(TF_Graph* graph, const char* op, const char* name, TF_Output x, TF_Status* status);
TF_Operation* binary(TF_Graph* graph, const char* op, const char* name, TF_Output x, TF_Output y,
                     TF_Status* status);
TF_Output out(TF_Operation* oper, int index);

#endif /* TESTS_C_CHECK_H_ */
