# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the program in tests, and makes files byte by byte from the definitions of their formats."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""


class Result:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout.decode("utf-8")
        self.err = process.stderr.decode("utf-8")

    @property
    def json(self):
        return json.loads(self.out)


class ProgramTest(unittest.TestCase):
    """Each test has a folder of its own, in which the program runs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return name

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run_program(self, *args, code=0):
        """`code` None: any, but that of a crash."""
        process = subprocess.run([PROGRAM, *args], cwd=self.folder, capture_output=True, timeout=120, check=False)
        result = Result(process)
        self.assertGreaterEqual(result.code, 0, f"{args} was ended by a signal\n{result.err}")
        if code is not None:
            self.assertEqual(result.code, code, f"{args}\n{result.out}\n{result.err}")
        return result

    def run_json(self, *args, code=0):
        result = self.run_program(*args, "--json", code=code)
        self.assertEqual(len(result.out.splitlines()), 1, result.out)
        return result.json

    def assert_error(self, args, code, *texts):
        """The error stands on stderr, or as JSON on stdout."""
        result = self.run_program(*args, code=code)
        for text in texts:
            self.assertIn(text, result.err)
        error = self.run_json(*args, code=code)["error"]
        for text in texts:
            self.assertIn(text, error["code"] + ": " + error["message"])


def _crc_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


_TABLE = _crc_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """A field of a message: an int as varint, bytes or text with a length, a float as 64 bits."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    return varint(number << 3) + varint(value)


def float_field(number, value):
    return varint(number << 3 | 5) + struct.pack("<f", value)


def feature(values):
    if values and isinstance(values[0], bytes):
        return field(1, b"".join(field(1, v) for v in values))
    if values and isinstance(values[0], float):
        return field(2, field(1, b"".join(struct.pack("<f", v) for v in values)))
    return field(3, field(1, b"".join(varint(v) for v in values)))


def features(by_name):
    return b"".join(field(1, field(1, name) + field(2, feature(values))) for name, values in by_name.items())


def example(by_name):
    return field(1, features(by_name))


def sequence_example(context, lists):
    out = b""
    for name, steps in lists.items():
        out += field(1, field(1, name) + field(2, b"".join(field(1, feature(step)) for step in steps)))
    return field(1, features(context)) + field(2, out)


def scalar_event(step, wall_time, **values):
    summary = b"".join(field(1, field(1, tag) + float_field(2, value)) for tag, value in values.items())
    return field(1, wall_time) + field(2, step) + field(5, summary)


def npy(descr, shape, data):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}"
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data
