// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "millrace/status.h"

namespace millrace {

// Variables of loops that no iteration changes enter as constants, and are taken from outside where they
// leave; so is what leaves a loop as it came in. Only in loops without effects, where it is not visible in
// which iteration it ran. Returns how many nodes went.
StatusOr<int> FreezeLoopVariables(Rewriter* rewriter);

}  // namespace millrace
