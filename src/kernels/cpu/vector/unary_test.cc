// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/unary.h"

#include <complex>
#include <functional>
#include <string>

#include "kernels/cpu/vector/vector_testing.h"

namespace millrace::cpu {
namespace {

using Reference = std::function<long double(long double)>;

struct Accuracy {
  UnaryOp op;
  double max_ulps;
  Reference reference;
};

long double Softplus(long double x) { return x > 60 ? x : std::log1p(std::exp(x)); }
long double Sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
long double Rint(long double x) { return std::nearbyint(x); }

// The measured maxima, rounded up; the errors of the vectorised functions are at most 2.7 units.
const std::vector<Accuracy>& Accuracies() {
  using L = long double;
  static const std::vector<Accuracy> all = {
      {UnaryOp::kAbs, 0, [](L x) { return std::fabs(x); }},
      {UnaryOp::kNeg, 0, [](L x) { return -x; }},
      {UnaryOp::kSign, 0, [](L x) { return L((x > 0) - (x < 0)); }},
      {UnaryOp::kSquare, 0.5, [](L x) { return x * x; }},
      {UnaryOp::kSqrt, 0.5, [](L x) { return std::sqrt(x); }},
      {UnaryOp::kRsqrt, 1.5, [](L x) { return 1 / std::sqrt(x); }},
      {UnaryOp::kReciprocal, 0.5, [](L x) { return 1 / x; }},
      {UnaryOp::kRound, 0, Rint},
      {UnaryOp::kRint, 0, Rint},
      {UnaryOp::kFloor, 0, [](L x) { return std::floor(x); }},
      {UnaryOp::kCeil, 0, [](L x) { return std::ceil(x); }},
      {UnaryOp::kExp, 1.1, [](L x) { return std::exp(x); }},
      {UnaryOp::kExpm1, 2.0, [](L x) { return std::expm1(x); }},
      {UnaryOp::kLog, 1.0, [](L x) { return std::log(x); }},
      {UnaryOp::kLog1p, 1.6, [](L x) { return std::log1p(x); }},
      {UnaryOp::kTanh, 5.5, [](L x) { return std::tanh(x); }},
      {UnaryOp::kSigmoid, 3.9, Sigmoid},
      {UnaryOp::kErf, 1.4, [](L x) { return std::erf(x); }},
      {UnaryOp::kErfc, 5, [](L x) { return std::erfc(x); }},
      {UnaryOp::kSin, 3, [](L x) { return std::sin(x); }},
      {UnaryOp::kCos, 3, [](L x) { return std::cos(x); }},
      {UnaryOp::kTan, 4, [](L x) { return std::tan(x); }},
      {UnaryOp::kAsin, 3, [](L x) { return std::asin(x); }},
      {UnaryOp::kAcos, 3, [](L x) { return std::acos(x); }},
      {UnaryOp::kAtan, 3, [](L x) { return std::atan(x); }},
      {UnaryOp::kSinh, 3, [](L x) { return std::sinh(x); }},
      {UnaryOp::kCosh, 3, [](L x) { return std::cosh(x); }},
      {UnaryOp::kAsinh, 3, [](L x) { return std::asinh(x); }},
      {UnaryOp::kAcosh, 3, [](L x) { return std::acosh(x); }},
      {UnaryOp::kAtanh, 3, [](L x) { return std::atanh(x); }},
      {UnaryOp::kRelu, 0, [](L x) { return x < 0 ? 0 : x; }},
      {UnaryOp::kRelu6, 0, [](L x) { return x < 0 ? 0 : (x > 6 ? 6 : x); }},
      {UnaryOp::kElu, 2.0, [](L x) { return x < 0 ? std::expm1(x) : x; }},
      {UnaryOp::kSelu, 3.0,
       [](L x) { return x < 0 ? 1.7580993408473768599L * std::expm1(x) : 1.0507009873554804935L * x; }},
      {UnaryOp::kSoftplus, 2.2, Softplus},
      {UnaryOp::kSoftsign, 1.5, [](L x) { return x / (1 + std::fabs(x)); }},
  };
  return all;
}

// By the recurrence up to 40 and the asymptotic series from there.
long double Digamma(long double x) {
  if (x <= 0) return std::numeric_limits<long double>::infinity();
  long double sum = 0;
  for (; x < 40; ++x) sum -= 1 / x;
  const long double w = 1 / (x * x);
  const long double series =
      w * (1.0L / 12 - w * (1.0L / 120 - w * (1.0L / 252 - w * (1.0L / 240 - w / 132))));
  return sum + (std::log(x) - 0.5L / x - series);
}

// I_order(a) e^-a, by the power series up to 40 and the asymptotic one from there.
long double ScaledBesselI(int order, long double x) {
  const long double a = std::fabs(x);
  if (std::isnan(a)) return a;
  long double term = order == 0 ? 1 : a / 2, sum = term;
  if (a <= 40) {
    for (int k = 1; k < 400; ++k) sum += term *= a * a / 4 / (static_cast<long double>(k) * (k + order));
    sum *= std::exp(-a);
  } else {
    term = sum = 1;
    for (int k = 1; k < 20; ++k) sum += term *= -(4.0L * order - (2.0L * k - 1) * (2 * k - 1)) / (8 * k * a);
    sum /= std::sqrt(2 * 3.14159265358979323846264L * a);
  }
  return order == 1 && std::signbit(x) ? -sum : sum;
}

// Functions of floats that are vectorised and whose double versions are a library's. For positive arguments.
const std::vector<Accuracy>& AccuraciesOfFloats() {
  using L = long double;
  static const std::vector<Accuracy> all = {
      {UnaryOp::kLgamma, 6, [](L x) { return std::lgamma(x); }},
      {UnaryOp::kDigamma, 6, Digamma},
      {UnaryOp::kBesselI0e, 4, [](L x) { return ScaledBesselI(0, x); }},
      {UnaryOp::kBesselI1e, 4, [](L x) { return ScaledBesselI(1, x); }},
  };
  return all;
}

// If x / (1 + |x|) and the like are infinity over infinity, so is the reference.
template <typename T>
void ExpectAccurate(DataType type, const std::vector<Accuracy>& accuracies, const std::vector<T>& in) {
  std::vector<T> out(in.size());
  for (const Accuracy& a : accuracies) {
    const UnaryFn function = FindUnary(a.op, type);
    ASSERT_NE(function, nullptr) << int(a.op);
    function(in.data(), out.data(), static_cast<int64_t>(in.size()));
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const long double expected = a.reference(in[i]);
      // Kernels flush denormal results to zero; this function does so itself.
      const bool is_flushed = a.op == UnaryOp::kSigmoid && out[i] == 0 && sizeof(T) == sizeof(float) &&
                              std::fabs(expected) < static_cast<long double>(std::numeric_limits<T>::min());
      const double error = is_flushed ? 0 : Ulps(out[i], expected);
      if (error > worst) {
        worst = error;
        at = i;
      }
    }
    EXPECT_LE(worst, a.max_ulps) << "op " << int(a.op) << " of " << in[at] << " gives " << out[at];
  }
}

class UnaryTest : public VectorTest {};

TEST_P(UnaryTest, FloatsAreWithinTheStatedError) {
  ExpectAccurate<float>(DataType::kFloat, Accuracies(), SweepOfFloats<float>());
}
TEST_P(UnaryTest, DoublesAreWithinTheStatedError) {
  ExpectAccurate<double>(DataType::kDouble, Accuracies(), SweepOfFloats<double>());
}
TEST_P(UnaryTest, SpecialFunctionsOfFloatsAreWithinTheStatedError) {
  std::vector<float> in = SweepOfFloats<float>();
  std::erase_if(in, [](float x) { return std::signbit(x); });
  // Near the zeros of lgamma and of digamma, and at the boundaries of formulas.
  for (const float x : {0.5f, 1.0f, 1.4616321f, 1.5f, 2.0f, 2.5f, 6.0f, 8.0f, 10.0f}) {
    float low = x, high = x;
    for (int i = 0; i < 200; ++i) {
      in.push_back(low = std::nextafter(low, 0.0f));
      in.push_back(high = std::nextafter(high, 20.0f));
    }
  }
  ExpectAccurate<float>(DataType::kFloat, AccuraciesOfFloats(), in);
}
// For lanes that are not positive the double version is used.
TEST_P(UnaryTest, SpecialFunctionsOfMixedSigns) {
  std::vector<float> in;
  for (int i = -400; i < 400; ++i) in.push_back(static_cast<float>(i) / 16);
  std::vector<float> out(in.size());
  for (const UnaryOp op : {UnaryOp::kLgamma, UnaryOp::kDigamma, UnaryOp::kErfc, UnaryOp::kBesselI1e}) {
    FindUnary(op, DataType::kFloat)(in.data(), out.data(), static_cast<int64_t>(in.size()));
    for (size_t i = 0; i < in.size(); ++i) {
      const double x = in[i];
      double want;
      FindUnary(op, DataType::kDouble)(&x, &want, 1);
      EXPECT_LE(Ulps(out[i], want), 6) << static_cast<int>(op) << " of " << x;
    }
  }
}

template <typename T>
void ExpectSpecialValues(DataType type) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  const struct {
    UnaryOp op;
    T in, want;
  } cases[] = {
      {UnaryOp::kExp, kInf, kInf},      {UnaryOp::kExp, -kInf, 0},
      {UnaryOp::kExp, -T(0), 1},        {UnaryOp::kExpm1, -T(0), -T(0)},
      {UnaryOp::kExpm1, -kInf, -1},     {UnaryOp::kExpm1, kInf, kInf},
      {UnaryOp::kLog, 0, -kInf},        {UnaryOp::kLog, -T(0), -kInf},
      {UnaryOp::kLog, -1, kNan},        {UnaryOp::kLog, 1, 0},
      {UnaryOp::kLog, kInf, kInf},      {UnaryOp::kLog, -kInf, kNan},
      {UnaryOp::kLog1p, -1, -kInf},     {UnaryOp::kLog1p, -2, kNan},
      {UnaryOp::kLog1p, -T(0), -T(0)},  {UnaryOp::kLog1p, kInf, kInf},
      {UnaryOp::kTanh, kInf, 1},        {UnaryOp::kTanh, -kInf, -1},
      {UnaryOp::kTanh, -T(0), -T(0)},   {UnaryOp::kSigmoid, kInf, 1},
      {UnaryOp::kSigmoid, -kInf, 0},    {UnaryOp::kErf, kInf, 1},
      {UnaryOp::kErf, -kInf, -1},       {UnaryOp::kErf, -T(0), -T(0)},
      {UnaryOp::kSin, kInf, kNan},      {UnaryOp::kCos, -kInf, kNan},
      {UnaryOp::kSin, -T(0), -T(0)},    {UnaryOp::kRsqrt, 0, kInf},
      {UnaryOp::kRsqrt, -T(0), -kInf},  {UnaryOp::kReciprocal, -T(0), -kInf},
      {UnaryOp::kSqrt, -T(0), -T(0)},   {UnaryOp::kFloor, -T(0), -T(0)},
      {UnaryOp::kCeil, T(-0.5), -T(0)}, {UnaryOp::kRint, T(-0.5), -T(0)},
      {UnaryOp::kRint, T(2.5), 2},      {UnaryOp::kRound, T(3.5), 4},
      {UnaryOp::kFloor, kInf, kInf},    {UnaryOp::kRelu, -T(0), -T(0)},
      {UnaryOp::kRelu, -kInf, 0},       {UnaryOp::kRelu6, kInf, 6},
      {UnaryOp::kElu, -kInf, -1},       {UnaryOp::kSoftplus, kInf, kInf},
      {UnaryOp::kSoftplus, -kInf, 0},   {UnaryOp::kSign, -kInf, -1},
      {UnaryOp::kAbs, -T(0), 0},        {UnaryOp::kTan, -T(0), -T(0)},
      {UnaryOp::kTan, kInf, kNan},      {UnaryOp::kAsin, -T(0), -T(0)},
      {UnaryOp::kAsin, T(1.5), kNan},   {UnaryOp::kAcos, 1, 0},
      {UnaryOp::kAcos, T(-1.5), kNan},  {UnaryOp::kAsin, -kInf, kNan},
      {UnaryOp::kAtan, -T(0), -T(0)},   {UnaryOp::kAtan, kInf, T(1.57079632679489661923L)},
  };
  for (const auto& c : cases) {
    T out;
    FindUnary(c.op, type)(&c.in, &out, 1);
    EXPECT_TRUE(Same(out, c.want)) << "op " << int(c.op) << " of " << c.in << ": " << out << ", not "
                                   << c.want;
  }
  // All functions of floats except the sign return NaN for NaN.
  for (int op = 0; op < static_cast<int>(UnaryOp::kIsNan); ++op) {
    if (static_cast<UnaryOp>(op) == UnaryOp::kSign) continue;
    T out;
    FindUnary(static_cast<UnaryOp>(op), type)(&kNan, &out, 1);
    EXPECT_TRUE(std::isnan(out)) << op;
  }
}

TEST_P(UnaryTest, SpecialValuesOfFloats) { ExpectSpecialValues<float>(DataType::kFloat); }
TEST_P(UnaryTest, SpecialValuesOfDoubles) { ExpectSpecialValues<double>(DataType::kDouble); }

template <typename T>
void ExpectPlaceDoesNotMatter(DataType type) {
  std::minstd_rand random(7);
  std::vector<T> in(140);
  for (T& x : in) x = static_cast<T>(static_cast<int>(random() % 40001) - 20000) / 1999;
  in[3] = 9000.5;  // beyond the fast sine
  for (int op = 0; op < static_cast<int>(UnaryOp::kIsNan); ++op) {
    const UnaryFn function = FindUnary(static_cast<UnaryOp>(op), type);
    std::vector<T> want(in.size());
    for (size_t i = 0; i < in.size(); ++i) function(&in[i], &want[i], 1);
    for (int64_t n = 0; n <= 130; ++n) {
      const int64_t offset = n % 7;
      std::vector<T> out(in.size(), T(-77));
      function(in.data() + offset, out.data() + offset + 1, n);
      for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
        const bool inside = i > offset && i <= offset + n;
        ASSERT_TRUE(Same(out[i], inside ? want[i - 1] : T(-77))) << "op " << op << " n " << n << " at " << i;
      }
    }
    std::vector<T> in_place = in;
    function(in_place.data(), in_place.data(), static_cast<int64_t>(in_place.size()));
    for (size_t i = 0; i < in.size(); ++i) ASSERT_TRUE(Same(in_place[i], want[i])) << op;
  }
}

TEST_P(UnaryTest, TheBitsOfAFloatDoNotDependOnItsPlace) { ExpectPlaceDoesNotMatter<float>(DataType::kFloat); }
TEST_P(UnaryTest, TheBitsOfADoubleDoNotDependOnItsPlace) {
  ExpectPlaceDoesNotMatter<double>(DataType::kDouble);
}

TEST_P(UnaryTest, ClassifiesFloats) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> in(37, 1.0f);
  in[0] = in[33] = NAN;
  in[1] = inf;
  in[36] = -inf;
  in[2] = std::numeric_limits<float>::max();
  std::vector<uint8_t> nan(in.size()), infinite(in.size()), finite(in.size());
  FindUnary(UnaryOp::kIsNan, DataType::kFloat)(in.data(), nan.data(), 37);
  FindUnary(UnaryOp::kIsInf, DataType::kFloat)(in.data(), infinite.data(), 37);
  FindUnary(UnaryOp::kIsFinite, DataType::kFloat)(in.data(), finite.data(), 37);
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(nan[i], std::isnan(in[i])) << i;
    EXPECT_EQ(infinite[i], std::isinf(in[i])) << i;
    EXPECT_EQ(finite[i], std::isfinite(in[i])) << i;
  }
  EXPECT_TRUE(UnaryResultType(UnaryOp::kIsNan, DataType::kFloat) == DataType::kBool);
}

TEST_P(UnaryTest, HalfTypesAreRoundedFromFloat) {
  // 1.5 and -2 in either format.
  const uint16_t halfs[] = {0x3e00, 0xc000}, bfloats[] = {0x3fc0, 0xc000};
  uint16_t out[2];
  FindUnary(UnaryOp::kSquare, DataType::kHalf)(halfs, out, 2);
  EXPECT_EQ(out[0], 0x4080);  // 2.25
  EXPECT_EQ(out[1], 0x4400);  // 4
  FindUnary(UnaryOp::kNeg, DataType::kBfloat16)(bfloats, out, 2);
  EXPECT_EQ(out[0], 0xbfc0);
  EXPECT_EQ(out[1], 0x4000);
  std::vector<uint16_t> many(1500, 0x7e00);
  std::vector<uint8_t> nan(1500);
  FindUnary(UnaryOp::kIsNan, DataType::kHalf)(many.data(), nan.data(), 1500);
  EXPECT_EQ(std::count(nan.begin(), nan.end(), 1), 1500);
}

TEST_P(UnaryTest, LogGammaAndDigamma) {
  const double x[] = {0.5, 1, 2, 10, 123.25, -0.5, -3.75};
  // From the tables of the functions, to 17 digits.
  const double digamma[] = {-1.9635100260214235, -0.57721566490153286, 0.42278433509846714,
                            2.2517525890667211,  4.8101525319648189,   0.036489973978576521,
                            -1.6923885983113303};
  double out[7];
  FindUnary(UnaryOp::kDigamma, DataType::kDouble)(x, out, 7);
  for (int i = 0; i < 7; ++i)
    EXPECT_NEAR(out[i], digamma[i], 4e-15 * std::max(1.0, std::fabs(digamma[i]))) << x[i];
  FindUnary(UnaryOp::kLgamma, DataType::kDouble)(x, out, 7);
  for (int i = 0; i < 7; ++i) EXPECT_NEAR(out[i], std::lgamma(x[i]), 1e-15) << x[i];
  const double special[] = {0, -0.0, -1, std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity()};
  FindUnary(UnaryOp::kDigamma, DataType::kDouble)(special, out, 5);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(out[i], std::numeric_limits<double>::infinity()) << special[i];
}

TEST_P(UnaryTest, IntegersWrap) {
  const int32_t in[] = {std::numeric_limits<int32_t>::min(), -7, 0, 7, 65536};
  int32_t out[5];
  FindUnary(UnaryOp::kAbs, DataType::kInt32)(in, out, 5);
  EXPECT_EQ(out[0], std::numeric_limits<int32_t>::min());
  EXPECT_EQ(out[1], 7);
  FindUnary(UnaryOp::kSquare, DataType::kInt32)(in, out, 5);
  EXPECT_EQ(out[1], 49);
  EXPECT_EQ(out[4], 0);
  FindUnary(UnaryOp::kSign, DataType::kInt32)(in, out, 5);
  EXPECT_EQ(out[0], -1);
  EXPECT_EQ(out[2], 0);
  const uint16_t wide[] = {65535};
  uint16_t square;
  FindUnary(UnaryOp::kSquare, DataType::kUint16)(wide, &square, 1);
  EXPECT_EQ(square, 1);
  EXPECT_EQ(FindUnary(UnaryOp::kExp, DataType::kInt32), nullptr);
  EXPECT_EQ(FindUnary(UnaryOp::kAbs, DataType::kString), nullptr);
}

TEST_P(UnaryTest, LogicalNotOfAnyByte) {
  const uint8_t in[] = {0, 1, 2};
  uint8_t out[3];
  FindUnary(UnaryOp::kLogicalNot, DataType::kBool)(in, out, 3);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], 0);
  EXPECT_EQ(out[2], 0);
}

TEST_P(UnaryTest, ComplexNumbers) {
  using C = std::complex<double>;
  const C in[] = {{3, -4}, {1e-12, 1e-12}, {0, 0}};
  double real[3];
  FindUnary(UnaryOp::kAbs, DataType::kComplex128)(in, real, 3);
  EXPECT_EQ(real[0], 5);
  EXPECT_TRUE(UnaryResultType(UnaryOp::kAbs, DataType::kComplex128) == DataType::kDouble);
  C out[3];
  FindUnary(UnaryOp::kConj, DataType::kComplex128)(in, out, 3);
  EXPECT_EQ(out[0], C(3, 4));
  FindUnary(UnaryOp::kSquare, DataType::kComplex128)(in, out, 3);
  EXPECT_EQ(out[0], C(-7, -24));
  FindUnary(UnaryOp::kSign, DataType::kComplex128)(in, out, 3);
  EXPECT_EQ(out[2], C(0));
  for (const UnaryOp op : {UnaryOp::kExpm1, UnaryOp::kLog1p}) {  // both are x near 0
    FindUnary(op, DataType::kComplex128)(in, out, 3);
    EXPECT_NEAR(out[1].real(), 1e-12, 1e-23);
    EXPECT_NEAR(out[1].imag(), 1e-12, 1e-23);
  }
}

TEST_P(UnaryTest, RunSplitsWithoutChangingAnything) {
  std::vector<float> in(100003), whole(in.size()), split(in.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 977) * 0.01f - 4;
  const UnaryFn tanh = FindUnary(UnaryOp::kTanh, DataType::kFloat);
  tanh(in.data(), whole.data(), static_cast<int64_t>(in.size()));
  UnevenParallel parallel(3);
  RunUnary(tanh, in.data(), 4, split.data(), 4, static_cast<int64_t>(in.size()), 0.5, parallel);
  EXPECT_EQ(whole, split);
}

INSTANTIATE_TEST_SUITE_P(Isa, UnaryTest, EachIsa(), IsaName);

}  // namespace
}  // namespace millrace::cpu
