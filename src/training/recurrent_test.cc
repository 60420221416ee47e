// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/recurrent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "training/training_testing.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

using Row = std::vector<double>;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<std::string> Names(const Scope& scope) {
  std::vector<std::string> names;
  for (const GraphVariable& variable : GlobalVariables(scope)) names.push_back(variable.name());
  return names;
}

// The values of the variables, for the formulas.
struct Weights {
  explicit Weights(const Scope& scope, ReadySession& session) {
    for (const GraphVariable& variable : GlobalVariables(scope)) {
      const Tensor value = session.Fetch({variable})[0];
      all.emplace_back(variable.name(), value);
    }
  }
  const Tensor& operator[](const std::string& end) const {
    for (const auto& [name, value] : all) {
      if (name.ends_with(end)) return value;
    }
    ADD_FAILURE() << "no variable " << end;
    return all[0].second;
  }
  std::vector<std::pair<std::string, Tensor>> all;
};

// [x, h] kernel + bias.
Row Linear(const Row& x, const Row& h, const Tensor& kernel, const Tensor& bias) {
  Row in = x;
  in.insert(in.end(), h.begin(), h.end());
  Row out;
  for (int64_t j = 0; j < kernel.dim(1); ++j) {
    double sum = bias.data<float>()[j];
    for (size_t i = 0; i < in.size(); ++i) sum += in[i] * kernel.matrix<float>()(static_cast<int64_t>(i), j);
    out.push_back(sum);
  }
  return out;
}

const Tensor& Inputs() {  // [2, 4, 3]
  static const Tensor& inputs = *[] {
    std::vector<float> values;
    for (int i = 0; i < 24; ++i) values.push_back(static_cast<float>(std::sin(1.9 * i)));
    return new Tensor(Tensor::From(values, TensorShape({2, 4, 3})));
  }();
  return inputs;
}

Row InputAt(int64_t batch, int64_t time) {
  const float* const x = Inputs().data<float>() + (batch * 4 + time) * 3;
  return {x[0], x[1], x[2]};
}

Scope RandomScope() {
  const Scope root = Scope::NewRootScope();
  SetRandomSeed(root, 5);
  return WithVariableOptions(root, {.initializer = initializers::RandomUniform(-0.8, 0.8)});
}

TEST(RnnCellTest, LongShortTermMemoryFollowsItsFormulas) {
  const Scope scope = RandomScope();
  const auto cell = BasicLstmCell(2);
  const Output in = ops::Const(scope, Inputs()), lengths = ops::Const(scope, {4, 2});
  const RnnOutputs rnn = DynamicRnn(scope, *cell, in, {.sequence_length = lengths});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_THAT(Names(scope), ElementsAre("rnn/basic_lstm_cell/kernel", "rnn/basic_lstm_cell/bias"));
  ReadySession session(scope);
  const Weights weights(scope, session);
  const std::vector<Tensor> got = session.Fetch({rnn.outputs, rnn.state[0], rnn.state[1]});
  EXPECT_EQ(got[0].shape(), TensorShape({2, 4, 2}));
  for (int64_t b = 0; b < 2; ++b) {
    Row c = {0, 0}, h = {0, 0};
    for (int64_t t = 0; t < 4; ++t) {
      const bool over = b == 1 && t >= 2;
      if (!over) {
        const Row gates = Linear(InputAt(b, t), h, weights["kernel"], weights["bias"]);
        for (size_t i = 0; i < 2; ++i) {
          c[i] = Sigmoid(gates[4 + i] + 1) * c[i] + Sigmoid(gates[i]) * std::tanh(gates[2 + i]);
          h[i] = Sigmoid(gates[6 + i]) * std::tanh(c[i]);
        }
      }
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_NEAR(Floats(got[0])[static_cast<size_t>((b * 4 + t) * 2) + i], over ? 0 : h[i], 1e-5);
      }
    }
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(got[1].matrix<float>()(b, static_cast<int64_t>(i)), c[i], 1e-5);
      EXPECT_NEAR(got[2].matrix<float>()(b, static_cast<int64_t>(i)), h[i], 1e-5);
    }
  }
}

TEST(RnnCellTest, PeepholesAndProjectionsFollowTheirFormulas) {
  const Scope scope = RandomScope();
  LstmCell cell(3, {.use_peepholes = true, .cell_clip = 0.3, .num_proj = 2});
  const RnnOutputs rnn = DynamicRnn(scope, cell, ops::Const(scope, Inputs()));
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_THAT(Names(scope), ElementsAre("rnn/lstm_cell/kernel", "rnn/lstm_cell/bias",
                                        "rnn/lstm_cell/w_f_diag", "rnn/lstm_cell/w_i_diag",
                                        "rnn/lstm_cell/w_o_diag", "rnn/lstm_cell/projection/kernel"));
  ReadySession session(scope);
  const Weights w(scope, session);
  const std::vector<float> got = session.Values(rnn.outputs);
  for (int64_t b = 0; b < 2; ++b) {
    Row c = {0, 0, 0}, h = {0, 0};
    for (int64_t t = 0; t < 4; ++t) {
      const Row gates = Linear(InputAt(b, t), h, w["lstm_cell/kernel"], w["bias"]);
      Row m(3);
      for (size_t i = 0; i < 3; ++i) {
        const double in = Sigmoid(gates[i] + w["w_i_diag"].data<float>()[i] * c[i]);
        const double forget = Sigmoid(gates[6 + i] + 1 + w["w_f_diag"].data<float>()[i] * c[i]);
        c[i] = std::clamp(forget * c[i] + in * std::tanh(gates[3 + i]), -0.3, 0.3);
        m[i] = Sigmoid(gates[9 + i] + w["w_o_diag"].data<float>()[i] * c[i]) * std::tanh(c[i]);
      }
      for (int64_t j = 0; j < 2; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < 3; ++i) {
          sum += m[static_cast<size_t>(i)] * w["projection/kernel"].matrix<float>()(i, j);
        }
        h[static_cast<size_t>(j)] = sum;
        EXPECT_NEAR(got[static_cast<size_t>((b * 4 + t) * 2 + j)], sum, 1e-5);
      }
    }
  }
}

TEST(RnnCellTest, GatedUnitsFollowTheirFormulas) {
  const Scope scope = RandomScope();
  GruCell cell(2);
  const RnnOutputs rnn = DynamicRnn(scope, cell, ops::Const(scope, Inputs()));
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_THAT(Names(scope), ElementsAre("rnn/gru_cell/gates/kernel", "rnn/gru_cell/gates/bias",
                                        "rnn/gru_cell/candidate/kernel", "rnn/gru_cell/candidate/bias"));
  ReadySession session(scope);
  const Weights w(scope, session);
  EXPECT_THAT(Floats(w["gates/bias"]), ElementsAre(1, 1, 1, 1));
  const std::vector<float> got = session.Values(rnn.outputs);
  for (int64_t b = 0; b < 2; ++b) {
    Row h = {0, 0};
    for (int64_t t = 0; t < 4; ++t) {
      const Row gates = Linear(InputAt(b, t), h, w["gates/kernel"], w["gates/bias"]);
      const Row seen = {Sigmoid(gates[0]) * h[0], Sigmoid(gates[1]) * h[1]};
      const Row news = Linear(InputAt(b, t), seen, w["candidate/kernel"], w["candidate/bias"]);
      for (size_t i = 0; i < 2; ++i) {
        const double u = Sigmoid(gates[2 + i]);
        h[i] = u * h[i] + (1 - u) * std::tanh(news[i]);
        EXPECT_NEAR(got[static_cast<size_t>((b * 4 + t) * 2) + i], h[i], 1e-5);
      }
    }
  }
}

TEST(RnnCellTest, CellsAreStacked) {
  const Scope scope = RandomScope();
  MultiRnnCell cell({std::make_shared<BasicRnnCell>(2), std::make_shared<BasicRnnCell>(3, layers::Relu)});
  EXPECT_THAT(cell.state_sizes(), ElementsAre(2, 3));
  const Output time_major = ops::Transpose(scope, ops::Const(scope, Inputs()), {1, 0, 2});
  const RnnOutputs rnn = DynamicRnn(scope, cell, time_major, {.time_major = true});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_THAT(Names(scope), ElementsAre("rnn/multi_rnn_cell/cell_0/basic_rnn_cell/kernel",
                                        "rnn/multi_rnn_cell/cell_0/basic_rnn_cell/bias",
                                        "rnn/multi_rnn_cell/cell_1/basic_rnn_cell/kernel",
                                        "rnn/multi_rnn_cell/cell_1/basic_rnn_cell/bias"));
  ReadySession session(scope);
  const Weights w(scope, session);
  const Tensor got = session.Fetch({rnn.outputs})[0];
  ASSERT_EQ(got.shape(), TensorShape({4, 2, 3}));
  for (int64_t b = 0; b < 2; ++b) {
    Row low = {0, 0}, high = {0, 0, 0};
    for (int64_t t = 0; t < 4; ++t) {
      low = Linear(InputAt(b, t), low, w["cell_0/basic_rnn_cell/kernel"], w["cell_0/basic_rnn_cell/bias"]);
      for (double& x : low) x = std::tanh(x);
      high = Linear(low, high, w["cell_1/basic_rnn_cell/kernel"], w["cell_1/basic_rnn_cell/bias"]);
      for (double& x : high) x = std::max(x, 0.0);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(Floats(got)[static_cast<size_t>((t * 2 + b) * 3) + i], high[i], 1e-5);
      }
    }
  }
}

TEST(RnnCellTest, StepsOfAProgramShareTheVariables) {
  const Scope scope = RandomScope();
  BasicRnnCell cell(2);
  const Output x = ops::Const(scope, {{1.f, 2.f}});
  std::vector<Output> state = cell.ZeroState(scope, ops::Const(scope, 1), DataType::kFloat);
  RnnCell::Result result;
  for (int i = 0; i < 3; ++i) {
    result = cell.Step(scope, x, state);
    state = result.state;
  }
  const RnnOutputs rnn = DynamicRnn(scope, cell, ops::Const(scope, {{{1.f, 2.f}, {1.f, 2.f}, {1.f, 2.f}}}));
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_THAT(Names(scope), ElementsAre("basic_rnn_cell/kernel", "basic_rnn_cell/bias"));
  ReadySession session(scope);
  EXPECT_THAT(session.Values(result.output), Pointwise(FloatNear(1e-6f), session.Values(rnn.state[0])));
}

// Compares the loop's derivatives with finite differences; batches and lengths are only known at run time.
TEST(DynamicRnnTest, HasGradients) {
  const Scope scope = RandomScope();
  const auto cell = BasicLstmCell(2);
  const Output in = ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape({-1, -1, 3}));
  const Output lengths = ops::Placeholder(scope, DataType::kInt64, ops::Placeholder::Shape({-1}));
  const RnnOutputs rnn = DynamicRnn(scope, *cell, in, {.sequence_length = lengths});
  const Output loss = ops::Add(scope, ops::L2Loss(scope, rnn.outputs), ops::L2Loss(scope, rnn.state[0]));
  const auto gradients = GradientDescentOptimizer(1.f).ComputeGradients(scope, loss);
  ASSERT_TRUE(scope.ok()) << scope.status();
  const ClientSession::Feeds feeds = {{in, Inputs()}, {lengths, {int64_t{4}, int64_t{2}}}};
  std::vector<std::pair<Output, Output>> changes;  // the placeholder, the assignment
  for (const auto& [gradient, variable] : gradients) {
    const Output value = ops::Placeholder(scope, DataType::kFloat);
    changes.emplace_back(value, variable.Assign(scope, value));
  }
  ReadySession session(scope);
  for (size_t v = 0; v < gradients.size(); ++v) {
    const std::vector<float> analytic = session.Values(gradients[v].gradient.dense, feeds);
    const Tensor begin = session.Fetch({gradients[v].variable.value()})[0];
    const TensorShape shape = begin.shape();
    const std::vector<float> values = Floats(begin);
    ASSERT_EQ(analytic.size(), values.size());
    for (size_t i = 0; i < values.size(); i += 3) {
      const auto with = [&](float change) {
        std::vector<float> changed = values;
        changed[i] += change;
        session.Fetch({changes[v].second}, {{changes[v].first, Tensor::From(changed, shape)}});
        return session.Value(loss, feeds);
      };
      EXPECT_NEAR(analytic[i], (with(0.01f) - with(-0.01f)) / 0.02f, 2e-3) << v << " " << i;
    }
    session.Fetch({changes[v].second}, {{changes[v].first, Tensor::From(values, shape)}});
  }
}

TEST(DynamicRnnTest, BothDirectionsSeeTheSequence) {
  const Scope scope = RandomScope();
  BasicRnnCell forward(2), backward(2);
  const Output in = ops::Const(scope, Inputs()), lengths = ops::Const(scope, {4, 2});
  const BidirectionalOutputs both =
      BidirectionalDynamicRnn(scope, forward, backward, in, {.sequence_length = lengths});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_THAT(
      Names(scope),
      ElementsAre("bidirectional_rnn/fw/basic_rnn_cell/kernel", "bidirectional_rnn/fw/basic_rnn_cell/bias",
                  "bidirectional_rnn/bw/basic_rnn_cell/kernel", "bidirectional_rnn/bw/basic_rnn_cell/bias"));
  ReadySession session(scope);
  const Weights w(scope, session);
  const std::vector<float> fw = session.Values(both.forward.outputs),
                           bw = session.Values(both.backward.outputs);
  for (int64_t b = 0; b < 2; ++b) {
    const int64_t length = b == 0 ? 4 : 2;
    Row h = {0, 0}, back = {0, 0};
    for (int64_t t = 0; t < length; ++t) {
      h = Linear(InputAt(b, t), h, w["fw/basic_rnn_cell/kernel"], w["fw/basic_rnn_cell/bias"]);
      back = Linear(InputAt(b, length - 1 - t), back, w["bw/basic_rnn_cell/kernel"],
                    w["bw/basic_rnn_cell/bias"]);
      for (size_t i = 0; i < 2; ++i) {
        h[i] = std::tanh(h[i]), back[i] = std::tanh(back[i]);
        EXPECT_NEAR(fw[static_cast<size_t>((b * 4 + t) * 2) + i], h[i], 1e-5);
        EXPECT_NEAR(bw[static_cast<size_t>((b * 4 + length - 1 - t) * 2) + i], back[i], 1e-5);
      }
    }
  }
}

TEST(DynamicRnnTest, WhatDoesNotFitIsAnError) {
  const Scope flat = Scope::NewRootScope();
  BasicRnnCell cell(2);
  DynamicRnn(flat, cell, ops::Const(flat, {{1.f}}));
  EXPECT_THAT(flat.status().message(), HasSubstr("expected [batch, time, n]"));
  const Scope state = Scope::NewRootScope();
  const Output x = ops::Const(state, Inputs());
  DynamicRnn(state, cell, x, {.initial_state = {x, x}});
  EXPECT_THAT(state.status().message(), HasSubstr("expected 1 tensors of state, got 2"));
  const Scope none = Scope::NewRootScope();
  MultiRnnCell empty({});
  DynamicRnn(none, empty, ops::Const(none, Inputs()));
  EXPECT_THAT(none.status().message(), HasSubstr("at least one cell"));
}

}  // namespace
}  // namespace millrace
