# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""for_loop, a while_loop of independent iterations; pfor and vectorized_map, which vectorize it."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes as _dtypes
from millrace.python.framework import ops, tensor_util
from millrace.python.ops import array_ops, control_flow_ops, math_ops, tensor_array_ops
from millrace.python.ops.parallel_for.pfor import NoConverter, PFor, Unconvertible, is_safe
from millrace.python.platform import flags
from millrace.python.util import nest


def for_loop(loop_fn: Any, loop_fn_dtypes: Any, iters: Any, parallel_iterations: Any = None) -> Any:
    """Calls `loop_fn` for 0, 1, ..., iters - 1, and stacks the results.

    Args:
      loop_fn: a function of a scalar int32 tensor that returns a structure of tensors; their shapes must not depend on it.
      loop_fn_dtypes: the types of these tensors, in the same structure.
      iters: the number of iterations, an int or a scalar tensor.
      parallel_iterations: how many run at the same time at most; None: 10.

    Returns:
      The structure, each tensor with a further first dimension of size `iters`; None where `loop_fn` returns operations.
    """
    flat_dtypes = nest.flatten(loop_fn_dtypes)
    iters = ops.convert_to_tensor(iters, name="iters")
    static = tensor_util.constant_value(iters)
    operations: list[bool] = []
    structure: list[Any] = []

    def body(i: Any, arrays: Any) -> Any:
        result = loop_fn(i)
        structure[:] = [result]
        flat = nest.flatten(result)
        if len(flat) != len(flat_dtypes):
            raise ValueError(
                "Number of expected outputs, %d, does not match the number of actual outputs, %d, from loop_fn"
                % (len(flat_dtypes), len(flat))
            )
        operations[:] = [isinstance(x, ops.Operation) for x in flat]
        with ops.control_dependencies([x for x in flat if isinstance(x, ops.Operation)]):
            new = [
                array if isinstance(x, ops.Operation) else array.write(i, x) for array, x in zip(arrays, flat)
            ]
            return i + 1, new

    initial = [tensor_array_ops.TensorArray(d.base_dtype, iters) for d in flat_dtypes]
    _, arrays = control_flow_ops.while_loop(
        lambda i, _: i < math_ops.cast(iters, "int32"), body, [0, initial],
        parallel_iterations=parallel_iterations or 10,
    )  # fmt: skip
    outputs: list[Any] = []
    for array, is_operation in zip(arrays, operations):
        stacked = None if is_operation else array.stack()
        if stacked is not None and static is not None:
            stacked.set_shape(
                [int(static)] + [None] * (stacked.shape.ndims - 1) if stacked.shape.ndims else None
            )
        outputs.append(stacked)
    return nest.pack_sequence_as(structure[0], outputs)


def pfor(loop_fn: Any, iters: Any, parallel_iterations: Any = None) -> Any:
    """As for_loop, vectorized over all iterations where the operations allow it, else a loop.

    Args:
      loop_fn: a function of a scalar int32 tensor that returns a structure of tensors or operations.
      iters: the number of iterations, an int or a scalar tensor.
      parallel_iterations: how many are computed at the same time at most; None: all.

    Raises:
      ValueError: `parallel_iterations` is not above 1, or an operation has no converter and the flag
        --op_conversion_fallback_to_while_loop does not allow a loop.
    """
    if parallel_iterations is not None and parallel_iterations < 1:
        raise ValueError(
            "Argument `parallel_iterations` must be None or a positive integer. Received: %s."
            % parallel_iterations
        )
    if parallel_iterations == 1:
        raise ValueError("Found parallel_iterations == 1. Use for_loop instead.")
    from millrace.python.eager import context, def_function

    if context.executing_eagerly():
        return def_function.function(lambda: pfor(loop_fn, iters, parallel_iterations))()
    found = None if parallel_iterations is not None else _vectorized(loop_fn, iters)
    if found is not None:
        return found
    from millrace.python.framework import func_graph

    with func_graph.FuncGraph("pfor").as_default():
        result = loop_fn(array_ops.placeholder("int32", []))
    dtypes = nest.map_structure(
        lambda x: "int32" if isinstance(x, ops.Operation) else ops.convert_to_tensor(x).dtype.base_dtype,
        result,
    )
    dtypes = nest.map_structure(_dtypes.as_dtype, dtypes)
    return for_loop(loop_fn, dtypes, iters, parallel_iterations=parallel_iterations)


def _vectorized(loop_fn: Any, iters: Any) -> Any:
    """The results of all iterations, vectorized; None where some operation does not allow it."""
    from millrace.python.framework import func_graph
    from millrace.python.ops.parallel_for import _converters  # noqa: F401

    graph = ops.get_default_graph()
    if graph._get_control_flow_context() is not None:
        return None
    if graph.building_function:
        # A function runs all its stateful operations, so unused ones must not be left in it.
        trial = func_graph.FuncGraph("pfor")
        with trial.as_default():
            loop_fn(array_ops.placeholder("int32", []))
        if not all(is_safe(op) for op in trial.get_operations()):
            return None
    with ops.name_scope("pfor"):
        iters = ops.convert_to_tensor(iters, name="iters", dtype="int32")
        with ops.name_scope("loop_body"):
            loop_var = array_ops.placeholder_with_default(0, shape=[])
            first = graph._last_id
            result = loop_fn(loop_var)
            flat = nest.flatten(result)
            if not all(isinstance(x, ops.Tensor) or not hasattr(x, "graph") for x in flat):
                return None
            flat = [ops.convert_to_tensor(x) for x in flat]
            made = [op for op in graph.get_operations() if op._id > first]
        try:
            stacked = PFor(loop_var, iters, made).convert(flat)
        except NoConverter:
            if not flags.FLAGS.op_conversion_fallback_to_while_loop:
                raise
            return None
        except Unconvertible:
            return None
        count = tensor_util.constant_value(iters)
        for before, after in zip(flat, stacked):
            if before.shape.ndims is not None:
                after.set_shape([None if count is None else int(count)] + before.shape.as_list())
    return nest.pack_sequence_as(result, stacked)


def vectorized_map(fn: Any, elems: Any) -> Any:
    """Calls `fn` for each row of tensors, and stacks the results.

    Args:
      fn: a function of a structure like `elems`, whose tensors lack the first dimension.
      elems: a structure of tensors with first dimensions of one size.
    """
    with ops.name_scope("vectorized_map"):
        elems = nest.map_structure(ops.convert_to_tensor, elems)

        def loop_fn(i: Any) -> Any:
            return fn(nest.map_structure(lambda x: array_ops.gather(x, i), elems))

        if not nest.flatten(elems):
            raise ValueError("elems must have one or more tensors, got %r." % (elems,))
        first = nest.flatten(elems)[0]
        size = first.shape.dims[0].value if first.shape.ndims else None
        return pfor(loop_fn, size if size is not None else array_ops.shape(first)[0])
