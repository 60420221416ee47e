# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of the ops that a tape recorded."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import _gradient_programs, tape as tape_module
from millrace.python.framework import indexed_slices, ops
from millrace.python.ops.unconnected_gradients import UnconnectedGradients


def _add(a: Any, b: Any) -> Any:
    return aggregate_indexed_slices_gradients([a, b])


def aggregate_indexed_slices_gradients(grads: Any) -> Any:
    """The sum of gradients: IndexedSlices if all of them are."""
    from millrace.python.ops import array_ops, math_ops

    grads = [g for g in grads if g is not None]
    if len(grads) <= 1:
        return grads[0] if grads else None
    if not all(isinstance(g, indexed_slices.IndexedSlices) for g in grads):
        return math_ops.add_n([ops.convert_to_tensor(g) for g in grads])
    kinds = {g.indices.dtype for g in grads}
    indices = [g.indices for g in grads]
    if len(kinds) > 1:
        from millrace.python.framework import dtypes

        indices = [math_ops.cast(i, dtypes.int64) for i in indices]
    return indexed_slices.IndexedSlices(
        array_ops.concat([g.values for g in grads], axis=0),
        array_ops.concat(indices, axis=0),
        grads[0].dense_shape,
    )


def _relevant(records: list[Any], source_ids: set[int]) -> set[int]:
    """The numbers of the tensors that depend on the sources, and of the sources."""
    found = set(source_ids)
    for record in records:
        if any(t._id in found for t in record.flat if hasattr(t, "_shape_tuple")):
            found.update(t._id for t in record.outputs if t.dtype._type_enum in tape_module._TRAINABLE)
    return found


def _ones_like(target: Any) -> Any:
    from millrace.python.ops import default_gradient, gen_array_ops

    if target.dtype._type_enum == 20:  # a handle
        return default_gradient.ones_like(target)
    return gen_array_ops.ones_like(target)


def _zeros_like(tensor: Any) -> Any:
    from millrace.python.ops import default_gradient

    return default_gradient.zeros_like(tensor)


def _of_record(record: Any, outgoing: list[Any], relevant: set[int]) -> list[Any]:
    wanted = [t._id in relevant and t.dtype._type_enum in tape_module._TRAINABLE for t in record.flat]
    if record.backward is None:
        return _gradient_programs.gradients(record, outgoing, wanted)
    filled = [
        _zeros_like(t) if g is None and t.dtype._type_enum in tape_module._TRAINABLE else g
        for g, t in zip(outgoing, record.outputs)
    ]
    result = record.backward(*filled)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def imperative_grad(
    tape: Any, target: Any, sources: Any, output_gradients: Any = None, sources_raw: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Any]:  # fmt: skip
    """The gradients of the sum of the targets.

    Args:
      tape: the recorded ops.
      target: a list of tensors.
      sources: a list of tensors.
      output_gradients: the initial gradient of each target; None: ones.
      sources_raw: ignored.
      unconnected_gradients: NONE or ZERO.

    Raises:
      ValueError: unconnected_gradients is something else.
      LookupError: an op has no gradient.
    """
    try:
        unconnected_gradients = UnconnectedGradients(unconnected_gradients)
    except ValueError:
        raise ValueError("Unknown value for unconnected_gradients: %r" % unconnected_gradients) from None
    given = [None] * len(target) if output_gradients is None else list(output_gradients)
    grads: dict[int, Any] = {}
    for t, g in zip(target, given):
        g = _ones_like(t) if g is None else g
        old = grads.get(t._id)
        grads[t._id] = g if old is None else _add(old, g)
    relevant = _relevant(tape.records, {s._id for s in sources})
    sums: dict[int, list[Any]] = {key: [g] for key, g in grads.items()}
    for record in reversed(list(tape.records)):
        outgoing = [_total(sums, t._id) for t in record.outputs]
        if all(g is None for g in outgoing) or not any(t._id in relevant for t in record.outputs):
            continue
        for t, g in zip(record.flat, _of_record(record, outgoing, relevant)):
            if g is not None and t._id in relevant:
                sums.setdefault(t._id, []).append(g)
    results = []
    for s in sources:
        g = _total(sums, s._id)
        if g is None and unconnected_gradients is UnconnectedGradients.ZERO:
            g = _zeros_like(s)
        results.append(g)
    return results


def _total(sums: dict[int, list[Any]], key: int) -> Any:
    """The sum of the gradients of a tensor."""
    parts = sums.get(key)
    if parts is None:
        return None
    if len(parts) > 1:
        parts[:] = [aggregate_indexed_slices_gradients(parts)]
    return parts[0]
