// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <utility>

#include "base/function.h"
#include "kernel/op_kernel.h"

namespace millrace {

class BlockingCall;

// A kernel that may block its thread until something else in the same step has happened: user code, which the
// engine has no control of. Its calls run on threads that no other work has to wait for.
class BlockingKernel : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(KernelContext& context, Done done) final;
  // Whether the kernel of a stateless op may also run while a graph is built.
  virtual bool evaluates_constants() const { return false; }

 private:
  friend class BlockingCall;
  // As OpKernel::Compute, but it may block.
  virtual Status ComputeBlocking(KernelContext& context) = 0;

  std::atomic<bool> slow_{false};  // the last call took long
};

// One call of such a kernel. One thread at a time.
class BlockingCall {
 public:
  BlockingCall(BlockingKernel& kernel, KernelContext& context, AsyncOpKernel::Done done)
      : kernel_(&kernel), context_(&context), done_(std::move(done)) {}

  // Whether the kernel's last call took so long that this one is worth another thread.
  bool slow() const { return kernel_->slow_.load(std::memory_order_relaxed); }
  // Blocks the calling thread for the duration of the call.
  Status Compute();
  // To be called once, after Compute.
  void Finish(Status status) { done_(std::move(status)); }
  // Computes and finishes in a thread of its own; with an error when no further thread is possible.
  static void RunInThread(BlockingCall call);

 private:
  BlockingKernel* kernel_;
  KernelContext* context_;
  AsyncOpKernel::Done done_;
};

// Runs `work` on a thread that may block: an idle one, or a new one. False, and `work` is unchanged, when no
// further thread is possible. Threads end when they are idle for some seconds.
bool RunInBlockingThread(UniqueFunction<void()>& work);

// Runs calls in place of threads of their own.
class BlockingHost {
 public:
  virtual ~BlockingHost() = default;
  // Takes the call, which then runs on a thread that has nothing else to do; or returns false.
  virtual bool Take(BlockingCall& call) = 0;
};

// Sets the host of kernels that the calling thread starts during its lifetime; null: none.
class ScopedBlockingHost {
 public:
  explicit ScopedBlockingHost(BlockingHost* host);
  ~ScopedBlockingHost();
  ScopedBlockingHost(const ScopedBlockingHost&) = delete;
  ScopedBlockingHost& operator=(const ScopedBlockingHost&) = delete;

 private:
  BlockingHost* const before_;
};

// Runs each call at once on the thread that starts it: for callers that would wait for its end.
class RunsBlockingCallsHere final : public BlockingHost {
 public:
  bool Take(BlockingCall& call) override {
    call.Finish(call.Compute());
    return true;
  }
};

}  // namespace millrace
