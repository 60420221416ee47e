// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Recurrent cells, and CTC losses and decoders.
#include "ops/family.h"

namespace millrace::ops {
namespace {

// All of [batch, cell], as cs_prev is.
Status LstmCellShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle x, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle cs_prev, c.WithRank(c.input(1), 2));
  const ShapeHandle out = c.Matrix(c.Dim(x, 0), c.Dim(cs_prev, 1));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, out);
  return Status();
}

Status LstmCellGradShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle x, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle cs_prev, c.WithRank(c.input(1), 2));
  const DimHandle batch = c.Dim(x, 0), cell = c.Dim(cs_prev, 1);
  MR_ASSIGN_OR_RETURN(const DimHandle gates, c.Multiply(cell, c.MakeDim(4)));
  c.set_output(0, c.Matrix(batch, cell));
  c.set_output(1, c.Matrix(batch, gates));
  for (int i = 2; i < 5; ++i) c.set_output(i, c.Vector(cell));
  return Status();
}

// Input 1 is x, [time, batch, input]; the bias has the four gates of each cell.
Status BlockLstmShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle x, c.WithRank(c.input(1), 3));
  MR_ASSIGN_OR_RETURN(const ShapeHandle b, c.WithRank(c.input(8), 1));
  MR_ASSIGN_OR_RETURN(const DimHandle cell, c.Divide(c.Dim(b, 0), 4, /*evenly=*/true));
  const ShapeHandle out = c.MakeShape({c.Dim(x, 0), c.Dim(x, 1), cell});
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, out);
  return Status();
}

// The gradients are as the inputs from x to b.
Status BlockLstmGradShape(InferenceContext& c) {
  constexpr int kRanks[] = {3, 2, 2, 2, 1, 1, 1, 1};
  for (int i = 0; i < 8; ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle in, c.WithRank(c.input(i + 1), kRanks[i]));
    c.set_output(i, in);
  }
  return Status();
}

Status GruCellShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle x, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle h_prev, c.WithRank(c.input(1), 2));
  const ShapeHandle out = c.Matrix(c.Dim(x, 0), c.Dim(h_prev, 1));
  for (int i = 0; i < 4; ++i) c.set_output(i, out);
  return Status();
}

// d_x, d_h_prev, d_c_bar, and both gates' side by side.
Status GruCellGradShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle x, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle h_prev, c.WithRank(c.input(1), 2));
  const ShapeHandle state = c.Matrix(c.Dim(x, 0), c.Dim(h_prev, 1));
  MR_ASSIGN_OR_RETURN(const DimHandle gates, c.Multiply(c.Dim(h_prev, 1), c.MakeDim(2)));
  c.set_output(0, x);
  c.set_output(1, state);
  c.set_output(2, state);
  c.set_output(3, c.Matrix(c.Dim(x, 0), gates));
  return Status();
}

Status CtcLossShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle inputs, c.WithRank(c.input(0), 3));
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(1), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle values, c.WithRank(c.input(2), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle lengths, c.WithRank(c.input(3), 1));
  MR_RETURN_IF_ERROR(c.Merge(c.Dim(indices, 0), c.Dim(values, 0)).status());
  MR_ASSIGN_OR_RETURN(const DimHandle batch, c.Merge(c.Dim(inputs, 1), c.Dim(lengths, 0)));
  MR_ASSIGN_OR_RETURN(const ShapeHandle gradient, c.ReplaceDim(inputs, 1, batch));
  c.set_output(0, c.Vector(batch));
  c.set_output(1, gradient);
  return Status();
}

// Indices, values and shapes of `paths` sparse matrices, then the scores.
Status DecoderShape(InferenceContext& c, int paths) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle inputs, c.WithRank(c.input(0), 3));
  MR_ASSIGN_OR_RETURN(const ShapeHandle lengths, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const DimHandle batch, c.Merge(c.Dim(inputs, 1), c.Dim(lengths, 0)));
  for (int p = 0; p < paths; ++p) {
    const DimHandle count = c.UnknownDim();
    c.set_output(p, c.Matrix(count, c.MakeDim(2)));
    c.set_output(paths + p, c.Vector(count));
    c.set_output(2 * paths + p, c.Vector(2));
  }
  c.set_output(3 * paths, c.Matrix(batch, c.MakeDim(paths)));
  return Status();
}
Status GreedyDecoderShape(InferenceContext& c) { return DecoderShape(c, 1); }
Status BeamSearchDecoderShape(InferenceContext& c) { return DecoderShape(c, (c.num_outputs() - 1) / 3); }

Status EditDistanceShape(InferenceContext& c) {
  for (const int i : {0, 3}) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(i), 2));
    MR_ASSIGN_OR_RETURN(const ShapeHandle values, c.WithRank(c.input(i + 1), 1));
    MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.WithRank(c.input(i + 2), 1));
    MR_RETURN_IF_ERROR(c.Merge(c.Dim(indices, 0), c.Dim(values, 0)).status());
    MR_RETURN_IF_ERROR(c.Merge(c.Dim(indices, 1), c.Dim(shape, 0)).status());
  }
  const Tensor *h = c.input_tensor(2), *t = c.input_tensor(5);
  if (h == nullptr || t == nullptr) return shape_fns::Unknown(c);
  if (h->num_elements() != t->num_elements() || h->num_elements() == 0) {
    return errors::InvalidArgument("Num elements of hypothesis_shape does not match truth_shape: ",
                                   h->num_elements(), " vs. ", t->num_elements());
  }
  std::vector<DimHandle> dims;
  for (int64_t i = 0; i + 1 < h->num_elements(); ++i) {
    const int64_t size = std::max(h->data<int64_t>()[i], t->data<int64_t>()[i]);
    if (size < 0) return errors::InvalidArgument("A shape must not be negative, got ", size);
    dims.push_back(c.MakeDim(size));
  }
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

std::vector<OpBuilder> ManySteps() {
  return {
      OpBuilder("BlockLSTM: An LSTM over a whole sequence, as one op.")
          .Input("seq_len_max: int64")
          .Input("x: T")
          .Input("cs_prev: T")
          .Input("h_prev: T")
          .Input("w: T")
          .Input("wci: T")
          .Input("wcf: T")
          .Input("wco: T")
          .Input("b: T")
          .Output("i: T")
          .Output("cs: T")
          .Output("f: T")
          .Output("o: T")
          .Output("ci: T")
          .Output("co: T")
          .Output("h: T")
          .Attr("forget_bias: float = 1")
          .Attr("cell_clip: float = 3")
          .Attr("use_peephole: bool = false")
          .Attr("T: {half, float}")
          .Shape(BlockLstmShape),
      OpBuilder("BlockLSTMV2: An LSTM over a whole sequence, as one op.")
          .Input("seq_len_max: int64")
          .Input("x: T")
          .Input("cs_prev: T")
          .Input("h_prev: T")
          .Input("w: T")
          .Input("wci: T")
          .Input("wcf: T")
          .Input("wco: T")
          .Input("b: T")
          .Output("i: T")
          .Output("cs: T")
          .Output("f: T")
          .Output("o: T")
          .Output("ci: T")
          .Output("co: T")
          .Output("h: T")
          .Attr("cell_clip: float = 0")
          .Attr("use_peephole: bool = false")
          .Attr("T: {half, float}")
          .Shape(BlockLstmShape),
  };
}

std::vector<OpBuilder> ManyStepsBack() {
  return {
      OpBuilder("BlockLSTMGrad: The gradient of BlockLSTM.")
          .Input("seq_len_max: int64")
          .Input("x: T")
          .Input("cs_prev: T")
          .Input("h_prev: T")
          .Input("w: T")
          .Input("wci: T")
          .Input("wcf: T")
          .Input("wco: T")
          .Input("b: T")
          .Input("i: T")
          .Input("cs: T")
          .Input("f: T")
          .Input("o: T")
          .Input("ci: T")
          .Input("co: T")
          .Input("h: T")
          .Input("cs_grad: T")
          .Input("h_grad: T")
          .Output("x_grad: T")
          .Output("cs_prev_grad: T")
          .Output("h_prev_grad: T")
          .Output("w_grad: T")
          .Output("wci_grad: T")
          .Output("wcf_grad: T")
          .Output("wco_grad: T")
          .Output("b_grad: T")
          .Attr("use_peephole: bool")
          .Attr("T: {half, float}")
          .Shape(BlockLstmGradShape),
      OpBuilder("BlockLSTMGradV2: The gradient of BlockLSTM.")
          .Input("seq_len_max: int64")
          .Input("x: T")
          .Input("cs_prev: T")
          .Input("h_prev: T")
          .Input("w: T")
          .Input("wci: T")
          .Input("wcf: T")
          .Input("wco: T")
          .Input("b: T")
          .Input("i: T")
          .Input("cs: T")
          .Input("f: T")
          .Input("o: T")
          .Input("ci: T")
          .Input("co: T")
          .Input("h: T")
          .Input("cs_grad: T")
          .Input("h_grad: T")
          .Output("x_grad: T")
          .Output("cs_prev_grad: T")
          .Output("h_prev_grad: T")
          .Output("w_grad: T")
          .Output("wci_grad: T")
          .Output("wcf_grad: T")
          .Output("wco_grad: T")
          .Output("b_grad: T")
          .Attr("use_peephole: bool")
          .Attr("T: {half, float}")
          .Shape(BlockLstmGradShape),
  };
}

std::vector<OpBuilder> OneStep() {
  return {
      OpBuilder("GRUBlockCell: One step of a GRU, as one op.")
          .Input("x: T")
          .Input("h_prev: T")
          .Input("w_ru: T")
          .Input("w_c: T")
          .Input("b_ru: T")
          .Input("b_c: T")
          .Output("r: T")
          .Output("u: T")
          .Output("c: T")
          .Output("h: T")
          .Attr("T: {float}")
          .Shape(GruCellShape),
      OpBuilder("GRUBlockCellGrad: The gradient of GRUBlockCell.")
          .Input("x: T")
          .Input("h_prev: T")
          .Input("w_ru: T")
          .Input("w_c: T")
          .Input("b_ru: T")
          .Input("b_c: T")
          .Input("r: T")
          .Input("u: T")
          .Input("c: T")
          .Input("d_h: T")
          .Output("d_x: T")
          .Output("d_h_prev: T")
          .Output("d_c_bar: T")
          .Output("d_r_bar_u_bar: T")
          .Attr("T: {float}")
          .Shape(GruCellGradShape),
      OpBuilder("LSTMBlockCell: One step of an LSTM, as one op.")
          .Input("x: T")
          .Input("cs_prev: T")
          .Input("h_prev: T")
          .Input("w: T")
          .Input("wci: T")
          .Input("wcf: T")
          .Input("wco: T")
          .Input("b: T")
          .Output("i: T")
          .Output("cs: T")
          .Output("f: T")
          .Output("o: T")
          .Output("ci: T")
          .Output("co: T")
          .Output("h: T")
          .Attr("forget_bias: float = 1")
          .Attr("cell_clip: float = 3")
          .Attr("use_peephole: bool = false")
          .Attr("T: {half, float}")
          .Shape(LstmCellShape),
      OpBuilder("LSTMBlockCellGrad: The gradient of LSTMBlockCell.")
          .Input("x: T")
          .Input("cs_prev: T")
          .Input("h_prev: T")
          .Input("w: T")
          .Input("wci: T")
          .Input("wcf: T")
          .Input("wco: T")
          .Input("b: T")
          .Input("i: T")
          .Input("cs: T")
          .Input("f: T")
          .Input("o: T")
          .Input("ci: T")
          .Input("co: T")
          .Input("cs_grad: T")
          .Input("h_grad: T")
          .Output("cs_prev_grad: T")
          .Output("dicfo: T")
          .Output("wci_grad: T")
          .Output("wcf_grad: T")
          .Output("wco_grad: T")
          .Attr("use_peephole: bool")
          .Attr("T: {half, float}")
          .Shape(LstmCellGradShape),
  };
}

std::vector<OpBuilder> Sequences() {
  return {
      OpBuilder("CTCBeamSearchDecoder: The likeliest labels of a sequence, by beam search.")
          .Input("inputs: T")
          .Input("sequence_length: int32")
          .Output("decoded_indices: top_paths * int64")
          .Output("decoded_values: top_paths * int64")
          .Output("decoded_shape: top_paths * int64")
          .Output("log_probability: T")
          .Attr("beam_width: int >= 1")
          .Attr("top_paths: int >= 1")
          .Attr("merge_repeated: bool = true")
          .Attr("T: {float, double} = DT_FLOAT")
          .Shape(BeamSearchDecoderShape)
          .NotDifferentiable(),
      OpBuilder("CTCGreedyDecoder: The labels of a sequence, by the likeliest class of each step.")
          .Input("inputs: T")
          .Input("sequence_length: int32")
          .Output("decoded_indices: int64")
          .Output("decoded_values: int64")
          .Output("decoded_shape: int64")
          .Output("log_probability: T")
          .Attr("merge_repeated: bool = false")
          .Attr("T: {float, double} = DT_FLOAT")
          .Shape(GreedyDecoderShape)
          .NotDifferentiable(),
      OpBuilder("CTCLoss: The CTC loss (negative log-likelihood of label sequences), and its gradient.")
          .Input("inputs: T")
          .Input("labels_indices: int64")
          .Input("labels_values: int32")
          .Input("sequence_length: int32")
          .Output("loss: T")
          .Output("gradient: T")
          .Attr("preprocess_collapse_repeated: bool = false")
          .Attr("ctc_merge_repeated: bool = true")
          .Attr("ignore_longer_outputs_than_inputs: bool = false")
          .Attr("T: {float, double} = DT_FLOAT")
          .Shape(CtcLossShape),
      OpBuilder("CTCLossV2: CTCLoss with the first class as the blank label.")
          .Input("inputs: float")
          .Input("labels_indices: int64")
          .Input("labels_values: int32")
          .Input("sequence_length: int32")
          .Output("loss: float")
          .Output("gradient: float")
          .Attr("preprocess_collapse_repeated: bool = false")
          .Attr("ctc_merge_repeated: bool = true")
          .Attr("ignore_longer_outputs_than_inputs: bool = false")
          .Shape(CtcLossShape),
      OpBuilder("EditDistance: The edit distance (Levenshtein distance) between sequences.")
          .Input("hypothesis_indices: int64")
          .Input("hypothesis_values: T")
          .Input("hypothesis_shape: int64")
          .Input("truth_indices: int64")
          .Input("truth_values: T")
          .Input("truth_shape: int64")
          .Output("output: float")
          .Attr("normalize: bool = true")
          .Attr("T: type")
          .Shape(EditDistanceShape)
          .NotDifferentiable(),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterRecurrentOps(OpRegistry& registry) {
  for (const auto part : {ops::ManySteps, ops::ManyStepsBack, ops::OneStep, ops::Sequences})
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  return Status::Ok();
}

}  // namespace millrace
