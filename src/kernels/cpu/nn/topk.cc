// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/vector/reduce.h"

namespace millrace {
namespace {

// a < b, with NaN less than every number so that every row has an order.
template <typename T>
bool Below(T a, T b) {
  if constexpr (kIsSmallFloat<T>) {
    return Below(float(a), float(b));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return !std::isnan(b);
    return a < b;
  } else {
    return a < b;
  }
}

// The k largest of each row; of equal ones the one with the lower index. Largest first, or, unsorted, in
// TensorFlow's order: that of a heap through which the row has passed.
template <typename T>
class TopKRows {
 public:
  TopKRows(int64_t cols, int64_t k, bool sorted)
      : cols_(cols), k_(k), sorted_(sorted || k == 1 || k == cols) {}
  void FindAll(const T* rows, int64_t count, T* values, int32_t* indices) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      if (sorted_ && k_ <= kFew && cols_ <= kShort) return FindByMaxima(rows, count, values, indices);
    }
    for (int64_t r = 0; r < count; ++r) Find(rows + r * cols_, values + r * k_, indices + r * k_);
  }

 private:
  static constexpr int64_t kFew = 16, kShort = 4096;

  // The largest of each row of a block, k times: a found element becomes NaN, which is never the largest.
  void FindByMaxima(const T* rows, int64_t count, T* values, int32_t* indices) {
    constexpr int64_t kRows = 16, kElements = 8192;
    const int64_t block = std::clamp<int64_t>(kElements / cols_, 1, kRows);
    std::vector<T> left(static_cast<size_t>(block * cols_));
    for (int64_t first = 0; first < count; first += block) {
      const int64_t own = std::min(block, count - first);
      std::copy_n(rows + first * cols_, own * cols_, left.data());
      std::array<int64_t, kRows> largest;
      std::array<bool, kRows> has_nan{};
      for (int64_t i = 0; i < k_; ++i) {
        cpu::ArgMaxRows(left.data(), own, cols_, largest.data());
        for (int64_t r = 0; r < own; ++r) {
          const auto row = static_cast<size_t>(r);
          T& found = left[static_cast<size_t>(r * cols_ + largest[row])];
          const int64_t to = (first + r) * k_ + i;
          values[to] = found;
          indices[to] = static_cast<int32_t>(largest[row]);
          has_nan[row] |= std::isnan(found);
          found = std::numeric_limits<T>::quiet_NaN();
        }
      }
      for (int64_t r = first; r < first + own; ++r) {
        if (has_nan[static_cast<size_t>(r - first)])
          Find(rows + r * cols_, values + r * k_, indices + r * k_);
      }
    }
  }

  void Find(const T* row, T* values, int32_t* indices) {
    const auto better = [row](int32_t a, int32_t b) {
      if (Below(row[b], row[a])) return true;
      if (Below(row[a], row[b])) return false;
      return a < b;
    };
    if (sorted_ && k_ <= kFew) {
      FindFew(row);
    } else if (sorted_) {
      best_.resize(static_cast<size_t>(cols_));
      std::iota(best_.begin(), best_.end(), 0);
      std::partial_sort(best_.begin(), best_.begin() + k_, best_.end(), better);
    } else {
      // The smallest of the k is first; the last place is for the new element.
      best_.resize(static_cast<size_t>(k_) + 1);
      std::iota(best_.begin(), best_.end(), 0);
      std::make_heap(best_.begin(), best_.end(), better);
      std::pop_heap(best_.begin(), best_.end(), better);
      for (auto c = static_cast<int32_t>(k_ + 1); c < cols_; ++c) {
        if (!better(c, best_.front())) continue;
        best_.back() = c;
        std::push_heap(best_.begin(), best_.end(), better);
        std::pop_heap(best_.begin(), best_.end(), better);
      }
    }
    for (int64_t i = 0; i < k_; ++i) {
      values[i] = row[best_[static_cast<size_t>(i)]];
      indices[i] = best_[static_cast<size_t>(i)];
    }
  }

  // A small k is fastest with insertion: most elements are below the last of the k.
  void FindFew(const T* row) {
    best_.resize(static_cast<size_t>(k_));
    size_t found = 0;
    for (int64_t c = 0; c < cols_; ++c) {
      const T value = row[c];
      if (found == best_.size() && !Below(row[best_.back()], value)) continue;
      size_t at = found < best_.size() ? found++ : found - 1;
      for (; at > 0 && Below(row[best_[at - 1]], value); --at) best_[at] = best_[at - 1];
      best_[at] = static_cast<int32_t>(c);
    }
  }

  const int64_t cols_, k_;
  const bool sorted_;
  std::vector<int32_t> best_;
};

// TopK has k as an attribute, TopKV2 as an input.
class TopKKernel final : public OpKernel {
 public:
  explicit TopKKernel(KernelConstruction& c)
      : OpKernel(c), k_(c.HasAttr("k") ? c.Attr<int64_t>("k") : -1), sorted_(c.Attr<bool>("sorted")) {}

  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    int64_t k = k_;
    if (num_inputs() > 1) {
      if (!context.input(1).shape().IsScalar())
        return errors::InvalidArgument("k must be scalar, got shape ", context.input(1).shape());
      k = IntValue(context.input(1));
    }
    if (k < 0) return errors::InvalidArgument("Need k >= 0, got ", k);
    if (in.rank() < 1) return errors::InvalidArgument("input must be >= 1-D, got shape ", in.shape());
    const int64_t cols = in.dim(in.rank() - 1);
    if (cols < k)
      return errors::InvalidArgument("input must have at least k columns. Had ", cols, ", needed ", k);
    if (cols > INT32_MAX)
      return errors::InvalidArgument("input must have at most ", INT32_MAX, " columns, got ", cols);
    TensorShape shape = in.shape();
    shape.SetDim(in.rank() - 1, k);
    MR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(0, shape));
    MR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(1, shape));
    if (values->num_elements() == 0) return Status();
    const int64_t rows = in.num_elements() / cols;
    return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      context.ParallelFor(rows, cols * 4, [&](int64_t begin, int64_t end) {
        TopKRows<T> rows_of(cols, k, sorted_);
        rows_of.FindAll(in.data<T>() + begin * cols, end - begin, values->data<T>() + begin * k,
                        indices->data<int32_t>() + begin * k);
      });
      return Status();
    });
  }

 private:
  const int64_t k_;
  const bool sorted_;
};

// Whether the target class is among the k best predictions of its row. Ties count as in; a row whose
// target is out of range, or not finite, counts as out. InTopK has k as an attribute, InTopKV2 as an
// input.
class InTopKKernel final : public OpKernel {
 public:
  explicit InTopKKernel(KernelConstruction& c) : OpKernel(c), k_(c.HasAttr("k") ? c.Attr<int64_t>("k") : 0) {}

  Status Compute(KernelContext& context) override {
    const Tensor& predictions = context.input(0);
    const Tensor& targets = context.input(1);
    if (predictions.rank() != 2) return errors::InvalidArgument("predictions must be 2-dimensional");
    if (targets.rank() != 1) return errors::InvalidArgument("targets must be 1-dimensional");
    if (predictions.dim(0) != targets.dim(0)) {
      return errors::InvalidArgument("First dimension of predictions ", predictions.dim(0),
                                     " must match length of targets ", targets.dim(0));
    }
    int64_t k = k_;
    if (num_inputs() > 2) {
      if (!context.input(2).shape().IsScalar()) {
        return errors::InvalidArgument("k must be 0-D, got shape ", context.input(2).shape());
      }
      k = IntValue(context.input(2));
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, targets.shape()));
    const int64_t cols = predictions.dim(1);
    for (int64_t r = 0; r < targets.num_elements(); ++r) {
      out->data<bool>()[r] = IsIn(predictions.data<float>() + r * cols, cols, IntValue(targets, r), k);
    }
    return Status();
  }

 private:
  static bool IsIn(const float* row, int64_t cols, int64_t target, int64_t k) {
    if (target < 0 || target >= cols || !std::isfinite(row[target])) return false;
    const float wanted = row[target];
    int64_t better = 0;
    for (int64_t first = 0; first < cols; first += kBlock) {
      // Without branches, so that the loop is vectorised. x - x is 0 for finite numbers.
      int32_t above = 0, finite = 1;
      for (int64_t c = first; c < std::min(first + kBlock, cols); ++c) {
        above += row[c] > wanted ? 1 : 0;
        finite &= row[c] - row[c] == 0 ? 1 : 0;
      }
      if (finite == 0) return false;
      better += above;
    }
    return better < k;
  }

  static constexpr int64_t kBlock = 1 << 16;
  const int64_t k_;
};

}  // namespace

void RegisterNnTopKKernels(KernelRegistry& registry) {
  registry.Register<TopKKernel>(KernelDef("TopK").Types("T", RealTypes()));
  registry.Register<TopKKernel>(KernelDef("TopKV2").Types("T", RealTypes()));
  registry.Register<InTopKKernel>(KernelDef("InTopK").Types("T", IndexTypes()));
  registry.Register<InTopKKernel>(KernelDef("InTopKV2").Types("T", IndexTypes()));
}

}  // namespace millrace
