# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.GradientTape, and functions that differentiate functions."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

from millrace.python import _engine
from millrace.python.eager import context, tape
from millrace.python.eager import imperative_grad as imperative_grad_lib
from millrace.python.eager.imperative_grad import (  # noqa: F401
    aggregate_indexed_slices_gradients as _aggregate_grads,
)
from millrace.python.framework import ops
from millrace.python.ops.unconnected_gradients import UnconnectedGradients
from millrace.python.platform import tf_logging as logging
from millrace.python.util import nest

imperative_grad = imperative_grad_lib.imperative_grad


def _handle_or_self(x: Any) -> Any:
    """The key of a variable in tapes: its handle."""
    return x.handle if hasattr(x, "handle") and not isinstance(x, ops.Tensor) else x


class GradientTape:
    """Records the ops executed in its context on watched tensors and variables, for gradients.

    Args:
      persistent: whether `gradient` may be called more than once.
      watch_accessed_variables: whether trainable variables are watched when they are read.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._tape: Any = None
        self._persistent = persistent
        self._watch_accessed_variables = watch_accessed_variables
        self._watched_variables: Any = ()
        self._recording = False
        self._used_in_graph = False
        self._created_eagerly = context.executing_eagerly()

    def __enter__(self) -> GradientTape:
        self._push_tape()
        return self

    def __exit__(self, typ: Any, value: Any, traceback: Any) -> None:
        if self._recording:
            self._pop_tape()

    def _push_tape(self, existing_tape: bool = False) -> None:
        if self._recording:
            raise ValueError("Tape is already recording.")
        if existing_tape and self._tape is None:
            raise ValueError("There is no existing tape.")
        if self._tape is None or not (existing_tape or self._persistent):
            self._tape = tape.push_new_tape(self._persistent, self._watch_accessed_variables)
        else:
            tape.push_tape(self._tape)
        self._recording = True

    def _pop_tape(self) -> None:
        if not self._recording:
            raise ValueError("Tape is not recording.")
        tape.pop_tape(self._tape)
        self._recording = False

    def _ensure_recording(self) -> Any:
        """A context in which the tape records."""
        return self._recorded() if not self._recording else _nothing()

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        self._push_tape(existing_tape=self._tape is not None)
        try:
            yield
        finally:
            self._pop_tape()

    def watch(self, tensor: Any) -> None:
        """Watches `tensor`, a tensor or a structure of them, for gradients with respect to it."""
        for t in nest.flatten(tensor, expand_composites=True):
            if not (isinstance(t, ops.Tensor) or hasattr(t, "handle") or hasattr(t, "dtype")):
                raise ValueError("Passed in object of type {}, not tf.Tensor".format(type(t)))
            if not t.dtype.is_floating and not t.dtype.is_complex:
                logging.log_first_n(
                    logging.WARN,
                    "The dtype of the watched tensor must be floating (e.g. tf.float32), got %r",
                    5,
                    t.dtype,
                )
            if self._tape is None:
                raise AttributeError("'NoneType' object has no attribute '_tape'")
            if hasattr(t, "handle"):
                tape.watch_variable(self._tape, t)
            else:
                tape.watch(self._tape, t)

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """A context whose operations are not differentiated.

        Raises:
          RuntimeError: the tape is not recording.
        """
        if self._tape is None:
            raise RuntimeError("Trying to stop recording a tape which is not recording.")
        self._pop_tape()
        try:
            yield
        finally:
            self._push_tape(existing_tape=True)

    def reset(self) -> None:
        """Drops the recorded ops and the watched tensors."""
        self._pop_tape()
        self._tape = None
        self._push_tape()

    def watched_variables(self) -> tuple[Any, ...]:
        """The variables that are watched."""
        if self._tape is not None:
            self._watched_variables = self._tape.watched_variables()
        found = {id(v): v for v in self._watched_variables}
        if self._watch_accessed_variables and not self._created_eagerly and not context.executing_eagerly():
            graph = ops.get_default_graph()
            if not graph.building_function:
                for v in graph.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES):
                    found.setdefault(id(v), v)
        return tuple(found.values())

    def _is_watched(self, source: Any) -> bool:
        """Whether a source in a graph is watched."""
        known = self._tape
        if known is not None and (id(source) in known.graph_tensors or id(source) in known.variables):
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
          output_gradients: the initial gradient of each target; None: ones.
          unconnected_gradients: the gradient of a source on which the target does not depend.

        Raises:
          RuntimeError: it was called before and the tape is not persistent.
          ValueError: the target is a variable that the tape does not watch, or unconnected_gradients is unknown.
        """
        if self._tape is None or (self._used_in_graph and not self._persistent):
            raise RuntimeError("GradientTape.gradient can only be called once on non-persistent tapes.")
        if self._recording:
            if not self._persistent:
                self._pop_tape()
            else:
                logging.log_first_n(
                    logging.WARN,
                    "Calling GradientTape.gradient on a persistent tape inside its context is significantly less "
                    "efficient than calling it outside the context (it causes the gradient ops to be recorded on the "
                    "tape, leading to increased CPU and memory usage). Only call GradientTape.gradient inside the "
                    "context if you actually want to trace the gradient in order to compute higher order derivatives.",
                    1,
                )
        flat_targets = []
        for t in nest.flatten(target):
            if not t.dtype.is_floating and not t.dtype.is_complex:
                logging.vlog(
                    logging.WARN,
                    "The dtype of the target tensor must be floating (e.g. tf.float32) when calling "
                    "GradientTape.gradient, got %r",
                    t.dtype,
                )
            flat_targets.append(_handle_or_self(t) if context.executing_eagerly() else t)
        flat_sources = nest.flatten(sources)
        if output_gradients is not None:
            output_gradients = [
                None if x is None else ops.convert_to_tensor_or_composite(x)
                for x in nest.flatten(output_gradients)
            ]
        if context.executing_eagerly():
            found = imperative_grad(
                self._tape, flat_targets, [_handle_or_self(x) for x in flat_sources], output_gradients,
                flat_sources, unconnected_gradients,
            )  # fmt: skip
        else:
            found = self._graph_gradient(flat_targets, flat_sources, output_gradients, unconnected_gradients)
        if not self._persistent:
            self._watched_variables = self._tape.watched_variables()
            if context.executing_eagerly():
                self._tape = None
            self._used_in_graph = True
        return nest.pack_sequence_as(sources, found)

    def _graph_gradient(
        self, targets: Any, sources: Any, output_gradients: Any, unconnected_gradients: Any
    ) -> list[Any]:
        from millrace.python.ops import array_ops, gradients_impl

        unconnected = UnconnectedGradients(unconnected_gradients)
        watched = [s for s in sources if self._is_watched(s)]
        found = gradients_impl.gradients(
            [ops.convert_to_tensor(t) for t in targets], watched, grad_ys=output_gradients,
            unconnected_gradients=unconnected_gradients,
        )  # fmt: skip
        by_source = {id(s): g for s, g in zip(watched, found)}
        results: list[Any] = []
        for s in sources:
            grad = by_source.get(id(s))
            if grad is None and unconnected is UnconnectedGradients.ZERO:
                grad = array_ops.zeros_like(s)
            results.append(grad)
        return results

    def jacobian(
        self, target: Any, sources: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: Any = None, experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """The derivatives of each element of `target`: tensors of the shape of the target and the source.

        Raises:
          RuntimeError: eager execution is enabled, the tape is not persistent and experimental_use_pfor is
            false.
        """
        if context.executing_eagerly():
            if not experimental_use_pfor and not self._persistent:
                raise RuntimeError(
                    "GradientTape must be created with persistent=True to compute the jacobian with eager execution "
                    " enabled and with experimental_use_pfor set to False."
                )
            return self._eager_jacobian(target, sources, unconnected_gradients)
        return _graph_jacobian(target, sources, unconnected_gradients, parallel_iterations)

    def _rows(
        self, target: Any, flat_sources: list[Any], seeds: Iterator[Any], unconnected: Any
    ) -> list[list[Any]]:
        """Yields the gradients of the sources for each seed, an initial gradient of the target."""
        if self._tape is None:
            raise RuntimeError("GradientTape.gradient can only be called once on non-persistent tapes.")
        known = self._tape
        if self._recording and not self._persistent:
            self._pop_tape()
        handles = [_handle_or_self(s) for s in flat_sources]
        rows = []
        for seed in seeds:
            grads = imperative_grad(known, [target], handles, [seed], None, unconnected)
            rows.append([None if g is None else ops.convert_to_tensor(g) for g in grads])
        if not self._persistent:
            self._watched_variables = known.watched_variables()
            self._tape = None
        return rows

    def _eager_jacobian(self, target: Any, sources: Any, unconnected: Any) -> Any:
        from millrace.python.ops import array_ops

        flat_sources = nest.flatten(sources)
        count = target.shape.num_elements()
        shape = target.shape.as_list()
        rows = self._rows(target, flat_sources, _unit_arrays(target, count), unconnected)
        results: list[Any] = []
        for i, source in enumerate(flat_sources):
            column = [row[i] for row in rows]
            if not column or column[0] is None:
                results.append(None)
                continue
            stacked = array_ops.stack(column)
            results.append(array_ops.reshape(stacked, shape + source.shape.as_list()))
        return nest.pack_sequence_as(sources, results)

    def batch_jacobian(
        self, target: Any, source: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: Any = None, experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """The derivatives of each example's part of `target` with respect to that of `source`.

        Args:
          target: a tensor of the shape [b, y1, ...].
          source: a tensor of the shape [b, x1, ...]; each example of the target depends on its own part alone.
          unconnected_gradients: the result if the target does not depend on the source.
          parallel_iterations: of a loop in a graph.
          experimental_use_pfor: must be true unless the tape is persistent.

        Returns:
          A tensor of the shape [b, y1, ..., x1, ...].

        Raises:
          RuntimeError: as in `jacobian`.
          ValueError: the first dimensions differ.
        """
        target_shape = target.shape
        if target_shape.rank is None:
            dim = 0
        else:
            dim = target_shape.dims[0].value
        if source.shape.rank is None or target_shape.rank is None or not (
            target_shape.with_rank_at_least(2) and source.shape.with_rank_at_least(2)
            and dim == source.shape.dims[0].value
        ):  # fmt: skip
            raise ValueError(
                "Need first dimension of target shape (%s) and source shape (%s) to match."
                % (target.shape, source.shape)
            )
        if not context.executing_eagerly():
            from millrace.python.ops.parallel_for import gradients as parallel_gradients

            return parallel_gradients.batch_jacobian(target, source, use_pfor=False)
        if not experimental_use_pfor and not self._persistent:
            raise RuntimeError(
                "GradientTape must be created with persistent=True to compute the batch_jacobian with eager execution "
                " enabled and with experimental_use_pfor set to False."
            )
        return self._eager_batch_jacobian(target, source, unconnected_gradients)

    def _eager_batch_jacobian(self, target: Any, source: Any, unconnected: Any) -> Any:
        from millrace.python.ops import array_ops

        batch = target.shape.as_list()[0]
        count = target.shape.num_elements() // max(batch, 1)
        rows = self._rows(target, [source], _unit_columns(target, batch, count), unconnected)
        if not rows or rows[0][0] is None:
            return None
        stacked = array_ops.stack([row[0] for row in rows], axis=1)
        return array_ops.reshape(stacked, target.shape.as_list() + source.shape.as_list()[1:])


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _unit_arrays(target: Any, count: int) -> Iterator[Any]:
    """Arrays of the target's shape with a single one each."""
    import numpy as np

    for i in range(count):
        unit = np.zeros(count, target.dtype.as_numpy_dtype)
        unit[i] = 1
        yield _engine.eager_tensor(unit.reshape(target.shape.as_list()), target.dtype.as_datatype_enum)


def _unit_columns(target: Any, batch: int, count: int) -> Iterator[Any]:
    """Arrays of the target's shape with a one at the same position of each example."""
    import numpy as np

    for i in range(count):
        unit = np.zeros((batch, count), target.dtype.as_numpy_dtype)
        unit[:, i] = 1
        yield _engine.eager_tensor(unit.reshape(target.shape.as_list()), target.dtype.as_datatype_enum)


def _graph_jacobian(target: Any, sources: Any, unconnected: Any, parallel_iterations: Any) -> Any:
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
        if grad is None and UnconnectedGradients(unconnected) is UnconnectedGradients.NONE:
            results.append(None)
            continue
        shape = array_ops.concat([array_ops.shape(target), array_ops.shape(source)], 0)
        results.append(array_ops.reshape(ta.stack(), shape))
    return nest.pack_sequence_as(sources, results)


aggregate_indexed_slices_gradients = _aggregate_grads

from millrace.python.eager._gradient_attributes import (  # noqa: E402, F401
    _num_elements,
    _ones,
    _zeros,
    flatten_nested_indexed_slices,
    make_attr,
    op_attr_type,
)
from millrace.python.eager._gradient_functions import (  # noqa: E402, F401
    _NO_RESULT,
    _ensure_unique_tensor_objects,
    _get_arg_spec,
    gradients_function,
    implicit_grad,
    implicit_val_and_grad,
    make_vjp,
    val_and_grad_function,
)
