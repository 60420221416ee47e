// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/layers.h"

#include <algorithm>

#include "millrace/control_flow.h"
#include "millrace/meta_graph.h"
#include "millrace/moving_averages.h"
#include "millrace/ops.h"
#include "training/formula.h"
#include "training/layers_common.h"

namespace millrace::layers {

Output Relu(const Scope& scope, const Output& x) { return ops::Relu(scope, x); }
Output Relu6(const Scope& scope, const Output& x) { return ops::Relu6(scope, x); }
Output Elu(const Scope& scope, const Output& x) { return ops::Elu(scope, x); }
Output Sigmoid(const Scope& scope, const Output& x) { return ops::Sigmoid(scope, x); }
Output Softmax(const Scope& scope, const Output& x) { return ops::Softmax(scope, x); }
Output Softplus(const Scope& scope, const Output& x) { return ops::Softplus(scope, x); }
Output Tanh(const Scope& scope, const Output& x) { return ops::Tanh(scope, x); }

Scope EnterLayer(const Scope& scope, const std::string& name, const char* default_name) {
  return name.empty() ? EnterUniqueVariableScope(scope, default_name) : EnterVariableScope(scope, name);
}

Status CheckInput(const Scope& scope, const char* layer, const Output& x, int rank) {
  MR_RETURN_IF_ERROR(scope.status());
  if (!x.IsSet()) return errors::InvalidArgument(layer, ": the input is unset");
  const PartialShape shape = scope.ShapeOf(x);
  const auto who = [&] { return StrCat(layer, ": the input '", Scope::NameOf(x), "'"); };
  if (shape.unknown_rank() || (rank > 0 ? shape.rank() != rank : shape.rank() < -rank)) {
    return errors::InvalidArgument(who(), " has the shape ", shape, ", expected ",
                                   rank > 0 ? "" : "at least ", rank > 0 ? rank : -rank, " axes");
  }
  if (shape.dim(shape.rank() - 1) >= 0) return Status();
  return errors::InvalidArgument(who(), " has the shape ", shape,
                                 ": The last dimension of the inputs should be defined. Found `None`.");
}

StatusOr<std::vector<int64_t>> PerAxis(const char* layer, const char* what, const std::vector<int64_t>& given,
                                       size_t wanted) {
  for (const int64_t size : given) {
    if (size < 1) return errors::InvalidArgument(layer, ": ", what, " must be positive, got ", size);
  }
  if (given.size() == wanted) return given;
  if (given.size() == 1) return std::vector<int64_t>(wanted, given[0]);
  return errors::InvalidArgument(layer, ": expected 1 or ", wanted, " numbers for ", what, ", got ",
                                 given.size());
}

GetVariableOptions KernelOptions(const Output& x, const WeightOptions& options) {
  return {.dtype = Scope::TypeOf(x),
          .initializer = options.kernel_initializer,
          .regularizer = options.kernel_regularizer,
          .trainable = options.trainable};
}

Output Finish(const Scope& scope, const Output& x, int64_t units, const WeightOptions& options) {
  Output result = x;
  if (options.use_bias && scope.ok()) {
    Initializer first = options.bias_initializer;
    if (first == nullptr) first = initializers::Zeros();
    const Output bias = GetPartitionedVariable(scope, "bias", {units},
                                               {.dtype = Scope::TypeOf(x),
                                                .initializer = first,
                                                .regularizer = options.bias_regularizer,
                                                .trainable = options.trainable});
    result = ops::BiasAdd(scope, x, bias);
  }
  return options.activation != nullptr && scope.ok() ? options.activation(scope, result) : result;
}

std::optional<bool> KnownCondition(const Input& condition) {
  if (condition.literal() == nullptr) return std::nullopt;
  const Tensor& value = condition.literal()->tensor();
  if (value.dtype() != DataType::kBool || value.num_elements() != 1) return std::nullopt;
  return *value.data<bool>();
}

Output Dense(const Scope& scope, const Output& x, int64_t units, const WeightOptions& options) {
  scope.UpdateStatus(CheckInput(scope, "dense", x, -2));
  if (!scope.ok()) return {};
  const Scope own = EnterLayer(scope, options.name, "dense");
  const PartialShape shape = scope.ShapeOf(x);
  const int64_t depth = shape.dim(shape.rank() - 1);
  const Output kernel = GetPartitionedVariable(own, "kernel", {depth, units}, KernelOptions(x, options));
  if (shape.rank() == 2) return Finish(own, ops::MatMul(own, x, kernel), units, options);
  const Scope product = own.NewSubScope("Tensordot");
  const Output rows = ops::Reshape(product, x, {-1, static_cast<int32_t>(depth)});
  const Output flat = ops::MatMul(product, rows, kernel);
  // At most one size is unknown: the shape is a constant with -1; otherwise it is computed.
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.back() = units;
  Output wanted;
  if (std::count(dims.begin(), dims.end(), -1) <= 1) {
    wanted = Vector(product.WithOpName("shape"), dims);
  } else {
    const int32_t outer = shape.rank() - 1;
    const Output before = ops::Slice(product, ops::Shape(product, x).output, {0}, {outer});
    const Output last = Vector(product, {units});
    wanted = ops::ConcatV2(product.WithOpName("concat"), {before, last}, 0);
  }
  return Finish(own, ops::Reshape(product.WithOpName("/"), flat, wanted), units, options);
}

Output Flatten(const Scope& scope, const Output& x) {
  if (!scope.ok()) return {};
  const Scope own = EnterUniqueVariableScope(scope, "flatten");
  const PartialShape shape = scope.ShapeOf(x);
  if (shape.rank() == 0) {
    own.UpdateStatus(errors::InvalidArgument(
        "Input 0 of layer flatten is incompatible with the layer: : expected min_ndim=1, found ndim=0. "
        "Full shape received: []"));
    return {};
  }
  int64_t size = 1;
  for (int i = 1; i < shape.rank(); ++i) size = size < 0 || shape.dim(i) < 0 ? -1 : size * shape.dim(i);
  if (shape.rank() >= 1 && size >= 0) return ops::Reshape(own, x, {-1, static_cast<int32_t>(size)});
  const Output all = ops::Shape(own, x);
  const Output batch = ops::Slice(own, all, {0}, {1});
  return ops::Reshape(own, x, ops::ConcatV2(own, {batch, Vector(own, {-1})}, 0).output);
}

namespace {

Output DropSome(const Scope& scope, const Output& x, const DropoutOptions& options) {
  const Scope own = scope.NewSubScope("dropout");
  const Output shape = ops::Shape(own, x);
  const auto [seed, seed2] = SeedsOf(own, options.seed);
  const DataType dtype = Scope::TypeOf(x);
  const Output drawn = ops::RandomUniform(own.WithOpName("random_uniform"), shape, dtype,
                                          ops::RandomUniform::Seed(seed).Seed2(seed2));
  const Output kept = Binary(own, "GreaterEqual", "GreaterEqual", drawn, options.rate);
  return Formula(own, x) * (1 / (1 - options.rate)) * CastTo(own, kept, dtype);
}

}  // namespace

Output Dropout(const Scope& scope, const Output& x, const DropoutOptions& options) {
  if (!(options.rate >= 0 && options.rate < 1)) {
    scope.UpdateStatus(errors::InvalidArgument(
        "rate must be a scalar tensor or a float in the range [0, 1), got ", options.rate));
  }
  if (!scope.ok()) return {};
  const Scope own = EnterLayer(scope, options.name, "dropout");
  const std::optional<bool> known = KnownCondition(options.training);
  const BranchFn drop = [&](const Scope& branch) -> std::vector<Output> {
    return {DropSome(branch, x, options)};
  };
  const BranchFn keep = [&](const Scope& branch) -> std::vector<Output> {
    return {ops::Identity(branch, x)};
  };
  if (known) return (*known && options.rate > 0 ? drop : keep)(own)[0];
  const std::vector<Output> result = Cond(own, options.training, drop, keep);
  return result.empty() ? Output() : result[0];
}

namespace {

// The statistics that normalise a batch, and those that update its averages.
struct Normalised {
  Output result;
  Output mean;  // of the batch; the moving averages themselves if they do not change
  Output variance;
};

struct BatchNorm {
  const BatchNormOptions& options;
  Scope scope;
  Output x;
  Output gamma, beta;  // unset: none
  GraphVariable mean, variance;

  // One op normalises images; its variance of the batch is the unbiased estimate.
  Normalised Fused(const Scope& branch, bool training) const {
    const TensorShape depth = *scope.ShapeOf(mean.value()).ToTensorShape();
    const auto constant = [&](float value) -> Output { return ops::Const(branch, value, depth); };
    const Output factor = gamma.IsSet() ? gamma : constant(1), offset = beta.IsSet() ? beta : constant(0);
    const auto attrs =
        ops::FusedBatchNormV3::Epsilon(static_cast<float>(options.epsilon)).IsTraining(training);
    if (!training) {
      const ops::FusedBatchNormV3 norm(branch, x, factor, offset, mean.value(), variance.value(), attrs);
      return {norm.y, mean.value(), variance.value()};
    }
    const Output none = ops::Const(branch, Tensor::Vector(std::vector<float>()));
    const ops::FusedBatchNormV3 norm(branch, x, factor, offset, none, none, attrs);
    return {norm.y, norm.batch_mean, norm.batch_variance};
  }

  Normalised Plain(const Scope& branch, bool training) const {
    Normalised n{{}, mean.value(), variance.value()};
    if (training) {
      const Scope moments = branch.NewSubScope("moments");
      std::vector<int64_t> axes;
      for (int i = 0; i + 1 < scope.ShapeOf(x).rank(); ++i) axes.push_back(i);
      const Output over = Vector(moments.WithOpName("mean/reduction_indices"), axes);
      n.mean = ops::Mean(moments.WithOpName("mean"), x, over);
      const Output fixed = ops::StopGradient(moments, n.mean);
      const Output squares = ops::SquaredDifference(moments, x, fixed);
      n.variance = ops::Mean(moments.WithOpName("variance"), squares, over);
    }
    const Scope own = branch.NewSubScope("batchnorm");
    Formula factor = (Formula(own, n.variance) + options.epsilon).Call("Rsqrt");
    if (gamma.IsSet()) factor = factor * gamma;
    Formula offset = Formula(own, n.mean) * factor;
    offset = beta.IsSet() ? Formula(own, beta) - offset : offset.Call("Neg");
    n.result = (Formula(own, x) * factor + offset).tensor();
    return n;
  }

  Normalised Run(const Scope& branch, bool fused, bool training) const {
    return fused ? Fused(branch, training) : Plain(branch, training);
  }

  void AddUpdate(const GraphVariable& average, const Output& value, const Output& decay) const {
    const Output update = AssignMovingAverage(scope, average, value, decay);
    if (scope.ok()) AddToCollection(scope, graph_keys::kUpdateOps, Operation(update));
  }
};

}  // namespace

Output BatchNormalization(const Scope& scope, const Output& x, const BatchNormOptions& options) {
  scope.UpdateStatus(CheckInput(scope, "batch_normalization", x, -2));
  if (!scope.ok()) return {};
  const Scope own = EnterLayer(scope, options.name, "batch_normalization");
  const PartialShape shape = scope.ShapeOf(x);
  const int64_t depth = shape.dim(shape.rank() - 1);
  // Statistics of half types are stored as floats.
  const DataType dtype = Scope::TypeOf(x) == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  const bool fused = shape.rank() == 4 && dtype == DataType::kFloat;
  const auto get = [&](const char* name, const Initializer& first, float otherwise,
                       const Regularizer& penalty, bool trainable) {
    const Initializer plain = otherwise == 0 ? initializers::Zeros() : initializers::Ones();
    return GetVariable(own, name, {depth},
                       {.dtype = dtype,
                        .initializer = first != nullptr ? first : plain,
                        .regularizer = penalty,
                        .trainable = trainable});
  };
  BatchNorm norm{options, own, x, {}, {}, {}, {}};
  if (options.scale) {
    norm.gamma = get("gamma", options.gamma_initializer, 1, options.gamma_regularizer, options.trainable);
  }
  if (options.center) {
    norm.beta = get("beta", options.beta_initializer, 0, options.beta_regularizer, options.trainable);
  }
  norm.mean = get("moving_mean", options.moving_mean_initializer, 0, {}, false);
  norm.variance = get("moving_variance", options.moving_variance_initializer, 1, {}, false);
  if (!scope.ok()) return {};

  const std::optional<bool> known = KnownCondition(options.training);
  if (known) {
    const Normalised n = norm.Run(own, fused, *known);
    if (!scope.ok() || !*known) return n.result;
    const Output decay = Number(own.WithOpName("momentum"), options.momentum, dtype);
    norm.AddUpdate(norm.mean, n.mean, decay);
    norm.AddUpdate(norm.variance, n.variance, decay);
    return n.result;
  }
  const auto branch = [&](bool training) {
    return [&norm, fused, training](const Scope& inside) -> std::vector<Output> {
      const Normalised n = norm.Run(inside, fused, training);
      return {n.result, n.mean, n.variance};
    };
  };
  const std::vector<Output> n = Cond(own, options.training, branch(true), branch(false));
  if (n.empty()) return {};
  // Without training the averages stay unchanged.
  const Output decay = ops::Select(own, AsTensor(own, "training", options.training, DataType::kBool),
                                   Number(own.WithOpName("momentum"), options.momentum, dtype),
                                   Number(own.WithOpName("one"), 1, dtype));
  norm.AddUpdate(norm.mean, n[1], decay);
  norm.AddUpdate(norm.variance, n[2], decay);
  return n[0];
}

}  // namespace millrace::layers
