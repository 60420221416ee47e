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
constexpr double kCostNsPerByte = 0.1;

// An axis of the output, and how far a step along it goes in either array, in elements.
struct Axis {
  int64_t size;
  int64_t in_stride;
  int64_t out_stride;
};
using Axes = SmallVector<Axis, 8>;

// The output's axes, outermost first, without those of size 1 and with those merged that stay neighbours.
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

// The planes of the last axis of the input and the last axis of the output, for each index of the others.
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
  const int64_t blocks = (rows.size - 1) / kBlockRows + 1;
  const int64_t plane_bytes = std::min(rows.size, kBlockRows) * columns.size * elem_size;
  const int64_t per_unit = std::max<int64_t>(1, 16384 / plane_bytes);
  const int64_t total = planes * blocks;
  ForUnits(parallel, (total - 1) / per_unit + 1, kCostNsPerByte * static_cast<double>(per_unit * plane_bytes),
           [&](int64_t begin, int64_t end) {
             const int64_t last = std::min(total, end * per_unit);
             for (int64_t i = begin * per_unit; i < last; ++i) {
               const int64_t row = i % blocks * kBlockRows;
               int64_t from = row * rows.in_stride, to = row;
               int64_t rest = i / blocks;
               for (uint32_t d = others.size(); d-- > 0;) {
                 const int64_t index = rest % others[d].size;
                 rest /= others[d].size;
                 from += index * others[d].in_stride;
                 to += index * others[d].out_stride;
               }
               function(in + from * elem_size, rows.in_stride * elem_size, out + to * elem_size,
                        columns.out_stride * elem_size, std::min(kBlockRows, rows.size - row), columns.size);
             }
           });
}

}  // namespace

void Transpose(const void* in, std::span<const int64_t> dims, std::span<const int> perm, int64_t elem_size,
               void* out, Parallel& parallel) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  Axes axes = MergeAxes(dims, perm);
  // An innermost axis that stays makes larger elements of what it holds.
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
