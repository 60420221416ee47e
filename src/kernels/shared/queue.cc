// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/queue.h"

#include <algorithm>

namespace millrace {
namespace {

std::string TypesText(const std::vector<DataType>& types) {
  std::string out;
  for (const DataType t : types) out += (out.empty() ? "" : ", ") + DataTypeName(t);
  return out;
}

std::string ShapesText(const std::vector<PartialShape>& shapes) {
  std::string out = "[";
  for (const PartialShape& s : shapes) out += (out.size() == 1 ? "" : ", ") + s.ToString();
  return out + "]";
}

std::unique_ptr<QueueStore> MakeStore(QueueKind kind, const QueueSpec& spec) {
  const int components = static_cast<int>(spec.types.size());
  switch (kind) {
    case QueueKind::kRandomShuffle:
      return MakeRandomStore(components, spec.seed, spec.seed2);
    case QueueKind::kPriority:
      return MakePriorityStore(components);
    default:
      return MakeFifoStore(components);
  }
}

// Messages of a padding queue name it as a FIFO queue, except about batches.
std::string_view NameForSingles(QueueKind kind) {
  return QueueOpName(kind == QueueKind::kPaddingFifo ? QueueKind::kFifo : kind);
}

// Row `i` of a batch without dimension 0, sharing the buffer.
Tensor RowOf(const Tensor& batch, int64_t i) {
  const Tensor row = batch.Slice(i, i + 1);
  TensorShape shape = row.shape();
  shape.RemoveDim(0);
  return row.WithShape(shape);
}

Status BadShape(size_t component, const PartialShape& want, const TensorShape& got) {
  return errors::InvalidArgument("Shape mismatch in tuple component ", component, ". Expected ", want,
                                 ", got ", got);
}

}  // namespace

std::string_view QueueOpName(QueueKind kind) {
  switch (kind) {
    case QueueKind::kPaddingFifo:
      return "PaddingFIFOQueue";
    case QueueKind::kRandomShuffle:
      return "RandomShuffleQueue";
    case QueueKind::kPriority:
      return "PriorityQueue";
    default:
      return "FIFOQueue";
  }
}

StatusOr<RefPtr<Queue>> Queue::Make(QueueKind kind, QueueSpec spec) {
  if (spec.types.empty()) return errors::InvalidArgument("Empty component types for queue ", spec.name);
  if (kind == QueueKind::kPaddingFifo && spec.shapes.size() != spec.types.size()) {
    return errors::InvalidArgument("Shapes must be provided for all components, but received ",
                                   spec.types.size(), " dtypes and ", spec.shapes.size(), " shapes.");
  }
  if (!spec.shapes.empty() && spec.shapes.size() != spec.types.size()) {
    return errors::InvalidArgument("Different number of component types.  Types: ", TypesText(spec.types),
                                   ", Shapes: ", ShapesText(spec.shapes));
  }
  for (const PartialShape& shape : spec.shapes) {
    if (shape.unknown_rank()) return errors::InvalidArgument("shape ", shape, " must have known rank");
    if (kind != QueueKind::kPaddingFifo && !shape.IsFullyDefined()) {
      return errors::InvalidArgument("Attr shapes of queue ", spec.name,
                                     " must have fully defined shapes, got ", shape);
    }
  }
  if (kind == QueueKind::kRandomShuffle) {
    if (spec.min_after_dequeue < 0) {
      return errors::InvalidArgument("min_after_dequeue ", spec.min_after_dequeue, " must be >= 0");
    }
    if (spec.min_after_dequeue >= spec.capacity) {
      return errors::InvalidArgument("min_after_dequeue ", spec.min_after_dequeue, " must be < capacity ",
                                     spec.capacity);
    }
  }
  return RefPtr<Queue>(new Queue(kind, std::move(spec)));
}

Queue::Queue(QueueKind kind, QueueSpec spec)
    : kind_(kind), spec_(std::move(spec)), store_(MakeStore(kind, spec_)) {}

std::string Queue::DebugString() const {
  return StrCat(QueueOpName(kind_), " '", spec_.name, "', ", size(), " elements",
                is_closed() ? ", closed" : "");
}

int32_t Queue::size() const {
  MutexLock lock(mu_);
  return static_cast<int32_t>(store_->size());
}

bool Queue::is_closed() const {
  MutexLock lock(mu_);
  return closed_;
}

bool Queue::RunNow(Attempt& attempt, Status* status) {
  std::vector<Finished> finished;
  {
    MutexLock lock(mu_);
    if (!MayEndNow(attempt)) return false;
    Advance(attempt, status);
    if (!enqueues_.empty() || !dequeues_.empty()) AdvanceAll(&finished);
  }
  Finish(finished);
  return true;
}

void Queue::Submit(Attempt attempt, CancellationManager& cancellation) {
  std::vector<Finished> finished;
  {
    MutexLock lock(mu_);
    const uint64_t id = attempt.id = next_id_++;
    const bool is_dequeue = attempt.is_dequeue();
    attempt.cancellation = &cancellation;
    Line& line = is_dequeue ? dequeues_ : enqueues_;
    line.push_back(std::move(attempt));
    AdvanceAll(&finished);
    if (!line.empty() && line.back().id == id) {
      // Registered under the lock, so that the callback finds the attempt in its line.
      line.back().token =
          cancellation.Register([self = ShareRef(this), id, is_dequeue] { self->Cancel(id, is_dequeue); });
      if (line.back().token == CancellationManager::kInvalidToken) {
        const char* what = is_dequeue                             ? "Dequeue"
                           : line.back().action == Action::kClose ? "Close"
                                                                  : "Enqueue";
        GiveBack(line.back());
        finished.push_back({std::move(line.back()), errors::Cancelled(what, " operation was cancelled")});
        line.pop_back();
        AdvanceAll(&finished);
      }
    }
  }
  Finish(finished);
}

void Queue::CloseAndCancel() {
  std::vector<Finished> finished;
  {
    MutexLock lock(mu_);
    closed_ = true;
    for (Attempt& attempt : enqueues_) {
      finished.push_back({std::move(attempt), errors::Cancelled("Enqueue operation was cancelled")});
    }
    enqueues_.clear();
    AdvanceAll(&finished);
  }
  Finish(finished);
}

void Queue::Cancel(uint64_t id, bool is_dequeue) {
  std::vector<Finished> finished;
  {
    MutexLock lock(mu_);
    Line& line = is_dequeue ? dequeues_ : enqueues_;
    const auto at = std::find_if(line.begin(), line.end(), [id](const Attempt& a) { return a.id == id; });
    if (at == line.end()) return;
    GiveBack(*at);
    finished.push_back(
        {std::move(*at), errors::Cancelled(is_dequeue ? "Dequeue" : "Enqueue", " operation was cancelled")});
    line.erase(at);
    AdvanceAll(&finished);
  }
  Finish(finished);
}

void Queue::Finish(std::vector<Finished>& finished) {
  for (Finished& f : finished) {
    // Doesn't wait for a running callback, in which this may run. It then finds
    // nothing.
    if (f.attempt.token != CancellationManager::kInvalidToken) {
      f.attempt.cancellation->TryDeregister(f.attempt.token);
    }
    auto done = std::move(f.attempt.done);
    done(f.status, f.attempt);
  }
}

bool Queue::MayEndNow(const Attempt& attempt) const {
  if (!(attempt.is_dequeue() ? dequeues_ : enqueues_).empty()) return false;
  if (closed_ || attempt.action == Action::kClose) return true;
  if (attempt.is_dequeue()) return Available() >= attempt.requested;
  return attempt.requested <= spec_.capacity - store_->size();
}

int64_t Queue::Available() const {
  return closed_ ? store_->size() : std::max<int64_t>(0, store_->size() - spec_.min_after_dequeue);
}

void Queue::AdvanceAll(std::vector<Finished>* finished) {
  bool changed = true;
  while (changed) {
    changed = AdvanceLine(enqueues_, finished);
    changed = AdvanceLine(dequeues_, finished) || changed;
  }
}

bool Queue::AdvanceLine(Line& line, std::vector<Finished>* finished) {
  bool changed = false;
  while (!line.empty()) {
    Status status;
    const Progress progress = Advance(line.front(), &status);
    if (progress != Progress::kDone) return changed || progress == Progress::kSome;
    changed = true;
    finished->push_back({std::move(line.front()), std::move(status)});
    line.pop_front();
  }
  return changed;
}

Queue::Progress Queue::Advance(Attempt& attempt, Status* status) {
  return attempt.is_dequeue() ? AdvanceDequeue(attempt, status) : AdvanceEnqueue(attempt, status);
}

Queue::Progress Queue::AdvanceEnqueue(Attempt& attempt, Status* status) {
  if (attempt.action == Action::kClose) {
    if (closed_) *status = errors::Cancelled("Queue '", spec_.name, "' is already closed.");
    closed_ = true;
    return Progress::kDone;
  }
  if (closed_) {
    *status = errors::Cancelled(NameForSingles(kind_), " '", spec_.name, "' is closed.");
    return Progress::kDone;
  }
  const int64_t n = std::min(attempt.requested, spec_.capacity - store_->size());
  if (n <= 0) return Progress::kNone;
  if (attempt.action == Action::kEnqueue) {
    store_->Push(attempt.tensors.data());
  } else {
    // A row shares the batch's buffer if elements are dequeued in order. Otherwise a few long-lived elements
    // would keep whole batches in memory.
    const bool share = kind_ == QueueKind::kFifo || kind_ == QueueKind::kPaddingFifo;
    std::vector<Tensor> row(attempt.tensors.size());
    for (int64_t i = 0; i < n; ++i, ++attempt.moved) {
      for (size_t c = 0; c < row.size(); ++c) {
        row[c] = RowOf(attempt.tensors[c], attempt.moved);
        if (!share) row[c] = row[c].DeepCopy();
      }
      store_->Push(row.data());
    }
  }
  attempt.requested -= n;
  return attempt.requested == 0 ? Progress::kDone : Progress::kSome;
}

Queue::Progress Queue::AdvanceDequeue(Attempt& attempt, Status* status) {
  if (closed_ && store_->size() < attempt.requested) {
    const Status exhausted = Exhausted(attempt);
    GiveBack(attempt);
    if (attempt.action != Action::kDequeueUpTo || store_->size() == 0) {
      *status = exhausted;
      return Progress::kDone;
    }
    attempt.requested = store_->size();
  }
  const int64_t n = std::min(attempt.requested, Available());
  if (n <= 0 && attempt.requested > 0) return Progress::kNone;
  const auto components = static_cast<size_t>(num_components());
  size_t at = attempt.tensors.size();
  attempt.tensors.resize(at + static_cast<size_t>(n) * components);
  for (int64_t i = 0; i < n; ++i, at += components) store_->Pop(attempt.tensors.data() + at);
  attempt.requested -= n;
  return attempt.requested == 0 ? Progress::kDone : Progress::kSome;
}

Status Queue::Exhausted(const Attempt& attempt) const {
  const bool single = attempt.action == Action::kDequeue;
  return errors::OutOfRange(single ? NameForSingles(kind_) : QueueOpName(kind_), " '", spec_.name,
                            "' is closed and has insufficient elements (requested ", attempt.requested,
                            ", current size ", store_->size(), ")");
}

void Queue::GiveBack(Attempt& attempt) {
  if (!attempt.is_dequeue() || attempt.tensors.empty()) return;
  store_->GiveBack(attempt.tensors.data(), static_cast<int64_t>(attempt.tensors.size()) / num_components());
  attempt.tensors.clear();
}

Status Queue::CheckTypes(const std::vector<Tensor>& components) const {
  if (components.size() != spec_.types.size()) {
    return errors::InvalidArgument("Wrong number of components in tuple. Expected ", spec_.types.size(),
                                   ", got ", components.size());
  }
  for (size_t i = 0; i < components.size(); ++i) {
    if (components[i].dtype() != spec_.types[i]) {
      return errors::InvalidArgument("Type mismatch in tuple component ", i, ". Expected ",
                                     DataTypeName(spec_.types[i]), ", got ",
                                     DataTypeName(components[i].dtype()));
    }
  }
  return Status();
}

Status Queue::CheckElement(const std::vector<Tensor>& components) const {
  MR_RETURN_IF_ERROR(CheckTypes(components));
  for (size_t i = 0; i < spec_.shapes.size(); ++i) {
    if (!spec_.shapes[i].IsCompatibleWith(components[i].shape()))
      return BadShape(i, spec_.shapes[i], components[i].shape());
  }
  if (kind_ == QueueKind::kPriority && !components[0].shape().IsScalar()) {
    return errors::InvalidArgument("Expected priority element to be a scalar, but received shape: ",
                                   components[0].shape());
  }
  return Status();
}

Status Queue::CheckBatch(const std::vector<Tensor>& components) const {
  MR_RETURN_IF_ERROR(CheckTypes(components));
  for (size_t i = 0; i < components.size(); ++i) {
    const TensorShape& shape = components[i].shape();
    if (shape.rank() == 0) {
      return errors::InvalidArgument("Component ", i,
                                     " of a batch must have at least rank 1, but is a scalar");
    }
    const int64_t batch = components[0].dim(0);
    if (has_shapes()) {
      std::vector<int64_t> want{batch};
      want.insert(want.end(), spec_.shapes[i].dims().begin(), spec_.shapes[i].dims().end());
      if (const PartialShape expected(std::move(want)); !expected.IsCompatibleWith(shape))
        return BadShape(i, expected, shape);
    } else if (shape.dim(0) != batch) {
      return errors::InvalidArgument(
          "All input tensors must have the same size in the 0th dimension. Component ", i, " has ",
          shape.dim(0), ", and should have ", batch);
    }
  }
  if (kind_ == QueueKind::kPriority && components[0].rank() != 1) {
    return errors::InvalidArgument("Expected priority element to be a vector, but received shape: ",
                                   components[0].shape());
  }
  return Status();
}

Status Queue::CheckBatchable() const {
  if (has_shapes()) return Status();
  return errors::InvalidArgument(QueueOpName(kind_),
                                 "'s DequeueMany and DequeueUpTo require the components to have specified "
                                 "shapes.");
}

Status Queue::CheckShared(QueueKind kind, const QueueSpec& want, std::string_view node,
                          std::string_view op) const {
  const auto differs = [&](auto&&... text) {
    return errors::InvalidArgument("Shared queue '", spec_.name, "' has ", text...);
  };
  if (kind != kind_) {
    return differs("type '", QueueOpName(kind_), "' that does not match type of Node '", node, "': ", op);
  }
  if (want.capacity != spec_.capacity) {
    return differs("capacity ", spec_.capacity, " but requested capacity was ", want.capacity);
  }
  if (want.types != spec_.types) {
    return differs("component types ", TypesText(spec_.types), " but requested component types were ",
                   TypesText(want.types));
  }
  if (want.shapes != spec_.shapes) {
    return differs("component shapes ", ShapesText(spec_.shapes), " but requested component shapes were ",
                   ShapesText(want.shapes));
  }
  if (want.min_after_dequeue != spec_.min_after_dequeue) {
    return differs("min_after_dequeue ", spec_.min_after_dequeue, " but requested min_after_dequeue was ",
                   want.min_after_dequeue, ".");
  }
  if (want.seed != spec_.seed || want.seed2 != spec_.seed2) {
    return differs("random seeds (", spec_.seed, ", ", spec_.seed2, ") but requested seeds are (", want.seed,
                   ", ", want.seed2, ").");
  }
  return Status();
}

}  // namespace millrace
