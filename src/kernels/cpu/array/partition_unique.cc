// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The distinct values of a tensor; the values of one tensor that are not in another.
#include <cstring>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/rows.h"

namespace millrace {
namespace {

// Equal values have equal hashes; a NaN is not equal to anything.
template <typename T>
uint64_t HashOf(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return Hash64(value);
  } else if constexpr (kIsSmallFloat<T>) {
    return HashOf(static_cast<float>(value));
  } else if constexpr (kIsComplex<T>) {
    return HashCombine(HashOf(value.real()), HashOf(value.imag()));
  } else {
    const T positive = value == T(0) ? T(0) : value;  // -0 equals 0
    uint64_t bits = 0;
    std::memcpy(&bits, &positive, sizeof positive);
    return HashCombine(bits, 0);
  }
}

template <typename T>
inline constexpr bool kComparable =
    std::is_arithmetic_v<T> || kIsSmallFloat<T> || kIsComplex<T> || std::is_same_v<T, std::string>;

TypeList ComparableTypes() { return Concat(NumberTypes(), {DataType::kBool, DataType::kString}); }

// Slices of a tensor [outer, n, inner] along its middle dimension.
template <typename T>
struct Slices {
  const T* data;
  int64_t outer, n, inner;

  template <typename Fn>
  bool All(int64_t slice, Fn fn) const {
    for (int64_t o = 0; o < outer; ++o) {
      const int64_t base = (o * n + slice) * inner;
      for (int64_t i = 0; i < inner; ++i) {
        if (!fn(data[base + i], o * n * inner + i)) return false;
      }
    }
    return true;
  }
  uint64_t Hash(int64_t slice) const {
    uint64_t hash = 0;
    All(slice, [&](const T& value, int64_t) {
      hash = HashCombine(hash, HashOf(value));
      return true;
    });
    return hash;
  }
  bool Equal(int64_t a, int64_t b) const {
    return All(a, [&](const T& value, int64_t offset) { return value == data[offset + b * inner]; });
  }
};

// The index of the first occurrence of each value; id[i] is set to the index of slice i's value.
template <typename T, typename Index>
std::vector<int64_t> FindDistinct(const Slices<T>& slices, Index* id) {
  std::vector<int64_t> first;
  const auto hash = [&](int64_t i) { return slices.Hash(i); };
  const auto equal = [&](int64_t a, int64_t b) { return slices.Equal(a, b); };
  std::unordered_map<int64_t, int64_t, decltype(hash), decltype(equal)> ids(16, hash, equal);
  for (int64_t i = 0; i < slices.n; ++i) {
    const auto [at, is_new] = ids.try_emplace(i, static_cast<int64_t>(first.size()));
    if (is_new) first.push_back(i);
    id[i] = static_cast<Index>(at->second);
  }
  return first;
}

// The places of distinct values in `data`, in a hash table that is at most half full. A NaN is equal to
// nothing, and never in the table.
template <typename T>
class ValueTable {
 public:
  explicit ValueTable(const T* data) : data_(data) {}

  bool Contains(const T& value) const { return slots_[SlotOf(value)] >= 0; }
  // The first place with a value equal to data[place]; `place` itself when it is new.
  int64_t FindOrAdd(int64_t place) {
    const T& value = data_[place];
    if (!(value == value)) return place;
    int64_t& slot = slots_[SlotOf(value)];
    if (slot >= 0) return slot;
    slot = place;
    if (2 * ++size_ > mask_) Grow();
    return place;
  }

 private:
  // Where the value is, or an empty slot.
  size_t SlotOf(const T& value) const {
    const int64_t* const slots = slots_.data();
    const size_t mask = mask_;
    size_t slot = HashOf(value) & mask;
    while (slots[slot] >= 0 && !(data_[slots[slot]] == value)) slot = (slot + 1) & mask;
    return slot;
  }
  void Grow() {
    std::vector<int64_t> old(2 * slots_.size(), -1);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const int64_t place : old) {
      if (place >= 0) slots_[SlotOf(data_[place])] = place;
    }
  }

  const T* const data_;
  std::vector<int64_t> slots_ = std::vector<int64_t>(64, -1);
  size_t mask_ = 63, size_ = 0;
};

// The same as FindDistinct, for single values.
template <typename T, typename Index>
std::vector<int64_t> FindDistinctValues(std::span<const T> values, Index* id) {
  std::vector<int64_t> first;
  ValueTable<T> table(values.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t place = table.FindOrAdd(static_cast<int64_t>(i));
    if (place != static_cast<int64_t>(i)) {
      id[i] = id[place];
      continue;
    }
    id[i] = static_cast<Index>(first.size());
    first.push_back(place);
  }
  return first;
}

Status PutIndices(KernelContext& context, int output, const std::vector<int64_t>& values) {
  MR_ASSIGN_OR_RETURN(Tensor* const out,
                      context.AllocateOutput(output, TensorShape({static_cast<int64_t>(values.size())})));
  if (out->dtype() == DataType::kInt32) {
    std::copy(values.begin(), values.end(), out->data<int32_t>());
  } else {
    std::copy(values.begin(), values.end(), out->data<int64_t>());
  }
  return Status();
}

// All forms: with an axis or without, with counts or without.
class UniqueKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const int axis, ReadAxis(context));
    if (in.dim(axis) > std::numeric_limits<int32_t>::max() && output_type(1) == DataType::kInt32) {
      return errors::InvalidArgument("unique does not support input tensors larger than ",
                                     std::numeric_limits<int32_t>::max(), " elements");
    }
    const auto dims = in.shape().dims();
    const int64_t outer = ProductOf(dims, 0, axis), n = dims[axis],
                  inner = ProductOf(dims, axis + 1, in.rank());
    MR_ASSIGN_OR_RETURN(Tensor* const ids, context.AllocateOutput(1, TensorShape({n})));
    std::vector<int64_t> first;
    MR_RETURN_IF_ERROR(VisitDataType(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      if constexpr (kComparable<T>) {
        const Slices<T> slices{in.data<T>(), outer, n, inner};
        if (outer == 1 && inner == 1) {
          first = ids->dtype() == DataType::kInt32 ? FindDistinctValues(in.flat<T>(), ids->data<int32_t>())
                                                   : FindDistinctValues(in.flat<T>(), ids->data<int64_t>());
          return Status();
        }
        first = ids->dtype() == DataType::kInt32 ? FindDistinct(slices, ids->data<int32_t>())
                                                 : FindDistinct(slices, ids->data<int64_t>());
        return Status();
      }
      return NoSuchType(context, in.dtype());
    }));
    MR_RETURN_IF_ERROR(PutValues(context, axis, outer, inner, first));
    if (num_outputs() == 2) return Status();
    std::vector<int64_t> counts(first.size(), 0);
    for (int64_t i = 0; i < n; ++i) ++counts[static_cast<size_t>(IntValue(*ids, i))];
    return PutIndices(context, 2, counts);
  }

 private:
  StatusOr<int> ReadAxis(const KernelContext& context) const {
    const Tensor& in = context.input(0);
    if (num_inputs() == 1 || context.input(1).num_elements() == 0) {
      if (in.shape().IsVector()) return 0;
      return errors::InvalidArgument("unique expects a 1D vector.");
    }
    const Tensor& axis = context.input(1);
    if (axis.num_elements() != 1) {
      return errors::InvalidArgument("axis does not support input tensors larger than 1 elements");
    }
    const int64_t given = IntValue(axis);
    const int64_t positive = given < 0 ? given + in.rank() : given;
    if (positive < 0 || positive >= in.rank()) {
      return errors::InvalidArgument("axis has to be between [0, ", in.rank(), ")");
    }
    return static_cast<int>(positive);
  }

  static Status PutValues(KernelContext& context, int axis, int64_t outer, int64_t inner,
                          const std::vector<int64_t>& first) {
    const Tensor& in = context.input(0);
    const auto n = static_cast<int64_t>(first.size());
    TensorShape shape = in.shape();
    shape.SetDim(axis, n);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    const int64_t size = static_cast<int64_t>(ElementSize(in.dtype()));
    const char* from = static_cast<const char*>(in.raw_data());
    char* to = static_cast<char*>(out->raw_data());
    for (int64_t o = 0; o < outer && shape.num_elements() > 0; ++o) {
      TakeRows(in.dtype(), from + o * in.dim(axis) * inner * size, first, inner, to + o * n * inner * size);
    }
    return Status();
  }
};

class ListDiffKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor& y = context.input(1);
    if (!x.shape().IsVector()) return errors::InvalidArgument("x should be a 1D vector.");
    if (!y.shape().IsVector()) return errors::InvalidArgument("y should be a 1D vector.");
    std::vector<int64_t> left;
    MR_RETURN_IF_ERROR(VisitDataType(x.dtype(), NoSuchType(context, x.dtype()), [&]<typename T>() {
      if constexpr (kComparable<T>) {
        left = Left(x.flat<T>(), y.flat<T>());
        return Status();
      }
      return NoSuchType(context, x.dtype());
    }));
    const auto n = static_cast<int64_t>(left.size());
    if (n > std::numeric_limits<int32_t>::max() && output_type(1) == DataType::kInt32) {
      return errors::InvalidArgument("out_idx must be int64 for ", n, " values");
    }
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, TensorShape({n})));
    TakeRows(x.dtype(), x.raw_data(), left, 1, out->raw_data());
    return PutIndices(context, 1, left);
  }

 private:
  template <typename T>
  static std::vector<int64_t> Left(std::span<const T> x, std::span<const T> y) {
    ValueTable<T> table(y.data());
    for (size_t i = 0; i < y.size(); ++i) table.FindOrAdd(static_cast<int64_t>(i));
    std::vector<int64_t> left(x.size());
    size_t kept = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      left[kept] = static_cast<int64_t>(i);
      kept += table.Contains(x[i]) ? 0 : 1;
    }
    left.resize(kept);
    return left;
  }
};

}  // namespace

void RegisterPartitionUniqueKernels(KernelRegistry& registry) {
  const TypeList types = ComparableTypes();
  for (const char* op : {"Unique", "UniqueWithCounts"}) {
    registry.Register<UniqueKernel>(KernelDef(op).Types("T", types).Types("out_idx", IndexTypes()));
  }
  for (const char* op : {"UniqueV2", "UniqueWithCountsV2"}) {
    registry.Register<UniqueKernel>(
        KernelDef(op).Types("T", types).Types("Taxis", IndexTypes()).Types("out_idx", IndexTypes()));
  }
  registry.Register<ListDiffKernel>(KernelDef("ListDiff").Types("T", types).Types("out_idx", IndexTypes()));
}

}  // namespace millrace
