# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients by tapes, in graphs."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops.unconnected_gradients import UnconnectedGradients
from millrace.python.util import nest


class GradientTape:
    """A context whose `gradient` differentiates what was computed in it.

    In a graph nothing needs to be recorded: the gradient is that of tf.gradients.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._watch_accessed_variables = watch_accessed_variables
        self._recording = False
        self._used = False
        self._watched: list[Any] = []

    def __enter__(self) -> GradientTape:
        if self._recording:
            raise ValueError("Tape is already recording.")
        self._recording = True
        return self

    def __exit__(self, typ: Any, value: Any, traceback: Any) -> None:
        self._recording = False

    def watch(self, tensor: Any) -> None:
        """Says that gradients by a tensor will be asked for."""
        for t in nest.flatten(tensor):
            if not (hasattr(t, "dtype") and (t.dtype.is_floating or t.dtype.is_complex)):
                raise ValueError("Tensors of type %s cannot be watched" % getattr(t, "dtype", type(t)))
            self._watched.append(t)

    def stop_recording(self) -> Any:
        """A context in which nothing is recorded."""
        import contextlib

        if not self._recording:
            raise ValueError("Tape is not recording.")
        return contextlib.nullcontext()

    def reset(self) -> None:
        """Forgets what was watched."""
        self._watched = []
        self._used = False

    def watched_variables(self) -> tuple[Any, ...]:
        """The variables that were watched."""
        return tuple(t for t in self._watched if hasattr(t, "initializer"))

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:  # fmt: skip
        """The gradients of `target` by `sources`, in the structure of `sources`.

        Raises:
          RuntimeError: if a tape that is not persistent is asked for the second time.
        """
        if self._used and not self._persistent:
            raise RuntimeError("GradientTape.gradient can only be called once on non-persistent tapes.")
        self._used = True
        from millrace.python.ops import gradients_impl

        flat_output = None if output_gradients is None else nest.flatten(output_gradients)
        grads = gradients_impl.gradients(
            nest.flatten(target), nest.flatten(sources), grad_ys=flat_output,
            unconnected_gradients=unconnected_gradients,
        )  # fmt: skip
        return nest.pack_sequence_as(sources, grads)

    def jacobian(
        self, target: Any, sources: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: Any = None, experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """The derivatives of each element of `target` by `sources`: shapes target.shape + source.shape."""
        from millrace.python.ops import array_ops, gradients_impl, map_fn

        self._used = True
        flat_sources = nest.flatten(sources)
        rows = array_ops.reshape(target, [-1])

        def gradient_of(i: Any) -> Any:
            found = gradients_impl.gradients(
                array_ops.gather(rows, i), flat_sources, unconnected_gradients=UnconnectedGradients.ZERO
            )
            return [ops.convert_to_tensor(g) for g in found]

        from millrace.python.ops import math_ops

        outs = map_fn.map_fn(
            gradient_of, math_ops.range(array_ops.size(rows)), dtype=[s.dtype.base_dtype for s in flat_sources],
            parallel_iterations=parallel_iterations or 10,
        )  # fmt: skip
        shaped = []
        for out, source in zip(outs, flat_sources):
            shape = array_ops.concat([array_ops.shape(target), array_ops.shape(source)], 0)
            out = array_ops.reshape(out, shape)
            out.set_shape(target.shape.concatenate(source.shape))
            shaped.append(out)
        return nest.pack_sequence_as(sources, shaped)


def implicit_grad(f: Any) -> Any:
    """A function that gives the gradients of `f` by the variables of the graph, with the variables."""

    def grad_fn(*args: Any, **kwargs: Any) -> list[Any]:
        from millrace.python.ops import gradients_impl, variables

        value = f(*args, **kwargs)
        trainable = variables.trainable_variables()
        found = gradients_impl.gradients(value, trainable)
        return [(g, v) for g, v in zip(found, trainable) if g is not None]

    return grad_fn


def gradients_function(f: Any, params: Any = None) -> Any:
    """A function that gives the gradients of `f` by its arguments."""

    def decorated(*args: Any) -> list[Any]:
        return val_and_grad_function(f, params)(*args)[1]

    return decorated


def val_and_grad_function(f: Any, params: Any = None) -> Any:
    """A function that gives the value of `f` and its gradients by its arguments."""

    def decorated(*args: Any) -> tuple[Any, list[Any]]:
        from millrace.python.ops import gradients_impl

        tensors = [ops.convert_to_tensor(a) for a in args]
        value = f(*tensors)
        chosen = tensors if params is None else [tensors[p] for p in params]
        return value, gradients_impl.gradients(value, chosen)

    return decorated


