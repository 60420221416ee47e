// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/random/philox.h"

namespace millrace {

// The number of successes in `count` trials of probability `probability`; one sample uses at most 256
// blocks of the generator. NaN unless both are finite and the probability is in [0, 1]; 0 for counts below
// 1.
double SampleBinomial(double count, double probability, PhiloxRandom generator);

}  // namespace millrace
