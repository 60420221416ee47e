// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/strided_slice.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace millrace {
namespace {

constexpr int kMaxEntries = 31;  // the masks are as wide as TensorFlow's

// One dimension of the input with its part of the expression.
struct DenseEntry {
  std::optional<int64_t> begin;
  std::optional<int64_t> end;
  int64_t stride = 1;
  bool begin_masked = true;
  bool end_masked = true;
  bool shrink = false;
};

constexpr int kNewAxis = -1;
constexpr int kShrunk = -2;

struct DenseSpec {
  std::vector<DenseEntry> entries;  // one per dimension of the input
  std::vector<int> outputs;         // a dimension of the input, or kNewAxis
};

bool Bit(int64_t mask, int i) { return ((mask >> i) & 1) != 0; }

// The spec with the ellipsis made explicit at the end when there is none.
StatusOr<int64_t> EllipsisMask(const StridedSliceSpec& spec, int entries) {
  int64_t mask = spec.ellipsis_mask & ((int64_t{1} << entries) - 1);
  if ((mask & (mask - 1)) != 0) return errors::InvalidArgument("Multiple ellipses in slice spec not allowed");
  return mask != 0 ? mask : int64_t{1} << entries;
}

// Spreads the entries over the dimensions of the input.
StatusOr<DenseSpec> MakeDense(const StridedSliceSpec& spec, int rank) {
  const int given = static_cast<int>(spec.strides.size());
  MR_ASSIGN_OR_RETURN(const int64_t ellipsis_mask, EllipsisMask(spec, given));
  const int entries = std::max(given, Bit(ellipsis_mask, given) ? given + 1 : 0);
  // The ellipsis represents the dimensions that the other entries leave.
  int used = 0;
  for (int i = 0; i < given; ++i) {
    if (!Bit(ellipsis_mask, i) && !Bit(spec.new_axis_mask, i)) ++used;
  }
  DenseSpec dense;
  dense.entries.resize(rank);
  int dim = 0;
  for (int i = 0; i < entries; ++i) {
    if (Bit(ellipsis_mask, i)) {
      for (int n = 0; n < rank - used; ++n) dense.outputs.push_back(dim++);
      continue;
    }
    if (Bit(spec.new_axis_mask, i)) {
      dense.outputs.push_back(kNewAxis);
      continue;
    }
    if (dim >= rank) {
      return errors::InvalidArgument("Index out of range using input dim ", dim, "; input has only ", rank,
                                     " dims");
    }
    DenseEntry& entry = dense.entries[dim];
    if (spec.begin != nullptr) entry.begin = (*spec.begin)[i];
    if (spec.end != nullptr) entry.end = (*spec.end)[i];
    entry.stride = spec.strides[i];
    entry.begin_masked = Bit(spec.begin_mask, i);
    entry.end_masked = Bit(spec.end_mask, i);
    entry.shrink = Bit(spec.shrink_axis_mask, i);
    dense.outputs.push_back(entry.shrink ? kShrunk : dim);
    ++dim;
  }
  return dense;
}

// An index from the front or the back, clamped to the valid range for the direction of the stride.
int64_t Canonical(int64_t index, bool masked, bool is_end, int64_t stride, int64_t size) {
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? size : size - 1;
  if (masked) return (stride > 0) != is_end ? low : high;
  return std::clamp(index < 0 ? index + size : index, low, high);
}

// Elements from begin to before end in steps of stride.
int64_t Steps(int64_t begin, int64_t end, int64_t stride) {
  const int64_t length = end - begin;
  if (length == 0 || (length < 0) != (stride < 0)) return 0;
  return length / stride + (length % stride != 0 ? 1 : 0);
}

// Cuts one dimension of known size; the number of elements that stay, -1 when it is not known.
StatusOr<int64_t> CutKnown(const DenseEntry& entry, int i, int64_t size, StridedSlicePlan* plan) {
  const bool begin_known = entry.begin.has_value() || entry.begin_masked;
  const bool end_known = entry.end.has_value() || entry.end_masked;
  if (entry.shrink) {
    // An index is never "not given".
    if (!entry.begin.has_value()) return 1;
    const int64_t index = *entry.begin < 0 ? *entry.begin + size : *entry.begin;
    if (index < 0 || index >= size) {
      return errors::InvalidArgument("slice index ", index, " of dimension ", i, " out of bounds.");
    }
    plan->begin[i] = index;
    plan->end[i] = index + 1;
    plan->strides[i] = 1;
    return 1;
  }
  if (!begin_known || !end_known) return -1;
  plan->begin[i] = Canonical(entry.begin.value_or(0), entry.begin_masked, false, entry.stride, size);
  plan->end[i] = Canonical(entry.end.value_or(0), entry.end_masked, true, entry.stride, size);
  return Steps(plan->begin[i], plan->end[i], entry.stride);
}

}  // namespace

StatusOr<StridedSlicePlan> PlanStridedSlice(const StridedSliceSpec& spec, const PartialShape& input) {
  const size_t entries = spec.strides.size();
  if (entries > kMaxEntries) {
    return errors::InvalidArgument("A slice of ", entries, " dimensions was requested; the limit is ",
                                   kMaxEntries);
  }
  if ((spec.begin != nullptr && spec.begin->size() != entries) ||
      (spec.end != nullptr && spec.end->size() != entries)) {
    return errors::InvalidArgument(
        "Expected begin, end, and strides to be 1D equal size tensors, but got shapes [",
        spec.begin == nullptr ? entries : spec.begin->size(), "], [",
        spec.end == nullptr ? entries : spec.end->size(), "], and [", entries, "] instead.");
  }
  const int rank = input.rank();
  MR_ASSIGN_OR_RETURN(const DenseSpec dense, MakeDense(spec, rank));

  StridedSlicePlan plan;
  plan.begin.assign(rank, 0);
  plan.end.assign(rank, 0);
  plan.strides.assign(rank, 1);
  plan.is_identity = true;
  plan.slices_dim0 = true;
  std::vector<int64_t> kept(rank);
  for (int i = 0; i < rank; ++i) {
    const DenseEntry& entry = dense.entries[i];
    if (entry.stride == 0) return errors::InvalidArgument("strides[", i, "] must be non-zero");
    plan.strides[i] = entry.stride;
    const int64_t size = input.dim(i);
    if (size < 0) {
      kept[i] = entry.shrink ? 1 : -1;
      plan.is_identity = plan.slices_dim0 = false;
      continue;
    }
    if (entry.shrink && entry.stride < 0) {
      return errors::InvalidArgument("only stride 1 allowed on non-range indexing.");
    }
    MR_ASSIGN_OR_RETURN(kept[i], CutKnown(entry, i, size, &plan));
    const bool whole = kept[i] == size && plan.strides[i] == 1 && plan.begin[i] == 0;
    plan.is_identity = plan.is_identity && whole;
    plan.slices_dim0 = plan.slices_dim0 && (i == 0 ? plan.strides[0] == 1 && kept[0] >= 0 : whole);
  }

  std::vector<int64_t> final_dims;
  for (const int dim : dense.outputs) {
    if (dim == kNewAxis) final_dims.push_back(1);
    if (dim >= 0) final_dims.push_back(kept[dim]);
  }
  plan.processing_shape = PartialShape(std::move(kept));
  plan.final_shape = PartialShape(std::move(final_dims));
  return plan;
}

}  // namespace millrace
