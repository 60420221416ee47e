// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that only the engine itself puts into graphs: the ends of transfers between devices, and the parameters
// and results of functions.
#include "op/handle_type_attr.h"
#include "ops/family.h"

namespace millrace::ops {
namespace {

OpBuilder WithTransferAttrs(OpBuilder op) {
  return op.Stateful()
      .Attr("tensor_name: string")
      .Attr("send_device: string")
      .Attr("send_device_incarnation: int")
      .Attr("recv_device: string")
      .Attr("client_terminated: bool = false");
}

OpBuilder Send(const char* name) {
  return WithTransferAttrs(OpBuilder(name).Input("tensor: T").Attr(kAnyType))
      .Shape(shape_fns::NoOutputs)
      .Traits({.is_send = true, .has_side_effects = true});
}

OpBuilder Recv(const char* name) {
  return WithTransferAttrs(OpBuilder(name).Output("tensor: tensor_type").Attr("tensor_type: type"))
      .Shape(shape_fns::Unknown)
      .Traits({.is_recv = true});
}

// A value that is fed is checked against the shape that its placeholder declares.
Status ArgShape(InferenceContext& c) {
  if (const auto held = c.attrs().Get<DataType>(kHandleTypeAttr); held.ok())
    c.set_output_handle(0, {{c.UnknownShape(), *held}});
  const auto shape = c.attrs().Get<PartialShape>("_shape");
  if (!shape.ok()) return shape_fns::Unknown(c);
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromPartial(*shape));
  c.set_output(0, out);
  return Status::Ok();
}

std::vector<OpBuilder> InternalOps() {
  return {
      OpBuilder("_Arg: An argument of the function that it is in.")
          .Output("output: T")
          .Stateful()
          .Attr(kAnyType)
          .Attr("index: int >= 0")
          .Shape(ArgShape)
          .Traits({.cheap = true, .generator = true, .never_fold = true}),
      OpBuilder("_Retval: A result of the function that it is in.")
          .Input("input: T")
          .Stateful()
          .Attr(kAnyType)
          .Attr("index: int >= 0")
          .Shape(shape_fns::NoOutputs)
          .Traits({.cheap = true, .has_side_effects = true}),
      Send("_Send: Sends a tensor to another device."),
      Send("_HostSend: Sends a tensor in the memory of the host to another device."),
      Recv("_Recv: Receives a tensor from another device."),
      Recv("_HostRecv: Receives a tensor from another device into the memory of the host."),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterSendRecvOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::InternalOps()));
}

}  // namespace millrace
