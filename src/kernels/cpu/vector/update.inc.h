// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Steps of the optimizers on float and double for one instruction set.
#include "kernels/cpu/vector/math.inc.h"
#include "kernels/cpu/vector/tables.h"

namespace millrace::cpu::MR_ISA {

// Of the scalars of a rule.
MR_INLINE float Sqrt(float x) { return __builtin_sqrtf(x); }
MR_INLINE double Sqrt(double x) { return __builtin_sqrt(x); }

}  // namespace millrace::cpu::MR_ISA

#include "kernels/cpu/vector/update_rules.inc.h"

namespace millrace::cpu::MR_ISA {
namespace {

template <typename T, template <typename, typename> class RuleOf>
void Update(void* const* slots, const void* grad, const void* scalars, int64_t n) {
  using V = typename Fp<T>::Vec;
  using Rule = RuleOf<T, V>;
  constexpr int kLanes = Fp<T>::kLanes, kSlots = Rule::kSlots;
  const Rule rule(static_cast<const T*>(scalars));
  const T* g = static_cast<const T*>(grad);
  T* to[kSlots];
  for (int k = 0; k < kSlots; ++k) to[k] = static_cast<T*>(slots[k]);
  V v[kSlots];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kSlots; ++k) v[k] = Load(to[k] + i);
    rule(v, Load(g + i));
    for (int k = 0; k < kSlots; ++k) Store(to[k] + i, v[k]);
  }
  if (i < n) {
    for (int k = 0; k < kSlots; ++k) v[k] = LoadPart(to[k] + i, n - i);
    rule(v, LoadPart(g + i, n - i));
    for (int k = 0; k < kSlots; ++k) StorePart(to[k] + i, v[k], n - i);
  }
}

template <typename T, template <typename, typename> class Rule>
constexpr UpdateFns Fns() {
  return {Update<T, Rule>, Rule<T, typename Fp<T>::Vec>::kSlots, Rule<T, typename Fp<T>::Vec>::kScalars};
}

}  // namespace

#define MR_UPDATES(T)                                                                                       \
  {                                                                                                         \
    Fns<T, GradientDescent>(), Fns<T, Momentum>(), Fns<T, MomentumNesterov>(), Fns<T, KerasMomentum>(),     \
        Fns<T, KerasMomentumNesterov>(), Fns<T, Adam>(), Fns<T, AdamNesterov>(), Fns<T, AdamWithAmsgrad>(), \
        Fns<T, AdaMax>(), Fns<T, Adagrad>(), Fns<T, AdagradFixed>(), Fns<T, AdagradV2>(),                   \
        Fns<T, AdagradV2Fixed>(), Fns<T, AdagradDualAveraging>(), Fns<T, Adadelta>(), Fns<T, RmsProp>(),    \
        Fns<T, CenteredRmsProp>(), Fns<T, Ftrl>(), Fns<T, FtrlV2>(), Fns<T, ProximalGradientDescent>(),     \
        Fns<T, ProximalAdagrad>(), Fns<T, AddSign>(), Fns<T, PowerSign>(),                                  \
  }
constinit const UpdateTable kUpdateTable = {.f32 = MR_UPDATES(float), .f64 = MR_UPDATES(double)};
#undef MR_UPDATES

}  // namespace millrace::cpu::MR_ISA
