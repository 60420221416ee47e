// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The functions of Eigen, on which TensorFlow's kernels are built, compiled for AVX-512. One thread.
#pragma once

#include <cstdint>

namespace millrace::bench {

void EigenExp(const float* x, float* y, int64_t n);
void EigenTanh(const float* x, float* y, int64_t n);
void EigenSigmoid(const float* x, float* y, int64_t n);
void EigenRsqrt(const float* x, float* y, int64_t n);

}  // namespace millrace::bench
