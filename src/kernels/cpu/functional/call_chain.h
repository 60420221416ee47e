// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <span>
#include <utility>

#include "base/notification.h"
#include "base/step_cancelled.h"
#include "base/thread_pool.h"
#include "device/copy.h"
#include "kernel/function_caller.h"
#include "kernel/kernel_context.h"
#include "kernel/op_kernel.h"

namespace millrace {

// Calls functions one after the other until there is none left or one fails; between the calls, values can be
// brought to other memory. Owns itself until it has called `done`.
class CallChain {
 public:
  // `done` null: no called function has to wait, and Run runs all of them.
  CallChain(FunctionCaller& caller, KernelContext& context, AsyncOpKernel::Done done)
      : caller_(caller), context_(context), done_(std::move(done)) {}
  virtual ~CallChain() = default;
  CallChain(const CallChain&) = delete;
  CallChain& operator=(const CallChain&) = delete;

  Status Run() {
    while (true) {
      const Next next = Prepare(std::move(ended_));
      if (next.ends()) return std::move(result_);
      if (context_.cancellation().IsCancelled()) return StepCancelled();
      if (next.moved != nullptr) {
        Notification there;
        Move(next, [&there] { there.Notify(); });
        there.Wait();
      } else {
        ended_ = caller_.Call(*next.function, context_.step(), next.args, next.rets);
      }
    }
  }
  // Runs what can run now; the rest follows on the threads on which the calls end.
  void Go() {
    while (true) {
      const Next next = Prepare(std::move(ended_));
      if (next.ends()) return Finish(std::move(result_));
      if (context_.cancellation().IsCancelled()) return Finish(StepCancelled());
      second_.store(false, std::memory_order_relaxed);
      // The second one, this thread or the one that ends the call, continues. acq_rel: it sees what the
      // first one wrote.
      if (next.moved != nullptr) {
        Move(next, [this] {
          if (second_.exchange(true, std::memory_order_acq_rel)) Resume();
        });
      } else {
        caller_.CallAsync(*next.function, context_.step(), next.args, next.rets, [this](Status ended) {
          ended_ = std::move(ended);
          if (second_.exchange(true, std::memory_order_acq_rel)) Go();
        });
      }
      if (!second_.exchange(true, std::memory_order_acq_rel)) return;
    }
  }

 protected:
  struct Next {
    bool ends() const { return function == nullptr && moved == nullptr; }

    const FunctionCaller::Function* function = nullptr;  // null, as `moved`: the chain ends with result_
    std::span<const Tensor* const> args = {};
    std::span<Tensor> rets = {};
    // Instead of a call: this tensor becomes its copy in the memory of `to`; null: host memory.
    Tensor* moved = nullptr;
    Device* to = nullptr;
  };
  // Takes the result of the previous call or move (OK at first) and returns the next one.
  virtual Next Prepare(Status ended) = 0;
  Next End(Status result) {
    result_ = std::move(result);
    return {};
  }
  KernelContext& context() { return context_; }

 private:
  void Move(const Next& next, UniqueFunction<void()> moved) {
    Allocator& allocator = next.to == nullptr ? context_.host_allocator() : next.to->allocator();
    BringTensor(*next.moved, next.to, allocator,
                [this, tensor = next.moved, moved = std::move(moved)](StatusOr<Tensor> copy) mutable {
                  ended_ = copy.status();
                  if (copy.ok()) *tensor = *std::move(copy);
                  moved();
                });
  }
  // Continues from a thread of a device, which must not be kept.
  void Resume() {
    ThreadPool* const pool = context_.step().inter_op_pool;
    if (pool == nullptr) return Go();
    pool->Schedule([this] { Go(); });
  }
  void Finish(Status status) {
    AsyncOpKernel::Done done = std::move(done_);
    delete this;
    done(std::move(status));
  }

  FunctionCaller& caller_;
  KernelContext& context_;
  AsyncOpKernel::Done done_;
  Status ended_;
  Status result_;
  std::atomic<bool> second_{false};
};

}  // namespace millrace
