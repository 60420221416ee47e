// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/initializers.h"
#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/variables.h"

// Layers of models, as functions from a tensor to a tensor: docs/training.md has examples. Variables
// and nodes are named as those of tf.layers, so that checkpoints match: "dense/kernel",
// "dense_1/bias". A layer with a name enters the variable scope of that name, where it may share
// variables; without one it enters the first unused name. Errors go to the scope's status; results are
// unset then.
namespace millrace::layers {

// Applied to the result of a layer; null: none.
using Activation = std::function<Output(const Scope&, const Output&)>;
Output Relu(const Scope& scope, const Output& x);
Output Relu6(const Scope& scope, const Output& x);
Output Elu(const Scope& scope, const Output& x);
Output Sigmoid(const Scope& scope, const Output& x);
Output Softmax(const Scope& scope, const Output& x);
Output Softplus(const Scope& scope, const Output& x);
Output Tanh(const Scope& scope, const Output& x);

// Options of the variables of a layer. Default initializers: those of the scope, or Glorot's uniform for
// kernels and zeros for biases.
struct WeightOptions {
  std::string name = {};
  Activation activation = {};
  bool use_bias = true;
  bool trainable = true;
  Initializer kernel_initializer = {};
  Initializer bias_initializer = {};
  Regularizer kernel_regularizer = {};
  Regularizer bias_regularizer = {};
};

// activation(x kernel + bias): [..., n] gives [..., units].
Output Dense(const Scope& scope, const Output& x, int64_t units, const WeightOptions& options = {});

enum class Padding { kValid, kSame };
// Two numbers, or one for both axes.
using Pair = std::vector<int64_t>;

struct ConvOptions {
  Pair strides = {1};
  Padding padding = Padding::kValid;
  Pair dilation = {1};
  int64_t depth_multiplier = 1;            // of separable ones: outputs of the depthwise step per channel
  Initializer pointwise_initializer = {};  // of separable ones
  Regularizer pointwise_regularizer = {};  // of separable ones
};
// [batch, height, width, channels] with kernels [kernel_size, channels, filters].
Output Conv2D(const Scope& scope, const Output& x, int64_t filters, const Pair& kernel_size,
              const ConvOptions& conv = {}, const WeightOptions& options = {});
// A depthwise convolution, followed by a pointwise one (a kernel of one pixel over all channels).
Output SeparableConv2D(const Scope& scope, const Output& x, int64_t filters, const Pair& kernel_size,
                       const ConvOptions& conv = {}, const WeightOptions& options = {});
// The gradient of a Conv2D as a layer: image sizes are multiplied by the strides.
Output Conv2DTranspose(const Scope& scope, const Output& x, int64_t filters, const Pair& kernel_size,
                       const ConvOptions& conv = {}, const WeightOptions& options = {});
// [batch, depth, height, width, channels]; sizes are three numbers, or one for all axes.
Output Conv3D(const Scope& scope, const Output& x, int64_t filters, const std::vector<int64_t>& kernel_size,
              const ConvOptions& conv = {}, const WeightOptions& options = {});

struct PoolOptions {
  Padding padding = Padding::kValid;
  std::string name = {};
};
Output MaxPooling2D(const Scope& scope, const Output& x, const Pair& pool_size, const Pair& strides,
                    const PoolOptions& options = {});
Output AveragePooling2D(const Scope& scope, const Output& x, const Pair& pool_size, const Pair& strides,
                        const PoolOptions& options = {});
Output MaxPooling3D(const Scope& scope, const Output& x, const std::vector<int64_t>& pool_size,
                    const std::vector<int64_t>& strides, const PoolOptions& options = {});
Output AveragePooling3D(const Scope& scope, const Output& x, const std::vector<int64_t>& pool_size,
                        const std::vector<int64_t>& strides, const PoolOptions& options = {});

// Reshapes [batch, ...] to [batch, n].
Output Flatten(const Scope& scope, const Output& x);

struct DropoutOptions {
  double rate = 0.5;       // the fraction of elements set to 0; others are scaled by 1 / (1 - rate)
  Input training = false;  // a bool, or a scalar bool tensor
  int64_t seed = 0;
  std::string name = {};
};
Output Dropout(const Scope& scope, const Output& x, const DropoutOptions& options);

// Ioffe and Szegedy, Batch Normalization: (x - mean) / sqrt(variance + epsilon) * gamma + beta over all axes
// but the last, with the statistics of the batch in training and moving averages of them otherwise. The
// updates of the averages are added to graph_keys::kUpdateOps: training steps must depend on them.
struct BatchNormOptions {
  Input training = false;  // a bool, or a scalar bool tensor
  double momentum = 0.99;
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  bool trainable = true;
  Initializer beta_initializer = {};             // zeros
  Initializer gamma_initializer = {};            // ones
  Initializer moving_mean_initializer = {};      // zeros
  Initializer moving_variance_initializer = {};  // ones
  Regularizer beta_regularizer = {};
  Regularizer gamma_regularizer = {};
  std::string name = {};
};
Output BatchNormalization(const Scope& scope, const Output& x, const BatchNormOptions& options = {});

// The distribution of rows over the parts of a table.
enum class PartitionStrategy {
  kMod,  // row i is in part i % n, at i / n
  kDiv,  // contiguous, the first parts have one row more: as in a PartitionedVariable
};
struct EmbeddingOptions {
  PartitionStrategy strategy = PartitionStrategy::kMod;
  std::optional<double> max_norm = {};  // rows with a larger norm are scaled down to it
};
// The rows of a table [n, ...]: ids of any shape give [ids..., ...]. Gradients are slices.
Output EmbeddingLookup(const Scope& scope, const std::vector<GraphVariable>& parts, const Output& ids,
                       const EmbeddingOptions& options = {});

// The components of a sparse tensor.
struct SparseInput {
  Output indices;  // int64 [n, rank], in order
  Output values;   // [n]
};
enum class Combiner { kSum, kMean, kSqrtN };
struct SparseEmbeddingOptions {
  PartitionStrategy strategy = PartitionStrategy::kMod;
  std::optional<double> max_norm = {};
  Combiner combiner = Combiner::kMean;
  Output weights = {};  // of the ids, [n]; unset: ones
};
// Combines the embedding rows of the ids in each row of `ids`: their weighted sum, divided by the sum of the
// weights, or by the root of the sum of their squares. Trailing rows without ids have no result.
Output EmbeddingLookupSparse(const Scope& scope, const std::vector<GraphVariable>& parts,
                             const SparseInput& ids, const SparseEmbeddingOptions& options = {});

}  // namespace millrace::layers
