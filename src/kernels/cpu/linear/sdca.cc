// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Stochastic dual coordinate ascent for linear models with L1 and L2 regularisation. The examples are visited
// sequentially in an order that is drawn in each run, so results don't depend on threads.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/random/philox_stream.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/linear/sdca_loss.h"
#include "kernels/cpu/state/variable_util.h"
#include "kernels/shared/fingerprint.h"

namespace millrace {
namespace {

constexpr int64_t kStateColumns = 4;  // dual, primal loss, dual loss, weight of an example

class Regularization {
 public:
  explicit Regularization(KernelConstruction& c)
      : l2_(c.Attr<float>("l2")), shrinkage_(double{c.Attr<float>("l1")} / l2_) {}
  double l2() const { return l2_; }
  // The primal weight for a dual one: moved towards zero by l1 / l2.
  double Shrink(double weight) const {
    const double size = std::max(std::abs(weight) - shrinkage_, 0.0);
    return size > 0 ? std::copysign(size, weight) : size;
  }

 private:
  const double l2_;
  const double shrinkage_;
};

// The positions of the inputs of the node.
struct Arguments {
  int num_sparse, num_values, num_dense;

  int examples(int group) const { return group; }
  int features(int group) const { return num_sparse + group; }
  int values(int group) const { return 2 * num_sparse + group; }
  int dense(int group) const { return 2 * num_sparse + num_values + group; }
  int example_weights() const { return dense(num_dense); }
  int labels() const { return example_weights() + 1; }
  int indices(int group) const { return labels() + 1 + group; }
  int sparse_weights(int group) const { return indices(num_sparse) + group; }
  int dense_weights(int group) const { return sparse_weights(num_sparse) + group; }
  int state() const { return dense_weights(num_dense); }
};

// Weights with the changes of this run.
struct Weights {
  std::span<const float> nominal;
  std::span<float> delta;
};

// The examples, with each sparse feature by its index among the weights.
class Problem {
 public:
  // REQUIRES: the deltas are zeros.
  static StatusOr<Problem> Read(KernelContext& context, const Arguments& args) {
    Problem p;
    p.num_examples_ = context.input(args.example_weights()).num_elements();
    if (p.num_examples_ > INT32_MAX) {
      return errors::InvalidArgument("Too many examples in a mini-batch: ", p.num_examples_, " > ",
                                     INT32_MAX);
    }
    p.squared_norms_.resize(static_cast<size_t>(p.num_examples_));
    for (int g = 0; g < args.num_sparse; ++g) MR_RETURN_IF_ERROR(p.AddSparse(context, args, g));
    for (int g = 0; g < args.num_dense; ++g) MR_RETURN_IF_ERROR(p.AddDense(context, args, g));
    return p;
  }

  struct Prediction {
    double before = 0;  // with the input weights
    double now = 0;
  };
  Prediction Predict(int64_t example, double partitions, const Regularization& regularization) const {
    Prediction out;
    const auto add = [&](const Weights& weights, size_t at, double value) {
      const double nominal = weights.nominal[at];
      out.before += value * regularization.Shrink(nominal);
      out.now += value * regularization.Shrink(nominal + double{weights.delta[at]} * partitions);
    };
    ForEachFeature(example, add);
    return out;
  }
  void Change(int64_t example, double amount) {
    ForEachFeature(example, [&](const Weights& weights, size_t at, double value) {
      weights.delta[at] += static_cast<float>(value * amount);
    });
  }
  double squared_norm(int64_t example) const { return squared_norms_[static_cast<size_t>(example)]; }
  int64_t num_examples() const { return num_examples_; }

 private:
  struct Sparse {
    std::vector<size_t> begins;  // of the features of each example, and the end
    std::vector<size_t> places;
    std::span<const float> values;  // empty: all are 1
    Weights weights;
  };
  struct Dense {
    std::span<const float> values;
    size_t columns;
    Weights weights;
  };

  template <typename Fn>
  void ForEachFeature(int64_t example, Fn fn) const {
    const auto e = static_cast<size_t>(example);
    for (const Sparse& group : sparse_) {
      for (size_t i = group.begins[e]; i < group.begins[e + 1]; ++i) {
        fn(group.weights, group.places[i], group.values.empty() ? 1.0 : double{group.values[i]});
      }
    }
    for (const Dense& group : dense_) {
      for (size_t i = 0; i < group.columns; ++i) fn(group.weights, i, group.values[e * group.columns + i]);
    }
  }

  static StatusOr<Weights> Open(KernelContext& context, int input, int output) {
    const Tensor& nominal = context.input(input);
    MR_ASSIGN_OR_RETURN(Tensor * delta, context.AllocateOutput(output, nominal.shape()));
    std::ranges::fill(delta->flat<float>(), 0.0f);
    return Weights{nominal.flat<float>(), delta->flat<float>()};
  }

  Status AddSparse(KernelContext& context, const Arguments& args, int g) {
    Sparse group;
    MR_ASSIGN_OR_RETURN(group.weights, Open(context, args.sparse_weights(g), 1 + g));
    const std::span<const int64_t> ids = context.input(args.indices(g)).flat<int64_t>();
    if (ids.size() != group.weights.nominal.size()) {
      return errors::InvalidArgument("Group ", g, " of sparse features has ", ids.size(), " indices for ",
                                     group.weights.nominal.size(), " weights");
    }
    std::unordered_map<int64_t, size_t> place_of;
    for (size_t i = 0; i < ids.size(); ++i) place_of[ids[i]] = i;
    const std::span<const int64_t> examples = context.input(args.examples(g)).flat<int64_t>();
    const std::span<const int64_t> features = context.input(args.features(g)).flat<int64_t>();
    if (g < args.num_values) group.values = context.input(args.values(g)).flat<float>();
    if (examples.size() != features.size() ||
        (g < args.num_values && group.values.size() != examples.size())) {
      return errors::InvalidArgument("Group ", g, " of sparse features has ", examples.size(),
                                     " example indices, ", features.size(), " feature indices and ",
                                     g < args.num_values ? group.values.size() : features.size(), " values");
    }
    group.begins.assign(static_cast<size_t>(num_examples_) + 1, 0);
    std::unordered_set<int64_t> seen;  // of the example
    for (size_t i = 0; i < examples.size(); ++i) {
      if (examples[i] < 0 || examples[i] >= num_examples_ || (i > 0 && examples[i] < examples[i - 1])) {
        return errors::InvalidArgument(
            "The example indices of sparse features must be in ascending order in [0, ", num_examples_,
            "), got ", examples[i], " at ", i);
      }
      const auto place = place_of.find(features[i]);
      if (place == place_of.end()) {
        return errors::InvalidArgument("Found sparse feature indices out of valid range: ", features[i]);
      }
      if (i > 0 && examples[i] != examples[i - 1]) seen.clear();
      if (!seen.insert(features[i]).second) {
        return errors::InvalidArgument("Duplicate index in sparse vector.");
      }
      const double value = group.values.empty() ? 1.0 : double{group.values[i]};
      const auto example = static_cast<size_t>(examples[i]);
      group.places.push_back(place->second);
      squared_norms_[example] += value * value;
      ++group.begins[example + 1];
    }
    std::partial_sum(group.begins.begin(), group.begins.end(), group.begins.begin());
    sparse_.push_back(std::move(group));
    return Status();
  }

  Status AddDense(KernelContext& context, const Arguments& args, int g) {
    Dense group;
    const Tensor& features = context.input(args.dense(g));
    MR_ASSIGN_OR_RETURN(group.weights, Open(context, args.dense_weights(g), 1 + args.num_sparse + g));
    if (features.rank() != 2 || features.dim(0) != num_examples_) {
      return errors::InvalidArgument("Dense features must be a matrix with a row for each of ", num_examples_,
                                     " examples, got shape ", features.shape());
    }
    group.columns = static_cast<size_t>(features.dim(1));
    if (group.columns > group.weights.nominal.size()) {
      return errors::InvalidArgument("More dense features than we have parameters for: ", group.columns);
    }
    group.values = features.flat<float>();
    for (size_t i = 0; i < group.values.size(); ++i) {
      squared_norms_[i / group.columns] += double{group.values[i]} * group.values[i];
    }
    dense_.push_back(std::move(group));
    return Status();
  }

  int64_t num_examples_ = 0;
  std::vector<double> squared_norms_;
  std::vector<Sparse> sparse_;
  std::vector<Dense> dense_;
};

class SdcaKernel final : public OpKernel {
 public:
  SdcaKernel(KernelConstruction& c, const char* adaptive)
      : OpKernel(c),
        args_{static_cast<int>(c.Attr<int64_t>("num_sparse_features")),
              static_cast<int>(c.Attr<int64_t>("num_sparse_features_with_values")),
              static_cast<int>(c.Attr<int64_t>("num_dense_features"))},
        loss_(MakeSdcaLoss(c.Attr<std::string>("loss_type"))),
        regularization_(c),
        partitions_(static_cast<double>(c.Attr<int64_t>("num_loss_partitions"))),
        iterations_(c.Attr<int64_t>("num_inner_iterations")),
        adaptive_(c.Attr<bool>(adaptive)) {
    if (loss_ == nullptr) c.SetError(errors::InvalidArgument("Unsupported loss type"));
    if (args_.num_values > args_.num_sparse) {
      c.SetError(errors::InvalidArgument("There are values for ", args_.num_values, " of ", args_.num_sparse,
                                         " groups of sparse features"));
    }
  }

  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(Problem problem, Problem::Read(context, args_));
    const int64_t n = problem.num_examples();
    const Tensor& labels = context.input(args_.labels());
    if (labels.num_elements() != n) {
      return errors::InvalidArgument("Expected ", n, " example labels, got ", labels.num_elements());
    }
    const TensorShape expected({n, kStateColumns});
    const Tensor& old = context.input(args_.state());
    if (old.shape() != expected) {
      return errors::InvalidArgument("Expected shape ", expected, " for example_state_data, got ",
                                     old.shape());
    }
    std::vector<float> converted(labels.data<float>(), labels.data<float>() + n);
    for (float& label : converted) MR_RETURN_IF_ERROR(loss_->ConvertLabel(&label));
    MR_ASSIGN_OR_RETURN(Tensor * state, context.ForwardInputOrAllocateOutput({args_.state()}, 0, expected));
    if (state->raw_data() != old.raw_data()) std::ranges::copy(old.flat<float>(), state->data<float>());
    PhiloxStream stream(PhiloxRandom(RandomSeed64(), 0));
    const std::span<const float> weights = context.input(args_.example_weights()).flat<float>();
    for (int64_t i = 0; n > 0 && i < iterations_; ++i) {
      const std::vector<int64_t> order =
          adaptive_ ? Drawn(problem, weights, converted, state->data<float>(), stream) : Shuffled(n, stream);
      MR_RETURN_IF_ERROR(Pass(context, problem, order, weights, converted, state->data<float>()));
    }
    return Status();
  }

 private:
  // The number of examples between checks for cancellation.
  static constexpr size_t kExamplesPerCheck = 256;

  Status Pass(const KernelContext& context, Problem& problem, const std::vector<int64_t>& order,
              std::span<const float> weights, const std::vector<float>& labels, float* state) const {
    for (size_t i = 0; i < order.size(); ++i) {
      if (i % kExamplesPerCheck == 0 && context.cancellation().IsCancelled()) {
        return errors::Cancelled("The step was cancelled while a linear model was trained");
      }
      const int64_t example = order[i];
      const double label = labels[static_cast<size_t>(example)];
      const double weight = weights[static_cast<size_t>(example)];
      float* const row = state + example * kStateColumns;
      const double dual = row[0];
      const auto prediction = problem.Predict(example, partitions_, regularization_);
      const double curvature = partitions_ * problem.squared_norm(example) / regularization_.l2();
      const double updated = loss_->UpdatedDual(curvature, label, weight, dual, prediction.now);
      problem.Change(example, (updated - dual) * weight / regularization_.l2());
      row[0] = static_cast<float>(updated);
      row[1] = static_cast<float>(loss_->PrimalLoss(prediction.before, label, weight));
      row[2] = static_cast<float>(loss_->DualLoss(dual, label, weight));
      row[3] = static_cast<float>(weight);
    }
    return Status();
  }

  static std::vector<int64_t> Shuffled(int64_t n, PhiloxStream& stream) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.Uniform64(i)]);
    return order;
  }

  // As many draws as there are examples, with higher probability for those whose dual variable is farther
  // from its optimum (Csiba and others, "Stochastic Dual Coordinate Ascent with Adaptive Probabilities").
  std::vector<int64_t> Drawn(const Problem& problem, std::span<const float> weights,
                             const std::vector<float>& labels, const float* state,
                             PhiloxStream& stream) const {
    const int64_t n = problem.num_examples();
    std::vector<double> sums;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double wx = problem.Predict(i, partitions_, regularization_).now;
      const double residue =
          state[i * kStateColumns] + loss_->PrimalLossDerivative(wx, labels[static_cast<size_t>(i)], 1);
      const double scale = problem.squared_norm(i) + regularization_.l2() * loss_->Smoothness();
      sum += weights[static_cast<size_t>(i)] * std::sqrt(scale) * std::abs(residue);
      sums.push_back(sum);
    }
    if (!(sum > 0 && std::isfinite(sum))) return Shuffled(n, stream);
    std::vector<int64_t> order;
    for (int64_t i = 0; i < n; ++i) {
      const auto at = std::upper_bound(sums.begin(), sums.end(), stream.NextDouble() * sum);
      order.push_back(std::min<int64_t>(at - sums.begin(), n - 1));
    }
    return order;
  }

  const Arguments args_;
  const std::unique_ptr<SdcaLoss> loss_;
  const Regularization regularization_;
  const double partitions_;
  const int64_t iterations_;
  const bool adaptive_;
};

class ShrinkKernel final : public OpKernel {
 public:
  explicit ShrinkKernel(KernelConstruction& c) : OpKernel(c), regularization_(c) {}
  Status Compute(KernelContext& context) override {
    for (int i = 0; i < num_inputs(); ++i) {
      const auto shrink = [&](Tensor& weights) -> Status {
        MR_RETURN_IF_ERROR(MakeWritable(context, weights));
        for (float& w : weights.flat<float>()) w = static_cast<float>(regularization_.Shrink(w));
        return Status();
      };
      MR_RETURN_IF_ERROR(UpdateRef(context, i, shrink));
    }
    return Status();
  }

 private:
  const Regularization regularization_;
};

class FingerprintKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    if (!input.shape().IsVector()) {
      return errors::InvalidArgument("Input must be a vector, got shape ", input.shape());
    }
    const int64_t n = input.num_elements();
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({n, 2})));
    for (int64_t i = 0; i < n; ++i) {
      const Fingerprint128 f = FarmFingerprint128(input.data<std::string>()[i]);
      // The low word is never 0 or 1, which tables reserve.
      out->data<int64_t>()[2 * i] = static_cast<int64_t>(f.low >= 2 ? f.low : f.low + ~uint64_t{1});
      out->data<int64_t>()[2 * i + 1] = static_cast<int64_t>(f.high);
    }
    return Status();
  }
};

}  // namespace

void RegisterSdcaKernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, const char* adaptive) {
    registry.Register(KernelDef(op), [adaptive](KernelConstruction& c) {
      return std::make_unique<SdcaKernel>(c, adaptive);
    });
  };
  add("SdcaOptimizer", "adaptative");
  add("SdcaOptimizerV2", "adaptive");
  registry.Register<ShrinkKernel>(KernelDef("SdcaShrinkL1"));
  registry.Register<FingerprintKernel>(KernelDef("SdcaFprint"));
}

}  // namespace millrace
