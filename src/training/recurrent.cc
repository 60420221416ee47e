// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/recurrent.h"

#include <limits>

#include "base/strings.h"
#include "millrace/control_flow.h"
#include "millrace/ops.h"
#include "training/formula.h"
#include "training/same_graph.h"

namespace millrace {
namespace {

// [x, h] kernel + bias.
Output Linear(const Scope& scope, const Output& x, const Output& h, const Output& kernel,
              const Output& bias) {
  const Output both = ops::ConcatV2(scope.WithOpName("concat"), {x, h}, 1);
  return ops::BiasAdd(scope, ops::MatMul(scope, both, kernel).product, bias);
}

std::vector<Output> SplitColumns(const Scope& scope, const Output& x, int64_t parts) {
  const ops::Split split(scope.WithOpName("split"), 1, x, parts);
  return scope.ok() ? split.output : std::vector<Output>(static_cast<size_t>(parts));
}

Output Clip(const Scope& scope, const Output& x, const std::optional<double>& limit) {
  return limit ? Maximum(Minimum(Formula(scope, x), *limit), -*limit).tensor() : x;
}

Output Get(const Scope& scope, const char* name, const PartialShape& shape, DataType dtype,
           const Initializer& initializer = {}) {
  return GetPartitionedVariable(scope, name, shape, {.dtype = dtype, .initializer = initializer});
}

// Sizes are elements of shapes, which are int32 in the graph.
Status CheckSizes(std::string_view who, const RnnCell& cell) {
  std::vector<int64_t> sizes = cell.state_sizes();
  if (sizes.empty() && cell.output_size() == 0)
    return errors::InvalidArgument("Must specify at least one cell for MultiRNNCell.");
  sizes.push_back(cell.output_size());
  for (const int64_t size : sizes) {
    if (size < 1 || size > std::numeric_limits<int32_t>::max())
      return errors::InvalidArgument(who, ": a cell has a size from 1 to 2147483647, not ", size);
  }
  return Status();
}

Status CheckActivation(std::string_view who, const layers::Activation& activation) {
  return activation ? Status() : errors::InvalidArgument(who, ": the activation is null");
}

}  // namespace

RnnCell::Result RnnCell::Step(const Scope& scope, const Output& x, const std::vector<Output>& state) {
  const PartialShape shape = scope.ShapeOf(x);
  if (scope.ok() && state.size() != state_sizes().size()) {
    scope.UpdateStatus(errors::InvalidArgument(name_, ": expected ", state_sizes().size(),
                                               " tensors of state, got ", state.size()));
  }
  if (scope.ok() && (shape.rank() != 2 || shape.dim(1) < 0)) {
    scope.UpdateStatus(
        errors::InvalidArgument(name_, ": Expected inputs.shape[-1] to be known, saw shape: ", shape));
  }
  if (scope.ok()) scope.UpdateStatus(CheckSizes(name_, *this));
  if (scope.ok() && built_in_)
    scope.UpdateStatus(
        CheckUsableIn("RnnCell::Step", StrCat("the variables of '", name_, "' are"), *built_in_, scope));
  if (!scope.ok()) return {};
  Scope own = scope;
  if (built_in_) {
    own = scope.NewSubScope(name_);
  } else {
    own = EnterUniqueVariableScope(scope, name_);
    Build(own, shape.dim(1), Scope::TypeOf(x));
    if (!scope.ok()) return {};
    built_in_ = scope.AtRoot().OutsideControlFlow();
  }
  Result result = Call(own, x, state);
  return scope.ok() ? result : Result();
}

std::vector<Output> RnnCell::ZeroState(const Scope& scope, const Output& batch_size, DataType dtype) const {
  std::vector<Output> state;
  const Scope own = scope.NewSubScope("zero_state");
  for (const int64_t size : state_sizes()) {
    const Output shape = ops::Pack(own, {batch_size, static_cast<int32_t>(size)}).output;
    state.push_back(ops::Fill(own.WithOpName("zeros"), shape, Number(own, 0, dtype)));
  }
  return state;
}

void BasicRnnCell::Build(const Scope& scope, int64_t input_size, DataType dtype) {
  scope.UpdateStatus(CheckActivation("basic_rnn_cell", activation_));
  kernel_ = Get(scope, "kernel", {input_size + units_, units_}, dtype);
  bias_ = Get(scope, "bias", {units_}, dtype, initializers::Zeros());
}

RnnCell::Result BasicRnnCell::Call(const Scope& scope, const Output& x, const std::vector<Output>& state) {
  const Output h = activation_(scope, Linear(scope, x, state[0], kernel_, bias_));
  return {h, {h}};
}

void LstmCell::Build(const Scope& scope, int64_t input_size, DataType dtype) {
  scope.UpdateStatus(CheckActivation(options_.name, options_.activation));
  const Initializer& first = options_.initializer;
  kernel_ = Get(scope, "kernel", {input_size + output_size(), 4 * units_}, dtype, first);
  bias_ = Get(scope, "bias", {4 * units_}, dtype, initializers::Zeros());
  if (options_.use_peepholes) {
    forget_diagonal_ = Get(scope, "w_f_diag", {units_}, dtype, first);
    input_diagonal_ = Get(scope, "w_i_diag", {units_}, dtype, first);
    output_diagonal_ = Get(scope, "w_o_diag", {units_}, dtype, first);
  }
  if (options_.num_proj > 0) {
    projection_ = Get(scope, "projection/kernel", {units_, options_.num_proj}, dtype, first);
  }
}

RnnCell::Result LstmCell::Call(const Scope& scope, const Output& x, const std::vector<Output>& state) {
  const std::vector<Output> gates = SplitColumns(scope, Linear(scope, x, state[1], kernel_, bias_), 4);
  if (!scope.ok()) return {};
  const Formula before(scope, state[0]);
  Formula in(scope, gates[0]), forget = Formula(scope, gates[2]) + options_.forget_bias, out(scope, gates[3]);
  if (options_.use_peepholes) {
    in = in + before * input_diagonal_;
    forget = forget + before * forget_diagonal_;
  }
  const Formula news(scope, options_.activation(scope, gates[1]));
  const Formula c(
      scope, Clip(scope, forget.Call("Sigmoid") * before + in.Call("Sigmoid") * news, options_.cell_clip));
  if (options_.use_peepholes) out = out + c * output_diagonal_;
  Output h = Formula(scope, options_.activation(scope, c)) * out.Call("Sigmoid").tensor();
  if (options_.num_proj > 0) {
    h = Clip(scope, ops::MatMul(scope, h, projection_).product, options_.proj_clip);
  }
  return {h, {c, h}};
}

std::unique_ptr<RnnCell> BasicLstmCell(int64_t units, double forget_bias) {
  return std::make_unique<LstmCell>(units,
                                    LstmCell::Options{.forget_bias = forget_bias, .name = "basic_lstm_cell"});
}

void GruCell::Build(const Scope& scope, int64_t input_size, DataType dtype) {
  gates_kernel_ = Get(scope, "gates/kernel", {input_size + units_, 2 * units_}, dtype);
  gates_bias_ = Get(scope, "gates/bias", {2 * units_}, dtype, initializers::Ones());
  candidate_kernel_ = Get(scope, "candidate/kernel", {input_size + units_, units_}, dtype);
  candidate_bias_ = Get(scope, "candidate/bias", {units_}, dtype, initializers::Zeros());
}

RnnCell::Result GruCell::Call(const Scope& scope, const Output& x, const std::vector<Output>& state) {
  const Output both = ops::Sigmoid(scope, Linear(scope, x, state[0], gates_kernel_, gates_bias_));
  const std::vector<Output> gates = SplitColumns(scope, both, 2);
  if (!scope.ok()) return {};
  const Formula before(scope, state[0]), reset(scope, gates[0]), update(scope, gates[1]);
  const Output seen = Linear(scope, x, reset * before, candidate_kernel_, candidate_bias_);
  const Formula candidate = Formula(scope, seen).Call("Tanh");
  const Output h = update * before + (1.0 - update) * candidate;
  return {h, {h}};
}

std::vector<int64_t> MultiRnnCell::state_sizes() const {
  std::vector<int64_t> all;
  for (const auto& cell : cells_) {
    if (cell == nullptr) return {};  // after an error of Build
    const std::vector<int64_t> sizes = cell->state_sizes();
    all.insert(all.end(), sizes.begin(), sizes.end());
  }
  return all;
}

void MultiRnnCell::Build(const Scope& scope, int64_t /*input_size*/, DataType /*dtype*/) {
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (cells_[i] == nullptr)
      scope.UpdateStatus(errors::InvalidArgument("multi_rnn_cell: cell ", i, " is null"));
  }
}

RnnCell::Result MultiRnnCell::Call(const Scope& scope, const Output& x, const std::vector<Output>& state) {
  Result all{x, {}};
  size_t at = 0;
  for (size_t i = 0; i < cells_.size() && scope.ok(); ++i) {
    const size_t count = cells_[i]->state_sizes().size();
    const std::vector<Output> own(state.begin() + static_cast<std::ptrdiff_t>(at),
                                  state.begin() + static_cast<std::ptrdiff_t>(at + count));
    at += count;
    Result step = cells_[i]->Step(EnterVariableScope(scope, StrCat("cell_", i)), all.output, own);
    all.output = step.output;
    all.state.insert(all.state.end(), step.state.begin(), step.state.end());
  }
  return all;
}

namespace {

Output SwapFirstAxes(const Scope& scope, const Output& x) {
  return ops::Transpose(scope.WithOpName("transpose"), x, {1, 0, 2});
}

// Element i of a tensor of sizes.
Output Element(const Scope& scope, const Output& x, int i) {
  return ops::StridedSlice(scope.WithOpName("strided_slice"), x, {i}, {i + 1}, {1},
                           ops::StridedSlice::ShrinkAxisMask(1));
}

// A sequence in progress: the inputs and outputs as arrays over time.
struct Sequence {
  Output in, in_flow;
  Output out, out_flow;
  Output steps;
  PartialShape in_shape, out_shape;  // of one step
  DataType dtype;
};

Sequence Begin(const Scope& scope, const Output& inputs, int64_t output_size) {
  Sequence s;
  const PartialShape shape = scope.ShapeOf(inputs);
  s.dtype = Scope::TypeOf(inputs);
  s.in_shape = {shape.dim(1), shape.dim(2)};
  s.out_shape = {shape.dim(1), output_size};
  s.steps = Element(scope, ops::Shape(scope, inputs), 0);
  const Scope array = scope.WithOpName("TensorArray");
  const ops::TensorArrayV3 out(array, s.steps, s.dtype, ops::TensorArrayV3::ElementShape(s.out_shape));
  const ops::TensorArrayV3 in(array, s.steps, s.dtype, ops::TensorArrayV3::ElementShape(s.in_shape));
  s.out = out.handle;
  s.out_flow = out.flow;
  s.in = in.handle;
  const Scope unstack = scope.NewSubScope("TensorArrayUnstack");
  const Output times = ops::Range(unstack.WithOpName("range"), 0, s.steps, 1);
  s.in_flow = ops::TensorArrayScatterV3(unstack, in.handle, times, inputs, in.flow);
  return s;
}

std::vector<Output> Loop(const Scope& scope, RnnCell& cell, const Sequence& s, const Output& lengths,
                         const std::vector<Output>& initial_state, int64_t parallel_iterations) {
  std::vector<Input> vars = {ops::Const(scope.WithOpName("time"), 0), s.out_flow};
  WhileOptions options{.parallel_iterations = parallel_iterations};
  options.shape_invariants = {TensorShape(), PartialShape()};
  const std::vector<int64_t> sizes = cell.state_sizes();
  for (size_t i = 0; i < initial_state.size(); ++i) {
    vars.emplace_back(initial_state[i]);
    options.shape_invariants.push_back({s.in_shape.dim(0), sizes[i]});
  }
  const auto cond = [&](const Scope& inside, const std::vector<Output>& v) -> Output {
    return ops::Less(inside, v[0], s.steps);
  };
  const auto body = [&](const Scope& inside, const std::vector<Output>& v) -> std::vector<Output> {
    const Output read = ops::TensorArrayReadV3(inside, s.in, v[0], s.in_flow, s.dtype);
    const Output x = ops::EnsureShape(inside, read, s.in_shape);
    const std::vector<Output> before(v.begin() + 2, v.end());
    RnnCell::Result step = cell.Step(inside, x, before);
    if (!inside.ok()) return {};
    if (lengths.IsSet()) {
      // Steps after the end of a sequence change nothing.
      const Output over = ops::GreaterEqual(inside, v[0], lengths);
      const Output zeros = ops::ZerosLike(inside, step.output);
      step.output = ops::Select(inside, over, zeros, step.output);
      for (size_t i = 0; i < before.size(); ++i) {
        step.state[i] = ops::Select(inside, over, before[i], step.state[i]);
      }
    }
    std::vector<Output> after = {
        (Formula(inside, v[0]) + 1).tensor(),
        ops::TensorArrayWriteV3(inside.NewSubScope("TensorArrayWrite"), s.out, v[0], step.output, v[1])};
    after.insert(after.end(), step.state.begin(), step.state.end());
    return after;
  };
  return While(scope, vars, cond, body, options);
}

Status CheckInputs(const Scope& scope, const RnnCell& cell, const Output& inputs,
                   const DynamicRnnOptions& options) {
  MR_RETURN_IF_ERROR(scope.status());
  const PartialShape shape = scope.ShapeOf(inputs);
  if (shape.rank() != 3 || shape.dim(2) < 0) {
    return errors::InvalidArgument("dynamic_rnn: the inputs have the shape ", shape,
                                   ", expected [batch, time, n] with a known n");
  }
  MR_RETURN_IF_ERROR(CheckSizes("dynamic_rnn", cell));
  const size_t wanted = cell.state_sizes().size();
  if (!options.initial_state.empty() && options.initial_state.size() != wanted) {
    return errors::InvalidArgument("dynamic_rnn: expected ", wanted, " tensors of state, got ",
                                   options.initial_state.size());
  }
  if (options.sequence_length.IsSet()) {
    const PartialShape lengths = scope.ShapeOf(options.sequence_length);
    if (lengths.rank() != 1 && !lengths.unknown_rank()) {
      return errors::InvalidArgument("sequence_length must be a vector of length batch_size, but saw shape: ",
                                     lengths);
    }
  }
  return Status();
}

// In a separate scope.
RnnOutputs Run(const Scope& own, RnnCell& cell, const Output& inputs, const DynamicRnnOptions& options) {
  own.UpdateStatus(CheckInputs(own, cell, inputs, options));
  if (!own.ok()) return {};
  const Output x = options.time_major ? inputs : SwapFirstAxes(own, inputs);
  const Sequence s = Begin(own, x, cell.output_size());
  std::vector<Output> state = options.initial_state;
  if (state.empty()) state = cell.ZeroState(own, Element(own, ops::Shape(own, x), 1), s.dtype);
  Output lengths = options.sequence_length;
  if (lengths.IsSet()) lengths = CastTo(own.WithOpName("sequence_length"), lengths, DataType::kInt32);
  const std::vector<Output> last = Loop(own, cell, s, lengths, state, options.parallel_iterations);
  if (!own.ok() || last.empty()) return {};
  const Scope stack = own.NewSubScope("TensorArrayStack");
  const Output times = ops::Range(stack.WithOpName("range"), 0, s.steps, 1);
  const Output outputs = ops::TensorArrayGatherV3(stack, s.out, times, last[1], s.dtype,
                                                  ops::TensorArrayGatherV3::ElementShape(s.out_shape));
  return {options.time_major ? outputs : SwapFirstAxes(own, outputs), {last.begin() + 2, last.end()}};
}

}  // namespace

RnnOutputs DynamicRnn(const Scope& scope, RnnCell& cell, const Output& inputs,
                      const DynamicRnnOptions& options) {
  if (!scope.ok()) return {};
  return Run(EnterVariableScope(scope, options.name), cell, inputs, options);
}

BidirectionalOutputs BidirectionalDynamicRnn(const Scope& scope, RnnCell& forward, RnnCell& backward,
                                             const Output& inputs, const DynamicRnnOptions& options) {
  if (!scope.ok()) return {};
  const Scope own = EnterVariableScope(scope, options.name == "rnn" ? "bidirectional_rnn" : options.name);
  const size_t of_forward = forward.state_sizes().size();
  DynamicRnnOptions fw = options, bw = options;
  if (!options.initial_state.empty()) {
    if (options.initial_state.size() != of_forward + backward.state_sizes().size()) {
      scope.UpdateStatus(errors::InvalidArgument("bidirectional_dynamic_rnn: got ",
                                                 options.initial_state.size(), " tensors of state"));
      return {};
    }
    const auto middle = options.initial_state.begin() + static_cast<std::ptrdiff_t>(of_forward);
    fw.initial_state.assign(options.initial_state.begin(), middle);
    bw.initial_state.assign(middle, options.initial_state.end());
  }
  const int time = options.time_major ? 0 : 1;
  const auto reverse = [&](const Scope& at, const Output& x) -> Output {
    if (!options.sequence_length.IsSet()) return ops::ReverseV2(at, x, {time});
    OpAttrs attrs;
    attrs.Set("seq_dim", int64_t{time});
    attrs.Set("batch_dim", int64_t{1 - time});
    return AddOp(at, "ReverseSequence", {x, options.sequence_length}, attrs);
  };
  BidirectionalOutputs both;
  both.forward = Run(EnterVariableScope(own, "fw"), forward, inputs, fw);
  const Scope back = EnterVariableScope(own, "bw");
  if (!scope.ok()) return {};
  both.backward = Run(back, backward, reverse(back, inputs), bw);
  if (!scope.ok()) return {};
  both.backward.outputs = reverse(own, both.backward.outputs);
  return both;
}

}  // namespace millrace
