// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Datasets whose elements are datasets of elements, or rows of batches.
#include <algorithm>
#include <deque>

#include "base/strings.h"
#include "data/batch.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/memory_dataset.h"
#include "kernels/data/register.h"
#include "tensor/cpu_allocator.h"

namespace millrace::data {
namespace {

// Elements in memory.
class MemoryDataset final : public Dataset {
 public:
  MemoryDataset(Signature signature, std::vector<Element> elements)
      : Dataset("Window", std::move(signature)), elements_(std::move(elements)) {}
  int64_t Cardinality() const override { return static_cast<int64_t>(elements_.size()); }

 protected:
  class It final : public Iterator {
   public:
    explicit It(const MemoryDataset& dataset) : dataset_(dataset) {}
    bool MayWait(int64_t /*n*/) const override { return false; }
    Status GetNext(Context& /*ctx*/, Element* out, bool* end) override {
      *end = next_ >= dataset_.Cardinality();
      if (!*end) *out = dataset_.elements_[static_cast<size_t>(next_++)];
      return Status();
    }
    Status Save(Context& /*ctx*/, StateWriter& state) override {
      state.Write("next", next_);
      return Status();
    }
    Status Restore(Context& /*ctx*/, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(next_, state.Count("next", dataset_.Cardinality()));
      return Status();
    }

   private:
    const MemoryDataset& dataset_;
    int64_t next_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& /*ctx*/) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this));
  }

 private:
  const std::vector<Element> elements_;
};

// Windows of `size` elements, `stride` apart; each begins `shift` elements after the previous one. A window
// is a dataset for each component or, joined, a batch.
class WindowDataset final : public UnaryDataset {
 public:
  struct Options {
    int64_t size = 1, shift = 1, stride = 1;
    bool drop_remainder = false;
    bool joined = false;
  };
  WindowDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, Options options)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), o_(options) {}
  int64_t Cardinality() const override {
    const int64_t n = input().Cardinality();
    if (n < 0) return n;
    if (!o_.drop_remainder) return n / o_.shift + (n % o_.shift == 0 ? 0 : 1);
    const int64_t span = Span();
    return n < span ? 0 : (n - span) / o_.shift + 1;
  }

 protected:
  // The number of elements from the first to the last of a window.
  int64_t Span() const {
    const int64_t steps = ManyTimes(o_.size - 1, o_.stride);
    return steps == INT64_MAX ? steps : steps + 1;
  }

  class It final : public UnaryIterator<WindowDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    bool MayWait(int64_t n) const override {
      const int64_t needed = std::max(dataset_.Span(), dataset_.o_.shift);
      return UnaryIterator::MayWait(ManyTimes(n, needed));
    }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      const Options& o = dataset_.o_;
      while (to_skip_ > 0 && input_ != nullptr) {
        if (ctx.cancelled()) return CancelledStatus();
        Element unused;
        bool ended = false;
        MR_RETURN_IF_ERROR(NextInput(ctx, &unused, &ended));
        --to_skip_;
      }
      while (input_ != nullptr && static_cast<int64_t>(held_.size()) < dataset_.Span()) {
        if (ctx.cancelled()) return CancelledStatus();
        Element element;
        bool ended = false;
        MR_RETURN_IF_ERROR(NextInput(ctx, &element, &ended));
        if (!ended) held_.push_back(std::move(element));
      }
      if (held_.empty() || (o.drop_remainder && static_cast<int64_t>(held_.size()) < dataset_.Span())) {
        held_.clear();
        input_.reset();
        *end = true;
        return Status();
      }
      std::vector<Element> window;
      for (int64_t i = 0;
           i < static_cast<int64_t>(held_.size()) && static_cast<int64_t>(window.size()) < o.size;
           i += o.stride) {
        window.push_back(held_[static_cast<size_t>(i)]);
      }
      const int64_t dropped = std::min(o.shift, static_cast<int64_t>(held_.size()));
      held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(dropped));
      to_skip_ = o.shift - dropped;
      if (!o.joined) return dataset_.Split(std::move(window), out);
      MR_ASSIGN_OR_RETURN(*out, StackElements(window, CpuAllocator()));
      return Status();
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("to_skip", to_skip_);
      state.Write("held", static_cast<int64_t>(held_.size()));
      for (size_t i = 0; i < held_.size(); ++i) state.WriteElement(StrCat("held", i), held_[i]);
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(to_skip_, state.Count("to_skip", dataset_.o_.shift));
      MR_ASSIGN_OR_RETURN(const int64_t held, state.Count("held"));
      held_.clear();
      for (int64_t i = 0; i < held; ++i) {
        MR_ASSIGN_OR_RETURN(Element element, state.ReadElement(StrCat("held", i)));
        held_.push_back(std::move(element));
      }
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    std::deque<Element> held_;  // from the first one of the next window on
    int64_t to_skip_ = 0;       // between it and the input's position
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  Status Split(std::vector<Element> window, Element* out) const {
    Element datasets;
    for (size_t c = 0; c < input().types().size(); ++c) {
      std::vector<Element> part;
      part.reserve(window.size());
      for (const Element& element : window) part.push_back({element[c]});
      Tensor dataset =
          DatasetToTensor(DatasetOf({{input().types()[c]}, {input().shapes()[c]}}, std::move(part)));
      if (!dataset.IsInitialized()) return errors::ResourceExhausted("No memory for a window");
      datasets.push_back(std::move(dataset));
    }
    *out = std::move(datasets);
    return Status();
  }

  const Options o_;
};

// Splits each element into its rows.
class UnbatchDataset final : public UnaryDataset {
 public:
  using UnaryDataset::UnaryDataset;
  int64_t Cardinality() const override {
    const int64_t n = input().Cardinality();
    if (n <= 0) return n;
    const PartialShape& shape = input().shapes()[0];
    const int64_t rows = shape.unknown_rank() || shape.rank() == 0 ? -1 : shape.dim(0);
    return rows < 0 ? kUnknown : ManyTimes(n, rows);
  }

 protected:
  class It final : public UnaryIterator<UnbatchDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    bool MayWait(int64_t n) const override { return n > rows_ - next_ && UnaryIterator::MayWait(n); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (next_ >= rows_) {
        if (ctx.cancelled()) return CancelledStatus();
        batch_.clear();
        rows_ = next_ = 0;
        MR_RETURN_IF_ERROR(NextInput(ctx, &batch_, end));
        if (*end) return Status();
        MR_RETURN_IF_ERROR(CountRows());
      }
      out->clear();
      for (const Tensor& t : batch_) {
        TensorShape shape = t.shape();
        shape.RemoveDim(0);
        MR_ASSIGN_OR_RETURN(Tensor row, Tensor::Allocate(t.dtype(), shape));
        CopyInto(&row, 0, t.Slice(next_, next_ + 1));
        out->push_back(std::move(row));
      }
      ++next_;
      return Status();
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("row", next_);
      state.WriteElement("batch", rows_ > next_ ? batch_ : Element());
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(batch_, state.ReadElement("batch"));
      rows_ = next_ = 0;
      if (!batch_.empty()) {
        MR_RETURN_IF_ERROR(CountRows());
        MR_ASSIGN_OR_RETURN(next_, state.Count("row", rows_));
      }
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    Status CountRows() {
      int64_t rows = -1;
      for (const Tensor& t : batch_) {
        if (t.rank() == 0) return errors::InvalidArgument("Input element must have a non-zero rank.");
        if (rows >= 0 && t.dim(0) != rows) {
          return errors::InvalidArgument(
              "Input element must have the same batch size in each component. Component 0 had size ", rows,
              " but component ", &t - batch_.data(), " had size, ", t.dim(0), ".");
        }
        rows = t.dim(0);
      }
      rows_ = std::max<int64_t>(rows, 0);
      return Status();
    }
    Element batch_;
    int64_t rows_ = 0;
    int64_t next_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }
};

StatusOr<RefPtr<const Dataset>> MakeWindow(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  WindowDataset::Options o;
  MR_ASSIGN_OR_RETURN(o.size, args.Scalar<int64_t>("size"));
  MR_ASSIGN_OR_RETURN(o.shift, args.Scalar<int64_t>("shift"));
  MR_ASSIGN_OR_RETURN(o.stride, args.Scalar<int64_t>("stride"));
  MR_ASSIGN_OR_RETURN(o.drop_remainder, args.Scalar<bool>("drop_remainder"));
  if (o.size <= 0) return errors::InvalidArgument("Window size must be greater than zero.");
  if (o.shift <= 0) return errors::InvalidArgument("Window shift must be greater than zero.");
  if (o.stride <= 0) return errors::InvalidArgument("Window stride must be greater than zero.");
  return MakeRefDataset<WindowDataset>(args.Kind(), std::move(signature), std::move(input), o);
}

StatusOr<RefPtr<const Dataset>> MakeSlidingWindow(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  WindowDataset::Options o;
  o.drop_remainder = o.joined = true;
  MR_ASSIGN_OR_RETURN(o.size, args.Scalar<int64_t>("window_size"));
  MR_ASSIGN_OR_RETURN(o.shift, args.Scalar<int64_t>("window_shift"));
  MR_ASSIGN_OR_RETURN(o.stride, args.Scalar<int64_t>("window_stride"));
  if (o.size <= 0) return errors::InvalidArgument("Window size must be greater than zero.");
  if (o.shift <= 0) return errors::InvalidArgument("Window shift must be greater than zero.");
  if (o.stride <= 0) return errors::InvalidArgument("window_stride must be greater than zero.");
  return MakeRefDataset<WindowDataset>(args.Kind(), std::move(signature), std::move(input), o);
}

StatusOr<RefPtr<const Dataset>> MakeUnbatch(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  return MakeRefDataset<UnbatchDataset>(args.Kind(), std::move(signature), std::move(input));
}

}  // namespace

RefPtr<const Dataset> DatasetOf(Dataset::Signature signature, std::vector<Element> elements) {
  return MakeRefDataset<MemoryDataset>(std::move(signature), std::move(elements));
}

void RegisterWindowDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "WindowDataset", MakeWindow);
  RegisterDataset(registry, "SlidingWindowDataset", MakeSlidingWindow);
  RegisterDataset(registry, "UnbatchDataset", MakeUnbatch);
}

}  // namespace millrace::data
