// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Functions that the benchmarks of kernels share.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/contract/parallel.h"

namespace millrace::bench {

// The engine's pool, as kernels see it.
class PoolParallel final : public cpu::Parallel {
 public:
  explicit PoolParallel(int threads) : pool_("bench", threads) {}
  int num_threads() const override { return pool_.parallelism(); }
  void For(int64_t total, int64_t cost_per_unit_ns, cpu::ShardFn fn) override {
    pool_.ParallelFor(total, cost_per_unit_ns, [&fn](int64_t begin, int64_t end) { fn(begin, end); });
  }

 private:
  ThreadPool pool_;
};

inline std::vector<float> RandomFloats(int64_t count) {
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = uniform(rng);
  return values;
}

// `unit` (say "GFLOP/s") of one iteration's `work`, in 1e9 a second.
inline void CountRate(benchmark::State& state, const char* unit, double work) {
  state.counters[unit] = benchmark::Counter(work * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

using BenchFn = std::function<void(benchmark::State& state, int threads)>;

// Registers `name` with the number of threads as its argument.
inline void RegisterThreads(const std::string& name, const BenchFn& fn, int max_threads) {
  auto* bench = benchmark::RegisterBenchmark(
      name.c_str(), [fn](benchmark::State& state) { fn(state, static_cast<int>(state.range(0))); });
  for (int threads = 1; threads <= max_threads; ++threads) bench->Arg(threads);
  bench->UseRealTime()->Unit(benchmark::kMicrosecond);
}

}  // namespace millrace::bench
