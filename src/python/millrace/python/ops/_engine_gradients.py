# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the engine's gradient functions under the names of TensorFlow's modules math_grad, nn_grad, ..."""
from __future__ import annotations

from typing import Any

from millrace.python import _engine
from millrace.python.framework import _gradient_registry

# Names that are not those of the ops.
_OTHER_NAMES = {
    "_ConvertToTensor": "",
    "_BatchNormWithGlobalNormalizationGrad": "BatchNormWithGlobalNormalization",
    "_BroadcastMul": "",
    "_LogSoftmaxGrad": "LogSoftmax",
    "_SoftmaxCrossEntropyWithLogitsGrad": "SoftmaxCrossEntropyWithLogits",
    "_SparseSoftmaxCrossEntropyWithLogitsGrad": "SparseSoftmaxCrossEntropyWithLogits",
    "_InvGradGrad": "InvGrad",
    "_ReciprocalGradGrad": "ReciprocalGrad",
    "_SigmoidGradGrad": "SigmoidGrad",
    "_TanhGradGrad": "TanhGrad",
    "_RsqrtGradGrad": "RsqrtGrad",
    "_SqrtGradGrad": "SqrtGrad",
    "_ReluGradGrad": "ReluGrad",
    "_Relu6GradGrad": "Relu6Grad",
    "_EluGradGrad": "EluGrad",
    "_SeluGradGrad": "SeluGrad",
    "_SoftplusGradGrad": "SoftplusGrad",
    "_AvgPoolGradGrad": "AvgPoolGrad",
    "_MaxPoolGradGrad": "MaxPoolGrad",
    "_FusedBatchNormGradGrad": "FusedBatchNormGrad",
    "_BiasAddGradGrad": "BiasAddGrad",
    "_LRNGrad": "LRN",
    "_L2LossGrad": "L2Loss",
    "_ReshapeGrad": "Reshape",
    "_FFTGrad": "FFT",
    "_ConcatGradV2": "ConcatV2",
    "_MaximumMinimumGrad": "Maximum",
    "_SelfAdjointEigV2Grad": "SelfAdjointEigV2",
    "_CTCLossGrad": "CTCLoss",
}


def function_of_name(module: str, name: str) -> Any:
    """The gradient function that a module has under `name`; AttributeError if there is none."""
    if not name.startswith("__"):
        op_type = _OTHER_NAMES.get(name)
        if op_type is None and name.startswith("_") and name.endswith("Grad"):
            op_type = name[1:-4]
        if op_type and _engine.has_gradient(op_type):
            return _gradient_registry.engine_gradient(op_type)
    raise AttributeError("module %r has no attribute %r" % (module, name))
