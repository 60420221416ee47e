// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/isa.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

namespace millrace::cpu {
namespace {

Isa FromEnvironment() {
  const char* value = std::getenv("MILLRACE_CPU_ISA");
  const std::string_view name = value == nullptr ? "" : value;
  const Isa best = DetectedIsa();
  if (name == "baseline") return Isa::kBaseline;
  if (name == "avx2") return std::min(best, Isa::kAvx2);
  return best;
}

std::atomic<Isa>& Active() {
  static std::atomic<Isa> active{FromEnvironment()};
  return active;
}

}  // namespace

Isa DetectedIsa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("fma")) {
    return Isa::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

// Relaxed: no other memory is published with the value.
Isa ActiveIsa() { return Active().load(std::memory_order_relaxed); }

void SetActiveIsaForTest(Isa isa) { Active().store(std::min(isa, DetectedIsa()), std::memory_order_relaxed); }

}  // namespace millrace::cpu
