// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The series and fractions of special.cc for eight elements at a time. Finished elements add zeros, or keep
// their values, until the others are finished. Extreme arguments are computed by special.cc.
#include "kernels/cpu/vector/special_rows.h"

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/loop_math.h"
#include "kernels/cpu/vector/special.h"

namespace millrace::cpu {
namespace {

constexpr int kLanes = 8;
constexpr double kEpsilon = std::numeric_limits<double>::epsilon() / 2;
constexpr int kMaxTerms = 20000;
using Numbers = double[kLanes];

// log(gamma(a)) for a > 0, by Stirling's series at a + 8.
inline MR_INLINE_LAMBDA double LoopLgamma(double a) {
  const double product = (a * (a + 1)) * ((a + 2) * (a + 3)) * (((a + 4) * (a + 5)) * ((a + 6) * (a + 7)));
  const double y = a + 8, inverse = 1 / y, z = inverse * inverse;
  double p = -3617.0 / 122400;
  p = p * z + 1.0 / 156;
  p = p * z - 691.0 / 360360;
  p = p * z + 1.0 / 1188;
  p = p * z - 1.0 / 1680;
  p = p * z + 1.0 / 1260;
  p = p * z - 1.0 / 360;
  p = p * z + 1.0 / 12;
  return ((y - 0.5) * LoopLog(y) - y + 0.91893853320467274178) + (p * inverse - LoopLog(product));
}

// Its derivative.
inline MR_INLINE_LAMBDA double LoopDigamma(double a) {
  double sum = 0;
  for (int k = 0; k < 8; ++k) sum += 1 / (a + k);
  const double y = a + 8, inverse = 1 / y, z = inverse * inverse;
  double p = 3617.0 / 8160;
  p = p * z - 1.0 / 12;
  p = p * z + 691.0 / 32760;
  p = p * z - 1.0 / 132;
  p = p * z + 1.0 / 240;
  p = p * z - 1.0 / 252;
  p = p * z + 1.0 / 120;
  p = p * z - 1.0 / 12;
  return (LoopLog(y) - 0.5 * inverse + p * z) - sum;
}

// Series() of special.cc.
template <bool kSlope>
inline MR_INLINE_LAMBDA void SeriesLanes(const double* a, const double* x, double* value, double* slope) {
  Numbers sum, derivative, term, change;
  MR_LANES
  for (int l = 0; l < kLanes; ++l) {
    sum[l] = term[l] = 1;
    derivative[l] = change[l] = 0;
  }
  for (int n = 1; n < kMaxTerms; ++n) {
    int64_t any = 0;
    MR_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double factor = x[l] / (a[l] + n);
      if constexpr (kSlope) {
        change[l] = (change[l] - term[l] / (a[l] + n)) * factor;
        derivative[l] += change[l];
      }
      const double next = term[l] * factor;
      sum[l] += next;
      bool more = next > kEpsilon * sum[l];
      if constexpr (kSlope) more = more | (std::abs(change[l]) > kEpsilon * std::abs(derivative[l]));
      term[l] = more ? next : 0.0;
      if constexpr (kSlope) change[l] = more ? change[l] : 0.0;
      any |= more ? 1 : 0;
    }
    if (any == 0) break;
  }
  MR_LANES
  for (int l = 0; l < kLanes; ++l) {
    value[l] = sum[l];
    slope[l] = derivative[l];
  }
}

// Fraction() of special.cc: convergents p / q, normalised to q = 1 unless q is 0.
template <bool kSlope>
inline MR_INLINE_LAMBDA void FractionLanes(const double* a, const double* x, double* value, double* slope) {
  Numbers p0, dp0, q0, dq0, p1, dp1, q1, dq1, going;
  MR_LANES
  for (int l = 0; l < kLanes; ++l) {
    p0[l] = dp0[l] = dq0[l] = dp1[l] = 0;
    q0[l] = p1[l] = going[l] = 1;
    q1[l] = x[l] + 1 - a[l];
    dq1[l] = -1;
    value[l] = 1 / q1[l];
    slope[l] = value[l] * value[l];
  }
  for (int n = 1; n < kMaxTerms; ++n) {
    int64_t any = 0;
    MR_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double b = x[l] + 2 * n + 1 - a[l], c = -n * (n - a[l]);  // slopes: -1 and n
      const double p2 = b * p1[l] + c * p0[l], q2 = b * q1[l] + c * q0[l];
      const double scale = q2 == 0 ? 1.0 : 1 / q2;
      if constexpr (kSlope) {
        const double dp2 = b * dp1[l] - p1[l] + c * dp0[l] + n * p0[l];
        const double dq2 = b * dq1[l] - q1[l] + c * dq0[l] + n * q0[l];
        dp0[l] = dp1[l] * scale;
        dq0[l] = dq1[l] * scale;
        dp1[l] = dp2 * scale;
        dq1[l] = dq2 * scale;
      }
      p0[l] = p1[l] * scale;
      q0[l] = q1[l] * scale;
      p1[l] = p2 * scale;
      q1[l] = q2 * scale;
      const double now = p1[l], derivative = dp1[l] - now * dq1[l];
      const bool has = q2 != 0;
      bool more = std::abs(now - value[l]) > kEpsilon * std::abs(now);
      if constexpr (kSlope) {
        more = more | (std::abs(derivative - slope[l]) > 4 * kEpsilon * std::abs(derivative));
        slope[l] = ((going[l] != 0) & has) ? derivative : slope[l];
      }
      value[l] = ((going[l] != 0) & has) ? now : value[l];
      going[l] = (more | !has) ? going[l] : 0.0;
      any |= going[l] != 0 ? 1 : 0;
    }
    if (any == 0) break;
  }
}

enum class Part { kP, kQ, kSlope };

// Whether the series or the fraction is accurate for P and Q of these arguments.
bool IsOrdinary(double a, double x) {
  return a > 1e-100 && a < 1e4 && x > 1e-100 && x < 1e4 && std::abs(x - a) < 30 * std::sqrt(a) + 30;
}
bool UsesFraction(double a, double x) { return x > 1 && x > a; }

template <Part kPart>
void IgammaLanes(bool fraction, const double* a, const double* x, double* out) {
  RunLoop([=]() MR_INLINE_LAMBDA {
    Numbers value, slope;
    if (fraction) {
      FractionLanes<kPart == Part::kSlope>(a, x, value, slope);
    } else {
      SeriesLanes<kPart == Part::kSlope>(a, x, value, slope);
    }
    const double shift = fraction ? 0 : 1;
    const bool direct = fraction == (kPart == Part::kQ);
    const double base = direct ? 0 : 1, sign = direct ? 1 : -1;
    MR_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double log = LoopLog(x[l]);
      const double front = LoopExp(a[l] * log - x[l] - LoopLgamma(a[l] + shift));
      if constexpr (kPart == Part::kSlope) {
        out[l] = sign * front * (value[l] * (log - LoopDigamma(a[l] + shift)) + slope[l]);
      } else {
        out[l] = base + sign * (front * value[l]);
      }
    }
  });
}

// Calls run(kind, lanes of arguments, lanes of results) for elements of one kind (0 or 1), and one(i) for
// elements whose kind is negative.
template <int kArguments, typename Kind, typename Run, typename One>
void ForLanes(const double* const* in, double* out, int64_t n, const Kind& kind, const Run& run,
              const One& one) {
  double held[2][kArguments][kLanes];
  int64_t places[2][kLanes];
  int count[2] = {0, 0};
  const auto flush = [&](int k) {
    if (count[k] == 0) return;
    for (int l = count[k]; l < kLanes; ++l) {
      for (int i = 0; i < kArguments; ++i) held[k][i][l] = held[k][i][0];
    }
    double results[kLanes];
    run(k, held[k], results);
    for (int l = 0; l < count[k]; ++l) out[places[k][l]] = results[l];
    count[k] = 0;
  };
  for (int64_t i = 0; i < n; ++i) {
    const int k = kind(i);
    if (k < 0) {
      out[i] = one(i);
      continue;
    }
    for (int argument = 0; argument < kArguments; ++argument) held[k][argument][count[k]] = in[argument][i];
    places[k][count[k]] = i;
    if (++count[k] == kLanes) flush(k);
  }
  flush(0);
  flush(1);
}

template <Part kPart, typename One>
void RunIgamma(const double* a, const double* x, double* out, int64_t n, const One& one) {
  const double* in[] = {a, x};
  ForLanes<2>(
      in, out, n, [=](int64_t i) { return IsOrdinary(a[i], x[i]) ? UsesFraction(a[i], x[i]) : -1; },
      [](int kind, const Numbers* held, double* results) {
        IgammaLanes<kPart>(kind != 0, held[0], held[1], results);
      },
      [=](int64_t i) { return one(a[i], x[i]); });
}

// BetaFraction() of special.cc.
inline MR_INLINE_LAMBDA void BetaFractionLanes(const double* a, const double* b, const double* x, double* h) {
  constexpr double kTiny = 1e-300;
  const auto nonzero = [](double v) MR_INLINE_LAMBDA { return std::abs(v) < kTiny ? kTiny : v; };
  Numbers c, d, going;
  MR_LANES
  for (int l = 0; l < kLanes; ++l) {
    c[l] = going[l] = 1;
    d[l] = 1 / nonzero(1 - (a[l] + b[l]) * x[l] / (a[l] + 1));
    h[l] = d[l];
  }
  for (int m = 1; m < kMaxTerms; ++m) {
    int64_t any = 0;
    MR_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double at = a[l] + 2 * m;
      const double even = m * (b[l] - m) * x[l] / ((at - 1) * at);
      d[l] = 1 / nonzero(1 + even * d[l]);
      c[l] = nonzero(1 + even / c[l]);
      const double half = d[l] * c[l];
      const double odd = -(a[l] + m) * (a[l] + b[l] + m) * x[l] / (at * (at + 1));
      d[l] = 1 / nonzero(1 + odd * d[l]);
      c[l] = nonzero(1 + odd / c[l]);
      const double last = d[l] * c[l];
      h[l] = going[l] != 0 ? h[l] * half * last : h[l];
      going[l] = std::abs(last - 1) > 2 * kEpsilon ? going[l] : 0.0;
      any |= going[l] != 0 ? 1 : 0;
    }
    if (any == 0) break;
  }
}

// The Euler-Maclaurin sum; x > 1 and q > 0.
inline MR_INLINE_LAMBDA void ZetaLanes(const double* x, const double* q, double* out) {
  // The values (2k)! / B_2k.
  constexpr double kFactors[] = {12,           -720, 30240, -1209600, 47900160, -1.8924375803183791606e9,
                                 7.47242496e10};
  constexpr int kTerms = 6;
  Numbers sum;
  MR_LANES
  for (int l = 0; l < kLanes; ++l) sum[l] = 0;
  for (int i = 0; i < kTerms; ++i) {
    MR_LANES
    for (int l = 0; l < kLanes; ++l) sum[l] += LoopExp(-x[l] * LoopLog(q[l] + i));
  }
  MR_LANES
  for (int l = 0; l < kLanes; ++l) {
    const double a = q[l] + kTerms, last = LoopExp(-x[l] * LoopLog(a)), inverse = 1 / a;
    double total = sum[l] + last * a / (x[l] - 1) + last / 2, factor = x[l], power = last * inverse;
    for (int k = 0; k < 7; ++k) {
      total += factor * power * (1 / kFactors[k]);
      factor *= (x[l] + 2 * k + 1) * (x[l] + 2 * k + 2);
      power *= inverse * inverse;
    }
    out[l] = total;
  }
}

// The terms after the seventh of the series are negligible, and the powers exact enough.
bool IsOrdinaryZeta(double x, double q) { return x > 1 && x < 20 && q > 1e-10 && q < 1e10; }

}  // namespace

void IgammaRow(const double* a, const double* x, double* out, int64_t n) {
  RunIgamma<Part::kP>(a, x, out, n, Igamma);
}
void IgammacRow(const double* a, const double* x, double* out, int64_t n) {
  RunIgamma<Part::kQ>(a, x, out, n, Igammac);
}
void IgammaGradARow(const double* a, const double* x, double* out, int64_t n) {
  RunIgamma<Part::kSlope>(a, x, out, n, IgammaGradA);
}

void BetaincRow(const double* a, const double* b, const double* x, double* out, int64_t n) {
  const double* in[] = {a, b, x};
  ForLanes<3>(
      in, out, n,
      [=](int64_t i) {
        const auto usual = [](double v) { return v > 1e-100 && v < 1e4; };
        if (!usual(a[i]) || !usual(b[i]) || !(x[i] > 1e-100 && x[i] < 1)) return -1;
        return x[i] < (a[i] + 1) / (a[i] + b[i] + 2) ? 0 : 1;
      },
      [](int kind, const Numbers* held, double* results) {
        RunLoop([=, a = held[kind], b = held[1 - kind], x = held[2]]() MR_INLINE_LAMBDA {
          Numbers y, h;
          MR_LANES
          for (int l = 0; l < kLanes; ++l) y[l] = kind == 0 ? x[l] : 1 - x[l];
          BetaFractionLanes(a, b, y, h);
          const double sign = kind == 0 ? 1 : -1;
          MR_LANES
          for (int l = 0; l < kLanes; ++l) {
            // The logarithm of 1 - x, corrected by the rounding error of the difference.
            const double rest = 1 - x[l], of_x = LoopLog(x[l]);
            const double of_rest = LoopLog(rest) + ((1 - rest) - x[l]) / rest;
            const double logs = (kind == 0 ? a : b)[l] * of_x + (kind == 0 ? b : a)[l] * of_rest;
            const double front =
                LoopExp(logs + LoopLgamma(a[l] + b[l]) - LoopLgamma(a[l]) - LoopLgamma(b[l])) * h[l] / a[l];
            results[l] = kind + sign * front;
          }
        });
      },
      [=](int64_t i) { return Betainc(a[i], b[i], x[i]); });
}

void ZetaRow(const double* x, const double* q, double* out, int64_t n) {
  const double* in[] = {x, q};
  ForLanes<2>(
      in, out, n, [=](int64_t i) { return IsOrdinaryZeta(x[i], q[i]) ? 0 : -1; },
      [](int, const Numbers* held, double* results) {
        RunLoop([=, x = held[0], q = held[1]]() MR_INLINE_LAMBDA { ZetaLanes(x, q, results); });
      },
      [=](int64_t i) { return Zeta(x[i], q[i]); });
}

void PolygammaRow(const double* order, const double* x, double* out, int64_t n) {
  // The factorials of the orders.
  static constexpr double kFactorials[] = {1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880};
  const double* in[] = {order, x};
  ForLanes<2>(
      in, out, n,
      [=](int64_t i) {
        const bool usual = order[i] >= 1 && order[i] <= 9 && order[i] == std::floor(order[i]);
        return usual && IsOrdinaryZeta(order[i] + 1, x[i]) ? 0 : -1;
      },
      [](int, const Numbers* held, double* results) {
        Numbers exponents;
        for (int l = 0; l < kLanes; ++l) exponents[l] = held[0][l] + 1;
        RunLoop([=, x = &exponents[0], q = held[1]]() MR_INLINE_LAMBDA { ZetaLanes(x, q, results); });
        for (int l = 0; l < kLanes; ++l) {
          const auto k = static_cast<int>(held[0][l]);
          results[l] *= k % 2 == 0 ? -kFactorials[k] : kFactorials[k];
        }
      },
      [=](int64_t i) { return Polygamma(order[i], x[i]); });
}

namespace {

constexpr uint32_t kTooLarge = 0x4b800000;  // the bits of 2^24; from there on all numbers are even

// Rounds towards zero; 0 for NaN and values out of range.
inline MR_INLINE_LAMBDA int32_t LoopInteger(float y) {
  const auto bits = std::bit_cast<uint32_t>(y);
  const uint32_t mask = (bits & 0x7fffffff) < kTooLarge ? ~uint32_t{0} : 0;
  return static_cast<int32_t>(std::bit_cast<float>(bits & mask));
}

// |x|^y in double for a normal |x| and |y| < 2^24, with the sign for an integer y.
inline MR_INLINE_LAMBDA double LoopPow(float x, float y) {
  constexpr uint64_t kRoot = 0x3fe6a09e667f3bcd;  // of 1/2
  const uint64_t above = std::bit_cast<uint64_t>(static_cast<double>(std::abs(x))) - kRoot;
  // |x| = m 2^k, as in LoopLog.
  const double k =
      std::bit_cast<double>((((above >> 52) + 2048) & 4095) | 0x4330000000000000) - (0x1p52 + 2048);
  const double m = std::bit_cast<double>((above & 0xfffffffffffff) + kRoot);
  // log2(m) = 2 / log(2) (s + s^3 / 3 + s^5 / 5 ...) for s = (m - 1) / (m + 1)
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 2.8853900817779268 / 13;
  p = p * z + 2.8853900817779268 / 11;
  p = p * z + 2.8853900817779268 / 9;
  p = p * z + 2.8853900817779268 / 7;
  p = p * z + 2.8853900817779268 / 5;
  p = p * z + 2.8853900817779268 / 3;
  p = p * z + 2.8853900817779268;
  const double whole = static_cast<double>(y) * (k + s * p);
  const double power = whole < -200 ? -200 : whole > 200 ? 200 : whole;  // beyond floats
  constexpr double kShifter = 0x1.8p52;
  const double shifted = power + kShifter, r = (power - (shifted - kShifter)) * 0.69314718055994531;
  double e = 1.0 / 40320;
  e = e * r + 1.0 / 5040;
  e = e * r + 1.0 / 720;
  e = e * r + 1.0 / 120;
  e = e * r + 1.0 / 24;
  e = e * r + 1.0 / 6;
  e = e * r + 0.5;
  e = 1 + (r + r * r * e);
  const uint64_t sign = (std::bit_cast<uint32_t>(x) >> 31) & static_cast<uint32_t>(LoopInteger(y)) & 1;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(e) + (std::bit_cast<uint64_t>(shifted) << 52) +
                               (sign << 63));
}

// Whether LoopPow is correct for all of a number of arguments. With bits, for which the compiler needs no
// branches; so a denormal number, which counts as zero, is not an integer.
struct PowerBits {
  uint32_t least = ~uint32_t{0}, most = 0, most_y = 0, fractions = 0;

  inline MR_INLINE_LAMBDA void Add(float x, float y) {
    const auto x_bits = std::bit_cast<uint32_t>(x), y_bits = std::bit_cast<uint32_t>(y);
    const uint32_t base = x_bits & 0x7fffffff, power = y_bits & 0x7fffffff;
    least = base < least ? base : least;
    most = base > most ? base : most;
    most_y = power > most_y ? power : most_y;
    // For negative x.
    fractions |= (std::bit_cast<uint32_t>(static_cast<float>(LoopInteger(y))) ^ y_bits) & -(x_bits >> 31);
  }
  bool ordinary() const {
    return least >= 0x00800000 && most < 0x7f800000 && most_y < kTooLarge && fractions == 0;
  }
};

}  // namespace

void PowRow(const float* x, const float* y, float* out, int64_t n) {
  constexpr int64_t kBlock = 256;
  float results[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = n - begin < kBlock ? n - begin : kBlock;
    const float *a = x + begin, *b = y + begin;
    PowerBits bits;
    RunLoop([=, to = &results[0], all = &bits]() MR_INLINE_LAMBDA {
      PowerBits local;
      for (int64_t i = 0; i < count; ++i) local.Add(a[i], b[i]);
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(LoopPow(a[i], b[i]));
      *all = local;
    });
    for (int64_t i = 0; !bits.ordinary() && i < count; ++i) {
      PowerBits own;
      own.Add(a[i], b[i]);
      if (!own.ordinary()) results[i] = std::pow(a[i], b[i]);
    }
    for (int64_t i = 0; i < count; ++i) out[begin + i] = results[i];  // may overwrite the arguments
  }
}

}  // namespace millrace::cpu
