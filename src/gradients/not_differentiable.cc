// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "gradients/register.h"

namespace millrace {
namespace {

// By reason, as the comments say.
constexpr const char* kOps[] = {
    // Their outputs are integers, bools or shapes.
    "All",
    "Any",
    "ApproximateEqual",
    "ArgMax",
    "ArgMin",
    "BroadcastArgs",
    "BroadcastGradientArgs",
    "ConcatOffset",
    "Equal",
    "Greater",
    "GreaterEqual",
    "InTopK",
    "InvertPermutation",
    "IsFinite",
    "IsInf",
    "IsNan",
    "IsVariableInitialized",
    "Less",
    "LessEqual",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "NotEqual",
    "Rank",
    "Shape",
    "ShapeN",
    "Size",
    "VarIsInitializedOp",
    "VariableShape",
    "Where",
    // Constant between jumps.
    "Ceil",
    "Floor",
    "FloorDiv",
    "Rint",
    "Round",
    "Sign",
    "TruncateDiv",
    // They do not look at the values of their inputs, or have none.
    "Const",
    "OnesLike",
    "Placeholder",
    "PlaceholderV2",
    "RandomStandardNormal",
    "RandomUniform",
    "RandomUniformInt",
    "TruncatedNormal",
    "VarHandleOp",
    "Variable",
    "VariableV2",
    "ZerosLike",
    "_Arg",
    // Not differentiable by definition, as in TensorFlow.
    "Bitcast",
    "LinSpace",
    "OneHot",
    "Range",
    "StopGradient",
    // They change state or transfer; gradients do not flow through that.
    "ApplyAdam",
    "ApplyGradientDescent",
    "ApplyMomentum",
    "Assert",
    "Assign",
    "AssignAdd",
    "AssignAddVariableOp",
    "AssignSub",
    "AssignSubVariableOp",
    "AssignVariableOp",
    "DestroyResourceOp",
    "NoOp",
    "ResourceApplyAdam",
    "ResourceApplyGradientDescent",
    "ResourceApplyMomentum",
    "ResourceScatterAdd",
    "ScatterAdd",
    "ScatterSub",
    "ScatterUpdate",
    "_HostRecv",
    "_HostSend",
    "_Recv",
    "_Retval",
    "_Send",
    // State between steps.
    "FIFOQueue",
    "FIFOQueueV2",
    "FakeQueue",
    "PaddingFIFOQueue",
    "PaddingFIFOQueueV2",
    "PriorityQueue",
    "PriorityQueueV2",
    "QueueClose",
    "QueueCloseV2",
    "QueueDequeue",
    "QueueDequeueMany",
    "QueueDequeueManyV2",
    "QueueDequeueUpTo",
    "QueueDequeueUpToV2",
    "QueueDequeueV2",
    "QueueEnqueue",
    "QueueEnqueueMany",
    "QueueEnqueueManyV2",
    "QueueEnqueueV2",
    "QueueIsClosed",
    "QueueIsClosedV2",
    "QueueSize",
    "QueueSizeV2",
    "RandomShuffleQueue",
    "RandomShuffleQueueV2",
    // No outputs, or none that carries a value.
    "Abort",
    "ControlTrigger",
    "LoopCond",
};

}  // namespace

Status RegisterNotDifferentiableOps(GradientRegistry& registry) {
  for (const char* op : kOps) MR_RETURN_IF_ERROR(registry.RegisterNotDifferentiable(op));
  return Status();
}

}  // namespace millrace
