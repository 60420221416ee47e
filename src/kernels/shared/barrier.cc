// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/barrier.h"

#include <algorithm>

namespace millrace {
namespace {

Tensor RowOf(const Tensor& batch, int64_t i) {
  const Tensor row = batch.Slice(i, i + 1);
  TensorShape shape = row.shape();
  shape.RemoveDim(0);
  return row.WithShape(shape).DeepCopy();
}

// The queue has no limit, so this never waits.
Status EnqueueNow(Queue& queue, std::vector<Tensor> element) {
  Queue::Attempt attempt;
  attempt.tensors = std::move(element);
  Status status;
  if (!queue.RunNow(attempt, &status)) return errors::Internal("The queue of a barrier is full");
  return status;
}

}  // namespace

StatusOr<RefPtr<Barrier>> Barrier::Make(QueueSpec spec) {
  if (spec.types.size() != spec.shapes.size())
    return errors::InvalidArgument("All of the component shapes must be specified");
  QueueSpec ready = spec;
  ready.types.insert(ready.types.begin(), {DataType::kInt64, DataType::kString});
  ready.shapes.insert(ready.shapes.begin(), 2, PartialShape(TensorShape()));
  MR_ASSIGN_OR_RETURN(RefPtr<Queue> queue, Queue::Make(QueueKind::kPriority, std::move(ready)));
  return RefPtr<Barrier>(new Barrier(std::move(spec), std::move(queue)));
}

Status Barrier::InsertMany(const Tensor& keys, int64_t component, const Tensor& values) {
  if (component < 0 || component >= num_components()) {
    return errors::InvalidArgument("The component ID is out of range ", component,
                                   " > num_components (= ", num_components(), ")");
  }
  if (!keys.shape().IsVector()) return errors::InvalidArgument("keys must be a vector, got ", keys.shape());
  const auto at = static_cast<size_t>(component);
  if (values.dtype() != spec_.types[at]) {
    return errors::InvalidArgument("Barrier ", spec_.name, ": component ", component, " is ",
                                   DataTypeName(spec_.types[at]), ", but was given ",
                                   DataTypeName(values.dtype()));
  }
  if (keys.num_elements() > 0 && values.num_elements() == 0) {
    return errors::InvalidArgument("Tensors with no elements are not supported ", spec_.name,
                                   ": received shape ", values.shape());
  }
  std::vector<int64_t> want{keys.num_elements()};
  want.insert(want.end(), spec_.shapes[at].dims().begin(), spec_.shapes[at].dims().end());
  if (const PartialShape expected(std::move(want)); !expected.IsCompatibleWith(values.shape())) {
    return errors::InvalidArgument("Shape mismatch in tuple component ", component + 2, ". Expected ",
                                   expected, ", got ", values.shape());
  }
  std::vector<std::vector<Tensor>> complete;
  Status status = Collect(keys, at, values, &complete);
  for (std::vector<Tensor>& element : complete) status.Update(EnqueueNow(*ready_, std::move(element)));
  bool over = false;
  {
    MutexLock lock(mu_);
    entering_ -= static_cast<int64_t>(complete.size());
    over = Over();
  }
  if (over) ready_->CloseAndCancel();
  return status;
}

Status Barrier::Collect(const Tensor& keys, size_t at, const Tensor& values,
                        std::vector<std::vector<Tensor>>* complete) {
  MutexLock lock(mu_);
  if (closed_ && (cancelled_ || incomplete_.empty())) {
    return errors::Cancelled("Barrier ", spec_.name,
                             " is closed.  Pending enqueues cancelled: ", static_cast<int>(cancelled_),
                             ".  Number of new insertions: ", keys.num_elements(),
                             ".  Number of incomplete keys: ", incomplete_.size(), ".");
  }
  bool any_new = false;
  Status status;
  for (int64_t i = 0; i < keys.num_elements() && status.ok(); ++i) {
    const Tensor value = RowOf(values, i);
    status = InsertOne(keys.data<std::string>()[i], i, at, value, &any_new, complete);
  }
  if (any_new) ++order_;
  entering_ += static_cast<int64_t>(complete->size());
  return status;
}

Status Barrier::InsertOne(const std::string& key, int64_t i, size_t component, const Tensor& value,
                          bool* is_new, std::vector<std::vector<Tensor>>* complete) {
  auto at = incomplete_.find(key);
  if (at == incomplete_.end()) {
    if (closed_) {
      return errors::Cancelled(
          "Barrier ", spec_.name, " is closed, but attempted to insert a brand new key: ", key,
          ".  Pending enqueues cancelled: ", static_cast<int>(cancelled_), ".  Insertion index: ", i,
          ".  Number of incomplete keys: ", incomplete_.size(), ".");
    }
    Element element;
    element.order = order_;
    element.components.resize(spec_.types.size());
    element.present.resize(spec_.types.size());
    element.missing = num_components();
    at = incomplete_.emplace(key, std::move(element)).first;
    *is_new = true;
  }
  Element& element = at->second;
  if (element.present[component]) {
    return errors::InvalidArgument("Key ", key, " already has a value for component ", component,
                                   " in barrier ", spec_.name);
  }
  element.present[component] = true;
  element.components[component] = value;
  if (--element.missing > 0) return Status();
  std::vector<Tensor>& tuple = complete->emplace_back(std::move(element.components));
  tuple.insert(tuple.begin(), {Tensor::Scalar<int64_t>(element.order), Tensor::Scalar<std::string>(key)});
  incomplete_.erase(at);
  return Status();
}

Status Barrier::PrepareTake(int64_t n, bool allow_small_batch, Queue::Attempt& attempt) const {
  MutexLock lock(mu_);
  int64_t deliver = n;
  if (closed_) {
    int64_t available = ready_->size() + entering_;
    if (allow_small_batch) {
      deliver = std::min(n, available);
    } else {
      available += static_cast<int64_t>(incomplete_.size());
    }
    if (available < std::max<int64_t>(deliver, 1)) {
      return errors::OutOfRange("Barrier '", spec_.name,
                                "' is closed and has insufficient elements (requested ", deliver,
                                ", total size ", available, ")");
    }
  }
  attempt.action = allow_small_batch ? Queue::Action::kDequeueUpTo : Queue::Action::kDequeueMany;
  attempt.requested = deliver;
  return Status();
}

Status Barrier::Close(bool cancel_pending_enqueues) {
  bool over = false;
  {
    MutexLock lock(mu_);
    // Closing again is allowed if it cancels and the first call didn't.
    if (closed_ && (cancelled_ || !cancel_pending_enqueues))
      return errors::Cancelled("Barrier '", spec_.name, "' is already closed.");
    closed_ = true;
    cancelled_ = cancel_pending_enqueues;
    if (cancelled_) incomplete_.clear();
    over = Over();
  }
  if (over) ready_->CloseAndCancel();
  return Status();
}

int32_t Barrier::incomplete_size() const {
  MutexLock lock(mu_);
  return static_cast<int32_t>(incomplete_.size());
}

std::string Barrier::DebugString() const {
  return StrCat("Barrier '", spec_.name, "', ", ready_size(), " ready, ", incomplete_size(), " incomplete");
}

}  // namespace millrace
