# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.while_loop."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import control_flow_util as util
from millrace.python.ops import gen_math_ops
from millrace.python.ops import tensor_array_ops
from millrace.python.ops._control_flow_base import _get_shape_invariant
from millrace.python.ops._control_flow_while import WhileContext
from millrace.python.util import nest


def while_loop(
    cond: Any,
    body: Any,
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeats `body` while `cond` is true.

    Args:
      cond: a function of the loop variables that returns a boolean scalar.
      body: a function of the loop variables that returns their next values in the same structure.
      loop_vars: a (nested) tuple, list or dict of tensors, TensorArrays and composite tensors.
      shape_invariants: shapes that the loop variables have in all iterations, structured as they are.
      parallel_iterations: how many iterations may run in parallel.
      back_prop: whether gradients are taken through the loop.
      swap_memory: whether what gradients need may be moved to the host.
      name: name scope.
      maximum_iterations: the largest number of iterations, an integer scalar.
      return_same_structure: whether a single result stays in a list.

    Returns:
      the loop variables after the loop.

    Raises:
      TypeError: `cond` or `body` is not callable, or `parallel_iterations` is not positive.
      ValueError: there are no loop variables, or their shapes change.
    """
    if ops.executing_eagerly():
        return _loop_at_once(cond, body, loop_vars, maximum_iterations, return_same_structure)
    if util.EnableControlFlowV2(ops.get_default_graph()) and loop_vars and callable(cond) and callable(body):
        from millrace.python.ops import while_v2

        return while_v2.while_loop(
            cond, body, loop_vars, shape_invariants, parallel_iterations, maximum_iterations, name,
            return_same_structure,
        )  # fmt: skip
    with ops.name_scope(name, "while", loop_vars):
        if not loop_vars:
            raise ValueError("No loop variables provided")
        if not callable(cond):
            raise TypeError("cond must be callable.")
        if not callable(body):
            raise TypeError("body must be callable.")
        if parallel_iterations < 1:
            raise TypeError("parallel_iterations must be a positive integer.")
        if shape_invariants is not None:
            nest.assert_same_structure(loop_vars, shape_invariants, expand_composites=False)
            shape_invariants = nest.map_structure(_get_shape_invariant, loop_vars, shape_invariants)
        if maximum_iterations is not None:
            cond, body, loop_vars, shape_invariants, maximum_iterations = _count_iterations(
                cond, body, loop_vars, shape_invariants, maximum_iterations, return_same_structure
            )
        loop_context = WhileContext(
            maximum_iterations=maximum_iterations,
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
        )
        # A nested loop is part of the outermost one's message.
        if loop_context.outer_context is None:
            ops.add_to_collection(ops.GraphKeys.WHILE_CONTEXT, loop_context)
        result = loop_context.BuildLoop(cond, body, loop_vars, shape_invariants, return_same_structure)
        return result if maximum_iterations is None else result[1]


def _loop_at_once(
    cond: Any, body: Any, loop_vars: Any, maximum_iterations: Any, return_same_structure: bool
) -> Any:
    """The loop in eager mode: a Python loop."""
    if not loop_vars:
        raise ValueError("No loop variables provided")
    if not callable(cond):
        raise TypeError("cond must be callable.")
    if not callable(body):
        raise TypeError("body must be callable.")
    limit = None if maximum_iterations is None else int(maximum_iterations)
    packed = False  # whether the body returned something other than a list
    count = 0
    while cond(*loop_vars):
        if limit is not None and count >= limit:
            break
        count += 1
        loop_vars = body(*loop_vars)
        packed = not isinstance(loop_vars, (list, _base_tuple))
        if packed:
            loop_vars = (loop_vars,)
        nest.assert_same_structure(list(loop_vars), list(loop_vars))

    def convert(x: Any) -> Any:
        return x if isinstance(x, tensor_array_ops.TensorArray) else ops.convert_to_tensor(x)

    loop_vars = nest.map_structure(convert, loop_vars, expand_composites=True)
    if return_same_structure:
        return loop_vars
    return loop_vars[0] if packed or len(loop_vars) == 1 and not isinstance(loop_vars, dict) else loop_vars


_base_tuple: Any = tuple


def _count_iterations(
    cond: Any, body: Any, loop_vars: Any, shape_invariants: Any, maximum: Any, return_same_structure: bool
) -> Any:
    """Adds a counter to a loop, which ends it at `maximum` iterations."""
    maximum = ops.convert_to_tensor(maximum, name="maximum_iterations")
    if maximum.shape.ndims != 0:
        raise ValueError("maximum_iterations must be a scalar, saw shape: %s" % maximum.shape)
    counter = constant_op.constant(0, dtype=maximum.dtype, name="iteration_counter")
    single = len(loop_vars) == 1 and not return_same_structure
    if single:
        only = loop_vars[0]
        limited_vars: Any = (counter, only)

        def limited_cond(i: Any, lv: Any) -> Any:
            return gen_math_ops.logical_and(i < maximum, cond(lv))

        def limited_body(i: Any, lv: Any) -> Any:
            result = body(lv)
            if isinstance(result, (list, tuple)) and len(result) == 1 and not isinstance(only, (list, tuple)):
                result = result[0]
            return i + 1, result

    else:
        limited_vars = (counter, loop_vars)

        def limited_cond(i: Any, lv: Any) -> Any:
            return gen_math_ops.logical_and(i < maximum, cond(*lv))

        def limited_body(i: Any, lv: Any) -> Any:
            result = body(*lv)
            if type(result) in (list, tuple) and type(loop_vars) in (list, tuple):
                result = type(loop_vars)(result)  # as without a limit: the outermost type may differ
            return i + 1, result

    if shape_invariants is not None:
        shape_invariants = (tensor_shape.TensorShape([]), shape_invariants[0] if single else shape_invariants)
    return limited_cond, limited_body, limited_vars, shape_invariants, maximum


def while_loop_v2(
    cond: Any, body: Any, loop_vars: Any, shape_invariants: Any = None, parallel_iterations: int = 10,
    back_prop: bool = True, swap_memory: bool = False, maximum_iterations: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As `while_loop`; the result has the structure of `loop_vars`, also for a single one."""
    return while_loop(
        cond, body, loop_vars, shape_invariants=shape_invariants, parallel_iterations=parallel_iterations,
        back_prop=back_prop, swap_memory=swap_memory, name=name, maximum_iterations=maximum_iterations,
        return_same_structure=True,
    )  # fmt: skip
