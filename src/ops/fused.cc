// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// What passes put in the place of several nodes. Clients can't make these.
#include "ops/family.h"
#include "ops/register.h"

namespace millrace::ops {
namespace {

// `fused_ops` is what happens to the product, in this order: BiasAdd or FusedBatchNorm (scale, offset, mean,
// variance; not training), then Add, then an activation; each may be left out. `args` are what they take.
OpBuilder WithEpilogue(OpBuilder op) {
  return op.Attr("num_args: int >= 0").Attr("fused_ops: list(string) = []").Attr("epsilon: float = 0.0001");
}

std::vector<OpBuilder> FusedOps() {
  return {
      WithEpilogue(OpBuilder("_FusedMatMul")
                       .Input("a: T")
                       .Input("b: T")
                       .Input("args: num_args * T")
                       .Output("product: T")
                       .Attr("transpose_a: bool = false")
                       .Attr("transpose_b: bool = false")
                       .Attr("T: {float}"))
          .Shape(shape_fns::MatMul),
      WithEpilogue(OpBuilder("_FusedConv2D")
                       .Input("input: T")
                       .Input("filter: T")
                       .Input("args: num_args * T")
                       .Output("output: T")
                       .Attr("T: {float}")
                       .Attr("strides: list(int)")
                       .Attr("padding: {'SAME', 'VALID'}")
                       .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
                       .Attr("dilations: list(int) = [1, 1, 1, 1]")
                       .Attr("use_cudnn_on_gpu: bool = true"))
          .Shape(shape_fns::Conv2D),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterFusedOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::FusedOps()); }

}  // namespace millrace
