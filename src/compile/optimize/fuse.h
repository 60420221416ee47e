// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Puts one node in the place of a product or convolution and what is done to its result alone:
//
//   MatMul | Conv2D | DepthwiseConv2dNative  >  BiasAdd | FusedBatchNorm (not training)  >  Add  >  Relu |
//   Relu6 | Elu | Sigmoid | Tanh
//
// where each step but the first may be left out, and a depthwise convolution takes no Add. A Pad with zeros
// around the image before a convolution (VALID) goes, too. Nodes stay apart when their tensor has another
// consumer or is fetched, when they have control edges in between, lie on different devices, or the device
// has no kernel for the fused op. The new node has the name of the last one. It prepares its weights once and
// keeps them where they are a constant or the value of a variable; for that a convolution alone is replaced,
// too. Needs devices to be assigned. Returns how many nodes went.
StatusOr<int> FuseNodes(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
