// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/bf16.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "kernels/cpu/contract/bf16_product.h"
#include "kernels/cpu/contract/bf16_simd.h"
#include "kernels/cpu/contract/isa.h"
#include "kernels/cpu/contract/scratch.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace millrace::cpu {
namespace {

#if defined(__x86_64__) && defined(__linux__)
// Asks the system to save the state of the tiles and to let this process use them; false if it refuses.
bool MayUseTiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Bf16Unit Detect() {
  if (DetectedIsa() != Isa::kAvx512) return Bf16Unit::kNone;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & (1u << 5)) == 0) return Bf16Unit::kNone;
  if (VectorBf16Kernels() == nullptr) return Bf16Unit::kNone;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmxBf16) == 0 || (d & kAmxTile) == 0)
    return Bf16Unit::kVectors;
  return MayUseTiles() ? Bf16Unit::kAmx : Bf16Unit::kVectors;
}
#else
Bf16Unit Detect() { return Bf16Unit::kNone; }
#endif

Bf16Unit FromEnvironment() {
  const char* value = std::getenv("MILLRACE_CPU_ISA");
  const std::string_view name = value == nullptr ? "" : value;
  if (name == "baseline" || name == "avx2" || name == "avx512") return Bf16Unit::kNone;
  return name == "avx512_bf16" ? std::min(DetectedBf16Unit(), Bf16Unit::kVectors) : DetectedBf16Unit();
}

std::atomic<Bf16Unit>& Active() {
  static std::atomic<Bf16Unit> active{FromEnvironment()};
  return active;
}

}  // namespace

Bf16Unit DetectedBf16Unit() {
  static const Bf16Unit detected = Detect();
  return detected;
}

// Relaxed: no other memory is published with the value.
Bf16Unit ActiveBf16Unit() { return Active().load(std::memory_order_relaxed); }

void SetActiveBf16UnitForTest(Bf16Unit unit) {
  Active().store(std::min(unit, DetectedBf16Unit()), std::memory_order_relaxed);
}

const Bf16Kernels* ActiveBf16Kernels() {
  switch (ActiveBf16Unit()) {
    case Bf16Unit::kAmx:
      return AmxKernels();
    case Bf16Unit::kVectors:
      return VectorBf16Kernels();
    case Bf16Unit::kNone:
      break;
  }
  return nullptr;
}

namespace {

// Whether a product is worth packing its operands; with few rows or columns most of each tile would be empty,
// and the packed operands much larger than the originals. Matrices of floats could be multiplied as they are,
// so B must be used for more rows.
bool Pays(const GemmShape& s, bool packs_floats) {
  constexpr int64_t kMinColumns = 8, kMinDepth = 8;
  constexpr double kMinProducts = 1 << 14;
  const int64_t min_rows = packs_floats ? 16 : 4;
  return s.m >= min_rows && s.n >= kMinColumns && s.k >= kMinDepth && !s.accumulate &&
         static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) >= kMinProducts;
}

template <typename T>
Bf16Pack PackOf(const T* data, int64_t ld, bool along_k, bool as_rows, int64_t group, int64_t count,
                int64_t k, uint16_t* packed) {
  const int64_t first = group * kBf16Group;
  return {.source = data + (along_k ? first * ld : first),
          .is_float = sizeof(T) == 4,
          .ld = ld,
          .along_k = along_k,
          .as_rows = as_rows,
          .count = std::min(kBf16Group, count - first),
          .k = k,
          .tiles = packed};
}

}  // namespace

int64_t PackedBf16Elements(int64_t k, int64_t n) {
  return CeilDiv(k, kBf16Step) * CeilDiv(n, kBf16Group) * kBf16StepElements;
}

void PackBf16(int64_t k, int64_t n, const float* b, int64_t ldb, bool transposed, uint16_t* packed,
              Parallel& parallel) {
  PackPanels(k, n, b, ldb, transposed, packed, parallel);
}

template <typename T>
void PackPanels(int64_t k, int64_t n, const T* b, int64_t ldb, bool transposed, uint16_t* packed,
                Parallel& parallel) {
  const Bf16Kernels& kernels = *ActiveBf16Kernels();
  const int64_t size = CeilDiv(k, kBf16Step) * kBf16StepElements;
  parallel.For(CeilDiv(n, kBf16Group), k * 4 + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      kernels.pack(PackOf(b, ldb, transposed, /*as_rows=*/false, i, n, k, packed + i * size));
  });
}
template void PackPanels(int64_t, int64_t, const float*, int64_t, bool, uint16_t*, Parallel&);
template void PackPanels(int64_t, int64_t, const uint16_t*, int64_t, bool, uint16_t*, Parallel&);

void Bf16Results::Multiply(const Bf16Kernels& kernels, const uint16_t* a, const uint16_t* b, int64_t steps,
                           int64_t rows, const int64_t* offsets, int64_t column) const {
  alignas(64) float sums[kBf16Sums];
  const int64_t cols = std::min(kBf16Group, columns - column);
  kernels.multiply(
      {.a = a, .b = b, .steps = steps, .rows = rows, .cols = cols, .sums = sums, .accumulate = false});
  const auto at = [&](const float* p) { return p == nullptr ? nullptr : p + column; };
  void* const to = to_float ? static_cast<void*>(static_cast<float*>(out) + column)
                            : static_cast<void*>(static_cast<uint16_t*>(out) + column);
  kernels.finish({.sums = sums,
                  .rows = rows,
                  .cols = cols,
                  .offsets = offsets,
                  .scale = at(epilogue.scale),
                  .bias = at(epilogue.bias),
                  .residual = at(epilogue.residual),
                  .rectify = epilogue.rectify,
                  .out = to,
                  .to_float = to_float});
  if (epilogue.rows == nullptr) return;
  for (int64_t i = 0; i < rows; ++i) {
    float* const row = static_cast<float*>(to) + offsets[i];
    epilogue.rows(row, row, cols);
  }
}

namespace {

// The distribution of the groups of A and the panels of B to units. Depends on the shape only.
struct Units {
  int64_t groups, panels;  // of a unit
  int64_t across, down;    // units
};

Units UnitsOf(int64_t groups, int64_t panels, int64_t steps) {
  // Work of about 20 us, and rows of A that fit into the second cache together with a panel of B.
  constexpr int64_t kBlockSteps = 512, kCacheElements = 1 << 18;
  const int64_t blocks = std::max<int64_t>(kBlockSteps / std::max<int64_t>(steps, 1), 1);
  Units u{};
  u.groups = std::clamp<int64_t>(kCacheElements / std::max<int64_t>(steps * kBf16StepElements, 1), 1, 8);
  u.groups = std::min(u.groups, groups);
  u.panels = std::clamp<int64_t>(blocks / u.groups, 1, panels);
  u.down = CeilDiv(groups, u.groups);
  u.across = CeilDiv(panels, u.panels);
  return u;
}

}  // namespace

template <typename In, typename Out>
bool GemmBf16(const GemmShape& s, const In* a, const In* b, Out* c, Parallel& parallel,
              const GemmEpilogue<float>& epilogue, const uint16_t* packed) {
  const Bf16Kernels* const kernels = ActiveBf16Kernels();
  if (kernels == nullptr || !Pays(s, sizeof(In) == 4 && packed == nullptr)) return false;
  const int64_t lda = s.lda != 0 ? s.lda : s.trans_a ? s.m : s.k;
  const int64_t ldb = s.ldb != 0 ? s.ldb : s.trans_b ? s.k : s.n;
  const int64_t ldc = s.ldc != 0 ? s.ldc : s.n;
  const int64_t steps = CeilDiv(s.k, kBf16Step), size = steps * kBf16StepElements;
  const int64_t groups = CeilDiv(s.m, kBf16Group), panels = CeilDiv(s.n, kBf16Group);
  const Scratch of_b = Scratch::Of<uint16_t>(packed == nullptr ? panels * size : 0);
  const Scratch of_a = Scratch::Of<uint16_t>(groups * size);
  if (!of_a.ok() || !of_b.ok()) return false;
  uint16_t* const rows = of_a.data<uint16_t>();
  const auto pack_group = [&](int64_t i) {
    kernels->pack(PackOf(a, lda, !s.trans_a, /*as_rows=*/true, i, s.m, s.k, rows + i * size));
  };
  const Bf16Results results{.out = c, .to_float = sizeof(Out) == 4, .columns = s.n, .epilogue = epilogue};
  const Units units = UnitsOf(groups, panels, steps);
  // Rows are packed by the unit that uses them or, if several units use them, in advance.
  if (packed == nullptr) {
    PackPanels(s.k, s.n, b, ldb, s.trans_b, of_b.data<uint16_t>(), parallel);
    packed = of_b.data<uint16_t>();
  }
  const bool early = units.across > 1;
  if (early) {
    parallel.For(groups, s.k * 4 + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) pack_group(i);
    });
  }
  const auto run = [&](int64_t begin, int64_t end) {
    kernels->begin(s.m);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit / units.across * units.groups;
      const int64_t last = std::min(first + units.groups, groups);
      const int64_t from = unit % units.across * units.panels;
      const int64_t to = std::min(from + units.panels, panels);
      for (int64_t i = first; i < last && !early; ++i) pack_group(i);
      for (int64_t j = from; j < to; ++j) {
        for (int64_t i = first; i < last; ++i) {
          std::array<int64_t, kBf16Group> offsets;
          for (int64_t r = 0; r < kBf16Group; ++r)
            offsets[static_cast<size_t>(r)] = (i * kBf16Group + r) * ldc;
          results.Multiply(*kernels, rows + i * size, packed + j * size, steps,
                           std::min(kBf16Group, s.m - i * kBf16Group), offsets.data(), j * kBf16Group);
        }
      }
    }
    kernels->end();
  };
  parallel.For(units.across * units.down, units.groups * units.panels * steps * 40 + 1, run);
  return true;
}

template bool GemmBf16(const GemmShape&, const float*, const float*, float*, Parallel&,
                       const GemmEpilogue<float>&, const uint16_t*);
template bool GemmBf16(const GemmShape&, const uint16_t*, const uint16_t*, float*, Parallel&,
                       const GemmEpilogue<float>&, const uint16_t*);
template bool GemmBf16(const GemmShape&, const uint16_t*, const uint16_t*, uint16_t*, Parallel&,
                       const GemmEpilogue<float>&, const uint16_t*);

}  // namespace millrace::cpu
