// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Elements of datasets that a function makes from the input, interleaved.
#include <algorithm>

#include "base/strings.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/nested.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

// Takes `block` elements of each of `cycle` datasets in turn. When one has ended, the dataset of the next
// input element replaces it in its next turn. With a cycle of one, FlatMap.
class InterleaveDataset final : public UnaryDataset {
 public:
  InterleaveDataset(std::string kind, Signature signature, RefPtr<const Dataset> input,
                    std::unique_ptr<CapturedFunction> f, int64_t cycle, int64_t block)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        f_(std::move(f)),
        cycle_(cycle),
        block_(block) {}
  int64_t Cardinality() const override { return kUnknown; }

 protected:
  class It final : public UnaryIterator<InterleaveDataset> {
   public:
    It(const InterleaveDataset& dataset, std::unique_ptr<Iterator> input, std::unique_ptr<Callable> f)
        : UnaryIterator(dataset, std::move(input)), f_(std::move(f)) {}
    // The properties of the next dataset are unknown.
    bool MayWait(int64_t /*n*/) const override { return input_ != nullptr || open_ > 0; }

    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (input_ != nullptr || open_ > 0) {
        if (ctx.cancelled()) return CancelledStatus();
        std::unique_ptr<Nested>& current = Slot();
        if (current != nullptr) {
          bool ended = false;
          MR_RETURN_IF_ERROR(current->GetNext(ctx, out, &ended));
          if (!ended) {
            if (++taken_ == dataset_.block_) Advance();
            return Status();
          }
          current.reset();
          --open_;
          Advance();
        } else if (input_ != nullptr) {
          Element args;
          bool ended = false;
          MR_RETURN_IF_ERROR(NextInput(ctx, &args, &ended));
          if (ended) continue;
          auto made = Nested::Open(ctx, *f_, std::move(args), dataset_.types());
          MR_RETURN_IF_ERROR(made.status());
          current = *std::move(made);
          ++open_;
        } else {
          Advance();
        }
      }
      *end = true;
      return Status();
    }

    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("at", at_);
      state.Write("taken", taken_);
      state.Write("slots", static_cast<int64_t>(slots_.size()));
      for (size_t i = 0; i < slots_.size(); ++i) {
        const std::string name = StrCat("slot", i);
        state.Write(StrCat(name, ".open"), int64_t{slots_[i] != nullptr});
        if (slots_[i] != nullptr) MR_RETURN_IF_ERROR(slots_[i]->Save(ctx, name, state));
      }
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(at_, state.Count("at", dataset_.cycle_ - 1));
      MR_ASSIGN_OR_RETURN(taken_, state.Count("taken", dataset_.block_));
      MR_ASSIGN_OR_RETURN(const int64_t slots, state.Count("slots", dataset_.cycle_));
      slots_.clear();
      open_ = 0;
      for (int64_t i = 0; i < slots; ++i) {
        const std::string name = StrCat("slot", i);
        MR_ASSIGN_OR_RETURN(const int64_t is_open, state.Count(StrCat(name, ".open"), 1));
        slots_.emplace_back();
        if (is_open == 0) continue;
        MR_ASSIGN_OR_RETURN(slots_.back(), Nested::Restore(ctx, name, state, *f_, dataset_.types()));
        ++open_;
      }
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    // A cycle may be far longer than the number of elements, so slots are created on demand.
    std::unique_ptr<Nested>& Slot() {
      while (static_cast<int64_t>(slots_.size()) <= at_) slots_.emplace_back();
      return slots_[static_cast<size_t>(at_)];
    }
    void Advance() {
      taken_ = 0;
      // After the input has ended, slots after the last open one stay empty.
      const int64_t cycle =
          input_ != nullptr ? dataset_.cycle_ : std::max<int64_t>(1, static_cast<int64_t>(slots_.size()));
      at_ = (at_ + 1) % cycle;
    }

    const std::unique_ptr<Callable> f_;
    std::vector<std::unique_ptr<Nested>> slots_;
    int64_t open_ = 0;   // slots that are not empty
    int64_t at_ = 0;     // index of the slot in turn
    int64_t taken_ = 0;  // elements in this turn
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Callable> f, f_->Bind(ctx, input().types(), nullptr));
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> in, input().NewIterator(ctx));
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this, std::move(in), std::move(f)));
  }

 private:
  const std::unique_ptr<CapturedFunction> f_;
  const int64_t cycle_, block_;
};

StatusOr<RefPtr<const Dataset>> MakeFlatMap(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(auto f, args.Function("f"));
  return MakeRefDataset<InterleaveDataset>(args.Kind(), std::move(signature), std::move(input), std::move(f),
                                           1, 1);
}

StatusOr<RefPtr<const Dataset>> MakeInterleave(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(auto f, args.Function("f"));
  MR_ASSIGN_OR_RETURN(const int64_t cycle, args.Scalar<int64_t>("cycle_length"));
  MR_ASSIGN_OR_RETURN(const int64_t block, args.Scalar<int64_t>("block_length"));
  if (cycle <= 0) return errors::InvalidArgument("cycle_length must be greater than zero.");
  if (block <= 0) return errors::InvalidArgument("block_length must be greater than zero.");
  return MakeRefDataset<InterleaveDataset>(args.Kind(), std::move(signature), std::move(input), std::move(f),
                                           cycle, block);
}

}  // namespace

void RegisterInterleaveDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "FlatMapDataset", MakeFlatMap);
  RegisterDataset(registry, "InterleaveDataset", MakeInterleave);
}

}  // namespace millrace::data
