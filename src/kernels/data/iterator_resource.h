// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/mutex.h"
#include "data/background.h"
#include "data/dataset.h"
#include "kernel/kernel_context.h"
#include "kernel/resource.h"

namespace millrace::data {

// The runtime that the kernel `context` provides for iterators.
Runtime RuntimeOf(const KernelContext& context, FunctionCaller* functions, const std::string& device_name);
// For calls of iterators as part of the kernel's step.
Context ContextOf(const KernelContext& context, const Runtime& runtime);

// An iterator with its dataset, for several threads, one at a time.
class SharedIterator {
 public:
  // Starts at the first element of the dataset.
  static StatusOr<std::shared_ptr<SharedIterator>> Make(const KernelContext& context, Runtime runtime,
                                                        RefPtr<const Dataset> dataset);
  const Dataset& dataset() const { return *dataset_; }
  const Runtime& runtime() const { return runtime_; }

  // Gets the next element if no other call is running and nothing has to be waited for. False: nothing has
  // happened.
  bool TryGetNext(Context& ctx, Element* out, bool* end, Status* status) MR_EXCLUDES(mu_);
  Status GetNext(Context& ctx, Element* out, bool* end) MR_EXCLUDES(mu_);
  Status Save(Context& ctx, IteratorState* state) MR_EXCLUDES(mu_);
  // After an error the iterator is unchanged.
  Status Restore(Context& ctx, const IteratorState& state) MR_EXCLUDES(mu_);

  SharedIterator(Runtime runtime, RefPtr<const Dataset> dataset)
      : runtime_(std::move(runtime)), dataset_(std::move(dataset)) {}

 private:
  const Runtime runtime_;
  const RefPtr<const Dataset> dataset_;
  Mutex mu_;
  std::unique_ptr<Iterator> iterator_ MR_GUARDED_BY(mu_);
};

// The resource of a handle: an iterator, once one was made. Thread-safe.
class IteratorResource final : public Resource {
 public:
  explicit IteratorResource(Dataset::Signature signature) : signature_(std::move(signature)) {}
  std::string DebugString() const override { return "Iterator"; }
  const FunctionCaller* functions() const override MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return iterator_ == nullptr ? nullptr : iterator_->runtime().functions;
  }

  // Empty if the handle does not declare its elements.
  const Dataset::Signature& signature() const { return signature_; }
  // Starts again with `dataset`. InvalidArgument if its elements have other types or shapes.
  Status SetDataset(const KernelContext& context, const Runtime& runtime, RefPtr<const Dataset> dataset)
      MR_EXCLUDES(mu_);
  void Set(std::shared_ptr<SharedIterator> iterator) MR_EXCLUDES(mu_);
  // Null: not initialised.
  std::shared_ptr<SharedIterator> iterator() const MR_EXCLUDES(mu_);
  Background& background() { return background_; }

 private:
  const Dataset::Signature signature_;
  mutable Mutex mu_;
  std::shared_ptr<SharedIterator> iterator_ MR_GUARDED_BY(mu_);
  Background background_;  // stopped before the iterator is destroyed
};

}  // namespace millrace::data
