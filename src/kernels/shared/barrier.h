// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "kernels/shared/queue.h"

namespace millrace {

// Collects the components of elements by their keys. A complete element is moved to a queue, ordered by the
// arrival of its first component. Thread-safe.
class Barrier : public Resource {
 public:
  // `spec`: of the values, without a capacity.
  static StatusOr<RefPtr<Barrier>> Make(QueueSpec spec);

  int num_components() const { return static_cast<int>(spec_.types.size()); }
  const QueueSpec& spec() const { return spec_; }
  // Component `component` of the elements keys[i] becomes values[i]. A batch is applied up to its first
  // error.
  Status InsertMany(const Tensor& keys, int64_t component, const Tensor& values) MR_EXCLUDES(mu_);
  // Turns a request for `n` elements into an attempt on ready(), whose elements are (order of insertion, key,
  // components …); OutOfRange if that number can't be reached any more.
  Status PrepareTake(int64_t n, bool allow_small_batch, Queue::Attempt& attempt) const MR_EXCLUDES(mu_);
  Status Close(bool cancel_pending_enqueues) MR_EXCLUDES(mu_);
  int32_t ready_size() const { return ready_->size(); }
  int32_t incomplete_size() const MR_EXCLUDES(mu_);
  Queue& ready() const { return *ready_; }
  std::string DebugString() const override;

 private:
  struct Element {
    int64_t order = 0;
    std::vector<Tensor> components;
    std::vector<bool> present;
    int missing = 0;
  };

  Barrier(QueueSpec spec, RefPtr<Queue> ready) : spec_(std::move(spec)), ready_(std::move(ready)) {}
  // Sets the component of each keys[i] to values[i]; complete elements are moved to `complete`.
  Status Collect(const Tensor& keys, size_t component, const Tensor& values,
                 std::vector<std::vector<Tensor>>* complete) MR_EXCLUDES(mu_);
  Status InsertOne(const std::string& key, int64_t i, size_t component, const Tensor& value, bool* is_new,
                   std::vector<std::vector<Tensor>>* complete) MR_REQUIRES(mu_);

  // Whether no element can arrive any more.
  bool Over() const MR_REQUIRES(mu_) { return closed_ && incomplete_.empty() && entering_ == 0; }

  const QueueSpec spec_;
  const RefPtr<Queue> ready_;
  mutable Mutex mu_;  // not held while ready_ changes: that may complete operations of other steps
  int64_t entering_ MR_GUARDED_BY(mu_) = 0;  // complete elements that are not yet in ready_
  bool closed_ MR_GUARDED_BY(mu_) = false;
  bool cancelled_ MR_GUARDED_BY(mu_) = false;
  int64_t order_ MR_GUARDED_BY(mu_) = std::numeric_limits<int64_t>::min();
  std::map<std::string, Element> incomplete_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
