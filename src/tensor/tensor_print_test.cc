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
}

TEST(TensorPrint, ComplexNumbersHaveTwoColumns) {
  EXPECT_EQ(Print<complex128>({{1, 2}, {-0.5, -1.25}}), "[ 1. +2.j   -0.5-1.25j]");
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
  EXPECT_EQ(Print<float>({}, {2, 0}), "[] of shape [2,0]");
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
