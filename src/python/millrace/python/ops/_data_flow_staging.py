# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Barriers, staging areas, map staging areas and recorded input."""

from __future__ import annotations

import threading
from typing import Any

from millrace.python.framework import dtypes as _dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.framework import tensor_util
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import gen_data_flow_ops
from millrace.python.ops._data_flow_queues import _as_name_list
from millrace.python.ops._data_flow_queues import _as_shape_list
from millrace.python.ops._data_flow_queues import _as_type_list
from millrace.python.ops._data_flow_queues import _listed


class Barrier:
    """A map from strings to tuples, whose components come one by one; complete tuples can be taken."""

    def __init__(
        self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier"
    ) -> None:
        """Makes a barrier; `shapes` are fully known, or None: the components are scalars."""
        self._types = _as_type_list(types)
        if shapes is not None:
            shapes = _as_shape_list(shapes, self._types)
            self._shapes = [tensor_shape.TensorShape(s) for s in shapes]
            for i, shape in enumerate(self._shapes):
                if shape.num_elements() == 0:
                    raise ValueError(
                        "Empty tensors are not supported, but received shape '%s' at index %d" % (shape, i)
                    )
        else:
            self._shapes = [tensor_shape.unknown_shape() for _ in self._types]
        self._barrier_ref = gen_data_flow_ops.barrier(
            component_types=self._types, shapes=self._shapes, shared_name=shared_name, name=name
        )
        self._name = ops.name_of(self._barrier_ref).split("/")[-1]

    @property
    def barrier_ref(self) -> Any:
        """The barrier's reference."""
        return self._barrier_ref

    @property
    def name(self) -> str:
        """The last part of the name of the barrier's op."""
        return ops.name_of(self._barrier_ref)

    def insert_many(self, component_index: int, keys: Any, values: Any, name: str | None = None) -> Any:
        """Returns an op that puts one component of several keys."""
        if name is None:
            name = "%s_BarrierInsertMany" % self._name
        return gen_data_flow_ops.barrier_insert_many(
            self._barrier_ref, keys, values, component_index=component_index, name=name
        )

    def take_many(
        self,
        num_elements: Any,
        allow_small_batch: bool = False,
        timeout: Any = None,
        name: str | None = None,
    ) -> Any:
        """Returns (indices, keys, list of components) of complete elements."""
        if name is None:
            name = "%s_BarrierTakeMany" % self._name
        ret = gen_data_flow_ops.barrier_take_many(
            self._barrier_ref,
            num_elements,
            self._types,
            allow_small_batch=allow_small_batch,
            timeout_ms=-1 if timeout is None else timeout,
            name=name,
        )
        indices, keys, values = ret
        values = _listed(values)
        batch = None if allow_small_batch else tensor_util.constant_value(indices.op.inputs[1])
        size = None if batch is None else int(batch)
        indices.set_shape([size])
        keys.set_shape([size])
        for value, shape in zip(values, self._shapes):
            value.set_shape(tensor_shape.TensorShape([size]).concatenate(shape))
        return indices, keys, values

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Any:
        """Returns an op that closes the barrier: no new keys may come."""
        if name is None:
            name = "%s_BarrierClose" % self._name
        return gen_data_flow_ops.barrier_close(
            self._barrier_ref, cancel_pending_enqueues=cancel_pending_enqueues, name=name
        )

    def ready_size(self, name: str | None = None) -> Any:
        """Returns the number of complete elements."""
        if name is None:
            name = "%s_BarrierReadySize" % self._name
        return gen_data_flow_ops.barrier_ready_size(self._barrier_ref, name=name)

    def incomplete_size(self, name: str | None = None) -> Any:
        """Returns the number of incomplete elements."""
        if name is None:
            name = "%s_BarrierIncompleteSize" % self._name
        return gen_data_flow_ops.barrier_incomplete_size(self._barrier_ref, name=name)


class BaseStagingArea:
    """The base class of staging areas."""

    _identifier = 0
    _lock = threading.Lock()

    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        if shared_name is None:
            self._name = ops.get_default_graph().unique_name(self.__class__.__name__)
        elif isinstance(shared_name, str):
            self._name = shared_name
        else:
            raise ValueError("shared_name must be a string")
        self._dtypes = dtypes
        if shapes is not None:
            if len(shapes) != len(dtypes):
                raise ValueError("StagingArea shapes must be the same length as dtypes")
            self._shapes = [tensor_shape.TensorShape(s) for s in shapes]
        else:
            self._shapes = [tensor_shape.unknown_shape() for _ in self._dtypes]
        if names is not None:
            if len(names) != len(dtypes):
                raise ValueError("StagingArea names must be the same length as dtypes")
            self._names = names
        else:
            self._names = None
        self._capacity = capacity
        self._memory_limit = memory_limit
        with ops.name_scope("%s_root" % self._name):
            self._coloc_op = control_flow_ops.no_op()

    @property
    def name(self) -> str:
        """Name of the area."""
        return self._name

    @property
    def dtypes(self) -> Any:
        """Types of the components."""
        return self._dtypes

    @property
    def shapes(self) -> Any:
        """Shapes of the components."""
        return self._shapes

    @property
    def names(self) -> Any:
        """Names of the components, or None."""
        return self._names

    @property
    def capacity(self) -> int:
        """The largest number of elements, 0: no limit."""
        return self._capacity

    @property
    def memory_limit(self) -> int:
        """The largest number of bytes, 0: no limit."""
        return self._memory_limit

    def _attrs(self) -> dict[str, Any]:
        return {"shared_name": self._name, "capacity": self._capacity, "memory_limit": self._memory_limit}

    def _check_put_dtypes(self, vals: Any, indices: Any = None) -> tuple[Any, Any]:
        """(the values as tensors, their indices); ValueError where they do not fit."""
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Staging areas must have names to enqueue a dictionary")
            if not set(vals.keys()).issubset(self._names):
                raise ValueError(
                    "Keys in dictionary to put do not match names of staging area. Dictionary: (%s), Queue: (%s)"
                    % (sorted(vals.keys()), sorted(self._names))
                )
            vals, indices, _ = zip(*[(vals[k], i, k) for i, k in enumerate(self._names) if k in vals])
        else:
            if self._names:
                raise ValueError("You must enqueue a dictionary in a staging area with names")
            if indices is None:
                raise ValueError("Indices must be supplied when inserting a list of tensors")
            if len(indices) != len(vals):
                raise ValueError(
                    "Number of indices '%s' doesn't match number of values '%s'" % (len(indices), len(vals))
                )
            if not isinstance(vals, (list, tuple)):
                vals = [vals]
                indices = [0]
        if not len(vals) <= len(self._dtypes):
            raise ValueError("Unexpected number of inputs '%s' vs '%s'" % (len(vals), len(self._dtypes)))
        tensors = []
        for val, i in zip(vals, indices):
            dtype, shape = self._dtypes[i], self._shapes[i]
            if val.dtype != dtype:
                raise ValueError("Datatypes do not match. '%s' != '%s'" % (str(val.dtype), str(dtype)))
            val.get_shape().assert_is_compatible_with(shape)
            tensors.append(ops.convert_to_tensor(val, dtype=dtype, name="component_%d" % i))
        return tensors, list(indices)

    def _create_device_transfers(self, tensors: Any) -> Any:
        """Copies tensors to the current device ahead of their use."""
        if not isinstance(tensors, (tuple, list)):
            tensors = [tensors]
        curr_device_scope = control_flow_ops.no_op().device
        if curr_device_scope != self._coloc_op.device:
            tensors = [array_ops.identity(t) for t in tensors]
        return tensors

    def _get_return_value(self, tensors: Any, indices: Any) -> Any:
        """The components with their shapes, as a dict where they have names."""
        tensors = self._create_device_transfers(tensors)
        for output, i in zip(tensors, indices):
            output.set_shape(self._shapes[i])
        if self._names:
            return {self._names[i]: t for t, i in zip(tensors, indices)}
        return tensors

    def _scope_vals(self, vals: Any) -> Any:
        if isinstance(vals, (list, tuple)):
            return vals
        if isinstance(vals, dict):
            return vals.values()
        return [vals]


class StagingArea(BaseStagingArea):
    """An unordered buffer of tuples of tensors, usually between devices, with `put` and `get`."""

    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        """Makes an area for tuples of the given types."""
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)

    def put(self, values: Any, name: str | None = None) -> Any:
        """Returns an op that puts in an element, waiting while there is no room."""
        with ops.name_scope(name, "%s_put" % self._name, self._scope_vals(values)) as scope:
            if not isinstance(values, (list, tuple, dict)):
                values = [values]
            vals, _ = self._check_put_dtypes(values, list(range(len(values))))
            with ops.colocate_with(self._coloc_op):
                return gen_data_flow_ops.stage(values=vals, name=scope, **self._attrs())

    def get(self, name: str | None = None) -> Any:
        """Returns an element and takes it out, waiting while there is none."""
        if name is None:
            name = "%s_get" % self._name
        with ops.colocate_with(self._coloc_op):
            ret = _listed(gen_data_flow_ops.unstage(dtypes=self._dtypes, name=name, **self._attrs()))
        return self._get_return_value(ret, list(range(len(self._dtypes))))

    def peek(self, index: Any, name: str | None = None) -> Any:
        """Returns the element number `index` and leaves it there."""
        if name is None:
            name = "%s_peek" % self._name
        with ops.colocate_with(self._coloc_op):
            ret = _listed(
                gen_data_flow_ops.stage_peek(index, dtypes=self._dtypes, name=name, **self._attrs())
            )
        return self._get_return_value(ret, list(range(len(self._dtypes))))

    def size(self, name: str | None = None) -> Any:
        """Returns the number of elements."""
        if name is None:
            name = "%s_size" % self._name
        return gen_data_flow_ops.stage_size(name=name, dtypes=self._dtypes, **self._attrs())

    def clear(self, name: str | None = None) -> Any:
        """Returns an op that takes out all elements."""
        if name is None:
            name = "%s_clear" % self._name
        return gen_data_flow_ops.stage_clear(name=name, dtypes=self._dtypes, **self._attrs())


class MapStagingArea(BaseStagingArea):
    """A staging area whose elements have int64 keys, and whose components may come one by one."""

    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        ordered: bool = False,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        """Makes an area; with `ordered` elements are taken by increasing keys."""
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)
        self._ordered = ordered

    def _op(self, kind: str) -> Any:
        return getattr(gen_data_flow_ops, ("ordered_map_" if self._ordered else "map_") + kind)

    def put(self, key: Any, vals: Any, indices: Any = None, name: str | None = None) -> Any:
        """Returns an op that puts components of the element `key`."""
        with ops.name_scope(name, "%s_put" % self._name, self._scope_vals(vals)) as scope:
            vals, indices = self._check_put_dtypes(vals, indices)
            with ops.colocate_with(self._coloc_op):
                return self._op("stage")(key, indices, vals, dtypes=self._dtypes, name=scope, **self._attrs())

    def _get_indices_and_dtypes(self, indices: Any = None) -> tuple[Any, Any]:
        if indices is None:
            indices = list(range(len(self._dtypes)))
        if not isinstance(indices, (tuple, list)):
            raise TypeError("Invalid indices type '%s'" % type(indices))
        if len(indices) == 0:
            raise ValueError("Empty indices")
        if all(isinstance(i, str) for i in indices):
            if self._names is None:
                raise ValueError(
                    "String indices provided '%s', but this Staging Area was not created with names."
                    % indices
                )
            try:
                indices = [self._names.index(n) for n in indices]
            except ValueError:
                raise ValueError("Named index not in Staging Area names '%s'" % self._names) from None
        elif not all(isinstance(i, int) for i in indices):
            raise TypeError("Mixed types in indices '%s'. May only be str or int" % indices)
        return indices, [self._dtypes[i] for i in indices]

    def peek(self, key: Any, indices: Any = None, name: str | None = None) -> Any:
        """Returns components of the element `key` and leaves them there."""
        if name is None:
            name = "%s_pop" % self._name
        indices, dtypes = self._get_indices_and_dtypes(indices)
        with ops.colocate_with(self._coloc_op):
            result = _listed(self._op("peek")(key, indices, dtypes=dtypes, name=name, **self._attrs()))
        return self._get_return_value(result, indices)

    def get(self, key: Any = None, indices: Any = None, name: str | None = None) -> Any:
        """Takes out (key, components): of the element `key`, or of any complete one."""
        if name is None:
            name = "%s_get" % self._name
        indices, dtypes = self._get_indices_and_dtypes(indices)
        with ops.colocate_with(self._coloc_op):
            if key is None:
                key, result = self._op("unstage_no_key")(indices, dtypes=dtypes, name=name, **self._attrs())
            else:
                key = ops.convert_to_tensor(key, dtype=_dtypes.int64)
                result = self._op("unstage")(key, indices, dtypes=dtypes, name=name, **self._attrs())
        key = self._create_device_transfers(key)[0]
        return key, self._get_return_value(_listed(result), indices)

    def size(self, name: str | None = None) -> Any:
        """Returns the number of complete elements."""
        name = "%s_size" % self._name if name is None else name
        return self._op("size")(name=name, dtypes=self._dtypes, **self._attrs())

    def incomplete_size(self, name: str | None = None) -> Any:
        """Returns the number of incomplete elements."""
        name = "%s_incomplete_size" % self._name if name is None else name
        return self._op("incomplete_size")(name=name, dtypes=self._dtypes, **self._attrs())

    def clear(self, name: str | None = None) -> Any:
        """Returns an op that takes out all elements."""
        name = "%s_clear" % self._name if name is None else name
        return self._op("clear")(name=name, dtypes=self._dtypes, **self._attrs())


class RecordInput:
    """Reads records of many files repeatedly, in random order, and prefetches them."""

    def __init__(
        self,
        file_pattern: str,
        batch_size: int = 1,
        buffer_size: int = 1,
        parallelism: int = 1,
        shift_ratio: float = 0,
        seed: int = 0,
        name: str | None = None,
        batches: int | None = None,
        compression_type: Any = None,
    ) -> None:
        """Keeps the arguments of the op."""
        self._batch_size = batch_size
        self._batches = 1 if batches is None else batches
        self._split = batches is not None
        self._arguments = {
            "file_pattern": file_pattern,
            "file_buffer_size": buffer_size,
            "file_parallelism": parallelism,
            "file_shuffle_shift_ratio": shift_ratio,
            "batch_size": batch_size * self._batches,
            "file_random_seed": seed,
        }
        if compression_type:
            self._arguments["compression_type"] = compression_type
        self._name = name

    def get_yield_op(self) -> Any:
        """Returns a batch of records, or a list of batches where their number was given."""
        records = gen_data_flow_ops.record_input(name=self._name, **self._arguments)
        if not self._split:
            return records
        with ops.name_scope(self._name):
            batch_list: list[list[Any]] = [[] for _ in range(self._batches)]
            for index, record in enumerate(array_ops.split(records, self._batch_size * self._batches, 0)):
                batch_list[index % self._batches].append(array_ops.reshape(record, []))
            return [array_ops.stack(batch) for batch in batch_list]
