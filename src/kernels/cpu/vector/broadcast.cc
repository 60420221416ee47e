// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/broadcast.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "kernels/cpu/vector/dispatch.h"

namespace millrace::cpu {
namespace {

// Shorter rows are repeated in a buffer if that combines many calls to one.
constexpr int64_t kShortRow = 128;
constexpr int64_t kRepeatBytes = 4096;

// Writes `count` copies of `bytes` bytes, by doubling.
void Repeat(const char* from, int64_t bytes, int64_t count, char* to) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
  const int64_t total = bytes * count;
  for (int64_t done = bytes; done < total;) {
    const int64_t size = std::min(done, total - done);
    std::memcpy(to + done, to, static_cast<size_t>(size));
    done += size;
  }
}

}  // namespace

std::optional<Broadcast> Broadcast::Make(std::span<const int64_t> a, std::span<const int64_t> b) {
  Broadcast result;
  const size_t rank = std::max(a.size(), b.size());
  result.output_shape_.resize(static_cast<uint32_t>(rank));
  SmallVector<Dim, 6> dims;  // innermost first, merged
  int64_t a_size = 1, b_size = 1;
  for (size_t i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    if (x < 0 || y < 0 || (x != y && x != 1 && y != 1)) return std::nullopt;
    const int64_t size = x == 1 ? y : x;
    result.output_shape_[rank - i] = size;
    if (__builtin_mul_overflow(result.output_size_, size, &result.output_size_)) return std::nullopt;
    const Dim dim{.size = size, .a_stride = x == 1 ? 0 : a_size, .b_stride = y == 1 ? 0 : b_size};
    a_size *= x;  // no overflow: it divides the product of the result's dims, unless that is 0
    b_size *= y;
    if (size == 1) continue;
    const bool mergeable = !dims.empty() && (dims.back().a_stride == 0) == (dim.a_stride == 0) &&
                           (dims.back().b_stride == 0) == (dim.b_stride == 0);
    if (mergeable) {
      dims.back().size *= size;
    } else {
      dims.push_back(dim);
    }
  }
  if (!dims.empty()) {
    result.inner_ = dims[0];
    result.outer_.assign(dims.begin() + 1, dims.end());
  }
  return result;
}

bool Broadcast::RunRows(const BinaryFns& fns, const char* a, const char* b, int64_t in_size, char* out,
                        int64_t out_size, int64_t begin, int64_t end) const {
  const BinaryFn function =
      inner_.a_stride == 0 ? fns.scalar_left : (inner_.b_stride == 0 ? fns.scalar_right : fns.same);
  // The index of the first row, and the position of its arguments.
  SmallVector<int64_t, 8> index;
  index.resize(outer_.size());
  int64_t a_at = 0, b_at = 0;
  int64_t rest = begin;
  for (uint32_t d = 0; d < outer_.size(); ++d) {
    index[d] = rest % outer_[d].size;
    rest /= outer_[d].size;
    a_at += index[d] * outer_[d].a_stride;
    b_at += index[d] * outer_[d].b_stride;
  }
  bool ok = true;
  char* to = out + begin * inner_.size * out_size;
  for (int64_t row = begin; row < end; ++row, to += inner_.size * out_size) {
    ok &= function(a + a_at * in_size, b + b_at * in_size, to, inner_.size);
    for (uint32_t d = 0; d < outer_.size(); ++d) {
      const Dim& dim = outer_[d];
      a_at += dim.a_stride;
      b_at += dim.b_stride;
      if (++index[d] < dim.size) break;
      index[d] = 0;
      a_at -= dim.size * dim.a_stride;
      b_at -= dim.size * dim.b_stride;
    }
  }
  return ok;
}

bool Broadcast::RunShortRows(const BinaryFns& fns, const char* a, const char* b, int64_t in_size, char* out,
                             int64_t out_size, int64_t begin, int64_t end) const {
  const int64_t row = inner_.size;
  const int64_t copies = std::min(kRepeatBytes / (row * in_size), end - begin);
  alignas(64) std::array<char, kRepeatBytes> repeated;
  const bool repeat_b = outer_[0].b_stride == 0;
  Repeat(repeat_b ? b : a, row * in_size, copies, repeated.data());
  bool ok = true;
  for (int64_t i = begin; i < end; i += copies) {
    const int64_t n = std::min(copies, end - i) * row;
    const int64_t at = i * row;
    ok &= fns.same(repeat_b ? a + at * in_size : repeated.data(),
                   repeat_b ? repeated.data() : b + at * in_size, out + at * out_size, n);
  }
  return ok;
}

bool Broadcast::Run(const BinaryFns& fns, const void* a, const void* b, int64_t in_size, void* out,
                    int64_t out_size, double cost_ns, Parallel& parallel) const {
  if (output_size_ == 0) return true;
  const auto* x = static_cast<const char*>(a);
  const auto* y = static_cast<const char*>(b);
  auto* z = static_cast<char*>(out);
  // Relaxed: the end of For orders the shards before the load.
  std::atomic<bool> ok{true};
  const auto note = [&ok](bool shard_ok) {
    if (!shard_ok) ok.store(false, std::memory_order_relaxed);
  };
  if (outer_.empty()) {
    const BinaryFn function = inner_.size == 1 || (inner_.a_stride != 0 && inner_.b_stride != 0)
                                  ? fns.same
                                  : (inner_.a_stride == 0 ? fns.scalar_left : fns.scalar_right);
    ForElements(parallel, output_size_, cost_ns, [&](int64_t begin, int64_t end) {
      note(function(x + begin * inner_.a_stride * in_size, y + begin * inner_.b_stride * in_size,
                    z + begin * out_size, end - begin));
    });
    return ok.load(std::memory_order_relaxed);
  }
  const int64_t rows = output_size_ / inner_.size;
  const bool short_rows = outer_.size() == 1 && inner_.a_stride != 0 && inner_.b_stride != 0 &&
                          inner_.size < kShortRow && rows > 2 && inner_.size * in_size * 2 <= kRepeatBytes;
  // Blocks of rows, so that a shard is worth its overhead.
  const int64_t block = std::max<int64_t>(1, 4096 / inner_.size);
  ForUnits(parallel, (rows - 1) / block + 1, cost_ns * static_cast<double>(block * inner_.size),
           [&](int64_t begin, int64_t end) {
             const int64_t last = std::min(rows, end * block);
             note(short_rows ? RunShortRows(fns, x, y, in_size, z, out_size, begin * block, last)
                             : RunRows(fns, x, y, in_size, z, out_size, begin * block, last));
           });
  return ok.load(std::memory_order_relaxed);
}

}  // namespace millrace::cpu
