# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks as loops."""
from __future__ import annotations

from typing import Any, Callable, Tuple

from millrace.python.framework import constant_op, dtypes, ops, tensor_shape
from millrace.python.ops import array_ops, control_flow_ops, math_ops, rnn_cell_impl, tensor_array_ops
from millrace.python.ops import variable_scope as vs
from millrace.python.ops._rnn_helpers import (
    _best_effort_input_batch_size,
    _concat,
    _infer_state_dtype,
    _maybe_tensor_shape_from_tensor,
    _rnn_step,
    _transpose_batch_time,
)
from millrace.python.util import nest


def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: Any = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> Tuple[Any, Any]:
    """Runs `cell` over `inputs` ([batch, time, ...], or time first); returns (outputs, final state).

    Beyond `sequence_length` ([batch]) outputs are zero and the state does not change. Raises TypeError when
    `cell` is not a cell, ValueError when neither an initial state nor `dtype` is given, or shapes do not fit.
    """
    rnn_cell_impl.assert_like_rnncell("cell", cell)
    with vs.variable_scope(scope or "rnn"):
        flat_input = nest.flatten(inputs)
        if not time_major:
            flat_input = [ops.convert_to_tensor(input_) for input_ in flat_input]
            flat_input = tuple(_transpose_batch_time(input_) for input_ in flat_input)  # type: ignore[assignment]
        else:
            flat_input = tuple(ops.convert_to_tensor(input_) for input_ in flat_input)  # type: ignore[assignment]
        parallel_iterations = parallel_iterations or 32
        if sequence_length is not None:
            sequence_length = math_ops.cast(sequence_length, dtypes.int32)
            if sequence_length.get_shape().ndims not in (None, 1):
                raise ValueError(
                    "sequence_length must be a vector of length batch_size, but saw shape: %s"
                    % sequence_length.get_shape()
                )
            sequence_length = array_ops.identity(sequence_length, name="sequence_length")
        batch_size = _best_effort_input_batch_size(flat_input)
        if initial_state is not None:
            state = initial_state
        else:
            if not dtype:
                raise ValueError("If there is no initial_state, you must give a dtype.")
            if getattr(cell, "get_initial_state", None) is not None:
                state = cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
            else:
                state = cell.zero_state(batch_size, dtype)
        if sequence_length is not None:
            with ops.control_dependencies([_assert_has_shape(sequence_length, [batch_size])]):
                sequence_length = array_ops.identity(sequence_length, name="CheckSeqLen")
        inputs = nest.pack_sequence_as(structure=inputs, flat_sequence=flat_input)
        outputs, final_state = _dynamic_rnn_loop(
            cell,
            inputs,
            state,
            parallel_iterations,
            swap_memory,
            sequence_length=sequence_length,
            dtype=dtype,
        )
        if not time_major:
            outputs = nest.map_structure(_transpose_batch_time, outputs)
        return outputs, final_state


def _assert_has_shape(x: Any, shape: Any) -> Any:
    x_shape = array_ops.shape(x)
    packed_shape = array_ops.stack(shape)
    return control_flow_ops.Assert(
        math_ops.reduce_all(math_ops.equal(x_shape, packed_shape)),
        ["Expected shape for Tensor %s is " % x.name, packed_shape, " but saw shape: ", x_shape],
    )


def _check_inputs(flat_input: Any) -> Tuple[Any, Any]:
    """Returns the static (time steps, batch size); ValueError when inputs differ in them."""
    shapes = [input_.get_shape().with_rank_at_least(3) for input_ in flat_input]
    const_time_steps, const_batch_size = (
        shapes[0].as_list()[:2] if shapes[0].ndims is not None else (None, None)
    )
    for shape in shapes:
        if shape.ndims is None or not shape[2:].is_fully_defined():
            raise ValueError(
                "Input size (depth of inputs) must be accessible via shape inference, but saw value None."
            )
        got_time_steps, got_batch_size = shape.as_list()[:2]
        if const_time_steps != got_time_steps:
            raise ValueError("Time steps is not the same for all the elements in the input in a batch.")
        if const_batch_size != got_batch_size:
            raise ValueError("Batch_size is not the same for all the elements in the input.")
    return const_time_steps, const_batch_size


def _dynamic_rnn_loop(
    cell: Any,
    inputs: Any,
    initial_state: Any,
    parallel_iterations: int,
    swap_memory: bool,
    sequence_length: Any = None,
    dtype: Any = None,
) -> Tuple[Any, Any]:
    """Runs the loop over inputs with time first."""
    state = initial_state
    assert isinstance(parallel_iterations, int), "parallel_iterations must be int"
    flat_input = nest.flatten(inputs)
    flat_output_size = nest.flatten(cell.output_size)
    time_steps = array_ops.shape(flat_input[0])[0]
    batch_size = _best_effort_input_batch_size(flat_input)
    const_time_steps, const_batch_size = _check_inputs(flat_input)

    def zero_output_of(size: Any) -> Any:
        size = _concat(batch_size, size)
        return array_ops.zeros(
            array_ops.stack(size) if isinstance(size, list) else size, _infer_state_dtype(dtype, state)
        )

    flat_zero_output = tuple(zero_output_of(output) for output in flat_output_size)
    for zero, size in zip(flat_zero_output, flat_output_size):
        zero.set_shape(
            _concat(const_batch_size if const_batch_size is not None else [None], size, static=True)
        )
    zero_output = nest.pack_sequence_as(structure=cell.output_size, flat_sequence=flat_zero_output)
    if sequence_length is not None:
        min_sequence_length = math_ops.reduce_min(sequence_length)
        max_sequence_length = math_ops.reduce_max(sequence_length)
    else:
        min_sequence_length, max_sequence_length = None, time_steps
    time = constant_op.constant(0, dtype=dtypes.int32, name="time")
    with ops.name_scope("dynamic_rnn") as base_name:
        pass

    def create_ta(name: str, element_shape: Any, dtype_: Any) -> Any:
        return tensor_array_ops.TensorArray(
            dtype=dtype_, size=time_steps, element_shape=element_shape, tensor_array_name=base_name + name
        )

    output_ta = tuple(
        create_ta(
            "output_%d" % i,
            tensor_shape.TensorShape([const_batch_size]).concatenate(
                _maybe_tensor_shape_from_tensor(out_size)
            ),
            _infer_state_dtype(dtype, state),
        )
        for i, out_size in enumerate(flat_output_size)
    )
    input_ta = tuple(
        create_ta("input_%d" % i, flat_input_i.shape[1:], flat_input_i.dtype)
        for i, flat_input_i in enumerate(flat_input)
    )
    input_ta = tuple(ta.unstack(input_) for ta, input_ in zip(input_ta, flat_input))

    def time_step(time: Any, output_ta_t: Any, state: Any) -> Any:
        input_t = tuple(ta.read(time) for ta in input_ta)
        for input_, original in zip(input_t, flat_input):
            input_.set_shape(original.get_shape()[1:])
        input_t = nest.pack_sequence_as(structure=inputs, flat_sequence=input_t)

        def call_cell() -> Any:
            return cell(input_t, state)

        if sequence_length is not None:
            output, new_state = _rnn_step(
                time=time,
                sequence_length=sequence_length,
                min_sequence_length=min_sequence_length,
                max_sequence_length=max_sequence_length,
                zero_output=zero_output,
                state=state,
                call_cell=call_cell,
                state_size=cell.state_size,
                skip_conditionals=True,
            )
        else:
            output, new_state = call_cell()
        output_ta_t = tuple(ta.write(time, out) for ta, out in zip(output_ta_t, nest.flatten(output)))
        return time + 1, output_ta_t, new_state

    loop_bound = math_ops.minimum(time_steps, math_ops.maximum(1, max_sequence_length))
    _, output_final_ta, final_state = control_flow_ops.while_loop(
        cond=lambda time, *_: time < loop_bound,
        body=time_step,
        loop_vars=(time, output_ta, state),
        parallel_iterations=parallel_iterations,
        maximum_iterations=time_steps,
        swap_memory=swap_memory,
    )
    final_outputs = tuple(ta.stack() for ta in output_final_ta)
    for output, output_size in zip(final_outputs, flat_output_size):
        shape = tensor_shape.TensorShape([const_time_steps, const_batch_size])
        output.set_shape(shape.concatenate(_maybe_tensor_shape_from_tensor(output_size)))
    return nest.pack_sequence_as(structure=cell.output_size, flat_sequence=final_outputs), final_state


def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: Any = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> Tuple[Any, Any]:
    """Runs one cell forward and one backward; returns ((outputs fw, bw), (final states fw, bw))."""
    rnn_cell_impl.assert_like_rnncell("cell_fw", cell_fw)
    rnn_cell_impl.assert_like_rnncell("cell_bw", cell_bw)
    with vs.variable_scope(scope or "bidirectional_rnn"):
        with vs.variable_scope("fw") as fw_scope:
            output_fw, output_state_fw = dynamic_rnn(
                cell_fw,
                inputs,
                sequence_length,
                initial_state_fw,
                dtype,
                parallel_iterations,
                swap_memory,
                time_major,
                fw_scope,
            )
        time_axis, batch_axis = (0, 1) if time_major else (1, 0)

        def reverse(input_: Any) -> Any:
            if sequence_length is not None:
                return array_ops.reverse_sequence(
                    input=input_, seq_lengths=sequence_length, seq_axis=time_axis, batch_axis=batch_axis
                )
            return array_ops.reverse(input_, axis=[time_axis])

        with vs.variable_scope("bw") as bw_scope:
            inputs_reverse = nest.map_structure(reverse, inputs)
            tmp, output_state_bw = dynamic_rnn(
                cell_bw,
                inputs_reverse,
                sequence_length,
                initial_state_bw,
                dtype,
                parallel_iterations,
                swap_memory,
                time_major,
                bw_scope,
            )
    output_bw = nest.map_structure(reverse, tmp)
    return (output_fw, output_bw), (output_state_fw, output_state_bw)


def _emitted(
    cell: Any, emit_structure: Any, state: Any, const_batch_size: Any, batch_size: Any
) -> Tuple[Any, Any]:
    """The TensorArrays for emitted values, and zeros for the rows that have finished."""
    if emit_structure is not None:
        flat_emit_structure = nest.flatten(emit_structure)
        flat_emit_size = [
            emit.shape if emit.shape.is_fully_defined() else array_ops.shape(emit)
            for emit in flat_emit_structure
        ]
        flat_emit_dtypes = [emit.dtype for emit in flat_emit_structure]
    else:
        emit_structure = cell.output_size
        flat_emit_size = nest.flatten(emit_structure)
        flat_emit_dtypes = [nest.flatten(state)[0].dtype] * len(flat_emit_size)
    flat_emit_ta = [
        tensor_array_ops.TensorArray(
            dtype=dtype_i,
            dynamic_size=True,
            element_shape=tensor_shape.TensorShape([const_batch_size]).concatenate(
                _maybe_tensor_shape_from_tensor(size_i)
            ),
            size=0,
            name="rnn_output_%d" % i,
        )
        for i, (dtype_i, size_i) in enumerate(zip(flat_emit_dtypes, flat_emit_size))
    ]
    emit_ta = nest.pack_sequence_as(structure=emit_structure, flat_sequence=flat_emit_ta)
    flat_zero_emit = [
        array_ops.zeros(_concat(batch_size, size_i), dtype_i)
        for size_i, dtype_i in zip(flat_emit_size, flat_emit_dtypes)
    ]
    zero_emit = nest.pack_sequence_as(structure=emit_structure, flat_sequence=flat_zero_emit)
    return emit_ta, zero_emit


def raw_rnn(
    cell: Any,
    loop_fn: Callable[..., Any],
    parallel_iterations: Any = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> Tuple[Any, Any, Any]:
    """Runs `cell` under the control of `loop_fn`; returns (TensorArray of outputs, final state, loop state).

    `loop_fn(time, cell_output, cell_state, loop_state)` returns (finished [batch], next input, next state, output to
    emit, next loop state). Raises TypeError when `loop_fn` cannot be called, ValueError when structures do not fit.
    """
    rnn_cell_impl.assert_like_rnncell("cell", cell)
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    parallel_iterations = parallel_iterations or 32
    with vs.variable_scope(scope or "rnn"):
        time = constant_op.constant(0, dtype=dtypes.int32)
        elements_finished, next_input, initial_state, emit_structure, init_loop_state = loop_fn(
            time, None, None, None
        )
        flat_input = nest.flatten(next_input)
        loop_state = (
            init_loop_state if init_loop_state is not None else constant_op.constant(0, dtype=dtypes.int32)
        )
        static_batch_size = tensor_shape.dimension_at_index(flat_input[0].get_shape(), 0)
        for input_ in flat_input:
            static_batch_size = static_batch_size.merge_with(
                tensor_shape.dimension_at_index(input_.get_shape(), 0)
            )
        batch_size = tensor_shape.dimension_value(static_batch_size)
        const_batch_size = batch_size
        if batch_size is None:
            batch_size = array_ops.shape(flat_input[0])[0]
        nest.assert_same_structure(initial_state, cell.state_size)
        state = nest.pack_sequence_as(initial_state, nest.flatten(initial_state))
        emit_ta, zero_emit = _emitted(cell, emit_structure, state, const_batch_size, batch_size)

        def body(
            time: Any, finished: Any, current_input: Any, emit_ta: Any, state: Any, loop_state: Any
        ) -> Any:
            next_output, cell_state = cell(current_input, state)
            nest.assert_same_structure(state, cell_state)
            nest.assert_same_structure(cell.output_size, next_output)
            next_time = time + 1
            next_finished, next_input, next_state, emit_output, next_loop_state = loop_fn(
                next_time, next_output, cell_state, loop_state
            )
            nest.assert_same_structure(state, next_state)
            nest.assert_same_structure(current_input, next_input)
            nest.assert_same_structure(emit_ta, emit_output)
            if next_loop_state is None:
                next_loop_state = loop_state

            def copy_some_through(current: Any, candidate: Any) -> Any:
                def copy_fn(cur_i: Any, cand_i: Any) -> Any:
                    if isinstance(cur_i, tensor_array_ops.TensorArray) or cur_i.shape.ndims == 0:
                        return cand_i
                    with ops.colocate_with(cand_i):
                        return array_ops.where(finished, cur_i, cand_i)

                return nest.map_structure(copy_fn, current, candidate)

            emit_output = copy_some_through(zero_emit, emit_output)
            next_state = copy_some_through(state, next_state)
            emit_ta = nest.map_structure(lambda ta, emit: ta.write(time, emit), emit_ta, emit_output)
            finished = math_ops.logical_or(finished, next_finished)
            return next_time, finished, next_input, emit_ta, next_state, next_loop_state

        _, _, _, emit_ta, final_state, loop_state = control_flow_ops.while_loop(
            lambda unused_time, finished, *_: math_ops.logical_not(math_ops.reduce_all(finished)),
            body,
            loop_vars=[time, elements_finished, next_input, emit_ta, state, loop_state],
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
        )
        return emit_ta, final_state, loop_state if init_loop_state is not None else None
