# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Beam trees: sequences reconstructed from the beams of all steps and their parents."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.ops import array_ops, control_flow_ops, math_ops, tensor_array_ops
from millrace.python.util import nest


def gather_tree(
    step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any, name: Any = None
) -> Any:
    """The whole sequence of each beam of the last step.

    Args:
      step_ids: int32 [time, batch, beam], the ids of steps.
      parent_ids: int32 [time, batch, beam], the beam of the previous step that each continues.
      max_sequence_lengths: int32 [batch].
      end_token: int32 [], the token that fills the positions after the first end and beyond the length.
      name: of the scope.

    Returns:
      int32 [time, batch, beam].
    """
    with ops.name_scope(name, "GatherTree", [step_ids, parent_ids, max_sequence_lengths, end_token]):
        step_ids = ops.convert_to_tensor(step_ids, dtype=dtypes.int32)
        parent_ids = ops.convert_to_tensor(parent_ids, dtype=dtypes.int32)
        lengths = array_ops.expand_dims(ops.convert_to_tensor(max_sequence_lengths, dtype=dtypes.int32), 1)
        end_token = ops.convert_to_tensor(end_token, dtype=dtypes.int32)
        shape = array_ops.shape(step_ids)
        steps = shape[0]
        own = array_ops.tile(
            array_ops.reshape(math_ops.range(shape[2]), [1, -1]), array_ops.stack([shape[1], 1])
        )
        filler = array_ops.fill(shape[1:], end_token)

        def body(left: Any, beams: Any, collected: Any) -> Any:
            t = left - 1
            inside = math_ops.less(array_ops.fill(shape[1:], t), lengths)
            ids = array_ops.batch_gather(step_ids[t], beams)
            parents = array_ops.batch_gather(parent_ids[t], beams)
            collected = collected.write(t, array_ops.where(inside, ids, filler))
            return t, array_ops.where(inside, parents, beams), collected

        array = tensor_array_ops.TensorArray(dtypes.int32, size=steps, element_shape=step_ids.shape[1:])
        _, _, array = control_flow_ops.while_loop(
            lambda left, beams, collected: left > 0, body, [steps, own, array]
        )
        sequences = array.stack()
        # All positions after the first end token are end tokens.
        at_end = math_ops.cast(math_ops.equal(sequences, end_token), dtypes.int32)
        behind = math_ops.cumsum(at_end, axis=0, exclusive=True) > 0
        result = array_ops.where(behind, array_ops.fill(shape, end_token), sequences)
        result.set_shape(step_ids.shape)
        return result


def gather_tree_from_array(t: Any, parent_ids: Any, sequence_length: Any) -> Any:
    """The values of each beam's whole sequence: [time, batch, beam, ...].

    Args:
      t: the values of steps.
      parent_ids: int32 [time, batch, beam].
      sequence_length: [batch, beam].
    """
    max_time = parent_ids.shape.dims[0].value or array_ops.shape(parent_ids)[0]
    batch_size = parent_ids.shape.dims[1].value or array_ops.shape(parent_ids)[1]
    beam_width = parent_ids.shape.dims[2].value or array_ops.shape(parent_ids)[2]
    beams = array_ops.reshape(math_ops.range(beam_width), [1, 1, -1])
    beam_ids = array_ops.tile(beams, array_ops.stack([max_time, batch_size, 1]))
    longest = math_ops.cast(math_ops.reduce_max(sequence_length, axis=1), dtypes.int32)
    sorted_beam_ids = gather_tree(beam_ids, parent_ids, longest, beam_width + 1)
    in_bounds = array_ops.transpose(array_ops.sequence_mask(sequence_length, maxlen=max_time), perm=[2, 0, 1])
    sorted_beam_ids = array_ops.where(in_bounds, x=sorted_beam_ids, y=beam_ids)
    flat = array_ops.reshape(sorted_beam_ids, array_ops.stack([max_time * batch_size, beam_width]))
    shape = array_ops.shape(t)
    values = array_ops.reshape(t, array_ops.concat([array_ops.stack([max_time * batch_size]), shape[2:]], 0))
    ordered = array_ops.reshape(array_ops.batch_gather(values, flat), shape)
    ordered.set_shape(t.shape)
    return ordered


def _tile_one(t: Any, multiplier: int) -> Any:
    t = ops.convert_to_tensor(t, name="t")
    if t.shape.ndims is None:
        raise ValueError("t must have statically known rank")
    if t.shape.ndims == 0:
        return t
    tiling = [1] * (t.shape.ndims + 1)
    tiling[1] = multiplier
    tiled = array_ops.tile(array_ops.expand_dims(t, 1), tiling)
    shape = array_ops.shape(t)
    tiled = array_ops.reshape(tiled, array_ops.concat(([shape[0] * multiplier], shape[1:]), 0))
    first = t.shape.dims[0].value
    tiled.set_shape(
        tensor_shape.TensorShape([first * multiplier if first is not None else None]).concatenate(t.shape[1:])
    )
    return tiled


def tile_batch(t: Any, multiplier: int, name: Any = None) -> Any:
    """Each entry of a batch `multiplier` times, one after another: a structure of tensors [batch, ...]."""
    with ops.name_scope(name, "tile_batch", nest.flatten(t) + [multiplier]):
        return nest.map_structure(lambda t_: _tile_one(t_, multiplier), t)
