// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ChooseFastestBranchDataset: several functions of a dataset that give the same elements.
#include <chrono>
#include <memory>

#include "base/mutex.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

// A position in the input that the branches share; they read one after the other. Thread-safe.
class SharedInput {
 public:
  explicit SharedInput(std::unique_ptr<Iterator> iterator) : iterator_(std::move(iterator)) {}
  // Allows this number of elements until the next call; -1: all.
  void Allow(int64_t elements) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    allowed_ = elements;
  }
  Status GetNext(Context& ctx, Element* out, bool* end) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (iterator_ == nullptr || allowed_ == 0) {
      *end = true;
      return Status();
    }
    MR_RETURN_IF_ERROR(iterator_->GetNext(ctx, out, end));
    if (*end) iterator_.reset();
    if (!*end && allowed_ > 0) --allowed_;
    return Status();
  }
  bool ended() const MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return iterator_ == nullptr;
  }
  bool MayWait(int64_t n) const MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return iterator_ != nullptr && iterator_->MayWait(n);
  }
  Status Save(Context& ctx, StateWriter& state) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    state.Write("allowed", allowed_);
    return state.Save(ctx, "input", iterator_.get());
  }
  Status Restore(Context& ctx, const StateReader& state) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    MR_ASSIGN_OR_RETURN(allowed_, state.Int("allowed"));
    if (!state.HasIterator("input")) {
      iterator_.reset();
      return Status();
    }
    if (iterator_ == nullptr) return errors::DataLoss("The input of the branches had ended");
    return state.Restore(ctx, "input", *iterator_);
  }

 private:
  mutable Mutex mu_;
  std::unique_ptr<Iterator> iterator_ MR_GUARDED_BY(mu_);  // null at the end
  int64_t allowed_ MR_GUARDED_BY(mu_) = -1;
};

// The input of a branch: its iterators continue at the shared position.
class InputDataset final : public Dataset {
 public:
  InputDataset(Signature signature, std::shared_ptr<SharedInput> input)
      : Dataset("Wrapper", std::move(signature)), input_(std::move(input)) {}

 protected:
  class It final : public Iterator {
   public:
    explicit It(std::shared_ptr<SharedInput> input) : input_(std::move(input)) {}
    bool MayWait(int64_t n) const override { return input_->MayWait(n); }
    Status GetNext(Context& ctx, Element* out, bool* end) override { return input_->GetNext(ctx, out, end); }
    // The owner of the branches saves the input.
    Status Save(Context& /*ctx*/, StateWriter& /*state*/) override { return Status(); }
    Status Restore(Context& /*ctx*/, const StateReader& /*state*/) override { return Status(); }

   private:
    const std::shared_ptr<SharedInput> input_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& /*ctx*/) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(input_));
  }

 private:
  const std::shared_ptr<SharedInput> input_;
};

// Each branch makes some elements, then the fastest one makes the rest.
class ChooseBranchDataset final : public UnaryDataset {
 public:
  struct Trial {
    int64_t elements = 1;  // of each branch
    int64_t inputs = 1;    // used for those
  };
  ChooseBranchDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, Trial trial,
                      std::vector<std::unique_ptr<CapturedFunction>> branches)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        trial_(trial),
        branches_(std::move(branches)) {}
  int64_t Cardinality() const override {
    const int64_t n = input().Cardinality();
    if (n < 0) return n;
    // The branches determine whether the remaining inputs make an element.
    const __int128 out = static_cast<__int128>(n) * trial_.elements;
    return out % trial_.inputs == 0 ? static_cast<int64_t>(out / trial_.inputs) : kUnknown;
  }

 protected:
  class It final : public Iterator {
   public:
    It(const ChooseBranchDataset& dataset, std::unique_ptr<Iterator> input)
        : dataset_(dataset), input_(std::make_shared<SharedInput>(std::move(input))) {}
    // The properties of the branches are unknown before their functions are called.
    bool MayWait(int64_t /*n*/) const override { return true; }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (true) {
        if (ctx.cancelled()) return CancelledStatus();
        if (iterator_ == nullptr) MR_RETURN_IF_ERROR(StartBranch(ctx));
        const auto begin = std::chrono::steady_clock::now();
        Status status = iterator_->GetNext(ctx, out, end);
        if (chosen_) return status;
        seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        const bool done = ++made_ >= dataset_.trial_.elements;
        const bool gave = status.ok() && !*end;
        if (gave && !done) return status;
        if (!status.ok()) return status;
        if (*end && input_->ended()) return status;
        *end = false;
        NextBranch();
        if (gave) return status;
      }
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("branch", branch_);
      state.Write("best", best_);
      state.Write("made", made_);
      state.Write("chosen", int64_t{chosen_});
      MR_RETURN_IF_ERROR(state.Save(ctx, "branch_iterator", iterator_.get()));
      return input_->Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      const auto last = static_cast<int64_t>(dataset_.branches_.size()) - 1;
      MR_ASSIGN_OR_RETURN(branch_, state.Count("branch", last));
      MR_ASSIGN_OR_RETURN(best_, state.Count("best", last));
      MR_ASSIGN_OR_RETURN(made_, state.Count("made"));
      MR_ASSIGN_OR_RETURN(const int64_t chosen, state.Count("chosen", 1));
      chosen_ = chosen != 0;
      iterator_.reset();
      if (state.HasIterator("branch_iterator")) {
        const int64_t made = made_;
        MR_RETURN_IF_ERROR(StartBranch(ctx));
        made_ = made;
        MR_RETURN_IF_ERROR(state.Restore(ctx, "branch_iterator", *iterator_));
      }
      return input_->Restore(ctx, state);
    }

   private:
    void NextBranch() {
      iterator_.reset();
      if (branch_ == 0 || seconds_ < best_seconds_) {
        best_ = branch_;
        best_seconds_ = seconds_;
      }
      if (++branch_ == static_cast<int64_t>(dataset_.branches_.size())) {
        chosen_ = true;
        branch_ = best_;
      }
    }
    Status StartBranch(Context& ctx) {
      const CapturedFunction& f = *dataset_.branches_[static_cast<size_t>(branch_)];
      const DataType variant[] = {DataType::kVariant};
      const std::vector<DataType> rets = {DataType::kVariant};
      MR_ASSIGN_OR_RETURN(const std::unique_ptr<Callable> call, f.Bind(ctx, variant, &rets));
      Tensor input = DatasetToTensor(MakeRefDataset<InputDataset>(dataset_.input().signature(), input_));
      if (!input.IsInitialized()) return errors::ResourceExhausted("No memory for a dataset");
      Element made;
      MR_RETURN_IF_ERROR(call->Call(ctx, {std::move(input)}, &made));
      MR_ASSIGN_OR_RETURN(branch_dataset_, DatasetFromTensor(made[0]));
      MR_RETURN_IF_ERROR(CheckTypes(dataset_.types(), branch_dataset_->types()));
      input_->Allow(chosen_ ? -1 : dataset_.trial_.inputs);
      MR_ASSIGN_OR_RETURN(iterator_, branch_dataset_->NewIterator(ctx));
      made_ = 0;
      seconds_ = 0;
      return Status();
    }

    const ChooseBranchDataset& dataset_;
    const std::shared_ptr<SharedInput> input_;
    RefPtr<const Dataset> branch_dataset_;
    std::unique_ptr<Iterator> iterator_;  // of the branch; null: to be started
    int64_t branch_ = 0, best_ = 0;
    int64_t made_ = 0;  // elements of the branch, during its trial
    bool chosen_ = false;
    double seconds_ = 0, best_seconds_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> input, input().NewIterator(ctx));
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this, std::move(input)));
  }

 private:
  const Trial trial_;
  const std::vector<std::unique_ptr<CapturedFunction>> branches_;
};

StatusOr<RefPtr<const Dataset>> MakeChooseBranch(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const int64_t numerator, args.Scalar<int64_t>("ratio_numerator"));
  MR_ASSIGN_OR_RETURN(const int64_t denominator, args.Scalar<int64_t>("ratio_denominator"));
  MR_ASSIGN_OR_RETURN(const int64_t elements, args.Attr<int64_t>("num_elements_per_branch"));
  MR_ASSIGN_OR_RETURN(const auto names, args.Attr<std::vector<NameAttrList>>("branches"));
  MR_ASSIGN_OR_RETURN(const auto lengths, args.Attr<std::vector<int64_t>>("other_arguments_lengths"));
  MR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, args.Values("other_arguments"));
  if (numerator < 1 || denominator < 1) {
    return errors::InvalidArgument("`ratio_numerator` and `ratio_denominator` must be greater than zero.");
  }
  const __int128 inputs = static_cast<__int128>(elements) * numerator;
  if (inputs % denominator != 0 || inputs / denominator > INT64_MAX) {
    return errors::InvalidArgument("`num_elements_per_branch` must be divisible by `ratio_denominator`.");
  }
  if (lengths.size() != names.size()) {
    return errors::InvalidArgument("branches and other_arguments_lengths must have the same length.");
  }
  std::vector<std::unique_ptr<CapturedFunction>> branches;
  size_t at = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (lengths[i] < 0 || static_cast<size_t>(lengths[i]) > values.size() - at) {
      return errors::InvalidArgument("other_arguments_lengths do not match the ", values.size(),
                                     " arguments.");
    }
    const auto first = values.begin() + static_cast<ptrdiff_t>(at);
    at += static_cast<size_t>(lengths[i]);
    branches.push_back(
        std::make_unique<CapturedFunction>(names[i], std::vector<Tensor>(first, first + lengths[i])));
  }
  if (at != values.size()) {
    return errors::InvalidArgument("other_arguments_lengths do not match the ", values.size(), " arguments.");
  }
  return MakeRefDataset<ChooseBranchDataset>(
      args.Kind(), std::move(signature), std::move(input),
      ChooseBranchDataset::Trial{elements, static_cast<int64_t>(inputs / denominator)}, std::move(branches));
}

}  // namespace

void RegisterBranchDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "ChooseFastestBranchDataset", MakeChooseBranch);
}

}  // namespace millrace::data
