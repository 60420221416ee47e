// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "base/random/philox_stream.h"
#include "kernels/cpu/vector/dispatch.h"

namespace millrace::cpu {
namespace {

// The number of blocks that TensorFlow reserves for each output of a rejection method.
constexpr int64_t kReservedPerOutput = 256;

using Block = PhiloxRandom::Block;

// Separate types for half and bfloat16: as plain bits they would be the same type.
struct HalfBits {
  uint16_t bits;
};
struct Bfloat16Bits {
  uint16_t bits;
};

template <typename T>
T Narrow(float x) {
  if constexpr (std::is_same_v<T, HalfBits> || std::is_same_v<T, Bfloat16Bits>) {
    constexpr auto kType = std::is_same_v<T, HalfBits> ? DataType::kHalf : DataType::kBfloat16;
    T result;
    FloatToHalf(kType, &x, &result.bits, 1);
    return result;
  } else {
    return x;
  }
}

// A distribution gives kGroup results for the position of their group.
template <typename T>
struct Uniform {
  using Result = T;
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  static constexpr int64_t kBlocksPerGroup = 1;
  std::array<T, kGroup> operator()(PhiloxRandom generator) const {
    const Block x = generator();
    if constexpr (std::is_same_v<T, double>) {
      return {UnitDouble(x[0], x[1]), UnitDouble(x[2], x[3])};
    } else {
      std::array<T, 4> result;
      for (size_t i = 0; i < 4; ++i) result[i] = One(x[i]);
      return result;
    }
  }
  // The narrow types use as many bits as their fraction has.
  static T One(uint32_t x) {
    if constexpr (std::is_same_v<T, float>) return UnitFloat(x);
    if constexpr (std::is_same_v<T, HalfBits>) return Narrow<T>(static_cast<float>(x & 0x3ffu) * 0x1p-10f);
    if constexpr (std::is_same_v<T, Bfloat16Bits>) return Narrow<T>(static_cast<float>(x & 0x7fu) * 0x1p-7f);
  }
};

template <typename T>
struct Normal {
  using Result = T;
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  static constexpr int64_t kBlocksPerGroup = 1;
  std::array<T, kGroup> operator()(PhiloxRandom generator) const {
    const Block x = generator();
    if constexpr (std::is_same_v<T, double>) {
      return NormalDoubles(x[0], x[1], x[2], x[3]);
    } else {
      const auto a = NormalFloats(x[0], x[1]), b = NormalFloats(x[2], x[3]);
      return {Narrow<T>(a[0]), Narrow<T>(a[1]), Narrow<T>(b[0]), Narrow<T>(b[1])};
    }
  }
};

template <typename T>
struct TruncatedNormal {
  using Result = T;
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  static constexpr int64_t kBlocksPerGroup = kGroup * kReservedPerOutput / PhiloxRandom::kResultElementCount;
  std::array<T, kGroup> operator()(PhiloxRandom generator) const {
    std::array<T, kGroup> result;
    for (size_t filled = 0;;) {
      const Block x = generator();
      if constexpr (std::is_same_v<T, double>) {
        for (const double y : NormalDoubles(x[0], x[1], x[2], x[3])) {
          if (std::abs(y) < 2) result[filled++] = y;
          if (filled == kGroup) return result;
        }
      } else {
        const auto a = NormalFloats(x[0], x[1]), b = NormalFloats(x[2], x[3]);
        for (const float y : {a[0], a[1], b[0], b[1]}) {
          if (std::abs(y) < 2) result[filled++] = Narrow<T>(y);
          if (filled == kGroup) return result;
        }
      }
    }
  }
};

template <typename T>
struct UniformInteger {
  using Result = T;
  using Unsigned = std::make_unsigned_t<T>;
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  static constexpr int64_t kBlocksPerGroup = 1;
  Unsigned lo;
  Unsigned range;
  std::array<T, kGroup> operator()(PhiloxRandom generator) const {
    const Block x = generator();
    if constexpr (sizeof(T) == 8) {
      return {From(x[0] | (uint64_t{x[1]} << 32)), From(x[2] | (uint64_t{x[3]} << 32))};
    } else {
      return {From(x[0]), From(x[1]), From(x[2]), From(x[3])};
    }
  }
  T From(Unsigned x) const { return static_cast<T>(lo + x % range); }
};

template <typename Distribution>
void FillGroups(const PhiloxRandom& base, const Distribution& distribution, void* out, int64_t begin,
                int64_t end) {
  using T = typename Distribution::Result;
  constexpr int64_t kGroup = Distribution::kGroup;
  auto* to = static_cast<T*>(out);
  for (int64_t i = begin; i < end;) {
    const int64_t group = i / kGroup;
    PhiloxRandom at = base;
    at.Skip(static_cast<uint64_t>(group) * static_cast<uint64_t>(Distribution::kBlocksPerGroup));
    const auto values = distribution(at);
    const int64_t stop = std::min(end, (group + 1) * kGroup);
    for (; i < stop; ++i) to[i] = values[static_cast<size_t>(i - group * kGroup)];
  }
}

template <template <typename> typename Distribution>
void FillReal(const PhiloxRandom& base, DataType type, void* out, int64_t begin, int64_t end) {
  switch (type) {
    case DataType::kHalf:
      return FillGroups(base, Distribution<HalfBits>(), out, begin, end);
    case DataType::kBfloat16:
      return FillGroups(base, Distribution<Bfloat16Bits>(), out, begin, end);
    case DataType::kDouble:
      return FillGroups(base, Distribution<double>(), out, begin, end);
    default:
      return FillGroups(base, Distribution<float>(), out, begin, end);
  }
}

template <typename T>
UniformInteger<T> MakeUniformInteger(int64_t lo, int64_t hi) {
  using U = std::make_unsigned_t<T>;
  return {.lo = static_cast<U>(lo), .range = static_cast<U>(static_cast<U>(hi) - static_cast<U>(lo))};
}

}  // namespace

void FillRandomUniform(const PhiloxRandom& base, DataType type, void* out, int64_t begin, int64_t end) {
  if (type != DataType::kFloat) return FillReal<Uniform>(base, type, out, begin, end);
  // Whole groups are filled by the vectorised loop, which does not support parts.
  constexpr int64_t kGroup = Uniform<float>::kGroup;
  const int64_t first = std::min(end, (begin + kGroup - 1) / kGroup * kGroup);
  const int64_t last = std::max(first, end / kGroup * kGroup);
  FillGroups(base, Uniform<float>(), out, begin, first);
  PhiloxRandom at = base;
  at.Skip(static_cast<uint64_t>(first / kGroup));
  ActiveTables().move.uniform_f32(at.counter_lo(), at.counter_hi(), at.key(),
                                  static_cast<float*>(out) + first, (last - first) / kGroup);
  FillGroups(base, Uniform<float>(), out, last, end);
}

void FillRandomNormal(const PhiloxRandom& base, DataType type, void* out, int64_t begin, int64_t end) {
  FillReal<Normal>(base, type, out, begin, end);
}

void FillTruncatedNormal(const PhiloxRandom& base, DataType type, void* out, int64_t begin, int64_t end) {
  FillReal<TruncatedNormal>(base, type, out, begin, end);
}

void FillRandomUniformInt(const PhiloxRandom& base, DataType type, int64_t lo, int64_t hi, void* out,
                          int64_t begin, int64_t end) {
  if (type == DataType::kInt32) {
    FillGroups(base, MakeUniformInteger<int32_t>(lo, hi), out, begin, end);
  } else {
    FillGroups(base, MakeUniformInteger<int64_t>(lo, hi), out, begin, end);
  }
}

}  // namespace millrace::cpu
