// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/optimizers.h"
#include "millrace/scope.h"

namespace millrace::mnist {

struct ConvLayer {
  int64_t channels;
  int64_t filter_side;
  int64_t stride;
};

// The parts of a digit model: convolutions on the 28 x 28 image, then dense layers, then ten logits.
struct ModelSpec {
  std::string_view name;
  std::vector<ConvLayer> convs{};
  std::vector<int64_t> hidden{};  // widths of the dense layers before the logits
  bool relu = true;               // otherwise sigmoid
  float bias = 0.1f;              // first value of every bias
  bool dropout = false;           // after each dense hidden layer
  bool adam = true;               // with a decaying rate; otherwise gradient descent with a fixed one
};

// softmax, mlp_sigmoid, mlp_relu, mlp_dropout, conv, conv_dropout.
std::span<const ModelSpec> ModelSpecs();
// Null for an unknown name.
const ModelSpec* FindModelSpec(std::string_view name);

// The graph of a model. Shapes: [batch, 28, 28, 1] for images, [batch, 10] for labels (one of each row is 1).
struct Model {
  Output images;
  Output labels;
  Output keep_probability;  // 0.75 is fed to train, 1 is the default; unset without dropout
  Output learning_rate;     // fed at each step; unset for gradient descent
  Output probabilities;     // [batch, 10]
  Output digits;            // [batch]: the likeliest ones
  Output accuracy;          // scalar: the part of the batch that is right
  Output loss;              // scalar: the sum of the cross-entropies of the batch
  Operation train_step;
  Operation initializer;
  std::vector<GraphVariable> parameters;
};

// Adds the model to the scope's graph; errors go to its status. All random numbers follow from `seed`.
Model BuildModel(const Scope& scope, const ModelSpec& spec, uint64_t seed);

inline constexpr float kTrainKeepProbability = 0.75f;
// The rate that Adam is fed: it falls from 0.003 towards 0.0001.
float LearningRate(int64_t step);

}  // namespace millrace::mnist
