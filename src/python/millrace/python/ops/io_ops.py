# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Readers of files, and ops that save and restore tensors."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.lib.io import python_io
from millrace.python.ops import gen_data_flow_ops, gen_io_ops
from millrace.python.ops.gen_io_ops import *  # noqa: F401,F403


def _save(
    filename: Any, tensor_names: Any, tensors: Any, tensor_slices: Any = None, name: str = "save"
) -> Any:
    """Returns an op that writes tensors to a checkpoint of the first format."""
    if tensor_slices is None:
        return gen_io_ops.save(filename, tensor_names, tensors, name=name)
    return gen_io_ops.save_slices(filename, tensor_names, tensor_slices, tensors, name=name)


def _restore_slice(
    file_pattern: Any,
    tensor_name: Any,
    shape_and_slice: Any,
    tensor_type: Any,
    name: str = "restore_slice",
    preferred_shard: int = -1,
) -> Any:
    """Returns a tensor, or a slice of one, of a checkpoint of the first format."""
    base_type = dtypes.as_dtype(tensor_type).base_dtype
    return gen_io_ops.restore_slice(
        file_pattern, tensor_name, shape_and_slice, base_type, preferred_shard, name=name
    )


class ReaderBase:
    """Reads records of the files whose names a queue holds."""

    def __init__(self, reader_ref: Any, supports_serialize: bool = False) -> None:
        """Wraps a reader's handle."""
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Any:
        """The handle."""
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """Whether the reader's state can be written and restored."""
        return self._supports_serialize

    def _call(self, op: str, *args: Any, name: str | None) -> Any:
        suffix = "_v2" if self._reader_ref.dtype == dtypes.resource else ""
        return getattr(gen_io_ops, op + suffix)(self._reader_ref, *args, name=name)

    def _queue_ref(self, queue: Any) -> Any:
        """The handle of a queue, of the same kind as that of the reader."""
        ref = queue if isinstance(queue, ops.Tensor) else queue.queue_ref
        if ref.dtype == dtypes.resource and self._reader_ref.dtype != dtypes.resource:
            return gen_data_flow_ops.fake_queue(ref)
        return ref

    def read(self, queue: Any, name: str | None = None) -> Any:
        """Returns the next (key, value), two strings; takes a file from `queue` where it needs one."""
        return self._call("reader_read", self._queue_ref(queue), name=name)

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> Any:
        """Returns up to `num_records` (keys, values), two vectors of strings."""
        return self._call("reader_read_up_to", self._queue_ref(queue), num_records, name=name)

    def num_records_produced(self, name: str | None = None) -> Any:
        """Returns the number of records read."""
        return self._call("reader_num_records_produced", name=name)

    def num_work_units_completed(self, name: str | None = None) -> Any:
        """Returns the number of files read to the end."""
        return self._call("reader_num_work_units_completed", name=name)

    def serialize_state(self, name: str | None = None) -> Any:
        """Returns the reader's state as a string."""
        return self._call("reader_serialize_state", name=name)

    def restore_state(self, state: Any, name: str | None = None) -> Any:
        """Returns an op that sets the reader's state."""
        return self._call("reader_restore_state", state, name=name)

    def reset(self, name: str | None = None) -> Any:
        """Returns an op that resets the reader to its initial state."""
        return self._call("reader_reset", name=name)


class WholeFileReader(ReaderBase):
    """Reads whole files: the key is the name, the value the content."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(gen_io_ops.whole_file_reader_v2(name=name), supports_serialize=True)


class TextLineReader(ReaderBase):
    """Reads lines, without the characters that end them."""

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        rr = gen_io_ops.text_line_reader_v2(skip_header_lines=skip_header_lines or 0, name=name)
        super().__init__(rr)


class FixedLengthRecordReader(ReaderBase):
    """Reads records of `record_bytes` bytes between a header and a footer."""

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        rr = gen_io_ops.fixed_length_record_reader_v2(
            record_bytes=record_bytes,
            header_bytes=header_bytes or 0,
            footer_bytes=footer_bytes or 0,
            hop_bytes=hop_bytes or 0,
            encoding=encoding or "",
            name=name,
        )
        super().__init__(rr)


class TFRecordReader(ReaderBase):
    """Reads the records of TFRecord files."""

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        compression_type = python_io.TFRecordOptions.get_compression_type_string(options)
        super().__init__(gen_io_ops.tf_record_reader_v2(name=name, compression_type=compression_type))


class LMDBReader(ReaderBase):
    """Reads the records of LMDB files."""

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        del options
        super().__init__(gen_io_ops.lmdb_reader(name=name))


class IdentityReader(ReaderBase):
    """Returns the names in the queue as keys and values."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(gen_io_ops.identity_reader_v2(name=name), supports_serialize=True)
