// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Gradients that are slices, through branches, loops and other ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "tests/session/loop_testing.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

class SlicesGradientTest : public LoopTest {
 protected:
  Output Gather(const Scope& scope, const Output& params, const millrace::Input& indices) {
    return ops::Gather(scope, params, indices);
  }
  // The gradient of the sum of y, which must be slices.
  IndexedSlices SlicesOf(const Output& y, const Output& x, const GradientSettings& settings = {}) {
    std::vector<GradientValue> grads;
    EXPECT_EQ(AddSymbolicGradients(scope_, {y}, {x}, settings, &grads), Status());
    if (grads.empty()) return {};
    EXPECT_TRUE(grads[0].IsSlices());
    return grads[0].slices;
  }
  // The indices of the gradient at run time.
  std::vector<int32_t> IndicesOf(const IndexedSlices& slices, const ClientSession::Feeds& feeds) {
    const Tensor indices = Run(feeds, {slices.indices})[0];
    return {indices.data<int32_t>(), indices.data<int32_t>() + indices.num_elements()};
  }
  // Repeats sum = branch(sum) or sum, the former in iterations 1 and 3 of 4.
  Output LoopWithABranch(const std::function<Output(const Scope&, const Output&)>& branch) {
    return While(
        scope_, {0, Mat({0.1, 0.2, 0.3, 0.4}, 2)},
        [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], 4)); },
        [&](const Scope& s, const Outputs& v) -> Outputs {
          const Output next = Cond(
              s, ops::Equal(s, ops::FloorMod(s, v[0], 2), 0),
              [&](const Scope& t) -> Outputs { return {ops::Identity(t, v[1])}; },
              [&](const Scope& t) -> Outputs { return {branch(t, v[1])}; })[0];
          return {ops::Add(s, v[0], 1), next};
        })[1];
  }
  const Output x_ = Input("x", TensorShape({4, 2}));
  const Tensor at_ = Mat({0.3, -0.2, 1.1, 0.7, -0.9, 0.4, 0.5, 1.3}, 4);
};
INSTANTIATE_TEST_SUITE_P(Threads, SlicesGradientTest, ::testing::Values(1, 4));

TEST_P(SlicesGradientTest, LookingUpRowsGivesTheRows) {
  const Output y = Gather(scope_, x_, Tensor::Vector<int32_t>({2, 0, 2}));
  const IndexedSlices slices = SlicesOf(y, x_);
  const auto out = Run({{x_, at_}}, {slices.values, slices.indices, slices.dense_shape});
  EXPECT_EQ(out[0].shape(), TensorShape({3, 2}));
  EXPECT_THAT(std::vector<int32_t>(out[1].data<int32_t>(), out[1].data<int32_t>() + 3), ElementsAre(2, 0, 2));
  EXPECT_EQ(out[2].data<int32_t>()[0], 4);
  CheckGradients(y, {{x_, at_}}, 2);
}

TEST_P(SlicesGradientTest, SumsAreConcatenatedAndIndicesMayHaveAnyShape) {
  const Output a = Gather(scope_, x_, Tensor::From<int32_t>({3, 1, 1, 0}, TensorShape({2, 2})));
  const Output b = Gather(scope_, ops::Neg(scope_, x_).y, Tensor::Vector<int32_t>({2}));
  const Output y = ops::Add(scope_, ops::Sum(scope_, a, {0, 1}), ops::Sum(scope_, b, {0}));
  EXPECT_THAT(IndicesOf(SlicesOf(y, x_), {{x_, at_}}), testing::UnorderedElementsAre(3, 1, 1, 0, 2));
  CheckGradients(y, {{x_, at_}}, 1);
}

TEST_P(SlicesGradientTest, ADenseContributionMakesTheSumDense) {
  const Output y = ops::Add(scope_, ops::Sum(scope_, ops::Square(scope_, x_).y, {0}),
                            ops::Sum(scope_, Gather(scope_, x_, Tensor::Vector<int32_t>({2, 2})), {0}));
  std::vector<GradientValue> grads;
  ASSERT_EQ(AddSymbolicGradients(scope_, {y}, {x_}, GradientSettings(), &grads), Status());
  EXPECT_FALSE(grads[0].IsSlices());
  CheckGradients(y, {{x_, at_}}, 2);
}

TEST_P(SlicesGradientTest, ThroughAConcatenationOfTables) {
  const Output z = Input("z", TensorShape({3, 2}));
  const Output table = ops::ConcatV2(scope_, {millrace::Input(x_), millrace::Input(z)}, 0);
  const Output y = Gather(scope_, table, Tensor::Vector<int32_t>({5, 1, 4, 1, 6}));
  EXPECT_THAT(IndicesOf(SlicesOf(y, x_), {{x_, at_}, {z, Mat({1, 2, 3, 4, 5, 6}, 3)}}), ElementsAre(1, 1));
  EXPECT_THAT(IndicesOf(SlicesOf(y, z), {{x_, at_}, {z, Mat({1, 2, 3, 4, 5, 6}, 3)}}), ElementsAre(1, 0, 2));
  CheckGradients(y, {{x_, at_}, {z, Mat({1, 2, 3, 4, 5, 6}, 3)}}, 2);
  const Output wide = ops::ConcatV2(scope_, {millrace::Input(x_), millrace::Input(x_)}, 1);
  const Output of_wide = Gather(scope_, wide, Tensor::Vector<int32_t>({3, 1}));
  SlicesOf(of_wide, x_);
  CheckGradients(of_wide, {{x_, at_}}, 1);
}

TEST_P(SlicesGradientTest, ThroughABranch) {
  const Output p = Input("p", DataType::kBool);
  const Output y = Cond(
      scope_, p,
      [&](const Scope& s) -> Outputs {
        return {ops::Square(s, Gather(s, x_, Tensor::Vector<int32_t>({2, 2}))).y};
      },
      [&](const Scope& s) -> Outputs {
        return {Gather(s, ops::Neg(s, x_).y, Tensor::Vector<int32_t>({1, 0}))};
      })[0];
  const IndexedSlices slices = SlicesOf(y, x_);
  EXPECT_THAT(IndicesOf(slices, {{x_, at_}, {p, true}}), ElementsAre(2, 2));
  for (const bool side : {true, false}) CheckGradients(y, {{x_, at_}}, 2, {{p, side}});
}

TEST_P(SlicesGradientTest, OfABranchThatDoesNotUseThemAreNoRows) {
  const Output p = Input("p", DataType::kBool);
  const Output y = Cond(
      scope_, p, [&](const Scope& s) -> Outputs { return {Gather(s, x_, Tensor::Vector<int32_t>({3}))}; },
      [&](const Scope& s) -> Outputs {
        return {ops::Identity(s, ops::Const(s, Mat({1, 2}, 1)))};
      })[0];
  const IndexedSlices slices = SlicesOf(y, x_);
  EXPECT_THAT(IndicesOf(slices, {{x_, at_}, {p, true}}), ElementsAre(3));
  EXPECT_THAT(IndicesOf(slices, {{x_, at_}, {p, false}}), ElementsAre());
  CheckGradients(y, {{x_, at_}}, 1, {{p, false}});
}

TEST_P(SlicesGradientTest, AMergeSendsThemToTheSideThatRan) {
  const Output p = Input("p", DataType::kBool);
  const Output table = Cond(
      scope_, p, [&](const Scope& s) -> Outputs { return {ops::Identity(s, x_)}; },
      [&](const Scope& s) -> Outputs { return {ops::Mul(s, x_, 3.0)}; })[0];
  const Output y = Gather(scope_, table, Tensor::Vector<int32_t>({1, 3, 1}));
  for (const bool side : {true, false}) CheckGradients(y, {{x_, at_}}, 2, {{p, side}});
}

TEST_P(SlicesGradientTest, ALoopCollectsTheRowsOfItsIterations) {
  const Output n = Input("n", DataType::kInt32);
  const Output y = While(
      scope_, {0, Mat({0.1, 0.2}, 1)},
      [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], n)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        const Output id = ops::ExpandDims(s, ops::FloorMod(s, v[0], 3), 0);
        return {ops::Add(s, v[0], 1), ops::Add(s, ops::Sin(s, v[1]), ops::Square(s, Gather(s, x_, id)).y)};
      })[1];
  const IndexedSlices slices = SlicesOf(y, x_);
  EXPECT_THAT(IndicesOf(slices, {{x_, at_}, {n, 5}}), testing::UnorderedElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(IndicesOf(slices, {{x_, at_}, {n, 0}}), ElementsAre());
  for (const int trips : {0, 1, 4}) CheckGradients(y, {{x_, at_}}, 2, {{n, trips}});
}

TEST_P(SlicesGradientTest, ALoopInALoopWithABranchCollectsThem) {
  const Output y = While(
      scope_, {0, Mat({0.1, 0.2}, 1)},
      [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], 2)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        const Output inner = While(
            s, {0, v[1]}, [&](const Scope& t, const Outputs& w) { return Output(ops::Less(t, w[0], 3)); },
            [&](const Scope& t, const Outputs& w) -> Outputs {
              const Output even = ops::Equal(t, ops::FloorMod(t, w[0], 2), 0);
              const Output row = Cond(
                  t, even,
                  [&](const Scope& u) -> Outputs {
                    return {ops::Square(u, Gather(u, x_, ops::ExpandDims(u, w[0], 0))).y};
                  },
                  [&](const Scope& u) -> Outputs { return {ops::Cos(u, w[1])}; })[0];
              return {ops::Add(t, w[0], 1), ops::Add(t, ops::Sin(t, w[1]), row)};
            })[1];
        return {ops::Add(s, v[0], 1), inner};
      })[1];
  EXPECT_THAT(IndicesOf(SlicesOf(y, x_), {{x_, at_}}), testing::UnorderedElementsAre(0, 2, 0, 2));
  CheckGradients(y, {{x_, at_}}, 2);
}

TEST_P(SlicesGradientTest, ABranchInALoopLooksUpConstantRows) {
  const Output y = LoopWithABranch([&](const Scope& s, const Output& sum) -> Output {
    const Output rows = ops::Square(s, Gather(s, x_, Tensor::Vector<int32_t>({2, 0}))).y;
    return ops::Add(s, ops::Sin(s, sum), rows);
  });
  EXPECT_THAT(IndicesOf(SlicesOf(y, x_), {{x_, at_}}), testing::UnorderedElementsAre(2, 0, 2, 0));
  CheckGradients(y, {{x_, at_}}, 2);
}

TEST_P(SlicesGradientTest, BothBranchesInALoopDo) {
  const Output y = While(
      scope_, {0, Mat({0.1, 0.2}, 1)},
      [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], 3)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        const Output rows = Cond(
            s, ops::Less(s, v[0], 1),
            [&](const Scope& t) -> Outputs {
              return {Gather(t, x_, Tensor::Vector<int32_t>({0, 0}))};
            },
            [&](const Scope& t) -> Outputs {
              return {Gather(t, x_, Tensor::Vector<int32_t>({1, 3}))};
            })[0];
        return {ops::Add(s, v[0], 1), ops::Add(s, v[1], ops::Sum(s, rows, 0, ops::Sum::KeepDims(true)))};
      })[1];
  EXPECT_THAT(IndicesOf(SlicesOf(y, x_), {{x_, at_}}), testing::UnorderedElementsAre(0, 0, 1, 3, 1, 3));
  CheckGradients(y, {{x_, at_}}, 1);
}

TEST_P(SlicesGradientTest, ABranchOfABranchInALoopLooksUpConstantRows) {
  const Output p = Input("p", DataType::kBool);
  const Output y = LoopWithABranch([&](const Scope& s, const Output& sum) -> Output {
    return Cond(
        s, p,
        [&](const Scope& t) -> Outputs {
          const Output row = Gather(t, x_, Tensor::Vector<int32_t>({3, 2}));
          return {ops::Add(t, sum, ops::Sin(t, row).y)};
        },
        [&](const Scope& t) -> Outputs {
          return {ops::Mul(t, sum, Gather(t, x_, Tensor::Vector<int32_t>({1, 0})))};
        })[0];
  });
  const IndexedSlices slices = SlicesOf(y, x_);
  EXPECT_THAT(IndicesOf(slices, {{x_, at_}, {p, true}}), testing::UnorderedElementsAre(3, 2, 3, 2));
  EXPECT_THAT(IndicesOf(slices, {{x_, at_}, {p, false}}), testing::UnorderedElementsAre(1, 0, 1, 0));
  for (const bool side : {true, false}) CheckGradients(y, {{x_, at_}}, 2, {{p, side}});
}

TEST_P(SlicesGradientTest, ABranchOfABranchWithoutALoopLooksUpConstantRows) {
  const Output p = Input("p", DataType::kBool), q = Input("q", DataType::kBool);
  const Output y = Cond(
      scope_, p,
      [&](const Scope& s) -> Outputs {
        return Cond(
            s, q, [&](const Scope& t) -> Outputs { return {Gather(t, x_, Tensor::Vector<int32_t>({3}))}; },
            [&](const Scope& t) -> Outputs { return {Gather(t, x_, Tensor::Vector<int32_t>({1}))}; });
      },
      [&](const Scope& s) -> Outputs { return {Gather(s, x_, Tensor::Vector<int32_t>({0}))}; })[0];
  const IndexedSlices slices = SlicesOf(y, x_);
  EXPECT_THAT(IndicesOf(slices, {{x_, at_}, {p, true}, {q, true}}), ElementsAre(3));
  EXPECT_THAT(IndicesOf(slices, {{x_, at_}, {p, true}, {q, false}}), ElementsAre(1));
  EXPECT_THAT(IndicesOf(slices, {{x_, at_}, {p, false}, {q, false}}), ElementsAre(0));
}

TEST_P(SlicesGradientTest, ATableOfTheLoopIsLookedUpAtConstantRowsInABranch) {
  const Output y = While(
      scope_, {0, x_}, [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], 2)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        const Output next = Cond(
            s, ops::Equal(s, v[0], 0), [&](const Scope& t) -> Outputs { return {ops::Identity(t, v[1])}; },
            [&](const Scope& t) -> Outputs {
              return {Gather(t, v[1], Tensor::Vector<int32_t>({1, 1, 3, 0}))};
            })[0];
        return {ops::Add(s, v[0], 1), next};
      })[1];
  CheckGradients(y, {{x_, at_}}, 1);
}

TEST_P(SlicesGradientTest, ATableThatTheLoopChangesHasADenseOne) {
  const Output y = While(
      scope_, {0, x_}, [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], 3)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        const Output row = Gather(s, v[1], ops::ExpandDims(s, v[0], 0));
        return {ops::Add(s, v[0], 1), ops::Mul(s, v[1], ops::Cos(s, row).y)};
      })[1];
  CheckGradients(y, {{x_, at_}}, 2);
}

TEST_P(SlicesGradientTest, ResourceVariablesAreLookedUpInALoop) {
  const Output handle = ops::VarHandleOp(scope_.WithOpName("v"), DataType::kDouble, TensorShape({4, 2}));
  const Operation assign = ops::AssignVariableOp(scope_, handle, ops::Const(scope_, at_));
  const Output y = While(
      scope_, {0, Mat({0, 0}, 1)},
      [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], 2)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        const Output row =
            ops::ResourceGather(s, handle, ops::ExpandDims(s, v[0], 0).output, DataType::kDouble);
        return {ops::Add(s, v[0], 1), ops::Add(s, v[1], ops::Square(s, row).y)};
      })[1];
  const IndexedSlices slices = SlicesOf(y, handle);
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  const ClientSession session(scope_, Options());
  ASSERT_EQ(session.Run({}, {}, {assign}, nullptr), Status());
  std::vector<Tensor> out;
  ASSERT_EQ(session.Run({slices.values, slices.indices, slices.dense_shape}, &out), Status());
  ASSERT_EQ(out[0].shape(), TensorShape({2, 2}));
  for (int64_t i = 0; i < 2; ++i) {
    const int64_t row = out[1].data<int32_t>()[i];
    EXPECT_DOUBLE_EQ(out[0].data<double>()[2 * i], 2 * at_.data<double>()[2 * row]);
  }
  EXPECT_EQ(out[2].data<int32_t>()[0], 4);
}

TEST_P(SlicesGradientTest, SettingsAreThoseOfTensorFlow) {
  const Output a = Input("a"), b = ops::Mul(scope_, a, 2.0), unused = Input("unused");
  const Output c = ops::Add(scope_, ops::Mul(scope_, a, b), ops::Mul(scope_, b, b));
  std::vector<GradientValue> grads;
  // With constant b.
  ASSERT_EQ(
      AddSymbolicGradients(scope_, {c}, {a, b, unused},
                           GradientSettings{.stop_gradients = {b}, .zeros_for_unconnected = true}, &grads),
      Status());
  const auto out = Run({{a, 3.0}, {unused, 1.0}}, {grads[0].dense, grads[1].dense, grads[2].dense});
  EXPECT_EQ(out[0].scalar<double>(), 6);   // b
  EXPECT_EQ(out[1].scalar<double>(), 15);  // a + 2 b
  EXPECT_EQ(out[2].scalar<double>(), 0);
  using Aggregation = GradientSettings::Aggregation;
  for (const auto& [how, op] : {std::pair(Aggregation::kAddN, "AddN"),
                                {Aggregation::kTree, "AddN"},
                                {Aggregation::kAccumulateN, "AccumulateNV2"}}) {
    const Output d = ops::Add(scope_, ops::Mul(scope_, a, a), ops::Mul(scope_, a, 5.0));
    ASSERT_EQ(
        AddSymbolicGradients(scope_, {d}, {a}, GradientSettings{.gate = true, .aggregation = how}, &grads),
        Status());
    EXPECT_EQ(grads[0].dense.node->op_name(), op);
    EXPECT_EQ(grads[0].dense.node->num_inputs(), how == Aggregation::kTree ? 2 : 3);
    EXPECT_EQ(RunScalar({{a, 3.0}}, grads[0].dense), 11);
  }
}

TEST_P(SlicesGradientTest, ColocatedNodesNameTheirOperation) {
  const Output a = Input("a"), y = ops::Square(scope_.WithOpName("sq"), a).y;
  std::vector<GradientValue> grads;
  ASSERT_EQ(AddSymbolicGradients(scope_, {y}, {a}, GradientSettings{.colocate = true}, &grads), Status());
  EXPECT_THAT(grads[0].dense.node->Attr<std::vector<std::string>>("_class").value_or({}),
              ElementsAre("loc:@sq"));
  EXPECT_EQ(RunScalar({{a, 3.0}}, grads[0].dense), 6);
}

// User-defined gradients. The name is registered once for the process.
Status RegisterTripled() {
  static const Status status = RegisterGradient("SlicesTest.Tripled", [](GradientCall& call) -> Status {
    if (call.num_inputs() != 1 || call.input(1).IsSet() || !call.wants(0))
      return errors::Internal("no such op");
    MR_RETURN_IF_ERROR(call.Attr<DataType>("T").status());
    const Scope& s = call.scope();
    call.SetInputGrad(0, Output(ops::Mul(s, call.dense_grad(0), ops::Mul(s, call.input(0), 3.0))));
    return Status();
  });
  return status;
}

TEST_P(SlicesGradientTest, AProgramRegistersGradients) {
  ASSERT_EQ(RegisterTripled(), Status());
  EXPECT_EQ(RegisterGradient("Square", [](GradientCall&) { return Status(); }).code(),
            ErrorCode::kAlreadyExists);
  EXPECT_FALSE(RegisterGradient("SlicesTest.None", nullptr).ok());
  EXPECT_FALSE(OverrideGradient(Operation(), "SlicesTest.Tripled").ok());
  const Output a = Input("a"), y = ops::Identity(scope_.WithOpName("tripled"), a);
  ASSERT_EQ(OverrideGradient(Operation(y), "SlicesTest.Tripled"), Status());
  const Output grad = Gradients({ops::Square(scope_, y).y}, {a})[0];
  EXPECT_THAT(grad.node->name(), testing::HasSubstr("gradients/tripled_grad/"));
  EXPECT_EQ(RunScalar({{a, 2.0}}, grad), 2 * 2.0 * 3 * 2.0);
}

TEST_P(SlicesGradientTest, TheyWorkInLoops) {
  ASSERT_EQ(RegisterTripled(), Status());
  const Output a = Input("a");
  const Output y = While(
      scope_, {0, a}, [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], 2)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        const Output same = ops::Identity(s, v[1]);
        EXPECT_EQ(OverrideGradient(Operation(same), "SlicesTest.Tripled"), Status());
        return {ops::Add(s, v[0], 1), ops::Mul(s, same, same)};
      })[1];
  // Backward: 1 -> 2 a^2 * 3 a^2 -> times 2 a * 3 a.
  const Output grad = Gradients({y}, {a})[0];
  EXPECT_DOUBLE_EQ(RunScalar({{a, 2.0}}, grad), 6 * 16 * 6 * 4);
}

TEST_P(SlicesGradientTest, TheyMustGiveTensorsOfTheGraph) {
  static GradientValue given;
  static const Status registered = RegisterGradient("SlicesTest.Given", [](GradientCall& call) -> Status {
    call.SetInputGrad(0, given);
    return Status();
  });
  ASSERT_EQ(registered, Status());
  const Scope other = Scope::NewRootScope();
  const Output foreign = ops::Const(other, 1.0), own = ops::Const(scope_, 1.0);
  const Output a = Input("a"), y = ops::Identity(scope_.WithOpName("given"), a);
  ASSERT_EQ(OverrideGradient(Operation(y), "SlicesTest.Given"), Status());
  const std::vector<GradientValue> refused = {foreign, IndexedSlices{foreign, own, own},
                                              IndexedSlices{own, foreign, own},
                                              IndexedSlices{own, own, foreign}};
  for (const GradientValue& value : refused) {
    given = value;
    std::vector<GradientValue> grads;
    const Status status = AddSymbolicGradients(scope_, {y}, {a}, GradientSettings(), &grads);
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(),
                testing::HasSubstr("The gradient of input 0 has 'Const', a node of another graph"));
  }
}

TEST_P(SlicesGradientTest, ErrorsOfTheirScopesCount) {
  static const Status registered = RegisterGradient("SlicesTest.Wrong", [](GradientCall& call) -> Status {
    ops::MatMul(call.scope(), call.input(0), call.input(0));
    return Status();
  });
  ASSERT_EQ(registered, Status());
  const Output a = Input("a"), y = ops::Identity(scope_.WithOpName("wrong"), a);
  ASSERT_EQ(OverrideGradient(Operation(y), "SlicesTest.Wrong"), Status());
  std::vector<GradientValue> grads;
  const Status status = AddSymbolicGradients(scope_, {y}, {a}, GradientSettings(), &grads);
  EXPECT_THAT(status.message(), testing::HasSubstr("in the gradient of node 'wrong' (op Identity)"));
}

}  // namespace
}  // namespace millrace
