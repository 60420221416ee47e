// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ResNet-50 for this engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bench/graph/resnet50.h"
#include "millrace/ops.h"
#include "millrace/scope.h"

namespace millrace::bench {

inline Tensor TensorOf(const std::vector<float>& values, const TensorShape& shape) {
  Tensor t(DataType::kFloat, shape);
  std::copy(values.begin(), values.end(), t.flat<float>().begin());
  return t;
}

enum class Weights { kConstants, kVariables };

// The network as converted models of TensorFlow have it: padding is an op of its own before convolutions with
// strides.
class MillraceNet {
 public:
  using Value = Output;
  MillraceNet(const Scope& scope, bool nchw, Weights weights)
      : scope_(scope), nchw_(nchw), weights_(weights) {}

  Value Conv(const Value& x, const ConvLayer& layer) {
    LayerWeights random(layer.index);
    const Output filter = Weight(random.Filter(layer), {layer.side, layer.side, layer.in, layer.out});
    const Output scale = Weight(random.Scale(layer), {layer.out});
    const Output offset = Weight(random.Uniform(layer.out, -0.1f, 0.1f), {layer.out});
    const Output mean = Weight(random.Uniform(layer.out, -0.1f, 0.1f), {layer.out});
    const Output variance = Weight(random.Uniform(layer.out, 0.5f, 1.5f), {layer.out});
    Output input = x;
    const bool pad = layer.stride > 1 && layer.side > 1;
    if (pad) {
      const auto p = static_cast<int32_t>((layer.side - 1) / 2);
      input = nchw_ ? ops::Pad(scope_, x, {{0, 0}, {0, 0}, {p, p}, {p, p}})
                    : ops::Pad(scope_, x, {{0, 0}, {p, p}, {p, p}, {0, 0}});
    }
    const Output y = ops::Conv2D(scope_, input, filter, Window(layer.stride), pad ? "VALID" : "SAME",
                                 ops::Conv2D::DataFormat(Format()));
    return ops::FusedBatchNorm(
               scope_, y, scale, offset, mean, variance,
               ops::FusedBatchNorm::Epsilon(kBatchNormEpsilon).DataFormat(Format()).IsTraining(false))
        .y;
  }
  Value Relu(const Value& x) { return ops::Relu(scope_, x); }
  Value Add(const Value& x, const Value& y) { return ops::Add(scope_, x, y); }
  Value MaxPool(const Value& x) {
    return ops::MaxPool(scope_, x, Window(3), Window(2), "SAME", ops::MaxPool::DataFormat(Format()));
  }
  Value Dense(const Value& x, int64_t in, int64_t out) {
    LayerWeights random(999);
    const float limit = std::sqrt(3 / static_cast<float>(in));
    const Output filter = Weight(random.Uniform(in * out, -limit, limit), {in, out});
    const Output bias = Weight(random.Uniform(out, -0.1f, 0.1f), {out});
    const Output pixels = ops::Const(scope_, TensorOfInts(nchw_ ? 2 : 1, nchw_ ? 3 : 2));
    const Output mean = ops::Mean(scope_, x, pixels);
    return ops::BiasAdd(scope_, ops::MatMul(scope_, mean, filter), bias);
  }
  const std::vector<Operation>& initializers() const { return initializers_; }

 private:
  static Tensor TensorOfInts(int32_t a, int32_t b) {
    Tensor t(DataType::kInt32, {2});
    t.flat<int32_t>()[0] = a;
    t.flat<int32_t>()[1] = b;
    return t;
  }
  std::string Format() const { return nchw_ ? "NCHW" : "NHWC"; }
  std::vector<int64_t> Window(int64_t n) const {
    return nchw_ ? std::vector<int64_t>{1, 1, n, n} : std::vector<int64_t>{1, n, n, 1};
  }
  Output Weight(const std::vector<float>& values, const TensorShape& shape) {
    const Output value = ops::Const(scope_, TensorOf(values, shape));
    if (weights_ == Weights::kConstants) return value;
    const Output handle =
        ops::VarHandleOp(scope_, DataType::kFloat, PartialShape(shape),
                         ops::VarHandleOp::SharedName("weights" + std::to_string(initializers_.size())));
    initializers_.push_back(ops::AssignVariableOp(scope_, handle, value));
    return ops::ReadVariableOp(scope_, handle, DataType::kFloat);
  }

  const Scope& scope_;
  const bool nchw_;
  const Weights weights_;
  std::vector<Operation> initializers_;
};

}  // namespace millrace::bench
