// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Random numbers from a generator's bits, with the same values as TensorFlow's random ops.
#ifndef TENSORFLOW_CORE_LIB_RANDOM_RANDOM_DISTRIBUTIONS_H_
#define TENSORFLOW_CORE_LIB_RANDOM_RANDOM_DISTRIBUTIONS_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tensorflow/core/lib/random/philox_random.h"

namespace tensorflow {
namespace random {

// In [0, 1): the bits are the mantissa.
inline float Uint32ToFloat(uint32 x) {
  const uint32 bits = (x & 0x7fffffu) | (127u << 23);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value - 1.0f;
}
inline double Uint64ToDouble(uint32 x0, uint32 x1) {
  const uint64 bits = (static_cast<uint64>(1023) << 52) | (static_cast<uint64>(x0 & 0xfffffu) << 32) | x1;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value - 1.0;
}

// Returns one number at a time from a generator that makes several at once.
template <class Generator>
class SingleSampleAdapter {
 public:
  using ResultType = typename Generator::ResultElementType;
  using ResultElementType = typename Generator::ResultElementType;
  static const int kResultElementCount = 1;
  explicit SingleSampleAdapter(Generator* generator)
      : generator_(generator), used_(Generator::kResultElementCount) {}
  ResultType operator()() {
    if (used_ == Generator::kResultElementCount) {
      unused_ = (*generator_)();
      used_ = 0;
    }
    return unused_[used_++];
  }

 private:
  Generator* const generator_;
  typename Generator::ResultType unused_;
  int used_;
};

// Floats and doubles in [0, 1), integers in [low, high).
template <class Generator, typename T>
class UniformDistribution {
 public:
  static const int kResultElementCount = Generator::kResultElementCount * 4 / (sizeof(T) > 4 ? 8 : 4);
  using ResultType = Array<T, kResultElementCount>;
  using ResultElementType = T;
  UniformDistribution() : low_(0), range_(0) {
    static_assert(std::is_floating_point<T>::value, "integers have bounds");
  }
  UniformDistribution(T low, T high)
      : low_(low), range_(static_cast<uint64>(high) - static_cast<uint64>(low)) {
    static_assert(std::is_integral<T>::value, "floating-point numbers are in [0, 1)");
  }
  ResultType operator()(Generator* generator) {
    const typename Generator::ResultType bits = (*generator)();
    ResultType result;
    for (int i = 0; i < kResultElementCount; ++i) result[i] = Convert(bits, i, T());
    return result;
  }

 private:
  using Bits = typename Generator::ResultType;
  static float Convert(const Bits& bits, int i, float) { return Uint32ToFloat(bits[i]); }
  static double Convert(const Bits& bits, int i, double) {
    return Uint64ToDouble(bits[2 * i], bits[2 * i + 1]);
  }
  template <typename Integer>
  Integer Convert(const Bits& bits, int i, Integer) const {
    const uint64 drawn = sizeof(T) > 4 ? bits[2 * i] | static_cast<uint64>(bits[2 * i + 1]) << 32
                                       : static_cast<uint64>(bits[i]);
    const uint64 range = sizeof(T) > 4 ? range_ : static_cast<uint32>(range_);
    return static_cast<Integer>(static_cast<uint64>(low_) + drawn % range);
  }
  T low_;
  uint64 range_;
};

// Box and Muller: two numbers of the standard normal distribution.
inline void BoxMullerFloat(uint32 x0, uint32 x1, float* f0, float* f1) {
  const float u = std::max(Uint32ToFloat(x0), 1.0e-7f);
  const float angle = static_cast<float>(2.0f * M_PI * Uint32ToFloat(x1));
  const float length = std::sqrt(-2.0f * std::log(u));
  *f0 = std::sin(angle) * length;
  *f1 = std::cos(angle) * length;
}
inline void BoxMullerDouble(uint32 x0, uint32 x1, uint32 x2, uint32 x3, double* d0, double* d1) {
  const double u = std::max(Uint64ToDouble(x0, x1), 1.0e-7);
  const double angle = 2.0 * M_PI * Uint64ToDouble(x2, x3);
  const double length = std::sqrt(-2.0 * std::log(u));
  *d0 = std::sin(angle) * length;
  *d1 = std::cos(angle) * length;
}

template <class Generator, typename T>
class NormalDistribution;
template <class Generator>
class NormalDistribution<Generator, float> {
 public:
  static const int kResultElementCount = Generator::kResultElementCount;
  using ResultType = Array<float, kResultElementCount>;
  using ResultElementType = float;
  ResultType operator()(Generator* generator) {
    const typename Generator::ResultType bits = (*generator)();
    ResultType result;
    for (int i = 0; i < kResultElementCount; i += 2)
      BoxMullerFloat(bits[i], bits[i + 1], &result[i], &result[i + 1]);
    return result;
  }
};
template <class Generator>
class NormalDistribution<Generator, double> {
 public:
  static const int kResultElementCount = Generator::kResultElementCount / 2;
  using ResultType = Array<double, kResultElementCount>;
  using ResultElementType = double;
  ResultType operator()(Generator* generator) {
    const typename Generator::ResultType bits = (*generator)();
    ResultType result;
    for (int i = 0; i < kResultElementCount; i += 2)
      BoxMullerDouble(bits[2 * i], bits[2 * i + 1], bits[2 * i + 2], bits[2 * i + 3], &result[i],
                      &result[i + 1]);
    return result;
  }
};

}  // namespace random
}  // namespace tensorflow

#endif
