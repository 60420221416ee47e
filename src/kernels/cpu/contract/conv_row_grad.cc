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

constexpr int64_t kMinOuts = 6;  // broadcasts that repay the loads of a row's vectors
constexpr int64_t kMinOutsOfStrips = 6;
constexpr int64_t kMinPixels = 4;  // of a row of gradients
constexpr int64_t kMaxFilter = 64 << 10;
constexpr int64_t kMaxImage = 32 << 10;
constexpr int64_t kGroupElements =
    16 << 10;  // of images and gradients, which are read for each row of the filter
constexpr int64_t kMaxParts = 16;

// Whether vectors along `row` elements waste few lanes.
bool Fills(int64_t row, int64_t lanes) { return row >= lanes && 4 * row >= 3 * RoundUp(row, lanes); }

}  // namespace

bool RowFilterGrad::SuitsRows(const ConvParams& p, int64_t lanes) {
  const int64_t row = p.filter_w * p.in_c;
  if (p.dilation_w != 1 || p.out_c < kMinOuts || p.out_w < kMinPixels) return false;
  return Fills(row, lanes) && row * RoundUp(p.out_c, lanes) > p.out_c * RoundUp(row, lanes);
}

bool RowFilterGrad::SuitsStrips(const ConvParams& p, int64_t lanes) {
  const int64_t row = p.filter_w * p.in_c, filter = row * p.filter_h;
  if (p.dilation_w != 1 || p.dilation_h != 1 || p.out_c < kMinOutsOfStrips || p.out_h < kMinPixels)
    return false;
  const int64_t outs = filter * RoundUp(p.out_c, lanes), strips = p.out_c * RoundUp(filter, lanes);
  return Fills(filter, lanes) && outs > strips;
}

bool RowFilterGrad::Suits(const ConvParams& p, int64_t lanes) {
  if (p.filter_w * p.in_c * p.filter_h * p.out_c > kMaxFilter) return false;
  const bool rows = SuitsRows(p, lanes);
  if (!rows && !SuitsStrips(p, lanes)) return false;
  return RowFilterGrad(p, !rows).image() <= kMaxImage;
}

RowFilterGrad::RowFilterGrad(const ConvParams& params, bool strips)
    : p_(params), row_(p_.filter_w * p_.in_c), strips_(strips) {
  vector_row_ = strips_ ? row_ * p_.filter_h : row_;
  height_ = (p_.out_h - 1) * p_.stride_h + (p_.filter_h - 1) * p_.dilation_h + 1;
  pitch_ = ((p_.out_w - 1) * p_.stride_w + p_.filter_w) * p_.in_c;
  if (strips_) {
    pitch_ = height_ * row_;
    height_ = p_.out_w;
  }
  parts_ = std::min(p_.batch, kMaxParts);
  const int64_t elements = image() + p_.out_h * p_.out_w * p_.out_c;
  group_ = std::clamp<int64_t>(kGroupElements / elements, 1, CeilDiv(p_.batch, parts_));
}

template <typename T>
void RowFilterGrad::FillStrips(const T* input, T* strips) const {
  const int64_t rows = pitch_ / row_;
  const IndexRange ys = InsideRange(-p_.pad_top, 1, p_.in_h, rows);
  for (int64_t x = 0; x < p_.out_w; ++x, strips += pitch_) {
    const int64_t left = x * p_.stride_w - p_.pad_left;
    const IndexRange xs = InsideRange(left, 1, p_.in_w, p_.filter_w);
    if (xs.size() <= 0) continue;
    const T* from = input + ((ys.begin - p_.pad_top) * p_.in_w + left + xs.begin) * p_.in_c;
    T* to = strips + ys.begin * row_ + xs.begin * p_.in_c;
    const int64_t count = xs.size() * p_.in_c;
    for (int64_t y = ys.begin; y < ys.end; ++y, from += p_.in_w * p_.in_c, to += row_)
      CopyFew(from, count, to);
  }
}

template <typename T>
void RowFilterGrad::Fill(const T* input, int64_t image, int64_t images, T* padded) const {
  if (strips_) {
    const int64_t size = p_.in_h * p_.in_w * p_.in_c;
    for (int64_t i = 0; i < images; ++i) FillStrips(input + (image + i) * size, padded + i * this->image());
    return;
  }
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
  // Where rows of gradients and those of the image lie, in a group; with strips, columns.
  std::vector<int64_t> grads, rows;
  const int64_t runs = strips_ ? p_.out_w : p_.out_h;
  for (int64_t i = 0; i < group_; ++i) {
    for (int64_t at = 0; at < runs; ++at) {
      grads.push_back(i * p_.out_h * grad_row + at * (strips_ ? p_.out_c : grad_row));
      rows.push_back(i * image() + at * (strips_ ? pitch_ : p_.stride_h * pitch_));
    }
  }
  const int64_t begin = part * p_.batch / parts_, end = (part + 1) * p_.batch / parts_;
  for (int64_t first = begin; first < end; first += group_) {
    const int64_t images = std::min(group_, end - first);
    Fill(input, first, images, padded);
    for (int64_t kh = 0; kh < (strips_ ? 1 : p_.filter_h); ++kh) {
      ActiveKernels<T>().gemm(GemmBlock<T>{.m = p_.out_c,
                                           .n = vector_row_,
                                           .k = strips_ ? p_.out_h : p_.out_w,
                                           .a = out_grad + first * p_.out_h * grad_row,
                                           .a_row = 1,
                                           .a_col = strips_ ? grad_row : p_.out_c,
                                           .b = padded + kh * p_.dilation_h * pitch_,
                                           .b_row = strips_ ? p_.stride_h * row_ : p_.stride_w * p_.in_c,
                                           .b_col = 1,
                                           .c = sums + kh * p_.out_c * row_,
                                           .ldc = vector_row_,
                                           .accumulate = first != begin,
                                           .segments = images * runs,
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
  for (int64_t at = 0; at < filter; at += vector_row_ * p_.out_c) {
    kernels.transpose(sums + at, vector_row_, p_.out_c, vector_row_, filter_grad + at, p_.out_c);
  }
  return true;
}

template bool RowFilterGrad::Run(const float*, const float*, float*, Parallel&) const;
template bool RowFilterGrad::Run(const double*, const double*, double*, Parallel&) const;

}  // namespace millrace::cpu
