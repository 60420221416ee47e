// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"

namespace millrace {

// Lets convolutions on NCHW images, and what follows them (batch norm, bias, pools, element-wise ops,
// padding, reductions over pixels), work on NHWC images, in which our kernels are faster. Transposes remain
// only where such a part of the graph begins and ends; those that the graph had there already go. Graphs that
// train in NCHW stay as they are: their gradients need the tensors in between. Returns how many nodes
// changed.
int ConvertLayouts(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
