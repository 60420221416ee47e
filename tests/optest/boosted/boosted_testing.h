// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Helpers for the tests of boosted trees.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {

using Tensors = std::vector<Tensor>;
using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

struct SplitOptions {
  float l1 = 0, l2 = 0, complexity = 0, min_weight = 0;
};
inline void AddOptions(KernelRunner& runner, const SplitOptions& o) {
  for (const float x : {o.l1, o.l2, o.complexity, o.min_weight}) runner.Input(Tensor::Scalar(x));
}

inline StatusOr<Tensors> BestGains(const Tensor& stats, const Ints& range, const SplitOptions& o) {
  KernelRunner runner("BoostedTreesCalculateBestGainsPerFeature");
  runner.Attr("max_splits", int64_t{1}).Attr("num_features", int64_t{1});
  runner.Input(Tensor::Vector<int32_t>(range)).Input(stats);
  AddOptions(runner, o);
  return runner.Run();
}

inline void ExpectNear(const Tensor& got, const Floats& want, float tolerance = 1e-5f) {
  ASSERT_EQ(got.num_elements(), static_cast<int64_t>(want.size()));
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got.data<float>()[i], want[i], tolerance) << i;
}

}  // namespace millrace
