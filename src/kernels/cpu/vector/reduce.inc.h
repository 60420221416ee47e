// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Reductions of one row or of the columns of one block, for one instruction set. The order of the
// operations depends on the shape only.
#include "kernels/cpu/vector/simd.inc.h"
#include "kernels/cpu/vector/tables.h"

namespace millrace::cpu::MR_ISA {
namespace {

// Combines two registers, or two scalars. The maximum and the minimum propagate NaNs of either side.
template <ReduceKind kKind, typename V>
MR_INLINE V Combine(V a, V b) {
  if constexpr (kKind == ReduceKind::kSum) return a + b;
  if constexpr (kKind == ReduceKind::kProd) return a * b;
  if constexpr (kKind == ReduceKind::kMax) return b != b ? b : Max(b, a);
  if constexpr (kKind == ReduceKind::kMin) return b != b ? b : Min(b, a);
}

template <ReduceKind kKind, typename T>
constexpr T Identity() {
  if constexpr (kKind == ReduceKind::kSum) return 0;
  if constexpr (kKind == ReduceKind::kProd) return 1;
  if constexpr (kKind == ReduceKind::kMax) return -Fp<T>::kInf;
  if constexpr (kKind == ReduceKind::kMin) return Fp<T>::kInf;
}

// `steps` steps of four registers, combined into one.
template <ReduceKind kKind, typename T>
MR_INLINE typename Fp<T>::Vec RealSteps(const T* x, int64_t steps) {
  using V = typename Fp<T>::Vec;
  constexpr int kLanes = Fp<T>::kLanes;
  V a = Load(x), b = Load(x + kLanes), c = Load(x + 2 * kLanes), d = Load(x + 3 * kLanes);
  for (int64_t i = 1; i < steps; ++i) {
    x += 4 * kLanes;
    a = Combine<kKind>(a, Load(x));
    b = Combine<kKind>(b, Load(x + kLanes));
    c = Combine<kKind>(c, Load(x + 2 * kLanes));
    d = Combine<kKind>(d, Load(x + 3 * kLanes));
  }
  return Combine<kKind>(Combine<kKind>(a, b), Combine<kKind>(c, d));
}

template <ReduceKind kKind, typename T>
void RealRow(const void* in, int64_t n, void* out) {
  using V = typename Fp<T>::Vec;
  constexpr int kLanes = Fp<T>::kLanes;
  constexpr int kStep = 4 * kLanes;
  constexpr int kSteps = 16;  // no accumulator sums more terms than this: sums stay precise
  const T* x = (const T*)in;
  const V identity = Set(Identity<kKind, T>());
  V total = identity;
  int64_t i = 0;
  for (; i + kSteps * kStep <= n; i += kSteps * kStep) {
    total = Combine<kKind>(total, RealSteps<kKind>(x + i, kSteps));
  }
  if (i + kStep <= n) {
    const int64_t steps = (n - i) / kStep;
    total = Combine<kKind>(total, RealSteps<kKind>(x + i, steps));
    i += steps * kStep;
  }
  for (; i + kLanes <= n; i += kLanes) total = Combine<kKind>(total, Load(x + i));
  if (i < n) total = Combine<kKind>(total, FirstLanes(LoadPart(x + i, n - i), identity, n - i));
  *(T*)out = Across(total, [](V a, V b) { return Combine<kKind>(a, b); });
}

// kWidth registers of columns at a time, so that one pass over the rows fills whole cache lines.
template <ReduceKind kKind, typename T, int kWidth>
MR_INLINE void RealColumnBlock(const T* x, int64_t rows, int64_t stride, T* out) {
  constexpr int kLanes = Fp<T>::kLanes;
  typename Fp<T>::Vec total[kWidth];
  for (int k = 0; k < kWidth; ++k) total[k] = Load(x + k * kLanes);
  for (int64_t r = 1; r < rows; ++r) {
    x += stride;
    for (int k = 0; k < kWidth; ++k) total[k] = Combine<kKind>(total[k], Load(x + k * kLanes));
  }
  for (int k = 0; k < kWidth; ++k) Store(out + k * kLanes, total[k]);
}

// The last few columns: four rows at a time, because there are too few columns to hide the additions'
// latency.
template <ReduceKind kKind, typename T>
MR_INLINE void RealColumnTail(const T* x, int64_t rows, int64_t stride, int64_t columns, T* out) {
  using V = typename Fp<T>::Vec;
  const V identity = Set(Identity<kKind, T>());
  V a = identity, b = identity, c = identity, d = identity;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
    a = Combine<kKind>(a, LoadPart(x, columns));
    b = Combine<kKind>(b, LoadPart(x + stride, columns));
    c = Combine<kKind>(c, LoadPart(x + 2 * stride, columns));
    d = Combine<kKind>(d, LoadPart(x + 3 * stride, columns));
  }
  for (; r < rows; ++r, x += stride) a = Combine<kKind>(a, LoadPart(x, columns));
  StorePart(out, Combine<kKind>(Combine<kKind>(a, b), Combine<kKind>(c, d)), columns);
}

template <ReduceKind kKind, typename T>
void RealColumns(const void* in, int64_t rows, int64_t stride, int64_t columns, void* out) {
  constexpr int kLanes = Fp<T>::kLanes;
  const T* x = (const T*)in;
  T* y = (T*)out;
  int64_t j = 0;
  for (; j + 4 * kLanes <= columns; j += 4 * kLanes) RealColumnBlock<kKind, T, 4>(x + j, rows, stride, y + j);
  for (; j + kLanes <= columns; j += kLanes) RealColumnBlock<kKind, T, 1>(x + j, rows, stride, y + j);
  if (j < columns) RealColumnTail<kKind, T>(x + j, rows, stride, columns - j, y + j);
}

// Integers and bool; sums and products of the unsigned type of the width, so that they wrap.
template <ReduceKind kKind, typename T>
MR_INLINE T CombinePlain(T a, T b) {
  if constexpr (kKind == ReduceKind::kSum) return (T)(a + b);
  if constexpr (kKind == ReduceKind::kProd) return (T)((a | uint32_t{0}) * b);
  if constexpr (kKind == ReduceKind::kMax) return a < b ? b : a;
  if constexpr (kKind == ReduceKind::kMin) return b < a ? b : a;
}
// A bool in memory, where a feed may have written bytes other than 0 and 1.
enum class BoolByte : uint8_t {};
template <ReduceKind kKind>
MR_INLINE BoolByte CombinePlain(BoolByte a, BoolByte b) {
  const bool x = a != BoolByte{0}, y = b != BoolByte{0};
  return (BoolByte)(kKind == ReduceKind::kMax ? x | y : x & y);
}

// Any (kMax) or all (kMin) of n bytes, a register or eight at a time.
template <ReduceKind kKind>
MR_INLINE bool BoolRow(const uint8_t* x, int64_t n) {
#if defined(__AVX512BW__) || defined(__AVX2__)
  if (n >= kVectorBytes) {
    typedef uint8_t Bytes __attribute__((vector_size(kVectorBytes)));
    Bytes all = {};  // a byte that is not zero, or one that is
    const auto find = [&](const uint8_t* from) {
      Bytes bytes;
      memcpy(&bytes, from, sizeof(bytes));
      all |= kKind == ReduceKind::kMax ? bytes : (Bytes)(bytes == 0);
    };
    for (int64_t i = 0; i + kVectorBytes <= n; i += kVectorBytes) find(x + i);
    if (n % kVectorBytes != 0) find(x + n - kVectorBytes);  // some a second time
#if defined(__AVX512BW__)
    const bool none = _mm512_test_epi64_mask((__m512i)all, (__m512i)all) == 0;
#else
    const bool none = _mm256_testz_si256((__m256i)all, (__m256i)all) != 0;
#endif
    return none == (kKind == ReduceKind::kMin);
  }
#endif
  constexpr uint64_t kOnes = 0x0101010101010101u, kHigh = 0x8080808080808080u;
  uint64_t found = 0;  // a byte that is not zero, or one that is
  const auto find = [&](uint64_t bytes) {
    found |= kKind == ReduceKind::kMax ? bytes : (bytes - kOnes) & ~bytes & kHigh;
  };
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t bytes;
    memcpy(&bytes, x + i, 8);
    find(bytes);
  }
  if (i < n) {
    uint64_t bytes = kKind == ReduceKind::kMax ? 0 : kOnes;
    memcpy(&bytes, x + i, (size_t)(n - i));
    find(bytes);
  }
  return (found != 0) == (kKind == ReduceKind::kMax);
}

template <ReduceKind kKind, typename T>
void PlainRow(const void* in, int64_t n, void* out) {
  if constexpr (__is_same(T, BoolByte)) {
    *(uint8_t*)out = BoolRow<kKind>((const uint8_t*)in, n);
    return;
  }
  const T* x = (const T*)in;
  T total = x[0];
  for (int64_t i = 1; i < n; ++i) total = CombinePlain<kKind>(total, x[i]);
  *(T*)out = total;
}

template <ReduceKind kKind, typename T>
void PlainColumns(const void* in, int64_t rows, int64_t stride, int64_t columns, void* out) {
  const T* x = (const T*)in;
  T* y = (T*)out;
  memcpy(y, x, (size_t)columns * sizeof(T));
  for (int64_t r = 1; r < rows; ++r) {
    x += stride;
    MR_VECTORIZE
    for (int64_t j = 0; j < columns; ++j) y[j] = CombinePlain<kKind>(y[j], x[j]);
  }
}

// The index of the first of the largest (smallest) numbers of a row that are not NaN; 0 if all are.
template <typename T, bool kLargest>
MR_INLINE int64_t ArgRow(const T* x, int64_t n) {
  using V = typename Fp<T>::Vec;
  constexpr int kLanes = Fp<T>::kLanes;
  const auto pick = [](V a, V b) { return kLargest ? Max(a, b) : Min(a, b); };  // b where a is NaN
  V best = Set(kLargest ? -Fp<T>::kInf : Fp<T>::kInf);
  int64_t i = 0;
  if (n >= 4 * kLanes) {
    V others[] = {best, best, best};
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      best = pick(Load(x + i), best);
      for (int k = 0; k < 3; ++k) others[k] = pick(Load(x + i + (k + 1) * kLanes), others[k]);
    }
    best = pick(pick(best, others[0]), pick(others[1], others[2]));
  }
  for (; i + kLanes <= n; i += kLanes) best = pick(Load(x + i), best);
  if (i < n) best = pick(FirstLanes(LoadPart(x + i, n - i), best, n - i), best);
  const V value = Set(Across(best, pick));
  // Whether a number is the one wanted, as a bit for each of 64. No branch depends on where it is.
  constexpr int kWhole = 64;
  for (i = 0; i + kWhole <= n; i += kWhole) {
    uint64_t found = 0;
    for (int k = 0; k < kWhole; k += kLanes) found |= (uint64_t)EqualLanes(Load(x + i + k), value) << k;
    if (found != 0) return i + __builtin_ctzll(found);
  }
  uint64_t found = 0;
  int64_t k = 0;
  for (; i + k + kLanes <= n; k += kLanes) found |= (uint64_t)EqualLanes(Load(x + i + k), value) << k;
  if (const int64_t rest = n - i - k; rest > 0) {
    found |= (uint64_t)(EqualLanes(LoadPart(x + i + k, rest), value) & ((1u << rest) - 1)) << k;
  }
  return found != 0 ? i + __builtin_ctzll(found) : 0;
}

template <typename T, bool kLargest>
void ArgRows(const void* in, int64_t rows, int64_t n, int64_t* out) {
  const T* x = (const T*)in;
  for (int64_t r = 0; r < rows; ++r) out[r] = ArgRow<T, kLargest>(x + r * n, n);
}

template <typename T, ReduceKind... kKinds>
constexpr void AddReal(ReduceFns* table) {
  ((table[(int)kKinds] = {RealRow<kKinds, T>, RealColumns<kKinds, T>}), ...);
}
template <typename T, ReduceKind... kKinds>
constexpr void AddPlain(ReduceFns* table) {
  ((table[(int)kKinds] = {PlainRow<kKinds, T>, PlainColumns<kKinds, T>}), ...);
}
template <typename T, typename Unsigned>
constexpr void AddInteger(ReduceFns* table) {
  AddPlain<Unsigned, ReduceKind::kSum, ReduceKind::kProd>(table);
  AddPlain<T, ReduceKind::kMax, ReduceKind::kMin>(table);
}

constexpr ReduceTable MakeReduceTable() {
  using enum ReduceKind;
  ReduceTable table = {};
  AddReal<float, kSum, kProd, kMax, kMin>(table.of[(int)PlainType::kFloat]);
  AddReal<double, kSum, kProd, kMax, kMin>(table.of[(int)PlainType::kDouble]);
  AddInteger<int8_t, uint8_t>(table.of[(int)PlainType::kInt8]);
  AddInteger<int16_t, uint16_t>(table.of[(int)PlainType::kInt16]);
  AddInteger<int32_t, uint32_t>(table.of[(int)PlainType::kInt32]);
  AddInteger<int64_t, uint64_t>(table.of[(int)PlainType::kInt64]);
  AddInteger<uint8_t, uint8_t>(table.of[(int)PlainType::kUint8]);
  AddInteger<uint16_t, uint16_t>(table.of[(int)PlainType::kUint16]);
  AddInteger<uint32_t, uint32_t>(table.of[(int)PlainType::kUint32]);
  AddInteger<uint64_t, uint64_t>(table.of[(int)PlainType::kUint64]);
  AddPlain<BoolByte, kMax, kMin>(table.of[(int)PlainType::kBool]);
  table.arg_max_f32 = ArgRows<float, true>;
  table.arg_min_f32 = ArgRows<float, false>;
  table.arg_max_f64 = ArgRows<double, true>;
  table.arg_min_f64 = ArgRows<double, false>;
  return table;
}

}  // namespace

constinit const ReduceTable kReduceTable = MakeReduceTable();

}  // namespace millrace::cpu::MR_ISA
