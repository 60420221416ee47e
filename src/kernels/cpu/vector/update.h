// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Training updates: one pass over memory. Types: half, bfloat16 (both in float), float, double; scalars point
// to one element of that type. All arrays have n elements and don't overlap.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/parallel.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// var -= alpha * delta
void ApplyGradientDescent(DataType type, void* var, const void* alpha, const void* delta, int64_t n,
                          Parallel& parallel);

// accum = accum * momentum + grad; var -= lr * accum, or with nesterov
// var -= lr * grad + lr * momentum * accum.
struct MomentumScalars {
  const void* lr = nullptr;
  const void* momentum = nullptr;
  bool nesterov = false;
};
void ApplyMomentum(DataType type, void* var, void* accum, const MomentumScalars& scalars, const void* grad,
                   int64_t n, Parallel& parallel);

// alpha = lr * sqrt(1 - beta2_power) / (1 - beta1_power); m += (g - m) * (1 - beta1);
// v += (g * g - v) * (1 - beta2); var -= alpha * m / (sqrt(v) + epsilon), or with nesterov
// var -= alpha * (g * (1 - beta1) + beta1 * m) / (sqrt(v) + epsilon).
struct AdamScalars {
  const void* beta1_power = nullptr;
  const void* beta2_power = nullptr;
  const void* lr = nullptr;
  const void* beta1 = nullptr;
  const void* beta2 = nullptr;
  const void* epsilon = nullptr;
  bool nesterov = false;
};
void ApplyAdam(DataType type, void* var, void* m, void* v, const AdamScalars& scalars, const void* grad,
               int64_t n, Parallel& parallel);

}  // namespace millrace::cpu
