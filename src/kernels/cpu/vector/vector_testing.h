// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Helpers for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/contract/isa.h"
#include "kernels/cpu/contract/parallel.h"

namespace millrace::cpu {

// Each test runs once for each instruction set that the processor supports.
class VectorTest : public testing::TestWithParam<Isa> {
 protected:
  VectorTest() : before_(ActiveIsa()) {
    if (GetParam() > DetectedIsa()) {
      supported_ = false;
      return;
    }
    SetActiveIsaForTest(GetParam());
  }
  ~VectorTest() override { SetActiveIsaForTest(before_); }
  void SetUp() override {
    if (!supported_) GTEST_SKIP() << "this processor lacks the instruction set";
  }

 private:
  Isa before_;
  bool supported_ = true;
};

inline std::string IsaName(const testing::TestParamInfo<Isa>& isa) {
  return isa.param == Isa::kAvx512 ? "avx512" : (isa.param == Isa::kAvx2 ? "avx2" : "baseline");
}

inline auto EachIsa() { return testing::Values(Isa::kBaseline, Isa::kAvx2, Isa::kAvx512); }

// Runs shards of uneven sizes, the last first: results must not depend on how work is split.
class UnevenParallel final : public Parallel {
 public:
  explicit UnevenParallel(uint32_t seed) : random_(seed) {}
  int num_threads() const override { return 3; }
  void For(int64_t total, int64_t cost_per_unit_ns, ShardFn fn) override {
    EXPECT_GT(cost_per_unit_ns, 0);
    for (int64_t end = total; end > 0;) {
      const int64_t size = std::min<int64_t>(end, 1 + static_cast<int64_t>(random_() % 5));
      fn(end - size, end);
      end -= size;
    }
  }

 private:
  std::minstd_rand random_;
};

// The distance of got from want, in units of want's last place.
template <typename T>
double Ulps(T got, long double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  const T rounded = static_cast<T>(want);
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : 1e30;
  if (std::isnan(got)) return 1e30;
  long double unit = std::numeric_limits<T>::denorm_min();
  if (std::fabs(rounded) >= std::numeric_limits<T>::min()) {
    int exponent;
    std::frexp(rounded, &exponent);
    unit = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  }
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) / unit);
}

// Equal bits, or both NaN.
template <typename T>
bool Same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  } else {
    return a == b;
  }
}

// All kinds of floats: a sweep over the bit patterns, denser where functions are steep.
template <typename T>
std::vector<T> SweepOfFloats() {
  std::vector<T> values;
  using Limits = std::numeric_limits<T>;
  for (const T x : {T(0), Limits::min(), Limits::denorm_min(), Limits::max(), Limits::infinity(),
                    Limits::quiet_NaN(), T(1)}) {
    values.push_back(x);
    values.push_back(-x);
  }
  for (uint32_t i = 0; i < 65536; ++i) {
    if constexpr (sizeof(T) == 4) {
      values.push_back(std::bit_cast<float>((i << 16) | (i * 40503u & 0xffffu)));
    } else {
      values.push_back(
          std::bit_cast<double>((uint64_t{i} << 48) | (i * 0x9e3779b97f4aull & 0xffffffffffffull)));
    }
  }
  for (int i = -20000; i <= 20000; ++i) {
    values.push_back(static_cast<T>(i * 0.001037));
    values.push_back(static_cast<T>(i * 0.0000731));
  }
  return values;
}

}  // namespace millrace::cpu
