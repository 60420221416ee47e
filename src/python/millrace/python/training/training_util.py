# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The global step: the variable that counts training steps, and helpers that find, make, read and raise it."""

from __future__ import annotations

from typing import Any

from millrace.python.eager import context
from millrace.python.framework import dtypes
from millrace.python.framework import graph_io
from millrace.python.framework import ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import init_ops
from millrace.python.ops import resource_variable_ops
from millrace.python.ops import state_ops
from millrace.python.ops import variable_scope
from millrace.python.ops import variables
from millrace.python.platform import tf_logging as logging

# Collection that keeps the tensor which reads the global step once per step.
GLOBAL_STEP_READ_KEY = "global_step_read_op_cache"

write_graph = graph_io.write_graph


def _graph_or_default(graph: Any) -> Any:
    """`graph`, or the default one for None. Raises TypeError for other objects."""
    if graph is None:
        return ops.get_default_graph()
    if not isinstance(graph, ops.Graph):
        raise TypeError("graph must be a Graph, got: %r" % (graph,))
    return graph


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """Value of the global step in `sess`, as a Python int. Raises TypeError if `sess` is not a session."""
    if context.executing_eagerly():
        return int(global_step_tensor.numpy())
    if not hasattr(sess, "run"):
        raise TypeError("sess must be a session, got: %r" % (sess,))
    return int(sess.run(global_step_tensor))


def get_global_step(graph: Any = None) -> Any:
    """The global step tensor of `graph` (default graph if None).

    It is the sole member of the collection GLOBAL_STEP or, where that is empty, the tensor `global_step:0`.

    Returns:
      An integer scalar variable or tensor, or None if there is none or more than one.

    Raises:
      TypeError: if the tensor found is not an integer scalar.
    """
    graph = _graph_or_default(graph)
    found = graph.get_collection(ops.GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        logging.error("Multiple tensors in global_step collection.")
        return None
    if found:
        tensor = found[0]
    elif context.executing_eagerly():
        return None
    else:
        try:
            tensor = graph.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
    assert_global_step(tensor)
    return tensor


def create_global_step(graph: Any = None) -> Any:
    """Makes the global step: an int64 scalar, zero at first, in GLOBAL_VARIABLES and GLOBAL_STEP.

    Raises:
      ValueError: if the graph has a global step already.
    """
    graph = _graph_or_default(graph)
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    if context.executing_eagerly():
        with ops.name_scope(None):
            return _make_global_step()
    with graph.as_default() as g, g.name_scope(None):
        return _make_global_step()


def _make_global_step() -> Any:
    return variable_scope.get_variable(
        ops.GraphKeys.GLOBAL_STEP,
        shape=[],
        dtype=dtypes.int64,
        initializer=init_ops.zeros_initializer(),
        trainable=False,
        aggregation=variables.VariableAggregation.ONLY_FIRST_REPLICA,
        collections=[ops.GraphKeys.GLOBAL_VARIABLES, ops.GraphKeys.GLOBAL_STEP],
    )


def get_or_create_global_step(graph: Any = None) -> Any:
    """The global step of `graph`, made if there is none."""
    graph = _graph_or_default(graph)
    tensor = get_global_step(graph)
    return create_global_step(graph) if tensor is None else tensor


def assert_global_step(global_step_tensor: Any) -> None:
    """Raises TypeError unless `global_step_tensor` is an integer scalar tensor or variable."""
    if not (
        isinstance(global_step_tensor, (variables.Variable, ops.Tensor))
        or resource_variable_ops.is_resource_variable(global_step_tensor)
    ):
        raise TypeError('Existing "global_step" must be a Variable or Tensor: %s.' % global_step_tensor)
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError('Existing "global_step" does not have integer type: %s' % global_step_tensor.dtype)
    shape = global_step_tensor.get_shape()
    if shape.ndims != 0 and shape.is_fully_defined():
        raise TypeError('Existing "global_step" is not scalar: %s' % shape)


def _get_global_step_read(graph: Any = None) -> Any:
    """The cached read of the global step, or None. Raises RuntimeError where there are several."""
    graph = _graph_or_default(graph)
    cached = graph.get_collection(GLOBAL_STEP_READ_KEY)
    if len(cached) > 1:
        raise RuntimeError(
            "There are multiple items in collection {}. "
            "There should be only one.".format(GLOBAL_STEP_READ_KEY)
        )
    return cached[0] if cached else None


def _get_or_create_global_step_read(graph: Any = None) -> Any:
    """A tensor with the step's value before anything in the step raised it, or None without a global step."""
    graph = _graph_or_default(graph)
    cached = _get_global_step_read(graph)
    if cached is not None:
        return cached
    tensor = get_global_step(graph)
    if tensor is None:
        return None
    with graph.as_default() as g, g.name_scope(None):
        with g.name_scope(tensor.op.name + "/"):
            value = tensor
            if isinstance(tensor, variables.Variable):
                value = control_flow_ops.cond(
                    variables.is_variable_initialized(tensor),
                    tensor.read_value,
                    lambda: tensor.initial_value,
                )
            # The sum copies the value, so that later updates of a reference variable do not show in it.
            read = value + 0
            ops.add_to_collection(GLOBAL_STEP_READ_KEY, read)
    return _get_global_step_read(graph)


def _increment_global_step(increment: Any, graph: Any = None) -> Any:
    """An op that adds `increment` to the global step after the cached read of it."""
    graph = _graph_or_default(graph)
    tensor = get_global_step(graph)
    if tensor is None:
        raise ValueError(
            "Global step tensor should be created by "
            "tf.train.get_or_create_global_step before calling increment."
        )
    read = _get_or_create_global_step_read(graph)
    with graph.as_default() as g, g.name_scope(None):
        with g.name_scope(tensor.op.name + "/"):
            with ops.control_dependencies([read]):
                return state_ops.assign_add(tensor, increment)
