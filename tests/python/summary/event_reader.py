# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A reader of TensorBoard's event files that shares nothing with the library: records, sums and messages are read
with the standard library alone, by what their formats say, and checked for what TensorBoard's loader relies on.

    event_reader.py FOLDER...    prints the number of events of each file; status 1 for a file that is not as it should be

A last record that ends before its length says, as a killed writer leaves it, is not an error: a reader waits there.
"""
from __future__ import annotations

import glob
import os
import struct
import sys
from collections.abc import Iterator
from typing import Any

Message = dict[int, list[Any]]


class BadFile(Exception):
    """What is wrong, and where."""


def _crc_table() -> list[int]:
    table = []
    for i in range(256):
        for _ in range(8):
            i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


_TABLE = _crc_table()


def masked_crc(data: bytes) -> int:
    """CRC-32C (Castagnoli), turned right by 15 bits, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(path: str) -> Iterator[bytes]:
    """The payloads of the whole records of a file."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at + 12 <= len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        if crc != masked_crc(data[at : at + 8]):
            raise BadFile(f"{path}: the checksum of the length at {at} is wrong")
        if at + 16 + length > len(data):
            return
        payload = data[at + 12 : at + 12 + length]
        if struct.unpack_from("<I", data, at + 12 + length)[0] != masked_crc(payload):
            raise BadFile(f"{path}: the checksum of the record at {at} is wrong")
        yield payload
        at += 16 + length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise BadFile("a number of a message does not end")
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value & (1 << 64) - 1, at


def message(data: bytes) -> Message:
    """The values of a message by their field numbers: integers, 4 or 8 bytes, or what has a length."""
    fields: Message = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        value: Any
        if kind == 0:
            value, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise BadFile(f"a message has a field of kind {kind}")
        if at > len(data):
            raise BadFile("a message is cut off")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _doubles(values: list[bytes]) -> list[float]:
    """A repeated field of doubles, packed or not."""
    data = b"".join(values)
    return [x for (x,) in struct.iter_unpack("<d", data)]


def _histogram(data: bytes) -> dict[str, Any]:
    names = {1: "min", 2: "max", 3: "num", 4: "sum", 5: "sum_squares"}
    fields = message(data)
    made: dict[str, Any] = {name: _doubles(fields.get(n, [b"\0" * 8]))[0] for n, name in names.items()}
    made["limits"], made["counts"] = _doubles(fields.get(6, [])), _doubles(fields.get(7, []))
    if len(made["limits"]) != len(made["counts"]) or sorted(made["limits"]) != made["limits"]:
        raise BadFile("the limits of a histogram do not ascend, or are not as many as its counts")
    if sum(made["counts"]) != made["num"] or made["min"] > made["max"]:
        raise BadFile("the counts of a histogram are not those of its numbers")
    return made


def _image(data: bytes) -> dict[str, Any]:
    fields = message(data)
    png = fields[4][0]
    width, height = struct.unpack(">II", png[16:24])
    if png[:8] != b"\x89PNG\r\n\x1a\n" or (height, width) != (fields[1][0], fields[2][0]):
        raise BadFile("an image is not a PNG file of its size")
    return {"height": height, "width": width, "channels": fields[3][0]}


def _audio(data: bytes) -> dict[str, Any]:
    fields = message(data)
    wave = fields[4][0]
    if wave[:4] != b"RIFF" or wave[8:12] != b"WAVE":
        raise BadFile("a sound is not a WAV file")
    rate = struct.unpack("<f", fields[1][0])[0]
    if struct.unpack_from("<I", wave, 24)[0] != rate or fields[2][0] < 1 or fields[3][0] < 1:
        raise BadFile("a sound has another rate or no samples")
    return {"rate": rate, "channels": fields[2][0], "frames": fields[3][0]}


def _plugin(data: bytes) -> str:
    plugin = message(message(data).get(1, [b""])[0])
    return str(plugin.get(1, [b""])[0], "utf-8")


def values_of(summary: bytes) -> list[dict[str, Any]]:
    """What a summary says: a tag, and a kind with its value."""
    found = []
    for data in message(summary).get(1, []):
        fields = message(data)
        value: dict[str, Any] = {"tag": str(fields.get(1, [b""])[0], "utf-8")}
        if not value["tag"]:
            raise BadFile("a value has no tag")
        if 2 in fields:
            value["scalar"] = struct.unpack("<f", fields[2][0])[0]
        for field, name, read in ((4, "image", _image), (5, "histogram", _histogram), (6, "audio", _audio)):
            if field in fields:
                value[name] = read(fields[field][0])
        if 8 in fields:
            value["tensor"] = message(fields[8][0])
        if 9 in fields:
            value["plugin"] = _plugin(fields[9][0])
        if len(value) == 1:
            raise BadFile(f"'{value['tag']}' has no value")
        found.append(value)
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def events(path: str) -> list[dict[str, Any]]:
    """The events of a file: their steps, times and kinds."""
    kinds = {3: "file_version", 4: "graph_def", 5: "summary", 6: "log_message", 7: "session_log",
             8: "tagged_run_metadata", 9: "meta_graph_def"}  # fmt: skip
    found: list[dict[str, Any]] = []
    for payload in records(path):
        fields = message(payload)
        event: dict[str, Any] = {
            "time": _doubles(fields.get(1, [b"\0" * 8]))[0],
            "step": _signed(fields.get(2, [0])[0]),
            "kind": next((name for n, name in kinds.items() if n in fields), None),
        }
        if event["kind"] is None or event["time"] <= 0:
            raise BadFile(f"{path}: event {len(found)} has no kind or no time")
        if (event["kind"] == "file_version") != (not found):
            raise BadFile(f"{path}: the version is not what the file begins with")
        if not found and fields[3][0] != b"brain.Event:2":
            raise BadFile(f"{path}: the version is {fields[3][0]!r}")
        if 5 in fields:
            event["values"] = values_of(fields[5][0])
        event["fields"] = fields
        found.append(event)
    return found


def main() -> int:
    paths = [p for folder in sys.argv[1:] for p in sorted(glob.glob(os.path.join(folder, "events.*")))]
    if not paths:
        print("there are no event files", file=sys.stderr)
        return 1
    for path in paths:
        try:
            print(path, len(events(path)), "events")
        except (BadFile, KeyError, IndexError, struct.error, UnicodeDecodeError) as e:
            print(f"{path}: {e!r}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
