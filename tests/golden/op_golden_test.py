#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs graphs of one op each through the C API and compares with what TensorFlow 1.15.5's runtime gave for them.

    op_golden_test.py LIBRARY [OP_GOLDEN.jsonl]

A line of the data file is a JSON object: `graph` (a GraphDef in base64), `fetch`, `targets`, `init` (groups of targets,
separated by ';', to run before) and `tensorflow_1_15`: either `out` (dtype, shape and values of each fetch), or `stage`
("import" or "run"), `code` and `msg` of the error. Error codes and texts must be equal. Integers must be equal; floats must be
within the tolerance of their type below, since TensorFlow's come from other instructions and other orders of sums. Cases for
which Millrace is meant to differ are listed in EXCEPTIONS with the reason; one that agrees nevertheless is an error, too.
"""

import base64
import ctypes
import json
import math
import os
import struct
import sys

# Relative to the magnitude of the value, and of the largest value of the tensor divided by 20.
TOLERANCE = {1: 5e-6, 2: 1e-9, 8: 5e-6, 14: 2e-2, 18: 1e-9, 19: 2e-3}
# Element types: number in types.proto -> format of `struct`, numbers per element.
FORMATS = {1: ("f", 1), 2: ("d", 1), 3: ("i", 1), 4: ("B", 1), 5: ("h", 1), 6: ("b", 1), 8: ("f", 2), 9: ("q", 1),
           10: ("?", 1), 14: ("H", 1), 17: ("H", 1), 18: ("d", 2), 19: ("e", 1), 22: ("I", 1), 23: ("Q", 1)}
BFLOAT16, FLOATS = 14, frozenset(TOLERANCE)

WIDER = "docs/decisions/0018: the op does more here than TensorFlow's CPU kernel"
NAN = "docs/decisions/0018: NaN wins over numbers in maxima"
EXCEPTIONS = {
    "Rsqrt_edge_float32.c": "docs/decisions/0018: TensorFlow's approximation is wrong for the smallest normal number",
    "Rsqrt_edge_float64.c": "docs/decisions/0018: TensorFlow's approximation is wrong for the smallest normal number",
    "Max_nan.p": NAN,
    "MaxPool_nan.c": NAN,
    "Conv2DBackpropFilter_r2.p": WIDER,
    "Conv2DBackpropFilter_r10.p": WIDER,
    "Conv2DBackpropFilter_r22.p": WIDER,
    "Conv2DBackpropInput_r25.p": WIDER,
    "Conv2D_nchw.c": WIDER,
    "SpaceToBatchND_.p": "docs/decisions/0018: shapes of unknown rank are no error",
    "SpaceToBatchND_p.p": "docs/decisions/0018: shapes of unknown rank are no error",
    "SpaceToBatchND_bad.p": "docs/decisions/0018: shapes of unknown rank are no error",
    "BatchToSpaceND_.p": "docs/decisions/0018: shapes of unknown rank are no error",
    "BatchToSpaceND_bad.p": "docs/decisions/0018: shapes of unknown rank are no error",
}


class TfOutput(ctypes.Structure):
    _fields_ = [("oper", ctypes.c_void_p), ("index", ctypes.c_int)]


class Engine:
    """The few functions of the C API that a graph without feeds needs."""

    POINTERS = ("TF_NewGraph", "TF_NewStatus", "TF_NewBufferFromString", "TF_NewImportGraphDefOptions",
                "TF_NewSessionOptions", "TF_NewSession", "TF_GraphOperationByName", "TF_TensorData")

    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        for name in self.POINTERS:
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.lib.TF_Message.restype = ctypes.c_char_p
        self.lib.TF_TensorByteSize.restype = ctypes.c_size_t
        self.lib.TF_Dim.restype = ctypes.c_int64

    def call(self, name, *args):
        return getattr(self.lib, name)(*[ctypes.c_void_p(a) if isinstance(a, int) else a for a in args])

    def error(self, status, stage):
        code = self.call("TF_GetCode", status)
        if code == 0:
            return None
        return {"stage": stage, "code": code, "msg": self.call("TF_Message", status).decode(errors="replace")}

    def tensor(self, tensor):
        dtype = self.call("TF_TensorType", tensor)
        shape = [self.call("TF_Dim", tensor, ctypes.c_int(d)) for d in range(self.call("TF_NumDims", tensor))]
        size = self.call("TF_TensorByteSize", tensor)
        data = ctypes.string_at(self.call("TF_TensorData", tensor), size) if size else b""
        self.call("TF_DeleteTensor", tensor)
        values = None
        if dtype in FORMATS:
            form, _ = FORMATS[dtype]
            values = list(struct.unpack(f"<{len(data) // struct.calcsize(form)}{form}", data))
            if dtype == BFLOAT16:
                values = [struct.unpack("<f", struct.pack("<I", v << 16))[0] for v in values]
        return {"dtype": dtype, "shape": shape, "values": values}

    def run(self, case):
        graph, status = self.call("TF_NewGraph"), self.call("TF_NewStatus")
        definition = base64.b64decode(case["graph"])
        buffer = self.call("TF_NewBufferFromString", definition, ctypes.c_size_t(len(definition)))
        options = self.call("TF_NewImportGraphDefOptions")
        self.call("TF_GraphImportGraphDef", graph, buffer, options, status)
        session_options = self.call("TF_NewSessionOptions")
        result = self.error(status, "import")
        if result is None:
            session = self.call("TF_NewSession", graph, session_options, status)
            for group in filter(None, case["init"].split(";")):
                result = result or self.step(graph, session, status, [], group.split(","))
                result = None if result == {"out": []} else result
            result = result or self.step(graph, session, status, case["fetch"], case["targets"])
            self.call("TF_DeleteSession", session, self.call("TF_NewStatus"))
        self.call("TF_DeleteSessionOptions", session_options)
        self.call("TF_DeleteImportGraphDefOptions", options)
        self.call("TF_DeleteBuffer", buffer)
        self.call("TF_DeleteGraph", graph)
        self.call("TF_DeleteStatus", status)
        return result

    def step(self, graph, session, status, fetch, targets):
        outputs = (TfOutput * max(len(fetch), 1))()
        tensors = (ctypes.c_void_p * max(len(fetch), 1))()
        for i, name in enumerate(fetch):
            node, _, index = name.partition(":")
            outputs[i].oper = self.call("TF_GraphOperationByName", graph, node.encode())
            outputs[i].index = int(index or 0)
        nodes = [self.call("TF_GraphOperationByName", graph, t.encode()) for t in targets]
        self.call("TF_SessionRun", session, None, None, None, ctypes.c_int(0), outputs, tensors,
                  ctypes.c_int(len(fetch)), (ctypes.c_void_p * max(len(nodes), 1))(*nodes), ctypes.c_int(len(nodes)),
                  None, status)
        return self.error(status, "run") or {"out": [self.tensor(t) for t in list(tensors)[:len(fetch)]]}


def number(value):
    return float(value) if isinstance(value, str) else value


def same(want, got, tolerance, scale):
    if isinstance(want, float) and math.isnan(want):
        return math.isnan(got)
    if want == got:
        return True
    if tolerance is None or math.isinf(want) or math.isinf(got):
        # Integers beyond 2^53 are written as floats in the data.
        return isinstance(want, float) and tolerance is None and abs(got - want) <= 1e-9 * abs(want)
    return abs(got - want) <= tolerance * max(abs(want), scale / 20, 1e-30)


def difference(want, got):
    """What is wrong with `got`, or None."""
    if "crash" in want:  # TensorFlow's process ended; any result is better
        return None
    if "out" not in want:
        keys = ("stage", "code", "msg")
        if [got.get(k) for k in keys] == [want.get(k) for k in keys]:
            return None
        found = {k: got[k] for k in keys if k in got} or "values"
        return f"wants {want}\n    gives {found}"
    if "out" not in got:
        return f"wants values\n    gives {got}"
    for w, g in zip(want["out"], got["out"]):
        if (w["dtype"], w["shape"]) != (g["dtype"], g["shape"]):
            return f"wants type {w['dtype']} and shape {w['shape']}, gives {g['dtype']} and {g['shape']}"
        if g["values"] is None:
            continue
        values = [number(v) for v in w["values"]]
        if len(values) != len(g["values"]):
            return f"wants {len(values)} values, gives {len(g['values'])}"
        finite = [abs(v) for v in values if math.isfinite(v)]
        scale = max(finite, default=0)
        tolerance = TOLERANCE.get(g["dtype"])
        wrong = [i for i, (a, b) in enumerate(zip(values, g["values"])) if not same(a, b, tolerance, scale)]
        if wrong:
            i = wrong[0]
            return f"{len(wrong)} of {len(values)} values differ; [{i}] is {g['values'][i]}, wants {values[i]}"
    return None


def main(argv):
    if len(argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    data = argv[2] if len(argv) == 3 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "op_golden.jsonl")
    engine = Engine(argv[1])
    passed, failed, excepted = 0, 0, 0
    with open(data, encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            what = difference(case["tensorflow_1_15"], engine.run(case))
            if (what is None) == (case["id"] in EXCEPTIONS):
                failed += 1
                print(f"{case['id']}: {what or 'agrees, but is listed as an exception'}")
            elif what is None:
                passed += 1
            else:
                excepted += 1
    print(f"op_golden_test: {passed} agree, {excepted} differ as documented, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
