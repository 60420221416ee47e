# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""SignatureDefs: the inputs and outputs of a model, by names."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.saved_model import signature_constants
from millrace.python.saved_model import utils_impl as utils


def build_signature_def(inputs: Any = None, outputs: Any = None, method_name: str | None = None) -> Any:
    """A SignatureDef of TensorInfos by names."""
    from millrace.core.protobuf import meta_graph_pb2

    signature_def = meta_graph_pb2.SignatureDef()
    for field, infos in ((signature_def.inputs, inputs), (signature_def.outputs, outputs)):
        for item in infos or {}:
            field[item].CopyFrom(infos[item])
    if method_name is not None:
        signature_def.method_name = method_name
    return signature_def


def regression_signature_def(examples: Any, predictions: Any) -> Any:
    """The signature of a regression.

    Args:
      examples: string tensor of serialized Examples.
      predictions: float tensor.

    Raises:
      ValueError: if one is None or of another type.
    """
    if examples is None:
        raise ValueError("Regression examples cannot be None.")
    if not isinstance(examples, ops.Tensor):
        raise ValueError("Regression examples must be a string Tensor.")
    if predictions is None:
        raise ValueError("Regression predictions cannot be None.")
    input_tensor = ops.convert_to_tensor(examples)
    if input_tensor.dtype != dtypes.string:
        raise ValueError("Regression examples must be a string Tensor.")
    output_tensor = ops.convert_to_tensor(predictions)
    if output_tensor.dtype != dtypes.float32:
        raise ValueError("Regression output must be a float Tensor.")
    return build_signature_def(
        {signature_constants.REGRESS_INPUTS: utils.build_tensor_info(input_tensor)},
        {signature_constants.REGRESS_OUTPUTS: utils.build_tensor_info(output_tensor)},
        signature_constants.REGRESS_METHOD_NAME,
    )


def classification_signature_def(examples: Any, classes: Any, scores: Any) -> Any:
    """The signature of a classification.

    Args:
      examples: string tensor of serialized Examples.
      classes: string tensor, or None.
      scores: float tensor, or None.

    Raises:
      ValueError: if examples, or both others, are None, or one is of another type.
    """
    if examples is None:
        raise ValueError("Classification examples cannot be None.")
    if not isinstance(examples, ops.Tensor):
        raise ValueError("Classification examples must be a string Tensor.")
    if classes is None and scores is None:
        raise ValueError("Classification classes and scores cannot both be None.")
    input_tensor = ops.convert_to_tensor(examples)
    if input_tensor.dtype != dtypes.string:
        raise ValueError("Classification examples must be a string Tensor.")
    signature_outputs = {}
    if classes is not None:
        classes = ops.convert_to_tensor(classes)
        if classes.dtype != dtypes.string:
            raise ValueError("Classification classes must be a string Tensor.")
        signature_outputs[signature_constants.CLASSIFY_OUTPUT_CLASSES] = utils.build_tensor_info(classes)
    if scores is not None:
        scores = ops.convert_to_tensor(scores)
        if scores.dtype != dtypes.float32:
            raise ValueError("Classification scores must be a float Tensor.")
        signature_outputs[signature_constants.CLASSIFY_OUTPUT_SCORES] = utils.build_tensor_info(scores)
    return build_signature_def(
        {signature_constants.CLASSIFY_INPUTS: utils.build_tensor_info(input_tensor)},
        signature_outputs,
        signature_constants.CLASSIFY_METHOD_NAME,
    )


def predict_signature_def(inputs: Any, outputs: Any) -> Any:
    """The signature of a prediction: tensors by names.

    Raises:
      ValueError: if inputs or outputs are missing.
    """
    if inputs is None or not inputs:
        raise ValueError("Prediction inputs cannot be None or empty.")
    if outputs is None or not outputs:
        raise ValueError("Prediction outputs cannot be None or empty.")
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        if not hasattr(tensors, "items"):
            raise TypeError("Prediction %s must be a dict from strings to tensors, got: %r" % (what, tensors))
    return build_signature_def(
        {key: utils.build_tensor_info(tensor) for key, tensor in inputs.items()},
        {key: utils.build_tensor_info(tensor) for key, tensor in outputs.items()},
        signature_constants.PREDICT_METHOD_NAME,
    )


def _supervised(method_name: str, inputs: Any, loss: Any, predictions: Any, metrics: Any) -> Any:
    if inputs is None or not inputs:
        raise ValueError("{} inputs cannot be None or empty.".format(method_name))
    signature_inputs = {key: utils.build_tensor_info(tensor) for key, tensor in inputs.items()}
    signature_outputs: dict[str, Any] = {}
    for values in (loss, predictions, metrics):
        for key, tensor in (values or {}).items():
            signature_outputs[key] = utils.build_tensor_info(tensor)
    return build_signature_def(signature_inputs, signature_outputs, method_name)


def supervised_train_signature_def(
    inputs: Any, loss: Any, predictions: Any = None, metrics: Any = None
) -> Any:
    """The signature of a training step."""
    return _supervised(signature_constants.SUPERVISED_TRAIN_METHOD_NAME, inputs, loss, predictions, metrics)


def supervised_eval_signature_def(
    inputs: Any, loss: Any, predictions: Any = None, metrics: Any = None
) -> Any:
    """The signature of an evaluation step."""
    return _supervised(signature_constants.SUPERVISED_EVAL_METHOD_NAME, inputs, loss, predictions, metrics)


def is_valid_signature(signature_def: Any) -> bool:
    """Whether a SignatureDef has inputs and outputs of the types that its method requires."""
    if not hasattr(signature_def, "method_name"):
        return False
    method = signature_def.method_name
    if method == signature_constants.CLASSIFY_METHOD_NAME:
        return _is_valid_classification_signature(signature_def)
    if method == signature_constants.REGRESS_METHOD_NAME:
        return _is_valid_regression_signature(signature_def)
    if method == signature_constants.PREDICT_METHOD_NAME:
        return _is_valid_predict_signature(signature_def)
    return False


def _is_valid_predict_signature(signature_def: Any) -> bool:
    return (
        signature_def.method_name == signature_constants.PREDICT_METHOD_NAME
        and bool(signature_def.inputs)
        and bool(signature_def.outputs)
    )


def _has(infos: Any, name: str, dtype: Any) -> bool:
    return name in infos and dtypes.as_dtype(infos[name].dtype) == dtype


def _is_valid_regression_signature(signature_def: Any) -> bool:
    return (
        signature_def.method_name == signature_constants.REGRESS_METHOD_NAME
        and set(signature_def.inputs) == {signature_constants.REGRESS_INPUTS}
        and _has(signature_def.inputs, signature_constants.REGRESS_INPUTS, dtypes.string)
        and set(signature_def.outputs) == {signature_constants.REGRESS_OUTPUTS}
        and _has(signature_def.outputs, signature_constants.REGRESS_OUTPUTS, dtypes.float32)
    )


def _is_valid_classification_signature(signature_def: Any) -> bool:
    if signature_def.method_name != signature_constants.CLASSIFY_METHOD_NAME:
        return False
    if set(signature_def.inputs) != {signature_constants.CLASSIFY_INPUTS}:
        return False
    if not _has(signature_def.inputs, signature_constants.CLASSIFY_INPUTS, dtypes.string):
        return False
    wanted = {
        signature_constants.CLASSIFY_OUTPUT_CLASSES: dtypes.string,
        signature_constants.CLASSIFY_OUTPUT_SCORES: dtypes.float32,
    }
    names = set(signature_def.outputs)
    return (
        bool(names) and names <= set(wanted) and all(_has(signature_def.outputs, n, wanted[n]) for n in names)
    )


def op_signature_def(op: Any, key: str) -> Any:
    """A signature whose only output is an op."""
    return build_signature_def(outputs={key: utils.build_tensor_info_from_op(op)})


def load_op_from_signature_def(signature_def: Any, key: str, import_scope: str | None = None) -> Any:
    """The op that `op_signature_def` was made of. Raises NotFoundError where the graph lacks it."""
    from millrace.python.framework import errors

    try:
        return utils.get_element_from_tensor_info(signature_def.outputs[key], import_scope=import_scope)
    except KeyError:
        raise errors.NotFoundError(
            None,
            None,
            "The {0} could not be found in the graph. Please make sure the SavedModel was created by the internal _SavedModelBuilder. If you are using the public API, please make sure the SignatureDef in the SavedModel does not contain the key '{0}'.".format(
                key
            ),
        )
