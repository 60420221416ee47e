// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/conv_pixel_grad.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kTile = 8;  // channels that are read together
constexpr int64_t kMinPixels = 512;
constexpr int64_t kMinFilter = 4 << 10;
constexpr int64_t kMaxFilter = 256 << 10;      // sums that stay in the second-level cache
constexpr int64_t kCacheElements = 448 << 10;  // sums, pixels and gradients, and those that are prefetched
constexpr int64_t kMost = 512;                 // pixels at a time: the depth that a product doesn't cut
constexpr int64_t kLeast = 128;
constexpr int64_t kMaxParts = 8;

bool Inside(const ConvAxis& axis) { return axis.pad == 0 && (axis.out - 1) * axis.stride < axis.in; }

}  // namespace

bool PixelFilterGrad::Suits(const ConvParams& p) {
  const int64_t filter = p.in_c * p.out_c;
  return p.filter_h == 1 && p.filter_w == 1 && p.in_c % kTile == 0 && Inside(RowAxis(p)) &&
         Inside(ColumnAxis(p)) && p.batch * p.out_h * p.out_w >= kMinPixels && filter >= kMinFilter &&
         filter <= kMaxFilter;
}

PixelFilterGrad::PixelFilterGrad(const ConvParams& params)
    : p_(params), pixels_(p_.batch * p_.out_h * p_.out_w) {
  const int64_t room = std::max<int64_t>(kCacheElements - p_.in_c * p_.out_c, 0);
  const int64_t most = std::clamp(room / (p_.in_c + p_.out_c + std::max(p_.in_c, p_.out_c)), kLeast, kMost);
  parts_ = std::clamp<int64_t>(pixels_ / most, 1, kMaxParts);
  const int64_t part = CeilDiv(pixels_, parts_);
  count_ = CeilDiv(part, CeilDiv(part, most));
}

template <typename T>
void PixelFilterGrad::Gather(const T* input, int64_t first, int64_t count, T* rows) const {
  const int64_t image = p_.out_h * p_.out_w, in_row = p_.in_w * p_.in_c;
  for (int64_t i = 0; i < count;) {
    const int64_t at = first + i, y = at % image / p_.out_w, x = at % p_.out_w;
    const T* from = input + (at / image * p_.in_h + y * p_.stride_h) * in_row + x * p_.stride_w * p_.in_c;
    for (const int64_t end = std::min(count, i + p_.out_w - x); i < end; ++i) {
      T* to = rows + i * kTile;
      for (int64_t c = 0; c < p_.in_c; c += kTile, to += count * kTile)
        std::memcpy(to, from + c, kTile * sizeof(T));
      from += p_.stride_w * p_.in_c;
    }
  }
}

template <typename T>
void PixelFilterGrad::RunPart(int64_t part, const T* input, const T* out_grad, T* rows, T* scratch,
                              T* sums) const {
  const int64_t begin = part * pixels_ / parts_, end = (part + 1) * pixels_ / parts_;
  for (int64_t first = begin; first < end; first += count_) {
    const int64_t count = std::min(count_, end - first), after = std::min(count_, pixels_ - first - count);
    Gather(input, first, count, rows);
    const T* const grads = out_grad + first * p_.out_c;
    // The larger one of the pixels and gradients that follow.
    const bool image = p_.in_c > p_.out_c && p_.stride_h == 1 && p_.stride_w == 1 && p_.out_w == p_.in_w &&
                       p_.out_h == p_.in_h;
    const T* const next = image ? input + (first + count) * p_.in_c : grads + count * p_.out_c;
    ActiveKernels<T>().gemm(
        GemmBlock<T>{.m = kTile,
                     .n = p_.out_c,
                     .k = count,
                     .a = rows,
                     .a_row = 1,
                     .a_col = kTile,
                     .b = grads,
                     .b_row = p_.out_c,
                     .b_col = 1,
                     .c = sums,
                     .ldc = p_.out_c,
                     .accumulate = first != begin,
                     .repeats = p_.in_c / kTile,
                     .a_repeat = count * kTile,
                     .c_repeat = kTile * p_.out_c,
                     .scratch = scratch,
                     .next = after > 0 ? next : nullptr,
                     .next_bytes = after * (image ? p_.in_c : p_.out_c) * static_cast<int64_t>(sizeof(T))});
  }
}

template <typename T>
bool PixelFilterGrad::Run(const T* input, const T* out_grad, T* filter_grad, Parallel& parallel) const {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const int64_t filter = p_.in_c * p_.out_c;
  const Scratch partials = Scratch::Of<T>(parts_ == 1 ? 0 : parts_ * filter);
  if (!partials.ok()) return false;
  T* const results = parts_ == 1 ? filter_grad : partials.data<T>();
  const double work = static_cast<double>(filter) * static_cast<double>(CeilDiv(pixels_, parts_));
  std::atomic<bool> ok{true};
  parallel.For(parts_, CostNs(work), [&](int64_t begin, int64_t end) {
    const Scratch rows = Scratch::Of<T>(count_ * p_.in_c);
    const Scratch scratch = Scratch::Of<T>(kernels.gemm_scratch(count_, 1));
    if (!rows.ok() || !scratch.ok()) {
      ok = false;
      return;
    }
    for (int64_t part = begin; part < end; ++part) {
      RunPart(part, input, out_grad, rows.data<T>(), scratch.data<T>(), results + part * filter);
    }
  });
  if (!ok) return false;
  if (parts_ == 1) return true;
  constexpr int64_t kChunk = 4096;
  parallel.For(CeilDiv(filter, kChunk), kChunk * parts_ / 8, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * kChunk, to = std::min(end * kChunk, filter);
    kernels.add_rows(results + from, parts_, filter, to - from, filter_grad + from);
  });
  return true;
}

template bool PixelFilterGrad::Run(const float*, const float*, float*, Parallel&) const;
template bool PixelFilterGrad::Run(const double*, const double*, double*, Parallel&) const;

}  // namespace millrace::cpu
