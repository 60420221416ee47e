// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/transpose.h"

#include <algorithm>
#include <bit>

#include "base/small_vector.h"
#include "kernels/cpu/vector/dispatch.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kBlockRows = 128;
constexpr int64_t kUnitColumnBytes = 256;  // whole cache lines of the input
constexpr int64_t kUnitBytes = 1 << 18;
constexpr double kCostNsPerByte = 0.1;

// An axis of the output, and its stride in either array, in elements.
struct Axis {
  int64_t size;
  int64_t in_stride;
  int64_t out_stride;
};
using Axes = SmallVector<Axis, 8>;

// The output's axes, outermost first, without those of size 1; axes that stay adjacent are merged.
Axes MergeAxes(std::span<const int64_t> dims, std::span<const int> perm) {
  SmallVector<int64_t, 8> strides;
  strides.resize(static_cast<uint32_t>(dims.size()));
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  Axes axes;
  for (const int p : perm) {
    const auto i = static_cast<size_t>(p);
    if (dims[i] == 1) continue;
    if (!axes.empty() && axes.back().in_stride == strides[i] * dims[i]) {
      axes.back().size *= dims[i];
      axes.back().in_stride = strides[i];
    } else {
      axes.push_back({dims[i], strides[i], 0});
    }
  }
  stride = 1;
  for (uint32_t i = axes.size(); i-- > 0;) {
    axes[i].out_stride = stride;
    stride *= axes[i].size;
  }
  return axes;
}

void CopyAxes(const Axes& axes, const void* in, int64_t elem_size, void* out, Parallel& parallel) {
  SmallVector<int64_t, 8> dims, in_strides, out_strides;
  for (const Axis& axis : axes) {
    dims.push_back(axis.size);
    in_strides.push_back(axis.in_stride);
    out_strides.push_back(axis.out_stride);
  }
  CopyBox(in, in_strides, out, out_strides, dims, elem_size, parallel);
}

// The division of a plane into units of work. A unit writes few rows of the output, and long parts of them:
// threads that write parts of the same cache line slow each other down.
struct PlaneUnits {
  PlaneUnits(int64_t all_rows, int64_t all_columns, int64_t elem_size) {
    columns = std::min(all_columns, std::max<int64_t>(1, kUnitColumnBytes / elem_size));
    rows = (kUnitBytes / (columns * elem_size) + kBlockRows - 1) / kBlockRows * kBlockRows;
    rows = std::min(rows, all_rows);
    across = (all_columns - 1) / columns + 1;
    count = across * ((all_rows - 1) / rows + 1);
  }
  int64_t rows, columns;  // of a unit, in the input
  int64_t across;         // units in a row of units
  int64_t count;
};

// Transposes the planes of the last axes of the input and of the output, for each index of the others.
void TransposePlanes(const Axes& axes, uint32_t column_axis, const char* in, int64_t elem_size, char* out,
                     Parallel& parallel) {
  const TransposeFn function =
      ActiveTables().move.transpose[std::countr_zero(static_cast<uint64_t>(elem_size))];
  const Axis rows = axes.back(), columns = axes[column_axis];
  Axes others = axes;
  others.pop_back();
  others.EraseAt(column_axis);
  int64_t planes = 1;
  for (const Axis& axis : others) planes *= axis.size;
  const PlaneUnits units(rows.size, columns.size, elem_size);
  const int64_t unit_bytes = units.rows * units.columns * elem_size;
  const int64_t at_once = std::max<int64_t>(1, 16384 / unit_bytes);
  const int64_t total = planes * units.count;
  const auto run_unit = [&](int64_t i) {
    const int64_t unit = i % units.count;
    const int64_t first_column = unit % units.across * units.columns;
    const int64_t width = std::min(units.columns, columns.size - first_column);
    int64_t row = unit / units.across * units.rows;
    const int64_t end = std::min(rows.size, row + units.rows);
    int64_t from = first_column, to = first_column * columns.out_stride;
    int64_t rest = i / units.count;
    for (uint32_t d = others.size(); d-- > 0;) {
      const int64_t index = rest % others[d].size;
      rest /= others[d].size;
      from += index * others[d].in_stride;
      to += index * others[d].out_stride;
    }
    for (; row < end; row += kBlockRows) {
      function(in + (from + row * rows.in_stride) * elem_size, rows.in_stride * elem_size,
               out + (to + row) * elem_size, columns.out_stride * elem_size, std::min(kBlockRows, end - row),
               width);
    }
  };
  ForUnits(parallel, (total - 1) / at_once + 1, kCostNsPerByte * static_cast<double>(at_once * unit_bytes),
           [&](int64_t begin, int64_t end) {
             const int64_t last = std::min(total, end * at_once);
             for (int64_t i = begin * at_once; i < last; ++i) run_unit(i);
           });
}

}  // namespace

void TransposePlane(const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t rows,
                    int64_t columns, int64_t elem_size) {
  const TransposeFn function =
      ActiveTables().move.transpose[std::countr_zero(static_cast<uint64_t>(elem_size))];
  for (int64_t r = 0; r < rows; r += kBlockRows) {
    function(static_cast<const char*>(src) + r * src_stride * elem_size, src_stride * elem_size,
             static_cast<char*>(dst) + r * elem_size, dst_stride * elem_size, std::min(kBlockRows, rows - r),
             columns);
  }
}

void Transpose(const void* in, std::span<const int64_t> dims, std::span<const int> perm, int64_t elem_size,
               void* out, Parallel& parallel) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  Axes axes = MergeAxes(dims, perm);
  // An innermost axis that stays is merged to larger elements.
  if (!axes.empty() && axes.back().in_stride == 1) {
    const int64_t n = axes.back().size;
    elem_size *= n;
    axes.pop_back();
    for (Axis& axis : axes) {
      axis.in_stride /= n;
      axis.out_stride /= n;
    }
  }
  const bool fast = elem_size <= 16 && std::has_single_bit(static_cast<uint64_t>(elem_size));
  for (uint32_t i = 0; fast && i + 1 < axes.size(); ++i) {
    if (axes[i].in_stride == 1) {
      TransposePlanes(axes, i, static_cast<const char*>(in), elem_size, static_cast<char*>(out), parallel);
      return;
    }
  }
  CopyAxes(axes, in, elem_size, out, parallel);
}

}  // namespace millrace::cpu
