// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Linear models trained by SdcaOptimizer, compared with closed forms and conditions of an optimum.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Vector = std::vector<float>;

// Five examples with two sparse features (ids 7 and 9; the second group has no values) and two dense ones.
struct Model {
  std::string loss = "squared_loss";
  float l1 = 0, l2 = 1;
  bool adaptive = false;
  const char* op = "SdcaOptimizer";
  int64_t partitions = 1;
  int64_t iterations = 1;
  std::vector<int64_t> examples_a = {0, 1, 1, 3}, features_a = {7, 7, 9, 9};
  Vector values_a = {1, 2, -1, 0.5f};
  std::vector<int64_t> examples_b = {2, 4}, features_b = {1, 1};
  std::vector<int64_t> indices_a = {9, 7}, indices_b = {1};
  TensorShape dense_shape = TensorShape({5, 2});
  Vector dense = {1, 0.5f, -1, 2, 0, 1, 3, -1, 1, 1};
  Vector weights = {1, 2, 1, 0.5f, 1}, labels = {1, 0, 1, 1, 0};
  Vector w_a = {0, 0}, w_b = {0}, w_dense = {0, 0};
  TensorShape state_shape = TensorShape({5, 4});
  Vector state = Vector(20, 0);

  // One run, which adds the changes to the weights.
  Status Step() {
    KernelRunner runner(op);
    runner.Attr("loss_type", loss)
        .Attr("l1", l1)
        .Attr("l2", l2)
        .Attr(std::string(op) == "SdcaOptimizer" ? "adaptative" : "adaptive", adaptive)
        .Attr("num_sparse_features", int64_t{2})
        .Attr("num_sparse_features_with_values", int64_t{1})
        .Attr("num_dense_features", int64_t{1})
        .Attr("num_loss_partitions", partitions)
        .Attr("num_inner_iterations", iterations);
    for (const auto* ints : {&examples_a, &examples_b, &features_a, &features_b}) {
      runner.Input(Tensor::Vector<int64_t>(*ints));
    }
    runner.Input(Tensor::Vector<float>(values_a)).Input(Tensor::From(dense, dense_shape));
    runner.Input(Tensor::Vector<float>(weights)).Input(Tensor::Vector<float>(labels));
    runner.Input(Tensor::Vector<int64_t>(indices_a)).Input(Tensor::Vector<int64_t>(indices_b));
    for (const Vector* w : {&w_a, &w_b, &w_dense}) runner.Input(Tensor::Vector<float>(*w));
    MR_ASSIGN_OR_RETURN(const std::vector<Tensor> out, runner.Input(Tensor::From(state, state_shape)).Run());
    state.assign(out[0].data<float>(), out[0].data<float>() + out[0].num_elements());
    Vector* const all[] = {&w_a, &w_b, &w_dense};
    for (size_t g = 0; g < 3; ++g) {
      for (size_t i = 0; i < all[g]->size(); ++i) (*all[g])[i] += out[g + 1].data<float>()[i];
    }
    return Status();
  }
  void Train(int steps) {
    for (int i = 0; i < steps; ++i) ASSERT_EQ(Step(), Status());
  }
  std::string Error() { return std::string(Step().message()); }

  // The weights for prediction, in the order dense 0 and 1, ids 7 and 9, the one of the second group.
  std::vector<double> Predicting() const {
    std::vector<double> w = {w_dense[0], w_dense[1], w_a[1], w_a[0], w_b[0]};
    for (double& x : w) x = std::copysign(std::max(std::abs(x) - l1 / l2, 0.0), x);
    return w;
  }
  std::vector<std::vector<double>> Rows() const {
    return {{1, 0.5, 1, 0, 0}, {-1, 2, 2, -1, 0}, {0, 1, 0, 0, 1}, {3, -1, 0, 0.5, 0}, {1, 1, 0, 0, 1}};
  }
  // The gradient of the primal objective, where it exists: at w = 0 the rest after subtracting that of |w|.
  std::vector<double> Gradient(const std::function<double(double wx, double label)>& slope) const {
    const std::vector<double> w = Predicting();
    const auto rows = Rows();
    std::vector<double> out(5);
    for (size_t i = 0; i < 5; ++i) {
      double wx = 0;
      for (size_t d = 0; d < 5; ++d) wx += w[d] * rows[i][d];
      for (size_t d = 0; d < 5; ++d) out[d] += weights[i] * slope(wx, labels[i]) * rows[i][d];
    }
    for (size_t d = 0; d < 5; ++d) {
      out[d] += l2 * w[d];
      if (w[d] != 0) {
        out[d] += std::copysign(l1, w[d]);
      } else {
        out[d] = std::max(std::abs(out[d]) - l1, 0.0);
      }
    }
    return out;
  }
  // The primal objective minus the dual one.
  double DualityGap() const {
    double gap = 0;
    for (size_t i = 0; i < 5; ++i) gap += state[4 * i + 1] + state[4 * i + 2];
    for (const double w : Predicting()) gap += l2 * w * w + l1 * std::abs(w);
    return gap;
  }
};

void ExpectZeros(const std::vector<double>& values, const std::string& what) {
  for (const double v : values) EXPECT_NEAR(v, 0, 2e-4) << what;
}

TEST(SdcaTest, SquaredLossEndsAtTheRidgeRegression) {
  for (const char* op : {"SdcaOptimizer", "SdcaOptimizerV2"}) {
    for (const bool adaptive : {false, true}) {
      Model m{.adaptive = adaptive, .op = op};
      m.labels = {1, -3, 2, 0.5f, 4};
      m.Train(300);
      ExpectZeros(m.Gradient([](double wx, double y) { return wx - y; }), op);
      EXPECT_NEAR(m.DualityGap(), 0, 1e-3);
    }
  }
}

TEST(SdcaTest, L1MakesWeightsZero) {
  Model m{.l1 = 1, .l2 = 0.5f};
  m.labels = {1, -3, 2, 0.5f, 4};
  m.Train(400);
  ExpectZeros(m.Gradient([](double wx, double y) { return wx - y; }), "L1");
  const std::vector<double> w = m.Predicting();
  EXPECT_GT(std::count(w.begin(), w.end(), 0.0), 0);
  EXPECT_LT(std::count(w.begin(), w.end(), 0.0), 5);
}

TEST(SdcaTest, OneExampleHasAClosedForm) {
  // The others have weight 0.
  Model m{.l2 = 2};
  m.weights = {1, 0, 0, 0, 0};
  m.labels = {3, 0, 0, 0, 0};
  ASSERT_EQ(m.Step(), Status());
  // |x|^2 = 2.25: the dual is 3 / (1 + 2.25 / 2), w = dual / 2 x.
  const double dual = 3 / (1 + 2.25 / 2);
  EXPECT_NEAR(m.state[0], dual, 1e-6);
  EXPECT_NEAR(m.state[1], 4.5, 1e-6);  // at the previous weights
  EXPECT_NEAR(m.state[2], 0, 1e-6);
  EXPECT_EQ(m.state[3], 1);
  EXPECT_NEAR(m.w_dense[0], dual / 2, 1e-6);
  EXPECT_NEAR(m.w_dense[1], dual / 4, 1e-6);
  EXPECT_NEAR(m.w_a[1], dual / 2, 1e-6);
  EXPECT_EQ(m.w_a[0], 0);
}

TEST(SdcaTest, LogisticLossEndsWhereTheGradientIsZero) {
  for (const bool adaptive : {false, true}) {
    Model m{.loss = "logistic_loss", .adaptive = adaptive};
    m.Train(200);
    ExpectZeros(m.Gradient([](double wx, double y) { return 1 / (1 + std::exp(-wx)) - y; }), "logistic");
    EXPECT_NEAR(m.DualityGap(), 0, 1e-3);
  }
}

TEST(SdcaTest, PoissonLossEndsWhereTheGradientIsZero) {
  Model m{.loss = "poisson_loss", .l2 = 3};
  m.labels = {1, 0, 2, 4, 0};
  m.Train(300);
  ExpectZeros(m.Gradient([](double wx, double y) { return std::exp(wx) - y; }), "poisson");
}

TEST(SdcaTest, HingeLossesCloseTheGapBetweenPrimalAndDual) {
  for (const char* loss : {"hinge_loss", "smooth_hinge_loss"}) {
    Model m{.loss = loss};
    m.Train(1);
    EXPECT_GT(m.DualityGap(), 0.01) << loss;
    m.Train(1000);
    EXPECT_NEAR(m.DualityGap(), 0, 2e-3) << loss;
  }
  Model smooth{.loss = "smooth_hinge_loss"};
  smooth.Train(1000);
  ExpectZeros(smooth.Gradient([](double wx, double label) {
    const double y = 2 * label - 1, missing = 1 - y * wx;
    return missing <= 0 ? 0.0 : -y * std::min(missing, 1.0);
  }),
              "smooth hinge");
}

TEST(SdcaTest, InnerIterationsArePasses) {
  Model m{.iterations = 300};
  m.labels = {1, -3, 2, 0.5f, 4};
  m.Train(1);
  ExpectZeros(m.Gradient([](double wx, double y) { return wx - y; }), "inner");
}

TEST(SdcaTest, PartitionsMakeStepsShorter) {
  Model one, four{.partitions = 4};
  one.weights = four.weights = {1, 0, 0, 0, 0};
  ASSERT_EQ(one.Step(), Status());
  ASSERT_EQ(four.Step(), Status());
  EXPECT_NEAR(one.state[0], 1 / (1 + 2.25), 1e-6);
  EXPECT_NEAR(four.state[0], 1 / (1 + 4 * 2.25), 1e-6);
}

TEST(SdcaTest, WrongInputsAreRefused) {
  EXPECT_THAT((Model{.state_shape = TensorShape({4, 5})}).Error(),
              HasSubstr("Expected shape [5,4] for example_state_data, got [4,5]"));
  EXPECT_THAT((Model{.loss = "logistic_loss", .labels = {1, 0, 2, 1, 0}}).Error(),
              HasSubstr("Only labels of 0.0 or 1.0 are supported right now. Found example with label: 2"));
  EXPECT_THAT((Model{.loss = "poisson_loss", .labels = {1, 0, -2, 1, 0}}).Error(),
              HasSubstr("Only non-negative labels can be used with the Poisson log loss."));
  EXPECT_THAT((Model{.features_a = {7, 7, 9, 8}}).Error(),
              HasSubstr("Found sparse feature indices out of valid range: 8"));
  EXPECT_THAT((Model{.features_a = {7, 9, 9, 9}}).Error(), HasSubstr("Duplicate index in sparse vector."));
  EXPECT_THAT((Model{.examples_a = {0, 1, 1, 5}}).Error(),
              HasSubstr("must be in ascending order in [0, 5), got 5 at 3"));
  EXPECT_THAT((Model{.examples_a = {-1, 1, 1, 3}}).Error(), HasSubstr("got -1 at 0"));
  EXPECT_THAT((Model{.examples_a = {1, 0, 1, 3}}).Error(), HasSubstr("got 0 at 1"));
  EXPECT_THAT((Model{.values_a = {1, 2}}).Error(), HasSubstr("4 feature indices and 2 values"));
  EXPECT_THAT((Model{.indices_a = {9}}).Error(), HasSubstr("has 1 indices for 2 weights"));
  EXPECT_THAT((Model{.w_dense = {0}}).Error(),
              HasSubstr("More dense features than we have parameters for: 2"));
  EXPECT_THAT((Model{.dense_shape = TensorShape({2, 5})}).Error(), HasSubstr("a row for each of 5 examples"));
  EXPECT_THAT((Model{.labels = {1, 0}}).Error(), HasSubstr("Expected 5 example labels, got 2"));
}

TEST(SdcaTest, NaNsDoNotPreventTheEnd) {
  const float nan = std::nanf("");
  for (const char* loss :
       {"logistic_loss", "squared_loss", "hinge_loss", "smooth_hinge_loss", "poisson_loss"}) {
    for (const bool adaptive : {false, true}) {
      Model m{.loss = loss, .l2 = 0, .adaptive = adaptive, .weights = {nan, -1, INFINITY, 0, 1}};
      EXPECT_EQ(m.Step(), Status()) << loss;
      EXPECT_EQ(m.Step(), Status()) << loss;
    }
  }
}

TEST(SdcaTest, EndlessIterationsStopWithTheStep) {
  KernelRunner runner("SdcaOptimizerV2");
  runner.Attr("loss_type", std::string("squared_loss")).Attr("l1", 0.f).Attr("l2", 1.f);
  for (const char* attr : {"num_sparse_features", "num_sparse_features_with_values"})
    runner.Attr(attr, int64_t{0});
  runner.Attr("num_dense_features", int64_t{1}).Attr("num_loss_partitions", int64_t{1});
  runner.Attr("num_inner_iterations", INT64_MAX);
  runner.Input(Tensor::From<float>({1}, TensorShape({1, 1})));
  for (int i = 0; i < 3; ++i) runner.Input(Tensor::Vector<float>({1}));
  runner.Input(Tensor::From<float>({0, 0, 0, 0}, TensorShape({1, 4})));
  runner.cancellation().StartCancel();
  EXPECT_TRUE(errors::IsCancelled(runner.Run().status()));
}

}  // namespace
}  // namespace millrace
