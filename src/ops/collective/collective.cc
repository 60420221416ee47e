// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Operations that the devices of a group do together.
#include "ops/family.h"

namespace millrace::ops {
namespace {

Status AttrShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const PartialShape shape, c.Attr<PartialShape>("shape"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle handle, c.MakeShapeFromPartial(shape));
  c.set_output(0, handle);
  return Status();
}

// All inputs one after the other in dimension 0.
Status GatherShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, c.WithRankAtLeast(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(const int64_t size, c.Attr<int64_t>("group_size"));
  MR_ASSIGN_OR_RETURN(const DimHandle rows, c.Multiply(c.Dim(in, 0), c.MakeDim(size)));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.ReplaceDim(in, 0, rows));
  c.set_output(0, out);
  return Status();
}

OpBuilder InGroup(const char* name) {
  return OpBuilder(name)
      .Output("data: T")
      .Attr("T: {float, half, double, int32, int64}")
      .Attr("group_size: int")
      .Attr("group_key: int")
      .Attr("instance_key: int")
      .Stateful()
      .NotDifferentiable()
      .Traits(kEffect);
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterCollectiveOps(OpRegistry& registry) {
  const char* const hint = "communication_hint: string = 'auto'";
  using ops::InGroup;
  return ops::RegisterEach(
      registry,
      {InGroup(
           "CollectiveReduce: The sum, product, minimum or maximum of the tensors of all members of a group.")
           .Input("input: T")
           .Attr("merge_op: {'Min', 'Max', 'Mul', 'Add'}")
           .Attr("final_op: {'Id', 'Div'}")
           .Attr("subdiv_offsets: list(int)")
           .Attr("wait_for: list(int) = []")
           .Attr(hint)
           .Shape(shape_fns::Unchanged),
       InGroup("CollectiveGather: The tensors of all members of a group, concatenated.")
           .Input("input: T")
           .Attr("shape: shape")
           .Attr(hint)
           .Shape(ops::GatherShape),
       InGroup("CollectiveBcastSend: Broadcasts a tensor to all members of a group.")
           .Input("input: T")
           .Attr("shape: shape")
           .Attr(hint)
           .Shape(ops::AttrShape),
       InGroup("CollectiveBcastRecv: Receives the tensor that a member of the group broadcasts.")
           .Attr("shape: shape")
           .Attr(hint)
           .Shape(ops::AttrShape)});
}

}  // namespace millrace
