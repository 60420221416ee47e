// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/stream_span.h"

#include <utility>

#include "exec/step_host.h"
#include "exec/step_trace.h"

namespace millrace {
namespace {

class MeasuredKernel final : public OpKernel {
 public:
  MeasuredKernel(std::shared_ptr<OpKernel> base, KernelConstruction& construction)
      : OpKernel(construction), base_(std::move(base)) {}
  Status Compute(KernelContext& context) override {
    StreamSpan span(context);
    const Status status = base_->Compute(context);
    span.End();
    return status;
  }
  const Tensor* ConstantOutput() const override { return base_->ConstantOutput(); }

 private:
  const std::shared_ptr<OpKernel> base_;
};

}  // namespace

StreamSpan::StreamSpan(const KernelContext& context) {
  const StepHost* const host = context.step().host;
  if (host == nullptr || host->traces == nullptr || context.device().stream() == nullptr) [[likely]]
    return;
  traces_ = host->traces;
  device_ = &context.device();
  node_ = context.kernel().name();
  op_ = context.kernel().op_name();
  begin_ = device_->stream()->Record();
}

void StreamSpan::End() {
  if (traces_ == nullptr) return;
  NodeStats node;
  node.node = std::move(node_);
  node.op = std::move(op_);
  RefPtr<Event> end = device_->stream()->Record();
  Event& reached = *end;
  reached.Then([traces = traces_, device = device_, begin = std::move(begin_), end = std::move(end),
                stats = std::move(node)](const Status& /*status*/) mutable {
    traces->AddWork(*device, std::move(stats), begin->TimeNs(), end->TimeNs());
  });
}

std::shared_ptr<OpKernel> MeasureInStream(std::shared_ptr<OpKernel> kernel,
                                          KernelConstruction& construction) {
  if (construction.device().stream() == nullptr || kernel->AsAsync() != nullptr) return kernel;
  return std::make_shared<MeasuredKernel>(std::move(kernel), construction);
}

}  // namespace millrace
