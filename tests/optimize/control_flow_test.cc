// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Conditions and loops with all passes and without any: the same results, the same errors, fewer nodes.
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/client_session.h"
#include "millrace/control_flow.h"
#include "millrace/ops.h"
#include "millrace/scope.h"
#include "tensor/testing.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Outputs = std::vector<Output>;

constexpr DataType kInt = DataType::kInt32;
constexpr DataType kFloat = DataType::kFloat;

class OptimizedControlFlowTest : public ::testing::Test {
 protected:
  struct Result {
    Status status;
    Tensor value;
    std::map<std::string, int> ops;  // of the nodes of the step
    std::string text;                // the nodes, with their inputs
  };

  Result Run(const ClientSession::Feeds& feeds, const Output& fetch, const std::set<std::string>& disabled) {
    SessionOptions options;
    options.disabled_passes = disabled;
    const ClientSession session(scope_, options);
    RunOptions run;
    run.output_partition_graphs = true;
    RunMetadata metadata;
    std::vector<Tensor> outputs;
    Result result;
    result.status = session.Run(run, feeds, {fetch}, {}, &outputs, &metadata);
    if (result.status.ok()) result.value = outputs[0];
    for (const std::string& bytes : metadata.partition_graphs) {
      tensorflow::GraphDef def;
      EXPECT_TRUE(def.ParseFromString(bytes));
      for (const auto& node : def.node()) {
        ++result.ops[node.op()];
        result.text += "\n" + node.name() + " = " + node.op();
        for (const std::string& input : node.input()) result.text += " " + input;
      }
    }
    return result;
  }
  // The results with all passes, compared with those without passes.
  Result RunBoth(const ClientSession::Feeds& feeds, const Output& fetch) {
    EXPECT_TRUE(scope_.ok()) << scope_.status();
    const Result plain = Run(feeds, fetch, {"all"});
    Result optimized = Run(feeds, fetch, {});
    EXPECT_EQ(plain.status.code(), optimized.status.code()) << plain.status << optimized.status;
    if (plain.status.ok() && optimized.status.ok()) ExpectTensorEqual(plain.value, optimized.value);
    return optimized;
  }
  Output Fed(const char* name, DataType type,
             const PartialShape& shape = PartialShape(std::vector<int64_t>{})) {
    return ops::Placeholder(scope_.WithOpName(name), type, ops::Placeholder::Shape(shape));
  }
  // for (i = 0; i < n; ++i) x = body(x)
  Output Repeat(const Output& n, const Output& x,
                const std::function<Output(const Scope&, const Output&)>& body) {
    const Outputs out = While(
        scope_, {0, x}, [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], n)); },
        [&](const Scope& s, const Outputs& v) -> Outputs {
          return {ops::Add(s, v[0], 1), body(s, v[1])};
        });
    return out.size() == 2 ? out[1] : Output();
  }
  // Checks the number of nodes of an op after the passes, unless passes are off or nodes are spread over
  // devices.
  static void ExpectNodes(const Result& result, const std::string& op, int count) {
    if (PassesAreOff() || NodesAreSpread()) return;
    const auto it = result.ops.find(op);
    EXPECT_EQ(it == result.ops.end() ? 0 : it->second, count) << op << result.text;
  }

  Scope scope_ = Scope::NewRootScope();
};

TEST_F(OptimizedControlFlowTest, LoopsOfAnyNumberOfTripsGiveTheSame) {
  const Output n = Fed("n", kInt);
  const Output x = Fed("x", kFloat, PartialShape({3}));
  const Output a = Fed("a", kFloat, PartialShape({3}));
  const Output y = Repeat(n, x, [&](const Scope& s, const Output& v) {
    return Output(ops::Add(s, v, ops::Mul(s, ops::Exp(s, a), ops::Neg(s, a))));
  });
  const float inf = std::numeric_limits<float>::infinity();
  for (const int32_t trips : {0, 1, 7, -2}) {
    for (const float odd : {1.0f, inf, std::numeric_limits<float>::quiet_NaN()}) {
      const auto result = RunBoth(
          {{n, trips}, {x, Tensor::Vector<float>({1, 2, 3})}, {a, Tensor::Vector<float>({0, odd, -1})}}, y);
      EXPECT_TRUE(result.status.ok()) << result.status;
    }
  }
}

TEST_F(OptimizedControlFlowTest, AnErrorInTheBodyComesWithTheFirstTripOnly) {
  const Output n = Fed("n", kInt);
  const Output x = Fed("x", kInt);
  const Output zero = Fed("zero", kInt);
  const Output y = Repeat(n, x, [&](const Scope& s, const Output& v) {
    return Output(ops::Add(s, v, ops::FloorDiv(s, x, zero)));
  });
  const ClientSession::Feeds none = {{n, 0}, {x, 5}, {zero, 0}};
  const ClientSession::Feeds one = {{n, 1}, {x, 5}, {zero, 0}};
  EXPECT_EQ(RunBoth(none, y).value.scalar<int32_t>(), 5);
  const auto failed = RunBoth(one, y);
  EXPECT_TRUE(errors::IsInvalidArgument(failed.status)) << failed.status;
  EXPECT_THAT(failed.status.message(), HasSubstr("division by zero"));
}

TEST_F(OptimizedControlFlowTest, ConstantsThatDivideByZeroDoSoOnlyWhereTheyRun) {
  const Output p = Fed("p", DataType::kBool);
  const Outputs y = Cond(
      scope_, p, [](const Scope& s) -> Outputs { return {ops::Add(s, 2, 3)}; },
      [](const Scope& s) -> Outputs { return {ops::FloorDiv(s, 1, 0)}; });
  ASSERT_EQ(y.size(), 1u);
  const auto result = RunBoth({{p, true}}, y[0]);
  EXPECT_EQ(result.value.scalar<int32_t>(), 5);
  ExpectNodes(result, "Add", 0);
  EXPECT_TRUE(errors::IsInvalidArgument(RunBoth({{p, false}}, y[0]).status));
}

TEST_F(OptimizedControlFlowTest, WhatIsTheSameInEachIterationIsOutsideOfTheLoop) {
  const Output n = Fed("n", kInt);
  const Output x = Fed("x", kFloat, PartialShape({2, 2}));
  const Output a = Fed("a", kFloat, PartialShape({2, 2}));
  const Output y = Repeat(
      n, x, [&](const Scope& s, const Output& v) { return Output(ops::Add(s, v, ops::MatMul(s, a, a))); });
  const Tensor m = Tensor::From<float>({1, 2, 3, 4}, {2, 2});
  const auto result = RunBoth({{n, 4}, {x, m}, {a, m}}, y);
  // a entered the loop before, now a·a does.
  ExpectNodes(result, "MatMul", 1);
  const auto without = Run({{n, 4}, {x, m}, {a, m}}, y, {"loop_invariants"});
  ExpectTensorEqual(without.value, result.value);
}

TEST_F(OptimizedControlFlowTest, ConstantsAreFoldedWhereTheyEnter) {
  const Output n = Fed("n", kInt);
  const Output x = Fed("x", kInt);
  const Output two = ops::Const(scope_, 2);
  const Output three = ops::Const(scope_, 3);
  const Output y = Repeat(
      n, x, [&](const Scope& s, const Output& v) { return Output(ops::Add(s, v, ops::Mul(s, two, three))); });
  const auto result = RunBoth({{n, 4}, {x, 1}}, y);
  EXPECT_EQ(result.value.scalar<int32_t>(), 25);
  ExpectNodes(result, "Mul", 0);
}

TEST_F(OptimizedControlFlowTest, ALoopOnABranchThatIsNeverTakenGoesWithIt) {
  const Output x = Fed("x", kInt);
  const Output p = ops::Less(scope_, 1, 2);
  const Outputs y = Cond(
      scope_, p, [&](const Scope& s) -> Outputs { return {ops::Add(s, x, 1)}; },
      [&](const Scope& s) -> Outputs {
        return While(
            s, {x}, [](const Scope& t, const Outputs& v) { return Output(ops::Less(t, v[0], 100)); },
            [](const Scope& t, const Outputs& v) -> Outputs { return {ops::Mul(t, v[0], v[0])}; });
      });
  ASSERT_EQ(y.size(), 1u);
  const auto result = RunBoth({{x, 4}}, y[0]);
  EXPECT_EQ(result.value.scalar<int32_t>(), 5);
  for (const char* op : {"Switch", "Merge", "Enter", "Exit", "Mul"}) ExpectNodes(result, op, 0);
}

TEST_F(OptimizedControlFlowTest, ALoopThatIsNeverEnteredGoes) {
  const Output x = Fed("x", kInt);
  const Outputs y = While(
      scope_, {x}, [](const Scope& s, const Outputs&) { return Output(ops::Less(s, 2, 1)); },
      [](const Scope& s, const Outputs& v) -> Outputs { return {ops::Mul(s, v[0], v[0])}; });
  ASSERT_EQ(y.size(), 1u);
  const auto result = RunBoth({{x, 4}}, y[0]);
  EXPECT_EQ(result.value.scalar<int32_t>(), 4);
  for (const char* op : {"Switch", "Enter", "Exit", "Mul", "Less"}) ExpectNodes(result, op, 0);
}

TEST_F(OptimizedControlFlowTest, OnABranchThePredicateIsKnown) {
  const Output x = Fed("x", kInt);
  const Output p = Fed("p", DataType::kBool);
  const Outputs y = Cond(
      scope_, p,
      [&](const Scope& s) -> Outputs {
        return Cond(
            s, p, [&](const Scope& t) -> Outputs { return {ops::Add(t, x, 1)}; },
            [&](const Scope& t) -> Outputs { return {ops::Mul(t, x, x)}; });
      },
      [&](const Scope& s) -> Outputs { return {ops::Neg(s, x)}; });
  ASSERT_EQ(y.size(), 1u);
  const auto result = RunBoth({{x, 4}, {p, true}}, y[0]);
  EXPECT_EQ(result.value.scalar<int32_t>(), 5);
  EXPECT_EQ(RunBoth({{x, 4}, {p, false}}, y[0]).value.scalar<int32_t>(), -4);
  ExpectNodes(result, "Mul", 0);
}

// (a + c) * 12 + (c + a) * 2 becomes (a + c) * 14.
TEST_F(OptimizedControlFlowTest, EqualSumsWithConstantFactorsAreOneProduct) {
  const Output a = Fed("a", kInt);
  const Output c = Fed("c", kInt);
  const Output y = ops::Add(scope_, ops::Mul(scope_, ops::Add(scope_, a, c), 12),
                            ops::Mul(scope_, ops::Add(scope_, c, a), 2));
  const auto result = RunBoth({{a, 3}, {c, 4}}, y);
  EXPECT_EQ(result.value.scalar<int32_t>(), 98);
  const auto single = Run({{a, 3}, {c, 4}}, y, {"elementwise"});
  ExpectNodes(single, "Mul", 1);
  ExpectNodes(single, "Add", 1);
}

// 3 + 1 - 3 * 1 becomes 1.
TEST_F(OptimizedControlFlowTest, WhatOnlyHasConstantsIsOne) {
  const Output y = ops::Sub(scope_, ops::Add(scope_, 3, 1), ops::Mul(scope_, 3, 1));
  const auto result = RunBoth({}, y);
  EXPECT_EQ(result.value.scalar<int32_t>(), 1);
  ExpectNodes(result, "Const", 1);
}

}  // namespace
}  // namespace millrace
