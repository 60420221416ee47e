// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// One step of each optimizer, for one element or a register of them. The including unit defines MR_ISA and,
// before this, the functions used here on V. A rule is constructed from the scalars of its op, in order, and
// updates v[0], the variable, and its slots with gradient g. T is the element type, V one or more of it.
#pragma once

namespace millrace::cpu::MR_ISA {

template <typename T, typename V>
struct GradientDescent {
  static constexpr int kSlots = 1, kScalars = 1;
  explicit GradientDescent(const T* s) : alpha(s[0]) {}
  void operator()(V* v, V g) const { v[0] -= alpha * g; }
  T alpha;
};

template <typename T, typename V, bool nesterov>
struct MomentumRule {
  static constexpr int kSlots = 2, kScalars = 2;
  explicit MomentumRule(const T* s) : lr(s[0]), momentum(s[1]) {}
  void operator()(V* v, V g) const {
    v[1] = v[1] * momentum + g;
    if constexpr (nesterov) {
      v[0] -= lr * (g + momentum * v[1]);
    } else {
      v[0] -= lr * v[1];
    }
  }
  T lr, momentum;
};
template <typename T, typename V>
using Momentum = MomentumRule<T, V, false>;
template <typename T, typename V>
using MomentumNesterov = MomentumRule<T, V, true>;

// The learning rate is included in the accumulator.
template <typename T, typename V, bool nesterov>
struct KerasMomentumRule {
  static constexpr int kSlots = 2, kScalars = 2;
  explicit KerasMomentumRule(const T* s) : lr(s[0]), momentum(s[1]) {}
  void operator()(V* v, V g) const {
    v[1] = v[1] * momentum - lr * g;
    if constexpr (nesterov) {
      v[0] += v[1] * momentum - lr * g;
    } else {
      v[0] += v[1];
    }
  }
  T lr, momentum;
};
template <typename T, typename V>
using KerasMomentum = KerasMomentumRule<T, V, false>;
template <typename T, typename V>
using KerasMomentumNesterov = KerasMomentumRule<T, V, true>;

template <typename T, typename V, bool nesterov>
struct AdamRule {
  static constexpr int kSlots = 3, kScalars = 6;
  explicit AdamRule(const T* s)
      : alpha(s[2] * Sqrt(T(1) - s[1]) / (T(1) - s[0])), beta1(s[3]), beta2(s[4]), epsilon(s[5]) {}
  void operator()(V* v, V g) const {
    v[1] += (g - v[1]) * (T(1) - beta1);
    v[2] += (g * g - v[2]) * (T(1) - beta2);
    if constexpr (nesterov) {
      v[0] -= alpha * (g * (T(1) - beta1) + beta1 * v[1]) / (Sqrt(v[2]) + epsilon);
    } else {
      v[0] -= alpha * v[1] / (Sqrt(v[2]) + epsilon);
    }
  }
  T alpha, beta1, beta2, epsilon;
};
template <typename T, typename V>
using Adam = AdamRule<T, V, false>;
template <typename T, typename V>
using AdamNesterov = AdamRule<T, V, true>;

template <typename T, typename V>
struct AdamWithAmsgrad {
  static constexpr int kSlots = 4, kScalars = 6;
  explicit AdamWithAmsgrad(const T* s) : adam(s) {}
  void operator()(V* v, V g) const {
    v[1] += (g - v[1]) * (T(1) - adam.beta1);
    v[2] += (g * g - v[2]) * (T(1) - adam.beta2);
    v[3] = Max(v[3], v[2]);
    v[0] -= adam.alpha * v[1] / (Sqrt(v[3]) + adam.epsilon);
  }
  Adam<T, V> adam;
};

template <typename T, typename V>
struct AdaMax {
  static constexpr int kSlots = 3, kScalars = 5;
  explicit AdaMax(const T* s) : alpha(s[1] / (T(1) - s[0])), beta1(s[2]), beta2(s[3]), epsilon(s[4]) {}
  void operator()(V* v, V g) const {
    v[1] += (g - v[1]) * (T(1) - beta1);
    v[2] = Max(beta2 * v[2], Abs(g));
    v[0] -= alpha * (v[1] / (v[2] + epsilon));
  }
  T alpha, beta1, beta2, epsilon;
};

// Without `accumulate` the slot is unchanged.
template <typename T, typename V, bool accumulate>
struct AdagradRule {
  static constexpr int kSlots = 2, kScalars = 1;
  explicit AdagradRule(const T* s) : lr(s[0]) {}
  void operator()(V* v, V g) const {
    if constexpr (accumulate) v[1] += g * g;
    v[0] -= g * lr / Sqrt(v[1]);
  }
  T lr;
};
template <typename T, typename V>
using Adagrad = AdagradRule<T, V, true>;
template <typename T, typename V>
using AdagradFixed = AdagradRule<T, V, false>;

template <typename T, typename V, bool accumulate>
struct AdagradV2Rule {
  static constexpr int kSlots = 2, kScalars = 2;
  explicit AdagradV2Rule(const T* s) : lr(s[0]), epsilon(s[1]) {}
  void operator()(V* v, V g) const {
    if constexpr (accumulate) v[1] += g * g;
    v[0] -= g * lr / (Sqrt(v[1]) + epsilon);
  }
  T lr, epsilon;
};
template <typename T, typename V>
using AdagradV2 = AdagradV2Rule<T, V, true>;
template <typename T, typename V>
using AdagradV2Fixed = AdagradV2Rule<T, V, false>;

// Moves x towards 0 by `by`, but not beyond.
template <typename V, typename B>
inline V Shrink(V x, B by) {
  return CopySign(Max(V{}, Abs(x) - by), x);
}

// Duchi, Hazan, Singer: "Adaptive Subgradient Methods", by dual averaging.
template <typename T, typename V>
struct AdagradDualAveraging {
  static constexpr int kSlots = 3, kScalars = 4;
  explicit AdagradDualAveraging(const T* s) : lr(s[0]), l1(s[1]), l2(s[2]), step(s[3]) {}
  void operator()(V* v, V g) const {
    v[1] += g;
    v[2] += g * g;
    const V toward = l1 > 0 ? Shrink(v[1], l1 * step) : v[1];
    v[0] = -lr * toward / (l2 * step * lr + Sqrt(v[2]));
  }
  T lr, l1, l2, step;
};

template <typename T, typename V>
struct Adadelta {
  static constexpr int kSlots = 3, kScalars = 3;
  explicit Adadelta(const T* s) : lr(s[0]), rho(s[1]), epsilon(s[2]) {}
  void operator()(V* v, V g) const {
    v[1] = v[1] * rho + g * g * (T(1) - rho);
    const V update = Sqrt(v[2] + epsilon) / Sqrt(v[1] + epsilon) * g;
    v[0] -= update * lr;
    v[2] = v[2] * rho + update * update * (T(1) - rho);
  }
  T lr, rho, epsilon;
};

template <typename T, typename V>
struct RmsProp {
  static constexpr int kSlots = 3, kScalars = 4;
  explicit RmsProp(const T* s) : lr(s[0]), rho(s[1]), momentum(s[2]), epsilon(s[3]) {}
  void operator()(V* v, V g) const {
    v[1] += (g * g - v[1]) * (T(1) - rho);
    v[2] = v[2] * momentum + g * lr / Sqrt(v[1] + epsilon);
    v[0] -= v[2];
  }
  T lr, rho, momentum, epsilon;
};

template <typename T, typename V>
struct CenteredRmsProp {
  static constexpr int kSlots = 4, kScalars = 4;
  explicit CenteredRmsProp(const T* s) : lr(s[0]), rho(s[1]), momentum(s[2]), epsilon(s[3]) {}
  void operator()(V* v, V g) const {
    v[2] += (g * g - v[2]) * (T(1) - rho);
    v[1] += (g - v[1]) * (T(1) - rho);
    v[3] = v[3] * momentum + g * lr / Sqrt(v[2] - v[1] * v[1] + epsilon);
    v[0] -= v[3];
  }
  T lr, rho, momentum, epsilon;
};

// McMahan and others: "Ad Click Prediction: a View from the Trenches".
template <typename T, typename V, bool shrinkage>
struct FtrlRule {
  static constexpr int kSlots = 3, kScalars = shrinkage ? 5 : 4;
  explicit FtrlRule(const T* s)
      : lr(s[0]), l1(s[1]), l2(s[2]), l2_shrinkage(shrinkage ? s[3] : T(0)), power(-s[kScalars - 1]) {}
  V Power(V x) const {
    if (power == T(0.5)) return Sqrt(x);
    if (power == T(0)) return V{} + T(1);
    return Exp(power * Log(x));
  }
  void operator()(V* v, V g) const {
    const V sum = v[1] + g * g;
    if constexpr (shrinkage) g += T(2) * l2_shrinkage * v[0];
    const V rate = Power(sum);
    v[2] += g - (rate - Power(v[1])) / lr * v[0];
    const V x = CopySign(V{} + l1, v[2]) - v[2];
    v[0] = Abs(v[2]) > l1 ? x / (rate / lr + T(2) * l2) : V{};
    v[1] = sum;
  }
  T lr, l1, l2, l2_shrinkage, power;
};
template <typename T, typename V>
using Ftrl = FtrlRule<T, V, false>;
template <typename T, typename V>
using FtrlV2 = FtrlRule<T, V, true>;

// Duchi, Singer: "Efficient Learning using Forward-Backward Splitting".
template <typename T, typename V>
struct ProximalGradientDescent {
  static constexpr int kSlots = 1, kScalars = 3;
  explicit ProximalGradientDescent(const T* s) : alpha(s[0]), l1(s[1]), l2(s[2]) {}
  void operator()(V* v, V g) const {
    const V x = v[0] - alpha * g;
    v[0] = (l1 > 0 ? Shrink(x, alpha * l1) : x) / (T(1) + l2 * alpha);
  }
  T alpha, l1, l2;
};
template <typename T, typename V>
struct ProximalAdagrad {
  static constexpr int kSlots = 2, kScalars = 3;
  explicit ProximalAdagrad(const T* s) : lr(s[0]), l1(s[1]), l2(s[2]) {}
  void operator()(V* v, V g) const {
    v[1] += g * g;
    const V rate = lr / Sqrt(v[1]);
    const V x = v[0] - g * rate;
    v[0] = (l1 > 0 ? Shrink(x, rate * l1) : x) / (T(1) + l2 * rate);
  }
  T lr, l1, l2;
};

// The sign of a, times that of b.
template <typename T, typename V>
inline V SignOfProduct(V a, V b) {
  const V one = V{} + T(1);
  const V sign = CopySign(one, a) * CopySign(one, b);
  return a == V{} ? V{} : (b == V{} ? V{} : sign);
}

// Bello, Zoph, Vasudevan, Le: "Neural Optimizer Search with Reinforcement Learning".
template <typename T, typename V>
struct AddSign {
  static constexpr int kSlots = 2, kScalars = 4;
  explicit AddSign(const T* s) : lr(s[0]), alpha(s[1]), sign_decay(s[2]), beta(s[3]) {}
  void operator()(V* v, V g) const {
    v[1] = v[1] * beta + g * (T(1) - beta);
    v[0] -= lr * (alpha + sign_decay * SignOfProduct<T>(g, v[1])) * g;
  }
  T lr, alpha, sign_decay, beta;
};
template <typename T, typename V>
struct PowerSign {
  static constexpr int kSlots = 2, kScalars = 4;
  explicit PowerSign(const T* s) : lr(s[0]), log_base(s[1]), sign_decay(s[2]), beta(s[3]) {}
  void operator()(V* v, V g) const {
    v[1] = v[1] * beta + g * (T(1) - beta);
    v[0] -= lr * Exp(log_base * sign_decay * SignOfProduct<T>(g, v[1])) * g;
  }
  T lr, log_base, sign_decay, beta;
};

}  // namespace millrace::cpu::MR_ISA
