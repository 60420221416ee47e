// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Datasets that call a function for several elements at the same time.
#include <algorithm>
#include <deque>
#include <thread>

#include "base/strings.h"
#include "data/batch.h"
#include "data/tuning.h"
#include "data/waiting.h"
#include "device/device.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/parallel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

// With `batch_size` > 0 the results are batched.
class ParallelMapDataset final : public UnaryDataset {
 public:
  struct Options {
    Parallelism parallelism;
    bool sloppy = false;  // results in the order in which they come
    bool keeps_cardinality = false;
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
          calls_(dataset.options_.parallelism.most) {}

    bool MayWait(int64_t n) const override {
      MutexLock lock(mu_);
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
      MutexLock lock(mu_);
      if (ended_) {
        *end = true;
        return Status();
      }
      if (threads_.size() == 0 && ctx.shares != nullptr && dataset_.options_.parallelism.chosen) {
        calls_.Choose(*ctx.shares);
      }
      if (calls_.chosen() && calls_.Asked(CallsAtATime::Clock::now())) work_.NotifyAll();
      MR_RETURN_IF_ERROR(StartThreads(ctx));
      const Status status = Take(ctx, out, end);
      if (calls_.chosen()) calls_.Served(CallsAtATime::Clock::now());
      return status;
    }

    Status Save(Context& ctx, StateWriter& state) override;
    Status Restore(Context& ctx, const StateReader& state) override;

   private:
    // The place of one result, in the order of the input.
    struct Slot {
      Element element;
      Status status;
      bool done = false;
      bool end = false;
    };

    // Waits for the next result.
    Status Take(Context& ctx, Element* out, bool* end) MR_REQUIRES(mu_) {
      size_t found = 0;
      MR_RETURN_IF_ERROR(
          Await(mu_, changed_, ctx, [&]() MR_NO_THREAD_SAFETY_ANALYSIS { return FindDone(&found); }));
      const std::shared_ptr<Slot> slot = std::move(slots_[found]);
      slots_.erase(slots_.begin() + static_cast<ptrdiff_t>(found));
      // The threads are woken for several elements at a time.
      if (static_cast<int64_t>(slots_.size()) <= calls_.limit() + kAhead / 2) work_.NotifyAll();
      if (slot->end) {
        ended_ = *end = true;
        return Status();
      }
      // As in TensorFlow a function that says that there is nothing more ends the dataset.
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

    Status StartThreads(Context& ctx) MR_REQUIRES(mu_) {
      const int64_t wanted = std::min<int64_t>(calls_.limit(), kMostThreads);
      if (static_cast<int64_t>(threads_.size()) >= wanted) return Status();
      if (threads_.size() == 0) ahead_ = ctx.Ahead(threads_.cancellation());
      for (auto i = static_cast<int64_t>(threads_.size()); i < wanted; ++i) {
        const Status status = threads_.Start([this, i] { Work(i); });
        if (!status.ok() && threads_.size() == 0) return status;
        if (!status.ok()) break;
      }
      return Status();
    }

    bool MayRead(int64_t thread) const MR_REQUIRES(mu_) {
      return !paused_ && !reading_ && !input_done_ && thread < calls_.limit() &&
             static_cast<int64_t>(slots_.size()) < calls_.limit() + kAhead;
    }
    void Work(int64_t thread) MR_EXCLUDES(mu_) {
      using Clock = CallsAtATime::Clock;
      while (true) {
        const auto slot = std::make_shared<Slot>();
        {
          MutexLock lock(mu_);
          while (!threads_.stopping() && !MayRead(thread) && !(input_done_ && !paused_)) work_.Wait(mu_);
          if (threads_.stopping() || input_done_) return;
          reading_ = true;
          ++busy_;
          slots_.push_back(slot);
        }
        Context ctx = ahead_;
        Element args;
        bool end = false;
        const bool measures = ctx.shares != nullptr && dataset_.options_.parallelism.chosen;
        Clock::time_point begin;
        if (measures) begin = Clock::now();
        Status status = NextInput(ctx, &args, &end);
        Clock::time_point middle;
        if (measures) middle = Clock::now();
        {
          MutexLock lock(mu_);
          if (measures) calls_.AddInput(middle - begin);
          reading_ = false;
          input_done_ = status.ok() && end;
          if (input_done_ || threads_.size() > 2) {
            work_.NotifyAll();
          } else if (threads_.size() > 1) {
            work_.NotifyOne();
          }
        }
        const bool calls = status.ok() && !end;
        if (calls) status = f_->Call(ctx, &args, &slot->element);
        Clock::time_point done;
        if (measures) done = Clock::now();
        MutexLock lock(mu_);
        if (measures && calls) calls_.AddCall(done - middle);
        slot->end = status.ok() && end;
        slot->status = std::move(status);
        slot->done = true;
        --busy_;
        // In order, the consumer waits for the first one only.
        if (paused_ || dataset_.options_.sloppy || slots_.front() == slot) changed_.NotifyAll();
      }
    }

    static constexpr int64_t kMostThreads = 128;
    static constexpr int64_t kAhead = 16;  // results beyond one for each call
    const std::unique_ptr<ElementFunction::Bound> f_;
    mutable Mutex mu_;
    CondVar changed_;  // for those who wait for results, or for all threads to be idle
    CondVar work_;     // for the threads
    std::deque<std::shared_ptr<Slot>> slots_ MR_GUARDED_BY(mu_);
    bool ended_ MR_GUARDED_BY(mu_) = false;
    bool input_done_ MR_GUARDED_BY(mu_) = false;  // its end is in a slot
    bool reading_ MR_GUARDED_BY(mu_) = false;     // a thread is at the input
    bool paused_ MR_GUARDED_BY(mu_) = false;      // while it is saved
    int64_t busy_ MR_GUARDED_BY(mu_) = 0;         // threads with a slot
    CallsAtATime calls_ MR_GUARDED_BY(mu_);
    Context ahead_;  // of the threads; set before they start
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
                                    const Parallelism& parallelism, bool sloppy, bool keeps_cardinality) {
  return MakeRefDataset<ParallelMapDataset>(
      std::move(kind), std::move(signature), std::move(input), std::move(f),
      ParallelMapDataset::Options{parallelism, sloppy, keeps_cardinality});
}

std::unique_ptr<ElementFunction> FunctionOfGraph(std::unique_ptr<CapturedFunction> f) {
  return std::make_unique<GraphFunction>(std::move(f));
}

void RegisterParallelMapDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "ParallelMapDataset", MakeParallelMap);
}

}  // namespace millrace::data
