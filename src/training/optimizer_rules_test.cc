// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "graph/graph.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "training/training_testing.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::UnorderedElementsAre;

// One element of a variable with the optimizer's slots; the gradient is the value itself.
struct State {
  double w, a, b, c;
};
using Rule = std::function<void(State& s, double g, int t)>;
using Maker = std::function<std::unique_ptr<Optimizer>(const GraphVariable& step)>;

struct Case {
  const char* name;
  Maker make;
  State first;
  Rule rule;
  std::vector<std::string> slots;
};

double Sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double Shrink(double x, double by) { return Sign(x) * std::max(std::abs(x) - by, 0.0); }

template <typename T, typename... Args>
Maker Plain(const Args&... args) {
  return [=](const GraphVariable&) { return std::make_unique<T>(args...); };
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  cases.push_back({"CenteredRMSProp",
                   Plain<RmsPropOptimizer>(
                       0.1f, RmsPropOptimizer::Options{.momentum = 0.5f, .epsilon = 1e-3f, .centered = true}),
                   {0, 1, 0, 0},
                   [](State& s, double g, int) {
                     s.a = 0.9 * s.a + 0.1 * g * g;
                     s.b = 0.9 * s.b + 0.1 * g;
                     s.c = 0.5 * s.c + 0.1 * g / std::sqrt(s.a - s.b * s.b + 1e-3);
                     s.w -= s.c;
                   },
                   {"w/RMSProp", "w/RMSProp_1", "w/RMSProp_2"}});
  cases.push_back(
      {"FtrlV2",
       Plain<FtrlOptimizer>(0.5f, FtrlOptimizer::Options{.l1_regularization_strength = 0.1f,
                                                         .l2_regularization_strength = 0.2f,
                                                         .l2_shrinkage_regularization_strength = 0.3f}),
       {0, 0.1, 0, 0},
       [](State& s, double g, int) {
         const double sum = s.a + g * g, with_penalty = g + 2 * 0.3 * s.w;
         s.b += with_penalty - (std::sqrt(sum) - std::sqrt(s.a)) / 0.5 * s.w;
         const double quadratic = std::sqrt(sum) / 0.5 + 2 * 0.2;
         s.w = std::abs(s.b) > 0.1 ? (Sign(s.b) * 0.1 - s.b) / quadratic : 0;
         s.a = sum;
       },
       {"w/Ftrl", "w/Ftrl_1"}});
  cases.push_back({"AdagradDA",
                   [](const GraphVariable& step) {
                     return std::make_unique<AdagradDaOptimizer>(
                         0.5f, step,
                         AdagradDaOptimizer::Options{.l1_regularization_strength = 0.01f,
                                                     .l2_regularization_strength = 0.1f});
                   },
                   {0, 0, 0.1, 0},
                   [](State& s, double g, int t) {
                     s.a += g;
                     s.b += g * g;
                     s.w = -0.5 * Shrink(s.a, 0.01 * t) / (0.1 * 0.5 * t + std::sqrt(s.b));
                   },
                   {"w/AdagradDA", "w/AdagradDA_1"}});
  cases.push_back({"ProximalGradientDescent",
                   Plain<ProximalGradientDescentOptimizer>(
                       0.1f, ProximalGradientDescentOptimizer::Options{.l1_regularization_strength = 0.5f,
                                                                       .l2_regularization_strength = 0.2f}),
                   {0, 0, 0, 0},
                   [](State& s, double g, int) { s.w = Shrink(s.w - 0.1 * g, 0.1 * 0.5) / (1 + 0.1 * 0.2); },
                   {}});
  cases.push_back({"ProximalAdagrad",
                   Plain<ProximalAdagradOptimizer>(
                       0.1f, ProximalAdagradOptimizer::Options{.l1_regularization_strength = 0.5f,
                                                               .l2_regularization_strength = 0.2f}),
                   {0, 0.1, 0, 0},
                   [](State& s, double g, int) {
                     s.a += g * g;
                     const double rate = 0.1 / std::sqrt(s.a);
                     s.w = Shrink(s.w - rate * g, rate * 0.5) / (1 + rate * 0.2);
                   },
                   {"w/ProximalAdagrad"}});
  cases.push_back({"AdaMax",
                   Plain<AdaMaxOptimizer>(0.1f, AdaMaxOptimizer::Options{.beta2 = 0.9f}),
                   {0, 0, 0, 0},
                   [](State& s, double g, int t) {
                     s.a = 0.9 * s.a + 0.1 * g;
                     s.b = std::max(0.9 * s.b, std::abs(g));
                     s.w -= 0.1 / (1 - std::pow(0.9, t)) * s.a / (s.b + 1e-8);
                   },
                   {"w/AdaMax", "w/AdaMax_1", "beta1_power"}});
  cases.push_back({"AddSign",
                   Plain<AddSignOptimizer>(0.1f, AddSignOptimizer::Options{.alpha = 2.f, .sign_decay = 0.5f}),
                   {0, 0, 0, 0},
                   [](State& s, double g, int) {
                     s.a = 0.9 * s.a + 0.1 * g;
                     s.w -= 0.1 * (2 + 0.5 * Sign(g) * Sign(s.a)) * g;
                   },
                   {"w/AddSign"}});
  cases.push_back({"PowerSign",
                   Plain<PowerSignOptimizer>(0.1f, PowerSignOptimizer::Options{.sign_decay = 0.5f}),
                   {0, 0, 0, 0},
                   [](State& s, double g, int) {
                     s.a = 0.9 * s.a + 0.1 * g;
                     s.w -= 0.1 * std::exp(0.5 * Sign(g) * Sign(s.a)) * g;
                   },
                   {"w/PowerSign"}});
  return cases;
}

const std::vector<float> kBegin = {1.f, -2.f, 0.25f, 0.5f, -0.125f, 3.f};

enum class Gradient { kDense, kEveryRow };

// The variable [3,2] after four steps, whose gradient is the variable itself.
std::vector<float> Train(const Case& c, bool resource, Gradient kind) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable step = CreateGlobalStep(scope);
  const GraphVariable w(scope.WithOpName("w"), Tensor::From(kBegin, TensorShape({3, 2})),
                        {.resource = resource});
  GradientValue gradient = Output(ops::Identity(scope, w));
  if (kind == Gradient::kEveryRow) {
    // Row 1 is split into two halves.
    const Output rows = ops::Const(scope, {2, 1, 0, 1});
    const Output halves = ops::Const(scope, {{1.f}, {0.5f}, {1.f}, {0.5f}});
    gradient = IndexedSlices{ops::Mul(scope, ops::GatherV2(scope, w, rows, 0).output, halves), rows, {}};
  }
  const Operation train = c.make(step)->ApplyGradients(scope, {{gradient, w}}, step);
  EXPECT_TRUE(scope.ok()) << c.name << scope.status();
  if (!scope.ok()) return {};
  ReadySession session(scope);
  for (int i = 0; i < 4; ++i) session.Run({train});
  EXPECT_EQ(session.Fetch({step})[0].scalar<int64_t>(), 4);
  return session.Values(w);
}

TEST(OptimizerRulesTest, FollowTheirFormulasWithTensorsAndSlices) {
  for (const Case& c : Cases()) {
    std::vector<float> expected;
    for (const float begin : kBegin) {
      State s = c.first;
      s.w = begin;
      for (int t = 1; t <= 4; ++t) c.rule(s, s.w, t);
      expected.push_back(static_cast<float>(s.w));
    }
    for (const bool resource : {false, true}) {
      for (const Gradient kind : {Gradient::kDense, Gradient::kEveryRow}) {
        EXPECT_THAT(Train(c, resource, kind), Pointwise(FloatNear(2e-5f), expected))
            << c.name << " resource " << resource << " slices " << (kind == Gradient::kEveryRow);
      }
    }
  }
}

TEST(OptimizerRulesTest, SlotsHaveTheNamesOfTensorFlow) {
  for (const Case& c : Cases()) {
    const Scope scope = Scope::NewRootScope();
    const GraphVariable step = CreateGlobalStep(scope);
    const GraphVariable w(scope.WithOpName("w"), {1.f});
    c.make(step)->Minimize(scope, ops::L2Loss(scope, w));
    ASSERT_TRUE(scope.ok()) << scope.status();
    std::vector<std::string> names = {"global_step", "w"};
    names.insert(names.end(), c.slots.begin(), c.slots.end());
    std::vector<std::string> got;
    for (const GraphVariable& variable : GlobalVariables(scope)) got.push_back(variable.name());
    EXPECT_THAT(got, testing::UnorderedElementsAreArray(names)) << c.name;
  }
}

TEST(OptimizerRulesTest, AdaMaxChangesOnlyTheRows) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), {{1.f}, {2.f}});
  const IndexedSlices row{ops::Const(scope, {{1.f}}), ops::Const(scope, {1}), {}};
  const Operation train = AdaMaxOptimizer(0.5f).ApplyGradients(scope, {{row, w}});
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  session.Run({train});
  EXPECT_THAT(session.Values(w), Pointwise(FloatNear(1e-6f), {1.f, 1.5f}));
}

TEST(OptimizerTest, StepsAreCountedAfterTheUpdates) {
  for (const bool resource : {false, true}) {
    const Scope scope = Scope::NewRootScope();
    const Scope variables = WithVariableOptions(scope, {.resource = resource});
    const GraphVariable w = GetVariable(variables, "w", {2});
    const GraphVariable step = GetOrCreateGlobalStep(variables);
    const Operation train = AdamOptimizer(0.1f).Minimize(scope, ops::L2Loss(scope, w), {}, step);
    ASSERT_TRUE(scope.ok()) << scope.status();
    EXPECT_EQ(Scope::NameOf(train), "Adam");
    EXPECT_EQ(train.node->op_name(), resource ? "AssignAddVariableOp" : "AssignAdd");
    const auto update = scope.FindOperation("Adam/update");
    ASSERT_TRUE(update.ok());
    ASSERT_EQ(train.node->control_in_edges().size(), 1u);
    EXPECT_EQ(train.node->control_in_edges()[0]->src, update->node);
    for (const GraphVariable& variable : GlobalVariables(scope)) {
      EXPECT_EQ(variable.is_resource(), resource) << variable.name();  // also for the powers of the betas
    }
    ReadySession session(scope);
    session.Run({train});
    session.Run({train});
    EXPECT_EQ(session.Fetch({step})[0].scalar<int64_t>(), 2);
  }
}

TEST(OptimizerTest, SlotsBelongToTheScopeOfVariables) {
  const Scope root = Scope::NewRootScope();
  const GraphVariable w = GetVariable(EnterVariableScope(root, "net"), "w", {2});
  MomentumOptimizer(0.1f, 0.9f).Minimize(EnterVariableScope(root, "train"), ops::L2Loss(root, w));
  ASSERT_TRUE(root.ok()) << root.status();
  std::vector<std::string> names;
  for (const GraphVariable& variable : GlobalVariables(root)) names.push_back(variable.name());
  EXPECT_THAT(names, ElementsAre("net/w", "train/net/w/Momentum"));
}

TEST(OptimizerTest, AdagradDaNeedsTheGlobalStep) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), {1.f});
  AdagradDaOptimizer(0.1f, GraphVariable()).Minimize(scope, ops::L2Loss(scope, w));
  EXPECT_THAT(scope.status().message(), HasSubstr("global step is unset"));
}

}  // namespace
}  // namespace millrace
