// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/mutate_graph.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

std::string_view View(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::FuzzGraphDef(View(data, size));
  return 0;
}

// One in eight mutations changes bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::mt19937 rng(seed);
  if (rng() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string mutant = millrace::MutateGraphDef(View(data, size), rng);
  if (mutant.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, mutant.data(), mutant.size());
  return mutant.size();
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1, const uint8_t* data2,
                                            size_t size2, uint8_t* out, size_t max_size, unsigned int seed) {
  std::mt19937 rng(seed);
  const std::string both = millrace::JoinGraphDefs(View(data1, size1), View(data2, size2), rng);
  if (both.size() > max_size) return 0;
  std::memcpy(out, both.data(), both.size());
  return both.size();
}
