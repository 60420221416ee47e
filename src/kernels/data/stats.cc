// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Measurements of elements, and their aggregators.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>

#include "base/strings.h"
#include "data/stats.h"
#include "kernel/resource_op.h"
#include "kernels/cpu/logging/summary_sink.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"
#include "tensorflow/core/framework/summary.pb.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace::data {
namespace {

// Upper limits of the buckets of TensorFlow's histograms of positive values: 1e-12, then each 1.1 times the
// previous one.
const std::vector<double>& BucketLimits() {
  static const std::vector<double>& limits = *[] {
    auto* made = new std::vector<double>{0};
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) made->push_back(limit);
    made->push_back(HUGE_VAL);
    return made;
  }();
  return limits;
}

class AggregatorResource final : public Resource, public StatsAggregator {
 public:
  std::string DebugString() const override { return "StatsAggregator"; }
  void AddToHistogram(const std::string& name, double value) override {
    MutexLock lock(mu_);
    Histogram& h = histograms_[name];
    if (h.counts.empty()) h.counts.resize(BucketLimits().size());
    const auto bucket = std::ranges::upper_bound(BucketLimits(), value);
    ++h.counts[static_cast<size_t>(
        std::min<ptrdiff_t>(bucket - BucketLimits().begin(), static_cast<ptrdiff_t>(h.counts.size()) - 1))];
    h.min = h.num == 0 ? value : std::min(h.min, value);
    h.max = h.num == 0 ? value : std::max(h.max, value);
    h.num += 1;
    h.sum += value;
    h.squares += value * value;
    if (log_ == nullptr) return;
    // As a separate summary; the step is the number of values.
    tensorflow::Event event;
    event.set_wall_time(EventTime());
    event.set_step(static_cast<int64_t>(h.num));
    Write(name, h, event.mutable_summary());
    log_->Write(event, nullptr).IgnoreError("errors of statistics do not stop the pipeline");
  }
  // From now on each value of a histogram is also written. FailedPrecondition if there is another writer.
  Status SetWriter(RefPtr<SummarySink> log) {
    MutexLock lock(mu_);
    if (log_ != nullptr && log_ != log) {
      return errors::FailedPrecondition("The statistics have a summary writer already");
    }
    log_ = std::move(log);
    return Status();
  }
  void AddToCounter(const std::string& name, int64_t value) override {
    MutexLock lock(mu_);
    counters_[name] += value;
  }
  // Returns a serialized Summary.
  std::string Summary() const {
    tensorflow::Summary summary;
    MutexLock lock(mu_);
    for (const auto& [name, count] : counters_) {
      tensorflow::Summary::Value& value = *summary.add_value();
      value.set_tag(name);
      value.set_simple_value(static_cast<float>(count));
    }
    for (const auto& [name, h] : histograms_) Write(name, h, &summary);
    return summary.SerializeAsString();
  }

 private:
  struct Histogram {
    double min = 0, max = 0, num = 0, sum = 0, squares = 0;
    std::vector<double> counts;
  };
  static void Write(const std::string& name, const Histogram& h, tensorflow::Summary* summary) {
    tensorflow::Summary::Value& value = *summary->add_value();
    value.set_tag(name);
    tensorflow::HistogramProto& histogram = *value.mutable_histo();
    histogram.set_min(h.min);
    histogram.set_max(h.max);
    histogram.set_num(h.num);
    histogram.set_sum(h.sum);
    histogram.set_sum_squares(h.squares);
    for (size_t i = 0; i < h.counts.size(); ++i) {
      if (h.counts[i] == 0) continue;
      histogram.add_bucket_limit(std::min(BucketLimits()[i], 1.7976931348623157e308));
      histogram.add_bucket(h.counts[i]);
    }
  }

  mutable Mutex mu_;
  RefPtr<SummarySink> log_ MR_GUARDED_BY(mu_);  // null: none
  std::map<std::string, Histogram> histograms_ MR_GUARDED_BY(mu_);
  std::map<std::string, int64_t> counters_ MR_GUARDED_BY(mu_);
};

// Adds a prefix to names.
class Tagged final : public StatsAggregator {
 public:
  Tagged(StatsAggregator& to, const std::string& tag) : to_(to), prefix_(tag.empty() ? "" : tag + "::") {}
  void AddToHistogram(const std::string& name, double value) override {
    to_.AddToHistogram(prefix_ + name, value);
  }
  void AddToCounter(const std::string& name, int64_t value) override {
    to_.AddToCounter(prefix_ + name, value);
  }

 private:
  StatsAggregator& to_;
  const std::string prefix_;
};

class SetStatsAggregatorDataset final : public UnaryDataset {
 public:
  SetStatsAggregatorDataset(std::string kind, Signature signature, RefPtr<const Dataset> input,
                            RefPtr<AggregatorResource> aggregator, std::string tag)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        aggregator_(std::move(aggregator)),
        tag_(std::move(tag)) {}

 protected:
  class It final : public UnaryIterator<SetStatsAggregatorDataset> {
   public:
    It(const SetStatsAggregatorDataset& dataset, std::unique_ptr<Iterator> input)
        : UnaryIterator(dataset, nullptr), tagged_(*dataset.aggregator_, dataset.tag_) {
      input_ = std::move(input);
    }
    // Its stages write their measurements to tagged_.
    ~It() override { input_.reset(); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      Context inner = ctx;
      inner.stats = &tagged_;
      return NextInput(inner, out, end);
    }

   private:
    Tagged tagged_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const RefPtr<AggregatorResource> aggregator_;
  const std::string tag_;
};

enum class Measure { kBytes, kMicroseconds };

template <Measure measure>
class MeasuredDataset final : public UnaryDataset {
 public:
  MeasuredDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, std::string tag)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), tag_(std::move(tag)) {}

 protected:
  class It final : public UnaryIterator<MeasuredDataset> {
   public:
    using UnaryIterator<MeasuredDataset>::UnaryIterator;
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      const auto begin = std::chrono::steady_clock::now();
      Status status = this->NextInput(ctx, out, end);
      if (ctx.stats == nullptr || !status.ok() || *end) return status;
      double value = 0;
      if constexpr (measure == Measure::kMicroseconds) {
        value = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
      } else {
        for (const Tensor& t : *out) {
          value += static_cast<double>(t.num_bytes());
          if (t.dtype() != DataType::kString) continue;
          for (const std::string& s : t.flat<std::string>()) value += static_cast<double>(s.size());
        }
      }
      ctx.stats->AddToHistogram(this->dataset_.tag_, value);
      return status;
    }
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const std::string tag_;
};

StatusOr<RefPtr<const Dataset>> MakeSetStatsAggregator(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const ResourceHandle handle, args.Scalar<ResourceHandle>("stats_aggregator"));
  MR_ASSIGN_OR_RETURN(RefPtr<AggregatorResource> aggregator,
                      args.context().resources().LookupHandle<AggregatorResource>(handle));
  MR_ASSIGN_OR_RETURN(std::string tag, args.Scalar<std::string>("tag"));
  return MakeRefDataset<SetStatsAggregatorDataset>(args.Kind(), std::move(signature), std::move(input),
                                                   std::move(aggregator), std::move(tag));
}

template <Measure measure>
StatusOr<RefPtr<const Dataset>> MakeMeasured(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(std::string tag, args.Scalar<std::string>("tag"));
  return MakeRefDataset<MeasuredDataset<measure>>(args.Kind(), std::move(signature), std::move(input),
                                                  std::move(tag));
}

class AggregatorKernel final : public ResourceOpKernel<AggregatorResource> {
 public:
  explicit AggregatorKernel(KernelConstruction& c) : ResourceOpKernel(c, Unnamed::kNodeName) {}

 protected:
  StatusOr<RefPtr<AggregatorResource>> Make(KernelContext& /*context*/) override {
    return MakeRef<AggregatorResource>();
  }
};

class SummaryKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<AggregatorResource> aggregator,
                        FindResource<AggregatorResource>(context, 0));
    context.set_output(0, Tensor::Scalar(aggregator->Summary()));
    return Status();
  }
};

class SetWriterKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<AggregatorResource> aggregator,
                        FindResource<AggregatorResource>(context, 0));
    MR_ASSIGN_OR_RETURN(RefPtr<SummarySink> log, FindResource<SummarySink>(context, 1));
    return aggregator->SetWriter(std::move(log));
  }
};

}  // namespace

void RegisterStatsDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "SetStatsAggregatorDataset", MakeSetStatsAggregator);
  RegisterDataset(registry, "BytesProducedStatsDataset", MakeMeasured<Measure::kBytes>);
  RegisterDataset(registry, "LatencyStatsDataset", MakeMeasured<Measure::kMicroseconds>);
  for (const char* op :
       {"StatsAggregatorHandle", "ExperimentalStatsAggregatorHandle", "StatsAggregatorHandleV2"})
    registry.Register<AggregatorKernel>(KernelDef(op));
  registry.Register<SetWriterKernel>(KernelDef("StatsAggregatorSetSummaryWriter"));
  for (const char* op : {"StatsAggregatorSummary", "ExperimentalStatsAggregatorSummary"})
    registry.Register<SummaryKernel>(KernelDef(op));
}

}  // namespace millrace::data
