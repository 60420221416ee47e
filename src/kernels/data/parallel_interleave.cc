// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Interleaving with several threads that read the datasets.
#include <algorithm>
#include <deque>

#include "base/strings.h"
#include "data/tuning.h"
#include "data/waiting.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/nested.h"
#include "kernels/data/parallel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

// The order is that of Interleave. Threads open the datasets of the next input elements and read open ones,
// each up to `buffer` elements ahead of the consumer.
class ParallelInterleaveDataset final : public UnaryDataset {
 public:
  struct Options {
    int64_t cycle = 1, block = 1;
    Parallelism parallelism;
    int64_t buffer = 1;   // elements of one dataset
    int64_t ahead = 1;    // datasets beyond those of the cycle
    bool sloppy = false;  // an available element precedes one that must be waited for
  };
  ParallelInterleaveDataset(std::string kind, Signature signature, RefPtr<const Dataset> input,
                            std::unique_ptr<CapturedFunction> f, Options options)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        f_(std::move(f)),
        o_(options) {}
  int64_t Cardinality() const override { return kUnknown; }

 protected:
  class It final : public UnaryIterator<ParallelInterleaveDataset> {
   public:
    It(const ParallelInterleaveDataset& dataset, std::unique_ptr<Iterator> input, std::unique_ptr<Callable> f)
        : UnaryIterator(dataset, std::move(input)),
          f_(std::move(f)),
          calls_(std::min(dataset.o_.parallelism.most, kMostThreads)) {}
    bool MayWait(int64_t /*n*/) const override { return true; }

    BufferFill fill() const override {
      MutexLock lock(mu_);
      int64_t ready = 0;
      for (const auto& source : slots_) {
        if (source != nullptr) ready += static_cast<int64_t>(source->results.size());
      }
      return {ready, ManyTimes(dataset_.o_.cycle, dataset_.o_.buffer)};
    }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      MutexLock lock(mu_);
      if (threads_.size() == 0 && ctx.shares != nullptr && dataset_.o_.parallelism.chosen) {
        calls_.Choose(*ctx.shares);
      }
      if (calls_.chosen() && calls_.Asked(CallsAtATime::Clock::now())) changed_.NotifyAll();
      MR_RETURN_IF_ERROR(StartThreads(ctx));
      Status status = Take(ctx, out, end);
      if (calls_.chosen()) calls_.Served(CallsAtATime::Clock::now());
      return status;
    }

    Status Save(Context& ctx, StateWriter& state) override {
      MutexLock lock(mu_);
      paused_ = true;
      Status status = Await(mu_, changed_, ctx, [&]() MR_NO_THREAD_SAFETY_ANALYSIS { return busy_ == 0; });
      if (status.ok()) status = SaveAll(ctx, state);
      paused_ = false;
      changed_.NotifyAll();
      return status;
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MutexLock lock(mu_);
      MR_ASSIGN_OR_RETURN(const int64_t at, state.Count("at", dataset_.o_.cycle - 1));
      MR_ASSIGN_OR_RETURN(taken_, state.Count("taken", dataset_.o_.block));
      MR_ASSIGN_OR_RETURN(const int64_t done, state.Count("done", 1));
      MR_ASSIGN_OR_RETURN(const int64_t slots, state.Count("slots", dataset_.o_.cycle));
      MR_ASSIGN_OR_RETURN(const int64_t opened, state.Count("opened"));
      at_ = static_cast<size_t>(at);
      input_done_ = done != 0;
      for (int64_t i = 0; i < slots; ++i) {
        MR_ASSIGN_OR_RETURN(auto source, RestoreSource(ctx, state, StrCat("slot", i)));
        open_ += source == nullptr ? 0 : 1;
        slots_.push_back(std::move(source));
      }
      for (int64_t i = 0; i < opened; ++i) {
        MR_ASSIGN_OR_RETURN(auto source, RestoreSource(ctx, state, StrCat("opened", i)));
        opened_.push_back(std::move(source));
      }
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    struct Result {
      Element element;
      Status status;
    };
    // A dataset in progress.
    struct Source {
      std::unique_ptr<Nested> nested;  // null: not open yet, or at its end
      std::deque<Result> results;
      bool opening = true;
      bool busy = false;  // a thread reads it
      bool ended = false;
    };

    // Waits for the next element.
    Status Take(Context& ctx, Element* out, bool* end) MR_REQUIRES(mu_) {
      while (true) {
        if (at_ < slots_.size() && slots_[at_] != nullptr) {
          MR_RETURN_IF_ERROR(Await(mu_, changed_, ctx, [&]() MR_NO_THREAD_SAFETY_ANALYSIS {
            return Ready(*slots_[at_]) || (dataset_.o_.sloppy && AnyReady());
          }));
          if (!Ready(*slots_[at_])) TurnToReady();
          const std::shared_ptr<Source> source = slots_[at_];
          if (!source->results.empty()) {
            Result result = std::move(source->results.front());
            source->results.pop_front();
            changed_.NotifyAll();
            if (++taken_ == dataset_.o_.block) Advance();
            *out = std::move(result.element);
            return result.status;
          }
          // It has ended. Its slot is filled in its next turn.
          slots_[at_] = nullptr;
          --open_;
          Advance();
        } else if (!opened_.empty() || !input_done_) {
          MR_RETURN_IF_ERROR(Await(mu_, changed_, ctx, [&]() MR_NO_THREAD_SAFETY_ANALYSIS {
            return !opened_.empty() || input_done_;
          }));
          if (opened_.empty()) continue;
          while (slots_.size() <= at_) slots_.emplace_back();
          slots_[at_] = std::move(opened_.front());
          opened_.pop_front();
          ++open_;
          changed_.NotifyAll();
        } else if (open_ == 0) {
          *end = true;
          return Status();
        } else {
          Advance();
        }
      }
    }

    static bool Ready(const Source& source) { return !source.results.empty() || source.ended; }
    bool AnyReady() const MR_REQUIRES(mu_) {
      return std::ranges::any_of(slots_, [](const auto& s) { return s != nullptr && Ready(*s); });
    }
    void TurnToReady() MR_REQUIRES(mu_) {
      while (slots_[at_] == nullptr || !Ready(*slots_[at_])) at_ = (at_ + 1) % slots_.size();
      taken_ = 0;
    }
    void Advance() MR_REQUIRES(mu_) {
      taken_ = 0;
      // After the input has ended, slots after the last one used stay empty.
      const bool more = !input_done_ || !opened_.empty();
      const size_t cycle = more ? static_cast<size_t>(dataset_.o_.cycle) : slots_.size();
      at_ = at_ + 1 < cycle ? at_ + 1 : 0;
    }

    Status StartThreads(Context& ctx) MR_REQUIRES(mu_) {
      const auto begin = static_cast<int64_t>(threads_.size());
      if (begin >= calls_.limit()) return Status();
      if (begin == 0) ahead_ = ctx.Ahead(threads_.cancellation());
      for (int64_t i = begin; i < calls_.limit(); ++i) {
        Status status = threads_.Start([this, i] { Work(i); });
        if (!status.ok() && threads_.size() == 0) return status;
        if (!status.ok()) break;
      }
      return Status();
    }

    // The dataset to be read: first those of the cycle, from the one in turn on.
    std::shared_ptr<Source> ToRead() MR_REQUIRES(mu_) {
      const auto wants = [this](const std::shared_ptr<Source>& s) {
        return s != nullptr && !s->opening && !s->busy && !s->ended &&
               static_cast<int64_t>(s->results.size()) < dataset_.o_.buffer;
      };
      for (size_t i = 0; i < slots_.size(); ++i) {
        const auto& source = slots_[(at_ + i) % slots_.size()];
        if (wants(source)) return source;
      }
      const auto found = std::ranges::find_if(opened_, wants);
      return found == opened_.end() ? nullptr : *found;
    }
    bool MayOpen() const MR_REQUIRES(mu_) {
      return !reading_ && !input_done_ &&
             static_cast<int64_t>(opened_.size()) + open_ < dataset_.o_.cycle + dataset_.o_.ahead;
    }

    void Work(int64_t thread) MR_EXCLUDES(mu_) {
      const bool measures = ahead_.shares != nullptr && dataset_.o_.parallelism.chosen;
      while (true) {
        std::shared_ptr<Source> source;
        bool opens = false;
        {
          MutexLock lock(mu_);
          while (!threads_.stopping()) {
            if (!paused_ && thread < calls_.limit()) {
              // First the cycle is filled; then open datasets are read, and then more are opened.
              const bool cycle_is_full = static_cast<int64_t>(opened_.size()) + open_ >= dataset_.o_.cycle;
              opens = MayOpen() && !cycle_is_full;
              if (!opens) source = ToRead();
              if (source == nullptr && !opens) opens = MayOpen();
              if (source != nullptr || opens) break;
            }
            changed_.Wait(mu_);
          }
          if (threads_.stopping()) return;
          ++busy_;
          if (opens) reading_ = true;
          if (source != nullptr) source->busy = true;
        }
        Context ctx = ahead_;
        CallsAtATime::Clock::time_point begin;
        if (measures) begin = CallsAtATime::Clock::now();
        if (opens) {
          Open(ctx);
        } else {
          Read(ctx, *source);
        }
        MutexLock lock(mu_);
        // Elements wait for the opening of their source.
        if (measures) calls_.AddCall(CallsAtATime::Clock::now() - begin);
        --busy_;
        changed_.NotifyAll();
      }
    }

    void Open(Context& ctx) MR_EXCLUDES(mu_) {
      Element args;
      bool end = false;
      Status status = NextInput(ctx, &args, &end);
      const auto source = std::make_shared<Source>();
      {
        // The place in the order is reserved before another thread reads the input.
        MutexLock lock(mu_);
        reading_ = false;
        input_done_ = status.ok() && end;
        if (!input_done_) opened_.push_back(source);
        changed_.NotifyAll();
        if (input_done_) return;
      }
      StatusOr<std::unique_ptr<Nested>> made = std::unique_ptr<Nested>();
      if (status.ok()) made = Nested::Open(ctx, *f_, std::move(args), dataset_.types());
      MutexLock lock(mu_);
      source->opening = false;
      if (status.ok()) status = made.status();
      if (status.ok()) {
        source->nested = *std::move(made);
      } else {
        source->results.push_back({Element(), status});
        source->ended = true;
      }
    }
    void Read(Context& ctx, Source& source) MR_EXCLUDES(mu_) {
      Result result;
      bool end = false;
      result.status = source.nested->GetNext(ctx, &result.element, &end);
      std::unique_ptr<Nested> ended;  // may have threads to wait for
      MutexLock lock(mu_);
      source.busy = false;
      if (!result.status.ok() || !end) {
        source.results.push_back(std::move(result));
      } else {
        source.ended = true;
        ended = std::move(source.nested);
      }
    }

    Status SaveSource(Context& ctx, StateWriter& state, const std::string& name, Source* source)
        MR_REQUIRES(mu_) {
      state.Write(StrCat(name, ".there"), int64_t{source != nullptr});
      if (source == nullptr) return Status();
      state.Write(StrCat(name, ".ended"), int64_t{source->ended});
      state.Write(StrCat(name, ".results"), static_cast<int64_t>(source->results.size()));
      for (size_t i = 0; i < source->results.size(); ++i) {
        state.WriteStatus(StrCat(name, ".status", i), source->results[i].status);
        state.WriteElement(StrCat(name, ".element", i), source->results[i].element);
      }
      return source->nested == nullptr ? Status() : source->nested->Save(ctx, StrCat(name, ".nested"), state);
    }
    Status SaveAll(Context& ctx, StateWriter& state) MR_REQUIRES(mu_) {
      state.Write("at", static_cast<int64_t>(at_));
      state.Write("taken", taken_);
      state.Write("done", int64_t{input_done_});
      state.Write("slots", static_cast<int64_t>(slots_.size()));
      state.Write("opened", static_cast<int64_t>(opened_.size()));
      for (size_t i = 0; i < slots_.size(); ++i)
        MR_RETURN_IF_ERROR(SaveSource(ctx, state, StrCat("slot", i), slots_[i].get()));
      for (size_t i = 0; i < opened_.size(); ++i)
        MR_RETURN_IF_ERROR(SaveSource(ctx, state, StrCat("opened", i), opened_[i].get()));
      return UnaryIterator::Save(ctx, state);
    }
    StatusOr<std::shared_ptr<Source>> RestoreSource(Context& ctx, const StateReader& state,
                                                    const std::string& name) {
      MR_ASSIGN_OR_RETURN(const int64_t there, state.Count(StrCat(name, ".there"), 1));
      if (there == 0) return std::shared_ptr<Source>();
      auto source = std::make_shared<Source>();
      source->opening = false;
      MR_ASSIGN_OR_RETURN(const int64_t ended, state.Count(StrCat(name, ".ended"), 1));
      source->ended = ended != 0;
      MR_ASSIGN_OR_RETURN(const int64_t results, state.Count(StrCat(name, ".results")));
      for (int64_t i = 0; i < results; ++i) {
        Result result;
        MR_RETURN_IF_ERROR(state.ReadStatus(StrCat(name, ".status", i), &result.status));
        MR_ASSIGN_OR_RETURN(result.element, state.ReadElement(StrCat(name, ".element", i)));
        source->results.push_back(std::move(result));
      }
      if (source->ended) return source;
      MR_ASSIGN_OR_RETURN(source->nested,
                          Nested::Restore(ctx, StrCat(name, ".nested"), state, *f_, dataset_.types()));
      return source;
    }

    static constexpr int64_t kMostThreads = 128;
    const std::unique_ptr<Callable> f_;
    mutable Mutex mu_;
    CondVar changed_;
    std::vector<std::shared_ptr<Source>> slots_ MR_GUARDED_BY(mu_);  // of the cycle; null: free
    std::deque<std::shared_ptr<Source>> opened_ MR_GUARDED_BY(mu_);  // for the next free slots
    size_t at_ MR_GUARDED_BY(mu_) = 0;                               // index of the slot in turn
    int64_t taken_ MR_GUARDED_BY(mu_) = 0;                           // elements in this turn
    int64_t open_ MR_GUARDED_BY(mu_) = 0;                            // slots that are not free
    bool reading_ MR_GUARDED_BY(mu_) = false;                        // a thread reads the input
    bool input_done_ MR_GUARDED_BY(mu_) = false;
    bool paused_ MR_GUARDED_BY(mu_) = false;  // while it is saved
    int64_t busy_ MR_GUARDED_BY(mu_) = 0;     // working threads
    CallsAtATime calls_ MR_GUARDED_BY(mu_);   // the number of concurrently working threads
    Context ahead_;                           // of the threads; set before they start
    StageThreads threads_{mu_, changed_};
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Callable> f, f_->Bind(ctx, input().types(), nullptr));
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> in, input().NewIterator(ctx));
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this, std::move(in), std::move(f)));
  }

 private:
  const std::unique_ptr<CapturedFunction> f_;
  const Options o_;
};

StatusOr<ParallelInterleaveDataset::Options> CycleOf(const NodeArgs& args) {
  ParallelInterleaveDataset::Options o;
  MR_ASSIGN_OR_RETURN(o.cycle, args.Scalar<int64_t>("cycle_length"));
  MR_ASSIGN_OR_RETURN(o.block, args.Scalar<int64_t>("block_length"));
  if (o.cycle == -1) {
    MR_ASSIGN_OR_RETURN(o.cycle, ResolveParallelism(-1));
  }
  if (o.cycle <= 0) return errors::InvalidArgument("`cycle_length` must be > 0");
  if (o.block <= 0) return errors::InvalidArgument("`block_length` must be > 0");
  o.buffer = std::min<int64_t>(o.block, 1024);
  return o;
}

StatusOr<RefPtr<const Dataset>> MakeInParallel(const NodeArgs& args,
                                               const ParallelInterleaveDataset::Options& options) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(auto f, args.Function("f"));
  return MakeRefDataset<ParallelInterleaveDataset>(args.Kind(), std::move(signature), std::move(input),
                                                   std::move(f), options);
}

StatusOr<RefPtr<const Dataset>> MakeParallelInterleaveV2(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(auto o, CycleOf(args));
  MR_ASSIGN_OR_RETURN(const int64_t calls, args.Scalar<int64_t>("num_parallel_calls"));
  MR_ASSIGN_OR_RETURN(o.parallelism, ParallelismOf(calls));
  MR_ASSIGN_OR_RETURN(o.sloppy, args.Attr<bool>("sloppy"));
  o.parallelism.most = std::min(o.parallelism.most, o.cycle);
  o.ahead = o.parallelism.most;
  return MakeInParallel(args, o);
}

// The older op, with a thread for each dataset of the cycle.
StatusOr<RefPtr<const Dataset>> MakeParallelInterleave(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(auto o, CycleOf(args));
  MR_ASSIGN_OR_RETURN(o.sloppy, args.Scalar<bool>("sloppy"));
  MR_ASSIGN_OR_RETURN(o.buffer, args.Scalar<int64_t>("buffer_output_elements"));
  MR_ASSIGN_OR_RETURN(o.ahead, args.Scalar<int64_t>("prefetch_input_elements"));
  if (o.buffer <= 0) return errors::InvalidArgument("`buffer_output_elements` must be > 0");
  if (o.ahead < 0) return errors::InvalidArgument("`prefetch_input_elements` must be >= 0");
  o.parallelism.most = o.cycle;
  return MakeInParallel(args, o);
}

}  // namespace

void RegisterParallelInterleaveDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "ParallelInterleaveDatasetV2", MakeParallelInterleaveV2);
  RegisterDataset(registry, "ParallelInterleaveDataset", MakeParallelInterleave);
}

}  // namespace millrace::data
