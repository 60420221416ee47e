// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/blocking_kernel.h"

#include <chrono>
#include <memory>
#include <new>

#include "base/denormals.h"
#include "base/fork.h"
#include "base/waiting_threads.h"

namespace millrace {
namespace {

// Several times the cost of running a call on another thread.
constexpr auto kSlow = std::chrono::microseconds(300);

// More than a correct program has waiting for each other.
constexpr int kMostThreads = 4096;

thread_local BlockingHost* current_host = nullptr;

// Never destroyed, since a kernel may still run when the process ends.
struct BlockingThreads : WaitingThreads {
  BlockingThreads() : WaitingThreads(kMostThreads) {}
};

}  // namespace

ScopedBlockingHost::ScopedBlockingHost(BlockingHost* host) : before_(std::exchange(current_host, host)) {}
ScopedBlockingHost::~ScopedBlockingHost() { current_host = before_; }

bool RunInBlockingThread(UniqueFunction<void()>& work) {
  return OfProcess<BlockingThreads>().TrySchedule(work);
}

void BlockingKernel::ComputeAsync(KernelContext& context, Done done) {
  BlockingCall call(*this, context, std::move(done));
  // What the kernel itself starts has its own hosts.
  BlockingHost* const host = current_host;
  if (host != nullptr && host->Take(call)) return;
  BlockingCall::RunInThread(std::move(call));
}

Status BlockingCall::Compute() {
  const ScopedBlockingHost none(nullptr);
  const auto start = std::chrono::steady_clock::now();
  Status status;
  try {
    status = kernel_->ComputeBlocking(*context_);
  } catch (const std::bad_alloc&) {
    status = errors::ResourceExhausted("Out of memory in a kernel of ", kernel_->op_name());
  }
  const bool slow = std::chrono::steady_clock::now() - start > kSlow;
  if (slow != this->slow()) kernel_->slow_.store(slow, std::memory_order_relaxed);  // a hint
  return status;
}

void BlockingCall::RunInThread(BlockingCall call) {
  auto owned = std::make_unique<BlockingCall>(std::move(call));
  UniqueFunction<void()> work = [call = owned.get()] {
    const std::unique_ptr<BlockingCall> owner(call);
    const ScopedFlushDenormals flush;
    owner->Finish(owner->Compute());
  };
  if (RunInBlockingThread(work)) {
    owned.release();  // NOLINT(bugprone-unused-return-value): the thread has it
    return;
  }
  const BlockingKernel& kernel = *owned->kernel_;
  owned->Finish(errors::ResourceExhausted("No further thread for a kernel of ", kernel.op_name(),
                                          ", which may block: the process has up to ", kMostThreads,
                                          " of them"));
}

}  // namespace millrace
