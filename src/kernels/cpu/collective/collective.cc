// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CollectiveReduce, CollectiveGather, CollectiveBcastSend and CollectiveBcastRecv.
#include <optional>
#include <string>

#include "base/step_cancelled.h"
#include "kernel/collectives.h"
#include "kernels/cpu/collective/ring.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

using Kind = CollectiveMember::Kind;

// Finds its group once, and runs its part of the operation in each step.
class CollectiveKernel : public AsyncOpKernel {
 public:
  CollectiveKernel(KernelConstruction& c, Kind kind) : AsyncOpKernel(c) {
    member_.name = c.name();
    member_.kind = kind;
    member_.dtype = c.Attr<DataType>("T");
    member_.group_key = Number(c, "group_key");
    member_.group_size = Number(c, "group_size");
    member_.instance_key = Number(c, "instance_key");
    member_.device_type = c.device().type();
    member_.device = c.device().name();
    if (member_.group_size <= 0)
      c.SetError(errors::InvalidArgument("group_size must be positive integer but got ", member_.group_size));
  }

  void ComputeAsync(KernelContext& context, Done done) override {
    CollectiveMember member = member_;
    StatusOr<Tensor> made = Prepare(context, &member);
    if (!made.ok()) return done(std::move(made).status());
    context.set_output(0, *made);
    const Tensor output = *std::move(made);
    ResourceManager* const resources = context.step().step_resources;
    if (resources == nullptr)
      return done(errors::FailedPrecondition("Collective ops need a step of a session"));
    auto step = resources->Lookup<StepCollectives>("", StepCollectives::kName);
    if (!step.ok()) return done(errors::FailedPrecondition("Collective ops need a step of a session"));
    RefPtr<StepCollectives> collectives = *std::move(step);
    // Cancelling the step ends all waits. The callback may run late, so it holds references to all that it
    // uses.
    CancellationManager& cancellation = context.cancellation();
    const auto token = cancellation.Register([collectives] { collectives->Abort(StepCancelled()); });
    if (token == CancellationManager::kInvalidToken) {
      collectives->Abort(StepCancelled());
      return done(StepCancelled());
    }
    auto ended = [&cancellation, token, finish = std::move(done)](Status status) mutable {
      cancellation.TryDeregister(token);
      finish(std::move(status));
    };
    if (std::optional<CollectiveGroup> known = Known()) {
      return Run(context, output, collectives, *std::move(known), std::move(ended));
    }
    StepCollectives& asked = *collectives;
    asked.Join(member, [this, &context, output, collectives = std::move(collectives),
                        finish = std::move(ended)](StatusOr<CollectiveGroup> group) mutable {
      if (!group.ok()) {
        collectives->Abort(group.status());
        return finish(std::move(group).status());
      }
      {
        MutexLock lock(mu_);
        group_ = *group;
      }
      Run(context, output, collectives, *std::move(group), std::move(finish));
    });
  }

 protected:
  // Checks the inputs and makes the output.
  virtual StatusOr<Tensor> Prepare(KernelContext& context, CollectiveMember* member) = 0;
  virtual void Start(KernelContext& context, const Tensor& output, Ring& ring) = 0;
  int group_size() const { return member_.group_size; }

 private:
  static int32_t Number(KernelConstruction& c, std::string_view attr) {
    const auto value = c.Attr<int64_t>(attr);
    if (value < INT32_MIN || value > INT32_MAX)
      c.SetError(errors::InvalidArgument(attr, " is not a 32-bit number: ", value));
    return static_cast<int32_t>(value);
  }
  std::optional<CollectiveGroup> Known() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return group_;
  }
  void Run(KernelContext& context, const Tensor& output, const RefPtr<StepCollectives>& step,
           CollectiveGroup group, Done done) {
    const RefPtr<Ring> ring = MakeRef<Ring>(
        step, std::move(group), StrCat(member_.instance_key, ":", context.frame(), ":", context.iteration()),
        std::move(done));
    Start(context, output, *ring);
    ring->Started();
  }

  CollectiveMember member_;
  Mutex mu_;
  std::optional<CollectiveGroup> group_ MR_GUARDED_BY(mu_);
};

class CollectiveReduceKernel final : public CollectiveKernel {
 public:
  explicit CollectiveReduceKernel(KernelConstruction& c) : CollectiveKernel(c, Kind::kReduce) {
    const auto merge = ParseMergeOp(c.Attr<std::string>("merge_op"));
    if (merge.ok()) {
      merge_ = *merge;
    } else {
      c.SetError(merge.status());
    }
    const auto final_op = c.Attr<std::string>("final_op");
    if (final_op != "Id" && final_op != "Div") {
      c.SetError(errors::InvalidArgument("final_op must be one of {\"Id\", \"Div\"} but got ", final_op));
    }
    divide_ = final_op == "Div";
    for (const int64_t offset : c.Attr<std::vector<int64_t>>("subdiv_offsets")) {
      // The ring has one direction and one order of addition, so subdivisions have no effect.
      if (offset < -group_size() || offset > group_size())
        c.SetError(errors::InvalidArgument("subdiv_offsets: ", offset, " is not an offset in a group of ",
                                           group_size()));
    }
  }

 private:
  StatusOr<Tensor> Prepare(KernelContext& context, CollectiveMember* member) override {
    member->shape = context.input(0).shape();
    return context.AllocateTemp(member->dtype, member->shape);
  }
  void Start(KernelContext& context, const Tensor& output, Ring& ring) override {
    ring.Reduce(context.input(0), merge_, divide_, output);
  }

  MergeOp merge_ = MergeOp::kAdd;
  bool divide_ = false;
};

class CollectiveGatherKernel final : public CollectiveKernel {
 public:
  explicit CollectiveGatherKernel(KernelConstruction& c) : CollectiveKernel(c, Kind::kGather) {}

 private:
  StatusOr<Tensor> Prepare(KernelContext& context, CollectiveMember* member) override {
    member->shape = context.input(0).shape();
    if (member->shape.rank() < 1)
      return errors::InvalidArgument("CollectiveGather needs a tensor, not a scalar");
    std::vector<int64_t> dims(member->shape.dims().begin(), member->shape.dims().end());
    if (!MultiplyFits(dims[0], group_size(), &dims[0]))
      return errors::InvalidArgument("CollectiveGather: the output is too large");
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    return context.AllocateTemp(member->dtype, shape);
  }
  void Start(KernelContext& context, const Tensor& output, Ring& ring) override {
    ring.Gather(context.input(0), output);
  }
};

// Both ends of a broadcast.
class CollectiveBcastKernel : public CollectiveKernel {
 public:
  CollectiveBcastKernel(KernelConstruction& c, bool sends)
      : CollectiveKernel(c, Kind::kBroadcast), sends_(sends) {
    const auto shape = c.Attr<PartialShape>("shape");
    const auto full = shape.ToTensorShape();
    if (full.ok()) {
      shape_ = *full;
    } else {
      c.SetError(errors::InvalidArgument("shape must be fully defined, but is ", shape.ToString()));
    }
  }

 private:
  StatusOr<Tensor> Prepare(KernelContext& context, CollectiveMember* member) override {
    member->shape = shape_;
    member->is_source = sends_;
    if (!sends_) return context.AllocateTemp(member->dtype, shape_);
    const Tensor& in = context.input(0);
    if (in.shape() != shape_) {
      return errors::InvalidArgument("Declared shape of op ", name(), " is ", shape_,
                                     " but shape of input is ", in.shape());
    }
    return in;
  }
  void Start(KernelContext& /*context*/, const Tensor& output, Ring& ring) override {
    ring.Broadcast(output);
  }

  const bool sends_;
  TensorShape shape_;
};

class CollectiveBcastSendKernel final : public CollectiveBcastKernel {
 public:
  explicit CollectiveBcastSendKernel(KernelConstruction& c) : CollectiveBcastKernel(c, true) {}
};

class CollectiveBcastRecvKernel final : public CollectiveBcastKernel {
 public:
  explicit CollectiveBcastRecvKernel(KernelConstruction& c) : CollectiveBcastKernel(c, false) {}
};

}  // namespace

void RegisterCollectiveKernels(KernelRegistry& registry) {
  const TypeList types{DataType::kFloat, DataType::kHalf, DataType::kDouble, DataType::kInt32,
                       DataType::kInt64};
  registry.Register<CollectiveReduceKernel>(KernelDef("CollectiveReduce").Types("T", types));
  registry.Register<CollectiveGatherKernel>(KernelDef("CollectiveGather").Types("T", types));
  registry.Register<CollectiveBcastSendKernel>(KernelDef("CollectiveBcastSend").Types("T", types));
  registry.Register<CollectiveBcastRecvKernel>(KernelDef("CollectiveBcastRecv").Types("T", types));
}

}  // namespace millrace
