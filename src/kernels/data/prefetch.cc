// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Elements that a separate thread gets ahead of time.
#include <algorithm>
#include <chrono>
#include <deque>

#include "base/strings.h"
#include "data/waiting.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

class PrefetchDataset final : public UnaryDataset {
 public:
  // `slack_period` > 0: the consumer takes this number of elements per step and is busy at its start. The
  // thread then pauses for a part of the time for which elements have waited for the consumer.
  PrefetchDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, int64_t buffer_size,
                  int64_t slack_period)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        buffer_size_(buffer_size),
        slack_period_(slack_period) {}

 protected:
  class It final : public UnaryIterator<PrefetchDataset> {
   public:
    It(const PrefetchDataset& dataset, std::unique_ptr<Iterator> input)
        : UnaryIterator(dataset, std::move(input)), grows_(dataset.buffer_size_ < 0) {
      limit_ = grows_ ? 1 : static_cast<size_t>(std::max<int64_t>(1, dataset.buffer_size_));
    }

    bool MayWait(int64_t n) const override {
      MutexLock lock(mu_);
      // Each call takes one; the last one is the end.
      return static_cast<int64_t>(ready_.size()) < n && (ready_.empty() || !ready_.back().end);
    }

    BufferFill fill() const override {
      MutexLock lock(mu_);
      return {static_cast<int64_t>(ready_.size()), static_cast<int64_t>(limit_)};
    }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      MutexLock lock(mu_);
      MR_RETURN_IF_ERROR(StartThread(ctx));
      if (ready_.empty() && grows_ && was_full_ && limit_ < kMostAhead) limit_ *= 2;
      consumer_waits_ = ready_.empty();
      if (pausing_ && consumer_waits_) changed_.NotifyAll();
      const Status waited =
          Await(mu_, changed_, ctx, [&]() MR_NO_THREAD_SAFETY_ANALYSIS { return !ready_.empty(); });
      consumer_waits_ = false;
      MR_RETURN_IF_ERROR(waited);
      Result& first = ready_.front();
      if (first.end) {
        *end = true;
        return Status();
      }
      if (dataset_.slack_period_ > 0 && ++taken_ % dataset_.slack_period_ == 0) {
        slack_ = slack_ / kPausedPart + (Clock::now() - first.made);
      }
      Status status = std::move(first.status);
      *out = std::move(first.element);
      ready_.pop_front();
      // The thread is woken for several elements together.
      if (ready_.size() <= limit_ / 2) changed_.NotifyAll();
      return status;
    }

    Status Save(Context& ctx, StateWriter& state) override {
      MutexLock lock(mu_);
      paused_ = true;
      Status status = Await(mu_, changed_, ctx, [&]() MR_NO_THREAD_SAFETY_ANALYSIS { return !reading_; });
      if (status.ok()) {
        state.Write("ready", static_cast<int64_t>(ready_.size()));
        for (size_t i = 0; i < ready_.size(); ++i) {
          state.Write(StrCat("end", i), int64_t{ready_[i].end});
          state.WriteStatus(StrCat("status", i), ready_[i].status);
          state.WriteElement(StrCat("element", i), ready_[i].element);
        }
        status = UnaryIterator::Save(ctx, state);
      }
      paused_ = false;
      changed_.NotifyAll();
      return status;
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MutexLock lock(mu_);
      MR_ASSIGN_OR_RETURN(const int64_t ready, state.Count("ready"));
      for (int64_t i = 0; i < ready; ++i) {
        Result result;
        MR_ASSIGN_OR_RETURN(const int64_t end, state.Count(StrCat("end", i), 1));
        result.end = end != 0;
        MR_RETURN_IF_ERROR(state.ReadStatus(StrCat("status", i), &result.status));
        MR_ASSIGN_OR_RETURN(result.element, state.ReadElement(StrCat("element", i)));
        ready_.push_back(std::move(result));
      }
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    using Clock = std::chrono::steady_clock;
    struct Result {
      Element element;
      Status status;
      bool end = false;
      Clock::time_point made;
    };
    static constexpr int kPausedPart = 5;      // the reciprocal of that part
    static constexpr size_t kMostAhead = 512;  // if the size depends on the consumer

    Status StartThread(Context& ctx) MR_REQUIRES(mu_) {
      if (threads_.size() > 0) return Status();
      ahead_ = ctx.Ahead(threads_.cancellation());
      return threads_.Start([this] { Work(); });
    }
    void Work() MR_EXCLUDES(mu_) {
      while (true) {
        {
          MutexLock lock(mu_);
          reading_ = false;
          // The consumer only waits for the first one.
          if (ready_.size() <= 1 || paused_) changed_.NotifyAll();
          while (!threads_.stopping() && (paused_ || ready_.size() >= limit_)) {
            was_full_ = was_full_ || ready_.size() >= limit_;
            changed_.Wait(mu_);
          }
          if (threads_.stopping() || (!ready_.empty() && ready_.back().end)) return;
          if (dataset_.slack_period_ > 0 && made_++ % dataset_.slack_period_ == 0) Pause();
          if (threads_.stopping()) return;
          reading_ = true;
        }
        Result result;
        result.status = NextInput(ahead_, &result.element, &result.end);
        if (!result.status.ok()) result.end = false;
        const bool end = result.end;
        if (dataset_.slack_period_ > 0) result.made = Clock::now();
        MutexLock lock(mu_);
        ready_.push_back(std::move(result));
        if (!end) continue;
        reading_ = false;
        changed_.NotifyAll();
        return;
      }
    }

    // Waits until the slack has passed or the consumer waits.
    void Pause() MR_REQUIRES(mu_) {
      const auto until = Clock::now() + slack_ / kPausedPart;
      pausing_ = true;
      while (!consumer_waits_ && !threads_.stopping() && !paused_ && Clock::now() < until) {
        changed_.WaitUntil(mu_, until);
      }
      pausing_ = false;
      while (paused_ && !threads_.stopping()) changed_.Wait(mu_);
    }

    const bool grows_;
    mutable Mutex mu_;
    CondVar changed_;
    std::deque<Result> ready_ MR_GUARDED_BY(mu_);
    size_t limit_ MR_GUARDED_BY(mu_);
    bool was_full_ MR_GUARDED_BY(mu_) = false;
    bool paused_ MR_GUARDED_BY(mu_) = false;   // while it is saved
    bool reading_ MR_GUARDED_BY(mu_) = false;  // the thread reads the input
    bool pausing_ MR_GUARDED_BY(mu_) = false;  // the thread, to leave the processors to the consumer
    bool consumer_waits_ MR_GUARDED_BY(mu_) = false;
    int64_t made_ MR_GUARDED_BY(mu_) = 0, taken_ MR_GUARDED_BY(mu_) = 0;
    Clock::duration slack_ MR_GUARDED_BY(mu_){};  // for which elements have waited for the consumer
    Context ahead_;                               // of the thread; set before it starts
    StageThreads threads_{mu_, changed_};
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const int64_t buffer_size_, slack_period_;
};

StatusOr<RefPtr<const Dataset>> MakePrefetch(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const int64_t size, args.Scalar<int64_t>("buffer_size"));
  if (size < -1) {
    return errors::InvalidArgument("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning");
  }
  MR_ASSIGN_OR_RETURN(const int64_t slack_period, args.Attr<int64_t>("slack_period"));
  return MakeRefDataset<PrefetchDataset>(args.Kind(), std::move(signature), std::move(input), size,
                                         slack_period);
}

}  // namespace

void RegisterPrefetchDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "PrefetchDataset", MakePrefetch);
}

}  // namespace millrace::data
