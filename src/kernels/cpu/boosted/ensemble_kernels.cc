// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ensembles of trees as resources: creation, serialization, inspection, and prediction.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/boosted/ensemble.h"
#include "kernels/cpu/boosted/resource_kernels.h"

namespace millrace {
namespace {

using boosted::Ensemble;
using boosted::Features;
using boosted::Node;
using boosted::Tree;

// handle, stamp_token, serialized
class RestoreKernel final : public OpKernel {
 public:
  RestoreKernel(KernelConstruction& c, bool creates) : OpKernel(c), creates_(creates) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(RequireScalar(context.input(1), "stamp_token"));
    MR_RETURN_IF_ERROR(RequireScalar(context.input(2), "tree_ensemble_serialized"));
    const int64_t stamp = context.input(1).scalar<int64_t>();
    const std::string& serialized = context.input(2).scalar<std::string>();
    if (!creates_) {
      MR_ASSIGN_OR_RETURN(const RefPtr<Ensemble> ensemble, FindResource<Ensemble>(context, 0));
      MutexLock lock(ensemble->mu);
      return ensemble->Parse(serialized, stamp);
    }
    auto made = MakeRef<Ensemble>();
    {
      MutexLock lock(made->mu);
      MR_RETURN_IF_ERROR(made->Parse(serialized, stamp));
    }
    const Tensor& handle = context.input(0);
    if (handle.num_elements() != 1) return BadHandle(context, 0);
    // An existing resource is kept.
    return context.resources()
        .LookupOrCreateHandle<Ensemble>(handle.scalar<ResourceHandle>(),
                                        [&]() -> StatusOr<RefPtr<Ensemble>> { return made; })
        .status();
  }

 private:
  const bool creates_;
};

class SerializeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Ensemble> ensemble, FindResource<Ensemble>(context, 0));
    MutexLock lock(ensemble->mu);
    context.set_output(0, Tensor::Scalar(ensemble->stamp));
    context.set_output(1, Tensor::Scalar(ensemble->Serialize()));
    return Status();
  }
};

class StatesKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Ensemble> ensemble, FindResource<Ensemble>(context, 0));
    MutexLock lock(ensemble->mu);
    const auto trees = static_cast<int32_t>(ensemble->trees.size());
    const bool growing = trees > 0 && !ensemble->trees.back().is_finalized;
    context.set_output(0, Tensor::Scalar(ensemble->stamp));
    context.set_output(1, Tensor::Scalar(trees));
    context.set_output(2, Tensor::Scalar<int32_t>(growing ? trees - 1 : trees));
    context.set_output(3, Tensor::Scalar(static_cast<int32_t>(ensemble->layers_attempted)));
    // The range of an ensemble without a tree is that of the first node.
    context.set_output(
        4, Tensor::Vector<int32_t>({ensemble->last_layer_begin, std::max(1, ensemble->last_layer_end)}));
    return Status();
  }
};

// Adds weight times the values of a node.
void Add(const Node& node, float weight, float* to) {
  for (size_t i = 0; i < node.values.size(); ++i) to[i] += weight * node.values[i];
}

// The common part of the kernels that predict: the features from input `first` on, and the output of logits.
class PredictingKernel : public OpKernel {
 public:
  PredictingKernel(KernelConstruction& c, int first)
      : OpKernel(c), first_(first), num_logits_(c.Attr<int64_t>("logits_dimension")) {
    if (num_logits_ < 1) {
      c.SetError(errors::InvalidArgument("logits_dimension must be positive, got ", num_logits_));
    }
  }

 protected:
  StatusOr<Features> ReadFeatures(const KernelContext& context) const {
    std::vector<const Tensor*> tensors;
    for (int i = first_; i < context.num_inputs(); ++i) tensors.push_back(&context.input(i));
    return Features::Make(std::move(tensors));
  }
  StatusOr<Tensor*> AllocateLogits(KernelContext& context, const Features& features) const {
    MR_ASSIGN_OR_RETURN(Tensor * out,
                        context.AllocateOutput(0, TensorShape({features.num_examples(), num_logits_})));
    std::ranges::fill(out->flat<float>(), 0.0f);
    return out;
  }
  int64_t num_logits() const { return num_logits_; }

 private:
  const int first_;
  const int64_t num_logits_;
};

class PredictKernel final : public PredictingKernel {
 public:
  explicit PredictKernel(KernelConstruction& c) : PredictingKernel(c, 1) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Ensemble> ensemble, FindResource<Ensemble>(context, 0));
    MR_ASSIGN_OR_RETURN(const Features features, ReadFeatures(context));
    MR_ASSIGN_OR_RETURN(Tensor * logits, AllocateLogits(context, features));
    MutexLock lock(ensemble->mu);
    MR_RETURN_IF_ERROR(ensemble->Check(features, num_logits()));
    const std::span<const Tree> trees(ensemble->trees);  // this thread holds the lock for all
    context.ParallelFor(features.num_examples(), 50 * static_cast<int64_t>(trees.size()) + 1,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            float* const to = logits->data<float>() + i * num_logits();
                            for (const Tree& tree : trees) Add(LeafOf(tree, features, i), tree.weight, to);
                          }
                        });
    return Status();
  }

 private:
  static const Node& LeafOf(const Tree& tree, const Features& features, int64_t example) {
    const Node* node = &tree.nodes[0];
    while (node->kind != Node::Kind::kLeaf) {
      node = &tree.nodes[static_cast<size_t>(features.Next(*node, example))];
    }
    return *node;
  }
};

// handle, cached tree_ids, cached node_ids, features -> the change since the cached nodes, and the new
// nodes
class TrainingPredictKernel final : public PredictingKernel {
 public:
  explicit TrainingPredictKernel(KernelConstruction& c) : PredictingKernel(c, 3) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Ensemble> ensemble, FindResource<Ensemble>(context, 0));
    MR_ASSIGN_OR_RETURN(const Features features, ReadFeatures(context));
    const TensorShape ids({features.num_examples()});
    for (int i = 1; i < 3; ++i) {
      if (context.input(i).shape() != ids) {
        return errors::InvalidArgument("cached_tree_ids and cached_node_ids must be of shape ", ids, ", got ",
                                       context.input(i).shape());
      }
    }
    MR_ASSIGN_OR_RETURN(Tensor * logits, AllocateLogits(context, features));
    MR_ASSIGN_OR_RETURN(Tensor * trees, context.AllocateOutput(1, ids));
    MR_ASSIGN_OR_RETURN(Tensor * nodes, context.AllocateOutput(2, ids));
    MutexLock lock(ensemble->mu);
    MR_RETURN_IF_ERROR(ensemble->Check(features, num_logits()));
    for (int64_t i = 0; i < features.num_examples(); ++i) {
      Position at{context.input(1).data<int32_t>()[i], context.input(2).data<int32_t>()[i]};
      if (ensemble->trees.empty()) {
        at.node = 0;
      } else {
        MR_RETURN_IF_ERROR(Advance(ensemble->trees, features, i, static_cast<size_t>(num_logits()),
                                   logits->data<float>() + i * num_logits(), &at));
      }
      trees->data<int32_t>()[i] = at.tree;
      nodes->data<int32_t>()[i] = at.node;
    }
    return Status();
  }

 private:
  struct Position {
    int32_t tree, node;
  };
  static Status Advance(const std::vector<Tree>& trees, const Features& features, int64_t example,
                        size_t num_logits, float* logits, Position* at) {
    const auto num_trees = static_cast<int32_t>(trees.size());
    const auto missing = [&] {
      return errors::InvalidArgument("Example ", example, " was at node ", at->node, " of tree ", at->tree,
                                     ", which the ensemble does not have");
    };
    if (at->tree < 0 || at->tree >= num_trees) return missing();
    const Tree& first = trees[static_cast<size_t>(at->tree)];
    // The cached indices are those before the tree was pruned.
    const size_t num_nodes = first.pruned.empty() ? first.nodes.size() : first.pruned.size();
    if (at->node >= static_cast<int32_t>(num_nodes)) return missing();
    if (at->node >= 0) {
      if (!first.pruned.empty()) {
        const boosted::Pruned& pruned = first.pruned[static_cast<size_t>(at->node)];
        if (pruned.changes.size() > num_logits) {
          return errors::InvalidArgument("Tree ", at->tree, " was pruned with ", pruned.changes.size(),
                                         " logits, not ", num_logits);
        }
        for (size_t i = 0; i < pruned.changes.size(); ++i) logits[i] += first.weight * pruned.changes[i];
        at->node = pruned.node;
      }
      // The value of the node is already in the cached prediction.
      Add(first.nodes[static_cast<size_t>(at->node)], -first.weight, logits);
    } else {
      at->node = 0;
    }
    for (;; ++at->tree, at->node = 0) {
      const Tree& tree = trees[static_cast<size_t>(at->tree)];
      const Node* node = &tree.nodes[static_cast<size_t>(at->node)];
      while (node->kind != Node::Kind::kLeaf) {
        at->node = features.Next(*node, example);
        node = &tree.nodes[static_cast<size_t>(at->node)];
      }
      Add(*node, tree.weight, logits);
      if (at->tree + 1 == num_trees) return Status();
    }
  }
};

// handle, features -> for each example its path, or an empty string if there is no tree
class DebugOutputsKernel final : public PredictingKernel {
 public:
  explicit DebugOutputsKernel(KernelConstruction& c) : PredictingKernel(c, 1) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Ensemble> ensemble, FindResource<Ensemble>(context, 0));
    MR_ASSIGN_OR_RETURN(const Features features, ReadFeatures(context));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({features.num_examples()})));
    if (num_logits() != 1) return errors::InvalidArgument("Paths are known of one logit only");
    MutexLock lock(ensemble->mu);
    MR_RETURN_IF_ERROR(ensemble->Check(features, 1));
    if (ensemble->trees.empty()) return Status();
    for (int64_t i = 0; i < features.num_examples(); ++i) {
      out->data<std::string>()[i] = PathOf(ensemble->trees, features, i).Serialize();
    }
    return Status();
  }

 private:
  static float LogitOf(const Tree& tree, const Node& node) {
    return node.values.empty() ? 0 : tree.weight * node.values[0];
  }
  static boosted::Path PathOf(const std::vector<Tree>& trees, const Features& features, int64_t example) {
    boosted::Path path;
    float logit = LogitOf(trees[0], trees[0].nodes[0]), before = 0;  // sum of the previous trees
    path.logits.push_back(logit);
    for (const Tree& tree : trees) {
      const Node* node = &tree.nodes[0];
      while (node->kind != Node::Kind::kLeaf) {
        path.features.push_back(node->feature);
        node = &tree.nodes[static_cast<size_t>(features.Next(*node, example))];
        logit = LogitOf(tree, *node);
        path.logits.push_back(logit + before);
      }
      // A tree of a single node adds nothing, unless it is the bias.
      if (&tree == trees.data() || node != tree.nodes.data()) before += logit;
    }
    return path;
  }
};

}  // namespace

void RegisterBoostedEnsembleKernels(KernelRegistry& registry) {
  registry.Register<boosted::HandleKernel<Ensemble>>(KernelDef("BoostedTreesEnsembleResourceHandleOp"));
  registry.Register<boosted::IsInitializedKernel<Ensemble>>(KernelDef("IsBoostedTreesEnsembleInitialized"));
  const auto restore = [&](const char* op, bool creates) {
    registry.Register(KernelDef(op), [creates](KernelConstruction& c) {
      return std::make_unique<RestoreKernel>(c, creates);
    });
  };
  restore("BoostedTreesCreateEnsemble", true);
  restore("BoostedTreesDeserializeEnsemble", false);
  registry.Register<SerializeKernel>(KernelDef("BoostedTreesSerializeEnsemble"));
  registry.Register<StatesKernel>(KernelDef("BoostedTreesGetEnsembleStates"));
  registry.Register<PredictKernel>(KernelDef("BoostedTreesPredict"));
  registry.Register<DebugOutputsKernel>(KernelDef("BoostedTreesExampleDebugOutputs"));
  registry.Register<TrainingPredictKernel>(KernelDef("BoostedTreesTrainingPredict"));
}

}  // namespace millrace
