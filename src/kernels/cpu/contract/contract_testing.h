// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Helpers for the tests of this folder.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/contract/isa.h"
#include "kernels/cpu/contract/parallel.h"

namespace millrace::cpu {

// Real threads that take ranges of uneven length from a shared counter, so that no two runs cut work alike.
class ThreadedParallel final : public Parallel {
 public:
  explicit ThreadedParallel(int threads) : threads_(threads) {}
  int num_threads() const override { return threads_; }
  void For(int64_t total, int64_t /*cost_per_unit_ns*/, ShardFn fn) override {
    std::atomic<int64_t> next{0};
    const auto work = [&] {
      for (int64_t step = 1;; step = step % 3 + 1) {
        const int64_t begin = next.fetch_add(step);
        if (begin >= total) return;
        fn(begin, std::min(begin + step, total));
      }
    };
    std::vector<std::jthread> helpers;
    for (int i = 1; i < threads_; ++i) helpers.emplace_back(work);
    work();
  }

 private:
  int threads_;
};

// Calls fn for every level that this processor supports, and restores the active one.
template <typename F>
void ForEachIsa(const F& fn) {
  const Isa before = ActiveIsa();
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > DetectedIsa()) continue;
    SetActiveIsaForTest(isa);
    fn(isa);
  }
  SetActiveIsaForTest(before);
}

// An example of GemmEpilogue::rows: x / 2.
template <typename T>
void Halve(const void* in, void* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) static_cast<T*>(out)[i] = static_cast<const T*>(in)[i] / 2;
}

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  bool Coin() { return Int(0, 1) == 1; }
  template <typename T>
  std::vector<T> Values(int64_t count) {
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<T> values(static_cast<size_t>(count));
    for (T& x : values) x = static_cast<T>(uniform(engine_));
    return values;
  }

 private:
  std::mt19937 engine_;
};

// The vectors that an epilogue points to; empty ones are left out.
template <typename T>
struct EpilogueData {
  std::vector<T> scale, bias, residual;
  Rectify rectify = Rectify::kNone;
  bool halve = false;

  static EpilogueData Make(Random& random, int64_t columns, int64_t results) {
    EpilogueData e;
    if (random.Coin()) e.scale = random.Values<T>(columns);
    if (random.Coin()) e.bias = random.Values<T>(columns);
    if (random.Coin()) e.residual = random.Values<T>(results);
    e.rectify = static_cast<Rectify>(random.Int(0, 2));
    e.halve = random.Coin();
    return e;
  }

  GemmEpilogue<T> Borrow() const {
    const auto data = [](const std::vector<T>& v) { return v.empty() ? nullptr : v.data(); };
    return {.scale = data(scale),
            .bias = data(bias),
            .residual = data(residual),
            .rectify = rectify,
            .rows = halve ? Halve<T> : nullptr};
  }

  double Apply(double x, int64_t column, int64_t at) const {
    if (!scale.empty()) x *= static_cast<double>(scale[column]);
    if (!bias.empty()) x += static_cast<double>(bias[column]);
    if (!residual.empty()) x += static_cast<double>(residual[at]);
    if (rectify != Rectify::kNone) x = std::max(x, 0.0);
    if (rectify == Rectify::kRelu6) x = std::min(x, 6.0);
    return halve ? x / 2 : x;
  }
};

template <typename T>
std::vector<T> Filled(int64_t count, double value) {
  return std::vector<T>(static_cast<size_t>(count), static_cast<T>(value));
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// The largest error of sums of `terms` products of values within [-1, 1], in units of the expected rounding
// error.
template <typename T>
double ErrorOf(const std::vector<T>& got, const std::vector<double>& want, int64_t terms) {
  if (got.size() != want.size()) return INFINITY;
  const double unit = (sizeof(T) == 4 ? 1.2e-7 : 2.3e-16) * static_cast<double>(std::max<int64_t>(terms, 1));
  double error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    error = std::isnan(difference) ? INFINITY : std::max(error, difference / unit);
  }
  return error;
}

}  // namespace millrace::cpu
