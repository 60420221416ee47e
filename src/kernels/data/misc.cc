// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Datasets that change their input little or not at all.
#include <algorithm>
#include <chrono>
#include <set>

#include "base/logging.h"
#include "base/random/philox_stream.h"
#include "base/strings.h"
#include "data/stats.h"
#include "data/tuning.h"
#include "data/waiting.h"
#include "kernel/resource_op.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/parallel.h"
#include "kernels/data/register.h"
#include "tensor/variant.h"

namespace millrace::data {
namespace {

// The input itself, for ops that only set how it runs.
class SameDataset final : public UnaryDataset {
 public:
  using UnaryDataset::UnaryDataset;

 protected:
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return input().NewIterator(ctx);
  }
};

// Lets stages without a fixed parallelism choose it by measurements.
class ModelDataset final : public UnaryDataset {
 public:
  ModelDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, int64_t processors)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), processors_(processors) {}

 protected:
  class It final : public UnaryIterator<ModelDataset> {
   public:
    It(const ModelDataset& dataset, std::unique_ptr<Iterator> input)
        : UnaryIterator(dataset, std::move(input)), shares_(dataset.processors_) {}
    // Its stages use the shares.
    ~It() override { input_.reset(); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      ProcessorShares* const outer = std::exchange(ctx.shares, &shares_);
      Status status = NextInput(ctx, out, end);
      ctx.shares = outer;
      return status;
    }

   private:
    ProcessorShares shares_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const int64_t processors_;
};

// Checks that the datasets after this one are of the given kinds.
class AssertNextDataset final : public UnaryDataset {
 public:
  AssertNextDataset(std::string kind, Signature signature, RefPtr<const Dataset> input,
                    std::vector<std::string> expected)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        expected_(std::move(expected)) {}

 protected:
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    const Context::Reader* reader = ctx.readers == nullptr ? nullptr : ctx.readers->next;
    for (size_t i = 0; i < expected_.size(); ++i, reader = reader->next) {
      if (reader == nullptr) {
        return errors::InvalidArgument("Asserted next ", expected_.size(),
                                       " transformations but encountered only ", i, ".");
      }
      if (reader->dataset->kind() == expected_[i]) continue;
      return errors::InvalidArgument("Asserted ", expected_[i], " transformation at offset ", i,
                                     " but encountered ", reader->dataset->kind(),
                                     " transformation instead.");
    }
    return input().NewIterator(ctx);
  }

 private:
  const std::vector<std::string> expected_;
};

// Continues after errors of the input.
class IgnoreErrorsDataset final : public UnaryDataset {
 public:
  using UnaryDataset::UnaryDataset;
  int64_t Cardinality() const override { return kUnknown; }

 protected:
  class It final : public UnaryIterator<IgnoreErrorsDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    bool MayWait(int64_t /*n*/) const override { return UnaryIterator::MayWait(INT64_MAX); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (true) {
        const Status status = NextInput(ctx, out, end);
        if (ctx.cancelled() && !status.ok()) return CancelledStatus();
        if (!status.ok()) {
          ++ignored_;
          last_ = status;
          if (ctx.stats != nullptr) ctx.stats->AddToCounter(kIgnored, 1);
          continue;
        }
        if (*end && ignored_ > told_) {
          MR_LOG(Warning) << "Ignored " << ignored_
                          << " errors of an input pipeline, the last one: " << last_;
          told_ = ignored_;
        }
        return Status();
      }
    }

   private:
    static constexpr char kIgnored[] = "ignored_errors";
    int64_t ignored_ = 0, told_ = 0;
    Status last_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }
};

// Delays each element.
class SleepDataset final : public UnaryDataset {
 public:
  SleepDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, int64_t microseconds)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), microseconds_(microseconds) {}

 protected:
  class It final : public UnaryIterator<SleepDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    bool MayWait(int64_t /*n*/) const override { return true; }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(dataset_.microseconds_);
      const auto token = ctx.cancellation->Register([this] {
        MutexLock lock(mu_);
        changed_.NotifyAll();
      });
      {
        MutexLock lock(mu_);
        while (!ctx.cancelled() && changed_.WaitUntil(mu_, until)) {
        }
      }
      if (token != CancellationManager::kInvalidToken) ctx.cancellation->Deregister(token);
      if (ctx.cancelled()) return CancelledStatus();
      return NextInput(ctx, out, end);
    }

   private:
    Mutex mu_;
    CondVar changed_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const int64_t microseconds_;
};

// Selects each element with a given probability.
class SamplingDataset final : public UnaryDataset {
 public:
  SamplingDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, float rate,
                  int64_t seed, int64_t seed2)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        rate_(rate),
        seed_(seed),
        seed2_(seed2) {}
  int64_t Cardinality() const override { return kUnknown; }

 protected:
  PhiloxRandom Generator() const {
    return PhiloxRandom(static_cast<uint64_t>(seed_), static_cast<uint64_t>(seed2_));
  }
  class It final : public UnaryIterator<SamplingDataset> {
   public:
    It(const SamplingDataset& dataset, std::unique_ptr<Iterator> input)
        : UnaryIterator(dataset, std::move(input)), stream_(dataset.Generator()) {}
    bool MayWait(int64_t /*n*/) const override { return UnaryIterator::MayWait(INT64_MAX); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (true) {
        if (ctx.cancelled()) return CancelledStatus();
        MR_RETURN_IF_ERROR(NextInput(ctx, out, end));
        if (*end) return Status();
        ++drawn_;
        if (stream_.NextFloat() < dataset_.rate_) return Status();
      }
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("drawn", drawn_);
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(drawn_, state.Count("drawn"));
      stream_ = PhiloxStream(dataset_.Generator(), static_cast<uint64_t>(drawn_));
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    PhiloxStream stream_;
    int64_t drawn_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const float rate_;
  const int64_t seed_, seed2_;
};

// Elements that did not occur before: one number or string each.
class UniqueDataset final : public UnaryDataset {
 public:
  using UnaryDataset::UnaryDataset;
  int64_t Cardinality() const override { return kUnknown; }

 protected:
  class It final : public UnaryIterator<UniqueDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    bool MayWait(int64_t /*n*/) const override { return UnaryIterator::MayWait(INT64_MAX); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (true) {
        if (ctx.cancelled()) return CancelledStatus();
        MR_RETURN_IF_ERROR(NextInput(ctx, out, end));
        if (*end) return Status();
        if (seen_.insert(KeyOf((*out)[0])).second) return Status();
      }
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("seen", Tensor::Vector<std::string>(std::vector<std::string>(seen_.begin(), seen_.end())));
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(const Tensor seen, state.Value("seen"));
      if (seen.dtype() != DataType::kString) return errors::DataLoss("The saved state has no elements");
      seen_ = {seen.flat<std::string>().begin(), seen.flat<std::string>().end()};
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    // Elements are identified by their bytes.
    static std::string KeyOf(const Tensor& t) {
      std::string key = t.shape().ToString();
      if (t.dtype() == DataType::kString) {
        for (const std::string& s : t.flat<std::string>()) key += StrCat(s.size(), ":", s);
      } else if (t.num_elements() > 0) {
        key.append(static_cast<const char*>(t.raw_data()), t.num_bytes());
      }
      return key;
    }
    std::set<std::string> seen_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }
};

template <typename D>
StatusOr<RefPtr<const Dataset>> MakePlain(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  return MakeRefDataset<D>(args.Kind(), std::move(signature), std::move(input));
}

StatusOr<RefPtr<const Dataset>> MakeModel(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(int64_t processors, args.Attr<int64_t>("cpu_budget"));
  if (processors <= 0) {
    MR_ASSIGN_OR_RETURN(processors, ResolveParallelism(-1));
  }
  return MakeRefDataset<ModelDataset>(args.Kind(), std::move(signature), std::move(input), processors);
}

StatusOr<RefPtr<const Dataset>> MakeAssertNext(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(std::vector<std::string> expected, args.Vector<std::string>("transformations"));
  return MakeRefDataset<AssertNextDataset>(args.Kind(), std::move(signature), std::move(input),
                                           std::move(expected));
}

StatusOr<RefPtr<const Dataset>> MakeSleep(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const int64_t microseconds, args.Scalar<int64_t>("sleep_microseconds"));
  if (microseconds < 0) return errors::InvalidArgument("`sleep_microseconds` must be >= 0");
  return MakeRefDataset<SleepDataset>(args.Kind(), std::move(signature), std::move(input), microseconds);
}

StatusOr<RefPtr<const Dataset>> MakeSampling(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const float rate, args.Scalar<float>("rate"));
  MR_ASSIGN_OR_RETURN(int64_t seed, args.Scalar<int64_t>("seed"));
  MR_ASSIGN_OR_RETURN(int64_t seed2, args.Scalar<int64_t>("seed2"));
  if (seed == 0 && seed2 == 0) {
    seed = static_cast<int64_t>(RandomSeed64());
    seed2 = static_cast<int64_t>(RandomSeed64());
  }
  return MakeRefDataset<SamplingDataset>(args.Kind(), std::move(signature), std::move(input), rate, seed,
                                         seed2);
}

StatusOr<RefPtr<const Dataset>> MakeUnique(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  if (input->types().size() != 1) {
    return errors::InvalidArgument("UniqueDataset only supports inputs with a single component.");
  }
  const DataType type = input->types()[0];
  if (type != DataType::kInt32 && type != DataType::kInt64 && type != DataType::kString) {
    return errors::InvalidArgument(
        "UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` component.");
  }
  return MakeRefDataset<UniqueDataset>(args.Kind(), std::move(signature), std::move(input));
}

// The first of several equivalent datasets: the fastest one is not determined.
StatusOr<RefPtr<const Dataset>> MakeChooseFastest(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(auto inputs, args.Inputs("input_datasets"));
  for (const auto& input : inputs) MR_RETURN_IF_ERROR(CheckSignature(signature, input->signature()));
  return MakeRefDataset<SameDataset>(args.Kind(), std::move(signature), std::move(inputs[0]));
}

// A thread pool for stages. They have their own threads, so the handle has no effect.
class ThreadPoolResource final : public Resource {
 public:
  std::string DebugString() const override { return "ThreadPool"; }
};
class ThreadPoolHandleKernel final : public ResourceOpKernel<ThreadPoolResource> {
 public:
  explicit ThreadPoolHandleKernel(KernelConstruction& c) : ResourceOpKernel(c, Unnamed::kPrivate) {
    if (c.Attr<int64_t>("num_threads") <= 0) {
      c.SetError(errors::InvalidArgument("`num_threads` must be greater than zero."));
    }
  }

 protected:
  StatusOr<RefPtr<ThreadPoolResource>> Make(KernelContext& /*context*/) override {
    return MakeRef<ThreadPoolResource>();
  }
};

// Wrapping hides a dataset from code that inspects variants; there is no such code here.
class ForwardVariantKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(DatasetFromTensor(context.input(0)).status());
    context.set_output(0, context.input(0));
    return Status();
  }
};

}  // namespace

void RegisterMiscDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "ModelDataset", MakeModel);
  for (const char* op : {"OptimizeDataset", "NonSerializableDataset", "MaxIntraOpParallelismDataset",
                         "PrivateThreadPoolDataset", "ThreadPoolDataset"}) {
    RegisterDataset(registry, op, MakePlain<SameDataset>);
  }
  RegisterDataset(registry, "IgnoreErrorsDataset", MakePlain<IgnoreErrorsDataset>);
  RegisterDataset(registry, "AssertNextDataset", MakeAssertNext);
  RegisterDataset(registry, "SleepDataset", MakeSleep);
  RegisterDataset(registry, "SamplingDataset", MakeSampling);
  RegisterDataset(registry, "UniqueDataset", MakeUnique);
  RegisterDataset(registry, "ChooseFastestDataset", MakeChooseFastest);
  for (const char* op : {"ThreadPoolHandle", "ExperimentalThreadPoolHandle"})
    registry.Register<ThreadPoolHandleKernel>(KernelDef(op));
  for (const char* op : {"WrapDatasetVariant", "UnwrapDatasetVariant"})
    registry.Register<ForwardVariantKernel>(KernelDef(op));
}

}  // namespace millrace::data
