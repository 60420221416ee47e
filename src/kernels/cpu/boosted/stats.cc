// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sums of gradients and hessians by node of the tree and bucket of the feature; bucketization.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// The most sums that a sparse summary may have.
constexpr int64_t kMostSums = int64_t{1} << 26;

Status CheckRange(const char* what, int64_t value, int64_t end) {
  if (value >= 0 && value < end) return Status();
  return errors::InvalidArgument(what, " must be in [0, ", end, "), got ", value);
}

// The common inputs of all summaries for each example: a node, gradients and hessians.
struct Examples {
  const Tensor* node_ids;
  const Tensor* gradients;
  const Tensor* hessians;

  int64_t size() const { return node_ids->num_elements(); }
  int64_t num_logits() const { return gradients->dim(1); }
  int64_t num_sums() const { return gradients->dim(1) + hessians->dim(1); }
  // Adds the gradients and hessians of an example to a row of sums.
  void AddTo(int64_t example, float* sums) const {
    const int64_t logits = gradients->dim(1), others = hessians->dim(1);
    for (int64_t i = 0; i < logits; ++i) sums[i] += gradients->data<float>()[example * logits + i];
    for (int64_t i = 0; i < others; ++i) sums[logits + i] += hessians->data<float>()[example * others + i];
  }

  // From the first three inputs.
  static StatusOr<Examples> Read(const KernelContext& context, int64_t max_splits) {
    const Examples e{&context.input(0), &context.input(1), &context.input(2)};
    if (!e.node_ids->shape().IsVector()) {
      return errors::InvalidArgument("node_ids must be a vector, got shape ", e.node_ids->shape());
    }
    for (const Tensor* t : {e.gradients, e.hessians}) {
      if (t->rank() != 2 || t->dim(0) != e.size()) {
        return errors::InvalidArgument("gradients and hessians must be matrices with a row for each of ",
                                       e.size(), " examples, got shape ", t->shape());
      }
    }
    for (const int32_t node : e.node_ids->flat<int32_t>()) {
      MR_RETURN_IF_ERROR(CheckRange("node_ids", node, max_splits));
    }
    return e;
  }
};

StatusOr<Tensor*> AllocateZeros(KernelContext& context, int i, std::initializer_list<int64_t> dims) {
  MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues({dims.begin(), dims.size()}));
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(i, shape));
  std::ranges::fill(out->flat<float>(), 0.0f);
  return out;
}

// node_ids, gradients, hessians, bucketized features -> [feature, node, bucket, 2]
class MakeStatsKernel final : public OpKernel {
 public:
  explicit MakeStatsKernel(KernelConstruction& c)
      : OpKernel(c),
        max_splits_(c.Attr<int64_t>("max_splits")),
        num_buckets_(c.Attr<int64_t>("num_buckets")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Examples examples, Examples::Read(context, max_splits_));
    if (examples.gradients->dim(1) != 1 || examples.hessians->dim(1) != 1) {
      return errors::InvalidArgument("gradients and hessians must have one column, got shapes ",
                                     examples.gradients->shape(), " and ", examples.hessians->shape());
    }
    const int features = num_inputs() - 3;
    MR_ASSIGN_OR_RETURN(Tensor * out, AllocateZeros(context, 0, {features, max_splits_, num_buckets_, 2}));
    for (int f = 0; f < features; ++f) {
      const Tensor& buckets = context.input(3 + f);
      if (buckets.num_elements() != examples.size()) {
        return errors::InvalidArgument("A bucketized feature must have ", examples.size(),
                                       " values, got shape ", buckets.shape());
      }
      for (int64_t i = 0; i < examples.size(); ++i) {
        const int64_t bucket = buckets.data<int32_t>()[i], node = examples.node_ids->data<int32_t>()[i];
        MR_RETURN_IF_ERROR(CheckRange("bucketized features", bucket, num_buckets_));
        examples.AddTo(i, out->data<float>() + ((f * max_splits_ + node) * num_buckets_ + bucket) * 2);
      }
    }
    return Status();
  }

 private:
  const int64_t max_splits_, num_buckets_;
};

// node_ids, gradients, hessians, feature [example, dimension] -> [node, dimension, bucket, sum]. The last
// bucket is for values that are missing, -1.
class AggregateStatsKernel final : public OpKernel {
 public:
  explicit AggregateStatsKernel(KernelConstruction& c)
      : OpKernel(c),
        max_splits_(c.Attr<int64_t>("max_splits")),
        num_buckets_(c.Attr<int64_t>("num_buckets")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Examples examples, Examples::Read(context, max_splits_));
    const Tensor& feature = context.input(3);
    if (feature.rank() != 2 || feature.dim(0) != examples.size()) {
      return errors::InvalidArgument("feature must be a matrix with a row for each of ", examples.size(),
                                     " examples, got shape ", feature.shape());
    }
    const int64_t dims = feature.dim(1), sums = examples.num_sums(), buckets = num_buckets_ + 1;
    MR_ASSIGN_OR_RETURN(Tensor * out, AllocateZeros(context, 0, {max_splits_, dims, buckets, sums}));
    for (int64_t i = 0; i < feature.num_elements(); ++i) {
      int64_t bucket = feature.data<int32_t>()[i];
      if (bucket == -1) bucket = num_buckets_;
      MR_RETURN_IF_ERROR(CheckRange("feature", bucket, buckets));
      const int64_t node = examples.node_ids->data<int32_t>()[i / dims];
      examples.AddTo(i / dims, out->data<float>() + ((node * dims + i % dims) * buckets + bucket) * sums);
    }
    return Status();
  }

 private:
  const int64_t max_splits_, num_buckets_;
};

// The same for a sparse feature, as a sparse tensor in the order of its indices. Missing values are in the
// last bucket.
class SparseAggregateStatsKernel final : public OpKernel {
 public:
  explicit SparseAggregateStatsKernel(KernelConstruction& c)
      : OpKernel(c),
        max_splits_(c.Attr<int64_t>("max_splits")),
        num_buckets_(c.Attr<int64_t>("num_buckets")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Examples examples, Examples::Read(context, max_splits_));
    const Tensor& indices = context.input(3);
    const Tensor& values = context.input(4);
    const Tensor& shape = context.input(5);
    if (indices.rank() != 2 || indices.dim(1) != 2 || values.num_elements() != indices.dim(0)) {
      return errors::InvalidArgument(
          "feature_indices must be of shape [n, 2] and feature_values of shape [n], got ", indices.shape(),
          " and ", values.shape());
    }
    if (shape.num_elements() != 2 || IntValue(shape, 0) != examples.size() || IntValue(shape, 1) < 0) {
      return errors::InvalidArgument("feature_shape must be the ", examples.size(),
                                     " examples and the dimensions of the feature");
    }
    const int64_t dims = IntValue(shape, 1);
    // The sums of each node over all examples minus those of present values: the last bucket.
    std::map<int32_t, Sums> nodes;
    for (int64_t i = 0; i < examples.size(); ++i) {
      Add(examples, i, nodes[examples.node_ids->data<int32_t>()[i]]);
    }
    std::map<Key, Sums> sums;
    if (static_cast<int64_t>(nodes.size()) * dims + indices.dim(0) > kMostSums) {
      return errors::ResourceExhausted("A summary of ", nodes.size(), " nodes and ", dims,
                                       " dimensions of a feature is too large");
    }
    for (int64_t i = 0; i < indices.dim(0); ++i) {
      const int64_t example = IntValue(indices, 2 * i), dim = IntValue(indices, 2 * i + 1);
      const int64_t bucket = IntValue(values, i);
      MR_RETURN_IF_ERROR(CheckRange("feature_indices", example, examples.size()));
      MR_RETURN_IF_ERROR(CheckRange("feature_indices", dim, dims));
      MR_RETURN_IF_ERROR(CheckRange("feature_values", bucket, num_buckets_));
      const int32_t node = examples.node_ids->data<int32_t>()[example];
      Add(examples, example, sums[{node, dim, bucket}]);
    }
    AddMissing(nodes, dims, sums);
    return Output(context, sums, dims, examples.num_sums());
  }

 private:
  using Sums = std::vector<float>;
  using Key = std::tuple<int32_t, int64_t, int64_t>;  // node, dimension, bucket

  static void Add(const Examples& examples, int64_t example, Sums& to) {
    to.resize(static_cast<size_t>(examples.num_sums()));
    examples.AddTo(example, to.data());
  }
  void AddMissing(const std::map<int32_t, Sums>& nodes, int64_t dims, std::map<Key, Sums>& sums) const {
    for (const auto& [node, all] : nodes) {
      for (int64_t dim = 0; dim < dims; ++dim) {
        Sums missing = all;
        const auto end = sums.lower_bound({node, dim + 1, 0});
        for (auto at = sums.lower_bound({node, dim, 0}); at != end; ++at) {
          for (size_t i = 0; i < missing.size(); ++i) missing[i] -= at->second[i];
        }
        const bool any = std::ranges::any_of(missing, [](float x) { return x != 0; });
        if (any) sums.emplace(Key{node, dim, num_buckets_}, std::move(missing));
      }
    }
  }
  Status Output(KernelContext& context, const std::map<Key, Sums>& sums, int64_t dims,
                int64_t num_sums) const {
    const int64_t n = static_cast<int64_t>(sums.size()) * num_sums;
    MR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, TensorShape({n, 4})));
    MR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, TensorShape({n})));
    MR_ASSIGN_OR_RETURN(Tensor * shape, context.AllocateOutput(2, TensorShape({4})));
    int32_t* index = indices->data<int32_t>();
    float* value = values->data<float>();
    for (const auto& [key, of] : sums) {
      for (int64_t i = 0; i < num_sums; ++i) {
        *index++ = std::get<0>(key);
        *index++ = static_cast<int32_t>(std::get<1>(key));
        *index++ = static_cast<int32_t>(std::get<2>(key));
        *index++ = static_cast<int32_t>(i);
        *value++ = of[static_cast<size_t>(i)];
      }
    }
    int32_t* size = shape->data<int32_t>();
    for (const int64_t d : {max_splits_, dims, num_buckets_ + 1, num_sums}) *size++ = static_cast<int32_t>(d);
    return Status();
  }

  const int64_t max_splits_, num_buckets_;
};

// Values and boundaries, as many of each -> for each value the first bucket whose boundary is not less than
// it, or the last.
class BucketizeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const int features = num_inputs() / 2;
    for (int f = 0; f < features; ++f) {
      const Tensor& values = context.input(f);
      const Tensor& boundaries = context.input(features + f);
      if (!boundaries.shape().IsVector() || boundaries.num_elements() > INT32_MAX) {
        return errors::InvalidArgument("bucket_boundaries must be a vector, got shape ", boundaries.shape());
      }
      MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(f, values.shape()));
      const std::span<const float> all = boundaries.flat<float>();
      for (int64_t i = 0; i < values.num_elements(); ++i) {
        const auto at = std::lower_bound(all.begin(), all.end(), values.data<float>()[i]) - all.begin();
        const auto last = std::max<int64_t>(static_cast<int64_t>(all.size()) - 1, 0);
        out->data<int32_t>()[i] = static_cast<int32_t>(std::min<int64_t>(at, last));
      }
    }
    return Status();
  }
};

}  // namespace

void RegisterBoostedStatsKernels(KernelRegistry& registry) {
  registry.Register<MakeStatsKernel>(KernelDef("BoostedTreesMakeStatsSummary"));
  registry.Register<AggregateStatsKernel>(KernelDef("BoostedTreesAggregateStats"));
  registry.Register<SparseAggregateStatsKernel>(KernelDef("BoostedTreesSparseAggregateStats"));
  registry.Register<BucketizeKernel>(KernelDef("BoostedTreesBucketize"));
}

}  // namespace millrace
