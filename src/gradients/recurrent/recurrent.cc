// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Recurrent cells, CTCLoss and CTCLossV2. Gradients are those of the states; the gates are only intermediate
// results.
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

Expr Product(const Expr& a, const Expr& b, bool ta, bool tb) {
  return Op("MatMul", {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}});
}
Expr Joined(const Expr& a, const Expr& b) {
  return Op("ConcatV2", {Operand(std::vector<Expr>{a, b}), Scalar(*a.builder(), DataType::kInt32, 1)});
}
Expr SumOfRows(const Expr& x) { return Sum(x, Vector(*x.builder(), DataType::kInt32, {0})); }

// Inputs: x, cs_prev, h_prev, w, wci, wcf, wco, b. Outputs: i, cs, f, o, ci, co, h.
Status LstmCellGrad(GradientContext& c) {
  const Expr x = c.input(0), h_prev = c.input(2), w = c.input(3);
  const Expr cell =
      Op("LSTMBlockCellGrad",
         {x, c.input(1), h_prev, w, c.input(4), c.input(5), c.input(6), c.input(7), c.output(0), c.output(1),
          c.output(2), c.output(3), c.output(4), c.output(5), c.grad_or_zeros(1), c.grad_or_zeros(6)},
         c.CopyAttrs({"use_peephole"}));
  const Expr gates = cell.Sibling(1);
  GraphBuilder& b = c.builder();
  const Expr zeros = Vector(b, DataType::kInt32, {0, 0});
  const Expr joined = Product(gates, w, false, true);
  const Expr input_size = ExpandDims(GatherRows(ShapeOf(x), Scalar(b, DataType::kInt32, 1)), 0);
  const Expr begin = JoinVectors({Vector(b, DataType::kInt32, {0}), input_size});
  c.SetInputGrad(0, Op("Slice", {joined, zeros, ShapeOf(x)}));
  c.SetInputGrad(1, cell);
  c.SetInputGrad(2, Op("Slice", {joined, begin, ShapeOf(h_prev)}));
  if (c.wants(3)) c.SetInputGrad(3, Product(Joined(x, h_prev), gates, true, false));
  for (int i = 0; i < 3; ++i) c.SetInputGrad(4 + i, cell.Sibling(2 + i));
  if (c.wants(7)) c.SetInputGrad(7, SumOfRows(gates));
  return c.status();
}

// Inputs: seq_len_max, then those of the cell.
template <const char* kGradient>
Status BlockLstmGrad(GradientContext& c) {
  const Expr dx = Op(kGradient,
                     {c.input(0), c.input(1), c.input(2), c.input(3), c.input(4), c.input(5), c.input(6),
                      c.input(7), c.input(8), c.output(0), c.output(1), c.output(2), c.output(3), c.output(4),
                      c.output(5), c.output(6), c.grad_or_zeros(1), c.grad_or_zeros(6)},
                     c.CopyAttrs({"use_peephole"}));
  for (int i = 0; i < 8; ++i) c.SetInputGrad(i + 1, dx.Sibling(i));
  return c.status();
}

// Inputs: x, h_prev, w_ru, w_c, b_ru, b_c. Outputs: r, u, c, h.
Status GruCellGrad(GradientContext& c) {
  if (!c.has_grad(3)) return c.status();
  const Expr x = c.input(0), h_prev = c.input(1), r = c.output(0);
  const Expr cell = Op("GRUBlockCellGrad", {x, h_prev, c.input(2), c.input(3), c.input(4), c.input(5), r,
                                            c.output(1), c.output(2), c.grad(3)});
  const Expr c_bar = cell.Sibling(2), gates = cell.Sibling(3);
  c.SetInputGrad(0, cell);
  c.SetInputGrad(1, cell.Sibling(1));
  if (c.wants(2)) c.SetInputGrad(2, Product(Joined(x, h_prev), gates, true, false));
  if (c.wants(3)) c.SetInputGrad(3, Product(Joined(x, h_prev * r), c_bar, true, false));
  if (c.wants(4)) c.SetInputGrad(4, SumOfRows(gates));
  if (c.wants(5)) c.SetInputGrad(5, SumOfRows(c_bar));
  return c.status();
}

// Output 1 is the gradient, except for the gradient that arrives, and has none of its own.
Status CtcLossGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  const Expr stop = Op("PreventGradient", {c.output(1)},
                       {{"message",
                         "Currently there is no way to take the second  derivative of ctc_loss due "
                         "to the fused implementation's interaction with tf.gradients()"}});
  c.SetInputGrad(0, ExpandDims(c.grad(0), -1) * stop);
  return c.status();
}

constexpr char kBlock[] = "BlockLSTMGrad";
constexpr char kBlockV2[] = "BlockLSTMGradV2";

constexpr Row kRows[] = {
    {"BlockLSTM", BlockLstmGrad<kBlock>},
    {"BlockLSTMV2", BlockLstmGrad<kBlockV2>},
    {"CTCLoss", CtcLossGrad},
    {"CTCLossV2", CtcLossGrad},
    {"GRUBlockCell", GruCellGrad},
    {"LSTMBlockCell", LstmCellGrad},
};

}  // namespace

Status RegisterRecurrentGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
