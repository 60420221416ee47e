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

// The largest absolute value, but at least 1.
int64_t LargestSize(std::span<const int32_t> values) {
  uint32_t largest = 1;
  RunLoop([&largest, from = values.data(), n = static_cast<int64_t>(values.size())]() MR_INLINE_LAMBDA {
    uint32_t most = 1;
    for (int64_t i = 0; i < n; ++i) {
      const auto bits = static_cast<uint32_t>(from[i]);
      const uint32_t size = from[i] < 0 ? 0 - bits : bits;
      most = size > most ? size : most;
    }
    largest = most;
  });
  return largest;
}

}  // namespace

RightFactor::RightFactor(std::span<const int32_t> values, int64_t terms, int64_t columns,
                         int64_t left_largest)
    : terms_(terms), columns_(columns), exact_(0) {
  constexpr int64_t kExact = 1 << 24;  // floats represent all integers up to this size
  constexpr int64_t kLeast = 16;
  const int64_t largest = LargestSize(values);
  if (left_largest <= kExact && largest <= kExact)
    exact_ = kExact / (largest * std::max<int64_t>(1, left_largest));
  if (exact_ < kLeast) {
    exact_ = 0;
    integers_.assign(values.begin(), values.end());
    return;
  }
  const int64_t blocks = (columns + kBlock - 1) / kBlock;
  blocks_.resize(static_cast<size_t>(blocks * terms * kBlock));
  RunLoop([from = values.data(), to = blocks_.data(), terms, columns]() MR_INLINE_LAMBDA {
    float* block = to;
    int64_t c = 0;
    for (; c + kBlock <= columns; c += kBlock) {
      for (int64_t k = 0; k < terms; ++k, block += kBlock) {
        for (int64_t l = 0; l < kBlock; ++l) block[l] = static_cast<float>(from[k * columns + c + l]);
      }
    }
    if (c == columns) return;
    for (int64_t k = 0; k < terms; ++k, block += kBlock) {  // the rest of the block is 0
      for (int64_t l = 0; l < columns - c; ++l) block[l] = static_cast<float>(from[k * columns + c + l]);
    }
  });
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

Convolution::Convolution(const PaddedRows& rows, const RightFactor& filter) : rows_(rows), filter_(filter) {
  const Windows& x = rows.x;
  const int64_t row = x.Padded() * rows.image.depth;
  for (int64_t i = 0; i < rows.y.size; ++i) {
    // The pixels of a row of a window are adjacent unless it is dilated.
    for (int64_t j = 0; j < (x.dilation == 1 ? 1 : x.size); ++j)
      runs_.push_back(i * row + j * x.dilation * rows.image.depth);
  }
}

Status PaddedRows::Check() const {
  constexpr int64_t kMost = int64_t{1} << 28;
  int64_t size = 0;
  if (!__builtin_mul_overflow(y.size, x.Padded(), &size) &&
      !__builtin_mul_overflow(size, image.depth, &size) && size <= kMost)
    return Status();
  return errors::ResourceExhausted("The padded rows would have shape [", y.size, ",", x.Padded(), ",",
                                   image.depth, "], which is too large");
}

template <typename In, typename Value>
void PaddedRows::Load(const In* pixels, int64_t r, Value* to) const {
  const int64_t padded = x.Padded(), depth = image.depth;
  const int64_t first = std::clamp<int64_t>(x.before, 0, padded);
  const int64_t last = std::clamp<int64_t>(x.before + image.width, first, padded);
  for (int64_t i = 0; i < y.size; ++i, to += padded * depth) {
    const int64_t at = r * y.stride - y.before + i * y.dilation;
    if (at < 0 || at >= image.height) {
      std::fill_n(to, padded * depth, Value(0));
      continue;
    }
    std::fill_n(to, first * depth, Value(0));
    std::fill(to + last * depth, to + padded * depth, Value(0));
    const In* from = pixels + (at * image.width + first - x.before) * depth;
    MapLoop(from, to + first * depth, (last - first) * depth,
            [offset = static_cast<uint32_t>(zero)](In value) MR_INLINE_LAMBDA {
              return static_cast<Value>(static_cast<int32_t>(static_cast<uint32_t>(value) - offset));
            });
  }
}

template <typename In>
void Convolution::Row(const In* pixels, int64_t r, std::vector<float>* memory, int32_t* out) const {
  const Windows& x = rows_.x;
  const Rows rows{.rows = x.count,
                  .step = x.stride * rows_.image.depth,
                  .length = (x.dilation == 1 ? x.size : 1) * rows_.image.depth,
                  .runs = runs_};
  const auto size = static_cast<size_t>(rows_.Size());
  if (filter_.exact() > 0) {
    memory->resize(size);
    rows_.Load(pixels, r, memory->data());
    Products(memory->data(), rows, filter_, out);
  } else {
    std::vector<int32_t> integers(size);
    rows_.Load(pixels, r, integers.data());
    Products(integers.data(), rows, filter_, out);
  }
}
template void Convolution::Row(const uint8_t*, int64_t, std::vector<float>*, int32_t*) const;
template void Convolution::Row(const int8_t*, int64_t, std::vector<float>*, int32_t*) const;

Depthwise::Depthwise(const PaddedRows& rows, std::span<const int32_t> filter, int64_t results)
    : rows_(rows), results_(results) {
  constexpr int64_t kBlock = RightFactor::kBlock;
  const int64_t depth = rows.image.depth * results, places = rows.y.size * rows.x.size;
  const int64_t blocks = (depth + kBlock - 1) / kBlock;
  blocks_.resize(static_cast<size_t>(blocks * places * kBlock));
  for (int64_t c = 0; c < depth; ++c) {
    float* to = blocks_.data() + c / kBlock * places * kBlock + c % kBlock;
    for (int64_t i = 0; i < places; ++i)
      to[i * kBlock] = static_cast<float>(filter[static_cast<size_t>(i * depth + c)]);
  }
}

namespace {

// The positions of a window: distances between adjacent numbers, down and to the right.
struct Places {
  int64_t rows, columns, down, right;
};

// The sums of a block of channels in kCount windows, `step` numbers apart; `width` of them are written to
// rows of `depth`.
template <int64_t kCount>
inline MR_INLINE_LAMBDA void SumBlock(const float* numbers, int64_t step, const float* weights,
                                      const Places& places, int64_t width, int64_t depth, int32_t* to) {
  // The number of products of bytes, signed or not, whose sum is exact as a float.
  constexpr int64_t kExact = (1 << 24) / (256 * 128);
  Sums sums[kCount] = {};
  Lanes part[kCount] = {};
  const auto flush = [&]() MR_INLINE_LAMBDA {
    for (int64_t x = 0; x < kCount; ++x) {
      sums[x] += reinterpret_cast<Sums>(__builtin_convertvector(part[x], Integers));
      part[x] = Lanes{};
    }
  };
  int64_t terms = 0;
  for (int64_t i = 0; i < places.rows; ++i, numbers += places.down) {
    const float* from = numbers;
    for (int64_t j = 0; j < places.columns; ++j, from += places.right, weights += RightFactor::kBlock) {
      Lanes weight;
      std::memcpy(&weight, weights, sizeof(weight));
      for (int64_t x = 0; x < kCount; ++x) {
        Lanes value;
        std::memcpy(&value, from + x * step, sizeof(value));
        part[x] += value * weight;
      }
      if (++terms < kExact) continue;
      flush();
      terms = 0;
    }
  }
  flush();
  for (int64_t x = 0; x < kCount; ++x, to += depth) {
    if (width == RightFactor::kBlock) {
      std::memcpy(to, &sums[x], sizeof(Sums));
    } else {
      std::memcpy(to, &sums[x], static_cast<size_t>(width) * sizeof(int32_t));
    }
  }
}

}  // namespace

template <typename In>
void Depthwise::Row(const In* pixels, int64_t r, std::vector<float>* memory, int32_t* out) const {
  constexpr int64_t kBlock = RightFactor::kBlock;
  const int64_t loaded = rows_.Size(), depth = rows_.image.depth * results_;
  // A block may be read beyond the last number; the results for that part aren't written.
  memory->resize(static_cast<size_t>(loaded * (results_ > 1 ? results_ + 1 : 1) + kBlock));
  rows_.Load(pixels, r, memory->data());
  const float* numbers = memory->data();
  if (results_ > 1) {
    // Repeats each number for its results.
    float* to = memory->data() + loaded;
    for (int64_t i = 0; i < loaded; ++i, to += results_) std::fill_n(to, results_, numbers[i]);
    numbers += loaded;
  }
  const Windows &y = rows_.y, &x = rows_.x;
  const Places places{y.size, x.size, x.Padded() * depth, x.dilation * depth};
  RunLoop([=, count = x.count, step = x.stride * depth, block = y.size * x.size * kBlock,
           weights = blocks_.data()]() MR_INLINE_LAMBDA {
    constexpr int64_t kWindows = 4;
    for (int64_t c = 0; c < depth; c += kBlock) {
      const float *from = numbers + c, *filter = weights + c / kBlock * block;
      int32_t* to = out + c;
      const int64_t width = std::min(depth - c, kBlock);
      int64_t i = 0;
      for (; i + kWindows <= count; i += kWindows, from += kWindows * step, to += kWindows * depth)
        SumBlock<kWindows>(from, step, filter, places, width, depth, to);
      for (; i < count; ++i, from += step, to += depth)
        SumBlock<1>(from, step, filter, places, width, depth, to);
    }
  });
}
template void Depthwise::Row(const uint8_t*, int64_t, std::vector<float>*, int32_t*) const;
template void Depthwise::Row(const int8_t*, int64_t, std::vector<float>*, int32_t*) const;

}  // namespace millrace::quantized
