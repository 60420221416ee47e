// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::io {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

// tables[k][b]: the change of the checksum by byte b followed by k zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 8> MakeTables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) {
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xff];
    }
  }
  return tables;
}
constexpr auto kTables = MakeTables();

// x^n modulo the polynomial.
constexpr uint32_t PowerOfX(int n) {
  uint32_t power = 0x80000000;
  for (; n > 0; --n) power = (power >> 1) ^ ((power & 1) != 0 ? kPolynomial : 0);
  return power;
}

// The product of two polynomials, modulo the CRC's polynomial.
uint32_t Product(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

uint32_t ExtendByTables(uint32_t crc, const char* p, size_t n) {
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t low, high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + 4, 4);
    low ^= crc;
    crc = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][high & 0xff] ^ kTables[2][(high >> 8) & 0xff] ^
          kTables[1][(high >> 16) & 0xff] ^ kTables[0][high >> 24];
  }
  for (; n > 0; --n, ++p) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(*p)) & 0xff];
  return crc;
}

#if defined(__x86_64__)
// The effect of `zeros` zero bytes on a checksum: a linear map of 32 bits, as a table for each of its bytes.
struct ZerosTable {
  uint32_t of_byte[4][256];
  explicit constexpr ZerosTable(size_t zeros) : of_byte() {
    std::array<uint32_t, 32> columns{};
    for (int bit = 0; bit < 32; ++bit) {
      uint32_t crc = uint32_t{1} << bit;
      for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
      columns[bit] = crc;
    }
    // `zeros` is a power of two: the map of one byte, squared.
    for (; zeros > 1; zeros /= 2) {
      std::array<uint32_t, 32> squared{};
      for (int bit = 0; bit < 32; ++bit) squared[bit] = Apply(columns, columns[bit]);
      columns = squared;
    }
    for (int k = 0; k < 4; ++k) {
      for (uint32_t b = 0; b < 256; ++b) of_byte[k][b] = Apply(columns, b << (8 * k));
    }
  }
  static constexpr uint32_t Apply(const std::array<uint32_t, 32>& columns, uint32_t value) {
    uint32_t result = 0;
    for (int bit = 0; value != 0; ++bit, value >>= 1) result ^= (value & 1) != 0 ? columns[bit] : 0;
    return result;
  }
  uint32_t operator()(uint32_t crc) const {
    return of_byte[0][crc & 0xff] ^ of_byte[1][crc >> 8 & 0xff] ^ of_byte[2][crc >> 16 & 0xff] ^
           of_byte[3][crc >> 24];
  }
};

__attribute__((target("sse4.2"))) inline uint64_t Word(uint64_t crc, const char* p) {
  uint64_t word;
  std::memcpy(&word, p, 8);
  return _mm_crc32_u64(crc, word);
}

// The instruction has a latency of three cycles and a throughput of one per cycle, so three checksums are
// computed in parallel; each is then advanced by the number of bytes that follow, and they are combined.
template <size_t kBlock>
__attribute__((target("sse4.2"))) uint32_t ExtendThreefold(uint32_t crc, const char** p, size_t* n) {
  static constexpr ZerosTable kSkip(kBlock);
  for (; *n >= 3 * kBlock; *n -= 3 * kBlock, *p += 3 * kBlock) {
    uint64_t a = crc, b = 0, c = 0;
    for (const char* q = *p; q < *p + kBlock; q += 8) {
      a = Word(a, q);
      b = Word(b, q + kBlock);
      c = Word(c, q + 2 * kBlock);
    }
    crc = kSkip(kSkip(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^ static_cast<uint32_t>(c);
  }
  return crc;
}

__attribute__((target("sse4.2"))) uint32_t ExtendBySse42(uint32_t crc, const char* p, size_t n) {
  crc = ExtendThreefold<8192>(crc, &p, &n);
  crc = ExtendThreefold<256>(crc, &p, &n);
  uint64_t wide = crc;
  for (; n >= 8; n -= 8, p += 8) wide = Word(wide, p);
  crc = static_cast<uint32_t>(wide);
  for (; n > 0; --n, ++p) crc = _mm_crc32_u8(crc, static_cast<unsigned char>(*p));
  return crc;
}

// Four vectors of 64 bytes are congruent to all bytes so far modulo the polynomial. To fold in the next 256
// bytes, each 64-bit half of 16 bytes is multiplied by the power of x for its distance, and the next bytes
// are added. The product of 64 reflected bits by 32 has an additional factor x^33, for which the powers
// compensate.
constexpr size_t kFolded = 256;
#define MR_FOLDING __attribute__((target("avx512f,vpclmulqdq,sse4.2")))
MR_FOLDING inline __m512i Fold(__m512i sum, __m512i powers, const char* next) {
  const __m512i low = _mm512_clmulepi64_epi128(sum, powers, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(sum, powers, 0x11);
  return _mm512_ternarylogic_epi64(low, high, _mm512_loadu_si512(next), 0x96);  // exclusive or of three
}

MR_FOLDING uint32_t ExtendByFolding(uint32_t crc, const char* p, size_t n) {
  constexpr int64_t kLow = PowerOfX(8 * int{kFolded} + 31), kHigh = PowerOfX(8 * int{kFolded} - 33);
  const __m512i powers = _mm512_set4_epi64(kHigh, kLow, kHigh, kLow);
  __m512i a = _mm512_loadu_si512(p), b = _mm512_loadu_si512(p + 64);
  __m512i c = _mm512_loadu_si512(p + 128), d = _mm512_loadu_si512(p + 192);
  a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  for (p += kFolded, n -= kFolded; n >= kFolded; p += kFolded, n -= kFolded) {
    a = Fold(a, powers, p);
    b = Fold(b, powers, p + 64);
    c = Fold(c, powers, p + 128);
    d = Fold(d, powers, p + 192);
  }
  char bytes[kFolded];
  _mm512_storeu_si512(bytes, a);
  _mm512_storeu_si512(bytes + 64, b);
  _mm512_storeu_si512(bytes + 128, c);
  _mm512_storeu_si512(bytes + 192, d);
  return ExtendBySse42(ExtendBySse42(0, bytes, kFolded), p, n);
}
#undef MR_FOLDING
#endif

}  // namespace

uint32_t ExtendCrc32c(uint32_t crc, std::string_view data) {
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2");
  static const bool folds =
      has_sse42 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
  if (folds && data.size() >= 8 * kFolded) return ~ExtendByFolding(~crc, data.data(), data.size());
  if (has_sse42) return ~ExtendBySse42(~crc, data.data(), data.size());
#endif
  return ~ExtendByTables(~crc, data.data(), data.size());
}

// Zero bytes multiply the polynomial of the bytes before them by a power of x.
uint32_t ConcatCrc32c(uint32_t first, uint32_t second, uint64_t size) {
  uint32_t power = PowerOfX(8);
  for (; size > 0; size /= 2) {
    if ((size & 1) != 0) first = Product(first, power);
    power = Product(power, power);
  }
  return first ^ second;
}

uint32_t ExtendCrc32cByTablesForTest(uint32_t crc, std::string_view data) {
  return ~ExtendByTables(~crc, data.data(), data.size());
}

}  // namespace millrace::io
