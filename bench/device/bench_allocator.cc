// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of memory for a tensor: nanoseconds for a pair of Allocate and Deallocate on one thread. The
// memory is not accessed.
//
//   <allocator>_pair/N    allocates and frees a block of N bytes, again and again
//   <allocator>_mix       holds 1000 blocks of 1 B to 1 MiB (every power of two is equally likely); the pair
//                         frees a random block and allocates one of a random size
//
// <allocator>: bfc (BfcAllocator), cpu (the process-wide allocator), malloc (the baseline).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "device/bfc_allocator.h"

namespace millrace {
namespace {

class Malloc : public Allocator {
 public:
  std::string_view name() const override { return "malloc"; }
  void* Allocate(size_t bytes) override { return std::malloc(bytes); }
  void Deallocate(void* p, size_t) override { std::free(p); }
};

Allocator& Bfc() { return HostBfcAllocator(int64_t{4} << 30); }
Allocator& Cpu() { return CpuAllocator(); }
Allocator& System() {
  static auto* allocator = new Malloc;
  return *allocator;
}

template <Allocator& (*kGet)()>
void Pair(benchmark::State& state) {
  Allocator& allocator = kGet();
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* p = allocator.Allocate(bytes);
    benchmark::DoNotOptimize(p);
    allocator.Deallocate(p, bytes);
  }
}

template <Allocator& (*kGet)()>
void Mix(benchmark::State& state) {
  Allocator& allocator = kGet();
  std::mt19937 random(1);
  // Drawn beforehand, so that only the allocator is measured.
  std::vector<std::pair<size_t, size_t>> steps(1 << 16);
  const auto size = [&] { return (size_t{1} << random() % 20) + random() % 64; };
  for (auto& [index, bytes] : steps) {
    index = random() % 1000;
    bytes = size();
  }
  std::vector<std::pair<void*, size_t>> held(1000);
  for (auto& [p, bytes] : held) p = allocator.Allocate(bytes = size());
  size_t step = 0;
  for (auto _ : state) {
    const auto [index, bytes] = steps[step++ % steps.size()];
    auto& block = held[index];
    allocator.Deallocate(block.first, block.second);
    block = {allocator.Allocate(bytes), bytes};
  }
  for (const auto& [p, bytes] : held) allocator.Deallocate(p, bytes);
}

BENCHMARK(Pair<Bfc>)->Name("bfc_pair")->Arg(1024)->Arg(64 << 10)->Arg(4 << 20);
BENCHMARK(Pair<Cpu>)->Name("cpu_pair")->Arg(1024)->Arg(64 << 10)->Arg(4 << 20);
BENCHMARK(Pair<System>)->Name("malloc_pair")->Arg(1024)->Arg(64 << 10)->Arg(4 << 20);
BENCHMARK(Mix<Bfc>)->Name("bfc_mix");
BENCHMARK(Mix<Cpu>)->Name("cpu_mix");
BENCHMARK(Mix<System>)->Name("malloc_mix");

}  // namespace
}  // namespace millrace
