// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/strided_slice.h"

#include <algorithm>
#include <vector>

namespace millrace {
namespace {

constexpr int kNewAxis = -1;
constexpr int kShrink = -2;

// One entry of the specification, applied to one dimension of the input.
struct Entry {
  int64_t begin = 0, end = 0, stride = 1;
  bool open_begin = true, open_end = true, shrink = false;
};

// The specification with the ellipsis expanded, and the source of each output dimension.
struct Dense {
  std::vector<Entry> entries;
  SmallVector<int, 8> gather;  // index into entries, kNewAxis or kShrink
};

bool Bit(int64_t mask, int64_t i) { return i < 63 && ((mask >> i) & 1) != 0; }

StatusOr<Dense> Expand(int rank, const Dims& begin, const Dims& end, const Dims& strides,
                       const StridedSliceMasks& m) {
  const auto n = static_cast<int64_t>(begin.size());
  bool ellipsis_seen = false;
  int64_t new_axes_after_ellipsis = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (ellipsis_seen && Bit(m.new_axis, i)) ++new_axes_after_ellipsis;
    if (Bit(m.ellipsis, i)) {
      if (ellipsis_seen) return errors::InvalidArgument("Multiple ellipses in slice spec not allowed");
      ellipsis_seen = true;
    }
  }
  Dense dense;
  const auto take_whole = [&dense] {
    dense.gather.push_back(static_cast<int>(dense.entries.size()));
    dense.entries.push_back(Entry());
  };
  for (int64_t i = 0; i < n; ++i) {
    const auto used = static_cast<int64_t>(dense.entries.size());
    if (Bit(m.ellipsis, i)) {
      // The dimensions that remain for the entries after it.
      const int64_t next = std::min<int64_t>(rank - (n - i) + 1 + new_axes_after_ellipsis, rank);
      for (int64_t d = used; d < next; ++d) take_whole();
    } else if (Bit(m.new_axis, i)) {
      dense.gather.push_back(kNewAxis);
    } else {
      if (used == rank) {
        return errors::InvalidArgument("Index out of range using input dim ", used, "; input has only ", rank,
                                       " dims");
      }
      dense.gather.push_back(Bit(m.shrink_axis, i) ? kShrink : static_cast<int>(used));
      dense.entries.push_back(
          Entry{begin[i], end[i], strides[i], Bit(m.begin, i), Bit(m.end, i), Bit(m.shrink_axis, i)});
    }
  }
  while (static_cast<int>(dense.entries.size()) < rank) take_whole();
  return dense;
}

// Begin and size for one dimension of `dim` elements.
Status Resolve(const Entry& e, int index, int64_t dim, int64_t* begin, int64_t* size) {
  if (e.stride == 0) return errors::InvalidArgument("strides[", index, "] must be non-zero");
  if (e.shrink) {
    if (e.stride <= 0) return errors::InvalidArgument("only stride 1 allowed on non-range indexing.");
    const int64_t at = e.begin < 0 ? e.begin + dim : e.begin;
    if (at < 0 || at >= dim) {
      return errors::InvalidArgument("slice index ", at, " of dimension ", index, " out of bounds.");
    }
    *begin = at;
    *size = 1;
    return Status();
  }
  // Ascending positions are in [0, dim]; descending ones in [-1, dim - 1].
  const int64_t low = e.stride > 0 ? 0 : -1, high = e.stride > 0 ? dim : dim - 1;
  const auto position = [&](int64_t x, bool open, int64_t otherwise) {
    if (open) return otherwise;
    return std::clamp(x < 0 ? x + dim : x, low, high);
  };
  *begin = position(e.begin, e.open_begin, e.stride > 0 ? low : high);
  const int64_t end = position(e.end, e.open_end, e.stride > 0 ? high : low);
  const int64_t distance = e.stride > 0 ? end - *begin : *begin - end;
  if (distance <= 0) {
    *size = 0;
    return Status();
  }
  // 1 + (distance - 1) / |stride|, also for the lowest stride.
  const uint64_t step =
      e.stride > 0 ? static_cast<uint64_t>(e.stride) : uint64_t{0} - static_cast<uint64_t>(e.stride);
  *size = static_cast<int64_t>(1 + (static_cast<uint64_t>(distance) - 1) / step);
  return Status();
}

}  // namespace

StatusOr<StridedSliceCut> PlanStridedSlice(const TensorShape& input, const Tensor& begin, const Tensor& end,
                                           const Tensor& strides, const StridedSliceMasks& masks) {
  const bool vectors =
      begin.shape().IsVector() && begin.shape() == end.shape() && begin.shape() == strides.shape();
  if (!vectors || begin.num_elements() > 32) {
    return errors::InvalidArgument(
        "Expected begin, end, and strides to be 1D equal size tensors, but got shapes ", begin.shape(), ", ",
        end.shape(), ", and ", strides.shape(), " instead.");
  }
  MR_ASSIGN_OR_RETURN(const Dense dense,
                      Expand(input.rank(), IntValues(begin), IntValues(end), IntValues(strides), masks));
  StridedSliceCut plan;
  plan.is_identity = true;
  for (int d = 0; d < input.rank(); ++d) {
    const Entry& e = dense.entries[d];
    int64_t at = 0, size = 0;
    MR_RETURN_IF_ERROR(Resolve(e, d, input.dim(d), &at, &size));
    plan.begin.push_back(at);
    plan.stride.push_back(size <= 1 ? 1 : e.stride);
    plan.size.push_back(size);
    MR_RETURN_IF_ERROR(plan.box_shape.TryAddDim(size));
    plan.is_identity &= size == input.dim(d) && (size <= 1 || e.stride == 1);
  }
  for (const int from : dense.gather) {
    if (from == kNewAxis) MR_RETURN_IF_ERROR(plan.final_shape.TryAddDim(1));
    if (from >= 0) MR_RETURN_IF_ERROR(plan.final_shape.TryAddDim(plan.size[from]));
  }
  return plan;
}

}  // namespace millrace
