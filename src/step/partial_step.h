// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "step/step_runner.h"

namespace millrace {

class LocalRendezvous;

// A step whose feeds come one after the other while it runs and whose fetches are taken as they are made: the
// graph was pruned with FeedConvention::kRendezvous. It runs on a thread of its own, which mostly waits.
// Thread-safe.
class PartialStep {
 public:
  // Of feeds and fetches: the client's device, as PruneOptions has it.
  struct Border {
    std::string device;
    uint64_t incarnation = 0;
  };
  // All references outlive this. ResourceExhausted when the system has no thread to give.
  static StatusOr<std::unique_ptr<PartialStep>> Start(StepRunner& runner, const CompiledStep& step,
                                                      const StepRunner::Request& request, Border border);
  // Stops the step if it still runs, and waits for its end.
  ~PartialStep();

  // `tensor` is canonical: "node:0". Each is fed once.
  Status Feed(const std::string& tensor, const Tensor& value);
  // Waits for the tensors, which are fetched once; at most `timeout_in_ms` (0: for ever). Fails with the
  // step's error when the step fails first.
  Status Fetch(std::span<const std::string> tensors, int64_t timeout_in_ms, std::vector<Tensor>* values);
  // Waits for the end of the step; its error.
  Status Wait(int64_t timeout_in_ms) MR_EXCLUDES(mu_);
  // Makes the step end early. Does not wait.
  void Cancel(const Status& why);

 private:
  PartialStep(StepRunner& runner, const CompiledStep& step, const StepRunner::Request& request,
              Border border);
  void Run() MR_EXCLUDES(mu_);

  StepRunner& runner_;
  const CompiledStep& step_;
  StepRunner::Request request_;
  const Border border_;
  const RefPtr<LocalRendezvous> rendezvous_;
  CancellationManager cancellation_;
  std::thread thread_;
  Mutex mu_;
  CondVar ended_;
  bool done_ MR_GUARDED_BY(mu_) = false;
  Status status_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
