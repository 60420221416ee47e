// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Compares with integrals and sums by definition, and with identities.
#include "kernels/cpu/vector/special.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/vector/special_rows.h"

namespace millrace::cpu {
namespace {

using L = long double;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The integral of f over [from, to] by the tanh-sinh rule, which handles poles at the ends.
template <typename F>
L Integral(F f, L from, L to) {
  const L middle = (from + to) / 2, half = (to - from) / 2, h = 1.0L / 128;
  L sum = 0;
  for (int k = -700; k <= 700; ++k) {
    const L t = k * h, u = M_PIl / 2 * std::sinh(t);
    const L x = middle + half * std::tanh(u), cosh = std::cosh(u);
    const L weight = half * M_PIl / 2 * std::cosh(t) / (cosh * cosh);
    if (x <= from || x >= to || weight == 0) continue;
    sum += f(x) * weight;
  }
  return sum * h;
}

// From 0, where f may have a pole: the substitution t = to s^10 flattens it.
template <typename F>
L IntegralFromZero(F f, L to) {
  return Integral([&](L s) { return f(to * std::pow(s, 10.0L)) * to * 10 * std::pow(s, 9.0L); }, 0, 1);
}

void ExpectClose(double got, L want, double tolerance, const char* what) {
  EXPECT_NEAR(got, static_cast<double>(want), tolerance * (std::fabs(static_cast<double>(want)) + 1e-6))
      << what;
}

TEST(SpecialTest, IncompleteGammasAreTheirIntegrals) {
  for (const double a : {0.3, 0.9, 1.0, 2.5, 7.0, 40.0, 300.0, 9999.0, 20000.0}) {
    for (const double z : {-3.0, -1.0, -0.1, 0.0, 0.2, 1.5, 4.0}) {
      const double x = a + z * std::sqrt(a);
      if (x <= 0) continue;
      const L log_gamma = std::lgamma(static_cast<L>(a));
      const auto density = [&](L t) { return std::exp((a - 1) * std::log(t) - t - log_gamma); };
      // Almost all of it is within 12 deviations.
      const L begin = static_cast<L>(a) - 12 * std::sqrt(static_cast<L>(a));
      const L p = a < 200 ? IntegralFromZero(density, x) : Integral(density, begin, x);
      SCOPED_TRACE(testing::Message() << "a " << a << " x " << x);
      ExpectClose(Igamma(a, x), p, 1e-9, "P");
      ExpectClose(Igammac(a, x), 1 - p, 1e-7, "Q");
      EXPECT_NEAR(Igamma(a, x) + Igammac(a, x), 1, 1e-14);
    }
  }
  EXPECT_EQ(Igamma(2, 0), 0);
  EXPECT_EQ(Igammac(2, 0), 1);
  EXPECT_EQ(Igamma(2, kInf), 1);
  EXPECT_NEAR(Igammac(1, 30) / std::exp(-30.0), 1, 1e-13);
  EXPECT_NEAR(Igamma(1, 1e-10) / -std::expm1(-1e-10), 1, 1e-13);
  for (const auto& [a, x] : {std::pair(0.0, 1.0), std::pair(-1.0, 1.0), std::pair(1.0, -1.0),
                             std::pair(kNan, 1.0), std::pair(1.0, kNan)}) {
    EXPECT_TRUE(std::isnan(Igamma(a, x)));
    EXPECT_TRUE(std::isnan(Igammac(a, x)));
    EXPECT_TRUE(std::isnan(IgammaGradA(a, x)));
    EXPECT_TRUE(std::isnan(GammaSampleGrad(a, x)));
  }
  // Terminates for any argument.
  EXPECT_NEAR(Igamma(1e15, 1e15), 0.5, 1e-6);
  EXPECT_EQ(Igamma(1e300, 1), 0);
  EXPECT_EQ(Igamma(1, 1e300), 1);
}

TEST(SpecialTest, SlopesInAOfIncompleteGammasAreTheirDifferences) {
  for (const double a : {0.3, 1.0, 2.5, 7.0, 40.0, 300.0, 9000.0, 20000.0}) {
    for (const double z : {-2.0, -0.5, 0.0, 0.7, 3.0}) {
      const double x = a + z * std::sqrt(a);
      if (x <= 0) continue;
      const double h = 1e-3 * std::sqrt(a);
      const auto p = [&](double steps) { return Igamma(a + steps * h, x); };
      const double slope = (8 * (p(1) - p(-1)) - (p(2) - p(-2))) / (12 * h);
      SCOPED_TRACE(testing::Message() << "a " << a << " x " << x);
      ExpectClose(IgammaGradA(a, x), slope, 1e-7, "slope");
      const double density = std::exp((a - 1) * std::log(x) - x - std::lgamma(a));
      ExpectClose(GammaSampleGrad(a, x), -slope / density, 1e-6, "sample");
    }
  }
  EXPECT_NEAR(GammaSampleGrad(1e8, 1e8), 1, 1e-3);
  EXPECT_EQ(IgammaGradA(1, 1e300), 0);
  EXPECT_FALSE(std::isnan(GammaSampleGrad(1, 1e300)));
}

TEST(SpecialTest, TheIncompleteBetaIsItsIntegral) {
  for (const double a : {0.3, 1.0, 2.5, 30.0}) {
    for (const double b : {0.2, 1.0, 4.0, 50.0}) {
      const L log_beta = std::lgamma(static_cast<L>(a)) + std::lgamma(static_cast<L>(b)) -
                         std::lgamma(static_cast<L>(a) + b);
      for (const double x : {0.01, 0.3, 0.5, 0.8, 0.95}) {
        const auto density = [&](L t) {
          return std::exp((a - 1) * std::log(t) + (b - 1) * std::log1p(-t) - log_beta);
        };
        SCOPED_TRACE(testing::Message() << a << " " << b << " " << x);
        EXPECT_NEAR(Betainc(a, b, x), static_cast<double>(IntegralFromZero(density, x)), 1e-9);
        EXPECT_NEAR(Betainc(a, b, x) + Betainc(b, a, 1 - x), 1, 1e-12);
      }
    }
  }
  EXPECT_EQ(Betainc(2, 3, 0), 0);
  EXPECT_EQ(Betainc(2, 3, 1), 1);
  for (const double bad : {-0.1, 1.1, kNan}) EXPECT_TRUE(std::isnan(Betainc(2, 3, bad)));
  EXPECT_TRUE(std::isnan(Betainc(0, 3, 0.5)));
  EXPECT_NEAR(Betainc(1e12, 1e12, 0.5), 0.5, 0.01);
}

TEST(SpecialTest, ZetaIsItsSum) {
  for (const double x : {1.5, 2.0, 3.7, 10.0, 60.0}) {
    for (const double q : {0.1, 1.0, 2.5, 9.0, 100.0}) {
      // The rest of the sum is an integral, except for derivatives at its start.
      constexpr int kTerms = 20000;
      L sum = 0;
      for (int k = kTerms - 1; k >= 0; --k) sum += std::pow(static_cast<L>(q) + k, -static_cast<L>(x));
      const L end = static_cast<L>(q) + kTerms;
      const L tail = std::pow(end, 1 - static_cast<L>(x)) / (x - 1) + std::pow(end, -static_cast<L>(x)) / 2 +
                     x * std::pow(end, -static_cast<L>(x) - 1) / 12;
      SCOPED_TRACE(testing::Message() << x << " " << q);
      EXPECT_NEAR(Zeta(x, q) / static_cast<double>(sum + tail), 1, 1e-13);
    }
  }
  EXPECT_NEAR(Zeta(2, 1), M_PI * M_PI / 6, 1e-14);
  for (const double x : {2.0, 3.0, 4.0}) {  // below 0 by recurrence
    L sum = Zeta(x, 0.25);
    for (const double term : {-0.75, -1.75, -2.75}) sum += std::pow(static_cast<L>(term), -static_cast<L>(x));
    EXPECT_NEAR(Zeta(x, -2.75), static_cast<double>(sum), 1e-12);
  }
  EXPECT_TRUE(std::isfinite(Zeta(2, -1e15 + 0.5)));
  EXPECT_EQ(Zeta(1, 2), kInf);
  EXPECT_EQ(Zeta(2, 0), kInf);
  EXPECT_EQ(Zeta(2, -3), kInf);
  EXPECT_TRUE(std::isnan(Zeta(0.5, 2)));
  EXPECT_TRUE(std::isnan(Zeta(2.5, -0.5)));
  EXPECT_TRUE(std::isnan(Zeta(2, kNan)));
}

TEST(SpecialTest, PolygammasAreDifferencesOfEachOther) {
  for (const double n : {0.0, 1.0, 2.0, 5.0}) {
    for (const double x : {0.4, 1.0, 3.5, 20.0, -0.7, -3.3}) {
      const double h = 1e-3 * std::min(1.0, std::fabs(x));
      const auto f = [&](double steps) { return Polygamma(n, x + steps * h); };
      const double slope = (8 * (f(1) - f(-1)) - (f(2) - f(-2))) / (12 * h);
      EXPECT_NEAR(Polygamma(n + 1, x) / slope, 1, 1e-7) << n << " " << x;
    }
  }
  EXPECT_NEAR(Polygamma(1, 1), M_PI * M_PI / 6, 1e-14);
  EXPECT_EQ(Polygamma(0, 3.5), Digamma(3.5));
  EXPECT_TRUE(std::isnan(Polygamma(1.5, 1)));
  EXPECT_TRUE(std::isnan(Polygamma(-1, 1)));
}

TEST(SpecialTest, BesselFunctionsAreTheirIntegrals) {
  // I_n(x) = the mean of e^(x cos t) cos(n t); the trapezoid rule is exact for periodic functions.
  for (const double x : {0.0, 1e-3, 0.5, 3.0, 12.0, 19.9, 20.1, 80.0, 700.0}) {
    constexpr int kPoints = 2000;
    L i0 = 0, i1 = 0;
    for (int k = 0; k < kPoints; ++k) {
      const L t = 2 * M_PIl * k / kPoints;
      i0 += std::exp(x * (std::cos(t) - 1));
      i1 += std::exp(x * (std::cos(t) - 1)) * std::cos(t);
    }
    ExpectClose(BesselI0e(x), i0 / kPoints, 1e-14, "I0e");
    ExpectClose(BesselI1e(x), i1 / kPoints, 1e-13, "I1e");
    EXPECT_EQ(BesselI0e(-x), BesselI0e(x));
    EXPECT_EQ(BesselI1e(-x), -BesselI1e(x));
  }
  EXPECT_EQ(BesselI0e(kInf), 0);
  EXPECT_TRUE(std::isnan(BesselI0e(kNan)));
  EXPECT_TRUE(std::isnan(BesselI1e(kNan)));
}

// All pairs of these, so that series, fractions and extreme arguments are mixed in one row.
TEST(SpecialRowsTest, RowsAreTheFunctionsOfTheirElements) {
  const std::vector<double> values = {1e-200, 1e-9,  0.1, 0.5, 0.99, 1.0,  1.5,  2.0,  3.0,   7.25, 20.0,
                                      150.0,  999.0, 9e3, 2e4, 0.0,  -0.5, -2.0, kInf, -kInf, kNan, 0.3};
  std::vector<double> a, b, c;
  for (const double x : values) {
    for (const double y : values) {
      a.push_back(x);
      b.push_back(y);
      c.push_back(std::fmod(0.37 * static_cast<double>(a.size()), 1.2) - 0.1);
    }
  }
  std::vector<double> out(a.size());
  const auto check = [&](const char* name, double tolerance, auto one) {
    for (size_t i = 0; i < a.size(); ++i) {
      const double want = one(i);
      SCOPED_TRACE(testing::Message() << name << ' ' << a[i] << ' ' << b[i] << ' ' << c[i]);
      if (std::isnan(want) || std::isinf(want)) {
        EXPECT_EQ(std::isnan(want), std::isnan(out[i]));
        EXPECT_TRUE(std::isnan(want) || out[i] == want);
      } else {
        EXPECT_NEAR(out[i], want, tolerance * std::abs(want) + 1e-14);
      }
    }
  };
  const auto n = static_cast<int64_t>(a.size());
  IgammaRow(a.data(), b.data(), out.data(), n);
  check("igamma", 1e-11, [&](size_t i) { return Igamma(a[i], b[i]); });
  IgammacRow(a.data(), b.data(), out.data(), n);
  check("igammac", 1e-10, [&](size_t i) { return Igammac(a[i], b[i]); });
  IgammaGradARow(a.data(), b.data(), out.data(), n);
  check("slope", 1e-9, [&](size_t i) { return IgammaGradA(a[i], b[i]); });
  BetaincRow(a.data(), b.data(), c.data(), out.data(), n);
  check("betainc", 1e-9, [&](size_t i) { return Betainc(a[i], b[i], c[i]); });
  ZetaRow(a.data(), b.data(), out.data(), n);
  check("zeta", 1e-10, [&](size_t i) { return Zeta(a[i], b[i]); });
  PolygammaRow(a.data(), b.data(), out.data(), n);
  check("polygamma", 1e-10, [&](size_t i) { return Polygamma(a[i], b[i]); });
}

TEST(SpecialRowsTest, AnElementDoesNotDependOnTheOthers) {
  const double a[] = {0.5, 900, 0.25, 3, 1e-9, 80, 7, 0.125, 12},
               x[] = {0.25, 880, 0.5, 9, 3, 95, 2, 0.1, 12};
  double row[9], one;
  IgammaGradARow(a, x, row, 9);
  for (int i = 0; i < 9; ++i) {
    IgammaGradARow(a + i, x + i, &one, 1);
    EXPECT_EQ(row[i], one) << i;
  }
}

}  // namespace
}  // namespace millrace::cpu
