// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/function.h"
#include "base/mutex.h"
#include "kernel/op_kernel.h"
#include "kernel/resource.h"
#include "kernels/shared/queue_store.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// The declaration of a queue by a node.
struct QueueSpec {
  std::string name;                  // for messages
  std::vector<DataType> types;       // one for each component of an element
  std::vector<PartialShape> shapes;  // by component, or none: any shape; fully known except in padding queues
  int64_t capacity = std::numeric_limits<int32_t>::max();
  int64_t min_after_dequeue = 0;  // random queues: this number of elements stays until the queue is closed
  int64_t seed = 0, seed2 = 0;    // random queues; both 0: chosen at random
};

enum class QueueKind { kFifo, kPaddingFifo, kRandomShuffle, kPriority };

// A queue of elements, each a tuple of tensors, that persists between steps. Operations that can't proceed
// wait in the queue in order of arrival, without a thread; enqueues and dequeues wait in separate lines. An
// operation is an Attempt; it is either run at once (RunNow) or handed over (Submit), and is then ended by
// another operation, by Close, or by the cancellation of its step. Thread-safe.
class Queue : public Resource {
 public:
  enum class Action { kEnqueue, kEnqueueMany, kClose, kDequeue, kDequeueMany, kDequeueUpTo };
  struct Attempt {
    Action action = Action::kEnqueue;
    int64_t requested = 1;  // elements still to move
    // Enqueue: the element, or a batch of them (each component has them along dimension 0). Dequeue: the
    // elements taken so far, component by component, one after the other.
    std::vector<Tensor> tensors;
    UniqueFunction<void(const Status&, Attempt&)> done;  // called without a lock, once

    bool is_dequeue() const { return action >= Action::kDequeue; }

   private:
    friend class Queue;
    uint64_t id = 0;
    int64_t moved = 0;  // rows of a batch that are in the queue
    CancellationManager* cancellation = nullptr;
    CancellationManager::Token token = CancellationManager::kInvalidToken;
  };

  static StatusOr<RefPtr<Queue>> Make(QueueKind kind, QueueSpec spec);

  // Runs the attempt if it can end now: true, with its result. Else false, and nothing has happened.
  bool RunNow(Attempt& attempt, Status* status) MR_EXCLUDES(mu_);
  // Runs the attempt as soon as it can run in its turn. `cancellation` must outlive it.
  void Submit(Attempt attempt, CancellationManager& cancellation) MR_EXCLUDES(mu_);
  // Closes at once; waiting enqueues fail.
  void CloseAndCancel() MR_EXCLUDES(mu_);

  int32_t size() const MR_EXCLUDES(mu_);
  bool is_closed() const MR_EXCLUDES(mu_);
  QueueKind kind() const { return kind_; }
  const QueueSpec& spec() const { return spec_; }
  int num_components() const { return static_cast<int>(spec_.types.size()); }
  bool has_shapes() const { return !spec_.shapes.empty(); }
  std::string DebugString() const override;

  // Checks that an element, or a batch, conforms to the declaration.
  Status CheckElement(const std::vector<Tensor>& components) const;
  Status CheckBatch(const std::vector<Tensor>& components) const;
  // Checks that elements of this queue can be batched: it must declare shapes.
  Status CheckBatchable() const;
  // Checks that a node that declares such a queue may share this one.
  Status CheckShared(QueueKind kind, const QueueSpec& spec, std::string_view node, std::string_view op) const;

 private:
  enum class Progress { kNone, kSome, kDone };
  struct Finished {
    Attempt attempt;
    Status status;
  };
  using Line = std::list<Attempt>;

  Queue(QueueKind kind, QueueSpec spec);
  Status CheckTypes(const std::vector<Tensor>& components) const;
  bool MayEndNow(const Attempt& attempt) const MR_REQUIRES(mu_);
  Progress Advance(Attempt& attempt, Status* status) MR_REQUIRES(mu_);
  Progress AdvanceEnqueue(Attempt& attempt, Status* status) MR_REQUIRES(mu_);
  Progress AdvanceDequeue(Attempt& attempt, Status* status) MR_REQUIRES(mu_);
  Status Exhausted(const Attempt& attempt) const MR_REQUIRES(mu_);
  // The number of elements that a dequeue may take now.
  int64_t Available() const MR_REQUIRES(mu_);
  void GiveBack(Attempt& attempt) MR_REQUIRES(mu_);
  bool AdvanceLine(Line& line, std::vector<Finished>* finished) MR_REQUIRES(mu_);
  void AdvanceAll(std::vector<Finished>* finished) MR_REQUIRES(mu_);
  void Cancel(uint64_t id, bool is_dequeue) MR_EXCLUDES(mu_);
  static void Finish(std::vector<Finished>& finished);

  const QueueKind kind_;
  const QueueSpec spec_;
  mutable Mutex mu_;
  const std::unique_ptr<QueueStore> store_ MR_PT_GUARDED_BY(mu_);
  bool closed_ MR_GUARDED_BY(mu_) = false;
  uint64_t next_id_ MR_GUARDED_BY(mu_) = 0;
  Line enqueues_ MR_GUARDED_BY(mu_);
  Line dequeues_ MR_GUARDED_BY(mu_);
};

// "FIFOQueue", …: the op that makes a queue of that kind, without the "V2".
std::string_view QueueOpName(QueueKind kind);

}  // namespace millrace
