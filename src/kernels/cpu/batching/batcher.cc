// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/batching/batcher.h"

#include <algorithm>
#include <limits>
#include <system_error>
#include <utility>

#include "base/random/philox.h"
#include "base/strings.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

// Longer timeouts are clamped to this, to avoid overflow.
constexpr int64_t kLongestMicros = int64_t{1} << 50;

}  // namespace

// Shared with the threads, so that a batcher may be destroyed on one of them.
struct Batcher::State : public std::enable_shared_from_this<Batcher::State> {
  struct Batch {
    std::vector<BatchTask> tasks;
    int64_t rows = 0;
    Clock::time_point due;
  };
  // Tasks are only added to the last batch.
  using Queue = std::deque<Batch>;

  State(const Options& o, Run r) : options(o), run(std::move(r)) {}

  Status Submit(const std::string& name, BatchTask& task) MR_EXCLUDES(mu);
  // Removes the first batch that is due, of the next queue in turn; else sets the time of the next check.
  bool Take(Batch* batch, Clock::time_point* next) MR_REQUIRES(mu);
  // Makes a thread check the queues.
  Status Wake() MR_REQUIRES(mu);
  void Work() MR_EXCLUDES(mu);
  void Cancel(int64_t id) MR_EXCLUDES(mu);
  void Stop() MR_EXCLUDES(mu);
  bool WaitsForAny() const MR_REQUIRES(mu);

  const Options options;
  const Run run;
  mutable Mutex mu;
  CondVar changed;
  std::map<std::string, Queue> queues MR_GUARDED_BY(mu);
  std::string last_served MR_GUARDED_BY(mu);
  std::vector<std::thread> threads MR_GUARDED_BY(mu);
  int idle MR_GUARDED_BY(mu) = 0;
  bool stopping MR_GUARDED_BY(mu) = false;
};

Status Batcher::State::Submit(const std::string& name, BatchTask& task) {
  if (task.rows > options.max_batch_size) {
    return errors::InvalidArgument("Task size ", task.rows, " is larger than maximum batch size ",
                                   options.max_batch_size);
  }
  MutexLock lock(mu);
  Queue& queue = queues[name];
  const bool opens = queue.empty() || queue.back().rows + task.rows > options.max_batch_size;
  if (opens && !queue.empty() && static_cast<int64_t>(queue.size()) >= options.max_enqueued_batches) {
    return errors::Unavailable("The batch scheduling queue to which this task was submitted is full");
  }
  task.id = static_cast<int64_t>(RandomSeed64());
  // Registered under the lock, so that the callback finds the task.
  task.token =
      task.context->cancellation().Register([self = shared_from_this(), id = task.id] { self->Cancel(id); });
  if (task.token == CancellationManager::kInvalidToken) {
    return errors::Cancelled("The step was cancelled before its batch ran");
  }
  if (opens) {
    const auto wait = std::chrono::microseconds(std::min(options.timeout_micros, kLongestMicros));
    queue.push_back({{}, 0, Clock::now() + wait});
  }
  Batch& batch = queue.back();
  batch.rows += task.rows;
  batch.tasks.push_back(std::move(task));
  Status status = Wake();
  if (!status.ok()) {  // there is no thread at all, so the task is still in its place
    task = std::move(batch.tasks.back());
    batch.tasks.pop_back();
    batch.rows -= task.rows;
    if (batch.tasks.empty()) queue.pop_back();
    task.context->cancellation().TryDeregister(task.token);
  }
  return status;
}

bool Batcher::State::Take(Batch* batch, Clock::time_point* next) {
  const Clock::time_point now = Clock::now();
  *next = Clock::time_point::max();
  // Begins with the queue after the one that was served last.
  auto at = queues.upper_bound(last_served);
  for (size_t i = 0; i < queues.size(); ++i, ++at) {
    if (at == queues.end()) at = queues.begin();
    Queue& queue = at->second;
    if (queue.empty()) continue;
    const Batch& first = queue.front();
    if (queue.size() > 1 || first.rows >= options.max_batch_size || first.due <= now) {
      *batch = std::move(queue.front());
      queue.pop_front();
      last_served = at->first;
      return true;
    }
    *next = std::min(*next, first.due);
  }
  return false;
}

bool Batcher::State::WaitsForAny() const {
  return std::ranges::any_of(queues, [](const auto& queue) { return !queue.second.empty(); });
}

Status Batcher::State::Wake() {
  if (idle > 0) {
    changed.NotifyOne();
    return Status();
  }
  if (static_cast<int64_t>(threads.size()) >= options.num_threads) return Status();
  try {
    threads.emplace_back([self = shared_from_this()] { self->Work(); });
  } catch (const std::system_error& e) {
    if (threads.empty()) return errors::ResourceExhausted("No thread for batches: ", e.what());
  }
  return Status();
}

void Batcher::State::Work() {
  mu.Lock();
  while (!stopping) {
    Batch batch;
    Clock::time_point next;
    if (Take(&batch, &next)) {
      // Another thread has to check which batches become due.
      if (WaitsForAny()) Wake().IgnoreError("this thread sees it later");
      mu.Unlock();
      for (BatchTask& task : batch.tasks) task.context->cancellation().TryDeregister(task.token);
      run(batch.tasks);
      batch.tasks.clear();
      mu.Lock();
      continue;
    }
    ++idle;
    if (next == Clock::time_point::max()) {
      changed.Wait(mu);
    } else {
      changed.WaitUntil(mu, next);
    }
    --idle;
  }
  mu.Unlock();
}

void Batcher::State::Cancel(int64_t id) {
  BatchTask found;
  {
    MutexLock lock(mu);
    for (auto& [name, queue] : queues) {
      for (auto batch = queue.begin(); batch != queue.end() && found.context == nullptr; ++batch) {
        const auto task = std::ranges::find(batch->tasks, id, &BatchTask::id);
        if (task == batch->tasks.end()) continue;
        found = std::move(*task);
        batch->tasks.erase(task);
        batch->rows -= found.rows;
        if (batch->tasks.empty()) queue.erase(batch);
        break;
      }
    }
  }
  if (found.context != nullptr) found.done(errors::Cancelled("The step was cancelled before its batch ran"));
}

void Batcher::State::Stop() {
  std::vector<std::thread> ending;
  std::map<std::string, Queue> left;
  {
    MutexLock lock(mu);
    stopping = true;
    left.swap(queues);
    ending.swap(threads);
    changed.NotifyAll();
  }
  for (auto& [name, queue] : left) {
    for (Batch& batch : queue) {
      for (BatchTask& task : batch.tasks) {
        task.context->cancellation().TryDeregister(task.token);
        task.done(errors::Cancelled("The batch scheduling queue was removed"));
      }
    }
  }
  for (std::thread& thread : ending) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();  // it ends as soon as it is back
    } else {
      thread.join();
    }
  }
}

Status Batcher::Check(const Options& o) {
  if (o.num_threads < 1)
    return errors::InvalidArgument("num_batch_threads must be positive; was ", o.num_threads);
  if (o.max_batch_size < 1)
    return errors::InvalidArgument("max_batch_size must be positive; was ", o.max_batch_size);
  if (o.timeout_micros < 0)
    return errors::InvalidArgument("batch_timeout_micros must be non-negative; was ", o.timeout_micros);
  if (o.max_enqueued_batches < 0) {
    return errors::InvalidArgument("max_enqueued_batches must be non-negative; was ", o.max_enqueued_batches);
  }
  for (size_t i = 1; i < o.allowed_sizes.size(); ++i) {
    if (o.allowed_sizes[i] <= o.allowed_sizes[i - 1]) {
      return errors::InvalidArgument("allowed_batch_sizes entries must be monotonically increasing");
    }
  }
  if (!o.allowed_sizes.empty() && o.allowed_sizes.back() != o.max_batch_size) {
    return errors::InvalidArgument("final entry in allowed_batch_sizes must equal max_batch_size");
  }
  return Status();
}

Batcher::Batcher(const Options& options, Run run, const FunctionCaller* functions)
    : functions_(functions), state_(std::make_shared<State>(options, std::move(run))) {}

Batcher::~Batcher() { state_->Stop(); }

std::string Batcher::DebugString() const {
  MutexLock lock(state_->mu);
  size_t waiting = 0;
  for (const auto& [name, queue] : state_->queues) waiting += queue.size();
  return StrCat("Batcher with ", waiting, " waiting batches");
}

Status Batcher::Submit(const std::string& queue, BatchTask& task) { return state_->Submit(queue, task); }

int64_t PaddedSize(const std::vector<int64_t>& allowed_sizes, int64_t rows) {
  const auto at = std::ranges::lower_bound(allowed_sizes, rows);
  return at == allowed_sizes.end() ? rows : *at;
}

}  // namespace millrace
