# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.GradientTape in graphs: gradients of what was made within a context."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops.unconnected_gradients import UnconnectedGradients
from millrace.python.platform import tf_logging as logging
from millrace.python.util import nest


class GradientTape:
    """Remembers for which tensors gradients are wanted.

    Args:
      persistent: whether `gradient` may be called more than once.
      watch_accessed_variables: whether trainable variables count as watched.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._watch_accessed_variables = watch_accessed_variables
        self._watched: dict[int, Any] = {}
        self._watched_variables: dict[int, Any] = {}
        self._recording = False
        self._used = False
        self._first_id = 0

    def __enter__(self) -> GradientTape:
        if self._recording:
            raise ValueError("Tape is already recording.")
        self._recording = True
        return self

    def __exit__(self, typ: Any, value: Any, traceback: Any) -> None:
        self._recording = False

    def watch(self, tensor: Any) -> None:
        """Gradients with respect to `tensor`, a tensor or a structure of them, will be asked for."""
        for t in nest.flatten(tensor):
            if not t.dtype.is_floating and not t.dtype.is_complex:
                logging.log_first_n(
                    logging.WARN,
                    "The dtype of the watched tensor must be floating (e.g. tf.float32), got %r",
                    5,
                    t.dtype,
                )
            if hasattr(t, "handle"):
                self._watched_variables[id(t)] = t
            else:
                self._watched[id(t)] = t

    def stop_recording(self) -> Any:
        """A context whose operations are not differentiated."""
        if not self._recording:
            raise ValueError("Tape is not recording.")
        return _Pause(self)

    def reset(self) -> None:
        """Forgets what is watched."""
        self._watched.clear()
        self._watched_variables.clear()

    def watched_variables(self) -> tuple[Any, ...]:
        """The variables that are watched."""
        found = dict(self._watched_variables)
        if self._watch_accessed_variables:
            for v in ops.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES):
                found[id(v)] = v
        return tuple(found.values())

    def _is_watched(self, source: Any) -> bool:
        if id(source) in self._watched or id(source) in self._watched_variables:
            return True
        if isinstance(source, ops.Tensor):
            return False
        return self._watch_accessed_variables and getattr(source, "trainable", True)

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:  # fmt: skip
        """The derivatives of the sum of `target` with respect to each of `sources`.

        Args:
          target: a tensor or a structure of them.
          sources: tensors that are watched, or variables, in a structure.
          output_gradients: what arrives at each target; ones when None.
          unconnected_gradients: what the gradient is of a source that the target does not depend on.

        Raises:
          RuntimeError: it was called before and the tape is not persistent.
        """
        from millrace.python.ops import gradients_impl

        if self._used and not self._persistent:
            raise RuntimeError("GradientTape.gradient can only be called once on non-persistent tapes.")
        self._used = True
        flat_sources = nest.flatten(sources)
        watched = [s for s in flat_sources if self._is_watched(s)]
        targets = [ops.convert_to_tensor(t) for t in nest.flatten(target)]
        arriving = None if output_gradients is None else nest.flatten(output_gradients)
        found = gradients_impl.gradients(
            targets, watched, grad_ys=arriving, unconnected_gradients=unconnected_gradients
        )
        by_source = {id(s): g for s, g in zip(watched, found)}
        results: list[Any] = []
        for s in flat_sources:
            grad = by_source.get(id(s))
            if grad is None and UnconnectedGradients(unconnected_gradients) is UnconnectedGradients.ZERO:
                from millrace.python.ops import array_ops

                grad = array_ops.zeros_like(s)
            results.append(grad)
        return nest.pack_sequence_as(sources, results)

    def jacobian(
        self, target: Any, sources: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: Any = None, experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """The derivatives of each element of `target`: tensors of the shape of the target and the source."""
        del experimental_use_pfor
        from millrace.python.ops import array_ops, control_flow_ops, gradients_impl, tensor_array_ops

        flat_sources = nest.flatten(sources)
        flat_target = array_ops.reshape(target, [-1])
        count = array_ops.size(flat_target)
        arrays = [tensor_array_ops.TensorArray(s.dtype.base_dtype, count) for s in flat_sources]

        def body(i: Any, tas: Any) -> Any:
            grads = gradients_impl.gradients(array_ops.gather(flat_target, i), flat_sources)
            rows = [
                array_ops.zeros_like(s) if g is None else ops.convert_to_tensor(g)
                for g, s in zip(grads, flat_sources)
            ]
            return i + 1, [ta.write(i, row) for ta, row in zip(tas, rows)]

        connected = gradients_impl.gradients(flat_target, flat_sources)
        _, arrays = control_flow_ops.while_loop(
            lambda i, _: i < count, body, (0, arrays), parallel_iterations=parallel_iterations or 10
        )
        results: list[Any] = []
        for ta, source, grad in zip(arrays, flat_sources, connected):
            if grad is None and UnconnectedGradients(unconnected_gradients) is UnconnectedGradients.NONE:
                results.append(None)
                continue
            shape = array_ops.concat([array_ops.shape(target), array_ops.shape(source)], 0)
            results.append(array_ops.reshape(ta.stack(), shape))
        return nest.pack_sequence_as(sources, results)


class _Pause:
    def __init__(self, tape: GradientTape) -> None:
        self._tape = tape

    def __enter__(self) -> None:
        self._tape._recording = False

    def __exit__(self, *args: Any) -> None:
        self._tape._recording = True


def gradients_function(f: Any, params: Any = None) -> Any:
    """A function of tensors that returns the gradients of `f` with respect to its arguments `params` (numbers)."""

    def decorated(*args: Any, **kwargs: Any) -> Any:
        return val_and_grad_function(f, params)(*args, **kwargs)[1]

    return decorated


def val_and_grad_function(f: Any, params: Any = None) -> Any:
    """A function of tensors that returns the result of `f` and its gradients."""

    def decorated(*args: Any, **kwargs: Any) -> Any:
        from millrace.python.ops import gradients_impl

        dy = kwargs.pop("dy", None)
        tensors = [ops.convert_to_tensor(a) for a in args]
        result = f(*tensors)
        if result is None:
            raise ValueError(
                "Cannot differentiate a function that returns None; did you forget to return a value from {}?".format(
                    f.__name__
                )
            )
        wanted = [tensors[i] for i in (range(len(tensors)) if params is None else params)]
        return result, gradients_impl.gradients(result, wanted, grad_ys=dy)

    return decorated


def implicit_val_and_grad(f: Any) -> Any:
    """A function that returns the result of `f` and pairs of gradient and trainable variable."""

    def decorated(*args: Any, **kwargs: Any) -> Any:
        from millrace.python.ops import gradients_impl

        result = f(*args, **kwargs)
        variables = ops.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES)
        grads = gradients_impl.gradients(result, variables)
        return result, [(g, v) for g, v in zip(grads, variables) if g is not None]

    return decorated


def implicit_grad(f: Any) -> Any:
    """A function that returns pairs of gradient and trainable variable."""
    return lambda *args, **kwargs: implicit_val_and_grad(f)(*args, **kwargs)[1]
