// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/random/philox.h"

namespace millrace {

// How many of `count` trials succeed when each does with probability `probability`; at most 256 blocks of the
// generator serve one sample. NaN unless both are finite and the probability is in [0, 1]; 0 for counts
// below 1.
double SampleBinomial(double count, double probability, PhiloxRandom generator);

}  // namespace millrace
