// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Candidate samplers for the softmax of many classes, with expected counts.
#include "kernels/cpu/candidate/distribution.h"

#include <cfloat>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "base/random/philox_stream.h"
#include "kernels/cpu/data_flow/turns.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// The number of draws between checks for cancellation.
constexpr int64_t kDrawsPerCheck = 4096;

float ExpectedCount(float probability, int64_t samples, int64_t tries) {
  if (tries == samples) return probability * static_cast<float>(samples);
  return static_cast<float>(
      -std::expm1(static_cast<double>(tries) * std::log1p(-static_cast<double>(probability))));
}

struct SamplerOptions {
  int64_t num_true = 0;
  int64_t num_sampled = 0;
  bool unique = false;
};

// Draws from `distribution` to output 0, and computes expected counts of the true classes and the samples.
class SamplerKernel final : public OpKernel {
 public:
  SamplerKernel(KernelConstruction& c, std::unique_ptr<CandidateDistribution> distribution)
      : OpKernel(c),
        options_{.num_true = c.Attr<int64_t>("num_true"),
                 .num_sampled = c.Attr<int64_t>("num_sampled"),
                 .unique = c.Attr<bool>("unique")},
        generator_(c.Attr<int64_t>("seed"), c.Attr<int64_t>("seed2")),
        distribution_(std::move(distribution)) {}

  Status Compute(KernelContext& context) override {
    const Tensor& classes = context.input(0);
    if (classes.rank() != 2) return errors::InvalidArgument("true_classes must be a matrix");
    if (classes.dim(1) != options_.num_true) {
      return errors::InvalidArgument("true_classes must have num_true columns, expected: ", classes.dim(1),
                                     " was: ", options_.num_true);
    }
    if (options_.unique && options_.num_sampled > distribution_->possible()) {
      return errors::InvalidArgument("Sampler's range is too small.");
    }
    MR_ASSIGN_OR_RETURN(Tensor * samples, context.AllocateOutput(0, TensorShape({options_.num_sampled})));
    MR_ASSIGN_OR_RETURN(Tensor * true_counts, context.AllocateOutput(1, classes.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * counts, context.AllocateOutput(2, TensorShape({options_.num_sampled})));
    PhiloxStream stream(
        generator_.ReserveBlocks(uint64_t{512} * static_cast<uint64_t>(options_.num_sampled)));
    return InTurn(context, turns_, [&]() -> Status {
      MR_ASSIGN_OR_RETURN(const int64_t tries, Draw(context, stream, samples->data<int64_t>()));
      for (int64_t i = 0; i < options_.num_sampled; ++i) {
        counts->data<float>()[i] = CountOf(samples->data<int64_t>()[i], tries);
      }
      const std::span<const int64_t> values(classes.data<int64_t>(),
                                            static_cast<size_t>(classes.num_elements()));
      for (size_t i = 0; i < values.size(); ++i) true_counts->data<float>()[i] = CountOf(values[i], tries);
      distribution_->Learn(values);
      return Status();
    });
  }

 private:
  float CountOf(int64_t value, int64_t tries) const {
    return ExpectedCount(distribution_->Probability(value), options_.num_sampled, tries);
  }

  // The number of draws.
  StatusOr<int64_t> Draw(const KernelContext& context, PhiloxStream& stream, int64_t* to) const {
    std::unordered_set<int64_t> used;
    int64_t tries = 0;
    for (int64_t filled = 0; filled < options_.num_sampled; ++tries) {
      if (tries % kDrawsPerCheck == 0 && context.cancellation().IsCancelled()) {
        return errors::Cancelled("The step was cancelled while candidates were drawn");
      }
      if (tries == INT32_MAX) return errors::Internal("Too many draws for the unique candidates");
      const int64_t value = distribution_->Sample(stream);
      if (!options_.unique || used.insert(value).second) to[filled++] = value;
    }
    return tries;
  }

  const SamplerOptions options_;
  GuardedPhilox generator_;
  Turns turns_;
  const std::unique_ptr<CandidateDistribution> distribution_;  // updated by one run at a time only
};

// Every class is a candidate.
class AllCandidatesKernel final : public OpKernel {
 public:
  explicit AllCandidatesKernel(KernelConstruction& c)
      : OpKernel(c), num_true_(c.Attr<int64_t>("num_true")), num_sampled_(c.Attr<int64_t>("num_sampled")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& classes = context.input(0);
    if (classes.rank() != 2) return errors::InvalidArgument("true_classes must be a matrix");
    if (classes.dim(1) != num_true_) {
      return errors::InvalidArgument("true_classes must have num_true columns, expected: ", classes.dim(1),
                                     " was: ", num_true_);
    }
    MR_ASSIGN_OR_RETURN(Tensor * samples, context.AllocateOutput(0, TensorShape({num_sampled_})));
    MR_ASSIGN_OR_RETURN(Tensor * true_counts, context.AllocateOutput(1, classes.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * counts, context.AllocateOutput(2, TensorShape({num_sampled_})));
    for (int64_t i = 0; i < num_sampled_; ++i) samples->data<int64_t>()[i] = i;
    std::fill_n(true_counts->data<float>(), true_counts->num_elements(), 1.0f);
    std::fill_n(counts->data<float>(), num_sampled_, 1.0f);
    return Status();
  }

 private:
  const int64_t num_true_, num_sampled_;
};

// The positions at which a candidate is one of the true classes of its row.
class AccidentalHitsKernel final : public OpKernel {
 public:
  explicit AccidentalHitsKernel(KernelConstruction& c)
      : OpKernel(c), num_true_(c.Attr<int64_t>("num_true")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& classes = context.input(0);
    const Tensor& candidates = context.input(1);
    if (classes.rank() != 2 || classes.dim(1) != num_true_) {
      return errors::InvalidArgument("true_candidates must be a batch_size * num_true matrix");
    }
    if (!candidates.shape().IsVector()) {
      return errors::InvalidArgument(
          "sampled_candidates must be a vector, which is typically an output from CandidateSampler");
    }
    std::unordered_map<int64_t, int64_t> places;  // of a candidate that occurs twice, the last one
    for (int64_t i = 0; i < candidates.num_elements(); ++i) places[candidates.data<int64_t>()[i]] = i;
    std::vector<std::pair<int64_t, int64_t>> hits;  // row and index
    for (int64_t i = 0; i < classes.num_elements(); ++i) {
      const auto found = places.find(classes.data<int64_t>()[i]);
      if (found != places.end()) hits.emplace_back(i / num_true_, found->second);
    }
    const TensorShape shape({static_cast<int64_t>(hits.size())});
    MR_ASSIGN_OR_RETURN(Tensor * rows, context.AllocateOutput(0, shape));
    MR_ASSIGN_OR_RETURN(Tensor * ids, context.AllocateOutput(1, shape));
    MR_ASSIGN_OR_RETURN(Tensor * weights, context.AllocateOutput(2, shape));
    for (size_t i = 0; i < hits.size(); ++i) {
      rows->data<int32_t>()[i] = static_cast<int32_t>(hits[i].first);
      ids->data<int64_t>()[i] = hits[i].second;
      weights->data<float>()[i] = -FLT_MAX;
    }
    return Status();
  }

 private:
  const int64_t num_true_;
};

using MakeDistribution = StatusOr<std::unique_ptr<CandidateDistribution>> (*)(KernelConstruction&);

void Add(KernelRegistry& registry, const char* op, MakeDistribution make) {
  registry.Register(KernelDef(op), [make](KernelConstruction& c) -> std::unique_ptr<OpKernel> {
    auto distribution = make(c);
    if (!distribution.ok()) {
      c.SetError(distribution.status());
      return nullptr;
    }
    return std::make_unique<SamplerKernel>(c, *std::move(distribution));
  });
}

}  // namespace

void RegisterCandidateSamplerKernels(KernelRegistry& registry) {
  Add(registry, "UniformCandidateSampler", MakeUniformDistribution);
  Add(registry, "LogUniformCandidateSampler", MakeLogUniformDistribution);
  Add(registry, "LearnedUnigramCandidateSampler", MakeLearnedDistribution);
  Add(registry, "ThreadUnsafeUnigramCandidateSampler", MakeLearnedDistribution);
  Add(registry, "FixedUnigramCandidateSampler", MakeFixedDistribution);
  registry.Register<AllCandidatesKernel>(KernelDef("AllCandidateSampler"));
  registry.Register<AccidentalHitsKernel>(KernelDef("ComputeAccidentalHits"));
}

}  // namespace millrace
