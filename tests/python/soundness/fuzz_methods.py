# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls methods and reads properties of the client's objects with random values, in graphs or eagerly.

    PYTHONPATH=build/release/python /usr/bin/python3 tests/python/soundness/fuzz_methods.py [--calls N] [--seed S] [--eager]

The objects are what factories below and earlier calls made. Exceptions of Python and of tf.errors are expected; a crash ends the
process. A call that lasts for five seconds is interrupted and shown. --verbose prints each call before it is made.
"""
from __future__ import annotations

import argparse
import collections
import os
import random
import re
import signal
import sys
import tempfile
import warnings
from typing import Any

import fuzz_api
import numpy as np

import millrace as tf
from millrace.python import _engine
from millrace.python.eager import backprop
from millrace.python.framework import dtypes

# Methods that wait for other processes or for input, and names of Python itself. MergeFrom of a message and itself ends the
# process in protobuf.
SKIPPED = re.compile(r"^(join|MergeFrom|wait_for\w*|run_loop|mainloop|__(class|init_subclass|subclasshook|reduce\w*|dict|del|getattribute"
                     r"|setattr|delattr|new|weakref|sizeof|dir|doc|module|slots|abstractmethods|subclasscheck|instancecheck)__)$")  # fmt: skip

GRAPH_MAKERS = [
    lambda: tf.Graph(), lambda: tf.Session(), lambda: tf.get_default_graph(), lambda: tf.constant([[1.0, 2.0], [3.0, 4.0]]).op,
    lambda: tf.train.AdamOptimizer(0.1), lambda: tf.train.Saver([tf.Variable(1.0)]), lambda: tf.FIFOQueue(3, [tf.float32], [[]]),
    lambda: tf.RandomShuffleQueue(5, 1, [tf.int32], [[2]]), lambda: tf.PaddingFIFOQueue(3, [tf.float32], [[None]]),
    lambda: tf.train.Coordinator(), lambda: tf.train.ClusterSpec({"a": ["localhost:1"]}), lambda: tf.ConditionalAccumulator(tf.float32),
    lambda: tf.SparseConditionalAccumulator(tf.float32), lambda: tf.placeholder(tf.float32, [None, 2]), lambda: tf.WholeFileReader(),
    lambda: tf.TFRecordReader(), lambda: tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)), lambda: tf.train.ExponentialMovingAverage(0.9),
    lambda: tf.get_variable_scope(), lambda: tf.train.Scaffold(), lambda: tf.summary.FileWriter("log"),
]  # fmt: skip
BOTH_MAKERS = [
    lambda: tf.constant([[1.0, 2.0], [3.0, 4.0]]), lambda: tf.constant([1, 2, 3]), lambda: tf.constant(["a", "b"]), lambda: tf.constant(True),
    lambda: tf.Variable([1.0, 2.0], use_resource=True), lambda: tf.data.Dataset.range(5), lambda: tf.data.Dataset.from_tensor_slices({"a": [1, 2]}),
    lambda: tf.TensorShape([2, None]), lambda: tf.Dimension(3), lambda: tf.float32, lambda: tf.as_dtype("bfloat16"),
    lambda: tf.TensorArray(tf.float32, 3), lambda: tf.SparseTensor([[0, 1]], [1.0], [2, 2]), lambda: tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0])),
    lambda: tf.GradientTape(persistent=True), lambda: tf.layers.Dense(2), lambda: tf.nn.rnn_cell.LSTMCell(2),
    lambda: tf.function(lambda x: x + 1), lambda: tf.io.FixedLenFeature([], tf.int64), lambda: tf.io.gfile.GFile("file", "w"),
    lambda: tf.python_io.TFRecordWriter("records"), lambda: tf.train.Checkpoint(), lambda: tf.ones([2], tf.bfloat16),
    lambda: tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1, 2], [3, 4]), -1), lambda: tf.metrics, lambda: tf.strings,
    lambda: tf.contrib, lambda: tf.linalg.LinearOperatorFullMatrix(tf.eye(2)), lambda: tf.linalg.LinearOperatorIdentity(2),
    lambda: tf.TensorSpec([2], tf.float32), lambda: tf.errors.NotFoundError(None, None, "m"), lambda: tf.GraphDef(), lambda: _engine.bfloat16(1.5),
    lambda: np.ones([2, 3], dtypes.bfloat16.as_numpy_dtype), lambda: backprop.GradientTape(), lambda: tf.ConfigProto(),
]  # fmt: skip


class TookLong(BaseException):
    """Raised by the alarm."""


def _alarm(signum: int, frame: Any) -> None:
    raise TookLong()


class Objects:
    """The objects of one round, and random values among which they are."""

    def __init__(self, generator: random.Random, eager: bool) -> None:
        self._random = generator
        self._values = fuzz_api.Values(generator)
        self._made: list[Any] = []
        self._makers = BOTH_MAKERS if eager else GRAPH_MAKERS + BOTH_MAKERS

    def object(self) -> Any:
        if self._made and self._random.random() < 0.6:
            return self._random.choice(self._made)
        made = self._random.choice(self._makers)()
        self.keep(made)
        return made

    def keep(self, value: Any) -> None:
        if isinstance(value, (int, float, str, bytes, bool, type(None))):
            return
        if isinstance(value, (list, tuple)) and value:
            value = self._random.choice(value)
        self._made.append(value)
        del self._made[:-30]

    def value(self) -> Any:
        return self.object() if self._random.random() < 0.3 else self._values()


def call_one(objects: Objects, generator: random.Random, verbose: bool) -> tuple[str, str]:
    """One call or read; its name, and what came of it in a word."""
    name = "?"
    try:
        target = objects.object()
        names = [
            n for n in dir(target) if not SKIPPED.search(n) and (n.startswith("__") or not n.startswith("_"))
        ]
        attribute = generator.choice(names)
        name = "%s.%s" % (type(target).__name__, attribute)
        if verbose:
            print(name, flush=True)
        value = getattr(target, attribute)
        if callable(value):
            wanted = fuzz_api.parameters(value)
            if wanted and generator.random() < 0.8:
                value = value(
                    **{n: objects.value() for i, n in enumerate(wanted) if i < 2 or generator.random() < 0.3}
                )
            else:
                value = value(*[objects.value() for _ in range(generator.randrange(4))])
        objects.keep(value)
    except TookLong:
        return name, "took long"
    except (TypeError, ValueError, RuntimeError, NotImplementedError, tf.errors.OpError) as error:
        if not isinstance(error, (RecursionError, UnicodeError)):
            return name, "refused"
        return name, type(error).__name__
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        return name, type(error).__name__
    return name, "done"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    os.chdir(tempfile.mkdtemp())
    sys.stdin = open(os.devnull)
    warnings.simplefilter("ignore")
    tf.logging.set_verbosity(tf.logging.FATAL)
    if options.eager:
        tf.enable_eager_execution()
    signal.signal(signal.SIGALRM, _alarm)
    generator = random.Random(options.seed)
    np.random.seed(options.seed)
    counts: collections.Counter[str] = collections.Counter()
    slow: collections.Counter[str] = collections.Counter()
    done = 0
    while done < options.calls:
        round_seed = generator.randrange(1 << 30)
        steps = random.Random(round_seed)
        if options.verbose:
            print("round", done, round_seed, flush=True)
        with tf.Graph().as_default() if not options.eager else tf.init_scope():
            objects = Objects(steps, options.eager)
            for _ in range(40):
                signal.setitimer(signal.ITIMER_REAL, 5, 1)
                try:
                    name, outcome = call_one(objects, steps, options.verbose)
                except TookLong:
                    name, outcome = "?", "took long"
                signal.setitimer(signal.ITIMER_REAL, 0)
                counts[outcome] += 1
                if outcome not in ("done", "refused"):
                    slow["%s %s" % (name, outcome)] += 1
                done += 1
    print(done, "calls", dict(counts))
    for what, times in sorted(slow.items()):
        print("  odd:", what, times)


if __name__ == "__main__":
    main()
