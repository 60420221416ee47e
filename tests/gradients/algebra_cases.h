// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cases.h"

namespace millrace {

// Parts of LinalgCases.
std::vector<GradientCase> MatrixCases();
std::vector<GradientCase> RecurrentCases();
std::vector<GradientCase> VolumeCases();

}  // namespace millrace
