// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Special functions of real numbers. They are NaN outside of their domains. Each takes a bounded number of
// steps, whatever its arguments.
#pragma once

namespace millrace::cpu {

// The derivative of lgamma.
double Digamma(double x);
// The incomplete gamma functions P and Q = 1 - P, for a > 0 and x >= 0.
double Igamma(double a, double x);
double Igammac(double a, double x);
// The derivative of P with respect to a.
double IgammaGradA(double a, double x);
// The derivative in a of a gamma distributed sample x of a fixed quantile: -(dP / da) / (dP / dx).
double GammaSampleGrad(double a, double x);
// The regularised incomplete beta function, for a > 0, b > 0 and 0 <= x <= 1.
double Betainc(double a, double b, double x);
// Hurwitz's zeta function: the sum of (q + k)^-x over k >= 0, for x >= 1.
double Zeta(double x, double q);
// The derivative of Digamma of order n.
double Polygamma(double n, double x);
// Modified Bessel functions of the first kind, times e^-|x|.
double BesselI0e(double x);
double BesselI1e(double x);

}  // namespace millrace::cpu
