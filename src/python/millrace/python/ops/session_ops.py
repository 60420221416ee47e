# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors that stay in a session between runs."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import device as pydev
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import gen_data_flow_ops
from millrace.python.util import compat


class TensorHandle:
    """A tensor that stays in a session: what running the result of `get_session_handle` returns.

    It is deleted there with the last reference to this object, unless `get_raw_handle` was called.
    """

    def __init__(self, handle: Any, dtype: Any, session: Any) -> None:
        self._handle = compat.as_str_any(handle)
        self._dtype = dtypes.as_dtype(dtype)
        self._session = session
        self._auto_gc_enabled = True

    def __del__(self) -> None:
        if self._auto_gc_enabled:
            try:
                self._session._register_dead_handle(self.handle)
            except Exception:  # the session was closed, which deleted the tensor
                pass

    def __str__(self) -> str:
        return self._handle

    @property
    def handle(self) -> str:
        """The handle as a string, to be fed to the placeholder of `get_session_tensor`."""
        return self._handle

    def to_numpy_array(self) -> Any:
        """The value, for a feed."""
        return self.eval()

    def eval(self) -> Any:
        """Returns the value; TypeError after `delete` or `get_raw_handle`."""
        if not self._auto_gc_enabled:
            raise TypeError("Persistent tensor %s may have already been deleted." % self.handle)
        holder, reader = _get_handle_reader(self._session.graph, self._handle, self._dtype)
        return self._session.run(reader, feed_dict={holder: self._handle})

    def delete(self) -> None:
        """Deletes the tensor in the session; TypeError when it is deleted already."""
        if not self._auto_gc_enabled:
            raise TypeError("Persistent tensor %s has already been deleted." % self.handle)
        self._auto_gc_enabled = False
        holder, deleter = _get_handle_deleter(self._session.graph, 0, self._handle)
        self._session.run(deleter, feed_dict={holder: self.handle})

    def get_raw_handle(self) -> str:
        """Returns the handle as a string; the tensor then stays until its deletion is run."""
        self._auto_gc_enabled = False
        return self._handle

    @staticmethod
    def _get_device_name(handle: Any) -> Any:
        return pydev.canonical_name(compat.as_str_any(handle).split(";")[-1])

    @staticmethod
    def _get_reader_key(handle: Any) -> str:
        parts = str(handle).split(";")
        return parts[0] + ";" + parts[-1]

    @staticmethod
    def _get_mover_key(feeder: Any, handle: Any) -> str:
        return str(feeder.op.name) + ";" + TensorHandle._get_reader_key(handle)


def get_session_handle(data: Any, name: str | None = None) -> Any:
    """Returns the op that keeps `data`, a tensor, in the session; a run returns a TensorHandle.

    Raises:
      TypeError: `data` is no tensor.
    """
    if not isinstance(data, ops.Tensor):
        raise TypeError("`data` must be of type Tensor.")
    with ops.colocate_with(data):
        handle = gen_data_flow_ops.get_session_handle(data, name=name)
    handle.graph._has_session_handles = True
    return handle


def get_session_tensor(handle: Any, dtype: Any, name: str | None = None) -> Any:
    """Returns (a placeholder for a handle, the tensor of `dtype` that the handle fed to it represents)."""
    with ops.device(_device_of(handle)):
        holder = array_ops.placeholder(dtypes.string)
        _register_handle_feeder(holder.graph, holder, dtype)
        tensor = gen_data_flow_ops.get_session_tensor(holder, dtype, name=name)
    return holder, tensor


def delete_session_tensor(handle: Any, name: str | None = None) -> Any:
    """Returns (a placeholder for a handle, the op that deletes the tensor of the handle fed to it)."""
    with ops.device(_device_of(handle)):
        holder = array_ops.placeholder(dtypes.string)
        deleter = gen_data_flow_ops.delete_session_tensor(holder, name=name)
    return holder, deleter


def _device_of(handle: Any) -> Any:
    """The device that a handle names at its end, or None."""
    device = compat.as_str_any(handle).split(";")[-1]
    return TensorHandle._get_device_name(handle) if device.startswith("/") else None


def _register_handle_feeder(graph: Any, feeder: Any, dtype: Any) -> None:
    graph._handle_feeders[feeder.op.name] = dtype


def _get_handle_feeder(graph: Any, feeder: Any) -> Any:
    return graph._handle_feeders.get(feeder.op.name)


def _get_handle_reader(graph: Any, handle: Any, dtype: Any) -> Any:
    """Returns (placeholder, tensor) that read handles of a kind, made once."""
    key = TensorHandle._get_reader_key(handle) + str(dtype)
    result = graph._handle_readers.get(key)
    if result is None:
        with graph.as_default(), graph.name_scope(""), ops.control_dependencies(None):
            result = get_session_tensor(handle, dtype)
        graph._handle_readers[key] = result
    return result


def _get_handle_mover(graph: Any, feeder: Any, handle: Any) -> Any:
    """Returns None: handles are read where they are."""
    del graph, feeder, handle
    return None


def _get_handle_deleter(graph: Any, deleter_key: Any, handle: Any) -> Any:
    """Returns (placeholder, op) that delete handles, made once for each key."""
    result = graph._handle_deleters.get(deleter_key)
    if result is None:
        with graph.as_default(), graph.name_scope(""), ops.control_dependencies(None):
            result = delete_session_tensor(handle)
        graph._handle_deleters[deleter_key] = result
    return result
