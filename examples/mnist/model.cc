// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <cmath>
#include <string>

#include "dataset.h"
#include "millrace/ops.h"

namespace millrace::mnist {
namespace {

constexpr float kDescentRate = 0.003f;
constexpr float kWeightDeviation = 0.1f;

// Builds a network layer by layer; keeps count of the layers and of the random ops.
class Network {
 public:
  Network(const Scope& scope, const ModelSpec& spec, uint64_t seed)
      : scope_(scope), spec_(spec), seed_(static_cast<int64_t>(seed)) {}

  // activation(conv(x, W) + b).
  Output Conv(const Output& x, int64_t in_channels, const ConvLayer& layer) {
    ++layer_;
    const Output w =
        Weights({layer.filter_side, layer.filter_side, in_channels, layer.channels}, /*zero=*/false);
    const Output conv = ops::Conv2D(scope_, x, w, {1, layer.stride, layer.stride, 1}, "SAME");
    return Activate(ops::BiasAdd(scope_, conv, Biases(layer.channels)));
  }

  // xW + b.
  Output Linear(const Output& x, int64_t in, int64_t out, bool zero) {
    ++layer_;
    const Output w = Weights({in, out}, zero);
    return ops::BiasAdd(scope_, ops::MatMul(scope_, x, w).product, Biases(out));
  }

  Output Activate(const Output& x) {
    return spec_.relu ? Output(ops::Relu(scope_, x)) : Output(ops::Sigmoid(scope_, x));
  }

  // Keeps each element with the given probability, scaled up to keep the expected sum, and drops the others.
  Output Dropout(const Output& x, const Output& keep) {
    const Scope scope = scope_.NewSubScope("dropout");
    const Output shape = ops::Shape(scope, x);
    const Output uniform = ops::RandomUniform(scope.WithOpName("random_uniform"), shape, DataType::kFloat,
                                              ops::RandomUniform::Seed(seed_).Seed2(++random_ops_));
    const Output mask = ops::Floor(scope, ops::Add(scope, keep, uniform).z);
    return ops::Mul(scope.WithOpName("mul"), ops::RealDiv(scope.WithOpName("div"), x, keep).z, mask);
  }

  std::vector<GraphVariable> TakeParameters() { return std::move(parameters_); }

 private:
  Output Weights(const std::vector<int64_t>& dims, bool zero) {
    const std::string name = "W" + std::to_string(layer_);
    const Scope initial = scope_.NewSubScope(name + "_initial");
    const Output shape = ops::Const(initial.WithOpName("shape"), Tensor::Vector(dims));
    Output value;
    if (zero) {
      value = ops::Fill(initial, ops::Cast(initial, shape, DataType::kInt32).y, 0.0f);
    } else {
      const Output normal = ops::TruncatedNormal(initial, shape, DataType::kFloat,
                                                 ops::TruncatedNormal::Seed(seed_).Seed2(++random_ops_));
      value = ops::Mul(initial, normal, kWeightDeviation);
    }
    return parameters_.emplace_back(scope_.WithOpName(name), value);
  }

  Output Biases(int64_t size) {
    const std::string name = "b" + std::to_string(layer_);
    return parameters_.emplace_back(
        scope_.WithOpName(name), Tensor::Vector(std::vector<float>(static_cast<size_t>(size), spec_.bias)));
  }

  const Scope& scope_;
  const ModelSpec& spec_;
  const int64_t seed_;
  int layer_ = 0;
  int64_t random_ops_ = 0;
  std::vector<GraphVariable> parameters_;
};

// The logits of the images.
Output BuildLogits(const Scope& scope, const ModelSpec& spec, const Model& model, Network& network) {
  Output x = model.images;
  int64_t side = kImageSide;
  int64_t channels = 1;
  for (const ConvLayer& layer : spec.convs) {
    x = network.Conv(x, channels, layer);
    side = (side + layer.stride - 1) / layer.stride;
    channels = layer.channels;
  }
  int64_t width = side * side * channels;
  x = ops::Reshape(scope, x, {-1, static_cast<int32_t>(width)});
  for (const int64_t hidden : spec.hidden) {
    x = network.Activate(network.Linear(x, width, hidden, /*zero=*/false));
    if (spec.dropout) x = network.Dropout(x, model.keep_probability);
    width = hidden;
  }
  // A single layer may begin with zeros; with more, equal weights would stay equal.
  const bool single = spec.convs.empty() && spec.hidden.empty();
  return network.Linear(x, width, kClasses, single);
}

void AddEvaluation(const Scope& scope, const Output& logits, Model& model) {
  model.probabilities = ops::Softmax(scope.WithOpName("probabilities"), logits);
  model.digits = ops::ArgMax(scope.WithOpName("digits"), model.probabilities, 1).output;
  // From the logits: the logarithm of a probability that was rounded to 0 would be infinite.
  const ops::SoftmaxCrossEntropyWithLogits cross_entropy(scope, logits, model.labels);
  model.loss = ops::Sum(scope.WithOpName("loss"), cross_entropy.loss, 0);
  const Output right = ops::Equal(scope, model.digits, ops::ArgMax(scope, model.labels, 1).output);
  model.accuracy = ops::Mean(scope.WithOpName("accuracy"), ops::Cast(scope, right, DataType::kFloat).y, 0);
}

}  // namespace

std::span<const ModelSpec> ModelSpecs() {
  static const auto& specs = *new std::vector<ModelSpec>{
      {.name = "softmax", .bias = 0, .adam = false},
      {.name = "mlp_sigmoid", .hidden = {200, 100, 60, 30}, .relu = false, .bias = 0},
      {.name = "mlp_relu", .hidden = {200, 100, 60, 30}},
      {.name = "mlp_dropout", .hidden = {200, 100, 60, 30}, .dropout = true},
      {.name = "conv", .convs = {{4, 5, 1}, {8, 5, 2}, {12, 4, 2}}, .hidden = {200}},
      {.name = "conv_dropout",
       .convs = {{6, 6, 1}, {12, 5, 2}, {24, 4, 2}},
       .hidden = {200},
       .dropout = true},
  };
  return specs;
}

const ModelSpec* FindModelSpec(std::string_view name) {
  for (const ModelSpec& spec : ModelSpecs()) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

Model BuildModel(const Scope& scope, const ModelSpec& spec, uint64_t seed) {
  Model model;
  model.images = ops::Placeholder(scope.WithOpName("images"), DataType::kFloat,
                                  ops::Placeholder::Shape({-1, kImageSide, kImageSide, 1}));
  model.labels =
      ops::Placeholder(scope.WithOpName("labels"), DataType::kFloat, ops::Placeholder::Shape({-1, kClasses}));
  if (spec.dropout) {
    model.keep_probability =
        ops::PlaceholderWithDefault(scope.WithOpName("keep_probability"), Input(1.0f), TensorShape());
  }
  Network network(scope, spec, seed);
  AddEvaluation(scope, BuildLogits(scope, spec, model, network), model);
  model.parameters = network.TakeParameters();
  if (spec.adam) {
    model.learning_rate = ops::Placeholder(scope.WithOpName("learning_rate"), DataType::kFloat,
                                           ops::Placeholder::Shape(TensorShape()));
    model.train_step = AdamOptimizer(model.learning_rate).Minimize(scope, model.loss);
  } else {
    model.train_step = GradientDescentOptimizer(kDescentRate).Minimize(scope, model.loss);
  }
  model.initializer = GlobalVariablesInitializer(scope);
  return model;
}

float LearningRate(int64_t step) {
  return static_cast<float>(0.0001 + (0.003 - 0.0001) * std::exp(-static_cast<double>(step) / 2000));
}

}  // namespace millrace::mnist
