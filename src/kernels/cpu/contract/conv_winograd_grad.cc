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
constexpr int64_t kMaxChannels = 128;  // of a block on each side: all sums stay in the second-level cache
constexpr int64_t kFinerChannels = 64;
constexpr int64_t kFinerBlock = kFinerChannels * kMaxChannels;
constexpr int64_t kWantedBlocks = 8;           // for the threads, if there are several
constexpr int64_t kCacheElements = 384 << 10;  // sums, transformed patches and gradients
constexpr int64_t kMaxParts = 16;
constexpr double kPartNs = 80'000;  // shorter parts aren't worth separate sums

// Vectors of all instruction sets divide the size of a block.
int64_t BlockSize(int64_t channels, int64_t most) {
  constexpr int64_t kLanes = 16;
  return RoundUp(CeilDiv(channels, CeilDiv(channels, most)), kLanes);
}

}  // namespace

bool WinogradFilterGrad::Suits(const ConvParams& p) { return WinogradConv::SuitsFilterGradient(p); }

WinogradFilterGrad::WinogradFilterGrad(const ConvParams& params)
    : p_(params), image_rows_(CeilDiv(params.out_h, 2)), row_tiles_(CeilDiv(params.out_w, 2)) {
  out_size_ = BlockSize(p_.out_c, kMaxChannels);
  out_blocks_ = CeilDiv(p_.out_c, out_size_);
  in_size_ = BlockSize(p_.in_c, kMaxChannels);
  if (CeilDiv(p_.in_c, in_size_) * out_blocks_ < kWantedBlocks && in_size_ * out_size_ > kFinerBlock)
    in_size_ = BlockSize(p_.in_c, kFinerChannels);
  in_blocks_ = CeilDiv(p_.in_c, in_size_);
  const bool large = in_blocks_ * out_blocks_ >= kWantedBlocks;
  const int64_t rows = p_.batch * image_rows_;
  const double work = static_cast<double>(rows * row_tiles_ * kPositions) *
                      static_cast<double>(p_.in_c * p_.out_c) / kMultiplyAddsPerNs;
  parts_ = large ? 1
                 : std::clamp<int64_t>(static_cast<int64_t>(work / kPartNs), 1,
                                       std::min(CeilDiv(kMaxParts, in_blocks_ * out_blocks_), rows));
  const int64_t row_elements = kPositions * row_tiles_ * (in_size_ + out_size_);
  const int64_t room = kCacheElements - kPositions * in_size_ * out_size_;
  group_rows_ = std::clamp<int64_t>(room / row_elements, 1, CeilDiv(rows, parts_));
}

WinogradFilterGrad::Block WinogradFilterGrad::BlockAt(int64_t index) const {
  const int64_t in = index / out_blocks_ * in_size_, out = index % out_blocks_ * out_size_;
  return {in, std::min(in_size_, p_.in_c - in), out, std::min(out_size_, p_.out_c - out)};
}

bool WinogradFilterGrad::TransformRows(Rows rows, const Block& block, const float* input,
                                       const float* out_grad, const float* zeros, float* patches,
                                       float* gradients) const {
  const SimdKernels<float>& kernels = ActiveKernels<float>();
  const int64_t tiles = rows.count * row_tiles_;
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t image = (rows.first + row) / image_rows_, y = 2 * ((rows.first + row) % image_rows_);
    const bool ok = kernels.winograd_input({.image = input + image * p_.in_h * p_.in_w * p_.in_c + block.in,
                                            .zeros = zeros,
                                            .h = p_.in_h,
                                            .w = p_.in_w,
                                            .pixel = p_.in_c,
                                            .channels = block.in_count,
                                            .top = y - p_.pad_top,
                                            .left = -p_.pad_left,
                                            .tiles = row_tiles_,
                                            .out = patches + row * row_tiles_ * block.in_count,
                                            .position = WinogradStride(tiles * block.in_count)}) &&
                    kernels.winograd_gradient(
                        {.grad = out_grad + (image * p_.out_h + y) * p_.out_w * p_.out_c + block.out,
                         .zeros = zeros,
                         .h = std::min<int64_t>(2, p_.out_h - y),
                         .w = p_.out_w,
                         .pixel = p_.out_c,
                         .channels = block.out_count,
                         .tiles = row_tiles_,
                         .out = gradients + row * row_tiles_ * block.out_count,
                         .position = WinogradStride(tiles * block.out_count)});
    if (!ok) return false;
  }
  return true;
}

void WinogradFilterGrad::Multiply(int64_t tiles, const Block& block, const float* patches,
                                  const float* gradients, bool begin, float* sums, float* scratch) const {
  const int64_t patch = WinogradStride(tiles * block.in_count);
  const int64_t gradient = WinogradStride(tiles * block.out_count);
  for (int64_t i = 0; i < kPositions; ++i) {
    ActiveKernels<float>().gemm(GemmBlock<float>{.m = block.in_count,
                                                 .n = block.out_count,
                                                 .k = tiles,
                                                 .a = patches + i * patch,
                                                 .a_row = 1,
                                                 .a_col = block.in_count,
                                                 .b = gradients + i * gradient,
                                                 .b_row = block.out_count,
                                                 .b_col = 1,
                                                 .c = sums + i * block.in_count * block.out_count,
                                                 .ldc = block.out_count,
                                                 .accumulate = !begin,
                                                 .scratch = scratch});
  }
}

int64_t WinogradFilterGrad::scratch_elements() const {
  const int64_t tiles = group_rows_ * row_tiles_;
  return std::max(in_size_, out_size_) + kPositions * in_size_ * out_size_ +
         kPositions * (WinogradStride(tiles * in_size_) + WinogradStride(tiles * out_size_));
}

bool WinogradFilterGrad::RunPart(int64_t part, const Block& block, const float* input, const float* out_grad,
                                 float* memory, float* result) const {
  const SimdKernels<float>& kernels = ActiveKernels<float>();
  const int64_t rows = p_.batch * image_rows_, position = block.in_count * block.out_count;
  const Scratch scratch = Scratch::Of<float>(kernels.gemm_scratch(group_rows_ * row_tiles_, 1));
  if (!scratch.ok()) return false;
  float* const zeros = memory;
  float* const sums = zeros + std::max(in_size_, out_size_);
  float* const patches = sums + kPositions * position;
  std::fill(zeros, sums, 0.0f);
  const int64_t begin = part * rows / parts_, end = (part + 1) * rows / parts_;
  for (int64_t row = begin; row < end; row += group_rows_) {
    const Rows group{row, std::min(group_rows_, end - row)};
    const int64_t tiles = group.count * row_tiles_;
    float* const gradients = patches + kPositions * WinogradStride(tiles * block.in_count);
    if (!TransformRows(group, block, input, out_grad, zeros, patches, gradients)) return false;
    Multiply(tiles, block, patches, gradients, row == begin, sums, scratch.data<float>());
  }
  const int64_t tap = p_.in_c * p_.out_c;
  if (block.out_count == p_.out_c) {
    kernels.winograd_filter_gradient(sums, position, position, result + block.in * p_.out_c, tap);
    return true;
  }
  for (int64_t i = 0; i < block.in_count; ++i) {
    kernels.winograd_filter_gradient(sums + i * block.out_count, position, block.out_count,
                                     result + (block.in + i) * p_.out_c + block.out, tap);
  }
  return true;
}

bool WinogradFilterGrad::Run(const float* input, const float* out_grad, float* filter_grad,
                             Parallel& parallel) const {
  const int64_t filter = 9 * p_.in_c * p_.out_c, blocks = in_blocks_ * out_blocks_;
  const Scratch partials = Scratch::Of<float>(parts_ == 1 ? 0 : parts_ * filter);
  if (!partials.ok()) return false;
  float* const results = parts_ == 1 ? filter_grad : partials.data<float>();
  std::atomic<bool> ok{true};
  const double tiles = static_cast<double>(p_.batch * image_rows_ * row_tiles_);
  const double work = tiles * static_cast<double>(kPositions * p_.in_c * p_.out_c);
  parallel.For(parts_ * blocks, CostNs(work / static_cast<double>(parts_ * blocks)),
               [&](int64_t begin, int64_t end) {
                 const Scratch memory = Scratch::Of<float>(scratch_elements());
                 if (!memory.ok()) ok = false;
                 for (int64_t unit = begin; unit < end && ok; ++unit) {
                   const int64_t part = unit / blocks;
                   if (!RunPart(part, BlockAt(unit % blocks), input, out_grad, memory.data<float>(),
                                results + part * filter)) {
                     ok = false;
                   }
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
