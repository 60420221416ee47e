// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that debuggers insert between nodes: copies, identities and counts.
#include "ops/family.h"

namespace millrace::ops {
namespace {

// A vector of 14 numbers, and one for each dimension of the input; or of none.
Status NumericSummaryShape(InferenceContext& c) {
  c.set_output(0, c.Vector(c.UnknownDim()));
  return Status();
}
Status NanCountShape(InferenceContext& c) {
  c.set_output(0, c.Vector(1));
  return Status();
}

std::vector<OpBuilder> Debugging() {
  return {
      OpBuilder("Copy: A copy of a tensor.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: type")
          .Attr("tensor_name: string = ''")
          .Attr("debug_ops_spec: list(string) = []")
          .AllowsUninitializedInput()
          .Shape(shape_fns::Unchanged),
      OpBuilder("CopyHost: A copy of a tensor in host memory.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: type")
          .Attr("tensor_name: string = ''")
          .Attr("debug_ops_spec: list(string) = []")
          .AllowsUninitializedInput()
          .Shape(shape_fns::Unchanged),
      OpBuilder(
          "DebugGradientIdentity: The input, unchanged; marks the tensor whose gradient a debugger watches.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: type")
          .AllowsUninitializedInput()
          .Shape(shape_fns::Unchanged),
      OpBuilder("DebugGradientRefIdentity: The input, a reference; marks the tensor whose gradient a "
                "debugger watches.")
          .Input("input: Ref(T)")
          .Output("output: Ref(T)")
          .Attr("T: type")
          .AllowsUninitializedInput()
          .Shape(shape_fns::Unchanged),
      OpBuilder("DebugIdentity: The input, unchanged, for a debugger.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: type")
          .Attr("device_name: string = ''")
          .Attr("tensor_name: string = ''")
          .Attr("debug_urls: list(string) = []")
          .Attr("gated_grpc: bool = false")
          .AllowsUninitializedInput()
          .Shape(shape_fns::Unchanged),
      OpBuilder("DebugNanCount: The number of NaN elements.")
          .Input("input: T")
          .Output("output: int64")
          .Attr("T: type")
          .Attr("device_name: string = ''")
          .Attr("tensor_name: string = ''")
          .Attr("debug_urls: list(string) = []")
          .Attr("gated_grpc: bool = false")
          .AllowsUninitializedInput()
          .Shape(NanCountShape),
      OpBuilder("DebugNumericSummary: The numbers of NaN, infinite, negative, zero and positive elements, "
                "and their extremes, mean and variance.")
          .Input("input: T")
          .Output("output: double")
          .Attr("T: type")
          .Attr("device_name: string = ''")
          .Attr("tensor_name: string = ''")
          .Attr("debug_urls: list(string) = []")
          .Attr("lower_bound: float = -inf")
          .Attr("upper_bound: float = inf")
          .Attr("mute_if_healthy: bool = false")
          .Attr("gated_grpc: bool = false")
          .AllowsUninitializedInput()
          .Shape(NumericSummaryShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterDebugOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::Debugging()); }

}  // namespace millrace
