// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// SparseConcat, SparseSplit and SparseSlice.
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/cpu/array/count_before.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/sparse/util.h"

namespace millrace {
namespace {

// Sets three outputs to some elements of a sparse tensor, with indices relative to `begin`.
Status OutputPart(KernelContext& context, const SparseParts& sparse, std::span<const int64_t> elements,
                  std::span<const int64_t> begin, std::span<const int64_t> size, int indices_output,
                  int values_output, int shape_output) {
  const int rank = sparse.rank();
  const auto n = static_cast<int64_t>(elements.size());
  MR_ASSIGN_OR_RETURN(Tensor* const indices, context.AllocateOutput(indices_output, TensorShape({n, rank})));
  MR_ASSIGN_OR_RETURN(Tensor* const values, context.AllocateOutput(values_output, TensorShape({n})));
  MR_ASSIGN_OR_RETURN(Tensor* const shape, context.AllocateOutput(shape_output, TensorShape({rank})));
  int64_t* to = indices->data<int64_t>();
  if (rank == 2) {
    const int64_t* const all = sparse.indices->data<int64_t>();
    const int64_t row = begin[0], column = begin[1];
    for (const int64_t i : elements) {
      *to++ = all[2 * i] - row;
      *to++ = all[2 * i + 1] - column;
    }
  } else {
    for (const int64_t i : elements) {
      const int64_t* const index = sparse.index(i);
      for (int d = 0; d < rank; ++d) *to++ = index[d] - begin[static_cast<size_t>(d)];
    }
  }
  TakeRows(sparse.values->dtype(), sparse.values->raw_data(), elements, 1, values->raw_data());
  std::copy(size.begin(), size.end(), shape->data<int64_t>());
  return Status();
}

// Writes the indices of the elements in a box and returns their number.
template <int kRank>
int64_t FindInside(const SparseParts& sparse, const int64_t* begin, const int64_t* size, int64_t* to) {
  const int rank = kRank > 0 ? kRank : sparse.rank();
  const int64_t* index = sparse.indices->data<int64_t>();
  int64_t found = 0;
  for (int64_t i = 0; i < sparse.size(); ++i, index += rank) {
    bool in = true;
    for (int d = 0; d < rank; ++d) {
      // `begin` is not negative, so for an index that is not less the difference does not overflow.
      const uint64_t at = static_cast<uint64_t>(index[d]) - static_cast<uint64_t>(begin[d]);
      in = in & (index[d] >= begin[d]) & (at < static_cast<uint64_t>(size[d]));
    }
    to[found] = i;
    found += in ? 1 : 0;
  }
  return found;
}

// Elements of one part that are consecutive there and in the result.
struct Run {
  size_t part;
  int64_t begin, count;
};

// Whether the indices of a part are in ascending order, and within its size along the axis.
template <int kRank>
bool IsInOrder(const SparseParts& part, int axis) {
  const int rank = kRank > 0 ? kRank : part.rank();
  const int64_t* index = part.indices->data<int64_t>();
  const auto size = static_cast<uint64_t>(part.shape[static_cast<size_t>(axis)]);
  bool good = true;
  for (int64_t i = 0; i < part.size() && good; ++i, index += rank) {
    good = static_cast<uint64_t>(index[axis]) < size;
    for (int d = 0; i > 0 && d < rank && index[d] <= index[d - rank]; ++d) {
      if (index[d] == index[d - rank]) continue;
      good = false;
      break;
    }
  }
  return good;
}

// The runs of the result, if each part is in order: of elements with equal indices before the axis those of
// the first part come first, then those of the second, and so on.
bool FindRuns(const std::vector<SparseParts>& parts, int axis, std::vector<Run>* runs) {
  for (const SparseParts& part : parts) {
    if (!(part.rank() == 2 ? IsInOrder<2>(part, axis) : IsInOrder<0>(part, axis))) return false;
  }
  std::vector<int64_t> next(parts.size(), 0);
  for (;;) {
    const int64_t* least = nullptr;
    for (size_t p = 0; p < parts.size(); ++p) {
      if (next[p] == parts[p].size()) continue;
      const int64_t* const index = parts[p].index(next[p]);
      if (least == nullptr || std::lexicographical_compare(index, index + axis, least, least + axis))
        least = index;
    }
    if (least == nullptr) return true;
    for (size_t p = 0; p < parts.size(); ++p) {
      const int64_t begin = next[p], size = parts[p].size(), rank = parts[p].rank();
      int64_t end = begin;
      for (const int64_t* index = parts[p].index(begin); end < size; ++end, index += rank) {
        bool same = true;
        for (int d = 0; d < axis; ++d) same = same & (index[d] == least[d]);
        if (!same) break;
      }
      if (end > begin) runs->push_back({p, begin, end - begin});
      next[p] = end;
    }
  }
}

// Copies the values of all runs, of a type of the size of Word that owns no memory.
template <typename Word>
void CopyRuns(const std::vector<SparseParts>& parts, const std::vector<Run>& runs, void* out) {
  auto* to = static_cast<Word*>(out);
  for (const Run& run : runs) {
    const auto* const from = static_cast<const Word*>(parts[run.part].values->raw_data()) + run.begin;
    for (int64_t i = 0; i < run.count; ++i) to[i] = from[i];
    to += run.count;
  }
}

// The result is in lexicographic order.
class SparseConcatKernel final : public OpKernel {
 public:
  explicit SparseConcatKernel(KernelConstruction& c) : OpKernel(c), axis_(c.Attr<int64_t>("concat_dim")) {}
  Status Compute(KernelContext& context) override {
    const int n = num_inputs() / 3;
    std::vector<SparseParts> parts;
    for (int i = 0; i < n; ++i) {
      MR_ASSIGN_OR_RETURN(SparseParts part,
                          ReadSparse(context.input(i), context.input(n + i), context.input(2 * n + i)));
      parts.push_back(part);
    }
    const int rank = parts[0].rank();
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    if (axis < 0 || axis >= rank) {
      return errors::InvalidArgument("Concat dimension must be in range [", -rank, ", ", rank, "), got ",
                                     axis_);
    }
    MR_ASSIGN_OR_RETURN(const Dims shape, JoinedShape(parts, static_cast<int>(axis)));
    int64_t total = 0;
    for (const SparseParts& part : parts) total += part.size();
    MR_ASSIGN_OR_RETURN(Tensor* const out_shape, context.AllocateOutput(2, TensorShape({rank})));
    std::copy(shape.begin(), shape.end(), out_shape->data<int64_t>());
    const DataType dtype = parts[0].values->dtype();
    if (std::vector<Run> runs; !OwnsMemory(dtype) && FindRuns(parts, static_cast<int>(axis), &runs)) {
      return PutRuns(context, parts, runs, total, static_cast<int>(axis));
    }
    MR_ASSIGN_OR_RETURN(Tensor all, context.AllocateTemp(DataType::kInt64, TensorShape({total, rank})));
    int64_t at = 0, offset = 0;
    for (const SparseParts& part : parts) {
      int64_t* to = all.data<int64_t>() + at * rank;
      for (int64_t i = 0; i < part.size(); ++i, to += rank) {
        std::copy_n(part.index(i), rank, to);
        to[axis] = static_cast<int64_t>(static_cast<uint64_t>(to[axis]) + static_cast<uint64_t>(offset));
      }
      at += part.size();
      offset += part.shape[axis];
    }
    const std::vector<int64_t> order = SortedOrder(all.data<int64_t>(), total, rank);
    MR_ASSIGN_OR_RETURN(Tensor* const indices, context.AllocateOutput(0, TensorShape({total, rank})));
    MR_ASSIGN_OR_RETURN(Tensor* const values, context.AllocateOutput(1, TensorShape({total})));
    TakeRows(DataType::kInt64, all.raw_data(), order, rank, indices->raw_data());
    std::vector<int64_t> places(order.size());  // of the values of all parts
    for (size_t i = 0; i < order.size(); ++i) places[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    size_t begin = 0;
    for (const SparseParts& part : parts) {
      const std::span<const int64_t> own(places.data() + begin, static_cast<size_t>(part.size()));
      PutRows(values->dtype(), part.values->raw_data(), own, 1, values->raw_data());
      begin += own.size();
    }
    return Status();
  }

 private:
  static Status PutRuns(KernelContext& context, const std::vector<SparseParts>& parts,
                        const std::vector<Run>& runs, int64_t total, int axis) {
    const int rank = parts[0].rank();
    MR_ASSIGN_OR_RETURN(Tensor* const indices, context.AllocateOutput(0, TensorShape({total, rank})));
    MR_ASSIGN_OR_RETURN(Tensor* const values, context.AllocateOutput(1, TensorShape({total})));
    std::vector<int64_t> offsets(parts.size(), 0);
    for (size_t p = 1; p < parts.size(); ++p)
      offsets[p] = offsets[p - 1] + parts[p - 1].shape[static_cast<size_t>(axis)];
    int64_t* to = indices->data<int64_t>();
    for (const Run& run : runs) {
      const int64_t* const from = parts[run.part].index(run.begin);
      const int64_t offset = offsets[run.part], n = run.count * rank;
      for (int64_t i = 0; i < n; ++i) to[i] = from[i];
      for (int64_t i = axis; i < n; i += rank) to[i] += offset;
      to += n;
    }
    switch (ElementSize(values->dtype())) {
      case 1:
        CopyRuns<uint8_t>(parts, runs, values->raw_data());
        break;
      case 2:
        CopyRuns<uint16_t>(parts, runs, values->raw_data());
        break;
      case 4:
        CopyRuns<uint32_t>(parts, runs, values->raw_data());
        break;
      case 8:
        CopyRuns<uint64_t>(parts, runs, values->raw_data());
        break;
      default:
        CopyRuns<complex128>(parts, runs, values->raw_data());
    }
    return Status();
  }

  static StatusOr<Dims> JoinedShape(const std::vector<SparseParts>& parts, int axis) {
    Dims shape;
    for (const int64_t size : parts[0].shape) shape.push_back(size);
    for (size_t i = 1; i < parts.size(); ++i) {
      const SparseParts& part = parts[i];
      if (part.rank() != parts[0].rank()) {
        return errors::InvalidArgument("Ranks of all input tensors must match: expected ", parts[0].rank(),
                                       " but got ", part.rank(), " at position ", i);
      }
      for (int d = 0; d < part.rank(); ++d) {
        if (d == axis) {
          if (__builtin_add_overflow(shape[d], part.shape[d], &shape[d])) {
            return errors::InvalidArgument("Sizes along dimension ", d, " add up to too much");
          }
        } else if (part.shape[d] != shape[d]) {
          return errors::InvalidArgument("Input shapes must match: expected ", shape[d], " for dimension ", d,
                                         " but got ", part.shape[d], " at position ", i);
        }
      }
    }
    return shape;
  }

  const int64_t axis_;
};

// The first parts are larger by one if the size is not divisible.
class SparseSplitKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& split_dim = context.input(0);
    MR_RETURN_IF_ERROR(RequireScalar(split_dim, "split_dim"));
    MR_ASSIGN_OR_RETURN(const SparseParts sparse,
                        ReadSparse(context.input(1), context.input(2), context.input(3)));
    const int64_t given = split_dim.scalar<int64_t>();
    const int64_t axis = given < 0 ? given + sparse.rank() : given;
    if (axis < 0 || axis >= sparse.rank()) {
      return errors::InvalidArgument("Input split_dim should be between 0 and rank (", sparse.rank(),
                                     "), got ", given);
    }
    const int n = num_outputs() / 3;
    const int64_t size = sparse.shape[axis];
    if (n < 1 || n > size) {
      return errors::InvalidArgument("Input num_split should be between 1 and the splitting dimension size (",
                                     size, "), got ", n);
    }
    MR_RETURN_IF_ERROR(CheckInBounds(sparse));
    std::vector<int64_t> begin(sparse.shape.size(), 0), sizes(sparse.shape.begin(), sparse.shape.end());
    std::vector<int64_t> starts;  // of the parts, and the end of the last
    for (int64_t i = 0; i <= n; ++i) starts.push_back(i * (size / n) + std::min<int64_t>(i, size % n));
    const auto elements = std::make_unique_for_overwrite<int64_t[]>(static_cast<size_t>(sparse.size()));
    const std::vector<int64_t> ends = OrderByPart(sparse, axis, starts, elements.get());
    const int64_t* from = elements.get();
    for (int i = 0; i < n; ++i) {
      const auto part = static_cast<size_t>(i);
      begin[static_cast<size_t>(axis)] = starts[part];
      sizes[static_cast<size_t>(axis)] = starts[part + 1] - starts[part];
      const std::span<const int64_t> own(from, elements.get() + ends[part]);
      MR_RETURN_IF_ERROR(OutputPart(context, sparse, own, begin, sizes, i, n + i, 2 * n + i));
      from += own.size();
    }
    return Status();
  }

 private:
  // The elements by part, in each part in their order. Returns where each part ends.
  static std::vector<int64_t> OrderByPart(const SparseParts& sparse, int64_t axis,
                                          std::span<const int64_t> starts, int64_t* elements) {
    const size_t n = starts.size() - 1;
    const int64_t count = sparse.size(), rank = sparse.rank();
    const int64_t* const places = sparse.indices->data<int64_t>() + axis;
    std::vector<int64_t> ends(n);
    constexpr size_t kFewParts = 6;  // a pass for each takes less time than counters in memory
    if (n <= kFewParts) {
      int64_t found = 0;
      for (size_t part = 0; part < n; ++part) {
        const int64_t begin = starts[part], end = starts[part + 1], *at = places;
        for (int64_t i = 0; i < count && found < count; ++i, at += rank) {
          elements[found] = i;
          found += (*at >= begin) & (*at < end) ? 1 : 0;
        }
        ends[part] = found;
      }
      return ends;
    }
    const auto parts = std::make_unique_for_overwrite<int32_t[]>(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = places[i * rank];
      parts[static_cast<size_t>(i)] = static_cast<int32_t>(CountBefore(
          starts.data() + 1, static_cast<int64_t>(n) - 1, [place](int64_t start) { return start <= place; }));
      ++ends[static_cast<size_t>(parts[static_cast<size_t>(i)])];
    }
    std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), int64_t{0});
    for (int64_t i = 0; i < count; ++i)
      elements[ends[static_cast<size_t>(parts[static_cast<size_t>(i)])]++] = i;
    return ends;
  }
};

// The elements in a box, which is clipped to the tensor.
class SparseSliceKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const SparseParts sparse,
                        ReadSparse(context.input(0), context.input(1), context.input(2)));
    const Tensor& start = context.input(3);
    const Tensor& size = context.input(4);
    for (const Tensor* box : {&start, &size}) {
      if (!box->shape().IsVector()) {
        return errors::InvalidArgument(box == &start ? "Input start" : "Input size",
                                       " should be a vector but received shape ", box->shape());
      }
      if (box->dim(0) != sparse.rank()) {
        return errors::InvalidArgument("Expected start and size to have ", sparse.rank(), " elements, got ",
                                       box->dim(0));
      }
      for (const int64_t value : box->flat<int64_t>()) {
        if (value < 0) return errors::InvalidArgument("start and size must be >= 0, got ", value);
      }
    }
    std::vector<int64_t> sizes;
    for (int d = 0; d < sparse.rank(); ++d) {
      const int64_t left = std::max<int64_t>(0, sparse.shape[d] - start.data<int64_t>()[d]);
      sizes.push_back(std::min(size.data<int64_t>()[d], left));
    }
    const auto inside = std::make_unique_for_overwrite<int64_t[]>(static_cast<size_t>(sparse.size()));
    const auto find = sparse.rank() == 2 ? FindInside<2> : FindInside<0>;
    const int64_t n = find(sparse, start.data<int64_t>(), sizes.data(), inside.get());
    return OutputPart(context, sparse, {inside.get(), static_cast<size_t>(n)}, start.flat<int64_t>(), sizes,
                      0, 1, 2);
  }
};

}  // namespace

void RegisterSparseJoinKernels(KernelRegistry& registry) {
  registry.Register<SparseConcatKernel>(KernelDef("SparseConcat"));
  registry.Register<SparseSliceKernel>(KernelDef("SparseSlice"));
  registry.Register<SparseSplitKernel>(KernelDef("SparseSplit"));
}

}  // namespace millrace
