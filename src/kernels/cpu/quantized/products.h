// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sums of products of integers in int32, which wrap. The factors are stored as floats if these give the exact
// result: as many terms are added as fit into the 24 bits of a float, and then moved to int32.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "millrace/status.h"

namespace millrace::quantized {

// The right factor, [terms, columns] of integers, as blocks of columns.
class RightFactor {
 public:
  static constexpr int64_t kBlock = 16;
  // `left_largest`: the largest absolute left factor.
  RightFactor(std::span<const int32_t> values, int64_t terms, int64_t columns, int64_t left_largest);
  int64_t columns() const { return columns_; }
  // How many products floats add exactly; 0 if they are too few, and the factors stay integers.
  int64_t exact() const { return exact_; }
  const float* Block(int64_t block) const { return blocks_.data() + block * terms_ * kBlock; }
  const int32_t* integers() const { return integers_.data(); }

 private:
  const int64_t terms_, columns_;
  int64_t exact_;
  std::vector<float> blocks_;
  std::vector<int32_t> integers_;
};

// The positions of the left factors of a row: `length` of them from each of the offsets `runs` on.
struct Rows {
  int64_t rows = 0;
  int64_t step = 0;  // between the first ones of rows
  int64_t length = 0;
  std::span<const int64_t> runs;
};

// out, [rows, columns] = the products. REQUIRES: runs.size() * length terms; left is float if right.exact() >
// 0.
void Products(const float* left, const Rows& rows, const RightFactor& right, int32_t* out);
void Products(const int32_t* left, const Rows& rows, const RightFactor& right, int32_t* out);

// The windows of a dimension of an image.
struct Windows {
  int64_t count = 0, size = 0, stride = 1, dilation = 1, before = 0;  // before: the padding in front
  int64_t Padded() const { return (count - 1) * stride + (size - 1) * dilation + 1; }
};
struct Image {
  int64_t height, width, depth;
};

// The rows of an image under a row of windows, including padding: [y.size, x.Padded(), depth].
struct PaddedRows {
  Image image;
  Windows y, x;
  int64_t zero;  // the integer that represents 0, also outside of the image
  int64_t Size() const { return y.size * x.Padded() * image.depth; }
  // An error if they are too many for the memory of a thread: SAME with a huge dilation pads by as much.
  Status Check() const;
  // Loads the rows of row r of windows, less `zero`.
  template <typename In, typename Value>
  void Load(const In* pixels, int64_t r, Value* to) const;
};

// Convolution of bytes, row by row.
class Convolution {
 public:
  Convolution(const PaddedRows& rows, const RightFactor& filter);
  // Row r of the output, [x.count, columns]. The caller keeps `memory` between calls.
  template <typename In>
  void Row(const In* pixels, int64_t r, std::vector<float>* memory, int32_t* out) const;

 private:
  const PaddedRows rows_;
  const RightFactor& filter_;
  std::vector<int64_t> runs_;
};

// The same with `results` separate filters for each channel, without sums over channels.
class Depthwise {
 public:
  // `filter`: [y.size, x.size, image.depth, results], of bytes.
  Depthwise(const PaddedRows& rows, std::span<const int32_t> filter, int64_t results);
  // Row r of the output, [x.count, image.depth * results].
  template <typename In>
  void Row(const In* pixels, int64_t r, std::vector<float>* memory, int32_t* out) const;

 private:
  const PaddedRows rows_;
  const int64_t results_;
  std::vector<float> blocks_;  // of channels, each with all positions of the filter
};

}  // namespace millrace::quantized
