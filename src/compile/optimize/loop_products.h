// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"

namespace millrace {

// In the loop of a recurrent network each step multiplies its input together with the state:
//
//   MatMul(ConcatV2(TensorArrayRead(inputs, i), state), weights)
//
// The part of the inputs does not depend on the loop: it becomes one product for all steps before the loop,
// and each step reads its rows of that:
//
//   MatMul(state, rows of weights) + TensorArrayRead(products, i)
//
// A shape check of a read value that cannot fail is removed. Only if the array has no other use (there are no
// gradients), the weights are the same in all steps, and the sizes are known to fit, so that no new failures
// are possible. Sums are rounded in another order. Returns the number of split products.
int SplitLoopProducts(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
