// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/special.h"

#include <math.h>  // lgamma_r

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace millrace::cpu {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon() / 2;
// Enough for any a below kLarge; the required number grows with the root of a.
constexpr int kMaxTerms = 20000;
constexpr double kLarge = 1e4;
// For x below this, e^x is 0, also with a factor.
constexpr double kLogOfNothing = -800;

double Lgamma(double x) {
  int sign;  // std::lgamma writes it to a global
  return lgamma_r(x, &sign);
}

template <int n>
double Polynomial(double x, const double (&c)[n]) {
  double y = c[n - 1];
  for (int i = n - 2; i >= 0; --i) y = y * x + c[i];
  return y;
}

// A value and its derivative in a.
struct Dual {
  double value;
  double slope;
};

// P(a, x) / (x^a e^-x / Gamma(a + 1)): the sum of x^n / ((a + 1) ... (a + n)).
Dual Series(double a, double x) {
  Dual sum{1, 0};
  double term = 1, slope = 0;
  for (int n = 1; n < kMaxTerms; ++n) {
    const double factor = x / (a + n);
    slope = (slope - term / (a + n)) * factor;
    term *= factor;
    sum.value += term;
    sum.slope += slope;
    if (term <= kEpsilon * sum.value && std::abs(slope) <= kEpsilon * std::abs(sum.slope)) break;
  }
  return sum;
}

// Q(a, x) / (x^a e^-x / Gamma(a)): the continued fraction 1/(x+1-a - 1(1-a)/(x+3-a - ...)), by its
// convergents.
Dual Fraction(double a, double x) {
  // Numerators and denominators of the last two convergents, and their derivatives.
  Dual p0{0, 0}, q0{1, 0}, p1{1, 0}, q1{x + 1 - a, -1};
  Dual result{p1.value / q1.value, 1 / (q1.value * q1.value)};
  for (int n = 1; n < kMaxTerms; ++n) {
    const double b = x + 2 * n + 1 - a, c = -n * (n - a);  // slopes: -1 and n
    const auto next = [&](const Dual& last, const Dual& before) {
      return Dual{b * last.value + c * before.value,
                  b * last.slope - last.value + c * before.slope + n * before.value};
    };
    const Dual p2 = next(p1, p0), q2 = next(q1, q0);
    p0 = p1;
    q0 = q1;
    p1 = p2;
    q1 = q2;
    const double scale = 1 / std::max(std::abs(q1.value), std::abs(q1.slope));
    for (Dual* d : {&p0, &q0, &p1, &q1}) *d = {d->value * scale, d->slope * scale};
    if (q1.value == 0) continue;
    const double value = p1.value / q1.value;
    const Dual now{value, (p1.slope - value * q1.slope) / q1.value};
    const bool done = std::abs(now.value - result.value) <= kEpsilon * std::abs(now.value) &&
                      std::abs(now.slope - result.slope) <= 4 * kEpsilon * std::abs(now.slope);
    result = now;
    if (done || std::isnan(value)) break;
  }
  return result;
}

// P and Q for large a, by Temme's uniform expansion ("The Asymptotic Expansion of the Incomplete Gamma
// Functions").
struct Tails {
  double p;
  double q;
};
Tails LargeIgamma(double a, double x) {
  static constexpr double kC0[] = {-0.33333333333333333,   0.083333333333333333,    -0.014814814814814815,
                                   0.0011574074074074074,  0.0003527336860670194,   -0.00017875514403292181,
                                   0.39192631785224378e-4, -0.21854485106799922e-5, -0.185406221071516e-5,
                                   0.8296711340953086e-6,  -0.17665952736826079e-6, 0.67078535434014986e-8};
  static constexpr double kC1[] = {-0.0018518518518518519, -0.0034722222222222222, 0.0026455026455026455,
                                   -0.00099022633744855967, 0.00020576131687242798};
  static constexpr double kC2 = 0.0041335978835978836;
  const double sigma = (x - a) / a;
  // sigma - log(1 + sigma), without cancellation.
  double phi;
  if (std::abs(sigma) < 0.05) {
    double term = sigma * sigma;
    phi = 0;
    for (int k = 2; k < 16; ++k, term *= -sigma) phi += term / k;
  } else {
    phi = sigma - std::log1p(sigma);
  }
  const double y = a * phi;
  if (y > 800 || !(sigma < 10)) return x > a ? Tails{1, 0} : Tails{0, 1};
  const double eta = std::copysign(std::sqrt(2 * phi), sigma);
  const double rest =
      std::exp(-y) / std::sqrt(2 * M_PI * a) * (Polynomial(eta, kC0) + (Polynomial(eta, kC1) + kC2 / a) / a);
  const double half = std::erfc(std::sqrt(y)) / 2;
  if (x < a) return {half - rest, 1 - (half - rest)};
  return {1 - (half + rest), half + rest};
}

bool InIgammaDomain(double a, double x) { return a > 0 && x >= 0; }
bool UsesFraction(double a, double x) { return x > 1 && x > a; }

Tails BothIgammas(double a, double x) {
  if (std::isinf(x)) return std::isinf(a) ? Tails{kNan, kNan} : Tails{1, 0};
  if (std::isinf(a)) return {0, 1};
  if (x == 0) return {0, 1};
  if (a >= kLarge) return LargeIgamma(a, x);
  const double power = a * std::log(x) - x;
  if (power - Lgamma(a + 1) < kLogOfNothing) return x > a ? Tails{1, 0} : Tails{0, 1};
  if (UsesFraction(a, x)) {
    const double q = std::exp(power - Lgamma(a)) * Fraction(a, x).value;
    return {1 - q, q};
  }
  const double p = std::exp(power - Lgamma(a + 1)) * Series(a, x).value;
  return {p, 1 - p};
}

// The continued fraction of the incomplete beta function, by Lentz's method.
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto nonzero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / nonzero(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / nonzero(1 + even * d);
    c = nonzero(1 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / nonzero(1 + odd * d);
    c = nonzero(1 + odd / c);
    h *= d * c;
    if (std::abs(d * c - 1) <= 2 * kEpsilon || std::isnan(h)) break;
  }
  return h;
}

// By the Euler-Maclaurin sum, for q > 0.
double PositiveZeta(double x, double q) {
  // The values (2k)! / B_2k.
  static constexpr double kFactors[] = {12,
                                        -720,
                                        30240,
                                        -1209600,
                                        47900160,
                                        -1.8924375803183791606e9,
                                        7.47242496e10,
                                        -2.950130727918164224e12,
                                        1.1646782814350067249e14,
                                        -4.5979787224074726105e15};
  constexpr int kTerms = 12;
  double sum = 0, a = q;
  for (int i = 0; i < kTerms; ++i, a += 1) {
    const double term = std::pow(a, -x);
    sum += term;
    if (term <= kEpsilon * sum) return sum;
  }
  const double last = std::pow(a, -x);
  sum += last * a / (x - 1) + last / 2;
  double factor = x, power = last / a;
  for (int k = 0; k < 10; ++k) {
    const double term = factor * power / kFactors[k];
    sum += term;
    if (std::abs(term) <= kEpsilon * std::abs(sum)) break;
    factor *= (x + 2 * k + 1) * (x + 2 * k + 2);
    power /= a * a;
  }
  return sum;
}

// I_order(x) e^-x for x >= 0: the power series, whose terms are positive, and for large x the asymptotic one.
double BesselIe(int order, double x) {
  if (x < 20) {
    const double square = x * x / 4;
    double term = order == 0 ? 1 : x / 2, sum = term;
    for (int k = 1; k < 200 && term > kEpsilon * sum; ++k) {
      term *= square / (static_cast<double>(k) * (k + order));
      sum += term;
    }
    return sum * std::exp(-x);
  }
  const double mu = 4.0 * order * order;
  double term = 1, sum = 1;
  for (int k = 1; k < 40 && std::abs(term) > kEpsilon; ++k) {
    term *= ((2.0 * k - 1) * (2.0 * k - 1) - mu) / (8 * x * k);
    sum += term;
  }
  return std::isinf(x) ? 0 : sum / std::sqrt(2 * M_PI * x);
}

}  // namespace

// Reflection for x <= 0, recurrence up to 10, then the asymptotic series in 1/x^2.
double Digamma(double x) {
  if (std::isnan(x)) return x;
  // At the poles TensorFlow returns infinity, whatever the side.
  if (x <= 0 && std::floor(x) == x) return kInf;
  double result = 0;
  if (x < 0) {
    const double fraction = x - std::floor(x);
    result = -M_PI / std::tan(M_PI * fraction);
    x = 1 - x;
  }
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  if (std::isinf(x)) return result + x;
  const double z = 1 / (x * x);
  // Bernoulli numbers B_2k / 2k.
  const double series =
      z * (1.0 / 12 -
           z * (1.0 / 120 -
                z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z * (1.0 / 12)))))));
  return result + std::log(x) - 0.5 / x - series;
}

double Igamma(double a, double x) { return InIgammaDomain(a, x) ? BothIgammas(a, x).p : kNan; }
double Igammac(double a, double x) { return InIgammaDomain(a, x) ? BothIgammas(a, x).q : kNan; }

double IgammaGradA(double a, double x) {
  if (!InIgammaDomain(a, x)) return kNan;
  if (x == 0 || std::isinf(x) || std::isinf(a)) return 0;
  if (a >= kLarge) {
    // P changes on the scale of the root of a: differences of fourth order.
    const double h = 0.01 * std::sqrt(a);
    const auto p = [&](double steps) { return LargeIgamma(a + steps * h, x).p; };
    return (8 * (p(1) - p(-1)) - (p(2) - p(-2))) / (12 * h);
  }
  const double power = a * std::log(x) - x;
  if (power - Lgamma(a + 1) < kLogOfNothing) return 0;
  if (UsesFraction(a, x)) {
    const Dual f = Fraction(a, x);
    return -std::exp(power - Lgamma(a)) * (f.value * (std::log(x) - Digamma(a)) + f.slope);
  }
  const Dual s = Series(a, x);
  return std::exp(power - Lgamma(a + 1)) * (s.value * (std::log(x) - Digamma(a + 1)) + s.slope);
}

double GammaSampleGrad(double a, double x) {
  if (!InIgammaDomain(a, x)) return kNan;
  if (x == 0) return 0;
  if (std::isinf(x) || std::isinf(a)) return kNan;
  if (x > 1e100) return x / a;  // here, the terms of the fraction would overflow
  if (a >= kLarge) {
    const double density = std::exp((a - 1) * std::log(x) - x - Lgamma(a));
    return density > 0 ? -IgammaGradA(a, x) / density : x / a;
  }
  // In Series and Fraction, P or Q is divided by the density times x / a or x.
  if (UsesFraction(a, x)) {
    const Dual f = Fraction(a, x);
    return x * (f.value * (std::log(x) - Digamma(a)) + f.slope);
  }
  const Dual s = Series(a, x);
  return -(x / a) * (s.value * (std::log(x) - Digamma(a + 1)) + s.slope);
}

double Betainc(double a, double b, double x) {
  if (!(a > 0 && b > 0 && x >= 0 && x <= 1) || std::isinf(a) || std::isinf(b)) return kNan;
  if (x == 0 || x == 1) return x;
  const double front = std::exp(a * std::log(x) + b * std::log1p(-x) + Lgamma(a + b) - Lgamma(a) - Lgamma(b));
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

double Zeta(double x, double q) {
  if (std::isnan(x) || std::isnan(q)) return kNan;
  if (x == 1) return kInf;
  if (x < 1) return kNan;
  if (q > 0) return std::isinf(q) || std::isinf(x) ? (q < 1 ? kInf : q == 1 ? 1 : 0) : PositiveZeta(x, q);
  if (q == std::floor(q)) return kInf;  // a term is 1 / 0
  if (x != std::floor(x)) return kNan;  // powers of negative numbers
  // The sum of terms with negative bases is that of two sums over positive ones, except for the sign.
  const double r = q - std::floor(q);
  const double sign = std::fmod(x, 2) == 0 ? 1 : -1;
  return sign * (PositiveZeta(x, 1 - r) - PositiveZeta(x, 1 - q)) + PositiveZeta(x, r);
}

double Polygamma(double n, double x) {
  if (n == 0) return Digamma(x);
  if (!(n > 0) || n != std::floor(n)) return kNan;
  const double sign = std::fmod(n, 2) == 0 ? -1 : 1;
  return sign * std::exp(Lgamma(n + 1)) * Zeta(n + 1, x);
}

double BesselI0e(double x) { return BesselIe(0, std::abs(x)); }
double BesselI1e(double x) { return std::copysign(BesselIe(1, std::abs(x)), x); }

}  // namespace millrace::cpu
