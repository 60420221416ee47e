// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/example/feature_view.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "io/example/wire.h"

namespace millrace::io {
namespace {

// The fields of Feature, by number.
constexpr DataType kKinds[] = {DataType::kInvalid, DataType::kString, DataType::kFloat, DataType::kInt64};

uint32_t KindOf(DataType dtype) { return dtype == DataType::kString ? 1 : dtype == DataType::kFloat ? 2 : 3; }

static_assert(std::endian::native == std::endian::little, "the first byte is the lowest of a word");
uint64_t Word(const char* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}
// The highest bit of each byte that ends a number.
uint64_t LastBytes(uint64_t word) { return ~word & 0x8080808080808080; }

// The number formed by the lower seven bits of eight bytes.
struct JoinVarintBits {
  uint64_t operator()(uint64_t x) const {
    x = (x & 0x007f007f007f007f) | (x & 0x7f007f007f007f00) >> 1;
    x = (x & 0x00003fff00003fff) | (x & 0x3fff00003fff0000) >> 2;
    return (x & 0x000000000fffffff) | (x & 0x0fffffff00000000) >> 4;
  }
};
#if defined(__x86_64__)
// The same by the instruction that gathers bits.
struct JoinVarintBitsByPext {
  uint64_t operator()(uint64_t x) const {
    uint64_t joined;
    asm("pext %2, %1, %0" : "=r"(joined) : "r"(x), "r"(uint64_t{0x7f7f7f7f7f7f7f7f}));
    return joined;
  }
  // The first two generations of Zen have the instruction, but it is slow.
  static bool IsFast() {
    static const bool fast =
        __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1") && !__builtin_cpu_is("znver2");
    return fast;
  }
};
#endif

// The number of varints within the bytes; -1 when the last one is incomplete.
int64_t CountVarints(std::string_view packed) {
  if (packed.empty()) return 0;
  if ((static_cast<unsigned char>(packed.back()) & 0x80) != 0) return -1;
  int64_t count = 0;
  while (packed.size() >= sizeof(uint64_t)) {
    const size_t words = std::min<size_t>(packed.size() / sizeof(uint64_t), 255);
    uint64_t sums = 0;  // a byte for each position in a word
    for (size_t i = 0; i < words; ++i) sums += LastBytes(Word(packed.data() + i * sizeof(uint64_t))) >> 7;
    sums = (sums & 0x00ff00ff00ff00ff) + (sums >> 8 & 0x00ff00ff00ff00ff);
    count += static_cast<int64_t>(sums * 0x0001000100010001 >> 48);
    packed.remove_prefix(words * sizeof(uint64_t));
  }
  for (const char c : packed) count += static_cast<signed char>(c) >= 0 ? 1 : 0;
  return count;
}

// The number of values in one list; -1 when it is malformed.
int64_t CountList(std::string_view list, DataType kind) {
  int64_t count = 0;
  WireReader reader(list);
  for (WireField field; reader.Next(&field);) {
    if (field.number != 1) continue;
    if (kind == DataType::kString) {
      count += field.type == WireType::kBytes ? 1 : 0;
    } else if (field.type != WireType::kBytes) {
      count += field.type == (kind == DataType::kFloat ? WireType::kFixed32 : WireType::kVarint) ? 1 : 0;
    } else if (kind == DataType::kFloat) {
      if (field.bytes.size() % sizeof(float) != 0) return -1;
      count += static_cast<int64_t>(field.bytes.size() / sizeof(float));
    } else {
      const int64_t more = CountVarints(field.bytes);
      if (more < 0) return -1;
      count += more;
    }
  }
  return reader.ok() ? count : -1;
}

// Calls fn(list) for the lists of the view.
template <typename Fn>
bool EachList(const FeatureView& view, Fn fn) {
  const uint32_t kind = KindOf(view.dtype);
  WireReader reader(view.bytes);
  for (WireField field; reader.Next(&field);) {
    if (field.number != kind || field.type != WireType::kBytes) continue;
    if (!fn(field.bytes)) return false;
  }
  return reader.ok();
}

// A bit for each of 16 bytes that ends a number.
uint32_t EndsOf16(const char* p) {
#if defined(__SSE2__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return ~static_cast<uint32_t>(_mm_movemask_epi8(bytes)) & 0xffff;
#else
  // The product moves the highest bit of each byte into the highest byte.
  const auto of_8 = [](uint64_t word) { return (LastBytes(word) >> 7) * 0x0102040810204080 >> 56; };
  return static_cast<uint32_t>(of_8(Word(p)) | of_8(Word(p + 8)) << 8);
#endif
}

template <typename Join>
bool UnpackVarintsBy(Join join, std::string_view packed, int64_t** to) {
  const char* p = packed.data();
  const char* const end = p + packed.size();
  int64_t* out = *to;
  while (p < end) {
    // Numbers that end within 16 bytes, each by a word that may reach 7 bytes beyond.
    if (end - p >= 16 + 7) {
      uint32_t ends = EndsOf16(p);
      if (ends == 0xffff) {  // 16 small ones
        for (int i = 0; i < 16; ++i) out[i] = static_cast<unsigned char>(p[i]);
        out += 16;
        p += 16;
        continue;
      }
      uint32_t begin = 0;
      for (; ends != 0; ends &= ends - 1) {
        const uint32_t next = static_cast<uint32_t>(std::countr_zero(ends)) + 1, length = next - begin;
        if (length > 8) break;
        *out++ = static_cast<int64_t>(join(Word(p + begin) & ~uint64_t{0} >> (64 - 8 * length)));
        begin = next;
      }
      p += begin;
      if (begin > 0) continue;
    }
    uint64_t value = 0;
    p = ReadVarint(p, end, &value);
    if (p == nullptr) return false;
    *out++ = static_cast<int64_t>(value);
  }
  *to = out;
  return true;
}

bool UnpackVarints(std::string_view packed, int64_t** to) {
#if defined(__x86_64__)
  if (JoinVarintBitsByPext::IsFast()) return UnpackVarintsBy(JoinVarintBitsByPext(), packed, to);
#endif
  return UnpackVarintsBy(JoinVarintBits(), packed, to);
}

}  // namespace

bool ReadFeature(std::string_view feature, FeatureView* view) {
  *view = FeatureView();
  const char* const end = feature.data() + feature.size();
  WireReader reader(feature);
  const char* begin = reader.position();
  for (WireField field; reader.Next(&field); begin = reader.position()) {
    if (field.type != WireType::kBytes || field.number > 3) continue;
    const DataType kind = kKinds[field.number];
    if (kind != view->dtype) {
      *view = {std::string_view(begin, static_cast<size_t>(end - begin)), kind, 0};
    }
    const int64_t count = CountList(field.bytes, kind);
    if (count < 0) return false;
    view->count += count;
  }
  return reader.ok();
}

bool CopyFeature(const FeatureView& view, float* to) {
  static_assert(std::endian::native == std::endian::little, "packed floats are copied as they are");
  return EachList(view, [&](std::string_view list) {
    WireReader reader(list);
    for (WireField field; reader.Next(&field);) {
      if (field.number != 1) continue;
      if (field.type == WireType::kBytes && !field.bytes.empty()) {
        std::memcpy(to, field.bytes.data(), field.bytes.size());
        to += field.bytes.size() / sizeof(float);
      } else if (field.type == WireType::kFixed32) {
        *to++ = std::bit_cast<float>(static_cast<uint32_t>(field.value));
      }
    }
    return reader.ok();
  });
}

bool CopyFeature(const FeatureView& view, int64_t* to) {
  return EachList(view, [&](std::string_view list) {
    WireReader reader(list);
    for (WireField field; reader.Next(&field);) {
      if (field.number != 1) continue;
      if (field.type == WireType::kVarint) *to++ = static_cast<int64_t>(field.value);
      if (field.type == WireType::kBytes && !UnpackVarints(field.bytes, &to)) return false;
    }
    return reader.ok();
  });
}

bool CopyFeature(const FeatureView& view, std::string* to) {
  return EachList(view, [&](std::string_view list) {
    WireReader reader(list);
    for (WireField field; reader.Next(&field);) {
      if (field.number == 1 && field.type == WireType::kBytes) *to++ = field.bytes;
    }
    return reader.ok();
  });
}

bool CopyPacked(std::string_view packed, int64_t n, int64_t* to) {
  return CountVarints(packed) == n && UnpackVarints(packed, &to);
}

bool VisitMap(std::string_view message, MapVisitor visit) {
  WireReader entries(message);
  for (WireField entry; entries.Next(&entry);) {
    if (entry.number != 1 || entry.type != WireType::kBytes) continue;
    std::string_view key, value;
    WireReader reader(entry.bytes);
    for (WireField field; reader.Next(&field);) {
      if (field.type != WireType::kBytes) continue;
      if (field.number == 1) key = field.bytes;
      if (field.number == 2) value = field.bytes;
    }
    if (!reader.ok() || !visit(key, value)) return false;
  }
  return entries.ok();
}

bool VisitMapsOf(std::string_view message, uint32_t number, MapVisitor visit) {
  WireReader reader(message);
  for (WireField field; reader.Next(&field);) {
    if (field.number == number && field.type == WireType::kBytes && !VisitMap(field.bytes, visit))
      return false;
  }
  return reader.ok();
}

bool VisitSteps(std::string_view feature_list, FunctionRef<bool(std::string_view)> visit) {
  WireReader reader(feature_list);
  for (WireField field; reader.Next(&field);) {
    if (field.number == 1 && field.type == WireType::kBytes && !visit(field.bytes)) return false;
  }
  return reader.ok();
}

}  // namespace millrace::io
