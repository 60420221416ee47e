// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The results of loops and branches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/session/loop_testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class WhileTest : public LoopTest {};
INSTANTIATE_TEST_SUITE_P(Threads, WhileTest, ::testing::Values(1, 2, 8));

Output Below(const Scope& s, const Output& i, const Input& limit) { return ops::Less(s, i, limit); }
Output Next(const Scope& s, const Output& i) { return ops::Add(s, i, 1); }

TEST_P(WhileTest, ManyVariablesOfDifferentTypes) {
  const Output n = Input("n", DataType::kInt32);
  const Outputs out = While(
      scope_, {0, 1.0, "", true}, [&](const Scope& s, const Outputs& v) { return Below(s, v[0], n); },
      [](const Scope& s, const Outputs& v) -> Outputs {
        return {Next(s, v[0]), ops::Mul(s, v[1], 2.0), ops::Add(s, v[2], "x"), ops::LogicalNot(s, v[3])};
      });
  for (const int trips : {0, 1, 5}) {
    const auto r = Run({{n, trips}}, out);
    EXPECT_EQ(r[0].scalar<int32_t>(), trips);
    EXPECT_EQ(r[1].scalar<double>(), std::pow(2, trips));
    EXPECT_EQ(r[2].scalar<std::string>(), std::string(static_cast<size_t>(trips), 'x'));
    EXPECT_EQ(r[3].scalar<bool>(), trips % 2 == 0);
  }
}

TEST_P(WhileTest, TripCountsDependOnData) {
  // The sum of a geometric series up to terms below a bound.
  const Output q = Input("q");
  const Outputs out = While(
      scope_, {0, 0.0, 1.0},
      [](const Scope& s, const Outputs& v) { return Output(ops::Greater(s, v[2], 1e-9)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        return {Next(s, v[0]), ops::Add(s, v[1], v[2]), ops::Mul(s, v[2], q)};
      });
  EXPECT_NEAR(RunScalar({{q, 0.5}}, out[1]), 2.0, 1e-8);
  EXPECT_NEAR(RunScalar({{q, 0.9}}, out[1]), 10.0, 1e-7);
  EXPECT_EQ(Run({{q, 0.5}}, {out[0]})[0].scalar<int32_t>(), 30);
}

TEST_P(WhileTest, LoopsNest) {
  // A nested loop: the sum over i < n of the sum over j < i of i * j.
  const Output n = Input("n", DataType::kInt32);
  const Outputs out = While(
      scope_, {0, 0}, [&](const Scope& s, const Outputs& v) { return Below(s, v[0], n); },
      [](const Scope& s, const Outputs& v) -> Outputs {
        const Outputs inner = While(
            s, {0, v[1]}, [&](const Scope& t, const Outputs& w) { return Below(t, w[0], v[0]); },
            [&](const Scope& t, const Outputs& w) -> Outputs {
              return {Next(t, w[0]), ops::Add(t, w[1], ops::Mul(t, v[0], w[0]))};
            });
        return {Next(s, v[0]), inner[1]};
      });
  int want = 0;
  for (int i = 0; i < 7; ++i) {
    for (int j = 0; j < i; ++j) want += i * j;
  }
  EXPECT_EQ(Run({{n, 7}}, {out[1]})[0].scalar<int32_t>(), want);
  EXPECT_EQ(Run({{n, 0}}, {out[1]})[0].scalar<int32_t>(), 0);
}

TEST_P(WhileTest, BranchesInLoopsAndLoopsInBranches) {
  // The length of the Collatz sequence; 0 if it is not requested.
  const Output begin = Input("begin", DataType::kInt32);
  const Output asked = Input("asked", DataType::kBool);
  const Outputs out = Cond(
      scope_, asked,
      [&](const Scope& t) -> Outputs {
        return {While(
            t, {begin, 0}, [](const Scope& s, const Outputs& v) { return Output(ops::Greater(s, v[0], 1)); },
            [](const Scope& s, const Outputs& v) -> Outputs {
              const Output odd = ops::Equal(s, ops::FloorMod(s, v[0], 2), 1);
              const Outputs next = Cond(
                  s, odd, [&](const Scope& u) -> Outputs { return {ops::Add(u, ops::Mul(u, v[0], 3), 1)}; },
                  [&](const Scope& u) -> Outputs { return {ops::FloorDiv(u, v[0], 2)}; });
              return {next[0], Next(s, v[1])};
            })[1]};
      },
      [](const Scope& f) -> Outputs { return {ops::Const(f, 0)}; });
  EXPECT_EQ(Run({{begin, 27}, {asked, true}}, out)[0].scalar<int32_t>(), 111);
  EXPECT_EQ(Run({{begin, 1}, {asked, true}}, out)[0].scalar<int32_t>(), 0);
  EXPECT_EQ(Run({{begin, 27}, {asked, false}}, out)[0].scalar<int32_t>(), 0);
}

TEST_P(WhileTest, MaximumIterationsEndALoop) {
  const Output n = Input("n", DataType::kInt32);
  const Outputs out = While(
      scope_, {0.5}, [](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], 100.0)); },
      [](const Scope& s, const Outputs& v) -> Outputs { return {ops::Add(s, v[0], 1.0)}; },
      {.maximum_iterations = n});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(RunScalar({{n, 3}}, out[0]), 3.5);
  EXPECT_EQ(RunScalar({{n, 0}}, out[0]), 0.5);
  EXPECT_EQ(RunScalar({{n, 1000}}, out[0]), 100.5);
}

TEST_P(WhileTest, ShapesMayGrowUnderAnInvariant) {
  const Output n = Input("n", DataType::kInt32);
  const Outputs out = While(
      scope_, {0, Vec({1})}, [&](const Scope& s, const Outputs& v) { return Below(s, v[0], n); },
      [](const Scope& s, const Outputs& v) -> Outputs {
        return {Next(s, v[0]), ops::ConcatV2(s, {v[1], ops::Mul(s, v[1], 2.0)}, 0)};
      },
      {.shape_invariants = {TensorShape(), PartialShape({-1})}});
  ExpectTensorEqual(Vec({1, 2, 2, 4, 2, 4, 4, 8}), Run({{n, 3}}, {out[1]})[0]);
}

TEST_P(WhileTest, ArraysGoThroughLoops) {
  const Output n = Input("n", DataType::kInt32);
  const ops::TensorArrayV3 array(scope_, n, DataType::kDouble);
  const Outputs out = While(
      scope_, {0, array.flow}, [&](const Scope& s, const Outputs& v) { return Below(s, v[0], n); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        const Output x = ops::Cast(s, ops::Mul(s, v[0], v[0]), DataType::kDouble);
        return {Next(s, v[0]), ops::TensorArrayWriteV3(s, array.handle, v[0], x, v[1])};
      });
  const Output all =
      ops::TensorArrayGatherV3(scope_, array.handle, ops::Range(scope_, 0, n, 1), out[1], DataType::kDouble);
  ExpectTensorEqual(Vec({0, 1, 4, 9, 16}), Run({{n, 5}}, {all})[0]);
}

TEST_P(WhileTest, VariablesChangeInsideALoopInTheDeclaredOrder) {
  const Output handle = ops::VarHandleOp(scope_, DataType::kDouble, PartialShape(TensorShape()));
  const ops::AssignVariableOp init(scope_, handle, 1.0);
  const Outputs out = While(
      scope_.WithControlDependencies({init}), {0, 0.0},
      [&](const Scope& s, const Outputs& v) { return Below(s, v[0], 4); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        const Output before =
            ops::ReadVariableOp(s.WithControlDependencies({v[1]}), handle, DataType::kDouble);
        const ops::AssignAddVariableOp add(s, handle, ops::Add(s, before, 0.0));
        return {Next(s, v[0]),
                ops::ReadVariableOp(s.WithControlDependencies({add}), handle, DataType::kDouble)};
      });
  EXPECT_EQ(RunScalar({}, out[1]), 16.0);
}

TEST_P(WhileTest, OnlyTheTakenBranchRuns) {
  const Output p = Input("p", DataType::kBool);
  const Output x = Input("x");
  const Outputs out = Cond(
      scope_, p,
      [&](const Scope& s) -> Outputs {
        const ops::Assert fails(s, false, {x});
        return {ops::Identity(s.WithControlDependencies({fails}), x)};
      },
      [&](const Scope& s) -> Outputs { return {ops::Neg(s, x)}; });
  EXPECT_EQ(RunScalar({{p, false}, {x, 2.0}}, out[0]), -2.0);
  EXPECT_FALSE(TryRun({{p, true}, {x, 2.0}}, out).ok());
}

TEST_P(WhileTest, ResultsMayBeTensorsFromOutside) {
  const Output p = Input("p", DataType::kBool);
  const Output x = Input("x"), y = Input("y");
  const Outputs out = Cond(
      scope_, p, [&](const Scope&) -> Outputs { return {x}; }, [&](const Scope&) -> Outputs { return {y}; });
  EXPECT_EQ(RunScalar({{p, true}, {x, 2.0}, {y, 3.0}}, out[0]), 2.0);
  EXPECT_EQ(RunScalar({{p, false}, {x, 2.0}, {y, 3.0}}, out[0]), 3.0);
  const Outputs swapped = While(
      scope_, {0, x, y}, [](const Scope& s, const Outputs& v) { return Below(s, v[0], 3); },
      [](const Scope& s, const Outputs& v) -> Outputs {
        return {Next(s, v[0]), v[2], v[1]};
      });
  EXPECT_EQ(RunScalar({{x, 2.0}, {y, 3.0}}, swapped[1]), 3.0);
}

TEST_P(WhileTest, ErrorsInABodyNameTheNode) {
  const Output n = Input("n", DataType::kInt32);
  const Outputs out = While(
      scope_, {0}, [&](const Scope& s, const Outputs& v) { return Below(s, v[0], n); },
      [](const Scope& s, const Outputs& v) -> Outputs {
        const ops::Assert small(s.WithOpName("small"), ops::Less(s, v[0], 2), {v[0]});
        return {ops::Add(s.WithControlDependencies({small}), v[0], 1)};
      });
  const auto failed = TryRun({{n, 5}}, out);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.status().ToString(), HasSubstr("while/small"));
  EXPECT_EQ(Run({{n, 2}}, out)[0].scalar<int32_t>(), 2);
}

TEST_P(WhileTest, OneIterationAtATimeGivesTheSame) {
  for (const int64_t parallel : {1, 2, 32}) {
    const Outputs out = While(
        scope_, {0, 1.0}, [&](const Scope& s, const Outputs& v) { return Below(s, v[0], 20); },
        [](const Scope& s, const Outputs& v) -> Outputs {
          return {Next(s, v[0]), ops::Mul(s, v[1], 1.5)};
        },
        {.parallel_iterations = parallel});
    EXPECT_EQ(RunScalar({}, out[1]), std::pow(1.5, 20));
  }
}

}  // namespace
}  // namespace millrace
