# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks unrolled over lists of inputs."""
from __future__ import annotations

from typing import Any, Tuple

from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.ops import array_ops, math_ops, rnn_cell_impl
from millrace.python.ops import variable_scope as vs
from millrace.python.ops._rnn_helpers import _concat, _infer_state_dtype, _reverse_seq, _rnn_step
from millrace.python.util import nest


def static_rnn(
    cell: Any,
    inputs: Any,
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> Tuple[Any, Any]:
    """Runs `cell` over a list of inputs [batch, depth]; returns (list of outputs, final state).

    Raises TypeError when `inputs` is no list, ValueError when it is empty, sizes are unknown, or neither an initial state
    nor `dtype` is given.
    """
    rnn_cell_impl.assert_like_rnncell("cell", cell)
    if not nest.is_sequence(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    outputs = []
    with vs.variable_scope(scope or "rnn") as varscope:
        first_input = inputs
        while nest.is_sequence(first_input):
            first_input = (
                nest.flatten(first_input)[0] if not isinstance(first_input, (list, tuple)) else first_input[0]
            )
        fixed_batch_size: Any = None
        if first_input.get_shape().ndims != 1:
            input_shape = first_input.get_shape().with_rank_at_least(2)
            fixed_batch_size = tensor_shape.dimension_at_index(input_shape, 0)
            for flat_input in (nest.flatten(i) for i in inputs):
                for input_ in flat_input:
                    shape = input_.get_shape()
                    if shape.ndims is None:
                        continue
                    fixed_batch_size = fixed_batch_size.merge_with(tensor_shape.dimension_at_index(shape, 0))
                    if not shape[1:].is_fully_defined():
                        raise ValueError(
                            "Input size (dimension 1 of inputs) must be accessible via shape inference, but saw value "
                            "None."
                        )
        else:
            fixed_batch_size = tensor_shape.dimension_at_index(
                first_input.get_shape().with_rank_at_least(1), 0
            )
        batch_size = tensor_shape.dimension_value(fixed_batch_size)
        if batch_size is None:
            batch_size = array_ops.shape(first_input)[0]
        if initial_state is not None:
            state = initial_state
        else:
            if not dtype:
                raise ValueError("If no initial_state is provided, dtype must be specified")
            if getattr(cell, "get_initial_state", None) is not None:
                state = cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
            else:
                state = cell.zero_state(batch_size, dtype)
        zero_output: Any = None
        if sequence_length is not None:
            sequence_length = ops.convert_to_tensor(sequence_length, name="sequence_length")
            if sequence_length.get_shape().ndims not in (None, 1):
                raise ValueError("sequence_length must be a vector of length batch_size")

            def create_zero_output(output_size: Any) -> Any:
                output = array_ops.zeros(_concat(batch_size, output_size), _infer_state_dtype(dtype, state))
                known = tensor_shape.dimension_value(fixed_batch_size)
                output.set_shape(_concat([known], output_size, static=True))
                return output

            zero_output = nest.map_structure(create_zero_output, cell.output_size)
            sequence_length = math_ops.cast(sequence_length, dtypes.int32)
            min_sequence_length = math_ops.reduce_min(sequence_length)
            max_sequence_length = math_ops.reduce_max(sequence_length)
        for time, input_ in enumerate(inputs):
            if time > 0:
                varscope.reuse_variables()

            def call_cell(input_: Any = input_, state: Any = state) -> Any:
                return cell(input_, state)

            if sequence_length is not None:
                output, state = _rnn_step(
                    time=time,
                    sequence_length=sequence_length,
                    min_sequence_length=min_sequence_length,
                    max_sequence_length=max_sequence_length,
                    zero_output=zero_output,
                    state=state,
                    call_cell=call_cell,
                    state_size=cell.state_size,
                )
            else:
                output, state = call_cell()
            outputs.append(output)
        return outputs, state


def static_state_saving_rnn(
    cell: Any, inputs: Any, state_saver: Any, state_name: Any, sequence_length: Any = None, scope: Any = None
) -> Tuple[Any, Any]:
    """As `static_rnn`; the state comes from `state_saver.state(name)` and goes to `state_saver.save_state(name, value)`."""
    rnn_cell_impl.assert_like_rnncell("cell", cell)
    state_size = cell.state_size
    state_is_tuple = nest.is_sequence(state_size)
    state_name_tuple = nest.is_sequence(state_name)
    if state_is_tuple != state_name_tuple:
        raise ValueError(
            "state_name should be the same type as cell.state_size.  state_name: %s, cell.state_size: %s"
            % (str(state_name), str(state_size))
        )
    if state_is_tuple:
        state_name_flat, state_size_flat = nest.flatten(state_name), nest.flatten(state_size)
        if len(state_name_flat) != len(state_size_flat):
            raise ValueError(
                "#elems(state_name) != #elems(state_size): %d vs. %d"
                % (len(state_name_flat), len(state_size_flat))
            )
        initial_state = nest.pack_sequence_as(state_size, [state_saver.state(s) for s in state_name_flat])
    else:
        initial_state = state_saver.state(state_name)
    outputs, state = static_rnn(
        cell, inputs, initial_state=initial_state, sequence_length=sequence_length, scope=scope
    )
    if state_is_tuple:
        flat_state = nest.flatten(state)
        save_state = [state_saver.save_state(n, s) for n, s in zip(nest.flatten(state_name), flat_state)]
    else:
        save_state = [state_saver.save_state(state_name, state)]
    with ops.control_dependencies(save_state):
        last_output = outputs[-1]
        flat_last = [array_ops.identity(output) for output in nest.flatten(last_output)]
        outputs[-1] = nest.pack_sequence_as(structure=last_output, flat_sequence=flat_last)
        if state_is_tuple:
            state = nest.pack_sequence_as(state, [array_ops.identity(s) for s in flat_state])
        else:
            state = array_ops.identity(state)
    return outputs, state


def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> Tuple[Any, Any, Any]:
    """Runs one cell forward and one backward; returns (joined outputs, final state fw, final state bw)."""
    rnn_cell_impl.assert_like_rnncell("cell_fw", cell_fw)
    rnn_cell_impl.assert_like_rnncell("cell_bw", cell_bw)
    if not nest.is_sequence(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with vs.variable_scope(scope or "bidirectional_rnn"):
        with vs.variable_scope("fw") as fw_scope:
            output_fw, output_state_fw = static_rnn(
                cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope=fw_scope
            )
        with vs.variable_scope("bw") as bw_scope:
            reversed_inputs = _reverse_seq(inputs, sequence_length)
            tmp, output_state_bw = static_rnn(
                cell_bw, reversed_inputs, initial_state_bw, dtype, sequence_length, scope=bw_scope
            )
    output_bw = _reverse_seq(tmp, sequence_length)
    flat_outputs = tuple(
        array_ops.concat([fw, bw], 1) for fw, bw in zip(nest.flatten(output_fw), nest.flatten(output_bw))
    )
    outputs = nest.pack_sequence_as(structure=output_fw, flat_sequence=flat_outputs)
    return outputs, output_state_fw, output_state_bw
