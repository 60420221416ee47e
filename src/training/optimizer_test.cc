// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/optimizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/graph.h"
#include "millrace/client_session.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<std::string> NamesOf(const std::vector<GraphVariable>& variables) {
  std::vector<std::string> names;
  names.reserve(variables.size());
  for (const GraphVariable& variable : variables) names.push_back(variable.name());
  return names;
}

// Minimises w^2 / 2, so that the gradient is w itself, from w = 1; returns w after each step.
template <typename T = float>
std::vector<T> Descend(const Optimizer& optimizer, int steps) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), static_cast<T>(1));
  const Output loss = ops::Mul(scope, ops::Const(scope, static_cast<T>(0.5)), ops::Square(scope, w).y);
  const Operation step = optimizer.Minimize(scope, loss);
  const Operation init = GlobalVariablesInitializer(scope);
  const ClientSession session(scope);
  EXPECT_TRUE(session.Run({}, {}, {init}, nullptr).ok()) << scope.status();
  std::vector<T> values;
  for (int i = 0; i < steps; ++i) {
    const Status status = session.Run({}, {}, {step}, nullptr);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<Tensor> outputs;
    EXPECT_TRUE(session.Run({w}, &outputs).ok());
    values.push_back(outputs.empty() ? T(-1) : outputs[0].scalar<T>());
  }
  return values;
}

TEST(GraphVariableTest, NodesAreNamedAndColocatedAsInTensorFlow) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.NewSubScope("layer").WithOpName("W"), {{1.f, 2.f}});
  const GraphVariable unnamed(scope, 1);
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(w.name(), "layer/W");
  EXPECT_EQ(unnamed.name(), "Variable");
  EXPECT_EQ(Scope::NameOf(w.value()), "layer/W/read");
  EXPECT_EQ(Scope::NameOf(w.initializer()), "layer/W/Assign");
  EXPECT_TRUE(scope.FindOperation("layer/W/initial_value").ok());
  EXPECT_EQ(w.ref().node->op_name(), "VariableV2");
  EXPECT_THAT(w.value().node->Attr<std::vector<std::string>>("_class").value_or({}),
              ElementsAre("loc:@layer/W"));
}

TEST(GraphVariableTest, CollectionsHoldWhatWasMade) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable a(scope.WithOpName("a"), 1.f);
  const GraphVariable b(scope.WithOpName("b"), 1.f, {.trainable = false});
  const GraphVariable c(scope.NewSubScope("s").WithOpName("c"), 1.f);
  EXPECT_THAT(NamesOf(GlobalVariables(scope)), ElementsAre("a", "b", "s/c"));
  EXPECT_THAT(NamesOf(TrainableVariables(scope)), ElementsAre("a", "s/c"));
}

TEST(GraphVariableTest, InitialValuesOfUnknownShapeAreErrors) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), Output(ops::Placeholder(scope, DataType::kFloat)));
  EXPECT_FALSE(w.ref().IsSet());
  EXPECT_THAT(scope.status().message(), HasSubstr("variable 'w'"));
}

TEST(OptimizerTest, GradientDescentFollowsItsFormula) {
  EXPECT_THAT(Descend(GradientDescentOptimizer(0.25f), 2),
              ElementsAre(testing::FloatEq(0.75f), testing::FloatEq(0.5625f)));
}

TEST(OptimizerTest, RatesMayBeAnyNumberAndVariablesOfAnyType) {
  EXPECT_THAT(Descend(GradientDescentOptimizer(0.25), 1), ElementsAre(testing::FloatEq(0.75f)));
  EXPECT_THAT(Descend<double>(GradientDescentOptimizer(1), 1), ElementsAre(0.0));
  EXPECT_THAT(Descend<double>(AdamOptimizer(0.5f), 1), ElementsAre(testing::DoubleNear(0.5, 1e-6)));
}

TEST(OptimizerTest, MomentumFollowsItsFormula) {
  for (const bool nesterov : {false, true}) {
    double w = 1, a = 0;
    std::vector<float> expected;
    for (int i = 0; i < 4; ++i) {
      const double g = w;
      a = 0.9 * a + g;
      w -= 0.1 * (nesterov ? g + 0.9 * a : a);
      expected.push_back(static_cast<float>(w));
    }
    const auto got = Descend(MomentumOptimizer(0.1f, 0.9f, {.use_nesterov = nesterov}), 4);
    EXPECT_THAT(got, testing::Pointwise(testing::FloatNear(1e-6f), expected)) << "nesterov: " << nesterov;
  }
}

TEST(OptimizerTest, AdamFollowsItsFormula) {
  double w = 1, m = 0, v = 0;
  std::vector<float> expected;
  for (int t = 1; t <= 5; ++t) {
    const double g = w;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    w -= 0.1 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)) * m / (std::sqrt(v) + 1e-8);
    expected.push_back(static_cast<float>(w));
  }
  EXPECT_THAT(Descend(AdamOptimizer(0.1f), 5), testing::Pointwise(testing::FloatNear(2e-5f), expected));
}

// The result of `steps` steps of a formula for w = 1 when its gradient is w; the slots have the given initial
// values.
template <typename Formula>
std::vector<float> Expected(int steps, double a, double b, Formula formula) {
  double w = 1;
  std::vector<float> values;
  for (int i = 0; i < steps; ++i) {
    formula(&w, &a, &b);
    values.push_back(static_cast<float>(w));
  }
  return values;
}

TEST(OptimizerTest, AdaptiveOptimizersFollowTheirFormulas) {
  const auto near = [](const std::vector<float>& values) {
    return testing::Pointwise(testing::FloatNear(1e-5f), values);
  };
  EXPECT_THAT(Descend(AdagradOptimizer(0.1f), 4), near(Expected(4, 0.1, 0, [](double* w, double* a, double*) {
                *a += *w * *w;
                *w -= 0.1 * *w / std::sqrt(*a);
              })));
  EXPECT_THAT(Descend(AdadeltaOptimizer(1.0f, {.rho = 0.9f, .epsilon = 1e-2f}), 4),
              near(Expected(4, 0, 0, [](double* w, double* a, double* d) {
                *a = 0.9 * *a + 0.1 * *w * *w;
                const double u = std::sqrt(*d + 1e-2) / std::sqrt(*a + 1e-2) * *w;
                *d = 0.9 * *d + 0.1 * u * u;
                *w -= u;
              })));
  EXPECT_THAT(Descend(RmsPropOptimizer(0.1f, {.momentum = 0.5f}), 4),
              near(Expected(4, 1, 0, [](double* w, double* s, double* m) {
                *s = 0.9 * *s + 0.1 * *w * *w;
                *m = 0.5 * *m + 0.1 * *w / std::sqrt(*s + 1e-10);
                *w -= *m;
              })));
  EXPECT_THAT(Descend(FtrlOptimizer(0.5f, {.l1_regularization_strength = 0.1f}), 4),
              near(Expected(4, 0.1, 0, [](double* w, double* a, double* z) {
                const double g = *w, sum = *a + g * g;
                *z += g - (std::sqrt(sum) - std::sqrt(*a)) / 0.5 * *w;
                *w = std::abs(*z) > 0.1 ? ((*z > 0 ? 0.1 : -0.1) - *z) / (std::sqrt(sum) / 0.5) : 0;
                *a = sum;
              })));
}

TEST(OptimizerTest, SlotsAreNamedAsTensorFlowDoes) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("W"), {1.f, 2.f});
  EXPECT_EQ(Scope::NameOf(RmsPropOptimizer(0.1f).Minimize(scope, ops::L2Loss(scope, w))), "RMSProp");
  EXPECT_EQ(Scope::NameOf(FtrlOptimizer(0.1f).Minimize(scope, ops::L2Loss(scope, w))), "Ftrl");
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_THAT(NamesOf(GlobalVariables(scope)),
              UnorderedElementsAre("W", "W/RMSProp", "W/RMSProp_1", "W/Ftrl", "W/Ftrl_1"));
  EXPECT_TRUE(scope.FindOperation("RMSProp/update_W/ApplyRMSProp").ok());
}

TEST(OptimizerTest, AdamNamesItsSlotsAndPowersAsTensorFlowDoes) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("W"), {1.f, 2.f});
  const Operation train = AdamOptimizer().Minimize(scope, ops::L2Loss(scope, w));
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(Scope::NameOf(train), "Adam");
  EXPECT_THAT(NamesOf(GlobalVariables(scope)),
              UnorderedElementsAre("W", "W/Adam", "W/Adam_1", "beta1_power", "beta2_power"));
  EXPECT_THAT(NamesOf(TrainableVariables(scope)), ElementsAre("W"));
  EXPECT_TRUE(scope.FindOperation("Adam/update_W/ApplyAdam").ok());
}

TEST(OptimizerTest, EveryUpdateWaitsForAllGradients) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable a(scope.WithOpName("a"), 2.f);
  const GraphVariable b(scope.WithOpName("b"), 3.f);
  const auto gradients = GradientDescentOptimizer(1.f).ComputeGradients(scope, ops::Mul(scope, a, b));
  GradientDescentOptimizer(1.f).ApplyGradients(scope, gradients);
  ASSERT_TRUE(scope.ok()) << scope.status();
  const auto ready = scope.FindOperation("GradientDescent/gradients_ready");
  ASSERT_TRUE(ready.ok());
  EXPECT_EQ(ready->node->control_in_edges().size(), 2u);
  for (const char* name : {"a", "b"}) {
    const auto update = scope.FindOperation(StrCat("GradientDescent/update_", name, "/ApplyGradientDescent"));
    ASSERT_TRUE(update.ok());
    ASSERT_EQ(update->node->control_in_edges().size(), 1u);
    EXPECT_EQ(update->node->control_in_edges()[0]->src, ready->node);
  }
}

TEST(OptimizerTest, TheRateMayBeFedAtEachStep) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), 1.f);
  const Output rate = ops::Placeholder(scope, DataType::kFloat);
  const Operation step = GradientDescentOptimizer(rate).Minimize(scope, ops::Mul(scope, w, 1.f));
  const Operation init = GlobalVariablesInitializer(scope);
  const ClientSession session(scope);
  ASSERT_TRUE(session.Run({}, {}, {init}, nullptr).ok()) << scope.status();
  ASSERT_TRUE(session.Run({{rate, 0.5f}}, {}, {step}, nullptr).ok());
  ASSERT_TRUE(session.Run({{rate, 0.25f}}, {}, {step}, nullptr).ok());
  std::vector<Tensor> outputs;
  ASSERT_TRUE(session.Run({w}, &outputs).ok());
  EXPECT_EQ(outputs[0].scalar<float>(), 0.25f);
}

TEST(OptimizerTest, WhatCannotBeMinimisedIsAnError) {
  const Scope none = Scope::NewRootScope();
  EXPECT_FALSE(AdamOptimizer().Minimize(none, ops::Const(none, 1.f)).IsSet());
  EXPECT_THAT(none.status().message(), HasSubstr("no variables to optimize"));

  const Scope apart = Scope::NewRootScope();
  const GraphVariable w(apart, 1.f);
  EXPECT_FALSE(AdamOptimizer().Minimize(apart, ops::Const(apart, 1.f)).IsSet());
  EXPECT_THAT(apart.status().message(), HasSubstr("no gradients provided for any variable"));

  const Scope rate = Scope::NewRootScope();
  const GraphVariable v(rate, 1.f);
  EXPECT_FALSE(GradientDescentOptimizer("fast").Minimize(rate, v).IsSet());
  EXPECT_THAT(rate.status().message(), HasSubstr("learning_rate"));
}

TEST(OptimizerTest, LinearRegressionReachesTheClosedForm) {
  // Mean x 2, mean y 4.96, Sxy 19.1, Sxx 10: slope 1.91, intercept 4.96 - 2 * 1.91 = 1.14.
  const Scope scope = Scope::NewRootScope();
  const GraphVariable slope(scope.WithOpName("slope"), 0.f);
  const GraphVariable intercept(scope.WithOpName("intercept"), 0.f);
  const Output x = ops::Const(scope, {0.f, 1.f, 2.f, 3.f, 4.f});
  const Output y = ops::Const(scope, {1.f, 3.2f, 4.9f, 7.1f, 8.6f});
  const Output fit = ops::Add(scope, ops::Mul(scope, x, slope).z, intercept);
  const Output loss = ops::Mean(scope, ops::Square(scope, ops::Sub(scope, fit, y).z).y, 0);
  const Operation step = GradientDescentOptimizer(0.1f).Minimize(scope, loss);
  const Operation init = GlobalVariablesInitializer(scope);
  const ClientSession session(scope);
  ASSERT_TRUE(session.Run({}, {}, {init}, nullptr).ok()) << scope.status();
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(session.Run({}, {}, {step}, nullptr).ok());
  std::vector<Tensor> outputs;
  ASSERT_TRUE(session.Run({slope, intercept}, &outputs).ok());
  EXPECT_NEAR(outputs[0].scalar<float>(), 1.91, 1e-4);
  EXPECT_NEAR(outputs[1].scalar<float>(), 1.14, 1e-4);
}

// The table after some steps on the squares of the rows that are looked up, one of them twice.
std::vector<float> TrainTable(const Optimizer& optimizer, const std::vector<int32_t>& ids, bool resource,
                              bool by_rows) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable table(scope.WithOpName("table"), {{1.f, 2.f}, {-1.f, 0.5f}, {3.f, -2.f}},
                            {.resource = resource});
  const Output indices = ops::Const(scope, Tensor::Vector(ids));
  const Output rows = resource ? Output(ops::ResourceGather(scope, table.ref(), indices, DataType::kFloat))
                               : Output(ops::Gather(scope, table, indices));
  const Output loss = ops::Sum(scope, ops::Square(scope, rows).y, {0, 1});
  std::vector<GradientAndVariable> gradients = optimizer.ComputeGradients(scope, loss);
  EXPECT_EQ(gradients.size(), 1U) << scope.status();
  EXPECT_TRUE(gradients[0].gradient.IsSlices());
  if (!by_rows) {
    std::vector<Output> dense;
    EXPECT_TRUE(AddSymbolicGradients(scope, {loss}, {table.ref()}, &dense).ok()) << scope.status();
    gradients[0].gradient = dense[0];
  }
  const Operation step = optimizer.ApplyGradients(scope, gradients);
  const Operation init = GlobalVariablesInitializer(scope);
  const ClientSession session(scope);
  EXPECT_TRUE(session.Run({}, {}, {init}, nullptr).ok()) << scope.status();
  for (int i = 0; i < 3; ++i) {
    const Status status = session.Run({}, {}, {step}, nullptr);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::vector<Tensor> out;
  EXPECT_TRUE(session.Run({table}, &out).ok());
  if (out.empty()) return {};
  return {out[0].data<float>(), out[0].data<float>() + out[0].num_elements()};
}

TEST(OptimizerTest, RowsAreUpdatedAsWholeVariablesAre) {
  const GradientDescentOptimizer descent(0.1f);
  const MomentumOptimizer momentum(0.1f, 0.9f, {.use_nesterov = true});
  const AdamOptimizer adam(0.1f);
  const AdagradOptimizer adagrad(0.1f);
  const AdadeltaOptimizer adadelta(0.1f);
  const RmsPropOptimizer rms_prop(0.1f, {.momentum = 0.5f});
  const FtrlOptimizer ftrl(0.1f, {.l1_regularization_strength = 0.01f});
  const std::vector<const Optimizer*> all = {&descent,  &momentum, &adam, &adagrad,
                                             &adadelta, &rms_prop, &ftrl};
  for (size_t i = 0; i < all.size(); ++i) {
    for (const bool resource : {false, true}) {
      const std::vector<int32_t> every_row = {0, 2, 1, 2};
      const auto rows = TrainTable(*all[i], every_row, resource, true);
      const auto whole = TrainTable(*all[i], every_row, resource, false);
      EXPECT_THAT(rows, testing::Pointwise(testing::FloatNear(1e-5f), whole)) << i << resource;
    }
  }
}

TEST(OptimizerTest, OtherRowsStayButForTheMomentsOfAdam) {
  const std::vector<int32_t> some = {2, 0, 2};
  for (const bool resource : {false, true}) {
    const auto rows = TrainTable(MomentumOptimizer(0.1f, 0.9f), some, resource, true);
    EXPECT_EQ(rows[2], -1.f);
    EXPECT_EQ(rows[3], 0.5f);
    EXPECT_NE(rows[0], 1.f);
    const auto adam = TrainTable(AdamOptimizer(0.1f), some, resource, true);
    EXPECT_THAT(adam, testing::Pointwise(testing::FloatNear(1e-5f),
                                         TrainTable(AdamOptimizer(0.1f), some, resource, false)));
  }
}

TEST(GraphVariableTest, ResourceVariablesAreNamedAsInTensorFlow) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.NewSubScope("layer").WithOpName("W"), {{1.f, 2.f}}, {.resource = true});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(w.name(), "layer/W");
  EXPECT_TRUE(w.is_resource());
  EXPECT_EQ(w.dtype(), DataType::kFloat);
  EXPECT_EQ(w.ref().node->Attr<std::string>("shared_name").value_or(""), "layer/W");
  EXPECT_EQ(Scope::NameOf(w.value()), "layer/W/Read/ReadVariableOp");
  EXPECT_TRUE(scope.FindOperation("layer/W/IsInitialized/VarIsInitializedOp").ok());
}

}  // namespace
}  // namespace millrace
