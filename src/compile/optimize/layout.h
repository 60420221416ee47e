// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"

namespace millrace {

// Converts convolutions on NCHW images, and the ops after them (batch norm, bias, pools, element-wise ops,
// padding, reductions over pixels), to NHWC images, for which our kernels are faster. Transposes remain
// only where such a part of the graph begins and ends; existing ones within it are removed. Graphs that
// train in NCHW are not changed: their gradients need the tensors in between. Returns the number of changed
// nodes.
int ConvertLayouts(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
