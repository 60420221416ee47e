// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Datasets that forward elements of others: Repeat, Take, Skip, Shard, Concatenate, Zip.
#include <algorithm>

#include "base/function.h"
#include "data/batch.h"
#include "device/device.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

class RepeatDataset final : public UnaryDataset {
 public:
  RepeatDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, int64_t count)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), count_(count) {}
  int64_t Cardinality() const override {
    const int64_t n = input().Cardinality();
    if (count_ < 0) return n == 0 ? 0 : kInfinite;
    if (count_ == 0) return 0;
    return n == kInfinite || n == kUnknown ? n : ManyTimes(n, count_);
  }

 protected:
  class It final : public UnaryIterator<RepeatDataset> {
   public:
    It(const RepeatDataset& dataset, std::unique_ptr<Iterator> input)
        : UnaryIterator(dataset, std::move(input)), waits_(input_->MayWait(INT64_MAX)) {}
    bool MayWait(int64_t /*n*/) const override { return input_ != nullptr && waits_; }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (input_ != nullptr && done_ != dataset_.count_) {
        MR_RETURN_IF_ERROR(input_->GetNext(ctx, out, end));
        if (!*end) {
          any_ = true;
          return Status();
        }
        ++done_;
        // An empty input would be repeated endlessly.
        if (dataset_.count_ < 0 && !any_) break;
        if (done_ == dataset_.count_) break;
        *end = false;
        any_ = false;
        MR_ASSIGN_OR_RETURN(input_, dataset_.input().NewIterator(ctx));
        if (ctx.cancelled()) return CancelledStatus();
      }
      input_.reset();
      *end = true;
      return Status();
    }
    bool GivesRows() const override { return InputGivesRows(); }
    Status GetRows(Context& ctx, int64_t n, Element* out, int64_t* got) override {
      std::vector<Element> parts;  // of the repetitions that end in this call, and of the last one
      const auto read = [&](int64_t most, int64_t* rows) {
        Element part;
        MR_RETURN_IF_ERROR(input_->GetRows(ctx, most, &part, rows));
        if (*rows > 0) parts.push_back(std::move(part));
        return Status();
      };
      MR_RETURN_IF_ERROR(GetMany(ctx, n, read, got));
      if (parts.empty()) return Status();
      MR_ASSIGN_OR_RETURN(*out, JoinRows(std::move(parts), ctx.runtime->device->host_allocator()));
      return Status();
    }
    Status GetTexts(Context& ctx, int64_t n, TextSink& sink, int64_t* got) override {
      const auto read = [&](int64_t most, int64_t* rows) { return input_->GetTexts(ctx, most, sink, rows); };
      return GetMany(ctx, n, read, got);
    }
    // Calls read(n, &got) for the rest of `n`, until no more elements come.
    Status GetMany(Context& ctx, int64_t n, FunctionRef<Status(int64_t, int64_t*)> read, int64_t* got) {
      *got = 0;
      while (input_ != nullptr && done_ != dataset_.count_) {
        int64_t rows = 0;
        MR_RETURN_IF_ERROR(read(n - *got, &rows));
        any_ = any_ || rows > 0;
        *got += rows;
        if (*got == n) break;
        ++done_;
        if ((dataset_.count_ < 0 && !any_) || done_ == dataset_.count_) {
          input_.reset();
          break;
        }
        any_ = false;
        MR_ASSIGN_OR_RETURN(input_, dataset_.input().NewIterator(ctx));
        if (ctx.cancelled()) return CancelledStatus();
      }
      return Status();
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("done", done_);
      state.Write("any", int64_t{any_});
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(done_, state.Count("done"));
      MR_ASSIGN_OR_RETURN(const int64_t any, state.Count("any", 1));
      any_ = any != 0;
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    const bool waits_;  // as reported by a new input
    int64_t done_ = 0;  // times that the input has ended
    bool any_ = false;  // elements since then
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const int64_t count_;
};

class TakeDataset final : public UnaryDataset {
 public:
  TakeDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, int64_t count)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), count_(count) {}
  int64_t Cardinality() const override {
    const int64_t n = input().Cardinality();
    if (n == kUnknown) return kUnknown;
    if (n == kInfinite) return count_ < 0 ? kInfinite : count_;
    return count_ < 0 ? n : std::min(n, count_);
  }

 protected:
  class It final : public UnaryIterator<TakeDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      if (dataset_.count_ >= 0 && taken_ >= dataset_.count_) input_.reset();
      MR_RETURN_IF_ERROR(NextInput(ctx, out, end));
      if (!*end) ++taken_;
      return Status();
    }
    bool GivesRows() const override { return InputGivesRows(); }
    Status GetRows(Context& ctx, int64_t n, Element* out, int64_t* got) override {
      if (dataset_.count_ >= 0) n = std::min(n, dataset_.count_ - taken_);
      MR_RETURN_IF_ERROR(NextRows(ctx, std::max<int64_t>(n, 0), out, got));
      taken_ += *got;
      return Status();
    }
    Status GetTexts(Context& ctx, int64_t n, TextSink& sink, int64_t* got) override {
      if (dataset_.count_ >= 0) n = std::min(n, dataset_.count_ - taken_);
      MR_RETURN_IF_ERROR(NextTexts(ctx, std::max<int64_t>(n, 0), sink, got));
      taken_ += *got;
      return Status();
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("taken", taken_);
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(taken_, state.Count("taken"));
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    int64_t taken_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const int64_t count_;
};

class SkipDataset final : public UnaryDataset {
 public:
  SkipDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, int64_t count)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), count_(count) {}
  int64_t Cardinality() const override {
    const int64_t n = input().Cardinality();
    if (count_ < 0) return 0;
    return n < 0 ? n : std::max<int64_t>(0, n - count_);
  }

 protected:
  class It final : public UnaryIterator<SkipDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    bool MayWait(int64_t n) const override {
      if (input_ == nullptr || dataset_.count_ < 0) return false;  // a negative count skips all
      const int64_t left = std::max<int64_t>(0, dataset_.count_ - skipped_);
      return input_->MayWait(n > INT64_MAX - left ? INT64_MAX : n + left);
    }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      MR_RETURN_IF_ERROR(SkipFirst(ctx, out));
      return NextInput(ctx, out, end);
    }
    bool GivesRows() const override { return InputGivesRows(); }
    Status GetRows(Context& ctx, int64_t n, Element* out, int64_t* got) override {
      MR_RETURN_IF_ERROR(SkipFirst(ctx, out));
      return NextRows(ctx, n, out, got);
    }
    Status GetTexts(Context& ctx, int64_t n, TextSink& sink, int64_t* got) override {
      Element unused;
      MR_RETURN_IF_ERROR(SkipFirst(ctx, &unused));
      return NextTexts(ctx, n, sink, got);
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("skipped", skipped_);
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(skipped_, state.Count("skipped"));
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    Status SkipFirst(Context& ctx, Element* unused) {
      if (dataset_.count_ < 0) input_.reset();
      for (bool end = false; input_ != nullptr && skipped_ < dataset_.count_; ++skipped_) {
        if (ctx.cancelled()) return CancelledStatus();
        MR_RETURN_IF_ERROR(NextInput(ctx, unused, &end));
        if (end) break;
      }
      return Status();
    }
    int64_t skipped_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const int64_t count_;
};

// Every num_shards-th element.
class ShardDataset final : public UnaryDataset {
 public:
  ShardDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, int64_t shards,
               int64_t index, bool require_non_empty)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        shards_(shards),
        index_(index),
        require_non_empty_(require_non_empty) {}
  int64_t Cardinality() const override {
    const int64_t n = input().Cardinality();
    return n < 0 ? n : n / shards_ + (index_ < n % shards_ ? 1 : 0);
  }

 protected:
  class It final : public UnaryIterator<ShardDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    bool MayWait(int64_t n) const override {
      return input_ != nullptr && input_->MayWait(ManyTimes(n, dataset_.shards_));
    }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (true) {
        if (ctx.cancelled()) return CancelledStatus();
        MR_RETURN_IF_ERROR(NextInput(ctx, out, end));
        if (*end) return Status();
        if (read_++ % dataset_.shards_ != dataset_.index_) continue;
        // The first round must reach every shard.
        if (!dataset_.require_non_empty_ || read_ > dataset_.shards_) return Status();
        Element unused;
        for (; read_ < dataset_.shards_; ++read_) {
          bool too_short = false;
          MR_RETURN_IF_ERROR(NextInput(ctx, &unused, &too_short));
          if (too_short) {
            return errors::InvalidArgument(
                "There aren't enough elements in this dataset for each shard to have at least one element (# "
                "elems = ",
                read_, ", ", "# shards = ", dataset_.shards_,
                "). If you are using datasets with distribution strategy, considering setting the auto "
                "sharding "
                "policy to either DATA or OFF using the "
                "`experimental_distribute.auto_shard_policy` option of `tf.data.Options()`.");
          }
        }
        return Status();
      }
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("read", read_);
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(read_, state.Count("read"));
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    int64_t read_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const int64_t shards_, index_;
  const bool require_non_empty_;
};

class ConcatenateDataset final : public UnaryDataset {
 public:
  ConcatenateDataset(std::string kind, Signature signature, RefPtr<const Dataset> first,
                     RefPtr<const Dataset> second)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(first)), second_(std::move(second)) {}
  int64_t Cardinality() const override {
    const int64_t a = input().Cardinality(), b = second_->Cardinality();
    if (a == kInfinite || b == kInfinite) return kInfinite;
    return a == kUnknown || b == kUnknown ? kUnknown : a + b;
  }

 protected:
  class It final : public UnaryIterator<ConcatenateDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    // The second input does not exist yet.
    bool MayWait(int64_t n) const override { return part_ == 0 || UnaryIterator::MayWait(n); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (input_ != nullptr) {
        MR_RETURN_IF_ERROR(input_->GetNext(ctx, out, end));
        if (!*end) return Status();
        input_.reset();
        if (++part_ > 1) break;
        *end = false;
        MR_ASSIGN_OR_RETURN(input_, dataset_.second_->NewIterator(ctx));
      }
      *end = true;
      return Status();
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("part", part_);
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(part_, state.Count("part"));
      input_.reset();
      if (part_ == 1) {
        MR_ASSIGN_OR_RETURN(input_, dataset_.second_->NewIterator(ctx));
      }
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    int64_t part_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const RefPtr<const Dataset> second_;
};

class ZipDataset final : public Dataset {
 public:
  ZipDataset(std::string kind, Signature signature, std::vector<RefPtr<const Dataset>> inputs)
      : Dataset(std::move(kind), std::move(signature)), inputs_(std::move(inputs)) {}
  int64_t Cardinality() const override {
    int64_t result = kInfinite;
    for (const auto& input : inputs_) {
      const int64_t n = input->Cardinality();
      if (n == kUnknown) return kUnknown;
      if (n != kInfinite && (result == kInfinite || n < result)) result = n;
    }
    return result;
  }

 protected:
  class It final : public Iterator {
   public:
    explicit It(std::vector<std::unique_ptr<Iterator>> inputs) : inputs_(std::move(inputs)) {}
    bool MayWait(int64_t n) const override {
      return std::ranges::any_of(inputs_, [n](const auto& input) { return input->MayWait(n); });
    }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      if (inputs_.empty()) {
        *end = true;
        return Status();
      }
      Element all;
      for (const auto& input : inputs_) {
        part_.clear();
        MR_RETURN_IF_ERROR(input->GetNext(ctx, &part_, end));
        if (*end) {
          inputs_.clear();
          return Status();
        }
        std::move(part_.begin(), part_.end(), std::back_inserter(all));
      }
      *out = std::move(all);
      return Status();
    }
    bool GivesRows() const override {
      return std::ranges::all_of(inputs_, [](const auto& input) { return input->GivesRows(); });
    }
    Status GetRows(Context& ctx, int64_t n, Element* out, int64_t* got) override {
      *got = inputs_.empty() ? 0 : n;
      Element all;
      for (const auto& input : inputs_) {
        part_.clear();
        int64_t rows = 0;
        MR_RETURN_IF_ERROR(input->GetRows(ctx, *got, &part_, &rows));
        *got = std::min(*got, rows);
        if (*got == 0) break;
        std::move(part_.begin(), part_.end(), std::back_inserter(all));
      }
      if (*got < n) inputs_.clear();
      if (*got == 0) return Status();
      for (Tensor& t : all) {
        if (t.dim(0) > *got) t = t.Slice(0, *got);
      }
      *out = std::move(all);
      return Status();
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("inputs", static_cast<int64_t>(inputs_.size()));
      for (size_t i = 0; i < inputs_.size(); ++i) {
        MR_RETURN_IF_ERROR(state.Save(ctx, "input" + std::to_string(i), inputs_[i].get()));
      }
      return Status();
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(const int64_t there, state.Count("inputs"));
      if (there == 0) inputs_.clear();
      for (size_t i = 0; i < inputs_.size(); ++i) {
        MR_RETURN_IF_ERROR(state.Restore(ctx, "input" + std::to_string(i), *inputs_[i]));
      }
      return Status();
    }

   private:
    std::vector<std::unique_ptr<Iterator>> inputs_;
    Element part_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    std::vector<std::unique_ptr<Iterator>> inputs;
    for (const auto& input : inputs_) {
      MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> made, input->NewIterator(ctx));
      inputs.push_back(std::move(made));
    }
    return std::unique_ptr<Iterator>(std::make_unique<It>(std::move(inputs)));
  }

 private:
  const std::vector<RefPtr<const Dataset>> inputs_;
};

template <typename D>
StatusOr<RefPtr<const Dataset>> MakeCounted(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const int64_t count, args.Scalar<int64_t>("count"));
  return MakeRefDataset<D>(args.Kind(), std::move(signature), std::move(input), count);
}

StatusOr<RefPtr<const Dataset>> MakeShard(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const int64_t shards, args.Scalar<int64_t>("num_shards"));
  MR_ASSIGN_OR_RETURN(const int64_t index, args.Scalar<int64_t>("index"));
  MR_ASSIGN_OR_RETURN(const bool require, args.Attr<bool>("require_non_empty"));
  if (shards <= 0) {
    return errors::InvalidArgument(
        "Number of shards must be greater than zero (currently num_shards = ", shards, ").");
  }
  if (index < 0 || index >= shards) {
    return errors::InvalidArgument("Index must be between 0 and ", shards - 1, " (currently index = ", index,
                                   ").");
  }
  return MakeRefDataset<ShardDataset>(args.Kind(), std::move(signature), std::move(input), shards, index,
                                      require);
}

StatusOr<RefPtr<const Dataset>> MakeConcatenate(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> first, args.Input());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> second, args.Input("another_dataset"));
  if (first->types() != second->types()) {
    return errors::InvalidArgument("input dataset and dataset to concatenate have different output_types");
  }
  return MakeRefDataset<ConcatenateDataset>(args.Kind(), std::move(signature), std::move(first),
                                            std::move(second));
}

StatusOr<RefPtr<const Dataset>> MakeZip(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(auto inputs, args.Inputs("input_datasets"));
  return MakeRefDataset<ZipDataset>(args.Kind(), std::move(signature), std::move(inputs));
}

}  // namespace

void RegisterBasicDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "RepeatDataset", MakeCounted<RepeatDataset>);
  RegisterDataset(registry, "TakeDataset", MakeCounted<TakeDataset>);
  RegisterDataset(registry, "SkipDataset", MakeCounted<SkipDataset>);
  RegisterDataset(registry, "ShardDataset", MakeShard);
  RegisterDataset(registry, "ConcatenateDataset", MakeConcatenate);
  RegisterDataset(registry, "ZipDataset", MakeZip);
}

}  // namespace millrace::data
