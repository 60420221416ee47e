// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Activations, biases, losses, ranking.
#include "gradients/array/indexing_values.h"
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

enum class From { kInput, kOutput };

// Activations whose gradient is an op: g(dy, x) or g(dy, y).
template <From kFrom>
Status ActivationGrad(GradientContext& c) {
  const Expr value = kFrom == From::kInput ? c.input(0) : c.output(0);
  c.SetInputGrad(0, Op(c.node().op_name() + "Grad", {c.grad(0), value}));
  return c.status();
}

// Gradients of those gradients: z = g(b, v), linear in b. kOfV gives the share of v from b, v and dz.
template <Expr (*kOfV)(const Expr& b, const Expr& v, const Expr& dz)>
Status ActivationSecondGrad(GradientContext& c) {
  const Expr b = c.input(0), v = c.input(1), dz = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, Op(c.node().op_name(), {dz, v}));
  if (c.wants(1)) c.SetInputGrad(1, kOfV(b, v, dz));
  return c.status();
}

// Linear on both sides of the bends.
Expr Nothing(const Expr&, const Expr& v, const Expr&) { return ZerosLike(v); }
// g = b (v + const) where v < 0, and linear elsewhere.
Expr WhereNegative(const Expr& b, const Expr& v, const Expr& dz) {
  return Where(Op("Less", {v, ScalarLike(v, 0)}), dz * b, ZerosLike(v));
}
// g = b sigmoid(v)
Expr SoftplusOfV(const Expr& b, const Expr& v, const Expr& dz) {
  return dz * b / (Op("Exp", -v) + 2.0 + Op("Exp", v));
}
// g = b / (1 + |v|)^2
Expr SoftsignOfV(const Expr& b, const Expr& v, const Expr& dz) {
  const Expr d = 1.0 + Op("Abs", v);
  return -2.0 * dz * b * Op("Sign", v) / (d * Op("Square", d));
}

Status BiasAddGrad(GradientContext& c) {
  c.SetInputGrad(0, c.grad(0));
  if (c.wants(1)) c.SetInputGrad(1, Op("BiasAddGrad", {c.grad(0)}, c.CopyAttrs({"data_format"})));
  return c.status();
}

// The channels of the first version always come last.
Status BiasAddV1Grad(GradientContext& c) {
  c.SetInputGrad(0, c.grad(0));
  if (c.wants(1)) c.SetInputGrad(1, Op("BiasAddGrad", c.grad(0)));
  return c.status();
}

Status BiasAddGradGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("BiasAdd", {ZerosLike(c.input(0)), c.grad(0)}, c.CopyAttrs({"data_format"})));
  return c.status();
}

// Only y has a gradient; the statistics are for moving averages.
Status FusedBatchNormGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  const bool training = c.Attr<bool>("is_training");
  const Expr mean = training ? c.output(3) : c.input(3), variance = training ? c.output(4) : c.input(4);
  const Expr dx = Op("FusedBatchNormGrad", {c.grad(0), c.input(0), c.input(1), mean, variance},
                     c.CopyAttrs({"epsilon", "data_format", "is_training"}));
  for (int i = 0; i < 3; ++i) {
    if (c.wants(i)) c.SetInputGrad(i, dx.Sibling(i));
  }
  return c.status();
}

// The gradient of versions 2 and 3, whose statistics have a type of their own. Version 3 keeps more for its
// gradient.
Status MixedBatchNormGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  const bool training = c.Attr<bool>("is_training");
  const Expr mean = training ? c.output(3) : c.input(3), variance = training ? c.output(4) : c.input(4);
  const AttrMap attrs = c.CopyAttrs({"epsilon", "data_format", "is_training"});
  const bool v3 = c.node().op_name() == "FusedBatchNormV3";
  const Expr scale = CastTo(c.input(1), DataType::kFloat);
  const Expr dx =
      v3 ? Op("FusedBatchNormGradV3", {c.grad(0), c.input(0), scale, mean, variance, c.output(5)}, attrs)
         : Op("FusedBatchNormGradV2", {c.grad(0), c.input(0), scale, mean, variance}, attrs);
  for (int i = 0; i < 3; ++i) {
    if (c.wants(i)) c.SetInputGrad(i, dx.Sibling(i));
  }
  return c.status();
}

// Inputs: t, m, v, beta, gamma; result = (t - m) * r * gamma + beta with r = 1 / sqrt(v + epsilon).
Status GlobalNormalizationGrad(GradientContext& c) {
  const Expr dy = c.grad(0), t = c.input(0), gamma = c.input(4);
  const Expr spread = c.input(2) + c.Attr<float>("variance_epsilon");
  const Expr r = Op("Rsqrt", spread);
  const bool scaled = c.Attr<bool>("scale_after_normalization");
  const Expr factor = scaled ? r * gamma : r;
  const auto by_channel = [&](const Expr& x) {
    return Sum(x, Vector(*x.builder(), DataType::kInt32, {0, 1, 2}));
  };
  const Expr sum = by_channel(dy), products = by_channel(dy * (t - c.input(1)));
  if (c.wants(0)) c.SetInputGrad(0, dy * factor);
  if (c.wants(1)) c.SetInputGrad(1, -(sum * factor));
  if (c.wants(2)) c.SetInputGrad(2, -0.5 * (products * factor / spread));
  if (c.wants(3)) c.SetInputGrad(3, sum);
  if (c.wants(4)) c.SetInputGrad(4, scaled ? products * r : ZerosLike(gamma));
  return c.status();
}

Status LeakyReluGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("LeakyReluGrad", {c.grad(0), c.input(0)}, c.CopyAttrs({"alpha"})));
  return c.status();
}

Status LeakyReluGradGrad(GradientContext& c) {
  if (c.wants(0)) c.SetInputGrad(0, Op("LeakyReluGrad", {c.grad(0), c.input(1)}, c.CopyAttrs({"alpha"})));
  if (c.wants(1)) c.SetInputGrad(1, ZerosLike(c.input(1)));
  return c.status();
}

Status L2LossGrad(GradientContext& c) {
  c.SetInputGrad(0, c.grad(0) * c.input(0));
  return c.status();
}

Expr SumOverClasses(const Expr& x) {
  return Sum(x, Vector(*x.builder(), DataType::kInt32, {-1}), /*keep_dims=*/true);
}

// dx for the gradient dy of y = softmax(x).
Expr ThroughSoftmax(const Expr& dy, const Expr& y) { return (dy - SumOverClasses(dy * y)) * y; }

Status SoftmaxGrad(GradientContext& c) {
  c.SetInputGrad(0, ThroughSoftmax(c.grad(0), c.output(0)));
  return c.status();
}

Status LogSoftmaxGrad(GradientContext& c) {
  const Expr dy = c.grad(0);
  c.SetInputGrad(0, dy - Op("Exp", c.output(0)) * SumOverClasses(dy));
  return c.status();
}

// The share of the logits. Output 0 is the loss, output 1 its gradient, softmax(logits) - labels, through
// which come the gradients of gradients.
void SetCrossEntropyLogits(GradientContext& c) {
  if (!c.wants(0)) return;
  Expr dx;
  if (c.has_grad(0)) dx = ExpandDims(c.grad(0), -1) * c.output(1);
  if (c.has_grad(1)) {
    const Expr second = ThroughSoftmax(c.grad(1), Op("Softmax", c.input(0)));
    dx = dx.IsSet() ? dx + second : second;
  }
  c.SetInputGrad(0, dx);
}

Status SparseCrossEntropyGrad(GradientContext& c) {
  SetCrossEntropyLogits(c);
  return c.status();
}

Status CrossEntropyGrad(GradientContext& c) {
  SetCrossEntropyLogits(c);
  if (!c.wants(1)) return c.status();
  Expr labels;
  if (c.has_grad(0)) labels = -(ExpandDims(c.grad(0), -1) * Op("LogSoftmax", c.input(0)));
  if (c.has_grad(1)) labels = labels.IsSet() ? labels - c.grad(1) : -c.grad(1);
  c.SetInputGrad(1, labels);
  return c.status();
}

// The values go back to where they were found in their rows.
Status TopKGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  const Expr x = c.input(0);
  const Expr rank = RankOf(x), last = rank - ScalarLike(rank, 1);
  c.SetInputGrad(0, gradients::ScatterRows(c.grad(0), c.output(1), ShapeOf(x), last, last));
  return c.status();
}

// Elements that equal the n-th share its gradient.
Status NthElementGrad(GradientContext& c) {
  const Expr x = c.input(0);
  const Expr equal = CastTo(Op("Equal", {ExpandDims(c.output(0), -1), x}), x.dtype());
  const Expr count = Sum(equal, Vector(c.builder(), DataType::kInt32, {-1}), true);
  c.SetInputGrad(0, equal / count * ExpandDims(c.grad(0), -1));
  return c.status();
}

constexpr Row kRows[] = {
    {"BatchNormWithGlobalNormalization", GlobalNormalizationGrad},
    {"BiasAdd", BiasAddGrad},
    {"BiasAddGrad", BiasAddGradGrad},
    {"BiasAddV1", BiasAddV1Grad},
    {"Elu", ActivationGrad<From::kOutput>},
    {"EluGrad", ActivationSecondGrad<WhereNegative>},
    {"FusedBatchNorm", FusedBatchNormGrad},
    {"FusedBatchNormV2", MixedBatchNormGrad},
    {"FusedBatchNormV3", MixedBatchNormGrad},
    {"L2Loss", L2LossGrad},
    {"LeakyRelu", LeakyReluGrad},
    {"LeakyReluGrad", LeakyReluGradGrad},
    {"LogSoftmax", LogSoftmaxGrad},
    {"NthElement", NthElementGrad},
    {"Relu", ActivationGrad<From::kOutput>},
    {"Relu6", ActivationGrad<From::kOutput>},
    {"Relu6Grad", ActivationSecondGrad<Nothing>},
    {"ReluGrad", ActivationSecondGrad<Nothing>},
    {"Selu", ActivationGrad<From::kOutput>},
    {"SeluGrad", ActivationSecondGrad<WhereNegative>},
    {"Softmax", SoftmaxGrad},
    {"SoftmaxCrossEntropyWithLogits", CrossEntropyGrad},
    {"Softplus", ActivationGrad<From::kInput>},
    {"SoftplusGrad", ActivationSecondGrad<SoftplusOfV>},
    {"Softsign", ActivationGrad<From::kInput>},
    {"SoftsignGrad", ActivationSecondGrad<SoftsignOfV>},
    {"SparseSoftmaxCrossEntropyWithLogits", SparseCrossEntropyGrad},
    {"TopK", TopKGrad},
    {"TopKV2", TopKGrad},
};

}  // namespace

Status RegisterNnGradients(GradientRegistry& registry) { return gradients::RegisterEach(registry, kRows); }

}  // namespace millrace
