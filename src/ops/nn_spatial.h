// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"
#include "op/op_registry.h"

namespace millrace {

// Families beside those of register.h: kin of convolution, moves between batch, space and depth, summaries.
Status RegisterNnSpatialOps(OpRegistry& registry);
Status RegisterArrayBlockOps(OpRegistry& registry);
Status RegisterSummaryOps(OpRegistry& registry);

}  // namespace millrace
