// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Datasets that call a function for several elements concurrently.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "base/cpu_relax.h"
#include "base/function.h"
#include "base/strings.h"
#include "data/batch.h"
#include "data/monitor.h"
#include "data/row_places.h"
#include "data/tuning.h"
#include "data/waiting.h"
#include "device/device.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/parallel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

// Takes a lock that is only held for less than a microsecond: sleeping would take longer.
void LockSoon(Mutex& mu) MR_ACQUIRE(mu) MR_NO_THREAD_SAFETY_ANALYSIS {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    if (mu.TryLock()) return;
    CpuRelax();
  }
  mu.Lock();
}
class MR_THREAD_ANNOTATION(scoped_lockable) SoonLock {
 public:
  explicit SoonLock(Mutex& mu) MR_ACQUIRE(mu) : mu_(mu) { LockSoon(mu); }
  ~SoonLock() MR_RELEASE() { mu_.Unlock(); }
  SoonLock(const SoonLock&) = delete;
  SoonLock& operator=(const SoonLock&) = delete;

 private:
  Mutex& mu_;
};

class ParallelMapDataset final : public UnaryDataset {
 public:
  struct Options {
    Parallelism parallelism;
    bool sloppy = false;  // results in order of completion
    bool keeps_cardinality = false;
    int64_t batch_size = 0;  // > 0: that many consecutive results will form a batch
  };
  ParallelMapDataset(std::string kind, Signature signature, RefPtr<const Dataset> input,
                     std::unique_ptr<ElementFunction> f, Options options)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        f_(std::move(f)),
        options_(options) {}
  int64_t Cardinality() const override {
    return options_.keeps_cardinality ? input().Cardinality() : kUnknown;
  }

 protected:
  class It final : public UnaryIterator<ParallelMapDataset> {
   public:
    It(const ParallelMapDataset& dataset, std::unique_ptr<Iterator> input,
       std::unique_ptr<ElementFunction::Bound> f)
        : UnaryIterator(dataset, std::move(input)),
          f_(std::move(f)),
          takes_texts_(f_->TakesTexts() && input_->GivesVectorsOfTexts()),
          calls_(dataset.options_.parallelism.most),
          consumer_helps_(f_->OnlyComputes() && calls_.limit() > 1 && !dataset.options_.parallelism.chosen &&
                          !input_->MayWait(INT64_MAX) && std::thread::hardware_concurrency() > 1),
          consumer_may_help_(consumer_helps_) {}

    bool MayWait(int64_t n) const override {
      SoonLock lock(mu_);
      // It only computes and, as in stages without threads, waits at most for files.
      if (ConsumerHelps()) return false;
      int64_t ready = 0;
      for (const auto& slot : slots_) {
        if (slot->done && slot->end) return false;
        if (!slot->done && !dataset_.options_.sloppy) break;
        ready += slot->done ? 1 : 0;
      }
      return ready < n && !ended_;
    }

    BufferFill fill() const override {
      MutexLock lock(mu_);
      const auto done = std::ranges::count_if(slots_, [](const auto& slot) { return slot->done; });
      return {done, calls_.limit() + kAhead};
    }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      SoonLock lock(mu_);
      if (ended_) {
        *end = true;
        return Status();
      }
      if (threads_.size() == 0 && ctx.shares != nullptr && dataset_.options_.parallelism.chosen) {
        calls_.Choose(*ctx.shares);
      }
      if (calls_.chosen() && calls_.Asked(Clock::now())) work_.NotifyAll();
      MR_RETURN_IF_ERROR(StartThreads(ctx));
      if (ConsumerHelps()) Help(ctx);
      Status status = Take(ctx, out, end);
      if (calls_.chosen()) calls_.Served(Clock::now());
      if (consumer_helps_) served_ = Clock::now();
      return status;
    }

    Status Save(Context& ctx, StateWriter& state) override;
    Status Restore(Context& ctx, const StateReader& state) override;

   private:
    using Clock = CallsAtATime::Clock;
    // One result, in the order of the input.
    struct Slot {
      Element element;
      Status status;
      bool done = false;
      bool end = false;
      // Its destination in a batch; null: unknown.
      std::shared_ptr<RowPlaces> places;
      int64_t row = 0;
    };

    // Waits for the next result.
    Status Take(Context& ctx, Element* out, bool* end) MR_REQUIRES(mu_) {
      size_t found = 0;
      MR_RETURN_IF_ERROR(
          Await(mu_, changed_, ctx, [&]() MR_NO_THREAD_SAFETY_ANALYSIS { return FindDone(&found); }));
      const std::shared_ptr<Slot> slot = std::move(slots_[found]);
      slots_.erase(slots_.begin() + static_cast<ptrdiff_t>(found));
      // The threads are woken for several elements together.
      if (static_cast<int64_t>(slots_.size()) <= calls_.limit() + kAhead / 2) work_.NotifyAll();
      if (slot->end) {
        ended_ = *end = true;
        return Status();
      }
      // As in TensorFlow, OutOfRange from the function ends the dataset.
      if (errors::IsOutOfRange(slot->status)) {
        if (dataset_.options_.keeps_cardinality) {
          return errors::InvalidArgument("Function invocation produced OutOfRangeError: ",
                                         slot->status.message());
        }
        *end = true;
        return Status();
      }
      *out = std::move(slot->element);
      return slot->status;
    }

    bool FindDone(size_t* found) const MR_REQUIRES(mu_) {
      for (size_t i = 0; i < slots_.size(); ++i) {
        // The end comes after all results.
        if (slots_[i]->done && (i == 0 || !slots_[i]->end)) {
          *found = i;
          return true;
        }
        if (!dataset_.options_.sloppy) return false;
      }
      return false;
    }

    // A consumer that returns immediately makes calls itself, like one of the threads: waking a thread, and
    // being woken by it, takes as long as short calls.
    bool ConsumerHelps() const MR_REQUIRES(mu_) {
      return consumer_helps_ && cost_.count() > 0 && cost_ < kShortCall;
    }
    // Makes calls until the next result is available, or there are no more to make.
    void Help(Context& ctx) MR_REQUIRES(mu_) {
      size_t found = 0;
      if (FindDone(&found)) return;
      // A consumer that stays away long enough for a thread to wake is faster with all threads working.
      if (served_ != Clock::time_point() && Clock::now() - served_ > kAway &&
          ++times_away_ == kMostTimesAway) {
        consumer_helps_ = false;
        work_.NotifyAll();
        return;
      }
      const auto ready = [&]() MR_NO_THREAD_SAFETY_ANALYSIS { return !jobs_.empty() || FindDone(&found); };
      while (!FindDone(&found)) {
        if (!jobs_.empty()) {
          CallNext();
        } else if (!Spin(ctx, ready)) {
          return;
        }
      }
    }
    // Spins for a time in which reading an element usually ends. False: it has not.
    bool Spin(Context& ctx, FunctionRef<bool()> ready) MR_REQUIRES(mu_) {
      const MeteredWait wait(ctx.call);
      constexpr int kPauses = 8;
      const auto deadline = Clock::now() + std::min<Clock::duration>(2 * reading_cost_, kLongestSpin);
      while (!ready() && Clock::now() < deadline) {
        // Acquire: pairs with the release of Happened; the changes are then read with the lock.
        const int64_t seen = happened_.load(std::memory_order_acquire);
        mu_.Unlock();
        do {
          for (int i = 0; i < kPauses; ++i) CpuRelax();
        } while (happened_.load(std::memory_order_acquire) == seen && Clock::now() < deadline);
        LockSoon(mu_);
      }
      return ready();
    }
    // Notifies spinning threads.
    void Happened() { happened_.fetch_add(1, std::memory_order_release); }

    Status StartThreads(Context& ctx) MR_REQUIRES(mu_) {
      const int64_t wanted = std::min<int64_t>(calls_.limit() - (consumer_helps_ ? 1 : 0), kMostThreads);
      if (static_cast<int64_t>(threads_.size()) >= wanted) return Status();
      if (threads_.size() == 0) ahead_ = ctx.Ahead(threads_.cancellation());
      for (auto i = static_cast<int64_t>(threads_.size()); i < wanted; ++i) {
        Status status = threads_.Start([this, i] { Work(i); });
        if (!status.ok() && threads_.size() == 0) return status;
        if (!status.ok()) break;
      }
      return Status();
    }

    // The input of a call.
    struct Job {
      std::shared_ptr<Slot> slot;
      Element args;
      Texts texts;  // instead of args
      Clock::duration reading_took{};
    };

    // If the consumer helps, one thread reads all elements, so that the input's data stays in its caches; the
    // others and the consumer make the calls, and so does the reader if they fall behind.
    bool MayRead(int64_t thread) const MR_REQUIRES(mu_) {
      return !paused_ && !reading_ && !input_done_ && thread < calls_.limit() &&
             (thread == 0 || !ConsumerHelps()) &&
             static_cast<int64_t>(slots_.size()) < calls_.limit() + kAhead;
    }
    bool MayCall(int64_t thread) const MR_REQUIRES(mu_) {
      if (jobs_.empty()) return false;
      return thread != 0 || !MayRead(0) || static_cast<int64_t>(jobs_.size()) >= calls_.limit();
    }
    void Work(int64_t thread) MR_EXCLUDES(mu_) {
      MutexLock lock(mu_);
      while (true) {
        while (!threads_.stopping() && !MayRead(thread) && !MayCall(thread) && !(input_done_ && !paused_)) {
          work_.Wait(mu_);
        }
        if (threads_.stopping()) return;
        if (MayCall(thread)) {
          CallNext();
        } else if (MayRead(thread)) {
          std::unique_ptr<Job> job = Read();
          if (job != nullptr && ConsumerHelps()) {
            jobs_.push_back(std::move(job));
            Happened();
            if (threads_.size() > 1) work_.NotifyOne();
          } else if (job != nullptr) {
            Call(std::move(job));
          }
        } else {
          return;  // the input is done
        }
      }
    }
    void CallNext() MR_REQUIRES(mu_) {
      std::unique_ptr<Job> job = std::move(jobs_.front());
      jobs_.pop_front();
      Call(std::move(job));
    }
    // Reads an element, without the lock; null: no call is needed for it. REQUIRES: MayRead.
    std::unique_ptr<Job> Read() MR_REQUIRES(mu_) {
      std::unique_ptr<Job> job;
      if (!spare_jobs_.empty()) {
        job = std::move(spare_jobs_.back());
        spare_jobs_.pop_back();
      } else {
        job = std::make_unique<Job>();
      }
      const auto slot = job->slot = std::make_shared<Slot>();
      if (dataset_.options_.batch_size > 1) FindPlace(slot.get());
      reading_ = true;
      ++busy_;
      slots_.push_back(slot);
      mu_.Unlock();
      Context ctx = ahead_;
      bool end = false;
      const Clock::time_point begin = Measures() ? Clock::now() : Clock::time_point();
      Status status;
      if (takes_texts_) {
        job->texts.Clear();
        status = NextInputTexts(ctx, job->texts, &end);
      } else {
        status = NextInput(ctx, &job->args, &end);
      }
      if (Measures()) job->reading_took = Clock::now() - begin;
      LockSoon(mu_);
      if (autotuned()) calls_.AddInput(job->reading_took);
      if (consumer_may_help_) reading_cost_ = Mean(reading_cost_, job->reading_took);
      reading_ = false;
      input_done_ = status.ok() && end;
      if (input_done_ || threads_.size() > 2) {
        work_.NotifyAll();
      } else if (threads_.size() > 1) {
        work_.NotifyOne();
      }
      if (status.ok() && !end) return job;
      slot->end = status.ok();
      slot->status = std::move(status);
      Finish(*slot);
      return nullptr;
    }
    // Calls the function, without the lock.
    void Call(std::unique_ptr<Job> job) MR_REQUIRES(mu_) {
      mu_.Unlock();
      Context ctx = ahead_;
      Slot& slot = *job->slot;
      const Clock::time_point begin = Measures() ? Clock::now() : Clock::time_point();
      Status status = takes_texts_ ? f_->CallWithTexts(ctx, job->texts, &slot.element)
                                   : f_->Call(ctx, &job->args, &slot.element);
      if (status.ok() && slot.places != nullptr) {
        slot.places->Place(slot.row, &slot.element, ctx.runtime->device->host_allocator());
      }
      const Clock::duration took = Measures() ? Clock::now() - begin : Clock::duration();
      job->args.clear();
      LockSoon(mu_);
      if (autotuned()) calls_.AddCall(took);
      if (consumer_may_help_) cost_ = Mean(cost_, job->reading_took + took);
      if (cost_ >= kShortCall) consumer_helps_ = false;
      slot.status = std::move(status);
      Finish(slot);
      job->slot = nullptr;
      if (consumer_may_help_) spare_jobs_.push_back(std::move(job));
    }
    void Finish(Slot& slot) MR_REQUIRES(mu_) {
      slot.places = nullptr;
      slot.done = true;
      --busy_;
      Happened();
      // In order, the consumer only waits for the first one.
      if (paused_ || dataset_.options_.sloppy || slots_.front().get() == &slot) changed_.NotifyAll();
    }
    bool autotuned() const { return ahead_.shares != nullptr && dataset_.options_.parallelism.chosen; }
    bool Measures() const { return consumer_may_help_ || autotuned(); }
    static Clock::duration Mean(Clock::duration mean, Clock::duration next) {
      return mean.count() == 0 ? next : (mean * 7 + next) / 8;
    }
    // The next row of a batch. If batches begin elsewhere after an error, rows are copied.
    void FindPlace(Slot* slot) MR_REQUIRES(mu_) {
      if (row_ == 0) places_ = std::make_shared<RowPlaces>(dataset_.options_.batch_size);
      slot->places = places_;
      slot->row = row_;
      if (++row_ < dataset_.options_.batch_size) return;
      row_ = 0;
      places_ = nullptr;
    }
    Status NextInputTexts(Context& ctx, Texts& texts, bool* end) {
      if (input_ == nullptr) {
        *end = true;
        return Status();
      }
      MR_RETURN_IF_ERROR(input_->GetNextTexts(ctx, texts, end));
      if (*end) input_.reset();
      return Status();
    }

    static constexpr int64_t kMostThreads = 128;
    static constexpr int64_t kAhead = 16;  // results beyond one for each call
    static constexpr Clock::duration kShortCall = std::chrono::milliseconds(2);
    static constexpr Clock::duration kAway = std::chrono::microseconds(300);
    static constexpr int kMostTimesAway = 4;
    static constexpr Clock::duration kLongestSpin = std::chrono::microseconds(200);
    const std::unique_ptr<ElementFunction::Bound> f_;
    const bool takes_texts_;
    mutable Mutex mu_;
    CondVar changed_;  // for results, or for all threads being idle
    CondVar work_;     // for the threads
    std::deque<std::shared_ptr<Slot>> slots_ MR_GUARDED_BY(mu_);
    bool ended_ MR_GUARDED_BY(mu_) = false;
    bool input_done_ MR_GUARDED_BY(mu_) = false;  // its end is in a slot
    bool reading_ MR_GUARDED_BY(mu_) = false;     // a thread reads the input
    bool paused_ MR_GUARDED_BY(mu_) = false;      // while it is saved
    int64_t busy_ MR_GUARDED_BY(mu_) = 0;         // threads with a slot
    CallsAtATime calls_ MR_GUARDED_BY(mu_);
    bool consumer_helps_ MR_GUARDED_BY(mu_);
    const bool consumer_may_help_;
    // Moving averages: of reading an element, and of reading and calling.
    Clock::duration reading_cost_ MR_GUARDED_BY(mu_){}, cost_ MR_GUARDED_BY(mu_){};
    std::atomic<int64_t> happened_{0};               // what spinning threads wait for
    Clock::time_point served_ MR_GUARDED_BY(mu_){};  // when the consumer last got an element
    int times_away_ MR_GUARDED_BY(mu_) = 0;          // long absences of the consumer before it had to wait
    std::deque<std::unique_ptr<Job>> jobs_ MR_GUARDED_BY(mu_);         // read, still to be called
    std::vector<std::unique_ptr<Job>> spare_jobs_ MR_GUARDED_BY(mu_);  // their memory
    std::shared_ptr<RowPlaces> places_ MR_GUARDED_BY(mu_);  // of the current batch; null before row 0
    int64_t row_ MR_GUARDED_BY(mu_) = 0;                    // of the next result in it
    Context ahead_;                                         // of the threads; set before they start
    StageThreads threads_{mu_, work_};
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    MR_ASSIGN_OR_RETURN(auto f, f_->Bind(ctx, input().types(), types()));
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> in, input().NewIterator(ctx));
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this, std::move(in), std::move(f)));
  }

 private:
  const std::unique_ptr<ElementFunction> f_;
  const Options options_;
};

Status ParallelMapDataset::It::Save(Context& ctx, StateWriter& state) {
  MutexLock lock(mu_);
  paused_ = true;
  Status status = Await(mu_, changed_, ctx, [&]() MR_NO_THREAD_SAFETY_ANALYSIS { return busy_ == 0; });
  if (status.ok()) {
    state.Write("ended", int64_t{ended_});
    state.Write("read", int64_t{input_done_});
    state.Write("slots", static_cast<int64_t>(slots_.size()));
    for (size_t i = 0; i < slots_.size(); ++i) {
      state.Write(StrCat("end", i), int64_t{slots_[i]->end});
      state.WriteStatus(StrCat("status", i), slots_[i]->status);
      state.WriteElement(StrCat("element", i), slots_[i]->element);
    }
    status = UnaryIterator::Save(ctx, state);
  }
  paused_ = false;
  work_.NotifyAll();
  return status;
}

Status ParallelMapDataset::It::Restore(Context& ctx, const StateReader& state) {
  MutexLock lock(mu_);
  MR_ASSIGN_OR_RETURN(const int64_t ended, state.Count("ended", 1));
  MR_ASSIGN_OR_RETURN(const int64_t read, state.Count("read", 1));
  MR_ASSIGN_OR_RETURN(const int64_t slots, state.Count("slots"));
  ended_ = ended != 0;
  input_done_ = read != 0;
  for (int64_t i = 0; i < slots; ++i) {
    auto slot = std::make_shared<Slot>();
    slot->done = true;
    MR_ASSIGN_OR_RETURN(const int64_t end, state.Count(StrCat("end", i), 1));
    slot->end = end != 0;
    MR_RETURN_IF_ERROR(state.ReadStatus(StrCat("status", i), &slot->status));
    MR_ASSIGN_OR_RETURN(slot->element, state.ReadElement(StrCat("element", i)));
    slots_.push_back(std::move(slot));
  }
  // Earlier rows have no place, and neither have the others of that batch.
  const int64_t batch = std::max<int64_t>(dataset_.options_.batch_size, 1);
  row_ = slots % batch;
  return UnaryIterator::Restore(ctx, state);
}

// A function of the graph.
class GraphFunction final : public ElementFunction {
 public:
  explicit GraphFunction(std::unique_ptr<CapturedFunction> f) : f_(std::move(f)) {}
  StatusOr<std::unique_ptr<Bound>> Bind(const Context& ctx, const std::vector<DataType>& args,
                                        const std::vector<DataType>& rets) const override {
    class Calls final : public Bound {
     public:
      explicit Calls(std::unique_ptr<Callable> f) : f_(std::move(f)) {}
      Status Call(Context& ctx, Element* args, Element* rets) const override {
        return f_->CallTaking(ctx, args, rets);
      }

     private:
      const std::unique_ptr<Callable> f_;
    };
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Callable> f, f_->Bind(ctx, args, &rets));
    return std::unique_ptr<Bound>(std::make_unique<Calls>(std::move(f)));
  }

 private:
  const std::unique_ptr<CapturedFunction> f_;
};

StatusOr<RefPtr<const Dataset>> MakeParallelMap(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(auto f, args.Function("f"));
  MR_ASSIGN_OR_RETURN(const int32_t calls, args.Scalar<int32_t>("num_parallel_calls"));
  ParallelMapDataset::Options options;
  MR_ASSIGN_OR_RETURN(options.parallelism, ParallelismOf(calls));
  MR_ASSIGN_OR_RETURN(options.sloppy, args.Attr<bool>("sloppy"));
  MR_ASSIGN_OR_RETURN(options.keeps_cardinality, args.Attr<bool>("preserve_cardinality"));
  return MakeRefDataset<ParallelMapDataset>(args.Kind(), std::move(signature), std::move(input),
                                            std::make_unique<GraphFunction>(std::move(f)), options);
}

}  // namespace

StatusOr<int64_t> ResolveParallelism(int64_t calls) {
  if (calls > 0) return calls;
  if (calls == -1) return std::max<int64_t>(1, std::thread::hardware_concurrency());
  return errors::InvalidArgument("num_parallel_calls must be greater than zero.");
}

StatusOr<Parallelism> ParallelismOf(int64_t calls) {
  MR_ASSIGN_OR_RETURN(const int64_t most, ResolveParallelism(calls));
  return Parallelism{most, calls == -1};
}

RefPtr<const Dataset> MapInParallel(std::string kind, Dataset::Signature signature,
                                    RefPtr<const Dataset> input, std::unique_ptr<ElementFunction> f,
                                    const Parallelism& parallelism, bool sloppy, bool keeps_cardinality,
                                    int64_t batch_size) {
  return MakeRefDataset<ParallelMapDataset>(
      std::move(kind), std::move(signature), std::move(input), std::move(f),
      ParallelMapDataset::Options{parallelism, sloppy, keeps_cardinality, batch_size});
}

std::unique_ptr<ElementFunction> FunctionOfGraph(std::unique_ptr<CapturedFunction> f) {
  return std::make_unique<GraphFunction>(std::move(f));
}

void RegisterParallelMapDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "ParallelMapDataset", MakeParallelMap);
}

}  // namespace millrace::data
