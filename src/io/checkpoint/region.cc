// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/region.h"

#include <algorithm>
#include <bit>

#include "tensor/dtype_table.h"

namespace millrace::io {
namespace {

constexpr size_t kMostParts = 32768;

// An encoding of numbers that preserves their order: the number of bytes, then the bytes.
void PutOrdered(uint64_t value, std::string* out) {
  const int bytes = (std::bit_width(value) + 7) / 8;
  out->push_back(static_cast<char>(bytes));
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(value >> (8 * i)));
}

void PutOrdered(std::string_view text, std::string* out) {
  for (const char c : text) {
    out->push_back(c);
    if (c == '\0') out->push_back('\xff');
    if (c == '\xff') out->push_back('\0');
  }
  out->append("\0\1", 2);
}

// Signed numbers: the length as leading ones, a zero, then the number, seven bits for each byte; all of that
// inverted for negative numbers.
void PutOrderedSigned(int64_t value, std::string* out) {
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  const int length = std::bit_width(magnitude) / 7 + 1;
  char bytes[10];
  for (int i = 0; i < 10; ++i) {
    const int shift = 8 * (9 - i);
    bytes[i] = shift >= 64 ? (value < 0 ? '\xff' : '\0') : static_cast<char>(value >> shift);
  }
  char* const begin = bytes + 10 - length;
  const int ones = length;
  if (ones <= 8) {
    begin[0] = static_cast<char>(begin[0] ^ (0xff << (8 - ones)));
  } else {
    begin[0] = static_cast<char>(begin[0] ^ 0xff);
    begin[1] = static_cast<char>(begin[1] ^ (0xff << (16 - ones)));
  }
  out->append(begin, static_cast<size_t>(length));
}

}  // namespace

std::string SliceKey(std::string_view name, const TensorSlice& slice) {
  std::string key;
  PutOrdered(uint64_t{0}, &key);
  PutOrdered(name, &key);
  PutOrdered(static_cast<uint64_t>(slice.rank()), &key);
  for (int i = 0; i < slice.rank(); ++i) {
    PutOrderedSigned(slice.extent(i).start, &key);
    PutOrderedSigned(slice.extent(i).length, &key);
  }
  return key;
}

Region::Region(const TensorSlice& slice, const TensorShape& full) {
  for (int i = 0; i < slice.rank(); ++i) {
    const TensorSlice::Extent& extent = slice.extent(i);
    starts_.push_back(extent.start);
    lengths_.push_back(extent.is_full() ? full.dim(i) : extent.length);
  }
}

int64_t Region::num_elements() const {
  int64_t n = 1;
  for (const int64_t length : lengths_) n *= length;
  return n;
}

int64_t Region::CommonElements(const Region& other) const {
  int64_t n = 1;
  for (int i = 0; i < rank(); ++i) {
    n *= std::max<int64_t>(0, std::min(end(i), other.end(i)) - std::max(start(i), other.start(i)));
  }
  return n;
}

std::optional<int64_t> OffsetIfContiguous(const Region& part, const Region& whole) {
  // Sizes of 1, then a range, then all of each further dimension.
  int64_t offset = 0;
  bool ranged = false;
  for (int i = 0; i < whole.rank(); ++i) {
    if (part.start(i) < whole.start(i) || part.end(i) > whole.end(i)) return std::nullopt;
    if (ranged && part.length(i) != whole.length(i)) return std::nullopt;
    offset = offset * whole.length(i) + part.start(i) - whole.start(i);
    ranged = ranged || part.length(i) != 1;
  }
  return offset;
}

StatusOr<bool> Covers(std::span<const Region> parts, const Region& whole) {
  if (parts.size() > kMostParts) {
    return errors::InvalidArgument("a tensor has more than ", kMostParts, " slices");
  }
  int64_t common = 0;
  std::vector<const Region*> order;
  for (const Region& part : parts) {
    const int64_t n = part.CommonElements(whole);
    if (n > 0) order.push_back(&part);
  }
  if (whole.rank() > 0) {
    std::sort(order.begin(), order.end(),
              [](const Region* a, const Region* b) { return a->start(0) < b->start(0); });
  }
  // The entries before `i` that overlap its first dimension.
  std::vector<const Region*> open;
  for (const Region* const part : order) {
    if (whole.rank() > 0) {
      std::erase_if(open, [&](const Region* other) { return other->end(0) <= part->start(0); });
    }
    for (const Region* const other : open) {
      if (other->CommonElements(*part) > 0) return errors::InvalidArgument("Overlapping slices of a tensor");
    }
    open.push_back(part);
    common += part->CommonElements(whole);
  }
  return common == whole.num_elements();
}

namespace {

// Calls fn(from offset, to offset, n) for each run of elements that lie one after the other in both.
template <typename Fn>
void ForEachCommonRun(const Region& from, const Region& to, Fn&& fn) {
  const int rank = from.rank();
  std::vector<int64_t> start(static_cast<size_t>(rank)), length(start), index(start.size(), 0);
  for (size_t i = 0; i < start.size(); ++i) {
    const int d = static_cast<int>(i);
    start[i] = std::max(from.start(d), to.start(d));
    length[i] = std::min(from.end(d), to.end(d)) - start[i];
    if (length[i] <= 0) return;
  }
  // Dimensions from `inner` on are one run.
  int inner = rank;
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    const auto i = static_cast<size_t>(inner);
    run *= length[i];
    if (length[i] != from.length(inner) || length[i] != to.length(inner)) break;
  }
  while (true) {
    int64_t from_offset = 0, to_offset = 0;
    for (int d = 0; d < rank; ++d) {
      const int64_t at = start[static_cast<size_t>(d)] + index[static_cast<size_t>(d)];
      from_offset = from_offset * from.length(d) + at - from.start(d);
      to_offset = to_offset * to.length(d) + at - to.start(d);
    }
    fn(from_offset, to_offset, run);
    int d = inner - 1;
    for (; d >= 0; --d) {
      const auto i = static_cast<size_t>(d);
      if (++index[i] < length[i]) break;
      index[i] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

void CopyCommon(const Region& from_region, const Tensor& from, const Region& to_region, Tensor* to) {
  VisitDataType(from.dtype(), false, [&]<typename T>() {
    const T* const source = from.data<T>();
    T* const target = to->data<T>();
    ForEachCommonRun(from_region, to_region, [&](int64_t from_offset, int64_t to_offset, int64_t n) {
      std::copy_n(source + from_offset, n, target + to_offset);
    });
    return true;
  });
}

}  // namespace millrace::io
