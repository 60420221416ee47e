// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/conv_phase_grad.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kMaxFilter = 64 << 10;
constexpr int64_t kMaxImage = 64 << 10;       // gradients and results
constexpr int64_t kGroupElements = 16 << 10;  // the same, of the images that are computed at a time
constexpr int64_t kMinDepth = 16;

}  // namespace

PhaseInputGrad::Axis::Axis(const ConvAxis& axis) {
  const int64_t before = axis.pad / axis.stride;  // squares that lie outside
  squares = (axis.pad + axis.in - 1) / axis.stride - before + 1;
  start = before * axis.stride - axis.pad;
  taps = axis.filter / axis.stride;
  first = before - (taps - 1);
}

PhaseInputGrad::PhaseInputGrad(const ConvParams& params)
    : p_(params), rows_(RowAxis(params)), columns_(ColumnAxis(params)) {
  images_ = std::clamp<int64_t>(kGroupElements / (padded() + results()), 1, p_.batch);
}

bool PhaseInputGrad::Suits(const ConvParams& p, int64_t lanes) {
  if (p.dilation_h != 1 || p.dilation_w != 1 || p.stride_h * p.stride_w == 1) return false;
  if (p.filter_h % p.stride_h != 0 || p.filter_w % p.stride_w != 0) return false;
  const PhaseInputGrad plan(p);
  const int64_t columns = plan.columns(), wide = RoundUp(columns, lanes);
  if (columns < lanes || 4 * columns < 3 * wide || plan.depth() < kMinDepth) return false;
  if (plan.depth() * columns > kMaxFilter || plan.padded() + plan.results() > kMaxImage) return false;
  // Pixels of squares that lie outside the image are computed, too.
  return 2 * plan.results() <= 3 * p.in_h * p.in_w * p.in_c;
}

template <typename T>
void PhaseInputGrad::Order(const T* filter, T* ordered) const {
  const int64_t tap = p_.in_c * p_.out_c;
  for (int64_t row = 0; row < rows_.taps; ++row) {
    for (int64_t column = 0; column < columns_.taps; ++column) {
      // Later gradients are read by earlier taps.
      const int64_t kh = (rows_.taps - 1 - row) * p_.stride_h,
                    kw = (columns_.taps - 1 - column) * p_.stride_w;
      for (int64_t y = 0; y < p_.stride_h; ++y) {
        for (int64_t x = 0; x < p_.stride_w; ++x) {
          ActiveKernels<T>().transpose(filter + ((kh + y) * p_.filter_w + kw + x) * tap, p_.out_c, p_.in_c,
                                       p_.out_c, ordered + (y * p_.stride_w + x) * p_.in_c, columns());
        }
      }
      ordered += p_.out_c * columns();
    }
  }
}

template <typename T>
void PhaseInputGrad::Fill(const T* out_grad, T* padded) const {
  const int64_t pitch = columns_.grads() * p_.out_c, row = p_.out_w * p_.out_c;
  const IndexRange ys = InsideRange(rows_.first, 1, p_.out_h, rows_.grads());
  const IndexRange xs = InsideRange(columns_.first, 1, p_.out_w, columns_.grads());
  if (xs.size() <= 0) return;
  for (int64_t y = ys.begin; y < ys.end; ++y) {
    std::memcpy(padded + y * pitch + xs.begin * p_.out_c,
                out_grad + (rows_.first + y) * row + (columns_.first + xs.begin) * p_.out_c,
                static_cast<size_t>(xs.size() * p_.out_c) * sizeof(T));
  }
}

template <typename T>
void PhaseInputGrad::Place(const T* results, T* in_grad) const {
  const int64_t piece = p_.stride_w * p_.in_c;
  for (int64_t square = 0; square < rows_.squares; ++square) {
    const T* const from = results + square * columns_.squares * columns();
    for (int64_t y = 0; y < p_.stride_h; ++y) {
      const int64_t at = rows_.start + square * p_.stride_h + y;
      if (at < 0 || at >= p_.in_h) continue;
      T* const to = in_grad + at * p_.in_w * p_.in_c;
      const T* const row = from + y * piece;
      for (int64_t column = 0; column < columns_.squares; ++column) {
        const int64_t left = columns_.start + column * p_.stride_w;
        if (left >= 0 && left + p_.stride_w <= p_.in_w) {
          CopyFew(row + column * columns(), piece, to + left * p_.in_c);
          continue;
        }
        const int64_t begin = std::max<int64_t>(-left, 0), end = std::min(p_.stride_w, p_.in_w - left);
        if (begin < end)
          CopyFew(row + column * columns() + begin * p_.in_c, (end - begin) * p_.in_c,
                  to + (left + begin) * p_.in_c);
      }
    }
  }
}

template <typename T>
bool PhaseInputGrad::Run(const T* filter, const T* out_grad, T* in_grad, Parallel& parallel) const {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const int64_t run = columns_.taps * p_.out_c, pitch = columns_.grads() * p_.out_c;
  const int64_t packed_n = RoundUp(columns(), kernels.lanes);
  const Scratch weights = Scratch::Of<T>(depth() * packed_n), ordered = Scratch::Of<T>(depth() * columns());
  if (!weights.ok() || !ordered.ok()) return false;
  Order(filter, ordered.data<T>());
  kernels.pack_matrix(ordered.data<T>(), columns(), 1, run, rows_.taps, columns(), weights.data<T>());
  std::vector<int64_t> offsets;
  for (int64_t tap = 0; tap < rows_.taps; ++tap) offsets.push_back(tap * pitch);
  const int64_t in_size = p_.in_h * p_.in_w * p_.in_c, out_size = p_.out_h * p_.out_w * p_.out_c;
  const double work = static_cast<double>(images_ * depth()) * static_cast<double>(results());
  std::atomic<bool> ok{true};
  parallel.For(CeilDiv(p_.batch, images_), CostNs(work), [&](int64_t begin, int64_t end) {
    const Scratch memory = Scratch::Of<T>(images_ * (padded() + results()));
    if (!memory.ok()) {
      ok = false;
      return;
    }
    T* const grads = memory.data<T>();
    T* const sums = grads + images_ * padded();
    std::fill(grads, sums, T(0));
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit * images_, images = std::min(images_, p_.batch - first);
      for (int64_t i = 0; i < images; ++i) Fill(out_grad + (first + i) * out_size, grads + i * padded());
      kernels.gemm(GemmBlock<T>{.m = columns_.squares,
                                .n = columns(),
                                .k = run,
                                .a = grads,
                                .a_row = p_.out_c,
                                .a_col = 1,
                                .b = nullptr,
                                .b_row = columns(),
                                .b_col = 1,
                                .c = sums,
                                .ldc = columns(),
                                .accumulate = false,
                                .segments = rows_.taps,
                                .segment_offsets = offsets.data(),
                                .repeats = rows_.squares,
                                .a_repeat = pitch,
                                .c_repeat = columns_.squares * columns(),
                                .groups = images,
                                .a_group = padded(),
                                .c_group = results(),
                                .packed = weights.data<T>(),
                                .packed_n = packed_n});
      for (int64_t i = 0; i < images; ++i) Place(sums + i * results(), in_grad + (first + i) * in_size);
    }
  });
  return ok;
}

template bool PhaseInputGrad::Run(const float*, const float*, float*, Parallel&) const;
template bool PhaseInputGrad::Run(const double*, const double*, double*, Parallel&) const;

}  // namespace millrace::cpu
