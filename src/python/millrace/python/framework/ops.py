# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs, operations and tensors, and the scopes in which they are made."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import device as pydev  # noqa: F401
from millrace.python.framework import dtypes, tensor_shape  # noqa: F401
from millrace.python.framework._conversion import *  # noqa: F401,F403
from millrace.python.framework._conversion import (  # noqa: F401
    convert_n_to_tensor,
    convert_n_to_tensor_or_composite,
    convert_n_to_tensor_or_indexed_slices,
    convert_to_tensor,
    convert_to_tensor_or_composite,
    convert_to_tensor_or_indexed_slices,
    internal_convert_n_to_tensor,
    internal_convert_n_to_tensor_or_composite,
    internal_convert_n_to_tensor_or_indexed_slices,
    internal_convert_to_tensor,
    internal_convert_to_tensor_or_composite,
    internal_convert_to_tensor_or_indexed_slices,
    register_builtin_conversion,
    register_tensor_conversion_function,
)
from millrace.python.framework._graph import (  # noqa: F401
    _VALID_OP_NAME_REGEX,
    _VALID_SCOPE_NAME_REGEX,
    Graph,
    _after_making,
    _as_graph_element,
    name_from_scope_name,
)
from millrace.python.framework._graph_keys import (  # noqa: F401
    GraphKeys,
    _proto_function_registry,
    get_collection_proto_type,
    get_from_proto_function,
    get_to_proto_function,
    register_proto_function,
)
from millrace.python.framework._graph_scopes import _ControlDependenciesController  # noqa: F401
from millrace.python.framework._operation import Operation, _InputList  # noqa: F401
from millrace.python.framework._registries import *  # noqa: F401,F403
from millrace.python.framework._registries import (  # noqa: F401
    _gradient_registry,
    _shape_registry,
    _stats_registry,
)
from millrace.python.framework._scopes import *  # noqa: F401,F403
from millrace.python.framework._scopes import (  # noqa: F401
    _assert_same_graph,
    _colocate_with_for_gradient,
    _default_graph_stack,
    _default_session_stack,
    _DefaultStack,
    _eval_using_default_session,
    _get_graph_from_inputs,
    _op_to_colocate_with,
    _run_using_default_session,
    executing_eagerly,
    executing_eagerly_outside_functions,
)
from millrace.python.framework._eager_tensor import EagerTensor, numpy_text  # noqa: F401
from millrace.python.framework._tensor import (  # noqa: F401
    Tensor,
    _override_helper,
    _TensorLike,
    is_dense_tensor_like,
    register_dense_tensor_like_type,
)
from millrace.python.framework.indexed_slices import (
    IndexedSlices,
    IndexedSlicesSpec,
    IndexedSlicesValue,
)  # noqa: F401


def _tensor_conversion(value: Any, dtype: Any = None, name: Any = None, as_ref: bool = False) -> Any:
    if dtype and not dtype.is_compatible_with(value.dtype):
        raise ValueError(
            "Tensor conversion requested dtype %s for Tensor with dtype %s: %r"
            % (dtype.name, value.dtype.name, str(value))
        )
    return value


_TensorTensorConversionFunction = _tensor_conversion
register_tensor_conversion_function(Tensor, _tensor_conversion, 0)


def _operation_conversion_error(op: Any, dtype: Any = None, name: Any = None, as_ref: bool = False) -> Any:
    raise TypeError(
        "Can't convert Operation '%s' to Tensor (target dtype=%r, name=%r, as_ref=%r)"
        % (op.name, dtype, name, as_ref)
    )


register_tensor_conversion_function(Operation, _operation_conversion_error, 0)


def uid() -> int:
    """Returns a number that is unique in this process."""
    from millrace.python.framework import _graph

    return _graph._next_graph_uid()


def inside_function() -> bool:
    return get_default_graph().building_function  # noqa: F405


def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> None:
    """Enables eager execution: ops run immediately, and their results are tensors that have values.

    Must be called at the start of a program.

    Args:
      config: a ConfigProto.
      device_policy: None or one of tf.contrib.eager.DEVICE_PLACEMENT_*; tensors are in host memory with all of them.
      execution_mode: None, tf.contrib.eager.SYNC or ASYNC.

    Raises:
      TypeError: `config` is no ConfigProto.
      ValueError: there is a graph already, or an argument is invalid or differs from that of an earlier call.
    """
    enable_eager_execution_internal(config, device_policy, execution_mode)


def enable_eager_execution_internal(
    config: Any = None, device_policy: Any = None, execution_mode: Any = None, server_def: Any = None
) -> None:
    """`enable_eager_execution`."""
    from millrace.core.protobuf import config_pb2
    from millrace.python.eager import context

    if config is not None and not isinstance(config, config_pb2.ConfigProto):
        raise TypeError("config must be a tf.ConfigProto, but got %s" % type(config))
    if device_policy not in (None, 0, 1, 2, 3):
        raise ValueError("device_policy must be one of None, tf.contrib.eager.DEVICE_PLACEMENT_*")
    if execution_mode not in (None, context.SYNC, context.ASYNC):
        raise ValueError("execution_mode must be one of None, tf.contrib.eager.SYNC, tf.contrib.eager.ASYNC")
    if context.default_execution_mode == context.GRAPH_MODE:
        if _default_graph_stack._global[0] is not None:
            raise ValueError("tf.enable_eager_execution must be called at program startup.")
    context.enable_by_default(config, device_policy, execution_mode, server_def)


def eager_run(main: Any = None, argv: Any = None) -> None:
    """Enables eager execution and runs the program's main function."""
    from millrace.python.platform import app

    enable_eager_execution()
    app.run(main, argv)


def disable_eager_execution() -> None:
    """Disables eager execution: ops are added to graphs. Must be called at the start of a program."""
    from millrace.python.eager import context

    context.disable_by_default()


_EagerTensorBase = EagerTensor


def name_of(tensor: Any) -> str:
    """The name of a tensor's operation; a new one for an eager tensor."""
    return "resource_%d" % tensor._id if isinstance(tensor, EagerTensor) else tensor.op.name


def tensor_id(tensor: Any) -> int:
    return tensor._id


def add_exit_callback_to_default_func_graph(fn: Any) -> None:
    raise RuntimeError("Cannot add scope exit callbacks when not building a function")


def enable_tensor_equality() -> None:
    """Makes `==` of tensors compare values in eager mode; in graphs it compares the objects."""
    from millrace.python.ops import math_ops, variables

    Tensor._USE_EQUALITY = True
    Tensor.__eq__ = math_ops.tensor_equals  # type: ignore[assignment, method-assign]
    Tensor.__ne__ = math_ops.tensor_not_equals  # type: ignore[assignment, method-assign]
    variables.Variable._use_equality(True)


def disable_tensor_equality() -> None:
    """Makes `==` of tensors compare the objects."""
    from millrace.python.ops import variables

    if Tensor._USE_EQUALITY:
        del Tensor.__eq__, Tensor.__ne__
        variables.Variable._use_equality(False)
    Tensor._USE_EQUALITY = False


def dismantle_graph(graph: Any) -> None:
    """Does nothing: the garbage collector frees graphs."""


def get_name_scope() -> str:
    """The current name scope, without "/" at its end."""
    if executing_eagerly():
        from millrace.python.eager import context

        return context._thread.scope_name.rstrip("/")
    return get_default_graph().get_name_scope()  # noqa: F405


def _NodeDef(op_type: str, name: str, device: Any = None, attrs: Any = None) -> Any:  # noqa: N802
    """A NodeDef with these fields."""
    from millrace.core.framework import node_def_pb2

    node_def = node_def_pb2.NodeDef(op=op_type, name=name)
    for key, value in (attrs or {}).items():
        node_def.attr[key].CopyFrom(value)
    if device is not None:
        node_def.device = device(node_def) if callable(device) else pydev.canonical_or_string(device)
    return node_def


def _operation_of_node_def(
    node_def: Any,
    g: Any,
    inputs: Any,
    output_types: Any,
    control_inputs: Any,
    input_types: Any,
    original_op: Any,
) -> Operation:
    from millrace.core.framework import node_def_pb2
    from millrace.python.framework import _op_specs

    if not isinstance(node_def, node_def_pb2.NodeDef):
        raise TypeError("node_def needs to be a NodeDef: %s" % node_def)
    if node_def.ByteSize() >= (1 << 31) or node_def.ByteSize() < 0:
        raise ValueError("Cannot create a tensor proto whose content is larger than 2GB.")
    if not _VALID_OP_NAME_REGEX.match(node_def.name):
        raise ValueError("'%s' is not a valid node name" % node_def.name)
    if not isinstance(g, Graph):
        raise TypeError("g needs to be a Graph: %s" % g)
    inputs = [] if inputs is None else inputs
    if not isinstance(inputs, list):
        raise TypeError("inputs needs to be a list of Tensors: %s" % inputs)
    for a in inputs:
        if not isinstance(a, Tensor):
            raise TypeError("input needs to be a Tensor: %s" % a)
    if input_types is not None and not all(
        t.is_compatible_with(i.dtype) for i, t in zip(inputs, [dtypes.as_dtype(t) for t in input_types])
    ):
        raise TypeError(
            "In op '%s', input types (%s) are not compatible with expected types (%s)"
            % (node_def.name, [i.dtype for i in inputs], input_types)
        )
    grouped, attrs = _op_specs.group_inputs(g, node_def.op, inputs, dict(node_def.attr))
    controls = []
    for c in control_inputs or []:
        controls.append(c if isinstance(c, Operation) else c.op)
    g._check_not_finalized()
    op = g._make_op(node_def.op, node_def.name, node_def.device, grouped, controls, attrs)
    if original_op is not None:
        op._original_op = original_op
    _after_making(op)
    return op


def _create_c_op(graph: Any, node_def: Any, inputs: Any, control_inputs: Any) -> Operation:
    """The operation of a NodeDef; lists of inputs are lists."""
    flat: list[Any] = []
    for item in inputs:
        flat.extend(item if isinstance(item, (list, tuple)) else [item])
    op = _operation_of_node_def(node_def, graph, flat, None, control_inputs, None, None)
    graph._made_c_ops = getattr(graph, "_made_c_ops", []) + [op]
    return op


# Flags that programs read: the C API makes the graphs and infers the shapes.
_USE_C_API = _USE_C_SHAPES = True
internal_name_scope_v1 = name_scope_v1


class NullContextmanager:
    """A context that changes nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *args: Any) -> None:
        pass


def _set_call_cpp_shape_fn(call_cpp_shape_fn: Any) -> None:
    """Does nothing: the engine infers all shapes."""


def _constant_conversions() -> None:
    # Registers the conversion of numbers, arrays and lists.
    from millrace.python.framework import constant_op  # noqa: F401


_constant_conversions()
