// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Distributes the rows of batched results to their steps (Unbatch), and collects the gradients of those steps
// for the step that has the batch (UnbatchGrad). The steps meet in a resource that the nodes share.
#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "kernel/resource_op.h"
#include "kernels/cpu/batching/join.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

// The most tensors that wait for the step that takes them.
constexpr size_t kMostWaiting = size_t{1} << 16;
// Longer timeouts are clamped to this, to avoid overflow.
constexpr int64_t kLongestMicros = int64_t{1} << 50;

// A waiting step.
struct Waiter {
  KernelContext* context = nullptr;
  AsyncOpKernel::Done done;
  Clock::time_point deadline = {};
  CancellationManager::Token token = CancellationManager::kInvalidToken;
};

// Completes waits after the lock is released. Declared before the lock, so that it is destroyed after it.
class Endings {
 public:
  ~Endings() {
    for (auto& [waiter, status] : ended_) {
      // Doesn't wait for a running callback, which then finds nothing.
      if (waiter.token != CancellationManager::kInvalidToken) {
        waiter.context->cancellation().TryDeregister(waiter.token);
      }
      waiter.done(status);
    }
  }
  void Add(Waiter waiter, Status status) { ended_.emplace_back(std::move(waiter), std::move(status)); }

 private:
  std::vector<std::pair<Waiter, Status>> ended_;
};

Status CancelledStatus() { return errors::Cancelled("The step was cancelled before its batch was complete"); }
Status RemovedStatus() { return errors::Cancelled("The container of the batch was removed"); }
Status TooManyWaiting() {
  return errors::ResourceExhausted("More than ", kMostWaiting, " tensors of batches wait for their steps");
}

Status CheckIndex(const Tensor& index) {
  if (index.rank() != 2 || index.dim(1) != 3) {
    return errors::InvalidArgument(
        "Wrong shape for index tensor. Expected 1st dimension size to be 3 ; Got: ",
        index.rank() == 2 ? StrCat(index.dim(1)) : StrCat(index.shape()), ".");
  }
  return Status();
}

// The resource in which results and their steps meet.
class Unbatcher final : public Resource {
 public:
  explicit Unbatcher(int64_t timeout_micros)
      : timeout_(std::clamp<int64_t>(timeout_micros, 0, kLongestMicros)), state_(std::make_shared<State>()) {}
  ~Unbatcher() override { state_->Stop(); }
  std::string DebugString() const override { return "Unbatcher"; }

  // Distributes `pieces` by key, and waits for that of `key`.
  void Exchange(std::vector<std::pair<int64_t, Tensor>> pieces, int64_t key, Waiter waiter);

 private:
  struct State : std::enable_shared_from_this<State> {
    struct Piece {
      Tensor tensor;
      Clock::time_point deadline;
    };
    // After an error the waiter is unchanged.
    Status Exchange(std::vector<std::pair<int64_t, Tensor>>& pieces, int64_t key, Waiter& waiter,
                    Endings& endings) MR_REQUIRES(mu);
    void Cancel(int64_t key, const KernelContext* of) MR_EXCLUDES(mu);
    // Gives the tensor to the waiting step.
    static void Deliver(Waiter waiter, Tensor tensor, Endings& endings);
    void Stop() MR_EXCLUDES(mu);
    // Removes entries that have waited too long; returns the time of the next check.
    Clock::time_point Expire(Endings& endings) MR_REQUIRES(mu);
    void Work() MR_EXCLUDES(mu);

    Mutex mu;
    CondVar changed;
    std::map<int64_t, Piece> pieces MR_GUARDED_BY(mu);
    std::map<int64_t, Waiter> waiters MR_GUARDED_BY(mu);
    std::thread thread MR_GUARDED_BY(mu);
    bool stopping MR_GUARDED_BY(mu) = false;
  };
  const std::chrono::microseconds timeout_;
  const std::shared_ptr<State> state_;  // shared with the thread, so that the last reference may end there
};

void Unbatcher::Exchange(std::vector<std::pair<int64_t, Tensor>> pieces, int64_t key, Waiter waiter) {
  Endings endings;
  MutexLock lock(state_->mu);
  waiter.deadline = Clock::now() + timeout_;
  Status status = state_->Exchange(pieces, key, waiter, endings);
  if (!status.ok()) endings.Add(std::move(waiter), std::move(status));
}

Status Unbatcher::State::Exchange(std::vector<std::pair<int64_t, Tensor>>& parts, int64_t key, Waiter& waiter,
                                  Endings& endings) {
  if (const auto ready = pieces.find(key); ready != pieces.end()) {
    Deliver(std::move(waiter), std::move(ready->second.tensor), endings);
    pieces.erase(ready);
    return Status();
  }
  if (waiters.count(key) > 0) return errors::AlreadyExists("Multiple session runs with the same batch key.");
  std::set<int64_t> keys;
  for (const auto& [part, tensor] : parts) {
    if (pieces.count(part) > 0 || !keys.insert(part).second) {
      return errors::AlreadyExists("Multiple tensors returned for same batch key.");
    }
  }
  if (pieces.size() + parts.size() > kMostWaiting) return TooManyWaiting();
  if (!thread.joinable()) {
    try {
      thread = std::thread([self = shared_from_this()] { self->Work(); });
    } catch (const std::system_error& e) {
      return errors::ResourceExhausted("No thread for the timeouts of batches: ", e.what());
    }
  }
  // Registered under the lock, so that the callback finds the waiter.
  waiter.token = waiter.context->cancellation().Register(
      [self = shared_from_this(), key, of = waiter.context] { self->Cancel(key, of); });
  if (waiter.token == CancellationManager::kInvalidToken) return CancelledStatus();
  const Clock::time_point deadline = waiter.deadline;
  waiters.emplace(key, std::move(waiter));
  for (auto& [part, tensor] : parts) {
    const auto waiting = waiters.find(part);
    if (waiting == waiters.end()) {
      pieces.emplace(part, Piece{std::move(tensor), deadline});
      continue;
    }
    Deliver(std::move(waiting->second), std::move(tensor), endings);
    waiters.erase(waiting);
  }
  changed.NotifyOne();
  return Status();
}

void Unbatcher::State::Deliver(Waiter waiter, Tensor tensor, Endings& endings) {
  Status status;
  if (tensor.dtype() == waiter.context->output_type(0)) {
    waiter.context->set_output(0, std::move(tensor));
  } else {
    status = errors::InvalidArgument("Nodes that share a batch have results of different types");
  }
  endings.Add(std::move(waiter), std::move(status));
}

void Unbatcher::State::Cancel(int64_t key, const KernelContext* of) {
  Endings endings;
  MutexLock lock(mu);
  const auto waiting = waiters.find(key);
  // If the key was used again, it belongs to another step.
  if (waiting == waiters.end() || waiting->second.context != of) return;
  endings.Add(std::move(waiting->second), CancelledStatus());
  waiters.erase(waiting);
}

void Unbatcher::State::Stop() {
  std::thread ending;
  {
    Endings endings;
    MutexLock lock(mu);
    stopping = true;
    for (auto& [key, waiter] : waiters) endings.Add(std::move(waiter), RemovedStatus());
    waiters.clear();
    pieces.clear();
    ending = std::move(thread);
    changed.NotifyAll();
  }
  if (!ending.joinable()) return;
  if (ending.get_id() == std::this_thread::get_id()) {
    ending.detach();  // it ends as soon as it is back
  } else {
    ending.join();
  }
}

Clock::time_point Unbatcher::State::Expire(Endings& endings) {
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  std::erase_if(pieces, [&](const auto& piece) {
    if (piece.second.deadline <= now) return true;
    next = std::min(next, piece.second.deadline);
    return false;
  });
  std::erase_if(waiters, [&](auto& waiting) {
    if (waiting.second.deadline > now) {
      next = std::min(next, waiting.second.deadline);
      return false;
    }
    endings.Add(std::move(const_cast<Waiter&>(waiting.second)),
                errors::DeadlineExceeded("Batched data did not arrive within timeout window."));
    return true;
  });
  return next;
}

void Unbatcher::State::Work() {
  while (true) {
    Endings endings;
    MutexLock lock(mu);
    if (stopping) return;
    const size_t before = waiters.size();
    const Clock::time_point next = Expire(endings);
    if (waiters.size() != before) continue;  // callbacks are called without the lock
    if (next == Clock::time_point::max()) {
      changed.Wait(mu);
    } else {
      changed.WaitUntil(mu, next);
    }
  }
}

// The name of the kernel's resource.
StatusOr<ResourceName> PlaceOf(KernelConstruction& c) {
  auto place = NameResource(c, Unnamed::kNodeName);
  c.SetError(place.status());
  return place;
}

// batched_tensor, batch_index, id -> the rows of this step
class UnbatchKernel final : public AsyncOpKernel {
 public:
  explicit UnbatchKernel(KernelConstruction& c)
      : AsyncOpKernel(c), timeout_micros_(c.Attr<int64_t>("timeout_micros")), place_(PlaceOf(c)) {}
  void ComputeAsync(KernelContext& context, Done done) override {
    auto pieces = Pieces(context.input(0), context.input(1));
    if (!pieces.ok()) return done(pieces.status());
    if (!context.input(2).shape().IsScalar()) return done(RequireScalar(context.input(2), "id"));
    auto unbatcher = context.resources().LookupOrCreate<Unbatcher>(
        place_->container, place_->name,
        [&]() -> StatusOr<RefPtr<Unbatcher>> { return MakeRef<Unbatcher>(timeout_micros_); });
    if (!unbatcher.ok()) return done(unbatcher.status());
    const int64_t key = context.input(2).scalar<int64_t>();
    (*unbatcher)->Exchange(*std::move(pieces), key, Waiter{.context = &context, .done = std::move(done)});
  }

 private:
  static StatusOr<std::vector<std::pair<int64_t, Tensor>>> Pieces(const Tensor& data, const Tensor& index) {
    MR_RETURN_IF_ERROR(CheckIndex(index));
    if (data.rank() == 0) return errors::InvalidArgument("batched_tensor must have at least one dimension");
    if (index.dim(0) > data.dim(0)) {
      return errors::InvalidArgument(
          "Wrong shape for index tensor. Expected 0th dimension size to be no greater than ", data.dim(0),
          "; Got: ", index.dim(0), ".");
    }
    std::vector<std::pair<int64_t, Tensor>> pieces;
    const int64_t* entry = index.data<int64_t>();
    for (int64_t i = 0; i < index.dim(0); ++i, entry += 3) {
      if (entry[1] < 0 || entry[2] < entry[1] || entry[2] > data.dim(0)) {
        return errors::InvalidArgument("Row ", i, " of the index tensor says rows ", entry[1], " to ",
                                       entry[2], " of a tensor of ", data.dim(0));
      }
      pieces.emplace_back(entry[0], data.Slice(entry[1], entry[2]));
    }
    return pieces;
  }

  const int64_t timeout_micros_;
  const StatusOr<ResourceName> place_;
};

// The resource in which the gradients of the steps of a batch meet.
class GradientJoiner final : public Resource {
 public:
  std::string DebugString() const override { return "GradientJoiner"; }

  // The step's own gradient is input 2 of the context.
  void Exchange(Waiter waiter) {
    Endings endings;
    MutexLock lock(mu_);
    Status status = Exchange(waiter, endings);
    if (!status.ok()) endings.Add(std::move(waiter), std::move(status));
  }

 private:
  struct Batch {
    std::set<int64_t> missing;
    Waiter waiter;
  };

  // After an error the waiter is unchanged.
  Status Exchange(Waiter& waiter, Endings& endings) MR_REQUIRES(mu_) {
    KernelContext& context = *waiter.context;
    const Tensor& index = context.input(1);
    const int64_t key = context.input(3).scalar<int64_t>();
    if (gradients_.count(key) > 0) return errors::InvalidArgument("Two runs with the same batch key.");
    if (gradients_.size() >= kMostWaiting) return TooManyWaiting();
    if (context.input(0).num_elements() == 0) {
      TensorShape shape = context.input(2).shape();
      shape.SetDim(0, 0);
      MR_RETURN_IF_ERROR(context.AllocateOutput(0, shape).status());
      gradients_.emplace(key, context.input(2));
      endings.Add(std::move(waiter), Status());
    } else {
      MR_RETURN_IF_ERROR(AddBatch(key, index, waiter, endings));
    }
    const auto wanted = wanted_.find(key);
    if (wanted == wanted_.end()) return Status();
    const auto batch = batches_.find(wanted->second);
    wanted_.erase(wanted);
    batch->second.missing.erase(key);
    if (!batch->second.missing.empty()) return Status();
    Waiter complete = std::move(batch->second.waiter);
    batches_.erase(batch);
    Status status = Output(*complete.context);
    endings.Add(std::move(complete), std::move(status));
    return Status();
  }

  Status AddBatch(int64_t key, const Tensor& index, Waiter& waiter, Endings& endings) MR_REQUIRES(mu_) {
    KernelContext& context = *waiter.context;
    if (index.num_elements() == 0) {
      return errors::InvalidArgument("batch_index is empty while the tensor isn't.");
    }
    Batch batch;
    for (int64_t i = 0; i < index.dim(0); ++i) {
      const int64_t wanted = index.data<int64_t>()[3 * i];
      if (wanted == key || gradients_.count(wanted) > 0) continue;
      if (wanted_.count(wanted) > 0) {
        return errors::InvalidArgument("Missing tensor wanted by more than one batch.");
      }
      batch.missing.insert(wanted);
    }
    if (batch.missing.empty()) {
      gradients_.emplace(key, context.input(2));
      Status status = Output(context);
      endings.Add(std::move(waiter), std::move(status));
      return Status();
    }
    if (batches_.count(key) > 0) return errors::InvalidArgument("Batch key with valid batch used twice.");
    if (wanted_.size() + batch.missing.size() > kMostWaiting) return TooManyWaiting();
    waiter.token = context.cancellation().Register(
        [self = ShareRef(this), key, of = &context] { self->Cancel(key, of); });
    if (waiter.token == CancellationManager::kInvalidToken) return CancelledStatus();
    gradients_.emplace(key, context.input(2));
    for (const int64_t missing : batch.missing) wanted_.emplace(missing, key);
    batch.waiter = std::move(waiter);
    batches_.emplace(key, std::move(batch));
    return Status();
  }

  // Joins the gradients in the index, which are all there, and removes them.
  Status Output(KernelContext& context) MR_REQUIRES(mu_) {
    const Tensor& index = context.input(1);
    std::vector<Tensor> held;
    for (int64_t i = 0; i < index.dim(0); ++i) {
      const auto gradient = gradients_.find(index.data<int64_t>()[3 * i]);
      if (gradient == gradients_.end()) {
        return errors::InvalidArgument("The batch index names one step more than once");
      }
      held.push_back(std::move(gradient->second));
      gradients_.erase(gradient);
    }
    std::vector<const Tensor*> parts;
    for (const Tensor& part : held) {
      if (part.dtype() != context.output_type(0)) {
        return errors::InvalidArgument("Nodes that share a batch have gradients of different types");
      }
      parts.push_back(&part);
    }
    MR_ASSIGN_OR_RETURN(Tensor joined, JoinRows(context, parts));
    context.set_output(0, std::move(joined));
    return Status();
  }

  void Cancel(int64_t key, const KernelContext* of) MR_EXCLUDES(mu_) {
    Endings endings;
    MutexLock lock(mu_);
    const auto batch = batches_.find(key);
    if (batch == batches_.end() || batch->second.waiter.context != of) return;
    for (const int64_t missing : batch->second.missing) wanted_.erase(missing);
    gradients_.erase(key);
    endings.Add(std::move(batch->second.waiter), CancelledStatus());
    batches_.erase(batch);
  }

  Mutex mu_;
  std::map<int64_t, Tensor> gradients_ MR_GUARDED_BY(mu_);  // of steps, until their batch takes them
  std::map<int64_t, Batch> batches_ MR_GUARDED_BY(mu_);     // by the id of the step that has the batch
  std::map<int64_t, int64_t> wanted_ MR_GUARDED_BY(mu_);    // from the id of a missing gradient to its batch
};

// original_input, batch_index, grad, id -> the gradients of all steps of the batch
class UnbatchGradKernel final : public AsyncOpKernel {
 public:
  explicit UnbatchGradKernel(KernelConstruction& c) : AsyncOpKernel(c), place_(PlaceOf(c)) {}
  void ComputeAsync(KernelContext& context, Done done) override {
    Status status = Check(context);
    if (!status.ok()) return done(status);
    auto joiner = context.resources().LookupOrCreate<GradientJoiner>(
        place_->container, place_->name,
        []() -> StatusOr<RefPtr<GradientJoiner>> { return MakeRef<GradientJoiner>(); });
    if (!joiner.ok()) return done(joiner.status());
    (*joiner)->Exchange(Waiter{.context = &context, .done = std::move(done)});
  }

 private:
  static Status Check(const KernelContext& context) {
    MR_RETURN_IF_ERROR(CheckIndex(context.input(1)));
    if (context.input(2).rank() == 0) return errors::InvalidArgument("grad must have at least one dimension");
    return RequireScalar(context.input(3), "id");
  }

  const StatusOr<ResourceName> place_;
};

}  // namespace

void RegisterUnbatchKernels(KernelRegistry& registry) {
  registry.Register<UnbatchKernel>(KernelDef("Unbatch"));
  registry.Register<UnbatchGradKernel>(KernelDef("UnbatchGrad"));
}

}  // namespace millrace
