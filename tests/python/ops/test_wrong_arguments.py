# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of ops answer arguments of any type with TypeError, ValueError or an error of tf.errors."""
from __future__ import annotations

import inspect
import random
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python.util import nest

MODULES = "math linalg image signal strings sparse sets quantization bitwise manip".split()
# These call what they are given, or change the process.
LEFT_OUT = {"map_fn", "foldl", "foldr", "scan"}


def functions() -> list[tuple[str, Any]]:
    found = []
    for module in MODULES:
        names = getattr(tf, module)
        for name in sorted(dir(names)):
            value = getattr(names, name)
            if (
                callable(value)
                and not inspect.isclass(value)
                and not name.startswith("_")
                and name not in LEFT_OUT
            ):
                found.append((module + "." + name, value))
    return found


def make_value(rnd: random.Random) -> Any:
    kinds = [
        lambda: None,
        lambda: rnd.choice([0, 1, -1, 3, 10**6, -(10**12)]),
        lambda: rnd.choice([0.0, -2.5, float("nan")]),
        lambda: rnd.choice(["", "a", "VALID", b"abc"]),
        lambda: rnd.choice([True, False]),
        lambda: [rnd.choice([0, 1, 1.5, "a", None]) for _ in range(rnd.randrange(4))],
        lambda: np.zeros(
            [rnd.randrange(3) for _ in range(rnd.randrange(4))], rnd.choice(["f4", "i8", "?", "c8"])
        ),
        lambda: tf.constant(
            np.ones([rnd.randrange(1, 4) for _ in range(rnd.randrange(4))], rnd.choice(["f4", "i4"]))
        ),
        lambda: tf.placeholder(rnd.choice([tf.float32, tf.string]), rnd.choice([None, [], [None, 3]])),
        lambda: rnd.choice([tf.float32, tf.string, tf.resource]),
        lambda: {"a": 1},
        lambda: object(),
        lambda: tf.SparseTensor([[0, 0]], [1.0], [2, 2]),
        lambda: [tf.constant(1.0), tf.constant([2.0])],
        lambda: tf.TensorShape([None, 2]),
        lambda: tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0])),
    ]
    return rnd.choice(kinds)()


@pytest.mark.parametrize("seed", range(8))
def test_random_arguments(seed: int) -> None:
    rnd = random.Random(seed)
    accepted = refused = 0
    for name, function in rnd.sample(functions(), 150):
        parameters = list(inspect.signature(function).parameters.values())
        needed = [p for p in parameters if p.default is inspect.Parameter.empty and p.kind in (0, 1)]
        args = [make_value(rnd) for _ in range(rnd.randint(len(needed), len(parameters)))]
        try:
            function(*args)
            accepted += 1
        except (TypeError, ValueError, NotImplementedError, tf.errors.OpError):
            refused += 1
        except AttributeError as error:
            # The one that TensorFlow raises, too.
            assert "dtype must be either floating point or integer" in str(error), (name, args)
            refused += 1
    assert accepted > 3 and refused > 50


def test_axes_that_are_given_twice_are_reduced_once():
    # As recorded from TensorFlow 1.15.5 (tests/golden).
    x = tf.placeholder(tf.float32, [2, 2])
    with tf.Session() as sess:
        for reduce in (tf.reduce_sum, tf.reduce_max, tf.reduce_mean, tf.reduce_prod):
            once = sess.run(reduce(x, [0]), {x: [[1.0, 2.0], [3.0, 4.0]]})
            for axes in ([0, 0], [0, -2]):
                twice = sess.run(reduce(x, axes), {x: [[1.0, 2.0], [3.0, 4.0]]})
                assert twice.tolist() == once.tolist()


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: tf.FIFOQueue(3, None), TypeError, "types of a queue's elements"),
        (lambda: tf.placeholder(tf.float32, [2**63]), ValueError, "out of range|too big|too large"),
        (lambda: tf.linalg.LinearOperatorAdjoint(None), TypeError, "Expected a LinearOperator, got None"),
        (lambda: tf.linalg.LinearOperatorInversion(int), TypeError, "Expected a LinearOperator"),
        (lambda: tf.linalg.LinearOperatorComposition(["x"]), TypeError, "Expected a LinearOperator, got 'x'"),
        (lambda: tf.linalg.LinearOperatorKronecker([tf.ones([2])]), TypeError, "Expected a LinearOperator"),
        (lambda: tf.linalg.LinearOperatorBlockDiag([tf.ones([2])]), TypeError, "Expected a LinearOperator"),
        (
            lambda: tf.linalg.LinearOperatorLowRankUpdate([], tf.ones([2, 1])),
            TypeError,
            "Expected a LinearOp",
        ),
        (lambda: tf.stack([], axis=1), ValueError, "one or more tensors"),
        (lambda: tf.parallel_stack([]), ValueError, "one or more tensors"),
        (lambda: tf.map_fn(lambda x: x, []), ValueError, "one or more tensors"),
        (lambda: tf.foldl(lambda a, x: a, ()), ValueError, "one or more tensors"),
        (lambda: tf.scan(lambda a, x: a, {}), ValueError, "one or more tensors"),
        (lambda: tf.DType(float("inf")), TypeError, "not a valid"),
    ],
)
def test_values_of_other_kinds_are_refused(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: tf.hessians(None, [tf.zeros([2])]),
        lambda: tf.graph_util.remove_training_nodes(3),
        lambda: tf.graph_util.tensor_shape_from_node_def_name(None, "a"),
        lambda: tf.DeviceSpec(task=float("inf")),
        lambda: tf.NotDifferentiable(""),
        lambda: tf.clip_by_global_norm([[1.0]], 1.0, use_norm="a"),
        lambda: tf.compat.forward_compatible(2**70, 1, 1),
        lambda: tf.io.decode_csv("1", [[1]], select_cols={0: 1}),
        lambda: tf.gather_nd([1.0], [[0]], batch_dims=float("inf")),
        lambda: tf.linalg.LinearOperatorToeplitz([1.0], [1.0, 2.0]),
        lambda: tf.nn.batch_norm_with_global_normalization(b"x", 0.0, 1.0, 0.0, 1.0, 1e-3, True),
        lambda: tf.nn.with_space_to_batch([1.0], [], "SAME", lambda *a: a[0]),
        lambda: tf.nn.rnn_cell.MultiRNNCell([int], state_is_tuple=False),
        lambda: tf.random.experimental.Generator(copy_from=tf.zeros([])),
        lambda: tf.signal.linear_to_mel_weight_matrix(dtype=()),
        lambda: tf.train.batch_join(np.float32(1), 2),
        lambda: tf.lookup.StaticHashTable(None, 0),
        lambda: tf.lookup.StaticVocabularyTable("a", 1),
        lambda: tf.train.Saver([tf.TensorShape([])]),
        lambda: tf.ConditionalAccumulatorBase(tf.float32, [], 3),
        lambda: tf.sort(1.0),
        lambda: tf.argsort([1.0], axis=[0]),
        lambda: tf.raw_ops.Const(value="VALID", dtype=tf.float32),
        lambda: tf.sparse.placeholder(tf.float32, tf.zeros([], tf.int64)),
        lambda: nest.pack_sequence_as([1], {"a": 1}),
        lambda: tf.nn.conv_transpose(tf.zeros([1, 2, 1]), tf.zeros([1, 1, 1]), tf.constant(3), 1),
        lambda: tf.train.batch_join(tf.TensorShape([]), 2),
        lambda: tf.train.maybe_shuffle_batch_join(np.array(1.0), 2, 10, 2, True),
        lambda: tf.layers.batch_normalization(tf.zeros([2, 2]), []),
        lambda: tf.linalg.tridiagonal_solve(tf.placeholder(tf.float32), []),
        lambda: tf.linalg.tridiagonal_solve(1.0, [], "matrix"),
        lambda: tf.sparse.placeholder(tf.float32, 1e300),
        lambda: tf.range(3, dtype=tf.float32._as_ref),
        lambda: tf.debugging.assert_shapes([1.0]),
        lambda: tf.sort([1.0], axis=float("inf")),
        lambda: tf.io.decode_csv("1", tf.placeholder(tf.float32, []), select_cols=[0]),
        lambda: tf.debugging.assert_shapes([np.zeros([0, 3])]),
        lambda: tf.debugging.assert_shapes([{"a": 1}]),
        lambda: tf.train.batch_join([[None, "VALID"]], 2),
        lambda: tf.sparse.matmul(
            tf.SparseTensor([[0, 0]], [1.0], [1, 1]), tf.SparseTensor([[0, 0]], [1.0], [1, 1])
        ),
        lambda: tf.metrics.recall_at_top_k([0], [[0]], class_id=float("inf")),
    ],
)
def test_values_that_are_no_values_of_the_kind(call: Any) -> None:
    with tf.Graph().as_default(), pytest.raises((TypeError, ValueError)):
        call()
