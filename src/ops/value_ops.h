// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"
#include "op/op_registry.h"

namespace millrace {

// More of the families that ops/register.h lists.
Status RegisterArrayValueOps(OpRegistry& registry);
Status RegisterCandidateOps(OpRegistry& registry);
Status RegisterSpecialMathOps(OpRegistry& registry);

}  // namespace millrace
