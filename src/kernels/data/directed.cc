// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Elements of several datasets, selected by another dataset.
#include "base/strings.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

class DirectedInterleaveDataset final : public UnaryDataset {
 public:
  DirectedInterleaveDataset(std::string kind, Signature signature, RefPtr<const Dataset> selector,
                            std::vector<RefPtr<const Dataset>> inputs)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(selector)),
        inputs_(std::move(inputs)) {}
  int64_t Cardinality() const override { return kUnknown; }

 protected:
  class It final : public UnaryIterator<DirectedInterleaveDataset> {
   public:
    It(const DirectedInterleaveDataset& dataset, std::unique_ptr<Iterator> selector,
       std::vector<std::unique_ptr<Iterator>> inputs)
        : UnaryIterator(dataset, std::move(selector)), inputs_(std::move(inputs)), open_(inputs_.size()) {}
    bool MayWait(int64_t /*n*/) const override {
      bool waits = UnaryIterator::MayWait(INT64_MAX);
      for (const auto& input : inputs_) waits = waits || (input != nullptr && input->MayWait(INT64_MAX));
      return waits;
    }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (open_ > 0) {
        if (ctx.cancelled()) return CancelledStatus();
        Element choice;
        bool ended = false;
        MR_RETURN_IF_ERROR(NextInput(ctx, &choice, &ended));
        if (ended) break;
        const int64_t chosen = choice[0].num_elements() == 1 ? choice[0].data<int64_t>()[0] : -1;
        if (chosen < 0 || chosen >= static_cast<int64_t>(inputs_.size())) {
          return errors::InvalidArgument("Selector index out of range: ", chosen, " >= ", inputs_.size());
        }
        std::unique_ptr<Iterator>& input = inputs_[static_cast<size_t>(chosen)];
        if (input == nullptr) continue;
        MR_RETURN_IF_ERROR(input->GetNext(ctx, out, &ended));
        if (!ended) return Status();
        input.reset();
        --open_;
      }
      open_ = 0;
      *end = true;
      return Status();
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("open", static_cast<int64_t>(open_));
      for (size_t i = 0; i < inputs_.size(); ++i) {
        MR_RETURN_IF_ERROR(state.Save(ctx, StrCat("data", i), inputs_[i].get()));
      }
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(const int64_t open, state.Count("open", static_cast<int64_t>(inputs_.size())));
      open_ = static_cast<size_t>(open);
      for (size_t i = 0; i < inputs_.size(); ++i) {
        const std::string name = StrCat("data", i);
        if (!state.HasIterator(name)) {
          inputs_[i].reset();
          continue;
        }
        MR_RETURN_IF_ERROR(state.Restore(ctx, name, *inputs_[i]));
      }
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    std::vector<std::unique_ptr<Iterator>> inputs_;  // null: at its end
    size_t open_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> selector, input().NewIterator(ctx));
    std::vector<std::unique_ptr<Iterator>> inputs;
    for (const auto& input : inputs_) {
      MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> made, input->NewIterator(ctx));
      inputs.push_back(std::move(made));
    }
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this, std::move(selector), std::move(inputs)));
  }

 private:
  const std::vector<RefPtr<const Dataset>> inputs_;
};

StatusOr<RefPtr<const Dataset>> MakeDirected(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> selector, args.Input("selector_input_dataset"));
  MR_ASSIGN_OR_RETURN(auto inputs, args.Inputs("data_input_datasets"));
  if (selector->types() != std::vector{DataType::kInt64} ||
      !selector->shapes()[0].IsCompatibleWith(TensorShape())) {
    return errors::InvalidArgument("The selector dataset must be a dataset of scalar int64 elements.");
  }
  for (const auto& input : inputs) {
    if (input->types() != inputs[0]->types()) {
      return errors::InvalidArgument("All inputs must have the same output_dtypes. First input has types ",
                                     inputs[0]->types().size(), ", and input has other ones");
    }
  }
  return MakeRefDataset<DirectedInterleaveDataset>(args.Kind(), std::move(signature), std::move(selector),
                                                   std::move(inputs));
}

}  // namespace

void RegisterDirectedDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "DirectedInterleaveDataset", MakeDirected);
}

}  // namespace millrace::data
