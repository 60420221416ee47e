// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Replaces a product or convolution, and operations that use only its result, by one node:
//
//   MatMul | Conv2D | DepthwiseConv2dNative  >  BiasAdd | FusedBatchNorm (not training)  >  Add  >  Relu |
//   Relu6 | Elu | Sigmoid | Tanh
//
// where each step except the first is optional, and a depthwise convolution takes no Add. A Pad with zeros
// around the image before a convolution (VALID) is also included. Nodes are not fused if their tensor has
// another consumer or is fetched, if there are control edges in between, if they are on different devices, or
// if the device has no kernel for the fused op. The new node has the name of the last one. It keeps packed
// weights if they are a constant or the value of a variable; for that purpose a single convolution is
// replaced, too. Needs devices to be assigned. Returns the number of removed nodes.
StatusOr<int> FuseNodes(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
