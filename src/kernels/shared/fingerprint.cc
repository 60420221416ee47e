// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/fingerprint.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

uint64_t Load64(const char* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
uint64_t Load32(const char* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
uint64_t Byte(char c) { return static_cast<unsigned char>(c); }
// The last bytes, fewer than eight, as a number.
uint64_t LoadTail(const char* p, size_t n) {
  uint64_t v = 0;
  for (size_t i = 0; i < n; ++i) v |= Byte(p[i]) << (8 * i);
  return v;
}

namespace farm {

constexpr uint64_t kK0 = 0xc3a5c85c97cb3127ULL;
constexpr uint64_t kK1 = 0xb492b66fbe98f273ULL;
constexpr uint64_t kK2 = 0x9ae16a3b2f90404fULL;

struct Pair {
  uint64_t first;
  uint64_t second;
};

uint64_t FoldTop(uint64_t v) { return v ^ (v >> 47); }

uint64_t Join(uint64_t u, uint64_t v, uint64_t mul) {
  const uint64_t a = FoldTop((u ^ v) * mul);
  return FoldTop((v ^ a) * mul) * mul;
}

uint64_t HashUpTo16(const char* p, size_t n) {
  const uint64_t mul = kK2 + n * 2;
  if (n >= 8) {
    const uint64_t a = Load64(p) + kK2, b = Load64(p + n - 8);
    return Join(std::rotr(b, 37) * mul + a, (std::rotr(a, 25) + b) * mul, mul);
  }
  if (n >= 4) return Join(n + (Load32(p) << 3), Load32(p + n - 4), mul);
  if (n == 0) return kK2;
  const uint64_t y = Byte(p[0]) + (Byte(p[n / 2]) << 8);
  const uint64_t z = n + (Byte(p[n - 1]) << 2);
  return FoldTop((y * kK2) ^ (z * kK0)) * kK2;
}

uint64_t HashUpTo32(const char* p, size_t n) {
  const uint64_t mul = kK2 + n * 2;
  const uint64_t a = Load64(p) * kK1, b = Load64(p + 8);
  const uint64_t c = Load64(p + n - 8) * mul, d = Load64(p + n - 16) * kK2;
  return Join(std::rotr(a + b, 43) + std::rotr(c, 30) + d, a + std::rotr(b + kK2, 18) + c, mul);
}

uint64_t HashUpTo64(const char* p, size_t n) {
  const uint64_t mul = kK2 + n * 2;
  const uint64_t a = Load64(p) * kK2, b = Load64(p + 8);
  const uint64_t c = Load64(p + n - 8) * mul, d = Load64(p + n - 16) * kK2;
  const uint64_t y = std::rotr(a + b, 43) + std::rotr(c, 30) + d;
  const uint64_t z = Join(y, a + std::rotr(b + kK2, 18) + c, mul);
  const uint64_t e = Load64(p + 16) * mul, f = Load64(p + 24);
  const uint64_t g = (y + Load64(p + n - 32)) * mul, h = (z + Load64(p + n - 24)) * mul;
  return Join(std::rotr(e + f, 43) + std::rotr(g, 30) + h, e + std::rotr(f + a, 18) + g, mul);
}

// A fast mix of 32 bytes and two seeds.
Pair Mix32(const char* p, uint64_t a, uint64_t b) {
  const uint64_t w = Load64(p), x = Load64(p + 8), y = Load64(p + 16), z = Load64(p + 24);
  a += w;
  b = std::rotr(b + a + z, 21);
  const uint64_t c = a;
  a += x + y;
  b += std::rotr(a, 44);
  return {a + z, b + c};
}

struct State {
  uint64_t x, y, z;
  Pair v{0, 0}, w{0, 0};

  // Mixes 64 bytes; the last block uses separate multipliers.
  void Mix(const char* p, uint64_t mul, uint64_t times) {
    x = std::rotr(x + y + v.first + Load64(p + 8), 37) * mul;
    y = std::rotr(y + v.second + Load64(p + 48), 42) * mul;
    x ^= w.second * times;
    y += v.first * times + Load64(p + 40);
    z = std::rotr(z + w.first, 33) * mul;
    v = Mix32(p, v.second * mul, x + w.first);
    w = Mix32(p + 32, z + w.second, y + Load64(p + 16));
    std::swap(z, x);
  }
};

// Combines two words to one, regardless of the length.
uint64_t JoinWords(uint64_t u, uint64_t v) { return Join(u, v, 0x9ddfea08eb382d69ULL); }

// Up to 127 bytes with a seed of two words.
Fingerprint128 HashShort128(const char* p, size_t n, uint64_t a, uint64_t b) {
  uint64_t c, d;
  if (n <= 16) {
    a = FoldTop(a * kK1) * kK1;
    c = b * kK1 + HashUpTo16(p, n);
    d = FoldTop(a + (n >= 8 ? Load64(p) : c));
  } else {
    c = JoinWords(Load64(p + n - 8) + kK1, a);
    d = JoinWords(b + n, c + Load64(p + n - 16));
    a += d;
    for (const char* const last = p + n - 16; p < last; p += 16) {
      a = (a ^ (FoldTop(Load64(p) * kK1) * kK1)) * kK1;
      b ^= a;
      c = (c ^ (FoldTop(Load64(p + 8) * kK1) * kK1)) * kK1;
      d ^= c;
    }
  }
  a = JoinWords(a, c);
  b = JoinWords(d, b);
  return {a ^ b, JoinWords(b, a)};
}

// 128 bytes and more with a seed of two words.
Fingerprint128 HashLong128(const char* p, size_t n, uint64_t low, uint64_t high) {
  State s{low, high, n * kK1};
  s.v.first = std::rotr(high ^ kK1, 49) * kK1 + Load64(p);
  s.v.second = std::rotr(s.v.first, 42) * kK1 + Load64(p + 8);
  s.w.first = std::rotr(high + s.z, 35) * kK1 + low;
  s.w.second = std::rotr(low + Load64(p + 88), 53) * kK1;
  for (; n >= 128; n -= 128, p += 128) {
    s.Mix(p, kK1, 1);
    s.Mix(p + 64, kK1, 1);
  }
  s.x += std::rotr(s.v.first + s.z, 49) * kK0;
  s.y = s.y * kK0 + std::rotr(s.w.second, 37);
  s.z = s.z * kK0 + std::rotr(s.w.first, 27);
  s.w.first *= 9;
  s.v.first *= kK0;
  // The rest in blocks that end at the last byte, and may begin before the rest.
  for (size_t done = 0; done < n;) {
    done += 32;
    const char* const block = p + n - done;
    s.y = std::rotr(s.x + s.y, 42) * kK0 + s.v.second;
    s.w.first += Load64(block + 16);
    s.x = s.x * kK0 + s.w.first;
    s.z += s.w.second + Load64(block);
    s.w.second += s.v.first;
    s.v = Mix32(block, s.v.first + s.z, s.v.second);
    s.v.first *= kK0;
  }
  const uint64_t x = JoinWords(s.x, s.v.first), y = JoinWords(s.y + s.z, s.w.first);
  return {JoinWords(x + s.v.second, s.w.second) + y, JoinWords(x + s.w.second, y + s.v.second)};
}

uint64_t HashLong(const char* p, size_t n) {
  constexpr uint64_t kSeed = 81;
  State s{kSeed * kK2 + Load64(p), kSeed * kK1 + 113, 0};
  s.z = FoldTop(s.y * kK2 + 113) * kK2;
  const char* const last_whole = p + (n - 1) / 64 * 64;
  const char* const last = p + n - 64;
  do {
    s.Mix(p, kK1, 1);
    p += 64;
  } while (p != last_whole);
  const uint64_t mul = kK1 + ((s.z & 0xff) << 1);
  s.w.first += (n - 1) & 63;
  s.v.first += s.w.first;
  s.w.first += s.v.first;
  s.Mix(last, mul, 9);
  return Join(Join(s.v.first, s.w.first, mul) + FoldTop(s.y) * kK0 + s.z,
              Join(s.v.second, s.w.second, mul) + s.x, mul);
}

}  // namespace farm

struct SipState {
  uint64_t v0, v1, v2, v3;

  void Rounds(int n) {
    for (int i = 0; i < n; ++i) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  }
  void Add(uint64_t word) {
    v3 ^= word;
    Rounds(2);
    v0 ^= word;
  }
};

}  // namespace

uint64_t FarmFingerprint64(std::string_view bytes) {
  const char* const p = bytes.data();
  const size_t n = bytes.size();
  if (n <= 16) return farm::HashUpTo16(p, n);
  if (n <= 32) return farm::HashUpTo32(p, n);
  if (n <= 64) return farm::HashUpTo64(p, n);
  return farm::HashLong(p, n);
}

Fingerprint128 FarmFingerprint128(std::string_view bytes) {
  const char* p = bytes.data();
  size_t n = bytes.size();
  uint64_t low = farm::kK0, high = farm::kK1;
  if (n >= 16) {
    low = Load64(p);
    high = Load64(p + 8) + farm::kK0;
    p += 16;
    n -= 16;
  }
  return n < 128 ? farm::HashShort128(p, n, low, high) : farm::HashLong128(p, n, low, high);
}

uint64_t FingerprintCat64(uint64_t a, uint64_t b) {
  constexpr uint64_t kMul = 0xc6a4a7935bd1e995ULL;
  const uint64_t both = ((a ^ kMul) ^ (farm::FoldTop(b * kMul) * kMul)) * kMul;
  return farm::FoldTop(farm::FoldTop(both) * kMul);
}

uint64_t MurmurHash64(std::string_view bytes) {
  constexpr uint64_t kMul = 0xc6a4a7935bd1e995ULL, kSeed = 0xDECAFCAFFEULL;
  const auto fold = [](uint64_t v) { return v ^ (v >> 47); };
  const char* p = bytes.data();
  size_t n = bytes.size();
  uint64_t h = kSeed ^ (n * kMul);
  for (; n >= 8; n -= 8, p += 8) h = (h ^ (fold(Load64(p) * kMul) * kMul)) * kMul;
  if (n > 0) h = (h ^ LoadTail(p, n)) * kMul;
  return fold(fold(h) * kMul);
}

uint64_t SipHash(uint64_t key0, uint64_t key1, std::string_view bytes) {
  SipState s{key0 ^ 0x736f6d6570736575ULL, key1 ^ 0x646f72616e646f6dULL, key0 ^ 0x6c7967656e657261ULL,
             key1 ^ 0x7465646279746573ULL};
  const char* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 8; n -= 8, p += 8) s.Add(Load64(p));
  s.Add(LoadTail(p, n) | static_cast<uint64_t>(bytes.size()) << 56);
  s.v2 ^= 0xff;
  s.Rounds(4);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

}  // namespace millrace
