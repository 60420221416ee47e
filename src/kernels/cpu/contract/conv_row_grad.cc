// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/conv_row_grad.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "kernels/cpu/contract/conv_geometry.h"
#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kMinOuts = 6;    // broadcasts that repay the loads of a row's vectors
constexpr int64_t kMinPixels = 4;  // of a row of gradients
constexpr int64_t kMaxFilter = 64 << 10;
constexpr int64_t kMaxImage = 32 << 10;
constexpr int64_t kGroupElements =
    16 << 10;  // of images and gradients, which are read for each row of the filter
constexpr int64_t kMaxParts = 16;

}  // namespace

bool RowFilterGrad::Suits(const ConvParams& p, int64_t lanes) {
  const int64_t row = p.filter_w * p.in_c;
  if (p.dilation_w != 1 || p.out_c < kMinOuts || p.out_w < kMinPixels) return false;
  if (row < lanes || row * p.filter_h * p.out_c > kMaxFilter) return false;
  const RowFilterGrad plan(p);
  if (plan.image() > kMaxImage) return false;
  return 4 * row >= 3 * RoundUp(row, lanes) && row * RoundUp(p.out_c, lanes) > p.out_c * RoundUp(row, lanes);
}

RowFilterGrad::RowFilterGrad(const ConvParams& params) : p_(params), row_(p_.filter_w * p_.in_c) {
  height_ = (p_.out_h - 1) * p_.stride_h + (p_.filter_h - 1) * p_.dilation_h + 1;
  pitch_ = ((p_.out_w - 1) * p_.stride_w + p_.filter_w) * p_.in_c;
  parts_ = std::min(p_.batch, kMaxParts);
  const int64_t elements = image() + p_.out_h * p_.out_w * p_.out_c;
  group_ = std::clamp<int64_t>(kGroupElements / elements, 1, CeilDiv(p_.batch, parts_));
}

template <typename T>
void RowFilterGrad::Fill(const T* input, int64_t image, int64_t images, T* padded) const {
  const IndexRange ys = InsideRange(-p_.pad_top, 1, p_.in_h, height_);
  const IndexRange xs = InsideRange(-p_.pad_left, 1, p_.in_w, pitch_ / p_.in_c);
  if (xs.size() <= 0) return;
  for (int64_t i = 0; i < images; ++i) {
    const T* const from = input + (image + i) * p_.in_h * p_.in_w * p_.in_c;
    for (int64_t y = ys.begin; y < ys.end; ++y) {
      std::memcpy(padded + i * this->image() + y * pitch_ + xs.begin * p_.in_c,
                  from + ((y - p_.pad_top) * p_.in_w + xs.begin - p_.pad_left) * p_.in_c,
                  static_cast<size_t>(xs.size() * p_.in_c) * sizeof(T));
    }
  }
}

template <typename T>
void RowFilterGrad::RunPart(int64_t part, const T* input, const T* out_grad, T* padded, T* sums) const {
  const int64_t grad_row = p_.out_w * p_.out_c;
  std::vector<int64_t> grads, rows;  // where rows of gradients and those of the image lie, in a group
  for (int64_t i = 0; i < group_; ++i) {
    for (int64_t y = 0; y < p_.out_h; ++y) {
      grads.push_back((i * p_.out_h + y) * grad_row);
      rows.push_back(i * image() + y * p_.stride_h * pitch_);
    }
  }
  const int64_t begin = part * p_.batch / parts_, end = (part + 1) * p_.batch / parts_;
  for (int64_t first = begin; first < end; first += group_) {
    const int64_t images = std::min(group_, end - first);
    Fill(input, first, images, padded);
    for (int64_t kh = 0; kh < p_.filter_h; ++kh) {
      ActiveKernels<T>().gemm(GemmBlock<T>{.m = p_.out_c,
                                           .n = row_,
                                           .k = p_.out_w,
                                           .a = out_grad + first * p_.out_h * grad_row,
                                           .a_row = 1,
                                           .a_col = p_.out_c,
                                           .b = padded + kh * p_.dilation_h * pitch_,
                                           .b_row = p_.stride_w * p_.in_c,
                                           .b_col = 1,
                                           .c = sums + kh * p_.out_c * row_,
                                           .ldc = row_,
                                           .accumulate = first != begin,
                                           .segments = images * p_.out_h,
                                           .segment_offsets = grads.data(),
                                           .b_offsets = rows.data()});
    }
  }
}

template <typename T>
bool RowFilterGrad::Run(const T* input, const T* out_grad, T* filter_grad, Parallel& parallel) const {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const int64_t filter = p_.filter_h * row_ * p_.out_c;
  const Scratch memory = Scratch::Of<T>((parts_ + 1) * filter);
  if (!memory.ok()) return false;
  T* const partials = memory.data<T>();
  const double work = static_cast<double>(filter) * static_cast<double>(p_.out_h * p_.out_w) *
                      static_cast<double>(CeilDiv(p_.batch, parts_));
  std::atomic<bool> ok{true};
  parallel.For(parts_, CostNs(work), [&](int64_t begin, int64_t end) {
    const int64_t size = group_ * image() + kernels.lanes;  // vectors end behind the last row
    const Scratch padded = Scratch::Of<T>(size);
    if (!padded.ok()) {
      ok = false;
      return;
    }
    std::fill_n(padded.data<T>(), size, T(0));
    for (int64_t part = begin; part < end; ++part) {
      RunPart(part, input, out_grad, padded.data<T>(), partials + part * filter);
    }
  });
  if (!ok) return false;
  T* const sums = partials + parts_ * filter;
  kernels.add_rows(partials, parts_, filter, filter, sums);
  for (int64_t kh = 0; kh < p_.filter_h; ++kh) {
    const int64_t at = kh * row_ * p_.out_c;
    kernels.transpose(sums + at, row_, p_.out_c, row_, filter_grad + at, p_.out_c);
  }
  return true;
}

template bool RowFilterGrad::Run(const float*, const float*, float*, Parallel&) const;
template bool RowFilterGrad::Run(const double*, const double*, double*, Parallel&) const;

}  // namespace millrace::cpu
