// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sets: the values of each row of the last dimension, of dense and sparse tensors.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/sparse/index_text.h"
#include "kernels/cpu/sparse/util.h"

namespace millrace {
namespace {

enum class SetOp { kAMinusB, kBMinusA, kIntersection, kUnion };

std::optional<SetOp> ParseSetOp(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text == "a-b") return SetOp::kAMinusB;
  if (text == "b-a") return SetOp::kBMinusA;
  if (text == "intersection") return SetOp::kIntersection;
  if (text == "union") return SetOp::kUnion;
  return std::nullopt;
}

// The distinct values of rows that are not empty, sorted; rows in ascending order.
template <typename T>
struct Sets {
  int64_t width = 0;                // the number of indices of a row
  std::vector<int64_t> rows;        // [count, width]
  std::vector<int64_t> ends = {0};  // the start of each set in `values`, and the end of the last
  std::vector<T> values;

  int64_t count() const { return static_cast<int64_t>(ends.size()) - 1; }
  const int64_t* row(int64_t i) const { return rows.data() + i * width; }
  std::span<const T> set(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return {values.data() + ends[at], values.data() + ends[at + 1]};
  }
};

// Sorts blocks of this size by counting for each value how many are less, for a register of them at a time.
constexpr int64_t kBlock = 64;

// Writes the distinct ones of n <= kBlock values, sorted, and returns their number.
template <typename T>
inline MR_INLINE_LAMBDA int64_t SortBlock(const T* values, int64_t n, T* to) {
  // As wide as the values, so that comparisons are masks of the counts.
  using Signed = std::make_signed_t<T>;
  T x[kBlock], sorted[kBlock];
  Signed less[kBlock];
  bool used[kBlock] = {};
  for (int64_t i = 0; i < n; ++i) x[i] = values[i];
  for (int64_t i = n; i < kBlock; ++i) x[i] = 0;
  constexpr int64_t kLanes = 64 / sizeof(T);
  for (int64_t begin = 0; begin < n; begin += kLanes) {
    Signed sum[kLanes] = {};
    for (int64_t j = 0; j < n; ++j) {
      const T other = x[j];
      for (int64_t l = 0; l < kLanes; ++l) sum[l] += static_cast<Signed>(other < x[begin + l]);
    }
    for (int64_t l = 0; l < kLanes; ++l) less[begin + l] = sum[l];
  }
  // Equal values have the same index, and leave gaps after it.
  for (int64_t i = 0; i < n; ++i) {
    sorted[less[i]] = x[i];
    used[less[i]] = true;
  }
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    to[count] = sorted[i];
    count += used[i] ? 1 : 0;
  }
  return count;
}

// Merges two sorted arrays without repetitions: values only in the first, only in the second, in both,
// selected by the bits 1, 2 and 4 of `kinds`. Without branches on values, which would be mispredicted. `to`
// has room for one more value than there are.
template <typename T>
inline MR_INLINE_LAMBDA int64_t Merge(int kinds, const T* a, int64_t n, const T* b, int64_t m, T* to) {
  const int64_t first = kinds & 1, second = kinds >> 1 & 1, both = kinds >> 2 & 1;
  int64_t count = 0, i = 0, j = 0;
  while (i < n && j < m) {
    const T x = a[i], y = b[j];
    const bool a_first = x < y, b_first = y < x;
    to[count] = b_first ? y : x;
    count += a_first ? first : b_first ? second : both;
    i += b_first ? 0 : 1;
    j += a_first ? 0 : 1;
  }
  if (first != 0) {
    for (; i < n; ++i) to[count++] = a[i];
  }
  if (second != 0) {
    for (; j < m; ++j) to[count++] = b[j];
  }
  return count;
}

// Sorts rows of numbers and removes duplicates; values[ends[r] … ends[r + 1]) are row r.
template <typename T>
void MakeSetsOfNumbers(Sets<T>* sets) {
  std::vector<T> room(2 * (sets->values.size() + 1));
  RunLoop([values = sets->values.data(), ends = sets->ends.data(), rows = sets->count(), room = room.data(),
           half = static_cast<int64_t>(room.size()) / 2]() MR_INLINE_LAMBDA {
    int64_t to = 0, begin = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t n = ends[r + 1] - begin;
      const T* const row = values + begin;
      begin = ends[r + 1];
      int64_t count = 0;
      if (n <= kBlock) {
        count = SortBlock(row, n, values + to);
      } else {
        // Sorts blocks; two results are merged as soon as they consist of as many blocks.
        T *const from = room, *const other = room + half;
        int64_t starts[64], lengths[64], depth = 0;
        for (int64_t block = 0; block * kBlock < n; ++block) {
          const int64_t at = block * kBlock;
          starts[depth] = at;
          lengths[depth] = SortBlock(row + at, n - at < kBlock ? n - at : kBlock, from + at);
          ++depth;
          const bool last = at + kBlock >= n;
          for (int64_t level = block + 1; depth > 1 && (last || level % 2 == 0); level /= 2) {
            T* const left = from + starts[depth - 2];
            const int64_t all =
                Merge(7, left, lengths[depth - 2], from + starts[depth - 1], lengths[depth - 1], other);
            for (int64_t i = 0; i < all; ++i) left[i] = other[i];
            lengths[--depth - 1] = all;
          }
        }
        count = lengths[0];
        for (int64_t i = 0; i < count; ++i) values[to + i] = from[i];
      }
      ends[r] = to;
      to += count;
    }
    ends[rows] = to;
  });
  sets->values.resize(static_cast<size_t>(sets->ends.back()));
}

template <typename T>
void MakeSets(Sets<T>* sets) {
  if constexpr (std::is_integral_v<T>) {
    MakeSetsOfNumbers(sets);
  } else {
    const auto begin = sets->values.begin();
    auto to = begin;
    int64_t first = 0;
    for (size_t r = 0; r + 1 < sets->ends.size(); ++r) {
      const int64_t next = sets->ends[r + 1];
      std::sort(begin + first, begin + next);
      const auto last = std::unique(begin + first, begin + next);
      sets->ends[r] = to - begin;
      const auto row = begin + first;
      to = to == row ? last : std::move(row, last, to);
      first = next;
    }
    sets->ends.back() = to - begin;
    sets->values.resize(static_cast<size_t>(to - begin));
  }
}

StatusOr<std::vector<int64_t>> GroupShape(std::span<const int64_t> shape) {
  if (shape.size() < 2) {
    return errors::InvalidArgument("Expected rank of at least 2 for sets, got shape ", IndexListText(shape));
  }
  return std::vector<int64_t>(shape.begin(), shape.end() - 1);
}

template <typename T>
Sets<T> SetsOfDense(const Tensor& tensor) {
  Sets<T> sets;
  sets.width = tensor.rank() - 1;
  const int64_t width = tensor.dim(tensor.rank() - 1);
  const int64_t count = width == 0 ? 0 : tensor.num_elements() / width;
  const auto values = tensor.flat<T>();
  sets.values.assign(values.begin(), values.end());
  sets.rows.reserve(static_cast<size_t>(count * sets.width));
  sets.ends.reserve(static_cast<size_t>(count) + 1);
  std::vector<int64_t> row(static_cast<size_t>(sets.width), 0);
  for (int64_t r = 1; r <= count; ++r) {
    sets.rows.insert(sets.rows.end(), row.begin(), row.end());
    sets.ends.push_back(r * width);
    for (size_t d = row.size(); d-- > 0;) {
      if (++row[d] < tensor.dim(static_cast<int>(d))) break;
      row[d] = 0;
    }
  }
  MakeSets(&sets);
  return sets;
}

// Lexicographic comparison.
int Compare(const int64_t* a, const int64_t* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

template <typename T>
Sets<T> SetsOfSparse(const SparseParts& sparse) {
  Sets<T> sets;
  sets.width = sparse.rank() - 1;
  const int64_t n = sparse.size();
  const T* const values = sparse.values->data<T>();
  bool sorted = true;
  for (int64_t i = 1; sorted && i < n; ++i) {
    sorted = Compare(sparse.index(i - 1), sparse.index(i), sets.width) <= 0;
  }
  std::vector<int64_t> order;
  if (sorted) {
    sets.values.assign(values, values + n);
  } else {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < n; ++i) rows.insert(rows.end(), sparse.index(i), sparse.index(i) + sets.width);
    order = SortedOrder(rows.data(), n, static_cast<int>(sets.width));
    sets.values.resize(static_cast<size_t>(n));
    TakeRows(sparse.values->dtype(), values, order, 1, sets.values.data());
  }
  const int64_t* before = nullptr;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t* const row = sparse.index(sorted ? i : order[static_cast<size_t>(i)]);
    if (before != nullptr && Compare(before, row, sets.width) == 0) continue;
    if (before != nullptr) sets.ends.push_back(i);
    sets.rows.insert(sets.rows.end(), row, row + sets.width);
    before = row;
  }
  if (before != nullptr) sets.ends.push_back(n);
  MakeSets(&sets);
  return sets;
}

// Checks that indices are within the shape, and in ascending order.
Status CheckOrdered(const SparseParts& sparse) {
  MR_RETURN_IF_ERROR(CheckInBounds(sparse));
  for (int64_t i = 1; i < sparse.size(); ++i) {
    const int64_t *const a = sparse.index(i - 1), *const b = sparse.index(i);
    const int order = Compare(a, b, sparse.rank());
    if (order < 0) continue;
    return errors::InvalidArgument("indices[", i,
                                   "] = ", IndexListText({b, static_cast<size_t>(sparse.rank())}),
                                   order == 0 ? " is repeated" : kOutOfOrder);
  }
  return Status();
}

// Combines the sets of equal rows; returns the resulting sets, without empty ones.
template <typename T>
Sets<T> Combine(SetOp op, const Sets<T>& a, const Sets<T>& b) {
  const int kinds = op == SetOp::kAMinusB        ? 1
                    : op == SetOp::kBMinusA      ? 2
                    : op == SetOp::kIntersection ? 4
                                                 : 7;
  // The rows in either; -1 if one has none.
  std::vector<std::pair<int64_t, int64_t>> pairs;
  pairs.reserve(static_cast<size_t>(std::max(a.count(), b.count())));
  for (int64_t i = 0, j = 0; i < a.count() || j < b.count();) {
    const int order = i == a.count() ? 1 : j == b.count() ? -1 : Compare(a.row(i), b.row(j), a.width);
    pairs.emplace_back(order <= 0 ? i : -1, order >= 0 ? j : -1);
    i += order <= 0 ? 1 : 0;
    j += order >= 0 ? 1 : 0;
  }
  std::vector<int64_t> counts(pairs.size());
  std::vector<T> values(a.values.size() + b.values.size() + 1);
  T* to = values.data();
  for (size_t p = 0; p < pairs.size(); ++p) {
    const std::span<const T> x = pairs[p].first < 0 ? std::span<const T>() : a.set(pairs[p].first);
    const std::span<const T> y = pairs[p].second < 0 ? std::span<const T>() : b.set(pairs[p].second);
    counts[p] = Merge(kinds, x.data(), std::ssize(x), y.data(), std::ssize(y), to);
    to += counts[p];
  }
  Sets<T> result;
  result.width = a.width;
  result.values.swap(values);
  result.values.resize(static_cast<size_t>(to - result.values.data()));
  for (size_t p = 0; p < pairs.size(); ++p) {
    if (counts[p] == 0) continue;
    const int64_t* const row = pairs[p].first >= 0 ? a.row(pairs[p].first) : b.row(pairs[p].second);
    result.rows.insert(result.rows.end(), row, row + a.width);
    result.ends.push_back(result.ends.back() + counts[p]);
  }
  return result;
}

// Outputs a sparse tensor with the combined sets.
template <typename T>
Status PutSets(KernelContext& context, SetOp op, const Sets<T>& a, const Sets<T>& b,
               const std::vector<int64_t>& groups) {
  Sets<T> combined = Combine(op, a, b);
  const int64_t rank = combined.width + 1, count = combined.ends.back();
  MR_ASSIGN_OR_RETURN(Tensor* const indices, context.AllocateOutput(0, TensorShape({count, rank})));
  MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(1, TensorShape({count})));
  MR_ASSIGN_OR_RETURN(Tensor* const shape, context.AllocateOutput(2, TensorShape({rank})));
  int64_t* index = indices->data<int64_t>();
  int64_t largest = 0;
  for (int64_t i = 0; i < combined.count(); ++i) {
    const int64_t* const row = combined.row(i);
    const auto size = static_cast<int64_t>(combined.set(i).size());
    for (int64_t k = 0; k < size; ++k) {
      for (int64_t d = 0; d < combined.width; ++d) *index++ = row[d];
      *index++ = k;
    }
    largest = std::max(largest, size);
  }
  std::move(combined.values.begin(), combined.values.end(), out->data<T>());
  std::copy(groups.begin(), groups.end(), shape->data<int64_t>());
  shape->data<int64_t>()[rank - 1] = largest;
  return Status();
}

template <typename Fn>
Status VisitElement(const KernelContext& context, DataType dtype, Fn&& fn) {
  return VisitDataType(dtype, NoSuchType(context, dtype), [&]<typename T>() -> Status {
    if constexpr (std::is_same_v<T, std::string> || (std::is_integral_v<T> && !std::is_same_v<T, bool>)) {
      return fn.template operator()<T>();
    } else {
      return NoSuchType(context, dtype);
    }
  });
}

// Set operations of two operands, each of which is dense (one input) or sparse (three).
template <bool kSparseA, bool kSparseB>
class SetOperationKernel final : public OpKernel {
 public:
  explicit SetOperationKernel(KernelConstruction& c)
      : OpKernel(c), validate_(c.Attr<bool>("validate_indices")) {
    const auto text = c.Attr<std::string>("set_operation");
    if (const auto parsed = ParseSetOp(text); parsed.has_value()) {
      op_ = *parsed;
    } else {
      c.SetError(errors::InvalidArgument("Invalid set_operation ", text, "."));
    }
  }

  Status Compute(KernelContext& context) override {
    constexpr int kSecond = kSparseA ? 3 : 1;
    SparseParts a, b;
    std::vector<int64_t> groups, other;
    MR_RETURN_IF_ERROR(ReadOperand<kSparseA>(context, 0, &a, &groups));
    MR_RETURN_IF_ERROR(ReadOperand<kSparseB>(context, kSecond, &b, &other));
    if (groups != other) {
      return errors::InvalidArgument("Mismatched group shapes of sets: ", IndexListText(groups), " vs ",
                                     IndexListText(other));
    }
    const DataType dtype = context.output_type(1);
    return VisitElement(context, dtype, [&]<typename T>() {
      return PutSets<T>(context, op_, SetsOf<T, kSparseA>(context, 0, a),
                        SetsOf<T, kSparseB>(context, kSecond, b), groups);
    });
  }

 private:
  template <bool kSparse>
  Status ReadOperand(const KernelContext& context, int first, SparseParts* sparse,
                     std::vector<int64_t>* groups) const {
    if constexpr (kSparse) {
      MR_ASSIGN_OR_RETURN(
          *sparse, ReadSparse(context.input(first), context.input(first + 1), context.input(first + 2)));
      MR_ASSIGN_OR_RETURN(*groups, GroupShape(sparse->shape));
      return validate_ ? CheckOrdered(*sparse) : CheckInBounds(*sparse);
    } else {
      MR_ASSIGN_OR_RETURN(*groups, GroupShape(context.input(first).shape().dims()));
      return Status();
    }
  }

  template <typename T, bool kSparse>
  static Sets<T> SetsOf(const KernelContext& context, int first, const SparseParts& sparse) {
    if constexpr (kSparse) {
      return SetsOfSparse<T>(sparse);
    } else {
      return SetsOfDense<T>(context.input(first));
    }
  }

  SetOp op_ = SetOp::kUnion;
  const bool validate_;
};

class SetSizeKernel final : public OpKernel {
 public:
  explicit SetSizeKernel(KernelConstruction& c) : OpKernel(c), validate_(c.Attr<bool>("validate_indices")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const SparseParts sparse,
                        ReadSparse(context.input(0), context.input(1), context.input(2)));
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> groups, GroupShape(sparse.shape));
    MR_RETURN_IF_ERROR(validate_ ? CheckOrdered(sparse) : CheckInBounds(sparse));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(groups));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    std::fill_n(out->data<int32_t>(), out->num_elements(), 0);
    return VisitElement(context, sparse.values->dtype(), [&]<typename T>() {
      const Sets<T> sets = SetsOfSparse<T>(sparse);
      for (int64_t i = 0; i < sets.count(); ++i) {
        int64_t place = 0;
        for (size_t d = 0; d < groups.size(); ++d) place = place * groups[d] + sets.row(i)[d];
        out->data<int32_t>()[place] = static_cast<int32_t>(sets.set(i).size());
      }
      return Status();
    });
  }

 private:
  const bool validate_;
};

}  // namespace

void RegisterSetKernels(KernelRegistry& registry) {
  registry.Register<SetOperationKernel<false, false>>(KernelDef("DenseToDenseSetOperation"));
  registry.Register<SetOperationKernel<false, true>>(KernelDef("DenseToSparseSetOperation"));
  registry.Register<SetOperationKernel<true, true>>(KernelDef("SparseToSparseSetOperation"));
  registry.Register<SetSizeKernel>(KernelDef("SetSize"));
}

}  // namespace millrace
