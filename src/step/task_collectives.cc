// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/task_collectives.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "step/task_steps.h"
#include "step/worker.h"

namespace millrace {
namespace {

// The number of steps by which a leader that does not run them itself may be behind.
constexpr uint64_t kMostBehind = 1'000'000;

uint64_t Distance(int64_t a, int64_t b) {
  return a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
               : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
}

std::string_view TaskOf(std::string_view device) { return device.substr(0, device.find("/device:")); }

std::string FullKey(std::string_view key, std::string_view from, std::string_view to) {
  return StrCat(key, ";", from, ";", to);
}

// The error that other members get for an error at `task`. It is not a cancellation.
Status ErrorOfMember(const std::string& task, const Status& status) {
  if (status.ok() || IsDerived(status)) return status;
  const ErrorCode code = errors::IsCancelled(status) ? ErrorCode::kAborted : status.code();
  return MakeDerived(Status(code, StrCat("Collective member ", task, ": ", status.message())));
}

}  // namespace

bool IsCollective(const Node& node) {
  return node.op_def().is_stateful && node.attrs().Find("group_key") != nullptr &&
         node.attrs().Find("instance_key") != nullptr;
}

class TaskCollectives::Step : public StepCollectives {
 public:
  Step(TaskCollectives& of, int64_t id) : of_(of), id_(id) {}
  void SetLeader(std::string_view leader) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    leader_ = leader;
  }

  void Join(const CollectiveMember& member, Joined done) override MR_EXCLUDES(mu_) {
    const auto finish = std::make_shared<Joined>(std::move(done));
    const int64_t number = Wait([finish](const Status& why) { (*finish)(why); });
    if (number < 0) return;
    std::string leader;
    {
      MutexLock lock(mu_);
      leader = leader_;
    }
    const RefPtr<Step> self = ShareRef(this);
    CollectiveGroups::Completed complete = [self, number, member, leader,
                                            finish](StatusOr<std::vector<std::string>> devices) {
      if (!devices.ok()) return self->Fail(number, devices.status());
      self->JoinInstance(number, member, leader, *std::move(devices), finish);
    };
    if (of_.IsHere(leader)) return of_.groups_.CompleteGroup(member, std::move(complete));
    if (of_.peers_ == nullptr) return Fail(number, NoTask(leader));
    of_.peers_->CompleteGroup(leader, member, cancellation_, std::move(complete));
  }

  void Provide(std::string_view key, std::string_view from, std::string_view to, Tensor buffer,
               Done taken) override MR_EXCLUDES(mu_) {
    const std::string full = FullKey(key, from, to);
    Fetched taker;
    Status status;
    {
      MutexLock lock(mu_);
      status = aborted_;
      if (status.ok()) {
        if (const auto it = takers_.find(full); it != takers_.end()) {
          taker = std::move(it->second);
          takers_.erase(it);
        } else if (offers_.contains(full)) {
          status = errors::Internal("Collective buffer ", full, " is offered twice");
        } else {
          offers_.emplace(full, Offer{buffer, std::string(to), std::move(taken)});
          return;
        }
      }
    }
    if (!status.ok()) return taken(std::move(status));
    taker(Status(), std::move(buffer));
    taken(Status());
  }

  // Fetches from the buffers that are offered at this task.
  void FetchHere(const std::string& full, Fetched done) MR_EXCLUDES(mu_) {
    Offer offer;
    Status status;
    {
      MutexLock lock(mu_);
      status = aborted_;
      if (status.ok()) {
        const auto it = offers_.find(full);
        if (it == offers_.end()) {
          // A repeated request replaces the first one, whose caller has died.
          takers_[full] = std::move(done);
          return;
        }
        offer = std::move(it->second);
        offers_.erase(it);
      }
    }
    if (!status.ok()) return done(std::move(status), Tensor());
    done(Status(), std::move(offer.buffer));
    offer.taken(Status());
  }

  void Fetch(std::string_view key, std::string_view from, std::string_view to, DataType dtype,
             int64_t num_elements, Fetched done) override MR_EXCLUDES(mu_) {
    auto checked = [dtype, num_elements, full = FullKey(key, from, to), finish = std::move(done)](
                       Status status, Tensor buffer) mutable {
      if (status.ok() && (buffer.dtype() != dtype || buffer.num_elements() != num_elements)) {
        status = errors::Internal("Collective buffer ", full, " has ", buffer.num_elements(), " elements of ",
                                  DataTypeName(buffer.dtype()), ", expected ", num_elements, " of ",
                                  DataTypeName(dtype));
      }
      finish(std::move(status), std::move(buffer));
    };
    if (TaskOf(from) == of_.task_) return FetchHere(FullKey(key, from, to), std::move(checked));
    const auto finish = std::make_shared<Fetched>(std::move(checked));
    const int64_t number = Wait([finish](const Status& why) { (*finish)(why, Tensor()); });
    if (number < 0) return;
    if (of_.peers_ == nullptr) return Fail(number, NoTask(TaskOf(from)));
    of_.peers_->Fetch({id_, std::string(key), from, to, dtype, num_elements}, cancellation_,
                      [self = ShareRef(this), number, finish](Status status, Tensor buffer) {
                        if (self->Take(number)) (*finish)(std::move(status), std::move(buffer));
                      });
  }

  void Abort(const Status& status) override MR_EXCLUDES(mu_) {
    decltype(offers_) offers;
    decltype(takers_) takers;
    decltype(waits_) waits;
    {
      MutexLock lock(mu_);
      if (!aborted_.ok()) return;
      aborted_ = status;
      offers.swap(offers_);
      takers.swap(takers_);
      waits.swap(waits_);
    }
    for (auto& [key, offer] : offers) offer.taken(status);
    for (auto& [key, taker] : takers) taker(status, Tensor());
    for (auto& [number, fail] : waits) fail(status);
    cancellation_.StartCancel();
  }

  // See TaskCollectives. Nothing is ever offered under the requested key: the answer is the status with which
  // the step has ended there.
  void WatchTakers() MR_EXCLUDES(mu_) {
    std::set<std::string> devices;
    {
      MutexLock lock(mu_);
      for (const auto& [key, offer] : offers_) {
        if (TaskOf(offer.to) != of_.task_ && watched_.insert(offer.to).second) devices.insert(offer.to);
      }
    }
    for (const std::string& device : devices) {
      of_.peers_->Fetch({id_, "end", device, of_.task_, DataType::kUint8, 0}, cancellation_,
                        [self = ShareRef(this), device](const Status& status, const Tensor&) {
                          if (self->OffersTo(device))
                            self->Abort(ErrorOfMember(std::string(TaskOf(device)), status));
                        });
    }
  }

 private:
  struct Offer {
    Tensor buffer;
    std::string to;  // the device
    Done taken;
  };
  using Failure = UniqueFunction<void(const Status&)>;

  static Status NoTask(std::string_view task) {
    return errors::Internal("A collective operation needs task ", task, ", which is not in this session");
  }

  bool OffersTo(const std::string& device) const MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return std::any_of(offers_.begin(), offers_.end(),
                       [&](const auto& offer) { return offer.second.to == device; });
  }
  // Registers a callback for an abort. If the step has already been aborted, calls it and returns -1.
  int64_t Wait(Failure fail) MR_EXCLUDES(mu_) {
    Status why;
    {
      MutexLock lock(mu_);
      why = aborted_;
      if (why.ok()) {
        waits_.emplace(next_wait_, std::move(fail));
        return next_wait_++;
      }
    }
    fail(why);
    return -1;
  }
  bool Take(int64_t number) MR_EXCLUDES(mu_) {
    Failure dropped;  // destroyed after the lock is released
    MutexLock lock(mu_);
    const auto it = waits_.find(number);
    if (it == waits_.end()) return false;
    dropped = std::move(it->second);
    waits_.erase(it);
    return true;
  }
  void Fail(int64_t number, const Status& status) MR_EXCLUDES(mu_) {
    Failure fail;
    {
      MutexLock lock(mu_);
      const auto it = waits_.find(number);
      if (it == waits_.end()) return;
      fail = std::move(it->second);
      waits_.erase(it);
    }
    fail(status);
  }

  void JoinInstance(int64_t number, const CollectiveMember& member, const std::string& leader,
                    std::vector<std::string> devices, const std::shared_ptr<Joined>& finish) {
    const auto own = std::find(devices.begin(), devices.end(), member.device);
    if (own == devices.end())
      return Fail(number, errors::Internal("The group has no device ", member.device));
    CollectiveGroup group{std::move(devices), 0, -1};
    group.rank = static_cast<int>(own - group.devices.begin());
    CollectiveGroups::Source complete = [self = ShareRef(this), number, finish,
                                         group](StatusOr<int> source) mutable {
      if (!source.ok()) return self->Fail(number, source.status());
      group.source_rank = *source;
      if (self->Take(number)) (*finish)(std::move(group));
    };
    if (of_.IsHere(leader)) return of_.groups_.CompleteInstance(member, std::move(complete));
    of_.peers_->CompleteInstance(leader, member, cancellation_, std::move(complete));
  }

  TaskCollectives& of_;  // outlives the steps
  const int64_t id_;
  CancellationManager cancellation_;  // of calls, which hold this
  mutable Mutex mu_;
  std::string leader_ MR_GUARDED_BY(mu_);
  Status aborted_ MR_GUARDED_BY(mu_);
  std::map<std::string, Offer> offers_ MR_GUARDED_BY(mu_);
  std::map<std::string, Fetched> takers_ MR_GUARDED_BY(mu_);
  std::set<std::string> watched_ MR_GUARDED_BY(mu_);  // devices whose end will be reported here
  int64_t next_wait_ MR_GUARDED_BY(mu_) = 0;
  std::map<int64_t, Failure> waits_ MR_GUARDED_BY(mu_);
};

TaskCollectives::TaskCollectives(std::string task)
    : task_(std::move(task)), incarnation_(StepIds::NextShared()) {}

TaskCollectives::~TaskCollectives() {
  for (const RefPtr<Step>& step : Steps()) step->Abort(errors::Cancelled("The task is shutting down"));
}

StatusOr<RefPtr<TaskCollectives::Step>> TaskCollectives::Find(int64_t step_id) {
  MutexLock lock(mu_);
  if (const auto it = ended_.find(step_id); it != ended_.end()) {
    if (!it->second.ok()) return it->second;
    return errors::Aborted("Step ", step_id, " has ended at ", task_);
  }
  if (Missed(step_id)) return errors::Aborted("Step ", step_id, " will not be run by ", task_);
  RefPtr<Step>& step = steps_[step_id];
  if (step == nullptr) step = MakeRef<Step>(*this, step_id);
  return step;
}

bool TaskCollectives::Missed(int64_t step_id) const {
  if (own_.contains(step_id)) return false;
  return std::any_of(last_steps_.begin(), last_steps_.end(), [&](const auto& last) {
    const int64_t number = last.second.number;
    return step_id < number && Distance(step_id, number) < kMostBehind;
  });
}

StatusOr<RefPtr<StepCollectives>> TaskCollectives::Begin(int64_t step_id, std::string_view leader) {
  MR_ASSIGN_OR_RETURN(RefPtr<Step> step, Find(step_id));
  step->SetLeader(leader);
  return RefPtr<StepCollectives>(std::move(step));
}

void TaskCollectives::End(int64_t step_id, const Status& status) {
  RefPtr<Step> step;
  {
    MutexLock lock(mu_);
    if (ended_.emplace(step_id, status).second) {
      ended_order_.push_back(step_id);
      if (ended_order_.size() > kRemembered) {
        ended_.erase(ended_order_.front());
        ended_order_.pop_front();
      }
    }
    own_.erase(step_id);
    const auto it = steps_.find(step_id);
    if (it == steps_.end()) return;
    step = std::move(it->second);
    steps_.erase(it);
  }
  step->Abort(status.ok() ? errors::Aborted("Step ", step_id, " has ended at ", task_) : status);
}

void TaskCollectives::FetchHere(int64_t step_id, const std::string& key, std::string_view from,
                                std::string_view to, Fetched done) {
  const StatusOr<RefPtr<Step>> step = Find(step_id);
  if (!step.ok()) return done(ErrorOfMember(task_, step.status()), Tensor());
  (*step)->FetchHere(FullKey(key, from, to),
                     [task = task_, finish = std::move(done)](const Status& status, Tensor buffer) mutable {
                       finish(ErrorOfMember(task, status), std::move(buffer));
                     });
}

StatusOr<int64_t> TaskCollectives::NextStep(std::string_view leader, int64_t graph_key) {
  StepTaker taker{task_, incarnation_};
  {
    MutexLock lock(mu_);
    const auto last = last_steps_.find(graph_key);
    if (last != last_steps_.end()) {
      taker.last = last->second.number;
      taker.last_failed = last->second.failed;
    }
  }
  CollectivePeers::NumberedStep numbered;
  if (IsHere(leader)) {
    numbered = {sequences_.Next(graph_key, taker), true};
  } else if (peers_ == nullptr) {
    return errors::FailedPrecondition("A session without a cluster has no leader of collective groups ",
                                      leader);
  } else {
    MR_ASSIGN_OR_RETURN(numbered, peers_->NextStep(leader, graph_key, taker));
  }
  int64_t next = numbered.number;
  std::vector<RefPtr<Step>> missed;
  {
    MutexLock lock(mu_);
    LastStep& last = last_steps_[graph_key];
    // The leader may not have ended the step that this task has ended, or may be ahead of this task.
    const bool known = last.number != 0 && Distance(next, last.number) < kMostBehind;
    if (known && (next <= last.number || (!numbered.for_taker && !last.failed))) next = last.number + 1;
    last = {next, false};
    own_.insert(next);
    // Others may wait for steps in between, which the leader has run and this task has not.
    std::erase_if(steps_, [&](const auto& entry) MR_REQUIRES(mu_) {
      if (!Missed(entry.first)) return false;
      missed.push_back(entry.second);
      return true;
    });
  }
  for (const RefPtr<Step>& step : missed)
    step->Abort(errors::Aborted("This step will not be run by ", task_));
  return next;
}

void TaskCollectives::Retire(std::string_view leader, int64_t graph_key, int64_t step_id,
                             const Status& status) {
  if (IsHere(leader)) sequences_.Retire(graph_key, step_id);
  MutexLock lock(mu_);
  LastStep& last = last_steps_[graph_key];
  if (last.number == step_id) last.failed = !status.ok();
  own_.erase(step_id);
}

std::vector<RefPtr<TaskCollectives::Step>> TaskCollectives::Steps() const {
  std::vector<RefPtr<Step>> steps;
  MutexLock lock(mu_);
  for (const auto& [id, step] : steps_) steps.push_back(step);
  return steps;
}

void TaskCollectives::WatchTakers() {
  if (peers_ == nullptr) return;
  for (const RefPtr<Step>& step : Steps()) step->WatchTakers();
}

size_t TaskCollectives::size() const {
  MutexLock lock(mu_);
  return steps_.size();
}

}  // namespace millrace
