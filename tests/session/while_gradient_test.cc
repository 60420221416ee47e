// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Gradients of loops and branches: closed forms, and finite differences up to the second order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/session/loop_testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class WhileGradientTest : public LoopTest {
 protected:
  const Output n_ = Input("n", DataType::kInt32);

  // Repeats vars = body(vars, iteration) n times.
  using Step = std::function<Outputs(const Scope&, const Outputs&, const Output&)>;
  static Outputs Repeat(const Scope& scope, const Output& n, std::vector<millrace::Input> vars,
                        const Step& body, const WhileOptions& options = {}) {
    vars.insert(vars.begin(), millrace::Input(0));
    Outputs out = While(
        scope, vars, [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], n)); },
        [&](const Scope& s, const Outputs& v) {
          Outputs next = body(s, {v.begin() + 1, v.end()}, v[0]);
          next.insert(next.begin(), ops::Add(s, v[0], 1));
          return next;
        },
        options);
    out.erase(out.begin());
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Threads, WhileGradientTest, ::testing::Values(1, 2, 8));

TEST_P(WhileGradientTest, APowerHasItsDerivatives) {
  const Output x = Input("x");
  const Output y = Repeat(scope_, n_, {1.0}, [&](const Scope& s, const Outputs& v, const Output&) -> Outputs {
    return {ops::Mul(s, v[0], x)};
  })[0];
  const Output dy = Gradients({y}, {x})[0];
  const Output d2y = Gradients({dy}, {x})[0];
  for (const int n : {0, 1, 2, 5}) {
    const auto out = Run({{x, 1.5}, {n_, n}}, {y, dy, d2y});
    EXPECT_DOUBLE_EQ(out[0].scalar<double>(), std::pow(1.5, n)) << n;
    EXPECT_DOUBLE_EQ(out[1].scalar<double>(), n * std::pow(1.5, n - 1)) << n;
    EXPECT_NEAR(out[2].scalar<double>(), n * (n - 1) * std::pow(1.5, n - 2), 1e-12) << n;
  }
}

TEST_P(WhileGradientTest, SoDoesItsThirdOne) {
  const Output x = Input("x");
  const Output y = Repeat(scope_, n_, {x}, [&](const Scope& s, const Outputs& v, const Output&) -> Outputs {
    return {ops::Mul(s, v[0], v[0])};
  })[0];
  const Output d3 = Gradients({Gradients({Gradients({y}, {x})[0]}, {x})[0]}, {x})[0];
  EXPECT_NEAR(RunScalar({{x, 1.1}, {n_, 3}}, d3), 8 * 7 * 6 * std::pow(1.1, 5), 1e-9);
}

TEST_P(WhileGradientTest, GeometricSeriesWithATripCountOfTheData) {
  const Output q = Input("q");
  const Outputs out = While(
      scope_, {0.0, 1.0},
      [](const Scope& s, const Outputs& v) { return Output(ops::Greater(s, v[1], 1e-12)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        return {ops::Add(s, v[0], v[1]), ops::Mul(s, v[1], q)};
      });
  const Output d = Gradients({out[0]}, {q})[0];
  const Output d2 = Gradients({d}, {q})[0];
  for (const double at : {0.5, 0.3}) {
    EXPECT_NEAR(RunScalar({{q, at}}, d), 1 / std::pow(1 - at, 2), 1e-8);
    EXPECT_NEAR(RunScalar({{q, at}}, d2), 2 / std::pow(1 - at, 3), 1e-7);
  }
}

TEST_P(WhileGradientTest, NewtonsIteration) {
  // The square root of a; its derivative through the iteration.
  const Output a = Input("a");
  const Output root = While(
      scope_, {a},
      [&](const Scope& s, const Outputs& v) {
        return Output(ops::Greater(s, ops::Abs(s, ops::Sub(s, ops::Mul(s, v[0], v[0]), a)), 1e-12));
      },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        return {ops::Mul(s, ops::Add(s, v[0], ops::RealDiv(s, a, v[0])), 0.5)};
      })[0];
  const Output d = Gradients({root}, {a})[0];
  EXPECT_NEAR(RunScalar({{a, 2.0}}, root), std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(RunScalar({{a, 2.0}}, d), 0.5 / std::sqrt(2.0), 1e-6);
}

TEST_P(WhileGradientTest, MatrixPowersAgreeWithDifferences) {
  const Output a = Input("a", {2, 2}), b = Input("b", {2, 3});
  const Output y = Repeat(scope_, n_, {b}, [&](const Scope& s, const Outputs& v, const Output&) -> Outputs {
    return {ops::Tanh(s, ops::MatMul(s, a, v[0]))};
  })[0];
  CheckGradients(y, {{a, Mat({0.3, -0.2, 0.5, 0.1}, 2)}, {b, Mat({1, 2, 0.5, -1, 0.2, 0.4}, 2)}}, 2,
                 {{n_, 3}});
}

TEST_P(WhileGradientTest, NestedMatrixPowersAgreeWithDifferences) {
  const Output a = Input("a", {2, 2});
  const Output y = Repeat(scope_, n_, {a}, [&](const Scope& s, const Outputs& v, const Output& i) -> Outputs {
    const Output inner =
        Repeat(s, i, {v[0]}, [&](const Scope& t, const Outputs& w, const Output&) -> Outputs {
          return {ops::Sin(t, ops::MatMul(t, ops::Mul(t, w[0], v[0]), a))};
        })[0];
    return {ops::Add(s, inner, v[0])};
  })[0];
  CheckGradients(y, {{a, Mat({0.3, -0.2, 0.5, 0.4}, 2)}}, 2, {{n_, 3}});
}

TEST_P(WhileGradientTest, LoopsInBranchesInLoopsAgreeWithDifferences) {
  const Output x = Input("x", {2}), w = Input("w", {2});
  const Output y = Repeat(scope_, n_, {x}, [&](const Scope& s, const Outputs& v, const Output& i) -> Outputs {
    return Cond(
        s, ops::Equal(s, ops::FloorMod(s, i, 2), 1),
        [&](const Scope& t) -> Outputs {
          return Repeat(t, i, {v[0]}, [&](const Scope& u, const Outputs& z, const Output&) -> Outputs {
            return {ops::Sin(u, ops::Mul(u, z[0], ops::Add(u, w, v[0])))};
          });
        },
        [&](const Scope& t) -> Outputs { return {ops::Mul(t, v[0], w)}; });
  })[0];
  CheckGradients(y, {{x, Vec({0.3, 0.7})}, {w, Vec({1.1, 0.4})}}, 2, {{n_, 4}});
}

TEST_P(WhileGradientTest, BranchesAgreeWithDifferences) {
  const Output p = Input("p", DataType::kBool);
  const Output x = Input("x", {2}), y = Input("y", {2});
  const Outputs out = Cond(
      scope_, p,
      [&](const Scope& s) -> Outputs {
        return {ops::Mul(s, ops::Mul(s, x, x), y), ops::Exp(s, x)};
      },
      [&](const Scope& s) -> Outputs {
        return {ops::Sin(s, x), y};
      });
  const Output both = ops::Mul(scope_, out[0], out[1]);
  for (const bool taken : {true, false}) {
    CheckGradients(both, {{x, Vec({0.3, -0.7})}, {y, Vec({1.1, 0.4})}}, 2, {{p, taken}});
  }
}

TEST_P(WhileGradientTest, NestedBranchesAgreeWithDifferences) {
  const Output p = Input("p", DataType::kBool), q = Input("q", DataType::kBool);
  const Output x = Input("x", {2});
  const Output y = Cond(
      scope_, p,
      [&](const Scope& s) -> Outputs {
        const Output z = ops::Mul(s, x, x);
        return Cond(
            s, q, [&](const Scope& t) -> Outputs { return {ops::Mul(t, z, x)}; },
            [&](const Scope& t) -> Outputs { return {ops::Exp(t, z)}; });
      },
      [&](const Scope& s) -> Outputs { return {ops::Neg(s, x)}; })[0];
  for (const bool a : {true, false}) {
    for (const bool b : {true, false}) CheckGradients(y, {{x, Vec({0.3, -0.7})}}, 2, {{p, a}, {q, b}});
  }
}

TEST_P(WhileGradientTest, BranchesInLoopsAgreeWithDifferences) {
  const Output x = Input("x", {2}), w = Input("w", {2});
  const Output y = Repeat(scope_, n_, {x}, [&](const Scope& s, const Outputs& v, const Output& i) -> Outputs {
    const Output odd = ops::Equal(s, ops::FloorMod(s, i, 2), 1);
    return Cond(
        s, odd,
        [&](const Scope& t) -> Outputs {
          const Output square = ops::Mul(t, v[0], v[0]);
          return Cond(
              t, ops::Greater(t, i, 2),
              [&](const Scope& u) -> Outputs { return {ops::Sin(u, ops::Mul(u, square, w))}; },
              [&](const Scope& u) -> Outputs { return {ops::Add(u, square, v[0])}; });
        },
        [&](const Scope& t) -> Outputs { return {ops::Mul(t, ops::Exp(t, ops::Neg(t, v[0])), w)}; });
  })[0];
  CheckGradients(y, {{x, Vec({0.3, 0.7})}, {w, Vec({1.1, 0.4})}}, 2, {{n_, 5}});
}

TEST_P(WhileGradientTest, ALoopInABranchThatIsNotTaken) {
  const Output p = Input("p", DataType::kBool);
  const Output x = Input("x", {2});
  const Output y = Cond(
      scope_, p,
      [&](const Scope& t) -> Outputs {
        return Repeat(t, n_, {x}, [&](const Scope& u, const Outputs& z, const Output&) -> Outputs {
          return {ops::Mul(u, z[0], ops::Sin(u, x))};
        });
      },
      [&](const Scope& t) -> Outputs { return {ops::Mul(t, x, 3.0)}; })[0];
  CheckGradients(y, {{x, Vec({0.3, 0.7})}}, 2, {{n_, 3}, {p, true}});
  CheckGradients(y, {{x, Vec({0.3, 0.7})}}, 2, {{n_, 3}, {p, false}});
}

TEST_P(WhileGradientTest, MixedAndUnusedVariables) {
  const Output x = Input("x", {2}), z = Input("z", {2});
  const Outputs out =
      Repeat(scope_, n_, {x, z, x, 1}, [&](const Scope& s, const Outputs& v, const Output&) -> Outputs {
        return {ops::Mul(s, v[1], v[0]), v[0], ops::Exp(s, v[2]), ops::Add(s, v[3], 2)};
      });
  for (const int n : {0, 1, 4}) {
    CheckGradients(out[0], {{x, Vec({0.3, 0.7})}, {z, Vec({1.1, 0.4})}}, n == 0 ? 0 : 2, {{n_, n}});
  }
}

TEST_P(WhileGradientTest, NoIterationsPassTheGradientThrough) {
  const Output x = Input("x", {2});
  const Output y = Repeat(scope_, n_, {x}, [&](const Scope& s, const Outputs& v, const Output&) -> Outputs {
    return {ops::Mul(s, v[0], x)};
  })[0];
  ExpectTensorEqual(Vec({1, 1}), Run({{x, Vec({2, 3})}, {n_, 0}}, Gradients({y}, {x}))[0]);
}

TEST_P(WhileGradientTest, ShapesMayChangeFromIterationToIteration) {
  const Output x = Input("x", {2});
  const Output y = Repeat(scope_, n_, {x},
                          [&](const Scope& s, const Outputs& v, const Output&) -> Outputs {
                            return {ops::Sin(s, ops::ConcatV2(s, {v[0], ops::Mul(s, x, x)}, 0))};
                          },
                          {.shape_invariants = {TensorShape(), PartialShape({-1})}})[0];
  CheckGradients(y, {{x, Vec({0.3, 0.7})}}, 2, {{n_, 3}});
}

TEST_P(WhileGradientTest, ArraysInLoopsAgreeWithDifferences) {
  // Reads xs, writes ys, and reads the element written in the previous iteration.
  const Output x = Input("x", {3, 2}), w = Input("w", {2});
  const ops::TensorArrayV3 in(scope_, n_, DataType::kDouble);
  const ops::TensorArrayV3 out(scope_, n_, DataType::kDouble, ops::TensorArrayV3::ClearAfterRead(false));
  const Output range = ops::Range(scope_, 0, n_, 1);
  const Output filled = ops::TensorArrayScatterV3(scope_, in.handle, range, x, in.flow);
  const Outputs loop =
      Repeat(scope_, n_, {w, out.flow}, [&](const Scope& s, const Outputs& v, const Output& i) -> Outputs {
        const Output xi =
            ops::Reshape(s, ops::TensorArrayReadV3(s, in.handle, i, filled, DataType::kDouble), {2});
        const Output state = ops::Tanh(s, ops::Add(s, ops::Mul(s, v[0], w), xi));
        return {state, ops::TensorArrayWriteV3(s, out.handle, i, ops::Mul(s, state, xi), v[1])};
      });
  const Output all = ops::TensorArrayGatherV3(scope_, out.handle, range, loop[1], DataType::kDouble);
  CheckGradients(all, {{x, Mat({0.1, 0.2, 0.3, -0.4, 0.5, 0.6}, 3)}, {w, Vec({0.3, 0.7})}}, 2, {{n_, 3}});
}

// An op on lists of doubles, with one result.
Output ListOp(const Scope& scope, const char* op, std::initializer_list<millrace::Input> inputs,
              bool tells_type = true) {
  OpAttrs attrs;
  if (tells_type) attrs.Set("element_dtype", DataType::kDouble);
  OpMaker maker(scope, op, attrs);
  for (const millrace::Input& input : inputs) maker.Add(input);
  maker.Finish();
  return maker.output(0);
}

TEST_P(WhileGradientTest, ListsInLoopsAgreeWithDifferences) {
  // The same with lists: one that all iterations read, and one that is passed from each to the next.
  const Output x = Input("x", {3, 2}), w = Input("w", {2});
  const Output in = ListOp(scope_, "TensorListFromTensor", {x, -1}, false);
  const Output out = ListOp(scope_, "TensorListReserve", {-1, n_});
  const Outputs loop =
      Repeat(scope_, n_, {w, out}, [&](const Scope& s, const Outputs& v, const Output& i) -> Outputs {
        const Output xi = ListOp(s, "TensorListGetItem", {in, i, Tensor::Vector<int32_t>({2})});
        const Output state = ops::Tanh(s, ops::Add(s, ops::Mul(s, v[0], w), xi));
        return {state, ListOp(s, "TensorListSetItem", {v[1], i, ops::Mul(s, state, xi)}, false)};
      });
  const Output all = ListOp(scope_, "TensorListStack", {loop[1], Tensor::Vector<int32_t>({2})});
  CheckGradients(all, {{x, Mat({0.1, 0.2, 0.3, -0.4, 0.5, 0.6}, 3)}, {w, Vec({0.3, 0.7})}}, 2, {{n_, 3}});
}

TEST_P(WhileGradientTest, ListsThatGrowInLoopsAgreeWithDifferences) {
  const Output x = Input("x", {2});
  const Output empty = ListOp(scope_, "EmptyTensorList", {-1, -1});
  const Outputs loop =
      Repeat(scope_, n_, {x, empty}, [&](const Scope& s, const Outputs& v, const Output&) -> Outputs {
        return {ops::Sin(s, v[0]), ListOp(s, "TensorListPushBack", {v[1], ops::Mul(s, v[0], x)}, false)};
      });
  const Output all = ListOp(scope_, "TensorListStack", {loop[1], Tensor::Vector<int32_t>({2})});
  CheckGradients(all, {{x, Vec({0.3, 0.7})}}, 2, {{n_, 3}});
}

TEST_P(WhileGradientTest, GradientsMayBeTakenInsideABody) {
  // Newton's iteration for x^3 = a, with the derivative of the residual left to AddSymbolicGradients.
  const Output a = Input("a");
  const Output root =
      Repeat(scope_, n_, {a}, [&](const Scope& s, const Outputs& v, const Output&) -> Outputs {
        const Output residual = ops::Sub(s, ops::Mul(s, ops::Mul(s, v[0], v[0]), v[0]), a);
        Outputs slope;
        EXPECT_EQ(AddSymbolicGradients(s, {residual}, {v[0]}, &slope), Status());
        return {ops::Sub(s, v[0], ops::RealDiv(s, residual, slope[0]))};
      })[0];
  EXPECT_NEAR(RunScalar({{a, 5.0}, {n_, 20}}, root), std::cbrt(5.0), 1e-12);
  EXPECT_NEAR(RunScalar({{a, 5.0}, {n_, 20}}, Gradients({root}, {a})[0]), std::cbrt(5.0) / 15, 1e-9);
}

TEST_P(WhileGradientTest, ResourceVariablesAreFoundFromInside) {
  const Output handle = ops::VarHandleOp(scope_, DataType::kDouble, PartialShape(TensorShape({2})));
  const ops::AssignVariableOp init(scope_, handle, Vec({0.5, -0.3}));
  const Output y =
      Repeat(scope_, n_, {Vec({1, 2})}, [&](const Scope& s, const Outputs& v, const Output&) -> Outputs {
        return {ops::Mul(s, v[0], ops::ReadVariableOp(s, handle, DataType::kDouble))};
      })[0];
  const Output d = Gradients({y}, {handle})[0];
  ClientSession session(scope_, Options());
  ASSERT_EQ(session.Run({}, {}, {init}, nullptr), Status());
  std::vector<Tensor> out;
  ASSERT_EQ(session.Run({{n_, 3}}, {d}, &out), Status());
  ASSERT_EQ(out[0].shape(), TensorShape({2}));
  EXPECT_NEAR(out[0].data<double>()[0], 3 * 0.25, 1e-12);
  EXPECT_NEAR(out[0].data<double>()[1], 2 * 3 * 0.09, 1e-12);
}

TEST_P(WhileGradientTest, IntegersHaveNoGradient) {
  const Output x = Input("x", DataType::kInt32);
  const Output y = Repeat(scope_, n_, {x}, [&](const Scope& s, const Outputs& v, const Output&) -> Outputs {
    return {ops::Mul(s, v[0], v[0])};
  })[0];
  Outputs grads;
  EXPECT_EQ(AddSymbolicGradients(scope_, {ops::Cast(scope_, y, DataType::kDouble)}, {x}, &grads), Status());
  EXPECT_FALSE(grads[0].IsSet());
}

TEST_P(WhileGradientTest, BackPropFalseIsRefused) {
  const Output x = Input("x");
  const Output y = Repeat(
      scope_, n_, {x},
      [&](const Scope& s, const Outputs& v, const Output&) -> Outputs { return {ops::Mul(s, v[0], v[0])}; },
      {.back_prop = false})[0];
  Outputs grads;
  const Status status = AddSymbolicGradients(scope_, {y}, {x}, &grads);
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("back_prop=False"));
}

TEST_P(WhileGradientTest, WhatIsInsideHasNoGradientOutside) {
  const Output x = Input("x");
  Output inside;
  const Output y = Repeat(scope_, n_, {x}, [&](const Scope& s, const Outputs& v, const Output&) -> Outputs {
    return {inside = ops::Mul(s, v[0], v[0])};
  })[0];
  Outputs grads;
  const Status status = AddSymbolicGradients(scope_, {y}, {inside}, &grads);
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("Cannot compute the gradient with respect to"));
}

}  // namespace
}  // namespace millrace
