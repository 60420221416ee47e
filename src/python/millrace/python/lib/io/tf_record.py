# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""TFRecord files: records with their lengths and masked CRC-32C checksums, optionally compressed."""

from __future__ import annotations

import struct
import types
import zlib
from collections.abc import Iterator
from typing import Any

from millrace.python.framework import errors
from millrace.python.lib.io import _paths
from millrace.python.lib.io import crc32c

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]

_BLOCK = 256 * 1024


class TFRecordCompressionType:
    """The compression of a file."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


class TFRecordOptions:
    """Options of writers; readers only use `compression_type`."""

    compression_type_map = {
        TFRecordCompressionType.ZLIB: "ZLIB",
        TFRecordCompressionType.GZIP: "GZIP",
        TFRecordCompressionType.NONE: "",
    }

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        """Keeps the options.

        Args:
          compression_type: "ZLIB", "GZIP", "" or None, or a TFRecordCompressionType.
          flush_mode, input_buffer_size, output_buffer_size, window_bits, compression_level,
          compression_method,
            mem_level, compression_strategy: options of zlib's deflateInit2; None: the defaults.

        Raises:
          ValueError: if `compression_type` is none of these.
        """
        # Fails for an invalid type.
        self.get_compression_type_string(compression_type)
        self.compression_type = compression_type
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    def _as_record_writer_options(self) -> Any:
        """The options as a writer takes them: those of zlib in `zlib_options`, where they are not None."""
        names = "flush_mode input_buffer_size output_buffer_size window_bits compression_level compression_method "
        names += "mem_level compression_strategy"
        given = {name: getattr(self, name) for name in names.split() if getattr(self, name) is not None}
        return types.SimpleNamespace(
            compression_type=self.get_compression_type_string(self.compression_type),
            zlib_options=types.SimpleNamespace(**given),
        )

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """ "ZLIB", "GZIP" or "" for options, a type or None."""
        if not options:
            return ""
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if isinstance(options, TFRecordCompressionType):
            return cls.compression_type_map[options]  # type: ignore[index]
        if options in cls.compression_type_map:
            return cls.compression_type_map[options]
        if options in cls.compression_type_map.values():
            return str(options)
        raise ValueError('Not a valid compression_type: "{}"'.format(options))


def _window_bits(kind: str, bits: int | None = None) -> int:
    size = abs(bits) if bits else 15
    return 16 + size if kind == "GZIP" else size


class _ByteReader:
    """The bytes of a file after decompression."""

    def __init__(self, path: Any, kind: str) -> None:
        self._path = path
        self._kind = kind
        with _paths.raising(path):
            self._file: Any = open(_paths.local_path(path), "rb", buffering=_BLOCK)
        self._inflater: Any = zlib.decompressobj(_window_bits(kind)) if kind else None
        self._pending = bytearray()
        self.offset = 0

    def read(self, n: int) -> bytes:
        """`n` bytes, or fewer at the end."""
        with _paths.raising(self._path):
            if self._inflater is None:
                data: bytes = self._file.read(n)
            else:
                while len(self._pending) < n:
                    block = self._file.read(_BLOCK)
                    if not block:
                        break
                    self._inflate(block)
                data = bytes(self._pending[:n])
                del self._pending[:n]
        self.offset += len(data)
        return data

    def _inflate(self, block: bytes) -> None:
        try:
            while block:
                self._pending += self._inflater.decompress(block)
                block = self._inflater.unused_data
                if block:
                    # A compressed file may consist of several members.
                    self._inflater = zlib.decompressobj(_window_bits(self._kind))
        except zlib.error as e:
            raise errors.DataLossError(None, None, "inflate() failed: %s in %s" % (e, self._path)) from None

    def close(self) -> None:
        self._file.close()


def _records(path: Any, kind: str) -> Iterator[bytes]:
    reader = _ByteReader(path, kind)
    try:
        while True:
            start = reader.offset
            header = reader.read(12)
            if not header:
                return
            if len(header) < 12:
                raise errors.DataLossError(None, None, "truncated record at %d" % start)
            length, length_crc = struct.unpack("<QI", header)
            if crc32c.masked(header[:8]) != length_crc:
                raise errors.DataLossError(None, None, "corrupted record at %d" % start)
            body = reader.read(length + 4) if length < 1 << 62 else b""
            if len(body) < length + 4:
                raise errors.DataLossError(None, None, "truncated record at %d" % start)
            data = body[:length]
            if crc32c.masked(data) != struct.unpack("<I", body[length:])[0]:
                raise errors.DataLossError(None, None, "corrupted record at %d" % start)
            yield data
    finally:
        reader.close()


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """Yields the records of a file.

    Args:
      path: path of the file.
      options: TFRecordOptions with the compression, or None.

    Raises:
      NotFoundError: where there is no such file.
      DataLossError: at a record that is cut off or broken.
    """
    return _records(path, TFRecordOptions.get_compression_type_string(options))


class TFRecordWriter:
    """Writes records to a file, which is complete after `close`. Not thread-safe."""

    def __init__(self, path: Any, options: Any = None) -> None:
        """Opens the file.

        Args:
          path: path of the file, which is overwritten.
          options: TFRecordOptions, a type of compression, or None.
        """
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(compression_type=options)
        kind = TFRecordOptions.get_compression_type_string(options)
        self._path = path
        self._deflater: Any = None
        if kind:
            level = -1 if options.compression_level is None else options.compression_level
            try:
                self._deflater = zlib.compressobj(
                    level,
                    zlib.DEFLATED,
                    _window_bits(kind, options.window_bits),
                    options.mem_level or zlib.DEF_MEM_LEVEL,
                    options.compression_strategy or zlib.Z_DEFAULT_STRATEGY,
                )
            except ValueError as e:
                raise errors.InvalidArgumentError(None, None, "Invalid compression options: %s" % e) from None
        with _paths.raising(path):
            self._file: Any = open(_paths.local_path(path), "wb", buffering=_BLOCK)

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, unused_type: Any, unused_value: Any, unused_traceback: Any) -> None:
        self.close()

    def write(self, record: Any) -> None:
        """Appends a record of bytes (or of str, as UTF-8)."""
        if self._file is None:
            raise errors.FailedPreconditionError(None, None, "Writer is closed.")
        if not isinstance(record, (bytes, bytearray, memoryview, str)):
            raise TypeError("expected bytes, %s found" % type(record).__name__)
        data = record.encode("utf-8") if isinstance(record, str) else bytes(record)
        length = struct.pack("<Q", len(data))
        frame = b"".join(
            (length, struct.pack("<I", crc32c.masked(length)), data, struct.pack("<I", crc32c.masked(data)))
        )
        with _paths.raising(self._path):
            self._file.write(self._deflater.compress(frame) if self._deflater is not None else frame)

    def flush(self) -> None:
        """Passes buffered data to the operating system."""
        if self._file is None:
            raise errors.FailedPreconditionError(None, None, "Writer is closed.")
        with _paths.raising(self._path):
            if self._deflater is not None:
                self._file.write(self._deflater.flush(zlib.Z_SYNC_FLUSH))
            self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is None:
            return
        with _paths.raising(self._path):
            if self._deflater is not None:
                self._file.write(self._deflater.flush())
            self._file.close()
        self._file = None
