// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>

#include "millrace/status.h"
#include "millrace/tensor.h"

// For benchmarks that see public headers only, and for those that see more.
namespace millrace::bench {

// Any error ends the program: a benchmark has nobody to report it to.
inline void CheckOk(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// Floats between -limit and limit, from the next numbers of one sequence.
inline Tensor RandomTensor(const TensorShape& shape, float limit) {
  static std::mt19937 rng(1);
  std::uniform_real_distribution<float> uniform(-limit, limit);
  Tensor t(DataType::kFloat, shape);
  for (float& v : t.flat<float>()) v = uniform(rng);
  return t;
}

}  // namespace millrace::bench
