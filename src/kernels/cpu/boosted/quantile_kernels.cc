// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Boundaries of buckets: summaries of batches of values are added to streams, one for each feature, whose
// quantiles become the boundaries.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cpu/boosted/quantiles.h"
#include "kernels/cpu/boosted/resource_kernels.h"

namespace millrace {
namespace {

using boosted::QuantileEntry;
using boosted::QuantileStream;
using boosted::QuantileSummary;

constexpr int64_t kMostStreams = int64_t{1} << 20;
constexpr int64_t kMostBuckets = int64_t{1} << 24;

// A stream and the boundaries of each feature.
class QuantileStreams final : public Resource {
 public:
  QuantileStreams(double epsilon, int64_t max_elements, int64_t num_streams)
      : streams_(static_cast<size_t>(num_streams), QuantileStream(epsilon, max_elements)),
        boundaries_(static_cast<size_t>(num_streams)) {}
  std::string DebugString() const override { return "QuantileStreams"; }

  Status CheckCount(int n) const {
    if (static_cast<size_t>(n) == streams_.size()) return Status();
    return errors::InvalidArgument("There are ", streams_.size(), " quantile streams, not ", n);
  }
  // REQUIRES: one for each stream.
  void Push(std::vector<QuantileSummary> summaries) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    for (size_t i = 0; i < streams_.size(); ++i) streams_[i].Push(std::move(summaries[i]));
  }
  std::vector<QuantileSummary> Finish() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    std::vector<QuantileSummary> summaries;
    for (QuantileStream& stream : streams_) summaries.push_back(stream.Finish());
    return summaries;
  }
  // REQUIRES: one for each stream.
  void SetBoundaries(std::vector<std::vector<float>> boundaries) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    boundaries_ = std::move(boundaries);
  }
  std::vector<std::vector<float>> boundaries() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return boundaries_;
  }

 private:
  Mutex mu_;
  std::vector<QuantileStream> streams_;  // their number is constant; their contents are guarded by mu_
  std::vector<std::vector<float>> boundaries_ MR_GUARDED_BY(mu_);
};

// handle, epsilon, num_streams
class CreateKernel final : public OpKernel {
 public:
  explicit CreateKernel(KernelConstruction& c)
      : OpKernel(c), max_elements_(c.Attr<int64_t>("max_elements")) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(RequireScalar(context.input(1), "epsilon"));
    MR_RETURN_IF_ERROR(RequireScalar(context.input(2), "num_streams"));
    const float epsilon = context.input(1).scalar<float>();
    const int64_t streams = context.input(2).scalar<int64_t>();
    if (!(epsilon > 0)) return errors::InvalidArgument("An epsilon value of zero is not allowed.");
    if (streams < 1 || streams > kMostStreams) {
      return errors::InvalidArgument("num_streams must be in [1, ", kMostStreams, "], got ", streams);
    }
    if (context.input(0).num_elements() != 1) return BadHandle(context, 0);
    const auto make = [&]() -> StatusOr<RefPtr<QuantileStreams>> {
      return MakeRef<QuantileStreams>(epsilon, max_elements_, streams);
    };
    return context.resources()
        .LookupOrCreateHandle<QuantileStreams>(context.input(0).scalar<ResourceHandle>(), make)
        .status();
  }

 private:
  const int64_t max_elements_;
};

Status OutputSummary(KernelContext& context, int i, const QuantileSummary& summary) {
  const auto n = static_cast<int64_t>(summary.entries().size());
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(i, TensorShape({n, 4})));
  float* to = out->data<float>();
  for (const QuantileEntry& e : summary.entries()) {
    for (const float x : {e.value, e.weight, e.min_rank, e.max_rank}) *to++ = x;
  }
  return Status();
}

// values of features, weights of examples (or one for all), epsilon -> [entry, (value, weight, min_rank,
// max_rank)]
class MakeSummariesKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const int features = num_inputs() - 2;
    const Tensor& weights = context.input(features);
    MR_RETURN_IF_ERROR(RequireScalar(context.input(features + 1), "epsilon"));
    for (int f = 0; f < features; ++f) {
      const Tensor& values = context.input(f);
      const int64_t n = values.num_elements();
      if (weights.num_elements() != 1 && weights.num_elements() != n) {
        return errors::InvalidArgument("example_weights must have ", n, " elements or one, got shape ",
                                       weights.shape());
      }
      QuantileStream stream(context.input(features + 1).scalar<float>(), n + 1);
      for (int64_t i = 0; i < n; ++i) {
        stream.Push(values.data<float>()[i], weights.data<float>()[weights.num_elements() == 1 ? 0 : i]);
      }
      MR_RETURN_IF_ERROR(OutputSummary(context, f, stream.Finish()));
    }
    return Status();
  }
};

class AddSummariesKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<QuantileStreams> streams, FindResource<QuantileStreams>(context, 0));
    MR_RETURN_IF_ERROR(streams->CheckCount(num_inputs() - 1));
    std::vector<QuantileSummary> summaries;
    for (int i = 1; i < num_inputs(); ++i) {
      MR_ASSIGN_OR_RETURN(QuantileSummary summary, Read(context.input(i)));
      summaries.push_back(std::move(summary));
    }
    streams->Push(std::move(summaries));
    return Status();
  }

 private:
  static StatusOr<QuantileSummary> Read(const Tensor& t) {
    if (t.rank() != 2 || t.dim(1) != 4) {
      return errors::InvalidArgument("A summary must be of shape [n, 4], got ", t.shape());
    }
    std::vector<QuantileEntry> entries;
    for (int64_t i = 0; i < t.dim(0); ++i) {
      const float* e = t.data<float>() + 4 * i;
      // Merging requires values in order, and inputs may be anything.
      if (std::isnan(e[0]) || (i > 0 && !(e[0] > entries.back().value))) {
        return errors::InvalidArgument("The values of a summary must be in ascending order, got ", e[0],
                                       " at ", i);
      }
      entries.push_back({e[0], e[1], e[2], e[3]});
    }
    return QuantileSummary(std::move(entries));
  }
};

// handle, num_buckets
class FlushKernel final : public OpKernel {
 public:
  explicit FlushKernel(KernelConstruction& c)
      : OpKernel(c), generate_quantiles_(c.Attr<bool>("generate_quantiles")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<QuantileStreams> streams, FindResource<QuantileStreams>(context, 0));
    MR_RETURN_IF_ERROR(RequireScalar(context.input(1), "num_buckets"));
    const int64_t buckets = context.input(1).scalar<int64_t>();
    if (buckets < 1 || buckets > kMostBuckets) {
      return errors::InvalidArgument("num_buckets must be in [1, ", kMostBuckets, "], got ", buckets);
    }
    std::vector<std::vector<float>> boundaries;
    for (const QuantileSummary& summary : streams->Finish()) {
      boundaries.push_back(generate_quantiles_ ? summary.Quantiles(buckets) : summary.Boundaries(buckets));
    }
    streams->SetBoundaries(std::move(boundaries));
    return Status();
  }

 private:
  const bool generate_quantiles_;
};

class FlushSummariesKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<QuantileStreams> streams, FindResource<QuantileStreams>(context, 0));
    MR_RETURN_IF_ERROR(streams->CheckCount(num_outputs()));
    const std::vector<QuantileSummary> summaries = streams->Finish();
    for (int i = 0; i < num_outputs(); ++i) {
      MR_RETURN_IF_ERROR(OutputSummary(context, i, summaries[static_cast<size_t>(i)]));
    }
    return Status();
  }
};

class GetBoundariesKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<QuantileStreams> streams, FindResource<QuantileStreams>(context, 0));
    MR_RETURN_IF_ERROR(streams->CheckCount(num_outputs()));
    const std::vector<std::vector<float>> boundaries = streams->boundaries();
    for (int i = 0; i < num_outputs(); ++i) {
      context.set_output(i, Tensor::Vector<float>(boundaries[static_cast<size_t>(i)]));
    }
    return Status();
  }
};

// handle, the boundaries of each stream
class DeserializeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<QuantileStreams> streams, FindResource<QuantileStreams>(context, 0));
    MR_RETURN_IF_ERROR(streams->CheckCount(num_inputs() - 1));
    std::vector<std::vector<float>> boundaries;
    for (int i = 1; i < num_inputs(); ++i) {
      const std::span<const float> values = context.input(i).flat<float>();
      boundaries.emplace_back(values.begin(), values.end());
    }
    streams->SetBoundaries(std::move(boundaries));
    return Status();
  }
};

}  // namespace

void RegisterBoostedQuantileKernels(KernelRegistry& registry) {
  registry.Register<boosted::HandleKernel<QuantileStreams>>(
      KernelDef("BoostedTreesQuantileStreamResourceHandleOp"));
  registry.Register<boosted::IsInitializedKernel<QuantileStreams>>(
      KernelDef("IsBoostedTreesQuantileStreamResourceInitialized"));
  registry.Register<CreateKernel>(KernelDef("BoostedTreesCreateQuantileStreamResource"));
  registry.Register<MakeSummariesKernel>(KernelDef("BoostedTreesMakeQuantileSummaries"));
  registry.Register<AddSummariesKernel>(KernelDef("BoostedTreesQuantileStreamResourceAddSummaries"));
  registry.Register<FlushKernel>(KernelDef("BoostedTreesQuantileStreamResourceFlush"));
  registry.Register<FlushSummariesKernel>(KernelDef("BoostedTreesFlushQuantileSummaries"));
  registry.Register<GetBoundariesKernel>(KernelDef("BoostedTreesQuantileStreamResourceGetBucketBoundaries"));
  registry.Register<DeserializeKernel>(KernelDef("BoostedTreesQuantileStreamResourceDeserialize"));
}

}  // namespace millrace
