// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/shape.h"
#include "millrace/tensor.h"

namespace millrace {

// The arguments of an initializer: the variable, or one part of it.
struct InitialValue {
  TensorShape shape;
  DataType dtype = DataType::kFloat;
  // For a part: the shape of the whole and the offset of the part in it; otherwise `shape` and zeros.
  TensorShape full_shape = shape;
  std::vector<int64_t> offset = std::vector<int64_t>(static_cast<size_t>(shape.rank()), 0);
};

// Adds the nodes of an initial value; null if none is given. Errors go to the scope's status.
using Initializer = std::function<Output(const Scope&, const InitialValue&)>;

// The seed of the graph: random nodes that are made later without a seed give the same numbers in each
// session. Without it the numbers differ in each session.
void SetRandomSeed(const Scope& scope, int64_t seed);

// The initializers of TensorFlow's Python client, whose nodes have the same names. The random ones take a
// seed; 0: that of the graph.
namespace initializers {

Initializer Zeros();
Initializer Ones();
// One element for all, or as many elements as the variable has, in row-major order.
Initializer Constant(const Literal& value);
Initializer RandomUniform(double minval = 0, double maxval = 1, int64_t seed = 0);
Initializer RandomNormal(double mean = 0, double stddev = 1, int64_t seed = 0);
// Normal; values more than two standard deviations from the mean are redrawn.
Initializer TruncatedNormal(double mean = 0, double stddev = 1, int64_t seed = 0);

// Variance scale / n, where n is the fan-in, the fan-out, or the mean of both.
struct VarianceScalingOptions {
  enum class Mode { kFanIn, kFanOut, kFanAvg };
  enum class Distribution { kTruncatedNormal, kUntruncatedNormal, kUniform };
  double scale = 1;
  Mode mode = Mode::kFanIn;
  Distribution distribution = Distribution::kTruncatedNormal;
  int64_t seed = 0;
};
Initializer VarianceScaling(const VarianceScalingOptions& options);
// Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks.
Initializer GlorotUniform(int64_t seed = 0);
Initializer GlorotNormal(int64_t seed = 0);
// He and others, Delving Deep into Rectifiers.
Initializer HeUniform(int64_t seed = 0);
Initializer HeNormal(int64_t seed = 0);
// LeCun and others, Efficient BackProp.
Initializer LecunUniform(int64_t seed = 0);
Initializer LecunNormal(int64_t seed = 0);
// Orthogonal rows or columns, whichever are fewer, of the tensor as a matrix with the same last dimension.
Initializer Orthogonal(double gain = 1, int64_t seed = 0);
// A matrix with `gain` on its diagonal.
Initializer Identity(double gain = 1);

}  // namespace initializers
}  // namespace millrace
