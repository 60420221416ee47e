// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The limits of the processor, measured on the machine of the kernels' benchmarks.
#pragma once

#include <cstdint>

namespace millrace::bench {

// Multiply-adds in registers, as wide as the active instruction set allows and in as many chains as keep
// every unit busy; returns the operations done (a multiply-add is two).
double PeakFlops(int64_t rounds);

// Reads n floats and returns their sum, so that nothing can be left out.
float ReadAll(const float* data, int64_t n);

}  // namespace millrace::bench
