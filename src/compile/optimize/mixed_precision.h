// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"

namespace millrace {

// Marks products and convolutions of floats, and the gradients of convolutions, with the attribute
// _bfloat16_products: their kernels round the factors to bfloat16, where the processor has instructions for
// that, and sum and return floats. Nothing else changes, so variables, activations and gradients stay floats.
// Runs after nodes were fused. Returns how many were marked.
int UseBfloat16Products(Graph* graph);

}  // namespace millrace
