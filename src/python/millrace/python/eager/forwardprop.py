# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives along a direction: products of Jacobians and vectors."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import backprop
from millrace.python.framework import ops
from millrace.python.ops import array_ops, math_ops
from millrace.python.util import nest


class ForwardGradientAccumulator:
    """A context that computes, for ops on watched tensors, the derivatives along their tangents.

    They are computed by differentiating twice: the gradient of the watched tensors is a linear function of
      the incoming
    gradient, and the gradient of that function, applied to the tangents, is the product of the Jacobian and
    the tangents. Contexts may be nested, also in `GradientTape`s.
    """

    def __init__(self) -> None:
        self._tape = backprop.GradientTape(persistent=True, watch_accessed_variables=False)
        self._recording = False
        self._watched: list[tuple[Any, Any]] = []

    def __enter__(self) -> ForwardGradientAccumulator:
        if self._recording:
            raise ValueError("Accumulator is already recording.")
        self._tape.__enter__()
        self._recording = True
        return self

    def __exit__(self, typ: Any, value: Any, traceback: Any) -> None:
        if not self._recording:
            raise ValueError("Accumulator is not recording.")
        self._recording = False
        self._tape.__exit__(typ, value, traceback)

    def watch(self, tensor: Any, tangents: Any) -> None:
        """Sets the directions of tensors or variables in which the derivatives are taken.

        Args:
          tensor: a tensor, or a structure of them.
          tangents: of the same shapes.

        Raises:
          ValueError: the shapes differ.
        """
        each = nest.flatten_up_to(tensor, tangents) if nest.is_sequence(tensor) else [tangents]
        for t, tangent in zip(nest.flatten(tensor), each):
            tangent = ops.convert_to_tensor(tangent, dtype=t.dtype.base_dtype)
            if not tangent.shape.is_compatible_with(t.shape):
                raise ValueError("Tangent of shape %s for a tensor of shape %s" % (tangent.shape, t.shape))
            self._tape.watch(t)
            self._watched.append((t, tangent))

    def jvp(self, target: Any) -> Any:
        """The derivatives of a tensor, or of a structure of them; None where it depends on nothing watched."""
        if self._recording:
            with self._tape.stop_recording():
                return nest.map_structure(self._jvp, target)
        return nest.map_structure(self._jvp, target)

    def _jvp(self, target: Any) -> Any:
        total = None
        for i, (tensor, tangent) in enumerate(self._watched):
            if tensor is target and not any(t is tensor for t, _ in self._watched[:i]):
                total = tangent
        for tensor, tangent in self._watched:
            if tensor is target:
                continue
            with backprop.GradientTape(persistent=True) as direction:
                arriving = array_ops.ones_like(target)
                direction.watch(arriving)
                grad = self._tape.gradient(target, tensor, output_gradients=arriving)
                if grad is None:
                    continue
                product = math_ops.reduce_sum(ops.convert_to_tensor(grad) * tangent)
            found = direction.gradient(product, arriving)
            if found is not None:
                total = found if total is None else total + found
        return total
