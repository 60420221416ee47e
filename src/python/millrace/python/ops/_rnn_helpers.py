# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The common part of unrolled and looped recurrent networks."""
from __future__ import annotations

from typing import Any, Callable, List, Tuple

from millrace.python.framework import ops, tensor_shape, tensor_util
from millrace.python.ops import array_ops, control_flow_ops, math_ops, rnn_cell_impl, tensor_array_ops
from millrace.python.util import nest

_concat = rnn_cell_impl._concat


def _transpose_batch_time(x: Any) -> Any:
    """Exchanges the first two dimensions; tensors of rank below 2 are returned unchanged."""
    x_static_shape = x.get_shape()
    if x_static_shape.ndims is not None and x_static_shape.ndims < 2:
        return x
    x_rank = array_ops.rank(x)
    x_t = array_ops.transpose(x, array_ops.concat(([1, 0], math_ops.range(2, x_rank)), axis=0))
    if x_static_shape.ndims is not None:
        dims = x_static_shape.as_list()
        x_t.set_shape([dims[1], dims[0]] + dims[2:])
    return x_t


def _best_effort_input_batch_size(flat_input: Any) -> Any:
    """Returns the static size of dimension 1 where one of the inputs has it, else a tensor."""
    for input_ in flat_input:
        shape = input_.shape
        if shape.ndims is None:
            continue
        if shape.ndims < 2:
            raise ValueError("Expected input tensor %s to have rank at least 2" % input_)
        batch_size = tensor_shape.dimension_value(shape[1])
        if batch_size is not None:
            return batch_size
    return array_ops.shape(flat_input[0])[1]


def _infer_state_dtype(explicit_dtype: Any, state: Any) -> Any:
    """Returns the type given, or that of the state; ValueError when the parts of the state differ."""
    if explicit_dtype is not None:
        return explicit_dtype
    if not nest.is_sequence(state):
        return state.dtype
    inferred_dtypes = [element.dtype for element in nest.flatten(state)]
    if not inferred_dtypes:
        raise ValueError("Unable to infer dtype from empty state.")
    if any(x != inferred_dtypes[0] for x in inferred_dtypes):
        raise ValueError(
            "State has tensors of different inferred_dtypes. Unable to infer a single representative dtype."
        )
    return inferred_dtypes[0]


def _maybe_tensor_shape_from_tensor(shape: Any) -> Any:
    if isinstance(shape, ops.Tensor):
        return tensor_shape.as_shape(tensor_util.constant_value(shape))
    return shape


def _rnn_step(
    time: Any,
    sequence_length: Any,
    min_sequence_length: Any,
    max_sequence_length: Any,
    zero_output: Any,
    state: Any,
    call_cell: Callable[[], Any],
    state_size: Any,
    skip_conditionals: bool = False,
) -> Tuple[Any, Any]:
    """Runs a step; batch elements whose sequence has ended output zeros and keep their state."""
    flat_state = nest.flatten(state)
    flat_zero_output = nest.flatten(zero_output)

    def copy_one_through(output: Any, new_output: Any) -> Any:
        if isinstance(output, tensor_array_ops.TensorArray) or output.shape.ndims == 0:
            return new_output
        copy_cond = time >= sequence_length
        with ops.colocate_with(new_output):
            return array_ops.where(copy_cond, output, new_output)

    def copy_some_through(flat_new_output: List[Any], flat_new_state: List[Any]) -> List[Any]:
        outputs = [copy_one_through(z, n) for z, n in zip(flat_zero_output, flat_new_output)]
        states = [copy_one_through(s, n) for s, n in zip(flat_state, flat_new_state)]
        return outputs + states

    def call() -> Tuple[List[Any], List[Any]]:
        new_output, new_state = call_cell()
        nest.assert_same_structure(zero_output, new_output)
        nest.assert_same_structure(state, new_state)
        return nest.flatten(new_output), nest.flatten(new_state)

    def maybe_copy_some_through() -> Any:
        new_output, new_state = call()
        return control_flow_ops.cond(
            time < min_sequence_length,
            lambda: new_output + new_state,
            lambda: copy_some_through(new_output, new_state),
        )

    if skip_conditionals:
        results = copy_some_through(*call())
    else:
        results = control_flow_ops.cond(
            time >= max_sequence_length, lambda: flat_zero_output + flat_state, maybe_copy_some_through
        )
    if len(results) != len(flat_zero_output) + len(flat_state):
        raise ValueError("Internal error: state and output were not concatenated correctly.")
    final_output, final_state = results[: len(flat_zero_output)], results[len(flat_zero_output) :]
    for output, flat_output in zip(final_output, flat_zero_output):
        output.set_shape(flat_output.get_shape())
    for substate, flat_substate in zip(final_state, flat_state):
        if not isinstance(substate, tensor_array_ops.TensorArray):
            substate.set_shape(flat_substate.get_shape())
    return nest.pack_sequence_as(zero_output, final_output), nest.pack_sequence_as(state, final_state)


def _reverse_seq(input_seq: Any, lengths: Any) -> Any:
    """Reverses a list of tensors in time, up to the lengths when they are given."""
    if lengths is None:
        return list(reversed(input_seq))
    flat_input_seq = tuple(nest.flatten(input_) for input_ in input_seq)
    flat_results: List[List[Any]] = [[] for _ in range(len(input_seq))]
    for sequence in zip(*flat_input_seq):
        input_shape = tensor_shape.unknown_shape(rank=sequence[0].get_shape().ndims)
        for input_ in sequence:
            input_shape = input_shape.merge_with(input_.get_shape())
            input_.set_shape(input_shape)
        s_joined = array_ops.stack(sequence)
        s_reversed = array_ops.reverse_sequence(s_joined, lengths, 0, 1)
        for r, flat_result in zip(array_ops.unstack(s_reversed), flat_results):
            r.set_shape(input_shape)
            flat_result.append(r)
    return [
        nest.pack_sequence_as(structure=input_, flat_sequence=flat_result)
        for input_, flat_result in zip(input_seq, flat_results)
    ]
