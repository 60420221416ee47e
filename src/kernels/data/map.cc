// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Datasets that call a function for each element, sequentially.
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/parallel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

// A dataset with a function of its elements.
class FunctionDataset : public UnaryDataset {
 public:
  FunctionDataset(std::string kind, Signature signature, RefPtr<const Dataset> input,
                  std::unique_ptr<CapturedFunction> f)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), f_(std::move(f)) {}
  const CapturedFunction& f() const { return *f_; }

 private:
  const std::unique_ptr<CapturedFunction> f_;
};

// OutOfRange from the function ends the dataset, as in TensorFlow.
Status EndOr(Status status, bool keeps_cardinality, bool* end) {
  if (!errors::IsOutOfRange(status)) return status;
  if (keeps_cardinality) {
    return errors::InvalidArgument("Function invocation produced OutOfRangeError: ", status.message());
  }
  *end = true;
  return Status();
}

template <typename D>
class FunctionIterator : public UnaryIterator<D> {
 public:
  FunctionIterator(const D& dataset, std::unique_ptr<Iterator> input, std::unique_ptr<Callable> f)
      : UnaryIterator<D>(dataset, std::move(input)), f_(std::move(f)) {}
  bool MayWait(int64_t n) const override {
    return this->input_ != nullptr && (f_->MayWait() || this->input_->MayWait(n));
  }

 protected:
  const std::unique_ptr<Callable> f_;
};

template <typename It, typename D>
StatusOr<std::unique_ptr<Iterator>> MakeWithFunction(const D& dataset, Context& ctx,
                                                     const std::vector<DataType>* rets) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Callable> f, dataset.f().Bind(ctx, dataset.input().types(), rets));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> input, dataset.input().NewIterator(ctx));
  return std::unique_ptr<Iterator>(std::make_unique<It>(dataset, std::move(input), std::move(f)));
}

class MapDataset final : public FunctionDataset {
 public:
  MapDataset(std::string kind, Signature signature, RefPtr<const Dataset> input,
             std::unique_ptr<CapturedFunction> f, bool keeps_cardinality)
      : FunctionDataset(std::move(kind), std::move(signature), std::move(input), std::move(f)),
        keeps_cardinality_(keeps_cardinality) {}
  int64_t Cardinality() const override { return keeps_cardinality_ ? input().Cardinality() : kUnknown; }

 protected:
  class It final : public FunctionIterator<MapDataset> {
   public:
    using FunctionIterator::FunctionIterator;
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      MR_RETURN_IF_ERROR(NextInput(ctx, &args_, end));
      if (*end) return Status();
      return EndOr(f_->CallTaking(ctx, &args_, out), dataset_.keeps_cardinality_, end);
    }
    bool GivesRows() const override {
      return f_->HandsOn(dataset_.input().types().size()) && InputGivesRows();
    }
    Status GetRows(Context& ctx, int64_t n, Element* out, int64_t* got) override {
      MR_RETURN_IF_ERROR(NextRows(ctx, n, &args_, got));
      return *got == 0 ? Status() : f_->CallTaking(ctx, &args_, out);
    }

   private:
    Element args_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeWithFunction<It>(*this, ctx, &types());
  }

 private:
  const bool keeps_cardinality_;
};

// Elements for which a function returns true.
class FilterDataset final : public FunctionDataset {
 public:
  using FunctionDataset::FunctionDataset;
  int64_t Cardinality() const override { return kUnknown; }

 protected:
  class It final : public FunctionIterator<FilterDataset> {
   public:
    using FunctionIterator::FunctionIterator;
    bool MayWait(int64_t n) const override { return FunctionIterator::MayWait(ManyTimes(n, INT64_MAX)); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (true) {
        if (ctx.cancelled()) return CancelledStatus();
        MR_RETURN_IF_ERROR(NextInput(ctx, out, end));
        if (*end) return Status();
        const Status status = f_->Call(ctx, *out, &verdict_);
        if (errors::IsOutOfRange(status)) {
          *end = true;
          return Status();
        }
        MR_RETURN_IF_ERROR(status);
        MR_ASSIGN_OR_RETURN(const bool wanted, BoolOf(verdict_, "Filter predicate `f`"));
        if (wanted) return Status();
      }
    }

   private:
    Element verdict_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeWithFunction<It>(*this, ctx, nullptr);
  }
};

// Elements before the first one for which a function returns false.
class TakeWhileDataset final : public FunctionDataset {
 public:
  using FunctionDataset::FunctionDataset;
  int64_t Cardinality() const override { return kUnknown; }

 protected:
  class It final : public FunctionIterator<TakeWhileDataset> {
   public:
    using FunctionIterator::FunctionIterator;
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      MR_RETURN_IF_ERROR(NextInput(ctx, out, end));
      if (*end) return Status();
      Element verdict;
      MR_RETURN_IF_ERROR(f_->Call(ctx, *out, &verdict));
      MR_ASSIGN_OR_RETURN(const bool wanted, BoolOf(verdict, "TakeWhile predicate `f`"));
      if (wanted) return Status();
      input_.reset();
      *end = true;
      return Status();
    }
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeWithFunction<It>(*this, ctx, nullptr);
  }
};

// Calls a function with a state and each element; it returns the next state and an output element.
class ScanDataset final : public FunctionDataset {
 public:
  ScanDataset(std::string kind, Signature signature, RefPtr<const Dataset> input,
              std::unique_ptr<CapturedFunction> f, Element initial, bool keeps_cardinality)
      : FunctionDataset(std::move(kind), std::move(signature), std::move(input), std::move(f)),
        initial_(std::move(initial)),
        keeps_cardinality_(keeps_cardinality) {}
  int64_t Cardinality() const override { return keeps_cardinality_ ? input().Cardinality() : kUnknown; }

 protected:
  class It final : public FunctionIterator<ScanDataset> {
   public:
    It(const ScanDataset& dataset, std::unique_ptr<Iterator> input, std::unique_ptr<Callable> f)
        : FunctionIterator(dataset, std::move(input), std::move(f)), state_(dataset.initial_) {}
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      Element args;
      MR_RETURN_IF_ERROR(NextInput(ctx, &args, end));
      if (*end) return Status();
      Element rets;
      MR_RETURN_IF_ERROR(EndOr(f_->Call(ctx, state_, args, &rets), dataset_.keeps_cardinality_, end));
      if (*end) return Status();
      const auto states = rets.begin() + static_cast<ptrdiff_t>(state_.size());
      state_.assign(std::make_move_iterator(rets.begin()), std::make_move_iterator(states));
      out->assign(std::make_move_iterator(states), std::make_move_iterator(rets.end()));
      return Status();
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.WriteElement("state", state_);
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(Element saved, state.ReadElement("state"));
      MR_RETURN_IF_ERROR(CheckSaved(saved));
      state_ = std::move(saved);
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    Status CheckSaved(const Element& saved) const {
      bool same = saved.size() == state_.size();
      for (size_t i = 0; same && i < saved.size(); ++i) same = saved[i].dtype() == state_[i].dtype();
      return same ? Status() : errors::DataLoss("The saved state of a scan is not of its types");
    }
    Element state_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    std::vector<DataType> args, rets;
    for (const Tensor& t : initial_) args.push_back(t.dtype());
    rets = args;
    args.insert(args.end(), input().types().begin(), input().types().end());
    rets.insert(rets.end(), types().begin(), types().end());
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Callable> callable, f().Bind(ctx, args, &rets));
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> in, input().NewIterator(ctx));
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this, std::move(in), std::move(callable)));
  }

 private:
  const Element initial_;
  const bool keeps_cardinality_;
};

// Elements without their last component, a bool that selects them.
class FilterByLastDataset final : public UnaryDataset {
 public:
  using UnaryDataset::UnaryDataset;
  int64_t Cardinality() const override { return kUnknown; }

 protected:
  class It final : public UnaryIterator<FilterByLastDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    bool MayWait(int64_t n) const override { return UnaryIterator::MayWait(ManyTimes(n, INT64_MAX)); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (true) {
        if (ctx.cancelled()) return CancelledStatus();
        MR_RETURN_IF_ERROR(NextInput(ctx, out, end));
        if (*end) return Status();
        const Tensor verdict = out->back();
        out->pop_back();
        if (verdict.dtype() != DataType::kBool || verdict.num_elements() != 1) {
          return errors::InvalidArgument("Last component must be a bool scalar.");
        }
        if (verdict.scalar<bool>()) return Status();
      }
    }
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }
};

StatusOr<RefPtr<const Dataset>> MakeMap(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(auto f, args.Function("f"));
  MR_ASSIGN_OR_RETURN(const bool keeps, args.Attr<bool>("preserve_cardinality"));
  return MakeRefDataset<MapDataset>(args.Kind(), std::move(signature), std::move(input), std::move(f), keeps);
}

template <typename D>
StatusOr<RefPtr<const Dataset>> MakePredicate(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(auto f, args.Function("predicate"));
  return MakeRefDataset<D>(args.Kind(), std::move(signature), std::move(input), std::move(f));
}

StatusOr<RefPtr<const Dataset>> MakeScan(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(Element initial, args.Values("initial_state"));
  MR_ASSIGN_OR_RETURN(auto f, args.Function("f"));
  MR_ASSIGN_OR_RETURN(const bool keeps, args.Attr<bool>("preserve_cardinality"));
  return MakeRefDataset<ScanDataset>(args.Kind(), std::move(signature), std::move(input), std::move(f),
                                     std::move(initial), keeps);
}

StatusOr<RefPtr<const Dataset>> MakeFilterByLast(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  if (input->types().size() < 2) {
    return errors::InvalidArgument("Expected at least two components of the input dataset, got ",
                                   input->types().size());
  }
  return MakeRefDataset<FilterByLastDataset>(args.Kind(), std::move(signature), std::move(input));
}

}  // namespace

RefPtr<const Dataset> MapInOrder(std::string kind, Dataset::Signature signature, RefPtr<const Dataset> input,
                                 std::unique_ptr<CapturedFunction> f, bool keeps_cardinality) {
  return MakeRefDataset<MapDataset>(std::move(kind), std::move(signature), std::move(input), std::move(f),
                                    keeps_cardinality);
}

void RegisterMapDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "MapDataset", MakeMap);
  RegisterDataset(registry, "FilterDataset", MakePredicate<FilterDataset>);
  RegisterDataset(registry, "TakeWhileDataset", MakePredicate<TakeWhileDataset>);
  RegisterDataset(registry, "ScanDataset", MakeScan);
  RegisterDataset(registry, "FilterByLastComponentDataset", MakeFilterByLast);
}

}  // namespace millrace::data
