// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/eigen_baseline.h"

#include <Eigen/Core>

namespace millrace::bench {
namespace {

using In = Eigen::Map<const Eigen::ArrayXf>;
using Out = Eigen::Map<Eigen::ArrayXf>;

}  // namespace

void EigenExp(const float* x, float* y, int64_t n) { Out(y, n) = In(x, n).exp(); }
void EigenTanh(const float* x, float* y, int64_t n) { Out(y, n) = In(x, n).tanh(); }
void EigenSigmoid(const float* x, float* y, int64_t n) { Out(y, n) = In(x, n).logistic(); }
void EigenRsqrt(const float* x, float* y, int64_t n) { Out(y, n) = In(x, n).rsqrt(); }

}  // namespace millrace::bench
