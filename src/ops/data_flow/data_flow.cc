// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Queues: state that lets steps wait for each other.
#include "ops/data_flow/data_flow.h"

#include <string>

#include "ops/family.h"

namespace millrace::ops {
namespace {

// A queue's handle has the shapes of the components, if the queue declares any.
Status QueueHandleShape(InferenceContext& c) {
  c.set_output(0, c.Scalar());
  MR_ASSIGN_OR_RETURN(std::vector<DataType> types, c.Attr<std::vector<DataType>>("component_types"));
  MR_ASSIGN_OR_RETURN(std::vector<PartialShape> shapes, c.Attr<std::vector<PartialShape>>("shapes"));
  if (shapes.empty() || shapes.size() != types.size()) return Status::Ok();
  if (c.op().name == "PriorityQueueV2") {
    types.insert(types.begin(), DataType::kInt64);
    shapes.insert(shapes.begin(), PartialShape(TensorShape()));
  }
  std::vector<HandleShapeAndType> components;
  for (size_t i = 0; i < types.size(); ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.MakeShapeFromPartial(shapes[i]));
    components.push_back({shape, types[i]});
  }
  c.set_output_handle(0, std::move(components));
  return Status::Ok();
}

// The components' shapes, as far as the handle has them; with `batch`, with that first dimension.
Status ComponentShapes(InferenceContext& c, const DimHandle* batch) {
  const std::vector<HandleShapeAndType>& components = c.input_handle(0);
  const bool known = components.size() == static_cast<size_t>(c.num_outputs());
  for (int i = 0; i < c.num_outputs(); ++i) {
    ShapeHandle shape = known ? components[static_cast<size_t>(i)].shape : c.UnknownShape();
    if (batch != nullptr && known) {
      MR_ASSIGN_OR_RETURN(shape, c.Concatenate(c.Vector(*batch), shape));
    }
    c.set_output(i, shape);
  }
  return Status::Ok();
}

Status DequeueShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  return ComponentShapes(c, nullptr);
}

Status DequeueManyShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  MR_ASSIGN_OR_RETURN(const DimHandle n, c.MakeDimFromScalarInput(1));
  return ComponentShapes(c, &n);
}

Status DequeueUpToShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  const DimHandle n = c.UnknownDim();
  return ComponentShapes(c, &n);
}

OpBuilder QueueNode(const std::string& name, bool resource) {
  OpBuilder op = HandleNode(name, "handle", resource, resource ? QueueHandleShape : nullptr);
  const bool priority = name.starts_with("Priority");
  op.Attr(priority ? "component_types: list(type) >= 0 = []" : "component_types: list(type) >= 1")
      .Attr(priority ? "shapes: list(shape) >= 0" : "shapes: list(shape) >= 0 = []")
      .Attr("capacity: int = -1");
  if (name.starts_with("Random")) {
    op.Attr("min_after_dequeue: int = 0").Attr("seed: int = 0").Attr("seed2: int = 0");
  }
  return op.Attr("container: string = ''").Attr("shared_name: string = ''");
}

OpBuilder Enqueue(const std::string& name, bool resource) {
  return HandleAccess(name, "handle", resource)
      .Input("components: Tcomponents")
      .Attr("Tcomponents: list(type) >= 1")
      .Attr("timeout_ms: int = -1")
      .Shape(AccessShape);
}

OpBuilder Dequeue(const std::string& name, bool resource) {
  OpBuilder op = HandleAccess(name, "handle", resource);
  if (NameOf(name) != (resource ? "QueueDequeueV2" : "QueueDequeue")) op.Input("n: int32");
  return op.Output("components: component_types")
      .Attr("component_types: list(type) >= 1")
      .Attr("timeout_ms: int = -1");
}

std::vector<OpBuilder> QueueOps() {
  std::vector<OpBuilder> ops;
  for (const bool resource : {false, true}) {
    const std::string v2 = resource ? "V2" : "";
    for (const char* name :
         {"FIFOQueue: A first-in, first-out queue.",
          "PaddingFIFOQueue: A first-in, first-out queue whose elements may differ in shape; batches are "
          "padded.",
          "RandomShuffleQueue: A queue that dequeues elements in random order.",
          "PriorityQueue: A queue that dequeues the element with the smallest key first."}) {
      ops.push_back(QueueNode(WithSuffix(name, v2), resource));
    }
    ops.push_back(
        Enqueue(WithSuffix("QueueEnqueue: Adds an element to a queue, waiting for room.", v2), resource));
    ops.push_back(
        Enqueue(WithSuffix("QueueEnqueueMany: Adds the rows of tensors to a queue.", v2), resource));
    ops.push_back(
        Dequeue(WithSuffix("QueueDequeue: Removes an element from a queue, waiting for one.", v2), resource)
            .Shape(DequeueShape));
    ops.push_back(
        Dequeue(WithSuffix("QueueDequeueMany: Removes n elements from a queue, as one batch.", v2), resource)
            .Shape(DequeueManyShape));
    ops.push_back(
        Dequeue(
            WithSuffix(
                "QueueDequeueUpTo: Removes n elements from a queue, or the remaining ones when it is closed.",
                v2),
            resource)
            .Shape(DequeueUpToShape));
    ops.push_back(
        HandleAccess(WithSuffix("QueueClose: Closes a queue; its elements can still be dequeued.", v2),
                     "handle", resource)
            .Attr("cancel_pending_enqueues: bool = false")
            .Shape(AccessShape));
    ops.push_back(
        HandleAccess(WithSuffix("QueueSize: The number of elements in a queue.", v2), "handle", resource)
            .Output("size: int32")
            .Shape(AccessScalarShape));
    ops.push_back(
        HandleAccess(WithSuffix("QueueIsClosed: Whether a queue is closed.", v2), "handle", resource)
            .Output("is_closed: bool")
            .Shape(AccessScalarShape));
  }
  ops.push_back(OpBuilder("FakeQueue: A reference to the handle of a queue.")
                    .Input("resource: resource")
                    .Output("handle: Ref(string)")
                    .Stateful()
                    .Shape(NamesShape)
                    .Traits(kCheap));
  return ops;
}

}  // namespace

Status NamesShape(InferenceContext& c) {
  c.set_output(0, c.Vector(2));
  return Status::Ok();
}

Status CheckHandleShape(InferenceContext& c, int i) {
  if (!c.op().inputs[0].is_ref) return c.WithRank(c.input(i), 0).status();
  MR_ASSIGN_OR_RETURN(const ShapeHandle names, c.WithRank(c.input(i), 1));
  return c.WithValue(c.Dim(names, 0), 2).status();
}

Status AccessShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.UnknownShape());
  return Status::Ok();
}

Status AccessScalarShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  c.set_output(0, c.Scalar());
  return Status::Ok();
}

OpBuilder HandleNode(const std::string& name, const std::string& output, bool resource, ShapeFn shape) {
  OpBuilder op(name.c_str());
  op.Output(output + (resource ? ": resource" : ": Ref(string)"))
      .Stateful()
      .Shape(shape != nullptr ? shape
             : resource       ? shape_fns::Scalar
                              : NamesShape)
      .Traits({.cheap = true, .generator = true});
  return op;
}

OpBuilder HandleAccess(const std::string& name, const std::string& input, bool resource) {
  OpBuilder op(name.c_str());
  op.Input(input + (resource ? ": resource" : ": Ref(string)")).Traits(kEffect);
  if (resource) op.Stateful();
  return op;
}

}  // namespace millrace::ops

namespace millrace {

Status RegisterDataFlowOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::QueueOps()));
}

}  // namespace millrace
