// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <numeric>

#include "kernels/cpu/vector/transpose.h"
#include "kernels/cpu/vector/vector_testing.h"

namespace millrace::cpu {
namespace {

using Dims = std::vector<int64_t>;

class MoveTest : public VectorTest {};

int64_t Size(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

Dims DenseStrides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= dims[d];
  }
  return strides;
}

// Bytes that differ from element to element.
std::vector<char> Bytes(int64_t n) {
  std::vector<char> bytes(static_cast<size_t>(n));
  std::minstd_rand random(77);
  for (char& b : bytes) b = static_cast<char>(random() >> 7);
  return bytes;
}

// The box copied one element at a time.
void CopySlowly(const char* src, const Dims& src_strides, char* dst, const Dims& dst_strides,
                const Dims& dims, int64_t elem) {
  Dims index(dims.size(), 0);
  for (int64_t i = 0; i < Size(dims); ++i) {
    int64_t from = 0, to = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      from += index[d] * src_strides[d];
      to += index[d] * dst_strides[d];
    }
    std::memcpy(dst + to * elem, src + from * elem, static_cast<size_t>(elem));
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

void ExpectTranspose(const Dims& dims, const std::vector<int>& perm, int64_t elem) {
  Dims out_dims, in_strides;
  const Dims strides = DenseStrides(dims);
  for (const int p : perm) {
    out_dims.push_back(dims[static_cast<size_t>(p)]);
    in_strides.push_back(strides[static_cast<size_t>(p)]);
  }
  const std::vector<char> in = Bytes(Size(dims) * elem);
  std::vector<char> want(in.size()), got(in.size() + 64, 55);
  CopySlowly(in.data(), in_strides, want.data(), DenseStrides(out_dims), out_dims, elem);
  UnevenParallel parallel(3);
  Transpose(in.data(), dims, perm, elem, got.data(), parallel);
  ASSERT_TRUE(std::equal(want.begin(), want.end(), got.begin()))
      << testing::PrintToString(dims) << " by " << testing::PrintToString(perm) << " of " << elem;
  ASSERT_TRUE(std::all_of(got.end() - 64, got.end(), [](char b) { return b == 55; }))
      << "written past the end";
}

TEST_P(MoveTest, TransposesPlanesOfEverySize) {
  for (const int64_t elem : {1, 2, 3, 4, 8, 12, 16, 32}) {
    for (const int64_t rows : {1, 2, 7, 8, 15, 16, 17, 33, 64, 131}) {
      for (const int64_t columns : {1, 3, 8, 16, 31, 64, 65}) ExpectTranspose({rows, columns}, {1, 0}, elem);
    }
  }
}

TEST_P(MoveTest, TransposesImagesBothWays) {
  for (const int64_t channels : {1, 3, 32}) {
    ExpectTranspose({2, 14, 14, channels}, {0, 3, 1, 2}, 4);
    ExpectTranspose({2, channels, 14, 14}, {0, 2, 3, 1}, 4);
  }
}

TEST_P(MoveTest, TransposesByRandomPermutations) {
  std::minstd_rand random(13);
  for (int round = 0; round < 400; ++round) {
    Dims dims(random() % 7);
    for (int64_t& d : dims) d = 1 + static_cast<int64_t>(random() % 7);
    std::vector<int> perm(dims.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), random);
    ExpectTranspose(dims, perm, int64_t{1} << (random() % 5));
  }
}

TEST_P(MoveTest, TransposesNothing) {
  ExpectTranspose({}, {}, 4);
  ExpectTranspose({0, 3}, {1, 0}, 4);
  ExpectTranspose({4, 0, 2}, {2, 0, 1}, 8);
}

void ExpectBox(int64_t src_size, const Dims& src_strides, int64_t src_at, int64_t dst_size,
               const Dims& dst_strides, int64_t dst_at, const Dims& dims, int64_t elem) {
  const std::vector<char> src = Bytes(src_size * elem);
  std::vector<char> want(static_cast<size_t>(dst_size * elem), 9), got = want;
  CopySlowly(src.data() + src_at * elem, src_strides, want.data() + dst_at * elem, dst_strides, dims, elem);
  UnevenParallel parallel(6);
  CopyBox(src.data() + src_at * elem, src_strides, got.data() + dst_at * elem, dst_strides, dims, elem,
          parallel);
  ASSERT_EQ(want, got);
}

TEST_P(MoveTest, CopiesSlicesReversalsRepeatsAndPads) {
  for (const int64_t elem : {1, 2, 4, 5, 8, 16}) {
    ExpectBox(100, {10, 1}, 23, 12, {4, 1}, 0, {3, 4}, elem);             // slice
    ExpectBox(100, {-20, -3}, 98, 12, {4, 1}, 0, {3, 4}, elem);           // strided, backwards
    ExpectBox(4, {0, 1}, 0, 12, {4, 1}, 0, {3, 4}, elem);                 // tile
    ExpectBox(3, {1, 0}, 0, 12, {4, 1}, 0, {3, 4}, elem);                 // broadcast of a column
    ExpectBox(12, {4, 1}, 0, 42, {7, 1}, 8, {3, 4}, elem);                // into the middle: pad
    ExpectBox(1, {}, 0, 3, {}, 1, {}, elem);                              // one element
    ExpectBox(1, {1, 1}, 0, 3, {1, 1}, 0, {0, 7}, elem);                  // none
    ExpectBox(60000, {300, 1}, 0, 60000, {1, 200}, 0, {200, 300}, elem);  // many blocks
    ExpectBox(60000, {30000, 100, 1}, 7, 60000, {30000, 100, 1}, 0, {2, 300, 90}, elem);
  }
}

TEST_P(MoveTest, CopiesBytesAndFills) {
  UnevenParallel parallel(8);
  for (const int64_t n : {0, 1, 100, 131072, 1000003}) {
    const std::vector<char> src = Bytes(n);
    std::vector<char> dst(src.size());
    CopyBytes(src.data(), dst.data(), n, parallel);
    ASSERT_EQ(src, dst);
  }
  for (const int64_t elem : {1, 2, 4, 8, 16, 3}) {
    const std::vector<char> value = Bytes(elem);
    for (const int64_t n : {0, 1, 5, 5000}) {
      alignas(16) std::array<char, 80016> dst = {};
      Fill(value.data(), elem, dst.data(), n, parallel);
      for (int64_t i = 0; i < n * elem; ++i) {
        ASSERT_EQ(dst[static_cast<size_t>(i)], value[static_cast<size_t>(i % elem)]);
      }
      ASSERT_EQ(dst[static_cast<size_t>(n * elem)], 0);
    }
  }
}

TEST_P(MoveTest, GathersRows) {
  UnevenParallel parallel(10);
  for (const int64_t row : {1, 2, 4, 8, 12, 16, 256, 5000}) {
    const int64_t outer = 3, limit = 11, n = 37;
    const std::vector<char> src = Bytes(outer * limit * row);
    std::vector<int64_t> indices(static_cast<size_t>(n));
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i * 7 % 11);
    std::vector<char> got(static_cast<size_t>(outer * n * row));
    EXPECT_EQ(
        GatherRows(src.data(), outer, limit, row, DataType::kInt64, indices.data(), n, got.data(), parallel),
        -1);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < n; ++i) {
        const char* want = src.data() + (o * limit + indices[static_cast<size_t>(i)]) * row;
        ASSERT_EQ(std::memcmp(got.data() + (o * n + i) * row, want, static_cast<size_t>(row)), 0);
      }
    }
  }
}

TEST_P(MoveTest, GatherReportsTheFirstIndexOutside) {
  const float src[] = {1, 2, 3};
  float dst[4];
  SerialParallel parallel;
  const int32_t high[] = {0, 2, 3, -1}, low[] = {2, -1, 0, 7};
  EXPECT_EQ(GatherRows(src, 1, 3, 4, DataType::kInt32, high, 4, dst, parallel), 2);
  EXPECT_EQ(GatherRows(src, 1, 3, 4, DataType::kInt32, low, 4, dst, parallel), 1);
  EXPECT_EQ(GatherRows(src, 1, 0, 4, DataType::kInt32, high, 1, dst, parallel), 0);
  EXPECT_EQ(GatherRows(src, 1, 3, 4, DataType::kInt32, high, 0, dst, parallel), -1);
}

INSTANTIATE_TEST_SUITE_P(Isa, MoveTest, EachIsa(), IsaName);

}  // namespace
}  // namespace millrace::cpu
