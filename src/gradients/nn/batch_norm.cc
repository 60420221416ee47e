// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The second derivative of batch normalisation.
#include "gradients/family.h"

namespace millrace {
namespace {

// The tensors of one FusedBatchNormGrad in the type of the statistics, and sums over all but the channels,
// whose dimension of size 1 stays.
class Norm {
 public:
  explicit Norm(GradientContext& c)
      : type_(c.input(3).dtype()),
        channels_first_(c.Attr<std::string>("data_format") == "NCHW"),
        axes_(Vector(c.builder(), DataType::kInt32,
                     channels_first_ ? std::vector<int64_t>{0, 2, 3} : std::vector<int64_t>{0, 1, 2})) {}

  Expr Value(const Expr& x) const { return CastTo(x, type_); }
  // A vector with an element per channel, and the other way round.
  Expr Spread(const Expr& channels) const {
    const Expr x = Value(channels);
    return channels_first_ ? Reshape(x, Vector(*x.builder(), DataType::kInt32, {1, -1, 1, 1})) : x;
  }
  Expr Channels(const Expr& x) const { return Reshape(x, Vector(*x.builder(), DataType::kInt32, {-1})); }
  Expr Mean(const Expr& x) const { return Op("Mean", {x, axes_}, {{"keep_dims", true}}); }
  Expr SumOf(const Expr& x) const { return Sum(x, axes_, /*keep_dims=*/true); }

 private:
  const DataType type_;
  const bool channels_first_;
  const Expr axes_;
};

// The outputs are, with x' = (x - mean) r, r = 1 / sqrt(variance + epsilon) and P(u) = u - M(u) - x' M(u x'),
// M being the mean over all but the channels:
//   dx = scale r P(dy) when training, scale r dy otherwise;   dscale = sum(dy x');   doffset = sum(dy).
// P is symmetric. When training, x' and r depend on x: with a, b, c for the gradients of the outputs,
//   d<a, P(dy)> = -(M(dy x') P(a) + M(a x') P(dy)) r   and   dr = -r^2 x' / N.
Status FusedBatchNormGradGrad(GradientContext& c) {
  const Norm norm(c);
  const bool training = c.Attr<bool>("is_training");
  const Expr dy = norm.Value(c.input(0)), x = norm.Value(c.input(1)), scale = norm.Spread(c.input(2));
  const Expr epsilon = ScalarLike(x, c.Attr<float>("epsilon"));
  const Expr centred = x - (training ? norm.Mean(x) : norm.Spread(c.input(3)));
  const Expr variance = training ? norm.Mean(Op("Square", centred)) : norm.Spread(c.input(4));
  const Expr r = Op("Rsqrt", variance + epsilon), normal = centred * r;
  const auto project = [&](const Expr& u) {
    return training ? u - norm.Mean(u) - normal * norm.Mean(u * normal) : u;
  };
  Expr to_dy, to_x, to_scale;
  const auto add = [](Expr* to, const Expr& part) { *to = to->IsSet() ? *to + part : part; };
  if (c.has_grad(0)) {
    const Expr a = norm.Value(c.grad(0)), of_a = project(a), of_dy = project(dy);
    add(&to_dy, scale * r * of_a);
    add(&to_scale, r * norm.SumOf(a * of_dy));
    if (training) {
      const Expr ma = norm.Mean(a * normal), mdy = norm.Mean(dy * normal);
      const Expr both = norm.Mean(a * of_dy);
      add(&to_x, -(scale * r * r) * (both * normal + mdy * of_a + ma * of_dy));
    }
  }
  if (c.has_grad(1)) {
    const Expr b = norm.Spread(c.grad(1));
    add(&to_dy, b * normal);
    add(&to_x, b * r * project(dy));
  }
  if (c.has_grad(2)) add(&to_dy, norm.Spread(c.grad(2)) + ZerosLike(dy));
  if (to_dy.IsSet()) c.SetInputGrad(0, CastTo(to_dy, c.input(0).dtype()));
  if (to_x.IsSet()) c.SetInputGrad(1, CastTo(to_x, c.input(1).dtype()));
  if (to_scale.IsSet()) c.SetInputGrad(2, CastTo(norm.Channels(to_scale), c.input(2).dtype()));
  return c.status();
}

constexpr gradients::Row kRows[] = {
    {"FusedBatchNormGrad", FusedBatchNormGradGrad},
    {"FusedBatchNormGradV2", FusedBatchNormGradGrad},
    {"FusedBatchNormGradV3", FusedBatchNormGradGrad},
};

}  // namespace

Status RegisterBatchNormGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
