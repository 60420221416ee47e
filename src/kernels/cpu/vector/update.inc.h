// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Steps of the optimizers on float and double for one instruction set.
#include "kernels/cpu/vector/math.inc.h"
#include "kernels/cpu/vector/tables.h"

namespace millrace::cpu::MR_ISA {

// For the scalars of a rule.
MR_INLINE float Sqrt(float x) { return __builtin_sqrtf(x); }
MR_INLINE double Sqrt(double x) { return __builtin_sqrt(x); }

}  // namespace millrace::cpu::MR_ISA

#include "kernels/cpu/vector/update_rules.inc.h"

namespace millrace::cpu::MR_ISA {
namespace {

template <typename T>
MR_INLINE void StoreAround(T* p, typename Fp<T>::Vec v) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), reinterpret_cast<__m512i>(v));
#elif defined(__AVX2__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(v));
#elif defined(__x86_64__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), reinterpret_cast<__m128i>(v));
#else
  Store(p, v);
#endif
}

template <typename T, template <typename, typename> class RuleOf>
void Update(void* const* slots, const void* const* from, const void* grad, const void* scalars, int64_t n,
            bool stream) {
  using V = typename Fp<T>::Vec;
  using Rule = RuleOf<T, V>;
  constexpr int kLanes = Fp<T>::kLanes, kSlots = Rule::kSlots;
  const Rule rule(static_cast<const T*>(scalars));
  const T* g = static_cast<const T*>(grad);
  T* to[kSlots];
  const T* old[kSlots];
  for (int k = 0; k < kSlots; ++k) to[k] = static_cast<T*>(slots[k]);
  for (int k = 0; k < kSlots; ++k) old[k] = static_cast<const T*>(from[k]);
  V v[kSlots];
  const auto part = [&](int64_t i, int64_t count) {
    for (int k = 0; k < kSlots; ++k) v[k] = LoadPart(old[k] + i, count);
    rule(v, LoadPart(g + i, count));
    for (int k = 0; k < kSlots; ++k) StorePart(to[k] + i, v[k], count);
  };
  int64_t i = 0;
  if (stream) {
    const uintptr_t past = reinterpret_cast<uintptr_t>(to[0]) % kVectorBytes;
    const int64_t head = past == 0 ? 0 : static_cast<int64_t>((kVectorBytes - past) / sizeof(T));
    if (head > 0) part(0, i = head < n ? head : n);
    for (; i + kLanes <= n; i += kLanes) {
      for (int k = 0; k < kSlots; ++k) v[k] = Load(old[k] + i);
      rule(v, Load(g + i));
      for (int k = 0; k < kSlots; ++k) StoreAround(to[k] + i, v[k]);
    }
#if defined(__x86_64__)
    _mm_sfence();
#endif
  } else {
    for (; i + kLanes <= n; i += kLanes) {
      for (int k = 0; k < kSlots; ++k) v[k] = Load(old[k] + i);
      rule(v, Load(g + i));
      for (int k = 0; k < kSlots; ++k) Store(to[k] + i, v[k]);
    }
  }
  if (i < n) part(i, n - i);
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
