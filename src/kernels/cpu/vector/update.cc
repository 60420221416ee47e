// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/update.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/vector/dispatch.h"

namespace millrace::cpu {
namespace {

constexpr double kCostNs = 0.5;

using Block = std::array<float, kHalfBlock>;

float Scalar(DataType type, const void* value) {
  float result;
  HalfToFloat(type, value, &result, 1);
  return result;
}
template <typename T>
T Scalar(const void* value) {
  return *static_cast<const T*>(value);
}

// Blocks of half or bfloat16 arrays as float, for a part of [begin, end) at a time.
template <typename F>
void ForHalfBlocks(int64_t begin, int64_t end, F f) {
  for (int64_t i = begin; i < end; i += kHalfBlock) f(i, std::min(kHalfBlock, end - i));
}

template <typename T>
void GradientDescent(const UpdateFns<T>& fns, T* var, T alpha, const T* delta, int64_t n,
                     Parallel& parallel) {
  ForElements(parallel, n, kCostNs, [&](int64_t begin, int64_t end) {
    fns.gradient_descent(var + begin, alpha, delta + begin, end - begin);
  });
}

template <typename T>
void Momentum(const UpdateFns<T>& fns, T* var, T* accum, T lr, T momentum, bool nesterov, const T* grad,
              int64_t n, Parallel& parallel) {
  ForElements(parallel, n, kCostNs, [&](int64_t begin, int64_t end) {
    fns.momentum(var + begin, accum + begin, lr, momentum, nesterov, grad + begin, end - begin);
  });
}

template <typename T>
struct AdamValues {
  T alpha, beta1, beta2, epsilon;
};
template <typename T>
AdamValues<T> MakeAdamValues(T beta1_power, T beta2_power, T lr, T beta1, T beta2, T epsilon) {
  return {lr * std::sqrt(T{1} - beta2_power) / (T{1} - beta1_power), beta1, beta2, epsilon};
}
template <typename T>
AdamValues<T> MakeAdamValues(const AdamScalars& s) {
  return MakeAdamValues<T>(Scalar<T>(s.beta1_power), Scalar<T>(s.beta2_power), Scalar<T>(s.lr),
                           Scalar<T>(s.beta1), Scalar<T>(s.beta2), Scalar<T>(s.epsilon));
}

template <typename T>
void Adam(const UpdateFns<T>& fns, T* var, T* m, T* v, const AdamScalars& scalars, const T* grad, int64_t n,
          Parallel& parallel) {
  const auto values = MakeAdamValues<T>(scalars);
  ForElements(parallel, n, kCostNs, [&](int64_t begin, int64_t end) {
    fns.adam(var + begin, m + begin, v + begin, values.alpha, values.beta1, values.beta2, values.epsilon,
             scalars.nesterov, grad + begin, end - begin);
  });
}

void AdamHalf(DataType type, uint16_t* var, uint16_t* m, uint16_t* v, const AdamScalars& s,
              const uint16_t* grad, int64_t n, Parallel& parallel) {
  const auto values =
      MakeAdamValues<float>(Scalar(type, s.beta1_power), Scalar(type, s.beta2_power), Scalar(type, s.lr),
                            Scalar(type, s.beta1), Scalar(type, s.beta2), Scalar(type, s.epsilon));
  const UpdateFns<float>& fns = ActiveTables().neural.update_f32;
  ForElements(parallel, n, 2 * kCostNs, [&](int64_t begin, int64_t end) {
    ForHalfBlocks(begin, end, [&](int64_t at, int64_t size) {
      Block x, mean, square, g;
      HalfToFloat(type, var + at, x.data(), size);
      HalfToFloat(type, m + at, mean.data(), size);
      HalfToFloat(type, v + at, square.data(), size);
      HalfToFloat(type, grad + at, g.data(), size);
      fns.adam(x.data(), mean.data(), square.data(), values.alpha, values.beta1, values.beta2, values.epsilon,
               s.nesterov, g.data(), size);
      FloatToHalf(type, x.data(), var + at, size);
      FloatToHalf(type, mean.data(), m + at, size);
      FloatToHalf(type, square.data(), v + at, size);
    });
  });
}

}  // namespace

void ApplyGradientDescent(DataType type, void* var, const void* alpha, const void* delta, int64_t n,
                          Parallel& parallel) {
  const NeuralTable& table = ActiveTables().neural;
  if (type == DataType::kFloat) {
    GradientDescent(table.update_f32, static_cast<float*>(var), Scalar<float>(alpha),
                    static_cast<const float*>(delta), n, parallel);
  } else if (type == DataType::kDouble) {
    GradientDescent(table.update_f64, static_cast<double*>(var), Scalar<double>(alpha),
                    static_cast<const double*>(delta), n, parallel);
  } else {
    const float rate = Scalar(type, alpha);
    auto* to = static_cast<uint16_t*>(var);
    const auto* from = static_cast<const uint16_t*>(delta);
    ForElements(parallel, n, 2 * kCostNs, [&](int64_t begin, int64_t end) {
      ForHalfBlocks(begin, end, [&](int64_t at, int64_t size) {
        Block x, d;
        HalfToFloat(type, to + at, x.data(), size);
        HalfToFloat(type, from + at, d.data(), size);
        table.update_f32.gradient_descent(x.data(), rate, d.data(), size);
        FloatToHalf(type, x.data(), to + at, size);
      });
    });
  }
}

void ApplyMomentum(DataType type, void* var, void* accum, const MomentumScalars& scalars, const void* grad,
                   int64_t n, Parallel& parallel) {
  const NeuralTable& table = ActiveTables().neural;
  if (type == DataType::kFloat) {
    Momentum(table.update_f32, static_cast<float*>(var), static_cast<float*>(accum),
             Scalar<float>(scalars.lr), Scalar<float>(scalars.momentum), scalars.nesterov,
             static_cast<const float*>(grad), n, parallel);
  } else if (type == DataType::kDouble) {
    Momentum(table.update_f64, static_cast<double*>(var), static_cast<double*>(accum),
             Scalar<double>(scalars.lr), Scalar<double>(scalars.momentum), scalars.nesterov,
             static_cast<const double*>(grad), n, parallel);
  } else {
    const float lr = Scalar(type, scalars.lr), momentum = Scalar(type, scalars.momentum);
    auto* to = static_cast<uint16_t*>(var);
    auto* sum = static_cast<uint16_t*>(accum);
    const auto* from = static_cast<const uint16_t*>(grad);
    ForElements(parallel, n, 2 * kCostNs, [&](int64_t begin, int64_t end) {
      ForHalfBlocks(begin, end, [&](int64_t at, int64_t size) {
        Block x, a, g;
        HalfToFloat(type, to + at, x.data(), size);
        HalfToFloat(type, sum + at, a.data(), size);
        HalfToFloat(type, from + at, g.data(), size);
        table.update_f32.momentum(x.data(), a.data(), lr, momentum, scalars.nesterov, g.data(), size);
        FloatToHalf(type, x.data(), to + at, size);
        FloatToHalf(type, a.data(), sum + at, size);
      });
    });
  }
}

void ApplyAdam(DataType type, void* var, void* m, void* v, const AdamScalars& scalars, const void* grad,
               int64_t n, Parallel& parallel) {
  const NeuralTable& table = ActiveTables().neural;
  if (type == DataType::kFloat) {
    Adam(table.update_f32, static_cast<float*>(var), static_cast<float*>(m), static_cast<float*>(v), scalars,
         static_cast<const float*>(grad), n, parallel);
  } else if (type == DataType::kDouble) {
    Adam(table.update_f64, static_cast<double*>(var), static_cast<double*>(m), static_cast<double*>(v),
         scalars, static_cast<const double*>(grad), n, parallel);
  } else {
    AdamHalf(type, static_cast<uint16_t*>(var), static_cast<uint16_t*>(m), static_cast<uint16_t*>(v), scalars,
             static_cast<const uint16_t*>(grad), n, parallel);
  }
}

}  // namespace millrace::cpu
