// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ShuffleDataset: elements in random order, the same as TensorFlow's for the same seeds.
#include <algorithm>
#include <deque>
#include <type_traits>

#include "base/random/philox_stream.h"
#include "base/strings.h"
#include "device/device.h"
#include "kernel/resource.h"
#include "kernel/resource_op.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"
#include "tensor/variant.h"

namespace millrace::data {
namespace {

struct Seeds {
  int64_t seed = 0, seed2 = 0;
};

// Two zero seeds mean random ones.
Seeds Resolve(Seeds seeds) {
  if (seeds.seed != 0 || seeds.seed2 != 0) return seeds;
  return {static_cast<int64_t>(RandomSeed64()), static_cast<int64_t>(RandomSeed64())};
}
PhiloxRandom Generator(Seeds seeds) {
  return PhiloxRandom(static_cast<uint64_t>(seeds.seed), static_cast<uint64_t>(seeds.seed2));
}

// Provides the seeds of each iteration. Thread-safe.
class SeedGenerator final : public Resource {
 public:
  explicit SeedGenerator(Seeds seeds) : base_(Resolve(seeds)), stream_(Generator(base_)) {}
  std::string DebugString() const override { return "RandomSeedGenerator"; }
  Seeds Next() {
    MutexLock lock(mu_);
    drawn_ += 2;
    const int64_t seed = stream_.Next32();
    return {seed, stream_.Next32()};
  }
  // The seeds of later iterations are part of the state of an iterator.
  void Save(StateWriter& state) const {
    MutexLock lock(mu_);
    state.Write("base", base_.seed);
    state.Write("base2", base_.seed2);
    state.Write("base_drawn", drawn_);
  }
  Status Restore(const StateReader& state) {
    MutexLock lock(mu_);
    MR_ASSIGN_OR_RETURN(base_.seed, state.Int("base"));
    MR_ASSIGN_OR_RETURN(base_.seed2, state.Int("base2"));
    MR_ASSIGN_OR_RETURN(drawn_, state.Count("base_drawn"));
    stream_ = PhiloxStream(Generator(base_), static_cast<uint64_t>(drawn_));
    return Status();
  }

 private:
  mutable Mutex mu_;
  Seeds base_ MR_GUARDED_BY(mu_);
  int64_t drawn_ MR_GUARDED_BY(mu_) = 0;
  PhiloxStream stream_ MR_GUARDED_BY(mu_);
};

// A buffer from which elements are drawn; the next input element replaces a drawn one. Repeats the input
// itself: a new iteration begins to fill the buffer while elements of the previous one are still drawn.
class ShuffleDataset final : public UnaryDataset {
 public:
  ShuffleDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, int64_t buffer_size,
                 int64_t count, Seeds fixed, RefPtr<SeedGenerator> generator)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        buffer_size_(buffer_size),
        count_(count),
        fixed_(fixed),
        generator_(std::move(generator)) {}
  int64_t Cardinality() const override {
    const int64_t n = input().Cardinality();
    if (count_ == 1) return n;
    if (count_ < 0) return n == 0 ? 0 : kInfinite;
    return n < 0 ? n : ManyTimes(n, count_);
  }

 protected:
  // Elements of one string each are stored as strings, which is faster than a tensor for each.
  template <typename Held>
  class It final : public UnaryIterator<ShuffleDataset> {
   public:
    static constexpr bool kTexts = std::is_same_v<Held, std::string>;
    It(const ShuffleDataset& dataset, std::unique_ptr<Iterator> input, Seeds seeds)
        : UnaryIterator(dataset, std::move(input)),
          seeds_(seeds),
          stream_(Generator(seeds)),
          waits_(input_->MayWait(INT64_MAX)) {}
    bool MayWait(int64_t n) const override {
      if (input_ == nullptr) return false;
      if (dataset_.count_ != 1) return waits_;
      const int64_t room = dataset_.buffer_size_ - static_cast<int64_t>(held_);
      return input_->MayWait(n > INT64_MAX - room ? INT64_MAX : n + room);
    }

    BufferFill fill() const override { return {static_cast<int64_t>(held_), dataset_.buffer_size_}; }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      MR_RETURN_IF_ERROR(FillBuffer(ctx));
      *end = held_ == 0;
      return *end ? Status() : ToElement(Take(), out);
    }
    bool GivesRows() const override { return kTexts && dataset_.count_ == 1 && InputGivesRows(); }
    Status GetRows(Context& ctx, int64_t n, Element* out, int64_t* got) override {
      *got = 0;
      if constexpr (kTexts) {
        MR_ASSIGN_OR_RETURN(Tensor rows, Tensor::Allocate(DataType::kString, TensorShape({n}),
                                                          ctx.runtime->device->host_allocator()));
        std::string* const texts = rows.data<std::string>();
        MR_RETURN_IF_ERROR(DrawTexts(
            ctx, n, [&](std::string&& text) { texts[*got] = std::move(text); }, got));
        out->clear();
        out->push_back(*got == n ? std::move(rows) : rows.Slice(0, *got));
        return Status();
      } else {
        return errors::Internal("elements come one by one");
      }
    }
    Status GetTexts(Context& ctx, int64_t n, TextSink& sink, int64_t* got) override {
      *got = 0;
      if constexpr (kTexts) {
        const auto give = [&](std::string&& text) {
          sink.Add(text);
          // The next string that is read gets the memory.
          constexpr size_t kMostKept = 4 << 10;
          if (input_ != nullptr && text.capacity() <= kMostKept) spare_.push_back(std::move(text));
        };
        return DrawTexts(ctx, n, give, got);
      } else {
        return errors::Internal("elements come one by one");
      }
    }

    Status Save(Context& ctx, StateWriter& state) override;
    Status Restore(Context& ctx, const StateReader& state) override;

   private:
    // Elements of one iteration of the input.
    struct Epoch {
      std::vector<Held> waiting;
      size_t begin = 0;
      bool empty() const { return begin == waiting.size(); }
      void Compact() {
        waiting.erase(waiting.begin(), waiting.begin() + static_cast<ptrdiff_t>(begin));
        begin = 0;
      }
    };
    // The buffer is not filled further when it contains elements of this number of iterations.
    static constexpr int64_t kMostEpochs = 3;

    static Status ToElement(Held held, Element* out) {
      if constexpr (kTexts) {
        out->clear();
        out->emplace_back(DataType::kString, TensorShape());
        if (!out->back().IsInitialized()) return errors::ResourceExhausted("No memory for an element");
        out->back().template scalar<std::string>() = std::move(held);
      } else {
        *out = std::move(held);
      }
      return Status();
    }
    static StatusOr<Held> FromElement(Element element) {
      if constexpr (kTexts) {
        if (element.size() != 1 || element[0].dtype() != DataType::kString ||
            element[0].num_elements() != 1) {
          return errors::InvalidArgument("An element to shuffle is not the one text that it should be");
        }
        if (element[0].OwnsBufferAlone()) return std::move(element[0].template scalar<std::string>());
        return std::string(element[0].text());
      } else {
        return element;
      }
    }

    uint32_t Draw() {
      ++drawn_;
      return stream_.Next32();
    }

    // Draws one. REQUIRES: held_ > 0.
    Held Take() {
      while (epochs_.front().empty()) epochs_.pop_front();
      std::vector<Held>& from = epochs_.front().waiting;
      size_t& begin = epochs_.front().begin;
      const size_t drawn = begin + Draw() % (from.size() - begin);
      // The first one replaces the drawn one.
      Held taken = std::move(from[drawn]);
      if (drawn != begin) from[drawn] = std::move(from[begin]);
      ++begin;
      if (begin > 64 && begin > from.size() / 2) epochs_.front().Compact();
      --held_;
      return taken;
    }

    // Calls give(std::string&&) for the next n strings, or the remaining ones. The strings needed for them
    // are read together; each is drawn as soon as the buffer is full, as if they were read one by one.
    // REQUIRES: the input gives rows, once.
    template <typename Give>
    Status DrawTexts(Context& ctx, int64_t n, const Give& give, int64_t* got) {
      class Filler final : public TextSink {
       public:
        Filler(It& it, const Give& give, int64_t n, int64_t* got) : it_(it), give_(give), n_(n), got_(*got) {}
        void Add(std::string_view text) override {
          std::string held;
          if (!it_.spare_.empty()) {
            held = std::move(it_.spare_.back());
            it_.spare_.pop_back();
          }
          held.assign(text);
          it_.epochs_.back().waiting.push_back(std::move(held));
          ++it_.held_;
          Draw(it_.dataset_.buffer_size_);
        }
        // Draws while at least this number is held.
        void Draw(int64_t least) {
          for (; got_ < n_ && static_cast<int64_t>(it_.held_) >= least; ++got_) give_(it_.Take());
        }

       private:
        It& it_;
        const Give& give_;
        const int64_t n_;
        int64_t& got_;
      };
      constexpr int64_t kMostAtOnce = 1024;
      if (epochs_.empty()) epochs_.emplace_back();
      Filler filler(*this, give, n, got);
      filler.Draw(dataset_.buffer_size_);
      while (*got < n && input_ != nullptr) {
        if (ctx.cancelled()) return CancelledStatus();
        // This number is read in any case, unless the input ends.
        const int64_t room = dataset_.buffer_size_ - static_cast<int64_t>(held_);
        const int64_t wanted = std::min(std::min(room, kMostAtOnce) + (n - *got) - 1, kMostAtOnce);
        int64_t read = 0;
        MR_RETURN_IF_ERROR(input_->GetTexts(ctx, wanted, filler, &read));
        if (read == wanted) continue;
        done_ = 1;
        input_.reset();
      }
      filler.Draw(1);
      return Status();
    }

    Status ReadOne(Context& ctx, Held* held, bool* end) {
      if (ctx.cancelled()) return CancelledStatus();
      Element element;
      MR_RETURN_IF_ERROR(input_->GetNext(ctx, &element, end));
      if (*end) return Status();
      MR_ASSIGN_OR_RETURN(*held, FromElement(std::move(element)));
      return Status();
    }

    Status FillBuffer(Context& ctx) {
      if (epochs_.empty()) epochs_.emplace_back();
      while (input_ != nullptr && held_ < static_cast<size_t>(dataset_.buffer_size_)) {
        Held element;
        bool ended = false;
        MR_RETURN_IF_ERROR(ReadOne(ctx, &element, &ended));
        if (!ended) {
          any_ = true;
          epochs_.back().waiting.push_back(std::move(element));
          ++held_;
          continue;
        }
        ++done_;
        // An empty input would be repeated endlessly.
        if (done_ == dataset_.count_ || (dataset_.count_ < 0 && !any_)) {
          input_.reset();
          break;
        }
        MR_ASSIGN_OR_RETURN(input_, dataset_.input().NewIterator(ctx));
        if (!epochs_.back().empty()) epochs_.emplace_back();
        while (epochs_.size() > 1 && epochs_.front().empty()) epochs_.pop_front();
        if (static_cast<int64_t>(epochs_.size()) > kMostEpochs) break;
      }
      return Status();
    }

    Seeds seeds_;
    PhiloxStream stream_;
    const bool waits_;
    uint64_t drawn_ = 0;
    std::deque<Epoch> epochs_;
    size_t held_ = 0;
    int64_t done_ = 0;  // iterations of the input that have ended
    bool any_ = false;
    std::vector<std::string> spare_;  // memory of strings that were output
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> in, input().NewIterator(ctx));
    const Seeds seeds = generator_ != nullptr ? generator_->Next() : fixed_;
    if (AreTexts(*this))
      return std::unique_ptr<Iterator>(std::make_unique<It<std::string>>(*this, std::move(in), seeds));
    return std::unique_ptr<Iterator>(std::make_unique<It<Element>>(*this, std::move(in), seeds));
  }

 private:
  const int64_t buffer_size_, count_;
  const Seeds fixed_;
  const RefPtr<SeedGenerator> generator_;  // null: the fixed seeds, each time
};

template <typename Held>
Status ShuffleDataset::It<Held>::Save(Context& ctx, StateWriter& state) {
  if (dataset_.generator_ != nullptr) dataset_.generator_->Save(state);
  state.Write("seed", seeds_.seed);
  state.Write("seed2", seeds_.seed2);
  state.Write("drawn", static_cast<int64_t>(drawn_));
  state.Write("done", done_);
  state.Write("any", int64_t{any_});
  state.Write("epochs", static_cast<int64_t>(epochs_.size()));
  for (size_t e = 0; e < epochs_.size(); ++e) {
    epochs_[e].Compact();
    const std::vector<Held>& waiting = epochs_[e].waiting;
    state.Write(StrCat("size", e), static_cast<int64_t>(waiting.size()));
    for (size_t i = 0; i < waiting.size(); ++i) {
      Element element;
      MR_RETURN_IF_ERROR(ToElement(waiting[i], &element));
      state.WriteElement(StrCat("held", e, ".", i), element);
    }
  }
  return UnaryIterator::Save(ctx, state);
}

template <typename Held>
Status ShuffleDataset::It<Held>::Restore(Context& ctx, const StateReader& state) {
  if (dataset_.generator_ != nullptr) MR_RETURN_IF_ERROR(dataset_.generator_->Restore(state));
  MR_ASSIGN_OR_RETURN(seeds_.seed, state.Int("seed"));
  MR_ASSIGN_OR_RETURN(seeds_.seed2, state.Int("seed2"));
  MR_ASSIGN_OR_RETURN(const int64_t drawn, state.Count("drawn"));
  MR_ASSIGN_OR_RETURN(done_, state.Count("done"));
  MR_ASSIGN_OR_RETURN(const int64_t any, state.Count("any", 1));
  any_ = any != 0;
  drawn_ = static_cast<uint64_t>(drawn);
  stream_ = PhiloxStream(Generator(seeds_), drawn_);
  MR_ASSIGN_OR_RETURN(const int64_t epochs, state.Count("epochs", kMostEpochs + 1));
  epochs_.clear();
  held_ = 0;
  for (int64_t e = 0; e < epochs; ++e) {
    MR_ASSIGN_OR_RETURN(const int64_t size, state.Count(StrCat("size", e), dataset_.buffer_size_));
    epochs_.emplace_back();
    for (int64_t i = 0; i < size; ++i, ++held_) {
      MR_ASSIGN_OR_RETURN(Element element, state.ReadElement(StrCat("held", e, ".", i)));
      MR_ASSIGN_OR_RETURN(Held held, FromElement(std::move(element)));
      epochs_.back().waiting.push_back(std::move(held));
    }
  }
  return UnaryIterator::Restore(ctx, state);
}

StatusOr<Seeds> SeedInputs(const NodeArgs& args) {
  Seeds seeds;
  MR_ASSIGN_OR_RETURN(seeds.seed, args.Scalar<int64_t>("seed"));
  MR_ASSIGN_OR_RETURN(seeds.seed2, args.Scalar<int64_t>("seed2"));
  return seeds;
}

StatusOr<int64_t> BufferSize(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(const int64_t size, args.Scalar<int64_t>("buffer_size"));
  if (size > 0) return size;
  return errors::InvalidArgument("buffer_size must be greater than zero.");
}

StatusOr<RefPtr<const Dataset>> MakeShuffle(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const int64_t size, BufferSize(args));
  MR_ASSIGN_OR_RETURN(const Seeds seeds, SeedInputs(args));
  MR_ASSIGN_OR_RETURN(const bool reshuffle, args.Attr<bool>("reshuffle_each_iteration"));
  RefPtr<SeedGenerator> generator;
  if (reshuffle) generator = MakeRef<SeedGenerator>(seeds);
  return MakeRefDataset<ShuffleDataset>(args.Kind(), std::move(signature), std::move(input), size, 1,
                                        Resolve(seeds), std::move(generator));
}

StatusOr<RefPtr<const Dataset>> MakeShuffleV2(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const int64_t size, BufferSize(args));
  MR_ASSIGN_OR_RETURN(const ResourceHandle handle, args.Scalar<ResourceHandle>("seed_generator"));
  MR_ASSIGN_OR_RETURN(RefPtr<SeedGenerator> generator,
                      args.context().resources().LookupHandle<SeedGenerator>(handle));
  return MakeRefDataset<ShuffleDataset>(args.Kind(), std::move(signature), std::move(input), size, 1, Seeds(),
                                        std::move(generator));
}

StatusOr<RefPtr<const Dataset>> MakeShuffleAndRepeat(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const int64_t size, BufferSize(args));
  MR_ASSIGN_OR_RETURN(const Seeds seeds, SeedInputs(args));
  MR_ASSIGN_OR_RETURN(const int64_t count, args.Scalar<int64_t>("count"));
  if (count <= 0 && count != -1) {
    return errors::InvalidArgument("count must be greater than zero or equal to -1.");
  }
  return MakeRefDataset<ShuffleDataset>(args.Kind(), std::move(signature), std::move(input), size, count,
                                        Resolve(seeds), nullptr);
}

// Creates a new seed generator in each run.
class SeedGeneratorKernel final : public NodeKernel {
 public:
  using NodeKernel::NodeKernel;
  Status Compute(KernelContext& context) override {
    static std::atomic<int64_t> next{0};
    MR_ASSIGN_OR_RETURN(const Seeds seeds, SeedInputs(Args(context)));
    const std::string name = StrCat("_AnonymousRandomSeedGenerator", next.fetch_add(1));
    const std::string_view container = ResourceManager::kDefaultContainer;
    MR_RETURN_IF_ERROR(context.resources().Create(container, name, MakeRef<SeedGenerator>(seeds)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    out->scalar<ResourceHandle>() = context.resources().MakeHandle<SeedGenerator>(container, name);
    MR_ASSIGN_OR_RETURN(Tensor * deleter, context.AllocateOutput(1, TensorShape()));
    deleter->scalar<Variant>() = VariantData("millrace::RandomSeedGeneratorDeleter", name, {});
    return Status();
  }
};

}  // namespace

void RegisterShuffleDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "ShuffleDataset", MakeShuffle);
  RegisterDataset(registry, "ShuffleDatasetV2", MakeShuffleV2);
  RegisterDataset(registry, "ShuffleAndRepeatDataset", MakeShuffleAndRepeat);
  registry.Register<SeedGeneratorKernel>(KernelDef("AnonymousRandomSeedGenerator"));
}

}  // namespace millrace::data
