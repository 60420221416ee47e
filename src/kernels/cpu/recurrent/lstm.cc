// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Long short-term memory: one step (LSTMBlockCell), all steps (BlockLSTM), and their gradients. See
// Hochreiter and Schmidhuber, "Long Short-Term Memory", and Gers et al. for peepholes.
#include <cstring>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/recurrent/cells.h"
#include "kernels/cpu/vector/unary.h"
#include "kernels/cpu/vectors.h"

namespace millrace {
namespace {

struct Sizes {
  int64_t batch = 0, input = 0, cell = 0;
  TensorShape State() const { return {batch, cell}; }
  int64_t state() const { return batch * cell; }
};

// The position of each gate in a row of four: the new input is second or, in the second version of BlockLSTM,
// third.
struct Layout {
  int input = 0, candidate = 1, forget = 2, output = 3;
};

// The inputs that are the same for all steps.
struct Weights {
  const float *w, *wci, *wcf, *wco, *b;
};

// The inputs and results of one step, as [batch, cell].
struct Step {
  const float *x, *cs_prev, *h_prev;
  float *i, *cs, *f, *o, *ci, *co, *h;
};

class LstmKernel : public OpKernel {
 public:
  explicit LstmKernel(KernelConstruction& c)
      : OpKernel(c),
        forget_bias_(c.HasAttr("forget_bias") ? c.Attr<float>("forget_bias") : 0.0f),
        cell_clip_(c.HasAttr("cell_clip") ? c.Attr<float>("cell_clip") : 0.0f),
        peephole_(c.Attr<bool>("use_peephole")) {
    if (op_name().ends_with("V2")) std::swap(layout_.candidate, layout_.forget);
  }

 protected:
  // Reads all inputs as float, from input `first` on.
  Status ReadInputs(KernelContext& context, int first, std::vector<Tensor>* inputs) const {
    for (int i = first; i < num_inputs(); ++i) {
      MR_ASSIGN_OR_RETURN(Tensor t, ToFloat(context, context.input(i)));
      inputs->push_back(std::move(t));
    }
    return Status();
  }

  // x, cs_prev, h_prev, w, wci, wcf, wco, b; with `steps`, x has one more dimension.
  static StatusOr<Sizes> CheckInputs(const std::vector<Tensor>& in, bool steps) {
    const Tensor &x = in[0], &cs_prev = in[1];
    if (x.rank() != (steps ? 3 : 2)) return errors::InvalidArgument("x must be ", steps ? "3D" : "2D");
    if (cs_prev.rank() != 2) return errors::InvalidArgument("cs_prev must be 2D");
    const Sizes s{x.dim(steps ? 1 : 0), x.dim(steps ? 2 : 1), cs_prev.dim(1)};
    if (cs_prev.dim(0) != s.batch) {
      return errors::InvalidArgument("cs_prev.dims(0) != batch_size: ", cs_prev.dim(0), " vs. ", s.batch);
    }
    MR_RETURN_IF_ERROR(RequireShape(in[2], s.State(), "h_prev"));
    TensorShape gates;
    MR_RETURN_IF_ERROR(gates.TryAddDim(s.batch));
    if (s.cell > INT64_MAX / 8 || s.input > INT64_MAX - s.cell)
      return errors::InvalidArgument("Sizes of a cell are too large: ", s.input, " and ", s.cell);
    MR_RETURN_IF_ERROR(gates.TryAddDim(4 * s.cell));
    TensorShape weights;
    MR_RETURN_IF_ERROR(weights.TryAddDim(s.input + s.cell));
    MR_RETURN_IF_ERROR(weights.TryAddDim(4 * s.cell));
    MR_RETURN_IF_ERROR(RequireShape(in[3], weights, "w"));
    for (size_t i = 4; i < 7; ++i) MR_RETURN_IF_ERROR(RequireShape(in[i], {s.cell}, "A peephole's weights"));
    MR_RETURN_IF_ERROR(RequireShape(in[7], {4 * s.cell}, "b"));
    return s;
  }
  static Weights WeightsOf(const std::vector<Tensor>& in) {
    return {in[3].data<float>(), in[4].data<float>(), in[5].data<float>(), in[6].data<float>(),
            in[7].data<float>()};
  }

  // `joined` has room for [batch, input + cell], `gates` for [batch, 4 cell].
  void Forward(const KernelContext& context, const Sizes& s, const Weights& w, const Step& step,
               float* joined, float* gates) const {
    ContextParallel parallel(context);
    JoinRows(s.batch, step.x, s.input, step.h_prev, s.cell, joined);
    MultiplyInto(s.batch, 4 * s.cell, s.input + s.cell, joined, false, w.w, false, false, gates, parallel);
    context.ParallelFor(s.batch, 8 * s.cell, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        ForwardRow(s.cell, w, step, row * s.cell, gates + row * 4 * s.cell);
    });
  }

  // Computes the gates and the results of a row, whose cells begin at `at`; each operation for all cells.
  void ForwardRow(int64_t cell, const Weights& w, const Step& step, int64_t at, float* gates) const {
    const cpu::UnaryFn logistic = cpu::FindUnary(cpu::UnaryOp::kSigmoid, DataType::kFloat);
    const cpu::UnaryFn tanh = cpu::FindUnary(cpu::UnaryOp::kTanh, DataType::kFloat);
    float *input = gates + layout_.input * cell, *forget = gates + layout_.forget * cell,
          *candidate = gates + layout_.candidate * cell, *output = gates + layout_.output * cell;
    const float* const before = step.cs_prev + at;
    AddBias(cell, gates, w.b, layout_.forget, forget_bias_);
    if (peephole_) {
      AddProducts(cell, before, w.wci, input);
      AddProducts(cell, before, w.wcf, forget);
    }
    logistic(input, step.i + at, cell);
    logistic(forget, step.f + at, cell);
    tanh(candidate, step.ci + at, cell);
    RunLoop([=, i = step.i + at, f = step.f + at, ci = step.ci + at, cs = step.cs + at, clip = cell_clip_]()
                MR_INLINE_LAMBDA {
                  for (int64_t c = 0; c < cell; ++c) {
                    const float sum = ci[c] * i[c] + before[c] * f[c];
                    const float above = sum < -clip ? -clip : sum, inside = clip < above ? clip : above;
                    cs[c] = clip > 0 ? inside : sum;
                  }
                });
    if (peephole_) AddProducts(cell, step.cs + at, w.wco, output);
    logistic(output, step.o + at, cell);
    tanh(step.cs + at, step.co + at, cell);
    RunLoop([=, o = step.o + at, co = step.co + at, h = step.h + at]() MR_INLINE_LAMBDA {
      for (int64_t c = 0; c < cell; ++c) h[c] = o[c] * co[c];
    });
  }
  // Adds the bias to all four gates, and `more` to gate `which`.
  static void AddBias(int64_t cell, float* gates, const float* b, int which, float more) {
    RunLoop([=]() MR_INLINE_LAMBDA {
      for (int64_t c = 0; c < 4 * cell; ++c) gates[c] += b[c];
      for (int64_t c = which * cell; c < (which + 1) * cell; ++c) gates[c] += more;
    });
  }
  static void AddProducts(int64_t n, const float* a, const float* b, float* to) {
    RunLoop([=]() MR_INLINE_LAMBDA {
      for (int64_t i = 0; i < n; ++i) to[i] += a[i] * b[i];
    });
  }

  // One step: its results, the gradients of cs and h, and the outputs for the gradients to be computed.
  // Gradients of the peepholes are summed.
  struct BackwardStep {
    const float *cs_prev, *i, *cs, *f, *o, *ci, *co, *cs_grad, *h_grad;
    float *cs_prev_grad, *gates_grad, *wci_grad, *wcf_grad, *wco_grad;
  };
  void Backward(const KernelContext& context, const Sizes& s, const Weights& w, const BackwardStep& b) const {
    constexpr int64_t kBlock = 64;  // cells whose sums for peepholes stay in the cache
    context.ParallelFor(
        (s.cell + kBlock - 1) / kBlock, 2 * kBlock * s.batch, [&](int64_t begin, int64_t end) {
          for (int64_t block = begin; block < end; ++block) {
            const int64_t first = block * kBlock, last = std::min(first + kBlock, s.cell);
            if (!peephole_) {
              BackwardRows<false>(b, s, w, first, last);
              continue;
            }
            BackwardRows<true>(b, s, w, first, last);
            for (int64_t row = 0; row < s.batch; ++row)
              AddPeepholes(b, row * s.cell, b.gates_grad + row * 4 * s.cell, s.cell, first, last);
          }
        });
  }

 private:
  // Cells [first, last) of all rows.
  template <bool kPeephole>
  void BackwardRows(const BackwardStep& b, const Sizes& s, const Weights& w, int64_t first,
                    int64_t last) const {
    RunVectors([b, w, layout = layout_, rows = s.batch, cell = s.cell, first, last](auto bytes)
                   MR_INLINE_LAMBDA {
                     for (int64_t row = 0; row < rows; ++row) {
                       const int64_t at = row * cell;
                       float* const gates = b.gates_grad + 4 * at;
                       ForChannels<float, bytes()>(first, last, [&](auto lanes, int64_t c) MR_INLINE_LAMBDA {
                         using Values = LanesOf<float, lanes()>::Values;
                         const auto read = [c](const float* from, Values* to)
                                               MR_INLINE_LAMBDA { std::memcpy(to, from + c, sizeof *to); };
                         const auto write = [c](const Values& from, float* to)
                                                MR_INLINE_LAMBDA { std::memcpy(to + c, &from, sizeof from); };
                         Values i, f, o, ci, co, before, dh, dcs;
                         read(b.i + at, &i);
                         read(b.f + at, &f);
                         read(b.o + at, &o);
                         read(b.ci + at, &ci);
                         read(b.co + at, &co);
                         read(b.cs_prev + at, &before);
                         read(b.h_grad + at, &dh);
                         read(b.cs_grad + at, &dcs);
                         const Values d_o = o * (1 - o) * dh * co;
                         dcs = (1 - co * co) * dh * o + dcs;
                         Values wci, wcf, wco;
                         if constexpr (kPeephole) {
                           read(w.wci, &wci);
                           read(w.wcf, &wcf);
                           read(w.wco, &wco);
                           dcs += d_o * wco;
                         }
                         const Values dci = (1 - ci * ci) * dcs * i;
                         const Values df = f * (1 - f) * dcs * before;
                         const Values di = i * (1 - i) * dcs * ci;
                         Values back = dcs * f;
                         if constexpr (kPeephole) back += di * wci + df * wcf;
                         write(di, gates + layout.input * cell);
                         write(dci, gates + layout.candidate * cell);
                         write(df, gates + layout.forget * cell);
                         write(d_o, gates + layout.output * cell);
                         write(back, b.cs_prev_grad + at);
                       });
                     }
                   });
  }
  void AddPeepholes(const BackwardStep& b, int64_t at, const float* gates, int64_t cell, int64_t first,
                    int64_t last) const {
    const float *di = gates + layout_.input * cell, *df = gates + layout_.forget * cell,
                *d_o = gates + layout_.output * cell;
    RunLoop([=, before = b.cs_prev + at, cs = b.cs + at, wci = b.wci_grad, wcf = b.wcf_grad,
             wco = b.wco_grad]() MR_INLINE_LAMBDA {
      for (int64_t c = first; c < last; ++c) wci[c] += di[c] * before[c];
      for (int64_t c = first; c < last; ++c) wcf[c] += df[c] * before[c];
      for (int64_t c = first; c < last; ++c) wco[c] += d_o[c] * cs[c];
    });
  }

 protected:
  const float forget_bias_, cell_clip_;
  const bool peephole_;
  Layout layout_;
};

class LstmCellKernel final : public LstmKernel {
 public:
  using LstmKernel::LstmKernel;
  Status Compute(KernelContext& context) override {
    std::vector<Tensor> in;
    MR_RETURN_IF_ERROR(ReadInputs(context, 0, &in));
    MR_ASSIGN_OR_RETURN(const Sizes s, CheckInputs(in, false));
    FloatOutputs outputs(context);
    float* out[7];
    for (int i = 0; i < 7; ++i) {
      MR_ASSIGN_OR_RETURN(out[i], outputs.Allocate(i, s.State(), /*zeros=*/false));
    }
    MR_ASSIGN_OR_RETURN(Tensor joined, context.AllocateTemp(DataType::kFloat, {s.batch, s.input + s.cell}));
    MR_ASSIGN_OR_RETURN(Tensor gates, context.AllocateTemp(DataType::kFloat, {s.batch, 4 * s.cell}));
    const Step step{in[0].data<float>(),
                    in[1].data<float>(),
                    in[2].data<float>(),
                    out[0],
                    out[1],
                    out[2],
                    out[3],
                    out[4],
                    out[5],
                    out[6]};
    if (s.state() > 0) Forward(context, s, WeightsOf(in), step, joined.data<float>(), gates.data<float>());
    outputs.Finish();
    return Status();
  }
};

class LstmCellGradKernel final : public LstmKernel {
 public:
  using LstmKernel::LstmKernel;
  Status Compute(KernelContext& context) override {
    std::vector<Tensor> in;
    MR_RETURN_IF_ERROR(ReadInputs(context, 0, &in));
    MR_ASSIGN_OR_RETURN(const Sizes s, CheckInputs(in, false));
    for (size_t i = 8; i < 16; ++i)
      MR_RETURN_IF_ERROR(RequireShape(in[i], s.State(), "What the cell computed, and its gradients,"));
    FloatOutputs outputs(context);
    MR_ASSIGN_OR_RETURN(float* cs_prev_grad, outputs.Allocate(0, s.State(), /*zeros=*/false));
    MR_ASSIGN_OR_RETURN(float* gates, outputs.Allocate(1, {s.batch, 4 * s.cell}, /*zeros=*/false));
    float* peepholes[3];
    for (int i = 0; i < 3; ++i) {
      MR_ASSIGN_OR_RETURN(peepholes[i], outputs.Allocate(2 + i, {s.cell}));
    }
    const auto input = [&](size_t i) { return in[i].data<float>(); };
    Backward(context, s, WeightsOf(in),
             {input(1), input(8), input(9), input(10), input(11), input(12), input(13), input(14), input(15),
              cs_prev_grad, gates, peepholes[0], peepholes[1], peepholes[2]});
    outputs.Finish();
    return Status();
  }
};

// The number of valid steps, from input 0.
StatusOr<int64_t> ReadSteps(const Tensor& t, int64_t limit) {
  MR_RETURN_IF_ERROR(RequireScalar(t, "seq_len_max"));
  const int64_t steps = t.scalar<int64_t>();
  if (steps < 0 || steps > limit)
    return errors::InvalidArgument("seq_len_max must be in [0, ", limit, "], got ", steps);
  return steps;
}

class BlockLstmKernel final : public LstmKernel {
 public:
  using LstmKernel::LstmKernel;
  Status Compute(KernelContext& context) override {
    std::vector<Tensor> in;
    MR_RETURN_IF_ERROR(ReadInputs(context, 1, &in));
    MR_ASSIGN_OR_RETURN(const Sizes s, CheckInputs(in, true));
    const int64_t time = in[0].dim(0);
    MR_ASSIGN_OR_RETURN(const int64_t steps, ReadSteps(context.input(0), time));
    TensorShape shape;
    for (const int64_t d : {time, s.batch, s.cell}) MR_RETURN_IF_ERROR(shape.TryAddDim(d));
    FloatOutputs outputs(context);
    float* out[7];
    for (int i = 0; i < 7; ++i) {
      MR_ASSIGN_OR_RETURN(out[i], outputs.Allocate(i, shape));
    }
    if (s.state() == 0) return Status();
    MR_ASSIGN_OR_RETURN(Tensor joined, context.AllocateTemp(DataType::kFloat, {s.batch, s.input + s.cell}));
    MR_ASSIGN_OR_RETURN(Tensor gates, context.AllocateTemp(DataType::kFloat, {s.batch, 4 * s.cell}));
    const Weights weights = WeightsOf(in);
    for (int64_t t = 0; t < steps; ++t) {
      const int64_t at = t * s.state();
      const Step step{in[0].data<float>() + t * s.batch * s.input,
                      t == 0 ? in[1].data<float>() : out[1] + at - s.state(),
                      t == 0 ? in[2].data<float>() : out[6] + at - s.state(),
                      out[0] + at,
                      out[1] + at,
                      out[2] + at,
                      out[3] + at,
                      out[4] + at,
                      out[5] + at,
                      out[6] + at};
      Forward(context, s, weights, step, joined.data<float>(), gates.data<float>());
    }
    outputs.Finish();
    return Status();
  }
};

// Inputs: those of BlockLSTM, its outputs, and the gradients of cs and h.
class BlockLstmGradKernel final : public LstmKernel {
 public:
  using LstmKernel::LstmKernel;
  Status Compute(KernelContext& context) override {
    std::vector<Tensor> in;
    MR_RETURN_IF_ERROR(ReadInputs(context, 1, &in));
    MR_ASSIGN_OR_RETURN(const Sizes s, CheckInputs(in, true));
    const int64_t time = in[0].dim(0);
    MR_ASSIGN_OR_RETURN(const int64_t steps, ReadSteps(context.input(0), time));
    TensorShape shape;
    for (const int64_t d : {time, s.batch, s.cell}) MR_RETURN_IF_ERROR(shape.TryAddDim(d));
    for (size_t i = 8; i < 17; ++i)
      MR_RETURN_IF_ERROR(RequireShape(in[i], shape, "What the cells computed, and its gradients,"));
    FloatOutputs outputs(context);
    float* out[8];
    for (int i = 0; i < 8; ++i) {
      MR_ASSIGN_OR_RETURN(out[i], outputs.Allocate(i, in[static_cast<size_t>(i)].shape()));
    }
    if (s.state() > 0) MR_RETURN_IF_ERROR(Run(context, s, steps, in, out));
    outputs.Finish();
    return Status();
  }

 private:
  // Outputs: the gradients of x, cs_prev, h_prev, w, wci, wcf, wco and b.
  Status Run(KernelContext& context, const Sizes& s, int64_t steps, const std::vector<Tensor>& in,
             float* const (&out)[8]) const {
    const int64_t width = s.input + s.cell;
    MR_ASSIGN_OR_RETURN(Tensor joined, context.AllocateTemp(DataType::kFloat, {s.batch, width}));
    MR_ASSIGN_OR_RETURN(Tensor gates, context.AllocateTemp(DataType::kFloat, {s.batch, 4 * s.cell}));
    MR_ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemp(DataType::kFloat, {2, s.batch, s.cell}));
    const Weights weights = WeightsOf(in);
    ContextParallel parallel(context);
    float *xh = joined.data<float>(), *dgates = gates.data<float>();
    float *cs_grad = sums.data<float>(), *h_grad = cs_grad + s.state();
    for (int64_t t = steps; t-- > 0;) {
      const int64_t at = t * s.state();
      const auto past = [&](size_t i) { return in[i].data<float>() + at; };
      const float* cs_prev = t == 0 ? in[1].data<float>() : past(9) - s.state();
      const float* h_prev = t == 0 ? in[2].data<float>() : past(14) - s.state();
      for (int64_t i = 0; i < s.state(); ++i) {
        cs_grad[i] = past(15)[i] + out[1][i];
        h_grad[i] = past(16)[i] + out[2][i];
      }
      Backward(context, s, weights,
               {cs_prev, past(8), past(9), past(10), past(11), past(12), past(13), cs_grad, h_grad, out[1],
                dgates, out[4], out[5], out[6]});
      const float* x = in[0].data<float>() + t * s.batch * s.input;
      JoinRows(s.batch, x, s.input, h_prev, s.cell, xh);
      MultiplyInto(width, 4 * s.cell, s.batch, xh, true, dgates, false, true, out[3], parallel);
      MultiplyInto(s.batch, width, 4 * s.cell, dgates, false, weights.w, true, false, xh, parallel);
      for (int64_t r = 0; r < s.batch; ++r) {
        std::copy_n(xh + r * width, s.input, out[0] + (t * s.batch + r) * s.input);
        std::copy_n(xh + r * width + s.input, s.cell, out[2] + r * s.cell);
        for (int64_t g = 0; g < 4 * s.cell; ++g) out[7][g] += dgates[r * 4 * s.cell + g];
      }
    }
    return Status();
  }
};

}  // namespace

void RegisterLstmKernels(KernelRegistry& registry) {
  const TypeList types = {DataType::kHalf, DataType::kFloat};
  registry.Register<LstmCellKernel>(KernelDef("LSTMBlockCell").Types("T", types));
  registry.Register<LstmCellGradKernel>(KernelDef("LSTMBlockCellGrad").Types("T", types));
  for (const char* version : {"", "V2"}) {
    registry.Register<BlockLstmKernel>(KernelDef(StrCat("BlockLSTM", version)).Types("T", types));
    registry.Register<BlockLstmGradKernel>(KernelDef(StrCat("BlockLSTMGrad", version)).Types("T", types));
  }
}

}  // namespace millrace
