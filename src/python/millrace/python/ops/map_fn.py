# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.map_fn: a function applied to the elements of tensors."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import ops
from millrace.python.framework import sparse_tensor
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import tensor_array_ops
from millrace.python.ops._functional_scopes import caching_variables
from millrace.python.util import nest


def map_fn(
    fn: Any,
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
) -> Any:
    """Applies `fn` to the slices of `elems` along the first axis and packs the results.

    Args:
      fn: a function of one argument, structured as `elems`.
      elems: a tensor or a (nested) structure of tensors with equal first sizes.
      dtype: types of the results, structured as they are; by default those of `elems`.
      parallel_iterations: how many calls may run in parallel, 10 by default.
      back_prop: whether gradients are taken.
      swap_memory: whether what gradients need may be moved to the host.
      infer_shape: whether all results have one shape.
      name: name scope.

    Returns:
      a structure of tensors.

    Raises:
      TypeError: `fn` is not callable, the structures differ, or `elems` is a SparseTensor.
      ValueError: an element has no first axis.
    """
    if not callable(fn):
        raise TypeError("fn must be callable.")
    if isinstance(elems, sparse_tensor.SparseTensor):
        raise TypeError(
            "To perform a map over the values of a sparse tensor use either "
            " SparseTensor(input.indices, fn(input.values), input.dense_shape) or "
            " SparseTensor(input.indices, map_fn(fn, input.values), input.dense_shape)"
        )
    if parallel_iterations is None:
        parallel_iterations = 10

    def output_pack(x: Any) -> Any:
        if dtype is None:
            return input_pack(x)
        return nest.pack_sequence_as(dtype, x) if nest.is_sequence(dtype) else x[0]

    def input_pack(x: Any) -> Any:
        return nest.pack_sequence_as(elems, x) if nest.is_sequence(elems) else x[0]

    elems_flat = nest.flatten(elems)
    with ops.name_scope(name, "map", elems_flat):
        with caching_variables():
            elems_flat = [ops.convert_to_tensor(elem, name="elem") for elem in elems_flat]
            dtype = dtype or input_pack([elem.dtype for elem in elems_flat])
            dtype_flat = nest.flatten(dtype)
            if not elems_flat:
                raise ValueError("elems must have one or more tensors, got %r." % (elems,))
            static_shape = elems_flat[0].shape
            if static_shape.ndims is not None and static_shape.ndims < 1:
                if len(elems_flat) == 1:
                    raise ValueError("elems must be a 1+ dimensional Tensor, not a scalar")
                raise ValueError("elements in elems must be 1+ dimensional Tensors, not scalars")
            n = None if static_shape.ndims is None else static_shape.dims[0].value
            n = n or array_ops.shape(elems_flat[0])[0]
            elems_ta = [
                tensor_array_ops.TensorArray(
                    dtype=elem.dtype, size=n, dynamic_size=False, infer_shape=True
                ).unstack(elem)
                for elem in elems_flat
            ]
            i = constant_op.constant(0)
            accs_ta = [
                tensor_array_ops.TensorArray(dtype=dt, size=n, dynamic_size=False, infer_shape=infer_shape)
                for dt in dtype_flat
            ]

            def compute(i: Any, tas: Any) -> Any:
                packed_values = input_pack([elem_ta.read(i) for elem_ta in elems_ta])
                packed_fn_values = fn(packed_values)
                nest.assert_same_structure(dtype or elems, packed_fn_values)
                flat_fn_values = nest.flatten(packed_fn_values)
                return (i + 1, [ta.write(i, value) for ta, value in zip(tas, flat_fn_values)])

            _, r_a = control_flow_ops.while_loop(
                lambda i, _: i < n,
                compute,
                (i, accs_ta),
                parallel_iterations=parallel_iterations,
                back_prop=back_prop,
                swap_memory=swap_memory,
                maximum_iterations=n,
            )
            results_flat = [r.stack() for r in r_a]
            first: Any = tensor_shape.Dimension(None)
            for elem in elems_flat:
                if elem.get_shape().ndims is not None:
                    first = first.merge_with(elem.get_shape().dims[0])
            for r in results_flat:
                r.set_shape(tensor_shape.TensorShape(first).concatenate(r.get_shape()[1:]))
            return output_pack(results_flat)
