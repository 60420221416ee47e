// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "display/text.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "display/tensor_text.h"

namespace millrace {
namespace {

TEST(TextTest, NothingMovesTheCursor) {
  EXPECT_EQ(Printable("a\x1b[2J\tb\r\n"), "a\\033[2J\\011b\\015\\n");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\302\\23331m");
  EXPECT_EQ(Printable("größer"), "größer");
  EXPECT_EQ(Printable("\xff\xc0\xaf"), "\\377\\300\\257");
  EXPECT_EQ(Printable("größer", 3), "gr…");
  EXPECT_EQ(PrintableLines("a\x1b[2J\n\t [b]\tc\r\n"), "a\\033[2J\n     [b]    c\\015\n");
  EXPECT_EQ(PrintableLines("ab\ncd", 3), "ab\n…");
  EXPECT_EQ(PrintableLines("ab\ncd", 4), "ab\ncd");
  EXPECT_EQ(Quoted("a\"b\\", 9), "\"a\\\"b\\\\\"");
  EXPECT_EQ(Quoted("abcdef", 3), "\"abc…\" (6 bytes)");
  EXPECT_EQ(EscapeXml("<a b=\"&\">\x01\xff"), "&#60;a b=&#34;&#38;&#34;&#62;\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(TextTest, NumbersForPeople) {
  EXPECT_EQ(CountOf(0, "node"), "0 nodes");
  EXPECT_EQ(CountOf(1, "node"), "1 node");
  EXPECT_EQ(CountOf(1234, "node"), "1,234 nodes");
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1536), "1.50 KiB");
  EXPECT_EQ(BytesText(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(1234567), "1,234,567");
  EXPECT_EQ(CountText(100), "100");
  EXPECT_EQ(ShortCount(12345), "12.3 k");
  EXPECT_EQ(ShortCount(7), "7");
  EXPECT_EQ(DurationText(0.00321), "3.21 ms");
  EXPECT_EQ(TimeText(0), "1970-01-01 00:00:00");
  EXPECT_EQ(TimeText(951782400), "2000-02-29 00:00:00");
  EXPECT_EQ(TimeText(4107542399.0), "2100-02-28 23:59:59");
  EXPECT_EQ(TimeText(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foo"), "Zm9v");
}

TEST(TextTest, ColumnsLineUpByCharacters) {
  using enum TextTable::Align;
  TextTable table({{"n", kLeft}, {"size", kRight}});
  table.AddRow({"ü", "1"});
  table.AddRow({"long"});
  EXPECT_EQ(table.ToString(), "n     size\nü        1\nlong\n");
}

// The texts are those that NumPy 1.26 prints.
TEST(TensorTextTest, FloatsAsNumPyPrintsThem) {
  EXPECT_EQ(TensorText(Tensor::Vector<float>({1, 2.5f, -3})), "[ 1.   2.5 -3. ]");
  EXPECT_EQ(TensorText(Tensor::Vector<float>({0.1f, 0.2f})), "[0.1 0.2]");
  EXPECT_EQ(TensorText(Tensor::Vector<double>({1e-10, 1})), "[1.e-10 1.e+00]");
  EXPECT_EQ(TensorText(Tensor::Vector<double>({1.0 / 3, 100})), "[  0.33333333 100.        ]");
  EXPECT_EQ(TensorText(Tensor::Vector<float>(
                {1, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})),
            "[  1.  nan -inf]");
  EXPECT_EQ(TensorText(Tensor::Vector<float>({123456789.f, 1})), "[1.2345679e+08 1.0000000e+00]");
  EXPECT_EQ(TensorText(Tensor::Scalar(0.5f)), "0.5");
  EXPECT_EQ(TensorText(Tensor::Vector<half>({half(0.1f)})), "[0.09997559]");
}

TEST(TensorTextTest, DimensionsAreNestedBrackets) {
  EXPECT_EQ(TensorText(Tensor::From<int32_t>({1, 20, 3, 4}, TensorShape({2, 2}))), "[[ 1 20]\n [ 3  4]]");
  EXPECT_EQ(TensorText(Tensor::From<int64_t>({1, 2, 3, 4}, TensorShape({2, 1, 2}))), "[[[1 2]]\n\n [[3 4]]]");
  EXPECT_EQ(TensorText(Tensor::From<bool>({true, false}, TensorShape({2}))), "[ True False]");
  EXPECT_EQ(TensorText(Tensor::Vector<std::string>({"a", "b\n"})), "[\"a\" \"b\\n\"]");
  EXPECT_EQ(TensorText(Tensor(DataType::kFloat, TensorShape({1000000, 0}))), "[], shape [1000000,0]");
}

TEST(TensorTextTest, ManyElementsAreSummarised) {
  std::vector<int32_t> values(2000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i);
  EXPECT_EQ(TensorText(Tensor::Vector(values)), "[   0    1    2 ... 1997 1998 1999]");
  EXPECT_EQ(TensorText(Tensor::From(values, TensorShape({1000, 2}))),
            "[[   0    1]\n [   2    3]\n [   4    5]\n ...\n [1994 1995]\n [1996 1997]\n [1998 1999]]");
  values.resize(40);
  EXPECT_EQ(TensorText(Tensor::Vector(values), {.line = 20}).substr(0, 42),
            "[ 0  1  2  3  4  5\n  6  7  8  9 10 11\n 12 ");
}

TEST(TensorTextTest, Json) {
  JsonWriter json;
  WriteTensorJson(Tensor::From<float>({0.1f, std::numeric_limits<float>::infinity()}, TensorShape({2, 1})),
                  10, &json);
  EXPECT_EQ(json.text(), "{\"dtype\":\"float\",\"shape\":[2,1],\"values\":[[0.1],[null]]}");
  JsonWriter many;
  WriteTensorJson(Tensor::Vector<int32_t>({1, 2, 3}), 2, &many);
  EXPECT_EQ(many.text(), "{\"dtype\":\"int32\",\"shape\":[3],\"values\":null}");
}

TEST(TensorTextTest, DifferencesCount) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const TensorDifference d = CompareTensors(Tensor::Vector<float>({1, 2, nan, inf, inf}),
                                            Tensor::Vector<float>({1, 2.5f, nan, inf, 3}), 0.5, 0);
  EXPECT_EQ(d.different, 2);
  EXPECT_EQ(d.beyond, 1);
  EXPECT_EQ(d.largest, inf);
  const int64_t big = int64_t{1} << 60;
  EXPECT_EQ(CompareTensors(Tensor::Vector<int64_t>({big}), Tensor::Vector<int64_t>({big + 1}), 0, 0).beyond,
            1);
  EXPECT_EQ(
      CompareTensors(Tensor::Vector<std::string>({"a"}), Tensor::Vector<std::string>({"b"}), 9, 9).beyond, 1);
}

TEST(TensorTextTest, StatisticsOfBytesThatAreNoBools) {
  Tensor flags(DataType::kBool, TensorShape({3}));
  std::memcpy(flags.raw_data(), "\xff\0\x02", 3);
  TensorStatistics statistics;
  ASSERT_TRUE(ComputeStatistics(flags, &statistics));
  EXPECT_EQ(statistics.min, 0);
  EXPECT_EQ(statistics.max, 1);
  EXPECT_DOUBLE_EQ(statistics.mean, 2.0 / 3);
}

}  // namespace
}  // namespace millrace
