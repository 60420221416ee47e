// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Elements that a function returns, one per call, until it signals the end.
#include <memory>

#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

// The results of init_func are passed to each call of the others.
class GeneratorDataset final : public Dataset {
 public:
  struct Functions {
    std::unique_ptr<CapturedFunction> init, next, finalize;
  };
  GeneratorDataset(std::string kind, Signature signature, Functions functions)
      : Dataset(std::move(kind), std::move(signature)), functions_(std::move(functions)) {}

 protected:
  class It final : public Iterator {
   public:
    It(const GeneratorDataset& dataset, const Context& ctx) : dataset_(dataset), runtime_(ctx.runtime) {}
    ~It() override {
      if (!begun_ || finalized_) return;
      CancellationManager cancellation;
      Context ctx;
      ctx.runtime = runtime_;
      ctx.cancellation = &cancellation;
      Finalize(ctx).IgnoreError("no caller is left to get it");
    }
    // The effects of the functions are unknown before they are instantiated.
    bool MayWait(int64_t /*n*/) const override {
      return next_ == nullptr || next_->MayWait() || finalize_->MayWait();
    }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      if (finalized_) {
        *end = true;
        return Status();
      }
      MR_RETURN_IF_ERROR(Begin(ctx));
      Status status = next_->Call(ctx, state_, out);
      if (!errors::IsOutOfRange(status)) return status;
      *end = true;
      return Finalize(ctx);
    }
    // The state of the functions cannot be saved.
    Status Save(Context& /*ctx*/, StateWriter& state) override {
      if (begun_ && !finalized_) {
        return errors::Unimplemented("GeneratorDataset does not support checkpointing.");
      }
      state.Write("finalized", int64_t{finalized_});
      return Status();
    }
    Status Restore(Context& /*ctx*/, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(const int64_t finalized, state.Count("finalized", 1));
      finalized_ = finalized != 0;
      return Status();
    }

   private:
    Status Begin(Context& ctx) {
      if (begun_) return Status();
      const GeneratorDataset::Functions& f = dataset_.functions_;
      if (init_ == nullptr) {
        MR_ASSIGN_OR_RETURN(init_, f.init->Bind(ctx, {}, nullptr));
        MR_ASSIGN_OR_RETURN(next_, f.next->Bind(ctx, init_->ret_types(), &dataset_.types()));
        MR_ASSIGN_OR_RETURN(finalize_, f.finalize->Bind(ctx, init_->ret_types(), nullptr));
      }
      MR_RETURN_IF_ERROR(init_->Call(ctx, {}, &state_));
      begun_ = true;
      return Status();
    }
    Status Finalize(Context& ctx) {
      finalized_ = true;
      Element unused;
      return finalize_->Call(ctx, state_, &unused);
    }

    const GeneratorDataset& dataset_;
    const Runtime* const runtime_;
    std::unique_ptr<Callable> init_, next_, finalize_;
    Element state_;
    bool begun_ = false;
    bool finalized_ = false;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this, ctx));
  }

 private:
  const Functions functions_;
};

StatusOr<RefPtr<const Dataset>> MakeGenerator(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  GeneratorDataset::Functions functions;
  MR_ASSIGN_OR_RETURN(functions.init, args.Function("init_func", "init_func_other_args"));
  MR_ASSIGN_OR_RETURN(functions.next, args.Function("next_func", "next_func_other_args"));
  MR_ASSIGN_OR_RETURN(functions.finalize, args.Function("finalize_func", "finalize_func_other_args"));
  return MakeRefDataset<GeneratorDataset>(args.Kind(), std::move(signature), std::move(functions));
}

}  // namespace

void RegisterGeneratorDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "GeneratorDataset", MakeGenerator);
}

}  // namespace millrace::data
