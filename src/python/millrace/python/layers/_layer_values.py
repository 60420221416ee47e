# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The readable state of layers: weights, losses, updates, inputs and outputs."""
from __future__ import annotations

import re
from typing import Any, List

import numpy as np

from millrace.python.framework import dtypes, ops, tensor_spec
from millrace.python.layers import _layer_config
from millrace.python.layers._input_spec import InputSpec
from millrace.python.module import module
from millrace.python.ops import variables as tf_variables
from millrace.python.training.tracking import data_structures
from millrace.python.util import nest


def to_snake_case(name: str) -> str:
    """Returns "snake_case" of "SnakeCase"; names that begin with an underscore get "private" before it."""
    intermediate = re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    insecure = re.sub("([a-z])([A-Z])", r"\1_\2", intermediate).lower()
    return "private" + insecure if insecure[0] == "_" else insecure


def add_elements_to_collection(elements: Any, collection_list: Any) -> None:
    """Adds the elements that are missing in the collections to them."""
    for name in nest.flatten(collection_list):
        collection = ops.get_collection_ref(name)
        present = {id(e) for e in collection}
        for element in nest.flatten(elements):
            if id(element) not in present:
                collection.append(element)


def as_tensor(value: Any) -> Any:
    """Returns arrays and numbers as tensors, anything else as it is."""
    if isinstance(value, (np.ndarray, np.generic, float, int)) and not isinstance(value, bool):
        return ops.convert_to_tensor(value)
    return value


class Node:
    """One call of a layer."""

    def __init__(self, inputs: Any, outputs: Any):
        self.input_tensors = inputs
        self.output_tensors = outputs


def _reachable(target: Any, sources: Any) -> bool:
    """True when `target` depends on one of the tensors `sources`."""
    wanted = {id(t.op) for t in sources}
    seen = set()
    stack = [target.op if hasattr(target, "op") else target]
    while stack:
        op = stack.pop()
        if id(op) in wanted:
            return True
        if id(op) in seen:
            continue
        seen.add(id(op))
        stack.extend(t.op for t in op.inputs)
    return False


class LayerValues(module.Module):
    """The state of a layer; see `Layer`. Object-based checkpoints track trackable attributes."""

    def __init__(self) -> None:
        self.__dict__["_layers"] = []
        self._trainable_weights: List[Any] = []
        self._non_trainable_weights: List[Any] = []
        self._losses: List[Any] = []
        self._updates: List[Any] = []
        self._inbound_nodes: List[Any] = []
        self._trainable = True
        self.built = False
        self._input_spec: Any = None
        self._metrics: List[Any] = []
        self.supports_masking = False
        self.stateful = False
        self._dtype: Any = None
        self._activity_regularizer: Any = None
        self._name: Any = None

    def __setattr__(self, name: str, value: Any) -> None:
        layers = self.__dict__.get("_layers")
        if (
            layers is not None
            and not name.startswith("_inbound")
            and name not in ("_trainable_weights", "_losses")
        ):
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(item, LayerValues) and not any(item is one for one in layers):
                    layers.append(item)
                elif isinstance(item, tf_variables.Variable) and "_trainable_weights" in self.__dict__:
                    self._track_weight(item, getattr(item, "trainable", True))
        if layers is not None and not (name.startswith("_") and isinstance(value, (list, tuple, dict))):
            value = data_structures.sticky_attribute_assignment(self, name, value)
        object.__setattr__(self, name, value)

    def _track_weight(self, variable: Any, trainable: bool) -> None:
        parts = list(variable) if isinstance(variable, tf_variables.PartitionedVariable) else [variable]
        known = {id(v) for v in self._trainable_weights + self._non_trainable_weights}
        for part in parts:
            if id(part) not in known:
                (self._trainable_weights if trainable else self._non_trainable_weights).append(part)

    def _gather(self, attribute: str) -> List[Any]:
        result: List[Any] = []
        for layer in self._layers:
            result.extend(getattr(layer, attribute))
        return result

    @property
    def _layers(self) -> List[Any]:
        return self.__dict__.setdefault("_layers", [])  # type: ignore[no-any-return]

    @property
    def name(self) -> Any:
        """The name of the layer."""
        return self._name

    @property
    def dtype(self) -> Any:
        """The type of the weights, None before it is known."""
        return self._dtype

    @property
    def dynamic(self) -> bool:
        """Returns False: layers of this class are static."""
        return False

    @property
    def activity_regularizer(self) -> Any:
        """The function that returns a loss for outputs, or None."""
        return self._activity_regularizer

    @activity_regularizer.setter
    def activity_regularizer(self, regularizer: Any) -> None:
        self._activity_regularizer = regularizer

    @property
    def trainable(self) -> bool:
        """Whether the weights are trained."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = value
        for layer in self._layers:
            layer.trainable = value

    @property
    def trainable_weights(self) -> List[Any]:
        """The variables to train; empty when the layer is not trainable."""
        return self._trainable_weights + self._gather("trainable_weights") if self.trainable else []

    @property
    def non_trainable_weights(self) -> List[Any]:
        """The variables not to train."""
        if self.trainable:
            return self._non_trainable_weights + self._gather("non_trainable_weights")
        return self._trainable_weights + self._non_trainable_weights + self._gather("weights")

    @property
    def weights(self) -> List[Any]:
        """All variables."""
        return self.trainable_weights + self.non_trainable_weights

    variables = weights  # type: ignore[assignment]
    trainable_variables = trainable_weights  # type: ignore[assignment]
    non_trainable_variables = non_trainable_weights

    @property
    def updates(self) -> List[Any]:
        """Ops to run with each step of training."""
        return list(self._updates) + self._gather("updates")

    @property
    def losses(self) -> List[Any]:
        """Losses of regularizers."""
        return list(self._losses) + self._gather("losses")

    @property
    def metrics(self) -> List[Any]:
        """The tensors of `add_metric`."""
        return list(self._metrics) + self._gather("metrics")

    def add_metric(self, value: Any, aggregation: Any = None, name: Any = None) -> None:
        """Adds a tensor to the metrics, or with `aggregation` "mean" its mean over all steps.

        The update op of the mean is added to `updates`.

        Raises ValueError for other aggregations, and without a name.
        """
        if aggregation is not None and aggregation != "mean":
            raise ValueError(
                "We currently support only `mean` sample-wise metric aggregation. You provided aggregation=`%s`"
                % aggregation
            )
        if name is None:
            raise ValueError(
                "Please provide a name for your metric like "
                "`self.add_metric(tf.reduce_sum(inputs), name='mean_activation', aggregation='mean')`"
            )
        if aggregation is None:
            self._metrics.append(ops.convert_to_tensor(value))
            return
        from millrace.python.ops import metrics_impl

        mean, update = metrics_impl.mean(value, name=name)
        self._metrics.append(mean)
        self.add_update(update, inputs=True)

    @property
    def input_spec(self) -> Any:
        """The requirements on the layer's inputs: an InputSpec, a structure of them, or None."""
        return self._input_spec

    @input_spec.setter
    def input_spec(self, value: Any) -> None:
        for spec in nest.flatten(value):
            if spec is not None and not isinstance(spec, InputSpec):
                raise TypeError("Layer input_spec must be an instance of InputSpec. Got: {}".format(spec))
        self._input_spec = value

    def compute_output_signature(self, input_signature: Any) -> Any:
        """Returns the TensorSpec (or a structure) of the outputs for that of the inputs; TypeError for others."""

        def check(spec: Any) -> Any:
            if not isinstance(spec, tensor_spec.TensorSpec):
                raise TypeError(
                    "Only TensorSpec signature types are supported, but saw signature entry: {}.".format(spec)
                )
            return spec.shape

        shapes = self.compute_output_shape(nest.map_structure(check, input_signature))
        dtype = self.dtype or nest.flatten(input_signature)[0].dtype
        return nest.map_structure(
            lambda s: tensor_spec.TensorSpec(dtype=dtypes.as_dtype(dtype), shape=s), shapes
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the static shape of the outputs for inputs of a static shape."""
        raise NotImplementedError

    @property
    def submodules(self) -> Any:
        """The layers inside this one, at any depth."""
        result: List[Any] = []
        for layer in self._layers:
            result.append(layer)
            result.extend(layer.submodules)
        return tuple(result)

    @property
    def name_scope(self) -> Any:
        """A name scope of the layer's name."""
        return ops.name_scope(self._name)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Adds ops (or functions that make them) to the updates of the layer."""
        for update in updates if isinstance(updates, (list, tuple)) else [updates]:
            value = (
                update()
                if callable(update) and not isinstance(update, (ops.Tensor, ops.Operation))
                else update
            )
            if value is None or isinstance(value, (int, float)):
                continue
            value_op = (
                value if isinstance(value, (ops.Tensor, ops.Operation)) else ops.convert_to_tensor(value)
            )
            if not hasattr(value_op, "_unconditional_update"):
                value_op._unconditional_update = inputs is None
            self._updates.append(value_op)

    def get_updates_for(self, inputs: Any) -> List[Any]:
        """Returns the updates that depend on `inputs`, or on no inputs when None."""
        if inputs is None:
            return [u for u in self.updates if getattr(u, "_unconditional_update", True)]
        sources = nest.flatten(inputs)
        found = [u for u in self.updates if not getattr(u, "_unconditional_update", True)]
        return [u for u in found if _reachable(u, sources)]

    def get_losses_for(self, inputs: Any) -> List[Any]:
        """Returns the losses that depend on `inputs`, or on no inputs when None."""
        if inputs is None:
            return [v for v in self.losses if getattr(v, "_unconditional_loss", True)]
        sources = nest.flatten(inputs)
        found = [v for v in self.losses if not getattr(v, "_unconditional_loss", True)]
        return [v for v in found if _reachable(v, sources)]

    def get_weights(self) -> List[Any]:
        """Returns the values of the variables in the default session."""
        return [v for v in ops.get_default_session().run(self.weights)] if self.weights else []

    def set_weights(self, weights: Any) -> None:
        """Sets the variables in the default session; ValueError when counts or shapes differ."""
        params = self.weights
        if len(params) != len(weights):
            raise ValueError(
                'You called `set_weights(weights)` on layer "%s" with a  weight list of length %d, but the layer was '
                "expecting %d weights. Provided weights: %s..."
                % (self.name, len(weights), len(params), str(weights)[:50])
            )
        session = ops.get_default_session()
        for variable, value in zip(params, weights):
            if variable.get_shape().as_list() != list(np.shape(value)):
                raise ValueError(
                    "Layer weight shape %s not compatible with provided weight shape %s"
                    % (variable.get_shape(), np.shape(value))
                )
            variable.load(value, session)

    def count_params(self) -> int:
        """Returns the number of elements of all variables; ValueError before the layer is built."""
        if not self.built:
            raise ValueError(
                "You tried to call `count_params` on %s, but the layer isn't built. You can build it manually via: "
                "`%s.build(batch_input_shape)`." % (self.name, self.name)
            )
        return int(sum(np.prod(w.get_shape().as_list()) for w in self.weights))

    def get_config(self) -> Any:
        """Returns the arguments of the constructor, as plain values."""
        config = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype}
        if hasattr(self, "_batch_input_shape"):
            config["batch_input_shape"] = self._batch_input_shape
        return dict(config, **_layer_config.config_of(self))

    @classmethod
    def from_config(cls, config: Any) -> Any:
        """Makes a layer from `get_config()`."""
        return cls(**config)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Returns `mask`; TypeError if there is one and the layer does not support masks."""
        if not self.supports_masking:
            if any(m is not None for m in nest.flatten(mask)):
                raise TypeError(
                    "Layer "
                    + self.name
                    + " does not support masking, but was passed an input_mask: "
                    + str(mask)
                )
            return None
        return mask

    @property
    def inbound_nodes(self) -> List[Any]:
        """The calls of the layer."""
        return self._inbound_nodes

    @property
    def outbound_nodes(self) -> List[Any]:
        """Empty: calls of other layers with the outputs of this one are not recorded."""
        return []

    def _node(self, index: int, what: str) -> Any:
        if not self._inbound_nodes:
            raise RuntimeError("The layer has never been called and thus has no defined " + what + ".")
        if index >= len(self._inbound_nodes):
            raise ValueError(
                "Asked to get %s at node %d, but the layer has only %d inbound nodes."
                % (what, index, len(self._inbound_nodes))
            )
        return self._inbound_nodes[index]

    def _only_node(self, what: str) -> Any:
        if not self._inbound_nodes:
            raise AttributeError("Layer %s is not connected, no %s to return." % (self.name, what))
        if len(self._inbound_nodes) > 1:
            raise AttributeError(
                'Layer %s has multiple inbound nodes, hence the notion of "layer %s" is ill-defined. Use '
                "`get_%s_at(node_index)` instead." % (self.name, what, what.replace(" ", "_"))
            )
        return self._inbound_nodes[0]

    def get_input_at(self, node_index: int) -> Any:
        """Returns the inputs of a call."""
        return self._node(node_index, "input").input_tensors

    def get_output_at(self, node_index: int) -> Any:
        """Returns the outputs of a call."""
        return self._node(node_index, "output").output_tensors

    def get_input_shape_at(self, node_index: int) -> Any:
        """Returns the static shapes of the inputs of a call."""
        return nest.map_structure(lambda t: t.shape, self._node(node_index, "input shape").input_tensors)

    def get_output_shape_at(self, node_index: int) -> Any:
        """Returns the static shapes of the outputs of a call."""
        return nest.map_structure(lambda t: t.shape, self._node(node_index, "output shape").output_tensors)

    def get_input_mask_at(self, node_index: int) -> Any:
        """Returns None: there are no masks without Keras."""
        self._node(node_index, "input mask")

    def get_output_mask_at(self, node_index: int) -> Any:
        """Returns None: there are no masks without Keras."""
        self._node(node_index, "output mask")

    input_mask = None
    output_mask = None

    @property
    def input(self) -> Any:
        """The inputs of the only call."""
        return self._only_node("input").input_tensors

    @property
    def output(self) -> Any:
        """The outputs of the only call."""
        return self._only_node("output").output_tensors

    @property
    def input_shape(self) -> Any:
        """The static shapes of the inputs of the only call."""
        return nest.map_structure(lambda t: t.shape, self._only_node("input").input_tensors)

    @property
    def output_shape(self) -> Any:
        """The static shapes of the outputs of the only call."""
        return nest.map_structure(lambda t: t.shape, self._only_node("output").output_tensors)
