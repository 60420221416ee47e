// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Special functions of arrays, several elements side by side. An element's result depends on its arguments
// only.
#pragma once

#include <cstdint>

namespace millrace::cpu {

// For n elements: the functions of special.h, with errors of the same order.
void IgammaRow(const double* a, const double* x, double* out, int64_t n);
void IgammacRow(const double* a, const double* x, double* out, int64_t n);
void IgammaGradARow(const double* a, const double* x, double* out, int64_t n);
void BetaincRow(const double* a, const double* b, const double* x, double* out, int64_t n);
// For results in float: relative errors below 1e-10.
void ZetaRow(const double* x, const double* q, double* out, int64_t n);
// x^y, correctly rounded except for one result in about a hundred million.
void PowRow(const float* x, const float* y, float* out, int64_t n);
void PolygammaRow(const double* order, const double* x, double* out, int64_t n);

}  // namespace millrace::cpu
