#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs graphs of one op that is used wrongly, and compares the errors with the texts of TensorFlow 1.15.

    error_texts_test.py LIBRARY

A row of error_texts.jsonl has `op`, `attrs`, `in` and one or both of `fixed` and `fed`: what the op says when its inputs are
constants, and when neither their shapes nor their values are known before the step. An input is written as in .optest files:
"int32[2] 1 -1", "float[3,4]" (all zeros), "string[1] a"; attributes are numbers, booleans, lists of them, "type float" or
"text NHWC". An expected text begins with "import" or "run" and the error code; the node's name and the note on the failed node
are added to it. "ok" stands for no error at all.
"""

import base64
import json
import os
import struct
import sys

from op_golden_test import Engine

TYPES = {"float": 1, "double": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7, "complex64": 8, "int64": 9,
         "bool": 10, "half": 19}
PACKED = {1: "f", 2: "d", 3: "i", 4: "B", 5: "h", 6: "b", 9: "q", 10: "?", 19: "e"}
PRODUCER = 134


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, value):
    """One field of a message in the wire format."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attr(value):
    if isinstance(value, list):
        return field(1, b"".join(field(4, v) if isinstance(v, float) else field(3, v) for v in value))
    if isinstance(value, bool):
        return field(5, int(value))
    if isinstance(value, int):
        return field(3, value)
    if isinstance(value, float):
        return field(4, value)
    kind, _, rest = value.partition(" ")
    return field(6, TYPES[rest]) if kind == "type" else field(2, rest)


def node(name, op, inputs, attrs):
    entries = b"".join(field(5, field(1, key) + field(2, value)) for key, value in attrs.items())
    return field(1, field(1, name) + field(2, op) + b"".join(field(3, i) for i in inputs) + entries)


def tensor(text):
    """Number of the type, and TensorProto."""
    head, *values = text.split()
    name, _, dims = head.rstrip("]").partition("[")
    dtype, shape = TYPES[name], [int(d) for d in dims.split(",") if d]
    count = 1
    for dim in shape:
        count *= dim
    proto = field(1, dtype) + field(2, b"".join(field(2, field(1, dim)) for dim in shape))
    if dtype == TYPES["string"]:
        return dtype, proto + b"".join(field(8, v) for v in values or [""] * count)
    numbers = [float(v) if PACKED[dtype] in "fde" else int(v) for v in values] or [0] * count
    if len(numbers) != count:
        raise ValueError(f"{text}: {count} values are needed")
    return dtype, proto + field(4, struct.pack(f"<{count}{PACKED[dtype]}", *numbers))


def case_of(row, fed):
    graph, inputs = b"", []
    for i, text in enumerate(row["in"]):
        dtype, proto = tensor(text)
        graph += node(f"in{i}", "Const", [], {"dtype": field(6, dtype), "value": field(8, proto)})
        inputs.append(f"in{i}")
        if fed:
            anything = {"dtype": field(6, dtype), "shape": field(7, field(3, 1))}
            graph += node(f"ph{i}", "PlaceholderWithDefault", [f"in{i}"], anything)
            inputs[-1] = f"ph{i}"
    graph += node("op", row["op"], inputs, {key: attr(value) for key, value in row["attrs"].items()})
    graph += field(4, field(1, PRODUCER))
    return {"graph": base64.b64encode(graph), "fetch": [], "targets": ["op"], "init": ""}


def outcome(row, result):
    if "msg" not in result:
        return "ok"
    text = result["msg"].replace(f" for 'op' (op: '{row['op']}')", " @").replace("\n\t [[{{node op}}]]", "")
    return f"{result['stage']} {result['code']} {text}"


def main(argv):
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    engine = Engine(argv[1])
    passed, failed = 0, 0
    data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "error_texts.jsonl")
    with open(data, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            for mode in ("fixed", "fed"):
                if mode not in row:
                    continue
                got = outcome(row, engine.run(case_of(row, mode == "fed")))
                if got == row[mode]:
                    passed += 1
                    continue
                failed += 1
                print(f"{row['op']} {row['attrs']} of {row['in']}, {mode}:\n    wants {row[mode]}\n    gives {got}")
    print(f"error_texts_test: {passed} agree, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
