// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/conv_winograd.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "kernels/cpu/contract/conv_geometry.h"
#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kHeader = 16;  // floats before the matrices; the first is 1 if the filter was refused
constexpr int64_t kMinChannels = 32;
constexpr int64_t kMinChannelsOfGradient = 16;
constexpr int64_t kMinTiles = 24;
constexpr int64_t kMinTilesOfChanging = 256;
constexpr int64_t kGroupElements = 256 << 10;  // patches and sums of a group, in the second-level cache
constexpr int64_t kSharedElements = 1 << 20;   // patches of a group that threads share
constexpr int64_t kCachedFilter = 384 << 10;   // elements of a transformed filter that stay in that cache
constexpr int64_t kMaxFilter = 128 << 10;      // pairs of channels
constexpr int64_t kMaxFilterGradient = int64_t{1} << 20;
constexpr int64_t kMinTilesOfLargeGradient = 96;

int64_t MatrixElements(const PackedShape& shape) { return cpu::PackedElements<float>({shape.k, 1, shape.n}); }

int64_t Tiles(const ConvParams& p) { return p.batch * CeilDiv(p.out_h, 2) * CeilDiv(p.out_w, 2); }

bool Fits(const ConvParams& p, int64_t min_channels, int64_t max_filter) {
  const int64_t lanes = ActiveKernels<float>().lanes;
  if (p.filter_h != 3 || p.filter_w != 3 || p.stride_h != 1 || p.stride_w != 1) return false;
  if (p.dilation_h != 1 || p.dilation_w != 1 || p.layout != ImageLayout::kNhwc) return false;
  if (p.in_c % lanes != 0 || p.out_c % lanes != 0 || std::min(p.in_c, p.out_c) < min_channels) return false;
  // Padding and sizes can be anything; if tiles are mostly outside the image, other algorithms are used.
  if (std::min(p.pad_top, p.pad_left) < 0 || p.pad_top > 2 || p.pad_left > 2) return false;
  if (p.out_h > p.in_h + 2 || p.out_w > p.in_w + 2) return false;
  if (p.in_c * p.out_c > max_filter) return false;
  return Tiles(p) >= kMinTiles && p.out_h > 1 && p.out_w > 2;
}

}  // namespace

bool WinogradConv::Suits(const ConvParams& p) { return Fits(p, kMinChannels, kMaxFilter); }
bool WinogradConv::SuitsChanging(const ConvParams& p) { return Suits(p) && Tiles(p) >= kMinTilesOfChanging; }
bool WinogradConv::SuitsGradient(const ConvParams& p) {
  return Fits(p, kMinChannelsOfGradient, kMaxFilter) && Tiles(p) >= kMinTilesOfChanging;
}
bool WinogradConv::SuitsFilterGradient(const ConvParams& p) {
  constexpr int64_t kLarge = 128 * 128;
  return Fits(p, kMinChannelsOfGradient, kMaxFilterGradient) &&
         Tiles(p) >= (p.in_c * p.out_c > kLarge ? kMinTilesOfLargeGradient : kMinTilesOfChanging);
}

ConvParams WinogradConv::InputGradient(const ConvParams& p) {
  ConvParams gradient = p;
  gradient.in_h = p.out_h, gradient.in_w = p.out_w, gradient.in_c = p.out_c;
  gradient.out_h = p.in_h, gradient.out_w = p.in_w, gradient.out_c = p.in_c;
  gradient.pad_top = p.filter_h - 1 - p.pad_top, gradient.pad_left = p.filter_w - 1 - p.pad_left;
  return gradient;
}

WinogradConv::WinogradConv(const ConvParams& params)
    : p_(params), image_rows_(CeilDiv(params.out_h, 2)), row_tiles_(CeilDiv(params.out_w, 2)) {
  by_columns_ = kPositions * p_.in_c * p_.out_c > kCachedFilter;
  const int64_t rows = p_.batch * image_rows_;
  const int64_t row_elements = kPositions * row_tiles_ * (by_columns_ ? p_.in_c : p_.in_c + p_.out_c);
  const int64_t limit = by_columns_ ? kSharedElements : kGroupElements;
  const int64_t most = std::clamp<int64_t>(limit / row_elements, 1, rows);
  group_rows_ = CeilDiv(rows, CeilDiv(rows, most));
  groups_ = CeilDiv(rows, group_rows_);
}

WinogradConv::Group WinogradConv::GroupAt(int64_t index) const {
  const int64_t first = index * group_rows_;
  return {first, std::min(group_rows_, p_.batch * image_rows_ - first)};
}

int64_t WinogradConv::PackedElements(const PackedShape& shape) {
  return kHeader + kPositions * MatrixElements(shape);
}

void WinogradConv::Pack(const PackedShape& shape, const float* filter, float* packed) {
  const int64_t count = shape.k * shape.n;
  std::fill(packed, packed + kHeader, 0.0f);
  const Scratch matrices = Scratch::Of<float>(kPositions * count);
  if (!matrices.ok() || !ActiveKernels<float>().winograd_filter(filter, count, matrices.data<float>())) {
    packed[0] = 1;
    return;
  }
  const int64_t size = MatrixElements(shape);
  for (int64_t i = 0; i < kPositions; ++i) {
    PackMatrix<float>({shape.k, 1, shape.n}, matrices.data<float>() + i * count, shape.n, false,
                      packed + kHeader + i * size);
  }
}

bool WinogradConv::TransformRow(const Group& group, int64_t row, const float* input, const float* zeros,
                                float* patches) const {
  const int64_t image = (group.first + row) / image_rows_, y = (group.first + row) % image_rows_;
  return ActiveKernels<float>().winograd_input({.image = input + image * p_.in_h * p_.in_w * p_.in_c,
                                                .zeros = zeros,
                                                .h = p_.in_h,
                                                .w = p_.in_w,
                                                .pixel = p_.in_c,
                                                .channels = p_.in_c,
                                                .top = 2 * y - p_.pad_top,
                                                .left = -p_.pad_left,
                                                .tiles = row_tiles_,
                                                .out = patches + row * row_tiles_ * p_.in_c,
                                                .position = patch_stride(group)});
}

void WinogradConv::Columns(const Group& group, int64_t column, int64_t count, int64_t then,
                           const float* patches, const float* packed, float* sums, float* output,
                           const ConvEpilogue<float>& epilogue) const {
  const SimdKernels<float>& kernels = ActiveKernels<float>();
  const int64_t tiles_of_group = tiles(group), matrix = MatrixElements(packing());
  const int64_t patch = patch_stride(group), sum = WinogradStride(tiles_of_group * count);
  for (int64_t i = 0; i < kPositions; ++i) {
    GemmBlock<float> block{.m = tiles_of_group,
                           .n = count,
                           .k = p_.in_c,
                           .a = patches + i * patch,
                           .a_row = p_.in_c,
                           .a_col = 1,
                           .b = nullptr,
                           .b_row = p_.out_c,
                           .b_col = 1,
                           .c = sums + i * sum,
                           .ldc = count,
                           .accumulate = false};
    block.packed = packed + kHeader + i * matrix;
    block.packed_n = p_.out_c;
    block.packed_column = column;
    const bool last = i + 1 == kPositions;
    block.then_packed = packed + kHeader + (last ? 0 : i + 1) * matrix;
    block.then_column = last ? then : column;
    kernels.gemm(block);
  }
  const auto of = [&](const float* values) { return values == nullptr ? nullptr : values + column; };
  for (int64_t row = 0; row < group.rows; ++row) {
    const int64_t image = (group.first + row) / image_rows_, y = 2 * ((group.first + row) % image_rows_);
    const int64_t first = (image * p_.out_h + y) * p_.out_w;
    const int64_t h = std::min<int64_t>(2, p_.out_h - y), at = first * p_.out_c + column;
    kernels.winograd_output({.sums = sums + row * row_tiles_ * count,
                             .position = sum,
                             .tiles = row_tiles_,
                             .columns = count,
                             .h = h,
                             .w = p_.out_w,
                             .channels = p_.out_c,
                             .scale = of(epilogue.scale),
                             .bias = of(epilogue.bias),
                             .residual = epilogue.residual == nullptr ? nullptr : epilogue.residual + at,
                             .rectify = epilogue.rectify,
                             .out = output + at});
    if (epilogue.rows == nullptr) continue;
    for (int64_t pixel = 0; pixel < h * p_.out_w; ++pixel) {
      float* const results = output + at + pixel * p_.out_c;
      epilogue.rows(results, results, count);
    }
  }
}

bool WinogradConv::ForwardGroups(const float* input, const float* packed, float* output, Parallel& parallel,
                                 const ConvEpilogue<float>& epilogue) const {
  std::atomic<bool> ok{true};
  const double work =
      static_cast<double>(kPositions * group_rows_ * row_tiles_) * static_cast<double>(p_.in_c * p_.out_c);
  parallel.For(groups_, CostNs(work), [&](int64_t begin, int64_t end) {
    const int64_t sums = kPositions * WinogradStride(group_rows_ * row_tiles_ * p_.out_c);
    const Scratch memory = Scratch::Of<float>(p_.in_c + patch_elements() + sums);
    if (!memory.ok()) {
      ok = false;
      return;
    }
    float* const zeros = memory.data<float>();
    float* const patches = zeros + p_.in_c;
    std::fill(zeros, patches, 0.0f);
    for (int64_t index = begin; index < end && ok; ++index) {
      const Group group = GroupAt(index);
      for (int64_t row = 0; row < group.rows; ++row) {
        if (!TransformRow(group, row, input, zeros, patches)) ok = false;
      }
      if (!ok) return;
      Columns(group, 0, p_.out_c, 0, patches, packed, patches + patch_elements(), output, epilogue);
    }
  });
  return ok;
}

bool WinogradConv::ForwardColumns(const float* input, const float* packed, float* output, Parallel& parallel,
                                  const ConvEpilogue<float>& epilogue) const {
  const int64_t lanes = ActiveKernels<float>().lanes;
  const std::vector<int64_t> columns = PanelBounds(p_.out_c, lanes);
  const auto units = static_cast<int64_t>(columns.size()) - 1;
  std::atomic<bool> ok{true};
  const Scratch shared = Scratch::Of<float>(p_.in_c + patch_elements());
  if (!shared.ok()) return false;
  float* const zeros = shared.data<float>();
  float* const patches = zeros + p_.in_c;
  std::fill(zeros, patches, 0.0f);
  for (int64_t index = 0; index < groups_ && ok; ++index) {
    const Group group = GroupAt(index);
    parallel.For(group.rows, 2 * row_tiles_ * p_.in_c + 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        if (!TransformRow(group, row, input, zeros, patches)) ok = false;
      }
    });
    if (!ok) return false;
    const double work =
        static_cast<double>(kPositions * tiles(group)) * static_cast<double>(p_.in_c * 3 * lanes);
    parallel.For(units, CostNs(work), [&](int64_t begin, int64_t end) {
      const Scratch sums = Scratch::Of<float>(kPositions * WinogradStride(tiles(group) * 3 * lanes));
      if (!sums.ok()) {
        ok = false;
        return;
      }
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        const int64_t then = (i + 1) % units;
        Columns(group, columns[at], columns[at + 1] - columns[at], columns[static_cast<size_t>(then)],
                patches, packed, sums.data<float>(), output, epilogue);
      }
    });
  }
  return ok;
}

bool WinogradConv::Forward(const float* input, const float* packed, float* output, Parallel& parallel,
                           const ConvEpilogue<float>& epilogue) const {
  if (packed[0] != 0) return false;
  return by_columns_ ? ForwardColumns(input, packed, output, parallel, epilogue)
                     : ForwardGroups(input, packed, output, parallel, epilogue);
}

bool WinogradConv::ForwardChanging(const float* input, const float* filter, float* output, Parallel& parallel,
                                   const ConvEpilogue<float>& epilogue) const {
  const Scratch packed = Scratch::Of<float>(PackedElements(packing()));
  if (!packed.ok()) return false;
  Pack(packing(), filter, packed.data<float>());
  return Forward(input, packed.data<float>(), output, parallel, epilogue);
}

bool WinogradConv::BackpropInput(const float* filter, const float* out_grad, float* in_grad,
                                 Parallel& parallel) const {
  constexpr int64_t kTaps = 9;
  const int64_t tap = p_.in_c * p_.out_c;
  const Scratch turned = Scratch::Of<float>(kTaps * tap);
  if (!turned.ok()) return false;
  for (int64_t i = 0; i < kTaps; ++i) {
    ActiveKernels<float>().transpose(filter + i * tap, p_.in_c, p_.out_c, p_.in_c,
                                     turned.data<float>() + (kTaps - 1 - i) * tap, p_.out_c);
  }
  return ForwardChanging(out_grad, turned.data<float>(), in_grad, parallel, {});
}

}  // namespace millrace::cpu
