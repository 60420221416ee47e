# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Loops as one operation, While, whose condition and body are functions."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import function as eager_function
from millrace.python.framework import constant_op
from millrace.python.framework import func_graph as func_graph_module
from millrace.python.framework import ops
from millrace.python.framework import tensor_spec
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_util_v2
from millrace.python.ops import gen_functional_ops
from millrace.python.ops import math_ops
from millrace.python.ops._control_flow_base import _convert_flows_to_tensorarrays
from millrace.python.ops._control_flow_base import _convert_tensorarray_to_flow
from millrace.python.util import nest


def while_loop(
    cond: Any, body: Any, loop_vars: Any, shape_invariants: Any = None, parallel_iterations: int = 10,
    maximum_iterations: Any = None, name: Any = None, return_same_structure: bool = True,
) -> Any:  # fmt: skip
    """Repeats `body` while `cond` is true, as an operation While.

    Args:
      cond: a function of the loop variables that returns a boolean scalar.
      body: a function of the loop variables that returns their next values.
      loop_vars: a structure of tensors and TensorArrays.
      shape_invariants: shapes that the loop variables have in all iterations.
      parallel_iterations: how many iterations may run in parallel.
      maximum_iterations: the largest number of iterations.
      name: of the operation.
      return_same_structure: whether a single result stays in a list.
    """
    flat_vars = nest.flatten(loop_vars, expand_composites=True)
    with ops.name_scope(name or "while") as scope:
        tensors = [ops.convert_to_tensor(_convert_tensorarray_to_flow(v)) for v in flat_vars]
        counter = constant_op.constant(0, name="loop_counter")
        limit = -1 if maximum_iterations is None else maximum_iterations
        limit = ops.convert_to_tensor(limit, name="maximum_iterations", dtype=counter.dtype)
        specs = _specs(tensors, flat_vars, loop_vars, shape_invariants)
        first = [tensor_spec.TensorSpec([], counter.dtype), tensor_spec.TensorSpec([], limit.dtype)]

        def pack(flat: Any) -> Any:
            return nest.pack_sequence_as(
                loop_vars, _convert_flows_to_tensorarrays(flat_vars, list(flat)), expand_composites=True
            )

        def wrapped_cond(i: Any, maximum: Any, *args: Any) -> Any:
            own = cond(*pack(args))
            if maximum_iterations is None:
                return own
            return math_ops.logical_and(i < maximum, own)

        def wrapped_body(i: Any, maximum: Any, *args: Any) -> Any:
            result = body(*pack(args))
            if not nest.is_sequence_or_composite(result):
                result = [result]
            nest.assert_same_structure(list(pack(args)), list(result), expand_composites=True)
            flat = [_convert_tensorarray_to_flow(v) for v in nest.flatten(result, expand_composites=True)]
            return [i + 1, maximum] + flat

        make = func_graph_module.func_graph_from_py_func
        signature = tuple(first + specs)
        names = [control_flow_util_v2.unique_fn_name(scope, part) for part in ("cond", "body")]
        cond_graph = make(names[0], wrapped_cond, signature, {})
        body_graph = make(names[1], wrapped_body, signature, {})
        _check_shapes(body_graph.outputs[2:], tensors, specs)
    results = _build(cond_graph, body_graph, [counter, limit] + tensors, parallel_iterations, scope)
    results = list(results)[2 : 2 + len(tensors)]
    for result, spec in zip(results, specs):
        result.set_shape(spec.shape)
    # Through identities, so that fetching one result does not need the others.
    with ops.name_scope(scope):
        results = [array_ops.identity(result) for result in results]
    packed = pack(results)
    if return_same_structure or len(flat_vars) != 1:
        return packed
    return packed[0]


def _within(shape: Any, invariant: Any) -> bool:
    """Whether `shape` is as specific as `invariant`, or more."""
    if invariant.ndims is None:
        return True
    if shape.ndims != invariant.ndims:
        return False
    return all(y is None or x == y for x, y in zip(shape.as_list(), invariant.as_list()))


def _check_shapes(outputs: Any, inputs: Any, specs: Any) -> None:
    for output, tensor, spec in zip(outputs, inputs, specs):
        if not _within(output.shape, spec.shape):
            raise ValueError(
                "Input tensor '%s' enters the loop with shape %s, but has shape %s after one iteration. To allow the "
                "shape to vary across iterations, use the `shape_invariants` argument of tf.while_loop to specify a "
                "less-specific shape." % (tensor.name, spec.shape, output.shape)
            )


def _specs(tensors: Any, flat_vars: Any, loop_vars: Any, shape_invariants: Any) -> list[Any]:
    shapes = [t.shape for t in tensors]
    if shape_invariants is not None:
        nest.assert_same_structure(loop_vars, shape_invariants, expand_composites=False)
        given = nest.flatten(shape_invariants)
        if len(given) == len(flat_vars):
            shapes = given
    return [tensor_spec.TensorSpec(shape, t.dtype.base_dtype) for shape, t in zip(shapes, tensors)]


def _build(cond_graph: Any, body_graph: Any, inputs: list[Any], parallel_iterations: int, scope: str) -> Any:
    """The operation: captured tensors of the functions are further loop variables that do not change."""
    captures: dict[int, Any] = {}
    for graph in (cond_graph, body_graph):
        for tensor in graph.external_captures:
            captures[id(tensor)] = tensor
    functions = []
    count = len(inputs)
    for graph in (cond_graph, body_graph):
        own = graph.inputs[:count]
        with graph.as_default():
            more = [graph.capture(tensor) for tensor in captures.values()]
        outputs = graph.outputs + (more if graph is body_graph else [])
        made = eager_function._EagerDefinedFunction(graph.name, graph, own + more, outputs, None)
        made.add_to_graph(ops.get_default_graph())
        functions.append(made)
    stateful = functions[0].stateful_ops or functions[1].stateful_ops
    make = gen_functional_ops._while if stateful else gen_functional_ops.stateless_while
    return make(
        inputs + list(captures.values()),
        functions[0],
        functions[1],
        parallel_iterations=parallel_iterations,
        name=scope,
    )


def __getattr__(name: str) -> Any:
    """`_WhileGrad` and others: the engine's gradient functions."""
    from millrace.python.ops import _engine_gradients

    return _engine_gradients.function_of_name(__name__, name)
