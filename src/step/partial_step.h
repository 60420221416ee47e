// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "kernel/resource.h"
#include "millrace/ref.h"
#include "step/step_runner.h"

namespace millrace {

class LocalWorker;

// A step whose feeds are passed one by one while it runs and whose fetches are taken as they are computed:
// the graph was pruned with FeedConvention::kRendezvous. It has no thread of its own. It lives until it has
// ended, even without a reference to it. Thread-safe.
class PartialStep : public RefCounted {
 public:
  // The device of feeds and fetches: the client's device, as in PruneOptions.
  struct Border {
    std::string device;
    uint64_t incarnation = 0;
    LocalWorker* worker = nullptr;  // of that device
  };
  PartialStep(Border border, RefPtr<Rendezvous> rendezvous);
  // Begins soon, on the threads of request.inter_op_pool. All references outlive the step; a reference to
  // `owner` is held until it has ended.
  static StatusOr<RefPtr<PartialStep>> Start(StepRunner& runner, const CompiledStep& step,
                                             const StepRunner::Request& request, Border border,
                                             std::shared_ptr<const void> owner = nullptr);

  // `tensor` is canonical: "node:0". Each is fed once. Fails with the step's error when the step has failed,
  // for which it waits at most `timeout_in_ms` (0: no limit).
  Status Feed(const std::string& tensor, const Tensor& value, int64_t timeout_in_ms);
  // Waits for the tensors, which are fetched once; at most `timeout_in_ms` (0: no limit). Fails with the
  // step's error when the step fails first.
  Status Fetch(std::span<const std::string> tensors, int64_t timeout_in_ms, std::vector<Tensor>* values);
  // Waits for the end of the step; returns its error.
  Status Wait(int64_t timeout_in_ms) MR_EXCLUDES(mu_);
  // Cancels the step. Does not wait.
  void Cancel(const Status& why) MR_EXCLUDES(mu_);
  // The session keeps tensors that the step offers for these fetches, which have been taken.
  void KeepSessionTensors(std::span<const std::string> fetches);

 private:
  void Ended(const Status& status) MR_EXCLUDES(mu_);
  // The cause of `status` of a failed exchange: unless Cancel was called, the step's own error, which a
  // rendezvous of several tasks may not know.
  Status Cause(const Status& status, int64_t timeout_in_ms) MR_EXCLUDES(mu_);

  const Border border_;
  const RefPtr<Rendezvous> rendezvous_;
  CancellationManager cancellation_;
  ResourceManager step_resources_{"the container of a partial run"};
  Mutex mu_;
  CondVar ended_;
  bool done_ MR_GUARDED_BY(mu_) = false;
  bool cancelled_ MR_GUARDED_BY(mu_) = false;
  Status status_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
