# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs every op with random attributes and inputs that fit its declaration: each step must return results or an error.

    PYTHONPATH=build/release/python /usr/bin/python3 tests/python/soundness/fuzz_ops.py [--steps N] [--seed S] [--only REGEX]

A call that ran is kept and changed a little, one input or one attribute at a time, so that later calls come far into the kernels.
The steps run in a child process. Its crash or hang is shown with the call that caused it, and the next child continues.
"""
from __future__ import annotations

import argparse
import collections
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

SKIPPED = re.compile(
    r"^(Abort|_.*|.*Py[Ff]unc.*|Rpc|TryRpc|Collective.*|Nccl.*|.*TPU.*|Tpu.*|.*Infeed.*|.*Outfeed.*|RemoteCall|Cudnn.*|"
    r"HostConst|Remote.*|Configure.*|Shutdown.*|Recv.*|Send.*|Xla.*|Lmdb.*|LMDB.*|Sql.*|WriteFile|Save.*|MergeV2.*|Shard.*File.*)$"
)
HANG_SECONDS = 30.0
OPS_OF_A_CHILD = 50
MOST_MEMORY = 4 << 30  # bytes
Call = tuple[
    dict[str, Any], list[Any]
]  # attributes and, for each input, an array, the name of a source, or a list of these


def types() -> list[int]:
    return [1, 1, 1, 3, 3, 9, 9, 10, 7, 7, 2, 4, 5, 6, 8, 11, 12, 13, 14, 15, 16, 17, 18, 19, 22, 23]


class Maker:
    """Random values for the declaration of an op."""

    def __init__(self, pick: random.Random) -> None:
        self.pick = pick
        self.base = [pick.choice([0, 1, 1, 2, 2, 3, 4]) for _ in range(pick.randrange(5))]

    def shape(self) -> list[int]:
        pick = self.pick
        chosen = pick.random()
        if chosen < 0.4:
            return list(self.base)
        if chosen < 0.6:
            return []
        if chosen < 0.8:
            return [pick.choice([0, 1, 2, 3, 4])]
        if chosen < 0.9:
            return list(self.base[: pick.randrange(len(self.base) + 1)])
        return [pick.choice([0, 1, 2, 3, 5]) for _ in range(pick.randrange(6))]

    def integer(self) -> int:
        pick = self.pick
        if pick.random() < 0.9:
            return pick.choice([0, 1, 1, 2, 3, 4, -1, -2])
        return pick.choice([7, 64, 1000, -(2**31), 2**31 - 1, 2**31, 2**62, -(2**63), 2**63 - 1])

    def text(self) -> bytes:
        return self.pick.choice([b"", b"a", b"ab cd", b"1", b"-1.5", b"\xff\xfe", b"{}", b"%s", b"a,b", b"(?P<x>.*)", b"\x00" * 9, b"0x1", b"SAME", b"float"])  # fmt: skip

    def array(self, dtype: Any) -> np.ndarray:
        pick, shape = self.pick, self.shape()
        count = int(np.prod(shape))
        if dtype == object:
            values: list[Any] = [self.text() for _ in range(count)]
        elif np.issubdtype(dtype, np.bool_):
            values = [pick.random() < 0.5 for _ in range(count)]
        elif np.issubdtype(dtype, np.integer):
            information = np.iinfo(dtype)
            values = [min(max(self.integer(), information.min), information.max) for _ in range(count)]
        else:
            wild = pick.random() < 0.2
            odd = [float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 0.0]
            values = [
                pick.choice(odd) if wild else pick.choice([0.0, 0.5, 1.0, -1.0, 2.5]) for _ in range(count)
            ]
        result = np.empty(shape, dtype)
        result.reshape(-1)[:] = values
        return result

    def attribute(self, attr: Any, allowed: list[Any]) -> Any:
        pick, kind = self.pick, attr.type
        if attr.HasField("default_value") and pick.random() < 0.5:
            return attr.default_value
        if kind.startswith("list("):
            low = attr.minimum if attr.has_minimum else 0
            return [self.one(kind[5:-1], allowed, attr) for _ in range(low + pick.choice([0, 1, 1, 2, 4]))]
        return self.one(kind, allowed, attr)

    def one(self, kind: str, allowed: list[Any], attr: Any) -> Any:
        pick = self.pick
        if kind == "type":
            return pick.choice(allowed or types())
        if kind == "int":
            value = self.integer()
            return max(value, attr.minimum) if attr.has_minimum and attr.type == "int" else value
        if kind == "float":
            return pick.choice([0.0, 1.0, -1.0, 0.5, 1e-3, float("nan"), float("inf")])
        if kind == "bool":
            return pick.random() < 0.5
        if kind == "string":
            return pick.choice(allowed) if allowed and pick.random() < 0.95 else self.text()
        if kind == "shape":
            return None if pick.random() < 0.2 else [pick.choice([d, d, d, -1]) for d in self.shape()]
        if kind == "tensor":
            return self.array(pick.choice([np.float32, np.int32, np.int64]))
        return pick.choice(["increment", "less", "pair"])  # a function of the library


class Fuzzer:
    def __init__(self, seed: int, progress: str) -> None:
        import millrace as tf
        from millrace.core.framework import attr_value_pb2
        from millrace.python.framework import op_def_registry

        self.tf, self.AttrValue = tf, attr_value_pb2.AttrValue
        self.pick = random.Random(seed)
        self.ops = op_def_registry.get_registered_ops()
        self.progress = progress
        self.kept: dict[str, list[Call]] = collections.defaultdict(list)

    def random_call(self, op: Any) -> Call:
        maker = Maker(self.pick)
        attributes = {}
        for attr in op.attr:
            allowed = list(attr.allowed_values.list.type) or list(attr.allowed_values.list.s)
            attributes[attr.name] = maker.attribute(attr, allowed)
        return attributes, [self.random_input(op, attributes, i, maker) for i in range(len(op.input_arg))]

    def random_input(self, op: Any, attributes: dict[str, Any], index: int, maker: Maker) -> Any:
        argument = op.input_arg[index]
        if argument.type_list_attr:
            listed = attributes[argument.type_list_attr]
            kinds = list(listed.list.type) if isinstance(listed, self.AttrValue) else list(listed)
        else:
            kind = argument.type or attributes[argument.type_attr]
            kind = kind.type if isinstance(kind, self.AttrValue) else kind
            count = 1
            if argument.number_attr:
                count = attributes[argument.number_attr]
                count = count.i if isinstance(count, self.AttrValue) else count
                count = attributes[argument.number_attr] = min(max(count, 0), 6)
            kinds = [kind] * count
        values = [self.random_value(k, argument.is_ref, maker) for k in kinds]
        return values if argument.type_list_attr or argument.number_attr else values[0]

    def random_value(self, kind: int, is_ref: bool, maker: Maker) -> Any:
        dtype = self.tf.as_dtype(kind)
        if is_ref:
            array = maker.array(np.dtype(object) if dtype == self.tf.string else np.dtype(np.float32))
            return ("ref", kind, array.shape)
        if dtype == self.tf.resource:
            return (self.pick.choice(["variable", "queue", "table", "stack", "array", "iterator", "mutex", "barrier", "rows"]), kind, tuple(maker.shape()))  # fmt: skip
        if dtype == self.tf.variant:
            return (
                self.pick.choice(["tensor_list", "dataset", "optional", "serialized"]),
                kind,
                tuple(maker.shape()),
            )
        numpy_type = np.dtype(object) if dtype == self.tf.string else np.dtype(dtype.as_numpy_dtype)
        if numpy_type.fields or dtype == self.tf.bfloat16:
            return ("cast", kind, tuple(maker.shape()))
        return maker.array(numpy_type)

    def changed(self, op: Any, call: Call) -> Call:
        attributes, inputs = dict(call[0]), list(call[1])
        maker = Maker(self.pick)
        for _ in range(self.pick.choice([1, 1, 2])):
            if inputs and self.pick.random() < 0.7:
                index = self.pick.randrange(len(inputs))
                try:
                    inputs[index] = self.random_input(op, attributes, index, maker)
                except Exception:
                    return self.random_call(op)
            elif op.attr:
                attr = self.pick.choice(list(op.attr))
                if attr.type in (
                    "int",
                    "float",
                    "bool",
                    "string",
                    "shape",
                    "list(int)",
                    "list(float)",
                    "list(shape)",
                ):
                    if not any(a.number_attr == attr.name for a in op.input_arg):
                        allowed = list(attr.allowed_values.list.s)
                        attributes[attr.name] = maker.attribute(attr, allowed)
        return attributes, inputs

    def tensor(self, value: Any) -> Any:
        tf = self.tf
        if isinstance(value, list):
            return [self.tensor(v) for v in value]
        if isinstance(value, np.ndarray):
            return tf.constant(value)
        source, kind, shape = value
        dtype = tf.as_dtype(kind)
        raw = tf.raw_ops
        size = list(shape)
        if source == "ref":
            variable = raw.VariableV2(shape=size, dtype=dtype.base_dtype, container="", shared_name="")
            with tf.control_dependencies([tf.assign(variable, tf.zeros(size, dtype.base_dtype)).op]):
                return variable
        if source == "cast":
            return raw.Cast(x=tf.ones(size, tf.int32), DstT=dtype) if dtype == tf.bfloat16 else tf.bitcast(tf.ones(size, tf.uint8), tf.quint8) if dtype == tf.quint8 else tf.bitcast(tf.ones(size, tf.int8), tf.qint8) if dtype == tf.qint8 else tf.quantize(tf.ones(size), 0.0, 1.0, dtype)[0]  # fmt: skip
        if source == "variable":
            v = tf.Variable(tf.ones(size, self.pick.choice([tf.float32, tf.int64])), use_resource=True)
            with tf.control_dependencies([v.initializer]):
                return tf.identity(v.handle)
        makers = {
            "queue": lambda: raw.FIFOQueueV2(component_types=[tf.float32]),
            "table": lambda: raw.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32),
            "stack": lambda: raw.StackV2(max_size=3, elem_type=tf.float32),
            "array": lambda: raw.TensorArrayV3(size=3, dtype=tf.float32)[0],
            "iterator": lambda: tf.data.make_one_shot_iterator(tf.data.Dataset.range(3))._iterator_resource,
            "mutex": lambda: raw.MutexV2(),
            "barrier": lambda: raw.Barrier(component_types=[tf.float32]),
            "rows": lambda: raw.ConditionalAccumulator(dtype=tf.float32, shape=size),
            "tensor_list": lambda: raw.TensorListReserve(
                element_shape=size, num_elements=2, element_dtype=tf.float32
            ),
            "dataset": lambda: tf.data.Dataset.range(3).repeat(2)._variant_tensor,
            "optional": lambda: raw.OptionalFromValue(components=[tf.ones(size)]),
            "serialized": lambda: raw.TensorListFromTensor(tensor=tf.ones([2, 3]), element_shape=[3]),
        }
        return makers[source]()

    def attr_value(self, attr: Any, value: Any) -> Any:
        result = self.AttrValue()
        if isinstance(value, self.AttrValue):
            return value
        kind = attr.type
        target, values = (result.list, value) if kind.startswith("list(") else (result, [value])
        if kind.startswith("list("):
            kind = kind[5:-1]
            target.SetInParent()
        for v in values:
            if kind in ("type", "int", "float", "bool", "string"):
                field = {"type": "type", "int": "i", "float": "f", "bool": "b", "string": "s"}[kind]
                v = v % 2**64 - (2**64 if v % 2**64 >= 2**63 else 0) if kind == "int" else v
                if target is result:
                    setattr(result, field, v)
                else:
                    getattr(target, field).append(v)
            elif kind == "shape":
                message = result.shape if target is result else target.shape.add()
                message.CopyFrom(
                    self.tf.TensorShape(None if v is None else [None if d < 0 else d for d in v]).as_proto()
                )
            elif kind == "tensor":
                message = result.tensor if target is result else target.tensor.add()
                message.CopyFrom(self.tf.make_tensor_proto(v))
            else:
                message = result.func if target is result else target.func.add()
                message.name = v
        return result

    def run(self, op: Any, call: Call) -> bool:
        tf = self.tf
        with tf.Graph().as_default() as graph:
            try:
                for name, function in self.functions().items():
                    function.add_to_graph(graph)
                inputs = [self.tensor(v) for v in call[1]]
                attributes = {a.name: self.attr_value(a, call[0][a.name]) for a in op.attr}
                for a in op.attr:  # the client derives these from the inputs
                    for argument in op.input_arg:
                        if a.name == argument.number_attr:
                            attributes[a.name] = self.AttrValue(
                                i=len(call[1][list(op.input_arg).index(argument)])
                            )
                flat = [t for v in inputs for t in (v if isinstance(v, list) else [v])]
                made = graph.create_op(op.name, flat, attrs=attributes)
            except (TypeError, ValueError, tf.errors.OpError, NotImplementedError):
                return False
            try:
                with tf.Session(
                    config=tf.ConfigProto(intra_op_parallelism_threads=2, inter_op_parallelism_threads=2)
                ) as session:
                    session.run(
                        made if self.pick.random() < 0.2 else self.fetches(made),
                        options=tf.RunOptions(timeout_in_ms=300),
                    )
            except (TypeError, ValueError, tf.errors.OpError, NotImplementedError):
                return False
        return True

    def fetches(self, made: Any) -> Any:
        return [
            t for t in made.outputs if t.dtype.base_dtype not in (self.tf.resource, self.tf.variant)
        ] or made

    def functions(self) -> dict[str, Any]:
        from millrace.python.framework import function

        tf = self.tf

        @function.Defun(tf.int64, func_name="increment")
        def increment(x: Any) -> Any:
            return x + 1

        @function.Defun(tf.int64, func_name="less")
        def less(x: Any) -> Any:
            return x < 2

        @function.Defun(tf.float32, tf.float32, func_name="pair")
        def pair(x: Any, y: Any) -> Any:
            return x + y, y

        return {"increment": increment, "less": less, "pair": pair}

    def loop(self, names: list[str], steps: int) -> None:
        counts: collections.Counter[bool] = collections.Counter()
        with open(self.progress, "w", encoding="utf-8") as file:
            for _ in range(steps):
                op = self.ops[self.pick.choice(names)]
                kept = self.kept[op.name]
                try:
                    if kept and self.pick.random() < 0.8:
                        call = self.changed(op, self.pick.choice(kept))
                    else:
                        call = self.random_call(op)
                except (TypeError, KeyError, AttributeError, ValueError):
                    continue
                file.seek(0)
                file.truncate()
                print(op.name, call, file=file, flush=True)
                ran = self.run(op, call)
                counts[ran] += 1
                if ran and len(kept) < 40:
                    kept.append(call)
                elif ran:
                    kept[self.pick.randrange(40)] = call
        never = [name for name in names if not self.kept[name]]
        print("ran", counts[True], "refused", counts[False], "ops that never ran:", len(never), flush=True)
        print("never:", " ".join(never), flush=True)


def supervise(options: argparse.Namespace) -> int:
    """Runs children of one seed each until the steps are done; returns how many crashed or hung."""
    left, seed, failed = options.steps, options.seed, 0
    # A child runs in a folder of its own, where relative paths would lead elsewhere.
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(os.path.abspath(path) for path in paths if path))
    while left > 0:
        with tempfile.TemporaryDirectory() as folder:
            progress = os.path.join(folder, "progress")
            command = [sys.executable, "-X", "faulthandler", os.path.abspath(__file__), "--child", progress, "--seed", str(seed), "--steps", str(min(left, options.child_steps)), "--only", options.only]  # fmt: skip
            with open(os.path.join(folder, "errors"), "w+b") as errors, open(
                os.path.join(folder, "out"), "w+b"
            ) as out:
                child = subprocess.Popen(command, cwd=folder, env=environment, stderr=errors, stdout=out)
                last, since = "", time.monotonic()
                why = ""
                while child.poll() is None:
                    time.sleep(0.5)
                    now = open(progress, encoding="utf-8").read() if os.path.exists(progress) else ""
                    if now != last:
                        last, since = now, time.monotonic()
                    elif time.monotonic() - since > HANG_SECONDS:
                        why = "hang"
                        child.kill()
                        child.wait()
                errors.seek(0)
                out.seek(0)
                lines = out.read().decode(errors="replace").splitlines()
                if child.returncode:
                    failed += 1
                    last = open(progress, encoding="utf-8").read() if os.path.exists(progress) else ""
                    print(why or "crash", child.returncode, "seed", seed, last.strip())
                    print(
                        "   ",
                        errors.read()
                        .decode(errors="replace")[-1500 if options.verbose else -300 :]
                        .replace("\n", "\n    "),
                        flush=True,
                    )
                else:
                    print("seed", seed, [line for line in lines if line.startswith("ran ")], flush=True)
                    if options.verbose:
                        print("\n".join(line for line in lines if line.startswith("never")), flush=True)
        left -= options.child_steps
        seed += 1
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--child-steps", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--child", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if not options.child:
        sys.exit(1 if supervise(options) else 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # AddressSanitizer reserves terabytes of address space; its option max_allocation_size_mb is the limit there.
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    np.seterr(all="ignore")
    fuzzer = Fuzzer(options.seed, options.child)
    fuzzer.tf.logging.set_verbosity(fuzzer.tf.logging.FATAL)
    names = [n for n in sorted(fuzzer.ops) if not SKIPPED.match(n) and re.search(options.only, n)]
    fuzzer.loop(fuzzer.pick.sample(names, min(len(names), OPS_OF_A_CHILD)), options.steps)


if __name__ == "__main__":
    main()
