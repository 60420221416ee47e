# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Random values for every function of some public modules: the errors are those that callers can expect."""

import inspect
import random
import warnings

import numpy as np
import pytest

import millrace as tf

CALLS = 700
# Functions that wait, write or start threads.
LEFT_OUT = {
    "basic_train_loop", "MonitoredTrainingSession", "Supervisor", "Server", "checkpoints_iterator",
    "MonitoredSession", "SingularMonitoredSession", "start_queue_runners", "write_graph", "FileWriter",
    "FileWriterCache", "Builder", "simple_save", "initialize",
}  # fmt: skip
# AssertionError and OSError are what TensorFlow raises for folders and files.
EXPECTED = (TypeError, ValueError, NotImplementedError, tf.errors.OpError, AssertionError, OSError)
# Functions that need eager execution raise an error that says so.
EXPECTED_OF = {"save": (RuntimeError,)}


def values(chance, depth=0):
    """One value of any kind."""
    several = [values(chance, depth + 1) for _ in range(chance.randrange(4))] if depth < 2 else []
    return chance.choice([
        lambda: None, lambda: chance.choice([0, 1, 3, -1, 2**31, 2**63]), lambda: chance.choice([0.5, -1.0, float("nan")]),
        lambda: chance.choice(["", "a", "SAME", "NHWC", "x/y"]), lambda: b"x", lambda: True, lambda: several,
        lambda: tuple(several), lambda: {"a": 1, None: 2},
        lambda: np.zeros([chance.randrange(3) for _ in range(chance.randrange(5))], chance.choice([np.float32, np.int64])),
        lambda: tf.constant(np.zeros([chance.randrange(1, 4) for _ in range(chance.randrange(5))], np.float32)),
        lambda: tf.placeholder(chance.choice([tf.float32, tf.int64, tf.string])), lambda: tf.placeholder(tf.float32, [None] * 3),
        lambda: tf.Variable([1.0, 2.0]), lambda: tf.Variable(1.0, use_resource=True), lambda: tf.float32,
        lambda: tf.TensorShape([None, 2]), object, lambda: (lambda *a: 1), lambda: tf.SparseTensor([[0, 0]], [1.0], [2, 2]),
        lambda: tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0])), tf.no_op, tf.get_default_graph, lambda: int,
    ])()  # fmt: skip


@pytest.mark.parametrize("module", ["train", "layers", "losses", "metrics", "summary", "saved_model"])
def test_errors_are_expected_ones(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chance = random.Random(module)
    functions = [
        (n, getattr(getattr(tf, module), n)) for n in sorted(dir(getattr(tf, module))) if n not in LEFT_OUT
    ]
    functions = [
        (n, f) for n, f in functions if callable(f) and not n.startswith("_") and not n.endswith("Def")
    ]
    good = 0
    for _ in range(CALLS):
        name, function = chance.choice(functions)
        with tf.Graph().as_default():
            try:
                parameters = [p for p in inspect.signature(function).parameters.values() if p.kind in (0, 1)]
            except (TypeError, ValueError):
                continue
            required = sum(p.default is inspect.Parameter.empty for p in parameters)
            arguments = [
                values(chance) for _ in range(chance.randint(required, max(required, len(parameters))))
            ]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(*arguments)
                good += 1
            except EXPECTED + EXPECTED_OF.get(name, ()):
                pass
            except Exception as error:
                pytest.fail("%s.%s%r: %s: %s" % (module, name, tuple(arguments), type(error).__name__, error))
    assert good > 0


def test_quantized_training_is_refused_with_what_to_use():
    with pytest.raises(tf.errors.UnimplementedError, match="fake_quant_with_min_max_vars"):
        tf.train.do_quantize_training_on_graphdef(tf.GraphDef(), 8)
