// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/io/reader.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "tensorflow/core/framework/reader_base.pb.h"

namespace millrace {
namespace {

constexpr int kOffsetField = 100, kIndexField = 101;

ReaderPosition PositionOf(const tensorflow::ReaderBaseState& state) {
  ReaderPosition position;
  const google::protobuf::UnknownFieldSet& fields = state.GetReflection()->GetUnknownFields(state);
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.type() != google::protobuf::UnknownField::TYPE_VARINT) continue;
    if (field.number() == kOffsetField) position.offset = field.varint();
    if (field.number() == kIndexField) position.index = field.varint();
  }
  return position;
}

}  // namespace

bool Reader::RunNow(Attempt& attempt, Status* status) {
  MutexLock lock(mu_);
  return !busy_ && Advance(attempt, status);
}

void Reader::Submit(Attempt attempt, CancellationManager& cancellation) {
  attempt.cancellation = &cancellation;
  bool cancelled = false;
  {
    MutexLock lock(mu_);
    if (busy_) {
      const uint64_t id = attempt.id = next_id_++;
      // Registered under the lock, so that the callback finds the attempt in the line.
      attempt.token = cancellation.Register([self = ShareRef(this), id] { self->LeaveLine(id); });
      cancelled = attempt.token == CancellationManager::kInvalidToken;
      if (!cancelled) {
        line_.push_back(std::move(attempt));
        return;
      }
    } else {
      busy_ = true;
    }
  }
  if (!cancelled) return Drive(std::move(attempt));
  auto done = std::move(attempt.done);
  done(errors::Cancelled("Read operation was cancelled"), attempt);
}

void Reader::LeaveLine(uint64_t id) {
  std::optional<Attempt> left;
  {
    MutexLock lock(mu_);
    const auto at = std::find_if(line_.begin(), line_.end(), [id](const Attempt& a) { return a.id == id; });
    if (at == line_.end()) return;
    left = std::move(*at);
    line_.erase(at);
  }
  auto done = std::move(left->done);
  done(errors::Cancelled("Read operation was cancelled"), *left);
}

std::optional<Reader::Attempt> Reader::NextInLine() {
  std::optional<Attempt> next;
  {
    MutexLock lock(mu_);
    if (line_.empty()) {
      busy_ = false;
      return next;
    }
    next = std::move(line_.front());
    line_.pop_front();
  }
  // If its callback runs now, it finds nothing. The queue reports a cancelled step.
  next->cancellation->TryDeregister(next->token);
  return next;
}

void Reader::Drive(Attempt attempt) {
  const RefPtr<Reader> self = ShareRef(this);  // the step of the last attempt may hold the only reference
  std::optional<Attempt> current = std::move(attempt);
  while (current) {
    Status status;
    if (!RunTurn(*current, &status)) return;
    std::optional<Attempt> next = NextInLine();
    auto done = std::move(current->done);
    done(status, *current);
    current = std::move(next);
  }
}

bool Reader::RunTurn(Attempt& attempt, Status* status) {
  for (;;) {
    {
      MutexLock lock(mu_);
      if (Advance(attempt, status)) return true;
    }
    if (attempt.cancellation->IsCancelled()) {
      *status = errors::Cancelled("Read operation was cancelled");
      return true;
    }
    Queue& queue = *attempt.queue;
    Queue::Attempt take;
    take.action = Queue::Action::kDequeue;
    if (queue.RunNow(take, status)) {
      if (status->ok()) *status = AddWork(take);
      if (!status->ok()) return true;
      continue;
    }
    CancellationManager& cancellation = *attempt.cancellation;
    const RefPtr<Queue> keep = attempt.queue;
    take.done = [self = ShareRef(this), a = std::move(attempt)](const Status& taken,
                                                                Queue::Attempt& t) mutable {
      Status result = taken.ok() ? self->AddWork(t) : taken;
      if (result.ok()) return self->Drive(std::move(a));
      std::optional<Attempt> next = self->NextInLine();
      auto done = std::move(a.done);
      done(result, a);
      if (next) self->Drive(*std::move(next));
    };
    keep->Submit(std::move(take), cancellation);
    return false;
  }
}

Status Reader::AddWork(const Queue::Attempt& taken) {
  if (taken.tensors.size() != 1) return errors::InvalidArgument("Expected single component queue");
  const Tensor& work = taken.tensors[0];
  if (work.dtype() != DataType::kString) {
    return errors::InvalidArgument("Expected queue with single string component");
  }
  if (work.num_elements() != 1) {
    return errors::InvalidArgument("Expected to dequeue a one-element string tensor");
  }
  MutexLock lock(mu_);
  to_do_.push_back(work.data<std::string>()[0]);
  return Status();
}

bool Reader::Advance(Attempt& attempt, Status* status) {
  for (;;) {
    if (unit_ == nullptr) {
      if (to_do_.empty()) return false;
      std::string work = std::move(to_do_.front());
      to_do_.pop_front();
      auto unit = open_(work, ReaderPosition());
      if (!unit.ok()) {
        *status = unit.status();
        return true;
      }
      work_ = std::move(work);
      unit_ = *std::move(unit);
      ++started_;
    }
    *status = ReadUnit(attempt);
    if (!status->ok() || !attempt.keys.empty()) return true;
  }
}

Status Reader::ReadUnit(Attempt& attempt) {
  bool more = true;
  while (more && static_cast<int64_t>(attempt.keys.size()) < attempt.wanted) {
    std::string key, value;
    MR_ASSIGN_OR_RETURN(more, unit_->Next(&key, &value));
    if (!more) break;
    attempt.keys.push_back(std::move(key));
    attempt.values.push_back(std::move(value));
    ++produced_;
    more = !unit_->finished();
  }
  if (!more) {
    unit_ = nullptr;
    finished_ = started_;
  }
  return Status();
}

int64_t Reader::records_produced() const {
  MutexLock lock(mu_);
  return produced_;
}

int64_t Reader::work_units_completed() const {
  MutexLock lock(mu_);
  return finished_;
}

std::string Reader::SerializeState() const {
  MutexLock lock(mu_);
  tensorflow::ReaderBaseState state;
  state.set_work_started(started_);
  state.set_work_finished(finished_);
  state.set_num_records_produced(produced_);
  state.set_current_work(work_);
  if (unit_ != nullptr) {
    const ReaderPosition position = unit_->position();
    google::protobuf::UnknownFieldSet* const fields = state.GetReflection()->MutableUnknownFields(&state);
    if (position.offset > 0) fields->AddVarint(kOffsetField, position.offset);
    if (position.index > 0) fields->AddVarint(kIndexField, position.index);
  }
  return state.SerializeAsString();
}

Status Reader::RestoreState(std::string_view bytes) {
  MutexLock lock(mu_);
  ResetLocked();
  tensorflow::ReaderBaseState state;
  if (bytes.size() > INT32_MAX || !state.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    constexpr size_t kMostShown = 1024;
    return errors::InvalidArgument("Could not parse state for ", name_, ": ",
                                   CEscape(bytes.substr(0, kMostShown)));
  }
  if (state.work_started() < 0 || state.work_finished() < 0 || state.num_records_produced() < 0) {
    return errors::InvalidArgument("Unexpected negative value when restoring in ", name_, ": ",
                                   state.ShortDebugString());
  }
  if (state.work_started() < state.work_finished()) {
    return errors::InvalidArgument("Inconsistent work started vs. finished when restoring in ", name_, ": ",
                                   state.ShortDebugString());
  }
  if (state.work_started() > state.work_finished()) {
    MR_ASSIGN_OR_RETURN(unit_, open_(state.current_work(), PositionOf(state)));
  }
  started_ = state.work_started();
  finished_ = state.work_finished();
  produced_ = state.num_records_produced();
  work_ = state.current_work();
  return Status();
}

void Reader::Reset() {
  MutexLock lock(mu_);
  ResetLocked();
}

void Reader::ResetLocked() {
  unit_ = nullptr;
  work_.clear();
  to_do_.clear();
  started_ = finished_ = produced_ = 0;
}

std::string Reader::DebugString() const {
  MutexLock lock(mu_);
  return StrCat("Reader '", name_, "', ", produced_, " records of ", started_, " units of work");
}

}  // namespace millrace
