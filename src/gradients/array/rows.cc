// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rows and elements that move or change in place.
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::PassThrough;
using gradients::Row;

Status ReverseSequenceGrad(GradientContext& c) {
  c.SetInputGrad(0,
                 Op("ReverseSequence", {c.grad(0), c.input(1)},
                    {{"seq_dim", c.Attr<int64_t>("seq_dim")}, {"batch_dim", c.Attr<int64_t>("batch_dim")}}));
  return c.status();
}

Status RollGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("Roll", {c.grad(0), -c.input(1), c.input(2)}));
  return c.status();
}

Status TensorScatterUpdateGrad(GradientContext& c) {
  const Expr indices = c.input(1), dy = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, Op("TensorScatterUpdate", {dy, indices, ZerosLike(c.input(2))}));
  if (c.wants(2)) c.SetInputGrad(2, Op("GatherNd", {dy, indices}));
  return c.status();
}
template <int sign>
Status TensorScatterAddGrad(GradientContext& c) {
  if (c.wants(0)) c.SetInputGrad(0, c.grad(0));
  if (c.wants(2)) {
    const Expr rows = Op("GatherNd", {c.grad(0), c.input(1)});
    c.SetInputGrad(2, sign > 0 ? rows : -rows);
  }
  return c.status();
}

constexpr Row kRows[] = {
    {"GuaranteeConst", PassThrough},
    {"ReverseSequence", ReverseSequenceGrad},
    {"Roll", RollGrad},
    {"ScatterNdNonAliasingAdd", TensorScatterAddGrad<1>},
    {"TensorScatterAdd", TensorScatterAddGrad<1>},
    {"TensorScatterSub", TensorScatterAddGrad<-1>},
    {"TensorScatterUpdate", TensorScatterUpdateGrad},
};

}  // namespace

Status RegisterArrayRowGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
