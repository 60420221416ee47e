// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Elements grouped by the key that a function returns.
#include <algorithm>
#include <map>

#include "base/strings.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/memory_dataset.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

// Collects elements of each key until their number is that which a function returns for the key; another
// function makes a dataset from key and elements, whose elements are output next.
class GroupByWindowDataset final : public UnaryDataset {
 public:
  struct Functions {
    std::unique_ptr<CapturedFunction> key, reduce, size;
  };
  GroupByWindowDataset(std::string kind, Signature signature, RefPtr<const Dataset> input,
                       Functions functions)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        functions_(std::move(functions)) {}
  int64_t Cardinality() const override { return kUnknown; }

 protected:
  class It final : public UnaryIterator<GroupByWindowDataset> {
   public:
    struct Calls {
      std::unique_ptr<Callable> key, reduce, size;
    };
    It(const GroupByWindowDataset& dataset, std::unique_ptr<Iterator> input, Calls calls)
        : UnaryIterator(dataset, std::move(input)), calls_(std::move(calls)) {}
    bool MayWait(int64_t /*n*/) const override { return true; }

    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (true) {
        if (ctx.cancelled()) return CancelledStatus();
        if (current_ != nullptr) {
          bool ended = false;
          MR_RETURN_IF_ERROR(current_->GetNext(ctx, out, &ended));
          if (!ended) return Status();
          current_.reset();
        }
        if (input_ != nullptr) {
          MR_RETURN_IF_ERROR(ReadOne(ctx));
        } else if (!groups_.empty()) {
          // The remaining groups, by key.
          MR_RETURN_IF_ERROR(Finish(ctx, groups_.begin()->first));
        } else {
          *end = true;
          return Status();
        }
      }
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("groups", static_cast<int64_t>(groups_.size()));
      size_t g = 0;
      for (const auto& [key, group] : groups_) {
        state.Write(StrCat("key", g), key);
        state.Write(StrCat("size", g), group.wanted);
        state.Write(StrCat("held", g), static_cast<int64_t>(group.elements.size()));
        for (size_t i = 0; i < group.elements.size(); ++i) {
          state.WriteElement(StrCat("held", g, ".", i), group.elements[i]);
        }
        ++g;
      }
      state.Write("open", int64_t{current_ != nullptr});
      if (current_ != nullptr) {
        state.Write("window", static_cast<int64_t>(window_.size()));
        state.Write("window_key", window_key_);
        for (size_t i = 0; i < window_.size(); ++i) state.WriteElement(StrCat("window.", i), window_[i]);
        MR_RETURN_IF_ERROR(state.Save(ctx, "current", current_.get()));
      }
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      groups_.clear();
      MR_ASSIGN_OR_RETURN(const int64_t groups, state.Count("groups"));
      for (int64_t g = 0; g < groups; ++g) {
        MR_ASSIGN_OR_RETURN(const int64_t key, state.Int(StrCat("key", g)));
        Group& group = groups_[key];
        MR_ASSIGN_OR_RETURN(group.wanted, state.Count(StrCat("size", g)));
        MR_ASSIGN_OR_RETURN(group.elements, ReadElements(state, StrCat("held", g)));
      }
      MR_ASSIGN_OR_RETURN(const int64_t open, state.Count("open", 1));
      current_.reset();
      if (open != 0) {
        MR_ASSIGN_OR_RETURN(window_key_, state.Int("window_key"));
        MR_ASSIGN_OR_RETURN(window_, ReadElements(state, "window"));
        MR_RETURN_IF_ERROR(OpenWindow(ctx));
        MR_RETURN_IF_ERROR(state.Restore(ctx, "current", *current_));
      }
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    struct Group {
      int64_t wanted = 0;
      std::vector<Element> elements;
    };
    static StatusOr<std::vector<Element>> ReadElements(const StateReader& state, const std::string& name) {
      MR_ASSIGN_OR_RETURN(const int64_t n, state.Count(name));
      std::vector<Element> elements;
      for (int64_t i = 0; i < n; ++i) {
        MR_ASSIGN_OR_RETURN(Element element, state.ReadElement(StrCat(name, ".", i)));
        elements.push_back(std::move(element));
      }
      return elements;
    }

    Status ReadOne(Context& ctx) {
      Element element, rets;
      bool ended = false;
      MR_RETURN_IF_ERROR(NextInput(ctx, &element, &ended));
      if (ended) return Status();
      MR_RETURN_IF_ERROR(calls_.key->Call(ctx, element, &rets));
      MR_ASSIGN_OR_RETURN(const int64_t key, Int64Of(rets, "`key_func`"));
      const auto [group, is_new] = groups_.try_emplace(key);
      if (is_new) {
        const Status status = SizeOf(ctx, key, &group->second.wanted);
        if (!status.ok()) groups_.erase(group);
        MR_RETURN_IF_ERROR(status);
      }
      group->second.elements.push_back(std::move(element));
      if (static_cast<int64_t>(group->second.elements.size()) < group->second.wanted) return Status();
      return Finish(ctx, key);
    }
    Status SizeOf(Context& ctx, int64_t key, int64_t* size) {
      Element rets;
      MR_RETURN_IF_ERROR(calls_.size->Call(ctx, {Tensor::Scalar(key)}, &rets));
      MR_ASSIGN_OR_RETURN(*size, Int64Of(rets, "`window_size_func`"));
      if (*size > 0) return Status();
      return errors::InvalidArgument("Window size must be greater than zero, but got ", *size, ".");
    }
    Status Finish(Context& ctx, int64_t key) {
      const auto group = groups_.find(key);
      window_ = std::move(group->second.elements);
      window_key_ = key;
      groups_.erase(group);
      return OpenWindow(ctx);
    }
    Status OpenWindow(Context& ctx) {
      // The window is the function's input dataset; when restored, the function is called again.
      windowed_ = DatasetOf(dataset_.input().signature(), window_);
      Element args{Tensor::Scalar(window_key_), DatasetToTensor(windowed_)};
      Element rets;
      MR_RETURN_IF_ERROR(calls_.reduce->Call(ctx, args, &rets));
      if (rets.size() != 1) {
        return errors::InvalidArgument("`reduce_func` must return a single scalar of dtype DT_VARIANT.");
      }
      auto made = DatasetFromTensor(rets[0]);
      MR_RETURN_IF_ERROR(made.status());
      reduced_ = *std::move(made);
      MR_RETURN_IF_ERROR(CheckTypes(dataset_.types(), reduced_->types()));
      MR_ASSIGN_OR_RETURN(current_, reduced_->NewIterator(ctx));
      return Status();
    }

    const Calls calls_;
    std::map<int64_t, Group> groups_;
    std::vector<Element> window_;  // from which current_ was made
    int64_t window_key_ = 0;
    RefPtr<const Dataset> windowed_, reduced_;
    std::unique_ptr<Iterator> current_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    const std::vector<DataType> number = {DataType::kInt64};
    const std::vector<DataType> window = {DataType::kInt64, DataType::kVariant};
    It::Calls calls;
    MR_ASSIGN_OR_RETURN(calls.key, functions_.key->Bind(ctx, input().types(), &number));
    MR_ASSIGN_OR_RETURN(calls.reduce, functions_.reduce->Bind(ctx, window, nullptr));
    MR_ASSIGN_OR_RETURN(calls.size, functions_.size->Bind(ctx, number, &number));
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> in, input().NewIterator(ctx));
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this, std::move(in), std::move(calls)));
  }

 private:
  const Functions functions_;
};

// Folds the elements of each key into a state; outputs the results by key, after all elements were read.
class GroupByReducerDataset final : public UnaryDataset {
 public:
  struct Functions {
    std::unique_ptr<CapturedFunction> key, init, reduce, finalize;
  };
  GroupByReducerDataset(std::string kind, Signature signature, RefPtr<const Dataset> input,
                        Functions functions)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        functions_(std::move(functions)) {}
  int64_t Cardinality() const override { return kUnknown; }

 protected:
  class It final : public UnaryIterator<GroupByReducerDataset> {
   public:
    struct Calls {
      std::unique_ptr<Callable> key, init, reduce, finalize;
    };
    It(const GroupByReducerDataset& dataset, std::unique_ptr<Iterator> input, Calls calls)
        : UnaryIterator(dataset, std::move(input)), calls_(std::move(calls)) {}
    bool MayWait(int64_t /*n*/) const override { return true; }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (input_ != nullptr) {
        if (ctx.cancelled()) return CancelledStatus();
        Element element, rets;
        bool ended = false;
        MR_RETURN_IF_ERROR(NextInput(ctx, &element, &ended));
        if (ended) break;
        MR_RETURN_IF_ERROR(calls_.key->Call(ctx, element, &rets));
        MR_ASSIGN_OR_RETURN(const int64_t key, Int64Of(rets, "`key_func`"));
        auto state = states_.find(key);
        if (state == states_.end()) {
          MR_RETURN_IF_ERROR(calls_.init->Call(ctx, {Tensor::Scalar(key)}, &rets));
          state = states_.emplace(key, std::move(rets)).first;
        }
        MR_RETURN_IF_ERROR(calls_.reduce->Call(ctx, state->second, element, &rets));
        state->second = std::move(rets);
      }
      if (states_.empty()) {
        *end = true;
        return Status();
      }
      const Element state = std::move(states_.begin()->second);
      states_.erase(states_.begin());
      return calls_.finalize->Call(ctx, state, out);
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("keys", static_cast<int64_t>(states_.size()));
      size_t i = 0;
      for (const auto& [key, value] : states_) {
        state.Write(StrCat("key", i), key);
        state.WriteElement(StrCat("state", i++), value);
      }
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(const int64_t keys, state.Count("keys"));
      states_.clear();
      for (int64_t i = 0; i < keys; ++i) {
        MR_ASSIGN_OR_RETURN(const int64_t key, state.Int(StrCat("key", i)));
        MR_ASSIGN_OR_RETURN(states_[key], state.ReadElement(StrCat("state", i)));
      }
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    const Calls calls_;
    std::map<int64_t, Element> states_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    const std::vector<DataType> number = {DataType::kInt64};
    It::Calls calls;
    MR_ASSIGN_OR_RETURN(calls.key, functions_.key->Bind(ctx, input().types(), &number));
    MR_ASSIGN_OR_RETURN(calls.init, functions_.init->Bind(ctx, number, nullptr));
    const std::vector<DataType>& state = calls.init->ret_types();
    std::vector<DataType> args = state;
    args.insert(args.end(), input().types().begin(), input().types().end());
    MR_ASSIGN_OR_RETURN(calls.reduce, functions_.reduce->Bind(ctx, args, &state));
    MR_ASSIGN_OR_RETURN(calls.finalize, functions_.finalize->Bind(ctx, state, &types()));
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> in, input().NewIterator(ctx));
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this, std::move(in), std::move(calls)));
  }

 private:
  const Functions functions_;
};

StatusOr<RefPtr<const Dataset>> MakeGroupByWindow(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  GroupByWindowDataset::Functions f;
  MR_ASSIGN_OR_RETURN(f.key, args.Function("key_func", "key_func_other_arguments"));
  MR_ASSIGN_OR_RETURN(f.reduce, args.Function("reduce_func", "reduce_func_other_arguments"));
  MR_ASSIGN_OR_RETURN(f.size, args.Function("window_size_func", "window_size_func_other_arguments"));
  return MakeRefDataset<GroupByWindowDataset>(args.Kind(), std::move(signature), std::move(input),
                                              std::move(f));
}

StatusOr<RefPtr<const Dataset>> MakeGroupByReducer(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  GroupByReducerDataset::Functions f;
  MR_ASSIGN_OR_RETURN(f.key, args.Function("key_func", "key_func_other_arguments"));
  MR_ASSIGN_OR_RETURN(f.init, args.Function("init_func", "init_func_other_arguments"));
  MR_ASSIGN_OR_RETURN(f.reduce, args.Function("reduce_func", "reduce_func_other_arguments"));
  MR_ASSIGN_OR_RETURN(f.finalize, args.Function("finalize_func", "finalize_func_other_arguments"));
  return MakeRefDataset<GroupByReducerDataset>(args.Kind(), std::move(signature), std::move(input),
                                               std::move(f));
}

}  // namespace

void RegisterGroupDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "GroupByWindowDataset", MakeGroupByWindow);
  RegisterDataset(registry, "GroupByReducerDataset", MakeGroupByReducer);
}

}  // namespace millrace::data
