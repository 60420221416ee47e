// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancellation.h"
#include "base/function.h"
#include "base/mutex.h"
#include "kernel/resource.h"
#include "kernels/shared/queue.h"
#include "millrace/status.h"

namespace millrace {

// The position of a reader in a unit of work.
struct ReaderPosition {
  uint64_t offset = 0;  // in bytes
  uint64_t index = 0;   // of the next record
};

// A unit of work that is being read; usually a file. One thread at a time.
class WorkUnit {
 public:
  virtual ~WorkUnit() = default;
  // True with a record; false when there are no more.
  virtual StatusOr<bool> Next(std::string* key, std::string* value) = 0;
  // Known to have no more records.
  virtual bool finished() const { return false; }
  virtual ReaderPosition position() const { return {}; }
};

// Begins a unit of work, or continues one at a position that position() returned.
using WorkOpener =
    std::function<StatusOr<std::unique_ptr<WorkUnit>>(const std::string& work, const ReaderPosition& from)>;

// Takes units of work from queues and reads their records. Reads run one after the other in order of
// arrival; a read that waits, for its turn or for a queue, holds no thread and no lock, and ends when its
// step is cancelled. Thread-safe.
class Reader : public Resource {
 public:
  struct Attempt {
    RefPtr<Queue> queue;
    int64_t wanted = 1;
    std::vector<std::string> keys, values;               // at most `wanted`, of one unit of work
    UniqueFunction<void(const Status&, Attempt&)> done;  // called without a lock, once

   private:
    friend class Reader;
    uint64_t id = 0;
    CancellationManager* cancellation = nullptr;
    CancellationManager::Token token = CancellationManager::kInvalidToken;
  };

  Reader(std::string name, WorkOpener open) : name_(std::move(name)), open_(std::move(open)) {}

  // Runs the attempt if it need not wait: true, with its result. Else false.
  bool RunNow(Attempt& attempt, Status* status) MR_EXCLUDES(mu_);
  // Runs the attempt in its turn. `cancellation` must outlive it.
  void Submit(Attempt attempt, CancellationManager& cancellation) MR_EXCLUDES(mu_);

  int64_t records_produced() const MR_EXCLUDES(mu_);
  int64_t work_units_completed() const MR_EXCLUDES(mu_);
  // A serialised tensorflow.ReaderBaseState; the position in the unit of work is in two additional fields
  // (100: offset, 101: index), which other readers ignore.
  std::string SerializeState() const MR_EXCLUDES(mu_);
  // After an error the reader is in the state after Reset.
  Status RestoreState(std::string_view state) MR_EXCLUDES(mu_);
  void Reset() MR_EXCLUDES(mu_);
  std::string DebugString() const override;

 private:
  // Reads without waiting. False: a unit of work is needed first, and the attempt is unchanged.
  bool Advance(Attempt& attempt, Status* status) MR_REQUIRES(mu_);
  Status ReadUnit(Attempt& attempt) MR_REQUIRES(mu_);
  // Runs the attempt whose turn it is, and then those in line, until one has to wait for its queue.
  void Drive(Attempt attempt) MR_EXCLUDES(mu_);
  // False: the attempt waits for its queue, which owns it now.
  bool RunTurn(Attempt& attempt, Status* status) MR_EXCLUDES(mu_);
  std::optional<Attempt> NextInLine() MR_EXCLUDES(mu_);
  Status AddWork(const Queue::Attempt& taken) MR_EXCLUDES(mu_);
  void LeaveLine(uint64_t id) MR_EXCLUDES(mu_);
  void ResetLocked() MR_REQUIRES(mu_);

  const std::string name_;
  const WorkOpener open_;
  mutable Mutex mu_;
  bool busy_ MR_GUARDED_BY(mu_) = false;  // an operation has the turn
  std::list<Attempt> line_ MR_GUARDED_BY(mu_);
  uint64_t next_id_ MR_GUARDED_BY(mu_) = 0;
  // Dequeued and not begun. More than one only after a Reset or RestoreState while a read waited.
  std::deque<std::string> to_do_ MR_GUARDED_BY(mu_);
  std::string work_ MR_GUARDED_BY(mu_);
  std::unique_ptr<WorkUnit> unit_ MR_GUARDED_BY(mu_);  // null between units of work
  int64_t started_ MR_GUARDED_BY(mu_) = 0;
  int64_t finished_ MR_GUARDED_BY(mu_) = 0;
  int64_t produced_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace
