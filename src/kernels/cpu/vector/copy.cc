// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/small_vector.h"
#include "kernels/cpu/vector/dispatch.h"
#include "kernels/cpu/vector/transpose.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kBlockBytes = 32768;
constexpr double kCostNsPerByte = 0.05;

struct Bytes16 {
  uint64_t half[2];
};

// n pieces of sizeof(T) bytes with any alignment.
template <typename T>
void CopyPieces(const char* src, int64_t src_stride, char* dst, int64_t dst_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * dst_stride, src + i * src_stride, sizeof(T));
}

void CopyRun(const char* src, int64_t src_stride, char* dst, int64_t dst_stride, int64_t n, int64_t bytes) {
  switch (bytes) {
    case 1:
      return CopyPieces<uint8_t>(src, src_stride, dst, dst_stride, n);
    case 2:
      return CopyPieces<uint16_t>(src, src_stride, dst, dst_stride, n);
    case 4:
      return CopyPieces<uint32_t>(src, src_stride, dst, dst_stride, n);
    case 8:
      return CopyPieces<uint64_t>(src, src_stride, dst, dst_stride, n);
    case 16:
      return CopyPieces<Bytes16>(src, src_stride, dst, dst_stride, n);
    default:
      for (int64_t i = 0; i < n; ++i) {
        std::memcpy(dst + i * dst_stride, src + i * src_stride, static_cast<size_t>(bytes));
      }
  }
}

// Strides in bytes.
struct BoxDim {
  int64_t size;
  int64_t src_stride;
  int64_t dst_stride;
};
using BoxDims = SmallVector<BoxDim, 8>;

// Copies pieces [begin, end) of the box; the last dim varies fastest.
void CopyPiecesOfBox(const BoxDims& dims, const char* src, char* dst, int64_t bytes, int64_t begin,
                     int64_t end) {
  const uint32_t last = dims.size() - 1;
  SmallVector<int64_t, 8> index;
  index.resize(dims.size());
  int64_t rest = begin;
  for (uint32_t d = dims.size(); d-- > 0;) {
    index[d] = rest % dims[d].size;
    rest /= dims[d].size;
    src += index[d] * dims[d].src_stride;
    dst += index[d] * dims[d].dst_stride;
  }
  while (begin < end) {
    const BoxDim& inner = dims[last];
    const int64_t n = std::min(inner.size - index[last], end - begin);
    CopyRun(src, inner.src_stride, dst, inner.dst_stride, n, bytes);
    begin += n;
    // Goes to the start of the next run; only the first run may have begun inside.
    src -= index[last] * inner.src_stride;
    dst -= index[last] * inner.dst_stride;
    index[last] = 0;
    for (uint32_t d = last; d-- > 0;) {
      src += dims[d].src_stride;
      dst += dims[d].dst_stride;
      if (++index[d] < dims[d].size) break;
      index[d] = 0;
      src -= dims[d].size * dims[d].src_stride;
      dst -= dims[d].size * dims[d].dst_stride;
    }
  }
}

template <typename T>
void FillPieces(const void* value, char* dst, int64_t begin, int64_t end) {
  T piece;
  std::memcpy(&piece, value, sizeof(T));
  std::fill(reinterpret_cast<T*>(dst) + begin, reinterpret_cast<T*>(dst) + end, piece);
}

template <typename Index>
int64_t FirstOutside(const Index* indices, int64_t n, int64_t limit) {
  for (int64_t i = 0; i < n; ++i) {
    if (indices[i] < 0 || indices[i] >= limit) return i;
  }
  return -1;
}

template <typename Index>
int64_t Gather(const char* src, int64_t outer, int64_t limit, int64_t row_bytes, const Index* indices,
               int64_t n, char* dst, Parallel& parallel) {
  const int64_t bad = FirstOutside(indices, n, limit);
  if (bad >= 0) return bad;
  const int64_t total = outer * n;
  if (total == 0 || row_bytes == 0) return -1;
  const int64_t block = std::max<int64_t>(1, kBlockBytes / row_bytes);
  ForUnits(parallel, (total - 1) / block + 1, kCostNsPerByte * static_cast<double>(block * (row_bytes + 20)),
           [&](int64_t begin, int64_t end) {
             const int64_t last = std::min(total, end * block);
             int64_t o = begin * block / n, i = begin * block % n;
             for (int64_t r = begin * block; r < last; ++r) {
               const char* from = src + (o * limit + static_cast<int64_t>(indices[i])) * row_bytes;
               CopyRun(from, 0, dst + r * row_bytes, 0, 1, row_bytes);
               if (++i == n) {
                 i = 0;
                 ++o;
               }
             }
           });
  return -1;
}

}  // namespace

void CopyBytes(const void* src, void* dst, int64_t bytes, Parallel& parallel) {
  if (bytes <= 4 * kBlockBytes) {
    if (bytes > 0) std::memcpy(dst, src, static_cast<size_t>(bytes));
    return;
  }
  const int64_t blocks = (bytes - 1) / kBlockBytes + 1;
  ForUnits(parallel, blocks, kCostNsPerByte * kBlockBytes, [&](int64_t begin, int64_t end) {
    const int64_t at = begin * kBlockBytes;
    std::memcpy(static_cast<char*>(dst) + at, static_cast<const char*>(src) + at,
                static_cast<size_t>(std::min(bytes, end * kBlockBytes) - at));
  });
}

void CopyBox(const void* src, std::span<const int64_t> src_strides, void* dst,
             std::span<const int64_t> dst_strides, std::span<const int64_t> dims, int64_t elem_size,
             Parallel& parallel) {
  BoxDims box;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) return;
    if (dims[i] == 1) continue;
    const BoxDim dim{dims[i], src_strides[i] * elem_size, dst_strides[i] * elem_size};
    if (!box.empty() && box.back().src_stride == dim.src_stride * dim.size &&
        box.back().dst_stride == dim.dst_stride * dim.size) {
      box.back() = {box.back().size * dim.size, dim.src_stride, dim.dst_stride};
    } else {
      box.push_back(dim);
    }
  }
  // A dense last dim is merged to a larger piece.
  if (!box.empty() && box.back().src_stride == elem_size && box.back().dst_stride == elem_size) {
    elem_size *= box.back().size;
    box.pop_back();
  }
  if (box.empty()) {
    CopyBytes(src, dst, elem_size, parallel);
    return;
  }
  int64_t pieces = 1;
  for (const BoxDim& dim : box) pieces *= dim.size;
  const auto* from = static_cast<const char*>(src);
  auto* to = static_cast<char*>(dst);
  const int64_t block = std::max<int64_t>(1, kBlockBytes / elem_size);
  const double piece_cost = kCostNsPerByte * static_cast<double>(elem_size) + 1;
  ForUnits(parallel, (pieces - 1) / block + 1, piece_cost * static_cast<double>(block),
           [&](int64_t begin, int64_t end) {
             CopyPiecesOfBox(box, from, to, elem_size, begin * block, std::min(pieces, end * block));
           });
}

void Fill(const void* value, int64_t elem_size, void* dst, int64_t n, Parallel& parallel) {
  auto* to = static_cast<char*>(dst);
  ForElements(parallel, n, kCostNsPerByte * static_cast<double>(elem_size), [&](int64_t begin, int64_t end) {
    switch (elem_size) {
      case 1:
        return FillPieces<uint8_t>(value, to, begin, end);
      case 2:
        return FillPieces<uint16_t>(value, to, begin, end);
      case 4:
        return FillPieces<uint32_t>(value, to, begin, end);
      case 8:
        return FillPieces<uint64_t>(value, to, begin, end);
      default:
        CopyRun(static_cast<const char*>(value), 0, to + begin * elem_size, elem_size, end - begin,
                elem_size);
    }
  });
}

int64_t GatherRows(const void* src, int64_t outer, int64_t limit, int64_t row_bytes, DataType index_type,
                   const void* indices, int64_t n, void* dst, Parallel& parallel) {
  const auto* from = static_cast<const char*>(src);
  auto* to = static_cast<char*>(dst);
  if (index_type == DataType::kInt32) {
    return Gather(from, outer, limit, row_bytes, static_cast<const int32_t*>(indices), n, to, parallel);
  }
  return Gather(from, outer, limit, row_bytes, static_cast<const int64_t*>(indices), n, to, parallel);
}

}  // namespace millrace::cpu
