# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Jacobians."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops, check_ops, gradients_impl
from millrace.python.ops.parallel_for import control_flow_ops
from millrace.python.util import nest


def jacobian(output: Any, inputs: Any, use_pfor: bool = True, parallel_iterations: Any = None) -> Any:
    """The derivatives of each element of `output` by each input: shapes output.shape + input.shape, or None.

    Args:
      output: a tensor.
      inputs: a structure of tensors.
      use_pfor: whether to vectorize over the elements where the operations allow it.
      parallel_iterations: of the loop over the elements.
    """
    flat_inputs = nest.flatten(inputs)
    output_shape = array_ops.shape(output)
    flat = array_ops.reshape(output, [-1])
    known = gradients_impl.gradients(flat, flat_inputs)
    wanted = [x for x, g in zip(flat_inputs, known) if g is not None]

    def loop_fn(i: Any) -> list[Any]:
        return [ops.convert_to_tensor(g) for g in gradients_impl.gradients(array_ops.gather(flat, i), wanted)]

    size = flat.shape.dims[0].value
    count = size if size is not None else array_ops.size(flat)
    if use_pfor:
        rows = iter(control_flow_ops.pfor(loop_fn, count, parallel_iterations))
    else:
        types = [x.dtype.base_dtype for x in wanted]
        rows = iter(control_flow_ops.for_loop(loop_fn, types, count, parallel_iterations))
    found: list[Any] = []
    for x, g in zip(flat_inputs, known):
        if g is None:
            found.append(None)
            continue
        made = array_ops.reshape(next(rows), array_ops.concat([output_shape, array_ops.shape(x)], axis=0))
        made.set_shape(output.shape.concatenate(x.shape))
        found.append(made)
    return nest.pack_sequence_as(inputs, found)


def batch_jacobian(output: Any, inp: Any, use_pfor: bool = True, parallel_iterations: Any = None) -> Any:
    """The derivatives of output[i] by inp[i] for each i: shape [batch] + output.shape[1:] + inp.shape[1:].

    Raises:
      ValueError: if the first dimensions are known to differ.
    """
    if not output.shape[0].is_compatible_with(inp.shape[0]):
        raise ValueError(
            "Need first dimension of output shape (%s) and inp shape (%s) to match."
            % (output.shape, inp.shape)
        )
    output_shape = array_ops.shape(output)
    with ops.control_dependencies([check_ops.assert_equal(output_shape[0], array_ops.shape(inp)[0])]):
        rows = array_ops.reshape(output, array_ops.stack([output_shape[0], -1]))

    def loop_fn(i: Any) -> Any:
        return ops.convert_to_tensor(gradients_impl.gradients(array_ops.gather(rows, i, axis=1), inp)[0])

    if gradients_impl.gradients(rows, inp)[0] is None:
        return None
    size = rows.shape.dims[1].value
    count = size if size is not None else array_ops.shape(rows)[1]
    if use_pfor:
        made = control_flow_ops.pfor(loop_fn, count, parallel_iterations)
    else:
        made = control_flow_ops.for_loop(loop_fn, inp.dtype.base_dtype, count, parallel_iterations)
    made = array_ops.transpose(
        array_ops.reshape(
            made, array_ops.stack([-1, output_shape[0], array_ops.size(inp) // output_shape[0]])
        ),
        [1, 0, 2],
    )
    made = array_ops.reshape(made, array_ops.concat([output_shape, array_ops.shape(inp)[1:]], axis=0))
    made.set_shape(output.shape.concatenate(inp.shape[1:]))
    return made
