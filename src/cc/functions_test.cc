// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/client_session.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Outputs = std::vector<Output>;

// (a, b) -> (a b, a + b + outside).
GraphFunction ProductAndSum(const Scope& scope, const Output& outside) {
  return MakeGraphFunction(
      scope, "pair", {DataType::kFloat, DataType::kFloat}, {TensorShape(), TensorShape()},
      [&](const Scope& s, const Outputs& args) -> Outputs {
        return {ops::Mul(s, args[0], args[1]), ops::AddN(s, {args[0], args[1], outside})};
      });
}

class FunctionsTest : public ::testing::Test {
 protected:
  std::vector<float> Run(const ClientSession::Feeds& feeds, const Outputs& fetches) const {
    std::vector<Tensor> results;
    const Status status = ClientSession(scope_).Run(feeds, fetches, &results);
    EXPECT_EQ(status, Status());
    std::vector<float> values;
    for (const Tensor& result : results) values.push_back(result.scalar<float>());
    return values;
  }
  Output Scalar(const char* name) const {
    return ops::Placeholder(scope_.WithOpName(name), DataType::kFloat,
                            ops::Placeholder::Shape(TensorShape()));
  }

  const Scope scope_ = Scope::NewRootScope();
};

TEST_F(FunctionsTest, CallsGiveTheResultsInOrderWithTheirShapes) {
  const Output x = Scalar("x");
  const GraphFunction pair = ProductAndSum(scope_, x);
  EXPECT_FALSE(pair.is_stateful);
  EXPECT_THAT(pair.captured, ElementsAre(x));
  const Outputs first = CallFunction(scope_.WithOpName("first"), pair, {x, 3.f});
  ASSERT_EQ(first.size(), 2u);
  const Outputs second = CallFunction(scope_, pair, {first[0], first[1]});
  EXPECT_EQ(Scope::NameOf(first[1]), "first:1");
  EXPECT_EQ(scope_.ShapeOf(second[0]), PartialShape(TensorShape()));
  // 6 and 7 of (2, 3), then 42 and 15 of (6, 7).
  EXPECT_THAT(Run({{x, 2.f}}, {first[0], first[1], second[0], second[1]}), ElementsAre(6, 7, 42, 15));
}

TEST_F(FunctionsTest, CallsHaveGradients) {
  const Output x = Scalar("x"), y = Scalar("y");
  const Outputs results = CallFunction(scope_, ProductAndSum(scope_, x), {x, y});
  Outputs grads;
  ASSERT_EQ(AddSymbolicGradients(scope_, {results[0], results[1]}, {x, y}, &grads), Status());
  // x y + x + y + x, for x: y + 2; for y: x + 1.
  EXPECT_THAT(Run({{x, 3.f}, {y, 5.f}}, grads), ElementsAre(7, 4));
}

TEST_F(FunctionsTest, AFunctionCallsAnother) {
  const Output x = Scalar("x");
  const GraphFunction pair = ProductAndSum(scope_, x);
  const GraphFunction outer = MakeGraphFunction(scope_, "outer", {DataType::kFloat}, {},
                                                [&](const Scope& s, const Outputs& args) -> Outputs {
                                                  return CallFunction(s, pair, {args[0], 10.f});
                                                });
  const Outputs results = CallFunction(scope_, outer, {4.f});
  EXPECT_THAT(Run({{x, 1.f}}, results), ElementsAre(40, 15));
}

TEST_F(FunctionsTest, CallsOfAFunctionWithStateAreNotMerged) {
  const GraphFunction random =
      MakeGraphFunction(scope_, "random", {}, {}, [](const Scope& s, const Outputs&) -> Outputs {
        return {
            ops::RandomUniform(s, ops::Const(s, Tensor::Vector(std::vector<int32_t>())), DataType::kFloat)};
      });
  EXPECT_TRUE(random.is_stateful);
  const std::vector<float> values =
      Run({}, {CallFunction(scope_, random, {})[0], CallFunction(scope_, random, {})[0]});
  ASSERT_EQ(values.size(), 2u);
  EXPECT_NE(values[0], values[1]);
}

TEST_F(FunctionsTest, WrongCallsAreErrorsAndGiveUnsetResults) {
  const auto expect_error = [](const Scope& scope, const Outputs& results, const char* text) {
    EXPECT_TRUE(errors::IsInvalidArgument(scope.status())) << scope.status();
    EXPECT_THAT(std::string(scope.status().message()), HasSubstr(text));
    EXPECT_THAT(results, ::testing::Each(Output()));
  };
  for (const auto& [arguments, text] :
       std::vector<std::pair<std::vector<Input>, const char*>>{{{1.f}, "takes 2 arguments, got 1"},
                                                               {{1.f, 2.f, 3.f}, "takes 2 arguments, got 3"},
                                                               {{1.f, 2}, "Argument 1 of the function 'pair"},
                                                               {{1.f, Output()}, "is float, got invalid"}}) {
    const Scope scope = Scope::NewRootScope();
    const GraphFunction pair = ProductAndSum(scope, ops::Const(scope, 1.f));
    const Outputs results = CallFunction(scope, pair, arguments);
    EXPECT_EQ(results.size(), 2u);
    expect_error(scope, results, text);
  }
  {
    const Scope scope = Scope::NewRootScope();
    expect_error(scope, CallFunction(scope, GraphFunction(), {}), "the function is unset");
  }
  {
    const Scope scope = Scope::NewRootScope();
    MakeGraphFunction(scope, "f", {DataType::kFloat}, {}, nullptr);
    expect_error(scope, {}, "'f' has no body");
  }
  {
    const Scope scope = Scope::NewRootScope();
    MakeGraphFunction(scope, "f", {DataType::kFloat}, {{}, {}},
                      [](const Scope&, const Outputs& args) { return args; });
    expect_error(scope, {}, "1 types of arguments and 2 shapes");
  }
  {
    const Scope scope = Scope::NewRootScope();
    const GraphFunction wrong = MakeGraphFunction(scope, "f", {DataType::kFloat}, {{2}},
                                                  [](const Scope& s, const Outputs& args) -> Outputs {
                                                    return {ops::MatMul(s, args[0], args[0]), args[0]};
                                                  });
    EXPECT_FALSE(wrong.IsSet());
    const Outputs results = CallFunction(scope, wrong, {1.f});
    EXPECT_EQ(results.size(), 2u) << "whoever takes one finds it unset";
    expect_error(scope, results, "in function 'f'");
  }
}

}  // namespace
}  // namespace millrace
