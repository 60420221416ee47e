// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Fourier transforms. They are linear: gradients go through the adjoint transform.
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

// The product of the last `dims` sizes of x, as a scalar of that type.
Expr TransformSize(const Expr& x, int dims, DataType dtype) {
  const Expr shape = ShapeOf(x), rank = RankOf(x);
  Expr size;
  for (int i = 1; i <= dims; ++i) {
    const Expr one = CastTo(GatherRows(shape, rank - i), dtype);
    size = size.IsSet() ? size * one : one;
  }
  return size;
}

template <const char* kInverse, int kDims>
Status ForwardGrad(GradientContext& c) {
  const Expr dy = c.grad(0);
  c.SetInputGrad(0, Op(kInverse, dy) * TransformSize(dy, kDims, dy.dtype()));
  return c.status();
}
template <const char* kForward, int kDims>
Status InverseGrad(GradientContext& c) {
  const Expr dy = c.grad(0);
  c.SetInputGrad(0, Op(kForward, dy) / TransformSize(dy, kDims, dy.dtype()));
  return c.status();
}

// x, padded with zeros at the end to a shape.
Expr PadTo(const Expr& x, const Expr& shape) {
  const Expr missing = shape - ShapeOf(x);
  const Expr both = Op("Pack", {Operand(std::vector<Expr>{ZerosLike(missing), missing})}, {{"axis", 1}});
  return Op("Pad", {x, both});
}

Expr Last(const Expr& vector) { return GatherRows(vector, Op("Size", vector) - 1.0); }
// A shape with another last size.
Expr WithLast(const Expr& shape, const Expr& last) {
  const Expr rest = Op("Slice", {shape, Vector(*shape.builder(), DataType::kInt32, {0}),
                                 ExpandDims(Op("Size", shape) - 1.0, 0)});
  return JoinVectors({rest, last});
}

// The gradient of the first half of the transform of a real signal, which may be a prefix of the input.
template <const char* kInverse, int kDims>
Status RealForwardGrad(GradientContext& c) {
  const Expr dy = c.grad(0), x = c.input(0);
  const Expr whole = PadTo(dy, WithLast(ShapeOf(dy), Last(c.input(1))));
  const Expr dx = Op("Real", Op(kInverse, whole)) * TransformSize(whole, kDims, DataType::kFloat);
  c.SetInputGrad(0, PadTo(dx, ShapeOf(x)));
  return c.status();
}

// All but the first element of the last axis, and the one in the middle, count twice: for themselves and for
// their conjugates.
template <const char* kForward, int kDims>
Status RealInverseGrad(GradientContext& c) {
  const Expr dy = c.grad(0), x = c.input(0), n = Last(c.input(1));
  const Expr spectrum = Op(kForward, {dy, c.input(1)});
  GraphBuilder& b = c.builder();
  const Expr index =
      Op("Range", {Scalar(b, DataType::kInt32, 0), Last(ShapeOf(spectrum)), Scalar(b, DataType::kInt32, 1)});
  const auto is = [&](const Expr& a, const Expr& e) { return CastTo(Op("Equal", {a, e}), DataType::kFloat); };
  const Expr weight = 2.0 - is(index, ScalarLike(index, 0)) - is(2.0 * index, n);
  const Expr scaled = weight / TransformSize(dy, kDims, DataType::kFloat);
  const Expr dx = spectrum * CastTo(scaled, DataType::kComplex64);
  c.SetInputGrad(0, PadTo(dx, ShapeOf(x)));
  return c.status();
}

constexpr char kFft[] = "FFT", kFft2[] = "FFT2D", kFft3[] = "FFT3D";
constexpr char kIfft[] = "IFFT", kIfft2[] = "IFFT2D", kIfft3[] = "IFFT3D";
constexpr char kRfft[] = "RFFT", kRfft2[] = "RFFT2D", kRfft3[] = "RFFT3D";

constexpr Row kRows[] = {
    {"BatchFFT", ForwardGrad<kIfft, 1>},     {"BatchFFT2D", ForwardGrad<kIfft2, 2>},
    {"BatchFFT3D", ForwardGrad<kIfft3, 3>},  {"BatchIFFT", InverseGrad<kFft, 1>},
    {"BatchIFFT2D", InverseGrad<kFft2, 2>},  {"BatchIFFT3D", InverseGrad<kFft3, 3>},
    {"FFT", ForwardGrad<kIfft, 1>},          {"FFT2D", ForwardGrad<kIfft2, 2>},
    {"FFT3D", ForwardGrad<kIfft3, 3>},       {"IFFT", InverseGrad<kFft, 1>},
    {"IFFT2D", InverseGrad<kFft2, 2>},       {"IFFT3D", InverseGrad<kFft3, 3>},
    {"IRFFT", RealInverseGrad<kRfft, 1>},    {"IRFFT2D", RealInverseGrad<kRfft2, 2>},
    {"IRFFT3D", RealInverseGrad<kRfft3, 3>}, {"RFFT", RealForwardGrad<kIfft, 1>},
    {"RFFT2D", RealForwardGrad<kIfft2, 2>},  {"RFFT3D", RealForwardGrad<kIfft3, 3>},
};

}  // namespace

Status RegisterSpectralGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
