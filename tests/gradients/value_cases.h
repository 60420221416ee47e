// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cases.h"

namespace millrace {

// More of the families that cases.h lists.
std::vector<GradientCase> ArrayValueCases();
std::vector<GradientCase> SpecialMathCases();

}  // namespace millrace
