# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Files, patterns and record files."""

import gzip
import os
import struct
import zlib

import pytest

from millrace.python.framework import errors
from millrace.python.lib.io import crc32c
from millrace.python.lib.io import file_io
from millrace.python.lib.io import tf_record


def bitwise_crc32c(data):
    """The sum by its definition, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def frame(data):
    """A record as the format describes it."""

    def masked(b):
        crc = bitwise_crc32c(b)
        return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


RECORDS = [b"", b"a", bytes(range(256)) * 5, b"last"]


def test_sums_are_those_of_the_published_check_value():
    assert crc32c.extend(0, b"123456789") == 0xE3069283
    assert crc32c.crc32c_by_table(b"123456789") == 0xE3069283
    assert crc32c.extend(crc32c.extend(0, b"1234"), b"56789") == 0xE3069283


def test_written_records_are_framed_as_described(tmp_path):
    path = str(tmp_path / "r")
    with tf_record.TFRecordWriter(path) as writer:
        for record in RECORDS:
            writer.write(record)
    assert open(path, "rb").read() == b"".join(map(frame, RECORDS))
    assert list(tf_record.tf_record_iterator(path)) == RECORDS


@pytest.mark.parametrize("value", [5, 2**40, None, [1, 2], object()])
def test_only_bytes_and_text_are_written(tmp_path, value):
    with tf_record.TFRecordWriter(str(tmp_path / "records")) as writer:
        with pytest.raises(TypeError, match="expected bytes, %s found" % type(value).__name__):
            writer.write(value)
        writer.write(bytearray(b"a"))
    assert list(tf_record.tf_record_iterator(str(tmp_path / "records"))) == [b"a"]
    with file_io.FileIO(str(tmp_path / "text"), "w") as file:
        with pytest.raises(TypeError, match="Expected binary or unicode string, got "):
            file.write(value)
    assert (tmp_path / "text").stat().st_size == 0


@pytest.mark.parametrize("kind", ["GZIP", "ZLIB"])
def test_compressed_records_are_what_zlib_reads(tmp_path, kind):
    path = str(tmp_path / "r")
    options = tf_record.TFRecordOptions(kind, compression_level=9)
    with tf_record.TFRecordWriter(path, options) as writer:
        for record in RECORDS:
            writer.write(record)
    data = open(path, "rb").read()
    plain = gzip.decompress(data) if kind == "GZIP" else zlib.decompress(data)
    assert plain == b"".join(map(frame, RECORDS))
    assert list(tf_record.tf_record_iterator(path, options)) == RECORDS


@pytest.mark.parametrize("position", [0, 8, 12, 13, -1])
def test_a_changed_byte_is_told(tmp_path, position):
    data = bytearray(frame(b"some data"))
    data[position] ^= 1
    path = tmp_path / "r"
    path.write_bytes(bytes(data))
    with pytest.raises(errors.DataLossError, match="(corrupted|truncated) record at 0"):
        list(tf_record.tf_record_iterator(str(path)))


@pytest.mark.parametrize("size", range(1, len(frame(b"xy"))))
def test_a_cut_file_is_told(tmp_path, size):
    path = tmp_path / "r"
    path.write_bytes(frame(b"whole") + frame(b"xy")[:size])
    records = tf_record.tf_record_iterator(str(path))
    assert next(records) == b"whole"
    with pytest.raises(errors.DataLossError, match="truncated record at %d" % len(frame(b"whole"))):
        next(records)


def test_a_missing_file_is_not_found(tmp_path):
    with pytest.raises(errors.NotFoundError, match="No such file or directory"):
        list(tf_record.tf_record_iterator(str(tmp_path / "none")))
    with pytest.raises(errors.NotFoundError):
        file_io.FileIO(str(tmp_path / "none"), "r").read()
    with pytest.raises(errors.NotFoundError):
        file_io.delete_file(str(tmp_path / "none"))


def test_unknown_kinds_of_compression_are_refused():
    with pytest.raises(ValueError, match='Not a valid compression_type: "LZ4"'):
        tf_record.TFRecordOptions("LZ4")


def test_text_is_utf8_and_binary_is_bytes(tmp_path):
    path = str(tmp_path / "f")
    with file_io.FileIO(path, "w") as f:
        f.write("grün\nzweite\n")
    assert open(path, "rb").read() == "grün\nzweite\n".encode()
    with file_io.FileIO(path, "r") as f:
        assert list(f) == ["grün\n", "zweite\n"]
    with file_io.FileIO(path, "rb") as f:
        f.seek(2)
        assert f.read(3) == "grün".encode()[2:5] and f.tell() == 5
    assert file_io.stat(path).length == os.path.getsize(path)


def test_modes_are_kept_to(tmp_path):
    path = str(tmp_path / "f")
    with pytest.raises(errors.PermissionDeniedError, match="File isn't open for reading"):
        file_io.FileIO(path, "w").read()
    with pytest.raises(errors.PermissionDeniedError, match="File isn't open for writing"):
        file_io.FileIO(path, "r").write("x")
    with pytest.raises(errors.InvalidArgumentError):
        file_io.FileIO(path, "q")


def test_patterns_stop_at_slashes(tmp_path):
    for name in ["a1", "a2", "b1", ".a3", "a[1]"]:
        (tmp_path / name).write_text("")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a1").write_text("")

    def matches(pattern):
        return [os.path.relpath(p, tmp_path) for p in file_io.get_matching_files(str(tmp_path / pattern))]

    assert matches("a?") == ["a1", "a2"]
    assert matches("*1") == ["a1", "b1"]
    assert matches("*/a*") == ["d/a1"]
    assert matches("[ab]1") == ["a1", "b1"]
    assert matches("a\\[1]") == ["a[1]"]
    assert matches("none") == [] and matches("b1") == ["b1"]


def test_existing_files_are_not_overwritten_unasked(tmp_path):
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    file_io.write_string_to_file(a, "1")
    file_io.write_string_to_file(b, "2")
    for operation in (file_io.copy, file_io.rename):
        with pytest.raises(errors.AlreadyExistsError):
            operation(a, b)
    file_io.copy(a, b, overwrite=True)
    assert file_io.read_file_to_string(b) == "1"


def test_other_schemes_are_told():
    with pytest.raises(errors.UnimplementedError, match="File system scheme 'gs' not implemented"):
        file_io.file_exists("gs://bucket/file")
