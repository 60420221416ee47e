// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Winograd's convolution F(2x2, 3x3) of floats, NHWC: four results take 16 products of transformed patches
// and filters instead of 36 of pixels, 2.25 times fewer multiplications. Constant filters are transformed
// once; others only if they are multiplied with many tiles.
//
// Results are rounded differently from those of plain convolution; errors are about twice as large.
// Images and filters with infinite values, NaN or numbers beyond 2^60 are refused, because their differences
// could make results NaN that are finite.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/conv.h"
#include "kernels/cpu/contract/gemm.h"

namespace millrace::cpu {

// The distance, in floats, between the 16 positions of transformed tiles when each has `count`: an odd number
// of cache lines, so that the positions of one tile are not all in one set of the cache.
inline int64_t WinogradStride(int64_t count) {
  constexpr int64_t kLine = 16;
  return ((count + kLine - 1) / kLine | 1) * kLine;
}

class WinogradConv {
 public:
  // Whether the shape is supported, and large enough to gain.
  static bool Suits(const ConvParams& params);
  // The same for a filter that is transformed each time.
  static bool SuitsChanging(const ConvParams& params);
  // The same for gradients, which gain with fewer channels.
  static bool SuitsGradient(const ConvParams& params);
  // The same for gradients of the filter (conv_winograd_grad.h), which may be larger and need fewer tiles.
  static bool SuitsFilterGradient(const ConvParams& params);
  // The convolution that computes the gradient of the input from that of the output.
  static ConvParams InputGradient(const ConvParams& params);
  explicit WinogradConv(const ConvParams& params);

  // As in ConvPlan. False: memory is short, or this method refuses the values; the output is then
  // undefined.
  bool Forward(const float* input, const float* packed, float* output, Parallel& parallel,
               const ConvEpilogue<float>& epilogue) const;
  // With an unpacked filter.
  bool ForwardChanging(const float* input, const float* filter, float* output, Parallel& parallel,
                       const ConvEpilogue<float>& epilogue) const;
  // For the convolution InputGradient(params): with the filter of `params`.
  bool BackpropInput(const float* filter, const float* out_grad, float* in_grad, Parallel& parallel) const;

  PackedShape packing() const { return {p_.in_c, kPositions, p_.out_c, true}; }

  // A filter in the form for Forward: a header, then 16 packed matrices.
  static int64_t PackedElements(const PackedShape& shape);
  static void Pack(const PackedShape& shape, const float* filter, float* packed);

 private:
  static constexpr int64_t kPositions = 16;

  // Rows of tiles, numbered across all images, that are computed together.
  struct Group {
    int64_t first, rows;
  };
  Group GroupAt(int64_t index) const;
  int64_t tiles(const Group& group) const { return group.rows * row_tiles_; }
  // Of the transformed patches of a group, and of all groups.
  int64_t patch_stride(const Group& group) const { return WinogradStride(tiles(group) * p_.in_c); }
  int64_t patch_elements() const { return kPositions * patch_stride({0, group_rows_}); }
  bool TransformRow(const Group& group, int64_t row, const float* input, const float* zeros,
                    float* patches) const;
  // Computes `count` columns of the results from `column` on, of all tiles of the group. `then` is the first
  // column that the thread probably computes next.
  void Columns(const Group& group, int64_t column, int64_t count, int64_t then, const float* patches,
               const float* packed, float* sums, float* output, const ConvEpilogue<float>& epilogue) const;
  bool ForwardGroups(const float* input, const float* packed, float* output, Parallel& parallel,
                     const ConvEpilogue<float>& epilogue) const;
  bool ForwardColumns(const float* input, const float* packed, float* output, Parallel& parallel,
                      const ConvEpilogue<float>& epilogue) const;

  ConvParams p_;
  int64_t image_rows_, row_tiles_;  // rows of tiles in an image, tiles in a row
  bool by_columns_;                 // threads share the columns of a large filter, otherwise the groups
  int64_t group_rows_, groups_;
};

}  // namespace millrace::cpu
