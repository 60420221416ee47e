// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/data/iterator_resource.h"

#include <utility>

namespace millrace::data {

Runtime RuntimeOf(const KernelContext& context, FunctionCaller* functions, const std::string& device_name) {
  Runtime runtime;
  runtime.functions = functions;
  runtime.device = &context.device();
  runtime.device_name = device_name;
  runtime.resources = &context.resources();
  return runtime;
}

Context ContextOf(const KernelContext& context, const Runtime& runtime) {
  Context ctx;
  ctx.runtime = &runtime;
  ctx.cancellation = &context.cancellation();
  ctx.pool = context.step().pool;
  ctx.call_depth = context.step().call_depth;
  return ctx;
}

StatusOr<std::shared_ptr<SharedIterator>> SharedIterator::Make(const KernelContext& context, Runtime runtime,
                                                               RefPtr<const Dataset> dataset) {
  auto made = std::make_shared<SharedIterator>(std::move(runtime), std::move(dataset));
  const Context ctx = ContextOf(context, made->runtime_);
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> iterator, made->dataset_->NewIterator(ctx));
  MutexLock lock(made->mu_);
  made->iterator_ = std::move(iterator);
  return made;
}

bool SharedIterator::TryGetNext(Context& ctx, Element* out, bool* end,
                                Status* status) MR_NO_THREAD_SAFETY_ANALYSIS {
  if (!mu_.TryLock()) return false;
  const bool can = !iterator_->MayWait(1);
  if (can) *status = iterator_->GetNext(ctx, out, end);
  mu_.Unlock();
  return can;
}

Status SharedIterator::GetNext(Context& ctx, Element* out, bool* end) {
  MutexLock lock(mu_);
  return iterator_->GetNext(ctx, out, end);
}

Status SharedIterator::Save(Context& ctx, IteratorState* state) {
  MutexLock lock(mu_);
  StateWriter writer(state);
  return writer.Save(ctx, "iterator", iterator_.get());
}

Status SharedIterator::Restore(Context& ctx, const IteratorState& state) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> restored, dataset_->NewIterator(ctx));
  MR_RETURN_IF_ERROR(StateReader(state).Restore(ctx, "iterator", *restored));
  std::unique_ptr<Iterator> old;  // may have threads to wait for
  MutexLock lock(mu_);
  old = std::exchange(iterator_, std::move(restored));
  return Status();
}

Status IteratorResource::SetDataset(const KernelContext& context, const Runtime& runtime,
                                    RefPtr<const Dataset> dataset) {
  if (!signature_.types.empty() || !signature_.shapes.empty()) {
    MR_RETURN_IF_ERROR(CheckSignature(signature_, dataset->signature()));
  }
  MR_ASSIGN_OR_RETURN(auto made, SharedIterator::Make(context, runtime, std::move(dataset)));
  Set(std::move(made));
  return Status();
}

void IteratorResource::Set(std::shared_ptr<SharedIterator> iterator) {
  std::shared_ptr<SharedIterator> old;  // destroyed without the lock
  MutexLock lock(mu_);
  old = std::exchange(iterator_, std::move(iterator));
}

std::shared_ptr<SharedIterator> IteratorResource::iterator() const {
  MutexLock lock(mu_);
  return iterator_;
}

}  // namespace millrace::data
