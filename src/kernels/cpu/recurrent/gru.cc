// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Gated recurrent units: Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder".
#include "kernels/cpu/recurrent/cells.h"

namespace millrace {
namespace {

struct Sizes {
  int64_t batch, input, cell;
  TensorShape State() const { return {batch, cell}; }
};

// Inputs: x, h_prev, w_ru, w_c, b_ru, b_c.
StatusOr<Sizes> CheckInputs(const KernelContext& context) {
  const Tensor &x = context.input(0), &h_prev = context.input(1);
  if (x.rank() != 2) return errors::InvalidArgument("x must be 2D, got shape ", x.shape());
  if (h_prev.rank() != 2) return errors::InvalidArgument("h_prev must be 2D, got shape ", h_prev.shape());
  const Sizes s{x.dim(0), x.dim(1), h_prev.dim(1)};
  if (h_prev.dim(0) != s.batch)
    return errors::InvalidArgument("h_prev.dims(0) != batch_size: ", h_prev.dim(0), " vs. ", s.batch);
  if (s.cell > INT64_MAX / 4 || s.input > INT64_MAX - s.cell)
    return errors::InvalidArgument("Sizes of a cell are too large: ", s.input, " and ", s.cell);
  TensorShape gates, joined;
  for (const int64_t d : {s.input + s.cell, 2 * s.cell}) MR_RETURN_IF_ERROR(gates.TryAddDim(d));
  for (const int64_t d : {s.batch, s.input + s.cell}) MR_RETURN_IF_ERROR(joined.TryAddDim(d));
  MR_RETURN_IF_ERROR(RequireShape(context.input(2), gates, "w_ru"));
  MR_RETURN_IF_ERROR(RequireShape(context.input(3), {s.input + s.cell, s.cell}, "w_c"));
  MR_RETURN_IF_ERROR(RequireShape(context.input(4), {2 * s.cell}, "b_ru"));
  MR_RETURN_IF_ERROR(RequireShape(context.input(5), {s.cell}, "b_c"));
  return s;
}

class GruCellKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Sizes s, CheckInputs(context));
    float* out[4];
    for (int i = 0; i < 4; ++i) {
      MR_ASSIGN_OR_RETURN(Tensor * t, context.AllocateOutput(i, s.State()));
      out[i] = t->data<float>();
    }
    MR_ASSIGN_OR_RETURN(Tensor joined, context.AllocateTemp(DataType::kFloat, {s.batch, s.input + s.cell}));
    MR_ASSIGN_OR_RETURN(Tensor gates, context.AllocateTemp(DataType::kFloat, {s.batch, 2 * s.cell}));
    if (s.batch * s.cell == 0) return Status();
    const auto in = [&](int i) { return context.input(i).data<float>(); };
    const float* h_prev = in(1);
    auto [r, u, c, h] = out;
    float *xh = joined.data<float>(), *ru = gates.data<float>();
    const int64_t width = s.input + s.cell, n = s.batch * s.cell;
    ContextParallel parallel(context);
    JoinRows(s.batch, in(0), s.input, h_prev, s.cell, xh);
    MultiplyInto(s.batch, 2 * s.cell, width, xh, false, in(2), false, false, ru, parallel);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = i / s.cell, j = i % s.cell;
      r[i] = Logistic(ru[2 * row * s.cell + j] + in(4)[j]);
      u[i] = Logistic(ru[(2 * row + 1) * s.cell + j] + in(4)[s.cell + j]);
      xh[row * width + s.input + j] = h_prev[i] * r[i];
    }
    MultiplyInto(s.batch, s.cell, width, xh, false, in(3), false, false, c, parallel);
    for (int64_t i = 0; i < n; ++i) {
      c[i] = std::tanh(c[i] + in(5)[i % s.cell]);
      h[i] = u[i] * (h_prev[i] - c[i]) + c[i];
    }
    return Status();
  }
};

// Inputs: those of the cell, then r, u, c and the gradient of h.
class GruCellGradKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Sizes s, CheckInputs(context));
    for (int i = 6; i < 10; ++i)
      MR_RETURN_IF_ERROR(RequireShape(context.input(i), s.State(), "What the cell computed, or d_h,"));
    const TensorShape shapes[] = {{s.batch, s.input}, s.State(), s.State(), {s.batch, 2 * s.cell}};
    float* out[4];
    for (int i = 0; i < 4; ++i) {
      MR_ASSIGN_OR_RETURN(Tensor * t, context.AllocateOutput(i, shapes[i]));
      out[i] = t->data<float>();
    }
    Tensor joined[2];  // gradients of x and h_prev side by side, by way of c and of r and u
    for (Tensor& t : joined) {
      MR_ASSIGN_OR_RETURN(t, context.AllocateTemp(DataType::kFloat, {s.batch, s.input + s.cell}));
    }
    const auto in = [&](int i) { return context.input(i).data<float>(); };
    const float *h_prev = in(1), *r = in(6), *u = in(7), *c = in(8), *dh = in(9);
    auto [dx, dh_prev, dc_bar, dru_bar] = out;
    const int64_t width = s.input + s.cell, n = s.batch * s.cell;
    float *by_c = joined[0].data<float>(), *by_ru = joined[1].data<float>();
    ContextParallel parallel(context);
    for (int64_t i = 0; i < n; ++i) dc_bar[i] = dh[i] * (1 - u[i]) * (1 - c[i] * c[i]);
    MultiplyInto(s.batch, width, s.cell, dc_bar, false, in(3), true, false, by_c, parallel);
    const auto of_state = [&](int64_t i) { return i / s.cell * width + s.input + i % s.cell; };
    for (int64_t i = 0; i < n; ++i) {
      float* to = dru_bar + 2 * (i / s.cell) * s.cell + i % s.cell;
      to[0] = by_c[of_state(i)] * h_prev[i] * r[i] * (1 - r[i]);
      to[s.cell] = dh[i] * (h_prev[i] - c[i]) * u[i] * (1 - u[i]);
    }
    MultiplyInto(s.batch, width, 2 * s.cell, dru_bar, false, in(2), true, false, by_ru, parallel);
    for (int64_t i = 0; i < s.batch * s.input; ++i) {
      const int64_t at = i / s.input * width + i % s.input;
      dx[i] = by_c[at] + by_ru[at];
    }
    for (int64_t i = 0; i < n; ++i) dh_prev[i] = by_ru[of_state(i)] + by_c[of_state(i)] * r[i] + dh[i] * u[i];
    return Status();
  }
};

}  // namespace

void RegisterGruKernels(KernelRegistry& registry) {
  registry.Register<GruCellKernel>(KernelDef("GRUBlockCell").Type<float>("T"));
  registry.Register<GruCellGradKernel>(KernelDef("GRUBlockCellGrad").Type<float>("T"));
}

}  // namespace millrace
