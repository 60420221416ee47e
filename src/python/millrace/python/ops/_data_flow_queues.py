# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Queues."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from millrace.python.framework import dtypes as _dtypes
from millrace.python.framework import ops
from millrace.python.framework import random_seed
from millrace.python.framework import tensor_shape
from millrace.python.framework import tensor_util
from millrace.python.ops import gen_data_flow_ops


def _as_type_list(dtypes: Any) -> list[Any]:
    """The types as a list."""
    if dtypes is None:
        raise TypeError("Expected the types of a queue's elements, got None.")
    if not isinstance(dtypes, (list, tuple)):
        return [dtypes]
    return list(dtypes)


def _as_shape_list(
    shapes: Any, dtypes: Any, unknown_dim_allowed: bool = False, unknown_rank_allowed: bool = False
) -> Any:
    """The shapes as a list of TensorShapes, None if there are none."""
    del dtypes
    if shapes is None:
        return None
    if isinstance(shapes, tensor_shape.TensorShape):
        shapes = [shapes]
    if not isinstance(shapes, (tuple, list)):
        raise TypeError("shapes must be a TensorShape or a list or tuple of TensorShapes.")
    if all(shape is None or isinstance(shape, (int, tensor_shape.Dimension)) for shape in shapes):
        # One shape, given as its sizes.
        shapes = [shapes]
    shapes = [tensor_shape.as_shape(shape) for shape in shapes]
    if not unknown_dim_allowed and any(not shape.is_fully_defined() for shape in shapes):
        raise ValueError("All shapes must be fully defined: %s" % shapes)
    if not unknown_rank_allowed and any(shape.dims is None for shape in shapes):
        raise ValueError("All shapes must have a defined rank: %s" % shapes)
    return shapes


def _as_name_list(names: Any, dtypes: Any) -> Any:
    """The names of components as a list, None if there are none."""
    if names is None:
        return None
    if not isinstance(names, (list, tuple)):
        names = [names]
    if len(names) != len(dtypes):
        raise ValueError(
            "List of names must have the same length as the list of dtypes, received len(names)=%d,len(dtypes)=%d"
            % (len(names), len(dtypes))
        )
    return list(names)


def _shape_common(s1: Any, s2: Any) -> Any:
    """The most specific shape that is at least as general as both shapes."""
    s1 = tensor_shape.TensorShape(s1)
    s2 = tensor_shape.TensorShape(s2)
    if s1.ndims is None or s2.ndims is None or s1.ndims != s2.ndims:
        return tensor_shape.unknown_shape()
    d = [d1 if d1 is not None and d1 == d2 else None for d1, d2 in zip(s1.as_list(), s2.as_list())]
    return tensor_shape.TensorShape(d)


class QueueBase:
    """A queue of tuples of tensors, which steps put in and take out."""

    def __init__(self, dtypes: Any, shapes: Any, names: Any, queue_ref: Any) -> None:
        """Wraps the reference to a queue.

        Args:
          dtypes: types of the components.
          shapes: their shapes, or None.
          names: their names, or None; with names elements are dicts.
          queue_ref: the queue's handle.

        Raises:
          ValueError: the lists have different lengths.
        """
        self._dtypes = dtypes
        if shapes is not None:
            if len(shapes) != len(dtypes):
                raise ValueError(
                    "Queue shapes must have the same length as dtypes, "
                    "received len(shapes)=%d, len(dtypes)=%d" % (len(shapes), len(dtypes))
                )
            self._shapes = [tensor_shape.TensorShape(s) for s in shapes]
        else:
            self._shapes = [tensor_shape.unknown_shape() for _ in self._dtypes]
        if names is not None:
            if len(names) != len(dtypes):
                raise ValueError(
                    "Queue names must have the same length as dtypes,"
                    "received len(names)=%d,len {dtypes)=%d" % (len(names), len(dtypes))
                )
            self._names = names
        else:
            self._names = None
        self._queue_ref = queue_ref
        self._name = ops.name_of(self._queue_ref).split("/")[-1]

    @staticmethod
    def from_list(index: Any, queues: Any) -> "QueueBase":
        """A queue whose handle is that of `queues[index]`, where `index` is a tensor.

        Raises:
          TypeError: `queues` is no list of queues, or their types differ.
        """
        if (
            (not queues)
            or (not isinstance(queues, list))
            or (not all(isinstance(x, QueueBase) for x in queues))
        ):
            raise TypeError("A list of queues expected")
        dtypes = queues[0].dtypes
        if not all(dtypes == q.dtypes for q in queues[1:]):
            raise TypeError("Queues do not have matching component dtypes.")
        names = queues[0].names
        if not all(names == q.names for q in queues[1:]):
            raise TypeError("Queues do not have matching component names.")
        queue_shapes = [q.shapes for q in queues]
        reduced_shapes = [functools.reduce(_shape_common, s) for s in zip(*queue_shapes)]
        from millrace.python.ops import array_ops

        queue_refs = array_ops.stack([x.queue_ref for x in queues])
        selected_queue = array_ops.gather(queue_refs, index)
        return QueueBase(dtypes=dtypes, shapes=reduced_shapes, names=names, queue_ref=selected_queue)

    @property
    def queue_ref(self) -> Any:
        """The queue's handle."""
        return self._queue_ref

    @property
    def name(self) -> str:
        """The name of the queue's op."""
        return ops.name_of(self._queue_ref)

    @property
    def dtypes(self) -> Any:
        """The types of the components."""
        return self._dtypes

    @property
    def shapes(self) -> Any:
        """The shapes of the components."""
        return self._shapes

    @property
    def names(self) -> Any:
        """The names of the components, or None."""
        return self._names

    def _is_v2(self) -> bool:
        return bool(self._queue_ref.dtype == _dtypes.resource)

    def _call(self, op: str, *args: Any, **kwargs: Any) -> Any:
        """The op of the queue for handles of both kinds."""
        suffix = "_v2" if self._is_v2() else ""
        return getattr(gen_data_flow_ops, op + suffix)(self._queue_ref, *args, **kwargs)

    def _check_enqueue_dtypes(self, vals: Any) -> Any:
        """The values as a list in the order of the components; ValueError where they do not fit."""
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals.keys(), key=str):
                raise ValueError(
                    "Keys in dictionary to enqueue do not match names of Queue.  Dictionary: (%s), Queue: (%s)"
                    % (sorted(vals.keys()), sorted(self._names))
                )
            vals = [vals[k] for k in self._names]
        else:
            if self._names:
                raise ValueError("You must enqueue a dictionary in a Queue with names")
            if not isinstance(vals, (list, tuple)):
                vals = [vals]
        tensors = []
        for i, (val, dtype) in enumerate(zip(vals, self._dtypes)):
            tensors.append(ops.convert_to_tensor(val, dtype=dtype, name="component_%d" % i))
        if len(vals) != len(self._dtypes):
            raise ValueError("Expected %d components to enqueue, got %d" % (len(self._dtypes), len(vals)))
        return tensors

    def _scope_vals(self, vals: Any) -> Any:
        """Values whose graph is used."""
        if isinstance(vals, (list, tuple)):
            return vals
        if isinstance(vals, dict):
            return vals.values()
        return [vals]

    def enqueue(self, vals: Any, name: str | None = None) -> Any:
        """Returns an op that puts in one element, waiting while the queue is full.

        It fails with CancelledError when the queue is closed.
        """
        with ops.name_scope(name, "%s_enqueue" % self._name, self._scope_vals(vals)) as scope:
            vals = self._check_enqueue_dtypes(vals)
            for val, shape in zip(vals, self._shapes):
                val.get_shape().assert_is_compatible_with(shape)
            return self._call("queue_enqueue", vals, name=scope)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Any:
        """Returns an op that puts in the slices of the components along their first axis as elements."""
        with ops.name_scope(name, "%s_EnqueueMany" % self._name, self._scope_vals(vals)) as scope:
            vals = self._check_enqueue_dtypes(vals)
            batch_dim = tensor_shape.Dimension(
                tensor_shape.dimension_value(vals[0].get_shape().with_rank_at_least(1)[0])
            )
            batch_dim = batch_dim.merge_with(tensor_shape.dimension_value(vals[0].get_shape()[0]))
            for val, shape in zip(vals, self._shapes):
                val_shape = val.get_shape().with_rank_at_least(1)
                batch_dim = batch_dim.merge_with(tensor_shape.dimension_value(val_shape[0]))
                val_shape[1:].assert_is_compatible_with(shape)
            return self._call("queue_enqueue_many", vals, name=scope)

    def _dequeue_return_value(self, tensors: Any) -> Any:
        if self._names:
            if isinstance(tensors, ops.Tensor):
                tensors = [tensors]
            return dict(zip(self._names, tensors))
        if len(tensors) == 1:
            return tensors[0]
        return tensors

    def dequeue(self, name: str | None = None) -> Any:
        """Returns an element (a tensor, a list or a dict), waiting while the queue is empty.

        It fails with OutOfRangeError when the queue is closed and empty.
        """
        name = "%s_Dequeue" % self._name if name is None else name
        ret = _listed(self._call("queue_dequeue", self._dtypes, name=name))
        for output, shape in zip(ret, self._shapes):
            output.set_shape(shape)
        return self._dequeue_return_value(ret)

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """Returns `n` elements, packed along a new first axis."""
        name = "%s_DequeueMany" % self._name if name is None else name
        ret = _listed(self._call("queue_dequeue_many", n=n, component_types=self._dtypes, name=name))
        op = ret[0].op
        batch = tensor_util.constant_value(op.inputs[1])
        batch_dim = tensor_shape.Dimension(None if batch is None else int(batch))
        for output, shape in zip(ret, self._shapes):
            output.set_shape(tensor_shape.TensorShape([batch_dim]).concatenate(shape))
        return self._dequeue_return_value(ret)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """Returns `n` elements, or those left after the queue is closed, packed along a new first axis."""
        name = "%s_DequeueUpTo" % self._name if name is None else name
        ret = _listed(self._call("queue_dequeue_up_to", n=n, component_types=self._dtypes, name=name))
        for output, shape in zip(ret, self._shapes):
            output.set_shape(tensor_shape.TensorShape([None]).concatenate(shape))
        return self._dequeue_return_value(ret)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Any:
        """Returns an op that closes the queue: nothing more may be put in."""
        if name is None:
            name = "%s_Close" % self._name
        return self._call("queue_close", cancel_pending_enqueues=cancel_pending_enqueues, name=name)

    def is_closed(self, name: str | None = None) -> Any:
        """Returns a boolean scalar that is true if the queue is closed."""
        if name is None:
            name = "%s_Is_Closed" % self._name
        return self._call("queue_is_closed", name=name)

    def size(self, name: str | None = None) -> Any:
        """Returns the number of elements, an int32 scalar."""
        if name is None:
            name = "%s_Size" % self._name
        return self._call("queue_size", name=name)


def _listed(ret: Any) -> Any:
    return [ret] if isinstance(ret, ops.Tensor) else list(ret)


class RandomShuffleQueue(QueueBase):
    """A queue that returns elements in a random order."""

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: Any = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        """Makes a queue of at most `capacity` elements that keeps `min_after_dequeue` to choose from."""
        dtypes = _as_type_list(dtypes)
        shapes = _as_shape_list(shapes, dtypes)
        names = _as_name_list(names, dtypes)
        seed1, seed2 = random_seed.get_seed(seed)
        if seed1 is None and seed2 is None:
            seed1, seed2 = 0, 0
        elif seed is None and shared_name is not None:
            # Each process that opens a shared queue needs the same seed.
            string = (str(seed1) + shared_name).encode("utf-8")
            seed2 = int(hashlib.md5(string).hexdigest()[:8], 16) & 0x7FFFFFFF
        queue_ref = gen_data_flow_ops.random_shuffle_queue_v2(
            component_types=dtypes,
            shapes=shapes,
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed1,
            seed2=seed2,
            shared_name=shared_name,
            name=name,
        )
        super().__init__(dtypes, shapes, names, queue_ref)


class FIFOQueue(QueueBase):
    """A queue that returns elements in the order in which they were added."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        """Makes a queue of at most `capacity` elements."""
        dtypes = _as_type_list(dtypes)
        shapes = _as_shape_list(shapes, dtypes)
        names = _as_name_list(names, dtypes)
        queue_ref = gen_data_flow_ops.fifo_queue_v2(
            component_types=dtypes, shapes=shapes, capacity=capacity, shared_name=shared_name, name=name
        )
        super().__init__(dtypes, shapes, names, queue_ref)


class GPUCompatibleFIFOQueue(FIFOQueue):
    """As FIFOQueue; its operations are placed where its users are."""


class PaddingFIFOQueue(QueueBase):
    """A queue whose elements may differ in size, and are padded with zeros when several are taken."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        """Makes a queue of at most `capacity` elements; sizes in `shapes` may be None, ranks must be known."""
        dtypes = _as_type_list(dtypes)
        shapes = _as_shape_list(shapes, dtypes, unknown_dim_allowed=True)
        names = _as_name_list(names, dtypes)
        if len(dtypes) != len(shapes):
            raise ValueError(
                "Shapes must be provided for all components, "
                "but received %d dtypes and %d shapes." % (len(dtypes), len(shapes))
            )
        queue_ref = gen_data_flow_ops.padding_fifo_queue_v2(
            component_types=dtypes, shapes=shapes, capacity=capacity, shared_name=shared_name, name=name
        )
        super().__init__(dtypes, shapes, names, queue_ref)


class PriorityQueue(QueueBase):
    """A queue that returns the element of the lowest priority, an int64 scalar that is its first component."""

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        """Makes a queue of at most `capacity` elements; `types` and `shapes` are those after the priority."""
        types = _as_type_list(types)
        shapes = _as_shape_list(shapes, types)
        queue_ref = gen_data_flow_ops.priority_queue_v2(
            component_types=types, shapes=shapes, capacity=capacity, shared_name=shared_name, name=name
        )
        priority_dtypes = [_dtypes.int64] + types
        priority_shapes = [()] + shapes if shapes else shapes
        super().__init__(priority_dtypes, priority_shapes, names, queue_ref)


__all__ = [
    "FIFOQueue",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "QueueBase",
    "RandomShuffleQueue",
]
