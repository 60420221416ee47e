// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/waiting_resource.h"

#include <algorithm>

namespace millrace {

bool WaitingResource::RunNow(Attempt& attempt, Status* status) {
  std::vector<Finished> finished;
  {
    MutexLock lock(mu_);
    if (in_order_ && !waiting_.empty()) return false;
    if (!Try(attempt, status)) return false;
    if (!waiting_.empty()) AdvanceAll(&finished);
  }
  Finish(finished);
  return true;
}

void WaitingResource::Submit(Attempt attempt, CancellationManager& cancellation) {
  std::vector<Finished> finished;
  {
    MutexLock lock(mu_);
    const uint64_t id = attempt.id = next_id_++;
    attempt.cancellation = &cancellation;
    waiting_.push_back(std::move(attempt));
    AdvanceAll(&finished);
    if (!waiting_.empty() && waiting_.back().id == id) {
      // Registered under the lock, so that the callback finds the attempt.
      Attempt& mine = waiting_.back();
      mine.token = cancellation.Register([self = ShareRef(this), id] { self->Cancel(id); });
      if (mine.token == CancellationManager::kInvalidToken) {
        Status cancelled = CancelledStatus(mine);
        finished.push_back({std::move(mine), std::move(cancelled)});
        waiting_.pop_back();
      }
    }
  }
  Finish(finished);
}

void WaitingResource::AdvanceAll(std::vector<Finished>* finished) {
  // An attempt that continues may allow earlier ones to continue.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      Status status;
      if (Try(*at, &status)) {
        finished->push_back({std::move(*at), std::move(status)});
        at = waiting_.erase(at);
        changed = true;
      } else if (in_order_) {
        return;
      } else {
        ++at;
      }
    }
  }
}

void WaitingResource::Cancel(uint64_t id) {
  std::vector<Finished> finished;
  {
    MutexLock lock(mu_);
    const auto at =
        std::find_if(waiting_.begin(), waiting_.end(), [id](const Attempt& a) { return a.id == id; });
    if (at == waiting_.end()) return;
    Status cancelled = CancelledStatus(*at);
    finished.push_back({std::move(*at), std::move(cancelled)});
    waiting_.erase(at);
    AdvanceAll(&finished);
  }
  Finish(finished);
}

void WaitingResource::Finish(std::vector<Finished>& finished) {
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

}  // namespace millrace
