// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/barrier.h"

#include "kernels/cpu/batch_rows.h"
#include "kernels/cpu/data_flow/access_kernel.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

class BarrierKernel final : public ResourceOpKernel<Barrier> {
 public:
  explicit BarrierKernel(KernelConstruction& c) : ResourceOpKernel(c, Unnamed::kPrivate) {
    spec_.name = place().name;
    spec_.types = c.Attr<std::vector<DataType>>("component_types");
    spec_.shapes = c.Attr<std::vector<PartialShape>>("shapes");
    for (PartialShape& shape : spec_.shapes) {
      if (shape.unknown_rank()) shape = PartialShape(TensorShape());  // as TensorFlow reads this
    }
    if (c.Attr<int64_t>("capacity") != -1) {
      c.SetError(errors::InvalidArgument(
          "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue to enforce a "
          "limited capacity."));
    }
    if (auto made = Barrier::Make(spec_); !made.ok()) c.SetError(made.status());
  }

 private:
  StatusOr<RefPtr<Barrier>> Make(KernelContext& /*context*/) override { return Barrier::Make(spec_); }
  Status Verify(Barrier& shared) override {
    if (shared.spec().types != spec_.types || shared.spec().shapes != spec_.shapes) {
      return errors::InvalidArgument("Shared barrier '", spec_.name, "' has other components than node '",
                                     name(), "' requests");
    }
    return Status();
  }

  QueueSpec spec_;
};

class BarrierInsertKernel final : public OpKernel {
 public:
  explicit BarrierInsertKernel(KernelConstruction& c)
      : OpKernel(c), component_(c.Attr<int64_t>("component_index")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Barrier> barrier, FindResource<Barrier>(context, 0));
    return barrier->InsertMany(context.input(1), component_, context.input(2));
  }

 private:
  const int64_t component_;
};

// Waits in the queue of complete elements.
class BarrierTakeKernel final : public AccessKernel<Queue> {
 public:
  explicit BarrierTakeKernel(KernelConstruction& c)
      : AccessKernel(c), allow_small_batch_(c.Attr<bool>("allow_small_batch")) {
    if (c.Attr<int64_t>("timeout_ms") != -1)
      c.SetError(errors::InvalidArgument("Timeout not supported yet."));
  }

 private:
  StatusOr<RefPtr<Queue>> Find(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Barrier> barrier, FindResource<Barrier>(context, 0));
    return ShareRef(&barrier->ready());
  }
  Status Prepare(const KernelContext& context, Queue& queue, Attempt& attempt, bool& nothing_to_do) override {
    MR_RETURN_IF_ERROR(RequireScalar(context.input(1), "num_elements"));
    const int64_t n = IntValue(context.input(1));
    if (n < 0) return errors::InvalidArgument("BarrierTakeMany requested ", n, " < 0 elements");
    const auto types = std::span(queue.spec().types);
    if (!std::ranges::equal(types, props().output_types)) {
      return errors::InvalidArgument("Barrier ", queue.spec().name, " has other components than ", name(),
                                     " takes");
    }
    MR_ASSIGN_OR_RETURN(const RefPtr<Barrier> barrier, FindResource<Barrier>(context, 0));
    MR_RETURN_IF_ERROR(barrier->PrepareTake(n, allow_small_batch_, attempt));
    nothing_to_do = attempt.requested == 0;
    return Status();
  }
  Status Deliver(KernelContext& context, Queue& queue, Attempt& attempt) override {
    const int64_t count = static_cast<int64_t>(attempt.tensors.size()) / num_outputs();
    for (int i = 0; i < num_outputs(); ++i) {
      MR_ASSIGN_OR_RETURN(Tensor column,
                          StackPadded(context, output_type(i), attempt.tensors.data() + i, count,
                                      num_outputs(), queue.spec().shapes[static_cast<size_t>(i)]));
      context.set_output(i, std::move(column));
    }
    return Status();
  }

  const bool allow_small_batch_;
};

class BarrierCloseKernel final : public OpKernel {
 public:
  explicit BarrierCloseKernel(KernelConstruction& c)
      : OpKernel(c), cancel_(c.Attr<bool>("cancel_pending_enqueues")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Barrier> barrier, FindResource<Barrier>(context, 0));
    return barrier->Close(cancel_);
  }

 private:
  const bool cancel_;
};

class BarrierSizeKernel final : public OpKernel {
 public:
  BarrierSizeKernel(KernelConstruction& c, bool ready) : OpKernel(c), ready_(ready) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Barrier> barrier, FindResource<Barrier>(context, 0));
    context.set_output(0,
                       Tensor::Scalar<int32_t>(ready_ ? barrier->ready_size() : barrier->incomplete_size()));
    return Status();
  }

 private:
  const bool ready_;
};

}  // namespace

void RegisterBarrierKernels(KernelRegistry& registry) {
  registry.Register<BarrierKernel>(KernelDef("Barrier"));
  registry.Register<BarrierInsertKernel>(KernelDef("BarrierInsertMany"));
  registry.Register<BarrierTakeKernel>(KernelDef("BarrierTakeMany"));
  registry.Register<BarrierCloseKernel>(KernelDef("BarrierClose"));
  for (const bool ready : {true, false}) {
    registry.Register(
        KernelDef(ready ? "BarrierReadySize" : "BarrierIncompleteSize"),
        [ready](KernelConstruction& c) { return std::make_unique<BarrierSizeKernel>(c, ready); });
  }
}

}  // namespace millrace
