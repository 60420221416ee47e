// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Queues and the ops on them. The kernels serve the ops of both kinds of handles.
#include "kernels/shared/queue.h"

#include "kernels/cpu/batch_rows.h"
#include "kernels/cpu/data_flow/access_kernel.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

using Action = Queue::Action;

QueueSpec ReadSpec(KernelConstruction& c, QueueKind kind) {
  QueueSpec spec;
  spec.types = c.Attr<std::vector<DataType>>("component_types");
  spec.shapes = c.Attr<std::vector<PartialShape>>("shapes");
  const auto capacity = c.Attr<int64_t>("capacity");
  if (capacity >= 0) spec.capacity = std::min(capacity, spec.capacity);
  if (kind == QueueKind::kPriority) {
    // The priority is the first component, before those that the node declares.
    spec.types.insert(spec.types.begin(), DataType::kInt64);
    if (!spec.shapes.empty()) spec.shapes.insert(spec.shapes.begin(), PartialShape(TensorShape()));
  }
  if (kind == QueueKind::kRandomShuffle) {
    spec.min_after_dequeue = c.Attr<int64_t>("min_after_dequeue");
    spec.seed = c.Attr<int64_t>("seed");
    spec.seed2 = c.Attr<int64_t>("seed2");
  }
  return spec;
}

class QueueKernel final : public ResourceOpKernel<Queue> {
 public:
  QueueKernel(KernelConstruction& c, QueueKind kind)
      : ResourceOpKernel(c, Unnamed::kPrivate), kind_(kind), spec_(ReadSpec(c, kind)) {
    spec_.name = place().name;
    // Errors in the declaration are reported before anything runs.
    if (auto made = Queue::Make(kind_, spec_); !made.ok()) c.SetError(made.status());
  }

 private:
  StatusOr<RefPtr<Queue>> Make(KernelContext& /*context*/) override { return Queue::Make(kind_, spec_); }
  Status Verify(Queue& shared) override { return shared.CheckShared(kind_, spec_, name(), op_name()); }

  const QueueKind kind_;
  QueueSpec spec_;
};

class FakeQueueKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.num_elements() != 1) return BadHandle(context, 0);
    const auto& handle = in.scalar<ResourceHandle>();
    {
      MutexLock lock(mu_);
      handle_ = Tensor::Vector<std::string>({handle.container, handle.name});
    }
    context.set_output_ref(0, &mu_, &handle_);
    return Status();
  }

 private:
  Mutex mu_;
  Tensor handle_ = Tensor::Vector<std::string>({"", ""});
};

std::string TypesText(std::span<const DataType> types) {
  std::string out;
  for (const DataType t : types) out += (out.empty() ? "" : ", ") + DataTypeName(t);
  return out;
}

class QueueAccessKernel : public AccessKernel<Queue> {
 public:
  QueueAccessKernel(KernelConstruction& c, Action action) : AccessKernel(c), action_(action) {
    if (action != Action::kClose && c.Attr<int64_t>("timeout_ms") != -1) {
      c.SetError(errors::InvalidArgument("Timeout not supported."));
    }
  }

 protected:
  // Checks that the node's components are the queue's.
  Status CheckSignature(const Queue& queue, std::span<const DataType> inputs,
                        std::span<const DataType> outputs) const {
    const std::vector<DataType>& types = queue.spec().types;
    if (std::ranges::equal(inputs.empty() ? outputs : inputs, types)) return Status();
    const std::string handle = DataTypeName(input_type(0));
    const auto after = [](std::string text, std::span<const DataType> list) {
      return list.empty() ? text : text + ", " + TypesText(list);
    };
    // A dequeue of many has their number between handle and components.
    const std::string first =
        num_inputs() == 2 && inputs.empty() ? handle + ", " + DataTypeName(input_type(1)) : handle;
    const std::span<const DataType> none;
    return errors::InvalidArgument("Signature mismatch, have: ", after(first, inputs), "->",
                                   TypesText(outputs),
                                   " expected: ", after(first, inputs.empty() ? none : types), "->",
                                   TypesText(inputs.empty() ? types : none));
  }

  const Action action_;
};

class EnqueueKernel final : public QueueAccessKernel {
 public:
  using QueueAccessKernel::QueueAccessKernel;

 private:
  Status Prepare(const KernelContext& context, Queue& queue, Queue::Attempt& attempt,
                 bool& nothing_to_do) override {
    attempt.action = action_;
    MR_RETURN_IF_ERROR(CheckSignature(queue, std::span(props().input_types).subspan(1), {}));
    attempt.tensors.reserve(static_cast<size_t>(num_inputs() - 1));
    for (int i = 1; i < num_inputs(); ++i) attempt.tensors.push_back(context.input(i));
    if (action_ == Action::kEnqueue) return queue.CheckElement(attempt.tensors);
    MR_RETURN_IF_ERROR(queue.CheckBatch(attempt.tensors));
    attempt.requested = attempt.tensors[0].dim(0);
    nothing_to_do = attempt.requested == 0;
    return Status();
  }
};

class DequeueKernel final : public QueueAccessKernel {
 public:
  using QueueAccessKernel::QueueAccessKernel;

 private:
  Status Prepare(const KernelContext& context, Queue& queue, Queue::Attempt& attempt,
                 bool& nothing_to_do) override {
    attempt.action = action_;
    MR_RETURN_IF_ERROR(CheckSignature(queue, {}, props().output_types));
    if (action_ == Action::kDequeue) return Status();
    MR_RETURN_IF_ERROR(RequireScalar(context.input(1), "n"));
    attempt.requested = IntValue(context.input(1));
    if (attempt.requested < 0) {
      return errors::InvalidArgument(action_ == Action::kDequeueMany ? "DequeueManyOp" : "DequeueUpToOp",
                                     " requested ", attempt.requested, " < 0 elements");
    }
    nothing_to_do = attempt.requested == 0;
    return queue.CheckBatchable();
  }
  Status Deliver(KernelContext& context, Queue& queue, Queue::Attempt& attempt) override {
    const int components = num_outputs();
    if (action_ == Action::kDequeue) {
      for (int i = 0; i < components; ++i)
        context.set_output(i, std::move(attempt.tensors[static_cast<size_t>(i)]));
      return Status();
    }
    const int64_t count = static_cast<int64_t>(attempt.tensors.size()) / components;
    for (int i = 0; i < components; ++i) {
      const PartialShape& shape = queue.spec().shapes[static_cast<size_t>(i)];
      MR_ASSIGN_OR_RETURN(Tensor batch, StackPadded(context, output_type(i), attempt.tensors.data() + i,
                                                    count, components, shape));
      context.set_output(i, std::move(batch));
    }
    return Status();
  }
};

class QueueCloseKernel final : public QueueAccessKernel {
 public:
  explicit QueueCloseKernel(KernelConstruction& c)
      : QueueAccessKernel(c, Action::kClose), cancel_(c.Attr<bool>("cancel_pending_enqueues")) {}

 private:
  Status Prepare(const KernelContext& /*context*/, Queue& queue, Queue::Attempt& attempt,
                 bool& nothing_to_do) override {
    attempt.action = action_;
    nothing_to_do = cancel_;
    if (cancel_) queue.CloseAndCancel();
    return Status();
  }

  const bool cancel_;
};

class QueueSizeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Queue> queue, FindResource<Queue>(context, 0));
    context.set_output(0, Tensor::Scalar<int32_t>(queue->size()));
    return Status();
  }
};

class QueueIsClosedKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Queue> queue, FindResource<Queue>(context, 0));
    context.set_output(0, Tensor::Scalar<bool>(queue->is_closed()));
    return Status();
  }
};

template <typename K>
void RegisterAccess(KernelRegistry& registry, const std::string& op, Action action) {
  for (const char* version : {"", "V2"}) {
    registry.Register(KernelDef(op + version).Async(),
                      [action](KernelConstruction& c) { return std::make_unique<K>(c, action); });
  }
}

}  // namespace

void RegisterQueueKernels(KernelRegistry& registry) {
  for (const QueueKind kind :
       {QueueKind::kFifo, QueueKind::kPaddingFifo, QueueKind::kRandomShuffle, QueueKind::kPriority}) {
    for (const char* version : {"", "V2"}) {
      registry.Register(KernelDef(std::string(QueueOpName(kind)) + version),
                        [kind](KernelConstruction& c) { return std::make_unique<QueueKernel>(c, kind); });
    }
  }
  RegisterAccess<EnqueueKernel>(registry, "QueueEnqueue", Action::kEnqueue);
  RegisterAccess<EnqueueKernel>(registry, "QueueEnqueueMany", Action::kEnqueueMany);
  RegisterAccess<DequeueKernel>(registry, "QueueDequeue", Action::kDequeue);
  RegisterAccess<DequeueKernel>(registry, "QueueDequeueMany", Action::kDequeueMany);
  RegisterAccess<DequeueKernel>(registry, "QueueDequeueUpTo", Action::kDequeueUpTo);
  for (const char* version : {"", "V2"}) {
    registry.Register<QueueCloseKernel>(KernelDef(std::string("QueueClose") + version));
    registry.Register<QueueSizeKernel>(KernelDef(std::string("QueueSize") + version));
    registry.Register<QueueIsClosedKernel>(KernelDef(std::string("QueueIsClosed") + version));
  }
  registry.Register<FakeQueueKernel>(KernelDef("FakeQueue"));
}

}  // namespace millrace
