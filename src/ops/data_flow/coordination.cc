// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Barriers, staging areas, mutexes and accumulators: state by which steps wait for each other.
#include <string>

#include "ops/data_flow/data_flow.h"
#include "ops/family.h"

namespace millrace::ops {
namespace {

Status InsertManyShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  MR_ASSIGN_OR_RETURN(const ShapeHandle keys, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle values, c.WithRankAtLeast(c.input(2), 1));
  return c.Merge(c.Dim(keys, 0), c.Dim(values, 0)).status();
}

Status TakeManyShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  const DimHandle n = c.UnknownDim();
  c.set_output(0, c.Vector(n));
  c.set_output(1, c.Vector(n));
  for (int i = 2; i < c.num_outputs(); ++i) c.set_output(i, c.UnknownShape());
  return Status::Ok();
}

// A handle and a scalar; outputs of unknown shape.
Status ScalarArgumentShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  return AccessShape(c);
}

Status PeekShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.UnknownShape());
  return Status::Ok();
}

std::vector<OpBuilder> BarrierOps() {
  const auto access = [](const char* name) { return HandleAccess(name, "handle", false); };
  return {
      HandleNode("Barrier: A barrier, which collects the components of elements by key.", "handle", false)
          .Attr("component_types: list(type) >= 1")
          .Attr("shapes: list(shape) >= 0 = []")
          .Attr("capacity: int = -1")
          .Attr("container: string = ''")
          .Attr("shared_name: string = ''"),
      access("BarrierInsertMany: Adds values of one component, by key, to a barrier.")
          .Input("keys: string")
          .Input("values: T")
          .Attr("T: type")
          .Attr("component_index: int")
          .Shape(InsertManyShape),
      access(
          "BarrierTakeMany: Takes complete elements out of a barrier, in the order of their first insertion.")
          .Input("num_elements: int32")
          .Output("indices: int64")
          .Output("keys: string")
          .Output("values: component_types")
          .Attr("component_types: list(type) >= 1")
          .Attr("allow_small_batch: bool = false")
          .Attr("wait_for_incomplete: bool = false")
          .Attr("timeout_ms: int = -1")
          .Shape(TakeManyShape),
      access("BarrierClose: Closes a barrier: new keys are refused.")
          .Attr("cancel_pending_enqueues: bool = false")
          .Shape(AccessShape),
      access("BarrierReadySize: The number of complete elements in a barrier.")
          .Output("size: int32")
          .Shape(AccessScalarShape),
      access("BarrierIncompleteSize: The number of incomplete elements in a barrier.")
          .Output("size: int32")
          .Shape(AccessScalarShape),
  };
}

OpBuilder Staging(const char* name, const char* types) {
  return OpBuilder(name)
      .Attr("capacity: int >= 0 = 0")
      .Attr("memory_limit: int >= 0 = 0")
      .Attr(types)
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Stateful()
      .Traits(kEffect);
}

std::vector<OpBuilder> StagingOps() {
  constexpr char kSome[] = "dtypes: list(type) >= 1";
  constexpr char kAny[] = "dtypes: list(type)";
  return {
      Staging("Stage: Puts values into a staging area, and waits for room.", kSome)
          .Input("values: dtypes")
          .Shape(shape_fns::NoOutputs),
      Staging("Unstage: Takes values out of a staging area, and waits for them.", kSome)
          .Output("values: dtypes")
          .Shape(shape_fns::Unknown),
      Staging("StagePeek: An element of a staging area, which keeps it.", kSome)
          .Input("index: int32")
          .Output("values: dtypes")
          .Shape(PeekShape),
      Staging("StageSize: The number of elements in a staging area.", kAny)
          .Output("size: int32")
          .Shape(shape_fns::Scalar),
      Staging("StageClear: Removes everything from a staging area.", kAny).Shape(shape_fns::NoOutputs),
  };
}

// Indices name the components that the values are; one of them may come without a key.
Status MapGetShape(InferenceContext& c) {
  const int indices = c.num_inputs() - 1;
  if (indices > 0) MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(indices), 1).status());
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.UnknownShape());
  if (indices == 0) c.set_output(0, c.Scalar());
  return Status();
}

Status MapStageShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  return c.WithRank(c.input(1), 1).status();
}

std::vector<OpBuilder> MapStagingOps() {
  std::vector<OpBuilder> ops;
  for (const std::string prefix : {"Map", "OrderedMap"}) {
    const auto op = [&](const char* name) {
      return OpBuilder(prefix + name)
          .Attr("capacity: int >= 0 = 0")
          .Attr("memory_limit: int >= 0 = 0")
          .Stateful()
          .Traits(kEffect);
    };
    const auto place = [](OpBuilder& builder) {
      return builder.Attr("container: string = ''").Attr("shared_name: string = ''");
    };
    const auto get = [&](OpBuilder builder) {
      return place(builder.Input("indices: int32")
                       .Output("values: dtypes")
                       .Attr("dtypes: list(type) >= 1")
                       .Shape(MapGetShape));
    };
    const auto state = [&](const char* name) { return op(name).Attr("dtypes: list(type)"); };
    ops.push_back(place(state("Stage: Puts values under a key into a staging map.")
                            .Input("key: int64")
                            .Input("indices: int32")
                            .Input("values: fake_dtypes")
                            .Attr("fake_dtypes: list(type) >= 1")
                            .Shape(MapStageShape)));
    ops.push_back(get(op("Unstage: Takes the values of a key out of a staging map.").Input("key: int64")));
    ops.push_back(
        get(op("UnstageNoKey: Takes the values of any key out of a staging map.").Output("key: int64")));
    ops.push_back(
        get(op("Peek: The values of a key of a staging map, which keeps them.").Input("key: int64")));
    for (const char* name : {"Size: The number of complete elements in a staging map.",
                             "IncompleteSize: The number of incomplete elements in a staging map."}) {
      ops.push_back(place(state(name).Output("size: int32").Shape(shape_fns::Scalar)));
    }
    ops.push_back(place(state("Clear: Removes everything from a staging map.").Shape(shape_fns::NoOutputs)));
  }
  return ops;
}

std::vector<OpBuilder> MutexOps() {
  return {
      HandleNode("MutexV2: A mutex that steps share.", "resource", true)
          .Attr("container: string = ''")
          .Attr("shared_name: string = ''"),
      HandleAccess("MutexLock: Locks a mutex until the result is released.", "mutex", true)
          .Output("mutex_lock: variant")
          .Shape(AccessScalarShape),
      OpBuilder("ConsumeMutexLock: Releases a mutex.")
          .Input("mutex_lock: variant")
          .Stateful()
          .Shape(shape_fns::NoOutputs)
          .Traits(kEffect),
  };
}

OpBuilder AccumulatorNode(const std::string& name, bool resource) {
  return HandleNode(name, "handle", resource)
      .Attr(resource ? kResourceNumber : "dtype: numbertype")
      .Attr("shape: shape")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Attr("reduction_type: {'MEAN', 'SUM'} = 'MEAN'");
}

std::vector<OpBuilder> AccumulatorOps() {
  std::vector<OpBuilder> ops;
  for (const bool resource : {false, true}) {
    const std::string prefix = resource ? "Resource" : "";
    const auto access = [&](const char* name) { return HandleAccess(prefix + name, "handle", resource); };
    const char* dtype = resource ? kResourceNumber : "dtype: numbertype";
    ops.push_back(AccumulatorNode(prefix + "ConditionalAccumulator: An accumulator of gradients.", resource));
    ops.push_back(
        access("AccumulatorApplyGradient: Adds a gradient to an accumulator, unless its step is too old.")
            .Input("local_step: int64")
            .Input("gradient: dtype")
            .Attr(dtype)
            .Shape(ScalarArgumentShape));
    ops.push_back(access("AccumulatorTakeGradient: The mean of the gradients in an accumulator, once there "
                         "are enough; empties the accumulator.")
                      .Input("num_required: int32")
                      .Output("average: dtype")
                      .Attr(dtype)
                      .Shape(ScalarArgumentShape));
    ops.push_back(access("AccumulatorSetGlobalStep: Sets the step of an accumulator; gradients of earlier "
                         "steps are then dropped.")
                      .Input("new_global_step: int64")
                      .Shape(ScalarArgumentShape));
    ops.push_back(access("AccumulatorNumAccumulated: The number of gradients in an accumulator.")
                      .Output("num_accumulated: int32")
                      .Shape(AccessScalarShape));
  }
  ops.push_back(AccumulatorNode("SparseConditionalAccumulator: An accumulator of sparse gradients.", false));
  ops.push_back(HandleAccess("SparseAccumulatorApplyGradient: Adds a sparse gradient to an accumulator, "
                             "unless its step is too old.",
                             "handle", false)
                    .Input("local_step: int64")
                    .Input("gradient_indices: int64")
                    .Input("gradient_values: dtype")
                    .Input("gradient_shape: int64")
                    .Attr("dtype: numbertype")
                    .Attr("has_known_shape: bool")
                    .Shape(ScalarArgumentShape));
  ops.push_back(HandleAccess("SparseAccumulatorTakeGradient: The mean of the sparse gradients in an "
                             "accumulator, once there are enough; empties the accumulator.",
                             "handle", false)
                    .Input("num_required: int32")
                    .Output("indices: int64")
                    .Output("values: dtype")
                    .Output("shape: int64")
                    .Attr("dtype: numbertype")
                    .Shape(ScalarArgumentShape));
  return ops;
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterCoordinationOps(OpRegistry& registry) {
  for (const auto family :
       {ops::BarrierOps, ops::StagingOps, ops::MapStagingOps, ops::MutexOps, ops::AccumulatorOps}) {
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::NotDifferentiable(family())));
  }
  return Status::Ok();
}

}  // namespace millrace
