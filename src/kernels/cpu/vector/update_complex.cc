// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Steps of the optimizers on complex numbers, one at a time.
#include "kernels/cpu/vector/update_complex.h"

#include <complex>

#define MR_ISA complex_updates
namespace millrace::cpu::MR_ISA {

template <typename T>
std::complex<T> Sqrt(std::complex<T> x) {
  return std::sqrt(x);
}

}  // namespace millrace::cpu::MR_ISA
#include "kernels/cpu/vector/update_rules.inc.h"

namespace millrace::cpu {
namespace {

template <typename T, template <typename, typename> class RuleOf>
void Update(void* const* slots, const void* const* from, const void* grad, const void* scalars, int64_t n,
            bool /*stream*/) {
  using Rule = RuleOf<T, T>;
  const Rule rule(static_cast<const T*>(scalars));
  T v[Rule::kSlots];
  for (int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < Rule::kSlots; ++k) v[k] = static_cast<const T*>(from[k])[i];
    rule(v, static_cast<const T*>(grad)[i]);
    for (int k = 0; k < Rule::kSlots; ++k) static_cast<T*>(slots[k])[i] = v[k];
  }
}

template <typename T, template <typename, typename> class Rule>
constexpr UpdateFns kFns = {Update<T, Rule>, Rule<T, T>::kSlots, Rule<T, T>::kScalars};

template <typename T>
const UpdateFns* Find(UpdateRule rule) {
  namespace rules = complex_updates;
  switch (rule) {
    case UpdateRule::kGradientDescent:
      return &kFns<T, rules::GradientDescent>;
    case UpdateRule::kMomentum:
      return &kFns<T, rules::Momentum>;
    case UpdateRule::kMomentumNesterov:
      return &kFns<T, rules::MomentumNesterov>;
    case UpdateRule::kKerasMomentum:
      return &kFns<T, rules::KerasMomentum>;
    case UpdateRule::kKerasMomentumNesterov:
      return &kFns<T, rules::KerasMomentumNesterov>;
    case UpdateRule::kAdam:
      return &kFns<T, rules::Adam>;
    case UpdateRule::kAdamNesterov:
      return &kFns<T, rules::AdamNesterov>;
    case UpdateRule::kAdadelta:
      return &kFns<T, rules::Adadelta>;
    case UpdateRule::kRmsProp:
      return &kFns<T, rules::RmsProp>;
    case UpdateRule::kCenteredRmsProp:
      return &kFns<T, rules::CenteredRmsProp>;
    default:
      return nullptr;
  }
}

}  // namespace

const UpdateFns* FindComplexUpdate(UpdateRule rule, DataType type) {
  return type == DataType::kComplex64 ? Find<std::complex<float>>(rule) : Find<std::complex<double>>(rule);
}

}  // namespace millrace::cpu
