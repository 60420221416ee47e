// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <utility>

#include "base/function.h"
#include "kernel/op_kernel.h"

namespace millrace {

class BlockingCall;

// A kernel that may hold its thread until something else of the same step has happened: the code of programs,
// of which the engine knows nothing. Its calls run where nothing else has to wait for them.
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
  // Blocks the calling thread as long as the kernel does.
  Status Compute();
  // Once, after Compute.
  void Finish(Status status) { done_(std::move(status)); }
  // Computes and finishes in a thread for the purpose; with an error when there can be no further thread.
  static void RunInThread(BlockingCall call);

 private:
  BlockingKernel* kernel_;
  KernelContext* context_;
  AsyncOpKernel::Done done_;
};

// Has `work` run by a thread that may block: one that is idle, or a new one. False, and `work` is as it was,
// when there can be no further thread. Threads end when they are idle for some seconds.
bool RunInBlockingThread(UniqueFunction<void()>& work);

// Where calls may run instead of in threads of their own.
class BlockingHost {
 public:
  virtual ~BlockingHost() = default;
  // Takes the call, which then runs in a thread that has nothing else to do; or returns false.
  virtual bool Take(BlockingCall& call) = 0;
};

// The host of the kernels that the calling thread starts while this lives; null: none.
class ScopedBlockingHost {
 public:
  explicit ScopedBlockingHost(BlockingHost* host);
  ~ScopedBlockingHost();
  ScopedBlockingHost(const ScopedBlockingHost&) = delete;
  ScopedBlockingHost& operator=(const ScopedBlockingHost&) = delete;

 private:
  BlockingHost* const before_;
};

// Runs each call at once in the thread that starts it: for callers that would wait for its end.
class RunsBlockingCallsHere final : public BlockingHost {
 public:
  bool Take(BlockingCall& call) override {
    call.Finish(call.Compute());
    return true;
  }
};

}  // namespace millrace
