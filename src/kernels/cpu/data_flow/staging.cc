// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Staging areas: lists of tuples that persist between steps, first in, first out.
#include <deque>
#include <limits>

#include "kernels/cpu/data_flow/access_kernel.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/shared/waiting_resource.h"

namespace millrace {
namespace {

enum Action { kStage, kUnstage, kPeek };

class StagingArea final : public WaitingResource {
 public:
  // The most tuples and bytes; 0: any number.
  StagingArea(int64_t capacity, int64_t memory_limit)
      : WaitingResource(/*in_order=*/false), capacity_(capacity), memory_limit_(memory_limit) {}
  int64_t memory_limit() const { return memory_limit_; }
  int32_t size() const {
    MutexLock lock(mu_);
    return static_cast<int32_t>(tuples_.size());
  }
  void Clear() {
    std::deque<std::vector<Tensor>> dropped;
    std::vector<Finished> finished;
    {
      MutexLock lock(mu_);
      dropped.swap(tuples_);
      bytes_ = 0;
      AdvanceAll(&finished);
    }
    Finish(finished);
  }
  std::string DebugString() const override { return StrCat("staging area, ", size(), " tuples"); }

  static int64_t Bytes(const std::vector<Tensor>& tuple) {
    size_t bytes = 0;
    for (const Tensor& t : tuple) bytes += t.num_bytes();
    return static_cast<int64_t>(bytes);
  }

 private:
  bool Try(Attempt& attempt, Status* /*status*/) override MR_REQUIRES(mu_) {
    const auto size = static_cast<int64_t>(tuples_.size());
    if (attempt.action == kStage) {
      const int64_t bytes = Bytes(attempt.tensors);
      if (capacity_ > 0 && size >= capacity_) return false;
      if (memory_limit_ > 0 && bytes_ + bytes > memory_limit_) return false;
      bytes_ += bytes;
      tuples_.push_back(std::move(attempt.tensors));
      return true;
    }
    if (attempt.number >= size) return false;
    if (attempt.action == kPeek) {
      attempt.tensors = tuples_[static_cast<size_t>(attempt.number)];
      return true;
    }
    attempt.tensors = std::move(tuples_.front());
    tuples_.pop_front();
    bytes_ -= Bytes(attempt.tensors);
    return true;
  }
  Status CancelledStatus(const Attempt& attempt) const override {
    return errors::Cancelled(attempt.action == kStage     ? "Stage"
                             : attempt.action == kUnstage ? "Unstage"
                                                          : "StagePeek",
                             " operation was cancelled");
  }

  const int64_t capacity_;
  const int64_t memory_limit_;
  std::deque<std::vector<Tensor>> tuples_ MR_GUARDED_BY(mu_);
  int64_t bytes_ MR_GUARDED_BY(mu_) = 0;
};

// Every op on a staging area finds it by name, and creates it if it is the first.
class AreaFinder {
 public:
  explicit AreaFinder(KernelConstruction& c) {
    if (auto place = NameResource(c, Unnamed::kNodeName); place.ok()) {
      place_ = *std::move(place);
    } else {
      c.SetError(place.status());
    }
    if (c.HasAttr("capacity")) capacity_ = c.Attr<int64_t>("capacity");
    if (c.HasAttr("memory_limit")) memory_limit_ = c.Attr<int64_t>("memory_limit");
  }
  StatusOr<RefPtr<StagingArea>> Find(const KernelContext& context) const {
    const auto make = [this]() -> StatusOr<RefPtr<StagingArea>> {
      return MakeRef<StagingArea>(capacity_, memory_limit_);
    };
    return context.resources().LookupOrCreate<StagingArea>(place_.container, place_.name, make);
  }

 private:
  ResourceName place_;
  int64_t capacity_ = 0;
  int64_t memory_limit_ = 0;
};

class StageAccessKernel : public AccessKernel<StagingArea> {
 public:
  explicit StageAccessKernel(KernelConstruction& c) : AccessKernel(c), finder_(c) {}

 protected:
  StatusOr<RefPtr<StagingArea>> Find(KernelContext& context) override { return finder_.Find(context); }

 private:
  const AreaFinder finder_;
};

class StageKernel final : public StageAccessKernel {
 public:
  using StageAccessKernel::StageAccessKernel;

 private:
  Status Prepare(const KernelContext& context, StagingArea& area, Attempt& attempt,
                 bool& /*nothing_to_do*/) override {
    attempt.action = kStage;
    for (int i = 0; i < num_inputs(); ++i) attempt.tensors.push_back(context.input(i));
    const int64_t bytes = StagingArea::Bytes(attempt.tensors);
    if (area.memory_limit() > 0 && bytes > area.memory_limit()) {
      return errors::ResourceExhausted("Attempted to insert tensors with combined size of '", bytes,
                                       "' bytes into Staging Area with a memory limit of '",
                                       area.memory_limit(), "'.");
    }
    return Status();
  }
};

// Unstage and StagePeek.
class UnstageKernel final : public StageAccessKernel {
 public:
  UnstageKernel(KernelConstruction& c, Action action) : StageAccessKernel(c), action_(action) {}

 private:
  Status Prepare(const KernelContext& context, StagingArea& /*area*/, Attempt& attempt,
                 bool& /*nothing_to_do*/) override {
    attempt.action = action_;
    if (action_ == kUnstage) return Status();
    MR_RETURN_IF_ERROR(RequireScalar(context.input(0), "index"));
    attempt.number = IntValue(context.input(0));
    if (attempt.number >= 0) return Status();
    return errors::InvalidArgument("index must not be negative, got ", attempt.number);
  }
  Status Deliver(KernelContext& context, StagingArea& /*area*/, Attempt& attempt) override {
    if (attempt.tensors.size() != static_cast<size_t>(num_outputs())) {
      return errors::InvalidArgument("Mismatch stage/unstage: ", attempt.tensors.size(), " vs. ",
                                     num_outputs());
    }
    for (int i = 0; i < num_outputs(); ++i) {
      Tensor& t = attempt.tensors[static_cast<size_t>(i)];
      if (t.dtype() != output_type(i)) {
        return errors::InvalidArgument("Mismatch stage/unstage: tensor ", i, " is ", DataTypeName(t.dtype()),
                                       ", expected ", DataTypeName(output_type(i)));
      }
      context.set_output(i, std::move(t));
    }
    return Status();
  }

  const Action action_;
};

// StageSize and StageClear.
class StageStateKernel final : public OpKernel {
 public:
  explicit StageStateKernel(KernelConstruction& c) : OpKernel(c), finder_(c) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<StagingArea> area, finder_.Find(context));
    if (num_outputs() == 0) {
      area->Clear();
    } else {
      context.set_output(0, Tensor::Scalar<int32_t>(area->size()));
    }
    return Status();
  }

 private:
  const AreaFinder finder_;
};

}  // namespace

void RegisterStagingKernels(KernelRegistry& registry) {
  registry.Register<StageKernel>(KernelDef("Stage"));
  for (const auto& [name, action] : {std::pair("Unstage", kUnstage), std::pair("StagePeek", kPeek)}) {
    registry.Register(KernelDef(name).Async(), [action = action](KernelConstruction& c) {
      return std::make_unique<UnstageKernel>(c, action);
    });
  }
  registry.Register<StageStateKernel>(KernelDef("StageSize"));
  registry.Register<StageStateKernel>(KernelDef("StageClear"));
}

}  // namespace millrace
