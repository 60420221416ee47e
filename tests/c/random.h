/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* What programs that make random calls draw from their seed. */
#ifndef TESTS_C_RANDOM_H_
#define TESTS_C_RANDOM_H_

#include "check.h"

/* 0, 1, ..., count - 1 */
static inline int draw(uint64_t* seed, int count) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return (int)(*seed % (uint64_t)count);
}

/* A small tensor, at times with a size that its type and shape do not have; NULL when there is none such. */
static inline TF_Tensor* draw_tensor(uint64_t* seed, TF_DataType type) {
  const int64_t dims[] = {draw(seed, 4), draw(seed, 3)};
  const int rank = draw(seed, 3);
  size_t count = 1;
  for (int i = 0; i < rank; ++i) count *= (size_t)dims[i];
  const size_t size = draw(seed, 9) == 0 ? (size_t)draw(seed, 64) : count * TF_DataTypeSize(type);
  TF_Tensor* tensor = TF_AllocateTensor(type, dims, rank, size);
  if (tensor != NULL) memset(TF_TensorData(tensor), draw(seed, 3), TF_TensorByteSize(tensor));
  return tensor;
}

#endif
