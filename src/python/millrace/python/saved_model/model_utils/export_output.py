# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Outputs of models, as signatures of a SavedModel."""
from __future__ import annotations

import abc
from typing import Any

from millrace.python.framework import constant_op, dtypes, ops
from millrace.python.saved_model import signature_def_utils_impl as signatures

_SEPARATOR = "/"


def _key_name(value: Any) -> str:
    return _SEPARATOR.join(value) if isinstance(value, tuple) else value


def _check_key(key: Any, what: str) -> None:
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:
        if not isinstance(part, str):
            raise ValueError("{} output key must be a string; got {}.".format(what, key))


class ExportOutput(metaclass=abc.ABCMeta):
    """The outputs of a model; `as_signature_def` makes its signature."""

    @abc.abstractmethod
    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        """The SignatureDef for inputs by name."""

    _SEPARATOR_CHAR = _SEPARATOR

    @staticmethod
    def _wrap_and_check_outputs(outputs: Any, single_output_default_name: str, error_label: str) -> Any:
        """Tensors by name; ValueError for a key that is not text or a value that is not a tensor."""
        if not isinstance(outputs, dict):
            outputs = {single_output_default_name: outputs}
        found = {}
        for key, value in outputs.items():
            _check_key(key, error_label)
            if not isinstance(value, ops.Tensor):
                raise ValueError("{} output value must be a Tensor; got {}.".format(error_label, value))
            found[_key_name(key)] = value
        return found


class ClassificationOutput(ExportOutput):
    """Scores, classes (texts), or both; ValueError for other types or for none."""

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        if scores is not None and not (isinstance(scores, ops.Tensor) and scores.dtype.is_floating):
            raise ValueError("Classification scores must be a float32 Tensor; got {}".format(scores))
        if classes is not None and not (
            isinstance(classes, ops.Tensor) and dtypes.as_dtype(classes.dtype) == dtypes.string
        ):
            raise ValueError("Classification classes must be a string Tensor; got {}".format(classes))
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        self._scores = scores
        self._classes = classes

    @property
    def scores(self) -> Any:
        """The scores, or None."""
        return self._scores

    @property
    def classes(self) -> Any:
        """The classes, or None."""
        return self._classes

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        if len(receiver_tensors) != 1:
            raise ValueError(
                "Classification input must be a single string Tensor; got {}".format(receiver_tensors)
            )
        ((_, examples),) = receiver_tensors.items()
        if dtypes.as_dtype(examples.dtype) != dtypes.string:
            raise ValueError(
                "Classification input must be a single string Tensor; got {}".format(receiver_tensors)
            )
        return signatures.classification_signature_def(examples, self.classes, self.scores)


class RegressionOutput(ExportOutput):
    """A floating-point tensor; ValueError for others."""

    def __init__(self, value: Any) -> None:
        if not (isinstance(value, ops.Tensor) and value.dtype.is_floating):
            raise ValueError("Regression output value must be a float32 Tensor; got {}".format(value))
        self._value = value

    @property
    def value(self) -> Any:
        """The tensor."""
        return self._value

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        if len(receiver_tensors) != 1:
            raise ValueError(
                "Regression input must be a single string Tensor; got {}".format(receiver_tensors)
            )
        ((_, examples),) = receiver_tensors.items()
        if dtypes.as_dtype(examples.dtype) != dtypes.string:
            raise ValueError(
                "Regression input must be a single string Tensor; got {}".format(receiver_tensors)
            )
        return signatures.regression_signature_def(examples, self.value)


class PredictOutput(ExportOutput):
    """A tensor, or tensors by name."""

    _SINGLE_OUTPUT_DEFAULT_NAME = "output"

    def __init__(self, outputs: Any) -> None:
        self._outputs = self._wrap_and_check_outputs(
            outputs, self._SINGLE_OUTPUT_DEFAULT_NAME, error_label="Prediction"
        )

    @property
    def outputs(self) -> Any:
        """The tensors by name."""
        return self._outputs

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        return signatures.predict_signature_def(receiver_tensors, self.outputs)


class _SupervisedOutput(ExportOutput):
    """Losses, predictions and metrics, each a tensor, by name, or None."""

    LOSS_NAME = "loss"
    PREDICTIONS_NAME = "predictions"
    METRICS_NAME = "metrics"
    METRIC_VALUE_SUFFIX = "value"
    METRIC_UPDATE_SUFFIX = "update_op"

    def __init__(self, loss: Any = None, predictions: Any = None, metrics: Any = None) -> None:
        self._loss = self._predictions = self._metrics = None
        if loss is not None:
            self._loss = self._prefixed(self._wrap_and_check_outputs(loss, self.LOSS_NAME, "loss"), "loss")
        if predictions is not None:
            wrapped = self._wrap_and_check_outputs(predictions, self.PREDICTIONS_NAME, "predictions")
            self._predictions = self._prefixed(wrapped, self.PREDICTIONS_NAME)
        if metrics is not None:
            self._metrics = self._prefixed(self._wrap_and_check_metrics(metrics), self.METRICS_NAME)

    def _prefixed(self, outputs: dict[str, Any], prefix: str) -> dict[str, Any]:
        return {self._prefix_key(key, prefix): value for key, value in outputs.items()}

    @staticmethod
    def _prefix_key(key: str, prefix: str) -> str:
        return key if key.startswith(prefix) else prefix + _SEPARATOR + key

    def _wrap_and_check_metrics(self, metrics: Any) -> dict[str, Any]:
        if not isinstance(metrics, dict):
            metrics = {self.METRICS_NAME: metrics}
        outputs: dict[str, Any] = {}
        for key, value in metrics.items():
            metric_val, metric_op = value
            _check_key(key, "metrics")
            key = _key_name(key)
            if not isinstance(metric_val, ops.Tensor):
                raise ValueError("{} output value must be a Tensor; got {}.".format(key, metric_val))
            if not isinstance(metric_op, (ops.Tensor, ops.Operation)):
                raise ValueError("{} update_op must be a Tensor or Operation; got {}.".format(key, metric_op))
            if not isinstance(metric_op, ops.Tensor):
                with ops.control_dependencies([metric_op]):
                    metric_op = constant_op.constant([], name="metric_op_wrapper")
            outputs[key + _SEPARATOR + self.METRIC_VALUE_SUFFIX] = metric_val
            outputs[key + _SEPARATOR + self.METRIC_UPDATE_SUFFIX] = metric_op
        return outputs

    @property
    def loss(self) -> Any:
        """The losses by name, or None."""
        return self._loss

    @property
    def predictions(self) -> Any:
        """The predictions by name, or None."""
        return self._predictions

    @property
    def metrics(self) -> Any:
        """The metrics' values and updates by name, or None."""
        return self._metrics

    @abc.abstractmethod
    def _get_signature_def_fn(self) -> Any:
        """The function that makes the signature."""

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        return self._get_signature_def_fn()(receiver_tensors, self.loss, self.predictions, self.metrics)


class TrainOutput(_SupervisedOutput):
    """The outputs of training."""

    def _get_signature_def_fn(self) -> Any:
        return signatures.supervised_train_signature_def


class EvalOutput(_SupervisedOutput):
    """The outputs of evaluation."""

    def _get_signature_def_fn(self) -> Any:
        return signatures.supervised_eval_signature_def
