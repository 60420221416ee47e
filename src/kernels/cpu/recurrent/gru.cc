// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Gated recurrent units: Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder".
#include "kernels/cpu/loop.h"
#include "kernels/cpu/recurrent/cells.h"
#include "kernels/cpu/vector/unary.h"

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

// fn(row) for all rows.
template <typename Fn>
void ForRows(const KernelContext& context, const Sizes& s, const Fn& fn) {
  context.ParallelFor(s.batch, 8 * s.cell, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) fn(row);
  });
}

void Add(int64_t n, const float* from, float* to) {
  RunLoop([=]() MR_INLINE_LAMBDA {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
  });
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
    const cpu::UnaryFn logistic = cpu::FindUnary(cpu::UnaryOp::kSigmoid, DataType::kFloat);
    const cpu::UnaryFn tanh = cpu::FindUnary(cpu::UnaryOp::kTanh, DataType::kFloat);
    ForRows(context, s, [&](int64_t row) {
      const int64_t at = row * s.cell;
      float* const of_row = ru + 2 * at;
      Add(2 * s.cell, in(4), of_row);
      logistic(of_row, r + at, s.cell);
      logistic(of_row + s.cell, u + at, s.cell);
      RunLoop([cell = s.cell, before = h_prev + at, r = r + at, to = xh + row * width + s.input]()
                  MR_INLINE_LAMBDA {
                    for (int64_t j = 0; j < cell; ++j) to[j] = before[j] * r[j];
                  });
    });
    MultiplyInto(s.batch, s.cell, width, xh, false, in(3), false, false, c, parallel);
    ForRows(context, s, [&](int64_t row) { Add(s.cell, in(5), c + row * s.cell); });
    tanh(c, c, n);
    RunLoop([=, c = c, h = h, u = u]() MR_INLINE_LAMBDA {
      for (int64_t i = 0; i < n; ++i) h[i] = u[i] * (h_prev[i] - c[i]) + c[i];
    });
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
    Tensor joined[2];  // gradients of x and h_prev side by side, through c and through r and u
    for (Tensor& t : joined) {
      MR_ASSIGN_OR_RETURN(t, context.AllocateTemp(DataType::kFloat, {s.batch, s.input + s.cell}));
    }
    const auto in = [&](int i) { return context.input(i).data<float>(); };
    const float *h_prev = in(1), *r = in(6), *u = in(7), *c = in(8), *dh = in(9);
    auto [dx, dh_prev, dc_bar, dru_bar] = out;
    const int64_t width = s.input + s.cell, n = s.batch * s.cell;
    float *by_c = joined[0].data<float>(), *by_ru = joined[1].data<float>();
    ContextParallel parallel(context);
    RunLoop([=, to = dc_bar]() MR_INLINE_LAMBDA {
      for (int64_t i = 0; i < n; ++i) to[i] = dh[i] * (1 - u[i]) * (1 - c[i] * c[i]);
    });
    MultiplyInto(s.batch, width, s.cell, dc_bar, false, in(3), true, false, by_c, parallel);
    ForRows(context, s, [&](int64_t row) {
      const int64_t at = row * s.cell;
      RunLoop([cell = s.cell, r = r + at, u = u + at, c = c + at, dh = dh + at, before = h_prev + at,
               by_c = by_c + row * width + s.input, to = dru_bar + 2 * at]() MR_INLINE_LAMBDA {
        for (int64_t j = 0; j < cell; ++j) to[j] = by_c[j] * before[j] * r[j] * (1 - r[j]);
        for (int64_t j = 0; j < cell; ++j) to[cell + j] = dh[j] * (before[j] - c[j]) * u[j] * (1 - u[j]);
      });
    });
    MultiplyInto(s.batch, width, 2 * s.cell, dru_bar, false, in(2), true, false, by_ru, parallel);
    ForRows(context, s, [&](int64_t row) {
      const int64_t at = row * s.cell;
      RunLoop([input = s.input, cell = s.cell, r = r + at, u = u + at, dh = dh + at,
               by_c = by_c + row * width, by_ru = by_ru + row * width, of_x = dx + row * s.input,
               of_h = dh_prev + at]() MR_INLINE_LAMBDA {
        for (int64_t j = 0; j < input; ++j) of_x[j] = by_c[j] + by_ru[j];
        const float *const h_by_c = by_c + input, *const h_by_ru = by_ru + input;
        for (int64_t j = 0; j < cell; ++j) of_h[j] = h_by_ru[j] + h_by_c[j] * r[j] + dh[j] * u[j];
      });
    });
    return Status();
  }
};

}  // namespace

void RegisterGruKernels(KernelRegistry& registry) {
  registry.Register<GruCellKernel>(KernelDef("GRUBlockCell").Type<float>("T"));
  registry.Register<GruCellGradKernel>(KernelDef("GRUBlockCellGrad").Type<float>("T"));
}

}  // namespace millrace
