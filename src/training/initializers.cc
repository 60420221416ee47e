// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/initializers.h"

#include <algorithm>
#include <cmath>

#include "cc/scope_state.h"
#include "millrace/ops.h"
#include "training/formula.h"

namespace millrace {

void SetRandomSeed(const Scope& scope, int64_t seed) { scope.state().random_seed = seed; }

namespace initializers {
namespace {

// Tensors of up to this number of equal elements are constants; larger ones are filled when they are needed.
constexpr int64_t kMostConstantElements = 1000;

std::vector<int64_t> Dims(const TensorShape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

Output Filled(const Scope& scope, const char* name, const Tensor& element, const TensorShape& shape) {
  if (shape.num_elements() < kMostConstantElements) {
    return ops::Const(scope.WithOpName(name), element, shape);
  }
  const Scope own = scope.NewSubScope(name);
  const Output dims = Vector(own.WithOpName("shape_as_tensor"), Dims(shape));
  return ops::Fill(own.WithOpName("/"), dims, ops::Const(own.WithOpName("Const"), element));
}

Initializer Same(const char* name, double number) {
  return [=](const Scope& scope, const InitialValue& wanted) {
    if (wanted.dtype == DataType::kString) return Filled(scope, name, Tensor::Scalar(""), wanted.shape);
    const DataType dtype = wanted.dtype;
    const Tensor element = NumberTensor(number, dtype);
    if (element.dtype() == dtype) return Filled(scope, name, element, wanted.shape);
    return CastTo(scope, Filled(scope, name, element, wanted.shape), dtype);
  };
}

// value * factor + offset, with TensorFlow's names of the parts.
struct RandomParts {
  const char* name;         // of the whole
  const char* op;           // the generator
  const char* first_name;   // "min" or "mean"
  const char* second_name;  // "max" or "stddev"
};

Output Random(const Scope& scope, const InitialValue& wanted, const RandomParts& parts, double first,
              double second, int64_t seed) {
  const Scope own = scope.NewSubScope(parts.name);
  const Output shape = Vector(own.WithOpName("shape"), Dims(wanted.shape));
  const Formula low(own, Number(own.WithOpName(parts.first_name), first, wanted.dtype));
  const Formula high(own, Number(own.WithOpName(parts.second_name), second, wanted.dtype));
  const auto [seed1, seed2] = SeedsOf(scope, seed);
  OpAttrs attrs;
  attrs.Set("dtype", wanted.dtype);
  attrs.Set("seed", seed1);
  attrs.Set("seed2", seed2);
  const Formula drawn(own, AddOp(own, parts.op, {shape}, attrs));
  const bool uniform = std::string_view(parts.first_name) == "min";
  const Formula scaled = drawn * (uniform ? high - low : high);
  return AddOp(own.WithOpName("/"), "Add", {scaled, low});
}

constexpr RandomParts kUniform = {"random_uniform", "RandomUniform", "min", "max"};
constexpr RandomParts kNormal = {"random_normal", "RandomStandardNormal", "mean", "stddev"};
constexpr RandomParts kTruncated = {"truncated_normal", "TruncatedNormal", "mean", "stddev"};

Initializer Drawn(const RandomParts& parts, double first, double second, int64_t seed) {
  return [=](const Scope& scope, const InitialValue& wanted) {
    return Random(scope, wanted, parts, first, second, seed);
  };
}

// The number of inputs and of outputs of a unit.
std::pair<double, double> Fans(const TensorShape& shape) {
  if (shape.rank() == 0) return {1, 1};
  if (shape.rank() == 1) return {static_cast<double>(shape.dim(0)), static_cast<double>(shape.dim(0))};
  double field = 1;
  for (int i = 0; i < shape.rank() - 2; ++i) field *= static_cast<double>(shape.dim(i));
  return {field * static_cast<double>(shape.dim(shape.rank() - 2)),
          field * static_cast<double>(shape.dim(shape.rank() - 1))};
}

using Mode = VarianceScalingOptions::Mode;
using Distribution = VarianceScalingOptions::Distribution;

}  // namespace

Initializer Zeros() { return Same("zeros", 0); }
Initializer Ones() { return Same("ones", 1); }

Initializer Constant(const Literal& value) {
  return [value](const Scope& scope, const InitialValue& wanted) {
    const Tensor& given = value.tensor();
    if (!value.status().ok()) scope.UpdateStatus(value.status());
    if (given.num_elements() != 1 && given.num_elements() != wanted.shape.num_elements()) {
      scope.UpdateStatus(errors::InvalidArgument("an initial value of ", given.num_elements(),
                                                 " elements for a variable of shape ", wanted.shape));
    }
    if (!scope.ok()) return Output();
    if (given.num_elements() == 1 && given.rank() == 0) {
      return CastTo(scope, Filled(scope, "Const", given, wanted.shape), wanted.dtype);
    }
    return CastTo(scope, ops::Const(scope.WithOpName("Const"), value, wanted.shape), wanted.dtype);
  };
}

Initializer RandomUniform(double minval, double maxval, int64_t seed) {
  return Drawn(kUniform, minval, maxval, seed);
}
Initializer RandomNormal(double mean, double stddev, int64_t seed) {
  return Drawn(kNormal, mean, stddev, seed);
}
Initializer TruncatedNormal(double mean, double stddev, int64_t seed) {
  return Drawn(kTruncated, mean, stddev, seed);
}

Initializer VarianceScaling(const VarianceScalingOptions& options) {
  return [options](const Scope& scope, const InitialValue& wanted) {
    if (options.scale <= 0) scope.UpdateStatus(errors::InvalidArgument("`scale` must be positive float."));
    if (!scope.ok()) return Output();
    const auto [in, out] = Fans(wanted.full_shape);
    const double units = options.mode == Mode::kFanIn    ? in
                         : options.mode == Mode::kFanOut ? out
                                                         : (in + out) / 2;
    const double variance = options.scale / std::max(1.0, units);
    switch (options.distribution) {
      case Distribution::kTruncatedNormal:
        // The deviation of a normal distribution truncated at two deviations.
        return Random(scope, wanted, kTruncated, 0, std::sqrt(variance) / 0.87962566103423978, options.seed);
      case Distribution::kUntruncatedNormal:
        return Random(scope, wanted, kNormal, 0, std::sqrt(variance), options.seed);
      case Distribution::kUniform:
        break;
    }
    const double limit = std::sqrt(3 * variance);
    return Random(scope, wanted, kUniform, -limit, limit, options.seed);
  };
}

Initializer GlorotUniform(int64_t seed) {
  return VarianceScaling({1, Mode::kFanAvg, Distribution::kUniform, seed});
}
Initializer GlorotNormal(int64_t seed) {
  return VarianceScaling({1, Mode::kFanAvg, Distribution::kTruncatedNormal, seed});
}
Initializer HeUniform(int64_t seed) {
  return VarianceScaling({2, Mode::kFanIn, Distribution::kUniform, seed});
}
Initializer HeNormal(int64_t seed) {
  return VarianceScaling({2, Mode::kFanIn, Distribution::kTruncatedNormal, seed});
}
Initializer LecunUniform(int64_t seed) {
  return VarianceScaling({1, Mode::kFanIn, Distribution::kUniform, seed});
}
Initializer LecunNormal(int64_t seed) {
  return VarianceScaling({1, Mode::kFanIn, Distribution::kTruncatedNormal, seed});
}

Initializer Orthogonal(double gain, int64_t seed) {
  return [=](const Scope& scope, const InitialValue& wanted) {
    const TensorShape& shape = wanted.shape;
    if (shape.rank() < 2) {
      scope.UpdateStatus(
          errors::InvalidArgument("The tensor to initialize must be at least two-dimensional"));
      return Output();
    }
    const int64_t columns = shape.dim(shape.rank() - 1);
    int64_t rows = 1;
    for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape.dim(i);
    const InitialValue matrix{.shape = {std::max(rows, columns), std::min(rows, columns)},
                              .dtype = wanted.dtype};
    const Output q = AddOp(scope, "Qr", {Random(scope, matrix, kNormal, 0, 1, seed)});
    if (!q.IsSet()) return Output();
    // The signs make the distribution uniform.
    const Formula signs = Formula(scope, {q.node, 1}).Call("MatrixDiagPart").Call("Sign");
    Output result = Formula(scope, q) * signs;
    if (rows < columns) result = ops::Transpose(scope, result, {1, 0});
    return (gain * Formula(scope, ops::Reshape(scope, result, Vector(scope, Dims(shape))))).tensor();
  };
}

Initializer Identity(double gain) {
  return [=](const Scope& scope, const InitialValue& wanted) {
    const TensorShape& whole = wanted.full_shape;
    if (whole.rank() != 2) {
      scope.UpdateStatus(
          errors::InvalidArgument("Identity matrix initializer can only be used for 2D matrices."));
      return Output();
    }
    const int64_t shorter = std::min(whole.dim(0), whole.dim(1));
    const Output ones = Filled(scope, "ones", NumberTensor(gain, wanted.dtype), {shorter});
    const Scope padded = scope.NewSubScope("eye");
    const auto pad = [&](int i) { return static_cast<int32_t>(whole.dim(i) - shorter); };
    const Output square = AddOp(padded, "MatrixDiag", {ones});
    Output eye = ops::Pad(padded, square, {{0, pad(0)}, {0, pad(1)}});
    if (wanted.shape == whole) return eye;
    return ops::Slice(scope, eye, Vector(scope, wanted.offset), Vector(scope, Dims(wanted.shape))).output;
  };
}

}  // namespace initializers
}  // namespace millrace
