// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The best split of each node, by sums of gradients and hessians of the buckets of a feature.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/boosted/gains.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

constexpr int64_t kMostLogits = 4096;
// The most sums that a sparse summary may represent.
constexpr int64_t kMostSums = int64_t{1} << 26;

using boosted::BestLeaf;
using boosted::GainIsLarger;

constexpr char kDefaultLeft[] = "inequality_default_left";
constexpr char kDefaultRight[] = "inequality_default_right";
constexpr char kEquality[] = "equality_default_right";

// The scalars of all ops here.
struct Parameters {
  int64_t first_node = 0, end_node = 0;
  boosted::Penalties penalties;
  float tree_complexity = 0;
  float min_node_weight = 0;

  // The range of nodes is input 0, the others follow input `first` - 1.
  static StatusOr<Parameters> Read(const KernelContext& context, int first, int64_t max_splits) {
    const Tensor& range = context.input(0);
    if (range.num_elements() != 2) {
      return errors::InvalidArgument("node_id_range must have two elements, got shape ", range.shape());
    }
    Parameters p;
    p.first_node = IntValue(range, 0);
    p.end_node = IntValue(range, 1);
    if (p.first_node < 0 || p.end_node > max_splits) {
      return errors::InvalidArgument("node_id_range [", p.first_node, ", ", p.end_node,
                                     ") must be within the ", max_splits, " nodes of the summary");
    }
    float* const values[] = {&p.penalties.l1, &p.penalties.l2, &p.tree_complexity, &p.min_node_weight};
    for (int i = 0; i < 4; ++i) {
      const Tensor& t = context.input(first + i);
      if (t.num_elements() != 1) {
        return errors::InvalidArgument(
            "l1, l2, tree_complexity and min_node_weight must be scalars, got shape ", t.shape());
      }
      *values[i] = t.data<float>()[0];
    }
    return p;
  }
};

// Sums of gradients, then of hessians.
using Sums = std::vector<float>;

float Norm(std::span<const float> values) {
  float sum = 0;
  for (const float v : values) sum += v * v;
  return std::sqrt(sum);
}

// The best split of one node so far.
class Search {
 public:
  Search(const Parameters& parameters, size_t num_logits, Sums total)
      : parameters_(parameters), num_logits_(num_logits), total_(std::move(total)) {}

  // Whether the node has enough weight.
  bool MaySplit() const {
    return Norm(std::span(total_).subspan(num_logits_)) >= parameters_.min_node_weight;
  }
  void Consider(const Sums& left, int64_t bucket, int64_t dimension, const char* type) {
    Sums right = total_;
    for (size_t i = 0; i < right.size(); ++i) right[i] -= left[i];
    std::vector<float> left_leaf(num_logits_), right_leaf(num_logits_);
    const float gain = Leaf(left, left_leaf) + Leaf(right, right_leaf);
    if (type_ != nullptr && !GainIsLarger(gain, gain_)) return;
    gain_ = gain;
    bucket_ = bucket;
    dimension_ = dimension;
    type_ = type;
    left_ = std::move(left_leaf);
    right_ = std::move(right_leaf);
  }
  // Tries splits after each of the buckets, in ascending order, with missing values on either side.
  void ConsiderBuckets(const std::vector<std::pair<int64_t, const float*>>& buckets, const float* missing,
                       int64_t dimension) {
    Sums left(total_.size());
    for (const auto& [bucket, sums] : buckets) {
      Sums with_missing = left;
      for (size_t i = 0; i < left.size(); ++i) {
        left[i] += sums[i];
        with_missing[i] = left[i] + (missing == nullptr ? 0 : missing[i]);
      }
      Consider(with_missing, bucket, dimension, kDefaultLeft);
      Consider(left, bucket, dimension, kDefaultRight);
    }
  }

  bool found() const { return type_ != nullptr; }
  // The gain in comparison with an unsplit node.
  float gain() const {
    std::vector<float> unused(num_logits_);
    return gain_ - Leaf(total_, unused) - parameters_.tree_complexity;
  }
  int64_t bucket() const { return bucket_; }
  int64_t dimension() const { return dimension_; }
  const char* type() const { return type_; }
  const std::vector<float>& left() const { return left_; }
  const std::vector<float>& right() const { return right_; }

 private:
  float Leaf(std::span<const float> sums, std::span<float> weights) const {
    return BestLeaf(sums.first(num_logits_), sums.subspan(num_logits_), parameters_.penalties, weights);
  }
  const Parameters& parameters_;
  const size_t num_logits_;
  const Sums total_;
  const char* type_ = nullptr;
  float gain_ = 0;
  int64_t bucket_ = 0, dimension_ = 0;
  std::vector<float> left_, right_;
};

using Splits = std::vector<std::pair<int64_t, Search>>;  // by node

template <typename T, typename Fn>
Status OutputVector(KernelContext& context, int i, const Splits& splits, Fn value) {
  MR_ASSIGN_OR_RETURN(Tensor * out,
                      context.AllocateOutput(i, TensorShape({static_cast<int64_t>(splits.size())})));
  T* to = out->data<T>();
  for (const auto& [node, split] : splits) *to++ = value(node, split);
  return Status();
}

Status OutputLeaves(KernelContext& context, int i, int64_t num_logits, const Splits& splits,
                    const std::vector<float>& (Search::*leaf)() const) {
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(
                                        i, TensorShape({static_cast<int64_t>(splits.size()), num_logits})));
  float* to = out->data<float>();
  for (const auto& [node, split] : splits) to = std::ranges::copy((split.*leaf)(), to).out;
  return Status();
}

Status OutputAll(KernelContext& context, int64_t num_logits, const Splits& splits) {
  MR_RETURN_IF_ERROR(OutputVector<int32_t>(
      context, 0, splits, [](int64_t node, const Search&) { return static_cast<int32_t>(node); }));
  MR_RETURN_IF_ERROR(
      OutputVector<float>(context, 1, splits, [](int64_t, const Search& split) { return split.gain(); }));
  MR_RETURN_IF_ERROR(OutputVector<int32_t>(context, 2, splits, [](int64_t, const Search& split) {
    return static_cast<int32_t>(split.dimension());
  }));
  MR_RETURN_IF_ERROR(OutputVector<int32_t>(
      context, 3, splits, [](int64_t, const Search& split) { return static_cast<int32_t>(split.bucket()); }));
  MR_RETURN_IF_ERROR(OutputLeaves(context, 4, num_logits, splits, &Search::left));
  MR_RETURN_IF_ERROR(OutputLeaves(context, 5, num_logits, splits, &Search::right));
  return OutputVector<std::string>(context, 6, splits,
                                   [](int64_t, const Search& split) { return std::string(split.type()); });
}

// For each of several features: [node, bucket, gradient and hessian].
class BestGainsKernel final : public OpKernel {
 public:
  explicit BestGainsKernel(KernelConstruction& c)
      : OpKernel(c), num_features_(static_cast<int>(c.Attr<int64_t>("num_features"))) {}
  Status Compute(KernelContext& context) override {
    const TensorShape& shape = context.input(1).shape();
    if (shape.rank() != 3 || shape.dim(2) != 2) {
      return errors::InvalidArgument("stats_summary_list must be of shape [max_splits, num_buckets, 2], got ",
                                     shape);
    }
    MR_ASSIGN_OR_RETURN(const Parameters parameters,
                        Parameters::Read(context, 1 + num_features_, shape.dim(0)));
    for (int f = 0; f < num_features_; ++f) {
      const Tensor& stats = context.input(1 + f);
      if (stats.shape() != shape) {
        return errors::InvalidArgument("The summaries of features have shapes ", shape, " and ",
                                       stats.shape());
      }
      MR_RETURN_IF_ERROR(Output(context, f, Find(parameters, stats)));
    }
    return Status();
  }

 private:
  static Splits Find(const Parameters& parameters, const Tensor& stats) {
    Splits splits;
    const int64_t buckets = stats.dim(1);
    for (int64_t node = parameters.first_node; node < parameters.end_node; ++node) {
      const float* sums = stats.data<float>() + node * buckets * 2;
      Sums total(2);
      for (int64_t b = 0; b < 2 * buckets; ++b) total[static_cast<size_t>(b % 2)] += sums[b];
      if (total[1] < parameters.min_node_weight) continue;
      Search search(parameters, 1, total);
      Sums left(2);
      for (int64_t b = 0; b < buckets; ++b) {
        for (size_t i = 0; i < 2; ++i) left[i] += sums[2 * b + static_cast<int64_t>(i)];
        search.Consider(left, b, 0, kDefaultLeft);
      }
      if (search.found()) splits.emplace_back(node, std::move(search));
    }
    return splits;
  }
  Status Output(KernelContext& context, int f, const Splits& splits) const {
    const int n = num_features_;
    MR_RETURN_IF_ERROR(OutputVector<int32_t>(
        context, f, splits, [](int64_t node, const Search&) { return static_cast<int32_t>(node); }));
    MR_RETURN_IF_ERROR(OutputVector<float>(context, n + f, splits,
                                           [](int64_t, const Search& split) { return split.gain(); }));
    MR_RETURN_IF_ERROR(OutputVector<int32_t>(context, 2 * n + f, splits, [](int64_t, const Search& split) {
      return static_cast<int32_t>(split.bucket());
    }));
    MR_RETURN_IF_ERROR(OutputLeaves(context, 3 * n + f, 1, splits, &Search::left));
    return OutputLeaves(context, 4 * n + f, 1, splits, &Search::right);
  }

  const int num_features_;
};

// Checks a summary's last size: gradients, then a hessian for each or for each pair.
Status CheckSums(int64_t sums, int64_t num_logits) {
  if (num_logits > kMostLogits)
    return errors::InvalidArgument("More than ", kMostLogits, " logits: ", num_logits);
  const int64_t hessians = sums - num_logits;
  if (hessians == num_logits || hessians == num_logits * num_logits) return Status();
  return errors::InvalidArgument("A summary of ", sums, " sums has no hessian for ", num_logits, " logits");
}

// One feature: [node, dimension, bucket, sum], the last bucket of which is for missing values.
class BestSplitKernel final : public OpKernel {
 public:
  explicit BestSplitKernel(KernelConstruction& c)
      : OpKernel(c),
        num_logits_(c.Attr<int64_t>("logits_dimension")),
        equality_(c.Attr<std::string>("split_type") == "equality") {}
  Status Compute(KernelContext& context) override {
    const Tensor& stats = context.input(1);
    if (stats.rank() != 4 || stats.dim(1) == 0 || stats.dim(2) < 1) {
      return errors::InvalidArgument("stats_summary must have rank 4 and a bucket, got shape ",
                                     stats.shape());
    }
    MR_RETURN_IF_ERROR(CheckSums(stats.dim(3), num_logits_));
    MR_ASSIGN_OR_RETURN(const Parameters parameters, Parameters::Read(context, 2, stats.dim(0)));
    Splits splits;
    for (int64_t node = parameters.first_node; node < parameters.end_node; ++node) {
      Search search(parameters, static_cast<size_t>(num_logits_), Total(stats, node));
      if (!search.MaySplit()) continue;
      for (int64_t d = 0; d < stats.dim(1); ++d) Consider(stats, node, d, search);
      if (search.found()) splits.emplace_back(node, std::move(search));
    }
    return OutputAll(context, num_logits_, splits);
  }

 private:
  static const float* SumsOf(const Tensor& stats, int64_t node, int64_t dimension, int64_t bucket) {
    return stats.data<float>() + ((node * stats.dim(1) + dimension) * stats.dim(2) + bucket) * stats.dim(3);
  }
  // All dimensions have the same examples.
  static Sums Total(const Tensor& stats, int64_t node) {
    Sums total(static_cast<size_t>(stats.dim(3)));
    for (int64_t b = 0; b < stats.dim(2); ++b) {
      for (size_t i = 0; i < total.size(); ++i) total[i] += SumsOf(stats, node, 0, b)[i];
    }
    return total;
  }
  void Consider(const Tensor& stats, int64_t node, int64_t dimension, Search& search) const {
    const int64_t buckets = stats.dim(2) - 1;
    std::vector<std::pair<int64_t, const float*>> sums;
    for (int64_t b = 0; b < buckets; ++b) sums.emplace_back(b, SumsOf(stats, node, dimension, b));
    if (!equality_) return search.ConsiderBuckets(sums, SumsOf(stats, node, dimension, buckets), dimension);
    for (const auto& [bucket, of] : sums) {
      search.Consider(Sums(of, of + stats.dim(3)), bucket, dimension, kEquality);
    }
  }

  const int64_t num_logits_;
  const bool equality_;
};

// The same with the summary as a sparse tensor.
class SparseBestSplitKernel final : public OpKernel {
 public:
  explicit SparseBestSplitKernel(KernelConstruction& c)
      : OpKernel(c), num_logits_(c.Attr<int64_t>("logits_dimension")) {}
  Status Compute(KernelContext& context) override {
    if (context.input(3).num_elements() != 4) {
      return errors::InvalidArgument("stats_summary_shape must have four elements, got shape ",
                                     context.input(3).shape());
    }
    const Dims shape = IntValues(context.input(3));
    MR_RETURN_IF_ERROR(CheckSums(shape[3], num_logits_));
    MR_ASSIGN_OR_RETURN(const Parameters parameters, Parameters::Read(context, 4, shape[0]));
    MR_ASSIGN_OR_RETURN(const Nodes nodes, Read(context, shape));
    Splits splits;
    for (const auto& [node, dimensions] : nodes) {
      if (node < parameters.first_node || node >= parameters.end_node) continue;
      Sums total(static_cast<size_t>(shape[3]));
      for (const auto& [bucket, sums] : dimensions.begin()->second) {
        for (size_t i = 0; i < total.size(); ++i) total[i] += sums[i];
      }
      Search search(parameters, static_cast<size_t>(num_logits_), total);
      if (!search.MaySplit()) continue;
      for (const auto& [dimension, buckets] : dimensions) {
        std::vector<std::pair<int64_t, const float*>> sums;
        const float* missing = nullptr;
        for (const auto& [bucket, of] : buckets) {
          if (bucket == shape[2] - 1) {
            missing = of.data();
          } else {
            sums.emplace_back(bucket, of.data());
          }
        }
        search.ConsiderBuckets(sums, missing, dimension);
      }
      if (search.found()) splits.emplace_back(node, std::move(search));
    }
    return OutputAll(context, num_logits_, splits);
  }

 private:
  using Nodes = std::map<int64_t, std::map<int64_t, std::map<int64_t, Sums>>>;  // by node, dimension, bucket

  static StatusOr<Nodes> Read(const KernelContext& context, const Dims& shape) {
    const Tensor& indices = context.input(1);
    const Tensor& values = context.input(2);
    if (indices.rank() != 2 || indices.dim(1) != 4 || values.num_elements() != indices.dim(0)) {
      return errors::InvalidArgument(
          "stats_summary_indices must be of shape [n, 4] and stats_summary_values of shape [n], got ",
          indices.shape(), " and ", values.shape());
    }
    if (indices.dim(0) * shape[3] > kMostSums) {
      return errors::ResourceExhausted("A summary of ", indices.dim(0), " values for ", shape[3],
                                       " sums is too large");
    }
    Nodes nodes;
    for (int64_t i = 0; i < indices.dim(0); ++i) {
      const int32_t* index = indices.data<int32_t>() + 4 * i;
      for (size_t d = 0; d < 4; ++d) {
        if (index[d] < 0 || index[d] >= shape[d]) {
          return errors::InvalidArgument("stats_summary_indices has ", index[d], " where the size is ",
                                         shape[d]);
        }
      }
      Sums& sums = nodes[index[0]][index[1]][index[2]];
      sums.resize(static_cast<size_t>(shape[3]));
      sums[static_cast<size_t>(index[3])] += values.data<float>()[i];
    }
    return nodes;
  }

  const int64_t num_logits_;
};

}  // namespace

void RegisterBoostedSplitKernels(KernelRegistry& registry) {
  registry.Register<BestGainsKernel>(KernelDef("BoostedTreesCalculateBestGainsPerFeature"));
  registry.Register<BestSplitKernel>(KernelDef("BoostedTreesCalculateBestFeatureSplit"));
  registry.Register<SparseBestSplitKernel>(KernelDef("BoostedTreesSparseCalculateBestFeatureSplit"));
}

}  // namespace millrace
