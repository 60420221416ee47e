// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/limits.h"

#include <benchmark/benchmark.h>
#include <immintrin.h>

#include "kernels/cpu/contract/isa.h"

namespace millrace::bench {
namespace {

constexpr int kChains = 12;

__attribute__((target("avx512f"))) double Flops512(int64_t rounds) {
  __m512 acc[kChains];
  for (__m512& x : acc) x = _mm512_set1_ps(1.0f);
  __m512 factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) acc[j] = _mm512_fmadd_ps(acc[j], factor, term);
  }
  for (__m512& x : acc) benchmark::DoNotOptimize(x);
  return 2.0 * 16 * kChains * static_cast<double>(rounds);
}

__attribute__((target("avx2,fma"))) double Flops256(int64_t rounds) {
  __m256 acc[kChains];
  for (__m256& x : acc) x = _mm256_set1_ps(1.0f);
  __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) acc[j] = _mm256_fmadd_ps(acc[j], factor, term);
  }
  for (__m256& x : acc) benchmark::DoNotOptimize(x);
  return 2.0 * 8 * kChains * static_cast<double>(rounds);
}

double Flops128(int64_t rounds) {
  __m128 acc[kChains];
  for (__m128& x : acc) x = _mm_set1_ps(1.0f);
  __m128 factor = _mm_set1_ps(0.999f), term = _mm_set1_ps(0.001f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) acc[j] = _mm_add_ps(_mm_mul_ps(acc[j], factor), term);
  }
  for (__m128& x : acc) benchmark::DoNotOptimize(x);
  return 2.0 * 4 * kChains * static_cast<double>(rounds);
}

__attribute__((target("avx512f"))) float Read512(const float* data, int64_t n) {
  __m512 sum[4] = {};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[j] = _mm512_add_ps(sum[j], _mm512_loadu_ps(data + i + 16 * j));
  }
  float rest = 0;
  for (; i < n; ++i) rest += data[i];
  for (const __m512& x : sum) {
    for (int lane = 0; lane < 16; ++lane) rest += x[lane];
  }
  return rest;
}

float Read128(const float* data, int64_t n) {
  __m128 sum[8] = {};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) sum[j] = _mm_add_ps(sum[j], _mm_loadu_ps(data + i + 4 * j));
  }
  float rest = 0;
  for (; i < n; ++i) rest += data[i];
  for (const __m128& x : sum) rest += x[0] + x[1] + x[2] + x[3];
  return rest;
}

}  // namespace

double PeakFlops(int64_t rounds) {
  switch (cpu::ActiveIsa()) {
    case cpu::Isa::kAvx512:
      return Flops512(rounds);
    case cpu::Isa::kAvx2:
      return Flops256(rounds);
    case cpu::Isa::kBaseline:
      break;
  }
  return Flops128(rounds);
}

float ReadAll(const float* data, int64_t n) {
  return cpu::ActiveIsa() == cpu::Isa::kAvx512 ? Read512(data, n) : Read128(data, n);
}

}  // namespace millrace::bench
