// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/quantized/products.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/loop.h"

namespace millrace::quantized {
namespace {

constexpr int64_t kRows = 8;
using Lanes = float __attribute__((vector_size(64)));
using Integers = int32_t __attribute__((vector_size(64)));
using Sums = uint32_t __attribute__((vector_size(64)));
static_assert(sizeof(Lanes) == RightFactor::kBlock * sizeof(float));

// kCount rows of one block of columns; at most `exact` terms are added as floats.
template <int64_t kCount>
inline MR_INLINE_LAMBDA void Tile(const float* left, const Rows& rows, const float* right, int64_t exact,
                                  int32_t* out, int64_t columns, int64_t width) {
  Sums sums[kCount] = {};
  for (const int64_t run : rows.runs) {
    const float* a = left + run;
    for (int64_t begin = 0; begin < rows.length; begin += exact) {
      const int64_t end = std::min(rows.length, begin + exact);
      Lanes part[kCount] = {};
      for (int64_t k = begin; k < end; ++k, right += RightFactor::kBlock) {
        Lanes b;
        std::memcpy(&b, right, sizeof(b));
        for (int64_t r = 0; r < kCount; ++r) part[r] += a[r * rows.step + k] * b;
      }
      for (int64_t r = 0; r < kCount; ++r)
        sums[r] += reinterpret_cast<Sums>(__builtin_convertvector(part[r], Integers));
    }
  }
  for (int64_t r = 0; r < kCount; ++r)
    std::memcpy(out + r * columns, &sums[r], static_cast<size_t>(width) * sizeof(int32_t));
}

}  // namespace

RightFactor::RightFactor(std::span<const int32_t> values, int64_t terms, int64_t columns,
                         int64_t left_largest)
    : terms_(terms), columns_(columns), exact_(0) {
  constexpr int64_t kExact = 1 << 24;  // up to this size floats have all integers
  constexpr int64_t kLeast = 16;
  int64_t largest = 1;
  for (const int64_t x : values) largest = std::max(largest, x < 0 ? -x : x);
  if (left_largest <= kExact && largest <= kExact)
    exact_ = kExact / (largest * std::max<int64_t>(1, left_largest));
  if (exact_ < kLeast) {
    exact_ = 0;
    integers_.assign(values.begin(), values.end());
    return;
  }
  const int64_t blocks = (columns + kBlock - 1) / kBlock;
  blocks_.assign(static_cast<size_t>(blocks * terms * kBlock), 0.0f);
  for (int64_t k = 0; k < terms; ++k) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t at = (c / kBlock * terms + k) * kBlock + c % kBlock;
      blocks_[static_cast<size_t>(at)] = static_cast<float>(values[static_cast<size_t>(k * columns + c)]);
    }
  }
}

void Products(const float* left, const Rows& rows, const RightFactor& right, int32_t* out) {
  RunLoop([=, &rows, &right]() MR_INLINE_LAMBDA {
    const int64_t columns = right.columns(), exact = right.exact();
    for (int64_t c = 0; c < columns; c += RightFactor::kBlock) {
      const int64_t width = std::min(columns - c, RightFactor::kBlock);
      const float* b = right.Block(c / RightFactor::kBlock);
      int64_t r = 0;
      for (; r + kRows <= rows.rows; r += kRows)
        Tile<kRows>(left + r * rows.step, rows, b, exact, out + r * columns + c, columns, width);
      for (; r < rows.rows; ++r)
        Tile<1>(left + r * rows.step, rows, b, exact, out + r * columns + c, columns, width);
    }
  });
}

void Products(const int32_t* left, const Rows& rows, const RightFactor& right, int32_t* out) {
  const int64_t columns = right.columns();
  for (int64_t r = 0; r < rows.rows; ++r, left += rows.step, out += columns) {
    std::fill_n(out, columns, 0);
    const int32_t* b = right.integers();
    for (const int64_t run : rows.runs) {
      for (int64_t k = 0; k < rows.length; ++k, b += columns) {
        const auto a = static_cast<uint32_t>(left[run + k]);
        for (int64_t c = 0; c < columns; ++c)
          out[c] = static_cast<int32_t>(static_cast<uint32_t>(out[c]) + a * static_cast<uint32_t>(b[c]));
      }
    }
  }
}

Convolution::Convolution(Image image, Windows y, Windows x, int64_t zero, const RightFactor& filter)
    : image_(image), y_(y), x_(x), zero_(zero), filter_(filter) {
  const int64_t row = x.Padded() * image.depth;
  for (int64_t i = 0; i < y.size; ++i) {
    // The pixels of a row of a window are neighbours unless it is dilated.
    for (int64_t j = 0; j < (x.dilation == 1 ? 1 : x.size); ++j)
      runs_.push_back(i * row + j * x.dilation * image.depth);
  }
}

// The rows of the image under row r of windows, with the padding.
template <typename In, typename Value>
void Convolution::Load(const In* pixels, int64_t r, Value* to) const {
  const int64_t padded = x_.Padded(), depth = image_.depth;
  const int64_t first = std::clamp<int64_t>(x_.before, 0, padded);
  const int64_t last = std::clamp<int64_t>(x_.before + image_.width, first, padded);
  for (int64_t i = 0; i < y_.size; ++i, to += padded * depth) {
    const int64_t y = r * y_.stride - y_.before + i * y_.dilation;
    if (y < 0 || y >= image_.height) {
      std::fill_n(to, padded * depth, Value(0));
      continue;
    }
    std::fill_n(to, first * depth, Value(0));
    std::fill(to + last * depth, to + padded * depth, Value(0));
    const In* from = pixels + (y * image_.width + first - x_.before) * depth;
    const auto zero = static_cast<uint32_t>(zero_);
    MapLoop(from, to + first * depth, (last - first) * depth, [zero](In x) MR_INLINE_LAMBDA {
      return static_cast<Value>(static_cast<int32_t>(static_cast<uint32_t>(x) - zero));
    });
  }
}

template <typename In>
void Convolution::Row(const In* pixels, int64_t r, std::vector<float>* memory, int32_t* out) const {
  const Rows rows{.rows = x_.count,
                  .step = x_.stride * image_.depth,
                  .length = (x_.dilation == 1 ? x_.size : 1) * image_.depth,
                  .runs = runs_};
  const auto size = static_cast<size_t>(y_.size * x_.Padded() * image_.depth);
  if (filter_.exact() > 0) {
    memory->resize(size);
    Load(pixels, r, memory->data());
    Products(memory->data(), rows, filter_, out);
  } else {
    std::vector<int32_t> integers(size);
    Load(pixels, r, integers.data());
    Products(integers.data(), rows, filter_, out);
  }
}
template void Convolution::Row(const uint8_t*, int64_t, std::vector<float>*, int32_t*) const;
template void Convolution::Row(const int8_t*, int64_t, std::vector<float>*, int32_t*) const;

}  // namespace millrace::quantized
