// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A recurrent network with a loop over steps, for sequences of different lengths.
#include <gtest/gtest.h>

#include <array>

#include "millrace/optimizers.h"
#include "tests/session/def_builder.h"
#include "tests/session/loop_testing.h"

namespace millrace {
namespace {

constexpr int kBatch = 8, kSteps = 6, kInputs = 2, kUnits = 5;
constexpr DataType kDouble = DataType::kDouble;

// Numbers in [-1, 1], the same in every run.
class Numbers {
 public:
  double Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) / static_cast<double>(1ull << 52) - 1;
  }
  Tensor Fill(const TensorShape& shape, double scale) {
    Tensor t(kDouble, shape);
    for (double& v : t.flat<double>()) v = Next() * scale;
    return t;
  }

 private:
  uint64_t state_ = 17;
};

// A gated recurrent unit (Cho et al., 2014) and a linear layer on its last state.
struct Weights {
  Output gates, gates_bias, candidate, candidate_bias, last;
  std::vector<Output> all() const { return {gates, gates_bias, candidate, candidate_bias, last}; }
};

Output Cell(const Scope& s, const Weights& w, const Output& x, const Output& h) {
  const Output both = ops::ConcatV2(s, {x, h}, 1);
  const Output gates = ops::Sigmoid(s, ops::Add(s, ops::MatMul(s, both, w.gates), w.gates_bias));
  const ops::Split parts(s, 1, gates, 2);
  const Output reset = parts.output[0], update = parts.output[1];
  const Output kept = ops::ConcatV2(s, {x, ops::Mul(s, reset, h)}, 1);
  const Output candidate = ops::Tanh(s, ops::Add(s, ops::MatMul(s, kept, w.candidate), w.candidate_bias));
  return ops::Add(s, ops::Mul(s, update, h), ops::Mul(s, ops::Sub(s, 1.0, update), candidate));
}

// The state after a step: the old one for sequences that have ended.
Output Step(const Scope& s, const Weights& w, const Output& x, const Output& h, const Input& t,
            const Output& lengths) {
  const Output going_on = ops::ExpandDims(s, ops::Cast(s, ops::Less(s, t, lengths), kDouble), 1);
  return ops::Add(s, ops::Mul(s, going_on, Cell(s, w, x, h)), ops::Mul(s, ops::Sub(s, 1.0, going_on), h));
}

struct Rnn {
  Output states;  // [steps, batch, units]
  Output last;    // [batch, units]
};

Rnn Dynamic(const Scope& scope, const Weights& w, const Output& x, const Output& lengths, const Output& first,
            bool checked = false) {
  const Output steps = ops::Max(scope, lengths, 0);
  const ops::TensorArrayV3 in(scope, kSteps, kDouble);
  const ops::TensorArrayV3 out(scope, steps, kDouble);
  const Output filled =
      ops::TensorArrayScatterV3(scope, in.handle, ops::Range(scope, 0, kSteps, 1), x, in.flow);
  const Outputs end = While(
      scope.WithOpName("rnn"), {0, first, out.flow},
      [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], steps)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        Output xt = ops::TensorArrayReadV3(s, in.handle, v[0], filled, kDouble);
        if (checked) xt = ops::EnsureShape(s, xt, PartialShape({-1, kInputs}));
        const Output h = Step(s, w, xt, v[1], v[0], lengths);
        return {ops::Add(s, v[0], 1), h, ops::TensorArrayWriteV3(s, out.handle, v[0], h, v[2])};
      });
  return {ops::TensorArrayGatherV3(scope, out.handle, ops::Range(scope, 0, steps, 1), end[2], kDouble),
          end[1]};
}

Rnn Unrolled(const Scope& scope, const Weights& w, const Output& x, const Output& lengths,
             const Output& first, int steps) {
  std::vector<Input> states;
  Output h = first;
  for (int t = 0; t < steps; ++t) {
    h = Step(scope, w, ops::Gather(scope, x, t), h, t, lengths);
    states.emplace_back(h);
  }
  return {ops::Pack(scope, states), h};
}

std::array<Tensor, 5> FirstWeights() {
  Numbers numbers;
  return {numbers.Fill(TensorShape({kInputs + kUnits, 2 * kUnits}), 0.5),
          numbers.Fill(TensorShape({2 * kUnits}), 0.1),
          numbers.Fill(TensorShape({kInputs + kUnits, kUnits}), 0.5),
          numbers.Fill(TensorShape({kUnits}), 0.1), numbers.Fill(TensorShape({kUnits, 1}), 0.5)};
}

class DynamicRnnTest : public LoopTest {
 protected:
  const Output x_ = Input("x", {kSteps, kBatch, kInputs});
  const Output lengths_ = Input("lengths", DataType::kInt32, {kBatch});
  const Output first_ = ops::Const(scope_, 0.0, TensorShape({kBatch, kUnits}));
  Numbers numbers_;
};
INSTANTIATE_TEST_SUITE_P(Threads, DynamicRnnTest, ::testing::Values(1, 2, 8));

TEST_P(DynamicRnnTest, GradientsAreThoseOfTheUnrolledGraph) {
  const auto values = FirstWeights();
  Outputs placeholders;
  ClientSession::Feeds feeds;
  for (const Tensor& value : values) {
    placeholders.push_back(Input("w", value.shape()));
    feeds.emplace_back(placeholders.back(), value);
  }
  const Weights w{placeholders[0], placeholders[1], placeholders[2], placeholders[3], placeholders[4]};
  const int steps = 5;
  feeds.emplace_back(x_, numbers_.Fill(TensorShape({kSteps, kBatch, kInputs}), 1));
  feeds.emplace_back(lengths_, Tensor::Vector<int32_t>({1, 5, 3, 0, 4, 2, 5, 1}));
  Outputs xs = w.all(), fetches;
  xs.push_back(x_);
  for (const bool dynamic : {true, false}) {
    const Rnn rnn =
        dynamic ? Dynamic(scope_, w, x_, lengths_, first_) : Unrolled(scope_, w, x_, lengths_, first_, steps);
    const Output loss =
        ops::Add(scope_, ops::Sum(scope_, ops::Mul(scope_, rnn.states, rnn.states), {0, 1, 2}),
                 ops::Sum(scope_, ops::MatMul(scope_, rnn.last, w.last), {0, 1}));
    fetches.push_back(loss);
    for (const Output& g : Gradients({loss}, xs)) fetches.push_back(g);
  }
  const auto out = Run(feeds, fetches);
  const size_t n = fetches.size() / 2;
  for (size_t i = 0; i < n; ++i) {
    ASSERT_EQ(out[i].shape(), out[n + i].shape()) << i;
    for (int64_t e = 0; e < out[i].num_elements(); ++e) {
      ASSERT_NEAR(out[i].data<double>()[e], out[n + i].data<double>()[e], 1e-12) << i;
    }
  }
}

// Without gradients the products of the inputs are computed before the loop, for all steps at once.
TEST_P(DynamicRnnTest, ProductsOfTheInputsLeaveTheLoop) {
  const auto values = FirstWeights();
  Outputs constants;
  for (const Tensor& value : values) constants.push_back(ops::Const(scope_, value));
  const Weights w{constants[0], constants[1], constants[2], constants[3], constants[4]};
  const Rnn unrolled = Unrolled(scope_, w, x_, lengths_, first_, 5);
  const Rnn dynamics[] = {Dynamic(scope_, w, x_, lengths_, first_),
                          Dynamic(scope_, w, x_, lengths_, first_, true)};
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  ClientSession session(scope_, Options());
  const ClientSession::Feeds feeds{{x_, numbers_.Fill(TensorShape({kSteps, kBatch, kInputs}), 1)},
                                   {lengths_, Tensor::Vector<int32_t>({1, 5, 3, 0, 4, 2, 5, 1})}};
  RunOptions options;
  options.output_partition_graphs = true;
  RunMetadata metadata;
  std::vector<Tensor> got, want;
  ASSERT_EQ(session.Run(feeds, {unrolled.states, unrolled.last}, &want), Status());
  for (const Rnn& dynamic : dynamics) {
    ASSERT_EQ(session.Run(options, feeds, {dynamic.states, dynamic.last}, {}, &got, &metadata), Status());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].shape(), want[i].shape());
      for (int64_t e = 0; e < got[i].num_elements(); ++e)
        ASSERT_NEAR(got[i].data<double>()[e], want[i].data<double>()[e], 1e-12);
    }
    if (PassesAreOff() || NodesAreSpread()) continue;
    std::string graphs;
    for (const std::string& bytes : metadata.partition_graphs) graphs += bytes;
    EXPECT_NE(graphs.find("BatchMatMulV2"), std::string::npos);
    EXPECT_EQ(graphs.find("ConcatV2"), std::string::npos);
    EXPECT_EQ(graphs.find("EnsureShape"), std::string::npos);
  }
}

// A state of one row is refused with inputs of several rows, as by the concatenation.
TEST_P(DynamicRnnTest, RowsThatDoNotFitAreRefused) {
  const auto values = FirstWeights();
  const Output gates = ops::Const(scope_, values[0]);
  const Output x = Input("any", {kSteps, kBatch, kInputs});
  const Output first = ops::Placeholder(scope_, kDouble);
  const ops::TensorArrayV3 in(scope_, kSteps, kDouble);
  const Output filled =
      ops::TensorArrayScatterV3(scope_, in.handle, ops::Range(scope_, 0, kSteps, 1), x, in.flow);
  const Outputs end = While(
      scope_, {0, first},
      [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], kSteps)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        const Output xt = ops::TensorArrayReadV3(s, in.handle, v[0], filled, kDouble);
        const Output both = ops::MatMul(s, ops::ConcatV2(s, {xt, v[1]}, 1), gates);
        return {ops::Add(s, v[0], 1), ops::Split(s, 1, both, 2).output[0]};
      });
  const Tensor inputs = numbers_.Fill(TensorShape({kSteps, kBatch, kInputs}), 1);
  const auto run = [&](int64_t rows) {
    return TryRun({{x, inputs}, {first, numbers_.Fill(TensorShape({rows, kUnits}), 1)}}, {end[1]}).status();
  };
  EXPECT_EQ(run(kBatch), Status());
  EXPECT_TRUE(errors::IsInvalidArgument(run(1))) << run(1);
  EXPECT_TRUE(errors::IsInvalidArgument(run(kBatch + 1)));
}

// The state of a loop times a matrix, and its gradients: the matrix is packed once for the products and once
// for those of the gradient, and the gradient of the matrix is summed in place.
TEST_P(DynamicRnnTest, FactorsOfALoopsProductsArePackedBeforeIt) {
  constexpr int64_t kRows = 3, kWidth = 190;
  const Output first = ops::Placeholder(scope_, DataType::kFloat, ops::Placeholder::Shape({kRows, kWidth}));
  const Output w = ops::Placeholder(scope_, DataType::kFloat, ops::Placeholder::Shape({kWidth, kWidth}));
  const Outputs end = While(
      scope_, {0, first}, [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], 4)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        return {ops::Add(s, v[0], 1), ops::Tanh(s, ops::MatMul(s, v[1], w))};
      });
  Output unrolled = first;
  for (int i = 0; i < 4; ++i) unrolled = ops::Tanh(scope_, ops::MatMul(scope_, unrolled, w));
  Outputs fetches{end[1]}, expected{unrolled};
  for (const Output& g : Gradients({ops::Sum(scope_, end[1], {0, 1})}, {first, w})) fetches.push_back(g);
  for (const Output& g : Gradients({ops::Sum(scope_, unrolled, {0, 1})}, {first, w})) expected.push_back(g);
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  Tensor x(DataType::kFloat, {kRows, kWidth}), matrix(DataType::kFloat, {kWidth, kWidth});
  for (float& v : x.flat<float>()) v = static_cast<float>(numbers_.Next());
  for (float& v : matrix.flat<float>()) v = static_cast<float>(numbers_.Next()) * 0.1f;
  const ClientSession::Feeds feeds{{first, x}, {w, matrix}};
  std::vector<std::vector<Tensor>> results;
  for (const char* off : {"", "loop_weights", "fuse"}) {
    SessionOptions session_options = Options();
    if (*off != '\0') session_options.disabled_passes.insert(off);
    ClientSession session(scope_, session_options);
    RunOptions options;
    options.output_partition_graphs = true;
    RunMetadata metadata;
    ASSERT_EQ(session.Run(options, feeds, fetches, {}, &results.emplace_back(), &metadata), Status());
    if (PassesAreOff() || NodesAreSpread()) continue;
    std::string graphs;
    for (const std::string& bytes : metadata.partition_graphs) graphs += bytes;
    EXPECT_EQ(graphs.find("_PackMatrix") != std::string::npos, *off != 'l') << off;
  }
  std::vector<Tensor> want;
  ASSERT_EQ(ClientSession(scope_, Options()).Run(feeds, expected, &want), Status());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(results[0][i].shape(), want[i].shape());
    for (int64_t e = 0; e < want[i].num_elements(); ++e) {
      ASSERT_NEAR(results[0][i].data<float>()[e], want[i].data<float>()[e], 1e-5) << i;
      for (const auto& result : results)
        ASSERT_EQ(result[i].data<float>()[e], results[0][i].data<float>()[e]) << i;
    }
  }
}

// Learns the mean of the first inputs of each sequence.
TEST_P(DynamicRnnTest, Trains) {
  const auto values = FirstWeights();
  std::vector<GraphVariable> variables;
  variables.reserve(values.size());
  for (const Tensor& value : values) variables.emplace_back(scope_.WithOpName("weight"), value);
  const Weights w{variables[0], variables[1], variables[2], variables[3], variables[4]};
  const Output target = Input("target", {kBatch, 1});
  const Rnn rnn = Dynamic(scope_, w, x_, lengths_, first_);
  const Output error = ops::Sub(scope_, ops::MatMul(scope_, rnn.last, w.last), target);
  const Output loss = ops::Mean(scope_, ops::Mul(scope_, error, error), {0, 1});
  const Operation train = AdamOptimizer(0.02f).Minimize(scope_, loss);
  const Operation init = GlobalVariablesInitializer(scope_);
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  ClientSession session(scope_, Options());
  ASSERT_EQ(session.Run({}, {}, {init}, nullptr), Status());
  double first = 0, last = 0;
  for (int step = 0; step < 300; ++step) {
    const Tensor x = numbers_.Fill(TensorShape({kSteps, kBatch, kInputs}), 1);
    Tensor lengths(DataType::kInt32, TensorShape({kBatch})), means(kDouble, TensorShape({kBatch, 1}));
    for (int b = 0; b < kBatch; ++b) {
      const int n = 1 + (step * 7 + b * 3) % kSteps;
      lengths.data<int32_t>()[b] = n;
      double sum = 0;
      for (int t = 0; t < n; ++t) sum += x.data<double>()[(t * kBatch + b) * kInputs];
      means.data<double>()[b] = sum / n;
    }
    std::vector<Tensor> out;
    ASSERT_EQ(session.Run({{x_, x}, {lengths_, lengths}, {target, means}}, {loss}, {train}, &out), Status());
    if (step < 10) first += out[0].scalar<double>() / 10;
    if (step >= 290) last += out[0].scalar<double>() / 10;
  }
  EXPECT_GT(first, 0.1);
  EXPECT_LT(last, 0.02);
}

}  // namespace
}  // namespace millrace
