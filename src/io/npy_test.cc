// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <limits>
#include <random>

namespace millrace::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file by the definition: magic, version, length of the header, header, elements.
std::string File(const std::string& dictionary, const std::string& data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  const std::string header = dictionary + "\n";
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(header.size() >> (8 * i));
  return out + header + data;
}

std::string Dictionary(const std::string& descr, const std::string& shape,
                       const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

template <typename T>
std::string Raw(std::initializer_list<T> values) {
  std::string out;
  for (const T v : values) out.append(reinterpret_cast<const char*>(&v), sizeof(v));
  return out;
}

template <typename T>
std::string Swapped(std::initializer_list<T> values) {
  std::string out;
  for (const T v : values) {
    std::string one(reinterpret_cast<const char*>(&v), sizeof(v));
    out.append(one.rbegin(), one.rend());
  }
  return out;
}

Tensor Parse(const std::string& bytes) {
  auto t = ParseNpy(bytes, "x.npy");
  EXPECT_TRUE(t.ok()) << t.status().ToString();
  return t.ok() ? *t : Tensor();
}

std::string ErrorOf(const std::string& bytes) { return ParseNpy(bytes, "x.npy").status().ToString(); }

template <typename T>
std::vector<T> Values(const Tensor& t) {
  return {t.flat<T>().begin(), t.flat<T>().end()};
}

TEST(NpyTest, EveryType) {
  const auto check = [](const char* descr, auto value, DataType dtype) {
    using T = decltype(value);
    const Tensor t = Parse(File(Dictionary(descr, "(2,)"), Raw<T>({value, T{}})));
    EXPECT_EQ(t.dtype(), dtype) << descr;
    EXPECT_EQ(t.shape(), TensorShape({2}));
    EXPECT_EQ(t.flat<T>()[0], value) << descr;
    EXPECT_EQ(t.flat<T>()[1], T{}) << descr;
  };
  check("|b1", true, DataType::kBool);
  check("?", true, DataType::kBool);
  check("|i1", int8_t{-5}, DataType::kInt8);
  check("<i2", int16_t{-500}, DataType::kInt16);
  check("<i4", int32_t{-70000}, DataType::kInt32);
  check("<i8", std::numeric_limits<int64_t>::min(), DataType::kInt64);
  check("|u1", uint8_t{200}, DataType::kUint8);
  check("<u2", uint16_t{60000}, DataType::kUint16);
  check("=u4", uint32_t{4000000000u}, DataType::kUint32);
  check("u8", std::numeric_limits<uint64_t>::max(), DataType::kUint64);
  check("<f2", half(1.5f), DataType::kHalf);
  check("<f4", 0.1f, DataType::kFloat);
  check("<f8", 0.1, DataType::kDouble);
  check("<c8", complex64(1, -2), DataType::kComplex64);
  check("<c16", complex128(1, -2), DataType::kComplex128);
}

TEST(NpyTest, BigEndian) {
  EXPECT_THAT(Values<int32_t>(Parse(File(Dictionary(">i4", "(2,)"), Swapped<int32_t>({1, -2})))),
              ElementsAre(1, -2));
  EXPECT_THAT(Values<double>(Parse(File(Dictionary(">f8", "(1,)"), Swapped<double>({0.25})))),
              ElementsAre(0.25));
  // The bytes of each part of a complex number are swapped separately.
  EXPECT_THAT(Values<complex64>(Parse(File(Dictionary(">c8", "(1,)"), Swapped<float>({1, 2})))),
              ElementsAre(complex64(1, 2)));
}

TEST(NpyTest, BoolsAreZeroOrOne) {
  const Tensor t = Parse(File(Dictionary("|b1", "(3,)"), std::string("\0\x02\xff", 3)));
  EXPECT_EQ(std::string(static_cast<const char*>(t.raw_data()), 3), std::string("\0\1\1", 3));
}

TEST(NpyTest, ScalarsAndEmptyArrays) {
  EXPECT_EQ(Parse(File(Dictionary("<f4", "()"), Raw<float>({7}))).shape(), TensorShape());
  EXPECT_EQ(Parse(File(Dictionary("<f4", "(0,)"), "")).shape(), TensorShape({0}));
  EXPECT_EQ(Parse(File(Dictionary("<f4", "(3, 0, 2)"), "")).shape(), TensorShape({3, 0, 2}));
}

TEST(NpyTest, FortransOrderBecomesC) {
  // [[1 2 3] [4 5 6]] column by column.
  const Tensor t = Parse(File(Dictionary("<i2", "(2, 3)", "True"), Raw<int16_t>({1, 4, 2, 5, 3, 6})));
  EXPECT_EQ(t.shape(), TensorShape({2, 3}));
  EXPECT_THAT(Values<int16_t>(t), ElementsAre(1, 2, 3, 4, 5, 6));
  const Tensor cube = Parse(File(Dictionary("|u1", "(2, 1, 2)", "True"), std::string("\1\2\3\4", 4)));
  EXPECT_THAT(Values<uint8_t>(cube), ElementsAre(1, 3, 2, 4));
}

TEST(NpyTest, Strings) {
  EXPECT_THAT(Values<std::string>(Parse(File(Dictionary("|S3", "(3,)"), std::string("abcd\0\0\0\0\0", 9)))),
              ElementsAre("abc", "d", ""));
  EXPECT_THAT(
      Values<std::string>(Parse(File(Dictionary("<U2", "(2,)"), Raw<uint32_t>({'a', 0xe4, 0x1f600, 0})))),
      ElementsAre("a\xc3\xa4", "\xf0\x9f\x98\x80"));
  EXPECT_THAT(Values<std::string>(Parse(File(Dictionary(">U1", "(1,)"), Swapped<uint32_t>({0x20ac})))),
              ElementsAre("\xe2\x82\xac"));
  EXPECT_THAT(ErrorOf(File(Dictionary("<U1", "(1,)"), Raw<uint32_t>({0xd800}))),
              HasSubstr("invalid character"));
}

TEST(NpyTest, LaterVersionsHaveLongerHeaders) {
  EXPECT_THAT(Values<int32_t>(Parse(File(Dictionary("<i4", "(1,)"), Raw<int32_t>({9}), 2))), ElementsAre(9));
  EXPECT_THAT(Values<int32_t>(Parse(File(Dictionary("<i4", "(1L,)"), Raw<int32_t>({9}), 3))), ElementsAre(9));
  EXPECT_THAT(ErrorOf(File(Dictionary("<i4", "(1,)"), Raw<int32_t>({9}), 4)), HasSubstr("version 4"));
}

TEST(NpyTest, WhatIsRefused) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("its magic string is missing"));
  EXPECT_THAT(ErrorOf("PK\x03\x04"), HasSubstr("its magic string is missing"));
  EXPECT_THAT(ErrorOf(File(Dictionary("|O", "(1,)"), "")), HasSubstr("type '|O'"));
  EXPECT_THAT(ErrorOf(File(Dictionary("<M8", "(1,)"), Raw<int64_t>({1}))), HasSubstr("type '<M8'"));
  EXPECT_THAT(ErrorOf(File(Dictionary("<i3", "(1,)"), "abc")), HasSubstr("type '<i3'"));
  EXPECT_THAT(ErrorOf(File("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }", "")),
              HasSubstr("records have no element type"));
  EXPECT_THAT(ErrorOf(File("{'descr': '<i4', 'shape': (1,), }", "")), HasSubstr("not complete"));
  EXPECT_THAT(ErrorOf(File("{'descr': '<i4'", "")), HasSubstr("x.npy is not an array"));
  EXPECT_THAT(ErrorOf(File(Dictionary("<i4", "(-1,)"), "")), HasSubstr("its shape has no sizes"));
  EXPECT_THAT(ErrorOf(File(Dictionary("<i4", "(2,)"), Raw<int32_t>({1}))),
              HasSubstr("truncated array: shape [2]"));
  EXPECT_THAT(ErrorOf(File(Dictionary("<i4", "(4611686018427387904, 4)"), "")), HasSubstr("too large"));
  EXPECT_THAT(ErrorOf(File(Dictionary("|S0", "(1000000000000,)"), "")), HasSubstr("truncated array"));
  EXPECT_THAT(ErrorOf(File(Dictionary("<U0", "(171,)"), "")), HasSubstr("truncated array"));
  EXPECT_TRUE(ParseNpy(File(Dictionary("|S0", "(2,)"), ""), "x.npy").ok());
  EXPECT_THAT(ErrorOf("\x93NUMPY\x01"), HasSubstr("x.npy"));
  EXPECT_THAT(ErrorOf(std::string("\x93NUMPY\x01\x00\xff\xff{", 11)), HasSubstr("truncated header"));
}

TEST(NpyTest, ArraysAreWrittenByTheDefinition) {
  const std::string bytes = *NpyBytes(Tensor::From<int16_t>({1, 2, 3, 4, 5, 6}, {2, 3}));
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const size_t length = static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ((10 + length) % 64, 0u);
  EXPECT_THAT(bytes.substr(10, length),
              HasSubstr("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }"));
  EXPECT_EQ(bytes[10 + length - 1], '\n');
  EXPECT_EQ(bytes.substr(10 + length), Raw<int16_t>({1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(*NpyBytes(Tensor::Vector<float>({1})), HasSubstr("'shape': (1,), }"));
  EXPECT_THAT(*NpyBytes(Tensor::Scalar(1.0f)), HasSubstr("'shape': (), }"));
}

TEST(NpyTest, WhatIsWrittenIsReadAgain) {
  const std::vector<Tensor> tensors = {Tensor::Vector<std::string>({"a", "", "bcd"}),
                                       Tensor::From<double>({1, 2, 3, 4}, {2, 2}),
                                       Tensor::Scalar(true),
                                       Tensor::Vector<half>({half(1), half(-2)}),
                                       Tensor::Vector<complex128>({{1, 2}}),
                                       Tensor(DataType::kInt64, {0, 5})};
  for (const Tensor& t : tensors) {
    const Tensor back = Parse(*NpyBytes(t));
    EXPECT_EQ(back.DebugString(), t.DebugString());
  }
  EXPECT_THAT(NpyBytes(Tensor(DataType::kBfloat16, {2})).status().ToString(),
              HasSubstr("no counterpart of bfloat16"));
  EXPECT_THAT(NpyBytes(Tensor::Scalar(std::string("a\0", 2))).status().ToString(), HasSubstr("zero byte"));
}

// An archive by the format's definition, its member deflated or stored, with sizes in the extra field or not.
std::string Archive(const std::string& name, const std::string& data, bool deflated, bool wide) {
  std::string packed = data;
  if (deflated) {
    z_stream z = {};
    EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    packed.resize(data.size() + 100);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    z.avail_in = static_cast<uInt>(data.size());
    z.next_out = reinterpret_cast<Bytef*>(packed.data());
    z.avail_out = static_cast<uInt>(packed.size());
    EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
    packed.resize(z.total_out);
    deflateEnd(&z);
  }
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
  const auto n = static_cast<uint32_t>(data.size());
  const auto p = static_cast<uint32_t>(packed.size());
  const std::string extra = wide ? Raw<uint16_t>({1, 16}) + Raw<uint64_t>({n, p}) : "";
  const std::string common =
      Raw<uint16_t>({45, 0, static_cast<uint16_t>(deflated ? 8 : 0), 0, 0}) +
      Raw<uint32_t>({crc, wide ? ~0u : p, wide ? ~0u : n}) +
      Raw<uint16_t>({static_cast<uint16_t>(name.size()), static_cast<uint16_t>(extra.size())});
  const std::string local = Raw<uint32_t>({0x04034b50}) + common + name + extra + packed;
  const std::string entry = Raw<uint32_t>({0x02014b50}) + Raw<uint16_t>({45}) + common +
                            Raw<uint16_t>({0, 0, 0}) + Raw<uint32_t>({0, 0}) + name + extra;
  return local + entry + Raw<uint32_t>({0x06054b50}) + Raw<uint16_t>({0, 0, 1, 1}) +
         Raw<uint32_t>({static_cast<uint32_t>(entry.size()), static_cast<uint32_t>(local.size())}) +
         Raw<uint16_t>({2}) + "hi";
}

TEST(NpzTest, StoredAndDeflatedMembers) {
  std::string zeros = File(Dictionary("<i4", "(1000,)"), std::string(4000, '\0'));
  for (const bool deflated : {false, true}) {
    for (const bool wide : {false, true}) {
      auto arrays = ParseNpz(Archive("w/b.npy", zeros, deflated, wide), "x.npz");
      ASSERT_TRUE(arrays.ok()) << arrays.status().ToString();
      ASSERT_EQ(arrays->size(), 1u);
      EXPECT_EQ(arrays->begin()->first, "w/b");
      EXPECT_EQ(arrays->begin()->second.shape(), TensorShape({1000}));
    }
  }
}

TEST(NpzTest, RoundTrip) {
  std::map<std::string, Tensor> arrays;
  arrays["a"] = Tensor::Vector<float>({1, 2});
  arrays["b/c"] = Tensor::Scalar<int64_t>(5);
  auto back = ParseNpz(*NpzBytes(arrays), "x.npz");
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ(back->at("a").DebugString(), arrays["a"].DebugString());
  EXPECT_EQ(back->at("b/c").DebugString(), arrays["b/c"].DebugString());
  EXPECT_EQ(ParseNpz(*NpzBytes({}), "x.npz")->size(), 0u);
}

TEST(NpzTest, BrokenArchives) {
  const std::string good =
      Archive("a.npy", File(Dictionary("<i4", "(2,)"), Raw<int32_t>({1, 2})), true, true);
  EXPECT_THAT(ParseNpz("", "x.npz").status().ToString(), HasSubstr("it has no directory"));
  std::string wrong_sum = good;
  wrong_sum[14] ^= 1;                                 // in the member
  wrong_sum[wrong_sum.find("PK\x01\x02") + 16] ^= 1;  // in the directory, which counts
  EXPECT_THAT(ParseNpz(wrong_sum, "x.npz").status().ToString(), HasSubstr("the checksum of a.npy is wrong"));
  // Any damage gives an error status, or the original values.
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good.substr(0, random() % 4 == 0 ? random() % good.size() : good.size());
    for (size_t n = random() % 4; n > 0 && !bytes.empty(); --n)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto arrays = ParseNpz(bytes, "x.npz");
    EXPECT_LE(arrays.ok() ? arrays->size() : 0, 1u);
  }
}

}  // namespace
}  // namespace millrace::io
