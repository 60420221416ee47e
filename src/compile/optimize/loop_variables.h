// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "millrace/status.h"

namespace millrace {

// Loop variables that no iteration changes enter as constants, and their final values are taken from outside;
// so are other values that leave a loop unchanged. Only in loops without side effects, in which the number of
// iterations is not visible. Returns the number of removed nodes.
StatusOr<int> FreezeLoopVariables(Rewriter* rewriter);

}  // namespace millrace
