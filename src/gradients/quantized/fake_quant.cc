// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rounding in training.
#include "gradients/family.h"

namespace millrace {
namespace {

AttrMap FakeQuantAttrs(GradientContext& c) { return c.CopyAttrs({"num_bits", "narrow_range"}); }

Status FakeQuantArgsGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("FakeQuantWithMinMaxArgsGradient", {c.grad(0), c.input(0)},
                       c.CopyAttrs({"min", "max", "num_bits", "narrow_range"})));
  return c.status();
}

template <const char* kGradient>
Status FakeQuantVarsGrad(GradientContext& c) {
  const Expr dx = Op(kGradient, {c.grad(0), c.input(0), c.input(1), c.input(2)}, FakeQuantAttrs(c));
  for (int i = 0; i < 3; ++i) {
    if (c.wants(i)) c.SetInputGrad(i, dx.Sibling(i));
  }
  return c.status();
}

constexpr char kVars[] = "FakeQuantWithMinMaxVarsGradient";
constexpr char kVarsPerChannel[] = "FakeQuantWithMinMaxVarsPerChannelGradient";

constexpr gradients::Row kRows[] = {
    {"FakeQuantWithMinMaxArgs", FakeQuantArgsGrad},
    {"FakeQuantWithMinMaxVars", FakeQuantVarsGrad<kVars>},
    {"FakeQuantWithMinMaxVarsPerChannel", FakeQuantVarsGrad<kVarsPerChannel>},
};

}  // namespace

Status RegisterFakeQuantGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
