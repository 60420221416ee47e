# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The base class of layers."""
from __future__ import annotations

import copy
import functools
import weakref
from typing import Any, Dict, Iterator, Optional, Tuple

from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.layers import _layer_values
from millrace.python.layers._input_spec import InputSpec, assert_input_compatibility  # noqa: F401
from millrace.python.layers._layer_values import add_elements_to_collection, as_tensor, to_snake_case
from millrace.python.layers._layer_values import LayerValues
from millrace.python.ops import array_ops, init_ops, math_ops, variables as tf_variables
from millrace.python.ops import variable_scope as vs
from millrace.python.training.tracking import base as trackable
from millrace.python.util import function_utils, nest, tf_contextlib

_add_elements_to_collection = add_elements_to_collection
_to_snake_case = to_snake_case
_OBJECT_NAME_UIDS: "weakref.WeakKeyDictionary[Any, Dict[str, int]]" = weakref.WeakKeyDictionary()


_keras_style = False


@tf_contextlib.contextmanager
def keras_style_scope() -> Iterator[None]:
    """Context in which each layer makes its own variables, named after it, regardless of variable scopes.

    Such layers put nothing into collections; `scope` and `reuse` are refused.
    """
    global _keras_style
    before = _keras_style
    _keras_style = True
    try:
        yield
    finally:
        _keras_style = before


def set_keras_style() -> None:
    """Makes layers own their variables from now on; see `keras_style_scope`."""
    global _keras_style
    _keras_style = True


def _keep_graph_elements(value: Any, memo: dict[int, Any]) -> None:
    """Enters variables and graph elements into the memo of a deep copy, so that they are not copied."""
    if isinstance(value, (tf_variables.Variable, ops.Tensor, ops.Operation, ops.Graph)):
        memo[id(value)] = value
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            _keep_graph_elements(item, memo)
    elif isinstance(value, dict):
        for item in value.values():
            _keep_graph_elements(item, memo)


class Layer(LayerValues):
    """A function with variables.

    A subclass defines `call(inputs, ...)` and, usually, `build(input_shape)`, which makes the variables with
    `add_weight`. Variables and ops are named after the variable scope that the layer opens when it is first
    called: the name given, or the class name in snake case, made unique.
    """

    def __init__(self, trainable: bool = True, name: Any = None, dtype: Any = None, **kwargs: Any):
        self._reuse = kwargs.pop("_reuse", None)
        scope = kwargs.pop("_scope", None)
        kwargs.pop("autocast", None)
        self._use_resource_variables = False
        self._keras_style = _keras_style
        if _keras_style and (scope is not None or self._reuse is not None):
            raise ValueError(
                "`%s` argument not allowed when keras style layers are enabled, but saw: %s"
                % (("scope", scope) if scope is not None else ("reuse", self._reuse))
            )
        activity_regularizer = kwargs.pop("activity_regularizer", None)
        input_shape = kwargs.pop("input_shape", None)
        batch_input_shape = kwargs.pop("batch_input_shape", None)
        for allowed in ("batch_size", "weights", "dynamic"):
            kwargs.pop(allowed, None)
        if kwargs:
            raise TypeError("Keyword argument not understood:", next(iter(kwargs)))
        super().__init__()
        if input_shape is not None or batch_input_shape is not None:
            self._batch_input_shape = batch_input_shape or (None,) + tuple(input_shape)
        self._trainable = trainable
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype).base_dtype.name
        self._activity_regularizer = activity_regularizer
        self._graph: Any = None
        self._call_has_scope_arg: Optional[bool] = None
        self._scope: Any = None
        self._current_scope: Any = None
        self._init_set_name(name)
        if scope is not None:
            with vs.variable_scope(scope) as captured_scope:
                self._scope = captured_scope

    def _init_set_name(self, name: Any) -> None:
        if isinstance(name, vs.VariableScope):
            base_name = name.name
            self._name, _ = self._make_unique_name()
        else:
            base_name, self._name = name, name
        if not name:
            self._name, base_name = self._make_unique_name()
        self._base_name = base_name

    def _make_unique_name(self, **_: Any) -> Tuple[str, str]:
        base_name = to_snake_case(type(self).__name__)
        uids = _OBJECT_NAME_UIDS.setdefault(ops.get_default_graph(), {})
        uids[base_name] = uids.get(base_name, 0) + 1
        if self._keras_style and uids[base_name] == 1:
            return base_name, base_name
        if self._keras_style:
            return "%s_%d" % (base_name, uids[base_name] - 1), base_name
        return "%s_%d" % (base_name, uids[base_name]), base_name

    @property
    def graph(self) -> Any:
        """The graph of the layer, once it was called."""
        return self._graph

    @property
    def scope_name(self) -> str:
        """The name of the variable scope; ValueError before the first call."""
        if not self._scope:
            raise ValueError(
                'No name available for layer scope because the layer "'
                + str(self._name)
                + '" has not been used yet. '
                "The scope name is determined the first time the layer instance is called. You must therefore call the "
                "layer before querying `scope_name`."
            )
        return str(self._scope.name)

    def _name_scope(self) -> Any:
        return self._current_scope.original_name_scope

    def _set_scope(self, scope: Any = None) -> None:
        if self._scope is not None:
            return
        if self._reuse:
            with vs.variable_scope(scope if scope is not None else self._base_name) as captured_scope:
                self._scope = captured_scope
        else:
            with vs.variable_scope(scope, default_name=self._base_name) as captured_scope:
                self._scope = captured_scope

    def build(self, input_shape: Any) -> None:
        """Makes the variables for inputs of the given static shape."""
        self._build_input_shape = input_shape
        self.built = True

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Returns the outputs of the layer; subclasses define it."""
        return inputs

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Adds losses (tensors or functions that return them) to the layer and to the regularization losses."""
        items = losses if isinstance(losses, (list, tuple)) else [losses]
        new_losses = []
        for loss in items:
            value = loss() if callable(loss) else loss
            if value is None:
                continue
            if not isinstance(value, ops.Tensor):
                value = ops.convert_to_tensor(value)
            value._unconditional_loss = inputs is None
            self._losses.append(value)
            new_losses.append(value)
        if not self._keras_style:
            add_elements_to_collection(new_losses, ops.GraphKeys.REGULARIZATION_LOSSES)

    def add_weight(
        self,
        name: Any,
        shape: Any,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: Optional[bool] = None,
        constraint: Any = None,
        use_resource: Any = None,
        synchronization: Any = vs.VariableSynchronization.AUTO,
        aggregation: Any = vs.VariableAggregation.NONE,
        partitioner: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Makes, or reuses, the variable `name` in the scope of the layer and returns it."""
        for unknown in kwargs:
            if unknown not in ("getter", "collections", "experimental_autocast"):
                raise TypeError("Unknown keyword argument:", unknown)
        if synchronization == vs.VariableSynchronization.ON_READ:
            if trainable:
                raise ValueError(
                    "Synchronization value can be set to VariableSynchronization.ON_READ only for non-trainable variables. "
                    "You have specified trainable=True and synchronization=VariableSynchronization.ON_READ."
                )
            trainable = False
        elif trainable is None:
            trainable = True
        existing = {id(v) for v in tf_variables.global_variables()} if regularizer else set()
        dtype = dtypes.as_dtype(dtype or self._dtype or dtypes.float32)
        if self._dtype is None:
            self._dtype = dtype.base_dtype.name
        if self._keras_style:
            return self._add_own_weight(name, shape, dtype, initializer, regularizer, trainable, constraint)
        self._set_scope(None)
        reuse = self.built or self._reuse
        with vs.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as scope:
            self._current_scope = scope
            with ops.name_scope(self._name_scope()):
                variable = vs.get_variable(
                    name,
                    shape=tensor_shape.TensorShape(shape) if shape is not None else (),
                    dtype=dtype,
                    initializer=initializer if initializer is not None else scope.initializer,
                    trainable=trainable and self.trainable,
                    constraint=constraint,
                    partitioner=partitioner,
                    use_resource=use_resource or self._use_resource_variables or scope.use_resource,
                    synchronization=synchronization,
                    aggregation=aggregation,
                )
                self._track_weight(variable, trainable)
                if isinstance(variable, trackable.Trackable):
                    self._track_trackable(variable, name=name, overwrite=True)
                if regularizer:
                    parts = (
                        list(variable)
                        if isinstance(variable, tf_variables.PartitionedVariable)
                        else [variable]
                    )
                    if not any(id(v) in existing for v in parts):
                        for part in parts:
                            self.add_loss(functools.partial(self._regularize, name, regularizer, part))
        return variable

    def _add_own_weight(
        self,
        name: Any,
        shape: Any,
        dtype: Any,
        initializer: Any,
        regularizer: Any,
        trainable: bool,
        constraint: Any,
    ) -> Any:
        if initializer is None:
            is_float = dtype.is_floating
            initializer = init_ops.glorot_uniform_initializer() if is_float else init_ops.zeros_initializer()
        with ops.init_scope():
            full_shape = tensor_shape.TensorShape(shape if shape is not None else ())
            variable = tf_variables.VariableV1(
                functools.partial(initializer, full_shape.as_list(), dtype=dtype),
                trainable=trainable and self.trainable,
                name=name,
                dtype=dtype,
                constraint=constraint,
                use_resource=True,
            )
        self._track_weight(variable, trainable)
        self._track_trackable(variable, name=name, overwrite=True)
        if regularizer:
            self.add_loss(functools.partial(self._regularize, name, regularizer, variable))
        return variable

    @staticmethod
    def _regularize(name: str, regularizer: Any, variable: Any) -> Any:
        with ops.name_scope(name + "/Regularizer"):
            return regularizer(variable)

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """As `add_weight`."""
        return self.add_weight(*args, **kwargs)

    def _maybe_build(self, inputs: Any) -> None:
        if self.built:
            return
        flat = nest.flatten(inputs)
        if flat and self._dtype is None and hasattr(flat[0], "dtype"):
            self._dtype = flat[0].dtype.base_dtype.name
        shapes = None
        if all(hasattr(x, "shape") for x in flat):
            shapes = nest.map_structure(lambda x: x.shape, inputs)
        self.build(shapes)
        self.built = True

    def _assert_same_graph(self, inputs: Any) -> Any:
        try:
            return ops._get_graph_from_inputs(nest.flatten(inputs), graph=self.graph)
        except ValueError as error:
            raise ValueError("Input graph and Layer graph are not the same: %s" % error) from None

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Builds the layer at the first call, and returns `call(inputs, ...)` within its scope.

        Raises ValueError when the inputs do not meet `input_spec` or are of another graph.
        """
        given_scope = kwargs.pop("scope", None)
        if self._keras_style:
            if given_scope is not None:
                raise ValueError(
                    "scope argument not allowed when keras style layers are enabled, but saw: %s"
                    % (given_scope,)
                )
            inputs = nest.map_structure(as_tensor, inputs)
            with ops.name_scope(self._name):
                outputs = self._checked_call(inputs, *args, **kwargs)
            self._inbound_nodes.append(_layer_values.Node(inputs, outputs))
            return outputs
        self._set_scope(given_scope)
        inputs = nest.map_structure(as_tensor, inputs)
        self._graph = self._assert_same_graph(inputs)
        reuse = True if self.built else self._reuse
        with vs.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as scope:
            self._current_scope = scope
            if self._call_has_scope_arg is None:
                self._call_has_scope_arg = "scope" in function_utils.fn_args(self.call)
            if self._call_has_scope_arg:
                kwargs["scope"] = scope
            with ops.name_scope(self._name_scope()):
                outputs = self._checked_call(inputs, *args, **kwargs)
        add_elements_to_collection(self.updates, ops.GraphKeys.UPDATE_OPS)
        self._inbound_nodes.append(_layer_values.Node(inputs, outputs))
        return outputs

    def _checked_call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        assert_input_compatibility(self.input_spec, inputs, self.name)
        self._maybe_build(inputs)
        assert_input_compatibility(self.input_spec, inputs, self.name)
        outputs = self.call(inputs, *args, **kwargs)
        if outputs is None:
            raise ValueError(
                "A layer's `call` method should return a Tensor or a list of Tensors, not None (layer: "
                + str(self.name)
                + ")."
            )
        self._regularize_activity(inputs, outputs)
        return outputs

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer."""
        return self.__call__(inputs, *args, **kwargs)

    def _regularize_activity(self, inputs: Any, outputs: Any) -> None:
        if self._activity_regularizer is None:
            return
        with ops.name_scope("ActivityRegularizer"):
            for output in nest.flatten(outputs):
                loss = self._activity_regularizer(output)
                batch_size = math_ops.cast(array_ops.shape(output)[0], loss.dtype)
                self.add_loss(loss / batch_size, inputs=inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the static shape of the outputs for inputs of a static shape."""
        with ops.Graph().as_default():
            other = copy.deepcopy(self)
            spec = nest.map_structure(
                lambda s: array_ops.placeholder(self._dtype or dtypes.float32, tensor_shape.as_shape(s)),
                tensor_shape.as_shape(input_shape) if not isinstance(input_shape, dict) else input_shape,
            )
            return nest.map_structure(lambda t: t.shape, other(spec))

    def __deepcopy__(self, memo: Any) -> Any:
        no_copy = {"_graph"}
        shallow_copy = {"_scope", "_always_reuse_variable_scope", "_current_scope"}
        cls = type(self)
        result = cls.__new__(cls)
        memo[id(self)] = result
        for key, value in self.__dict__.items():
            if key in no_copy or isinstance(value, ops.Graph):
                result.__dict__[key] = value
            elif key in ("_inbound_nodes", "_outbound_nodes"):
                result.__dict__[key] = list(value)  # the copied list has the same calls
            elif key in shallow_copy:
                result.__dict__[key] = copy.copy(value)
            else:
                _keep_graph_elements(value, memo)
                result.__dict__[key] = copy.deepcopy(value, memo)
        return result
