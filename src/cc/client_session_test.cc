// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/client_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/gradients.h"
#include "millrace/ops.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ClientSessionTest, FeedsFetchesAndOperations) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope, DataType::kFloat);
  const Output twice = ops::Mul(scope, x, 2.f);
  const Output ref = ops::VariableV2(scope, TensorShape(), DataType::kFloat);
  const ops::Assign assign(scope, ref, 7.f);
  const ClientSession session(scope);
  std::vector<Tensor> outputs;
  Status status = session.Run({{x, {1.f, 2.f}}}, {twice, x}, {assign}, &outputs);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(outputs[0].flat<float>(), ElementsAre(2, 4));
  EXPECT_THAT(outputs[1].flat<float>(), ElementsAre(1, 2));
  status = session.Run({ref}, &outputs);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(outputs[0].scalar<float>(), 7);
}

TEST(ClientSessionTest, TheGraphMayGrowBetweenRuns) {
  const Scope scope = Scope::NewRootScope();
  const ClientSession session(scope);
  const Output a = ops::Const(scope, 3);
  std::vector<Tensor> outputs;
  ASSERT_TRUE(session.Run({a}, &outputs).ok());
  const Output b = ops::Add(scope, a, 4);
  const Status status = session.Run({b}, &outputs);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(outputs[0].scalar<int32_t>(), 7);
}

TEST(ClientSessionTest, CallablesTakeFeedsInOrder) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope, DataType::kInt32);
  const Output y = ops::Placeholder(scope, DataType::kInt32);
  const Output difference = ops::Sub(scope, x, y);
  const ClientSession session(scope);
  const auto callable = session.MakeCallable({y, x}, {difference}, {});
  ASSERT_TRUE(callable.ok()) << callable.status();
  std::vector<Tensor> outputs;
  const std::vector<Tensor> feeds = {Tensor::Scalar(1), Tensor::Scalar(10)};
  ASSERT_TRUE(session.RunCallable(*callable, feeds, &outputs).ok());
  EXPECT_EQ(outputs[0].scalar<int32_t>(), 9);
  EXPECT_TRUE(session.ReleaseCallable(*callable).ok());
  EXPECT_FALSE(session.RunCallable(*callable, feeds, &outputs).ok());
}

TEST(ClientSessionTest, ErrorsOfTheScopeAreReturnedByRun) {
  const Scope scope = Scope::NewRootScope();
  const Output a = ops::Const(scope, {1.f, 2.f});
  const ClientSession session(scope);
  const Output bad = ops::MatMul(scope.WithOpName("bad"), a, a);
  EXPECT_THAT(session.Run({a}, nullptr).message(), HasSubstr("'bad'"));
  EXPECT_FALSE(bad.IsSet());
}

TEST(ClientSessionTest, UnsetTensorsAndRaggedFeedsAreErrors) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope, DataType::kInt32);
  const ClientSession session(scope);
  EXPECT_THAT(session.Run({Output()}, nullptr).message(), HasSubstr("fetch 0 is unset"));
  EXPECT_THAT(session.Run({}, {}, {Operation()}, nullptr).message(), HasSubstr("operation 0 is unset"));
  EXPECT_THAT(session.Run({{Output(), 1}}, {x}, nullptr).message(), HasSubstr("feed 0 is unset"));
  EXPECT_THAT(session.Run({{x, {{1, 2}, {3}}}}, {x}, nullptr).message(), HasSubstr("fed to 'Placeholder'"));
}

TEST(ClientSessionTest, ATargetWithoutAServerIsAnError) {
  const Scope scope = Scope::NewRootScope();
  SessionOptions options;
  options.target = "nowhere://";
  const ClientSession session(scope, options);
  EXPECT_EQ(session.session(), nullptr);
  EXPECT_TRUE(errors::IsNotFound(session.Run({ops::Const(scope, 1)}, nullptr)));
}

TEST(SymbolicGradientsTest, DerivativesOfAPolynomial) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope, DataType::kFloat);
  const Output unrelated = ops::Const(scope, 1.f);
  const Output y = ops::Mul(scope, x, ops::Square(scope, x).y);
  std::vector<Output> first, second, weighted;
  ASSERT_TRUE(AddSymbolicGradients(scope, {y}, {x, unrelated}, &first).ok()) << scope.status();
  EXPECT_FALSE(first[1].IsSet());
  ASSERT_TRUE(AddSymbolicGradients(scope, {first[0]}, {x}, &second).ok()) << scope.status();
  ASSERT_TRUE(AddSymbolicGradients(scope, {y}, {x}, {ops::Const(scope, 10.f)}, &weighted).ok());
  const ClientSession session(scope);
  std::vector<Tensor> outputs;
  const Status status = session.Run({{x, 2.f}}, {first[0], second[0], weighted[0]}, &outputs);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_FLOAT_EQ(outputs[0].scalar<float>(), 12) << "3 x^2";
  EXPECT_FLOAT_EQ(outputs[1].scalar<float>(), 12) << "6 x";
  EXPECT_FLOAT_EQ(outputs[2].scalar<float>(), 120);
}

}  // namespace
}  // namespace millrace
