// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/conv_winograd_grad.h"

#include <algorithm>
#include <atomic>

#include "kernels/cpu/contract/conv_geometry.h"
#include "kernels/cpu/contract/conv_winograd.h"
#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kPositions = 16;
constexpr int64_t kMaxFilter = 128 * 128;  // pairs of channels whose sums all stay in the second-level cache
constexpr int64_t kGroupElements = 128 << 10;  // transformed patches and gradients, in addition
constexpr int64_t kMaxParts = 16;
constexpr double kPartNs = 80'000;  // shorter parts aren't worth separate sums

}  // namespace

bool WinogradFilterGrad::Suits(const ConvParams& p) {
  return WinogradConv::SuitsGradient(p) && p.in_c * p.out_c <= kMaxFilter;
}

WinogradFilterGrad::WinogradFilterGrad(const ConvParams& params)
    : p_(params), image_rows_(CeilDiv(params.out_h, 2)), row_tiles_(CeilDiv(params.out_w, 2)) {
  const int64_t rows = p_.batch * image_rows_;
  const double work = static_cast<double>(rows * row_tiles_ * kPositions) *
                      static_cast<double>(p_.in_c * p_.out_c) / kMultiplyAddsPerNs;
  parts_ = std::clamp<int64_t>(static_cast<int64_t>(work / kPartNs), 1, std::min(kMaxParts, rows));
  const int64_t row_elements = kPositions * row_tiles_ * (p_.in_c + p_.out_c);
  group_rows_ = std::clamp<int64_t>(kGroupElements / row_elements, 1, CeilDiv(rows, parts_));
}

bool WinogradFilterGrad::TransformRows(Rows rows, const float* input, const float* out_grad,
                                       const float* zeros, float* patches, float* gradients) const {
  const SimdKernels<float>& kernels = ActiveKernels<float>();
  const int64_t tiles = rows.count * row_tiles_;
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t image = (rows.first + row) / image_rows_, y = 2 * ((rows.first + row) % image_rows_);
    const bool ok =
        kernels.winograd_input({.image = input + image * p_.in_h * p_.in_w * p_.in_c,
                                .zeros = zeros,
                                .h = p_.in_h,
                                .w = p_.in_w,
                                .channels = p_.in_c,
                                .top = y - p_.pad_top,
                                .left = -p_.pad_left,
                                .tiles = row_tiles_,
                                .out = patches + row * row_tiles_ * p_.in_c,
                                .position = WinogradStride(tiles * p_.in_c)}) &&
        kernels.winograd_gradient({.grad = out_grad + (image * p_.out_h + y) * p_.out_w * p_.out_c,
                                   .zeros = zeros,
                                   .h = std::min<int64_t>(2, p_.out_h - y),
                                   .w = p_.out_w,
                                   .channels = p_.out_c,
                                   .tiles = row_tiles_,
                                   .out = gradients + row * row_tiles_ * p_.out_c,
                                   .position = WinogradStride(tiles * p_.out_c)});
    if (!ok) return false;
  }
  return true;
}

void WinogradFilterGrad::Multiply(int64_t tiles, const float* patches, const float* gradients, bool begin,
                                  float* sums, float* scratch) const {
  const int64_t patch = WinogradStride(tiles * p_.in_c), gradient = WinogradStride(tiles * p_.out_c);
  for (int64_t i = 0; i < kPositions; ++i) {
    ActiveKernels<float>().gemm(GemmBlock<float>{.m = p_.in_c,
                                                 .n = p_.out_c,
                                                 .k = tiles,
                                                 .a = patches + i * patch,
                                                 .a_row = 1,
                                                 .a_col = p_.in_c,
                                                 .b = gradients + i * gradient,
                                                 .b_row = p_.out_c,
                                                 .b_col = 1,
                                                 .c = sums + i * p_.in_c * p_.out_c,
                                                 .ldc = p_.out_c,
                                                 .accumulate = !begin,
                                                 .scratch = scratch});
  }
}

int64_t WinogradFilterGrad::scratch_elements() const {
  const int64_t tiles = group_rows_ * row_tiles_;
  return std::max(p_.in_c, p_.out_c) + kPositions * p_.in_c * p_.out_c +
         kPositions * (WinogradStride(tiles * p_.in_c) + WinogradStride(tiles * p_.out_c));
}

bool WinogradFilterGrad::RunPart(int64_t part, const float* input, const float* out_grad, float* memory,
                                 float* result) const {
  const SimdKernels<float>& kernels = ActiveKernels<float>();
  const int64_t rows = p_.batch * image_rows_, filter = p_.in_c * p_.out_c;
  const Scratch scratch = Scratch::Of<float>(kernels.gemm_scratch(group_rows_ * row_tiles_, 1));
  if (!scratch.ok()) return false;
  float* const zeros = memory;
  float* const sums = zeros + std::max(p_.in_c, p_.out_c);
  float* const patches = sums + kPositions * filter;
  std::fill(zeros, sums, 0.0f);
  const int64_t begin = part * rows / parts_, end = (part + 1) * rows / parts_;
  for (int64_t row = begin; row < end; row += group_rows_) {
    const Rows group{row, std::min(group_rows_, end - row)};
    const int64_t tiles = group.count * row_tiles_;
    float* const gradients = patches + kPositions * WinogradStride(tiles * p_.in_c);
    if (!TransformRows(group, input, out_grad, zeros, patches, gradients)) return false;
    Multiply(tiles, patches, gradients, row == begin, sums, scratch.data<float>());
  }
  kernels.winograd_filter_gradient(sums, filter, result);
  return true;
}

bool WinogradFilterGrad::Run(const float* input, const float* out_grad, float* filter_grad,
                             Parallel& parallel) const {
  const int64_t filter = 9 * p_.in_c * p_.out_c;
  const Scratch partials = Scratch::Of<float>(parts_ == 1 ? 0 : parts_ * filter);
  if (!partials.ok()) return false;
  float* const results = parts_ == 1 ? filter_grad : partials.data<float>();
  std::atomic<bool> ok{true};
  const double tiles = static_cast<double>(p_.batch * image_rows_ * row_tiles_);
  const double work = tiles * static_cast<double>(kPositions * p_.in_c * p_.out_c);
  parallel.For(parts_, CostNs(work / static_cast<double>(parts_)), [&](int64_t begin, int64_t end) {
    const Scratch memory = Scratch::Of<float>(scratch_elements());
    if (!memory.ok()) ok = false;
    for (int64_t part = begin; part < end && ok; ++part) {
      if (!RunPart(part, input, out_grad, memory.data<float>(), results + part * filter)) ok = false;
    }
  });
  if (!ok) return false;
  if (parts_ > 1) {
    constexpr int64_t kChunk = 4096;
    parallel.For(CeilDiv(filter, kChunk), kChunk * parts_ / 8, [&](int64_t begin, int64_t end) {
      const int64_t from = begin * kChunk, to = std::min(end * kChunk, filter);
      ActiveKernels<float>().add_rows(results + from, parts_, filter, to - from, filter_grad + from);
    });
  }
  return true;
}

}  // namespace millrace::cpu
