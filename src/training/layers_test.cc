// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "millrace/gradients.h"
#include "millrace/meta_graph.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "training/training_testing.h"

namespace millrace {
namespace {

using layers::Padding;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

std::vector<std::string> Names(const std::vector<GraphVariable>& variables) {
  std::vector<std::string> names;
  names.reserve(variables.size());
  for (const GraphVariable& variable : variables) names.push_back(variable.name());
  return names;
}

// Pseudo-random numbers between -1 and 1.
Tensor Numbers(const TensorShape& shape, double seed = 1) {
  std::vector<float> values(static_cast<size_t>(shape.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(1.7 * seed + 2.3 * static_cast<double>(i) * (1 + 0.01 * seed)));
  }
  return Tensor::From(values, shape);
}

Initializer As(const Tensor& value) { return initializers::Constant(value); }

// Compares the gradients of sum(y * y) with respect to all trainable variables with finite differences.
void ExpectGradients(const Scope& scope, const Output& y) {
  const Output loss = ops::L2Loss(scope, y);
  const std::vector<GraphVariable> variables = TrainableVariables(scope);
  const auto gradients = GradientDescentOptimizer(1.f).ComputeGradients(scope, loss);
  ASSERT_TRUE(scope.ok()) << scope.status();
  std::vector<Output> values, in, assign;
  for (const GraphVariable& variable : variables) {
    in.push_back(ops::Placeholder(scope, DataType::kFloat));
    assign.push_back(variable.Assign(scope, in.back()));
  }
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  for (size_t v = 0; v < variables.size(); ++v) {
    ASSERT_FALSE(gradients[v].gradient.IsSlices());
    const std::vector<float> analytic = session.Values(gradients[v].gradient.dense);
    const Tensor at = session.Fetch({variables[v]})[0];
    const TensorShape& shape = at.shape();
    const std::vector<float> begin = Floats(at);
    ASSERT_EQ(analytic.size(), begin.size());
    const auto value_with = [&](size_t i, float change) {
      std::vector<float> changed = begin;
      changed[i] += change;
      session.Fetch({assign[v]}, {{in[v], Tensor::From(changed, shape)}});
      return session.Value(loss);
    };
    const float step = 1.f / 128;
    for (size_t i = 0; i < begin.size(); i += 1 + begin.size() / 8) {
      const double numeric = (value_with(i, step) - value_with(i, -step)) / (2 * step);
      EXPECT_NEAR(analytic[i], numeric, 2e-2 * std::max(1.0, std::abs(numeric)))
          << variables[v].name() << "[" << i << "]";
    }
    session.Fetch({assign[v]}, {{in[v], Tensor::From(begin, shape)}});
  }
}

TEST(DenseTest, MultipliesAndAdds) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Const(scope, {{1.f, 2.f}, {3.f, -4.f}});
  const Output y = layers::Dense(scope, x, 3,
                                 {.activation = layers::Relu,
                                  .kernel_initializer = As(Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3})),
                                  .bias_initializer = As(Tensor::Vector<float>({0.5f, 0, -100}))});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_THAT(Names(TrainableVariables(scope)), ElementsAre("dense/kernel", "dense/bias"));
  EXPECT_EQ(Scope::NameOf(y), "dense/Relu");
  EXPECT_TRUE(scope.FindOperation("dense/MatMul").ok());
  EXPECT_TRUE(scope.FindOperation("dense/BiasAdd").ok());
  ReadySession session(scope);
  EXPECT_THAT(session.Values(y), ElementsAre(9.5f, 12, 0, 0, 0, 0));
}

TEST(DenseTest, TensorsOfMoreAxesKeepThem) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape({-1, -1, 2}));
  const Output y = layers::Dense(
      scope, x, 1, {.use_bias = false, .kernel_initializer = As(Tensor::From<float>({1, 10}, {2, 1}))});
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  const Tensor in = Tensor::From<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2}, {2, 3, 2});
  const Tensor out = session.Fetch({y}, {{x, in}})[0];
  EXPECT_EQ(out.shape(), TensorShape({2, 3, 1}));
  EXPECT_THAT(Floats(out), ElementsAre(21, 43, 65, 87, 9, 21));
}

TEST(DenseTest, LayersAreNumberedAndMayShareVariables) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Const(scope, Numbers({2, 3}));
  layers::Dense(scope, x, 3);
  layers::Dense(scope, x, 3);
  const Output a = layers::Dense(scope, x, 4, {.name = "shared"});
  const Output b =
      layers::Dense(WithVariableOptions(scope, {.reuse = Reuse::kReuse}), x, 4, {.name = "shared"});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(Scope::NameOf(b), "shared_1/BiasAdd");
  EXPECT_THAT(Names(GlobalVariables(scope)), ElementsAre("dense/kernel", "dense/bias", "dense_1/kernel",
                                                         "dense_1/bias", "shared/kernel", "shared/bias"));
  ReadySession session(scope);
  EXPECT_EQ(session.Values(a), session.Values(b));
}

TEST(DenseTest, PartsAndResourcesComeFromTheScope) {
  const Scope root = Scope::NewRootScope();
  const Scope scope = WithVariableOptions(root, {.partitioner = FixedSizePartitioner(2), .resource = true});
  const Output y = layers::Dense(scope, ops::Const(root, Numbers({2, 4})), 3);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_THAT(Names(GlobalVariables(root)), ElementsAre("dense/kernel/part_0", "dense/kernel/part_1",
                                                        "dense/bias/part_0", "dense/bias/part_1"));
  EXPECT_TRUE(GlobalVariables(root)[0].is_resource());
  ReadySession session(root);
  EXPECT_EQ(session.Values(y).size(), 6u);
}

TEST(DenseTest, RegularizersAddLosses) {
  const Scope scope = Scope::NewRootScope();
  layers::Dense(scope, ops::Const(scope, Numbers({2, 4})), 3,
                {.kernel_initializer = initializers::Ones(), .kernel_regularizer = L2Regularizer(0.5)});
  const auto losses = CollectedTensors(scope, graph_keys::kRegularizationLosses);
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(Scope::NameOf(losses[0]), "dense/kernel/Regularizer/l2_regularizer");
  ReadySession session(scope);
  EXPECT_FLOAT_EQ(session.Value(losses[0]), 0.5f * 12 / 2);
}

// A convolution by definition, with one, two or three image axes: x [n, d, h, w, c] and kernel [d, h, w, c,
// f]; the pad is the number of zeros before.
struct Naive {
  TensorShape out_shape;
  std::vector<float> out;
};
Naive NaiveConv(const Tensor& x, const Tensor& kernel, std::vector<int64_t> strides,
                std::vector<int64_t> dilation, bool same) {
  const auto xs = x.shape().dims();
  const auto ks = kernel.shape().dims();
  std::vector<int64_t> size(3), pad(3);
  for (size_t i = 0; i < 3; ++i) {
    const int64_t reach = (ks[i] - 1) * dilation[i] + 1;
    size[i] = same ? (xs[i + 1] + strides[i] - 1) / strides[i] : (xs[i + 1] - reach) / strides[i] + 1;
    pad[i] = same ? std::max<int64_t>((size[i] - 1) * strides[i] + reach - xs[i + 1], 0) / 2 : 0;
  }
  Naive result{{xs[0], size[0], size[1], size[2], ks[4]}, {}};
  for (int64_t n = 0; n < xs[0]; ++n) {
    for (int64_t at = 0; at < size[0] * size[1] * size[2]; ++at) {
      const int64_t d = at / (size[1] * size[2]), h = at / size[2] % size[1], w = at % size[2];
      for (int64_t f = 0; f < ks[4]; ++f) {
        double sum = 0;
        for (int64_t k = 0; k < ks[0] * ks[1] * ks[2]; ++k) {
          const int64_t kd = k / (ks[1] * ks[2]), kh = k / ks[2] % ks[1], kw = k % ks[2];
          const int64_t sd = d * strides[0] + kd * dilation[0] - pad[0];
          const int64_t sh = h * strides[1] + kh * dilation[1] - pad[1];
          const int64_t sw = w * strides[2] + kw * dilation[2] - pad[2];
          if (sd < 0 || sd >= xs[1] || sh < 0 || sh >= xs[2] || sw < 0 || sw >= xs[3]) continue;
          for (int64_t c = 0; c < xs[4]; ++c) {
            sum += double{x.data<float>()[(((n * xs[1] + sd) * xs[2] + sh) * xs[3] + sw) * xs[4] + c]} *
                   kernel.data<float>()[(k * xs[4] + c) * ks[4] + f];
          }
        }
        result.out.push_back(static_cast<float>(sum));
      }
    }
  }
  return result;
}

Tensor Reshaped(const Tensor& t, const TensorShape& shape) { return Tensor::From(Floats(t), shape); }

TEST(ConvTest, TwoAxesFollowTheDefinition) {
  const Tensor x = Numbers({2, 7, 6, 3}), kernel = Numbers({3, 2, 3, 4}, 5);
  for (const Padding padding : {Padding::kValid, Padding::kSame}) {
    for (const layers::ConvOptions& conv : {layers::ConvOptions{.strides = {2, 1}, .padding = padding},
                                            layers::ConvOptions{.padding = padding, .dilation = {2, 1}}}) {
      const Scope scope = Scope::NewRootScope();
      const Output y =
          layers::Conv2D(scope, ops::Const(scope, x), 4, {3, 2}, conv, {.kernel_initializer = As(kernel)});
      ASSERT_TRUE(scope.ok()) << scope.status();
      EXPECT_THAT(Names(TrainableVariables(scope)), ElementsAre("conv2d/kernel", "conv2d/bias"));
      ReadySession session(scope);
      const int64_t stride = conv.strides[0], dilation = conv.dilation[0];
      const Naive wanted = NaiveConv(Reshaped(x, {2, 1, 7, 6, 3}), Reshaped(kernel, {1, 3, 2, 3, 4}),
                                     {1, stride, 1}, {1, dilation, 1}, padding == Padding::kSame);
      EXPECT_THAT(session.Values(y), Pointwise(FloatNear(1e-4f), wanted.out));
    }
  }
}

TEST(ConvTest, ThreeAxesFollowTheDefinition) {
  const Tensor x = Numbers({1, 4, 5, 3, 2}), kernel = Numbers({2, 2, 2, 2, 3}, 5);
  const Scope scope = Scope::NewRootScope();
  const Output y =
      layers::Conv3D(scope, ops::Const(scope, x), 3, {2}, {.strides = {1, 2, 1}, .padding = Padding::kSame},
                     {.kernel_initializer = As(kernel), .bias_initializer = initializers::Ones()});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(Scope::NameOf(y), "conv3d/BiasAdd");
  ReadySession session(scope);
  Naive wanted = NaiveConv(x, kernel, {1, 2, 1}, {1, 1, 1}, true);
  for (float& value : wanted.out) value += 1;
  EXPECT_THAT(session.Values(y), Pointwise(FloatNear(1e-4f), wanted.out));
  ExpectGradients(scope, y);
}

TEST(ConvTest, SeparableOnesAreTwoConvolutions) {
  const Tensor x = Numbers({1, 5, 5, 2}), depthwise = Numbers({3, 3, 2, 2}, 3),
               points = Numbers({1, 1, 4, 3}, 4);
  const Scope scope = Scope::NewRootScope();
  const Output y = layers::SeparableConv2D(
      scope, ops::Const(scope, x), 3, {3},
      {.strides = {2}, .padding = Padding::kSame, .depth_multiplier = 2, .pointwise_initializer = As(points)},
      {.kernel_initializer = As(depthwise)});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_THAT(Names(TrainableVariables(scope)),
              ElementsAre("separable_conv2d/depthwise_kernel", "separable_conv2d/pointwise_kernel",
                          "separable_conv2d/bias"));
  EXPECT_TRUE(scope.FindOperation("separable_conv2d/separable_conv2d/depthwise").ok());
  // The depthwise step as a full kernel: zeros except for the channel's own outputs.
  std::vector<float> full(9 * 2 * 4, 0.f);
  for (int k = 0; k < 9; ++k) {
    for (int c = 0; c < 2; ++c) {
      for (int m = 0; m < 2; ++m) {
        full[static_cast<size_t>((k * 2 + c) * 4 + c * 2 + m)] = depthwise.data<float>()[(k * 2 + c) * 2 + m];
      }
    }
  }
  const Naive each = NaiveConv(Reshaped(x, {1, 1, 5, 5, 2}), Tensor::From(full, {1, 3, 3, 2, 4}), {1, 2, 2},
                               {1, 1, 1}, true);
  const Naive wanted = NaiveConv(Tensor::From(each.out, each.out_shape), Reshaped(points, {1, 1, 1, 4, 3}),
                                 {1, 1, 1}, {1, 1, 1}, false);
  {
    ReadySession session(scope);
    EXPECT_THAT(session.Values(y), Pointwise(FloatNear(1e-4f), wanted.out));
  }
  ExpectGradients(scope, y);
}

TEST(ConvTest, TransposedOnesSpreadEachPixel) {
  for (const bool known : {false, true}) {
    for (const Padding padding : {Padding::kValid, Padding::kSame}) {
      const Tensor x = Numbers({2, 3, 4, 2}), kernel = Numbers({3, 3, 5, 2}, 3);
      const Scope scope = Scope::NewRootScope();
      const Output in = ops::Placeholder(
          scope, DataType::kFloat,
          ops::Placeholder::Shape(known ? PartialShape({-1, 3, 4, 2}) : PartialShape({-1, -1, -1, 2})));
      const Output y = layers::Conv2DTranspose(scope, in, 5, {3}, {.strides = {2}, .padding = padding},
                                               {.kernel_initializer = As(kernel)});
      ASSERT_TRUE(scope.ok()) << scope.status();
      ReadySession session(scope);
      const Tensor got = session.Fetch({y}, {{in, x}})[0];
      const int64_t height = padding == Padding::kSame ? 6 : 7, width = padding == Padding::kSame ? 8 : 9;
      ASSERT_EQ(got.shape(), TensorShape({2, height, width, 5}));
      std::vector<float> wanted(static_cast<size_t>(2 * height * width * 5), 0.f);
      // With SAME, (h - 1) * 2 + 3 - 2 h = 1 pixel too many: it is cut off at the end.
      for (int64_t i = 0; i < 2 * 3 * 4; ++i) {
        const int64_t n = i / 12, h = i / 4 % 3, w = i % 4;
        for (int64_t k = 0; k < 9; ++k) {
          const int64_t th = h * 2 + k / 3, tw = w * 2 + k % 3;
          if (th >= height || tw >= width) continue;
          for (int64_t f = 0; f < 5; ++f) {
            for (int64_t c = 0; c < 2; ++c) {
              wanted[static_cast<size_t>(((n * height + th) * width + tw) * 5 + f)] +=
                  x.data<float>()[i * 2 + c] * kernel.data<float>()[(k * 5 + f) * 2 + c];
            }
          }
        }
      }
      EXPECT_THAT(Floats(got), Pointwise(FloatNear(1e-4f), wanted)) << known;
      EXPECT_THAT(Names(TrainableVariables(scope)),
                  ElementsAre("conv2d_transpose/kernel", "conv2d_transpose/bias"));
    }
  }
}

TEST(PoolingTest, TakesTheLargestOrTheMean) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Const(scope, Tensor::From<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3, 1}));
  const Output cube = ops::Const(scope, Tensor::From<float>({1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 2, 2, 1}));
  const Output largest = layers::MaxPooling2D(scope, x, {2}, {1});
  const Output mean = layers::AveragePooling2D(scope, x, {2}, {2}, {.padding = Padding::kSame});
  const Output largest3 = layers::MaxPooling3D(scope, cube, {2, 1, 1}, {1});
  const Output mean3 = layers::AveragePooling3D(scope, cube, {2}, {2});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(Scope::NameOf(largest), "max_pooling2d/MaxPool");
  EXPECT_EQ(Scope::NameOf(mean3), "average_pooling3d/AvgPool3D");
  ReadySession session(scope);
  EXPECT_THAT(session.Values(largest), ElementsAre(5, 6, 8, 9));
  EXPECT_THAT(session.Values(mean), ElementsAre(3, 4.5f, 7.5f, 9));
  EXPECT_THAT(session.Values(largest3), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(session.Values(mean3), ElementsAre(4.5f));
}

TEST(FlattenTest, KeepsTheBatch) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape({-1, 2, 3}));
  const Output open = ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape({-1, -1, 3}));
  const Output y = layers::Flatten(scope, x), z = layers::Flatten(scope, open);
  EXPECT_EQ(scope.ShapeOf(y).dim(1), 6);
  ReadySession session(scope);
  EXPECT_EQ(session.Fetch({y}, {{x, Numbers({4, 2, 3})}})[0].shape(), TensorShape({4, 6}));
  EXPECT_EQ(session.Fetch({z}, {{open, Numbers({4, 2, 3})}})[0].shape(), TensorShape({4, 6}));
}

TEST(DropoutTest, DropsInTrainingOnly) {
  const Scope scope = Scope::NewRootScope();
  SetRandomSeed(scope, 1);
  const Output training = ops::Placeholder(scope, DataType::kBool, ops::Placeholder::Shape(TensorShape()));
  const Output x = ops::Const(scope, 1.f, TensorShape({10000}));
  const Output fed = layers::Dropout(scope, x, {.rate = 0.25, .training = training});
  const Output always = layers::Dropout(scope, x, {.rate = 0.25, .training = true});
  const Output never = layers::Dropout(scope, x, {.rate = 0.25});
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  EXPECT_THAT(session.Values(never), Each(1.f));
  EXPECT_THAT(session.Values(fed, {{training, false}}), Each(1.f));
  for (const std::vector<float>& values : {session.Values(always), session.Values(fed, {{training, true}})}) {
    const auto zeros = std::count(values.begin(), values.end(), 0.f);
    EXPECT_NEAR(static_cast<double>(zeros), 2500, 5 * std::sqrt(10000 * 0.25 * 0.75));
    EXPECT_NEAR(*std::max_element(values.begin(), values.end()), 4.f / 3, 1e-6);
  }
  const Scope wrong = Scope::NewRootScope();
  layers::Dropout(wrong, ops::Const(wrong, 1.f), {.rate = 1});
  EXPECT_THAT(wrong.status().message(), HasSubstr("in the range [0, 1)"));
}

// Images, which one op normalises, and rows.
TEST(BatchNormTest, UsesTheBatchAndRemembersIt) {
  for (const TensorShape& shape : {TensorShape({2, 2, 2, 3}), TensorShape({8, 3})}) {
    const Scope scope = Scope::NewRootScope();
    const Output training = ops::Placeholder(scope, DataType::kBool, ops::Placeholder::Shape(TensorShape()));
    const Output x = ops::Const(scope, Numbers(shape));
    const layers::BatchNormOptions options{.training = training,
                                           .momentum = 0.9,
                                           .beta_initializer = initializers::Constant(0.5f),
                                           .gamma_initializer = initializers::Constant(2.f)};
    const Output y = layers::BatchNormalization(scope, x, options);
    ASSERT_TRUE(scope.ok()) << scope.status();
    EXPECT_THAT(Names(GlobalVariables(scope)),
                ElementsAre("batch_normalization/gamma", "batch_normalization/beta",
                            "batch_normalization/moving_mean", "batch_normalization/moving_variance"));
    EXPECT_EQ(TrainableVariables(scope).size(), 2u);
    const std::vector<Operation> updates = CollectedOperations(scope, graph_keys::kUpdateOps);
    ASSERT_EQ(updates.size(), 2u);
    EXPECT_EQ(Scope::NameOf(updates[1]), "batch_normalization/AssignMovingAvg_1");
    ReadySession session(scope);
    const std::vector<float> in = session.Values(x);
    double mean[3] = {}, squares[3] = {}, variance[3];
    for (size_t i = 0; i < 24; ++i) mean[i % 3] += in[i] / 8, squares[i % 3] += double{in[i]} * in[i] / 8;
    for (size_t c = 0; c < 3; ++c) variance[c] = squares[c] - mean[c] * mean[c];
    const auto expect = [&](const std::vector<float>& got, const double* m, const double* v) {
      for (size_t i = 0; i < 24; ++i) {
        EXPECT_NEAR(got[i], 2 * (in[i] - m[i % 3]) / std::sqrt(v[i % 3] + 1e-3) + 0.5, 1e-4);
      }
    };
    const double zeros[3] = {}, ones[3] = {1, 1, 1};
    expect(session.Values(y, {{training, false}}), zeros, ones);
    session.Run(updates, {{training, false}});
    expect(session.Values(y, {{training, false}}), zeros, ones);
    expect(session.Values(y, {{training, true}}), mean, variance);
    session.Run(updates, {{training, true}});
    double moved_mean[3], moved_variance[3];
    const double sample = shape.rank() == 4 ? 8.0 / 7 : 1;  // the one op estimates the variance of all images
    for (size_t c = 0; c < 3; ++c) {
      moved_mean[c] = 0.1 * mean[c];
      moved_variance[c] = 0.9 + 0.1 * sample * variance[c];
    }
    expect(session.Values(y, {{training, false}}), moved_mean, moved_variance);
  }
}

TEST(BatchNormTest, HasGradients) {
  for (const TensorShape& shape : {TensorShape({2, 2, 2, 3}), TensorShape({8, 3})}) {
    const Scope scope = Scope::NewRootScope();
    Output x = ops::Const(scope, Numbers(shape));
    x = layers::Dense(scope, x, 3, {.kernel_initializer = As(Numbers({3, 3}, 4))});
    const Output y = layers::BatchNormalization(scope, x, {.training = true});
    const Output weights = ops::Const(scope, Numbers(shape, 9));
    ExpectGradients(scope, ops::Mul(scope, y, weights));
  }
}

TEST(LayersTest, InputsThatDoNotFitAreErrors) {
  const auto error = [](const std::function<void(const Scope&)>& make) {
    const Scope scope = Scope::NewRootScope();
    make(scope);
    return std::string(scope.status().message());
  };
  EXPECT_THAT(error([](const Scope& s) { layers::Dense(s, ops::Const(s, {1.f}), 2); }),
              HasSubstr("at least 2 axes"));
  EXPECT_THAT(
      error([](const Scope& s) {
        layers::Dense(s, ops::Placeholder(s, DataType::kFloat, ops::Placeholder::Shape({2, -1})).output, 2);
      }),
      HasSubstr("The last dimension of the inputs"));
  EXPECT_THAT(error([](const Scope& s) { layers::Conv2D(s, ops::Const(s, {{1.f}}), 2, {3}); }),
              HasSubstr("expected 4 axes"));
  EXPECT_THAT(error([](const Scope& s) {
                layers::Conv2D(s, ops::Const(s, Numbers({1, 4, 4, 1})), 2, {3, 3, 3});
              }),
              HasSubstr("1 or 2 numbers for kernel_size"));
}

}  // namespace
}  // namespace millrace
