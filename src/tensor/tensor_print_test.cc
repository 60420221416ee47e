// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The expected texts are those of NumPy 1.24: str(numpy.array(...)).
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <sstream>

#include "millrace/tensor.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

template <typename T>
std::string Print(const std::vector<T>& values, const TensorShape& shape) {
  return Tensor::From(values, shape).ToString();
}

template <typename T>
std::string Print(const std::vector<T>& values) {
  return Tensor::Vector(values).ToString();
}

TEST(TensorPrint, ColumnsAreAlignedAtThePoint) {
  EXPECT_EQ(Print<float>({1, 2.5f, 3, -4.25f}, {2, 2}), "[[ 1.    2.5 ]\n [ 3.   -4.25]]");
  EXPECT_EQ(Print<double>({1, 2, 3}), "[1. 2. 3.]");
  EXPECT_EQ(Print<double>({0.1, 0.2, 1.0 / 3}), "[0.1        0.2        0.33333333]");
  EXPECT_EQ(Print<float>({1.f / 3}), "[0.33333334]");
}

TEST(TensorPrint, WideRangesAreWrittenWithExponents) {
  EXPECT_EQ(Print<float>({1e-5f, 1, 2}), "[1.e-05 1.e+00 2.e+00]");
  EXPECT_EQ(Print<double>({1e10, 1.5}), "[1.0e+10 1.5e+00]");
  EXPECT_EQ(Print<double>({123456789.0}), "[1.23456789e+08]");
  EXPECT_EQ(Print<double>({100, 0.05}), "[1.e+02 5.e-02]");
  EXPECT_EQ(Print<double>({1000.5, 0.5}), "[1.0005e+03 5.0000e-01]");
}

TEST(TensorPrint, NanAndInfinityTakePartInTheColumns) {
  EXPECT_EQ(Print<double>({NAN, 1, -INFINITY, 2.5}), "[ nan  1.  -inf  2.5]");
  EXPECT_EQ(Print<double>({NAN, INFINITY}), "[nan inf]");
  EXPECT_EQ(Print<double>({NAN, 1e10}), "[   nan 1.e+10]");
}

TEST(TensorPrint, IntegersAndBooleansAreRightAligned) {
  EXPECT_EQ(Print<int32_t>({1, -10, 100}), "[  1 -10 100]");
  EXPECT_EQ(Tensor::Of({{true, false}})->ToString(), "[[ True False]]");
  EXPECT_EQ(Print<uint8_t>({0, 255}), "[  0 255]");
  // Columns of booleans have room for "False" even where there is none.
  EXPECT_EQ(Tensor::Of({{true, true}, {true, true}})->ToString(), "[[ True  True]\n [ True  True]]");
  EXPECT_EQ(Tensor::Scalar(true).ToString(), "True");
}

TEST(TensorPrint, ComplexNumbersHaveTwoColumns) {
  EXPECT_EQ(Print<complex128>({{1, 2}, {-0.5, -1.25}}), "[ 1. +2.j   -0.5-1.25j]");
  EXPECT_EQ(Print<complex64>({{1, NAN}, {2, 0}}), "[1.+nanj 2. +0.j]");
  EXPECT_EQ(Print<complex64>({{0, 1}, {0, 100}}), "[0.  +1.j 0.+100.j]");
}

TEST(TensorPrint, ComplexNumbersAloneAreInParentheses) {
  EXPECT_EQ(Tensor::Scalar(complex64(1, -2)).ToString(), "(1-2j)");
  EXPECT_EQ(Tensor::Scalar(complex64(1.f / 3, 2.5f)).ToString(), "(0.33333334+2.5j)");
  EXPECT_EQ(Tensor::Scalar(complex128(1e20, -2)).ToString(), "(1e+20-2j)");
  EXPECT_EQ(Tensor::Scalar(complex128(NAN, -INFINITY)).ToString(), "(nan-infj)");
  EXPECT_EQ(Tensor::Scalar(complex128(0, 2)).ToString(), "2j");
  EXPECT_EQ(Tensor::Scalar(complex128(-0.0, -0.0)).ToString(), "(-0-0j)");
}

TEST(TensorPrint, HalvesHaveTheirOwnShortestDigits) {
  const auto halves = [](std::initializer_list<float> values) {
    std::vector<half> v;
    for (const float f : values) v.emplace_back(f);
    return Tensor::Vector(v).ToString();
  };
  EXPECT_EQ(halves({0.1f, 0.2f, 0.3f}), "[0.1 0.2 0.3]");
  EXPECT_EQ(halves({1.f / 3, 2.f / 3, 1000.f / 3}), "[  0.3333   0.6665 333.2   ]");
  EXPECT_EQ(halves({1e-3f, 1000.5f}), "[1.0004e-03 1.0005e+03]");
  EXPECT_EQ(halves({65504, 1}), "[6.55e+04 1.00e+00]");
  EXPECT_EQ(halves({-26384, 1e9f}), "[-26384.     inf]");
  EXPECT_EQ(Tensor::Scalar(half(1.f / 3)).ToString(), "0.3333");
  EXPECT_EQ(Tensor::Scalar(half(1e-7f)).ToString(), "1e-07");
  EXPECT_EQ(Tensor::Scalar(half(65504.f)).ToString(), "65500.0");
}

TEST(TensorPrint, DigitsBehindTheShortestOnesAreThoseOfTheNumber) {
  EXPECT_EQ(Print<float>({2.718281828e5f, 2.718281828f}), "[2.7182819e+05 2.7182817e+00]");
  EXPECT_EQ(Print<float>({0.03f, 1.2345678e5f}), "[2.9999999e-02 1.2345678e+05]");
  EXPECT_EQ(Print<float>({81530144, 4866183}), "[81530144.  4866183.]");
  EXPECT_EQ(Tensor::Scalar(12345679104.f).ToString(), "12345679000.0");
}

TEST(TensorPrint, TheRangeIsThatOfTheType) {
  // 1000 as a float, a little more as a double.
  EXPECT_EQ(Print<float>({1.f / 3, 2.f / 3, 1e3f / 3}), "[  0.33333334   0.6666667  333.33334   ]");
  EXPECT_EQ(Print<double>({1e100, 1}), "[1.e+100 1.e+000]");
}

TEST(TensorPrint, TextsAreQuotedAsBytesAre) {
  const std::string odd("\0\x01\x7f\xc3\xbc\xff\\", 7);
  EXPECT_EQ(Tensor::Scalar(odd).ToString(), "'\\x00\\x01\\x7f\\xc3\\xbc\\xff\\\\'");
  EXPECT_EQ(Print<std::string>({"a'b", "a\"b", "'\"", ""}), "[\"a'b\" 'a\"b' '\\'\"' '']");
}

TEST(TensorPrint, ScalarsAreWrittenAsPythonDoes) {
  EXPECT_EQ(Tensor::Scalar(3.5f).ToString(), "3.5");
  EXPECT_EQ(Tensor::Scalar(1.f).ToString(), "1.0");
  EXPECT_EQ(Tensor::Scalar(0.1f).ToString(), "0.1");
  EXPECT_EQ(Tensor::Scalar(1e10).ToString(), "10000000000.0");
  EXPECT_EQ(Tensor::Scalar(1e-7).ToString(), "1e-07");
  EXPECT_EQ(Tensor::Scalar(int64_t{-7}).ToString(), "-7");
  EXPECT_EQ(Tensor::Scalar("a\nb").ToString(), "'a\\nb'");
}

TEST(TensorPrint, DimensionsNest) {
  EXPECT_EQ(Print<double>(std::vector<double>(8), {2, 2, 2}),
            "[[[0. 0.]\n  [0. 0.]]\n\n [[0. 0.]\n  [0. 0.]]]");
  EXPECT_EQ(Print<float>({}, {0}), "[]");
  EXPECT_EQ(Print<float>({}, {2, 0}), "[]");
}

TEST(TensorPrint, LinesAreBroken) {
  std::vector<int64_t> values(40);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i) * 1000;
  EXPECT_EQ(Print(values),
            "[    0  1000  2000  3000  4000  5000  6000  7000  8000  9000 10000 11000\n"
            " 12000 13000 14000 15000 16000 17000 18000 19000 20000 21000 22000 23000\n"
            " 24000 25000 26000 27000 28000 29000 30000 31000 32000 33000 34000 35000\n"
            " 36000 37000 38000 39000]");
  std::vector<double> sevenths(7);
  for (size_t i = 0; i < sevenths.size(); ++i) sevenths[i] = static_cast<double>(i) / 7;
  EXPECT_EQ(Print(sevenths, {1, 1, 7}),
            "[[[0.         0.14285714 0.28571429 0.42857143 0.57142857 0.71428571\n"
            "   0.85714286]]]");
  // No line ends with the spaces of a column.
  std::vector<double> eighths(9, 0.5);
  eighths[0] = 0.123456789;
  EXPECT_EQ(Print(eighths),
            "[0.12345679 0.5        0.5        0.5        0.5        0.5\n"
            " 0.5        0.5        0.5       ]");
}

TEST(TensorPrint, TheMiddleOfManyElementsIsLeftOut) {
  std::vector<int32_t> values(2000);
  std::iota(values.begin(), values.end(), 0);
  EXPECT_EQ(Print(values), "[   0    1    2 ... 1997 1998 1999]");
  EXPECT_EQ(Print(values, {1000, 2}),
            "[[   0    1]\n [   2    3]\n [   4    5]\n ...\n [1994 1995]\n [1996 1997]\n [1998 1999]]");
}

TEST(TensorPrint, UninitializedTensorsSaySo) {
  EXPECT_EQ(Tensor::FromBuffer(DataType::kFloat, {2}, nullptr, nullptr).ToString(),
            "<uninitialized float of shape [2]>");
}

TEST(TensorPrint, StreamsTakeTensors) {
  std::ostringstream os;
  os << Tensor::Vector({1, 2});
  EXPECT_EQ(os.str(), "[1 2]");
}

}  // namespace
}  // namespace millrace
