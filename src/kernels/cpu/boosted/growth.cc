// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The growth of an ensemble: by a layer of splits at a time, after a first tree of one leaf, the bias.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kernel/resource_op.h"
#include "kernels/cpu/boosted/ensemble.h"
#include "kernels/cpu/boosted/gains.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

using boosted::Ensemble;
using boosted::Node;
using boosted::Tree;

enum Pruning : int64_t { kNoPruning = 0, kPrePruning = 1, kPostPruning = 2 };

Status CheckPruning(int64_t mode) {
  if (mode == kNoPruning || mode == kPrePruning || mode == kPostPruning) return Status();
  return errors::InvalidArgument("pruning_mode must be 0, 1 or 2, got ", mode);
}

// The lists of candidates of a feature: for each list the index of its first input.
struct Lists {
  int node_ids, gains, thresholds, left, right;
  int dimensions = -1, types = -1;  // -1: none
};

struct Candidate {
  int feature = 0;  // the index of the feature in the lists
  int64_t index = 0;
  float gain = 0;
};

class UpdateKernel final : public OpKernel {
 public:
  UpdateKernel(KernelConstruction& c, bool second_version)
      : OpKernel(c),
        num_features_(static_cast<int>(c.Attr<int64_t>("num_features"))),
        lists_(ListsOf(num_features_, second_version)),
        pruning_(second_version ? -1 : c.Attr<int64_t>("pruning_mode")) {
    if (!second_version) c.SetError(CheckPruning(pruning_));
  }

  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Ensemble> ensemble, FindResource<Ensemble>(context, 0));
    MR_RETURN_IF_ERROR(Check(context));
    const int after = lists_.right + num_features_ + (lists_.types < 0 ? 0 : num_features_);
    for (int i = after; i < num_inputs(); ++i)
      MR_RETURN_IF_ERROR(RequireScalar(context.input(i), "a parameter"));
    const int32_t max_depth = context.input(after).scalar<int32_t>();
    const float learning_rate = context.input(after + 1).scalar<float>();
    const int64_t pruning = pruning_ >= 0 ? pruning_ : context.input(after + 2).scalar<int32_t>();
    MR_RETURN_IF_ERROR(CheckPruning(pruning));
    MutexLock lock(ensemble->mu);
    const std::map<int32_t, Candidate> best = BestByNode(context);
    MR_RETURN_IF_ERROR(CheckNodes(best, *ensemble));
    ++ensemble->stamp;
    CountAttempt(*ensemble);
    if (ensemble->trees.empty()) ensemble->AddTree(std::vector<float>(NumLogits(context)));
    Tree& tree = ensemble->trees.back();
    const auto begin = static_cast<int32_t>(tree.nodes.size());
    for (const auto& [node, candidate] : best) {
      if (pruning == kPrePruning && candidate.gain < 0) continue;
      Split(context, candidate, learning_rate, node, tree);
    }
    const auto end = static_cast<int32_t>(tree.nodes.size());
    if (end == begin) return Status();  // the same nodes are tried again
    ensemble->last_layer_begin = begin;
    ensemble->last_layer_end = end;
    if (++tree.num_layers >= max_depth) {
      tree.is_finalized = true;
      if (pruning == kPostPruning) boosted::PruneLosses(tree);
      ensemble->AddTree(std::vector<float>(NumLogits(context)));
      ensemble->last_layer_begin = 0;
      ensemble->last_layer_end = 1;
    }
    return Status();
  }

 private:
  static Lists ListsOf(int n, bool second_version) {
    if (!second_version) return {2, 2 + n, 2 + 2 * n, 2 + 3 * n, 2 + 4 * n};
    return {2 + n, 2 + 2 * n, 2 + 3 * n, 2 + 4 * n, 2 + 5 * n, 2, 2 + 6 * n};
  }

  // Checks that the lists of a feature are equally long.
  Status Check(const KernelContext& context) const {
    if (context.input(1).num_elements() != num_features_) {
      return errors::InvalidArgument("feature_ids must have ", num_features_, " elements, got shape ",
                                     context.input(1).shape());
    }
    for (int f = 0; f < num_features_; ++f) {
      if (context.input(1).data<int32_t>()[f] < 0) {
        return errors::InvalidArgument("feature_ids must not be negative, got ",
                                       context.input(1).data<int32_t>()[f]);
      }
      const int64_t n = context.input(lists_.node_ids + f).num_elements();
      for (const int list : {lists_.gains, lists_.thresholds, lists_.dimensions, lists_.types}) {
        if (list >= 0 && context.input(list + f).num_elements() != n) {
          return errors::InvalidArgument("Feature ", f, " has ", n, " nodes and ",
                                         context.input(list + f).num_elements(), " splits");
        }
      }
      for (const int list : {lists_.left, lists_.right}) {
        const TensorShape expected({n, static_cast<int64_t>(NumLogits(context))});
        if (context.input(list + f).shape() != expected || expected.dim(1) < 1) {
          return errors::InvalidArgument("Feature ", f, " has values of leaves of shape ",
                                         context.input(list + f).shape(), ", not of ", expected);
        }
      }
    }
    return Status();
  }
  size_t NumLogits(const KernelContext& context) const {
    if (num_features_ == 0) return 1;
    const TensorShape& shape = context.input(lists_.left).shape();
    return shape.rank() == 2 ? static_cast<size_t>(shape.dim(1)) : 0;
  }

  // The candidate of largest gain for each node; ties go to the feature with the smallest index.
  std::map<int32_t, Candidate> BestByNode(const KernelContext& context) const {
    std::map<int32_t, Candidate> best;
    const int32_t* const ids = context.input(1).data<int32_t>();
    for (int f = 0; f < num_features_; ++f) {
      const Tensor& nodes = context.input(lists_.node_ids + f);
      for (int64_t i = 0; i < nodes.num_elements(); ++i) {
        const Candidate candidate{f, i, context.input(lists_.gains + f).data<float>()[i]};
        const auto [known, is_new] = best.emplace(nodes.data<int32_t>()[i], candidate);
        if (is_new) continue;
        const Candidate& other = known->second;
        const bool equal = std::abs(candidate.gain - other.gain) < boosted::kGainEpsilon;
        if (boosted::GainIsLarger(candidate.gain, other.gain) || (equal && ids[f] < ids[other.feature])) {
          known->second = candidate;
        }
      }
    }
    return best;
  }

  static Status CheckNodes(const std::map<int32_t, Candidate>& best, Ensemble& ensemble)
      MR_REQUIRES(ensemble.mu) {
    static const std::vector<Node> kFirst(1);
    const std::vector<Node>& nodes = ensemble.trees.empty() ? kFirst : ensemble.trees.back().nodes;
    for (const auto& [node, candidate] : best) {
      if (node < 0 || static_cast<size_t>(node) >= nodes.size() ||
          nodes[static_cast<size_t>(node)].kind != Node::Kind::kLeaf) {
        return errors::InvalidArgument("Node ", node, " of the growing tree is not a leaf");
      }
    }
    return Status();
  }

  static void CountAttempt(Ensemble& ensemble) MR_REQUIRES(ensemble.mu) {
    ++ensemble.layers_attempted;
    const size_t n = ensemble.trees.size();
    const bool first_layer = n > 0 && ensemble.trees.back().nodes.size() == 1;
    if (n == 0 || (first_layer && (n == 1 || ensemble.trees[n - 2].is_finalized))) ++ensemble.trees_attempted;
  }

  void Split(const KernelContext& context, const Candidate& c, float learning_rate, int32_t node,
             Tree& tree) const {
    const auto child = [&](int list) {
      Node leaf;
      leaf.values = tree.nodes[static_cast<size_t>(node)].values;
      const size_t n = NumLogits(context);
      leaf.values.resize(n);
      for (size_t i = 0; i < n; ++i) {
        const float contribution =
            context.input(list + c.feature).data<float>()[static_cast<size_t>(c.index) * n + i];
        leaf.values[i] += learning_rate * contribution;
      }
      return leaf;
    };
    Node left = child(lists_.left), right = child(lists_.right);
    Node& split = tree.nodes[static_cast<size_t>(node)];
    split.kind = Node::Kind::kBucketized;
    split.gain = c.gain;
    split.feature = context.input(1).data<int32_t>()[c.feature];
    split.threshold = context.input(lists_.thresholds + c.feature).data<int32_t>()[c.index];
    if (lists_.dimensions >= 0)
      split.dimension = context.input(lists_.dimensions + c.feature).data<int32_t>()[c.index];
    if (lists_.types >= 0) {
      const std::string& type = context.input(lists_.types + c.feature).data<std::string>()[c.index];
      if (type.starts_with("equality")) split.kind = Node::Kind::kCategorical;
      split.missing_right = type.ends_with("right");
    }
    // The very first leaf has no value that must be kept.
    const bool is_zero = std::ranges::all_of(split.values, [](float v) { return v == 0; });
    if (node == 0 && is_zero) split.values.clear();
    split.left = static_cast<int32_t>(tree.nodes.size());
    split.right = split.left + 1;
    tree.nodes.push_back(std::move(left));
    tree.nodes.push_back(std::move(right));
  }

  const int num_features_;
  const Lists lists_;
  const int64_t pruning_;
};

// handle, mean gradients, mean hessians, l1, l2 -> whether to continue
class CenterBiasKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Ensemble> ensemble, FindResource<Ensemble>(context, 0));
    const Tensor& gradients = context.input(1);
    const Tensor& hessians = context.input(2);
    const int64_t n = gradients.num_elements();
    if (n < 1 || (hessians.num_elements() != n && hessians.num_elements() != n * n)) {
      return errors::InvalidArgument("mean_gradients and mean_hessians have shapes ", gradients.shape(),
                                     " and ", hessians.shape());
    }
    MR_RETURN_IF_ERROR(RequireScalar(context.input(3), "l1"));
    MR_RETURN_IF_ERROR(RequireScalar(context.input(4), "l2"));
    const boosted::Penalties penalties{context.input(3).scalar<float>(), context.input(4).scalar<float>()};
    std::vector<float> logits(static_cast<size_t>(n));
    boosted::BestLeaf(gradients.flat<float>(), hessians.flat<float>(), penalties, logits);
    MutexLock lock(ensemble->mu);
    bool go_on = true;
    if (ensemble->trees.empty()) {
      ensemble->AddTree(std::move(logits));
    } else {
      std::vector<float>& bias = ensemble->trees[0].nodes[0].values;
      bias.resize(logits.size());
      go_on = false;
      for (size_t i = 0; i < bias.size(); ++i) go_on = go_on || std::abs(logits[i] / bias[i]) > kLeastChange;
      for (size_t i = 0; go_on && i < bias.size(); ++i) bias[i] += logits[i];
    }
    context.set_output(0, Tensor::Scalar(go_on));
    return Status();
  }

 private:
  static constexpr float kLeastChange = 0.01f;  // of the bias, to continue with another round
};

}  // namespace

void RegisterBoostedGrowthKernels(KernelRegistry& registry) {
  const auto update = [&](const char* op, bool second_version) {
    registry.Register(KernelDef(op), [second_version](KernelConstruction& c) {
      return std::make_unique<UpdateKernel>(c, second_version);
    });
  };
  update("BoostedTreesUpdateEnsemble", false);
  update("BoostedTreesUpdateEnsembleV2", true);
  registry.Register<CenterBiasKernel>(KernelDef("BoostedTreesCenterBias"));
}

}  // namespace millrace
