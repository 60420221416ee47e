# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls every public function with random values: each call must return or raise an exception.

    PYTHONPATH=build/release/python /usr/bin/python3 tests/python/soundness/fuzz_api.py [--calls N] [--seed S] [--only REGEX]

TypeError, ValueError and errors of tf.errors are what wrong arguments may raise; others are counted and shown. A crash ends the
process; --verbose prints each call before it is made.
"""
from __future__ import annotations

import argparse
import collections
import inspect
import os
import random
import re
import tempfile
import warnings
from typing import Any

import numpy as np

import millrace as tf
from millrace import _namespace

# Functions that end the process, wait, or use files and the network.
SKIPPED = re.compile(
    r"gfile|^app\.|app\.run|test\.|train\.(Server|Supervisor|Monitored|Singular|MonitoredTraining|checkpoints_iterator|"
    r"start_queue|queue_runner\.start|basic_train|SyncRep|SessionManager|write_graph|LooperThread|Coordinator|global_step)|"
    r"write_graph|load_library|load_file|load_op|InteractiveSession|^Session$|resource_loader|sysconfig|logging\.|"
    r"FileWriter|summary_iterator|tf_record|TFRecord|saved_model|flags|wrap_function|contrib|config\.|"
    r"pywrap_tensorflow|user_ops|keras|set_random_seed|reset_default_graph|export_meta|import_meta|py_func|numpy_function|data\."
)


class Values:
    """Random arguments."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator

    def __call__(self, depth: int = 0) -> Any:
        pick = self._random
        makers = [
            lambda: None, lambda: pick.choice([0, 1, -1, 2, 3, 7, 2**31, 2**63, -(2**40)]),
            lambda: pick.choice([0.0, 1.5, -2.0, float("nan"), float("inf"), 1e300]), lambda: pick.choice([True, False]),
            lambda: pick.choice(["", "a", "name", "SAME", "VALID", "NHWC", "float32", "/cpu:0", "x:0", "\x00", "é"]),
            lambda: pick.choice([b"", b"bytes", b"\xff\x00"]), lambda: object(), lambda: int, lambda: (lambda *a: None),
            lambda: np.zeros(self.shape(), pick.choice([np.float32, np.int32, np.int64, np.bool_, np.complex64])),
            lambda: np.array(["a", b"b"], dtype=object), lambda: np.array(np.random.rand(*self.shape()), np.float32),
            lambda: pick.choice([tf.float32, tf.int32, tf.string, tf.resource, tf.qint8, tf.float32._as_ref]),
            lambda: tf.TensorShape(pick.choice([None, [], [2, None], [3]])), self.tensor, self.tensor, self.tensor, self.tensor,
            lambda: tf.SparseTensor([[0, 1]], [1.0], [2, 2]), lambda: tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0])),
            lambda: tf.Variable(1.0, use_resource=pick.choice([True, False])), lambda: tf.no_op(),
            lambda: tf.get_default_graph(), lambda: {"a": self(depth + 1)}, lambda: np.float16(1), lambda: self.shape(),
        ]  # fmt: skip
        if depth < 2:
            makers += [lambda: [self(depth + 1) for _ in range(pick.randrange(4))]] * 3
            makers += [lambda: tuple(self(depth + 1) for _ in range(pick.randrange(3)))]
        return pick.choice(makers)()

    def shape(self) -> list[int]:
        return [self._random.choice([0, 1, 2, 3]) for _ in range(self._random.randrange(5))]

    def tensor(self) -> Any:
        pick = self._random
        dtype = pick.choice(
            [tf.float32, tf.int32, tf.int64, tf.bool, tf.string, tf.complex64, tf.resource, tf.variant]
        )
        if pick.random() < 0.3:
            return tf.placeholder(dtype, pick.choice([None, [None, 2], [2, 2], []]))
        if dtype in (tf.resource, tf.variant):
            return tf.placeholder(dtype)
        return tf.zeros(self.shape(), dtype)


def functions() -> list[tuple[str, Any]]:
    """The public functions and classes with their names."""
    found = []
    for module, table in sorted(_namespace._modules.items()):
        for name, home in sorted(table.items()):
            public = ".".join(filter(None, [module, name]))
            if home is None or SKIPPED.search(public):
                continue
            try:
                value = _namespace.resolve(module, name)
            except (AttributeError, ImportError):
                continue
            if callable(value) and not (inspect.isclass(value) and issubclass(value, BaseException)):
                found.append((public, value))
    from millrace.python.ops import _op_index

    found += [
        ("raw_ops." + op, getattr(tf.raw_ops, op))
        for op in sorted(_op_index.OPS)
        if not SKIPPED.search("raw_ops." + op)
    ]
    return found


def parameters(function: Any) -> list[str]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in signature.parameters.values() if p.kind in kinds]


def call_one(name: str, function: Any, generator: random.Random) -> str:
    """Makes one call; what came of it in a word."""
    values = Values(generator)
    names = parameters(function)
    if names and generator.random() < 0.9:
        given = [n for i, n in enumerate(names) if i < 2 or generator.random() < 0.4]
        arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {n: values() for n in given if n != "name"})
    else:
        arguments = (tuple(values() for _ in range(generator.randrange(5))), {})
    try:
        result = function(*arguments[0], **arguments[1])
    except (TypeError, ValueError, tf.errors.OpError, NotImplementedError):
        return "refused"
    except Exception as error:  # what is looked for
        return type(error).__name__
    if (
        isinstance(result, tf.Tensor)
        and generator.random() < 0.3
        and result.dtype not in (tf.resource, tf.variant)
    ):
        options = tf.RunOptions(timeout_in_ms=500)
        try:
            with tf.Session(graph=result.graph) as session:
                session.run(result, options=options)
        except (TypeError, ValueError, RuntimeError, tf.errors.OpError):
            return "refused by the step"
        except Exception as error:
            return "step: " + type(error).__name__
    return "made"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    os.chdir(tempfile.mkdtemp())
    warnings.simplefilter("ignore")
    tf.logging.set_verbosity(tf.logging.FATAL)
    generator = random.Random(options.seed)
    np.random.seed(options.seed)
    chosen = [f for f in functions() if re.search(options.only, f[0])]
    counts: collections.Counter[str] = collections.Counter()
    odd: dict[str, str] = {}
    for number in range(options.calls):
        name, function = generator.choice(chosen)
        seed = generator.randrange(1 << 30)
        if options.verbose:
            print(number, name, seed, flush=True)
        with tf.Graph().as_default():
            outcome = call_one(name, function, random.Random(seed))
        counts[outcome] += 1
        if outcome[0].isupper() or outcome.startswith("step: "):
            odd.setdefault("%s %s" % (name, outcome), str(seed))
    print(len(chosen), "functions", options.calls, "calls", dict(counts))
    for what, seed in sorted(odd.items()):
        print("  odd:", what, seed)


if __name__ == "__main__":
    main()
