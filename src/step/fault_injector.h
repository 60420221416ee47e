// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "base/mutex.h"
#include "kernel/op_kernel.h"
#include "millrace/status.h"
#include "step/worker.h"

namespace millrace {

struct FaultOptions {
  bool delays = false;   // random kernels start late, and asynchronous ones can't be tried at once
  bool aborts = false;   // Runs that can be repeated are first aborted at a random kernel
  bool by_hand = false;  // only aborts requested by AbortAt
  uint64_t seed = 1;
  bool any() const { return delays || aborts || by_hand; }
};

// Injects faults into the steps of one worker, for tests: decorators around kernels and partitions, so that a
// worker without it has no cost. Outlives the objects that it has wrapped. Thread-safe.
class FaultInjector {
 public:
  static constexpr std::string_view kAbortText = "Aborted on purpose";
  enum class AbortKind {
    kError,   // the kernel fails with Aborted and kAbortText
    kCancel,  // the kernel runs, but its step is cancelled
  };

  explicit FaultInjector(const FaultOptions& options) : options_(options) {}

  std::shared_ptr<OpKernel> Wrap(std::shared_ptr<OpKernel> kernel, KernelConstruction& construction);
  std::unique_ptr<InstalledPartition> Wrap(std::unique_ptr<InstalledPartition> partition, bool repeatable);
  // Whether a step of the graph has no effects that another step can observe.
  static bool IsRepeatable(const Graph& graph);

  // The kernel that starts after `n` others of the step aborts it. Step kAnyStep: of any
  // step.
  static constexpr int64_t kAnyStep = 0;
  void AbortAt(int64_t n, AbortKind kind, int64_t step_id = kAnyStep) MR_EXCLUDES(mu_);
  // Ends that; true if it has happened.
  bool Disarm(int64_t step_id = kAnyStep) MR_EXCLUDES(mu_);

 private:
  class Calls;
  class SyncKernel;
  class AsyncKernel;
  class AbortedFirst;
  struct Abort {
    int64_t countdown = 0;
    AbortKind kind = AbortKind::kError;
    bool happened = false;
  };

  Status AbortIfDue(const KernelContext& context) MR_EXCLUDES(mu_);

  const FaultOptions options_;
  std::atomic<int64_t> next_step_id_{-1};  // of steps to be aborted: below all others
  std::atomic<int> num_armed_{0};
  Mutex mu_;
  std::map<int64_t, Abort> armed_ MR_GUARDED_BY(mu_);  // by step id
};

}  // namespace millrace
