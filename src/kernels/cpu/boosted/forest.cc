// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Trees of random forests, which split by dense numbers: stored for prediction only.
#include <string>
#include <vector>

#include "base/mutex.h"
#include "kernels/cpu/boosted/resource_kernels.h"
#include "tensorflow/core/kernels/boosted_trees/boosted_trees.pb.h"

namespace millrace {
namespace {

namespace pb = tensorflow::boosted_trees;

// An immutable tree, stored with the message from which it was made.
struct ForestNode {
  bool is_leaf = true;
  std::vector<float> values;  // of a leaf
  int32_t feature = 0;
  float threshold = 0;  // the largest value on the left
  int32_t left = 0, right = 0;
};

class ForestTree final : public Resource {
 public:
  std::string DebugString() const override { return "TensorForestTree"; }

  // Replaces the tree; InvalidArgument for invalid bytes.
  Status Parse(const std::string& config) MR_EXCLUDES(mu_) {
    pb::Tree tree;
    if (!tree.ParseFromString(config)) return errors::InvalidArgument("Unable to parse tree config.");
    std::vector<ForestNode> nodes;
    for (const pb::Node& from : tree.nodes()) {
      ForestNode node;
      switch (from.node_case()) {
        case pb::Node::kLeaf:
          node.values.assign(from.leaf().vector().value().begin(), from.leaf().vector().value().end());
          break;
        case pb::Node::kDenseSplit:
          node = {false,
                  {},
                  from.dense_split().feature_id(),
                  from.dense_split().threshold(),
                  from.dense_split().left_id(),
                  from.dense_split().right_id()};
          break;
        default:
          return errors::InvalidArgument("Node ", nodes.size(),
                                         " is neither a leaf nor a split by a dense number");
      }
      // Children follow their parents, so that every walk ends.
      const auto here = static_cast<int32_t>(nodes.size());
      for (const int32_t child : {node.left, node.right}) {
        if (!node.is_leaf && (child <= here || child >= tree.nodes_size()))
          return errors::InvalidArgument("Node ", here, " has the child ", child,
                                         ", which does not follow it");
      }
      if (!node.is_leaf && node.feature < 0)
        return errors::InvalidArgument("Node ", here, " splits by feature ", node.feature);
      nodes.push_back(std::move(node));
    }
    MutexLock lock(mu_);
    nodes_ = std::move(nodes);
    config_ = config;
    return Status();
  }
  std::string config() const MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return config_;
  }
  int64_t size() const MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return static_cast<int64_t>(nodes_.size());
  }
  // The values of the leaf of each row of `features`; zeros for an empty tree.
  Status Predict(const Tensor& features, int64_t num_logits, float* out) const MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    MR_RETURN_IF_ERROR(Check(features.dim(1), num_logits));
    std::fill_n(out, features.dim(0) * num_logits, 0.0f);
    if (nodes_.empty()) return Status();
    for (int64_t i = 0; i < features.dim(0); ++i) {
      const float* const row = features.data<float>() + i * features.dim(1);
      const ForestNode* node = &nodes_[0];
      while (!node->is_leaf) {
        const bool goes_left = row[node->feature] <= node->threshold;
        node = &nodes_[static_cast<size_t>(goes_left ? node->left : node->right)];
      }
      std::copy_n(node->values.begin(), num_logits, out + i * num_logits);
    }
    return Status();
  }

 private:
  Status Check(int64_t num_features, int64_t num_logits) const MR_REQUIRES(mu_) {
    for (const ForestNode& node : nodes_) {
      if (!node.is_leaf && node.feature >= num_features) {
        return errors::InvalidArgument("The tree splits by feature ", node.feature, " of ", num_features);
      }
      if (node.is_leaf && static_cast<int64_t>(node.values.size()) < num_logits) {
        return errors::InvalidArgument("A leaf has ", node.values.size(), " values, not ", num_logits);
      }
    }
    return Status();
  }

  mutable Mutex mu_;
  std::vector<ForestNode> nodes_ MR_GUARDED_BY(mu_);
  std::string config_ MR_GUARDED_BY(mu_);
};

// handle, tree_config
class MakeTreeKernel final : public OpKernel {
 public:
  MakeTreeKernel(KernelConstruction& c, bool creates) : OpKernel(c), creates_(creates) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(RequireScalar(context.input(1), "tree_config"));
    const std::string& config = context.input(1).scalar<std::string>();
    if (!creates_) {
      MR_ASSIGN_OR_RETURN(const RefPtr<ForestTree> tree, FindResource<ForestTree>(context, 0));
      return tree->Parse(config);
    }
    auto made = MakeRef<ForestTree>();
    MR_RETURN_IF_ERROR(made->Parse(config));
    const Tensor& handle = context.input(0);
    if (handle.num_elements() != 1) return BadHandle(context, 0);
    // An existing resource is kept.
    return context.resources()
        .LookupOrCreateHandle<ForestTree>(handle.data<ResourceHandle>()[0],
                                          [&]() -> StatusOr<RefPtr<ForestTree>> { return made; })
        .status();
  }

 private:
  const bool creates_;
};

class SerializeTreeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<ForestTree> tree, FindResource<ForestTree>(context, 0));
    context.set_output(0, Tensor::Scalar(tree->config()));
    return Status();
  }
};

class TreeSizeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<ForestTree> tree, FindResource<ForestTree>(context, 0));
    context.set_output(0, Tensor::Scalar(static_cast<int32_t>(tree->size())));
    return Status();
  }
};

// handle, dense_features
class PredictTreeKernel final : public OpKernel {
 public:
  explicit PredictTreeKernel(KernelConstruction& c)
      : OpKernel(c), num_logits_(c.Attr<int64_t>("logits_dimension")) {
    if (num_logits_ < 0) c.SetError(errors::InvalidArgument("logits_dimension must not be negative"));
  }
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<ForestTree> tree, FindResource<ForestTree>(context, 0));
    const Tensor& features = context.input(1);
    if (features.rank() != 2) {
      return errors::InvalidArgument("dense_features must be a matrix, got shape ", features.shape());
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(Dims{features.dim(0), num_logits_}));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return tree->Predict(features, num_logits_, out->data<float>());
  }

 private:
  const int64_t num_logits_;
};

}  // namespace

void RegisterForestKernels(KernelRegistry& registry) {
  registry.Register<boosted::HandleKernel<ForestTree>>(KernelDef("TensorForestTreeResourceHandleOp"));
  registry.Register<boosted::IsInitializedKernel<ForestTree>>(KernelDef("TensorForestTreeIsInitializedOp"));
  registry.Register(KernelDef("TensorForestCreateTreeVariable"),
                    [](KernelConstruction& c) { return std::make_unique<MakeTreeKernel>(c, true); });
  registry.Register(KernelDef("TensorForestTreeDeserialize"),
                    [](KernelConstruction& c) { return std::make_unique<MakeTreeKernel>(c, false); });
  registry.Register<SerializeTreeKernel>(KernelDef("TensorForestTreeSerialize"));
  registry.Register<TreeSizeKernel>(KernelDef("TensorForestTreeSize"));
  registry.Register<PredictTreeKernel>(KernelDef("TensorForestTreePredict"));
}

}  // namespace millrace
