# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Names of collections, and how their items are written to meta graphs."""
from __future__ import annotations

from typing import Any

from millrace.python.framework._registries import Registry


class _ClassProperty(property):
    """A property of a class."""

    def __get__(self, cls: Any, owner: Any = None) -> Any:  # type: ignore[override]
        return self.fget(owner)  # type: ignore[misc]


class GraphKeys:
    """The names of the collections that the package uses."""

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    METRIC_VARIABLES = "metric_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    SUMMARIES = "summaries"
    QUEUE_RUNNERS = "queue_runners"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    REGULARIZATION_LOSSES = "regularization_losses"
    CONCATENATED_VARIABLES = "concatenated_variables"
    SAVERS = "savers"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    UPDATE_OPS = "update_ops"
    LOSSES = "losses"
    SAVEABLE_OBJECTS = "saveable_objects"
    RESOURCES = "resources"
    LOCAL_RESOURCES = "local_resources"
    TRAINABLE_RESOURCE_VARIABLES = "trainable_resource_variables"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    READY_FOR_LOCAL_INIT_OP = "ready_for_local_init_op"
    SUMMARY_OP = "summary_op"
    GLOBAL_STEP = "global_step"
    EVAL_STEP = "eval_step"
    TRAIN_OP = "train_op"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"
    _SUMMARY_COLLECTION = "_SUMMARY_V2"
    _VARIABLE_COLLECTIONS = [
        GLOBAL_VARIABLES, LOCAL_VARIABLES, METRIC_VARIABLES, MODEL_VARIABLES, TRAINABLE_VARIABLES,
        MOVING_AVERAGE_VARIABLES, CONCATENATED_VARIABLES, TRAINABLE_RESOURCE_VARIABLES,
    ]  # fmt: skip
    _STREAMING_MODEL_PORTS = "streaming_model_ports"

    @_ClassProperty
    def VARIABLES(cls) -> str:  # noqa: N802
        from millrace.python.platform import tf_logging

        tf_logging.log_first_n(
            tf_logging.WARN, "VARIABLES collection name is deprecated, please use GLOBAL_VARIABLES instead; VARIABLES "
            "will be removed after 2017-03-02.", 1,
        )  # fmt: skip
        return "variables"


_proto_function_registry = Registry("proto functions")


def register_proto_function(
    collection_name: Any, proto_type: Any = None, to_proto: Any = None, from_proto: Any = None
) -> None:
    """Registers conversions between the items of a collection and messages.

    Args:
      collection_name: the collection.
      proto_type: the class of the messages, or a function without arguments that returns it.
      to_proto: a function from an item to a message.
      from_proto: a function from a message to an item.
    """
    if to_proto and not callable(to_proto):
        raise TypeError("to_proto must be callable.")
    if from_proto and not callable(from_proto):
        raise TypeError("from_proto must be callable.")
    _proto_function_registry.register((proto_type, to_proto, from_proto), collection_name)


def _entry(collection_name: Any) -> Any:
    try:
        return _proto_function_registry.lookup(collection_name)
    except LookupError:
        return None, None, None


def get_collection_proto_type(collection_name: Any) -> Any:
    """The class of the messages of a collection, or None."""
    kind = _entry(collection_name)[0]
    return kind() if kind is not None and not isinstance(kind, type) else kind


def get_to_proto_function(collection_name: Any) -> Any:
    return _entry(collection_name)[1]


def get_from_proto_function(collection_name: Any) -> Any:
    return _entry(collection_name)[2]
